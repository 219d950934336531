"""A study with a rubric of which some questions are about targets: its plan, forms and files."""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric
from jobs.annotation.assignment import Assignment, Rater, assign, shuffled
from jobs.annotation.form import Form, FormQuestion, Option, OwnSet, ShownItem, WelfareConfig
from jobs.annotation.study import (
    AUDITOR,
    OF_GROUP,
    QUOTA,
    SHARED,
    AnnotateConfig,
    assign_items,
    assignment_rows,
    build_form,
    check_keys,
    describe,
    read_questions,
    showing,
    task_targets,
    write_task_files,
)
from jobs.errors import InputError
from jobs.runtime.configuration.config import load
from jobs.runtime.configuration.config_files import CONF
from tests.cases import check_cases

SHORT: dict[str, Any] = {
    "name": "mood",
    "targets": ["joy", "fear"],
    "questions": [
        {"name": "shown", "text": "How strongly?", "answers": [1, 2, 3]},
        {"name": "people", "text": "Are there people?", "answers": ["yes", "no"], "targets": False},
    ],
}


def test_an_item_has_a_task_per_target_and_one_without_for_questions_without() -> None:
    rubric, plain = Rubric.from_dict(SHORT), Rubric.from_dict({**SHORT, "targets": []})
    of_people = {"people": {"questions": {"shown": {"options": [{"label": str(n), "value": n} for n in (1, 2, 3)]}}}}
    cases = {
        "both kinds": ({}, rubric, ("joy", "fear", "")),
        "about targets": ({"only_questions": ["shown"]}, rubric, ("joy", "fear")),
        "without": ({"only_questions": ["people"]}, rubric, ("",)),
        "the rater's group and without": ({"target": "group"}, rubric, (OF_GROUP, "")),
        "no targets": ({}, plain, ("",)),
        "people are not asked the question without": ({}, Rubric.from_dict({**SHORT, **of_people}), ("joy", "fear")),
    }
    check_cases(lambda keys, r, expected: _equal(task_targets(AnnotateConfig(**keys), r), expected), cases)


def _equal(actual: object, expected: object) -> None:
    assert actual == expected


def test_tasks_of_both_kinds_ask_their_own_questions_in_each_tool(tmp_path: Path) -> None:
    item = ShownItem("a", ("p",), ("pictures/p.jpg",), (), {}, ())
    form = build_form(AnnotateConfig(), Rubric.from_dict(SHORT), None, item)
    rows = [row("bo", "a", "bo", place, target=target) for place, target in enumerate(("", "joy", "fear"), start=1)]
    _, files = written(tmp_path / "l", rows, form, per_item=1)
    assert set(files) == {f"{word}_target/{name}" for word in ("with", "without") for name in ("bo.json", "config.xml")}
    for word, questions in (("with", ["shown"]), ("without", ["people"])):
        tasks = [task["data"] for task in json.loads(files[f"{word}_target/bo.json"])]
        assert {(bool(data["target"]), *data["questions"]) for data in tasks} == {(word == "with", *questions)}
        assert re.findall(r'name="(shown|people)"', files[f"{word}_target/config.xml"]) == questions
    expected = [("", "people"), ("joy", "shown"), ("fear", "shown")]
    _, files = written(tmp_path / "p", rows, form, tool="prodigy", per_item=1)
    lines = [json.loads(line) for line in files["bo.choice.jsonl"].splitlines()]
    assert [(line["target"], line["question"]) for line in lines] == expected
    _, files = written(tmp_path / "s", rows, form, tool="spreadsheet", per_item=1)
    sheet = list(csv.DictReader(io.StringIO(files["bo.csv"].removeprefix("\ufeff"))))
    assert [(line["target"], line["question"]) for line in sheet] == expected


