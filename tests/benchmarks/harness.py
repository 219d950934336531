"""Benchmarks, whose contenders run in turn, round after round, and are compared before they are timed."""

import fnmatch
import importlib
import pkgutil
import random
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tests.benchmarks import measure
from tests.benchmarks.child import SkippedError
from tests.benchmarks.measure import Measured

Size = Literal["smoke", "default", "full"]
SIZES: tuple[Size, ...] = ("smoke", "default", "full")
METRICS = {"cpu_s": "CPU seconds", "wall_s": "wall seconds", "peak_mb": "peak MB"}
BOUNDED = METRICS | {"rows_per_s": "rows a second"}  # what targets may be about
READ_BYTES = 1 << 20


class BenchmarkError(RuntimeError):
    """A benchmark whose figures must not be shown; the message says why."""


class MismatchError(BenchmarkError):
    """Contenders that should find the same rows did not."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to do the work.

    Attributes:
        name: as shown in the table.
        function: `module:function`, imported in the child; called with (workdir, size), returns `child.Result` or
            raises `child.SkippedError`.
        compared: whether its rows and digest must equal the others'. False for a mere yardstick.
        about: what it does, in a few words.
    """

    name: str
    function: str
    compared: bool = True
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A bound on a metric of a contender: on its paired ratio to `against`, or on its value when that is empty.

    `enough` is a value of the contender's own that will do, whatever the ratio.

    Raises:
        ValueError: an unknown metric, not exactly one of `at_most` and `at_least`, or `enough` without a ratio to be
            spared and `at_least`.
    """

    metric: str
    contender: str
    against: str = ""
    at_most: float | None = None
    at_least: float | None = None
    enough: float | None = None

    def __post_init__(self) -> None:
        if self.metric not in BOUNDED:
            raise ValueError(f"metric {self.metric!r}; there are {', '.join(BOUNDED)}")
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError("a target has either at_most or at_least")
        if self.enough is not None and (not self.against or self.at_least is None):
            raise ValueError("a value is enough instead of a ratio that is at least so large")

    def reached(self, value: float) -> bool:
        """Return whether `value` is within the bound."""
        if self.enough is not None and value >= self.enough:
            return True
        if self.at_most is not None:
            return value <= self.at_most
        assert self.at_least is not None
        return value >= self.at_least

    def __str__(self) -> str:
        bound = f"at most {self.at_most:g}" if self.at_most is not None else f"at least {self.at_least:g}"
        label = f"{BOUNDED[self.metric]} of {self.contender}{f' / {self.against}' if self.against else ''}: {bound}"
        return label if self.enough is None else f"{label}, or {self.enough:g} by itself"


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A piece of work, who does it, and against whom they are measured.

    Attributes:
        name, about: as listed.
        bound: what limits the figures, so that nothing else is taken for the program's rate.
        prepare: called with (workdir, size) to make the input; its result is cached.
        input_version: to be raised whenever `prepare` makes something else: it is part of the cache's key.
        contenders: in the order of the table.
        reference: name of the contender that ratios are taken against.
        targets: the bounds that are judged, except at size smoke.
        repeats: rounds by size, 1, 3 and 5 unless said.
        packages: distributions whose versions are recorded.

    Raises:
        ValueError: contenders of one name, or a reference or target that names none of them.
    """

    name: str
    about: str
    bound: str
    prepare: Callable[[Path, Size], None]
    contenders: tuple[Contender, ...]
    reference: str
    input_version: int = 1
    targets: tuple[Target, ...] = ()
    repeats: dict[Size, int] = field(default_factory=lambda: {"smoke": 1, "default": 3, "full": 5})
    packages: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [contender.name for contender in self.contenders]
        if len(set(names)) < len(names):
            raise ValueError(f"benchmark {self.name}: two contenders of one name among {', '.join(names)}")
        used = {self.reference, *(t.contender for t in self.targets), *(t.against for t in self.targets if t.against)}
        if strangers := sorted(used - set(names)):
            raise ValueError(f"benchmark {self.name}: no contender {', '.join(strangers)} among {', '.join(names)}")


@dataclass(frozen=True)
class Spread:
    """A median with the least and the greatest value it was taken over."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """Return the spread of at least one value."""
        results = list(values)
        return cls(statistics.median(results), min(results), max(results))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The measurements of one run of a benchmark: contender -> one `Measured` a round."""

    benchmark: Benchmark
    size: Size
    order: list[list[str]]
    rounds: dict[str, list[Measured]]
    skipped: dict[str, str]

    def spread(self, contender: str, metric: str) -> Spread:
        """Of a metric of a contender over the rounds."""
        return Spread.of(getattr(measured, metric) for measured in self.rounds[contender])

    def ratio(self, contender: str, against: str, metric: str) -> Spread:
        """Of a contender's metric over another's, taken within each round, so that a slow minute cancels out."""
        pairs = zip(self.rounds[contender], self.rounds[against], strict=True)
        return Spread.of(getattr(one, metric) / getattr(other, metric) for one, other in pairs)

    def verdict(self, target: Target) -> tuple[float | None, str]:
        """Return the value of a target (None if it was skipped), and reached, missed, not judged or skipped."""
        if any(name in self.skipped for name in (target.contender, target.against)):
            return None, "skipped"
        if target.against:
            value = self.ratio(target.contender, target.against, target.metric).median
            if target.enough is not None:
                spread = self.spread(target.contender, target.metric).median
                value = spread if spread >= target.enough else value
        else:
            value = self.spread(target.contender, target.metric).median
        if self.size == "smoke":
            return value, "not judged"
        return value, "reached" if target.reached(value) else "missed"


