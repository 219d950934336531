"""Progress: one line per stage with rows done/total, rows/s, time left and errors.

Workers report to a board (`jobs.runtime.board`). A thread of the driver reads its counters and prints them: live on a
terminal, otherwise a line every ten seconds, or every `$REMINE_LINE_EVERY_S`.
"""

import contextlib
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from jobs.errors import InputError
from jobs.runtime.attempts import Ledger
from jobs.runtime.board import DRIVER_ANSWER_S, StageCounts, Totals, open_board
from jobs.runtime.process import console, timings
from jobs.runtime.process.timings import PhaseTimes
from jobs.runtime.prometheus import JobMetrics
from jobs.runtime.worker_reports import PrintedWarnings, WarningCounts

LINE_EVERY_S = 10.0
SUBMITTED_LINE_EVERY_S = 60.0  # for jobs that `ray job submit` started, whose output is read afterwards
DRAW_EVERY_S = 0.5
SUBMITTED = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set by Ray for the command of a submitted job
INTERVAL = "REMINE_LINE_EVERY_S"


@dataclass
class StageProgress:
    """The progress of a stage; `unit` is what `done` counts (rows, MB); `total` is None if unknown."""

    name: str
    total: int | None
    unit: str = "rows"
    done: int = 0
    errors: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    since: float = 0.0  # monotonic seconds of the last reading before anything was reported
    first: tuple[float, int] | None = None  # seconds and `done` from which the pace is measured
    changed: float = 0.0  # seconds of the reading at which `done` grew last

    @property
    def begun(self) -> bool:
        """Whether the stage has reported anything, such as the tokens of a first batch."""
        return bool(self.done or self.notes)

    def read(self, done: int, errors: int, notes: Counter[str], *, now: float) -> None:
        """Record the counts of a reading at `now`, in monotonic seconds."""
        if done != self.done:
            self.changed = now
        self.done, self.errors, self.notes = done, errors, notes
        if not self.begun:
            self.since = now
        elif self.first is None:
            # The time of the first batch is known only if something, such as its tokens, was reported before it ended.
            self.first = (now, done) if done else (self.since, 0)

    def left(self, now: float) -> float | None:
        """Return the seconds that are left; None if unknown.

        Work ends in batches: the pace is that of the last reading with a new batch, and the time counts down until the
        next batch.
        """
        if self.total is None or self.first is None or not self.first[1] < self.done < self.total:
            return None
        begun, before = self.first
        seconds_each = (self.changed - begun) / (self.done - before)
        return max((self.total - self.done) * seconds_each - (now - self.changed), 0.0)

    def facts(self) -> dict[str, Any]:
        """Return the counts, for lines that programs read."""
        return {
            "stage": self.name,
            "done": self.done,
            "total": self.total,
            "unit": self.unit,
            "errors": self.errors,
            "counts": dict(self.notes),
        }


class Progress:
    """Prints the progress on the driver, as a context manager; `board` is for the workers' reporters.

    Args:
        grows: whether the cluster may get more machines.
    """

    def __init__(self, job: str, stages: list[StageProgress], *, grows: bool) -> None:
        self._job, self._stages = job, stages
        self._stream = sys.stderr
        self._live = self._stream.isatty() and not console.is_json()
        self._line_every_s = line_interval(os.environ)
        self.board = open_board(job, grows=grows)
        self._totals = Totals()
        self._metrics = {stage.name: JobMetrics(job, stage.name) for stage in stages}
        self._warnings = PrintedWarnings()
        self.given_up: dict[str, str] = {}  # units that were left out -> why; complete after the context
        self._begun = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        for text in self._warnings.summary():
            console.write(self._stream, text, level="warning")
        self.given_up = self.board.part(Ledger, timeout=DRIVER_ANSWER_S).ask({}, Ledger.given_up)
        timings.DRIVER.add_workers(self.board.part(PhaseTimes, timeout=DRIVER_ANSWER_S).ask({}, PhaseTimes.spent))
        self.board.forget()
        for metrics in self._metrics.values():
            metrics.gauge("remine_queued", 0)

    def lines(self) -> list[str]:
        """Return one line per stage, as of the last reading."""
        now = time.monotonic()
        return [line(stage, now - (stage.since or self._begun), now=now, job=self._job) for stage in self._stages]

    def _refresh(self) -> None:
        read = self.board.part(StageCounts, timeout=DRIVER_ANSWER_S).ask(None, StageCounts.read)
        warned = self.board.part(WarningCounts, timeout=DRIVER_ANSWER_S).ask(None, WarningCounts.warnings)
        if read is None or warned is None:
            return
        for text, place in self._warnings.new_lines(warned):
            console.write(self._stream, text, level="warning", **place)
        counts = self._totals.update(*read)
        for stage in self._stages:
            stage.read(*counts.get(stage.name, (0, 0, Counter())), now=time.monotonic())
            if stage.total is not None:
                self._metrics[stage.name].gauge("remine_queued", max(stage.total - stage.done, 0))

    def _draw(self) -> None:
        if self._live:
            from rich.console import Console
            from rich.live import Live
            from rich.text import Text

            with Live(console=Console(file=self._stream), refresh_per_second=4) as live:
                while True:
                    last = self._stop.wait(DRAW_EVERY_S)
                    self._refresh()
                    live.update(Text("\n".join(self.lines())))
                    if last:
                        return
        while True:
            last = self._stop.wait(self._line_every_s)
            self._refresh()
            for text, stage in zip(self.lines(), self._stages, strict=True):
                console.write(self._stream, text, **stage.facts())
            if last:
                return


def line_interval(environment: Mapping[str, str]) -> float:
    """Return the seconds between two lines of a stage if the output is not a terminal.

    Raises:
        InputError: $REMINE_LINE_EVERY_S is not a positive number.
    """
    text = environment.get(INTERVAL)
    if text is None:
        return SUBMITTED_LINE_EVERY_S if SUBMITTED in environment else LINE_EVERY_S
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(text)) < math.inf:
            return seconds
    raise InputError("must be a number of seconds above 0", key=INTERVAL, value=text, remedy="correct or unset it")


def line(stage: StageProgress, seconds: float, *, now: float, job: str) -> str:
    """Return a stage's line at `now`, `seconds` after its work began."""
    rate = stage.done / max(seconds, 1e-9)
    total = f"/{stage.total:,}" if stage.total is not None else ""
    left = "" if (seconds_left := stage.left(now)) is None else f"  {_clock(seconds_left)} left"
    # Rates are shown for tokens, and for rows if `unit` is not rows.
    with_rate = {"tokens", *({"rows"} if stage.unit != "rows" else ())}
    speed = {name: f" ({stage.notes[name] / max(seconds, 1e-9):,.0f}/s)" for name in with_rate}
    notes = "".join(f"  {n:,} {note}{speed.get(note, '')}" for note, n in sorted(stage.notes.items()))
    errors = f"  {stage.errors:,} errors" if stage.errors else ""
    name = job if stage.name == job else f"{job} {stage.name}"
    return f"{name:12} {stage.done:,}{total} {stage.unit}  {rate:,.1f} {stage.unit}/s{left}{notes}{errors}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
