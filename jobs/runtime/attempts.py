"""Attempts at batches, units and starts, so that those that end their process each time are found and left out.

Ray restarts an actor without limit, because machines of a cluster are withdrawn all the time. An attempt is recorded
before it begins and removed when it is done; those that remain are of processes that ended. A batch is attempted twice
as a whole; then its rows are attempted one by one, and the row during which the process ends again becomes an error.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa

from actors.ids import content_id
from actors.status import PROCESS_DIED, Status
from jobs.errors import RunError

BATCH_ATTEMPTS = 2  # of a batch as a whole
UNIT_ATTEMPTS = 3  # of a unit that an actor processes by itself
STARTS = 4  # of an actor whose constructor ends its process
# Of one device without any result between them. A row that makes its kernel fail takes three, and another row's result
# then follows.
DEVICE_FAULTS = 5
ANSWER_S = 60.0  # wait for the board; without an answer nothing is counted
REMEDY = "there is too little memory, or the data crash a native library"


class Ledger:
    """The attempts of all workers; kept by the `jobs.runtime.board.Board`."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._given_up: dict[str, str] = {}

    def begin(self, key: str) -> int:
        """Record an attempt; returns the number of earlier ones that are not done."""
        self._open[key] += 1
        return self._open[key] - 1

    def end(self, key: str, device: str) -> None:
        """Record that an attempt on `device` is done."""
        self._open.pop(key, None)
        self._faults.pop(device, None)

    def fault(self, device: str) -> int:
        """Record that `device` failed; returns how often it did since its last result."""
        self._faults[device] += 1
        return self._faults[device]

    def give_up(self, unit: str, reason: str) -> None:
        """Record that a unit is left out."""
        self._given_up[unit] = reason

    def given_up(self) -> dict[str, str]:
        """Unit -> why it was left out."""
        return self._given_up


class Attempts:
    """Records a worker's attempts on the board.

    Args:
        board: a `jobs.runtime.board.RunBoard`; None: nothing is counted.
        stage: name of the stage, which is part of every key.
    """

    def __init__(self, board: Any, stage: str) -> None:
        self._board, self._stage = board, stage
        self._device = _device() if board is not None else ""

    def begin(self, *key: str) -> int:
        """Record an attempt; returns the number of earlier ones during which the process ended."""
        if self._board is None:
            return 0
        import ray

        try:
            earlier: int = self._board.ask("begin", self._key(key), timeout=ANSWER_S)
        except (ray.exceptions.RayError, TimeoutError):  # a board that restarts must not end the run
            return 0
        return earlier

    def end(self, *key: str, by_device: bool = True) -> None:
        """Record that the attempt is done; `by_device`: the device had a part in it, and so it works."""
        if self._board is not None:
            self._board.tell("end", self._key(key), self._device if by_device else "")

    def start(self) -> None:
        """Record that the actor's constructor begins; `started` must follow.

        Raises:
            RunError: its process ended during each of the last `STARTS` constructors.
        """
        if (earlier := self.begin("start", _actor(self._board))) >= STARTS:
            raise RunError(f"the process of {self._stage} ended {earlier} times while it started; {REMEDY}")

    def started(self) -> None:
        """Record that the constructor returned."""
        self.end("start", _actor(self._board), by_device=False)

    def give_up(self, unit: str, reason: str) -> None:
        """Leave out a unit."""
        if self._board is not None:
            self._board.tell("give_up", unit, reason)

    def leave(self, error: Exception) -> NoReturn:
        """End this process, because its device failed, for Ray to start the actor again where there is room.

        Raises:
            RunError: the device failed `DEVICE_FAULTS` times without a result between, or nothing restarts the process.
        """
        if self._board is None:
            raise error
        import ray

        try:
            times = self._board.ask("fault", self._device, timeout=ANSWER_S)
        except (ray.exceptions.RayError, TimeoutError):  # not counted: the board restarts
            times = 0
        if times >= DEVICE_FAULTS:
            raise RunError(
                f"{self._device} failed {times} times without a result ({error}); take that machine out of the cluster "
                "and run the same command again"
            ) from error
        sys.stderr.write(f"{self._device} failed ({error}); the actor restarts\n")
        sys.stderr.flush()
        os._exit(1)

    def _key(self, key: Sequence[str]) -> str:
        return content_id(self._stage, *key)


def mark_died(rows: pa.Table) -> pa.Table:
    """`rows` with the status of rows that end the process of their stage, and without pictures and inputs.

    The stage returns them as it returns any row that is not ok. Where the status has no column `error_kind`, the status
    itself is `process_died`, which `actors.items` and the fetchers turn into status and kind.
    """
    kind = "error_kind" in rows.column_names
    texts = {"status": Status.ERROR.value if kind else PROCESS_DIED.kind}
    if kind:
        texts |= {"error_kind": PROCESS_DIED.kind, "error_message": PROCESS_DIED.message}
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


def _device() -> str:
    import ray

    gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    return f"machine {ray.util.get_node_ip_address()}, GPU {', '.join(gpus) or 'none'}"
