"""Progress: one line per stage with rows done/total, rows/s, time left and errors.

Workers report to one small Ray actor. A thread of the driver reads its counters and prints them: live on a terminal,
otherwise a line every ten seconds.
"""

import math
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

LINE_EVERY_S = 10.0
DRAW_EVERY_S = 0.5
REPORT_EVERY_S = 0.5
Counts = dict[str, tuple[int, int, Counter[str]]]  # stage -> done, errors, notes


@dataclass
class StageProgress:
    """The progress of a stage; `unit` names what `done` counts (rows, MB); `total` is None if unknown."""

    name: str
    total: int | None
    unit: str = "rows"
    done: int = 0
    errors: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    since: float = 0.0  # monotonic seconds of the last reading before anything was done

    @property
    def begun(self) -> bool:
        """Whether the stage has reported anything, such as the tokens of a first batch."""
        return bool(self.done or self.notes)


class Board:
    """The counters of all stages, in a Ray actor of their own."""

    def __init__(self) -> None:
        self._counts: Counts = {}
        self._life = uuid4().hex

    def add(self, stage: str, done: int, errors: int, notes: dict[str, int]) -> None:
        """Add to the counters of a stage."""
        total_done, total_errors, total_notes = self._counts.get(stage, (0, 0, Counter()))
        self._counts[stage] = (total_done + done, total_errors + errors, total_notes + Counter(notes))

    def read(self) -> tuple[str, Counts]:
        """A name of this board's process, and stage -> done, errors, notes since it started."""
        return self._life, self._counts


class Totals:
    """The counters of a board over all its processes: a board whose machine is lost restarts with empty counters."""

    def __init__(self) -> None:
        self._life: str | None = None
        self._before: Counts = {}
        self._now: Counts = {}

    def update(self, life: str, counts: Counts) -> Counts:
        """Take what `Board.read` returned; stage -> done, errors, notes."""
        if life != self._life:
            self._before, self._life = _sum(self._before, self._now), life
        self._now = counts
        return _sum(self._before, counts)


def _sum(one: Counts, other: Counts) -> Counts:
    empty: tuple[int, int, Counter[str]] = (0, 0, Counter())
    pairs = {stage: (one.get(stage, empty), other.get(stage, empty)) for stage in {**one, **other}}
    return {stage: (a[0] + b[0], a[1] + b[1], a[2] + b[2]) for stage, (a, b) in pairs.items()}


def board_options(node: str) -> dict[str, Any]:
    """How Ray places the board: on the driver's machine, and again somewhere else if that is lost."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    strategy = NodeAffinitySchedulingStrategy(node, soft=True)
    return {"num_cpus": 0, "max_restarts": -1, "scheduling_strategy": strategy}


class Reporter:
    """The worker's side: collects counts and sends them at most every half second, without waiting."""

    def __init__(self, board: Any, stage: str) -> None:
        self._board, self._stage = board, stage
        self._done = self._errors = 0
        self._notes: Counter[str] = Counter()
        self._sent = 0.0

    def add(self, done: int, *, errors: int = 0, **notes: int) -> None:
        """Count work that is done; `notes` are further counters, by name."""
        self._done += done
        self._errors += errors
        self._notes.update(notes)
        if time.monotonic() - self._sent >= REPORT_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Send the counts now."""
        if self._board is not None and (self._done or self._errors or self._notes):
            self._board.add.remote(self._stage, self._done, self._errors, dict(self._notes))
        self._done, self._errors, self._notes, self._sent = 0, 0, Counter(), time.monotonic()


class Progress:
    """The driver's side: a context manager that prints progress; `board` is for the workers' reporters."""

    def __init__(self, job: str, stages: list[StageProgress], *, stream: Any = None, live: bool | None = None) -> None:
        import ray

        self._job, self._stages = job, stages
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty() if live is None else live
        actor: Any = ray.remote(Board)
        self.board = actor.options(**board_options(ray.get_runtime_context().get_node_id())).remote()
        self._totals = Totals()
        self._begun = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._draw, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        import ray

        self._stop.set()
        self._thread.join(timeout=5)
        # A handle that a worker holds would keep the actor's process alive, and a pipeline runs many jobs.
        ray.kill(self.board)

    def lines(self) -> list[str]:
        """One line per stage, as of the last reading."""
        now = time.monotonic()
        return [line(stage, now - (stage.since or self._begun), job=self._job) for stage in self._stages]

    def _refresh(self) -> None:
        import ray

        try:
            life, read = ray.get(self.board.read.remote(), timeout=5)
        except (ray.exceptions.RayError, TimeoutError):  # a board that fails must not end the run
            return
        counts = self._totals.update(life, read)
        for stage in self._stages:
            stage.done, stage.errors, stage.notes = counts.get(stage.name, (0, 0, Counter()))
            if not stage.begun:
                stage.since = time.monotonic()

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
            last = self._stop.wait(LINE_EVERY_S)
            self._refresh()
            for text in self.lines():
                self._stream.write(text + "\n")
            self._stream.flush()
            if last:
                return


def line(stage: StageProgress, seconds: float, *, job: str) -> str:
    """A stage's line, `seconds` after its work began."""
    rate = stage.done / max(seconds, 1e-9)
    if not stage.begun:
        seconds = math.inf  # the speed is not known yet
    total = f"/{stage.total:,}" if stage.total is not None else ""
    left = ""
    if stage.total is not None and 0 < stage.done < stage.total:
        left = f"  {_clock((stage.total - stage.done) / rate)} left"
    # Rates are shown for tokens, and for rows where `unit` is not rows.
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
