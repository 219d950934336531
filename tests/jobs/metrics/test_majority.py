"""Majorities and who goes with them."""

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.majority import NO_MAJORITY, NONE, majority, majority_shares, pooled, rater_unit_agreement

WORDS = ("event", "person", "unsure", "none")


def worded(rows, raters=None):
    """Answers of categories from rows of words, None for none."""
    matrix = np.array([[np.nan if w is None else WORDS.index(w) for w in row] for row in rows], float)
    made = RatingTable.from_matrix(matrix, raters=raters)
    values = np.array([WORDS.index(WORDS[int(s)]) for s in made.score])
    return RatingTable(
        item=made.item, rater=made.rater, value=values, score=np.full(made.n, np.nan), items=made.items,
        raters=made.raters, values=WORDS, asked=made.asked,
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
    found = {f.dims["answer"]: f for f in majority_shares(answers, group="people", at_least=3)}
    assert {name: f.value for name, f in found.items()} == pytest.approx(
        {"event": 1 / 3, "person": 0, NONE: 1 / 3, NO_MAJORITY: 1 / 3}
    )
    assert found["event"].n == 3
    assert found["event"].coverage == 3 / 4
    everyone = {f.dims["answer"]: f.value for f in majority_shares(answers, group="people")}
    assert everyone["person"] == 1 / 4
    assert sum(value or 0 for value in everyone.values()) == pytest.approx(1)


def test_an_item_without_ratings_never_has_a_majority():
    found = {f.dims["answer"]: f for f in majority_shares(worded([["event"], [None]]), group="people", at_least=0)}
    assert (found["event"].value, found["event"].n, found[NO_MAJORITY].value) == (1, 1, 0)
    assert majority(np.zeros((2, 0), int)).tolist() == [-1, -1]
    assert pooled(["a", "b"])[0] == ("a", "b")


def test_no_item_with_enough_ratings():
    (found,) = majority_shares(worded([["event", None]]), group="people", at_least=3)
    assert (found.value, found.reason) == (None, "no item has 3 ratings of people")


def test_words_for_none_are_pooled_whatever_their_case():
    names, place = pooled(["Unsure", "event", "None of the above"])
    assert (names, place.tolist()) == (("event", NONE), [1, 0, 1])


def test_agreement_with_the_majority_and_with_the_mean():
    # item 1: majority 5, mean 11/3: a, b are 1.33 away, c 2.67; item 2: no majority, mean 3: b only;
    # item 3: all 2; item 4: c alone has nobody to agree with
    matrix = np.array([[5, 5, 1], [1, 3, 5], [2, 2, 2], [np.nan, np.nan, 4]])
    found = {
        (f.name, f.dims["rater"]): f
        for f in rater_unit_agreement(RatingTable.from_matrix(matrix, raters=["a", "b", "c"]))
    }
    assert [found["agreement_with_majority", r].value for r in "abc"] == [1, 1, 1 / 2]
    assert [found["agreement_with_mean", r].value for r in "abc"] == pytest.approx([1 / 3, 2 / 3, 1 / 3])
    assert found["agreement_with_mean", "c"].coverage == 3 / 4
    halves = rater_unit_agreement(RatingTable.from_matrix(np.array([[1, 2]]), raters=["a", "b"]))
    assert [f.value for f in halves if f.name == "agreement_with_mean"] == [1, 1]  # half a point away
    alone = list(rater_unit_agreement(RatingTable.from_matrix([[3], [4]])))
    assert all(f.value is None and f.reason for f in alone)
