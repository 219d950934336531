"""Label Studio's form and tasks: which controls they have, and what depends on welfare and on texts."""

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from actors.rubrics.people import FreeText
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
from jobs.annotation.span_labels import SpanLabels
from jobs.annotation.tools.label_studio import check, config_xml, task
from tests.cases import check_cases

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
    data = task(form(), item, target="joy", assigned_to="bo", place=3)["data"]
    assert data == {
        "item_id": "i", "target": "joy", "rubric": "r", "questions": ["tone", "clear"], "image_ids": ["p", "q"],
        "instruction_html": "<p><strong>joy</strong></p>", "place": 3, "asks_issue": True, "assigned_to": "bo",
        "image": "https://x/1.jpg", "image_2": "https://x/2.jpg", "a": "A dog.", "a_id": "t1", "generated": "A cat.",
        "generated_id": "t2",
    }  # fmt: skip
    bare = task(form(texts=()), item, target="", assigned_to=None, place=1)["data"]
    assert (bare["asks_issue"], "assigned_to" in bare) == (False, False)
    asking = form(questions=(), own_question=CLEAR)
    set_of_two = ShownItem("i", (), (), (), {}, (), OwnSet("s", (("1", "Red?"), ("2", "Blue?"))))
    data = task(asking, set_of_two, target="s", assigned_to=None, place=1)["data"]
    assert (data["questions"], data["own_questions"]) == (
        ["1", "2"], [{"question_id": "1", "text": "Red?"}, {"question_id": "2", "text": "Blue?"}]
    )  # fmt: skip
    assert [picture_field(number) for number in range(3)] == ["image", "image_2", "image_3"]
