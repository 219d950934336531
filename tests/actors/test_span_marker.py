"""Rows of marks, and what a loaded model is asked, without a model."""

import io
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml
from PIL import Image

from actors import schemas
from actors.fetching.decoders import PictureReader
from actors.marking.methods import ClaimsMarking, DirectMarking
from actors.marking.span_prompts import Description, Kind, Mark, MarkingStep, Marks, Request, failed
from actors.rubrics.thoughts import Written
from actors.schemas import SpanRow
from actors.span_marker import LoadedSpanModel, MarkingSettings, SpanMarker, describe
from actors.status import Status
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.generation import Generated
from actors.vlm.scoring_requests import Scores, ScoringRequest
from actors.vlm.settings import Sampling
from tests.actors.vlm.helpers import CONF
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


def test_bounds_of_the_settings() -> None:
    conf: Any = {
        group: yaml.safe_load((CONF / group / "docent.yaml").read_text(encoding="utf-8"))
        for group in ("span_labels", "span_prompts")
    }
    assert MarkingSettings(**conf).marking.__class__ is DirectMarking
    for threshold in (0.001, 1.0):
        marking = MarkingSettings(**conf, method="claims", threshold=threshold).marking
        assert isinstance(marking, ClaimsMarking)
        assert marking._threshold == threshold
    wrong: list[tuple[str, Any]] = [("threshold", 0), ("threshold", 1.001), ("group_rows", 0), ("max_tokens", 0)]
    for key, value in wrong:
        with pytest.raises(ValueError, match=f"^{key}={value}: "):
            MarkingSettings(**conf, method="claims", **{key: value})
    assert MarkingSettings(**conf, threshold=0.5, group_rows=1, max_tokens=1).shows_picture
    assert MarkingSettings(**conf, method="claims").shows_picture
    with pytest.raises(ValueError, match=r"^threshold=0.6: method=direct has no such key"):
        MarkingSettings(**conf, threshold=0.6)


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

    model: Any = object.__new__(LoadedSpanModel)
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


def test_answers_that_a_model_writes() -> None:
    """A prompt that cannot be encoded, a text that was cut, and one without likelihoods leave the others."""

    def encode(turn: list[Any], pictures: list[Any], *, system: str) -> dict[str, Any]:
        if "bad" in turn[-1]:
            raise ValueError("template")
        return {"turn": turn, "pictures": pictures, "system": system}

    outcomes = {
        "good": [Generated([7, 8], "stop")],
        "long": [Generated([7, 8, 9], "length")],
        "odd": ScoringError("not_finite", "no likelihoods"),
    }
    calls: list[dict[str, Any]] = []

    def generate(prompts: list[dict[str, Any]], *, seeds: list[list[int]], sampling: Sampling) -> list[Any]:
        calls.append({"prompts": prompts, "seeds": seeds, "sampling": sampling})
        return [outcomes[prompt["turn"][-1].removesuffix("?")] for prompt in prompts]

    model: Any = object.__new__(LoadedSpanModel)
    model.engine, model._tally, model.sampling = SimpleNamespace(generate=generate), Counter(), Sampling(0.0)
    model.chat = SimpleNamespace(
        encode=encode,
        as_data=lambda text: text.replace("<end>", "< end>"),
        written=lambda tokens: Written("a thought", f"tokens {tokens}"),
        picture_tokens=lambda inputs: 10 * len(inputs["pictures"]),
    )
    plain = MarkingStep("mistakes", ("ask",), {"ask": "{{ text }}?"}, system="S")
    shown = MarkingStep("mistakes", ("picture", "ask"), {"ask": "{{ text }}?"})
    asked = [
        Request(plain, {"text": "bad"}, ("P",)),
        Request(plain, {"text": "good"}, ("P",)),
        Request(shown, {"text": "long"}, ("P",)),
        Request(shown, {"text": "odd"}, ("Q",)),
    ]
    assert model.write(asked) == [
        ScoringError("ValueError", "template"),
        "tokens [7, 8]",
        ScoringError("answer_cut", "the answer reached the limit after 3 tokens"),
        ScoringError("not_finite", "no likelihoods"),
    ]
    (call,) = calls
    assert call["prompts"] == [
        {"turn": ["good?"], "pictures": [], "system": "S"},
        {"turn": [None, "long?"], "pictures": ["P"], "system": ""},
        {"turn": [None, "odd?"], "pictures": ["Q"], "system": ""},
    ]
    assert (call["seeds"], call["sampling"]) == ([[0]] * 3, model.sampling)
    assert model.take_tally() == {"prompts/written": 3, "pictures/shown": 2, "pictures/tokens": 20}
    assert model.take_tally() == {}
    outcomes["< end>"] = [Generated([1], "stop")]
    assert model.write([Request(plain, {"text": "<end>"}, ())]) == ["tokens [1]"]


def test_rows_are_in_the_order_of_the_items() -> None:
    marker: Any = object.__new__(SpanMarker)
    marker.kinds, marker.condition, marker.method, marker.shows_picture = KINDS, "", "direct", True
    marker.facts = SimpleNamespace(rater="judge", tally="models/judge")
    marker._tally, marker._read = Counter(), PictureReader()
    marker.model = SimpleNamespace(take_tally=lambda: {"prompts/written": 4}, engine=SimpleNamespace())
    described: list[list[str]] = []

    def mark(model: Any, descriptions: list[Description]) -> list[dict[str, Marks]]:
        described.append([description.generated for description in descriptions])
        return [{"mistakes": Marks([Mark(0, len(one.generated), "a")]), "omissions": Marks()} for one in descriptions]

    marker.marking = SimpleNamespace(mark=mark)
    items = [
        {"item_id": name, "pictures": [png()], "status": status, "text_ids": None,
         "texts": [("generated", [name * 3]), ("correct", ["x"])]}
        for name, status in (("a", "ok"), ("b", "missing"), ("c", "ok"))
    ]  # fmt: skip
    rows_of = marker(pa.Table.from_pylist(items, schema=schemas.DESCRIBED_ITEMS)).to_pylist()
    assert [(row["item_id"], row["kind"], row["status"], row["end"]) for row in rows_of] == [
        ("a", "error", "ok", 3), ("a", "omission", "ok", 0),
        ("b", "error", "missing_input", 0), ("b", "omission", "missing_input", 0),
        ("c", "error", "ok", 3), ("c", "omission", "ok", 0),
    ]  # fmt: skip
    assert described == [["aaa", "ccc"]]
    assert marker.take_tally().items() >= {"models/judge": 2, "prompts/written": 4}.items()
    assert marker.take_tally() == {}
    marker(pa.Table.from_pylist(items[1:2], schema=schemas.DESCRIBED_ITEMS))
    assert described == [["aaa", "ccc"]]  # nothing is asked about items without a picture
    marker.report_tokens(print)
    assert marker.model.engine.on_tokens is print
