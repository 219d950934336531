"""People's free text: from a rubric's fields through Label Studio, Prodigy and spreadsheets to the table `remarks`."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pyarrow as pa
import pytest
import yaml

from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric
from jobs.annotation import form as forms
from jobs.annotation import imported_rows
from jobs.annotation.batch_schemas import REMARKS
from jobs.annotation.form import Form, ShownItem, WelfareConfig
from jobs.annotation.tools import label_studio, prodigy
from jobs.runtime.command_line import cli
from tests.cases import check_cases
from tests.factories import rows_of
from tests.jobs.annotation import tool_exports
from tests.jobs.annotation.tool_exports import Act

FREE_TEXTS: list[dict[str, Any]] = [
    {"name": "factual_error", "label": "Factual error", "guidance": "Copy the claim.", "question": "identification"},
    {"name": "sources", "label": "Sources", "separator": ";"},
]


def rubric() -> dict[str, Any]:
    options = [{"label": word, "value": word} for word in ("yes", "no")]
    return {
        "name": "quality",
        "version": 1,
        "source": "this test",
        "context": {"fields": [], "cut": []},
        "parts": {"question": "{{ question }}\n{{ options }}"},
        "layouts": {"fast": ["picture", "question"]},
        "layout": "fast",
        "questions": [
            {"name": name, "text": f"{name}?", "scale": "nominal", "answers": [*options]}
            for name in ("identification", "tone")
        ],
        "people": {
            "questions": {name: {"options": options} for name in ("identification", "tone")},
            "free_texts": FREE_TEXTS,
        },
    }


@pytest.fixture
def rubric_file(tmp_path: Path) -> str:
    (tmp_path / "quality.yaml").write_text(yaml.safe_dump(rubric()), "utf-8")
    return f"rubric={tmp_path}/quality.yaml"


def study(*questions: str) -> Form:
    welfare = WelfareConfig()
    return forms.form(
        Rubric.from_dict(rubric()), questions=questions, span_labels=None, welfare=welfare, pictures=1, texts=()
    )


def shown(number: int) -> ShownItem:
    return ShownItem(f"i{number}", (f"p{number}",), (f"https://x.example/{number}.jpg",), (), {}, ())


def imported(tmp_path: Path, out: str, *keys: str) -> list[tuple[Any, ...]]:
    """Import remarks; return (item, rater, field, number, question, text) of each, sorted."""
    assert cli.main("import_ratings", ["table=remarks", f"out={tmp_path}/{out}", *keys]) == 0
    assert cli.main("verify", [f"input={tmp_path}/{out}"]) == 0
    names = ("item_id", "rater", "field", "number", "question", "text")
    return sorted(tuple(row[name] for name in names) for row in rows_of(f"{tmp_path}/{out}"))


ERROR = "The flag was raised on Monday; not so."
SOURCES = "https://a.example/x ; https://b.example/y;"
ACTS = [
    Act("anna", chosen={"identification": "no", "tone": "yes"}, written={"factual_error": ERROR, "sources": SOURCES}),
    Act("bo", chosen={"identification": "yes", "tone": "yes"}),
]
EXPECTED = [
    ("i0", "anna", "factual_error", 1, "identification", ERROR),
    ("i0", "anna", "sources", 1, "", "https://a.example/x"),
    ("i0", "anna", "sources", 2, "", "https://b.example/y"),
]


def test_label_studio_has_the_fields_and_its_export_becomes_remarks(tmp_path: Path, rubric_file: str) -> None:
    view = Xml.fromstring(label_studio.config_xml(study()))
    order = [e.get("name") for e in view.iter() if e.tag in ("Choices", "TextArea")]
    assert order[-5:] == ["identification", "remark_factual_error", "tone", "remark_sources", "comment"]
    task = label_studio.task(study(), shown(0), target="", assigned_to=None, place=1)
    (tmp_path / "e.json").write_text(json.dumps(tool_exports.label_studio([task], [ACTS])), "utf-8")
    keys = [f"input={tmp_path}/e.json", rubric_file]
    assert imported(tmp_path, "remarks", *keys) == EXPECTED
    # The same export has the ratings that the remarks explain.
    assert cli.main("import_ratings", [*keys, f"out={tmp_path}/ratings"]) == 0
    explained = {
        (row["item_id"], row["rater"], row["question"]): row["value"] for row in rows_of(f"{tmp_path}/ratings")
    }
    assert explained["i0", "anna", EXPECTED[0][4]] == "no"


def test_prodigy_has_a_task_for_free_text(tmp_path: Path, rubric_file: str) -> None:
    form = study()
    fields = [block.get("field_id") for block in prodigy.settings(form, "texts", per_task=None)["blocks"]]
    assert [name for name in fields if name] == ["remark_factual_error", "remark_sources"]
    lines = [
        tool_exports.prodigy(task, act, dataset="d", time=1_780_000_000)
        for act in ACTS
        for task in prodigy.tasks(form, shown(0), target="", assigned_to=act.rater, place=1)
    ]
    assert {prodigy.kind_of(line) for line in lines} == {"choice", "texts"}
    (tmp_path / "out.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    keys = [f"input={tmp_path}/out.jsonl", rubric_file]
    assert imported(tmp_path, "remarks", *keys) == EXPECTED
    assert cli.main("import_ratings", [*keys, f"out={tmp_path}/ratings"]) == 0
    assert len(rows_of(f"{tmp_path}/ratings")) == 4  # two people, two questions


def test_remarks_of_spreadsheets_by_column_name_and_by_mapping(
    tmp_path: Path, rubric_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = f'i0,anna,"{ERROR}",{SOURCES}\ni0,bo,,\n'
    (tmp_path / "a.csv").write_text("item_id,rater,Factual_Error,sources\n" + cells)
    assert imported(tmp_path, "named", f"input={tmp_path}/a.csv", rubric_file) == EXPECTED
    (tmp_path / "b.csv").write_text("item_id,rater,wrong,why\n" + cells)
    mapping = "columns.remarks={factual_error: wrong}"
    assert imported(tmp_path, "mapped", f"input={tmp_path}/b.csv", rubric_file, mapping) == EXPECTED[:1]
    no_rubric = [f"input={tmp_path}/b.csv", mapping, "question=identification", "name=ours"]
    assert imported(tmp_path, "plain", *no_rubric) == EXPECTED[:1]
    assert {row["rubric"] for row in rows_of(f"{tmp_path}/plain")} == {"ours"}
    monkeypatch.setenv("REMINE_RATER_KEY", "a key of more than sixteen bytes")
    hidden = imported(tmp_path, "hidden", f"input={tmp_path}/a.csv", rubric_file, "anonymise=true")
    assert not {row[1] for row in hidden} & {"anna", "bo"}


def test_a_later_answer_replaces_all_entries_even_by_an_empty_field(tmp_path: Path, rubric_file: str) -> None:
    rows = ["i0,anna,e1,a;b;c,1", "i0,anna,,d,2", "i1,anna,e2,,1"]
    (tmp_path / "a.csv").write_text("item_id,rater,factual_error,sources,time\n" + "\n".join(rows) + "\n")
    keys = [f"input={tmp_path}/a.csv", rubric_file]
    texts = {out: [row[5] for row in imported(tmp_path, out, *keys, f"duplicates={out}")] for out in ("last", "first")}
    assert texts == {"last": ["d", "e2"], "first": ["e1", "a", "b", "c", "e2"]}
    assert cli.main("import_ratings", ["table=remarks", *keys, "duplicates=refuse", f"out={tmp_path}/never"]) == 2
    assert not (tmp_path / "never").exists()


def test_wrong_keys_are_refused(tmp_path: Path, rubric_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        ("columns.remarks={other: wrong}", "columns.remarks.other"),
        ("columns.remarks={sources: nowhere}", "no column nowhere"),
        ("columns.remarks=wrong", "columns.remarks=wrong"),
        ("rubric=cultural_relevance", "no free_texts"),
        ("rubric={}", "table=remarks: rubric=NAME"),
    ]

    def check(key: str, message: str) -> None:
        (tmp_path / "b.csv").write_text("item_id,rater,wrong\ni0,anna,x\n")
        arguments = [key] if key.startswith("rubric") else [rubric_file, key]
        arguments = [] if key == "rubric={}" else arguments
        assert (
            cli.main("import_ratings", ["table=remarks", f"input={tmp_path}/b.csv", f"out={tmp_path}/R", *arguments])
            == 2
        )
        assert message in capsys.readouterr().err
        assert not (tmp_path / "R").exists()

    check_cases(check, cases)


def test_wrong_fields_of_a_rubric_are_named() -> None:
    cases = [
        ({"name": "Factual error"}, "name: 'Factual error'"),
        ({"question": "nothing"}, "question 'nothing' must be one of identification, tone"),
        ({"name": "sources"}, "duplicate name 'sources'"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ]

    def check(change: dict[str, str], message: str) -> None:
        data = rubric()
        data["people"]["free_texts"] = [FREE_TEXTS[0] | change, FREE_TEXTS[1]]
        with pytest.raises(ValueError, match=message):
            Rubric.from_dict(data)

    check_cases(check, cases)


def test_a_field_is_left_out_with_its_question() -> None:
    assert [field.name for field in study("tone").free_texts] == ["sources"]


def test_people_are_asked_in_the_order_of_their_part() -> None:
    turned = rubric()
    turned["people"]["questions"] = dict(reversed(turned["people"]["questions"].items()))
    welfare = WelfareConfig()
    form = forms.form(Rubric.from_dict(turned), questions=[], span_labels=None, welfare=welfare, pictures=1, texts=())
    assert [question.name for question in form.questions] == ["tone", "identification"]
    assert [question.name for question in study().questions] == ["identification", "tone"]


def test_rows_of_a_field_one_per_entry() -> None:
    fields = [FreeText("why", "Why?", question="q"), FreeText("sources", "Sources", separator=";")]
    raw: list[dict[str, Any]] = [
        {"item_id": "a", "field": "why", "rater": "p", "text": " one; two ", "target": "joy", "condition": "c",
         "sample": 3, "time": 5.0, "annotation": 7, "position": 1, "images": ["x"]},
        {"item_id": "b", "field": "sources", "rater": "p", "text": " one ;; two;", "position": 2},
        {"item_id": "c", "field": "sources", "rater": "o", "text": " ; ", "position": 3},
        {"item_id": "d", "field": "why", "rater": "o", "text": None, "position": 4},
    ]  # fmt: skip
    rows = imported_rows.remark_rows(pa.Table.from_pylist(raw, schema=REMARKS), fields, rubric="r", condition="all")
    names = ["item_id", "number", "text", "question", "target", "condition", "sample", "position"]
    assert [tuple(row[name] for name in names) for row in rows.to_pylist()] == [
        ("a", 1, "one; two", "q", "joy", "c", 3, 1),
        ("b", 1, "one", "", "", "all", 0, 2),
        ("b", 2, "two", "", "", "all", 0, 2),
        ("c", 1, None, "", "", "all", 0, 3),
        ("d", 1, None, "q", "", "all", 0, 4),
    ]
    assert set(rows["rubric"].to_pylist()) == {"r"}
    assert rows.slice(0, 1).select([*imported_rows.REMARK_COLUMNS]).to_pylist() == [
        {"images": ["x"], "time": 5.0, "annotation": 7, "position": 1}
    ]
    assert imported_rows.remark_rows(REMARKS.empty_table(), fields, rubric="r", condition="").num_rows == 0


def test_fields_are_the_rubrics_or_those_that_columns_map() -> None:
    of_rubric = Rubric.from_dict(rubric())
    error, sources = of_rubric.people.free_texts if of_rubric.people else ()
    assert imported_rows.remark_fields(of_rubric, {}, "tone") == (error, sources)
    assert imported_rows.remark_fields(of_rubric, {"sources": "x", "factual_error": "y"}, None) == (error, sources)
    assert imported_rows.remark_fields(of_rubric, {"sources": "x"}, None) == (sources,)
    assert imported_rows.remark_fields(None, {"b": "x", "a": "y"}, "tone") == (
        FreeText("b", "b", question="tone"), FreeText("a", "a", question="tone")
    )  # fmt: skip
    assert imported_rows.remark_fields(None, {"a": "y"}, None) == (FreeText("a", "a"),)
