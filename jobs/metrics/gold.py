"""Metrics of models against gold answers, and against people answer by answer."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import (
    OF_F1,
    Interval,
    ShareSums,
    Units,
    average_of_sums,
    blocks,
    estimate,
    f1_of,
    jackknife_of_sums,
    no_interval,
    ratio,
    too_few,
)
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, exact, mean_of, share_of, undefined

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Average = Literal["micro", "macro", "samples"]
AVERAGES: tuple[Average, ...] = ("micro", "macro", "samples")
EPSILON = 1e-9
# Per label, for the interval of a macro average: with 1.5, it contained F1 in 87 % of simulated data sets.
FEW_POSITIVES = 2
WELCH_T = "welch t 95%"
UNITS_T = "Student's t between units 95%"

OVER = {
    "micro": "all pairs of item and label pooled",
    "macro": "mean over labels, leaving out those where it is 0 / 0",
    "samples": "mean over items, leaving out those where it is 0 / 0",
}
_ACCURACY = MetricKind("accuracy", Quantity.SHARE, (Topic.GOLD,)).defined_as(
    "Items whose answer is among the right ones / items answered; n counts items."
)
_LABELS = {
    name: MetricKind(name, Quantity.FRACTION, (Topic.GOLD,), label=label).defined_as(
        f"{name}: {rate}; {{over}} (as in scikit-learn with zero_division=nan; CAIRE, table 1); positive: "
        "{positive}; n counts {counted}."
    )
    for name, label, rate in (
        ("precision", "", "true positives / predicted positives"),
        ("recall", "", "true positives / positives in gold"),
        ("f1", "F1", "harmonic mean of precision and recall"),
    )
}
_WITHOUT_GOLD = MetricKind("without_gold", Quantity.SHARE, (Topic.WITHOUT_GOLD,), interval=False).defined_as(
    "Rated items whose right answers are unknown, which the metrics against gold leave out / rated items; an item of "
    "which no label is right is not among them; n counts items."
)
_PART_MEAN = MetricKind("part_mean", Quantity.SCORE, (Topic.SUBGROUPS,), label="mean", interval=False).defined_as(
    "Mean score of the part's {counted} (Rome, table 3); n counts {counted}."
)
_PART_SD = MetricKind("part_sd", Quantity.NUMBER, (Topic.SUBGROUPS,), label="SD", interval=False).defined_as(
    "Standard deviation (n - 1) of the part's scores (Rome, table 3); n counts {counted}."
)
_WELCH_DIFFERENCE = MetricKind("mean_difference", Quantity.NUMBER, (Topic.SUBGROUPS,)).defined_as(
    "Mean score of the first part minus the second; n counts {counted} of both."
)
_WELCH = MetricKind("welch_p", Quantity.P_VALUE, (Topic.SUBGROUPS,), label="Welch’s p").defined_as(
    "Two-sided p that the mean score of both parts is equal, of Welch's t-test (Welch 1947; Rome, table 3), or of "
    "Student's between units if a unit has several {counted}; n counts {counted} of both."
)
_PREFERENCE = MetricKind("preference_agreement", Quantity.SHARE, (Topic.WITH_PEOPLE,)).defined_as(
    "People's answers that equal the model's / people's answers to items that the model answered (Rome, table 2); n "
    "counts people's answers."
)
_DEVIATION = MetricKind("deviation_share", Quantity.SHARE, (Topic.DEVIATIONS,)).defined_as(
    "People's ratings from which the model's score differs by this much / people's ratings of items that the model "
    "scored (Rome, figure 3); n counts people's ratings."
)
_MEAN_DEVIATION = MetricKind(
    "mean_deviation", Quantity.NUMBER, (Topic.WITH_PEOPLE,), label="mean deviation from people"
).defined_as(
    "Mean of the model's score minus a person's, over people's ratings (Rome, figure 3); n counts people's ratings."
)


def classification(
    gold: ArrayLike,
    predicted: ArrayLike,
    item: ArrayLike,
    label: ArrayLike,
    *,
    positive: str = "as given",
    asked: int | None = None,
    units: Units | None = None,
) -> Iterator[Metric]:
    """Yield precision, recall and F1 of a multi-label task, micro, macro and samples averages.

    Micro averages have Wilson's interval, the others that of `average_of_sums`.

    Use them for labels that hold or do not hold for an item. The macro average gives each label the same weight, the
    micro average each pair of item and label, the samples average each item.

    Args:
        gold, predicted: bool[n], whether the label holds for the item, and whether the model predicts it.
        item, label: int64[n], codes of the pairs; a pair occurs once.
        positive: when a label counts as predicted and as right, for the definition.
        asked: number of pairs that were asked about, for the coverage.
        units: the independent units of the pairs; None: the items.

    Undefined: the denominator is 0 (nothing predicted as positive, or nothing positive in gold) for every label or item
    of the average.
    """
    right, claimed = np.asarray(gold, bool), np.asarray(predicted, bool)
    items, labels = np.asarray(item, np.int64), np.asarray(label, np.int64)
    coverage = len(right) / asked if asked else None
    cells, units = outcomes(right, claimed), units or Units(items)
    for average in AVERAGES:
        drawn = _drawn(cells, items, labels, average, units)
        for name, of_rate in _LABELS.items():
            value, n, interval = _averaged(drawn, name, average)
            counted = {"micro": "pairs", "macro": "labels", "samples": "items"}[average]
            kind = of_rate.worded(over=OVER[average], counted=counted, positive=positive)
            count = len(right) if average == "micro" else n
            if value is None:
                reason = "no pair of item and label" if not len(right) else _zero_denominator(name)
                yield undefined(kind, reason, n=len(right), coverage=coverage, dims={"average": average})
                continue
            dims = {"average": average}
            yield estimated(kind, value, count, coverage=coverage, interval=interval, dims=dims)


def f1(cells: Floats, items: NDArray[np.int64], labels: NDArray[np.int64], average: Average) -> float | None:
    """Return F1 of float64[n, 3] `outcomes` of pairs of item and label, without an interval; None if undefined."""
    if not len(cells):
        return None
    drawn = _drawn(cells, items, labels, average, Units(items))
    if average == "samples":
        rates, defined = _defined(_rate(drawn.rows, "f1"))
        return float(rates.sum() / defined.sum()) if defined.any() else None
    value = float(_mean_rate(drawn.rows.sum(0)[None], drawn.shape, "f1", average)[0])
    return None if np.isnan(value) else value


def outcomes(right: Bools, predicted: Bools) -> Floats:
    """Return float64[n, 3]: whether each label is a true, a false or a missed positive."""
    return np.stack([right & predicted, ~right & predicted, right & ~predicted], axis=1).astype(np.float64)


def f1_compared(
    before: Floats,
    after: Floats,
    items: NDArray[np.int64],
    labels: NDArray[np.int64],
    average: Average,
    *,
    comparison: Literal["change", "ratio"],
    units: Units | None = None,
) -> tuple[float | None, Interval]:
    """Return F1 of `after` minus, or divided by, F1 of `before`, and its jackknife interval over units.

    The value is None if one F1 is undefined, or the divisor 0.

    Args:
        before, after: float64[n, 3] from `outcomes`, of the same pairs of item and label.
        items, labels: int64[n], codes of the pairs.
        units: of the pairs; None: the items.
    """
    if not len(items):
        return None, no_interval("no value")
    both = np.concatenate([before, after], axis=1)
    drawn = _drawn(both, items, labels, average, units or Units(items))
    # columns are true, false and missed positives of `before`, then of `after`, of each label for the macro average
    cells = drawn.rows.reshape(len(drawn.rows), -1, 6)
    first, second = (cells[..., part].reshape(len(cells), -1) for part in (slice(0, 3), slice(3, 6)))
    shape = drawn.shape
    if average == "samples":
        columns = [rows for cells in (first, second) for rows in _defined(_rate(cells, "f1"))]
        rows, width = np.stack(columns, axis=1), 2
    else:
        rows, width = np.concatenate([first, second], axis=1), first.shape[1]

    def f1(sums: Floats) -> Floats:
        return sums[:, 0] / sums[:, 1] if average == "samples" else _mean_rate(sums, shape, "f1", average)

    def compared(sums: Floats) -> Floats:
        second, first = f1(sums[:, width:]), f1(sums[:, :width])
        return second - first if comparison == "change" else np.where(first > 0, second / first, np.nan)

    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(compared(rows.sum(0)[None])[0])
    if np.isnan(value):
        return None, no_interval("no value")
    bounds = (-1.0, 1.0) if comparison == "change" else (0.0, math.inf)
    return value, replace(jackknife_of_sums(rows, compared, drawn.units, bounds=bounds), units=drawn.count)


def _defined(rates: Floats) -> tuple[Floats, Floats]:
    """Return the rates with 0 for NaN, and whether each is defined."""
    defined = ~np.isnan(rates)
    return np.where(defined, rates, 0.0), defined.astype(np.float64)


def _zero_denominator(name: str) -> str:
    return {"precision": "nothing was predicted as positive", "recall": "nothing is positive in gold"}.get(
        name, "nothing is positive, in gold or as predicted"
    )


@dataclass(frozen=True)
class _Drawn:
    """Sums of cells, for intervals.

    Attributes:
        rows: float64[items, 3]; for the macro average float64[blocks of units, labels x 3], because items x labels may
            not fit in memory.
        shape: of the cells of one row: (-1, 3) or (-1, labels, 3).
        units: of the rows; count: number of all units.
    """

    rows: Floats
    shape: tuple[int, ...]
    units: Units
    count: int


def _drawn(
    cells: Floats, items: NDArray[np.int64], labels: NDArray[np.int64], average: Average, units: Units
) -> _Drawn:
    """Return float64[n, k] cells of pairs summed by item, or for the macro average by block of units and label."""
    width = cells.shape[1]
    if average == "macro" and len(items):
        _, column = np.unique(labels, return_inverse=True)
        block, columns = blocks(cells, units), int(column.max()) + 1
        sums = np.zeros((int(block.max()) + 1, columns, width))
        np.add.at(sums, (block, column), cells)
        rows = sums.reshape(len(sums), columns * width)
        return _Drawn(rows, (-1, columns, 3), Units.single(len(rows), units.name), units.count)
    _, first = np.unique(items, return_index=True)
    return _Drawn(Units(items).sums(cells) if len(items) else cells, (-1, 3), units.of(first), units.count)


def _rate(cells: Floats, name: str) -> Floats:
    """Return precision, recall or F1 of float64[…, 3] true, false and missed positives; NaN for 0 / 0."""
    right, wrong, missed = cells[..., 0], cells[..., 1], cells[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        if name == "precision":
            return np.asarray(right / (right + wrong))
        if name == "recall":
            return np.asarray(right / (right + missed))
        return np.asarray(2 * right / (2 * right + wrong + missed))


def _mean_rate(sums: Floats, shape: tuple[int, ...], name: str, average: Average) -> Floats:
    """Return the rate of each row of summed cells; for the macro average its mean over labels where it is defined."""
    rates = _rate(sums.reshape(shape), name)
    if average == "micro":
        return rates
    defined = ~np.isnan(rates)
    return np.asarray(np.where(defined, rates, 0).sum(1) / defined.sum(1))


def _averaged(drawn: _Drawn, name: str, average: Average) -> tuple[float | None, int, Interval]:
    """Return the value (None: undefined), the number of labels or items it averages, and its interval."""
    rows, shape = drawn.rows, drawn.shape
    undefined_value = None, 0, no_interval("no value")
    if not len(rows):
        return undefined_value
    if average == "samples":
        by_item = _rate(rows, name)
        is_defined = ~np.isnan(by_item)
        defined = by_item[is_defined]
        if not len(defined):
            return undefined_value
        rates = np.stack([defined, np.ones_like(defined)], 1)
        interval = average_of_sums(rates, ratio, drawn.units.of(is_defined))
        return float(defined.mean()), len(defined), interval

    def statistic(sums: Floats) -> Floats:
        return _mean_rate(sums, shape, name, average)

    total = rows.sum(0)[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(total)[0])
    n = int((~np.isnan(_rate(total.reshape(shape), name))).sum())
    if np.isnan(value):
        return undefined_value
    if average == "micro":
        return value, n, _micro_interval(rows, name, drawn.units)
    positives = float(total.reshape(shape)[..., [0, 2]].sum()) / n
    few = f"gold has fewer than {FEW_POSITIVES} positive items per label ({positives:.1f})"
    interval = average_of_sums(rows, statistic, drawn.units) if positives >= FEW_POSITIVES else no_interval(few)
    return value, n, replace(interval, units=drawn.count)


def _micro_interval(rows: Floats, name: str, units: Units) -> Interval:
    """Return the interval of a rate of float64[n, 3] true, false and missed positives, all pooled.

    Precision and recall are shares; F1 = 2 J / (1 + J), where J, the Jaccard index, is one.
    """
    trials = rows.sum(1) - {"precision": rows[:, 2], "recall": rows[:, 1], "f1": 0.0}[name]
    sums = units.sums(np.stack([rows[:, 0], trials], axis=1))
    interval = ShareSums.of(sums[sums[:, 1] > 0]).interval(units.name)
    if name != "f1" or interval.low is None or interval.high is None:
        return interval
    return replace(interval, low=f1_of(interval.low), high=f1_of(interval.high), method=OF_F1.format(interval.method))


def readings(threshold: float) -> dict[str, Callable[[ArrayLike], Bools]]:
    """Return both readings of "scores greater than 4 (relevant, highly relevant)" (CAIRE, 5.4): name -> predicate of
    scores.

    The sentence says "greater than 4" but lists the answer 4 as positive. Means and expected scores between 4 and 5 are
    positive in both readings. The gold of the paper is a label; gold scores are read in the same way as the answers.
    """
    return {
        f">={threshold:g}": lambda scores: np.asarray(scores, np.float64) >= threshold - EPSILON,
        f">{threshold:g}": lambda scores: np.asarray(scores, np.float64) > threshold + EPSILON,
    }


def without_gold(judged: int, rated: int) -> Metric:
    """Return the share of rated items whose right answers are unknown. Use it to see what the other metrics leave out.

    Args:
        judged: number of rated items with known right answers; rated: number of rated items.

    Undefined: nothing was rated.
    """
    if not rated:
        return undefined(_WITHOUT_GOLD, "no item was rated", status="missing_input")
    interval = no_interval("a share of these items, not of a sample")
    return estimated(_WITHOUT_GOLD, 1 - judged / rated, rated, coverage=1.0, interval=interval)


def accuracy(right: ArrayLike, *, asked: int | None = None, units: Units | None = None) -> Metric:
    """Return the share of bool[items] that are right. Use it for categories with known right answers.

    Args:
        asked: number of items with a right answer, for the coverage.
        units: of the items; None: each item is one.

    Undefined: no item was answered.
    """
    hits_and_misses = np.asarray(right, bool)
    coverage = len(hits_and_misses) / asked if asked else None
    if not len(hits_and_misses):
        return undefined(
            _ACCURACY, "no item with a right answer was answered", coverage=coverage, status="missing_input"
        )
    return share_of(_ACCURACY, hits_and_misses, units, coverage=coverage)


def welch(
    first: ArrayLike,
    second: ArrayLike,
    *,
    asked: tuple[int, int] | None = None,
    units: Units | None = None,
    counted: str = "items",
) -> Iterator[Metric]:
    """Yield means and standard deviations of two subgroups, the difference with its interval, and Welch's p (Welch
    1947).

    Use it for two disjoint subgroups of items with possibly unequal variances. If several items belong to one unit,
    such as three responses about a picture, the standard error is that between units, and the test Student's.

    Args:
        first, second: float64[items] scores.
        asked: numbers of items of both parts, scored or not, for the coverage; None: all are scored.
        units: of the items of the first part, then of the second; None: each item is one.
        counted: what has a score, in the plural, if not items.

    Undefined: a part has fewer than two items, or neither part has variance.
    """
    parts = [np.asarray(part, np.float64) for part in (first, second)]
    of_difference, of_test, of_mean, of_sd = (
        kind.worded(counted=counted) for kind in (_WELCH_DIFFERENCE, _WELCH, _PART_MEAN, _PART_SD)
    )
    n, in_parts = sum(map(len, parts)), asked or (len(parts[0]), len(parts[1]))
    coverage = n / sum(in_parts) if sum(in_parts) else None
    for position, part, requested in zip(("first", "second"), parts, in_parts, strict=True):
        of_part = len(part) / requested if requested else None
        for kind, enough in ((of_mean, 1), (of_sd, 2)):
            if len(part) < enough:
                reason = f"{len(part)} {counted}: at least {enough} are needed"
                yield undefined(kind, reason, n=len(part), coverage=of_part, dims={"part": position})
                continue
            value, reason = part.mean() if kind is of_mean else part.std(ddof=1), "no interval: see mean_difference"
            yield exact(kind, value, len(part), coverage=of_part, reason=reason, dims={"part": position})
    few = any(len(part) < 2 for part in parts)
    if few or not any(np.ptp(part) for part in parts):
        reason = f"fewer than two {counted} in a part" if few else "no variance in either part"
        yield undefined(of_difference, reason, n=n, coverage=coverage)
        yield undefined(of_test, reason, n=n, coverage=coverage)
        return
    test = _t_test(parts, units or Units.single(n, counted))
    if test is None:
        reason = f"no variance between {units.name if units else counted}"
        yield undefined(of_difference, reason, n=n, coverage=coverage)
        yield undefined(of_test, reason, n=n, coverage=coverage)
        return
    difference = parts[0].mean() - parts[1].mean()
    yield estimated(of_difference, difference, n, coverage=coverage, interval=test.interval)
    reason = f"no interval of a p-value; t = {test.t:.3f}, {test.freedom:.1f} degrees of freedom"
    yield replace(exact(of_test, test.p, n, coverage=coverage, reason=reason), units=test.interval.units)


class _Test(NamedTuple):
    p: float
    t: float
    freedom: float
    interval: Interval


def _t_test(parts: Sequence[Floats], units: Units) -> _Test | None:
    """Return Welch's test of two parts if each row is a unit, else Student's between units; None without variance."""
    from scipy.stats import t, ttest_ind

    first = np.arange(len(units.code)) < len(parts[0])
    few = too_few(min(units.of(rows).count for rows in (first, ~first)), f"{units.name} in a part")
    if units.are_rows:
        test = ttest_ind(*parts, equal_var=False)
        low, high = test.confidence_interval(0.95)
        interval = Interval(float(low), float(high), WELCH_T, units=units.count)
        return _Test(test.pvalue, test.statistic, test.df, few or interval)
    difference = float(parts[0].mean() - parts[1].mean())
    deviations = [(part - part.mean()) / len(part) * sign for part, sign in zip(parts, (1, -1), strict=True)]
    sums = units.sums(np.concatenate(deviations)[:, None])[:, 0]
    error = math.sqrt(units.count / max(units.count - 1, 1) * float(sums @ sums))
    if units.count < 2 or error <= EPSILON:
        return None
    interval = estimate(difference, error, units=units.count, unit_name=units.name, method=UNITS_T)
    p = 2 * float(t.sf(abs(difference / error), units.count - 1))
    return _Test(p, difference / error, units.count - 1, few or interval)


def _pairs(model: RatingTable, people: RatingTable, by: str) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return the model's answer, the person's answer and the item, for each of people's answers to the model's
    items."""
    of_model = np.full(people.items, np.nan)
    answers = model.score if by == "score" else np.where(model.value >= 0, model.value, np.nan)
    of_model[model.item] = answers
    of_people = people.score if by == "score" else np.where(people.value >= 0, people.value, np.nan)
    rows = ~np.isnan(of_model[people.item]) & ~np.isnan(of_people)
    return of_model[people.item[rows]], of_people[rows], people.item[rows]


