"""Estimates for the whole set of items, of which people rated a random part and judges all.

People's mean, shares and answers, and the bias, accuracy, F1 and Brier score of each judge against people, by
prediction-powered inference (`jobs.metrics.prediction_powered`): from people and judges, from people alone, and from
judges alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from jobs.metrics import model_scores
from jobs.metrics.answers import POWERS, RatingTable
from jobs.metrics.majority import majority
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, exact, no_rated_item, undefined
from jobs.metrics.model_scores import EPSILON, RaterGroup, means_of
from jobs.metrics.partial_pooling import pooled_metrics
from jobs.metrics.prediction_powered import RandomPart, SetEstimate, combined, estimate_f1, estimate_mean
from jobs.metrics.rated_question import PEOPLE, AssignedItems, RatedQuestion
from jobs.metrics.rating_plans import (
    BOTH,
    JUDGES_ALONE,
    PEOPLE_ALONE,
    RepeatedAnswers,
    detectable_metrics,
    half_width_metrics,
    split_metrics,
    subgroup_pairs,
)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
MAX_JUDGES = 6  # that are combined: those with the most answers
# Units on which people differ from a judge that an interval of its Brier score needs: of fewer, 30 rated items have
# intervals that contain the score in 87 % of simulated studies, of more in 93 to 98 %.
FEW_APART = 3
MAX_ANSWERS = 12  # of a question whose distribution is estimated
_TOPICS = (Topic.ESTIMATES, Topic.ESTIMATES_BY_SUBGROUP)
_PPI = (
    "from people's answers to a random part of the items and judges' answers to all, by prediction-powered inference "
    "(Angelopoulos, Duchi and Zrnic, PPI++, 2023); n counts items that people rated."
)
_MEAN = MetricKind("estimated_mean", Quantity.SCORE, _TOPICS, label="people’s mean").defined_as(
    f"Mean over all items of people's mean score, {_PPI}"
)
_AT_LEAST = MetricKind(
    "estimated_share_at_least",
    Quantity.SHARE,
    _TOPICS,
    label="share of people’s means from a threshold",
    detailed="share of people’s means ≥ {threshold}",
).defined_as(f"Share of all items whose mean score by people is at least the threshold, {_PPI}")
_ANSWER = MetricKind(
    "estimated_answer_share", Quantity.SHARE, _TOPICS, label="share of an answer", detailed="people’s answers: {answer}"
).defined_as(f"Mean over all items of the share of people who give the answer, {_PPI}")
_BIAS = MetricKind("estimated_bias", Quantity.NUMBER, _TOPICS, label="judge’s mean minus people’s").defined_as(
    f"Mean score of the judge minus people's, over all items, {_PPI}"
)
_ACCURACY = MetricKind("estimated_accuracy", Quantity.SHARE, _TOPICS, label="judge’s accuracy").defined_as(
    f"Share of all items that the judge puts on the same side of the threshold as people's mean, or to which it gives "
    f"the answer of most people, {_PPI}"
)
_F1 = MetricKind("estimated_f1", Quantity.FRACTION, _TOPICS, label="judge’s F1").defined_as(
    f"F1 of the judge over all items, positive: score at least the threshold, right where people's mean is, or the "
    f"answer, right where most people give it, {_PPI}"
)
_BRIER = MetricKind("estimated_brier", Quantity.FRACTION, _TOPICS, label="judge’s Brier score").defined_as(
    "Mean over all items of the squared distance of the probability that the judge gives its answer from whether a "
    "person gives the same answer (1 or 0), averaged over people (Brier 1950); 0 is best, 0.25 is that of always ½, "
    f"and it is half of the sum over both answers where there are two, {_PPI}"
)
_WORTH = MetricKind("effective_ratings", Quantity.COUNT, (Topic.WORTH,), label="worth in people’s ratings").defined_as(
    "Number of items that people alone would have to rate for an interval as narrow as with the judges; n counts items "
    "that people rated."
)
NOT_RANDOM = (
    "it is not known whether people rated a random part of the items; name the assignments that `annotate` wrote "
    "(assignments=), or set metrics.random_part=true if they did"
)
ALL_RATED = "people rated every item: their own mean is that of the set"
NO_DRAW = (
    "the items in the assignments were not drawn at random; set metrics.random_part=true if they are a random part"
)


@dataclass(frozen=True)
class WholeSet:
    """A question whose whole set can be estimated.

    Attributes:
        answers: of all raters; scores may be inverted.
        people: the group of people; `judges`: names of the models and encoders that are combined.
        part: how people's items were drawn.
        rated: bool[items], which have enough answers by people.
        scale: its ends; None: unknown.
        kept: bool[all items], those that could be drawn; the other arrays are of these items.
        remark: what the reader must know about the part; None: nothing.
    """

    answers: RatingTable
    people: RaterGroup
    judges: tuple[str, ...]
    part: RandomPart
    rated: Bools
    scale: tuple[float, float] | None
    kept: Bools
    remark: str | None = None


def estimates(question: RatedQuestion) -> Iterator[Metric]:
    """Yield the estimates of all items and of subgroups; nothing without both people and judges.

    Use them where people rated hundreds of the pictures and models all: the interval is valid whatever the judge is
    worth, and the narrower the better it predicts people.

    Undefined: people's part is not known to be a random draw, they answered items that they were not given, or they
    rated all or none of the items.
    """
    if PEOPLE not in question.groups or not judges_of(question):
        return
    kind = _MEAN if question.answers.scored else _ANSWER
    if isinstance(setting := setting_of(question), str):
        yield undefined(kind, setting, coverage=0.0, dims={"source": BOTH})
        return
    for metric in _estimates(question, setting):
        remarked = metric
        if setting.remark and metric.value is not None and metric.dims.get("source") != JUDGES_ALONE:
            remarked = replace(metric, reason="; ".join(filter(None, (metric.reason, setting.remark))))
        yield remarked.at(**({"inverted": "yes"} if question.inverted else {}))


def _estimates(question: RatedQuestion, setting: WholeSet) -> Iterator[Metric]:
    parts: list[tuple[dict[str, str], Bools]] = [({}, np.ones(setting.answers.items, bool))]
    for attribute in question.settings.disaggregate:
        for value, members in question.context.subgroups.get(attribute, {}).items():
            parts.append(({"attribute": attribute, "part": value}, members[setting.kept]))
    listed = list(quantities(setting, question.thresholds))
    for quantity in listed:
        for dims, members in parts:
            if dims and quantity.kind is _ANSWER and setting.answers.scored:
                continue
            for metric in quantity.metrics(setting, members):
                yield model_scores.marked(metric, question.settings.minimum).at(**dims)
        if not (quantity.kind is _ANSWER and setting.answers.scored):
            yield from _pooled(quantity, setting, parts, question.settings.pooling)
    threshold = max(question.thresholds, default=None)
    for judge in question.models:
        yield from _of_judge(setting, judge, threshold)
    if listed:
        yield from _plans(setting, main_estimand(listed), parts, judges_apart(setting, threshold))


def main_estimand(quantities: Sequence["Estimand"]) -> "Estimand":
    """Return people's mean or, of categories, the share of the answer that they gave most often."""
    if quantities[0].kind is _MEAN:
        return quantities[0]
    return max((q for q in quantities if q.kind is _ANSWER), key=lambda q: float(np.nanmean(q.truth)))


