"""The time of a command by phase: the lines of `-v` (`timings=true`).

The driver marks the end of each phase. A worker reports how long its actor took to start, which includes importing a
model's libraries and loading its weights, and how long the first batch took.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from jobs.runtime.board import RunBoard, part_of

START, FIRST = "start", "first batch"


class PhaseTimes:
    """The times of a run's workers; part of the run's board."""

    def __init__(self) -> None:
        self._spent: dict[str, dict[str, float]] = defaultdict(dict)

    def spend(self, actor: str, phase: str, seconds: float) -> None:
        """Record the time of an actor's phase; the slowest of several processes counts."""
        self._spent[actor][phase] = max(seconds, self._spent[actor].get(phase, 0.0))

    def spent(self) -> dict[str, dict[str, float]]:
        """Return the seconds of each phase, by actor."""
        return {actor: dict(phases) for actor, phases in self._spent.items()}


class WorkerTimes:
    """Reports, from a worker, the times of its actor's start and first batch."""

    def __init__(self, board: RunBoard | None, actor: str) -> None:
        self._times = part_of(board, PhaseTimes)
        self._actor, self._left = actor, [START, FIRST]
        self.begin()

    def begin(self) -> None:
        """Begin a phase."""
        self._begun = time.perf_counter()

    def end(self) -> None:
        """End the phase; phases after the first batch are not reported."""
        if self._left:
            self._times.tell(PhaseTimes.spend, self._actor, self._left.pop(0), time.perf_counter() - self._begun)


class Phases:
    """The consecutive phases of the driver; `begun` returns the Unix time at which the first one began."""

    def __init__(self, begun: Callable[[], float]) -> None:
        self._begun = begun
        self._since: float | None = None  # end of the last phase
        self._phases: list[tuple[str, float]] = []
        self._workers: dict[str, dict[str, float]] = {}
        self.is_shown = False  # whether lines were taken, so that the end of Ray is printed too

    def mark(self, name: str, now: float | None = None) -> None:
        """End a phase called `name`, which began at the last mark."""
        now = time.time() if now is None else now
        since = self._begun() if self._since is None else self._since
        self._phases.append((name, now - since))
        self._since = now

    def add_workers(self, spent: Mapping[str, Mapping[str, float]]) -> None:
        """Add the times returned by `PhaseTimes.spent`."""
        self._workers.update({actor: dict(phases) for actor, phases in spent.items()})

    def take_lines(self) -> list[str]:
        """Return the lines of the phases since the last call."""
        self.is_shown = True
        phases, self._phases = self._phases, []
        workers, self._workers = self._workers, {}
        lines = [f"time  {seconds:6.1f} s  {name}" for name, seconds in phases]
        for actor, spent in workers.items():
            parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in spent.items())
            lines.append(f"time            {actor}: {parts}")
        return lines


def _process_start() -> float:
    """Return the Unix time at which this process started."""
    import psutil  # here, since every command imports this module and few show times

    return float(psutil.Process().create_time())


DRIVER = Phases(_process_start)
