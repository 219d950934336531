"""Reduction of a question's ratings, and the right answers of its items."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from jobs.analysis.attributes import Items
from jobs.analysis.compute import _gold
from jobs.analysis.rating_codes import ROW
from jobs.analysis.reduced_question import (
    STATUS_CODES,
    Growing,
    IndependentUnits,
    QuestionTally,
    Reduced,
    distinct_pairs,
    merged,
)
from jobs.metrics.answers import RatingTable

PERSON, MODEL = 0, 1
NAN = np.nan


def reduced(rows: list[tuple[int, int, int, str]]) -> Reduced:
    """Of (item, target, rater, status); every answer is the first."""
    coded = np.zeros(len(rows), ROW)
    for place, (item, target, rater, status) in enumerate(sorted(rows)):
        coded[place]["item"], coded[place]["target"], coded[place]["rater"] = item, target, rater
        coded[place]["status"], coded[place]["score"] = STATUS_CODES[status], 1.0
    tally = QuestionTally(
        len(rows),
        np.array([PERSON, MODEL], np.int32),
        is_person=np.array([True, False]),
        recode=np.array([0, -1], np.int32),
    )
    tally.add(coded)
    return tally.result(
        ("r", "q"), names=["p", "m"], values=("yes",), targets=("", "Mali", "Peru"), units=IndependentUnits()
    )


def test_only_what_people_were_asked_counts_as_asked() -> None:
    result = reduced([(1, 0, PERSON, "ok"), (1, 0, MODEL, "ok"), (2, 0, MODEL, "ok"), (3, 0, PERSON, "reported")])
    by_item = dict(zip(result.item.tolist(), result.asked_people.tolist(), strict=True))
    assert by_item == {1: True, 2: False, 3: True}
    assert result.item[result.reported].tolist() == [3]


def test_reports_and_double_ratings_by_people_are_peoples() -> None:
    result = reduced([
        (1, 0, PERSON, "reported"), (1, 0, MODEL, "ok"), (2, 0, PERSON, "ok"), (2, 0, MODEL, "reported"),
        (3, 0, PERSON, "ok"), (3, 0, PERSON, "skipped"), (4, 0, PERSON, "ok"),
    ])  # fmt: skip
    assert result.item[result.reported].tolist() == [1]
    assert (result.double, result.double_by_people) == (3, 1)


def test_gold_decides_which_targets_are_right() -> None:
    """If an item's gold names no targets, answers about all of its targets are judged."""
    result = reduced([(item, target, PERSON, "ok") for item in (1, 2, 3) for target in (1, 2)])
    gold = {1: (frozenset[str](), frozenset(["Mali"])), 2: (frozenset(["Peru"]), frozenset(["Peru"]))}
    raters: Any = SimpleNamespace(kinds={"p": "human", "m": "model"})
    items: Any = SimpleNamespace(gold=gold)
    answers = _gold(result, raters, items, scale=None)
    assert answers.judged is not None
    assert answers.right is not None
    pairs = [(int(item), result.targets[target]) for item, target in zip(result.item, result.target, strict=True)]
    assert {pair for pair, judged in zip(pairs, answers.judged, strict=True) if judged} == {
        (1, "Mali"), (1, "Peru"), (2, "Peru"),
    }  # fmt: skip
    assert {pair for pair, right in zip(pairs, answers.right, strict=True) if right} == {(1, "Mali"), (2, "Peru")}


def test_a_label_holds_if_at_least_half_of_the_gold_raters_say_so() -> None:
    matrix = np.array([[1, 1, 0], [1, 0, 1], [0, 0, 1], [np.nan, 1, 1], [np.nan, np.nan, 1]])
    answers = RatingTable.from_matrix(matrix, raters=["g1", "g2", "m"])
    of_question: Any = SimpleNamespace(answers=answers)
    raters: Any = SimpleNamespace(kinds={"g1": "gold", "g2": "gold", "m": "model"})
    labels = _gold(of_question, raters, Items(), scale=(0, 1))
    assert labels.judged is not None
    assert labels.right is not None
    assert labels.judged.tolist() == [True, True, True, True, False]
    assert labels.right[labels.judged].tolist() == [True, True, False, True]
    scores = _gold(of_question, raters, Items(), scale=(0, 5))  # 0 and 1 are scores on this scale
    assert scores.right is None
    assert scores.scores is not None
    assert scores.scores[:4].tolist() == [1, 0.5, 0, 1]


def test_more_raters_than_16_bits_can_number_stay_apart() -> None:
    n = (1 << 15) + 3
    tally = QuestionTally(
        3, np.arange(n, dtype=np.int32), is_person=np.ones(n, bool), recode=np.array([0, -1], np.int32)
    )
    coded = np.zeros(3, ROW)
    coded["rater"], coded["status"] = [0, n - 2, n - 1], STATUS_CODES["ok"]
    tally.add(coded)
    result = tally.result(
        ("r", "q"),
        names=[f"p{number}" for number in range(n)],
        values=("yes",),
        targets=("",),
        units=IndependentUnits(),
    )
    assert result.answers.rater.tolist() == [0, n - 2, n - 1]


def test_samples_are_merged_into_the_value_of_the_lowest_and_the_mean_score():
    # unit, rater, sample, value, score
    rows = [(1, 0, 2, 7, 4), (1, 0, 0, 5, 1), (1, 0, 1, 6, NAN), (0, 1, 3, 2, NAN), (0, 1, 4, 3, NAN), (0, 0, 0, 1, 3)]
    unit, rater, sample, value, score = np.array(rows).T
    codes = unit.astype(np.int64), rater.astype(np.int64), sample.astype(np.int32), value.astype(np.int32)
    units, raters, first, scores = merged(*codes[:3], score)
    assert [units.tolist(), raters.tolist(), codes[3][first].tolist()] == [[0, 0, 1], [0, 1, 0], [1, 2, 5]]
    np.testing.assert_array_equal(scores, [3, NAN, 2.5])


def test_each_pair_counts_once_for_each_rater():
    unit, rater = np.array([0, 0, 0, 1, 2]), np.array([2, 2, 0, 2, 0])
    assert distinct_pairs(unit, rater, 3).tolist() == [2, 0, 2]
    none = np.zeros(0, np.int64)
    assert distinct_pairs(none, none, 0).tolist() == []


def test_an_array_grows_by_parts():
    growing = Growing(4, a="i8", b="f8")
    growing.add(a=np.array([1, 2]), b=np.array([0.5, 1.5]))
    growing.add(a=np.array([3]), b=np.array([2.5]))
    assert {name: array.tolist() for name, array in growing.arrays.items()} == {"a": [1, 2, 3], "b": [0.5, 1.5, 2.5]}
