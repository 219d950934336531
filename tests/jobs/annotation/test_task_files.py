"""The files that a tool imports: which tasks each has, in which order, and the form next to them."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from actors.rubrics.people import FreeText
from jobs.annotation.assignment import shuffled
from jobs.annotation.form import Form, FormQuestion, Option, ShownItem, WelfareConfig
from jobs.annotation.study import AUDITOR, QUOTA, AnnotateConfig, write_task_files

OPTIONS = (Option("1", "low", "", ""), Option("2", "high", "", ""))
FORM = Form(
    rubric="r",
    instructions="",
    questions=(FormQuestion("q", "How much?", "", OPTIONS, ()),),
    span_labels=None,
    welfare=WelfareConfig(),
    pictures=1,
    texts=(),
)
SHOWN = {name: ShownItem(name, (f"p{name}",), (f"https://x/{name}.jpg",), (), {}, ()) for name in "abcd"}


def row(file: str, item: str, rater: str, place: int, *, target: str = "", role: str = QUOTA) -> dict[str, Any]:
    return {"file": file, "item_id": item, "target": target, "rater": rater, "place": place, "role": role}


def written(folder: Path, rows: list[dict[str, Any]], form: Form = FORM, **keys: Any) -> tuple[int, dict[str, str]]:
    """Return the number of files of tasks, and the text of each file that was written."""
    cfg = AnnotateConfig(input="x", raters="y", out=str(folder), rubric={"name": "r"}, **keys)
    number = write_task_files(cfg, str(folder), form, SHOWN, rows)
    return number, {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.*")}


def test_label_studio_has_a_file_per_rater_and_one_form(tmp_path: Path) -> None:
    rows = [row("bo", "a", "bo", 1), row("anna", "b", "anna", 1), row("anna", "a", "anna", 2, target="joy")]
    number, files = written(tmp_path, rows, per_item=2)
    assert number == 2
    assert set(files) == {"anna.json", "bo.json", "config.xml"}
    data = [task["data"] for task in json.loads(files["anna.json"])]
    assert [(d["item_id"], d["target"], d["place"], d["assigned_to"]) for d in data] == [
        ("b", "", 1, "anna"), ("a", "joy", 2, "anna")
    ]  # fmt: skip
    assert [task["data"]["assigned_to"] for task in json.loads(files["bo.json"])] == ["bo"]


def test_a_group_has_each_task_once_in_an_order_of_its_name(tmp_path: Path) -> None:
    rows = [row("pool", item, rater, place) for rater in ("anna", "bo") for place, item in enumerate("abcd", start=5)]
    rows += [row("pool", "a", "anna", 9, target="joy")]
    rows += [row("audit", item, "zoe", place, role=AUDITOR) for place, item in ((3, "c"), (4, "b"))]
    number, files = written(tmp_path, rows, per_group=2, group="pool", files="group", seed=7)
    assert number == 2
    data = [task["data"] for task in json.loads(files["pool.json"])]
    order = shuffled([("a", ""), ("a", "joy"), ("b", ""), ("c", ""), ("d", "")], seed=7, name="pool")
    assert [(d["item_id"], d["target"]) for d in data] == order
    assert [d["place"] for d in data] == [1, 2, 3, 4, 5]
    assert not [d for d in data if "assigned_to" in d]
    audited = [task["data"] for task in json.loads(files["audit.json"])]
    assert [(d["item_id"], d["place"], d["assigned_to"]) for d in audited] == [("c", 3, "zoe"), ("b", 4, "zoe")]


@pytest.mark.parametrize(
    ("keys", "overlap"),
    [({"per_item": 3}, None), ({"per_item": 3, "files": "group"}, 3), ({"quotas": {"x": 4}, "files": "group"}, 4)],
)
def test_prodigy_has_a_file_and_settings_per_kind_of_task(
    tmp_path: Path, keys: dict[str, Any], overlap: int | None
) -> None:
    form = Form(**{**FORM.__dict__, "free_texts": (FreeText("why", "Why?"),)})
    rows = [row("bo", "a", "bo", 1), row("bo", "b", "bo", 2), row("cy", "a", "cy", 1)]
    number, files = written(tmp_path, rows, form, tool="prodigy", **keys)
    assert number == 4
    assert set(files) == {
        f"{name}.{kind}.jsonl" for name in ("bo", "cy") for kind in ("choice", "texts")
    } | {"prodigy.choice.json", "prodigy.texts.json"}  # fmt: skip
    lines = [json.loads(line) for line in files["bo.choice.jsonl"].splitlines()]
    assert sorted(line["item_id"] for line in lines) == ["a", "b"]
    assert all("free_texts" in json.loads(line) for line in files["bo.texts.jsonl"].splitlines())
    settings = json.loads(files["prodigy.texts.json"])
    assert (settings["feed_overlap"], settings.get("annotations_per_task")) == (overlap is None, overlap)
    fields = {
        kind: [
            block["field_id"] for block in json.loads(files[f"prodigy.{kind}.json"])["blocks"] if "field_id" in block
        ]
        for kind in ("choice", "texts")
    }
    assert fields == {"choice": ["comment"], "texts": ["remark_why"]}


def test_a_spreadsheet_has_its_own_rows_and_no_form(tmp_path: Path) -> None:
    number, files = written(
        tmp_path, [row("bo", "b", "bo", 1), row("bo", "a", "bo", 2)], tool="spreadsheet", per_item=1
    )
    assert (number, set(files)) == (1, {"bo.csv"})
    rows = list(csv.DictReader(io.StringIO(files["bo.csv"].removeprefix("\ufeff"))))
    assert [(one["place"], one["rater"], one["item_id"]) for one in rows] == [("1", "bo", "b"), ("2", "bo", "a")]
