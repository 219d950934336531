"""Agreement among raters: percent agreement, Krippendorff's alpha, Cohen's kappa.

All three are computed from a matrix, levels x levels, of how often two raters gave the answers k and l to the same
item. It is a sum over items, so the cost hardly depends on their number. The values equal those of the packages
`krippendorff` and scikit-learn (see the tests), which hold items x levels x levels in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice, zip_longest
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics.answers import MAX_LEVELS, RaterColumns, RatingTable
from jobs.metrics.intervals import Interval, Units, block_counts, blocks, bootstrap, bootstrap_blocks, ratio
from jobs.metrics.metric import AGREEMENTS, Metric, MetricKind, Quantity, Topic, estimated, undefined

Floats = NDArray[np.float64]
Level = Literal["nominal", "ordinal", "interval", "ratio"]
LEVELS: tuple[Level, ...] = ("nominal", "ordinal", "interval", "ratio")
MAX_PAIRS = 100  # of raters; with more, kappas are not computed
MAX_COMPARED = 14  # raters of `kappas_across`, which have 91 pairs

EQUAL_ANSWERS = MetricKind("percent_agreement", Quantity.SHARE, AGREEMENTS, label="equal answers").defined_as(
    "Pairs of raters of one item whose answers differ by at most {tolerance:g} / all such pairs, items pooled "
    "(Century, appendix M); n counts items with two or more ratings."
)
_WITHIN = MetricKind(
    "percent_agreement_within",
    Quantity.SHARE,
    AGREEMENTS,
    label="answers within",
    detailed="answers within {tolerance}",
    definition=EQUAL_ANSWERS.definition,
)
_ALPHA = MetricKind(
    "alpha", Quantity.COEFFICIENT, AGREEMENTS, label="Krippendorff’s α", detailed="Krippendorff’s α ({level})"
).defined_as(
    "Krippendorff's alpha, 1 - observed / expected disagreement, {level} differences (Krippendorff 2011); "
    "n counts items with two or more ratings."
)
_KAPPA = MetricKind("kappa", Quantity.COEFFICIENT, (Topic.VERSIONS, Topic.TWO_RATERS), label="Cohen’s κ").defined_as(
    "Cohen's kappa of two raters (Cohen 1960), differences {weights}; n counts the items that both rated."
)


def percent_agreement(answers: RatingTable, *, tolerance: float = 0, by: str = "score") -> Metric:
    """Return the share of agreeing pairs among all pairs of ratings of the same item (Century, appendix M).

    Use it for a first look. It is easy to interpret but not corrected for chance: compare it only between questions
    with similar distributions of answers.

    The function follows the text of the paper: every unordered pair of raters of an item counts once, and agrees if its
    answers differ by at most `tolerance`. The pseudo-code of the paper differs: it never adds the pairs within the
    tolerance, and counts nothing at tolerance 0.

    Args:
        tolerance: in points of the scale; must be 0 for values.
        by: what to compare, "score" or "value".

    Undefined: no item has two ratings.
    """
    kind = (EQUAL_ANSWERS if tolerance == 0 else _WITHIN).worded(tolerance=tolerance)
    dims = {} if tolerance == 0 else {"tolerance": f"{tolerance:g}"}
    counts, numbers = answers.counts(by=by)
    if not (rated := _pairable(counts)).any():
        return _no_pairs(kind, answers, dims=dims)
    close = np.abs(numbers[:, None] - numbers[None, :]) <= tolerance
    units = answers.units.of(rated)
    pairs = _blocks(counts[rated], units, weighted=False)
    sums = np.stack([(pairs * close).sum((1, 2)), pairs.sum((1, 2))], axis=1)
    value = float(sums[:, 0].sum() / sums[:, 1].sum())
    return estimated(
        kind, value, int(rated.sum()), coverage=answers.coverage, interval=_drawn(sums, ratio, units), dims=dims
    )


def krippendorff_alpha(
    answers: RatingTable, level: Level | ArrayLike, *, by: str = "score", name: str | None = None
) -> Metric:
    """Return Krippendorff's alpha for any number of raters, with missing ratings (Krippendorff 2011).

    Use it for reliability when raters rate different items, where kappa and ICC are not defined. Choose nominal
    differences for categories, ordinal for Likert scales, interval for scores whose differences are comparable.

    Args:
        level: nominal, ordinal, interval or ratio differences; or weights: float64[levels, levels] of
            disagreement (0 on the diagonal), in the order of the levels of `answers.counts(by=by)`.
        by: "score" or "value"; values without scores allow only nominal differences or weights.
        name: the name of the weights.

    Undefined: no item has two ratings; all answers of items with two ratings are equal, so that no disagreement is
    expected; or negative scores with ratio differences.
    """
    level_name = level if isinstance(level, str) else (name or "weighted")
    kind = _ALPHA.worded(level=level_name)
    counts, numbers = answers.counts(by=by)
    rated = _pairable(counts)
    if not rated.any():
        return _no_pairs(kind, answers, dims={"level": level_name})
    n, dims = int(rated.sum()), {"level": level_name}
    units = answers.units.of(rated)
    coincidences = _blocks(counts[rated], units, weighted=True)
    if np.count_nonzero(coincidences.sum((0, 1))) < 2:
        return undefined(kind, _EQUAL, n=n, coverage=answers.coverage, dims=dims)
    if level_name == "ratio" and numbers.min() < 0:
        reason = "ratio differences need scores of at least 0"
        return undefined(kind, reason, n=n, coverage=answers.coverage, dims=dims)
    differences = _differences(level, numbers)

    def alpha(summed: Floats) -> Floats:
        matrices = summed.reshape(-1, len(numbers), len(numbers))
        return _alpha(matrices, differences(matrices.sum(1)))

    flat = coincidences.reshape(len(coincidences), -1)
    value = float(alpha(flat.sum(0)[None])[0])
    if not np.isfinite(value):
        reason = "the expected disagreement under the weights is 0"
        return undefined(kind, reason, n=n, coverage=answers.coverage, dims=dims)
    return estimated(kind, value, n, coverage=answers.coverage, interval=_drawn(flat, alpha, units), dims=dims)


def alpha_of_moments(answers: RatingTable) -> Metric:
    """Return Krippendorff's alpha with interval differences, from sums of scores and of squares.

    Use it for continuous scores; `krippendorff_alpha` needs a matrix over all levels.

    Undefined: no item has two ratings, or no variance.
    """
    kind, dims = _ALPHA.worded(level="interval"), {"level": "interval"}
    rows = answers.with_scores()
    per_item = rows.per_item()
    rated = per_item >= 2
    if not rated.any():
        return _no_pairs(kind, answers, dims=dims)
    kept = rows.where(rated[rows.item])
    score = kept.score - kept.score.mean()  # against cancellation
    n = per_item[rated].astype(np.float64)
    total, squares = (np.bincount(kept.item, x, answers.items)[rated] for x in (score, score**2))
    # over ordered pairs of an item's ratings, the squared differences sum to 2 (n squares - total²)
    sums = np.stack([2 * (n * squares - total**2) / (n - 1), n, total, squares], axis=1)

    def alpha(summed: Floats) -> Floats:
        observed, n, total, squares = summed.T
        expected = 2 * (n * squares - total**2) / (n - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(1 - observed / expected)

    value, coverage = float(alpha(sums.sum(0)[None])[0]), answers.coverage
    if not np.ptp(kept.score) or not np.isfinite(value):
        return undefined(kind, _EQUAL, n=len(n), coverage=coverage, dims=dims)
    interval = bootstrap(sums, alpha, answers.units.of(rated))
    return estimated(kind, value, len(n), coverage=coverage, interval=interval, dims=dims)


def cohen_kappa(answers: RatingTable, *, weights: str | None = None, by: str = "value") -> Metric:
    """Return Cohen's kappa of the two raters of `answers` (Cohen 1960).

    Use it for two raters of the same items, with quadratic weights for ordinal scales. For more raters use
    `krippendorff_alpha`.

    Args:
        weights: None, "linear" or "quadratic" differences of the scores, or of the values' positions among all values.
            Answers that nobody gave count as steps of the scale, as with all `labels` in scikit-learn.

    Undefined: one rater or more than two, no item rated by both, or both always gave the same single answer.
    """
    kind = _KAPPA.worded(weights=weights or "unweighted")
    dims = {"weights": weights or "none"}
    if len(answers.raters) != 2:
        reason = f"{len(answers.raters)} raters: kappa is defined for two"
        return undefined(kind, reason, coverage=answers.coverage, dims=dims)
    return _kappa_of_pair(answers, answers.columns(answers.raters, by=by), (0, 1), weights)


def _kappa_of_pair(answers: RatingTable, columns: RaterColumns, pair: tuple[int, int], weights: str | None) -> Metric:
    """Return Cohen's kappa of two columns, by their numbers."""
    kind, dims = _KAPPA.worded(weights=weights or "unweighted"), {"weights": weights or "none"}
    item, first, second = columns.pair(*pair)
    if not len(item):
        return _no_pairs(kind, answers.of_raters([answers.raters[number] for number in pair]), dims=dims)
    coverage = len(item) / answers.items
    every = len(columns.levels)
    code = first.astype(np.int64) * every + second
    occur = np.bincount(code, minlength=every**2).reshape(every, every)
    kept = np.flatnonzero(occur.sum(0) + occur.sum(1))
    levels = columns.levels[kept]
    if len(levels) < 2:
        return undefined(kind, _EQUAL, n=len(item), coverage=coverage, dims=dims)
    if len(levels) < every:
        renumbered = np.zeros(every, np.int64)
        renumbered[kept] = np.arange(len(kept))
        code = renumbered[first] * len(levels) + renumbered[second]
    units = answers.units.of(item)
    cells = block_counts(code, len(levels) ** 2, units)
    distance = np.abs(np.subtract.outer(levels, levels)).astype(np.float64)
    cost = {None: (distance > 0).astype(np.float64), "linear": distance, "quadratic": distance**2}[weights]

    def kappa(summed: Floats) -> Floats:
        tables = summed.reshape(-1, len(levels), len(levels))
        chance = tables.sum(2)[:, :, None] * tables.sum(1)[:, None, :] / tables.sum((1, 2))[:, None, None]
        return np.asarray(1 - (tables * cost).sum((1, 2)) / (chance * cost).sum((1, 2)))

    value = float(kappa(cells.sum(0)[None])[0])
    interval = _drawn(cells, kappa, units)
    return estimated(kind, value, len(item), coverage=coverage, interval=interval, dims=dims)


