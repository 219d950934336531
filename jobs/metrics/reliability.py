"""Consistency of raters: intraclass correlations, and correlations between pairs of raters."""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import Interval, Units, estimate, jackknife_of_sums, no_interval, too_few
from jobs.metrics.metric import AGREEMENTS, Metric, MetricKind, Quantity, estimated, undefined

Floats = NDArray[np.float64]
MIN_COMMON = 3  # common items that the correlation of two raters needs
PART = 100_000  # cells whose squares are in memory at once
MAX_RATERS = 2000  # bounds the matrices of raters x raters
F_INTERVAL = "F distribution 95% (McGraw and Wong 1996)"
JACKKNIFE = "jackknife over raters, Student's t 95%"
RATERS = "raters"
KINDS = {"icc1": "ICC(1,1)", "icc2": "ICC(A,1)", "icc2k": "ICC(A,k)"}
SLOT_KINDS = {"icc1": "ICC(1,1)", "icc2": "ICC(1,1)", "icc2k": "ICC(1,k)"}  # see `icc`

_ICC = {
    kind.name: kind
    for kind in (
        MetricKind("icc1", Quantity.COEFFICIENT, AGREEMENTS, label="ICC(1)").defined_as(
            "ICC(1), one-way random effects, one rating (Shrout and Fleiss 1979){how}; n counts items."
        ),
        MetricKind("icc2", Quantity.COEFFICIENT, AGREEMENTS, label="ICC(2,1)").defined_as(
            "ICC(2,1), two-way random effects, absolute agreement, one rating (Shrout and Fleiss 1979){how}; "
            "n counts items."
        ),
        MetricKind("icc2k", Quantity.COEFFICIENT, AGREEMENTS, label="ICC(2,k)").defined_as(
            "ICC(2,k), two-way random effects, absolute agreement, mean of k ratings (Shrout and Fleiss 1979){how}; "
            "n counts items."
        ),
    )
}
_SLOTS = (
    ", with each item's ratings in k rating slots instead of raters, because raters are not crossed with items; mean "
    "squares as expected over all assignments to slots, which makes it ICC(1,{k})"
)
_PAIRWISE = {
    kind: MetricKind(
        f"pairwise_{kind}", Quantity.COEFFICIENT, AGREEMENTS, label=f"{kind.capitalize()}, mean of pairs"
    ).defined_as(
        f"Mean {kind.capitalize()} correlation over the pairs of raters with at least {MIN_COMMON} common items and "
        "variance on them (CAIRE, appendix D.2); n counts pairs."
    )
    for kind in ("pearson", "spearman")
}


@dataclass(frozen=True)
class _Layout:
    """Scores from which ICCs are computed, and what they leave out.

    Attributes:
        table: float64[items, k], no NaN; items: int64[items], the item of each row.
        columns: what the columns are: "raters" or "rating slots".
        k: number of ratings per item; ICCs need at least 2.
        remark: a caveat for readers; None: every rating is in the table.
    """

    table: Floats
    items: NDArray[np.int64]
    columns: str
    k: int
    remark: str | None = None


def icc(answers: RatingTable) -> list[Metric]:
    """Return ICC(1), ICC(2,1) and ICC(2,k) with their 95 % F intervals (McGraw and Wong 1996), as pingouin does.

    Use them for interval scales. ICC(2,1) is the reliability of a single rater, ICC(2,k) that of the mean of k raters;
    ICC(1) does not need raters crossed with items.

    ICC(2) needs raters crossed with items. If all raters rated at least half of the rated items, the columns are the
    raters (dims `columns`: raters), and incomplete items are left out, as in pingouin. Otherwise (three of 150 raters
    per item, or one rater with few ratings) the columns are **rating slots**: the function keeps items with exactly k
    ratings, the most frequent number of at least two (the largest of equally frequent ones), and puts each item's
    ratings into k slots. Which rating is in which slot means nothing, so that the value of one assignment is partly
    chance. Over all assignments, the mean squares between slots and of the residual are both expected to equal that
    within items, and with these ICC(2,1) is ICC(1), and ICC(2,k) is ICC(1,k). If the raters with the most ratings are
    crossed with at least half of the rated items, the ICCs of these raters follow (dims `columns`: raters).

    If a metric leaves out ratings, its `reason` says how many of the rated items and of the raters it uses.

    Undefined: fewer than two raters, fewer than three items with k ratings, or no variance.
    """
    return [metric for layout in _layouts(answers) for metric in _icc_of(layout, answers)]