def preference_agreement(model: RatingTable, people: RatingTable) -> Metric:
    """Return the share of people's answers that equal the model's (Rome, table 2).

    Use it for preferences, such as which of two pictures fits better.

    Args:
        model: answers of one rater; people: answers of any number of raters, over the same items and values.

    Undefined: the model and people answered no common item.
    """
    of_model, of_people, items = _pairs(model, people, "value")
    coverage = len(of_people) / people.n if people.n else None
    if not len(of_people):
        return undefined(_PREFERENCE, "the model and people answered no common item", coverage=coverage)
    return share_of(_PREFERENCE, of_model == of_people, people.units.of(items), coverage=coverage)


def deviations(model: RatingTable, people: RatingTable) -> Iterator[Metric]:
    """Yield the mean and the histogram of a model's score minus a person's (Rome, figure 3).

    Use it to see in which direction and how far a model deviates. The histogram is left out if a difference is not an
    integer.

    Undefined: the model and people scored no common item.
    """
    of_model, of_people, items = _pairs(model, people, "score")
    coverage = len(of_people) / people.n if people.n else None
    if not len(of_people):
        reason = "the model and people scored no common item"
        yield undefined(_MEAN_DEVIATION, reason, coverage=coverage)
        return
    differences = of_model - of_people
    units = people.units.of(items)
    yield mean_of(_MEAN_DEVIATION, differences, units, coverage=coverage)
    steps = np.rint(differences)
    if np.abs(differences - steps).max() > EPSILON:
        return  # means or expected scores: a histogram over points of the scale is not informative
    widest = int(np.abs(steps).max())
    for step in range(-widest, widest + 1):
        dims = {"deviation": f"{step:+d}" if step else "0"}
        yield share_of(_DEVIATION, steps == step, units, coverage=coverage, dims=dims)


