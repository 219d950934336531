"""How much the answers of a rater vary between independent units, for the intervals of distributions."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.intervals import Interval, ShareSums, Units, estimate, no_interval

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]
STUDENT = "Student's t 95% over {units}"
MARKS = ("truncated", "empty_context")  # columns that are null unless the context is not as it should be
UNKNOWN = no_interval("the units of the ratings are unknown")


@dataclass(frozen=True)
class AnswersOfUnits:
    """Ratings of one question, all of them of each unit that occurs.

    Attributes:
        unit: uint64[n]; rater: int[n], index into `raters`; value: int[n], index into `answers`, -1 for none.
        score, outside: float[n], NaN for none; ok, by_people: bool[n].
        marks: column of `MARKS` -> bool[n].
        unit_name: what the units are, in the plural.
    """

    unit: NDArray[np.uint64]
    rater: Ints
    value: Ints
    score: Floats
    outside: Floats
    marks: Mapping[str, NDArray[np.bool_]]
    ok: NDArray[np.bool_]
    by_people: NDArray[np.bool_]
    raters: Sequence[str]
    answers: Sequence[str]
    unit_name: str

    def pooled(self, name: str) -> "AnswersOfUnits":
        """Return people's ratings as those of one rater."""
        rows = self.by_people
        columns = ("unit", "value", "score", "outside", "ok", "by_people")
        kept = {column: getattr(self, column)[rows] for column in columns}
        marks = {column: marked[rows] for column, marked in self.marks.items()}
        return replace(self, rater=np.zeros(int(rows.sum()), np.int64), raters=(name,), marks=marks, **kept)


@dataclass
class MeanSpread:
    """The variance of a mean between units: the sum over units of (sum of the unit's deviations from the mean)²."""

    units: int = 0
    n: int = 0
    squares: float = 0.0
    mean: float = 0.0

    def add(self, unit: NDArray[np.int64], deviation: Floats, mean: float) -> None:
        """Add the deviations of some rows from `mean`, of units that were not added before."""
        units = Units(unit)
        sums = units.sums(deviation[:, None])[:, 0]
        self.units, self.n, self.mean = self.units + units.count, self.n + len(unit), mean
        self.squares += float(sums @ sums)

    def interval(self, unit_name: str) -> Interval:
        """Return Student's t interval of the mean."""
        if not self.n:
            return UNKNOWN
        error = math.sqrt(self.squares * self.units / max(self.units - 1, 1)) / self.n
        method = STUDENT.format(units=unit_name)
        return estimate(self.mean, error, units=self.units, unit_name=unit_name, method=method)


@dataclass
class AnswerSpread:
    """What the intervals of a distribution need of the units of its ratings.

    Attributes:
        nobody: of an answer that nobody gave; asked: of the share of ok ratings; marked: of those of marked ones.
    """

    unit_name: str = "items"
    nobody: ShareSums = field(default_factory=ShareSums)
    asked: ShareSums = field(default_factory=ShareSums)
    marked: dict[str, ShareSums] = field(default_factory=lambda: dict.fromkeys(MARKS, ShareSums()))
    answers: dict[str, ShareSums] = field(default_factory=dict)
    score: MeanSpread = field(default_factory=MeanSpread)
    outside: MeanSpread = field(default_factory=MeanSpread)

    def add(self, part: AnswersOfUnits, rows: NDArray[np.bool_], *, score: float, outside: float) -> None:
        """Add one rater's rows of a part; `score` and `outside` are the means over all parts."""
        ok = rows & part.ok
        self.asked += ShareSums.of(_sums(part.unit[rows], part.ok[rows]))
        if not ok.any():
            return
        unit, value = part.unit[ok].view(np.int64), part.value[ok]
        for spread, numbers, mean in ((self.score, part.score[ok], score), (self.outside, part.outside[ok], outside)):
            has_number = ~np.isnan(numbers)
            if has_number.any():
                spread.add(unit[has_number], numbers[has_number] - mean, mean)
        before = self.nobody
        self.nobody = before + ShareSums.of(_sums(part.unit[ok], np.zeros(len(unit), bool)))
        for name, marked in part.marks.items():
            self.marked[name] += ShareSums.of(_sums(part.unit[ok], marked[ok]))
        occur = {part.answers[code] for code in np.unique(value[value >= 0]).tolist()}
        for answer in occur | self.answers.keys():
            hit = value == part.answers.index(answer) if answer in occur else np.zeros(len(value), bool)
            self.answers[answer] = self.answers.get(answer, before) + ShareSums.of(_sums(part.unit[ok], hit))

    def share_of(self, sums: ShareSums) -> Interval:
        """Return the interval of a share."""
        return sums.interval(self.unit_name) if sums.n else UNKNOWN


def _sums(unit: NDArray[np.uint64], hit: NDArray[np.bool_]) -> NDArray[np.float64]:
    return Units(unit.view(np.int64)).sums(np.stack([hit, np.ones(len(hit))], axis=1))
