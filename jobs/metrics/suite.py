"""The metrics of one question: functions of the question, each with the condition under which it applies."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from actors.status import Status
from jobs.metrics import (
    agreement,
    confidence,
    correlation,
    crowdtruth,
    estimates,
    gold,
    judge_fitness,
    majority,
    model_scores,
    multiple_comparisons,
    participation,
    reliability,
)
from jobs.metrics.answers import RatingTable
from jobs.metrics.kinds import kind_of
from jobs.metrics.metric import Metric, undefined
from jobs.metrics.model_scores import RaterGroup
from jobs.metrics.rated_question import (
    ACROSS,
    MAX_LINES,
    MODELS,
    PEOPLE,
    SINGLE_RATINGS,
    QuestionContext,
    RatedQuestion,
    people_needed,
)

Bools = NDArray[np.bool_]
WRITER, PROMPT = "model", "prompt"  # attributes of a response: the model that wrote it, and what it was asked
BY_WRITER = (WRITER, f"{WRITER}+prompt")  # attributes by which lengths and answers are reported, if they are subgroups
MAX_CELLS = 50_000_000  # of a dense table of items x raters of one target
MAX_VERSIONS = 6  # of one rater
_NO_REPORTS = "the imported file does not say who reported a picture"


def question_metrics(question: RatedQuestion) -> Iterator[Metric]:
    """Yield all metrics of one question; the caller adds the dims rubric and question."""
    for applies, compute in METRICS:
        if applies(question):
            yield from compute(question)


def _subgroups(question: RatedQuestion, attributes: Iterable[str]) -> Iterator[tuple[dict[str, str], Bools]]:
    """Yield the dims and the members, bool[items], of each subgroup of the items by these attributes."""
    for attribute in attributes:
        for value, members in question.context.subgroups.get(attribute, {}).items():
            yield {"attribute": attribute, "part": value}, members


def _marked(question: RatedQuestion, metrics: Iterable[Metric], dims: Mapping[str, str]) -> Iterator[Metric]:
    """Yield the metrics of a subgroup, with a remark if it has few items."""
    for metric in metrics:
        yield model_scores.marked(metric, question.settings.minimum).at(**dims)


def _agreement(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the agreement within each group of raters, also in each subgroup of items, and of people with models."""
    groups = question.groups
    for name, raters in groups.items():
        answers = question.answers.of_raters(raters)
        yield from _agreement_of(answers, question, group=name)
        if name == PEOPLE and 1 < len(raters) <= MAX_LINES and answers.values:
            for metric in majority.rater_unit_agreement(answers, at_least=people_needed(answers, question.settings)):
                yield metric.at(group=PEOPLE)
        if len(raters) > 1:
            yield from _agreement_of_subgroups(answers, question, group=name)
    within = [groups[name] for name in (PEOPLE, MODELS) if name in groups]
    for metric in agreement.kappas_across(question.answers, [groups.get(PEOPLE, ()), question.models], within=within):
        yield metric.at(group=ACROSS)


def _agreement_of(answers: RatingTable, question: RatedQuestion, *, group: str, pairs: bool = True) -> Iterator[Metric]:
    """Yield the agreement within a group of raters; undefined for a single rater."""
    settings = question.settings
    metrics = agreement.agreement(
        answers, tolerance=settings.tolerance, weights=settings.weights, scale=question.context.scale, pairs=pairs
    )
    if answers.scored:
        metrics += [*reliability.icc(answers), *reliability.pairwise_correlations(answers)]
    for metric in metrics:
        yield metric.at(group=group)


def _agreement_of_subgroups(answers: RatingTable, question: RatedQuestion, *, group: str) -> Iterator[Metric]:
    """Yield the agreement in each subgroup of items (CAIRE, table 14: by country), without kappas of pairs."""
    for dims, members in _subgroups(question, question.settings.disaggregate):
        inside = answers.of_items(members)
        inside = inside.of_raters([inside.raters[code] for code in np.unique(inside.rater)])
        shared = inside.units.of(inside.per_item() > 1).count
        for metric in _agreement_of(inside, question, group=group, pairs=False):
            yield model_scores.marked(metric, question.settings.minimum, n=shared).at(**dims)


