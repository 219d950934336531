"""Scores of groups of raters: shares by mean and by any rater, ensembles, subgroups of items, biases of judges.

Century's tables 2, 3 and 12 and figures 12 and 13. An item is what raters judged: a picture, or a response of a model.
It has attributes, such as the sub-region or the model that wrote it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jobs.metrics import intervals
from jobs.metrics.answers import RatingTable
from jobs.metrics.correlation import correlate, correlation_interval
from jobs.metrics.intervals import (
    ALL_EQUAL,
    GROUPS,
    MIN_UNITS,
    Interval,
    Units,
    block_sums,
    bootstrap,
    student,
    too_few,
)
from jobs.metrics.metric import (
    Metric,
    MetricKind,
    Quantity,
    Topic,
    estimated,
    mean_of,
    no_rated_item,
    share_of,
    undefined,
)

Floats = NDArray[np.float64]
Rule = Literal["mean", "any"]
EPSILON = 1e-9  # rounding must not move a mean below a threshold

_LOWEST = MetricKind(
    "share_lowest", Quantity.SHARE, (Topic.SCORES, Topic.VERSIONS), label="share of lowest score", needs_scale=True
).defined_as(
    "Items whose mean score over the group is the lowest of the scale / items with enough ratings of the group "
    "(Century, table 2); n counts items."
)
_SHARE_AT_LEAST = MetricKind(
    "share_at_least",
    Quantity.SHARE,
    (Topic.SCORES, Topic.SCORES_BY_SUBGROUP, Topic.VERSIONS),
    label="share of scores from a threshold",
    detailed="share with {rule} ≥ {threshold}",
    needs_scale=True,
)
_AT_LEAST = {
    "mean": _SHARE_AT_LEAST.defined_as(
        "Items whose mean score over the group is at least the threshold / items with enough ratings of the group "
        "(Century, tables 2, 3 and 12); n counts items."
    ),
    "any": _SHARE_AT_LEAST.defined_as(
        "Items that at least one rater of the group scores at the threshold or higher / items with enough ratings of "
        "the group (Century, table 2); n counts items."
    ),
}
_MEAN = MetricKind(
    "group_mean_score", Quantity.SCORE, (Topic.SCORES, Topic.SCORES_BY_SUBGROUP, Topic.VERSIONS), label="mean"
).defined_as("Mean over items of the mean score over the group; n counts items with enough ratings of the group.")
_AVERAGE = MetricKind(
    "average_of_shares",
    Quantity.SHARE,
    (Topic.SCORES_BY_SUBGROUP,),
    label="share of scores from a threshold, averaged over raters",
    detailed="share ≥ {threshold}, average over {raters} raters",
    needs_scale=True,
).defined_as(
    "Mean over raters, where people count as one rater by their mean, of the share of items scored at least the "
    "threshold (Century, figure 13); n counts items."
)
_SELF = MetricKind("self_preference", Quantity.NUMBER, (Topic.BIASES,)).defined_as(
    "Judge's score minus that of a rater without a stake in the response: mean over responses of the judge's family "
    "minus mean over responses of other families, averaged over such raters: people (by their mean), and judges of "
    "neither the judge's nor the writer's family; n counts responses that one of them scored too."
)
_DELTA = MetricKind("share_difference", Quantity.DIFFERENCE, (Topic.SUBGROUPS,), needs_scale=True).defined_as(
    "Share of items whose mean score over the group is at least the threshold, first value minus second "
    "(Century, table 12); n counts items of both."
)
PER = 100  # slopes are per this many characters
POINTS = 25  # points at which the band around a line is computed
_CORRELATION = MetricKind("length_bias", Quantity.COEFFICIENT, (Topic.BIASES,)).defined_as(
    "{kind} correlation between the length of a response in characters and the mean score of the rater or group "
    "(Century, figure 12); n counts responses."
)
_SLOPE = MetricKind("length_slope", Quantity.NUMBER, (Topic.BIASES,)).defined_as(
    f"Points of the scale by which the mean score of the rater or group changes per {PER} characters of the response: "
    "slope of the least-squares line (Century, figure 12); n counts responses."
)
STUDENT = "Student's t of the least-squares slope 95%, n - 2 degrees of freedom"
SLOPE_JACKKNIFE = "Student's t of the least-squares slope 95%, jackknife over {units}"


def inverted(answers: RatingTable, *, low: float, high: float) -> RatingTable:
    """Return the answers on the inverted scale, for questions where a high score is bad (factual errors, table 3)."""
    return answers.map_scores(lambda scores: low + high - scores)


@dataclass(frozen=True)
class RaterGroup:
    """Raters that are evaluated as one, by the mean of their scores.

    Attributes:
        name: of the group, for dims.
        raters: names of its raters.
        at_least: ratings by the group that an item needs; items with fewer are left out and lower the coverage.
    """

    name: str
    raters: tuple[str, ...]
    at_least: int = 1


def means_of(answers: RatingTable, group: RaterGroup) -> Floats:
    """Return float64[items], the group's mean score of each item, NaN without enough ratings."""
    means, n = answers.means_of(group.raters)
    return np.where(n >= max(group.at_least, 1), means, np.nan)


