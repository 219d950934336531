"""Majority labels of pictures, by hand."""

from typing import Any

import numpy as np
import pytest

from jobs.errors import InputError
from jobs.items_from.labels import NO_RATING, QuestionLabels, read_labels
from jobs.metrics.answers import MAX_LEVELS
from jobs.metrics.majority import NO_MAJORITY
from tests.factories import TableInMemory, rating

ROWS = [
    rating("a", "p1", "kind", "event"),
    rating("a", "p2", "kind", "event"),
    rating("a", "m", "kind", "person"),
    rating("b", "p1", "kind", "event"),
    rating("b", "m", "kind", "person"),
    rating("b", "g", "kind", "person", method="gold"),
    rating("b", "p2", "kind", "person", target="joy"),
    rating("c", "p1", "kind", None),
    rating("d", "e", "kind", "person", method="encoder"),
    rating("d", "p1", "other", "yes"),
]
ITEMS = ["d", "c", "b", "a", "nowhere"]


def labels(*questions: str, by: str = "everyone") -> dict[str, list[str]]:
    sources: Any = [TableInMemory("ratings", ROWS[:4]), TableInMemory("ratings", ROWS[4:])]
    labels_of = read_labels(sources, questions=questions, by=by)
    return {name: question.of(ITEMS) for name, question in labels_of.items()}


def test_more_than_half_of_those_who_count_without_gold_and_targets() -> None:
    everyone = labels()
    assert everyone["kind"] == ["person", NO_RATING, NO_MAJORITY, "event", NO_RATING]
    assert everyone["other"] == ["yes", *[NO_RATING] * 4]
    assert labels("kind", by="people")["kind"] == [NO_RATING, NO_RATING, "event", "event", NO_RATING]
    assert labels("kind", by="models")["kind"] == [NO_RATING, NO_RATING, "person", "person", NO_RATING]
    assert labels("kind", by="g")["kind"] == [NO_RATING, NO_RATING, "person", NO_RATING, NO_RATING]
    assert list(labels("kind")) == ["kind"]


def test_what_has_no_labels_is_refused() -> None:
    for keys, message in (({"by": "x*"}, "labels_by=x"), ({"by": "models"}, "of other")):
        with pytest.raises(InputError, match=message):
            labels(**keys)
    with pytest.raises(InputError, match=r"no ratings of colour .* there are none of those that are named"):
        labels("colour")
    many: Any = [TableInMemory("ratings", [rating("a", f"p{n}", "title", f"{n}") for n in range(MAX_LEVELS + 2)])]
    with pytest.raises(InputError, match="label_questions: title has too many different answers"):
        read_labels(many, questions=(), by="everyone")
    about_targets: Any = [TableInMemory("ratings", [row for row in ROWS if row["target"]])]
    with pytest.raises(InputError, match="labels: no ratings without a target"):
        read_labels(about_targets, questions=(), by="everyone")
    twice: Any = [TableInMemory("ratings", [ROWS[0], ROWS[1] | {"condition": "x"}])]
    ways = r"kind was asked in several ways \(rubric r, condition none, rubric r, condition x\)"
    with pytest.raises(InputError, match=ways):
        read_labels(twice, questions=(), by="everyone")


def test_a_question_without_an_answer_gives_no_label() -> None:
    source: Any = TableInMemory("ratings", [rating("a", "p1", "kind", None)])
    (of_question,) = read_labels([source], questions=(), by="everyone").values()
    assert of_question.of(["a", "b"]) == [NO_RATING] * 2
    empty = QuestionLabels(np.zeros(0, np.uint64), np.zeros(0, np.int16), ())
    assert empty.of(["a"]) == [NO_RATING]