def _plans(
    setting: "WholeSet",
    main: "Estimand",
    parts: Sequence[tuple[Mapping[str, str], Bools]],
    pairs: Sequence[tuple[SetEstimate, ...]],
) -> Iterator[Metric]:
    """Yield how many ratings are enough for the main estimate of a question and of its subgroups, and for pairs."""
    named = main.dims if main.kind is _ANSWER else {}
    estimated_parts = [(dims, estimate) for dims, members in parts if (estimate := main.of(setting, members))]
    for dims, estimate in estimated_parts:
        for metric in half_width_metrics(estimate, larger=not dims):
            yield metric.at(**dims, **named)
    if not estimated_parts or estimated_parts[0][0]:
        return
    whole = estimated_parts[0][1]
    by_value = {(dims["attribute"], dims["part"]): estimate for dims, estimate in estimated_parts if dims}
    for attribute in dict.fromkeys(name for name, _ in by_value):
        of_values = subgroup_pairs(by_value, attribute)
        compared = f"two values of {attribute}"
        for metric in detectable_metrics(of_values, compared=compared, n=whole.n, items=whole.items):
            yield metric.at(**named)
    yield from detectable_metrics(pairs, compared="accuracy of two models", n=whole.n, items=whole.items)
    chosen = setting.answers.of_raters(setting.people.raters)
    y = chosen.score if main.kind is _MEAN else (chosen.value == _code(chosen, main)).astype(np.float64)
    kept = setting.rated[chosen.item] & ~np.isnan(y)
    for metric in split_metrics(whole, RepeatedAnswers.of(chosen.item[kept].astype(np.int64), y[kept])):
        yield metric.at(**named)