def share_at_least(answers: RatingTable, group: RaterGroup, threshold: float, *, rule: Rule = "mean") -> Metric:
    """Return the share of items that the group scores at the threshold or higher, by its mean or by any of its raters.

    Use it for prevalence: the mean gives a robust estimate; with any rater, a single concern counts.
    """
    scored = means_of(answers, group)
    rated = ~np.isnan(scored)
    if rule == "any":
        best = answers.of_raters(group.raters).highest()
        scored = np.where(rated, best, np.nan)
    hit = scored[rated] >= threshold - EPSILON
    dims = {"group": group.name, "threshold": f"{threshold:g}", "rule": rule}
    return _share(_AT_LEAST[rule], hit, rated, units=answers.units, group=group, dims=dims)


def share_lowest(answers: RatingTable, group: RaterGroup, lowest: float) -> Metric:
    """Return the share of items to which all ratings of the group give the lowest score ("not at all").

    Use it for scales whose lowest answer means absence.
    """
    scored = means_of(answers, group)
    rated = ~np.isnan(scored)
    hit = scored[rated] <= lowest + EPSILON
    dims = {"group": group.name}
    return _share(_LOWEST, hit, rated, units=answers.units, group=group, dims=dims)


def mean_score(answers: RatingTable, group: RaterGroup) -> Metric:
    """Return the group's mean score over items of equal weight, with a bootstrap interval over units.

    Use it for scores whose differences are comparable; for shares at a threshold, only their order matters.
    """
    scored = means_of(answers, group)
    has_score = ~np.isnan(scored)
    rated = scored[has_score]
    coverage = len(rated) / answers.items if answers.items else None
    if not len(rated):
        return _no_rated_item(_MEAN, group, coverage, {"group": group.name})
    units, dims = answers.units.of(has_score), {"group": group.name}
    return mean_of(_MEAN, rated, units, coverage=coverage, dims=dims)


def group_scores(
    answers: RatingTable, group: RaterGroup, thresholds: Sequence[float], *, lowest: float
) -> Iterator[Metric]:
    """Yield the share of the lowest score, the mean, and the shares at thresholds, of several raters also by any."""
    yield share_lowest(answers, group, lowest)
    yield mean_score(answers, group)
    for threshold in thresholds:
        yield share_at_least(answers, group, threshold)
        if len(group.raters) > 1:
            yield share_at_least(answers, group, threshold, rule="any")


