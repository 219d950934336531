"""Answers in a text that should be one JSON object: tolerant where the meaning is certain, never guessing.

Accepted: the object alone, in a code fence, or with text around it; an answer by its value, its label (in any case) or,
on an ordinal scale, its number; true and false where the answers are yes and no; and a dictionary of one entry whose
key and value name the same answer, such as {"5": "Strongly agree"} (Century, appendix S: 6 % of one labeller's
answers). Everything else has a separate status and no value: objects that differ, a duplicate key, another boolean, a
dictionary that contradicts itself, a number outside the scale. What a model wrote as its thought is not read
(`actors.rubrics.thoughts`).
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from actors.rubrics.rubric_questions import Answer, Question
from actors.rubrics.thoughts import ANY
from actors.status import EMPTY_ANSWER, Status, is_blank
from actors.untrusted import parse_first_json

MAX_OBJECTS = 200  # positions to look for an object, which bounds the time for a text full of braces
BOOLEANS = {"true": "yes", "false": "no"}  # how programs write yes and no
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")


class ParsedAnswer(NamedTuple):
    """The answer to one question if the status is ok, else the reason why there is none."""

    status: Status
    answer: Answer | None = None
    kind: str | None = None
    message: str | None = None


class _Duplicate:
    """Marker for a key that occurs twice in an object with different values."""


def parse_answers(text: str | None, questions: Sequence[Question]) -> dict[str, ParsedAnswer]:
    """Return the answer to each question, by question name; never raises.

    Args:
        text: the text that a model wrote.
        questions: the rubric's questions; their names are the keys of the object.

    Returns:
        status ok with one of the question's answers; `out_of_range` for a number outside an ordinal scale; `unparsed`
        for anything else.
    """
    if is_blank(text):
        empty = _unparsed(EMPTY_ANSWER, "the text is blank")
        return dict.fromkeys((question.name for question in questions), empty)
    names = {question.name for question in questions}
    answer = ANY.split(text or "").answer
    candidates = [candidate for candidate in _objects(answer) if names & set(candidate)]
    if not candidates:
        missing = _unparsed("no_object", "the text contains no JSON object with the name of a question")
        return dict.fromkeys((question.name for question in questions), missing)
    parsed = {}
    for question in questions:
        values = [candidate[question.name] for candidate in candidates if question.name in candidate]
        if not values:
            parsed[question.name] = _unparsed("missing_key", f"the object has no key {question.name!r}")
        elif any(isinstance(value, _Duplicate) or not _same(value, values[0]) for value in values):
            parsed[question.name] = _unparsed("several_answers", f"{question.name!r} has several answers")
        else:
            parsed[question.name] = parse_answer(values[0], question)
    return parsed


def parse_answer(value: Any, question: Question) -> ParsedAnswer:
    """Return the answer that a JSON value denotes; statuses as in `parse_answers`; never raises."""
    if isinstance(value, Mapping):
        return _parse_pair(value, question)
    if value is None or (isinstance(value, str) and not value.strip()):
        return _unparsed("no_answer", "the answer is empty")
    answers = _candidates(value, question)
    if len(answers) == 1:
        return ParsedAnswer(Status.OK, answers[0])
    if answers:
        return _unparsed("ambiguous", f"{_quoted(value)} names several answers")
    number = _number(value)
    scores = [answer.score for answer in question.answers if answer.score is not None]
    if number is not None and scores and not min(scores) <= number <= max(scores):
        message = f"{_quoted(value)} is not in {min(scores):g} to {max(scores):g}"
        return ParsedAnswer(Status.OUT_OF_RANGE, None, "out_of_range", message)
    return _unparsed("not_an_answer", f"{_quoted(value)} is not one of the allowed answers")


def _parse_pair(value: Mapping[str, Any], question: Question) -> ParsedAnswer:
    if len(value) != 1:
        return _unparsed("not_an_answer", f"a dictionary of {len(value)} entries is not an answer")
    (key, inner), *_ = value.items()
    if isinstance(inner, Mapping | _Duplicate):
        return _unparsed("not_an_answer", "a nested dictionary is not an answer")
    by_key, by_value = parse_answer(key, question), parse_answer(inner, question)
    if by_key.answer is not None and by_key.answer == by_value.answer:
        return by_key
    if by_key.status is by_value.status is Status.OUT_OF_RANGE:
        return by_key
    if by_key.answer is not None and by_value.answer is not None:
        return _unparsed("contradiction", f"{_quoted(key)} and {_quoted(inner)} are different answers")
    return _unparsed("not_an_answer", f"{_quoted(key)} and {_quoted(inner)} do not name the same answer")


def _candidates(value: Any, question: Question) -> list[Answer]:
    """Return the answers that `value` may mean."""
    if isinstance(value, bool | str):
        folded = str(value).strip().casefold()
        answers = _named(folded, question)
        if not answers and folded in BOOLEANS and all(_named(word, question) for word in BOOLEANS.values()):
            answers = _named(BOOLEANS[folded], question)
        if answers or isinstance(value, bool):  # True == 1 in Python
            return answers
    number = _number(value)
    if number is None:
        return []
    return [answer for answer in question.answers if answer.score is not None and answer.score == number]


def _named(folded: str, question: Question) -> list[Answer]:
    """Return the answers whose value or label is `folded`, in any case."""
    return [a for a in question.answers if folded in (a.value.casefold(), a.label.casefold())]


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and len(value) < 40 and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return None


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the outermost JSON objects in `text`, in their order."""
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)
    objects, place, attempts = [], text.find("{"), 0
    while place >= 0 and attempts < MAX_OBJECTS:
        attempts += 1
        try:
            value, end = parse_first_json(text, place, decoder)
        except ValueError:
            end = place + 1
        else:
            objects.append(value)
        place = text.find("{", end)
    return objects


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for key, value in pairs:
        entries[key] = _Duplicate() if key in entries and not _same(entries[key], value) else value
    return entries


def _same(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal and of one type; True == 1 in Python."""
    return type(first) is type(second) and bool(first == second)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _unparsed(kind: str, message: str) -> ParsedAnswer:
    return ParsedAnswer(Status.UNPARSED, None, kind, message)


def _quoted(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = "a number"
    return text if len(text) <= 60 else f"{text[:57]}…"