def _code(answers: RatingTable, estimand: "Estimand") -> int:
    return answers.values.index(estimand.dims["answer"])


def judges_apart(setting: "WholeSet", threshold: float | None) -> list[tuple[SetEstimate, ...]]:
    """Return the estimated difference of accuracy of each pair of judges over the items that both judged."""
    answers, part = setting.answers, setting.part
    right = {}
    for judge in setting.judges:
        of_judge = answers.of_raters((judge,))
        if not answers.scored:
            majorities = majority(answers.of_raters(setting.people.raters).counts(by="value")[0])
            claimed = _codes(of_judge)
            is_known = (majorities >= 0) & (claimed >= 0) & setting.rated
            right[judge] = np.where(is_known, majorities == claimed, np.nan)
        elif threshold is not None:
            claims = _at_least(of_judge.means()[0], threshold)
            holds = _at_least(means_of(answers, setting.people), threshold)
            right[judge] = np.where(np.isnan(claims) | np.isnan(holds), np.nan, claims == holds)
    gaps = [right[first] - right[second] for first, second in combinations(right, 2)]
    return [(estimate_mean(gap, None, part),) for gap in gaps if not np.isnan(gap).all()]


def _pooled(
    quantity: "Estimand",
    setting: WholeSet,
    parts: Sequence[tuple[Mapping[str, str], Bools]],
    attributes: Sequence[str],
) -> Iterator[Metric]:
    """Yield the estimates of the subgroups by these attributes, drawn towards the mean of all."""
    units, rated = setting.part.units, ~np.isnan(quantity.truth)
    for attribute in attributes:
        of_attribute = {dims["part"]: members for dims, members in parts if dims.get("attribute") == attribute}
        of_parts = [np.unique(units.code[members & rated]) for members in of_attribute.values()]
        overlap = bool(of_parts) and len(np.unique(np.concatenate(of_parts))) < sum(map(len, of_parts))
        estimates_of = {value: quantity.of(setting, members) for value, members in of_attribute.items()}
        for metric in pooled_metrics(
            quantity.kind, {value: e for value, e in estimates_of.items() if e}, dims=quantity.dims,
            bounds=setting.scale, shared=units.name if overlap else "",
        ):  # fmt: skip
            yield metric.at(attribute=attribute)


def judges_of(question: RatedQuestion) -> tuple[str, ...]:
    """Return the models and encoders whose answers predict people's, at most `MAX_JUDGES` with the most answers."""
    answers = question.answers
    names = [name for name in answers.raters if question.kind(name) in ("model", "encoder")]
    counts = {name: int((answers.rater == answers.raters.index(name)).sum()) for name in names}
    return tuple(sorted((name for name in names if counts[name]), key=lambda name: (-counts[name], name)))[:MAX_JUDGES]


def setting_of(question: RatedQuestion) -> WholeSet | str:
    """Return what is needed to estimate the whole set of a question, or the reason why that is not possible."""
    answers, scale = question.answers, question.context.scale
    if question.inverted:
        if scale is None:
            return question.context.no_scale
        answers = model_scores.inverted(answers, low=scale[0], high=scale[1])
    assigned = question.context.assigned
    kept = np.ones(answers.items, bool) if assigned is None else assigned.could_be_drawn
    if not kept.any():
        return "none of the items is in the assignments"
    people = question.averaged(PEOPLE, answers)
    n = _answers_of(answers, people)
    rated = np.asarray(n >= max(1, people.at_least))
    if not rated.any():
        return no_rated_item(PEOPLE, at_least=people.at_least)
    if rated.all():
        return ALL_RATED
    drawn = drawn_part(assigned, n, rated, people=people, trusted=question.settings.random_part)
    if isinstance(drawn, str):
        return drawn
    probability, remark = drawn
    part = RandomPart(probability, answers.units).of(kept)
    answers = answers if kept.all() else answers.of_items(kept)
    return WholeSet(answers, people, judges_of(question), part, rated[kept], scale, kept, remark)


def _answers_of(answers: RatingTable, people: RaterGroup) -> NDArray[np.int64]:
    """Return int64[items], the number of people who answered each item."""
    chosen = answers.of_raters(people.raters)
    n = chosen.means()[1] if answers.scored else chosen.where(chosen.value >= 0).per_item()
    return np.asarray(n, np.int64)


