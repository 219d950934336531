"""A rubric's variant for people: the form that is read, and mistakes with their places."""

import re
from typing import Any

import pytest

from actors.rubrics.people import (
    FreeText,
    PeopleExample,
    PeopleOption,
    PeopleQuestion,
    PeopleVariant,
    people_variant,
)
from tests.cases import check_cases

VALUES = {"mood": ("1", "2"), "place": ("yes", "no")}
OPTION: dict[str, Any] = {"label": "Low", "value": 1}
EXAMPLE = {"picture": "a dance", "value": "1", "why": "it is calm"}


def read(data: Any) -> PeopleVariant:
    variant = people_variant(data, values=VALUES, where="R")
    assert variant is not None
    return variant


def test_what_is_stated_is_read_without_white_space_around_it() -> None:
    option = {"label": " Low ", "value": 1, "hotkey": " a ", "colour": "#1f77B4"}
    example = {"picture": " a dance ", "value": 2, "why": " it is loud ", "image": "https://a.org/1.jpg"}
    data = {
        "instructions": " Look.\n",
        "questions": {
            "place": {"options": [{"label": "Skip", "value": None}]},
            "mood": {"options": [option], "guidance": " Be quick.\n", "examples": [example]},
        },
        "free_texts": [
            {"name": "error_1", "label": " Errors ", "guidance": " All. ", "question": "mood", "separator": ";"},
            {"name": "note", "label": "Notes"},
        ],
    }
    variant = read(data)
    assert variant == PeopleVariant(
        "Look.",
        {
            "place": PeopleQuestion("", (PeopleOption("Skip", None),), ()),
            "mood": PeopleQuestion(
                "Be quick.",
                (PeopleOption("Low", "1", "a", "#1f77B4"),),
                (PeopleExample("a dance", "2", "it is loud", "https://a.org/1.jpg"),),
            ),
        },
        (FreeText("error_1", "Errors", "All.", "mood", ";"), FreeText("note", "Notes")),
    )
    assert list(variant.questions) == ["place", "mood"], "in people's order"


def test_a_variant_without_more_than_questions() -> None:
    assert read({"questions": {}}) == PeopleVariant("", {}, ())
    assert read({"questions": {"mood": {"options": [OPTION], "examples": None}}, "free_texts": None}) == PeopleVariant(
        "", {"mood": PeopleQuestion("", (PeopleOption("Low", "1"),), ())}
    )
    assert people_variant(None, values=VALUES, where="R") is None


def test_addresses_of_pictures() -> None:
    def check(image: str, allowed: bool) -> None:
        data = {"questions": {"mood": {"options": [OPTION], "examples": [{**EXAMPLE, "image": image}]}}}
        if allowed:
            assert read(data).questions["mood"].examples[0].image == image
        else:
            with pytest.raises(
                ValueError, match=rf"^R, questions, 'mood', examples, entry 1, image: '{re.escape(image)}' must be an a"
            ):
                read(data)

    check_cases(check, [
        ("https://a.org/1.jpg", True), ("http://a.org/", True), ("/data/1.jpg", True),
        ("https://a.org", False), ("https://u@a.org/1.jpg", False), ("data/1.jpg", False), ("ftp://a.org/1", False),
        ("https://a.org/1 2.jpg", False), ("javascript:x()", False),
    ])  # fmt: skip


def test_mistakes_have_their_place() -> None:
    def of_question(**changes: Any) -> dict[str, Any]:
        return {"questions": {"mood": {"options": [OPTION], **changes}}}

    def of_option(**changes: Any) -> dict[str, Any]:
        return of_question(options=[OPTION | changes])

    def of_field(**changes: Any) -> dict[str, Any]:
        return of_question() | {"free_texts": [{"name": "note", "label": "Notes"} | changes]}

    mood = "R, questions, 'mood'"
    cases: list[tuple[Any, str]] = [
        ({}, "R: missing key 'questions'"),
        ({"questions": []}, "R, questions: [] must be a mapping"),
        ({"questions": {"other": {"options": []}}}, "R: unknown question 'other'; the rubric's questions are mood"),
        (of_question() | {"more": 1}, "R: unknown key 'more'; must be one of questions, instructions, free_texts"),
        (of_question(more=1), f"{mood}: unknown key 'more'; must be one of options, guidance, examples"),
        (of_question(options="x"), f"{mood}, options: 'x' must be a list"),
        (of_question(examples="x"), f"{mood}, examples: 'x' must be a list"),
        (of_question(options=[OPTION, OPTION]), f"{mood}: duplicate option label 'Low'"),
        (of_question(options=[OPTION, {**OPTION, "value": 3}]), f"{mood}: unknown value '3'; the question's values"),
        (of_question(examples=[{**EXAMPLE, "value": "yes"}]), f"{mood}: unknown value 'yes'; the question's values"),
        (of_question(examples=[{**EXAMPLE, "more": 1}]), f"{mood}, examples, entry 1: unknown key 'more'"),
        *((of_question(examples=[{**EXAMPLE, key: " "}]), f"{mood}, examples, entry 1, {key}: ' ' must be a text")
          for key in ("picture", "value", "why")),
        (of_option(more=1), f"{mood}, options, entry 1: unknown key 'more'; must be one of label, value, hotkey"),
        (of_option(value=True), f"{mood}, options, entry 1, value: True is a boolean"),
        (of_option(label=""), f"{mood}, options, entry 1, label: '' must be a text"),
        *((of_option(colour=colour), f"{mood}, options, entry 1, colour: '{colour}' must have the form #1f77b4")
          for colour in ("red", "#1f77b", "#1f77b4a", "#1g77b4")),
        (of_option(hotkey=["a"]), f"{mood}, options, entry 1, hotkey: ['a'] must be a text"),
        ({**of_question(), "free_texts": "x"}, "R, free_texts: 'x' must be a list"),
        ({**of_question(), "free_texts": [{"name": "a"}]}, "R, free_texts, entry 1: missing key 'label'"),
        (of_field(more=1), "R, free_texts, entry 1: unknown key 'more'; must be one of name, label, guidance"),
        *((of_field(name=name), f"R, free_texts, entry 1, name: '{name}' must have lower-case letters")
          for name in ("Note", "1st", "_a", "a-b")),
        (of_field(label=" "), "R, free_texts, entry 1, label: ' ' must be a text"),
        (of_field(question="place"), "R, free_texts, note: question 'place' must be one of mood"),
        (of_field(separator=[";"]), "R, free_texts, entry 1, separator: [';'] must be a text"),
        ({**of_question(), "free_texts": [{"name": "a", "label": label} for label in "xy"]},
         "R, free_texts: duplicate name 'a'"),
    ]  # fmt: skip

    def check(data: Any, message: str) -> None:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            people_variant(data, values=VALUES, where="R")

    check_cases(check, cases)
