"""The data that plots need: each kind has its own limit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jobs.metrics import observations
from jobs.metrics.answers import RatingTable
from jobs.metrics.observations import MAX_POINTS, Observations, confusions, paired_scores
from jobs.metrics.rated_question import MetricSettings, QuestionContext, RatedQuestion

ITEMS = 6
PEOPLE = {"p1": "human", "p2": "human", "p3": "human"}


@pytest.fixture
def rated() -> RatedQuestion:
    """A question with a matrix of a model and people, and without points."""
    answers = RatingTable.from_matrix(np.tile([1.0, 2], (ITEMS, 1)), raters=["m", "anna"])
    kinds = {"m": "model", "anna": "human"}
    context = QuestionContext(kinds, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64), scale=(1, 5))
    return RatedQuestion(answers, context, MetricSettings())


def test_matrices_and_points_have_limits_of_their_own(monkeypatch: pytest.MonkeyPatch, rated: RatedQuestion) -> None:
    matrices, points = [2, 2, 2, 2], [1, 1, 1, 1]
    monkeypatch.setattr(observations, "MAX_KEPT", 3)
    monkeypatch.setattr(observations, "confusions", lambda _: ["matrix"] * matrices.pop())
    monkeypatch.setattr(observations, "paired_scores", lambda _: ["points"] * points.pop())
    kept = Observations()
    for number in range(4):
        kept({"question": str(number)}, rated)
    pairs: list[Any] = [dims["question"] for dims, _ in kept.pairs]
    assert [dims["question"] for dims, _ in kept.confusions] == ["0", "0", "1", "1"]
    assert pairs == ["0", "1", "2"]


def test_a_question_has_a_matrix_of_each_rater(rated: RatedQuestion) -> None:
    kept = Observations()
    kept({"question": "q"}, rated)
    assert {dims["question"] for dims, _ in kept.confusions} == {"q"}
    assert kept.pairs == []


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


def question_of(matrix, raters, *, values=False, **context):
    answers = RatingTable.from_matrix(np.array(matrix, float), raters=raters)
    if values:
        answers = RatingTable(**{**vars(answers), "score": np.full(answers.n, np.nan)})
    names = QuestionContext(kinds=PEOPLE, picture=np.arange(len(matrix)), target=np.zeros(len(matrix), int), **context)
    return RatedQuestion(answers, names, MetricSettings())


def test_of_a_scale_the_level_next_to_peoples_mean_counts():
    # means 1.5 (a tie: the lower level), 3, and no model
    question = question_of([[1, 2, 2], [3, 3, 1], [2, 2, np.nan]], ["p1", "p2", "m"])
    (matrix,) = confusions(question)
    assert (matrix.rater, matrix.reference, matrix.answers, matrix.n) == ("m", "people", ("1", "2", "3"), 2)
    assert matrix.counts.tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]


def test_of_a_known_scale_levels_count_that_nobody_gave():
    # people's means 4 and 2; without the levels 2 and 4 they would be nearest to 3 or 5, and to 1 or 3
    question = question_of([[5, 3, 5], [1, 3, 1]], ["p1", "p2", "m"], scale=(1.0, 5.0))
    (matrix,) = confusions(question)
    assert matrix.answers == ("1", "2", "3", "4", "5")
    assert (matrix.counts[3, 4], matrix.counts[1, 0], matrix.n) == (1, 1, 2)
    of_tenths = question_of([[0.1, 0.2], [0.2, 0.2]], ["p1", "m"], scale=(0.0, 1.0))
    assert [m.answers for m in confusions(of_tenths)] == [("0.1", "0.2")]


def test_of_categories_more_than_half_count():
    rows = [[1, 1, 2, 1], [1, 2, 3, 1], [3, 3, 3, 2]]  # the second has no majority
    (matrix,) = confusions(question_of(rows, ["p1", "p2", "p3", "m"], values=True))
    assert matrix.n == 2
    assert matrix.counts.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_gold_is_a_category_or_a_score():
    gold = [frozenset({"1"}), frozenset({"2"}), frozenset({"1", "2"})]
    results = list(confusions(question_of([[1, 1], [1, 2], [2, 2]], ["p1", "m"], values=True, right_values=gold)))
    assert [(m.rater, m.reference, m.n) for m in results] == [
        ("m", "people", 3),
        ("people", "gold", 2),
        ("m", "gold", 2),
    ]
    assert results[1].counts.tolist() == [[1, 0], [1, 0]]
    scored = list(confusions(question_of([[1, 1], [2, 2]], ["p1", "m"], gold_scores=np.array([1.0, 1.0]))))
    assert scored[-1].counts.tolist() == [[1, 1], [0, 0]]


def test_too_many_answers_have_no_matrix():
    assert list(confusions(question_of([[n, n] for n in range(13)], ["p1", "m"]))) == []
    assert len(list(confusions(question_of([[n, n] for n in range(12)], ["p1", "m"])))) == 1
    assert len(list(confusions(question_of([[1, 1], [2, 1]], ["p1", "m"])))) == 1
    assert list(confusions(question_of([[1, 1], [1, 1]], ["p1", "m"]))) == []


def test_gold_raters_and_scores_that_are_not_on_the_scale_have_no_matrix():
    question = question_of([[1, 1, 2, -7.5], [2, 2, 1, -3]], ["p1", "m", "g", "likelihood"])
    kinds = {**PEOPLE, "g": "gold"}
    question = replace(question, context=replace(question.context, kinds=kinds), unscaled=frozenset({"likelihood"}))
    (matrix,) = confusions(question)
    assert (matrix.rater, matrix.answers, matrix.counts.tolist()) == ("m", ("1", "2"), [[1, 0], [0, 1]])
