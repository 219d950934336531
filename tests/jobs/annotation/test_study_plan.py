"""Rows of assignments: what raters and the auditor are shown, and in which file."""

import re
from collections import Counter
from typing import Any

import pytest

from actors.rubrics.rubric import Rubric
from jobs.annotation.annotate_config import AnnotateConfig
from jobs.annotation.assignment import Assignment, Rater, assign
from jobs.annotation.own_questions import OwnSet
from jobs.annotation.study_plan import AUDITOR, QUOTA, SHARED, assign_items, assignment_rows, describe
from jobs.errors import InputError

TASKS = [
    Assignment("ada", "Peru", 1, "i\x1fjoy", shared=True, audit=True, together="s1"),
    Assignment("ada", "Peru", 2, "j\x1fjoy", shared=False, audit=False, together="s2"),
    Assignment("bo", "Mali", 1, "i\x1fjoy", shared=True, audit=True, together="s1"),
    Assignment("bo", "Mali", 2, "k\x1fjoy", shared=False, audit=True, together="s3"),
]


def rows(**keys: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the raters' rows, and the auditor's in the order of the items."""
    cfg = AnnotateConfig(input="", raters="", out="", **keys)
    every = assignment_rows(cfg, TASKS)
    audits = sorted((row for row in every if row["role"] == AUDITOR), key=lambda row: (row["item_id"], row["target"]))
    return [row for row in every if row["role"] != AUDITOR], audits


def test_equal_loads_and_overlaps_are_one_number() -> None:
    cfg = AnnotateConfig(input="", raters="", out="", per_item=2)
    pair, third = [Rater("ada"), Rater("bo")], Rater("eve")
    items = [f"i{number}" for number in range(5)]
    both = assign(items, pair, seed=1, per_item=2)
    assert describe(cfg, both) == "10 tasks of 5 items for 2 raters, 5 each; any two raters share 5 items"
    assert re.fullmatch(
        r"10 tasks of 5 items for 3 raters, 3 to 4 each; any two raters share 1 to 2 \(median 2\) items",
        describe(cfg, assign(items, [*pair, third], seed=1, per_item=2)),
    )


def test_the_numbers_of_a_plan_are_those_of_groups_and_audits() -> None:
    cfg = AnnotateConfig(input="", raters="", out="", per_group=1, group="country")
    apart = [Rater("ada", "Peru"), Rater("bo", "Mali")]
    plan = assign(["i", "j"], apart, seed=1, quotas={"Peru": 1, "Mali": 1}, audit=0.5)
    assert describe(cfg, plan) == "4 tasks of 2 items for 2 raters, 2 each; 2 drawn for the audit"
    three = [*apart, Rater("cy", "Mali")]
    plan = assign(["i", "j"], three, seed=1, quotas={"Peru": 1, "Mali": 2})
    assert describe(cfg, plan) == "6 tasks of 2 items for 3 raters, 2 each; any two raters of a group share 2 items"


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
    assert [row["audited"] for row in audits] == [False, False]
    raters, audits = rows()
    assert ({row["file"] for row in raters}, audits) == ({"ada", "bo"}, [])
    alone = [task._replace(group="") for task in TASKS]
    cfg = AnnotateConfig(input="", raters="", out="", files="group")
    assert {(row["file"], row["group"]) for row in assignment_rows(cfg, alone)} == {("all", "")}


def test_items_that_are_rated_against_the_raters_group_are_audited_for_each() -> None:
    raters, audits = rows(auditor="eve", target="group")
    assert [row["target"] for row in raters] == ["Peru", "Peru", "Mali", "Mali"]
    assert [(row["item_id"], row["target"]) for row in audits] == [("i", "Mali"), ("i", "Peru"), ("k", "Mali")]


def test_each_rater_has_a_separate_file() -> None:
    """Names that are the same without the characters that file names lack have different files."""
    cfg = AnnotateConfig(input="", raters="", out="")
    names = ["a b", "a_b", "a/b", ".a b", "ada@x.example", "é", "è", "x" * 80, "x" * 81, "x" * 82]
    tasks = [Assignment(name, "", 1, "i", shared=True, audit=False, together="i") for name in names]
    files = [row["file"] for row in assignment_rows(cfg, tasks)]
    assert len(set(files)) == len(names)
    assert (files[1], files[4], files[7]) == ("a_b", "ada@x.example", "x" * 80)
    assert max(map(len, files)) == 80 + len("-12345678")
    assert not any(set(file) & set("/ \\") or file.startswith(".") for file in files)


RUBRIC = Rubric.from_dict({
    "name": "mood",
    "targets": ["joy", "fear"],
    "questions": [{"name": "shown", "text": "How strongly?", "answers": [1, 2]}],
})  # fmt: skip
RATERS = [Rater("ada", "Peru"), Rater("bo", "Mali"), Rater("cy", "Mali")]


def planned(items: dict[str, str], rubric: Rubric | None = RUBRIC, **keys: Any) -> list[tuple[str, str]]:
    """Return the sorted (item, rater) of a plan."""
    own_sets = keys.pop("own_sets", {})
    cfg = AnnotateConfig(input="", raters="", out="", rubric={"name": "mood"}, group="country", **keys)
    return sorted((task.item, task.rater) for task in assign_items(cfg, items, RATERS, rubric, own_sets))


def test_an_item_is_assigned_once_per_target_unless_raters_have_their_own() -> None:
    every = [rater.name for rater in RATERS]
    items = {"i": "s", "j": "s"}
    assert planned(items, per_item=3) == [
        (f"{item}\x1f{target}", rater) for item in "ij" for target in ("fear", "joy") for rater in every
    ]
    for keys, rubric in (({"target": "group"}, RUBRIC), ({}, None)):
        assert planned(items, rubric, per_item=3, **keys) == [
            (f"{item}\x1f", rater) for item in "ij" for rater in every
        ]
    of_item = {"i": OwnSet("set-1", (("1", "Red?"),))}
    assert {item for item, _ in planned(items, per_item=3, own_sets=of_item)} == {
        "i\x1fset-1", "j\x1fjoy", "j\x1ffear"
    }  # fmt: skip


def test_a_plan_has_the_seed_and_the_shared_and_audited_items_of_the_keys() -> None:
    items = {f"i{number}": f"s{number // 2}" for number in range(12)}

    def plan(**keys: Any) -> list[Assignment]:
        cfg = AnnotateConfig(input="", raters="", out="", per_item=1, **keys)
        return assign_items(cfg, items, RATERS, None, {})

    usual = plan()
    assert usual != plan(seed=1)
    assert [task for task in usual if task.shared or task.audit] == []
    shared = Counter(task.item for task in plan(shared=2) if task.shared)
    assert (len(shared), set(shared.values())) == (2, {3})
    assert Counter(task.rater for task in plan(audit=0.5, auditor="zoe") if task.audit) == dict.fromkeys(
        ("ada", "bo", "cy"), 2
    )
    assert {task.together for task in plan(together="set")} == set(items.values())
    assert {task.together for task in usual} == {task.item for task in usual}


def test_quotas_are_of_groups_that_raters_have() -> None:
    assert planned({"i": "s"}, None, quotas={"Mali": 2}) == [("i\x1f", "bo"), ("i\x1f", "cy")]
    assert planned({"i": "s"}, None, per_group=1)[0] == ("i\x1f", "ada")
    assert len(planned({"i": "s"}, None, per_group=1)) == 2
    with pytest.raises(InputError, match=r"quotas\.Chad=1: no rater has this country; must be one of Mali, Peru"):
        planned({"i": "s"}, None, quotas={"Mali": 2, "Chad": 1})
    with pytest.raises(InputError, match=r"^annotate: "):
        planned({"i": "s"}, None, quotas={"Peru": 2})


def test_an_auditor_is_neither_a_rater_nor_named_like_the_file_of_a_group() -> None:
    alone = [Rater(rater.name) for rater in RATERS]

    def plan(auditor: str, raters: list[Rater], **keys: Any) -> list[Assignment]:
        cfg = AnnotateConfig(input="", raters="", out="", per_item=1, audit=1.0, auditor=auditor, **keys)
        return assign_items(cfg, {"i": "s"}, raters, None, {})

    with pytest.raises(InputError, match="auditor=bo: is one of the raters"):
        plan("bo", RATERS)
    for auditor, raters in (("Mali", RATERS), ("all", alone)):
        with pytest.raises(InputError, match=f"auditor={auditor}: files=group gives .* a file of this name; write"):
            plan(auditor, raters, files="group")
        assert len(plan(auditor, raters)) == 1
    assert len(plan("all", RATERS, files="group")) == len(plan("Mali", alone, files="group")) == 1
