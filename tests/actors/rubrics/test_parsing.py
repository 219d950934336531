"""Parsing of answers: certain ones are accepted, everything else has no value."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.rubrics.parsing import parse_answer, parse_answers
from actors.rubrics.rubric_questions import Answer, Question
from actors.status import Status
from tests.cases import check_cases

AGREE = Question(
    name="beginner_friendly",
    text="?",
    note="",
    scale="ordinal",
    answers=tuple(
        Answer(str(place), label, float(place))
        for place, label in enumerate(
            ("Strongly disagree", "Disagree", "Neither agree nor disagree", "Agree", "Strongly agree"), start=1
        )
    ),
)
REGION = Question(
    name="region", text="?", note="", scale="nominal", answers=(Answer("yes", "yes"), Answer("no", "not at all"))
)
BOTH = (AGREE, REGION)


def values(text: str) -> tuple[str | None, str | None]:
    """Return a text's answers to both questions; None unless ok."""
    parsed = parse_answers(text, BOTH)
    one, other = (parsed[question.name].answer for question in BOTH)
    return (one.value if one else None), (other.value if other else None)


def test_accepted() -> None:
    texts = [
        '{"beginner_friendly": 5, "region": "yes"}',
        '{"beginner_friendly": "5", "region": "YES "}',
        '{"beginner_friendly": 5.0, "region": "yes"}',
        '{"beginner_friendly": "strongly agree", "region": "yes", "more": [1, {"x": 2}]}',
        '{"beginner_friendly": {"5": "Strongly agree"}, "region": {"yes": "yes"}}',
        '```json\n{"beginner_friendly": 5, "region": "yes"}\n```',
        'Here you are {smile}:\n```\n{"beginner_friendly": 5, "region": "yes"}```\nI hope that {this} helps!',
        '{"beginner_friendly": 5, "region": "yes"} {"note": 1}',
        '{"beginner_friendly": 5}\n{"region": "yes"}',
        '{"beginner_friendly": 5, "region": "yes"}\nTo repeat: {"beginner_friendly": 5}',
    ]
    assert [text for text in texts if values(text) != ("5", "yes")] == []


def test_not_accepted() -> None:
    cases: list[tuple[Any, str, str]] = [
        (6, "out_of_range", "out_of_range"),
        ("0", "out_of_range", "out_of_range"),
        (-1, "out_of_range", "out_of_range"),
        (10**400, "out_of_range", "out_of_range"),
        ({"7": 7}, "out_of_range", "out_of_range"),
        (3.5, "unparsed", "not_an_answer"),
        (True, "unparsed", "not_an_answer"),  # to Python, True == 1
        ("5/5", "unparsed", "not_an_answer"),
        ("about 4", "unparsed", "not_an_answer"),
        ([5], "unparsed", "not_an_answer"),
        (None, "unparsed", "no_answer"),
        ("  ", "unparsed", "no_answer"),
        ({"5": "Disagree"}, "unparsed", "contradiction"),
        ({"5": "because it is good"}, "unparsed", "not_an_answer"),
        ({"score": 5}, "unparsed", "not_an_answer"),
        ({"5": "Strongly agree", "4": "Agree"}, "unparsed", "not_an_answer"),
        ({"5": {"5": 5}}, "unparsed", "not_an_answer"),
        ({}, "unparsed", "not_an_answer"),
        ("1_0", "unparsed", "not_an_answer"),
        ("nan", "unparsed", "not_an_answer"),
    ]
    misses = []
    for value, status, kind in cases:
        parsed = parse_answers(json.dumps({"beginner_friendly": value}), [AGREE])["beginner_friendly"]
        if (parsed.status, parsed.kind, parsed.answer) != (status, kind, None) or not parsed.message:
            misses.append((str(value)[:40], parsed))
    assert not misses


