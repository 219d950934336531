"""The metrics of one question: a registry of metric groups, each with the condition under which it applies."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from actors.status import Status
from jobs.metrics import (
    agreement,
    crowdtruth,
    gold,
    length_bias,
    majority,
    model_scores,
    participation,
    references,
    reliability,
    subgroup_answers,
)
from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric, undefined
from jobs.metrics.model_scores import RaterGroup
from jobs.metrics.question import (
    MAX_LINES,
    MODELS,
    PEOPLE,
    SINGLE_RATINGS,
    QuestionContext,
    RatedQuestion,
    people_needed,
)

ACROSS = "people and models"  # group of the kappas of raters of different kinds
NEED_SCALE = frozenset({"share_lowest", "share_at_least", "share_difference", "average_of_shares"})
WRITER, PROMPT = "model", "prompt"  # attributes of a response: the model that wrote it, and what it was asked
BY_WRITER = (WRITER, f"{WRITER}+prompt")  # attributes by which lengths and answers are reported, if they are subgroups
_NO_REPORTS = "the imported file does not say who reported a picture"


@dataclass(frozen=True)
class MetricGroup:
    """Metrics that are computed together for questions to which `applies`."""

    applies: Callable[[RatedQuestion], bool]
    compute: Callable[[RatedQuestion], Iterator[Metric]]


def question_metrics(question: RatedQuestion) -> Iterator[Metric]:
    """Yield all metrics of one question; the caller adds the dims rubric and question."""
    for group in METRIC_GROUPS:
        if group.applies(question):
            yield from group.compute(question)


def _agreement(question: RatedQuestion) -> Iterator[Metric]:
    for name, raters in question.groups.items():
        answers = question.answers.of_raters(raters)
        yield from _agreement_of(answers, question, group=name)
        if name == PEOPLE and 1 < len(raters) <= MAX_LINES and answers.values:
            for metric in majority.rater_unit_agreement(answers, at_least=people_needed(answers, question.settings)):
                yield metric.at(group=PEOPLE)
        if len(raters) > 1:
            yield from _agreement_of_subgroups(answers, question, group=name)
    groups = question.groups
    within = [groups[name] for name in (PEOPLE, MODELS) if name in groups]
    for metric in agreement.kappas_across(question.answers, [groups.get(PEOPLE, ()), question.models], within=within):
        yield metric.at(group=ACROSS)


def _agreement_of(answers: RatingTable, question: RatedQuestion, *, group: str, pairs: bool = True) -> Iterator[Metric]:
    """Yield the agreement within a group of raters; undefined for a single rater."""
    settings = question.settings
    metrics = agreement.agreement(
        answers,
        tolerance=settings.tolerance,
        weights=settings.weights,
        scale=question.context.scale,
        pairs=pairs,
    )
    if answers.scored:
        metrics += [*reliability.icc(answers), *reliability.pairwise_correlations(answers)]
    for metric in metrics:
        yield metric.at(group=group)


def _agreement_of_subgroups(answers: RatingTable, question: RatedQuestion, *, group: str) -> Iterator[Metric]:
    """Yield the agreement in each subgroup of items (CAIRE, table 14: by country), without kappas of pairs."""
    for attribute in question.settings.disaggregate:
        for value, members in question.context.subgroups.get(attribute, {}).items():
            inside = answers.of_items(members)
            inside = inside.of_raters([inside.raters[code] for code in np.unique(inside.rater)])
            shared = inside.units.of(inside.per_item() > 1).count
            for metric in _agreement_of(inside, question, group=group, pairs=False):
                marked = model_scores.marked(metric, question.settings.minimum, n=shared)
                yield marked.at(attribute=attribute, part=value)


def _accounting(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the numbers of ratings and people; shares of reports are undefined if nobody could report."""
    for metric in _counts(question):
        of_people = metric.dims.get("group") == PEOPLE
        is_of_reports = metric.name == "reported_share" or metric.dims.get("status") == Status.REPORTED
        if question.knows_reports or not (of_people and is_of_reports):
            yield metric
        else:
            yield undefined(
                metric.name, metric.definition, _NO_REPORTS, n=metric.n, coverage=metric.coverage, dims=metric.dims
            )


