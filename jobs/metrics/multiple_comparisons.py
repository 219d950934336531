"""Which of several models, prompts, conditions or subgroups is better: all pairs, ranks with intervals, stability.

Pairs are compared on the same units, such as pictures: the variance of a difference is that between units, so that what
both have in common cancels. The p-values of all pairs of a family (one question, attribute and group of raters) are
adjusted together, and a rank has an interval of all places that the adjusted comparisons leave open.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.intervals import MIN_UNITS, Interval, Units, student
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, exact, undefined

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
HOLM, BENJAMINI_HOCHBERG = "holm", "benjamini_hochberg"
ADJUSTMENTS = {
    HOLM: "Holm (1979), against any false difference",
    BENJAMINI_HOCHBERG: "Benjamini and Hochberg (1995), for the share of false differences",
}
LEVEL = 0.05
POWER_Z = 0.8416212335729143  # 80 % quantile of the standard normal distribution
MOST = 12  # values that are compared: 66 pairs
PAIRED_T = "Student's t between units 95%"
RANK_METHOD = "places left open by adjusted comparisons of all pairs, 95%"
_DIFFERENCE = MetricKind("pair_difference", Quantity.NUMBER, (Topic.PAIRS,), label="difference").defined_as(
    "Mean {of} of the first minus that of the second, paired by unit, for all pairs of values of an attribute; n "
    "counts items of both."
)
_P = MetricKind("pair_p", Quantity.P_VALUE, (Topic.PAIRS,), label="adjusted p").defined_as(
    "Two-sided p that both means are equal, of Student's t-test between units, adjusted for all pairs by {adjusted}; n "
    "counts items of both."
)
_RANK = MetricKind("rank", Quantity.NUMBER, (Topic.RANKS,)).defined_as(
    "Place by the mean {of}, 1 is the {best}; the interval has each place that the adjusted comparisons with all "
    "others leave open (Mohamad, Goeman and van Zwet 2019); n counts items."
)
_STABILITY = MetricKind("rank_stability", Quantity.SHARE, (Topic.RANKS,), interval=False).defined_as(
    "Subgroups of items without which the rank stays the same / subgroups; n counts subgroups."
)
_DETECTABLE = MetricKind(
    "detectable_difference", Quantity.NUMBER, (Topic.RANKS,), label="smallest difference to be found", interval=False
).defined_as(
    "Difference of two means that a test at 5 % finds with a probability of 80 %, with the median standard error of "
    "all pairs; n counts items."
)


@dataclass(frozen=True)
class ComparedRaters:
    """Values that are compared with each other.

    Attributes:
        names: of the values, such as models.
        scores: float64[items, values], NaN where an item does not belong to a value.
        units: of the items.
        measure: what the scores are; `best`: highest or lowest.
    """

    names: tuple[str, ...]
    scores: Floats
    units: Units
    measure: str = "score"
    best: str = "highest"

    @classmethod
    def of_parts(
        cls, values: Floats, parts: Mapping[str, Bools], units: Units, *, measure: str = "score"
    ) -> "ComparedRaters":
        """Return the family of the parts bool[items] of items with float64[items] `values`."""
        names = tuple(name for name, members in parts.items() if (~np.isnan(values[members])).any())
        columns = [np.where(parts[name], values, np.nan) for name in names]
        return cls(names, np.stack(columns, axis=1) if columns else np.zeros((len(values), 0)), units, measure)

    def where(self, items: Bools) -> "ComparedRaters":
        """Return the family of some items, bool[items]."""
        return replace(self, scores=self.scores[items], units=self.units.of(items))

    @property
    def means(self) -> Floats:
        """float64[values], NaN without an item."""
        n = (~np.isnan(self.scores)).sum(0)
        means: Floats = np.divide(np.nansum(self.scores, 0), n, out=np.full(len(n), np.nan), where=n > 0)
        return means

    @property
    def ranks(self) -> NDArray[np.int64]:
        """int64[values], places by the mean, from 1; equal means share the first of their places."""
        means = self.means if self.best == "highest" else -self.means
        return np.asarray(1 + (means[None, :] > means[:, None] + 1e-12).sum(1), np.int64)

    def errors(self) -> Floats:
        """Return float64[values, values], the standard error of each difference, over units."""
        rated = ~np.isnan(self.scores)
        deviation = np.where(rated, self.scores - self.means, 0) / np.maximum(rated.sum(0), 1)
        used = np.asarray(rated.any(1))
        sums = self.units.of(used).sums(deviation[used])
        products = sums.T @ sums
        spread = np.diag(products)
        count = len(sums)
        variance = np.maximum(spread[:, None] + spread[None, :] - 2 * products, 0) * count / max(count - 1, 1)
        return np.sqrt(variance)


def adjusted(p: Sequence[float], adjustment: str) -> Floats:
    """Return float64[n], p-values adjusted for being tested together.

    Args:
        p: float64[n] in [0, 1].
        adjustment: one of `ADJUSTMENTS`.
    """
    values = np.asarray(p, np.float64)
    order, n = np.argsort(values), len(values)
    if adjustment == HOLM:
        steps = np.maximum.accumulate(values[order] * np.arange(n, 0, -1))
    else:
        steps = np.minimum.accumulate((values[order] * n / np.arange(1, n + 1))[::-1])[::-1]
    result = np.empty(n)
    result[order] = np.minimum(steps, 1)
    return result


def family_metrics(
    family: ComparedRaters, *, adjustment: str, subgroups: Mapping[str, Mapping[str, Bools]] | None = None
) -> Iterator[Metric]:
    """Yield the differences of all pairs, adjusted p-values, ranks, their stability, and the detectable difference.

    Use them to say which of several models is better. Two that cannot be distinguished are not equal: more pictures may
    distinguish them.

    Args:
        adjustment: `holm` or `benjamini_hochberg`.
        subgroups: attribute -> value -> bool[items], each of which is left out in turn.

    Undefined: fewer than 5 units, or no variance between them.
    """
    size = len(family.names)
    if not 2 <= size <= MOST:
        return
    rated = ~np.isnan(family.scores)
    means, errors = family.means, family.errors()
    pairs = [
        _Pair(a, b, family.units.of(rated[:, a] | rated[:, b]).count, float(means[a] - means[b]), float(errors[a, b]))
        for a, b in combinations(range(size), 2)
    ]
    tested = [pair for pair in pairs if pair.is_testable]
    for pair, p in zip(tested, adjusted([pair.p for pair in tested], adjustment), strict=True):
        pair.adjusted = float(p)
    for pair in pairs:
        n = int(rated[:, [pair.first, pair.second]].sum())
        yield from _of_pair(family, pair, n, adjustment)
    if not tested:
        return
    yield from _ranks(family, tested, rated, subgroups or {})
    error = float(np.median([pair.error for pair in tested]))
    value = (student(min(pair.units for pair in tested)) + POWER_Z) * error
    reason = "no interval: a property of the design"
    yield exact(_DETECTABLE, value, int(rated.sum()), coverage=1.0, reason=reason, dims={"part": "any two"})


@dataclass
class _Pair:
    """A difference of two values: its units, standard error, and adjusted p-value (None: not tested)."""

    first: int
    second: int
    units: int
    difference: float
    error: float
    adjusted: float | None = None

    @property
    def is_testable(self) -> bool:
        return self.units >= MIN_UNITS and self.error > 1e-12 * max(1.0, abs(self.difference))

    @property
    def p(self) -> float:
        from scipy.special import stdtr  # scipy.stats takes seconds to import

        return float(2 * stdtr(self.units - 1, -abs(self.difference) / self.error))


def _of_pair(family: ComparedRaters, pair: _Pair, n: int, adjustment: str) -> Iterator[Metric]:
    dims = {"first": family.names[pair.first], "second": family.names[pair.second]}
    kind = _DIFFERENCE.worded(of=family.measure)
    if pair.adjusted is None:
        few = pair.units < MIN_UNITS
        reason = f"fewer than {MIN_UNITS} {family.units.name} ({pair.units})" if few else "no variance between units"
        yield undefined(kind, reason, n=n, coverage=1.0, dims=dims)
        return
    half = student(pair.units) * pair.error
    interval = Interval(pair.difference - half, pair.difference + half, PAIRED_T, units=pair.units)
    metric = estimated(kind, pair.difference, n, coverage=1.0, interval=interval, dims=dims)
    yield replace(metric, reason=_verdict(family, pair))
    words = _P.worded(adjusted=ADJUSTMENTS[adjustment])
    reason = "no interval of a p-value"
    yield replace(exact(words, pair.adjusted, n, coverage=1.0, reason=reason, dims=dims), units=pair.units)


def _verdict(family: ComparedRaters, pair: _Pair) -> str | None:
    assert pair.adjusted is not None
    if pair.adjusted < LEVEL:
        return None
    return f"cannot be distinguished with these {pair.units:,} {family.units.name}"


def _ranks(
    family: ComparedRaters, tested: Sequence[_Pair], rated: Bools, subgroups: Mapping[str, Mapping[str, Bools]]
) -> Iterator[Metric]:
    size, sign = len(family.names), 1 if family.best == "highest" else -1
    better, worse = np.zeros(size, np.int64), np.zeros(size, np.int64)  # numbers of values that differ
    for pair in tested:
        if pair.adjusted is not None and pair.adjusted < LEVEL:
            first_wins = sign * pair.difference > 0
            winner, loser = (pair.first, pair.second) if first_wins else (pair.second, pair.first)
            better[loser] += 1
            worse[winner] += 1
    ranks, kind = family.ranks, _RANK.worded(of=family.measure, best=family.best)
    without = {
        f"{attribute} {value}": family.where(~members).ranks
        for attribute, parts in subgroups.items()
        for value, members in parts.items()
        if members.any() and (~np.isnan(family.scores[~members])).any(0).all()
    }
    for place, name in enumerate(family.names):
        n, dims = int(rated[:, place].sum()), {"part": name}
        interval = Interval(1 + float(better[place]), float(size - worse[place]), RANK_METHOD, units=None)
        yield estimated(kind, float(ranks[place]), n, coverage=1.0, interval=interval, dims=dims)
        if without:
            moved = [part for part, others in without.items() if others[place] != ranks[place]]
            shown = ", ".join(moved[:5]) + (", …" if len(moved) > 5 else "")
            reason = "no interval: " + (f"another rank without {shown}" if moved else "the same without any subgroup")
            share = 1 - len(moved) / len(without)
            yield exact(_STABILITY, share, len(without), coverage=1.0, reason=reason, dims=dims)
