"""Correlation of a model's scores with people's: overall, within images or countries, and of averages (CAIRE, D).

The arrays of a function have one element per pair of item and target (such as a country): float64[n] of the model's
scores and of people's mean scores, and int64[n] codes of items, targets and concepts.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics import intervals
from jobs.metrics.intervals import Interval, Units, estimate, no_interval
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, undefined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
KINDS = ("pearson", "spearman", "kendall")
MIN_PAIRS = 3
NO_VARIANCE = 1e-9  # variance below this, relative to the sum of squares, is rounding error
OVER_GROUPS = "Student's t 95% over {groups}, standard error s/sqrt(n)"
_DESCRIPTIVE = no_interval("a description of these raters, not an estimate")

_ALL = {
    kind: MetricKind(
        f"{kind}_with_people",
        Quantity.COEFFICIENT,
        (Topic.WITH_PEOPLE,),
        label=f"{kind.capitalize()} with people’s mean",
    ).defined_as(
        f"{kind.capitalize()} correlation of the model's score with people's mean score of the same item and target; n "
        "counts such pairs."
    )
    for kind in KINDS
}
_WITHIN = {  # the group in the singular -> metric
    group: MetricKind(
        f"pearson_by_{group.replace(' ', '_')}", Quantity.COEFFICIENT, (Topic.WITH_PEOPLE,), label=f"Pearson by {word}"
    ).defined_as(
        f"Pearson correlation of the model's score with people's mean within each {group}, averaged over those with at "
        f"least {MIN_PAIRS} pairs and variance of both scores ({source}); n counts the {group}s averaged over."
    )
    for group, word, source in (
        ("image", "picture", "CAIRE, tables 2 and 15"),
        ("target", "target", "CAIRE, table 2"),
        ("concept and target", "concept and target", "CAIRE, section 6: concepts within countries"),
    )
}
_CONCEPT = MetricKind("pearson_concept_average", Quantity.COEFFICIENT, (Topic.WITH_PEOPLE,)).defined_as(
    "Pearson correlation over targets of the model's and of people's scores, both first averaged over the pictures of "
    "a concept; mean over concepts (CAIRE, appendix D.3); n counts concepts."
)
_GLOBAL = MetricKind("pearson_global_average", Quantity.COEFFICIENT, (Topic.WITH_PEOPLE,)).defined_as(
    "Pearson correlation over targets of the model's and of people's scores, both first averaged over all pictures "
    "(CAIRE, appendix D.3); n counts targets."
)
_EACH = {
    name: MetricKind(f"rater_correlation_{name}", unit, (Topic.SINGLE_RATERS,), label=name).defined_as(
        f"{statistic} over raters of the Pearson correlation between the model's and one rater's scores (CAIRE, "
        "appendix D.4); n counts raters with enough items."
    )
    for name, statistic, unit in (
        ("mean", "Mean", Quantity.COEFFICIENT),
        ("max", "Max", Quantity.COEFFICIENT),
        ("min", "Min", Quantity.COEFFICIENT),
        ("median", "Median", Quantity.COEFFICIENT),
        ("sd", "Standard deviation (n - 1)", Quantity.NUMBER),
    )
}
_WITH_AVERAGE = MetricKind("correlation_with_average", Quantity.COEFFICIENT, (Topic.SINGLE_RATERS,)).defined_as(
    "Pearson correlation between the model's scores and the mean over raters of each item (CAIRE, appendix D.4); "
    "n counts items."
)


def correlate(x: Floats, y: Floats, kind: str) -> float | None:
    """Return the correlation (Kendall: tau-b) of two float64[n] arrays; None with fewer than `MIN_PAIRS` pairs or no
    variance."""
    from scipy import stats

    if len(x) < MIN_PAIRS or not np.ptp(x) or not np.ptp(y):
        return None
    if kind == "kendall":
        statistic = float(stats.kendalltau(x, y).statistic)
    else:  # several times as fast as scipy's, which also compute p-values: a jackknife calls it for each group
        a, b = (stats.rankdata(x), stats.rankdata(y)) if kind == "spearman" else (x, y)
        statistic = float(np.corrcoef(a, b)[0, 1])
    return statistic if np.isfinite(statistic) else None


def correlation_interval(x: Floats, y: Floats, kind: str, units: Units) -> Interval:
    """Return the interval of a correlation that `correlate` defines; see `intervals.correlation`."""
    return intervals.correlation(x, y, lambda a, b: correlate(a, b, kind), kind=kind, units=units)


def correlations(
    model: ArrayLike, people: ArrayLike, *, asked: int | None = None, units: Units | None = None
) -> Iterator[Metric]:
    """Yield Pearson, Spearman and Kendall (tau-b) correlation over all pairs, with intervals over units.

    Use them as the main comparison of a model with people: Pearson if differences of scores matter, Spearman or Kendall
    if only their order does.

    Undefined: fewer than three pairs, or no variance of one score.
    """
    x, y = np.asarray(model, np.float64), np.asarray(people, np.float64)
    coverage = len(x) / asked if asked else None
    for kind, metric_kind in _ALL.items():
        value = correlate(x, y, kind)
        if value is None:
            yield undefined(metric_kind, _no_correlation(x, y), n=len(x), coverage=coverage)
            continue
        interval = correlation_interval(x, y, kind, units or Units.single(len(x), "pairs"))
        yield estimated(metric_kind, value, len(x), coverage=coverage, interval=interval)


def within(
    model: Floats, people: Floats, group: Ints, *, group_name: str, units: Units | None = None, asked: int | None = None
) -> Metric:
    """Return the mean over groups of the Pearson correlation within each.

    Use it to see whether a model ranks targets within an image as people do, regardless of differences between images.

    Args:
        group: int64[n], the group of each pair; `group_name`: image, target, or concept and target.
        units: of the pairs; None: the groups. If they are not the groups, the interval is a jackknife over units.
        asked: number of pairs that were asked about, for the coverage, to which pairs outside of the averaged groups do
            not count; None: `n`.

    Undefined: no group has three pairs and variance of both scores.
    """
    kind = _WITHIN[group_name]
    values, pairs = _by_group(model, people, group)
    coverage = _share(int(pairs.sum()), len(model) if asked is None else asked)
    if not len(values):
        reason = f"no {group_name} has {MIN_PAIRS} pairs and variance of both scores"
        return undefined(kind, reason, coverage=coverage)
    interval = None if units is None else _jackknife_within(model, people, group, units)
    return _mean(kind, values, coverage, unit_name=f"{group_name}s", interval=interval)


def _jackknife_within(model: Floats, people: Floats, group: Ints, units: Units) -> Interval | None:
    """Return the interval over units of the mean Pearson correlation within groups; None if groups are the units."""
    _, place = np.unique(group, return_inverse=True)
    if len(np.unique(place * units.count + units.place)) == units.count == int(place.max()) + 1:
        return None
    rows = products(model, people)
    block = intervals.blocks(rows, units, most=intervals.GROUPS)
    sums = np.zeros((int(block.max()) + 1, int(place.max()) + 1, rows.shape[1]))
    np.add.at(sums, (block, place), rows)
    total = sums.sum(0)
    without = _mean_correlation(total - sums)
    return intervals.jackknife(float(_mean_correlation(total)), without, units=units, bounds=(-1.0, 1.0))


def _by_group(model: Floats, people: Floats, group: Ints) -> tuple[Floats, Ints]:
    """Return the defined correlations, and the number of pairs of each group, 0 if its correlation is undefined."""
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    parts = np.split(order, cuts) if len(order) else []
    values = [correlate(model[part], people[part], "pearson") for part in parts]
    pairs = [0 if value is None else len(part) for part, value in zip(parts, values, strict=True)]
    return np.array([v for v in values if v is not None]), np.array(pairs, np.int64)


def concept_average(
    model: Floats, people: Floats, concept: Ints, target: Ints, *, units: Units | None = None, asked: int | None = None
) -> Metric:
    """Return CAIRE's concept-averaged correlation (D.3).

    Use it to compare targets for each concept, without the noise of single pictures.

    Args:
        asked: number of pairs that were asked about, for the coverage; None: `n`.

    Undefined: no concept has three targets and variance of both scores.
    """
    x, y, key = _averaged(model, people, concept, target)
    values, pairs = _by_group(x, y, key)
    averaged = np.unique(key)[pairs > 0]
    used = int(np.isin(concept, averaged).sum())
    coverage = _share(used, len(model) if asked is None else asked)
    if not len(values):
        reason = f"no concept has {MIN_PAIRS} targets and variance of both scores"
        return undefined(_CONCEPT, reason, coverage=coverage)
    interval = None if units is None else _jackknife_averages(model, people, concept, target, units)
    return _mean(_CONCEPT, values, coverage, unit_name="concepts", interval=interval)


def _jackknife_averages(model: Floats, people: Floats, outer: Ints, target: Ints, units: Units) -> Interval:
    """Return the interval over units of the mean over `outer` of the correlation over targets of averages."""
    width = int(target.max()) + 1
    cells, cell = np.unique(outer * width + target, return_inverse=True)
    rows = np.stack([np.ones(len(model)), model, people], axis=1)
    block = intervals.blocks(rows, units, most=intervals.GROUPS)
    sums = np.zeros((int(block.max()) + 1, len(cells), 3))
    np.add.at(sums, (block, cell), rows)
    starts = np.flatnonzero(np.diff(cells // width, prepend=-1))

    def of_averages(summed: Floats) -> Floats:
        n, x, y = np.moveaxis(summed, -1, 0)
        present = np.maximum(n, 1)
        of_cells = np.where(n[..., None] > 0.5, products(x / present, y / present), 0.0)
        return np.add.reduceat(of_cells, starts, axis=-2)

    without = of_averages(sums.sum(0) - sums)
    value = _mean_correlation(of_averages(sums.sum(0)))
    return intervals.jackknife(float(value), _mean_correlation(without), units=units, bounds=(-1.0, 1.0))


def products(x: Floats, y: Floats) -> Floats:
    """Return float64[…, 6]: 1, x, y, x², y² and xy, whose sums determine the Pearson correlation."""
    x, y = (side - (side.mean() if side.size else 0.0) for side in (x, y))  # against cancellation
    return np.stack([np.ones(x.shape), x, y, x * x, y * y, x * y], axis=-1)


def pearson_of_sums(sums: Floats) -> Floats:
    """Return float64[…], correlations of float64[…, 6] sums of `products`.

    They are NaN with fewer than `MIN_PAIRS` pairs or no variance.
    """
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    variances = [n * squares - total * total for squares, total in ((xx, x), (yy, y))]
    flat = (n < MIN_PAIRS - 0.5) | (variances[0] <= NO_VARIANCE * n * xx) | (variances[1] <= NO_VARIANCE * n * yy)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = (n * xy - x * y) / np.sqrt(np.where(flat, np.nan, variances[0] * variances[1]))
    return np.asarray(np.clip(r, -1.0, 1.0))


def _mean_correlation(sums: Floats) -> Floats:
    """Return float64[…], the mean over groups of the correlations of float64[…, groups, 6] sums that are defined."""
    r = pearson_of_sums(sums)
    defined = ~np.isnan(r)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(defined, r, 0).sum(-1) / defined.sum(-1))


def global_average(
    model: Floats, people: Floats, target: Ints, *, asked: int | None = None, units: Units | None = None
) -> Metric:
    """Return CAIRE's global-averaged correlation (D.3).

    Use it to see whether a model favours the same targets as people over the whole corpus.

    Args:
        asked: number of pairs that were asked about, for the coverage; None: unknown.

    Undefined: fewer than three targets, or no variance.
    """
    x, y, _ = _averaged(model, people, np.zeros(len(target), np.int64), target)
    value, n, coverage = correlate(x, y, "pearson"), len(x), _share(len(model), asked)
    if value is None:
        return undefined(_GLOBAL, _no_correlation(x, y), n=n, coverage=coverage)
    if units is None:
        interval = intervals.fisher(value, n, unit_name="targets")
    else:
        interval = _jackknife_averages(model, people, np.zeros(len(target), np.int64), target, units)
    return estimated(_GLOBAL, value, n, coverage=coverage, interval=interval)


def _share(used: int, asked: int | None) -> float | None:
    """Return the share of the pairs that a metric is computed from; None if it is unknown or nothing was asked."""
    return used / asked if asked else None


def _averaged(model: Floats, people: Floats, outer: Ints, target: Ints) -> tuple[Floats, Floats, Ints]:
    """Return the means of both scores by (outer, target), and the outer code of each mean."""
    width = int(target.max(initial=-1)) + 1
    cells, cell = np.unique(outer * width + target, return_inverse=True)
    n = np.bincount(cell) if len(cell) else np.zeros(0)
    means = [np.bincount(cell, side, len(cells)) / n for side in (model, people)]
    return means[0], means[1], cells // max(width, 1)


def against_single_raters(model: Floats, ratings: Floats, *, units: Units | None = None) -> Iterator[Metric]:
    """Yield the statistics of CAIRE, D.4: a model against single raters of one country, and against their mean.

    Use them to see how much single raters differ in their agreement with a model.

    Args:
        model: float64[items], NaN without a score.
        ratings: float64[items, raters], NaN without a rating.
        units: of the items; None: each item is one.

    Undefined: no rater has three common items and variance; the standard deviation also with one rater.
    """
    by_rater = []
    for column in ratings.T:
        both = ~np.isnan(model) & ~np.isnan(column)
        by_rater.append(correlate(model[both], column[both], "pearson"))
    values = np.array([v for v in by_rater if v is not None])
    coverage = len(values) / ratings.shape[1] if ratings.shape[1] else None
    statistics: dict[str, Any] = {"mean": np.mean, "max": np.max, "min": np.min, "median": np.median}
    for name, statistic in statistics.items():
        kind = _EACH[name]
        if not len(values):
            reason = "no rater shares three items with the model on which both scores vary"
            yield undefined(kind, reason, coverage=coverage)
        elif name == "mean":
            yield _mean(kind, values, coverage, unit_name="raters")
        else:
            value = float(statistic(values))
            yield estimated(kind, value, len(values), coverage=coverage, interval=_DESCRIPTIVE)
    if len(values) < 2:
        yield undefined(_EACH["sd"], "fewer than two raters", n=len(values), coverage=coverage)
    else:
        spread = float(values.std(ddof=1))
        yield estimated(_EACH["sd"], spread, len(values), coverage=coverage, interval=_DESCRIPTIVE)
    rated = ~np.isnan(ratings).all(1) & ~np.isnan(model)
    x, y = model[rated], np.nanmean(ratings[rated], axis=1) if rated.any() else np.zeros(0)
    r, share = correlate(x, y, "pearson"), len(x) / len(model) if len(model) else None
    if r is None:
        yield undefined(_WITH_AVERAGE, _no_correlation(x, y), n=len(x), coverage=share)
    else:
        interval = correlation_interval(x, y, "pearson", (units or Units.single(len(model))).of(rated))
        yield estimated(_WITH_AVERAGE, r, len(x), coverage=share, interval=interval)


def _mean(
    kind: MetricKind, values: Floats, coverage: float | None, *, unit_name: str, interval: Interval | None = None
) -> Metric:
    """Return the mean of the correlations `values`: float64[n], one for each group (`unit_name`, in the plural).

    Without `interval`, the groups are independent.
    """
    n, value = len(values), float(values.mean())
    error = float(values.std(ddof=1)) / float(np.sqrt(n)) if np.ptp(values) else 0.0
    if interval is None:
        method = OVER_GROUPS.format(groups=unit_name)
        interval = estimate(value, error, units=n, unit_name=unit_name, method=method, bounds=(-1.0, 1.0))
    return estimated(kind, value, n, coverage=coverage, interval=interval)


def _no_correlation(x: Floats, y: Floats) -> str:
    if len(x) < MIN_PAIRS:
        return f"{len(x)} pairs: at least {MIN_PAIRS} are needed"
    return f"no variance in {'the model’s' if not np.ptp(x) else 'people’s'} scores"
