"""The disagreement and score of each item, for sorting the cards of a page."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jobs.analysis.rating_codes import Reduction
from jobs.analysis.reduced_question import Key
from jobs.metrics.answers import RatingTable
from jobs.store.hashing import Hashes, places_in

Floats = NDArray[np.float64]
Bounds = tuple[float, float] | None  # lowest and highest score of a question


class Standings(NamedTuple):
    """Means by item, NaN where there are none.

    Attributes:
        item: uint64[n], hashes of the items' ids, ascending.
        disagreement: float64[n], mean over questions and targets of the distance between two raters' answers, 0 to 1.
        score: float64[n], mean score of the question `scored`.
        scored: rubric and question; None if no question has a scale.
    """

    item: Hashes
    disagreement: Floats
    score: Floats
    scored: tuple[str, str] | None

    def of(self, items: Hashes) -> tuple[Floats, Floats]:
        """Return disagreement and score of items, NaN for items that were not rated."""
        place = places_in(self.item, items)
        disagreement, score = (np.append(values, np.nan)[place] for values in (self.disagreement, self.score))
        return disagreement, score


def standings(
    reduction: Reduction, questions: Sequence[tuple[str, str]], scale: Callable[[str, str], tuple[Bounds, str]]
) -> Standings:
    """Return the standings of all items that were rated, in memory that grows with the items of one question.

    Args:
        questions: (rubric, question) in the order of the page; the scores are of the first question with a scale.
        scale: (rubric, question) -> lowest and highest score, or None, and the reason.
    """
    rated = {(key[0], key[1]) for key in reduction.keys}
    scored = next((name for name in [*questions, *sorted(rated)] if name in rated and scale(*name)[0]), None)
    distances, scores = _Means(), _Means()
    questions_of = ((reduction.of([key]), key, scale(*key[:2])[0], key[:2] == scored) for key in reduction.keys)
    for of_pairs, of_scores in reduction.tasks.map(_of_question, questions_of):
        distances.join(of_pairs)
        scores.join(of_scores)
    both = np.union1d(distances.item, scores.item)
    return Standings(both, distances.at(both), scores.at(both), scored)


def _of_question(reduction: Reduction, key: Key, bounds: Bounds, is_scored: bool) -> "tuple[_Means, _Means]":
    """Return the distances of a question's items and, if they are asked for, their scores."""
    reduced, distances, scores = reduction.question(key), _Means(), _Means()
    item, distance = pair_distances(reduced.answers, bounds)
    distances.add(reduced.item[item], distance)
    if is_scored and bounds:
        on_scale = (reduced.answers.score >= bounds[0]) & (reduced.answers.score <= bounds[1])
        scores.add(reduced.item[reduced.answers.item[on_scale]], reduced.answers.score[on_scale])
    return distances, scores


def pair_distances(answers: RatingTable, bounds: Bounds) -> tuple[NDArray[np.int64], Floats]:
    """Return the items with at least two answers, and the mean distance between two of their raters, from 0 to 1.

    For n sorted scores x_k, the distances of all pairs add up to sum (2 k - n - 1) x_k. Different categories have the
    distance 1: n (n - 1) / 2 - sum c (c - 1) / 2 pairs differ, where c counts equal answers. Scores outside the scale,
    such as likelihoods, are ignored.
    """
    if bounds and bounds[1] > bounds[0]:
        kept = (answers.score >= bounds[0]) & (answers.score <= bounds[1])
        item, score = answers.item[kept], answers.score[kept]
        order = np.lexsort((score, item))
        items, first, n = np.unique(item[order], return_index=True, return_counts=True)
        rank = np.arange(1, len(order) + 1) - np.repeat(first, n)
        weighted = (2 * rank - np.repeat(n, n) - 1) * score[order] / (bounds[1] - bounds[0])
        of_pairs = np.add.reduceat(weighted, first) if len(first) else np.zeros(0)
    else:
        kept = answers.value >= 0
        cells = np.stack([answers.item[kept], answers.value[kept]], axis=1)
        equal, c = np.unique(cells, axis=0, return_counts=True)
        items, first = np.unique(equal[:, 0], return_index=True)
        n = np.add.reduceat(c, first) if len(first) else first
        same = np.add.reduceat(c * (c - 1), first) if len(first) else first
        of_pairs = (n * (n - 1) - same) / 2
    several = n > 1
    return items[several].astype(np.int64), of_pairs[several] / (n[several] * (n[several] - 1) / 2)


class _Means:
    """Means of values by item, added question by question."""

    def __init__(self) -> None:
        self.item: Hashes = np.zeros(0, np.uint64)
        self._sum: Floats = np.zeros(0)
        self._n: Floats = np.zeros(0)

    def add(self, item: Hashes, value: Floats) -> None:
        """Add values float64[n] of items uint64[n], which may repeat."""
        items, place = np.unique(item, return_inverse=True)
        question = _Means()
        question.item, question._n = items, np.bincount(place, minlength=len(items)).astype(np.float64)
        question._sum = np.bincount(place, value, len(items)).astype(np.float64)
        self.join(question)

    def join(self, question: "_Means") -> None:
        """Add the values of another question."""
        both = np.union1d(self.item, question.item)
        total, count = np.zeros(len(both)), np.zeros(len(both))
        for means in (question, self):
            at = np.searchsorted(both, means.item)
            total[at] += means._sum
            count[at] += means._n
        self.item, self._sum, self._n = both, total, count

    def at(self, item: Hashes) -> Floats:
        """Return the means of items, NaN for those without a value."""
        means = np.full(len(item), np.nan)
        means[np.searchsorted(item, self.item)] = self._sum / self._n
        return means
