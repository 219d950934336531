"""Ratings read from JSON answers: what becomes of answers that cannot be determined, and which rubrics are refused."""

from typing import Any

import pyarrow as pa
import pytest

from actors import schemas
from actors.answer_reader import AnswerReader

ANSWERS = [{"value": "low", "label": "Little", "score": 1}, {"value": "high", "label": "Much", "score": 3}]
RUBRIC: dict[str, Any] = {
    "name": "mood",
    "version": 1,
    "source": "made for a test",
    "parts": {"question": "{{ question }} {{ options }}"},
    "layouts": {"plain": ["picture", "question"]},
    "layout": "plain",
    "questions": [
        {"name": name, "text": f"How {name}?", "scale": "ordinal", "answers": ANSWERS} for name in ("calm", "loud")
    ],
}


def read(*responses: dict[str, Any], condition: str = "") -> list[dict[str, Any]]:
    """Return the ratings of responses, two per response."""
    common = {"item_id": "i", "model": "m", "prompt": "p", "condition": "c", "sample": 4, "status": "ok"}
    schema = schemas.WRITTEN_ANSWERS
    batch = pa.Table.from_pylist([common | response for response in responses], schema=schema)
    table = AnswerReader(rubric=RUBRIC, condition=condition)(batch)
    assert table.schema.equals(schemas.RATINGS)
    rows: list[dict[str, Any]] = table.to_pylist()
    assert [row["question"] for row in rows] == ["calm", "loud"] * len(responses)
    return rows


def test_the_reason_of_each_answer_that_cannot_be_determined() -> None:
    text = '{"calm": "much", "loud": %s}'
    expected = {
        '"low"': ("ok", None, ""),
        "7": ("out_of_range", "out_of_range", "7 is not in 1 to 3"),
        '"middling"': ("unparsed", "not_an_answer", "'middling' is not one of the allowed answers"),
        '""': ("unparsed", "no_answer", "the answer is empty"),
        '"low", "loud": "high"': ("unparsed", "several_answers", "'loud' has several answers"),
    }
    for value, (status, kind, message) in expected.items():
        calm, loud = read({"text": text % value})
        assert (calm["status"], calm["value"], calm["score"], calm["raw"]) == ("ok", "high", 3.0, None)
        assert (loud["status"], loud["error_kind"]) == (status, kind)
        assert (loud["error_message"] or "") == message
        assert loud["raw"] == (None if status == "ok" else text % value)
        assert loud["answers"] == ["low", "high"]
    for row in read({"text": "None of these."}):
        assert (row["error_kind"], row["raw"]) == ("no_object", "None of these.")


def test_a_truncated_text_gives_the_answers_that_it_has() -> None:
    text = '{"calm": 1} {"lou'
    reason = {"status": "truncated", "error_kind": "answer_cut", "error_message": "after 9 tokens"}
    calm, loud = read({"text": text, "truncated": ["title"]} | reason)
    assert (calm["status"], calm["value"], calm["truncated"], calm["raw"]) == ("ok", "low", ["title"], None)
    assert {key: loud[key] for key in reason} == reason
    assert (loud["value"], loud["score"], loud["raw"]) == (None, None, text)


def test_keys_of_a_rating() -> None:
    row = read({"text": '{"calm": 1}'})[0]
    key = {"item_id": "i", "rubric": "mood", "question": "calm", "rater": "m", "condition": "c", "method": "json",
           "order": "p", "sample": 4}  # fmt: skip
    assert {name: row[name] for name in key} == key
    assert read({"text": "{}"}, condition="mine")[1]["condition"] == "mine"
    empty = read({"text": "{}", "condition": None, "prompt": None})[0]
    assert (empty["condition"], empty["order"]) == ("", "")


def test_rubrics_whose_answers_are_not_one_object(small: dict[str, Any]) -> None:
    (asked, *_) = RUBRIC["questions"]
    for rubric, message in (
        (small, "rubric=relevance: asks about targets"),
        (RUBRIC | {"questions": [asked | {"name": "*"}]}, "rubric=mood: asks each item its own questions"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            AnswerReader(rubric=rubric)
