"""The metrics of one question that compare raters with people and with gold answers."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from jobs.metrics import correlation, gold, majority, model_scores
from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric
from jobs.metrics.model_scores import RaterGroup
from jobs.metrics.question import MAX_LINES, PEOPLE, QuestionContext, RatedQuestion

MAX_CELLS = 50_000_000  # of a dense table of items x raters of one target


def against_people(question: RatedQuestion) -> Iterator[Metric]:
    answers, people = question.answers, question.groups.get(PEOPLE, ())
    models = [rater for rater in answers.raters if question.kind(rater) not in ("human", "gold")][:MAX_LINES]
    if not people or not models:
        return
    of_people = answers.of_raters(people)
    for rater in models:
        of_model = answers.of_raters((rater,))
        if answers.scored:
            deviations = [] if rater in question.unscaled else gold.deviations(of_model, of_people)
            metrics = [*deviations, *_correlations(of_model, of_people, question)]
        else:
            metrics = [gold.preference_agreement(of_model, of_people)]
        for metric in metrics:
            yield metric.at(rater=rater, group=PEOPLE)


def _correlations(model: RatingTable, people: RatingTable, question: RatedQuestion) -> Iterator[Metric]:
    """Yield the correlations with people over all items and, if items are rated against targets, in each subgroup.

    CAIRE gives them by country of the prompt (table 2), by concept (table 15), and for natural and generated pictures.
    """
    context, everything = question.context, np.ones(model.items, bool)
    asked_people = everything if question.asked_people is None else question.asked_people
    yield from _correlations_of(model, people, context, everything, asked_people=asked_people)
    if len(np.unique(context.target)) < 2:
        return
    for attribute in question.settings.disaggregate:
        for value, members in context.subgroups.get(attribute, {}).items():
            if not members.all():  # else the same as over all items
                for metric in _correlations_of(model, people, context, members, asked_people=asked_people):
                    marked = model_scores.marked(metric, question.settings.minimum)
                    yield marked.at(attribute=attribute, part=value)


def _correlations_of(
    model: RatingTable,
    people: RatingTable,
    context: QuestionContext,
    members: NDArray[np.bool_],
    *,
    asked_people: NDArray[np.bool_],
) -> Iterator[Metric]:
    """Yield the correlations over the items of `members`, bool[items].

    Args:
        asked_people: bool[items], whether a person was asked about the item.
    """
    mean, rated = model.means()[0], people.means()[0]
    both = members & ~np.isnan(mean) & ~np.isnan(rated)
    x, y, units = mean[both], rated[both], model.units.of(both)
    yield from correlation.correlations(x, y, asked=int((members & ~np.isnan(rated)).sum()), units=units)
    picture, target = context.picture[both], context.target[both]
    if len(np.unique(context.target[members])) < 2:
        return
    # All pairs of the pictures that people were asked about: one that only one side rated lowers the coverage.
    asked = int((members & np.isin(context.picture, context.picture[members & asked_people])).sum())
    by_image, by_target = "CAIRE, tables 2 and 15", "CAIRE, table 2"
    yield correlation.within(x, y, picture, group_name="image", source=by_image, units=units, asked=asked)
    yield correlation.within(x, y, target, group_name="target", source=by_target, units=units, asked=asked)
    yield correlation.global_average(x, y, target, asked=asked, units=units)
    if context.concept is not None:
        concept = context.concept[both]
        named = concept >= 0
        of_named, pairs = units.of(named), (x[named], y[named])
        yield correlation.concept_average(*pairs, concept[named], target[named], units=of_named, asked=asked)
        cells = concept[named] * (int(context.target.max()) + 1) + target[named]
        source, group = "CAIRE, section 6: concepts within countries", "concept and target"
        yield correlation.within(*pairs, cells, group_name=group, source=source, units=of_named, asked=asked)
    for code in np.unique(context.target[members]):
        of_target = members & (context.target == code)
        inside = people.of_items(of_target)
        raters = np.unique(inside.rater)
        if not len(raters) or len(raters) * int(of_target.sum()) > MAX_CELLS:
            continue
        ratings = inside.of_raters([inside.raters[r] for r in raters]).matrix()
        for metric in correlation.against_single_raters(mean[of_target], ratings, units=model.units.of(of_target)):
            yield metric.at(target=context.targets[code] if context.targets else str(code))


def against_gold(question: RatedQuestion) -> Iterator[Metric]:
    answers = question.answers
    raters = [rater for rater in answers.raters if question.kind(rater) != "gold"][:MAX_LINES]
    models = [rater for rater in raters if question.kind(rater) != "human" and rater not in question.unscaled]
    groups = [RaterGroup(rater, (rater,)) for rater in models]
    if PEOPLE in question.groups:
        groups.append(question.averaged(PEOPLE, answers))
    yield from _without_gold(question)
    compare = _scores_against_gold if answers.scored else _categories_against_gold
    for group in groups:
        yield from compare(question, group)


def _without_gold(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the share of rated items whose right answers are unknown, if those of any are known."""
    context, judged = question.context, question.context.judged
    if judged is None and context.right_values is not None:
        judged = np.array([right is not None for right in context.right_values], bool)
    if judged is not None:
        yield gold.without_gold(len(np.unique(context.picture[judged])), len(np.unique(context.picture)))


def _scores_against_gold(question: RatedQuestion, group: RaterGroup) -> Iterator[Metric]:
    context = question.context
    if context.judged is None:
        return
    means = model_scores.means_of(question.answers, group)
    both = context.judged & ~np.isnan(means)
    for reading, holds in gold.readings(question.settings.positive).items():
        if context.right is not None:
            right, positive = context.right, f"predicted where the score is {reading}; in gold as labelled"
        else:
            assert context.gold_scores is not None
            right, positive = holds(context.gold_scores), f"predicted, and in gold, where the score is {reading}"
        for metric in gold.classification(
            right[both],
            holds(means[both]),
            context.picture[both],
            context.target[both],
            positive=positive,
            asked=int(context.judged.sum()),
            units=question.answers.units.of(both),
        ):
            yield metric.at(group=group.name, positive=reading)


def _categories_against_gold(question: RatedQuestion, group: RaterGroup) -> Iterator[Metric]:
    answers, right = question.answers, question.context.right_values
    if right is None:
        return
    counts, _ = answers.of_raters(group.raters).counts(by="value")
    chosen = majority.majority(counts, at_least=group.at_least)
    judged = [item for item, of_item in enumerate(right) if of_item is not None]
    answered = [item for item in judged if chosen[item] >= 0]
    correct = [answers.values[chosen[item]] in (right[item] or ()) for item in answered]
    units = answers.units.of(np.array(answered, np.int64))
    yield gold.accuracy(correct, asked=len(judged), units=units).at(group=group.name)