def _icc_of(layout: _Layout, answers: RatingTable) -> list[Metric]:
    table, k = layout.table, layout.k
    in_slots = layout.columns != RATERS
    names = SLOT_KINDS if in_slots else KINDS
    kinds = [
        kind.worded(how=_SLOTS.format(k="k" if name == "icc2k" else 1) if in_slots and name != "icc1" else "")
        for name, kind in _ICC.items()
    ]
    dims = {"k": str(k), "columns": layout.columns}
    coverage = table.size / answers.asked.sum() if answers.asked.sum() else None
    reason = None
    if k < 2:
        raters = len(np.unique(answers.rater))
        reason = "one rater" if raters == 1 else "no item was rated by two raters" if raters else "no rating is ok"
    elif len(table) < 3:
        reason = f"{len(table)} items have {k} ratings: at least 3 are needed"
    elif not np.ptp(table) > 0:
        reason = "all scores are equal: no variance to divide between items and raters"
    if reason:
        return [undefined(kind, reason, n=len(table), coverage=coverage, dims=dims) for kind in kinds]
    value_of_kind = icc_of_sums(table)
    metrics = []
    for kind in kinds:
        value, bounds = value_of_kind[names[kind.name]]
        if not np.isfinite(value):
            reason = f"no variance between {'items' if value < 0 else 'ratings of an item'}"
            metrics.append(undefined(kind, reason, n=len(table), coverage=coverage, dims=dims))
            continue
        units = answers.units.of(layout.items)
        interval = too_few(units.count, units.name) or (
            _f_interval(value, *bounds) if units.are_rows else _icc_between(table, names[kind.name], units)
        )
        metric = estimated(kind, value, len(table), coverage=coverage, interval=interval, dims=dims)
        metrics.append(replace(metric, reason="; ".join(filter(None, (metric.reason, layout.remark))) or None))
    return metrics


def _icc_between(table: Floats, kind: str, units: Units) -> Interval:
    """Return the interval over units of an ICC of float64[items, k], where several items belong to a unit."""
    k, centred = table.shape[1], table - table.mean()
    total = centred.sum(1)
    rows = np.concatenate([np.stack([np.ones(len(table)), total, total**2, (centred**2).sum(1)], axis=1), centred], 1)

    def icc_of(sums: Floats) -> Floats:
        n, total, of_rows, squares, columns = *sums[:, :4].T, sums[:, 4:]
        mean = total**2 / (n * k)
        rows, judges = of_rows / k - mean, (columns**2).sum(1) / n - mean
        within, error = squares - mean - rows, squares - mean - rows - judges
        between, within = rows / (n - 1), within / (n * (k - 1))
        judges, error = judges / (k - 1), error / ((n - 1) * (k - 1))
        spread = (judges - error) / n
        over, under = {
            "ICC(1,1)": (between - within, between + (k - 1) * within),
            "ICC(1,k)": (between - within, between),
            "ICC(A,1)": (between - error, between + (k - 1) * error + k * spread),
            "ICC(A,k)": (between - error, between + spread),
        }[kind]
        return np.asarray(over / under)

    return jackknife_of_sums(rows, icc_of, units, is_correlation=True)


def _f_interval(value: float, low: float, high: float) -> Interval:
    # with few items and less agreement than by chance, a bound of ICC(2,k) passes a pole: 51 to 0.97 is not an interval
    if low <= value <= high:
        return Interval(low, high, F_INTERVAL)
    return no_interval(f"raters agree {'completely' if value > 0 else 'less than by chance'}")


def _layouts(answers: RatingTable) -> list[_Layout]:
    """Return all raters if they are crossed with items, else rating slots and the raters who are crossed with most
    items."""
    scored = answers.with_scores()
    per_item = scored.per_item()
    raters = len(np.unique(scored.rater))
    rated, complete = int((per_item > 0).sum()), int((per_item == raters).sum())
    if raters > 1 and 2 * complete >= rated:
        kept = scored if complete == rated else scored.where(per_item[scored.item] == raters)
        remark = None if complete == rated else f"{complete} of {rated} rated items: those that all raters rated"
        return [_layout(kept.score.reshape(complete, raters), kept.item[::raters], RATERS, raters, remark)]
    crossed = _crossed_raters(scored, rated)
    sizes = np.bincount(per_item[per_item > 1]) if (per_item > 1).any() else np.array([0])
    k = int(len(sizes) - 1 - np.argmax(sizes[::-1]))
    kept = scored.where(per_item[scored.item] == k)
    table = np.sort(kept.score.reshape(-1, k), axis=1) if k and kept.n else np.empty((0, max(k, 1)))
    remark = f"rating slots: {len(table)} of {rated} rated items: those with exactly {k} ratings"
    slots = _layout(table, kept.item[:: max(k, 1)], "rating slots", k, remark)
    return [slots, *([crossed] if crossed else [])]


