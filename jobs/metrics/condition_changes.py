"""Changes between two conditions of one question: the second minus the first, paired by item and target.

Both conditions are compared on the same pairs of item and target, rated by the same raters, so that differences between
items cancel. Intervals are bootstrap intervals over units, such as pictures: a unit keeps all its items, targets and
both conditions.
Tables 1 and 8 of CAIRE report such changes of F1 against a baseline without context.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jobs.metrics import gold, model_scores
from jobs.metrics.answers import RatingTable
from jobs.metrics.correlation import MIN_PAIRS, pearson_of_sums, products
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
_F1 = (
    "F1 ({over}), positive: predicted where the score is {reading}, in gold {positive}; under the "
    "second condition minus under the first, over pairs of item and label "
    "that the same raters rated under both (CAIRE, tables 1 and 8); n counts such pairs."
)
_F1_RATIO = (
    "F1 ({over}), positive: predicted where the score is {reading}, in gold {positive}; under the "
    "second condition divided by that under the first, over pairs of item and label "
    "that the same raters rated under both (CAIRE, table 11: linked against right article); n counts such pairs."
)
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
_NO_F1 = {
    "change": "nothing is positive, in gold or as predicted, under a condition",
    "ratio": "F1 is 0 under the first condition, or nothing is positive, in gold or as predicted, under a condition",
}
_NO_PAIR = "no pair of item and target is rated under both conditions"
_NO_GOLD = "no pair of item and label that the group rated under both conditions is labelled in gold under both"
_NO_PEOPLE = "no pair of item and target that the group rated under both conditions is rated by people under both"
_NO_MAJORITY = "no item with a right answer has a majority of the answers by the same raters under both conditions"


@dataclass(frozen=True)
class ConditionRatings:
    """One question under one condition.

    Attributes:
        name: the condition.
        rated: its answers, including people's and gold's, which have no condition.
        item: uint64[items], the hash of the item of each pair of item and target; target: int[items], its code.
        shared: raters whose ratings count under every condition, so that they cannot change.
    """

    name: str
    rated: RatedQuestion
    item: NDArray[np.uint64]
    target: NDArray[np.int32]
    shared: Collection[str] = ()


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
    pairs = _pairs(first, second)
    for metric in _changes(first.rated, second.rated, pairs):
        yield metric.at(first=first.name, second=second.name)


def f1_ratios(first: ConditionRatings, second: ConditionRatings) -> Iterator[Metric]:
    """Yield F1 under the second condition divided by F1 under the first, for each model and group.

    Use it with a first condition that is an upper bound, such as the right article, to see what share of it the second
    reaches.

    Undefined: as the change of F1, or F1 under the first condition is 0.
    """
    pairs = _pairs(first, second)
    sides = _counterparts(first.rated, second.rated, pairs)
    for group in _groups(first.rated, second.rated, pairs.raters):
        if first.rated.answers.scored or second.rated.answers.scored:
            for metric in _f1(sides, group, "ratio"):
                yield metric.at(group=group.name, first=first.name, second=second.name)


class _Pairs(NamedTuple):
    """The pairs of item and target asked under both conditions.

    Attributes:
        first, second: int64[pairs], their positions among the items of the two questions.
        item, target: int64[pairs], codes.
        units: of the pairs.
        either: number of pairs asked under at least one condition.
        raters: raters who rated under both conditions and whose ratings are not shared.
    """

    first: Ints
    second: Ints
    item: Ints
    target: Ints
    units: Units
    either: int
    raters: tuple[str, ...]


def _pairs(first: ConditionRatings, second: ConditionRatings) -> _Pairs:
    _, item = np.unique(np.concatenate([first.item, second.item]), return_inverse=True)
    targets = np.concatenate([first.target, second.target]).astype(np.int64)
    pair = item.astype(np.int64) * (int(targets.max(initial=0)) + 1) + targets
    n = len(first.item)
    _, at_first, at_second = np.intersect1d(pair[:n], pair[n:], assume_unique=True, return_indices=True)
    raters = set(first.rated.answers.raters) & set(second.rated.answers.raters)
    either = len(pair) - len(at_first)
    moving = tuple(sorted(raters - {*first.shared, *second.shared}))
    units = first.rated.answers.units.of(at_first)
    return _Pairs(at_first, at_second, item[at_first], targets[at_first], units, either, moving)


class _Sides(NamedTuple):
    """Both questions, and the answers that have a counterpart by the same rater under the other condition."""

    first: RatedQuestion
    second: RatedQuestion
    answers: tuple[RatingTable, RatingTable]
    pairs: _Pairs

    def means(self, group: RaterGroup) -> tuple[Floats, Floats]:
        """Return float64[pairs] mean scores of a group under both conditions, NaN without enough ratings."""
        a, b = (model_scores.means_of(answers, group) for answers in self.answers)
        return a[self.pairs.first], b[self.pairs.second]

    def nothing(self, group: RaterGroup, other: str = _NO_PAIR) -> str:
        """Return why no pair counts: which ratings of the group are missing, or `other` if none are."""
        if not len(self.pairs.first):
            return _NO_PAIR
        _, n = self.answers[0].of_raters(group.raters).means()  # as many as under the second condition
        most = int(n[self.pairs.first].max())
        if most >= group.at_least:
            return other
        return (
            f"needs {group.at_least} ratings of a pair of item and target by the same raters under both conditions, "
            f"and no pair has more than {most}; {len(group.raters)} of the group rated under both"
        )


def _counterparts(first: RatedQuestion, second: RatedQuestion, pairs: _Pairs) -> _Sides:
    keys = [_keys(q.answers, at, pairs.raters) for q, at in ((first, pairs.first), (second, pairs.second))]
    answers = (
        first.answers.where((keys[0] >= 0) & np.isin(keys[0], keys[1])),
        second.answers.where((keys[1] >= 0) & np.isin(keys[1], keys[0])),
    )
    return _Sides(first, second, answers, pairs)


def _keys(answers: RatingTable, at: Ints, raters: tuple[str, ...]) -> Ints:
    """Return int64[n], one code for each pair of item and target and rater; -1 for answers that are not compared."""
    pair_of = np.full(answers.items, -1, np.int64)
    pair_of[at] = np.arange(len(at))
    number_of = {name: number for number, name in enumerate(raters)}
    pair = pair_of[answers.item]
    rater = np.array([number_of.get(name, -1) for name in answers.raters], np.int64)[answers.rater]
    answered = ~np.isnan(answers.score) if answers.scored else answers.value >= 0
    return np.where((pair >= 0) & (rater >= 0) & answered, pair * max(len(raters), 1) + rater, -1)


def _changes(first: RatedQuestion, second: RatedQuestion, pairs: _Pairs) -> Iterator[Metric]:
    sides = _counterparts(first, second, pairs)
    for group in _groups(first, second, pairs.raters):
        if first.answers.scored or second.answers.scored:
            metrics = [*_scores(sides, group), *_f1(sides, group, "change")]
            metrics += [] if group.name == PEOPLE else _with_people(sides, group)
        else:
            metrics = [*_accuracy(sides, group)]
        for metric in metrics:
            yield metric.at(group=group.name)
    for rater in sorted(first.unscaled & second.unscaled & {*pairs.raters}):
        for metric in _with_people(sides, RaterGroup(rater, (rater,))):
            yield metric.at(group=rater)


def _groups(first: RatedQuestion, second: RatedQuestion, raters: tuple[str, ...]) -> Iterator[RaterGroup]:
    """Yield each group, with only the raters who rated under both conditions; a single model is a separate group."""
    groups_of_second = {group.name: group for group in second.averaged_groups(second.answers)}
    for group in first.averaged_groups(first.answers):
        other = groups_of_second.get(group.name)
        members = tuple(name for name in group.raters if name in raters and other and name in other.raters)
        if other and members and (len(members) > 1 or group.name in (PEOPLE, *members)):
            yield RaterGroup(group.name, members, min(group.at_least, other.at_least))


def _scores(sides: _Sides, group: RaterGroup) -> Iterator[Metric]:
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


def _f1(sides: _Sides, group: RaterGroup, comparison: Literal["change", "ratio"]) -> Iterator[Metric]:
    name, wording = ("f1_change", _F1) if comparison == "change" else ("f1_ratio", _F1_RATIO)
    first, second, pairs = sides.first, sides.second, sides.pairs
    if first.context.judged is None or second.context.judged is None:
        return
    a, b = sides.means(group)
    asked = first.context.judged[pairs.first] & second.context.judged[pairs.second]
    both = asked & ~np.isnan(a) & ~np.isnan(b)
    coverage = float(both.sum() / asked.sum()) if asked.any() else None
    for reading, holds in gold.readings(first.settings.positive).items():
        of_first, of_second = _right(first, holds)[pairs.first], _right(second, holds)[pairs.second]
        before, after = (
            gold.outcomes(right[both], holds(scores[both])) for right, scores in ((of_first, a), (of_second, b))
        )
        positive = "as labelled" if first.context.right is not None else f"where its score is {reading}"
        for average in gold.AVERAGES:
            definition = wording.format(over=gold.OVER[average], reading=reading, positive=positive)
            dims = {"average": average, "positive": reading}
            value, interval = gold.f1_compared(
                before,
                after,
                pairs.item[both],
                pairs.target[both],
                average,
                comparison=comparison,
                units=pairs.units.of(both),
            )
            n = int(both.sum())
            if value is None:
                reason = _NO_F1[comparison] if n else sides.nothing(group, _NO_GOLD)
                yield undefined(name, definition, reason, n=n, coverage=coverage, dims=dims)
            else:
                yield estimated(name, definition, value, n, coverage=coverage, interval=interval, dims=dims)


def _right(question: RatedQuestion, holds: Callable[[Floats], Bools]) -> Bools:
    """Return bool[items], whether each label holds according to gold."""
    if question.context.right is not None:
        return question.context.right
    assert question.context.gold_scores is not None
    return holds(question.context.gold_scores)


def _accuracy(sides: _Sides, group: RaterGroup) -> Iterator[Metric]:
    right, of_second = sides.first.context.right_values, sides.second.context.right_values
    if right is None or of_second is None:
        return
    pairs = sides.pairs
    a = _correct(sides.answers[0], right, group)[pairs.first]
    b = _correct(sides.answers[1], of_second, group)[pairs.second]
    both = ~np.isnan(a) & ~np.isnan(b)
    asked = sum(right[at] is not None for at in pairs.first.tolist())
    coverage = float(both.sum() / asked) if asked else None
    nothing = _NO_MAJORITY if len(pairs.first) else _NO_PAIR
    yield _paired("accuracy_change", _ACCURACY, (b - a)[both], pairs.units.of(both), coverage=coverage, nothing=nothing)


def _correct(answers: RatingTable, right: Sequence[frozenset[str] | None], group: RaterGroup) -> Floats:
    """Return float64[items]: 1 right, 0 wrong, NaN without a majority or if the right answers are unknown."""
    counts, _ = answers.of_raters(group.raters).counts(by="value")
    return np.array([
        float(answers.values[code] in of_item) if code >= 0 and of_item is not None else np.nan
        for of_item, code in zip(right, majority(counts, at_least=group.at_least), strict=True)
    ])  # fmt: skip


def _with_people(sides: _Sides, group: RaterGroup) -> Iterator[Metric]:
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
