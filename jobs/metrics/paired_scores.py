"""Two numbers per item, to draw as points: length and score of a response, or a rater's score and people's."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.intervals import Units
from jobs.metrics.length_bias import LengthFit, length_fit, scored_lengths
from jobs.metrics.model_scores import means_of
from jobs.metrics.question import PEOPLE, RatedQuestion

Floats = NDArray[np.float64]
LENGTH, WITH_PEOPLE = "length", "people"
MAX_POINTS = 300  # points to draw; the line is fitted to all items
MAX_RATERS = 12


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
