"""Marked spans, and counts of reports, skipped items and marks by people, compared with values by hand."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.ids import content_id
from actors.rubrics.rubric import Rubric
from jobs.annotation import batch_schemas
from jobs.annotation import imported_rows as rows_module
from jobs.annotation.imported_rows import (
    Distinct,
    RaterRows,
    Welfare,
    add_reported,
    is_excluded,
    rating_rows,
    span_rows,
    with_names,
)
from jobs.annotation.questionnaire import ISSUE, rubric_questionnaire
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.tables import TABLES


def test_a_span_is_marked_from_a_probability_of_one_half_unless_it_is_empty() -> None:
    columns = {
        "item_id": pa.array(["i"] * 6),
        "condition": pa.array([*["c"] * 5, None], pa.string()),
        "start": pa.array([0, 0, 0, 0, 4, None], pa.int32()),
        "end": pa.array([5, 5, 5, 5, 4, None], pa.int32()),
        "probability": pa.array([0.5, 0.499, None, 1.0, None, None], pa.float64()),
        "status": pa.array([None, None, None, "error", None, "skipped"], pa.string()),
    }
    rows = span_rows(pa.table(columns), method="human", condition="d").to_pylist()
    assert [row["marked"] for row in rows] == [True, False, True, True, False, None]
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "error", "ok", "skipped"]
    assert {row["method"] for row in rows} == {"human"}
    assert [row["condition"] for row in rows] == [*["c"] * 5, "d"]


def test_questions_without_an_answer_are_not_skipped_tasks() -> None:
    names = ("item_id", "target", "rater", "question", "status", "error_kind", "value")
    rows = [
        ("a", "", "ann", "q", "skipped", "no_answer", None),
        ("a", "", "bo", "q", "skipped", "skipped", None),
        ("a", "", "bo", "r", "skipped", "skipped", None),  # the same task
        ("b", "", "ann", "q", "reported", "reported", None),
        ("b", "", "bo", "q", "reported", "reported", None),
        ("c", "x", "ann", "q", "reported", "reported", None),
        ("c", "x", "ann", ISSUE, "ok", None, "yes"),
        ("c", "y", "ann", ISSUE, "ok", None, "no"),
    ]
    welfare = Welfare()
    pictures = [["p"], ["p"], ["p"], ["p1", "p2"], ["p2"], None, None, None]
    for first, last in ((0, 5), (3, 8)):  # repeated rows count once
        columns = zip(*rows[first:last], strict=True)
        part = {name: pa.array(values, pa.string()) for name, values in zip(names, columns, strict=True)}
        welfare.add(pa.table(part), pa.chunked_array([pictures[first:last]], pa.list_(pa.string())))
    totals = {"of_tasks": 6, "of_items": 3, "of_people": 2}
    tallies = welfare.tallies()
    assert tallies["reports"] == {"tasks": 3, "items": 2, "people": 2, **totals}
    assert tallies["skips"] == {"tasks": 1, "items": 1, "people": 1, **totals}
    assert tallies["issues"] == {"tasks": 1, "items": 1, "people": 1, **totals}
    assert welfare.reporters == {"p1": {"ann"}, "p2": {"ann", "bo"}, "c": {"ann"}}


QUESTIONNAIRE = rubric_questionnaire(Rubric.from_dict({"name": "mood", "questions": [
    {"name": "tone", "text": "Tone?", "scale": "ordinal", "answers": [
        {"value": "a", "label": "low", "score": 1}, {"value": "b", "label": "high", "score": 2.5},
    ]},
    {"name": "kind", "text": "Kind?", "scale": "nominal", "answers": ["x", "y"]},
]}))  # fmt: skip


def test_answers_become_values_scores_and_statuses() -> None:
    shared = {"item_id": "i", "rater": "ann"}
    raw: list[dict[str, Any]] = [
        {"question": "tone", "answer": "HIGH", "target": "joy", "condition": "c", "order": "o", "sample": 3,
         "method": "gold", "comment": "well", "seconds": 2.5},
        {"question": "kind", "answer": "x"},
        {"question": "kind", "answer": "low"},
        {"question": "tone", "answer": None},
        {"question": "tone", "answer": "a", "status": "reported"},
        {"question": "tone", "answer": None, "status": "skipped", "kind": "response_issue"},
        {"question": "tone", "answer": "b", "status": "refused", "kind": "rejected"},
        {"question": ISSUE, "answer": "yes"},
        {"question": "kind", "answer": "x\x1fy\x1f"},
    ]  # fmt: skip
    rows = rating_rows(
        batch_schemas.table([{**shared, **row} for row in raw], batch_schemas.ANSWERS),
        QUESTIONNAIRE,
        method="human",
        condition="d",
    ).to_pylist()
    assert [(row["value"], row["score"], row["status"], row["error_kind"], row["raw"]) for row in rows] == [
        ("b", 2.5, "ok", None, None),
        ("x", None, "ok", None, None),
        (None, None, "out_of_range", "unknown_answer", "low"),
        (None, None, "skipped", "no_answer", None),
        (None, None, "reported", "reported", "a"),
        (None, None, "skipped", "response_issue", None),
        (None, None, "refused", "rejected", "b"),
        ("yes", None, "ok", None, None),
        (None, None, "out_of_range", "unknown_answer", "x\x1fy\x1f"),
    ]
    names = ("target", "condition", "order", "sample", "method", "comment", "seconds")
    assert [tuple(row[name] for name in names) for row in rows[:2]] == [
        ("joy", "c", "o", 3, "gold", "well", 2.5), ("", "d", "", 0, "human", None, None)
    ]  # fmt: skip
    assert {row["rubric"] for row in rows} == {"mood"}
    assert [row["answers"] for row in rows[:2]] == [["a", "b"], ["x", "y"]]
    assert [row["error_message"] for row in rows if row["status"] == "ok"] == [None] * 3
    assert "'low' is not one of x, y" in rows[2]["error_message"]
    assert "reported" in rows[4]["error_message"]
    assert "skipped" in rows[5]["error_message"]
    assert "refused" in rows[6]["error_message"]


def test_names_become_pseudonyms_and_urls_ids() -> None:
    raw = pa.table({"rater": ["ann", "bo", "ann"], "item_id": ["u", "v", None]})
    both = with_names(raw, pseudonym=lambda name: f"p-{name}", urls=True)
    assert both.to_pydict() == {
        "rater": ["p-ann", "p-bo", "p-ann"],
        "item_id": [content_id("u"), content_id("v"), None],
    }
    assert with_names(raw, pseudonym=None, urls=False) == raw
    assert with_names(raw.select(["rater"]), pseudonym=None, urls=True).to_pydict() == {"rater": ["ann", "bo", "ann"]}


def test_a_row_is_excluded_by_its_item_or_any_of_its_pictures() -> None:
    marks = ExclusionFilter(frozenset({"i", "p"}))
    items = pa.array(["i", "j", "j", "j"])
    images = pa.array([None, ["q", "p"], ["q"], None], pa.list_(pa.string()))
    assert is_excluded(pa.table({"item_id": items, "images": images}), marks).tolist() == [True, True, False, False]
    assert is_excluded(pa.table({"item_id": items}), marks).tolist() == [True, False, False, False]


def test_distinct_keys_are_counted_once_however_many_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    for held in (1, 2, 100):
        monkeypatch.setattr(rows_module, "HELD", held)
        distinct = Distinct()
        assert len(distinct) == 0
        for part in (["a", "b", "a"], [], ["b", "c"], ["c"], ["d"]):
            distinct.add(
                pa.table({"x": pa.array(part, pa.string()), "y": pa.array(["z"] * len(part), pa.string())}), ["x"]
            )
        assert len(distinct) == 4
        assert len(distinct._held) == 1
        distinct.add(pa.table({"x": ["e"]}), ["x"])
        assert len(distinct) == 5


def test_words_of_cells() -> None:
    times = {"": None, " ": None, "12.5": 12.5, "1970-01-01T01:00:00+01:00": 0.0, " 1970-01-02 ": 86400.0, 7: 7.0}
    assert {text: batch_schemas.seconds_since_1970(text) for text in times} == times
    for text in ("noon", "inf", "nan", "1970-13-01"):
        with pytest.raises(ValueError, match=r"noon|inf|nan|month"):
            batch_schemas.seconds_since_1970(text)
    durations = {"0": 0.0, "2.5": 2.5, 3: 3.0, "-0.1": None, "inf": None, "nan": None, "": None, None: None, "x": None}
    assert {text: batch_schemas.duration(text) for text in durations} == durations
    flags = {
        "Yes": True,
        " ja ": True,
        "1": True,
        True: True,
        "n": False,
        "": False,
        None: False,
        "0": False,
        "?": None,
    }
    assert {text: batch_schemas.flag(text) for text in flags} == flags


def test_attributes_that_conflict_are_unknown_and_counted_once() -> None:
    people = RaterRows("human")
    names = ("rater", "country", "pool")
    for part in (
        [("bo", "DE", None), ("anna", "FR", "x"), ("bo", "DE", "x")],
        [("anna", "IT", "x"), ("anna", "FR", "y"), ("anna", "FR", None), ("cy", None, None)],
        [("anna", "IT", "x"), ("bo", None, "x")],
    ):
        people.add(pa.table({name: pa.array([row[n] for row in part], pa.string()) for n, name in enumerate(names)}))
    rows: list[dict[str, Any]] = people.table().to_pylist()
    assert [(row["rater"], row["kind"], row["country"], row["pool"]) for row in rows] == [
        ("anna", "human", None, None), ("bo", "human", "DE", "x"), ("cy", "human", None, None)
    ]  # fmt: skip
    assert people.conflicts == {"country": 1, "pool": 1}
    assert people.rows == 9
    assert people.table().schema == TABLES["raters"].schema()


@pytest.mark.parametrize("before", [None, "", "old # why", "old # why\n", "\ufeffold # why\n"])
def test_reports_are_added_once_and_other_lines_stay(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "list.txt"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    reports = {"q": 2, "once": 1, "p": 3, "old": 5}
    new = {"p": 3, "q": 2} if before else {"old": 5, "p": 3, "q": 2}
    assert add_reported(str(path), reports, least=2) == (len(new), 3)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines == [*(["old # why"] if before else []), *(f"{name} # reported by {n}" for name, n in new.items())]
    assert add_reported(str(path), reports, least=2) == (0, 3)
    assert path.read_text(encoding="utf-8").splitlines() == lines


def test_a_list_that_is_not_a_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"ab\xff")
    with pytest.raises(InputError, match=r"not a list of exclusions \(byte 2 is not UTF-8\)"):
        add_reported(f"{tmp_path}/list.txt", {"p": 1}, least=1)