def average_of_shares(answers: RatingTable, groups: Sequence[RaterGroup], threshold: float) -> Metric:
    """Return the mean over groups of their shares by mean, as in the cells of Century's figure 13.

    Groups without an item with enough ratings are left out. Undefined: no group is left.
    """
    hits, rated = [], []
    for group in groups:
        scored = means_of(answers, group)
        rated.append(~np.isnan(scored))
        hits.append(np.nan_to_num(scored, nan=-np.inf) >= threshold - EPSILON)
    dims = {"threshold": f"{threshold:g}", "raters": str(len(groups))}
    anyone = np.any(rated, axis=0) if rated else np.zeros(0, bool)
    n, coverage = int(anyone.sum()), float(anyone.mean()) if len(anyone) else None
    if not n:
        return undefined(_AVERAGE, "no rating is ok", coverage=coverage, status="missing_input", dims=dims)
    columns = np.concatenate([np.stack(hits), np.stack(rated)]).T.astype(np.float64)[anyone]
    half = len(groups)

    def average(sums: Floats) -> Floats:
        return np.asarray(np.nanmean(sums[:, :half] / sums[:, half:], axis=1))

    with np.errstate(invalid="ignore"):
        value = float(average(columns.sum(0)[None])[0])
    return estimated(
        _AVERAGE, value, n, coverage=coverage, interval=bootstrap(columns, average, answers.units.of(anyone)), dims=dims
    )


def difference(
    answers: RatingTable,
    group: RaterGroup,
    threshold: float | None,
    first: NDArray[np.bool_],
    second: NDArray[np.bool_],
) -> Metric:
    """Return the share at the threshold or higher among items bool[items] `first`, minus that among `second`.

    Undefined: one of them has no item with enough ratings, or `threshold` is None because none is on the scale.
    """
    if threshold is None:
        return undefined(_DELTA, "no threshold is on the scale", dims={"group": group.name})
    scored = means_of(answers, group)
    dims = {"group": group.name, "threshold": f"{threshold:g}"}
    hit = np.where(np.isnan(scored), np.nan, scored >= threshold - EPSILON)
    parts = [np.where(chosen, hit, np.nan) for chosen in (first, second)]
    n_a, n_b = (int((~np.isnan(part)).sum()) for part in parts)
    asked = int((first | second).sum())
    coverage = (n_a + n_b) / asked if asked else None
    if not n_a or not n_b:
        return _no_rated_item(_DELTA, group, coverage, dims)
    value = float(np.nanmean(parts[0]) - np.nanmean(parts[1]))
    interval = intervals.difference(parts[0], parts[1], answers.units)
    return estimated(_DELTA, value, n_a + n_b, coverage=coverage, interval=interval, dims=dims)


def self_preference(
    answers: RatingTable,
    judge: str,
    others: Sequence[RaterGroup],
    *,
    own_family: NDArray[np.bool_],
    written: NDArray[np.bool_],
    neutral: Mapping[str, NDArray[np.bool_]],
) -> Metric:
    """Return how much more a judge prefers responses of its family than raters without a stake in them do.

    Each other rater is compared with the judge on the responses in which it has no stake, and needs some of both kinds:
    what the two differ by in general, such as a strict rater, then cancels. Other judges of the writers' families would
    bring in their own preference.

    Args:
        others: raters to compare with: people as one rater, and judges of other families.
        own_family: bool[items], responses written by the judge's family.
        written: bool[items], responses whose writer's family is known.
        neutral: name of a rater in `others` -> bool[items], responses among these in which it has no stake.

    Undefined: the judge scored no response of its family, or none of others; or no other rater without a stake scored
    some of both.
    """
    scores = means_of(answers, RaterGroup(judge, (judge,)))
    sums, used = [], np.zeros(answers.items, bool)
    for other in others:
        gap = scores - means_of(answers, other)
        compared = ~np.isnan(gap) & neutral[other.name]
        of_family, of_others = compared & own_family, compared & ~own_family
        if of_family.any() and of_others.any():
            used |= compared
            sums += [np.where(side, part, 0.0) for side in (of_family, of_others) for part in (np.nan_to_num(gap), 1.0)]
    coverage = float(used.sum() / written.sum()) if written.any() else None
    if not sums:
        scored = written & ~np.isnan(scores)
        reason = _no_neutral_rater(scored & own_family, scored & ~own_family)
        return undefined(_SELF, reason, coverage=coverage, dims={"rater": judge})
    rows = np.stack(sums, axis=1)[used]

    def preference(sums: Floats) -> Floats:
        by_other = sums.reshape(len(sums), -1, 4)
        differences = by_other[:, :, 0] / by_other[:, :, 1] - by_other[:, :, 2] / by_other[:, :, 3]
        return np.asarray(differences.mean(1))

    units, is_own = answers.units.of(used), own_family[used]
    sides = ((is_own, "its family"), (~is_own, "other families"))
    fewest, family = min((units.of(side).count, name) for side, name in sides)
    return estimated(
        _SELF,
        float(preference(rows.sum(0)[None])[0]),
        len(rows),
        coverage=coverage,
        interval=bootstrap(
            rows, preference, units, fewest=fewest, unit_name=f"{units.name} with responses of {family}"
        ),
        dims={"rater": judge},
    )


