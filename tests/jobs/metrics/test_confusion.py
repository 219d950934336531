"""Confusion matrices by hand."""

from dataclasses import replace

import numpy as np

from jobs.metrics.answers import RatingTable
from jobs.metrics.confusion import confusions
from jobs.metrics.question import MetricSettings, QuestionContext, RatedQuestion

PEOPLE = {"p1": "human", "p2": "human", "p3": "human"}


def rated(matrix, raters, *, values=False, **context):
    answers = RatingTable.from_matrix(np.array(matrix, float), raters=raters)
    if values:
        answers = RatingTable(**{**vars(answers), "score": np.full(answers.n, np.nan)})
    names = QuestionContext(kinds=PEOPLE, picture=np.arange(len(matrix)), target=np.zeros(len(matrix), int), **context)
    return RatedQuestion(answers, names, MetricSettings())


def test_of_a_scale_the_level_next_to_peoples_mean_counts():
    # means 1.5 (a tie: the lower level), 3, and no model
    question = rated([[1, 2, 2], [3, 3, 1], [2, 2, np.nan]], ["p1", "p2", "m"])
    (matrix,) = confusions(question)
    assert (matrix.rater, matrix.reference, matrix.answers, matrix.n) == ("m", "people", ("1", "2", "3"), 2)
    assert matrix.counts.tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]


def test_of_a_known_scale_levels_count_that_nobody_gave():
    # people's means 4 and 2; without the levels 2 and 4 they would be nearest to 3 or 5, and to 1 or 3
    question = rated([[5, 3, 5], [1, 3, 1]], ["p1", "p2", "m"], scale=(1.0, 5.0))
    (matrix,) = confusions(question)
    assert matrix.answers == ("1", "2", "3", "4", "5")
    assert (matrix.counts[3, 4], matrix.counts[1, 0], matrix.n) == (1, 1, 2)
    of_tenths = rated([[0.1, 0.2], [0.2, 0.2]], ["p1", "m"], scale=(0.0, 1.0))
    assert [m.answers for m in confusions(of_tenths)] == [("0.1", "0.2")]


def test_of_categories_more_than_half_count():
    rows = [[1, 1, 2, 1], [1, 2, 3, 1], [3, 3, 3, 2]]  # the second has no majority
    (matrix,) = confusions(rated(rows, ["p1", "p2", "p3", "m"], values=True))
    assert matrix.n == 2
    assert matrix.counts.tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_gold_is_a_category_or_a_score():
    gold = [frozenset({"1"}), frozenset({"2"}), frozenset({"1", "2"})]
    results = list(confusions(rated([[1, 1], [1, 2], [2, 2]], ["p1", "m"], values=True, right_values=gold)))
    assert [(m.rater, m.reference, m.n) for m in results] == [
        ("m", "people", 3),
        ("people", "gold", 2),
        ("m", "gold", 2),
    ]
    assert results[1].counts.tolist() == [[1, 0], [1, 0]]
    scored = list(confusions(rated([[1, 1], [2, 2]], ["p1", "m"], gold_scores=np.array([1.0, 1.0]))))
    assert scored[-1].counts.tolist() == [[1, 1], [0, 0]]


def test_too_many_answers_have_no_matrix():
    assert list(confusions(rated([[n, n] for n in range(13)], ["p1", "m"]))) == []
    assert len(list(confusions(rated([[n, n] for n in range(12)], ["p1", "m"])))) == 1
    assert len(list(confusions(rated([[1, 1], [2, 1]], ["p1", "m"])))) == 1
    assert list(confusions(rated([[1, 1], [1, 1]], ["p1", "m"]))) == []


def test_gold_raters_and_scores_that_are_not_on_the_scale_have_no_matrix():
    question = rated([[1, 1, 2, -7.5], [2, 2, 1, -3]], ["p1", "m", "g", "likelihood"])
    kinds = {**PEOPLE, "g": "gold"}
    question = replace(question, context=replace(question.context, kinds=kinds), unscaled=frozenset({"likelihood"}))
    (matrix,) = confusions(question)
    assert (matrix.rater, matrix.answers, matrix.counts.tolist()) == ("m", ("1", "2"), [[1, 0], [0, 1]])