def drawn_part(
    assigned: AssignedItems | None, n: NDArray[np.int64], rated: Bools, *, people: RaterGroup, trusted: bool
) -> tuple[Floats, str | None] | str:
    """Return the probability of each item and a remark, or the reason why people's part is not a random draw.

    Items that were given to people and not answered are taken as a random part of those that were: the probability of
    an answer is that of being drawn times the share of answered items.

    Args:
        n: int64[items], number of people's answers; rated: bool[items], those with enough.
        trusted: whether the user says that people's part is random.
    """
    if assigned is None:
        return (np.full(len(rated), rated.mean()), None) if trusted else NOT_RANDOM
    asked, answered = assigned.assigned, int(rated.sum())
    if outside := int(((n > 0) & ~asked).sum()):
        return (
            f"people answered {outside:,} of their {int((n > 0).sum()):,} items outside of the assignments, so that "
            "their part is not the draw"
        )
    share = answered / int(asked.sum())
    remarks = []
    if answered < asked.sum():
        enough = f"answered by {people.at_least} people" if people.at_least > 1 else "answered"
        remarks.append(
            f"of {int(asked.sum()):,} items that {assigned.raters:,} people were given, {answered:,} were {enough}, by "
            f"{len(people.raters):,} people: taken as a random part of them"
        )
    if left_out := int((~assigned.could_be_drawn).sum()):
        remarks.append(f"{left_out:,} items that could not be drawn for people are left out")
    probability = assigned.probability
    if np.isnan(probability[asked]).any() or (probability[asked] >= 1).all():
        if not trusted:
            return NO_DRAW
        probability = np.full(len(rated), float(asked.sum() / assigned.could_be_drawn.sum()))
    return np.minimum(probability * share, 1.0), "; ".join(remarks) or None


@dataclass(frozen=True)
class Estimand:
    """A mean over all items that is estimated.

    Attributes:
        truth: float64[items], people's answer, NaN where they did not rate.
        predicted: float64[items], from the judges; None if they do not vary.
        judged: float64[items], the judges' own answer on people's scale, NaN without one; None: they have none.
    """

    kind: MetricKind
    truth: Floats
    predicted: Floats | None
    judged: Floats | None
    dims: Mapping[str, str]

    def of(self, setting: WholeSet, members: Bools) -> SetEstimate | None:
        """Return the estimate of the items of `members`, bool[items]; None if people rated none of them."""
        truth = self.truth[members]
        if np.isnan(truth).all():
            return None
        predicted = None if self.predicted is None else self.predicted[members]
        is_share, bounds = (
            self.kind.unit in (Quantity.SHARE, Quantity.FRACTION),
            setting.scale if self.kind is _MEAN else None,
        )
        return estimate_mean(truth, predicted, setting.part.of(members), is_share=is_share, bounds=bounds)

    def metrics(self, setting: WholeSet, members: Bools) -> Iterator[Metric]:
        """Yield the estimates from both, from people alone and from judges alone, and what the judges were worth."""
        estimate, items = self.of(setting, members), int(members.sum())
        if estimate is None:
            reason = "people rated none of these items"
            yield undefined(self.kind, reason, coverage=0.0, dims={**self.dims, "source": BOTH})
            return
        yield from _metrics(self.kind, estimate, self.dims, of_kind=_words(self))
        if self.judged is not None and (has_answer := ~np.isnan(self.judged[members])).any():
            value, n = float(self.judged[members][has_answer].mean()), int(has_answer.sum())
            dims, reason = {**self.dims, "source": JUDGES_ALONE}, "no interval: the judges' bias is unknown"
            yield exact(self.kind, value, n, coverage=n / items, reason=reason, dims=dims)


def _words(estimand: Estimand) -> str:
    details = {name: estimand.dims[name] for name in estimand.kind.details}
    return estimand.kind.detailed.format(**details) if details else estimand.kind.label


def _metrics(kind: MetricKind, estimate: SetEstimate, dims: Mapping[str, str], *, of_kind: str) -> Iterator[Metric]:
    coverage = estimate.n / estimate.items
    both = (BOTH, estimate.value, estimate.interval), (PEOPLE_ALONE, estimate.people, estimate.people_interval)
    for source, value, interval in both:
        named = {**dims, "source": source}
        yield estimated(kind, value, estimate.n, coverage=coverage, interval=interval, dims=named)
    reason = "no interval: a ratio of two widths" if estimate.factor else "no interval: the judges do not narrow it"
    named = {**{name: value for name, value in dims.items() if name == "rater"}, "of": of_kind}
    yield exact(_WORTH, estimate.effective, estimate.n, coverage=coverage, reason=reason, dims=named)


