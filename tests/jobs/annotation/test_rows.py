"""Marked spans, and counts of reports, skipped items and marks by people, compared with values by hand."""

import pyarrow as pa

from jobs.annotation.answers import ISSUE
from jobs.annotation.rows import Welfare, spans


def test_a_span_is_marked_from_a_probability_of_one_half_unless_it_is_empty() -> None:
    columns = {
        "item_id": pa.array(["i"] * 6),
        "start": pa.array([0, 0, 0, 0, 4, None], pa.int32()),
        "end": pa.array([5, 5, 5, 5, 4, None], pa.int32()),
        "probability": pa.array([0.5, 0.499, None, 1.0, None, None], pa.float64()),
        "status": pa.array([None, None, None, "error", None, "skipped"], pa.string()),
    }
    rows = spans(pa.table(columns), method="human", condition="c").to_pylist()
    assert [row["marked"] for row in rows] == [True, False, True, True, False, None]
    assert [row["status"] for row in rows] == ["ok", "ok", "ok", "error", "ok", "skipped"]
    assert {(row["method"], row["condition"]) for row in rows} == {("human", "c")}


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
