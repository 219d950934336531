"""Instructions written by hand: what is refused, the pieces of a turn, and what their identity rests on."""

from typing import Any

import pytest

from actors.rubrics.instructions import Instruction, asked_questions, identity
from actors.rubrics.rubric import Rubric
from tests.cases import check_cases

DATA: dict[str, Any] = {
    "name": "n",
    "version": 1,
    "source": "s",
    "context": {"fields": ["title", "text"], "cut": ["text"]},
    "parts": {
        "ask": "Describe {{ target }}.",
        "context": "{% if title %}Title: {{ title }}{% endif %}",
        "list": "{% for question in questions %}{{ question.name }}: {{ question.note }}{% endfor %}",
    },
    "order": ["context", "ask", "picture", "list"],
}


def test_files_that_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"more": 1}, ": unknown key 'more'"),
        *(({key: None}, f", {key}: None must be a") for key in ("version", "source", "parts")),
        ({"order": None}, ", order: at least one part is required"),
        ({"context": {"fields": ["a"], "first": 1}}, ", context: unknown key 'first'"),
        ({"context": ["title"]}, r", context: \['title'\] must be a mapping"),
        ({"context": {"fields": "title"}}, ", context, fields: 'title' must be a list"),
        ({"context": {"fields": ["title", "text", "title"]}}, ", context, fields: duplicate entry 'title'"),
        ({"context": {"fields": ["title"], "cut": ["text"]}}, ", context, cut: unknown field 'text'; fields are title"),
        ({"context": {"fields": ["title"], "cut": "title"}}, ", context, cut: 'title' must be a list"),
        ({"parts": ["ask"]}, r", parts: \['ask'\] must be a mapping"),
        ({"order": "ask"}, ", order: 'ask' must be a list"),
        ({"order": ["picture"]}, ", order: at least one part"),
        ({"order": ["ask", "more"]}, ", order: .*'more'"),
        ({"system": True}, ", system: True is a boolean"),
        ({"system": "{{ d }} {{ b }} {{ e }} {{ c }} {{ f }}"}, ", part 'system': .*unknown word 'b'"),
        ({"start": "{{ more }}"}, ", part 'start': .*'more'; must be one of questions, target, text, title"),
        ({"start": "{{ 'x' * 10001 if title }}"}, ", part 'start': not a valid template: .*at most"),
        ({"start": "{{ 'x' * 10001 if not title }}"}, ", part 'start': not a valid template: .*at most"),
        ({"parts": {"ask": "{{ questions[0].name + 1 }}"}, "order": ["ask"]}, ", part 'ask': not a valid template"),
    ]  # fmt: skip

    def check(changes: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=f"^prompt 'n'{message}"):
            Instruction.from_dict(DATA | changes)

    check_cases(check, cases)
    with pytest.raises(ValueError, match=r"^prompt: missing key 'name'"):
        Instruction.from_dict({key: value for key, value in DATA.items() if key != "name"})


def test_adjacent_texts_of_a_turn_are_joined_and_empty_ones_left_out() -> None:
    instruction = Instruction.from_dict(DATA | {"system": " About {{ title }}. ", "start": "Title {{ target }}:\n"})
    questions = [{"name": "mood", "note": "", "text": "?", "answers": []}]
    values: dict[str, Any] = {"target": "Rome", "questions": questions}
    assert instruction.render({"title": " A war \n"}, **values) == ["Title: A war\n\nDescribe Rome.", None, "mood:"]
    assert instruction.render({"text": "x"}, **values | {"questions": []}) == ["Describe Rome.", None]
    assert instruction.render_system({"title": "A war"}, **values) == "About A war."
    assert instruction.render_system({}, **values) == "About ."
    assert instruction.begin(**values) == "Title Rome:\n"
    plain = Instruction.from_dict(DATA | {"start": "Title {{ target }}:"})
    assert (plain.begin(**values), plain.render_system({})) == ("Title Rome:", "")


def test_words_and_pictures_of_the_parts_in_use() -> None:
    def parts_in_use(**changes: Any) -> tuple[set[str], int | None, bool]:
        instruction = Instruction.from_dict(DATA | changes)
        return instruction.words, instruction.picture_count, instruction.shows_picture

    assert parts_in_use() == ({"title", "target", "questions"}, 1, True)
    assert parts_in_use(order=["list"]) == ({"questions"}, 0, False)
    assert parts_in_use(order=["list"], system="{{ text }}", start="{{ target }}") == (
        {"questions", "text", "target"},
        0,
        False,
    )
    assert parts_in_use(order=["picture1", "ask", "picture2"]) == ({"target"}, 2, True)


def test_identity_rests_on_what_the_model_reads() -> None:
    ask = DATA["parts"]["ask"]
    changes: list[dict[str, Any]] = [
        {"name": "m"},
        {"context": {"fields": ["title", "text"]}},
        {"context": {"fields": ["text", "title"], "cut": ["text"]}},
        {"parts": DATA["parts"] | {"ask": f"{ask} Be brief."}},
        {"order": ["ask", "picture", "list"]},
        {"order": ["ask", "context", "picture", "list"]},
        {"system": "Be brief."},
        {"start": "It"},
    ]
    hashes = {identity(Instruction.from_dict(DATA | change)) for change in changes}
    assert len(hashes | {identity(Instruction.from_dict(DATA))}) == len(changes) + 1
    same = {"version": 2, "source": "elsewhere", "parts": DATA["parts"] | {"unused": "x"}}
    assert identity(Instruction.from_dict(DATA | same)) == identity(Instruction.from_dict(DATA))


def test_questions_as_words(small: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^rubric=relevance: asks about targets"):
        asked_questions(Rubric.from_dict(small))
    plain = {key: value for key, value in small.items() if key != "targets"}
    plain["parts"] = small["parts"] | {"question": "{{ question }}"}
    (question,) = small["questions"]
    expected = {"name": "relevance", "text": question["text"], "note": "", "answers": [
        {"value": answer["value"], "label": answer["label"]} for answer in question["answers"]
    ]}  # fmt: skip
    assert asked_questions(Rubric.from_dict(plain)) == [expected]
    per_item = plain | {"questions": [question | {"name": "*"}]}
    with pytest.raises(ValueError, match=r"^rubric=relevance: asks each item its own questions"):
        asked_questions(Rubric.from_dict(per_item))
