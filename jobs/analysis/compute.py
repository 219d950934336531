"""Metrics computed from ratings, one question at a time."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from jobs.analysis import metric_settings
from jobs.analysis.attributes import Items, Raters, family_of
from jobs.analysis.conditions import ConditionGroup, are_separate, condition_groups, reference_for
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.reduced_question import IndependentUnits, Key, Reduced, pair_hashes
from jobs.errors import InputError
from jobs.metrics import condition_changes, multiple_comparisons, suite
from jobs.metrics.condition_changes import ConditionRatings
from jobs.metrics.metric import Metric
from jobs.metrics.model_scores import RaterGroup, means_of
from jobs.metrics.rated_question import MODELS, PEOPLE, MetricSettings, QuestionContext, RatedQuestion, of_rubric
from jobs.metrics.suite import version_metrics
from jobs.store.hashing import Hashes
from jobs.tables import CONDITION

MOST_TARGETS = 12  # up to this number, targets are subgroups by default
ROWS_OF_TASK = 1 << 20  # ratings of the questions that share a task
BYTES_PER_RATING, LIBRARIES = 80, 400 << 20  # of memory, with all metrics: ten million ratings took 1,213 MB


class Observer(Protocol):
    """Collects something of each question while its metrics are computed, wherever that is."""

    def __call__(self, dims: Mapping[str, str], question: RatedQuestion) -> None:
        """Collect from a question under one condition."""

    def join(self, question: Any) -> None:
        """Add what another observer of this class has collected from the next question."""


@dataclass(frozen=True)
class _Inputs:
    """What the metrics of every question need; see `question_metrics`."""

    raters: Raters
    items: Items
    settings: MetricSettings
    orders: Mapping[tuple[str, str], Sequence[str]]
    scale: Callable[[str, str], tuple[tuple[float, float] | None, str]]
    observer: Callable[[], Observer] | None
    knows_reports: bool
    are_separate: bool
    units: IndependentUnits
    ids: Mapping[int, str] | None


def question_metrics(
    reduction: Reduction,
    raters: Raters,
    items: Items,
    settings: MetricSettings,
    *,
    orders: Mapping[tuple[str, str], Sequence[str]],
    scale: Callable[[str, str], tuple[tuple[float, float] | None, str]],
    skip: Callable[[str, str], bool] = lambda rubric, question: False,
    observer: Observer | None = None,
    knows_reports: bool = True,
) -> Iterator[Metric]:
    """Yield the metrics of every question, with its rubric, name and `group_by` columns as dims.

    If a question was answered under several conditions, each has separate metrics, with the dim `condition`. The tasks
    of the reduction compute them; one has all conditions of a question.

    Args:
        orders: (rubric, question) -> answers in the rubric's order.
        scale: (rubric, question) -> lowest and highest score, or None and the reason why they are unknown.
        skip: returns whether to leave out a (rubric, question), such as one of a scene graph.
        observer: collects other data of the questions, for example for plots.
        knows_reports: whether all people's ratings say whether they reported the item.
    """
    if items.lengths is not None and "model" not in settings.disaggregate:
        settings = replace(settings, disaggregate=["model", *settings.disaggregate])
    groups = condition_groups(reduction, raters.kinds)
    _check_baseline(groups, settings)
    reduction.name_targets(raters.countries)
    inputs = _Inputs(
        raters,
        items,
        settings,
        orders,
        scale,
        observer=None if observer is None else type(observer),
        knows_reports=knows_reports,
        are_separate=are_separate(groups),
        units=reduction.units,
        ids=reduction.coder.ids,
    )
    asked = [conditions for key, conditions in groups.items() if not skip(*key[:2])]
    parts = ((reduction.of(_keys(questions)), questions) for questions in _together(asked, reduction))
    for metrics, observed in reduction.tasks.map(_metrics_of, parts, shared=(inputs,), memory=_memory):
        for of_question in observed:
            if observer is not None:
                observer.join(of_question)
        yield from metrics


Questions = Sequence[Sequence[ConditionGroup]]  # the conditions of each question


def _keys(questions: Questions) -> list[Key]:
    """Return the keys of the ratings that count for these questions."""
    return list(dict.fromkeys(key for conditions in questions for g in conditions for key in (g.key, *g.shared)))


def _together(asked: Questions, reduction: Reduction) -> Iterator[Questions]:
    """Yield the questions that a task has: on Ray, as many small ones as have `ROWS_OF_TASK` ratings."""
    held: list[Sequence[ConditionGroup]] = []
    for conditions in asked:
        held.append(conditions)
        if not reduction.tasks.on_ray or sum(map(reduction.rows_of, _keys(held))) >= ROWS_OF_TASK:
            yield held
            held = []
    if held:
        yield held


def _memory(reduction: Reduction, questions: Questions) -> int:
    """Return the bytes that a task needs for some questions, of which it has one at a time."""
    ratings = max(sum(map(reduction.rows_of, _keys([conditions]))) for conditions in questions)
    return LIBRARIES + BYTES_PER_RATING * ratings


def _metrics_of(inputs: _Inputs, reduction: Reduction, questions: Questions) -> tuple[list[Metric], list[Observer]]:
    """Return the metrics of some questions, and what was observed of each condition."""
    reduction.units = inputs.units
    metrics: list[Metric] = []
    observed: list[Observer] = []
    for conditions in questions:
        of_question = _Question(inputs, reduction, conditions)
        metrics += of_question.metrics()
        observed += of_question.observed
    return metrics, observed


class _Question:
    """One question under its conditions.

    Attributes:
        observed: what was observed of each condition, once there are `metrics`.
    """

    def __init__(self, inputs: _Inputs, reduction: Reduction, conditions: Sequence[ConditionGroup]) -> None:
        self._inputs, self._reduction, self._conditions = inputs, reduction, conditions
        self._people = [name for name, kind in inputs.raters.kinds.items() if kind == "human"]
        self.observed: list[Observer] = []

    def metrics(self) -> Iterator[Metric]:
        """Yield the metrics under each condition, then those of its changes."""
        inputs, key = self._inputs, self._conditions[0].question
        by = ("rubric", "question", *(name for name in self._reduction.by if name != CONDITION))
        dims, answered = dict(zip(by, key, strict=True)), []
        for group in self._conditions:
            reduced, rated = self._rated(group)
            of_condition = {CONDITION: group.condition} if inputs.are_separate else {}
            if inputs.observer:
                self.observed.append(inputs.observer())
                self.observed[-1]({**dims, **of_condition}, rated)
            for metric in (*suite.question_metrics(rated), *versions_of_models(self._reduction, group, rated)):
                yield metric.at(**dims, **of_condition)
            if len(self._conditions) > 1:
                shared = {name for raters in group.shared.values() for name in raters}
                answered.append(ConditionRatings(group.condition, rated, reduced.item, reduced.target, shared))
        for metric in _changes(answered, inputs.settings):
            yield metric.at(**dims)

    def _rated(self, group: ConditionGroup) -> tuple[Reduced, RatedQuestion]:
        """Return the ratings under a condition, and the question with the context of its metrics."""
        inputs, (rubric, question) = self._inputs, group.key[:2]
        raters, bounds = inputs.raters, inputs.scale(rubric, question)
        reduced = self._reduction.question(
            group.key,
            order=inputs.orders.get((rubric, question), ()),
            countries=raters.countries,
            shared=group.shared,
            people=self._people,
        )
        of_question = _with_targets(of_rubric(inputs.settings, rubric), reduced)
        kept = [name for name in reduced.answers.raters if raters.kinds[name] != "gold"]
        rated = RatedQuestion(
            reduced.answers.of_raters(kept),
            replace(
                _context(reduced, raters, inputs.items, of_question, ids=inputs.ids, scale=bounds),
                first_half=_first_half(inputs.units.of(reduced.item)),
            ),
            of_question,
            inverted=question in inputs.settings.inverted,
            unscaled=group.unscaled if bounds[0] else frozenset(),
            ended=reduced.ended,
            asked_people=reduced.asked_people,
            reported=reduced.reported,
            knows_reports=inputs.knows_reports,
            double=reduced.double,
            double_by_people=reduced.double_by_people,
            repeated=reduced.statuses.total() - int(reduced.answers.asked.sum()),
        )
        return reduced, rated


def _with_targets(settings: MetricSettings, reduced: Reduced) -> MetricSettings:
    """Return the settings with targets as subgroups, if there are few and each is asked about the same items."""
    targets, items = len(np.unique(reduced.target)), len(np.unique(reduced.item))
    if not 1 < targets <= MOST_TARGETS or items == len(reduced.item) or metric_settings.TARGET in settings.disaggregate:
        return settings
    return replace(settings, disaggregate=[*settings.disaggregate, metric_settings.TARGET])


def _check_baseline(groups: Mapping[Key, Sequence[ConditionGroup]], settings: MetricSettings) -> None:
    names = {group.condition for of_question in groups.values() for group in of_question}
    for key in ("baseline_condition", "reference_condition"):
        if (condition := getattr(settings, key)) is not None and condition not in names:
            listed = ", ".join(repr(name) for name in sorted(names)) or "none"
            why = f"no rating has this condition; must be one of {listed}"
            raise InputError(why, key=f"metrics.{key}", value=condition)


def _changes(answered: Sequence[ConditionRatings], settings: MetricSettings) -> Iterator[Metric]:
    """Yield the changes between the conditions of one question; nothing if it has only one."""
    by_name = {ratings.name: ratings for ratings in answered}
    compared = condition_changes.compared(by_name, settings.baseline_condition)
    if len(answered) > 1 and not compared and settings.baseline_condition is None:
        yield condition_changes.too_many(len(answered))
    for first, second in compared:
        yield from condition_changes.condition_changes(by_name[first], by_name[second])
        if settings.baseline_condition is not None:
            yield from condition_changes.f1_over_best(by_name[first], by_name[second])
    yield from _ranked(answered, settings)
    if settings.reference_condition in by_name:
        for name, ratings in by_name.items():
            reference = reference_for(name, settings.reference_condition, by_name)
            if name != reference:
                yield from condition_changes.f1_ratios(by_name[reference], ratings)


def _ranked(answered: Sequence[ConditionRatings], settings: MetricSettings) -> Iterator[Metric]:
    """Yield which condition has the highest scores and, if people rated, comes closest to them.

    They are compared over the pairs of item and target that the same models rated under all conditions.
    """
    questions = [ratings.rated for ratings in answered]
    if len(questions) < 2 or not all(question.answers.scored for question in questions):
        return
    keys = [pair_hashes(ratings.item, ratings.target) for ratings in answered]
    common = reduce(np.intersect1d, keys)
    rows = [np.argsort(key)[np.searchsorted(np.sort(key), common)] for key in keys]
    shared = {name for ratings in answered for name in ratings.shared}
    models = [name for name in questions[0].models
              if name not in shared and all(name in q.models for q in questions)]  # fmt: skip
    groups = [RaterGroup(MODELS, tuple(models), len(models))] if len(models) > 1 else []
    groups += [RaterGroup(name, (name,)) for name in models]
    first, of_people = questions[0], None
    if all(PEOPLE in question.groups for question in questions):
        of_people = means_of(first.answers, first.averaged(PEOPLE, first.answers))[rows[0]]
    names = tuple(ratings.name or "no condition" for ratings in answered)
    for group in groups:
        scores = np.stack([means_of(q.answers, group)[at] for q, at in zip(questions, rows, strict=True)], axis=1)
        measures = [("mean score", scores, "lowest" if first.inverted else "highest")]
        if of_people is not None:
            measures.append(("distance from people's mean score", np.abs(scores - of_people[:, None]), "lowest"))
        for measure, values, best in measures:
            rated = np.asarray(~np.isnan(values).any(1))
            units = first.answers.units.of(rows[0][rated])
            family = multiple_comparisons.ComparedRaters(names, values[rated], units, measure, best)
            subgroups = {
                name: {
                    value: members[rows[0]][rated] for value, members in first.context.subgroups.get(name, {}).items()
                }
                for name in settings.disaggregate
            }
            attribute = CONDITION if measure == "mean score" else f"{CONDITION}, distance from people"
            for metric in multiple_comparisons.family_metrics(
                family, adjustment=settings.adjustment, subgroups=subgroups
            ):
                yield metric.at(group=group.name, attribute=attribute)


def _context(
    reduced: Reduced,
    raters: Raters,
    items: Items,
    settings: MetricSettings,
    *,
    ids: Mapping[int, str] | None,
    scale: tuple[tuple[float, float] | None, str],
) -> QuestionContext:
    _, picture = np.unique(reduced.item, return_inverse=True)
    rows = items.rows(reduced.item)
    concept, concepts = items.codes(settings.concept, reduced.item)
    authors: dict[str, NDArray[np.bool_]] = {}
    if items.lengths is not None:
        for model, members in items.subgroups("model", reduced.item).items():
            family = raters.families.get(model) or family_of(model)
            authors[family] = authors.get(family, np.zeros(len(members), bool)) | members
    gold = _gold(reduced, raters, items, scale=scale[0])
    return QuestionContext(
        kinds=raters.kinds,
        families=raters.families,
        groups=raters.groups,
        scale=scale[0],
        no_scale=scale[1],
        picture=picture.astype(np.int64),
        target=reduced.target.astype(np.int64),
        targets=reduced.targets,
        concept=concept if concepts else None,
        subgroups={name: _subgroups(name, reduced, items) for name in metric_settings.compared_attributes(settings)},
        authors=authors,
        lengths=None if items.lengths is None else np.where(rows >= 0, items.lengths[rows], np.nan),
        right=gold.right,
        gold_scores=gold.scores,
        judged=gold.judged,
        right_values=gold.values,
        names=None if ids is None else _unit_names(reduced, ids),
        assigned=items.assignments.of(reduced.key[0], reduced.item),
    )


def _first_half(units: Hashes) -> NDArray[np.bool_]:
    """Return whether each unit is in the first half, which depends on nothing but its hash, uint64[items]."""
    return np.asarray((units * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(63) == 0)


def _subgroups(attribute: str, reduced: Reduced, items: Items) -> dict[str, NDArray[np.bool_]]:
    """Return bool[items] by value of an attribute of the items, of the target, or of both crossed (the target last)."""
    names = attribute.split("+")
    if metric_settings.TARGET not in names or metric_settings.TARGET in items.named:
        return items.subgroups(attribute, reduced.item)
    parts = {reduced.targets[code] or "none": reduced.target == code for code in np.unique(reduced.target)}
    if len(names) == 1:
        return parts
    others = items.subgroups("+".join(name for name in names if name != metric_settings.TARGET), reduced.item)
    crossed = {
        f"{other} + {target}": members & of_target
        for other, members in others.items()
        for target, of_target in parts.items()
    }
    return {value: members for value, members in crossed.items() if members.any()}


def _unit_names(reduced: Reduced, ids: Mapping[int, str]) -> list[str]:
    pairs = zip(reduced.item.tolist(), reduced.target.tolist(), strict=True)
    return [ids[item] + (f" · {reduced.targets[target]}" if reduced.targets[target] else "") for item, target in pairs]


@dataclass(frozen=True)
class _Gold:
    """The right answers to one question: labels, scores or categories (see `QuestionContext`), or none."""

    right: NDArray[np.bool_] | None = None
    scores: NDArray[np.float64] | None = None
    judged: NDArray[np.bool_] | None = None
    values: list[frozenset[str] | None] | None = None


def _gold(reduced: Reduced, raters: Raters, items: Items, *, scale: tuple[float, float] | None) -> _Gold:
    """Return the answers of gold raters, else the right values of table `items`."""
    experts = [name for name in reduced.answers.raters if raters.kinds[name] == "gold"]
    answers = reduced.answers.of_raters(experts)
    if experts and answers.n:
        if answers.scored:
            means, _ = answers.means()
            if _are_labels(answers.levels(), scale):
                return _Gold(right=means >= 0.5, judged=~np.isnan(means))
            return _Gold(scores=means, judged=~np.isnan(means))
        values: dict[int, set[str]] = defaultdict(set)
        for item, value in zip(answers.item.tolist(), answers.value.tolist(), strict=True):
            if value >= 0:
                values[item].add(answers.values[value])
        return _Gold(values=[frozenset(values[item]) if item in values else None for item in range(answers.items)])
    entries = [items.gold.get(item) for item in reduced.item.tolist()] if items.gold else []
    if not any(entries):
        return _Gold()
    targets = [reduced.targets[code] for code in reduced.target.tolist()]
    if any(targets):
        pairs = list(zip(entries, targets, strict=True))
        judged = [bool(entry and target and (not entry[0] or target in entry[0])) for entry, target in pairs]
        right = [bool(entry and target in entry[1]) for entry, target in pairs]
        return _Gold(right=np.array(right), judged=np.array(judged))
    return _Gold(values=[entry[1] if entry else None for entry in entries])


def _are_labels(levels: NDArray[np.float64], scale: tuple[float, float] | None) -> bool:
    """Return whether gold's scores are labels (1 holds, 0 does not) rather than scores on a scale that exceeds 1."""
    if not np.isin(levels, (0.0, 1.0)).all():
        return False
    return scale is None or scale[1] <= 1 or bool((levels < scale[0]).any())


def versions_of_models(reduction: Reduction, group: ConditionGroup, rated: RatedQuestion) -> Iterator[Metric]:
    """Yield the comparison of the versions in which each model answered, for models with several.

    Likelihoods, which are not on the scale, are left out.
    """
    for rater, versions in sorted(reduction.versions_of(group.key).items()):
        if len(versions) < 2 or rated.kind(rater) != "model" or rater in rated.unscaled:
            continue
        answers = reduction.question(group.key, order=rated.answers.values, versions_of=rater).answers
        thresholds = rated.thresholds if rated.context.scale else ()
        for metric in version_metrics(answers, tolerance=rated.settings.tolerance, thresholds=thresholds):
            yield metric.at(rater=rater, versions=", ".join(sorted(answers.raters)))
