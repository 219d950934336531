"""The points that are drawn, and the line of all items."""

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.paired_scores import MAX_POINTS, paired_scores
from jobs.metrics.question import MetricSettings, QuestionContext, RatedQuestion


def drawn(scores, people, **context):
    """Return the pairs of a rater `m` and a person `p`."""
    answers = RatingTable.from_matrix(np.stack([scores, people], 1), raters=["m", "p"])
    n = len(scores)
    names = QuestionContext(
        kinds={"p": "human", "m": "encoder"}, picture=np.arange(n), target=np.zeros(n, int), **context
    )
    question = RatedQuestion(answers, names, MetricSettings())
    return {(pairs.kind, pairs.rater): pairs for pairs in paired_scores(question)}


def test_every_kth_item_is_drawn_and_the_line_is_that_of_all():
    x = np.arange(MAX_POINTS + 1.0)
    pairs = drawn(x, 2 * x)["people", "m"]
    assert (pairs.n, pairs.x.tolist(), pairs.y.tolist()) == (len(x), x[::2].tolist(), (2 * x[::2]).tolist())
    assert pairs.fit.slope == pytest.approx(2)
    assert len(drawn(x[1:], x[1:])["people", "m"].x) == MAX_POINTS


def test_items_of_both_are_paired_and_three_are_needed():
    scores, people = np.array([1, 2, 3, np.nan, 5]), np.array([1, np.nan, 3, 4, 2])
    assert drawn(scores, people)["people", "m"].x.tolist() == [1, 3, 5]
    assert drawn(scores[:4], people[:4]) == {}
    lengths = drawn(scores, people, lengths=np.array([10.0, 20, 30, 40, 50]))
    assert lengths["length", "m"].x.tolist() == [10, 20, 30, 50]
    assert lengths["length", "m"].y.tolist() == [1, 2, 3, 5]


def test_the_line_is_fitted_to_items_that_are_not_drawn():
    """Every second item is drawn; the others are far from the line through these."""
    x = np.arange(MAX_POINTS + 2.0)
    y = np.where(np.arange(len(x)) % 2, x + 100, x)
    pairs = drawn(x, y)["people", "m"]
    slope, intercept = np.polyfit(x, y, 1)
    assert pairs.y.tolist() == x[::2].tolist()
    assert (pairs.fit.slope, pairs.fit.intercept) == (pytest.approx(slope), pytest.approx(intercept))