def quantities(setting: WholeSet, thresholds: Sequence[float]) -> Iterator[Estimand]:
    """Yield what is estimated: the mean, the share at each threshold, and the share of each answer."""
    answers, people, part = setting.answers, setting.people, setting.part
    chosen = answers.of_raters(people.raters)
    judges = [answers.of_raters((name,)) for name in setting.judges]
    scores = np.stack([judge.means()[0] for judge in judges], axis=1)
    on_scale = scores if setting.scale is None else np.where(_inside(scores, setting.scale), scores, np.nan)
    if answers.scored:
        truth, mean = means_of(answers, people), _row_means(on_scale)
        yield Estimand(_MEAN, truth, combined(truth, scores, part), mean, {})
        for threshold in thresholds:
            hit = _at_least(truth, threshold)
            features = np.concatenate([scores, _at_least(on_scale, threshold)], axis=1)
            judged = _at_least(mean, threshold)
            yield Estimand(_AT_LEAST, hit, combined(hit, features, part), judged, {"threshold": f"{threshold:g}"})
    if not 2 <= len(answers.values) <= MAX_ANSWERS:
        return
    counts, _ = chosen.counts(by="value")
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.where(setting.rated[:, None], counts / counts.sum(1, keepdims=True), np.nan)
    codes = np.stack([_codes(judge) for judge in judges], axis=1)
    for code, answer in enumerate(answers.values):
        chosen_by = np.where(codes >= 0, codes == code, np.nan)
        features = np.concatenate([scores, chosen_by], axis=1) if answers.scored else chosen_by
        yield Estimand(
            _ANSWER,
            shares[:, code],
            combined(shares[:, code], features, part),
            _row_means(chosen_by),
            {"answer": answer},
        )


def _of_judge(setting: WholeSet, judge: str, threshold: float | None) -> Iterator[Metric]:
    """Yield bias, accuracy, F1 and Brier score of a judge against people, over all items."""
    answers, part = setting.answers, setting.part
    of_judge = answers.of_raters((judge,))
    yield from _brier(setting, of_judge)
    others = [answers.of_raters((name,)) for name in setting.judges if name != judge]
    dims = {"rater": judge}
    if not answers.scored:
        claimed, majorities = _codes(of_judge), majority(answers.of_raters(setting.people.raters).counts(by="value")[0])
        if (claimed < 0).any() and not (claimed >= 0).any():
            return
        right = np.where((majorities >= 0) & (claimed >= 0) & setting.rated, majorities == claimed, np.nan)
        agreeing = [np.where((claimed >= 0) & (_codes(o) >= 0), _codes(o) == claimed, np.nan) for o in others]
        kinds = [(claimed == code).astype(np.float64) for code in range(len(answers.values))]
        features, judged = np.stack([*kinds, *agreeing], axis=1), np.asarray(claimed >= 0)
        yield from _accuracy(right, features, part, judged, dims)
        if np.isnan(right).all() or len(answers.values) > MAX_ANSWERS:
            return
        for code, answer in enumerate(answers.values):
            holds = np.where(np.isnan(right), np.nan, majorities == code)
            yield from _f1(kinds[code], holds, features, part, judged=judged, dims={**dims, "answer": answer})
        return
    score, truth = of_judge.means()[0], means_of(answers, setting.people)
    judged = ~np.isnan(score)
    if not judged.any() or not (judged & setting.rated).any():
        return
    scores = np.stack([score, *(other.means()[0] for other in others)], axis=1)
    gap = score - truth
    members = part.of(judged)
    estimate = estimate_mean(gap[judged], combined(gap[judged], scores[judged], members), members)
    yield from _metrics(_BIAS, estimate, dims, of_kind=_BIAS.label)
    if threshold is None:
        return
    dims = {"rater": judge, "threshold": f"{threshold:g}"}
    claimed_high, high = _at_least(score, threshold), _at_least(truth, threshold)
    features = np.concatenate([scores, claimed_high[:, None]], axis=1)
    right = np.where(np.isnan(high) | ~judged, np.nan, high == claimed_high)
    yield from _accuracy(right, features, part, judged, dims)
    yield from _f1(claimed_high, high, features, part, judged=judged, dims=dims)


