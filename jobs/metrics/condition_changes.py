"""Changes between two conditions of one question: the second minus the first, paired by item, target and rater.

Both conditions are compared on the same pairs of item and target, rated by the same raters, so that differences between
items cancel. Intervals are bootstrap intervals over units, such as pictures: a unit keeps all its items, targets and
both conditions.

Tables 1 and 8 of CAIRE report such changes of F1 against a baseline without context. F1 is also divided by that under a
reference condition, and that of a model compared with the best other one.
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
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, undefined
from jobs.metrics.model_scores import EPSILON, RaterGroup
from jobs.metrics.rated_question import PEOPLE, RatedQuestion

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
FEW_CONDITIONS = 4  # without a baseline, all pairs of at most this many conditions are compared

_PAIRED = (
    "under the second condition minus under the first, over pairs of item and target that the same raters rated under "
    "both; n counts such pairs."
)
_SCORE = MetricKind("score_change", Quantity.NUMBER, (Topic.CHANGES,)).defined_as(
    f"Mean of the group's mean score {_PAIRED}"
)
_SHARE = MetricKind("share_at_least_change", Quantity.DIFFERENCE, (Topic.CHANGES,)).defined_as(
    f"Share of pairs whose mean score over the group is at least the threshold, {_PAIRED}"
)
_F1 = MetricKind("f1_change", Quantity.NUMBER, (Topic.CHANGES,)).defined_as(
    "F1 ({over}), positive: predicted where the score is {reading}, in gold {positive}; under the "
    "second condition minus under the first, over pairs of item and label "
    "that the same raters rated under both (CAIRE, tables 1 and 8); n counts such pairs."
)
_F1_RATIO = MetricKind("f1_ratio", Quantity.NUMBER, (Topic.CHANGES,)).defined_as(
    "F1 ({over}), positive: predicted where the score is {reading}, in gold {positive}; under the "
    "second condition divided by that under the first, over pairs of item and label "
    "that the same raters rated under both (CAIRE, table 11: linked against right article); n counts such pairs."
)
_ACCURACY = MetricKind("accuracy_change", Quantity.DIFFERENCE, (Topic.CHANGES,)).defined_as(
    "Items whose answer is among the right ones / items, under the second condition minus under the first, over items "
    "that the same raters answered under both; n counts such items."
)
_PEARSON = MetricKind("pearson_with_people_change", Quantity.NUMBER, (Topic.CHANGES,)).defined_as(
    "Pearson correlation of the group's mean score with people's mean score, under the second condition minus under "
    "the first, over pairs of item and target that all rated under both; n counts such pairs."
)
_BY_IMAGE = MetricKind("pearson_by_image_change", Quantity.NUMBER, (Topic.CHANGES,)).defined_as(
    "Pearson correlation of the group's mean score with people's mean score over the targets of an image, under the "
    f"second condition minus under the first: mean over images with at least {MIN_PAIRS} targets and variance of all "
    "scores under both (CAIRE, table 2); n counts images."
)
_NO_PEOPLE = "no pair of item and target that the group rated under both conditions is rated by people under both"
_NO_MAJORITY = "no item with a right answer has a majority of the answers by the same raters under both conditions"
NO_PAIR = "no pair of item and target is rated under both conditions"
_F1_OVER_BEST = MetricKind(
    "f1_over_best", Quantity.NUMBER, (Topic.OVER_BEST,), label="F1 minus that of the best"
).defined_as(
    "F1 ({over}), positive: predicted where the score is {reading}, in gold {positive}; of a model under the second "
    "condition minus that of the model with the highest F1 under the first, over pairs of item and label that both "
    "rated (CAIRE, table 1: text model); n counts such pairs."
)
_NO_F1 = {
    "change": "nothing is positive, in gold or as predicted, under a condition",
    "ratio": "F1 is 0 under the first condition, or nothing is positive, in gold or as predicted, under a condition",
}
_NO_GOLD = "no pair of item and label that the group rated under both conditions is labelled in gold under both"
_NO_COMMON_PAIR = "no pair of item and label that is labelled in gold is rated by both models"


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


class ConditionPairs(NamedTuple):
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


class Sides(NamedTuple):
    """Both questions, and the answers that have a counterpart by the same rater under the other condition."""

    first: RatedQuestion
    second: RatedQuestion
    answers: tuple[RatingTable, RatingTable]
    pairs: ConditionPairs

    def means(self, group: RaterGroup) -> tuple[Floats, Floats]:
        """Return float64[pairs] mean scores of a group under both conditions, NaN without enough ratings."""
        a, b = (model_scores.means_of(answers, group) for answers in self.answers)
        return a[self.pairs.first], b[self.pairs.second]

    def nothing(self, group: RaterGroup, other: str = NO_PAIR) -> str:
        """Return why no pair counts: which ratings of the group are missing, or `other` if none are."""
        if not len(self.pairs.first):
            return NO_PAIR
        _, n = self.answers[0].of_raters(group.raters).means()  # as many as under the second condition
        most = int(n[self.pairs.first].max())
        if most >= group.at_least:
            return other
        return (
            f"needs {group.at_least} ratings of a pair of item and target by the same raters under both conditions, "
            f"and no pair has more than {most}; {len(group.raters)} of the group rated under both"
        )


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
    return undefined(_SCORE, reason)


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
    yield _paired(_SCORE, b - a, units, coverage=coverage, dims=dims, nothing=nothing)
    scale = first.context.scale
    for threshold in first.thresholds:
        at = dims | {"threshold": f"{threshold:g}"}
        if scale is None:
            reason = first.context.no_scale
            yield undefined(_SHARE, reason, n=n, coverage=coverage, dims=at)
            continue
        least = threshold - EPSILON - (sum(scale) if first.inverted else 0)  # low + high - score, without its offset
        change = (b >= least).astype(np.float64) - (a >= least)
        yield _paired(_SHARE, change, units, coverage=coverage, dims=at, nothing=nothing)


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
    yield _paired(_ACCURACY, (b - a)[both], pairs.units.of(both), coverage=coverage, nothing=nothing)


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
    yield _estimate(_PEARSON, rows, _pearson_change, n, units=units, coverage=coverage, nothing=nothing)
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
    yield _estimate(_BY_IMAGE, means, ratio, len(defined), units=of_images, coverage=share, nothing=reason)


def _paired(
    kind: MetricKind,
    change: Floats,
    units: Units,
    *,
    coverage: float | None,
    nothing: str,
    dims: dict[str, str] | None = None,
) -> Metric:
    """Return the mean of float64[pairs] changes, with a bootstrap interval over their units."""
    rows = np.stack([change, np.ones(len(change))], axis=1)
    return _estimate(kind, rows, ratio, len(change), units=units, coverage=coverage, nothing=nothing, dims=dims)


def _estimate(
    kind: MetricKind,
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
        return undefined(kind, reason, n=n, coverage=coverage, dims=dims)
    interval = bootstrap(rows, statistic, units)
    return estimated(kind, value, n, coverage=coverage, interval=interval, dims=dims)


def _pearson_change(sums: Floats) -> Floats:
    """Return float64[rows], the second correlation minus the first, of float64[rows, 12] sums of `products`."""
    return pearson_of_sums(sums[:, 6:]) - pearson_of_sums(sums[:, :6])


def pairs_of(first: ConditionRatings, second: ConditionRatings) -> ConditionPairs:
    """Return the pairs of item and target that two conditions have in common."""
    _, item = np.unique(np.concatenate([first.item, second.item]), return_inverse=True)
    targets = np.concatenate([first.target, second.target]).astype(np.int64)
    pair = item.astype(np.int64) * (int(targets.max(initial=0)) + 1) + targets
    n = len(first.item)
    _, at_first, at_second = np.intersect1d(pair[:n], pair[n:], assume_unique=True, return_indices=True)
    raters = set(first.rated.answers.raters) & set(second.rated.answers.raters)
    either = len(pair) - len(at_first)
    moving = tuple(sorted(raters - {*first.shared, *second.shared}))
    units = first.rated.answers.units.of(at_first)
    return ConditionPairs(at_first, at_second, item[at_first], targets[at_first], units, either, moving)


def counterparts(first: RatedQuestion, second: RatedQuestion, pairs: ConditionPairs) -> Sides:
    """Return both questions with the answers that have a counterpart by the same rater under the other condition."""
    keys = [_keys(q.answers, at, pairs.raters) for q, at in ((first, pairs.first), (second, pairs.second))]
    answers = (
        first.answers.where((keys[0] >= 0) & np.isin(keys[0], keys[1])),
        second.answers.where((keys[1] >= 0) & np.isin(keys[1], keys[0])),
    )
    return Sides(first, second, answers, pairs)


def _keys(answers: RatingTable, at: Ints, raters: tuple[str, ...]) -> Ints:
    """Return int64[n], one code for each pair of item and target and rater; -1 for answers that are not compared."""
    pair_of = np.full(answers.items, -1, np.int64)
    pair_of[at] = np.arange(len(at))
    number_of = {name: number for number, name in enumerate(raters)}
    pair = pair_of[answers.item]
    rater = np.array([number_of.get(name, -1) for name in answers.raters], np.int64)[answers.rater]
    answered = ~np.isnan(answers.score) if answers.scored else answers.value >= 0
    return np.where((pair >= 0) & (rater >= 0) & answered, pair * max(len(raters), 1) + rater, -1)


def groups_of(first: RatedQuestion, second: RatedQuestion, raters: tuple[str, ...]) -> Iterator[RaterGroup]:
    """Yield each group, with only the raters who rated under both conditions; a single model is a separate group."""
    groups_of_second = {group.name: group for group in second.averaged_groups(second.answers)}
    for group in first.averaged_groups(first.answers):
        other = groups_of_second.get(group.name)
        members = tuple(name for name in group.raters if name in raters and other and name in other.raters)
        if other and members and (len(members) > 1 or group.name in (PEOPLE, *members)):
            yield RaterGroup(group.name, members, min(group.at_least, other.at_least))


def f1_ratios(first: ConditionRatings, second: ConditionRatings) -> Iterator[Metric]:
    """Yield F1 under the second condition divided by F1 under the first, for each model and group.

    Use it with a first condition that is an upper bound, such as the right article, to see what share of it the second
    reaches.

    Undefined: as the change of F1, or F1 under the first condition is 0.
    """
    pairs = pairs_of(first, second)
    sides = counterparts(first.rated, second.rated, pairs)
    for group in groups_of(first.rated, second.rated, pairs.raters):
        if first.rated.answers.scored or second.rated.answers.scored:
            for metric in f1_compared(sides, group, "ratio"):
                yield metric.at(group=group.name, first=first.name, second=second.name)


def f1_over_best(first: ConditionRatings, second: ConditionRatings) -> Iterator[Metric]:
    """Yield F1 of each model that only rated under the second condition, minus that of the best model under the first.

    Use it for models that cannot answer under the first condition, such as a text model without an article: CAIRE
    compares it with its best vision-language model (table 1). The best model is that with the highest F1 over all pairs
    that it rated under the first condition; it is the dim `best`.

    Undefined: no pair of item and label is rated by both and labelled in gold, or nothing is positive.
    """
    before, after = first.rated, second.rated
    if before.context.judged is None or after.context.judged is None or not before.answers.scored:
        return
    judges = [name for name in before.models if name not in first.shared]
    scores = {name: model_scores.means_of(before.answers, RaterGroup(name, (name,))) for name in judges}
    pairs = pairs_of(first, second)
    sides = Sides(before, after, (before.answers, after.answers), pairs)
    for reading in gold.readings(before.settings.positive):
        for average in gold.AVERAGES:
            values = {name: _f1_alone(before, scores[name], reading, average) for name in judges}
            defined = {name: value for name, value in values.items() if value is not None}
            if not defined:
                continue
            best = max(sorted(defined), key=lambda name: defined[name])
            for name in (model for model in after.models if model not in before.answers.raters):
                of_model = model_scores.means_of(after.answers, RaterGroup(name, (name,)))
                metric = _f1_of_scores(
                    sides, (scores[best][pairs.first], of_model[pairs.second]), reading, average,
                    kind=_F1_OVER_BEST, comparison="change", nothing=_NO_COMMON_PAIR,
                )  # fmt: skip
                yield metric.at(group=name, best=best, first=first.name, second=second.name)


def _f1_alone(question: RatedQuestion, scores: Floats, reading: str, average: gold.Average) -> float | None:
    """Return F1 of the items that have a score and are labelled in gold; None if it is undefined."""
    context, holds = question.context, gold.readings(question.settings.positive)[reading]
    assert context.judged is not None
    rated = context.judged & ~np.isnan(scores)
    cells = gold.outcomes(_right(question, holds)[rated], holds(scores[rated]))
    return gold.f1(cells, context.picture[rated], context.target[rated], average)


def f1_compared(sides: Sides, group: RaterGroup, comparison: Literal["change", "ratio"]) -> Iterator[Metric]:
    """Yield F1 of a group under the second condition minus, or divided by, F1 under the first, if gold is known."""
    kind = _F1 if comparison == "change" else _F1_RATIO
    if sides.first.context.judged is None or sides.second.context.judged is None:
        return
    scores, nothing = sides.means(group), sides.nothing(group, _NO_GOLD)
    for reading in gold.readings(sides.first.settings.positive):
        for average in gold.AVERAGES:
            yield _f1_of_scores(sides, scores, reading, average, kind=kind, comparison=comparison, nothing=nothing)


def _f1_of_scores(
    sides: Sides,
    scores: tuple[Floats, Floats],
    reading: str,
    average: gold.Average,
    *,
    kind: MetricKind,
    comparison: Literal["change", "ratio"],
    nothing: str,
) -> Metric:
    """Return F1 of the second of two scores float64[pairs] minus, or divided by, that of the first.

    `nothing` is the reason if no pair has both.
    """
    first, second, pairs = sides.first, sides.second, sides.pairs
    assert first.context.judged is not None
    assert second.context.judged is not None
    holds = gold.readings(first.settings.positive)[reading]
    asked = first.context.judged[pairs.first] & second.context.judged[pairs.second]
    both = asked & ~np.isnan(scores[0]) & ~np.isnan(scores[1])
    rights = _right(first, holds)[pairs.first], _right(second, holds)[pairs.second]
    before, after = (gold.outcomes(right[both], holds(side[both])) for right, side in zip(rights, scores, strict=True))
    positive = "as labelled" if first.context.right is not None else f"where its score is {reading}"
    kind = kind.worded(over=gold.OVER[average], reading=reading, positive=positive)
    at = {"average": average, "positive": reading}
    n, coverage = int(both.sum()), float(both.sum() / asked.sum()) if asked.any() else None
    value, interval = gold.f1_compared(
        before, after, pairs.item[both], pairs.target[both], average, comparison=comparison, units=pairs.units.of(both)
    )
    if value is None:
        return undefined(kind, _NO_F1[comparison] if n else nothing, n=n, coverage=coverage, dims=at)
    return estimated(kind, value, n, coverage=coverage, interval=interval, dims=at)


def _right(question: RatedQuestion, holds: Callable[[Floats], Bools]) -> Bools:
    """Return bool[items], whether each label holds according to gold."""
    if question.context.right is not None:
        return question.context.right
    assert question.context.gold_scores is not None
    return holds(question.context.gold_scores)