def test_no_answer_to_be_found() -> None:
    cases: list[tuple[str | None, str]] = [
        ("", "empty_answer"),
        (None, "empty_answer"),
        (" \n\u200b", "empty_answer"),
        ("I would say 5.", "no_object"),
        ('{"beginner_friendly": 5', "no_object"),
        ("{'beginner_friendly': 5}", "no_object"),
        ('{"beginner_friendly": 5,}', "no_object"),
        ('{"beginner_friendly": NaN}', "no_object"),
        ('{"Beginner_Friendly": 5}', "no_object"),
        ("{" * 100_000, "no_object"),
        ('{"a":' * 100_000, "no_object"),
        ('{"beginner_friendly": ' + "9" * 5000 + "}", "no_object"),
        ('{"region": "yes"}', "missing_key"),
        ('{"beginner_friendly": 5} {"beginner_friendly": 4}', "several_answers"),
        ('{"beginner_friendly": 1} {"beginner_friendly": true}', "several_answers"),
        ('{"beginner_friendly": 5, "beginner_friendly": 4}', "several_answers"),
        ('{"beginner_friendly": {"5": 5, "5": 4}}', "not_an_answer"),
    ]
    misses = []
    for text, kind in cases:
        parsed = parse_answers(text, BOTH)["beginner_friendly"]
        if (parsed.status, parsed.kind) != (Status.UNPARSED, kind):
            misses.append((str(text)[:40], parsed))
    assert not misses


def test_only_so_many_objects_and_digits_are_read() -> None:
    answer = '{"beginner_friendly": 5}'
    for braces, kind in ((199, None), (200, "no_object")):
        assert parse_answers("{" * braces + answer, [AGREE])["beginner_friendly"].kind == kind
    for digits, kind in ((37, None), (38, "not_an_answer")):
        assert parse_answer("5." + "0" * digits, AGREE).kind == kind
    assert (parse_answer("x" * 58, AGREE).message or "").startswith(f"'{'x' * 58}' is")
    assert (parse_answer("x" * 59, AGREE).message or "").startswith(f"'{'x' * 56}… is")


def test_a_word_that_names_two_answers_names_none() -> None:
    twisted = Question("q", "?", "", "nominal", (Answer("a", "b"), Answer("b", "a")))
    assert parse_answer("a", twisted).kind == "ambiguous"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
near_answers = st.sampled_from(["5", "Agree", "agree ", 5, 5.0, 6, "beginner_friendly", "{", "}", "```json", True])


@settings(max_examples=300, deadline=None)
@given(st.text() | st.lists(near_answers | st.text(max_size=5)).map(lambda parts: " ".join(map(str, parts))))
def test_any_text_gets_a_status_and_never_raises(text: str) -> None:
    for parsed in parse_answers(text, BOTH).values():
        assert (parsed.status is Status.OK) == (parsed.answer is not None)


@settings(max_examples=300, deadline=None)
@given(
    st.fixed_dictionaries({"beginner_friendly": json_values | near_answers}, optional={"region": json_values}),
    st.text(alphabet="abc `\n", max_size=10),
)
def test_only_allowed_answers_come_out(answer: dict[str, Any], around: str) -> None:
    parsed = parse_answers(around + json.dumps(answer) + around, BOTH)
    for question in BOTH:
        outputs = parsed[question.name]
        assert outputs.status in (Status.OK, Status.UNPARSED, Status.OUT_OF_RANGE)
        assert outputs.answer is None or outputs.answer in question.answers
        assert (outputs.status is Status.OK) == (outputs.answer is not None)
        assert outputs.status is not Status.OUT_OF_RANGE or question.scale == "ordinal"


def test_a_number_outside_the_scale_next_to_an_answer_is_neither() -> None:
    def check(value: Any) -> None:
        answer = parse_answer(value, AGREE)
        assert (answer.status, answer.kind, answer.answer) == (Status.UNPARSED, "not_an_answer", None)

    check_cases(check, [{"9": 3}, {"9": "3"}, {"3": 9}, {"9": "Agree"}, {"Agree": 9}])


def test_true_and_false_are_yes_and_no_where_these_are_the_answers() -> None:
    def question(*answers: str) -> Question:
        return Question("q", "?", "", "nominal", tuple(Answer(value, value.title()) for value in answers))

    asked = question("yes", "no", "unclear")
    for value, word in ((True, "yes"), (False, "no"), ("True", "yes"), (" false ", "no"), ({"true": True}, "yes")):
        parsed = parse_answer(value, asked)
        assert parsed.answer is not None, value
        assert parsed.answer.value == word
        for other in (question("agree", "disagree"), question("yes", "maybe")):
            assert parse_answer(value, other).answer is None, value
    assert parse_answer("true", question("true", "false", "yes", "no")).answer == Answer("true", "True")
    assert parse_answers('{"q": true}', [asked])["q"].answer == Answer("yes", "Yes")