def _layout(table: Floats, items: NDArray[Any], columns: str, k: int, remark: str | None) -> _Layout:
    """Return the layout with rows in an order that does not depend on names."""
    order = np.lexsort(table.T[::-1])
    return _Layout(table[order], items[order].astype(np.int64), columns, k, remark)


def _crossed_raters(scored: RatingTable, rated: int) -> _Layout | None:
    """Return the largest group of raters, by number of ratings, who all rated at least half of the rated items.

    None if no two raters did.
    """
    counts = np.bincount(scored.rater, minlength=len(scored.raters))
    by_count = np.lexsort((np.array(scored.raters), -counts))  # ties are broken by name
    common, chosen = np.zeros(scored.items, np.int64), 0
    for code in by_count[counts[by_count] > 0]:
        with_this = common.copy()
        with_this[scored.item[scored.rater == code]] += 1
        if 2 * int((with_this == chosen + 1).sum()) < rated:
            break
        common, chosen = with_this, chosen + 1
    if chosen < 2:
        return None
    of_chosen = scored.of_raters([scored.raters[code] for code in by_count[:chosen]])
    complete = of_chosen.per_item() == chosen
    kept = of_chosen.where(complete[of_chosen.item])
    table = kept.score.reshape(-1, chosen)
    total = int((counts > 0).sum())
    remark = f"{chosen} of {total} raters: those with the most ratings; {len(table)} of {rated} rated items"
    return _layout(table, kept.item[::chosen], RATERS, chosen, remark)