def _f1(
    claims: Floats, holds: Floats, features: Floats, part: RandomPart, *, judged: Bools, dims: Mapping[str, str]
) -> Iterator[Metric]:
    """Yield F1 of float64[items] `claims` of a judge; `holds` is NaN where people gave no answer."""
    members = part.of(judged)
    f1 = estimate_f1(claims[judged], holds[judged], lambda linear: combined(linear, features[judged], members), members)
    if f1 is None:
        reason = "nothing is positive, for people or for the judge, among people's items"
        yield undefined(_F1, reason, coverage=0.0, dims={**dims, "source": BOTH})
        return
    of_answer = f": {dims['answer']}" if "answer" in dims else ""
    yield from _metrics(_F1, f1, dims, of_kind=_F1.label + of_answer)


def _brier(setting: WholeSet, of_judge: RatingTable) -> Iterator[Metric]:
    """Yield the Brier score of a judge; nothing if it gave no probabilities of a closed question.

    The judge alone stands for what it expects of itself: p (1 - p), if it is as often right as it is sure.
    """
    sure, right = sure_and_right(of_judge, setting.answers.of_raters(setting.people.raters))
    right = np.where(setting.rated, right, np.nan)
    judged = ~np.isnan(sure)
    if np.isnan(right[judged]).all():
        return
    score = sure**2 - 2 * sure * right + right
    expected = sure * (1 - sure)
    members = setting.part.of(judged)
    predicted = combined(score[judged], np.stack([sure, expected], axis=1)[judged], members)
    estimand = Estimand(_BRIER, score[judged], predicted, expected[judged], {"rater": of_judge.raters[0]})
    rated = judged & ~np.isnan(right)
    few = min(setting.part.units.of(rated & apart).count for apart in (right < 1, right > 0))
    for metric in estimand.metrics(replace(setting, part=members), np.ones(int(judged.sum()), bool)):
        is_unknown = few < FEW_APART and metric.low is not None
        reason = f"no interval: people and the judge differ, or agree, on fewer than {FEW_APART} {members.units.name}"
        without = replace(metric, low=None, high=None, interval_method=None, reason=f"{reason} ({few})")
        yield without if is_unknown else metric


def sure_and_right(judge: RatingTable, people: RatingTable) -> tuple[Floats, Floats]:
    """Return float64[items], the probability that the judge gives its answer, NaN without one, and the share of people
    who give the same answer, NaN if nobody answered; both NaN if the question has less than 2 answers or more than
    `MAX_ANSWERS`."""
    sure, right = np.full(judge.items, np.nan), np.full(judge.items, np.nan)
    if judge.others is None or not 2 <= len(judge.values) <= MAX_ANSWERS:
        return sure, right
    counts, _ = people.counts(by="value")
    n, code = counts.sum(1), _codes(judge)
    sure[judge.item] = 1 / (1 + np.exp(judge.others[:, POWERS.index(1)].astype(np.float64)))
    sure[code < 0] = np.nan
    right = np.where((n > 0) & ~np.isnan(sure), counts[np.arange(judge.items), code] / np.maximum(n, 1), np.nan)
    return sure, right


def _accuracy(
    right: Floats, features: Floats, part: RandomPart, judged: Bools, dims: Mapping[str, str]
) -> Iterator[Metric]:
    if np.isnan(right[judged]).all():
        return
    members = part.of(judged)
    predicted = combined(right[judged], features[judged], members)
    estimate = estimate_mean(right[judged], predicted, members, is_share=True)
    yield from _metrics(_ACCURACY, estimate, dims, of_kind=_ACCURACY.label)


def _codes(answers: RatingTable) -> NDArray[np.int64]:
    """Return int64[items], the answer of the only rater to each item, -1 without one."""
    codes = np.full(answers.items, -1, np.int64)
    codes[answers.item] = answers.value
    return codes


def _inside(scores: Floats, scale: tuple[float, float]) -> Bools:
    return np.asarray((scores >= scale[0] - EPSILON) & (scores <= scale[1] + EPSILON))


def _at_least(scores: Floats, threshold: float) -> Floats:
    return np.where(np.isnan(scores), np.nan, scores >= threshold - EPSILON)


def _row_means(columns: Floats) -> Floats:
    present = ~np.isnan(columns)
    n = present.sum(1)
    means: Floats = np.divide(np.nan_to_num(columns).sum(1), n, out=np.full(len(columns), np.nan), where=n > 0)
    return means