def pairwise_kappas(answers: RatingTable, *, weights: str | None = None, by: str = "value") -> list[Metric]:
    """Return Cohen's kappa of each pair of raters, with dims `rater_a` and `rater_b`.

    The list is empty if there are more than `MAX_PAIRS` pairs: use alpha for the agreement of a crowd.
    """
    if len(answers.raters) * (len(answers.raters) - 1) // 2 > MAX_PAIRS:
        return []
    return list(_kappas(answers, combinations(sorted(answers.raters), 2), weights=weights, by=by))


def _kappas(
    answers: RatingTable, pairs: Iterable[tuple[str, str]], *, weights: str | None, by: str
) -> Iterator[Metric]:
    """Yield the kappa of each pair of raters, with dims `rater_a` and `rater_b`."""
    columns, number = answers.columns(answers.raters, by=by), {name: i for i, name in enumerate(answers.raters)}
    for one, other in pairs:
        # the table of a pair has its raters in the order of all raters
        first, second = sorted((number[one], number[other]))
        yield _kappa_of_pair(answers, columns, (first, second), weights).at(rater_a=one, rater_b=other)


def kappas_across(
    answers: RatingTable, kinds: Sequence[Sequence[str]], *, within: Sequence[Sequence[str]]
) -> list[Metric]:
    """Return Cohen's kappa of raters of different kinds, such as a person and a model, with dims `rater_a`, `rater_b`.

    Together with the `pairwise_kappas` of each group they make a matrix of all raters. Pairs of a group are included if
    the group has more than `MAX_PAIRS` pairs. If there are more than `MAX_COMPARED` raters, the one with the most
    answers is taken from each kind in turn. Pairs that rated no item in common are left out, and so are continuous
    scores.

    Args:
        kinds: the raters of each kind.
        within: the groups whose pairs `pairwise_kappas` compares; a rater may be in none of them.
    """
    if answers.scored and len(answers.levels()) > MAX_LEVELS_OF_A_SCALE:
        return []
    number = dict(zip(answers.raters, np.bincount(answers.rater, minlength=len(answers.raters)).tolist(), strict=True))
    ranked = [sorted(raters, key=lambda name: (-number[name], name)) for raters in kinds]
    in_turn = dict.fromkeys(name for turn in zip_longest(*ranked) for name in turn if name is not None)
    chosen = sorted(islice(in_turn, MAX_COMPARED))
    compared_groups = [set(group) for group in within if len(group) * (len(group) - 1) // 2 <= MAX_PAIRS]
    compared = answers.of_raters(chosen)
    weights, by = ("quadratic", "score") if answers.scored else (None, "value")
    pairs = (pair for pair in combinations(chosen, 2) if not any(set(pair) <= group for group in compared_groups))
    return [metric for metric in _kappas(compared, pairs, weights=weights, by=by) if metric.n]


def agreement(
    answers: RatingTable,
    *,
    tolerance: float = 1,
    weights: Mapping[str, ArrayLike] | None = None,
    scale: tuple[float, float] | None = None,
    pairs: bool = True,
) -> list[Metric]:
    """Return percent agreement, alpha and kappa, with all kinds of differences for scores and nominal ones for
    categories.

    Args:
        tolerance: of `percent_agreement_within`, in points of the scale.
        weights: name -> matrix of disagreement between the points of the scale. Each matrix adds an alpha.
        scale: lowest and highest score, between which the rows of a matrix are equal steps; None: unknown. A matrix
            is then of the scores that occur. The alpha is undefined if the scores do not fit the matrix.
        pairs: whether to add the kappa of each pair of raters.
    """
    if not answers.scored:
        if answers.n and not answers.values:
            reason = f"more than {MAX_LEVELS} different answers: not a closed set"
            share, alpha = EQUAL_ANSWERS.worded(tolerance=0), _ALPHA.worded(level="nominal")
            n, coverage = _rated_twice(answers), answers.coverage
            return [
                undefined(share, reason, n=n, coverage=coverage),
                undefined(alpha, reason, n=n, coverage=coverage, dims={"level": "nominal"}),
            ]
        return [
            percent_agreement(answers, by="value"),
            krippendorff_alpha(answers, "nominal", by="value"),
            *(pairwise_kappas(answers) if pairs else ()),
        ]
    if (levels := len(answers.levels())) > MAX_LEVELS_OF_A_SCALE:
        reason = f"{levels:,} different scores: equal scores are too rare to measure agreement"
        n = _rated_twice(answers.with_scores())
        equal = undefined(EQUAL_ANSWERS.worded(tolerance=0), reason, n=n, coverage=answers.coverage)
        return [equal, alpha_of_moments(answers)]
    metrics = [percent_agreement(answers), percent_agreement(answers, tolerance=tolerance)]
    metrics += [krippendorff_alpha(answers, level) for level in LEVELS]
    for name, matrix in (weights or {}).items():
        of_levels = _of_levels(np.asarray(matrix, np.float64), answers.levels(), scale)
        if not isinstance(of_levels, str):
            metrics.append(krippendorff_alpha(answers, of_levels, name=name))
        else:
            kind, n, at = _ALPHA.worded(level=name), _rated_twice(answers.with_scores()), {"level": name}
            metrics.append(undefined(kind, of_levels, n=n, coverage=answers.coverage, dims=at))
    return metrics + (pairwise_kappas(answers, weights="quadratic", by="score") if pairs else [])


def _of_levels(weights: Floats, levels: Floats, scale: tuple[float, float] | None) -> Floats | str:
    """Return the rows and columns of a matrix of disagreement that belong to the scores `levels`, or why none do."""
    size = len(weights)
    if scale is None:
        if size == len(levels):
            return weights
        return f"the matrix has {size} levels, but {len(levels)} different scores occur, and the scale is not known"
    near = np.isclose(levels[:, None], np.linspace(*scale, size)[None, :])
    if not near.any(1).all():
        steps = f"from {scale[0]:g} to {scale[1]:g} in equal steps"
        return f"the matrix has {size} levels, {steps}: none is {levels[~near.any(1)][0]:g}"
    place = near.argmax(1)
    return weights[np.ix_(place, place)]


MAX_LEVELS_OF_A_SCALE = 101  # 0 … 100; a scale with more levels is treated as continuous
_EQUAL = "all answers are equal: without variance, agreement cannot be distinguished from chance"


def _rated_twice(answers: RatingTable) -> int:
    """Return the number of items with two or more answers."""
    return int((answers.per_item() >= 2).sum())


def _pairable(counts: NDArray[Any]) -> NDArray[np.bool_]:
    rated: NDArray[np.bool_] = counts.sum(1) >= 2
    return rated


def _blocks(counts: NDArray[Any], units: Units, *, weighted: bool) -> Floats:
    """Return the numbers of ordered pairs of ratings of the same item by their answers, summed over blocks of units.

    Args:
        counts: int[items, levels]; units: of the items.
        weighted: weight each item by 1 / (its ratings - 1), as in Krippendorff's coincidence matrix.

    Returns:
        float64[blocks, levels, levels], in an order that does not depend on names.
    """
    block = blocks(counts, units)
    order = np.argsort(block, kind="stable")
    rows = np.split(order, np.flatnonzero(np.diff(block[order])) + 1)
    parts = (_weighted(counts[of_block], weighted=weighted) for of_block in rows)
    return np.stack([one.T @ other - np.diag(other.sum(0)) for one, other in parts])


def _drawn(sums: Floats, statistic: Callable[[Floats], Floats], units: Units) -> Interval:
    return bootstrap_blocks(sums, statistic, units=units.count, unit_name=units.name)


def _weighted(counts: NDArray[Any], *, weighted: bool) -> tuple[Floats, Floats]:
    rows = counts.astype(np.float64)
    return rows, rows / (rows.sum(1) - 1)[:, None] if weighted else rows


def _differences(level: Level | ArrayLike, numbers: Floats) -> Callable[[Floats], Floats]:
    """Return a function from marginals float64[r, levels] to disagreement float64[1 or r, levels, levels]."""
    one, other = numbers[:, None], numbers[None, :]
    if not isinstance(level, str):
        weights = np.asarray(level, np.float64)
        return lambda marginals: weights[None]
    if level == "nominal":
        return lambda marginals: (one != other).astype(np.float64)[None]
    if level == "interval":
        return lambda marginals: ((one - other) ** 2)[None]
    if level == "ratio":
        total = one + other
        return lambda marginals: (np.divide(one - other, total, out=np.zeros_like(total), where=total != 0) ** 2)[None]

    def ordinal(marginals: Floats) -> Floats:
        # from the middle of one level to the middle of the other, in ranks
        middle = np.cumsum(marginals, axis=1) - marginals / 2
        return (middle[:, :, None] - middle[:, None, :]) ** 2

    return ordinal


def _alpha(coincidences: Floats, differences: Floats) -> Floats:
    marginal = coincidences.sum(1)
    n = marginal.sum(1)
    observed = (coincidences * differences).sum((1, 2))
    # the diagonal contributes nothing: its differences are 0
    expected = (marginal[:, :, None] * marginal[:, None, :] * differences).sum((1, 2)) / (n - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 - observed / expected)


def _no_pairs(kind: MetricKind, answers: RatingTable, *, dims: Mapping[str, str]) -> Metric:
    raters = len(np.unique(answers.rater))
    reason = "one rater" if raters == 1 else "no item was rated by two raters" if raters else "no rating is ok"
    status = "skipped" if raters else "missing_input"
    return undefined(kind, reason, coverage=answers.coverage, status=status, dims=dims)
