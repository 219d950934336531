"""Lines of `prodigy db-out`: which are read, who answered, and which are rejected."""

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from jobs.annotation import form as forms
from jobs.annotation import prodigy, prodigy_form
from jobs.annotation.form import ShownItem, WelfareConfig
from jobs.annotation.spans import SpanLabels
from jobs.annotation.tools import ToolReading
from jobs.errors import InputError
from jobs.runtime.configuration.config_files import CONF
from jobs.store.writer import Reject


def line(**fields: Any) -> dict[str, Any]:
    return {"item_id": "i", "question": "q", "answer": "accept", "accept": ["1"], "_annotator_id": "anna", **fields}


def read(folder: Path, lines: list[dict[str, Any]], **reading: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    path = folder / "out.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    rejects: list[Reject] = []
    batches = prodigy.read(str(path), ToolReading(**{"table": "ratings", **reading}), rejects.append)
    return [row for batch in batches for row in batch.to_pylist()], [(r.position, r.reason) for r in rejects]


def test_lines_after_a_rejected_one_are_read(tmp_path: Path) -> None:
    lines = [
        line(item_id="a"),
        {**line(item_id="no"), "answer": None},
        line(item_id=" "),
        line(item_id="no", _annotator_id=None),
        line(item_id="b", _annotator_id=None, _session_id="data-bo"),
        line(item_id="c", assigned_to="cy", _annotator_id="data-cy"),
        line(item_id="d", assigned_to="cy", _annotator_id="data-bo"),
        line(item_id="e", accept="4", _timestamp=12),
        line(item_id="f", answer="ignore"),
    ]
    rows, rejects = read(tmp_path, lines)
    assert [(row["item_id"], row["rater"]) for row in rows] == [
        ("a", "anna"), ("b", "data-bo"), ("c", "cy"), ("d", "data-bo"), ("e", "anna"), ("f", "anna")
    ]  # fmt: skip
    assert rejects == [(2, "no_answer"), (3, "no_item_id"), (4, "no_rater")]
    assert [(row["answer"], row["status"], row["time"]) for row in rows[-2:]] == [
        ("4", None, 12.0), (rows[-1]["answer"], "skipped", None)
    ]  # fmt: skip
    raters, _ = read(tmp_path, [lines[0], lines[5], lines[6]], table="raters", rater="assigned")
    assert [row["rater"] for row in raters] == ["cy", "cy"]


def test_what_prodigy_does_not_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not what `prodigy db-out` writes: line 1 has item_id, but no answer"):
        read(tmp_path, [{"item_id": "i"}])
    with pytest.raises(InputError, match="line 1 has no question; set question=NAME"):
        read(tmp_path, [line(question=None)])
    assert len(read(tmp_path, [line(question=None)], question="q")[0]) == 1


def test_spans_without_whole_numbers_or_outside_of_the_text_are_rejected(tmp_path: Path) -> None:
    ends = [(0, 1), (0, None), (None, 1), (0.5, 1), (-1, 1), (1, 1), (0, 7), (0, 6)]
    lines = [
        {"item_id": f"i{number}", "answer": "accept", "_annotator_id": "anna", "span_kind": "mistakes",
         "text": "A dog.", "text_id": "t", "spans": [{"start": start, "end": end, "label": "mistake"}]}
        for number, (start, end) in enumerate(ends)
    ]  # fmt: skip
    rows, rejects = read(tmp_path, lines, table="spans", span_labels=docent())
    assert [(row["start"], row["end"]) for row in rows] == [(0, 1), (0, 6)]
    assert rejects == [*((n, "bad_span") for n in (2, 3, 4)), *((n, "span_outside_text") for n in (5, 6, 7))]


def docent() -> SpanLabels:
    settings: Any = OmegaConf.to_container(OmegaConf.load(CONF / "span_labels" / "docent.yaml"))
    return SpanLabels.from_dict(settings)


def test_a_kind_of_spans_whose_text_the_item_lacks_has_no_task() -> None:
    form = forms.form(
        None, questions=[], span_labels=docent(), welfare=WelfareConfig(), pictures=0, texts=("generated", "reference")
    )
    for role in ("generated", "reference"):
        item = ShownItem("i", (), (), (), {role: ("t", "A dog.")}, (), None)
        tasks = prodigy_form.tasks(form, item, target="", assigned_to=None, place=1)
        assert [(task["text_id"], task["text"]) for task in tasks] == [("t", "A dog.")]