def test_raters_of_sensitive_pictures_are_warned_and_others_are_not() -> None:
    keys = ["input=I", "out=O", "raters=R"]

    def welfare(*more: str) -> WelfareConfig:
        loaded: AnnotateConfig = load("annotate", AnnotateConfig, [*keys, *more])
        return loaded.welfare

    assert welfare("rubric=image_rating") == replace(welfare("welfare=plain"), name="by_rubric")
    assert welfare("rubric=century_labels") == welfare("welfare=century")
    mixed = welfare("rubric=century_labels", "welfare.notice=Careful.")
    assert mixed == replace(welfare("welfare=century"), notice="Careful.")
    assert not welfare("rubric=century_labels", "welfare=plain").blur


def test_keys_and_rubrics_that_do_not_fit_are_refused() -> None:
    about_targets = {**SHORT, "questions": SHORT["questions"][:1]}
    rubric, span_labels = read_questions(AnnotateConfig(rubric=about_targets, target="group", group="country"))
    assert (rubric and rubric.name, span_labels) == ("mood", None)
    of_groups: Any = OmegaConf.to_container(OmegaConf.load(CONF / "rubric" / "cultural_relevance.yaml"))
    of_groups["targets"] = []
    read_questions(AnnotateConfig(rubric=of_groups, target="group", group="country"))  # raises nothing
    cases = [
        ({"rubric": {**SHORT, "questions": []}}, "^rubric: questions: at least one"),
        ({"rubric": SHORT, "span_labels": {"name": "s"}}, "^span_labels: missing key"),
        ({"questions": "Q"}, "questions: needs a rubric"),
        ({"rubric": about_targets, "target": "group"}, "target=group: needs group="),
        ({"target": "group", "group": "country"}, "target=group: needs .* a rubric that asks about a target"),
        ({"rubric": SHORT, "only_questions": ["people"], "target": "group", "group": "country"}, "target=group: needs"),
        ({"rubric": of_groups}, "^rubric: asks about targets, but has none; .*target=group"),
    ]

    def check(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            read_questions(AnnotateConfig(**keys))

    check_cases(check, cases)


def test_a_form_that_the_tool_cannot_show_is_refused() -> None:
    item = ShownItem("i", ("p",), ("https://i/p",), (), {"target": ("t", "A dog.")}, ())
    rubric = Rubric.from_dict({**SHORT, "targets": []})
    cases = {
        "label_studio": "^tool=label_studio: two parts of a task are called 'target'",
        "spreadsheet": "^tool=spreadsheet: a column 'target' has another meaning",
    }
    for tool, message in cases.items():
        with pytest.raises(InputError, match=message):
            build_form(AnnotateConfig(tool=tool), rubric, None, item)
    keys = AnnotateConfig(tool="prodigy", only_questions=["people"], welfare=WelfareConfig(notice="Careful."))
    form = build_form(keys, rubric, None, item)
    assert (form.pictures, form.texts, form.welfare.notice) == (1, ("target",), "Careful.")
    assert [question.name for question in form.questions] == ["people"]


def test_people_see_what_models_see_if_they_answer_questions_of_the_items() -> None:
    rubric = Rubric.from_dict(SHORT)
    own_sets = {"i": OwnSet("s", (("1", "Is it red?"),))}
    files = AnnotateConfig(pictures="files", picture_base="https://h/")
    assert showing(files, rubric, own_sets).roles == rubric.context_fields
    assert showing(files, rubric, {}).roles is None
    assert showing(files, None, own_sets).roles is None
    assert showing(AnnotateConfig(span_labels={"name": "s"}), rubric, own_sets).roles is None
    assert [showing(cfg, rubric, {}).base for cfg in (files, AnnotateConfig())] == ["https://h/", None]


TASKS = [
    Assignment("ada", "Peru", 1, "i\x1fjoy", shared=True, audit=True, together="s1"),
    Assignment("ada", "Peru", 2, "j\x1fjoy", shared=False, audit=False, together="s2"),
    Assignment("bo", "Mali", 1, "i\x1fjoy", shared=True, audit=True, together="s1"),
    Assignment("bo", "Mali", 2, "k\x1fjoy", shared=False, audit=True, together="s3"),
]


def rows(tasks: Sequence[Assignment] = TASKS, **keys: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the raters' rows, and the auditor's in the order of the items."""
    cfg = AnnotateConfig(input="", raters="", out="", **keys)
    every = assignment_rows(cfg, tasks, probability={})
    audits = sorted((row for row in every if row["role"] == AUDITOR), key=lambda row: (row["item_id"], row["target"]))
    return [row for row in every if row["role"] != AUDITOR], audits


def test_equal_loads_and_overlaps_are_one_number() -> None:
    cfg = AnnotateConfig(input="", raters="", out="", per_item=2)
    pair, third = [Rater("ada"), Rater("bo")], Rater("eve")
    items = [f"i{number}" for number in range(5)]
    both = assign(items, pair, seed=1, per_item=2)
    assert describe(cfg, both) == "10 tasks of 5 items for 2 raters, 5 each; any two raters share 5 tasks"
    assert re.fullmatch(
        r"10 tasks of 5 items for 3 raters, 3 to 4 each; any two raters share 1 to 2 \(median 2\) tasks",
        describe(cfg, assign(items, [*pair, third], seed=1, per_item=2)),
    )


def test_the_numbers_of_a_plan_are_those_of_groups_and_audits() -> None:
    cfg = AnnotateConfig(input="", raters="", out="", per_group=1, group="country")
    apart = [Rater("ada", "Peru"), Rater("bo", "Mali")]
    plan = assign(["i", "j"], apart, seed=1, quotas={"Peru": 1, "Mali": 1}, audit=0.5)
    assert describe(cfg, plan) == "4 tasks of 2 items for 2 raters, 2 each; 2 drawn for the audit"
    three = [*apart, Rater("cy", "Mali")]
    plan = assign(["i", "j"], three, seed=1, quotas={"Peru": 1, "Mali": 2})
    assert describe(cfg, plan) == "6 tasks of 2 items for 3 raters, 2 each; any two raters of a group share 2 tasks"


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
    assert {(row["file"], row["group"]) for row in assignment_rows(cfg, alone, probability={})} == {("all", "")}


def test_items_that_are_rated_against_the_raters_group_are_audited_for_each() -> None:
    of_groups = [task._replace(item=f"{task.item[0]}\x1f{OF_GROUP}") for task in TASKS]
    raters, audits = rows(of_groups, auditor="eve", target="group")
    assert [row["target"] for row in raters] == ["Peru", "Peru", "Mali", "Mali"]
    assert [(row["item_id"], row["target"]) for row in audits] == [("i", "Mali"), ("i", "Peru"), ("k", "Mali")]


def test_each_rater_has_a_separate_file() -> None:
    """Names that are the same without the characters that file names lack have different files."""
    cfg = AnnotateConfig(input="", raters="", out="")
    names = ["a b", "a_b", "a/b", ".a b", "ada@x.example", "é", "è", "x" * 80, "x" * 81, "x" * 82]
    tasks = [Assignment(name, "", 1, "i", shared=True, audit=False, together="i") for name in names]
    files = [row["file"] for row in assignment_rows(cfg, tasks, probability={})]
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
    for keys, rubric, target in (({"target": "group"}, RUBRIC, OF_GROUP), ({}, None, "")):
        assert planned(items, rubric, per_item=3, **keys) == [
            (f"{item}\x1f{target}", rater) for item in "ij" for rater in every
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
    with pytest.raises(InputError, match=r"^quotas.Peru=2: "):
        planned({"i": "s"}, None, quotas={"Peru": 2})


def test_an_auditor_is_neither_a_rater_nor_named_like_the_file_of_a_group() -> None:
    alone = [Rater(rater.name) for rater in RATERS]

    def plan(auditor: str, raters: list[Rater], **keys: Any) -> list[Assignment]:
        cfg = AnnotateConfig(input="", raters="", out="", per_item=1, audit=1.0, auditor=auditor, **keys)
        return assign_items(cfg, {"i": "s"}, raters, None, {})

    with pytest.raises(InputError, match="auditor: is one of the raters"):
        plan("bo", RATERS)
    for auditor, raters in (("Mali", RATERS), ("all", alone)):
        with pytest.raises(InputError, match=f"auditor={auditor}: files=group gives .* a file of this name; write"):
            plan(auditor, raters, files="group")
        assert len(plan(auditor, raters)) == 1
    assert len(plan("all", RATERS, files="group")) == len(plan("Mali", alone, files="group")) == 1


REQUIRED: dict[str, Any] = {"rubric": {"name": "r"}, "per_item": 3}
BY_GROUP: dict[str, Any] = {**REQUIRED, "per_item": None, "group": "country"}


def config(**keys: Any) -> AnnotateConfig:
    return AnnotateConfig(input="x", raters="y", out="z", **keys)


def test_accepted_combinations_of_keys() -> None:
    cases = [
        REQUIRED,
        {**REQUIRED, "group": "country"},
        {**BY_GROUP, "per_group": 2},
        {**BY_GROUP, "quotas": {"China": 20, "India": 10}},
        {**REQUIRED, "rubric": {}, "span_labels": {"name": "s"}},
        {**REQUIRED, "audit": 0.1, "auditor": "zoe"},
        *({**REQUIRED, key: value} for key, value in (
            ("tool", "prodigy"), ("tool", "spreadsheet"), ("files", "group"), ("pictures", "files"), ("target", "group")
        )),
    ]  # fmt: skip
    check_cases(lambda keys: check_keys(config(**keys)), [(case,) for case in cases])


def test_keys_that_do_not_are_refused() -> None:
    cases = [
        ({**REQUIRED, "tool": "paper"}, "tool=paper: must be one of label_studio, prodigy, spreadsheet"),
        ({**REQUIRED, "files": "all"}, "files=all: must be one of rater, group"),
        ({**REQUIRED, "pictures": "none"}, "pictures=none: must be one of url, files"),
        ({**REQUIRED, "target": "all"}, "target=all: must be one of rubric, group"),
        ({**REQUIRED, "rubric": {}}, "rubric= or span_labels= is required"),
        ({**REQUIRED, "per_item": None}, r"exactly one \(none is given\)"),
        ({**BY_GROUP, "per_item": 1, "per_group": 1}, r"exactly one \(per_item, per_group is given\)"),
        ({**BY_GROUP, "per_item": 0, "quotas": {"x": 1}}, r"exactly one \(per_item, quotas is given\)"),
        ({**BY_GROUP, "per_group": 2, "group": None}, "group=: required"),
        ({**BY_GROUP, "quotas": {"China": 20}, "group": None}, "group=: required"),
        ({**BY_GROUP, "quotas": {"China": "20"}}, "quotas=.*: must be of the form"),
        ({**BY_GROUP, "quotas": {"China": True}}, "quotas=.*: must be of the form"),
        ({**BY_GROUP, "quotas": ["China"]}, "quotas=.*: must be of the form"),
        ({**REQUIRED, "audit": 0.1}, "audit= and auditor= go together"),
        ({**REQUIRED, "auditor": "zoe"}, "audit= and auditor= go together"),
        ({**REQUIRED, "limit": 0}, "limit=0"),
    ]

    def check_case(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            check_keys(config(**keys))

    check_cases(check_case, cases)


def test_raters_of_an_item() -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({"per_item": 3}, 3),
        ({"per_group": 2}, 2),
        ({"quotas": {"China": 20, "India": 10}}, 20),
    ]
    values = [config(**keys).raters_per_item for keys, _ in cases]
    assert values == [expected for _, expected in cases]


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
    assert (number, set(files)) == (2, {"bo.csv", "bo.html"})
    rows = list(csv.DictReader(io.StringIO(files["bo.csv"].removeprefix("\ufeff"))))
    assert [(one["place"], one["rater"], one["item_id"]) for one in rows] == [("1", "bo", "b"), ("2", "bo", "a")]
