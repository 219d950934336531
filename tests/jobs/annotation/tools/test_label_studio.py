"""Tasks of Label Studio's JSON export: which are read, who answered and when, and which are rejected."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from actors.ids import content_id
from actors.rubrics.people import FreeText
from jobs.annotation import batch_schemas
from jobs.annotation.form import (
    Form,
    FormExample,
    FormQuestion,
    Option,
    OwnSet,
    ShownItem,
    WelfareConfig,
    picture_field,
)
from jobs.annotation.questionnaire import ISSUE, AnswerSet, Questionnaire, list_questionnaire
from jobs.annotation.reading import RatingColumns, Reading
from jobs.annotation.span_labels import SpanLabels
from jobs.annotation.tools import label_studio
from jobs.annotation.tools.label_studio import check, config_xml
from jobs.errors import InputError
from jobs.store.writer import Reject
from tests.cases import check_cases

SPAN_LABELS = SpanLabels.from_dict({"name": "s", "kinds": [
    {"name": "mistakes", "kind": "mistake", "text": "generated", "labels": [
        {"value": "swap", "label": "Mix-up"}, {"value": "drop", "label": "Left out"},
    ]},
]})  # fmt: skip


def result(control: str, **value: Any) -> dict[str, Any]:
    return {"from_name": control, "value": value}


def annotation(*results: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"completed_by": 7, "result": list(results or (result("q", choices=["1"]),)), **fields}


def task(item: Any, *annotations: Any, key: str = "annotations", **data: Any) -> dict[str, Any]:
    return {"id": 1, "data": {"item_id": item, "questions": ["q"], **data}, key: list(annotations or (annotation(),))}


def read(folder: Path, tasks: list[Any], **reading: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    """Return the rows, and (position, reason) of the rejects."""
    rows, rejects = read_with_messages(folder, tasks, **reading)
    return rows, [(reject.position, reject.reason) for reject in rejects]


def read_with_messages(folder: Path, tasks: list[Any], **reading: Any) -> tuple[list[dict[str, Any]], list[Reject]]:
    path = folder / "export.json"
    path.write_text(json.dumps(tasks))
    rejects: list[Reject] = []
    batches = label_studio.read(str(path), Reading(**{"table": "ratings", **reading}), rejects.append)
    return [row for batch in batches for row in batch.to_pylist()], rejects


def test_without_a_list_the_mapped_questions_are_asked_or_else_the_rubrics() -> None:
    answers = AnswerSet(("1",), (1.0,), {"1": 0})
    questionnaire = Questionnaire("r", {"q": answers, "p": answers}, {"q": "q", "p": "p"}, ("q", "p"))
    mapped = Reading("ratings", RatingColumns(questions={"p": "control"}), questionnaire)
    assert [mapped.questions(data) for data in ({}, {"questions": ["q"]})] == [("p",), ("q",)]
    assert (Reading("ratings", questionnaire=questionnaire).questions({}), Reading("ratings").questions({})) == (
        ("q", "p"), ()
    )  # fmt: skip
    without: list[dict[str, Any]] = [{"questions": []}, {"questions": "q"}, {"rubric": "r"}, {"rubric": ""}]
    for data in without:
        assert Reading("ratings", questionnaire=questionnaire).questions(data) == ("q", "p")
    with pytest.raises(InputError, match=r"^rubric: the tasks are of rubric 's'; set rubric=s$"):
        mapped.questions({"rubric": "s", "questions": ["q"]})
    with pytest.raises(InputError, match=r"^rubric: the tasks ask 'other'; it has q, p$"):
        mapped.questions({"questions": ["q", "other"]})
    any_question = Reading("ratings", questionnaire=list_questionnaire("n", ["1", "2"], ordinal=True))
    assert any_question.questions({"rubric": "s", "questions": ["q", 5]}) == ("q", "5")


def test_controls_are_those_of_the_questions_or_of_the_items_own() -> None:
    reading = Reading("ratings", RatingColumns(questions={"q": "control", "1": "never"}))
    assert reading.controls_of({"questions": ["q", "p"]}) == {"q": "control", "p": "p"}
    own_questions = [{"question_id": 7, "text": "Red?"}, "no question", {"question_id": "1", "text": "Blue?"}]
    data = {"questions": ["1", "7", "other"], "own_questions": own_questions}
    assert reading.controls_of(data) == {"1": "own_questions_2", "7": "own_questions_0", "other": "other"}


def test_fields_of_a_task_may_be_mapped_and_nested(tmp_path: Path) -> None:
    columns = RatingColumns(item_id="meta.id", target="label", condition="meta.shown.first")
    tasks = [
        task(None, annotation(), meta={"id": 5, "shown": {"first": "fast"}}, label=3, image_ids=["p", 7]),
        task(None, annotation(), meta={"id": "b", "shown": "all"}),
        task("no", annotation(), meta="id"),
    ]
    rows, rejects = read(tmp_path, tasks, columns=columns)
    names = ("item_id", "target", "condition", "images")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("5", "3", "fast", ["p", "7"]), ("b", None, None, None)
    ]  # fmt: skip
    assert rejects == [(3, "no_item_id")]
    keys: dict[str, Any] = {"columns": columns, "free_texts": [FreeText("why", "Why?")]}
    rows, _ = read(tmp_path, tasks, table="remarks", **keys)
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("5", "3", "fast", ["p", "7"]), ("b", None, None, None)
    ]  # fmt: skip
    marked = [
        task("a", annotation(result("mistakes", start=0, end=1)), generated="A dog.", condition="fast", image_ids=["p"])
    ]
    (row,) = read(tmp_path, marked, table="spans", span_labels=SPAN_LABELS)[0]
    assert (row["condition"], row["images"], row["kind"]) == ("fast", ["p"], "mistake")


def test_tasks_after_a_rejected_one_are_read(tmp_path: Path) -> None:
    tasks = [
        task("a"),
        {"data": {"item_id": "no"}},
        {"data": ["item_id"], "annotations": []},
        "no task",
        task("b", key="completions"),  # the key of old versions
        task(" "),
        task("no", {"completed_by": 7}, "no annotation", annotation(completed_by={"email": " "})),
        task("c", annotation(completed_by="cy")),
    ]
    rows, rejects = read(tmp_path, tasks)
    assert [(row["item_id"], row["rater"], row["position"]) for row in rows] == [
        ("a", "7", 1), ("b", "7", 5), ("c", "cy", 8)
    ]  # fmt: skip
    assert rejects == [
        (2, "not_a_task"), (3, "not_a_task"), (4, "not_a_task"), (6, "no_item_id"), (7, "not_an_annotation"),
        (7, "not_an_annotation"), (7, "no_rater"),
    ]  # fmt: skip
    messages = [reject.message for reject in read_with_messages(tmp_path, [tasks[5], tasks[6]])[1]]
    assert ["its data has item_id, questions" in message for message in messages] == [True, False, False, False]


def test_a_person_is_named_by_address_name_number_or_assignment(tmp_path: Path) -> None:
    people = [
        {"id": 3, "username": "bo", "email": "bo@x.example"},
        {"id": 3, "username": "bo", "email": ""},
        {"id": 0, "username": None},
        0,
    ]
    tasks = [
        task("a", *(annotation(completed_by=person) for person in people), assigned_to="zoe", questions=["q", "r"])
    ]
    raters = ["bo@x.example", "bo", "0", "0"]
    for table in ("ratings", "raters"):
        rows, rejects = read(tmp_path, tasks, table=table)
        assert ([row["rater"] for row in rows if row.get("question") != "r"], rejects) == (raters, [])
    assert [row["rater"] for row in read(tmp_path, tasks, rater_from="assigned", table="raters")[0]] == ["zoe"] * 4
    assert read(tmp_path, [task("a")], rater_from="assigned", table="raters") == ([], [(1, "no_rater")])


def test_an_annotation_has_its_last_time_its_comment_and_shares_of_its_duration(tmp_path: Path) -> None:
    both = {"created_at": "1970-01-01T00:00:05Z", "updated_at": "1970-01-01T00:00:09Z"}
    results = [result("q", rating=4, text=["4 stars"]), result("comment", text=["one", "two"]), result("r", number=2.5)]
    no_results: list[Any] = ["r", {"from_name": "r"}, {"value": {"number": 3}}, {"from_name": "r", "value": 3}]
    annotations = [
        annotation(*results, *no_results, lead_time=6, **both),
        annotation(*results[:1], created_at=both["created_at"]),
        annotation(*results[:1], updated_at="noon"),
    ]
    rows, _ = read(tmp_path, [task("a", *annotations, questions=["q", "r"])])
    names = ("question", "answer", "comment", "seconds", "time")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("q", "4", "one\ntwo", 3.0, 9.0),
        ("r", "2.5", None, 3.0, 9.0),
        ("q", "4", None, None, 5.0),
        ("r", None, None, None, 5.0),
        ("q", "4", None, None, None),
        ("r", None, None, None, None),
    ]


def test_a_faulty_response_is_asked_about_only_where_the_form_has_the_box(tmp_path: Path) -> None:
    faulty, report = result(ISSUE, choices=["Wrong"]), result("report_picture", choices=["Report"])
    valued = result("q", choices=["1"])
    tasks = [
        task("no box"),
        task("box", asks_issue=True),
        task("marked", annotation(valued, faulty)),
        task("marked and skipped", annotation(valued, faulty, was_cancelled=True)),
        task("reported", annotation(valued, report, was_cancelled=True), asks_issue=True),
    ]
    rows, _ = read(tmp_path, tasks)
    assert [tuple(row[name] for name in ("item_id", "question", "answer", "status", "kind")) for row in rows] == [
        ("no box", "q", "1", None, None),
        ("box", "q", "1", None, None),
        ("box", ISSUE, "no", None, None),
        ("marked", "q", "1", None, None),
        ("marked", ISSUE, "yes", None, None),
        ("marked and skipped", "q", "1", "skipped", "response_issue"),
        ("marked and skipped", ISSUE, "yes", None, None),
        ("reported", "q", "1", "reported", "reported"),
        ("reported", ISSUE, None, "reported", "reported"),
    ]


def test_spans_need_a_text_and_a_range_of_its_characters(tmp_path: Path) -> None:
    spans = [
        result("mistakes", start=0, end=1, text="🐈", labels=["Mix-up"]),
        result("mistakes", start=0, end=1, text="🐈", labels=["swap"]),  # the same label of the same characters
        result("mistakes", start=2, end=5, text="🐈a", labels=None),  # in units of UTF-16
        result("mistakes", start=1, end=3, text="other"),  # neither: rejected
        result("mistakes", start=0, end=2, text="🐈🐈", hypertextlabels=["Mix-up"]),
        result("mistakes", start=0, end=3, text="🐈🐈a", labels="swap"),
        result("mistakes", start=0, end=3, text="🐈🐈a"),
        result("mistakes", start=0, end=3, text="🐈🐈a", labels=["Left out"]),
        result("mistakes", start=1.0, end=3),
        result("mistakes", start=0, end=4),
        result("mistakes", start=1, end=1),
    ]
    keys: dict[str, Any] = {"table": "spans", "span_labels": SPAN_LABELS}
    tasks = [
        task("a", annotation(*spans), generated="🐈🐈a", generated_id="g"),
        task("b", annotation(*spans[:2])),  # shows no text
        task("c", annotation(result("other", text="x"), *spans[:1], was_cancelled=True), generated="🐈"),
        task("d", annotation(result("show_picture", choices=["Show"])), generated="🐈", generated_id="g"),
    ]
    rows, rejects = read(tmp_path, tasks, **keys)
    assert [(r["item_id"], r["start"], r["end"], r["category"], r["status"]) for r in rows] == [
        ("a", 0, 1, "swap", "ok"),
        ("a", 1, 3, None, "ok"),
        ("a", 0, 2, "swap", "ok"),
        ("a", 0, 3, "swap+drop", "ok"),
        ("c", 0, 0, None, "skipped"),
        ("d", 0, 0, None, "ok"),
    ]
    of_a = ["text_differs", "bad_span", "unclear_offsets", "unclear_offsets"]
    assert rejects == [*[(1, reason) for reason in of_a], *[(2, "no_text")] * 2]
    assert [row["text_id"] for row in rows] == ["g"] * 4 + [content_id("generated", "", "🐈"), "g"]
    assert [row["annotation"] for row in rows] == [1, 1, 1, 1, 3, 4]


def test_rows_come_in_batches_of_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "export.json").write_text(json.dumps([task(f"i{number}") for number in range(4)]))
    for size, sizes in ((2, [2, 2]), (3, [3, 1]), (5, [4])):
        monkeypatch.setattr(batch_schemas, "ROWS_AT_A_TIME", size)
        batches = list(label_studio.read(str(tmp_path / "export.json"), Reading("ratings"), print))
        assert [batch.num_rows for batch in batches] == sizes
        assert [item for batch in batches for item in batch["item_id"].to_pylist()] == ["i0", "i1", "i2", "i3"]


def test_another_projects_export_is_refused_before_all_of_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = [annotation(result("beauty", rating=4))]
    monkeypatch.setattr(label_studio, "CHECKED_AFTER", 2)
    with pytest.raises(InputError, match="its controls are beauty; expected are q "):
        read(tmp_path, [task(f"i{number}", *foreign) for number in range(2)] + [task("c")])
    # An expected control in the first ones, or one that every form has, is enough.
    rows, _ = read(tmp_path, [task("a", *foreign), task("b"), *(task("c", *foreign) for _ in range(3))])
    assert [row["answer"] for row in rows] == [None, "1", None, None, None]
    for control in ("comment", "remark_why"):
        assert len(read(tmp_path, [task("a", annotation(result(control, text=["x"])))])[0]) == 1
    assert len(read(tmp_path, [task("a", *foreign)], table="raters")[0]) == 1
    of_texts: dict[str, Any] = {"table": "remarks", "free_texts": [FreeText("why", "Why?")]}
    rows, _ = read(tmp_path, [task("a", annotation(result("remark_why", text=["one", "two"])))], **of_texts)
    assert [(row["field"], row["text"]) for row in rows] == [("why", "one\ntwo")]
    with pytest.raises(InputError, match="its controls are beauty; expected are q, reason "):
        read(tmp_path, [task("a", *foreign)], columns=RatingColumns(remarks={"why": "reason"}), **of_texts)


def test_files_that_are_no_export_are_named(tmp_path: Path) -> None:
    cases = {
        "JSON-MIN export": {"annotator": 1, "item_id": "i"},
        "its first element has item_id, value, not data": {"item_id": "i", "value": 1},
        "its first element has annotator, data, not data": {"annotator": 1, "data": {}},
        "its first element is int, not a task": 3,
        "its first element has a, b, c, d, e, f, g, h, not data": dict.fromkeys("abcdefghi", 1),
    }
    for message, first in cases.items():
        with pytest.raises(InputError, match=message):
            read(tmp_path, [first, task("a")])


def test_answers_of_every_control_are_read_or_refused_by_name(tmp_path: Path) -> None:
    def check(value: dict[str, Any], expected: str | None) -> None:
        tasks = [task("a", annotation(result("q", **value)))]
        if expected and expected.startswith("refused"):
            with pytest.raises(InputError, match=f"control 'q' has answers .*{expected.removeprefix('refused ')}"):
                read(tmp_path, tasks)
        else:
            assert [row["answer"] for row in read(tmp_path, tasks)[0]] == [expected]

    place = {"start": 0, "end": 3, "text": "dog"}
    check_cases(check, [
        ({"selected": "left"}, "left"),
        ({"taxonomy": [["art"]]}, "art"),
        ({"taxonomy": [["art", "painting"]]}, "art/painting"),
        ({"taxonomy": [["art"], ["news"]]}, '["art", "news"]'),
        ({"datetime": "2024-05-01"}, "2024-05-01"),
        ({"rating": 3.0}, "3"),
        ({"number": 0}, "0"),
        ({"text": ["a"]}, "a"),
        ({"text": "a"}, "a"),
        ({"choices": []}, None),
        ({"choices": None}, None),
        ({}, None),
        ({**place, "labels": ["noun"]}, "noun"),
        ({**place, "paragraphlabels": ["noun", "verb"]}, '["noun", "verb"]'),
        ({**place, "choices": ["yes"]}, "yes"),
        ({**place, "taxonomy": [["art"]]}, "art"),
        ({**place, "text": ["note"]}, "note"),
        ({"x": 1, "y": 1, "width": 2, "height": 2, "rotation": 0, "rectanglelabels": ["cat"]}, "cat"),
        ({"ranker": {"rank": ["a", "b"]}}, "refused ranker"),
        ({"ranker": ["b", "a"]}, "refused ranker"),
        ({**place, "ranker": ["b"]}, "refused ranker"),
        ({"text": ["x"], "chat": []}, "refused chat"),
        ({"choices": [{"value": "yes"}]}, "refused choices"),
        ({"choices": ["yes", ["no"]]}, "refused choices"),
        ({"taxonomy": [{"art": 1}]}, "refused taxonomy"),
        ({"number": {"low": 1}}, "refused number"),
        (place, "refused a region without a label"),
        ({"x": 1, "y": 2}, "refused a region without a label"),
    ])  # fmt: skip


def test_spans_are_where_their_stored_text_is(tmp_path: Path) -> None:
    lines, emoji = "One line.\r\nTwo line.\r\nA red barn stands.", "😀 sky.\nA red\nbarn stands."

    def check(text: str, start: int, end: int, stored: str | None, expected: tuple[int, int] | str) -> None:
        stored_text = {} if stored is None else {"text": stored}
        tasks = [task("a", annotation(result("mistakes", start=start, end=end, **stored_text)), generated=text)]
        rows, rejects = read(tmp_path, tasks, table="spans", span_labels=SPAN_LABELS)
        actual = [(row["start"], row["end"]) for row in rows], [reason for _, reason in rejects]
        assert actual == (([], [expected]) if isinstance(expected, str) else ([expected], []))

    check_cases(check, [
        (lines, 22, 30, "red barn", (24, 32)),
        (lines, 4, 13, "line.\nTwo", (4, 14)),
        (lines, 4, 13, "line.\\nTwo", (4, 14)),
        (lines.replace("\r\n", "\r"), 22, 30, "red barn", (22, 30)),
        (lines, 0, 3, None, (0, 3)),
        (lines, 22, 30, None, "unclear_offsets"),
        (emoji, 10, 18, "red\\nbarn", (9, 17)),
        (emoji, 10, 18, "red\nbarn", (9, 17)),
        (emoji, 7, 15, None, "unclear_offsets"),
        (emoji, 7, 15, "green", "text_differs"),
        ("a dog, a dog, a dog", 8, 11, "dog", (9, 12)),
        ("😀" * 9 + "a dog, a dog", 27, 30, "dog", (18, 21)),
        ("literal \\n here", 8, 15, "\\n here", (8, 15)),
        ("short", -3, -1, "or", (2, 4)),
    ])  # fmt: skip


def test_a_region_with_several_labels_has_all_of_them(tmp_path: Path) -> None:
    regions = [
        result("mistakes", start=0, end=1, labels=["swap", "drop"]),
        result("mistakes", start=2, end=3, labels=["drop", "swap", "drop"]),
        result("mistakes", start=2, end=4, hypertextlabels=["drop", "other"]),
    ]
    rows, rejects = read(
        tmp_path, [task("a", annotation(*regions), generated="A dog.")], table="spans", span_labels=SPAN_LABELS
    )
    assert [(row["start"], row["end"], row["category"]) for row in rows] == [
        (0, 1, "swap+drop"), (2, 3, "drop+swap"), (2, 4, "drop")
    ]  # fmt: skip
    assert rejects == [(1, "unknown_label")]


def test_results_that_are_none_are_rejected_and_people_without_a_name_get_the_default(tmp_path: Path) -> None:
    results: list[Any] = [
        result("q", choices=["1"]),
        "x",
        5,
        {"value": {"choices": ["1"]}},
        {"from_name": "q", "value": 3},
    ]
    relation = {"type": "relation", "from_id": "a", "to_id": "b"}
    tasks = [
        task("a", annotation(*results, relation, completed_by=None), annotation(completed_by=8)),
        task({"id": 1}), task(2.0, annotation(completed_by=3.0)),
    ]  # fmt: skip
    rows, rejects = read(tmp_path, tasks, rater="anna")
    assert [(row["item_id"], row["rater"], row["answer"]) for row in rows] == [
        ("a", "anna", "1"), ("a", "8", "1"), ("2", "3", "1")
    ]  # fmt: skip
    assert rejects == [*[(1, "not_a_result")] * 4, (2, "no_item_id")]


OPTIONS = (Option("1", "low, $5", "w", "#123456"), Option("2", "high", "", ""))
TONE = FormQuestion("tone", "Tone?", "As a whole.", OPTIONS, (FormExample("A cup: low.", ""),))
CLEAR = FormQuestion("clear", "Clear?", "", OPTIONS, ())
SPANS = SpanLabels.from_dict({"name": "s", "texts": ["b", "a"], "kinds": [
    {"name": "slips", "kind": "slip", "text": "a", "labels": [{"value": "x", "label": "X", "hotkey": "1"}]},
    {"name": "gaps", "kind": "gap", "text": "b", "title": "Gaps", "guidance": "Mark.", "labels": [
        {"value": "y", "label": "Y", "colour": "#654321", "guidance": "Why"},
    ]},
]})  # fmt: skip
PLAIN = WelfareConfig(blur=False, report="", issue="", comment="")


def form(**keys: Any) -> Form:
    return Form(**{
        "rubric": "r", "instructions": "Read $first.", "questions": (TONE, CLEAR), "span_labels": None,
        "welfare": WelfareConfig(), "pictures": 2, "texts": ("a", "generated"), **keys,
    })  # fmt: skip


def controls(form: Form) -> tuple[Xml.Element, list[str]]:
    view = Xml.fromstring(config_xml(form))
    return view, [str(e.get("name")) for e in view.iter() if e.tag in ("Choices", "TextArea", "Labels")]


def attributes(view: Xml.Element, tag: str, *names: str) -> list[tuple[str | None, ...]]:
    return [tuple(element.get(name) for name in names) for element in view.iter(tag)]


def test_boxes_come_with_what_they_are_about() -> None:
    everything, names = controls(form())
    assert names == ["report_picture", "show_picture", "response_issue", "tone", "clear", "comment"]
    assert attributes(everything, "Image", "name", "value") == [("image", "$image"), ("image_2", "$image_2")]
    (asked,) = (e for e in everything.iter("View") if e.get("className") == "remine-ask")
    assert (asked.get("whenTagName"), asked.get("whenChoiceValue")) == ("report_picture", "Report this picture")
    assert asked.get("visibleWhen") == "choice-unselected"
    plain, names = controls(form(welfare=PLAIN))
    assert names == ["tone", "clear"]
    assert not [e for e in plain.iter() if e.get("whenTagName") or e.get("className") == "remine-blurred"]
    nothing, names = controls(form(pictures=0, texts=()))
    assert names == ["tone", "clear", "comment"]
    assert attributes(nothing, "Image", "name") == attributes(nothing, "Text", "name") == []
    boxes = WelfareConfig(
        report="Report, please", report_help="To us.", issue_help="To them.", notice="Careful.", skip_help="Or skip."
    )
    view = controls(form(welfare=boxes))[0]
    headers = [value for (value,) in attributes(view, "Header", "value")]
    assert {"Careful.", "To us.", "To them.", "Read \uff04first."} <= set(headers)
    assert attributes(view, "Choice", "value", "hotkey")[:3] == [
        ("Report\uff0c please", "-"), ("Show the picture", "."), ("Something is wrong with this response", "l")
    ]  # fmt: skip
    assert headers[:3] == ["Careful.", "Read \uff04first.", "Or skip."]


def test_controls_and_pictures_behave_as_people_need() -> None:
    view, _ = controls(form(pictures=1))
    (instruction,) = view.iter("HyperText")
    assert instruction.attrib == {
        "name": "task",
        "value": "$instruction_html",
        "inline": "true",
        "clickableLinks": "true",
    }
    (image,) = view.iter("Image")
    assert image.attrib == {"name": "image", "value": "$image", "zoom": "true", "zoomControl": "true"}
    (comment,) = view.iter("TextArea")
    assert comment.attrib == {
        "name": "comment", "toName": "task", "rows": "2", "maxSubmissions": "1", "editable": "true"
    }  # fmt: skip
    box, *_, question = (choices.attrib for choices in view.iter("Choices"))
    assert box == {"name": "report_picture", "toName": "task", "choice": "multiple", "showInline": "true"}
    assert (question["toName"], question["showInline"]) == ("task", "false")
    marked, _ = controls(form(span_labels=SPANS, texts=("a", "b")))
    assert attributes(marked, "Labels", "showInline") == [("true",)] * 2
    assert any("Keep label selected" in str(value) for (value,) in attributes(marked, "Header", "value"))
    assert not any("Keep label" in str(value) for (value,) in attributes(view, "Header", "value"))


def test_a_name_that_two_parts_of_a_task_have_is_refused() -> None:
    free_texts = (FreeText("why", "Why?"),)
    for keys in ({}, {"span_labels": SPANS, "texts": ("a", "b"), "free_texts": free_texts}):
        check(form(**keys))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"texts": ("target",)}, "target"),
        ({"texts": ("condition",)}, "condition"),
        ({"texts": ("item",)}, "item_id"),
        ({"texts": ("image_2",)}, "image_2"),
        ({"texts": ("task",)}, "task"),
        ({"texts": ("own_questions",)}, "own_questions"),
        ({"texts": ("tone",)}, "tone"),
        ({"texts": ("a", "a_id")}, "a_id"),
        ({"texts": ("a", "slips"), "span_labels": SPANS}, "slips"),
        ({"texts": ("remark_why",), "free_texts": free_texts}, "remark_why"),
        ({"questions": (replace(TONE, name="comment"),)}, "comment"),
    ]

    def check_case(keys: dict[str, Any], name: str) -> None:
        with pytest.raises(ValueError, match=f"^tool=label_studio: two parts of a task are called '{name}'; rename"):
            check(form(**keys))

    check_cases(check_case, cases)


def test_a_question_has_its_options_guidance_and_examples() -> None:
    view, _ = controls(form(welfare=PLAIN))
    assert attributes(view, "Choice", "alias", "value", "hotkey", "style")[:2] == [
        ("1", "low, \uff045", "w", "border-left: 8px solid #123456; padding-left: 8px"), ("2", "high", None, None)
    ]  # fmt: skip
    assert attributes(view, "Choices", "name", "choice", "required", "requiredMessage") == [
        ("tone", "single-radio", "true", "Not answered yet: Tone?"),
        ("clear", "single-radio", "true", "Not answered yet: Clear?"),
    ]
    headers = [value for (value,) in attributes(view, "Header", "value")]
    assert headers == ["Read \uff04first.", "a", "generated", "Tone?", "As a whole.", "A cup: low.", "Clear?"]
    assert len(list(view.iter("Panel"))) == 1


def test_texts_to_mark_are_in_the_order_of_reading_and_shown_once() -> None:
    view, names = controls(form(span_labels=SPANS, texts=("a", "b", "c"), questions=(), welfare=PLAIN))
    assert names == ["gaps", "slips"]
    assert attributes(view, "Labels", "name", "toName") == [("gaps", "b"), ("slips", "a")]
    assert attributes(view, "Text", "name", "value", "saveTextResult") == [
        ("c", "$c", None), ("b", "$b", "yes"), ("a", "$a", "yes")
    ]  # fmt: skip
    assert attributes(view, "Label", "alias", "value", "background", "hotkey", "hint") == [
        ("y", "Y", "#654321", None, "Why"), ("x", "X", None, "1", None)
    ]  # fmt: skip
    headers = [value for (value,) in attributes(view, "Header", "value")]
    assert [text for text in headers if text in ("Gaps", "Mark.", "slips", "gaps")] == ["Gaps", "Mark.", "slips"]


def test_free_texts_follow_their_question() -> None:
    fields = (FreeText("all", "All?"), FreeText("why", "Why?", guidance="Briefly.", question="tone"))
    view, names = controls(form(free_texts=fields, welfare=PLAIN))
    assert names == ["tone", "remark_why", "clear", "remark_all"]
    headers = [value for (value,) in attributes(view, "Header", "value")]
    assert headers[-4:] == ["Why?", "Briefly.", "Clear?", "All?"]


@pytest.mark.parametrize("blur", [True, False])
def test_a_picture_is_blurred_on_request(blur: bool) -> None:
    view, names = controls(form(welfare=WelfareConfig(blur=blur)))
    assert ("show_picture" in names) is blur
    assert any(e.get("className") == "remine-blurred" for e in view.iter("View")) is blur


def test_a_task_has_what_the_form_and_the_reader_need() -> None:
    texts = {"a": ("t1", "A dog."), "generated": ("t2", "A cat.")}
    item = ShownItem("i", ("p", "q"), ("https://x/1.jpg", "https://x/2.jpg"), (), texts, ())
    data = label_studio.task(form(), item, target="joy", assigned_to="bo", place=3)["data"]
    assert data == {
        "item_id": "i", "target": "joy", "rubric": "r", "questions": ["tone", "clear"], "image_ids": ["p", "q"],
        "instruction_html": "<p><strong>joy</strong></p>", "place": 3, "asks_issue": True, "assigned_to": "bo",
        "image": "https://x/1.jpg", "image_2": "https://x/2.jpg", "a": "A dog.", "a_id": "t1", "generated": "A cat.",
        "generated_id": "t2",
    }  # fmt: skip
    bare = label_studio.task(form(texts=()), item, target="", assigned_to=None, place=1)["data"]
    assert (bare["asks_issue"], "assigned_to" in bare) == (False, False)
    asking = form(questions=(), own_question=CLEAR)
    set_of_two = ShownItem("i", (), (), (), {}, (), OwnSet("s", (("1", "Red?"), ("2", "Blue?"))))
    data = label_studio.task(asking, set_of_two, target="s", assigned_to=None, place=1)["data"]
    assert (data["questions"], data["own_questions"]) == (
        ["1", "2"], [{"question_id": "1", "text": "Red?"}, {"question_id": "2", "text": "Blue?"}]
    )  # fmt: skip
    assert [picture_field(number) for number in range(3)] == ["image", "image_2", "image_3"]