def _no_neutral_rater(of_family: NDArray[np.bool_], of_others: NDArray[np.bool_]) -> str:
    """Return why a judge that scored these responses of its family and of other families has no self-preference."""
    for scored, family in ((of_family, "its family"), (of_others, "other families")):
        if not scored.any():
            return f"the judge scored no response of {family}"
    return (
        "no rater without a stake (people, or a judge of neither the judge's nor the writer's family) scored responses "
        "of the judge's family and of another"
    )


def shares(
    answers: RatingTable, groups: Sequence[RaterGroup], threshold: float, *, averaged: Sequence[RaterGroup]
) -> list[Metric]:
    """Return the share at the threshold by the mean of each group, and the average over groups of figure 13.

    Args:
        averaged: the groups of the average: each model, and people as one group; there is none of a single group.
    """
    metrics = [share_at_least(answers, group, threshold) for group in groups]
    return metrics + ([average_of_shares(answers, averaged, threshold)] if len(averaged) > 1 else [])


def marked(metric: Metric, minimum: int, *, n: int | None = None) -> Metric:
    """Return the metric, with a remark in its reason if it is computed from fewer than `minimum` units (pictures).

    Args:
        n: number of units, if the metric rests on others than its interval.
    """
    counted = n if n is not None else metric.n if metric.units is None else metric.units
    if metric.value is None or counted >= minimum:
        return metric
    return replace(
        metric, reason="; ".join(filter(None, (metric.reason, f"fewer than {minimum}: interpret with caution")))
    )


def _share(
    kind: MetricKind,
    hit: NDArray[np.bool_],
    rated: NDArray[np.bool_],
    *,
    units: Units,
    group: RaterGroup,
    dims: dict[str, str],
) -> Metric:
    """Return the share of bool[rated items] `hit`; `rated` and `units` are those of all items."""
    coverage = float(rated.mean()) if len(rated) else None
    if not rated.any():
        return _no_rated_item(kind, group, coverage, dims)
    return share_of(kind, hit, units.of(rated), coverage=coverage, dims=dims)


def _no_rated_item(kind: MetricKind, group: RaterGroup, coverage: float | None, dims: dict[str, str]) -> Metric:
    reason = no_rated_item(group.name, at_least=group.at_least)
    return undefined(kind, reason, coverage=coverage, status="missing_input", dims=dims)


@dataclass(frozen=True)
class LengthFit:
    """The least-squares line of scores on lengths.

    Attributes:
        slope, intercept: score = intercept + slope * characters.
        low, high: 95 % interval of the slope; None with fewer than 5 units or if all responses are on the line.
        x, band_low, band_high: 95 % interval of the line at ascending lengths; empty without an interval.
    """

    slope: float
    intercept: float
    low: float | None
    high: float | None
    x: Floats
    band_low: Floats
    band_high: Floats


