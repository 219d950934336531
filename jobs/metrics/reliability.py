"""How consistent raters are: intraclass correlations, and correlations between pairs of raters."""

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import Answers
from jobs.metrics.figure import Figure, estimated, undefined
from jobs.metrics.intervals import SEED, Z95, ordered

Floats = NDArray[np.float64]
MIN_COMMON = 3  # items that two raters must share for their correlation to count
MAX_RATERS = 2000  # pairs are held as raters x raters
F_INTERVAL = "F distribution 95% (pingouin)"
JACKKNIFE = "jackknife over raters, normal 95%"
KINDS = {"icc1": "ICC(1,1)", "icc2": "ICC(A,1)", "icc2k": "ICC(A,k)"}

_ICC = {
    "icc1": "ICC(1), one-way random effects, one rating (Shrout and Fleiss 1979){how}; n counts items.",
    "icc2": "ICC(2,1), two-way random effects, absolute agreement, one rating (Shrout and Fleiss 1979){how}; "
    "n counts items.",
    "icc2k": "ICC(2,k), two-way random effects, absolute agreement, mean of k ratings (Shrout and Fleiss 1979){how}; "
    "n counts items.",
}
_SLOTS = (
    ", each item's ratings put at random into k rating slots that stand for raters, since raters are not crossed "
    "with items"
)
_PAIRWISE = (
    "Mean {kind} correlation over the pairs of raters with at least "
    f"{MIN_COMMON} common items and some variance on them (CAIRE, appendix D.2); n counts pairs."
)


def icc(answers: Answers, *, k: int | None = None) -> list[Figure]:
    """ICC(1), ICC(2,1) and ICC(2,k) with their 95 % F intervals, by pingouin.

    ICC(2) needs raters crossed with items. If all raters rated at least half of the rated items, the columns are the
    raters (dims `columns`: raters) and the other items are left out, as pingouin does. If not (three of 150
    raters an item), they are **rating slots**: items with exactly k ratings are kept, and each item's ratings are put
    into k slots at random, with a fixed seed and from an order that depends on scores alone, so that names change
    nothing. ICC(1), which has no columns, is the cleaner figure then.

    Args:
        k: ratings an item; the most frequent number of two or more (of equals the larger), if None.

    Undefined: fewer than two raters, no item with k ratings, fewer than three such items, or no variance.
    """
    table, crossed, k = _slots(answers, k)
    how = "" if crossed else _SLOTS
    dims = {"k": str(k), "columns": "raters" if crossed else "rating slots"}
    coverage = table.size / answers.asked.sum() if answers.asked.sum() else None
    reason = None
    if k < 2:
        reason = "one rater" if answers.n else "no rating is ok"
    elif len(table) < 3:
        reason = f"{len(table)} items have {k} ratings: at least 3 are needed"
    elif not np.ptp(table) > 0:
        reason = "all scores are equal: no variance to divide between items and raters"
    if reason:
        return [
            undefined(name, text.format(how=how), reason, n=len(table), coverage=coverage, dims=dims)
            for name, text in _ICC.items()
        ]
    found = _pingouin_icc(table)
    figures = []
    for name, text in _ICC.items():
        value, (low, high) = found[KINDS[name]]
        if not np.isfinite(value):
            figures.append(undefined(name, text.format(how=how), "no variance between ratings of an item", dims=dims))
            continue
        whole = bool(np.isfinite(low) and np.isfinite(high))
        figures.append(
            Figure(
                metric=name,
                definition=text.format(how=how),
                value=value,
                n=len(table),
                coverage=coverage,
                low=low if whole else None,
                high=high if whole else None,
                interval_method=F_INTERVAL if whole else None,
                reason=None if whole else "no interval: raters agree entirely",
                dims=dims,
            )
        )
    return figures


def _slots(answers: Answers, k: int | None) -> tuple[Floats, bool, int]:
    """float64[items, k] of scores, whether its columns are raters, and k."""
    scored = answers.where(~np.isnan(answers.score))
    per_item = scored.per_item()
    raters = len(np.unique(scored.rater))
    rated, complete = int((per_item > 0).sum()), int((per_item == raters).sum())
    if k in (None, raters) and raters > 1 and 2 * complete >= rated:
        kept = scored.where(per_item[scored.item] == raters)
        return ordered(kept.score.reshape(complete, raters)), True, raters
    if k is None:
        sizes = np.bincount(per_item[per_item > 1]) if (per_item > 1).any() else np.array([0])
        k = int(len(sizes) - 1 - np.argmax(sizes[::-1]))
    kept = scored.where(per_item[scored.item] == k)
    table = np.sort(kept.score.reshape(-1, k), axis=1) if k and kept.n else np.empty((0, max(k, 1)))
    return np.random.default_rng(SEED).permuted(ordered(table), axis=1), False, k


