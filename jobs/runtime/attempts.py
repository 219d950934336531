"""Attempts at batches, units and starts, recorded to identify and leave out those that end their process each time.

Ray restarts an actor without limit, because machines of a cluster are withdrawn all the time. An attempt is recorded
before it begins and removed when it is done, so that the attempts that remain belong to processes that ended. A batch
is attempted twice as a whole; then its rows are attempted one by one, and a row at which the process ends again becomes
an error.

A GPU that fails again and again without a result, or on which an actor cannot start, is no longer used in the run, and
what was attempted on it is attempted again. If there is no other GPU, the run ends. Ray chooses the machine and the GPU
of an actor, and would give a restarted actor the GPU that it has just left: the board of the run remembers bad GPUs and
has them occupied. On a machine Ray hands out any free GPU: a `GpuHolder` that gets another GPU than the failed one
keeps it until the next holder has the failed one.
"""

import contextlib
import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from actors.devices import MissingDeviceError
from actors.errors import first_line
from actors.ids import content_id
from actors.status import PROCESS_DIED, TIMED_OUT, Reason, Status, failed_status
from actors.vlm.errors import is_device_lost
from jobs.errors import RunError
from jobs.runtime.board import RunBoard, part_of
from jobs.runtime.process.console import say
from jobs.runtime.worker_reports import REMEDY, WarningCounts

BATCH_ATTEMPTS = 2  # attempts at a batch as a whole
UNIT_ATTEMPTS = 3  # attempts at a unit that an actor processes alone
STARTS = 4  # attempts at starting an actor whose constructor ends its process
# Failures of one device without a result in between. A row that makes the kernel fail causes three, but a result of
# another row then follows.
DEVICE_FAULTS = 5
DEVICE_STARTS = 2  # constructors that may fail on one device while they succeed on others
# Devices that may fail before a growing cluster is given up: more may join, but they would fail as well.
GROWING_FAULTS = 3
LEAVE_S = 2.0  # a process that got a bad device waits before it ends, so that the holder is the next to get that device


class Ledger:
    """The attempts of all workers; part of the run's board."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._begun: dict[str, float] = {}  # monotonic seconds of the last attempt
        self._timed_out: set[str] = set()
        self._faults: Counter[str] = Counter()
        self._failed_starts: Counter[tuple[str, str]] = Counter()
        self._started: dict[str, set[str]] = {}  # stage -> devices on which an actor of it has started
        self._attempted: dict[str, set[str]] = {}  # device -> what was attempted while it failed
        self._given_up: dict[str, str] = {}

    def begin(self, key: str, timeout_s: float | None) -> int:
        """Record an attempt, which is ended after `timeout_s`; return the number of earlier ones that are not done."""
        now = time.monotonic()
        if timeout_s is not None and now - self._begun.get(key, now) >= timeout_s:
            self._timed_out.add(key)
        self._begun[key] = now
        self._open[key] += 1
        return self._open[key] - 1

    def end(self, key: str, device: str) -> None:
        """Record that an attempt on `device` is done."""
        self._open.pop(key, None)
        self._begun.pop(key, None)
        self._timed_out.discard(key)
        self._faults.pop(device, None)
        self._attempted.pop(device, None)

    def timed_out(self, key: str) -> bool:
        """Return whether an earlier attempt that is not done reached its time limit."""
        return key in self._timed_out

    def fault(self, device: str, keys: Sequence[str]) -> int:
        """Record that `device` failed during the attempts `keys`; return its failures since its last result."""
        self._faults[device] += 1
        self._attempted.setdefault(device, set()).update(keys)
        return self._faults[device]

    def forget_attempts(self, device: str) -> None:
        """Remove the attempts during which `device` failed: their failures say nothing about the data."""
        for key in self._attempted.pop(device, ()):
            self._open.pop(key, None)
            self._begun.pop(key, None)

    def started(self, stage: str, device: str) -> None:
        """Record that an actor of `stage` has started."""
        self._started.setdefault(stage, set()).add(device)

    def failed_start(self, stage: str, device: str) -> bool:
        """Record that a constructor of `stage` failed and return whether the device is the likely cause."""
        self._failed_starts[stage, device] += 1
        elsewhere = self._started.get(stage, set()) - {device}
        return bool(elsewhere) and self._failed_starts[stage, device] >= DEVICE_STARTS

    def give_up(self, unit: str, reason: str) -> None:
        """Record that a unit is left out."""
        self._given_up[unit] = reason

    def given_up(self) -> dict[str, str]:
        """Return why each unit was left out, by unit."""
        return self._given_up


@dataclass(frozen=True)
class Device:
    """The GPUs of a machine that Ray gave to an actor, if any."""

    machine: str  # address of the machine
    node: str = ""  # Ray's id of the node
    gpus: tuple[str, ...] = ()
    share: float = 0.0  # GPUs that the actor reserves

    @property
    def name(self) -> str:
        """The name of the device in messages."""
        return f"machine {self.machine}, GPU {', '.join(self.gpus) or 'none'}"


def device_of_process() -> Device:
    """Return the device of this worker process."""
    import ray

    context = ray.get_runtime_context()
    gpus = tuple(context.get_accelerator_ids().get("GPU", []))
    share = float(context.get_assigned_resources().get("GPU", 0.0))
    return Device(ray.util.get_node_ip_address(), context.get_node_id(), gpus, share)


class BadDevices:
    """The GPUs that failed; part of the run's board."""

    def __init__(self) -> None:
        self._reasons: dict[Device, str] = {}
        self._numbers = itertools.count()
        self._holders: dict[int, Any] = {}  # a `GpuHolder` ends when its handle is dropped
        self._awaited: dict[Device, int] = {}  # the holder that has not reported yet which GPUs it got
        self._strays: dict[Device, list[int]] = {}  # holders that got other GPUs

    def condemn(self, device: Device, reason: str) -> None:
        """Record that a device must not be used again in this run."""
        self._reasons.setdefault(device, reason)

    def bad_devices(self) -> dict[Device, str]:
        """Return why each bad device is not used, by device."""
        return self._reasons

    def occupy(self, device: Device, board: RunBoard) -> None:
        """Start a holder for the device, unless one is about to start; it reports to `board`."""
        if device not in self._awaited:
            number = next(self._numbers)
            self._awaited[device] = number
            self._holders[number] = start_holder(board, device, number)

    def placed(self, device: Device, number: int, gpus: tuple[str, ...], board: RunBoard) -> None:
        """Record the GPUs that a holder got; if they are not those of the device, start another holder."""
        if self._awaited.get(device) != number:
            return
        del self._awaited[device]
        if gpus == device.gpus:
            for stray in self._strays.pop(device, []):
                del self._holders[stray]
        else:
            self._strays.setdefault(device, []).append(number)
            self.occupy(device, board)


