"""Warnings that workers log, counted on the progress board and printed once on the driver.

Ray's own way (`log_to_driver`) would print them once per process, among Ray's own lines, and the log files of a machine
that is withdrawn are lost.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jobs.store.writer import UnitTask

LOGGERS = ("actors", "jobs")
MOST_TEXTS = 100  # different warnings that a board keeps

_tasks: list[str] = []  # the tasks of this process's current batch, as JSON


class Collected:
    """The warnings of all workers; part of the `jobs.runtime.board.RunRecords`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._places: dict[str, dict[str, Any]] = {}

    def warn(self, text: str, place: dict[str, Any]) -> None:
        """Count a warning; `place` is where it was logged (actor, node, units), and the first place is kept."""
        if text in self._counts or len(self._counts) < MOST_TEXTS:
            self._counts[text] += 1
            self._places.setdefault(text, place)

    def warnings(self) -> dict[str, tuple[int, dict[str, Any]]]:
        """Return how often each warning was logged, and where it was first, by warning."""
        return {text: (count, self._places[text]) for text, count in self._counts.items()}


class PrintedWarnings:
    """The warnings that the driver has printed, with the number of their occurrences.

    A board that restarts loses its counts, so that the counts are lower bounds.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def new_lines(self, read: dict[str, tuple[int, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
        """Add a result of `Collected.warnings`; return the lines of new warnings, each with its place."""
        lines = [
            (f"warning of a worker: {text}", place) for text, (_, place) in read.items() if text not in self.counts
        ]
        self.counts |= Counter({text: count for text, (count, _) in read.items()})
        return lines

    def summary(self) -> list[str]:
        """Return a line for each warning that occurred more than once."""
        return [f"{count:,} times: {text}" for text, count in self.counts.most_common() if count > 1]


class _Sender(logging.Handler):
    def __init__(self, board: Any) -> None:
        super().__init__(level=logging.WARNING)
        self._board = board
        self._place = _place()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the board, without waiting."""
        try:
            units = [UnitTask.from_json(task).unit.name for task in _tasks]
            place = {**self._place, "units": units}
            self._board.tell("warn", (record.getMessage().splitlines() or [""])[0], place)
        except Exception:
            self.handleError(record)


def _place() -> dict[str, str]:
    import ray

    if not ray.is_initialized():
        return {}
    context = ray.get_runtime_context()
    return {"actor": context.get_actor_id() or "", "node": ray.util.get_node_ip_address()}


def working_on(tasks: Sequence[str]) -> None:
    """Set the units that this process's warnings are about from now on, as `jobs.store.writer.UnitTask`s in JSON."""
    _tasks[:] = tasks


def send_to(board: Any) -> None:
    """Send the warnings of this process to `board` from now on; a process that is used again has only one sender."""
    working_on([])
    for logger in map(logging.getLogger, LOGGERS):
        for handler in [handler for handler in logger.handlers if isinstance(handler, _Sender)]:
            logger.removeHandler(handler)
        if board is not None:
            logger.addHandler(_Sender(board))