def _pingouin_icc(table: Floats) -> dict[str, tuple[float, tuple[float, float]]]:
    import pandas as pd
    import pingouin

    items, k = table.shape
    long = pd.DataFrame(
        {"item": np.repeat(np.arange(items), k), "rater": np.tile(np.arange(k), items), "score": table.ravel()}
    )
    before = pingouin.options.get("round.column.CI95")
    pingouin.options["round.column.CI95"] = None  # its intervals are rounded to two digits otherwise
    try:
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of pandas, about pingouin's own code
            found = pingouin.intraclass_corr(long, targets="item", raters="rater", ratings="score")
    finally:
        pingouin.options["round.column.CI95"] = before
    interval = "CI95" if "CI95" in found else "CI95%"  # renamed in 0.6
    return {row["Type"]: (float(row["ICC"]), tuple(map(float, row[interval]))) for _, row in found.iterrows()}  # type: ignore[misc]


def pairwise_correlations(answers: Answers) -> list[Figure]:
    """Mean pairwise Pearson and Spearman correlation between raters, on the items that both rated.

    Undefined: no pair of raters with enough common items and variance, or more than `MAX_RATERS` raters.
    """
    figures = []
    for kind in ("pearson", "spearman"):
        metric, definition = f"pairwise_{kind}", _PAIRWISE.format(kind=kind.capitalize())
        if len(answers.raters) > MAX_RATERS:
            reason = f"{len(answers.raters)} raters: more pairs than are computed ({MAX_RATERS} raters at most)"
            figures.append(undefined(metric, definition, reason))
            continue
        figures.append(_mean_of_pairs(metric, definition, _pairs(answers, kind), len(answers.raters)))
    return figures


def _mean_of_pairs(metric: str, definition: str, pairs: Floats, raters: int) -> Figure:
    possible = raters * (raters - 1) // 2
    upper = np.triu(np.isfinite(pairs), 1)
    n = int(upper.sum())
    coverage = n / possible if possible else None
    if not n:
        reason = "one rater" if raters == 1 else f"no two raters share {MIN_COMMON} items on which their scores vary"
        return undefined(metric, definition, reason, coverage=coverage)
    known = np.where(np.isfinite(pairs), pairs, 0.0)
    np.fill_diagonal(known, 0.0)
    total, used = float(known[upper].sum()), (upper | upper.T).sum(1)
    value = total / n
    involved = np.flatnonzero(used)
    left = n - used[involved]
    interval = None
    if len(involved) >= 3 and (left > 0).all():
        without = (total - known.sum(1)[involved]) / left
        count = len(involved)
        half = Z95 * float(np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum()))
        interval = max(-1.0, value - half), min(1.0, value + half)
    return estimated(metric, definition, value, n, coverage=coverage, interval=interval, method=JACKKNIFE)


def _pairs(answers: Answers, kind: str) -> Floats:
    """float64[raters, raters] of correlations, NaN where undefined."""
    rows = answers.where(~np.isnan(answers.score))
    return _pearson_pairs(rows) if kind == "pearson" else _spearman_pairs(rows)


def _pearson_pairs(rows: Answers) -> Floats:
    """All pairs at once from sparse products: what is summed over common items."""
    from scipy import sparse

    centre = float(rows.score.mean()) if rows.n else 0.0  # against cancellation

    def filled(data: Floats) -> Any:
        return sparse.csr_array((data, (rows.item, rows.rater)), shape=(rows.items, len(rows.raters)))

    here, x, xx = filled(np.ones(rows.n)), filled(rows.score - centre), filled((rows.score - centre) ** 2)
    n = (here.T @ here).toarray()
    sums, squares, products = (x.T @ here).toarray(), (xx.T @ here).toarray(), (x.T @ x).toarray()
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = products - sums * sums.T / n
        variance = squares - sums * sums / n
        pairs = covariance / np.sqrt(variance * variance.T)
        flat = variance <= 1e-12 * np.maximum(squares, 1)
    pairs[(n < MIN_COMMON) | flat | flat.T] = np.nan
    return np.clip(pairs, -1, 1)


def _spearman_pairs(rows: Answers) -> Floats:
    """Ranks are taken among a pair's common items, so each pair is computed by itself."""
    from scipy.stats import rankdata

    pairs = np.full((len(rows.raters), len(rows.raters)), np.nan)
    order = np.lexsort((rows.item, rows.rater))
    ends = np.searchsorted(rows.rater[order], np.arange(len(rows.raters) + 1))
    own = [(rows.item[order[a:b]], rows.score[order[a:b]]) for a, b in pairwise(ends)]
    for i, (items_i, scores_i) in enumerate(own):
        for j in range(i + 1, len(own)):
            _, at_i, at_j = np.intersect1d(items_i, own[j][0], assume_unique=True, return_indices=True)
            if len(at_i) < MIN_COMMON:
                continue
            a, b = rankdata(scores_i[at_i]), rankdata(own[j][1][at_j])
            a, b = a - a.mean(), b - b.mean()
            if (scale := float(np.sqrt((a @ a) * (b @ b)))) > 0:
                pairs[i, j] = pairs[j, i] = float(np.clip((a @ b) / scale, -1, 1))
    return pairs
