"""Rows of the table `ratings` from what a scorer returned."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from actors.status import Status
from actors.vlm.errors import ScoringError
from actors.vlm.requests import Scores
from actors.vlm.rubric import Question

METHOD = "closed"
METHODS = {"code": METHOD, "sequence": "closed_sequence"}  # by the rule of `actors.vlm.answers`
_STR, _F64 = pa.string(), pa.float64()
_KEY = ("item_id", "target", "rubric", "question", "rater", "condition", "method", "order")
SCHEMA = pa.schema(
    [
        *(pa.field(name, _STR, nullable=False) for name in _KEY),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("value", _STR),
        pa.field("score", _F64),
        pa.field("expected", _F64),
        pa.field("answers", pa.list_(_STR)),
        pa.field("probabilities", pa.list_(_F64)),
        pa.field("outside_mass", _F64),
        pa.field("status", _STR),
        pa.field("error_kind", _STR),
        pa.field("error_message", _STR),
        pa.field("raw", _STR),
        pa.field("comment", _STR),
        pa.field("seconds", _F64),
    ]
)


def rating_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """The rows as Arrow columns of table `ratings`; what a row does not name is null."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMA)


def scored(question: Question, scores: Scores) -> dict[str, Any]:
    """Columns of an answered question: the likeliest answer (the first of equals), and the mean of the scale."""
    likeliest = max(range(len(question.answers)), key=lambda place: scores.probabilities[place])
    answer = question.answers[likeliest]
    pairs = zip(scores.probabilities, (each.score for each in question.answers), strict=True)
    expected = None if answer.score is None else sum(share * (score or 0.0) for share, score in pairs)
    return {
        **distribution(question, scores),
        "value": answer.value,
        "score": answer.score,
        "expected": expected,
        "status": Status.OK.value,
    }


def answered(question: Question, result: Scores | ScoringError, cut: ScoringError | None) -> dict[str, Any]:
    """Columns of a question that a model was asked, with a context that was `cut` or not."""
    if isinstance(result, ScoringError):
        return failed(Status.ERROR, result)
    if cut:
        return distribution(question, result) | failed(Status.TRUNCATED, cut)
    return scored(question, result)


def distribution(question: Question, scores: Scores) -> dict[str, Any]:
    """Columns that say what the model made of each answer, whatever the status."""
    return {
        "answers": [answer.value for answer in question.answers],
        "probabilities": list(scores.probabilities),
        "outside_mass": scores.outside_mass,
    }


def failed(status: Status, reason: ScoringError) -> dict[str, Any]:
    """Columns of a question without an answer."""
    return {"status": status.value, "error_kind": reason.kind, "error_message": reason.message}
