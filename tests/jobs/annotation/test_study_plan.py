"""Rows of assignments: what raters and the auditor are shown, and in which file."""

from typing import Any

from jobs.annotation.annotate_config import AnnotateConfig
from jobs.annotation.assignment import Assignment
from jobs.annotation.study_plan import AUDITOR, QUOTA, SHARED, assignment_rows

TASKS = [
    Assignment("ada", "Peru", 1, "i\x1fjoy", shared=True, audit=True, together="s1"),
    Assignment("ada", "Peru", 2, "j\x1fjoy", shared=False, audit=False, together="s2"),
    Assignment("bo", "Mali", 1, "i\x1fjoy", shared=True, audit=True, together="s1"),
    Assignment("bo", "Mali", 2, "k\x1fjoy", shared=False, audit=True, together="s3"),
]


def rows(**keys: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The raters' rows, and the auditor's in the order of the items."""
    cfg = AnnotateConfig(input="", raters="", out="", **keys)
    every = assignment_rows(cfg, TASKS)
    audits = sorted((row for row in every if row["role"] == AUDITOR), key=lambda row: (row["item_id"], row["target"]))
    return [row for row in every if row["role"] != AUDITOR], audits


def test_the_auditor_sees_each_audited_item_once_in_an_own_file() -> None:
    raters, audits = rows(auditor="eve", files="group")
    assert [(row["item_id"], row["target"], row["role"], row["file"]) for row in raters] == [
        ("i", "joy", SHARED, "Peru"),
        ("j", "joy", QUOTA, "Peru"),
        ("i", "joy", SHARED, "Mali"),
        ("k", "joy", QUOTA, "Mali"),
    ]
    assert [row["audited"] for row in raters] == [True, False, True, True]
    assert [(row["item_id"], row["target"], row["rater"], row["file"]) for row in audits] == [
        ("i", "joy", "eve", "eve"),
        ("k", "joy", "eve", "eve"),
    ]
    assert sorted(row["place"] for row in audits) == [1, 2]
    raters, audits = rows()
    assert ({row["file"] for row in raters}, audits) == ({"ada", "bo"}, [])


def test_items_that_are_rated_against_the_raters_group_are_audited_for_each() -> None:
    raters, audits = rows(auditor="eve", target="group")
    assert [row["target"] for row in raters] == ["Peru", "Peru", "Mali", "Mali"]
    assert [(row["item_id"], row["target"]) for row in audits] == [("i", "Mali"), ("i", "Peru"), ("k", "Mali")]
