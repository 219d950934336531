"""Majorities and who goes with them."""

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.majority import (
    NO_MAJORITY,
    NONE,
    answer_shares,
    majority,
    majority_shares,
    pooled,
    rater_unit_agreement,
)

WORDS = ("event", "person", "unsure", "none")


def worded(rows, raters=None):
    """Answers of categories from rows of words, None for none."""
    matrix = np.array([[np.nan if w is None else WORDS.index(w) for w in row] for row in rows], float)
    table = RatingTable.from_matrix(matrix, raters=raters)
    values = np.array([WORDS.index(WORDS[int(s)]) for s in table.score])
    return RatingTable(
        item=table.item, rater=table.rater, value=values, score=np.full(table.n, np.nan), items=table.items,
        raters=table.raters, values=WORDS, asked=table.asked,
    )  # fmt: skip


def test_more_than_half_is_a_majority():
    assert majority(np.array([[2, 1, 0], [1, 1, 1], [2, 2, 0], [0, 0, 0], [0, 1, 0]])).tolist() == [0, -1, -1, -1, 1]


def test_shares_by_hand():
    # event; none of the above (unsure and none are one); no majority; item 4 has two ratings only
    answers = worded([
        ["event", "event", "person"],
        ["unsure", "none", "event"],
        ["event", "person", "unsure"],
        ["person", "person", None],
    ])  # fmt: skip
    by_key = {f.dims["answer"]: f for f in majority_shares(answers, group="people", at_least=3)}
    assert {name: f.value for name, f in by_key.items()} == pytest.approx(
        {"event": 1 / 3, "person": 0, NONE: 1 / 3, NO_MAJORITY: 1 / 3}
    )
    assert by_key["event"].n == 3
    assert by_key["event"].coverage == 3 / 4
    everyone = {f.dims["answer"]: f.value for f in majority_shares(answers, group="people")}
    assert everyone["person"] == 1 / 4
    assert sum(value or 0 for value in everyone.values()) == pytest.approx(1)


def test_an_item_without_ratings_never_has_a_majority():
    by_key = {f.dims["answer"]: f for f in majority_shares(worded([["event"], [None]]), group="people", at_least=0)}
    assert (by_key["event"].value, by_key["event"].n, by_key[NO_MAJORITY].value) == (1, 1, 0)
    assert majority(np.zeros((2, 0), int)).tolist() == [-1, -1]
    assert pooled(["a", "b"])[0] == ("a", "b")


def test_no_item_with_enough_ratings():
    (result,) = majority_shares(worded([["event", None]]), group="people", at_least=3)
    assert (result.value, result.reason) == (None, "no item has 3 ratings of people")
    assert (result.coverage, result.dims["answer"]) == (0, "all")
    nothing = RatingTable.from_matrix(np.zeros((0, 1)))
    assert [metric.coverage for metric in majority_shares(nothing, group="people")] == [None]


def test_categories_have_no_mean():
    names = {metric.name for metric in rater_unit_agreement(worded([["event", "person"]], raters=["a", "b"]))}
    assert names == {"agreement_with_majority"}


def test_words_for_none_are_pooled_whatever_their_case():
    names, place = pooled([" Unsure", "event", "None of the above"])
    assert (names, place.tolist()) == (("event", NONE), [1, 0, 1])


def test_agreement_with_the_majority_and_with_the_mean():
    # item 1: majority 5, mean 11/3: a, b are 1.33 away, c 2.67; item 2: no majority, mean 3: b only;
    # item 3: all 2; item 4: c alone has nobody to agree with
    matrix = np.array([[5, 5, 1], [1, 3, 5], [2, 2, 2], [np.nan, np.nan, 4]])
    by_key = {
        (f.name, f.dims["rater"]): f
        for f in rater_unit_agreement(RatingTable.from_matrix(matrix, raters=["a", "b", "c"]))
    }
    assert [by_key["agreement_with_majority", r].value for r in "abc"] == [1, 1, 1 / 2]
    assert [by_key["agreement_with_mean", r].value for r in "abc"] == pytest.approx([1 / 3, 2 / 3, 1 / 3])
    assert by_key["agreement_with_mean", "c"].coverage == 3 / 4
    halves = rater_unit_agreement(RatingTable.from_matrix(np.array([[1, 2]]), raters=["a", "b"]))
    assert [f.value for f in halves if f.name == "agreement_with_mean"] == [1, 1]  # half a point away
    # the mean is half a point away from the first, for the second set up to rounding
    for scores in ([1, 1.5, 2], [0.3, 0.5, 1.6]):
        rounded = rater_unit_agreement(RatingTable.from_matrix([scores]))
        assert next(f.value for f in rounded if f.name == "agreement_with_mean") == 1
    alone = list(rater_unit_agreement(RatingTable.from_matrix([[3], [4]])))
    assert all(f.value is None and f.reason for f in alone)
    assert [(f.coverage, f.dims) for f in alone] == [(0.0, {"rater": "r0"})] * 2


def test_shares_by_writer_by_hand():
    answers = RatingTable.from_matrix(np.array([[1, 5], [1, 3], [3, np.nan], [5, 1]]), raters=["a", "b"])
    parts = {"x": np.array([1, 1, 0, 0], bool), "y": np.array([0, 0, 1, 1], bool), "z": np.zeros(4, bool)}
    unrated = answer_shares(answers, ("b",), {"w": np.array([0, 0, 1, 0], bool)}, group="b", attribute="model")
    assert {(m.value, m.coverage, m.status) for m in unrated} == {(None, 0.0, "missing_input")}
    metrics = list(answer_shares(answers, ("a",), parts, group="a", attribute="model"))
    shares = {(m.dims["part"], m.dims["answer"]): (m.value, m.n) for m in metrics}
    assert shares["x", "1"] == (1, 2)
    assert shares["x", "3"] == (0, 2)
    assert shares["y", "3"] == shares["y", "5"] == (0.5, 2)
    assert shares["z", "1"] == (None, 0)
    both = list(answer_shares(answers, ("a", "b"), parts, group="all", attribute="model"))
    of_y = next(m for m in both if (m.dims["part"], m.dims["answer"]) == ("y", "1"))
    assert (of_y.value, of_y.n, of_y.coverage) == (1 / 3, 3, 3 / 4)