def _accounting(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the numbers of ratings and people; shares of reports are undefined if nobody could report."""
    for metric in _counts(question):
        is_of_reports = metric.name == "reported_share" or metric.dims.get("status") == Status.REPORTED
        is_unknown = not question.knows_reports and is_of_reports and metric.dims.get("group") == PEOPLE
        yield metric.without_value(_NO_REPORTS) if is_unknown else metric


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
        stop=stop, dims={"bins": "3"} if bins else {}, at_least=people_needed(chosen, question.settings) if human else 1
    )


def _scores(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the scores of models and people; those that depend on an unknown scale are undefined."""
    for metric in _scores_on_scale(question):
        depends = question.inverted or kind_of(metric).needs_scale
        is_unknown = depends and not question.context.scale and metric.value is not None
        yield metric.without_value(question.context.no_scale) if is_unknown else metric


def _scores_on_scale(question: RatedQuestion) -> Iterator[Metric]:
    context = question.context
    low, high = context.scale or (-np.inf, np.inf)  # if unknown, `_scores` replaces the metrics that depend on it
    answers = question.answers
    if question.inverted and context.scale:
        answers = model_scores.inverted(answers, low=low, high=high)
    groups = question.averaged_groups(answers)
    for group in groups:
        metrics = model_scores.group_scores(answers, group, question.thresholds, lowest=low)
        for metric in (*metrics, *_length_bias(answers, group, question)):
            yield metric.at(**({"inverted": "yes"} if question.inverted else {}))
    yield from _self_preference(answers, question)
    yield from _scores_of_subgroups(answers, question, groups)
    yield from _comparisons(answers, question, groups)
    yield from _families(answers, question, groups)
    yield from _judges_compared(answers, question)
    yield from _contrasts(answers, question, groups)


def _length_bias(answers: RatingTable, group: RaterGroup, question: RatedQuestion) -> Iterator[Metric]:
    """Yield the dependence of scores on lengths, of all responses and by writer (Century, figure 12)."""
    lengths = question.context.lengths
    if lengths is None:
        return
    yield from model_scores.length_bias(answers, group, lengths)
    for dims, wrote in _subgroups(question, BY_WRITER):
        for metric in model_scores.length_bias(answers.of_items(wrote), group, lengths[wrote]):
            yield metric.at(**dims)


def _self_preference(answers: RatingTable, question: RatedQuestion) -> Iterator[Metric]:
    """Yield the self-preference of each judge whose family wrote responses, over all prompts and for each prompt."""
    context = question.context
    if not context.authors:
        return
    written = np.any(list(context.authors.values()), axis=0)
    parts = [({}, np.ones(answers.items, bool)), *_subgroups(question, (PROMPT,))]
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
    single = {PEOPLE, *question.groups.get(MODELS, ())}  # the groups of the average in Century's figure 13
    averaged = [group for group in groups if group.name in single]
    threshold = max(question.thresholds, default=None)
    for attribute in question.settings.disaggregate:
        parts = [(dims, answers.of_items(members)) for dims, members in _subgroups(question, (attribute,))]
        for dims, part in parts:
            yield from _marked(question, (model_scores.mean_score(part, group) for group in groups), dims)
        if threshold is None:
            continue
        for dims, part in parts:
            yield from _marked(question, model_scores.shares(part, groups, threshold, averaged=averaged), dims)


def _comparisons(answers: RatingTable, question: RatedQuestion, groups: list[RaterGroup]) -> Iterator[Metric]:
    """Yield Welch's t-test between every pair of values of an attribute."""
    for attribute in question.settings.compare:
        subgroups = question.context.subgroups.get(attribute, {})
        for first, second in combinations(sorted(subgroups), 2):
            dims = {"attribute": attribute, "first": first, "second": second}
            members = (subgroups[first], subgroups[second])
            asked = int(members[0].sum()), int(members[1].sum())
            for group in groups:
                means = model_scores.means_of(answers, group)
                rows = [np.flatnonzero(mask & ~np.isnan(means)) for mask in members]
                a, b = (means[of_part] for of_part in rows)
                units = answers.units.of(np.concatenate(rows))
                for metric in gold.welch(a, b, asked=asked, units=units):
                    yield metric.at(group=group.name, **dims)
            for metric in _single_ratings_compared(answers, question, members):
                yield metric.at(group=SINGLE_RATINGS, **dims)


def _single_ratings_compared(
    answers: RatingTable, question: RatedQuestion, members: tuple[Bools, Bools]
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


def _families(answers: RatingTable, question: RatedQuestion, groups: list[RaterGroup]) -> Iterator[Metric]:
    """Yield which values of each attribute are better: models that wrote responses, prompts, subgroups."""
    context, settings = question.context, question.settings
    subgroups = {name: context.subgroups.get(name, {}) for name in settings.disaggregate}
    names = dict.fromkeys([*(name for name in (WRITER, PROMPT) if name in context.subgroups), *settings.compare,
                           *settings.disaggregate])  # fmt: skip
    shown = [group for group in groups if group.name in (PEOPLE, MODELS)]
    for attribute in names:
        others = {name: parts for name, parts in subgroups.items() if name != attribute}
        for group in shown:
            means = model_scores.means_of(answers, group)
            family = multiple_comparisons.ComparedRaters.of_parts(
                means, context.subgroups.get(attribute, {}), answers.units, measure="mean score"
            )
            for metric in multiple_comparisons.family_metrics(family, adjustment=settings.adjustment, subgroups=others):
                yield metric.at(group=group.name, attribute=attribute)


def _judges_compared(answers: RatingTable, question: RatedQuestion) -> Iterator[Metric]:
    """Yield which judge is closest to people, over the items that all judges and people rated."""
    models, settings = question.models[: multiple_comparisons.MOST], question.settings
    if PEOPLE not in question.groups or len(models) < 2:
        return
    of_people = model_scores.means_of(answers, question.averaged(PEOPLE, answers))
    scores = np.stack([answers.of_raters((name,)).means()[0] for name in models], axis=1)
    distance = np.abs(scores - of_people[:, None])
    rated = np.asarray(~np.isnan(distance).any(1))
    measure = "distance from people's mean score"
    family = multiple_comparisons.ComparedRaters(models, distance[rated], answers.units.of(rated), measure, "lowest")
    subgroups = {
        name: {value: members[rated] for value, members in question.context.subgroups.get(name, {}).items()}
        for name in settings.disaggregate
    }
    for metric in multiple_comparisons.family_metrics(family, adjustment=settings.adjustment, subgroups=subgroups):
        yield metric.at(group="judges", attribute="distance from people")


def _fitness(question: RatedQuestion) -> Iterator[Metric]:
    """Yield for each judge on the scale whether it can replace people."""
    answers, people = question.answers, question.groups.get(PEOPLE, ())
    of_people = answers.of_raters(people)
    if not people or not of_people.n:
        return
    subgroups = {name: question.context.subgroups.get(name, {}) for name in question.settings.disaggregate}
    common = _common_answers(of_people)
    for judge in question.models:
        of_judge = answers.of_raters((judge,))
        for metric in judge_fitness.fitness(of_judge, of_people):
            yield metric.at(rater=judge)
        for metric in judge_fitness.worst_subgroup(
            _common_answers(of_judge), common, subgroups, answers.units, minimum=question.settings.minimum,
            scored=answers.scored,
        ):  # fmt: skip
            yield metric.at(rater=judge)
        for metric in confidence.judge_calibration(question, judge):
            yield metric.at(rater=judge)


def _common_answers(answers: RatingTable) -> NDArray[np.float64]:
    """Return float64[items], the mean score or the code of the majority's answer, NaN without one."""
    if answers.scored:
        return answers.means()[0]
    codes = majority.majority(answers.counts(by="value")[0])
    return np.where(codes >= 0, codes.astype(np.float64), np.nan)


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
            yield from _marked(question, [model_scores.difference(answers, group, threshold, a, b)], dims)
            for model, wrote in writers.items():
                metric = model_scores.difference(answers, group, threshold, a & wrote, b & wrote)
                yield from _marked(question, [metric], {**dims, "model": model})


def _majorities(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the majorities of each group, and each model's answers, of all items and of each subgroup."""
    for group in question.averaged_groups(question.answers):
        answers = question.answers.of_raters(group.raters)
        yield from majority.majority_shares(answers, group=group.name, at_least=group.at_least)
        for dims, members in _subgroups(question, question.settings.disaggregate):
            inside = answers.of_items(members)
            shares = majority.majority_shares(inside, group=group.name, at_least=group.at_least)
            yield from _marked(question, shares, dims)


def _answers_by_writer(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the distributions of people's and each model's answers to the responses of each model."""
    groups: dict[str, tuple[str, ...]] = {name: (name,) for name in question.models}
    if PEOPLE in question.groups:
        groups[PEOPLE] = question.groups[PEOPLE]
    for attribute in BY_WRITER:
        parts = question.context.subgroups.get(attribute, {})
        for name, raters in groups.items():
            yield from majority.answer_shares(question.answers, raters, parts, group=name, attribute=attribute)


def _against_people(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the comparison of each model with people's answers."""
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
    for dims, members in _subgroups(question, question.settings.disaggregate):
        if not members.all():  # else the same as over all items
            within = _correlations_of(model, people, context, members, asked_people=asked_people)
            yield from _marked(question, within, dims)


def _correlations_of(
    model: RatingTable, people: RatingTable, context: QuestionContext, members: Bools, *, asked_people: Bools
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
    yield correlation.within(x, y, picture, group_name="image", units=units, asked=asked)
    yield correlation.within(x, y, target, group_name="target", units=units, asked=asked)
    yield correlation.global_average(x, y, target, asked=asked, units=units)
    if context.concept is not None:
        concept = context.concept[both]
        named = concept >= 0
        of_named, pairs = units.of(named), (x[named], y[named])
        yield correlation.concept_average(*pairs, concept[named], target[named], units=of_named, asked=asked)
        cells = concept[named] * (int(context.target.max()) + 1) + target[named]
        yield correlation.within(*pairs, cells, group_name="concept and target", units=of_named, asked=asked)
    for code in np.unique(context.target[members]):
        of_target = members & (context.target == code)
        inside = people.of_items(of_target)
        raters = np.unique(inside.rater)
        if not len(raters) or len(raters) * int(of_target.sum()) > MAX_CELLS:
            continue
        ratings = inside.of_raters([inside.raters[r] for r in raters]).matrix()
        for metric in correlation.against_single_raters(mean[of_target], ratings, units=model.units.of(of_target)):
            yield metric.at(target=context.targets[code] if context.targets else str(code))


def _against_gold(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the comparison of each model, and of people, with gold answers."""
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


def version_metrics(
    answers: RatingTable, *, tolerance: float = 1, thresholds: Sequence[float] = ()
) -> Iterator[Metric]:
    """Yield agreement, correlations and ICC of one rater's versions, and each version's mean and shares.

    A version is a way of asking the same questions: a method, such as scored answers or JSON, and an order of the
    prompt. The versions of a rater are compared as several raters would be.

    Use them to see how much the way of asking changes the answers: whether ratings parsed from one JSON answer
    (Century, appendices I and S) can replace scored ones, and whether the order of the prompt matters.

    Args:
        answers: the ratings of one rater; `answers.raters` are its versions.
        tolerance: in points of the scale, for `percent_agreement_within`.
        thresholds: of `share_at_least`.

    Undefined: only one version has answers, or no item has answers in two; more than 6 versions.
    """
    compared = agreement.EQUAL_ANSWERS.defined_as("Agreement of the versions in which one rater was asked.")
    answered = [answers.raters[code] for code in np.unique(answers.rater)]
    if len(answered) < 2:
        reason = f"only the version {answered[0]!r} has answers" if answered else "no version has answers"
        yield undefined(compared, reason, coverage=answers.coverage)
        return
    if len(answers.raters) > MAX_VERSIONS:
        yield undefined(compared, f"{len(answers.raters)} versions: more than {MAX_VERSIONS}")
        return
    yield from agreement.agreement(answers, tolerance=tolerance)
    if not answers.scored:
        return
    yield from reliability.icc(answers)
    yield from reliability.pairwise_correlations(answers)
    for version in answers.raters:
        group = RaterGroup(version, (version,))
        yield model_scores.mean_score(answers, group)
        for threshold in thresholds:
            yield model_scores.share_at_least(answers, group, threshold)


# The function of each group of metrics, and to which questions it applies.
METRICS: tuple[tuple[Callable[[RatedQuestion], bool], Callable[[RatedQuestion], Iterator[Metric]]], ...] = (
    (lambda question: True, estimates.estimates),
    (lambda question: True, _agreement),
    (lambda question: question.ended is not None, _accounting),
    (lambda question: bool(question.context.subgroups), _without_value),
    (lambda question: question.settings.crowdtruth and question.context.names is not None, _crowdtruth),
    (lambda question: question.answers.scored, _scores),
    (lambda question: not question.answers.scored, _majorities),
    (lambda question: question.context.lengths is not None and bool(question.answers.values), _answers_by_writer),
    (lambda question: True, _against_people),
    (lambda question: True, _fitness),
    (lambda question: True, _against_gold),
)