def benchmarks() -> dict[str, Benchmark]:
    """Return every benchmark: the `BENCHMARK` of each module in `tests/benchmarks/suites`."""
    suites = importlib.import_module("tests.benchmarks.suites")
    modules = sorted(module.name for module in pkgutil.iter_modules(suites.__path__))
    results = [importlib.import_module(f"{suites.__name__}.{name}").BENCHMARK for name in modules]
    return {benchmark.name: benchmark for benchmark in results}


def only(benchmark: Benchmark, pattern: str) -> Benchmark:
    """Return the benchmark with the contenders whose names match `pattern`; the first replaces a missing reference.

    Raises:
        BenchmarkError: no contender matches.
    """
    contenders = tuple(one for one in benchmark.contenders if fnmatch.fnmatch(one.name, pattern))
    names = {one.name for one in contenders}
    if not names:
        listed = ", ".join(one.name for one in benchmark.contenders)
        raise BenchmarkError(f"{benchmark.name}: no contender {pattern}; there are {listed}")
    reference = benchmark.reference if benchmark.reference in names else contenders[0].name
    targets = tuple(one for one in benchmark.targets if {one.contender, one.against or one.contender} <= names)
    return replace(benchmark, contenders=contenders, reference=reference, targets=targets)


def run(
    benchmark: Benchmark,
    size: Size,
    *,
    cache: Path,
    repeats: int | None = None,
    seed: int = 0,
    tell: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Run all contenders, each in a separate process, in an order drawn anew each round.

    Raises:
        MismatchError: compared contenders differ in rows or digest, in any round.
        BenchmarkError: a contender failed, or fewer than two were left to compare where two were meant to be.
    """
    workdir = prepared(benchmark, size, cache=cache, tell=tell)
    for path in sorted(workdir.rglob("*")):
        if path.is_file():
            _warm(path)
    rounds: dict[str, list[Measured]] = {}
    skipped: dict[str, str] = {}
    order: list[list[str]] = []
    for number in range(repeats or benchmark.repeats[size]):
        turn = [contender for contender in benchmark.contenders if contender.name not in skipped]
        random.Random(f"{seed} {number}").shuffle(turn)
        order.append([contender.name for contender in turn])
        for contender in turn:
            tell(f"round {number + 1}: {contender.name}")
            try:
                measured = measure.in_child(contender.function, workdir=workdir, size=size)
            except SkippedError as reason:
                skipped[contender.name] = str(reason)
            except measure.ChildError as error:
                raise BenchmarkError(f"{benchmark.name}: contender {contender.name} failed: {error}") from error
            else:
                rounds.setdefault(contender.name, []).append(measured)
        _compare(benchmark, rounds)
    if benchmark.reference in skipped:
        raise BenchmarkError(f"{benchmark.name}: the reference was skipped: {skipped[benchmark.reference]}")
    return Outcome(benchmark=benchmark, size=size, order=order, rounds=rounds, skipped=skipped)


def prepared(benchmark: Benchmark, size: Size, *, cache: Path, tell: Callable[[str], None] = lambda line: None) -> Path:
    """Return the folder of the benchmark's input; write it unless an earlier run has completed it."""
    workdir = cache / f"{benchmark.name}-{size}-{benchmark.input_version}"
    if workdir.exists():
        return workdir
    tell(f"making the input of {benchmark.name}, size {size}")
    cache.mkdir(parents=True, exist_ok=True)
    # made aside and renamed, so that an interrupted preparation is never taken for an input
    aside = Path(tempfile.mkdtemp(prefix=f".{workdir.name}-", dir=cache))
    try:
        benchmark.prepare(aside, size)
        aside.rename(workdir)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return workdir


def _warm(path: Path) -> None:
    """Bring a file into the page cache, so that the first contender is not the one that pays the disk."""
    with path.open("rb") as file:
        while file.read(READ_BYTES):
            pass


def _compare(benchmark: Benchmark, rounds: dict[str, list[Measured]]) -> None:
    compared = {c.name for c in benchmark.contenders if c.compared}
    by_key = {name: {(m.rows, m.digest) for m in runs} for name, runs in rounds.items() if name in compared}
    if len(set().union(*by_key.values())) > 1:
        lines = [
            f"  {name}: {rows} rows, {digest}" for name, results in by_key.items() for rows, digest in sorted(results)
        ]
        raise MismatchError(f"{benchmark.name}: the contenders disagree, so no speed is shown\n" + "\n".join(lines))
    if len(compared) > 1 and len(by_key) < 2:
        raise BenchmarkError(f"{benchmark.name}: fewer than two contenders were left to compare")