class Threshold(NamedTuple):
    """A threshold and the F1 that it gives.

    Attributes:
        value: a label is predicted where its score is at least this.
        f1: of the scores that it was chosen on, all pairs of item and label pooled.
    """

    value: float
    f1: float


def best_threshold(scores: ArrayLike, right: ArrayLike) -> Threshold | None:
    """Return the threshold with the highest F1 (micro average); None if no label is right.

    Use it for scores without a natural threshold, such as log-likelihoods (CAIRE, appendix B.1, which does not explain
    its choice). Choose the threshold on different items than F1 is reported for.

    Args:
        scores: float64[n], finite.
        right: bool[n], whether the label holds.

    The threshold is midway between two neighbouring scores, or the lowest score. If several thresholds have the same
    F1, the highest is returned.
    """
    values, holds = np.asarray(scores, np.float64), np.asarray(right, bool)
    if not holds.any():
        return None
    order = np.argsort(-values, kind="stable")
    values, true = values[order], np.cumsum(holds[order])
    f1 = 2 * true / (np.arange(1, len(values) + 1) + true[-1])
    ends = np.append(values[:-1] > values[1:], True)  # a threshold cannot divide equal scores
    best = int(np.flatnonzero(ends)[np.argmax(f1[ends])])
    below = values[best + 1] if best + 1 < len(values) else values[best]
    return Threshold(_between(values[best], below), float(f1[best]))


def f1_at(scores: ArrayLike, right: ArrayLike, threshold: float) -> float | None:
    """Return F1 (micro average) where a label is predicted if its score is at least `threshold`; None for 0 / 0.

    Args:
        scores: float64[n].
        right: bool[n], whether the label holds.
    """
    predicted, holds = np.asarray(scores, np.float64) >= threshold, np.asarray(right, bool)
    denominator = int(predicted.sum() + holds.sum())
    return 2 * int((predicted & holds).sum()) / denominator if denominator else None


def _between(above: NDArray[np.float64] | float, below: NDArray[np.float64] | float) -> float:
    middle = (float(above) + float(below)) / 2
    return middle if middle > below else float(above)  # neighbouring floats have no number between them
