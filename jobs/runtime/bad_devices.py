"""GPUs that failed: the board of a run remembers and occupies them, so that actors start on others.

Ray chooses the machine and the GPU of an actor, and would give a restarted actor the GPU that it has just left. On a
machine it hands out any free GPU: a `GpuHolder` that gets a GPU other than the failed one keeps it until the next
holder has the failed one.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
    """The GPUs that failed; part of the `jobs.runtime.board.RunRecords`.

    Args:
        start_holder: starts a `GpuHolder` for a device, with its number; the holder ends when the returned value is
        dropped.
    """

    def __init__(self, start_holder: Callable[[Device, int], Any]) -> None:
        self._start_holder = start_holder
        self._reasons: dict[Device, str] = {}
        self._numbers = itertools.count()
        self._holders: dict[int, Any] = {}
        self._awaited: dict[Device, int] = {}  # the holder that has not reported yet which GPUs it got
        self._strays: dict[Device, list[int]] = {}  # holders that got other GPUs

    def condemn(self, device: Device, reason: str) -> None:
        """Record that a device must not be used again in this run."""
        self._reasons.setdefault(device, reason)

    def bad_devices(self) -> dict[Device, str]:
        """Return why each bad device is not used, by device."""
        return self._reasons

    def occupy(self, device: Device) -> None:
        """Start a holder for the device, unless one is about to start."""
        if device not in self._awaited:
            number = next(self._numbers)
            self._awaited[device] = number
            self._holders[number] = self._start_holder(device, number)

    def placed(self, device: Device, number: int, gpus: tuple[str, ...]) -> None:
        """Record the GPUs that a holder got; if they are not those of the device, start another holder."""
        if self._awaited.get(device) != number:
            return
        del self._awaited[device]
        if gpus == device.gpus:
            for stray in self._strays.pop(device, []):
                del self._holders[stray]
        else:
            self._strays.setdefault(device, []).append(number)
            self.occupy(device)


class GpuHolder:
    """An actor that occupies a GPU without using it, and reports to the board which one it got."""

    def __init__(self, *, board: Any, run: str, device: Device, number: int) -> None:
        board.call.remote(run, "placed", device, number, device_of_process().gpus)


def start_holder(board: Any, run: str, device: Device, number: int) -> Any:
    """Start a `GpuHolder` on the machine of `device` as soon as there is room, and return its handle.

    Args:
        board: handle of the board, whose process must call this, because the holder ends with it.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(device.node, soft=False)
    actor: Any = ray.remote(GpuHolder)
    options = actor.options(num_cpus=0, num_gpus=device.share, scheduling_strategy=strategy)
    return options.remote(board=board, run=run, device=device, number=number)