def _counts(question: RatedQuestion) -> Iterator[Metric]:
    assert question.ended is not None
    yield from participation.accounting(
        sum(question.ended.values(), start=Counter()), question.double, question.repeated
    )
    if PEOPLE in question.groups:
        of_people = [question.ended[rater] for rater in question.groups[PEOPLE]]
        statuses = sum(of_people, start=Counter())
        repeated = statuses.total() - int(question.answers.of_raters(question.groups[PEOPLE]).asked.sum())
        for metric in participation.accounting(statuses, question.double_by_people, repeated):
            yield metric.at(group=PEOPLE)
        yield from participation.workload(of_people)
    for name in (PEOPLE, MODELS):
        yield from participation.endings([question.ended[rater] for rater in question.groups.get(name, ())], group=name)
    people = [name for name in question.answers.raters if question.kind(name) == "human"]
    if question.reported is not None and people:
        answers, asked = question.answers.of_raters(people), question.asked_people
        assert asked is not None
        yield from participation.participation(
            answers, question.ended, asked=asked, reported=question.reported, group=PEOPLE
        )


def _without_value(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the share of items without a value of each attribute that some items lack.

    If only other questions are about responses, an attribute that no item has is one of responses, such as `model`.
    """
    picture, lengths = question.context.picture, question.context.lengths
    responses_elsewhere = lengths is not None and bool(np.isnan(lengths).all())
    for attribute, parts in question.context.subgroups.items():
        if responses_elsewhere and not parts:
            continue
        inside = np.any(list(parts.values()), axis=0) if parts else np.zeros(len(picture), bool)
        with_value, rated = len(np.unique(picture[inside])), len(np.unique(picture))
        if with_value < rated:
            yield participation.without_value(with_value, rated, attribute=attribute)


def _crowdtruth(question: RatedQuestion) -> Iterator[Metric]:
    answers, context, stop = question.answers, question.context, question.settings.stop
    assert context.names is not None
    if answers.scored and context.scale is None:
        yield crowdtruth.without_bins(context.no_scale, stop=stop).at(bins="3")
        return
    chosen = answers.of_raters(question.groups.get(question.settings.crowdtruth_raters, answers.raters))
    bins = context.scale if answers.scored else None
    human = all(question.kind(rater) == "human" for rater in chosen.raters)
    yield from crowdtruth.task_of(chosen, context.names, bins=bins).metrics(
        stop=stop,
        dims={"bins": "3"} if bins else {},
        at_least=people_needed(chosen, question.settings) if human else 1,
    )


def _scores(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the scores of models and people; those that depend on an unknown scale are undefined."""
    for metric in _scores_on_scale(question):
        depends = question.inverted or metric.name in NEED_SCALE
        if question.context.scale or metric.value is None or not depends:
            yield metric
        else:
            yield undefined(
                metric.name,
                metric.definition,
                question.context.no_scale,
                n=metric.n,
                coverage=metric.coverage,
                dims=metric.dims,
            )


def _scores_on_scale(question: RatedQuestion) -> Iterator[Metric]:
    context = question.context
    low, high = context.scale or (-np.inf, np.inf)  # if unknown, `_scores` replaces the metrics that depend on it
    answers = question.answers
    if question.inverted and context.scale:
        answers = model_scores.inverted(answers, low=low, high=high)
    groups = question.averaged_groups(answers)
    for group in groups:
        metrics = [model_scores.share_lowest(answers, group, low), model_scores.mean_score(answers, group)]
        for threshold in question.thresholds:
            metrics.append(model_scores.share_at_least(answers, group, threshold))
            if len(group.raters) > 1:
                metrics.append(model_scores.share_at_least(answers, group, threshold, rule="any"))
        if context.lengths is not None:
            metrics += _length_bias(answers, group, context)
        for metric in metrics:
            yield metric.at(**({"inverted": "yes"} if question.inverted else {}))
    yield from _self_preference(answers, question)
    yield from _scores_of_subgroups(answers, question, groups)
    yield from _comparisons(answers, question, groups)
    yield from _contrasts(answers, question, groups)


def _length_bias(answers: RatingTable, group: RaterGroup, context: QuestionContext) -> Iterator[Metric]:
    """Yield the dependence of scores on lengths, of all responses and by writer (Century, figure 12)."""
    assert context.lengths is not None
    yield from length_bias.length_bias(answers, group, context.lengths)
    for attribute in BY_WRITER:
        for part, wrote in context.subgroups.get(attribute, {}).items():
            for metric in length_bias.length_bias(answers.of_items(wrote), group, context.lengths[wrote]):
                yield metric.at(attribute=attribute, part=part)


def _answers_by_writer(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the distributions of people's and each model's answers to the responses of each model."""
    groups: dict[str, tuple[str, ...]] = {name: (name,) for name in question.models}
    if PEOPLE in question.groups:
        groups[PEOPLE] = question.groups[PEOPLE]
    for attribute in BY_WRITER:
        parts = question.context.subgroups.get(attribute, {})
        for name, raters in groups.items():
            yield from subgroup_answers.answer_shares(question.answers, raters, parts, group=name, attribute=attribute)


def _self_preference(answers: RatingTable, question: RatedQuestion) -> Iterator[Metric]:
    """Yield the self-preference of each judge whose family wrote responses, over all prompts and for each prompt."""
    context = question.context
    if not context.authors:
        return
    written = np.any(list(context.authors.values()), axis=0)
    parts: list[tuple[dict[str, str], NDArray[np.bool_]]] = [({}, np.ones(answers.items, bool))]
    by_prompt = context.subgroups.get(PROMPT, {})
    parts += [({"attribute": PROMPT, "part": value}, members) for value, members in by_prompt.items()]
    for judge in question.models:
        family = context.families.get(judge, "")
        if family not in context.authors:
            continue
        neutral = {
            name: written & ~context.authors.get(context.families[name], np.zeros(answers.items, bool))
            for name in question.models
            if context.families.get(name, family) != family  # of an unknown family, the stake is unknown
        }
        others = [RaterGroup(name, (name,)) for name in neutral]
        if PEOPLE in question.groups:
            others.append(question.averaged(PEOPLE, answers))
            neutral[PEOPLE] = written
        for dims, members in parts:
            metric = model_scores.self_preference(
                answers.of_items(members),
                judge,
                others,
                own_family=context.authors[family][members],
                written=written[members],
                neutral={name: without_stake[members] for name, without_stake in neutral.items()},
            )
            yield (model_scores.marked(metric, question.settings.minimum) if dims else metric).at(**dims)


def _scores_of_subgroups(answers: RatingTable, question: RatedQuestion, groups: list[RaterGroup]) -> Iterator[Metric]:
    """Yield mean scores, and shares at the highest threshold on the scale, in each subgroup of items."""
    averaged = {PEOPLE, *question.groups.get(MODELS, ())}  # the groups of the average in Century's figure 13
    for attribute in question.settings.disaggregate:
        parts = question.context.subgroups.get(attribute, {})
        for value, members in parts.items():
            for group in groups:
                metric = model_scores.mean_score(answers.of_items(members), group)
                yield model_scores.marked(metric, question.settings.minimum).at(attribute=attribute, part=value)
        if question.thresholds:
            yield from model_scores.disaggregated(
                answers,
                groups,
                parts,
                max(question.thresholds),
                attribute=attribute,
                minimum=question.settings.minimum,
                averaged=[group for group in groups if group.name in averaged],
            )


def _comparisons(answers: RatingTable, question: RatedQuestion, groups: list[RaterGroup]) -> Iterator[Metric]:
    """Yield Welch's t-test between every pair of values of an attribute."""
    for attribute in question.settings.compare:
        subgroups = question.context.subgroups.get(attribute, {})
        values = sorted(subgroups)
        for position, first in enumerate(values):
            for second in values[position + 1 :]:
                members = (subgroups[first], subgroups[second])
                asked = int(members[0].sum()), int(members[1].sum())
                for group in groups:
                    means = model_scores.means_of(answers, group)
                    rows = [np.flatnonzero(mask & ~np.isnan(means)) for mask in members]
                    a, b = (means[of_part] for of_part in rows)
                    units = answers.units.of(np.concatenate(rows))
                    for metric in gold.welch(a, b, asked=asked, units=units):
                        yield metric.at(group=group.name, attribute=attribute, first=first, second=second)
                for metric in _single_ratings_compared(answers, question, members):
                    yield metric.at(group=SINGLE_RATINGS, attribute=attribute, first=first, second=second)


def _single_ratings_compared(
    answers: RatingTable, question: RatedQuestion, members: tuple[NDArray[np.bool_], NDArray[np.bool_]]
) -> Iterator[Metric]:
    """Yield Welch's t-test of people's ratings taken as independent, if an item has several (Rome, table 3).

    The interval of the difference is over units all the same.
    """
    people = answers.of_raters(question.groups.get(PEOPLE, ())).with_scores()
    if people.n and people.per_item().max() > 1:
        rows = [np.flatnonzero(of_part[people.item]) for of_part in members]
        a, b = (people.score[of_part] for of_part in rows)
        units = people.units.of(people.item[np.concatenate(rows)])
        between_units = gold.welch(a, b, counted="ratings", units=units)
        for metric, of_units in zip(gold.welch(a, b, counted="ratings"), between_units, strict=True):
            yield of_units if metric.name == "mean_difference" else metric


def _contrasts(answers: RatingTable, question: RatedQuestion, groups: list[RaterGroup]) -> Iterator[Metric]:
    """Yield differences of shares at the highest threshold on the scale, also for each model that wrote responses."""
    threshold = max(question.thresholds, default=None)
    subgroups = question.context.subgroups
    for contrast in question.settings.contrast:
        attribute, _, values = contrast.partition(":")
        first, _, second = values.partition("-")
        nobody = np.zeros(answers.items, bool)
        a, b = (subgroups.get(attribute, {}).get(value, nobody) for value in (first, second))
        dims = {"attribute": attribute, "first": first, "second": second}
        writers = subgroups.get(WRITER, {}) if attribute != WRITER else {}
        for group in groups:
            metric = model_scores.difference(answers, group, threshold, a, b)
            yield model_scores.marked(metric, question.settings.minimum).at(**dims)
            for model, wrote in writers.items():
                metric = model_scores.difference(answers, group, threshold, a & wrote, b & wrote)
                yield model_scores.marked(metric, question.settings.minimum).at(**dims, model=model)


def _majorities(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the majorities of each group, and each model's answers, of all items and of each subgroup."""
    for group in question.averaged_groups(question.answers):
        answers = question.answers.of_raters(group.raters)
        yield from majority.majority_shares(answers, group=group.name, at_least=group.at_least)
        for attribute in question.settings.disaggregate:
            for value, members in question.context.subgroups.get(attribute, {}).items():
                inside = answers.of_items(members)
                for metric in majority.majority_shares(inside, group=group.name, at_least=group.at_least):
                    marked = model_scores.marked(metric, question.settings.minimum)
                    yield marked.at(attribute=attribute, part=value)


METRIC_GROUPS = (
    MetricGroup(lambda question: True, _agreement),
    MetricGroup(lambda question: question.ended is not None, _accounting),
    MetricGroup(lambda question: bool(question.context.subgroups), _without_value),
    MetricGroup(lambda question: question.settings.crowdtruth and question.context.names is not None, _crowdtruth),
    MetricGroup(lambda question: question.answers.scored, _scores),
    MetricGroup(lambda question: not question.answers.scored, _majorities),
    MetricGroup(
        lambda question: question.context.lengths is not None and bool(question.answers.values), _answers_by_writer
    ),
    MetricGroup(lambda question: True, references.against_people),
    MetricGroup(lambda question: True, references.against_gold),
)
