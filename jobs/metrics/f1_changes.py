"""F1 under one condition compared with F1 under another, of the same raters or of a model with the best other one."""

from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from jobs.metrics import gold, model_scores
from jobs.metrics.condition_pairs import ConditionRatings, Sides, counterparts, groups_of, pairs_of
from jobs.metrics.metric import Metric, estimated, undefined
from jobs.metrics.model_scores import RaterGroup
from jobs.metrics.question import RatedQuestion

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

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
_F1_OVER_BEST = (
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
                    name="f1_over_best", wording=_F1_OVER_BEST, comparison="change", nothing=_NO_COMMON_PAIR,
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
    name, wording = ("f1_change", _F1) if comparison == "change" else ("f1_ratio", _F1_RATIO)
    if sides.first.context.judged is None or sides.second.context.judged is None:
        return
    scores, nothing = sides.means(group), sides.nothing(group, _NO_GOLD)
    for reading in gold.readings(sides.first.settings.positive):
        for average in gold.AVERAGES:
            yield _f1_of_scores(
                sides, scores, reading, average, name=name, wording=wording, comparison=comparison, nothing=nothing
            )


def _f1_of_scores(
    sides: Sides,
    scores: tuple[Floats, Floats],
    reading: str,
    average: gold.Average,
    *,
    name: str,
    wording: str,
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
    definition = wording.format(over=gold.OVER[average], reading=reading, positive=positive)
    at = {"average": average, "positive": reading}
    n, coverage = int(both.sum()), float(both.sum() / asked.sum()) if asked.any() else None
    value, interval = gold.f1_compared(
        before,
        after,
        pairs.item[both],
        pairs.target[both],
        average,
        comparison=comparison,
        units=pairs.units.of(both),
    )
    if value is None:
        return undefined(name, definition, _NO_F1[comparison] if n else nothing, n=n, coverage=coverage, dims=at)
    return estimated(name, definition, value, n, coverage=coverage, interval=interval, dims=at)


def _right(question: RatedQuestion, holds: Callable[[Floats], Bools]) -> Bools:
    """Return bool[items], whether each label holds according to gold."""
    if question.context.right is not None:
        return question.context.right
    assert question.context.gold_scores is not None
    return holds(question.context.gold_scores)