def length_fit(lengths: Floats, scores: Floats, units: Units | None = None) -> LengthFit | None:
    """Return the line of float64[n] scores on float64[n] lengths without NaN; None if all lengths are equal or n < 3.

    If each response is a unit, the intervals assume errors of equal variance; otherwise their standard errors are those
    of a jackknife over units.
    """
    n = len(lengths)
    if n < 3 or not np.ptp(lengths):
        return None
    center = lengths.mean()
    spread = float(((lengths - center) ** 2).sum())
    slope = float(((lengths - center) * (scores - scores.mean())).sum()) / spread
    intercept = float(scores.mean() - slope * center)
    residuals = scores - intercept - slope * lengths
    deviation = float(np.sqrt((residuals**2).sum() / (n - 2)))
    empty = np.zeros(0)
    units = units or Units.single(n)
    x = np.linspace(lengths.min(), lengths.max(), POINTS)
    if units.count < MIN_UNITS or deviation < EPSILON:
        return LengthFit(slope, intercept, None, None, empty, empty, empty)
    if units.are_rows:
        from scipy.stats import t

        width = float(t.ppf(0.975, n - 2)) * deviation
        half, of_slope = width * np.sqrt(1 / n + (x - center) ** 2 / spread), width / float(np.sqrt(spread))
    else:
        without = _lines_without_units(lengths - center, scores, units)
        if not np.isfinite(without).all():
            return LengthFit(slope, intercept, None, None, empty, empty, empty)
        groups, centred = len(without), without - without.mean(0)
        covariance = student(groups) ** 2 * (groups - 1) / groups * centred.T @ centred
        at = np.stack([np.ones(POINTS), x - center], axis=1)
        half, of_slope = np.sqrt(((at @ covariance) * at).sum(1)), float(np.sqrt(covariance[1, 1]))
    middle = intercept + slope * x
    return LengthFit(slope, intercept, slope - of_slope, slope + of_slope, x, middle - half, middle + half)


def _lines_without_units(x: Floats, y: Floats, units: Units) -> Floats:
    """Return float64[groups, 2], intercept and slope of the lines without each group of units; NaN without variance."""
    sums = block_sums(np.stack([np.ones(len(x)), x, y, x * x, x * y], axis=1), units, most=GROUPS)
    n, x_, y_, xx, xy = (sums.sum(0) - sums).T
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (n * xy - x_ * y_) / (n * xx - x_ * x_)
        return np.stack([(y_ - slope * x_) / n, slope], axis=1)


def length_bias(answers: RatingTable, group: RaterGroup, lengths: Floats) -> Iterator[Metric]:
    """Yield the Pearson and Spearman correlation of the group's mean score with the responses' lengths, and the slope.

    Use it to see whether judges reward long responses.

    Args:
        lengths: float64[items], characters, NaN where unknown.

    Undefined: fewer than three responses, or all have the same length or, for correlations, the same score.
    """
    x, y, units = scored_lengths(answers, group, lengths)
    n = len(x)
    coverage = n / answers.items if answers.items else None
    for kind in ("pearson", "spearman"):
        metric_kind, dims = _CORRELATION.worded(kind=kind.capitalize()), {"group": group.name, "kind": kind}
        r = correlate(x, y, kind)
        if r is None:
            reason = _few(n) or "all responses have the same length or the same score"
            yield undefined(metric_kind, reason, n=n, coverage=coverage, dims=dims)
            continue
        interval = correlation_interval(x, y, kind, units)
        yield estimated(metric_kind, r, n, coverage=coverage, interval=interval, dims=dims)
    dims = {"group": group.name}
    if (fit := length_fit(x, y, units)) is None:
        reason = _few(n) or "all responses have the same length"
        yield undefined(_SLOPE, reason, n=n, coverage=coverage, dims=dims)
        return
    if fit.low is None or fit.high is None:
        interval = too_few(units.count, units.name) or Interval(reason=ALL_EQUAL, units=units.count)
    else:
        method = STUDENT if units.are_rows else SLOPE_JACKKNIFE.format(units=units.name)
        interval = Interval(fit.low * PER, fit.high * PER, method, units=units.count)
    yield estimated(_SLOPE, fit.slope * PER, n, coverage=coverage, interval=interval, dims=dims)


def scored_lengths(answers: RatingTable, group: RaterGroup, lengths: Floats) -> tuple[Floats, Floats, Units]:
    """Return the lengths, the group's mean scores, and the units of the responses that have both."""
    scores = means_of(answers, group)
    both = ~np.isnan(scores) & ~np.isnan(lengths)
    return lengths[both], scores[both], answers.units.of(both)


def _few(n: int) -> str:
    return f"{n} responses: at least 3 are needed" if n < 3 else ""
