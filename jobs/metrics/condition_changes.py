"""Changes between two conditions of one question: the second minus the first, paired by item and target.

Both conditions are compared on the same pairs of item and target, rated by the same raters, so that differences between
items cancel. Intervals are bootstrap intervals over units, such as pictures: a unit keeps all its items, targets and
both conditions.
Tables 1 and 8 of CAIRE report such changes of F1 against a baseline without context.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.condition_pairs import (
    NO_PAIR,
    ConditionPairs,
    ConditionRatings,
    Sides,
    counterparts,
    groups_of,
    pairs_of,
)
from jobs.metrics.correlation import MIN_PAIRS, pearson_of_sums, products
from jobs.metrics.f1_changes import f1_compared
from jobs.metrics.intervals import Units, bootstrap, ratio
from jobs.metrics.majority import majority
from jobs.metrics.metric import Metric, estimated, undefined
from jobs.metrics.model_scores import EPSILON, RaterGroup
from jobs.metrics.question import PEOPLE, RatedQuestion

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
FEW_CONDITIONS = 4  # without a baseline, all pairs of at most this many conditions are compared

_PAIRED = (
    "under the second condition minus under the first, over pairs of item and target that the same raters rated under "
    "both; n counts such pairs."
)
_SCORE = f"Mean of the group's mean score {_PAIRED}"
_SHARE = f"Share of pairs whose mean score over the group is at least the threshold, {_PAIRED}"
_ACCURACY = (
    "Items whose answer is among the right ones / items, under the second condition minus under the first, over items "
    "that the same raters answered under both; n counts such items."
)
_PEARSON = (
    "Pearson correlation of the group's mean score with people's mean score, under the second condition minus under "
    "the first, over pairs of item and target that all rated under both; n counts such pairs."
)
_BY_IMAGE = (
    "Pearson correlation of the group's mean score with people's mean score over the targets of an image, under the "
    f"second condition minus under the first: mean over images with at least {MIN_PAIRS} targets and variance of all "
    "scores under both (CAIRE, table 2); n counts images."
)
_NO_PEOPLE = "no pair of item and target that the group rated under both conditions is rated by people under both"
_NO_MAJORITY = "no item with a right answer has a majority of the answers by the same raters under both conditions"


def compared(conditions: Collection[str], baseline: str | None) -> list[tuple[str, str]]:
    """Return the pairs of conditions to compare; the first of each pair is subtracted.

    With a baseline, these are the baseline and each other condition; without one, all pairs of at most `FEW_CONDITIONS`
    conditions.
    """
    names = sorted(conditions)
    if baseline is not None:
        return [(baseline, name) for name in names if name != baseline and baseline in names]
    if len(names) > FEW_CONDITIONS:
        return []
    return [(first, second) for number, first in enumerate(names) for second in names[number + 1 :]]


def too_many(conditions: int) -> Metric:
    """Return the undefined change of a question with too many conditions and no baseline."""
    reason = f"{conditions} conditions: more than {FEW_CONDITIONS}, and metrics.baseline_condition= is not one of them"
    return undefined("score_change", _SCORE, reason)


def condition_changes(first: ConditionRatings, second: ConditionRatings) -> Iterator[Metric]:
    """Yield the changes of scores, shares, F1 or accuracy and correlations with people, for each model and group.

    Use them to see whether a context helps: the interval of a paired difference is narrower than those of both values,
    because the difficulty of the items is the same.

    Undefined: no pair of item and target has enough ratings by the same raters under both conditions; for F1 also if
    nothing is positive, for a correlation if a score has no variance.
    """
    pairs = pairs_of(first, second)
    for metric in _changes(first.rated, second.rated, pairs):
        yield metric.at(first=first.name, second=second.name)


def _changes(first: RatedQuestion, second: RatedQuestion, pairs: ConditionPairs) -> Iterator[Metric]:
    sides = counterparts(first, second, pairs)
    for group in groups_of(first, second, pairs.raters):
        if first.answers.scored or second.answers.scored:
            metrics = [*_scores(sides, group), *f1_compared(sides, group, "change")]
            metrics += [] if group.name == PEOPLE else _with_people(sides, group)
        else:
            metrics = [*_accuracy(sides, group)]
        for metric in metrics:
            yield metric.at(group=group.name)
    for rater in sorted(first.unscaled & second.unscaled & {*pairs.raters}):
        for metric in _with_people(sides, RaterGroup(rater, (rater,))):
            yield metric.at(group=rater)


def _scores(sides: Sides, group: RaterGroup) -> Iterator[Metric]:
    first, pairs = sides.first, sides.pairs
    sign = -1.0 if first.inverted else 1.0
    dims = {"inverted": "yes"} if first.inverted else {}
    a, b = (sign * means for means in sides.means(group))
    both = ~np.isnan(a) & ~np.isnan(b)
    a, b, units, n = a[both], b[both], pairs.units.of(both), int(both.sum())
    coverage = n / pairs.either if pairs.either else None
    nothing = sides.nothing(group)
    yield _paired("score_change", _SCORE, b - a, units, coverage=coverage, dims=dims, nothing=nothing)
    scale = first.context.scale
    for threshold in first.thresholds:
        at = dims | {"threshold": f"{threshold:g}"}
        if scale is None:
            reason = first.context.no_scale
            yield undefined("share_at_least_change", _SHARE, reason, n=n, coverage=coverage, dims=at)
            continue
        least = threshold - EPSILON - (sum(scale) if first.inverted else 0)  # low + high - score, without its offset
        change = (b >= least).astype(np.float64) - (a >= least)
        yield _paired("share_at_least_change", _SHARE, change, units, coverage=coverage, dims=at, nothing=nothing)


def _accuracy(sides: Sides, group: RaterGroup) -> Iterator[Metric]:
    right, of_second = sides.first.context.right_values, sides.second.context.right_values
    if right is None or of_second is None:
        return
    pairs = sides.pairs
    a = _correct(sides.answers[0], right, group)[pairs.first]
    b = _correct(sides.answers[1], of_second, group)[pairs.second]
    both = ~np.isnan(a) & ~np.isnan(b)
    asked = sum(right[at] is not None for at in pairs.first.tolist())
    coverage = float(both.sum() / asked) if asked else None
    nothing = _NO_MAJORITY if len(pairs.first) else NO_PAIR
    yield _paired("accuracy_change", _ACCURACY, (b - a)[both], pairs.units.of(both), coverage=coverage, nothing=nothing)


def _correct(answers: RatingTable, right: Sequence[frozenset[str] | None], group: RaterGroup) -> Floats:
    """Return float64[items]: 1 right, 0 wrong, NaN without a majority or if the right answers are unknown."""
    counts, _ = answers.of_raters(group.raters).counts(by="value")
    return np.array([
        float(answers.values[code] in of_item) if code >= 0 and of_item is not None else np.nan
        for of_item, code in zip(right, majority(counts, at_least=group.at_least), strict=True)
    ])  # fmt: skip


def _with_people(sides: Sides, group: RaterGroup) -> Iterator[Metric]:
    first, second, pairs = sides.first, sides.second, sides.pairs
    people = [question.groups.get(PEOPLE, ()) for question in (first, second)]
    if not all(people):
        return
    y1, y2 = (
        question.answers.of_raters(names).means()[0][at]
        for question, names, at in zip((first, second), people, (pairs.first, pairs.second), strict=True)
    )
    x1, x2 = sides.means(group)
    rated = ~np.isnan(y1) & ~np.isnan(y2)
    both = rated & ~np.isnan(x1) & ~np.isnan(x2)
    coverage = float(both.sum() / rated.sum()) if rated.any() else None
    rows = np.concatenate([products(x1[both], y1[both]), products(x2[both], y2[both])], axis=1)
    units = pairs.units.of(both)
    n, nothing = int(both.sum()), sides.nothing(group, _NO_PEOPLE)
    yield _estimate(
        "pearson_with_people_change", _PEARSON, rows, _pearson_change, n,
        units=units, coverage=coverage, nothing=nothing,
    )  # fmt: skip
    if len(np.unique(pairs.target)) < MIN_PAIRS:
        return
    images = Units(pairs.item[both])
    of_each = images.sums(rows)
    within = _pearson_change(of_each)
    is_defined = ~np.isnan(within)
    defined = within[is_defined]
    asked = np.isin(pairs.item, pairs.item[rated]).sum()  # all pairs of the items that people rated
    share = float(of_each[is_defined, 0].sum() / asked) if asked else None
    of_images = units.of(np.unique(images.place, return_index=True)[1]).of(is_defined)
    means = np.stack([defined, np.ones_like(defined)], axis=1)
    reason = f"no image has {MIN_PAIRS} targets and variance of all scores under both conditions"
    yield _estimate(
        "pearson_by_image_change", _BY_IMAGE, means, ratio, len(defined),
        units=of_images, coverage=share, nothing=reason,
    )  # fmt: skip


def _paired(
    name: str,
    definition: str,
    change: Floats,
    units: Units,
    *,
    coverage: float | None,
    nothing: str,
    dims: dict[str, str] | None = None,
) -> Metric:
    """Return the mean of float64[pairs] changes, with a bootstrap interval over their units."""
    rows = np.stack([change, np.ones(len(change))], axis=1)
    return _estimate(
        name, definition, rows, ratio, len(change), units=units, coverage=coverage, nothing=nothing, dims=dims
    )


def _estimate(
    name: str,
    definition: str,
    rows: Floats,
    statistic: Callable[[Floats], Floats],
    n: int,
    *,
    units: Units,
    coverage: float | None,
    nothing: str,
    dims: dict[str, str] | None = None,
) -> Metric:
    """Return the statistic of summed rows float64[n, k], with its bootstrap interval; undefined if it is NaN.

    `nothing` is the reason if n is 0.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(rows.sum(0)[None])[0])
    if np.isnan(value):
        reason = "no variance, or fewer than three pairs" if n else nothing
        return undefined(name, definition, reason, n=n, coverage=coverage, dims=dims)
    interval = bootstrap(rows, statistic, units)
    return estimated(name, definition, value, n, coverage=coverage, interval=interval, dims=dims)


def _pearson_change(sums: Floats) -> Floats:
    """Return float64[rows], the second correlation minus the first, of float64[rows, 12] sums of `products`."""
    return pearson_of_sums(sums[:, 6:]) - pearson_of_sums(sums[:, :6])
