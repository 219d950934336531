"""The data of each question that plots need besides its metrics: confusion matrices and pairs of scores.

A confusion matrix counts a rater's answers to the items with each answer of people, or with the right ones. Pairs of
scores are drawn as points: length and score of a response, or a rater's score and people's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import Units
from jobs.metrics.majority import majority
from jobs.metrics.model_scores import LengthFit, length_fit, means_of, scored_lengths
from jobs.metrics.rated_question import PEOPLE, RatedQuestion

MAX_KEPT = 500  # matrices, and sets of points, so that memory does not grow with the number of questions
Floats = NDArray[np.float64]
LENGTH, WITH_PEOPLE = "length", "people"
MAX_POINTS = 300  # points to draw; the line is fitted to all items
MAX_RATERS = 12
GOLD = "gold"
MAX_ANSWERS = 12  # of a matrix; a larger one is unreadable


@dataclass(frozen=True)
class Confusion:
    """Counts of a rater's answers to the items with each answer of the reference.

    Attributes:
        rater: a model, or `people`.
        reference: `people` or `gold`.
        answers: in the order of the scale or of the rubric.
        counts: int64[answers of the reference, answers of the rater], numbers of items.
    """

    rater: str
    reference: str
    answers: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def n(self) -> int:
        """Number of items that both answered."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class PairedScores:
    """Two numbers of each item, and the least-squares line of the second on the first.

    Attributes:
        kind: `length`: characters of a response, and its mean score of the rater or group. `people`: the rater's score
            of an item, and the mean of people's.
        rater: a rater or group.
        x, y: float64[at most `MAX_POINTS`], every k-th item; n: number of all items.
        fit: the line of all items; None if all `x` are equal or n < 3.
    """

    kind: str
    rater: str
    x: Floats
    y: Floats
    n: int
    fit: LengthFit | None


@dataclass
class Observations:
    """Collects what the plots need while the metrics of each question are computed: a `compute.Observer`."""

    confusions: list[tuple[Mapping[str, str], Confusion]] = field(default_factory=list)
    pairs: list[tuple[Mapping[str, str], PairedScores]] = field(default_factory=list)

    def __call__(self, dims: Mapping[str, str], question: RatedQuestion) -> None:
        """Keep the confusion matrices and the points of a question."""
        if len(self.confusions) < MAX_KEPT:
            self.confusions += [(dims, confusion) for confusion in confusions(question)]
        if len(self.pairs) < MAX_KEPT:
            self.pairs += [(dims, pairs) for pairs in paired_scores(question)]

    def join(self, question: "Observations") -> None:
        """Keep the data of the next question, which other observations have collected."""
        if len(self.confusions) < MAX_KEPT:
            self.confusions += question.confusions
        if len(self.pairs) < MAX_KEPT:
            self.pairs += question.pairs


def paired_scores(question: RatedQuestion) -> Iterator[PairedScores]:
    """Yield the points of raters' length bias, and of encoders' and other continuous scores against people's scores."""
    answers, context = question.answers, question.context
    if not answers.scored:
        return
    if context.lengths is not None:
        for group in question.averaged_groups(answers)[:MAX_RATERS]:
            yield from _pairs(LENGTH, group.name, *scored_lengths(answers, group, context.lengths))
    people = answers.of_raters(question.groups.get(PEOPLE, ()))
    continuous = [rater for rater in answers.raters if rater in question.unscaled or question.kind(rater) == "encoder"]
    if not people.n or not continuous:
        return
    group = next(group for group in question.averaged_groups(answers) if group.name == PEOPLE)
    of_people = means_of(answers, group)
    for rater in continuous[:MAX_RATERS]:
        score = answers.of_raters((rater,)).means()[0]
        both = ~np.isnan(score) & ~np.isnan(of_people)
        yield from _pairs(WITH_PEOPLE, rater, score[both], of_people[both], answers.units.of(both))


def _pairs(kind: str, rater: str, x: Floats, y: Floats, units: Units) -> Iterator[PairedScores]:
    if len(x) >= 3:
        step = -(-len(x) // MAX_POINTS)
        yield PairedScores(kind, rater, x[::step], y[::step], len(x), length_fit(x, y, units))


def confusions(question: RatedQuestion) -> Iterator[Confusion]:
    """Yield the matrix of each model against people, and of each model and people against gold.

    The answers of several people to an item are reduced to one: on a scale the level nearest to their mean, otherwise
    the category that more than half of them chose. Items without a majority are left out. Gold needs a single right
    category, or a score on the scale. Questions with more than `MAX_ANSWERS` answers have no matrix.
    """
    answers = question.answers
    names, levels = _answers(question)
    if not 2 <= len(names) <= MAX_ANSWERS:
        return
    people = answers.of_raters(question.groups.get(PEOPLE, ()))
    models = [
        name
        for name in answers.raters
        if question.kind(name) not in ("human", "gold") and name not in question.unscaled
    ]
    of_people, of_gold = _codes(people, levels), _gold_codes(question, names, levels)
    codes = {rater: _codes(answers.of_raters((rater,)), levels) for rater in models}
    for reference, right in ((PEOPLE, of_people), (GOLD, of_gold)):
        compared = codes if reference == PEOPLE else {PEOPLE: of_people, **codes}
        for rater, answer in compared.items():
            both = (right >= 0) & (answer >= 0)
            if both.any():
                cells = np.bincount(right[both] * len(names) + answer[both], minlength=len(names) ** 2)
                yield Confusion(rater, reference, names, cells.reshape(len(names), -1))


def _answers(question: RatedQuestion) -> tuple[tuple[str, ...], NDArray[np.float64] | None]:
    """Return the names of the answers, and float64[answers] their scores; None for categories.

    Scores that nobody gave are among them: the level next to a mean must not depend on what the others answered.
    """
    answers = question.answers
    if not answers.scored:
        return answers.values, None
    scaled = answers.of_raters([name for name in answers.raters if name not in question.unscaled])
    levels, scale = scaled.levels(), question.context.scale
    if scale and scale[1] - scale[0] < MAX_ANSWERS and not np.any(np.concatenate([levels, scale]) % 1):
        levels = np.union1d(levels, np.arange(scale[0], scale[1] + 1))
    return tuple(f"{level:g}" for level in levels) if len(levels) <= MAX_ANSWERS else (), levels


def _codes(answers: RatingTable, levels: NDArray[np.float64] | None) -> NDArray[np.int64]:
    """Return int64[items], the position of the raters' common answer to each item; -1 without one."""
    if levels is not None:
        return _nearest(answers.means()[0], levels)
    return majority(answers.counts(by="value")[0])


def _nearest(scores: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.int64]:
    nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, scores)
    return np.where(np.isnan(scores), -1, nearest).astype(np.int64)


def _gold_codes(
    question: RatedQuestion, names: tuple[str, ...], levels: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    context = question.context
    none = np.full(question.answers.items, -1, np.int64)
    if levels is not None and context.gold_scores is not None:
        return _nearest(context.gold_scores, levels)
    if levels is None and context.right_values is not None:
        position = {name: code for code, name in enumerate(names)}
        single = (next(iter(right)) if right and len(right) == 1 else "" for right in context.right_values)
        return np.array([position.get(value, -1) for value in single], np.int64)
    return none