def icc_of_sums(table: Floats) -> dict[str, tuple[float, tuple[float, float]]]:
    """Return the values of `pingouin.intraclass_corr` (McGraw and Wong 1996), from sums of squares.

    pingouin itself takes 0.1 s and 200 bytes per cell, and a report has hundreds of ICCs.

    Args:
        table: float64[items, k], no NaN.

    Returns:
        pingouin's name of the ICC -> (value, (lower bound, upper bound)).
    """
    from scipy.stats import f

    (n, k), mean = table.shape, table.mean()
    of_rows, of_columns = table.mean(1, keepdims=True) - mean, table.mean(0) - mean
    unexplained = np.float64(0)
    parts = -(-table.size // PART)
    for part, of_row in zip(np.array_split(table, parts), np.array_split(of_rows, parts), strict=True):
        unexplained += ((part - mean - of_row - of_columns) ** 2).sum()
    rows, columns = k * (of_rows**2).sum(), n * (of_columns**2).sum()
    between, within = rows / (n - 1), (columns + unexplained) / (n * (k - 1))
    judges, error = columns / (k - 1), unexplained / ((n - 1) * (k - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio_one = between / within
        low = ratio_one / f.ppf(0.975, n - 1, n * (k - 1))
        high = ratio_one * f.ppf(0.975, n * (k - 1), n - 1)
        icc1 = (between - within) / (between + (k - 1) * within)
        icc2 = (between - error) / (between + (k - 1) * error + k * (judges - error) / n)
        mean_of_k = (between - error) / (between + (judges - error) / n)
        offset, f_judges = n * (1 + (k - 1) * icc2) - k * icc2, judges / error
        freedom = (k - 1) * (n - 1) * (k * icc2 * f_judges + offset) ** 2
        freedom /= (n - 1) * k**2 * icc2**2 * f_judges**2 + offset**2
        upper, lower = f.ppf(0.975, n - 1, freedom), f.ppf(0.975, freedom, n - 1)
        residual = k * judges + (k * n - k - n) * error
        low2 = n * (between - upper * error) / (upper * residual + n * between)
        high2 = n * (lower * between - error) / (residual + n * lower * between)
        mean_bounds = [float(edge * k / (1 + edge * (k - 1))) for edge in (low2, high2)]
        one_bounds = [float((edge - 1) / (edge + k - 1)) for edge in (low, high)]
        mean_of_one, mean_of_one_bounds = 1 - 1 / ratio_one, [float(1 - 1 / edge) for edge in (low, high)]
    return {
        "ICC(1,1)": (float(icc1), (one_bounds[0], one_bounds[1])),
        "ICC(A,1)": (float(icc2), (float(low2), float(high2))),
        "ICC(1,k)": (float(mean_of_one), (mean_of_one_bounds[0], mean_of_one_bounds[1])),
        "ICC(A,k)": (float(mean_of_k), (mean_bounds[0], mean_bounds[1])),
    }


def pairwise_correlations(answers: RatingTable) -> list[Metric]:
    """Return the mean pairwise Pearson and Spearman correlation between raters, on the items that both rated.

    Use them where raters differ in level or spread, which alpha and ICC count as disagreement.

    Undefined: no pair of raters has enough common items with variance, or more than `MAX_RATERS` raters.
    """
    metrics = []
    for correlation, kind in _PAIRWISE.items():
        if len(answers.raters) > MAX_RATERS:
            reason = f"{len(answers.raters)} raters: pairs are compared for at most {MAX_RATERS}"
            metrics.append(undefined(kind, reason))
            continue
        metrics.append(_mean_of_pairs(kind, _pairs(answers, correlation), len(answers.raters)))
    return metrics


def _mean_of_pairs(kind: MetricKind, pairs: Floats, raters: int) -> Metric:
    possible = raters * (raters - 1) // 2
    upper = np.triu(np.isfinite(pairs), 1)
    n = int(upper.sum())
    coverage = n / possible if possible else None
    if not n:
        reason = "one rater" if raters == 1 else f"no two raters share {MIN_COMMON} items on which their scores vary"
        return undefined(kind, reason, coverage=coverage)
    values = np.where(np.isfinite(pairs), pairs, 0.0)
    np.fill_diagonal(values, 0.0)
    total, used = float(values[upper].sum()), (upper | upper.T).sum(1)
    value = total / n
    paired = np.flatnonzero(used)
    left = n - used[paired]
    count = len(paired)
    if not (left > 0).all():
        interval = too_few(count, "raters") or no_interval("one rater is in every pair")
    else:
        without = (total - values.sum(1)[paired]) / left
        error = float(np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum()))
        interval = estimate(value, error, units=count, unit_name="raters", method=JACKKNIFE, bounds=(-1.0, 1.0))
    return estimated(kind, value, n, coverage=coverage, interval=interval)


def _pairs(answers: RatingTable, kind: str) -> Floats:
    """Return float64[raters, raters] of correlations, NaN where undefined."""
    rows = answers.with_scores()
    return _pearson_pairs(rows) if kind == "pearson" else _spearman_pairs(rows)


def _pearson_pairs(rows: RatingTable) -> Floats:
    """Return the correlations of all pairs, from sparse products summed over ranges of items."""
    from scipy import sparse

    centre = float(rows.score.mean()) if rows.n else 0.0  # against cancellation
    n, sums, squares, products = (np.zeros((len(rows.raters), len(rows.raters))) for _ in range(4))
    for first, after, part in rows.item_ranges():
        cell, score = (rows.item[part] - first, rows.rater[part]), rows.score[part] - centre
        shape = (after - first, len(rows.raters))
        rated, x, xx = (sparse.csr_array((data, cell), shape=shape) for data in (np.ones(len(score)), score, score**2))
        n += (rated.T @ rated).toarray()
        sums += (x.T @ rated).toarray()
        squares += (xx.T @ rated).toarray()
        products += (x.T @ x).toarray()
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = products - sums * sums.T / n
        variance = squares - sums * sums / n
        pairs = covariance / np.sqrt(variance * variance.T)
        flat = variance <= 1e-12 * np.maximum(squares, 1)
    pairs[(n < MIN_COMMON) | flat | flat.T] = np.nan
    return np.clip(pairs, -1, 1)


def _spearman_pairs(rows: RatingTable) -> Floats:
    """Return the correlations, computed pair by pair because ranks refer to the common items of a pair."""
    pairs = np.full((len(rows.raters), len(rows.raters)), np.nan)
    columns = rows.columns(rows.raters)
    for i, j in combinations(range(len(rows.raters)), 2):
        common, of_i, of_j = columns.pair(i, j)
        if len(common) >= MIN_COMMON:
            pairs[i, j] = pairs[j, i] = _spearman(of_i, of_j, len(columns.levels))
    return pairs


def _spearman(one: NDArray[Any], other: NDArray[Any], levels: int) -> float:
    """Return Spearman's correlation of two arrays of codes from 0 to `levels` - 1; NaN without variance."""
    if levels**2 > len(one):
        from scipy.stats import rankdata

        a, b = rankdata(one), rankdata(other)
        number = np.ones(len(one))
    else:  # the table of both answers has all that ranks depend on
        number = np.bincount(one.astype(np.int64) * levels + other, minlength=levels**2).astype(np.float64)
        of_one, of_other = number.reshape(levels, levels).sum(1), number.reshape(levels, levels).sum(0)
        ranks = [np.cumsum(count) - (count - 1) / 2 for count in (of_one, of_other)]
        a, b = (rank.ravel() for rank in np.meshgrid(*ranks, indexing="ij"))
    a, b = (rank - (number @ rank) / number.sum() for rank in (a, b))
    scale = float(np.sqrt((number @ a**2) * (number @ b**2)))
    return float(np.clip((number @ (a * b)) / scale, -1, 1)) if scale > 0 else np.nan
