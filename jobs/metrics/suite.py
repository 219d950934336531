"""Which metrics a question gets by default: what the answers, the raters' kinds and the items' attributes allow."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jobs.metrics import agreement, correlation, crowdtruth, gold, majority, model_scores, reliability
from jobs.metrics.answers import RatingTable
from jobs.metrics.crowdtruth import REFERENCE
from jobs.metrics.metric import Metric, undefined
from jobs.metrics.model_scores import RaterGroup

Bools = NDArray[np.bool_]
PEOPLE, MODELS = "people", "models"
ENOUGH_PEOPLE = 3  # Century counts people's means of three ratings
REST_ON_SCALE = frozenset({"share_lowest", "share_at_least", "share_difference", "average_of_shares"})
MAX_LINES = 200  # raters who get lines of their own; of more only the group is told


@dataclass
class MetricSettings:
    """Keys of `metrics`: what is computed beside the default."""

    group_by: list[str] = field(default_factory=list)  # of condition, method, order: what must not be pooled
    tolerance: float = 1  # points of the scale for agreement "within"
    weights: dict[str, list[list[float]]] = field(default_factory=dict)  # name -> disagreement of levels, for alpha
    # Shares of items with this score or more, if it lies on the scale; parts and contrasts take the highest.
    at_least: list[float] = field(default_factory=lambda: [3.0, 4.0])
    people: int | None = None  # ratings of people an item needs; null: 3, or the most an item has
    ensembles: dict[str, list[str]] = field(default_factory=dict)  # name -> raters (globs) taken together
    leave_out: list[str] = field(default_factory=list)  # raters (globs) left out of the group of all models
    inverted: list[str] = field(default_factory=lambda: ["factual_errors"])  # questions where high is bad
    gold: list[str] = field(default_factory=list)  # raters (globs) that are right, beside those of kind gold
    positive: float = 4  # a score from here on says that the label holds
    groups: list[str] = field(default_factory=lambda: ["country"])  # columns of raters= that make groups of people
    disaggregate: list[str] = field(default_factory=list)  # attributes of items, or target; a+b crosses two
    minimum: int = 30  # items under which a part's metric is marked
    compare: list[str] = field(default_factory=list)  # attributes whose values are compared by Welch's t
    contrast: list[str] = field(default_factory=list)  # attribute:first-second, a difference of shares
    concept: str = "concept"  # attribute of items that CAIRE's averages go by
    crowdtruth: bool = False  # qualities of units, workers and annotations
    crowdtruth_raters: str = PEOPLE  # the group that they are of
    stop: float = REFERENCE  # largest change at which CrowdTruth ends; 1e-10 is strict
    overlap: float = 0.5  # intersection / union that matched spans need


@dataclass(frozen=True)
class QuestionContext:
    """What is known of one question's raters and items (arrays are as long as `answers.items`).

    Attributes:
        kinds: rater -> human, model, encoder or gold.
        families: rater -> model family.
        groups: further groups of raters: name -> raters.
        scale: lowest and highest score; None: they are not known, and `no_scale` says why. What rests on them is then
            undefined: the lowest and highest that occur may not be those of the scale.
        picture: int[items], which picture or response; target: int[items]; concept: int[items] or None.
        parts: attribute -> value -> bool[items].
        authors: family -> bool[items], responses that it wrote.
        lengths: float64[items], characters of the response, NaN where unknown; None: no responses.
        right: bool[items], whether the label holds; gold_scores: float64[items], scores of gold on the scale of the
            answers. At most one of them is given; `judged`: bool[items], where it is known.
        right_values: for categories the right answer's place, int[items], -1 unknown.
        names: str[items] for CrowdTruth's units; None: not wanted.
    """

    kinds: Mapping[str, str]
    picture: NDArray[np.int64]
    target: NDArray[np.int64]
    targets: Sequence[str] = ()
    families: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scale: tuple[float, float] | None = None
    no_scale: str = "the scale is not known"
    concept: NDArray[np.int64] | None = None
    parts: Mapping[str, Mapping[str, Bools]] = field(default_factory=dict)
    authors: Mapping[str, Bools] = field(default_factory=dict)
    lengths: NDArray[np.float64] | None = None
    right: Bools | None = None
    gold_scores: NDArray[np.float64] | None = None
    judged: Bools | None = None
    right_values: Sequence[frozenset[str]] | None = None
    names: Sequence[str] | None = None


def question_metrics(
    answers: RatingTable,
    known: QuestionContext,
    settings: MetricSettings,
    *,
    inverted: bool = False,
    ended: Mapping[str, Counter[str]] | None = None,
    double: int = 0,
    repeated: int = 0,
) -> Iterator[Metric]:
    """All metrics of one question, without the question's own dims.

    Args:
        inverted: turn the scale round first, for scores of models.
        ended: rater -> its ratings by status; double, repeated: for the accounting, see `gold.accounting`; None: none.
    """
    sets = _sets(answers, known, settings)
    for name, raters in sets.items():
        own = answers.of_raters(raters)
        yield from _agreement(own, settings, group=name)
        if name == PEOPLE and len(raters) > 1:
            yield from _with_the_others(own)
        if len(raters) > 1:
            yield from _agreement_of_parts(own, known, settings, group=name)
    if ended is not None:
        yield from gold.accounting(sum(ended.values(), start=Counter()), double, repeated)
        for name in (PEOPLE, MODELS):
            yield from gold.endings([ended[rater] for rater in sets.get(name, ())], group=name)
    if settings.crowdtruth and known.names is not None:
        yield from _crowdtruth(answers, known, settings, sets)
    if answers.scored:
        scores = _scores(answers, known, settings, sets, inverted=inverted)
        yield from scores if known.scale else (_without_scale(f, known.no_scale, inverted=inverted) for f in scores)
    else:
        yield from _categories(answers, known, settings, sets)
    yield from _against_people(answers, known, sets)
    yield from _against_gold(answers, known, settings, sets)


def _sets(answers: RatingTable, known: QuestionContext, settings: MetricSettings) -> dict[str, tuple[str, ...]]:
    """Groups of raters that have answers to the question: people, models, ensembles, countries."""
    kinds = {name: known.kinds.get(name, "model") for name in answers.raters}
    people = tuple(name for name, kind in kinds.items() if kind == "human")
    models = tuple(name for name, kind in kinds.items() if kind in ("model", "encoder"))
    left_out = {name for pattern in settings.leave_out for name in matching(models, pattern)}
    sets = {PEOPLE: people, MODELS: tuple(name for name in models if name not in left_out)}
    for name, patterns in settings.ensembles.items():
        sets[name] = tuple(r for r in answers.raters if any(matching((r,), pattern) for pattern in patterns))
    for name, raters in known.groups.items():
        sets[name] = tuple(r for r in answers.raters if r in raters)
    return {name: raters for name, raters in sets.items() if raters}


def matching(raters: Sequence[str], pattern: str) -> list[str]:
    """The raters a glob names; a name may leave out the revision after @."""
    from fnmatch import fnmatchcase

    return [name for name in raters if fnmatchcase(name, pattern) or fnmatchcase(name.partition("@")[0], pattern)]


def _agreement(answers: RatingTable, settings: MetricSettings, *, group: str, pairs: bool = True) -> Iterator[Metric]:
    """How far the raters of a group agree; undefined, with its reason, of one rater."""
    found = agreement.agreement(answers, tolerance=settings.tolerance, weights=settings.weights, pairs=pairs)
    if answers.scored:
        found += [*reliability.icc(answers), *reliability.pairwise_correlations(answers)]
    for metric in found:
        yield metric.at(group=group)


def _with_the_others(people: RatingTable) -> Iterator[Metric]:
    if people.values and len(people.raters) <= MAX_LINES:
        for metric in majority.rater_unit_agreement(people):
            yield metric.at(group=PEOPLE)


def _agreement_of_parts(
    answers: RatingTable, known: QuestionContext, settings: MetricSettings, *, group: str
) -> Iterator[Metric]:
    """The same for each part of the items (CAIRE, table 14: by country); kappas of pairs are of all items only."""
    for attribute in settings.disaggregate:
        for value, chosen in known.parts.get(attribute, {}).items():
            part = answers.of_items(chosen)
            own = part.of_raters([part.raters[code] for code in np.unique(part.rater)])
            shared = int((own.per_item() > 1).sum())
            for metric in _agreement(own, settings, group=group, pairs=False):
                yield model_scores.marked(metric, settings.minimum, n=shared).at(attribute=attribute, part=value)


def _scores(
    answers: RatingTable,
    known: QuestionContext,
    settings: MetricSettings,
    sets: Mapping[str, tuple[str, ...]],
    *,
    inverted: bool,
) -> Iterator[Metric]:
    low, high = known.scale or (-np.inf, np.inf)  # if it is not known, `_without_scale` sees to what rests on it
    turned = model_scores.inverted(answers, low=low, high=high) if inverted and known.scale else answers
    groups = _groups(turned, known, settings, sets)
    for group in groups:
        made = [model_scores.share_lowest(turned, group, low), model_scores.mean_score(turned, group)]
        for threshold in _thresholds(settings, known.scale):
            made.append(model_scores.share_at_least(turned, group, threshold))
            if len(group.raters) > 1:
                made.append(model_scores.share_at_least(turned, group, threshold, rule="any"))
        if known.lengths is not None:
            made += model_scores.length_bias(turned, group, known.lengths)
        for metric in made:
            yield metric.at(**({"inverted": "yes"} if inverted else {}))
    yield from _biases(turned, known, sets)
    yield from _parts(turned, known, settings, groups, averaged={PEOPLE, *sets.get(MODELS, ())})


def _thresholds(settings: MetricSettings, scale: tuple[float, float] | None) -> list[float]:
    """The thresholds asked for that lie on the scale, above its lowest score; all of them if the scale is not known.

    Which scores were given plays no part: where nobody gave 4, the share at 4 is 0.
    """
    return [t for t in settings.at_least if scale is None or scale[0] < t <= scale[1]]


def _without_scale(metric: Metric, reason: str, *, inverted: bool) -> Metric:
    """The metric undefined if it rests on the ends of a scale, as everything does that is turned round."""
    if metric.value is None or not (inverted or metric.name in REST_ON_SCALE):
        return metric
    dims, n, coverage = metric.dims, metric.n, metric.coverage
    return undefined(metric.name, metric.definition, reason, n=n, coverage=coverage, dims=dims)


def _groups(
    answers: RatingTable, known: QuestionContext, settings: MetricSettings, sets: Mapping[str, tuple[str, ...]]
) -> list[RaterGroup]:
    """The groups whose means are taken, and each model by itself."""
    made = []
    for name, raters in sets.items():
        human = all(known.kinds.get(r) == "human" for r in raters)
        made.append(RaterGroup(name, raters, people_needed(answers.of_raters(raters), settings) if human else 1))
    alone = [r for r in answers.raters if known.kinds.get(r, "model") in ("model", "encoder")][:MAX_LINES]
    return made + [RaterGroup(name, (name,)) for name in alone if name not in sets]


def people_needed(answers: RatingTable, settings: MetricSettings) -> int:
    """Ratings of people an item needs: as configured, or three, or the most an item has if that is less."""
    if settings.people is not None:
        return settings.people
    return min(ENOUGH_PEOPLE, int(answers.per_item().max(initial=1)))


def _biases(answers: RatingTable, known: QuestionContext, sets: Mapping[str, tuple[str, ...]]) -> Iterator[Metric]:
    if not known.authors:
        return
    written = np.any(list(known.authors.values()), axis=0)
    everyone = answers.of_raters(sets.get(MODELS, ()))
    for rater in everyone.raters:
        own = known.authors.get(known.families.get(rater, ""))
        if own is not None:
            yield model_scores.self_preference(everyone, rater, own, written)


def _parts(
    answers: RatingTable,
    known: QuestionContext,
    settings: MetricSettings,
    groups: Sequence[RaterGroup],
    *,
    averaged: Collection[str],
) -> Iterator[Metric]:
    """Parts of the items by their attributes; `averaged`: names of the groups that figure 13's average is over.

    Shares of parts and contrasts are at the highest threshold on the scale.
    """
    threshold = max(_thresholds(settings, known.scale), default=None)
    for attribute in settings.disaggregate:
        if threshold is None:
            break
        yield from model_scores.disaggregated(
            answers,
            groups,
            known.parts.get(attribute, {}),
            threshold,
            attribute=attribute,
            minimum=settings.minimum,
            averaged=[g for g in groups if g.name in averaged],
        )
    for attribute in settings.compare:
        values = sorted(known.parts.get(attribute, {}))
        for place, first in enumerate(values):
            for second in values[place + 1 :]:
                for group in groups:
                    means = model_scores.means_of(answers, group)
                    masks = [known.parts[attribute][v] for v in (first, second)]
                    pair = [means[mask & ~np.isnan(means)] for mask in masks]
                    asked = int(masks[0].sum()), int(masks[1].sum())
                    for metric in gold.welch(*pair, asked=asked):
                        yield metric.at(group=group.name, attribute=attribute, first=first, second=second)
    for wanted in settings.contrast:
        attribute, _, values_of = wanted.partition(":")
        first, _, second = values_of.partition("-")
        parts = known.parts.get(attribute, {})
        none = np.zeros(answers.items, bool)
        a, b = parts.get(first, none), parts.get(second, none)
        said = {"attribute": attribute, "first": first, "second": second}
        for group in groups:
            yield model_scores.difference(answers, group, threshold, a, b).at(**said)
            for model, wrote in known.parts.get("model", {}).items() if attribute != "model" else ():
                metric = model_scores.difference(answers, group, threshold, a & wrote, b & wrote)
                yield metric.at(**said, model=model)


def _categories(
    answers: RatingTable, known: QuestionContext, settings: MetricSettings, sets: Mapping[str, tuple[str, ...]]
) -> Iterator[Metric]:
    for name, raters in sets.items():
        needed = settings.people if name == PEOPLE and settings.people else 1
        yield from majority.majority_shares(answers.of_raters(raters), group=name, at_least=needed)
        for attribute in settings.disaggregate:
            for value, chosen in known.parts.get(attribute, {}).items():
                part = answers.of_raters(raters).of_items(chosen)
                for metric in majority.majority_shares(part, group=name, at_least=needed):
                    yield model_scores.marked(metric, settings.minimum).at(attribute=attribute, part=value)
    for rater in sets.get(MODELS, ()):
        yield from majority.majority_shares(answers.of_raters((rater,)), group=rater)


def _against_people(
    answers: RatingTable, known: QuestionContext, sets: Mapping[str, tuple[str, ...]]
) -> Iterator[Metric]:
    people, models = sets.get(PEOPLE, ()), [r for r in answers.raters if known.kinds.get(r, "model") != "human"]
    models = [r for r in models if known.kinds.get(r, "model") != "gold"][:MAX_LINES]
    if not people or not models:
        return
    theirs = answers.of_raters(people)
    for rater in models:
        own = answers.of_raters((rater,))
        if answers.scored:
            made = [*gold.deviations(own, theirs), *_correlations(own, theirs, known)]
        else:
            made = [gold.preference_agreement(own, theirs)]
        for metric in made:
            yield metric.at(rater=rater, group=PEOPLE)


def _correlations(own: RatingTable, theirs: RatingTable, known: QuestionContext) -> Iterator[Metric]:
    mean, rated = own.means()[0], theirs.means()[0]
    both = ~np.isnan(mean) & ~np.isnan(rated)
    x, y = mean[both], rated[both]
    yield from correlation.correlations(x, y, asked=int((~np.isnan(rated)).sum()))
    picture, target = known.picture[both], known.target[both]
    if len(np.unique(known.target)) < 2:
        return
    yield correlation.within(x, y, picture, each="image", source="CAIRE, table 2")
    yield correlation.within(x, y, target, each="target", source="CAIRE, table 2")
    yield correlation.global_average(x, y, target, asked=len(np.unique(known.target)))
    if known.concept is not None:
        concept = known.concept[both]
        told = concept >= 0
        yield correlation.concept_average(x[told], y[told], concept[told], target[told])
        inside = concept[told] * (int(known.target.max()) + 1) + target[told]
        source = "CAIRE, section 6: concepts within countries"
        yield correlation.within(x[told], y[told], inside, each="concept and target", source=source)
    for code in np.unique(known.target):
        here = known.target == code
        part = theirs.of_items(here)
        used = np.unique(part.rater)
        if not len(used) or len(used) * int(here.sum()) > 50_000_000:  # a dense table of a crowd would not fit
            continue
        ratings = part.of_raters([part.raters[r] for r in used]).matrix()
        for metric in correlation.against_each(mean[here], ratings):
            yield metric.at(target=known.targets[code] if known.targets else str(code))


def _against_gold(
    answers: RatingTable, known: QuestionContext, settings: MetricSettings, sets: Mapping[str, tuple[str, ...]]
) -> Iterator[Metric]:
    raters = [r for r in answers.raters if known.kinds.get(r, "model") != "gold"][:MAX_LINES]
    groups = [RaterGroup(r, (r,)) for r in raters if known.kinds.get(r, "model") != "human"]
    if PEOPLE in sets:
        groups.append(RaterGroup(PEOPLE, sets[PEOPLE]))
    if known.judged is not None and answers.scored:
        for group in groups:
            means = model_scores.means_of(answers, group)
            both = known.judged & ~np.isnan(means)
            for reading, holds in gold.readings(settings.positive).items():
                if known.right is not None:
                    right, positive = known.right, f"said where the score is {reading}, in gold as labelled"
                else:
                    assert known.gold_scores is not None
                    right, positive = holds(known.gold_scores), f"said, and in gold, where the score is {reading}"
                for metric in gold.classification(
                    right[both],
                    holds(means[both]),
                    known.picture[both],
                    known.target[both],
                    positive=positive,
                    asked=int(known.judged.sum()),
                ):
                    yield metric.at(group=group.name, positive=reading)
    elif known.right_values is not None and not answers.scored:
        asked = sum(map(bool, known.right_values))
        for group in groups:
            counts, _ = answers.of_raters(group.raters).counts(by="value")
            chosen = majority.majority(counts)
            correct = [answers.values[code] in known.right_values[place]
                     for place, code in enumerate(chosen) if code >= 0 and known.right_values[place]]  # fmt: skip
            yield gold.accuracy(correct, asked=asked).at(group=group.name)


def _crowdtruth(
    answers: RatingTable, known: QuestionContext, settings: MetricSettings, sets: Mapping[str, tuple[str, ...]]
) -> Iterator[Metric]:
    chosen = answers.of_raters(sets.get(settings.crowdtruth_raters, answers.raters))
    assert known.names is not None
    if answers.scored and known.scale is None:
        yield crowdtruth.without_bins(known.no_scale, stop=settings.stop).at(bins="3")
        return
    bins = known.scale if answers.scored else None
    yield from crowdtruth.task_of(chosen, known.names, bins=bins).metrics(
        stop=settings.stop, dims={"bins": "3"} if bins else {}
    )
