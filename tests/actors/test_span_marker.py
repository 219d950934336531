"""Rows of marks, and what a loaded model is asked, without a model."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from actors.marking.model import Description, Kind, Mark, Marks, Request, failed
from actors.marking.prompts import MarkingStep
from actors.picture_reader import PictureReader
from actors.rows import SpanRow
from actors.span_marker import LoadedModel, SpanMarker, describe
from actors.status import Status
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.requests import Scores, ScoringRequest
from tests.cases import check_cases

KINDS = (Kind("mistakes", "error", "generated", {"a": "A"}), Kind("omissions", "omission", "correct", {"a": "A"}))
ITEM = {"item_id": "i", "text_ids": [("generated", ["t1"]), ("correct", ["t2", "t3"])]}


def rows(mistakes: Marks, omissions: Marks) -> list[SpanRow]:
    marker = object.__new__(SpanMarker)
    marker.kinds, marker.condition, marker.method = KINDS, "photo", "direct"
    facts: Any = SimpleNamespace(rater="judge")
    marker.facts = facts
    return list(marker._rows(ITEM, {"mistakes": mistakes, "omissions": omissions}))


def test_each_mark_is_a_row_and_a_text_without_marks_has_one() -> None:
    first, second = rows(Marks([Mark(2, 5, "a")]), Marks())
    key = {"item_id": "i", "rater": "judge", "condition": "photo", "method": "direct"}
    assert first == key | {"text_id": "t1", "kind": "error", "status": "ok"} | Mark(2, 5, "a")._asdict()
    # Of two texts of a role, none is marked.
    assert second == key | {
        "text_id": "", "kind": "omission", "start": 0, "end": 0, "marked": False,
        "status": "ok", "error_kind": None, "error_message": None, "raw": None,
    }  # fmt: skip


def test_incomplete_and_unmarked_claims_have_a_row_that_says_so() -> None:
    claim = Mark(2, 5, None, 0.25, marked=False)
    incomplete = Marks([Mark(2, 5, "a")], Status.UNPARSED, ScoringError("no_place", "1 line"), "a line")
    summary, mark, none, unmarked = rows(incomplete, Marks([claim]))
    assert [summary[name] for name in ("status", "error_kind", "error_message", "raw", "marked", "end")] == [
        "unparsed", "no_place", "1 line", "a line", False, 0
    ]  # fmt: skip
    assert (mark["status"], mark["marked"]) == ("ok", True)
    assert (none["end"], unmarked["end"], unmarked["marked"], unmarked["probability"]) == (0, 5, False, 0.25)
    (failure, _) = rows(failed(ScoringError("answer_cut", "long")), Marks())
    assert (failure["status"], failure["error_kind"]) == ("truncated", "answer_cut")


def test_an_item_that_cannot_be_marked_says_why() -> None:
    cases = [
        ({"status": "missing"}, Status.MISSING_INPUT, "no_picture"),
        ({"pictures": [b"no picture"]}, Status.ERROR, "not_an_image"),
        ({"texts": None}, Status.SKIPPED, "text_count"),
        ({"texts": [("generated", ["A dog."])]}, Status.SKIPPED, "text_count"),
        ({"texts": [("generated", ["A dog."]), ("correct", ["A cat.", "A cow."])]}, Status.SKIPPED, "text_count"),
        ({"texts": [("generated", [" "]), ("correct", ["A cat."])]}, Status.SKIPPED, "text_count"),
    ]

    def check(change: dict[str, Any], status: Status, kind: str) -> None:
        item = {"pictures": [png()], "status": "ok", "texts": [("correct", ["A cat."]), ("generated", ["A dog."])]}
        description = describe(item, KINDS, shows_picture=True, read=PictureReader())
        assert isinstance(description, Description)
        assert (description.generated, description.correct) == ("A dog.", "A cat.")
        assert [picture.size for picture in description.pictures] == [(3, 2)]
        marks = describe(item | change, KINDS, shows_picture=True, read=PictureReader())
        assert isinstance(marks, Marks)
        assert marks.status == status
        assert marks.reason is not None
        assert marks.reason.kind == kind

    check_cases(check, cases)


def test_prompts_without_pictures_need_none() -> None:
    item = {"pictures": [], "status": "ok", "texts": [("correct", ["A cat."]), ("generated", ["A dog."])]}
    description = describe(item, KINDS, shows_picture=False, read=PictureReader())
    assert isinstance(description, Description)
    assert description.pictures == ()


def png() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (3, 2)).save(out, "PNG")
    return out.getvalue()


def scored(outcome: Any) -> tuple[list[Any], list[ScoringRequest]]:
    asked: list[ScoringRequest] = []

    def score(requests: list[ScoringRequest]) -> list[Any]:
        asked.extend(requests)
        if isinstance(outcome, Exception):
            raise outcome
        return [outcome] * len(requests)

    model: Any = object.__new__(LoadedModel)
    model.scorer, model._tally, model._data = SimpleNamespace(score=score), {"prompts/scored": 0}, lambda _: {}
    step = MarkingStep("mistakes", ("q",), {"q": "Right?"})
    results = model.score([Request(step, {}, (), ("A", "B")), Request(step, {}, ("P",), ("A", "B"))])
    assert model._tally == {"prompts/scored": 2}
    return results, asked


def test_a_prompt_without_pictures_is_one_text() -> None:
    results, asked = scored(Scores((0.25, 0.75), (-1.0, -1.0), 0.0, 9))
    assert results == [(0.25, 0.75)] * 2
    assert [(request.picture, request.codes, request.prompt.suffix) for request in asked] == [
        (None, ("A", "B"), "Right?"),
        (("P",), ("A", "B"), "Right?"),
    ]


def test_errors_of_scoring() -> None:
    assert scored(ScoringError("too_long", "no"))[0] == [ScoringError("too_long", "no")] * 2
    assert scored(ValueError("no"))[0] == [ScoringError("ValueError", "no")] * 2
    with pytest.raises(EngineError):
        scored(EngineError("gone"))
