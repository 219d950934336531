"""Columns of ratings from a distribution over answers."""

import pytest

from actors.rubrics.rubric_questions import Answer, Question
from actors.schemas import RatingRow, failed
from actors.status import Status
from actors.vlm.errors import ScoringError
from actors.vlm.ratings import answered, rating_key, rating_table, scored
from actors.vlm.scoring_requests import Scores

GRADES = Question("grade", "?", "", "ordinal", tuple(Answer(f"v{n}", f"l{n}", float(n)) for n in (1, 2, 4)))
KINDS = Question("kind", "?", "", "nominal", (Answer("a", "A"), Answer("b", "B")))


def scores(*probabilities: float) -> Scores:
    return Scores(probabilities, tuple(-1.0 for _ in probabilities), 0.125, 9)


def test_the_most_likely_answer_and_the_mean_score() -> None:
    row = scored(GRADES, scores(0.25, 0.25, 0.5))
    assert row == {
        "answers": ["v1", "v2", "v4"],
        "probabilities": [0.25, 0.25, 0.5],
        "outside_mass": 0.125,
        "value": "v4",
        "score": 4.0,
        "expected": pytest.approx(0.25 + 0.5 + 2),
        "status": "ok",
    }
    assert scored(GRADES, scores(0.4, 0.4, 0.2))["value"] == "v1"  # the first of equals


def test_nominal_answers_have_no_score() -> None:
    row = scored(KINDS, scores(0.25, 0.75))
    assert (row["value"], row["score"], row["expected"]) == ("b", None, None)


def test_an_answer_or_the_reason_for_its_absence() -> None:
    assert answered(KINDS, scores(0.25, 0.75), ["article"]) == scored(KINDS, scores(0.25, 0.75)) | {
        "truncated": ["article"]
    }
    expected = {"status": "error", "error_kind": "out_of_memory", "error_message": "no"}
    assert answered(KINDS, ScoringError("out_of_memory", "no")) == expected
    assert failed(RatingRow, Status.ERROR, ScoringError("out_of_memory", "no")) == expected


def test_columns_that_a_row_lacks_are_null() -> None:
    key = rating_key(item_id="i", rubric="r", question="q", rater="m", method="closed")
    assert {name: key[name] for name in ("target", "condition", "order", "sample")} == {
        "target": "", "condition": "", "order": "", "sample": 0
    }  # fmt: skip
    (row,) = rating_table([key]).to_pylist()
    assert (row["item_id"], row["value"], row["sample"]) == ("i", None, 0)
