"""The counters of a driver's runs, in a small Ray actor: workers add to them, and the driver reads them."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from jobs.runtime.attempts import BadDevices, Ledger, start_holder
from jobs.runtime.process.timings import Measured
from jobs.runtime.worker_reports import Collected, ErrorTotals

REPORT_EVERY_S = 0.5

Counts = dict[str, tuple[int, int, Counter[str]]]  # stage -> done, errors, notes


class RunRecords(Ledger, BadDevices, Collected, Measured, ErrorTotals):
    """The attempts, bad devices, warnings, times and errors of a run's workers."""

    def __init__(self, run: str) -> None:
        BadDevices.__init__(self, lambda device, number: start_holder(_this_actor(), run, device, number))
        Ledger.__init__(self)
        Collected.__init__(self)
        Measured.__init__(self)
        ErrorTotals.__init__(self)


class Board:
    """The counters of all runs, and the attempts and warnings of their workers, kept in a separate Ray actor."""

    def __init__(self) -> None:
        self._runs: dict[str, Counts] = {}
        self._records: dict[str, RunRecords] = {}
        self._life = uuid4().hex

    def add(self, run: str, stage: str, done: int, errors: int, notes: dict[str, int]) -> None:
        """Add to the counters of a run's stage."""
        stages = self._runs.setdefault(run, {})
        total_done, total_errors, total_notes = stages.get(stage, (0, 0, Counter()))
        stages[stage] = (total_done + done, total_errors + errors, total_notes + Counter(notes))

    def read(self, run: str) -> tuple[str, Counts]:
        """Return a name of this board's process, and by stage the (done, errors, notes) since it started."""
        return self._life, self._runs.get(run, {})

    def call(self, run: str, method: str, *arguments: Any) -> Any:
        """Call a method of the run's `RunRecords`."""
        return getattr(self._records.setdefault(run, RunRecords(run)), method)(*arguments)

    def forget(self, run: str) -> None:
        """Remove what belongs to a run that ended."""
        self._runs.pop(run, None)
        self._records.pop(run, None)


@dataclass(frozen=True)
class RunBoard:
    """The part of a `Board` that belongs to one run; workers get a copy."""

    actor: Any  # handle of a Board
    job: str = ""  # as in progress lines
    grows: bool = False  # whether the cluster may get more machines
    run: str = field(default_factory=lambda: uuid4().hex)

    def add(self, stage: str, done: int, errors: int, notes: dict[str, int]) -> None:
        """Add to the counters of a stage, without waiting."""
        self.actor.add.remote(self.run, stage, done, errors, notes)

    def read(self, *, timeout: float) -> tuple[str, Counts]:
        """Return the result of `Board.read`, waiting at most `timeout` seconds.

        Raises:
            RayError: the board is being restarted, or did not answer in time.
        """
        import ray

        answer: Any = ray.get(self.actor.read.remote(self.run), timeout=timeout)
        return answer[0], answer[1]

    def tell(self, method: str, *arguments: Any) -> None:
        """Call a method of the run's `RunRecords`, without waiting."""
        self.actor.call.remote(self.run, method, *arguments)

    def ask(self, method: str, *arguments: Any, timeout: float) -> Any:
        """Return the result of a method of the run's `RunRecords`, waiting at most `timeout` seconds.

        Raises:
            RayError: the board is being restarted, or did not answer in time.
        """
        import ray

        return ray.get(self.actor.call.remote(self.run, method, *arguments), timeout=timeout)

    def forget(self) -> None:
        """Remove the run's counters, without waiting."""
        self.actor.forget.remote(self.run)


def _this_actor() -> Any:
    import ray

    return ray.get_runtime_context().current_actor


# By node and job of the driver: a later Ray session of this process has another board.
_boards: dict[tuple[str, str], Any] = {}


def open_board(job: str, *, grows: bool = False) -> RunBoard:
    """Return a run's part of the driver's board; starting the board costs a second of CPU and is done once."""
    import ray

    context = ray.get_runtime_context()
    key = (context.get_node_id(), context.get_job_id())
    if key not in _boards:
        actor: Any = ray.remote(Board)
        _boards[key] = actor.options(**board_options(context.get_node_id())).remote()
    return RunBoard(_boards[key], job, grows)


class Totals:
    """The counters of a board over all its processes: a board whose machine is lost restarts with empty counters."""

    def __init__(self) -> None:
        self._life: str | None = None
        self._before: Counts = {}
        self._now: Counts = {}

    def update(self, life: str, counts: Counts) -> Counts:
        """Add a result of `Board.read`; return the totals, stage -> (done, errors, notes)."""
        if life != self._life:
            self._before, self._life = _sum(self._before, self._now), life
        self._now = counts
        return _sum(self._before, counts)


def _sum(one: Counts, other: Counts) -> Counts:
    empty: tuple[int, int, Counter[str]] = (0, 0, Counter())
    pairs = {stage: (one.get(stage, empty), other.get(stage, empty)) for stage in {**one, **other}}
    return {stage: (a[0] + b[0], a[1] + b[1], a[2] + b[2]) for stage, (a, b) in pairs.items()}


def board_options(node: str) -> dict[str, Any]:
    """Return how Ray places the board: on the driver's machine, or on another machine if that one is lost."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(node, soft=True)
    return {"num_cpus": 0, "max_restarts": -1, "scheduling_strategy": strategy}


class Reporter:
    """Collects a worker's counts and sends them at most every half second, without blocking.

    Args:
        on_flush: called each time counts are sent, as a sign of progress.
    """

    def __init__(self, board: RunBoard | None, stage: str, on_flush: Callable[[], None] | None = None) -> None:
        self._board, self._stage, self._on_flush = board, stage, on_flush
        self._done = self._errors = 0
        self._notes: Counter[str] = Counter()
        self._sent = 0.0

    def add(self, done: int, *, errors: int = 0, **notes: int) -> None:
        """Count work that is done; `notes` are additional counters, by name."""
        self._done += done
        self._errors += errors
        self._notes.update(notes)
        if time.monotonic() - self._sent >= REPORT_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Send the counts now."""
        if self._on_flush is not None:
            self._on_flush()
        if self._board is not None and (self._done or self._errors or self._notes):
            self._board.add(self._stage, self._done, self._errors, dict(self._notes))
        self._done, self._errors, self._notes, self._sent = 0, 0, Counter(), time.monotonic()
