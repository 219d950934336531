"""Warnings that workers log: counted on the board of progress, and printed once on the driver.

Ray's own way (`log_to_driver`) would print them once per process, among its own lines, and the files of a machine that
is withdrawn are lost.
"""

import logging
from collections import Counter
from typing import Any

LOGGERS = ("actors", "jobs")
MOST_TEXTS = 100  # different warnings that a board keeps


class Collected:
    """The warnings of all workers; part of the `jobs.runtime.board.RunRecords`."""

    def __init__(self) -> None:
        self._warnings: Counter[str] = Counter()

    def warn(self, text: str) -> None:
        """Count a warning."""
        if text in self._warnings or len(self._warnings) < MOST_TEXTS:
            self._warnings[text] += 1

    def warnings(self) -> dict[str, int]:
        """Warning -> how often it was logged."""
        return dict(self._warnings)


class PrintedWarnings:
    """The driver's side: which warnings have been printed, and how often they occurred.

    A board that restarts loses its counts, so that the counts are lower bounds.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def new_lines(self, read: dict[str, int]) -> list[str]:
        """Take what `Collected.warnings` returned; the lines of warnings that are new."""
        lines = [f"warning of a worker: {text}" for text in read if text not in self.counts]
        self.counts |= Counter(read)
        return lines

    def summary(self) -> list[str]:
        """A line for each warning that occurred more than once."""
        return [f"{count:,} times: {text}" for text, count in self.counts.most_common() if count > 1]


class _Sender(logging.Handler):
    def __init__(self, board: Any) -> None:
        super().__init__(level=logging.WARNING)
        self._board = board

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the board, without waiting."""
        try:
            self._board.tell("warn", (record.getMessage().splitlines() or [""])[0])
        except Exception:
            self.handleError(record)


def send_to(board: Any) -> None:
    """Send the warnings of this process to `board` from now on; a process that is used again has one sender."""
    for logger in map(logging.getLogger, LOGGERS):
        for handler in [handler for handler in logger.handlers if isinstance(handler, _Sender)]:
            logger.removeHandler(handler)
        if board is not None:
            logger.addHandler(_Sender(board))
