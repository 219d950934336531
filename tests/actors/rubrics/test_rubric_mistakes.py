"""Mistakes in rubrics are refused when they are built; each error names the place and the value."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from actors.rubrics import rubric_forms
from actors.rubrics.rubric import Rubric
from tests.actors.vlm.helpers import ANSWERS, PEOPLE, QUESTION
from tests.cases import check_cases

Change = Callable[[dict[str, Any]], Any]

REFUSED: dict[str, tuple[Change, str]] = {
    "unknown key": (lambda d: d.update(colour=1), "unknown key 'colour'"),
    "missing key": (lambda d: d.pop("questions"), "missing key 'questions'"),
    "a missing key and a key of a question": (
        lambda d: (d.pop("layout"), QUESTION(d).update(hint=1)),
        "missing key 'layout'.*also: .*unknown key 'hint'",
    ),
    "missing key next to others": (lambda d: d.pop("layout"), "missing key 'layout'"),
    "unknown key of a question": (lambda d: QUESTION(d).update(hint=1), "'relevance'.*unknown key 'hint'"),
    "unknown key of an answer": (lambda d: ANSWERS(d)[0].update(text=1), "unknown key 'text'"),
    "unknown key of the context": (lambda d: d["context"].update(limit=3), "unknown key 'limit'"),
    "no questions": (lambda d: d.update(questions=[]), "questions: at least one is required"),
    "questions not a list": (lambda d: d.update(questions="x"), "must be a list"),
    "a question of the items next to another": (
        lambda d: d["questions"].append({**QUESTION(d), "name": "*"}),
        "must be the only one",
    ),
    "a question of the items with targets": (lambda d: QUESTION(d).update(name="*"), "which have no targets"),
    "unknown reply": (lambda d: QUESTION(d).update(reply="word"), "reply: 'word' must be one of code, label"),
    "the target in the system's turn": (lambda d: d.update(system="{{ target }}"), "system: unknown word 'target'"),
    "no layouts": (lambda d: d.update(layouts={}), "layouts: at least one is required"),
    "ordinal with a Boolean": (lambda d: ANSWERS(d)[1].update(score=True), "answers: score True of 'mid'"),
    "question twice": (lambda d: d["questions"].append(QUESTION(d)), "duplicate question 'relevance'"),
    "answer value twice": (lambda d: ANSWERS(d)[1].update(value="low"), "duplicate answer value 'low'"),
    "answer label twice": (lambda d: ANSWERS(d)[1].update(label="Relevant"), "duplicate answer label 'Relevant'"),
    "empty label": (lambda d: ANSWERS(d)[1].update(label=" "), "answer 2, label: ' '"),
    "boolean value": (lambda d: ANSWERS(d)[1].update(value=True), "True is a boolean"),
    "one answer for several": (
        lambda d: QUESTION(d).update(answers=[{"value": "1..3", "label": "x"}]),
        r"answers: 1 of them; .*; write \[1, 2, 3\]",
    ),
    "one answer": (lambda d: QUESTION(d).update(answers=ANSWERS(d)[:1]), "answers: 1 of them"),
    "27 answers": (
        lambda d: QUESTION(d).update(
            scale="nominal", answers=[{"value": f"v{n}", "label": f"l{n}"} for n in range(27)]
        ),
        "answers: 27 of them",
    ),
    "unknown scale": (
        lambda d: QUESTION(d).update(scale="interval"),
        "scale: 'interval' must be one of ordinal, nominal",
    ),
    "ordinal without a number": (
        lambda d: ANSWERS(d)[1].pop("score"),
        "no score of 'mid', .*write {value: mid, label: mid, score: 1}",
    ),
    "ordinal with a word": (lambda d: ANSWERS(d)[1].update(score="2"), "score '2' of 'mid' must be a finite number"),
    "ordinal with infinity": (
        lambda d: ANSWERS(d)[1].update(score=float("inf")),
        "score inf of 'mid' must be a finite number",
    ),
    "score twice": (lambda d: ANSWERS(d)[1].update(score=1), "duplicate answer score 1.0"),
    "nominal with a number": (
        lambda d: QUESTION(d).update(scale="nominal"),
        "answers: score 1 of 'low', .* is not allowed with scale: nominal",
    ),
    "no picture": (
        lambda d: d["layouts"].update(fast=["context", "scale", "question"]),
        "must have its pictures, and at least one, before",
    ),
    "picture after what differs": (
        lambda d: d["layouts"].update(fast=["context", "question", "picture", "scale"]),
        "'fast' must have its pictures, and at least one, before",
    ),
    "layout with an unknown part": (
        lambda d: d["layouts"].update(fast=["picture", "preface", "question", "scale"]),
        "unknown part 'preface'",
    ),
    "layout without the options": (
        lambda d: d["layouts"].update(fast=["picture", "question"]),
        "does not use {{ options }}",
    ),
    "default layout that is not there": (
        lambda d: d["layouts"].pop("fast"),
        "layout: 'fast' must be one of layouts: paper",
    ),
    "target that one layout leaves out": (
        lambda d: (
            d["parts"].update(plain="{{ question }}"),
            d["layouts"].update(fast=["picture", "context", "scale", "plain"]),
        ),
        "'fast' does not use {{ target }}",
    ),
    "targets that no part names": (lambda d: d["parts"].update(question="{{ question }}"), "no part uses {{ target }}"),
    "no question about targets": (lambda d: QUESTION(d).update(targets=False), "every question has targets: false"),
    "targets of a question": (lambda d: QUESTION(d).update(targets="no"), "targets: 'no' must be false"),
    "target twice": (lambda d: d.update(targets=["a", "a"]), "duplicate entry 'a'"),
    "undeclared context": (lambda d: d["parts"].update(context="{{ caption }}"), "unknown word 'caption'"),
    "a global of Jinja's": (lambda d: d["parts"].update(context="{{ range(9) }}"), "unknown word 'range'"),
    "not a template": (lambda d: d["parts"].update(context="{% if %}"), "not a valid template"),
    "Python behind a string": (lambda d: d["parts"].update(context="{{ ''.__class__ }}"), "cannot be rendered"),
    "Python behind a field": (
        lambda d: d["parts"].update(context="{{ title.__class__.__mro__ }}"),
        "cannot be rendered",
    ),
    "part named picture": (lambda d: d["parts"].update(picture="x"), "a part is named 'picture'"),
    "field named as a word": (lambda d: d["context"].update(fields=["target"], cut=[]), "context field 'target'"),
    "cut of a field that is not there": (lambda d: d["context"].update(cut=["body"]), "unknown field 'body'"),
    "people asked something else": (
        lambda d: d.update(people={"questions": {"mood": {"options": []}}}),
        "unknown question 'mood'",
    ),
    "people's option without a meaning": (
        lambda d: (
            d.update(people=copy.deepcopy(PEOPLE)),
            d["people"]["questions"]["relevance"]["options"][0].update(value="x"),
        ),
        "unknown value 'x'",
    ),
    "people's example with another value": (
        lambda d: (
            d.update(people=copy.deepcopy(PEOPLE)),
            d["people"]["questions"]["relevance"].update(examples=[{"picture": "a dance", "value": "x", "why": "y"}]),
        ),
        "unknown value 'x'",
    ),
    "people's example without a reason": (
        lambda d: (
            d.update(people=copy.deepcopy(PEOPLE)),
            d["people"]["questions"]["relevance"].update(examples=[{"picture": "a dance", "value": "x"}]),
        ),
        "examples, entry 1: missing key 'why'",
    ),
    "people's example with a misspelt key": (
        lambda d: (
            d.update(people=copy.deepcopy(PEOPLE)),
            d["people"]["questions"]["relevance"].update(
                examples=[{"picture": "a dance", "value": "x", "why": "y", "imgae": "/a.jpg"}]
            ),
        ),
        "examples, entry 1: unknown key 'imgae'",
    ),
}


def test_refused(small: dict[str, Any]) -> None:
    Rubric.from_dict(small)  # valid until it is changed
    misses = []
    for case, (change, message) in REFUSED.items():
        rubric = copy.deepcopy(small)
        change(rubric)
        try:
            Rubric.from_dict(rubric)
        except ValueError as error:
            if not re.search(message, str(error)):
                misses.append(f"{case}: {error}")
        else:
            misses.append(f"{case}: accepted")
    assert not misses


def test_all_mistakes_are_named_at_once(small: dict[str, Any]) -> None:
    QUESTION(small).update(scale="interval")
    small["questions"].append({"name": "second", "text": "?", "scale": "nominal", "answers": ["one"]})
    small["parts"]["context"] = " "
    with pytest.raises(ValueError, match=r"scale: 'interval' .*answers: 1 of them.*part 'context'") as caught:
        Rubric.from_dict(small)
    assert str(caught.value).count("; also: ") == 2
    assert str(caught.value).count(f"rubric {small['name']!r}") == 1


def refusal(data: dict[str, Any]) -> str:
    """Return the message about a rubric that must be refused."""
    with pytest.raises(ValueError, match=r"^rubric") as caught:
        Rubric.from_dict(data)
    return str(caught.value)


def test_a_short_rubric_needs_a_name_and_questions_only() -> None:
    questions = [{"name": "q", "text": "?", "answers": [1, 2]}]
    assert refusal({"questions": questions}) == "rubric: missing key 'name'; required are name, questions"
    assert refusal({"name": "r"}) == "rubric 'r': missing key 'questions'; required are name, questions"
    with_parts = refusal({"name": "r", "questions": questions, "parts": {"question": "{{ question }} {{ options }}"}})
    assert with_parts.endswith("required are name, questions, parts, layouts, layout")
    assert "missing key 'layouts', 'layout'" in with_parts


def test_messages_about_answers_show_the_form_to_write() -> None:
    forms = ["[1, 2, 3]", "[yes, no]", "{value: …, label: …, score: …}"]
    cases: dict[str, tuple[str, list[str]]] = {
        "numbered": (
            "{1: low, 2: mid}",
            [*forms, "write [{value: 1, label: low, score: 1}, …] with scale: ordinal"],
        ),
        "scored": ("{no: 1, yes: 2}", ["write [{value: no, label: no, score: 1}, …] with scale: ordinal"]),
        "named": ("{lo: low, hi: high}", ["write [{value: lo, label: low}, …] with scale: nominal"]),
        "number": ("5", ["answers: 5 must be a list", *forms]),
        "two words": ("yes/no", ["answers: 'yes/no' must be a list", *forms, "write [yes, no]"]),
        "range": ("1..5", ["answers: '1..5' must be a list", "write [1, 2, 3, 4, 5]"]),
        "range in a list": ("[1..5]", ["answers: 1 of them", "write [1, 2, 3, 4, 5]"]),
        "range with a dash": ("['-1 - 1']", ["answers: 1 of them", "write [-1, 0, 1]"]),
        "words without scores": (
            "[low, mid]\n  scale: ordinal",
            ["no score of 'low', 'mid'", "write {value: low, label: low, score: 1}", "or scale: nominal"],
        ),
        "labels without a scale": (
            "[{value: a, label: A}, {value: b, label: B}]",
            ["missing key 'scale'; required are name, text, scale, answers"],
        ),
    }

    def check(answers: str, parts: list[str]) -> None:
        message = refusal({"name": "r", "questions": yaml.safe_load(f"- name: q\n  text: x\n  answers: {answers}")})
        assert message.startswith("rubric 'r', question 'q'"), message
        assert [part for part in parts if part not in message] == [], message
        assert "also:" not in message
        assert ("missing key" in message) == ("missing key" in parts[0])

    check_cases(check, cases)
    for unclear in ("1..99", "5..1", "[much]", "soon"):
        question = yaml.safe_load(f"[{{name: q, text: x, answers: {unclear}}}]")
        assert "; write" not in refusal({"name": "r", "questions": question})


def test_a_question_without_a_usable_name_is_called_by_its_place() -> None:
    answers = [1, 2]
    good = {"name": "first", "text": "?", "answers": answers}
    for third, mistake in (
        ({"text": "?", "answers": answers}, "question 3: missing key 'name'; required are name, text, answers"),
        ({"name": True, "text": "?", "answers": answers}, "question 3, name: True is a boolean"),
        ({"name": "  ", "text": "?", "answers": answers}, "question 3, name: '  ' must be a text"),
        ("shown", "question 3: 'shown' must be a mapping"),
    ):
        message = refusal({"name": "r", "questions": [good, {**good, "name": "second"}, third]})
        assert mistake in message
        assert "also:" not in message


def test_tags_of_templates_are_refused_where_they_would_reach_the_model() -> None:
    question = {"name": "q", "text": "How?", "note": "", "scale": "nominal"}
    labelled = [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]
    for key, change, tag in (
        ("text", {"text": "How {{ title }}?"}, "{{ title }}"),
        ("note", {"note": "{% if title %}Look twice.{% endif %}"}, "{% if title %}"),
        ("answer 2, label", {"answers": [labelled[0], {"value": "b", "label": "{{ b }}"}]}, "{{ b }}"),
    ):
        message = refusal({"name": "r", "questions": [{**question, "answers": labelled, **change}]})
        assert f"question 'q', {key}: {tag} would reach the model as it is written; " in message
        assert "use context fields and {{ target }} in a part" in message
    short = {"name": "r", "questions": [{**question, "answers": labelled}]}
    assert "answer_start: {{ x }} would reach the model" in refusal({**short, "answer_start": "{{ x }}"})
    braces = {**question, "answers": labelled, "text": "Is {it} {{ or 50 %} more?"}
    assert Rubric.from_dict({"name": "r", "questions": [braces]}).questions[0].text == braces["text"]


def test_all_mistakes_of_questions_are_named_at_once() -> None:
    wrong = {"name": "q", "text": "", "answers": [1, 2], "targets": "perhaps", "reply": "word", "scale": "interval"}
    message = refusal({"name": "r", "questions": [{"name": "q", "text": "?", "answers": ["a", "b", "a", "b"]}, wrong]})
    for part in (
        "duplicate answer value 'a', 'b'",
        "question 'q', text: '' must be",
        "question 'q', targets: 'perhaps' must be",
        "question 'q', reply: 'word' must be",
        "question 'q', scale: 'interval' must be",
        "duplicate question 'q'",
    ):
        assert message.count(part) == 1, (part, message)
    assert message.count("; also: ") == 5


def test_all_mistakes_of_parts_are_named_at_once(small: dict[str, Any]) -> None:
    small["parts"] |= {"context": "{{ caption }}", "scale": "{{ options }} {{ hint }}"}
    small["system"] = "{{ target }}"
    small["context"]["cut"] = ["body"]
    small["people"] = {"questions": {"mood": {"options": []}}}
    message = refusal(small)
    for word in (
        "part 'context': unknown word 'caption'",
        "part 'scale': unknown word 'hint'",
        "system: unknown word",
        "context, cut: unknown field 'body'",
        "people: unknown question 'mood'",
    ):
        assert word in message
    empty = refusal({**small, "parts": {"context": "", "scale": " ", "question": "x"}})
    assert "part 'context'" in empty
    assert "part 'scale'" in empty


def test_all_mistakes_of_layouts_are_named_at_once(small: dict[str, Any]) -> None:
    small["layouts"] = {"paper": ["picture", "question"], "fast": ["picture", "preface"]}
    message = refusal({**small, "layout": "slow"})
    for part in ("layout: 'slow' must be", "layout 'paper' does not use {{ options }}", "unknown part 'preface'"):
        assert part in message


def test_not_a_mapping() -> None:
    with pytest.raises(ValueError, match="must be a mapping"):
        Rubric.from_dict([])  # type: ignore[arg-type]


def test_answers_that_are_no_list_are_rewritten_if_their_meaning_is_certain() -> None:
    one_to_three = "; write [1, 2, 3]"
    cases: list[tuple[Any, str]] = [
        *((text, one_to_three) for text in ("1..3", "1...3", " 1 .. 3 ", "1-3", "1–3", "1…3", "1 to 3")),
        ("-1..1", "; write [-1, 0, 1]"),
        ("0..25", f"; write {list(range(26))}"),
        ("0..26", ""),
        ("3..3", ""),
        ("3..4", "; write [3, 4]"),
        ("3..1", ""),
        *((text, "; write [yes, no]") for text in ("yes/no", "yes, no", "yes |no", "yes; no")),
        ("yes", ""),
        ("yes//no", ""),
        ({1: "low", 2: "high"}, "; write [{value: 1, label: low, score: 1}, …] with scale: ordinal"),
        ({"low": 1.5}, "; write [{value: low, label: low, score: 1.5}, …] with scale: ordinal"),
        ({True: "certain"}, "; write [{value: yes, label: certain}, …] with scale: nominal"),
        ({"a": "b"}, "; write [{value: a, label: b}, …] with scale: nominal"),
        *((data, "") for data in ({"value": 1}, {"label": "a", "x": 1}, {}, 5, None)),
    ]

    def check(data: Any, message: str) -> None:
        assert rubric_forms.instead_of(data) == message

    check_cases(check, cases)


def test_short_answers_are_completed() -> None:
    def labelled(value: str, **more: Any) -> dict[str, Any]:
        return {"value": value, "label": value, **more}

    cases: list[tuple[dict[str, Any], Any, list[Any]]] = [
        ({"answers": [1, 2.5]}, "ordinal", [labelled("1", score=1), labelled("2.5", score=2.5)]),
        ({"answers": [1, 2], "scale": "nominal"}, "nominal", [labelled("1"), labelled("2")]),
        ({"answers": [True, False]}, "nominal", [labelled("yes"), labelled("no")]),
        ({"answers": [1, "a"]}, "nominal", [labelled("1"), labelled("a")]),
        ({"answers": [1, True]}, "nominal", [labelled("1"), labelled("yes")]),
        ({"answers": []}, "nominal", []),
        ({"answers": ["a", {"value": "b"}]}, None, [labelled("a"), {"value": "b"}]),
        ({"answers": ["a", None], "scale": "ordinal"}, "ordinal", [labelled("a"), None]),
    ]

    def check(question: dict[str, Any], scale: Any, answers: list[Any]) -> None:
        (full,) = rubric_forms.completed({"name": "r", "questions": [question]})["questions"]
        assert (full.get("scale"), full["answers"]) == (scale, answers)

    check_cases(check, cases)
    assert rubric_forms.completed({"questions": "a"})["questions"] == "a"
    assert rubric_forms.completed({"questions": [{"answers": "1..3"}, 5]})["questions"] == [{"answers": "1..3"}, 5]
    mapping: dict[str, Any] = {"answers": ["a", {"value": "b"}]}
    assert rubric_forms.required_keys_of_question(mapping) == ("name", "text", "scale", "answers")
    for plain in (mapping | {"scale": "nominal"}, {"answers": ["a"]}, {"answers": 5}, {}):
        assert rubric_forms.required_keys_of_question(plain) == ("name", "text", "answers")
