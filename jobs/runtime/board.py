"""What the workers of a driver's runs share, in a small Ray actor: counters, attempts, bad GPUs, warnings, errors.

Everything that workers share is an object of an ordinary class, a part of the board: `board.part(Ledger)` calls the
methods of the run's `Ledger`, which exists from the first call on.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar
from uuid import uuid4

REPORT_EVERY_S = 0.5
ANSWER_S = 60.0  # longest wait of a worker for the board; without an answer it continues
DRIVER_ANSWER_S = 5.0  # the same, of the driver

Counts = dict[str, tuple[int, int, Counter[str]]]  # stage -> done, errors, notes
T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class Board:
    """The parts of all runs, kept in a separate Ray actor."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[type, Any]] = defaultdict(dict)

    def call(self, run: str, kind: type[T], method: Callable[..., R], arguments: tuple[Any, ...]) -> R:
        """Call a method of the run's part of this class."""
        parts = self._runs[run]
        if kind not in parts:
            parts[kind] = kind()
        return method(parts[kind], *arguments)

    def forget(self, run: str) -> None:
        """Remove what belongs to a run that ended."""
        self._runs.pop(run, None)


@dataclass(frozen=True)
class RunBoard:
    """The part of a `Board` that belongs to one run; workers get a copy."""

    actor: Any  # handle of a Board
    job: str = ""  # as in progress lines
    grows: bool = False  # whether the cluster may get more machines
    run: str = field(default_factory=lambda: uuid4().hex)

    def part(self, kind: type[T], *, timeout: float = ANSWER_S) -> "BoardPart[T]":
        """Return the run's part of this class; `timeout` is the longest wait for an answer."""
        return RemotePart(self, kind, timeout)

    def forget(self) -> None:
        """Remove what belongs to the run, without waiting."""
        self.actor.forget.remote(self.run)


class BoardPart(Generic[T]):
    """Calls the methods of an object that the workers of a run share; this one is of this process alone."""

    def __init__(self, kind: type[T]) -> None:
        self._part = kind()

    def tell(self, method: Callable[Concatenate[T, P], object], *arguments: P.args, **_: P.kwargs) -> None:
        """Call a method, without waiting."""
        method(self._part, *arguments, **_)

    def ask(self, otherwise: R, method: Callable[Concatenate[T, P], R], *arguments: P.args, **_: P.kwargs) -> R:
        """Return the result of a method, or `otherwise` while the board restarts, which must not end the run."""
        return method(self._part, *arguments, **_)


class RemotePart(BoardPart[T]):
    """Calls the methods of a run's part of the board."""

    def __init__(self, board: RunBoard, kind: type[T], timeout: float) -> None:
        self._board, self._kind, self._timeout = board, kind, timeout

    def tell(self, method: Callable[Concatenate[T, P], object], *arguments: P.args, **_: P.kwargs) -> None:
        self._board.actor.call.remote(self._board.run, self._kind, method, arguments)

    def ask(self, otherwise: R, method: Callable[Concatenate[T, P], R], *arguments: P.args, **_: P.kwargs) -> R:
        import ray

        call = self._board.actor.call.remote(self._board.run, self._kind, method, arguments)
        try:
            result: R = ray.get(call, timeout=self._timeout)
        except (ray.exceptions.RayError, TimeoutError):
            return otherwise
        return result


def part_of(board: RunBoard | None, kind: type[T]) -> BoardPart[T]:
    """Return the part of this class, of the run or, without a board, of this process."""
    return board.part(kind) if board is not None else BoardPart(kind)


# By node and job of the driver: a later Ray session of this process has another board.
_boards: dict[tuple[str, str], Any] = {}


def open_board(job: str, *, grows: bool = False) -> RunBoard:
    """Return a new run's part of the driver's board; starting the board costs a second of CPU and is done once."""
    import ray

    context = ray.get_runtime_context()
    key = (context.get_node_id(), context.get_job_id())
    if key not in _boards:
        actor: Any = ray.remote(Board)
        _boards[key] = actor.options(**board_options(context.get_node_id())).remote()
    return RunBoard(_boards[key], job, grows)


class StageCounts:
    """The counters of a run's stages; part of the run's board."""

    def __init__(self) -> None:
        self._life = uuid4().hex
        self._stages: Counts = {}

    def add(self, stage: str, done: int, errors: int, notes: dict[str, int]) -> None:
        """Add to the counters of a stage."""
        total_done, total_errors, total_notes = self._stages.get(stage, (0, 0, Counter()))
        self._stages[stage] = (total_done + done, total_errors + errors, total_notes + Counter(notes))

    def read(self) -> tuple[str, Counts]:
        """Return a name of these counters, and by stage the (done, errors, notes) since they exist."""
        return self._life, self._stages


class Totals:
    """The counters of a run over all processes of the board: if its machine is lost, a board restarts without parts."""

    def __init__(self) -> None:
        self._life: str | None = None
        self._before: Counts = {}
        self._now: Counts = {}

    def update(self, life: str, counts: Counts) -> Counts:
        """Add a result of `StageCounts.read`; return the totals, stage -> (done, errors, notes)."""
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
        self._counts = part_of(board, StageCounts)
        self._stage, self._on_flush = stage, on_flush
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
        if self._done or self._errors or self._notes:
            self._counts.tell(StageCounts.add, self._stage, self._done, self._errors, dict(self._notes))
        self._done, self._errors, self._notes, self._sent = 0, 0, Counter(), time.monotonic()