class GpuHolder:
    """An actor that occupies a GPU without using it, and reports to the board which one it got."""

    def __init__(self, *, board: RunBoard, device: Device, number: int) -> None:
        board.part(BadDevices).tell(BadDevices.placed, device, number, device_of_process().gpus, board)


def start_holder(board: RunBoard, device: Device, number: int) -> Any:
    """Start a `GpuHolder` on the machine of `device` as soon as there is room, and return its handle.

    The process of the board calls this, because the holder ends with the process that started it.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(device.node, soft=False)
    actor: Any = ray.remote(GpuHolder)
    options = actor.options(num_cpus=0, num_gpus=device.share, scheduling_strategy=strategy)
    return options.remote(board=board, device=device, number=number)


class Attempts:
    """Records a worker's attempts on the board.

    Args:
        board: the run's board; None: nothing is counted.
        stage: name of the stage, which is part of every key.
        timeout_s: the time after which a `HangWatch` ends the process of an attempt; None: no limit.
    """

    def __init__(self, board: RunBoard | None, stage: str, timeout_s: float | None = None) -> None:
        self._board, self._stage, self._timeout_s = board, stage, timeout_s
        self._ledger, self._devices = part_of(board, Ledger), part_of(board, BadDevices)
        self._device = device_of_process() if board is not None else Device("")
        self._running: list[str] = []  # keys of this process's attempts

    def begin(self, *key: str) -> int:
        """Record an attempt and return the number of earlier ones during which the process ended."""
        self._running.append(self._key(key))
        return self._ledger.ask(0, Ledger.begin, self._running[-1], self._timeout_s)

    def reason(self, *key: str) -> Reason:
        """Return why the earlier attempts are not done: the process died, or it was ended after `timeout_s`."""
        return TIMED_OUT if self._ledger.ask(False, Ledger.timed_out, self._key(key)) else PROCESS_DIED

    def end(self, *key: str, by_device: bool = True) -> None:
        """Record that the attempt is done; `by_device`: the device took part in it, which shows that it works."""
        self._running.remove(self._key(key))
        self._ledger.tell(Ledger.end, self._key(key), self._device.name if by_device else "")

    @contextlib.contextmanager
    def start(self) -> Iterator[None]:
        """Record the constructor of an actor, which runs within the context; on a bad device, end this process first.

        Raises:
            RunError: its process ended during each of the last `STARTS` constructors, or no device is left.
        """
        if self._device.gpus and self._device in self._devices.ask({}, BadDevices.bad_devices):
            self._check_others()
            self._leave_to_holder()
        if (earlier := self.begin("start", _actor(self._board))) >= STARTS:
            raise RunError(f"the process of {self._stage} ended {earlier} times while it started; {REMEDY}")
        try:
            yield
        except Exception as error:
            self.end("start", _actor(self._board), by_device=False)
            self._judge_start(error)
            raise
        self.end("start", _actor(self._board), by_device=False)
        if self._device.gpus:
            self._ledger.tell(Ledger.started, self._stage, self._device.name)

    def _judge_start(self, error: Exception) -> None:
        """Condemn the device on which a constructor failed, if the device is the likely cause."""
        if not self._device.gpus:
            return
        cause = isinstance(error, MissingDeviceError) or is_device_lost(error)
        if self._ledger.ask(False, Ledger.failed_start, self._stage, self._device.name) or cause:
            self._condemn(f"cannot start {self._stage} ({first_line(error)})")
            self._check_others()
            self._occupy()

    def give_up(self, unit: str, reason: str) -> None:
        """Leave out a unit."""
        self._ledger.tell(Ledger.give_up, unit, reason)

    def leave(self, error: Exception) -> NoReturn:
        """End this process because its device failed, so that Ray starts the actor again where there is room.

        Raises:
            RunError: the device failed `DEVICE_FAULTS` times without a result in between, and there is no other device.
        """
        if self._board is None:
            raise error
        times = self._ledger.ask(0, Ledger.fault, self._device.name, self._running)
        if times >= DEVICE_FAULTS:
            self._condemn(f"failed {times} times without a result ({first_line(error)})")
            self._check_others()
            self._leave_to_holder()
        say(f"{self._device.name} failed ({error}); the actor restarts", err=True)
        os._exit(1)

    def _condemn(self, reason: str) -> None:
        """Stop using the device in this run, and warn the user."""
        self._devices.ask(None, BadDevices.condemn, self._device, reason)
        self._ledger.tell(Ledger.forget_attempts, self._device.name)
        text = f"{self._device.name} {reason}; it is not used any more in this run"
        part_of(self._board, WarningCounts).tell(WarningCounts.warn, text, {"node": self._device.machine})

    def _check_others(self) -> None:
        """Check that there is another device.

        Raises:
            RunError: there is none; names all that failed.
        """
        bad = self._devices.ask({}, BadDevices.bad_devices)
        gpus = {(device.node, gpu) for device in bad for gpu in device.gpus}
        left = _cluster_gpus() - len(gpus)
        grows = self._board is not None and self._board.grows and len(gpus) < GROWING_FAULTS
        if self._device.gpus and (left >= len(self._device.gpus) or grows):
            return
        listed = "; ".join(f"{device.name} {reason}" for device, reason in bad.items())
        raise RunError(f"{listed}; no other GPU is left: repair or replace the machine and run the same command again")

    def _occupy(self) -> None:
        assert self._board is not None
        self._devices.ask(None, BadDevices.occupy, self._device, self._board)

    def _leave_to_holder(self) -> NoReturn:
        """End this process, and have its device occupied."""
        self._occupy()
        time.sleep(LEAVE_S)
        os._exit(1)

    def _key(self, key: Sequence[str]) -> str:
        return content_id(self._stage, *key)


def mark_failed(rows: pa.Table, reason: Reason) -> pa.Table:
    """Return `rows` with the status that makes their stage fail them, and without pictures and inputs.

    The stage returns them like any row that is not ok. If there is no column `error_kind`, the status itself carries
    the reason (`actors.status.failed_status`), which `actors.items` and the fetchers turn into status, kind and
    message.
    """
    kind = "error_kind" in rows.column_names
    texts = {"status": Status.ERROR.value if kind else failed_status(reason)}
    if kind:
        texts |= {"error_kind": reason.kind, "error_message": reason.message}
    for name, text in texts.items():
        column = pa.array([text] * rows.num_rows, pa.string())
        place = rows.schema.get_field_index(name)
        rows = rows.append_column(name, column) if place < 0 else rows.set_column(place, name, column)
    for place, field in enumerate(rows.schema):
        if pa.types.is_large_binary(field.type):
            rows = rows.set_column(place, field, pa.nulls(rows.num_rows, field.type))
    return rows


def _actor(board: Any) -> str:
    if board is None:
        return ""
    import ray

    return str(ray.get_runtime_context().get_actor_id())  # it stays the same when the actor restarts


def _cluster_gpus() -> float:
    import ray

    return float(ray.cluster_resources().get("GPU", 0.0))
