"""Answers out of a text that was to be one JSON object: tolerant where the meaning is certain, never guessing.

Taken: the object alone, in a code fence, or with text before or behind it; an answer by its value, its label (in any
case) or, on an ordinal scale, its number; and a dictionary of a single entry whose key and value name the same answer,
such as {"5": "Strongly agree"} (Century, appendix S: 6 % of one labeller's answers). Everything else has a status of
its own and no value: two objects that differ, a key that stands twice, a boolean, a dictionary that contradicts
itself, a number outside the scale.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from actors.status import Status
from actors.vlm.rubric import Answer, Question

MAX_OBJECTS = 200  # places at which an object is looked for; a text of nothing but braces must not take for ever
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_DECODER_LIMITS = (ValueError, RecursionError)


class Parsed(NamedTuple):
    """What a text says to one question: an answer if the status is ok, else why there is none."""

    status: Status
    answer: Answer | None = None
    kind: str | None = None
    message: str | None = None


class _Twice:
    """Stands for the values of a key that an object has twice."""


def parse_answers(text: str | None, questions: Sequence[Question]) -> dict[str, Parsed]:
    """The answer to each question; never raises.

    Args:
        text: what a model wrote.
        questions: of the rubric that was asked; their names are the object's keys.

    Returns:
        by question name: ok with one of its answers; `out_of_range` for a number outside an ordinal scale; `unparsed`
        for anything else.
    """
    names = {question.name for question in questions}
    found = [entry for entry in _objects(text or "") if names & set(entry)]
    if not found:
        missing = _unparsed("no_object", "there is no JSON object with the name of a question in the text")
        return dict.fromkeys((question.name for question in questions), missing)
    made = {}
    for question in questions:
        said = [entry[question.name] for entry in found if question.name in entry]
        if not said:
            made[question.name] = _unparsed("missing_key", f"the object has no key {question.name!r}")
        elif any(isinstance(value, _Twice) for value in said) or any(not _same(value, said[0]) for value in said):
            made[question.name] = _unparsed("several_answers", f"{question.name!r} is answered more than once")
        else:
            made[question.name] = parse_answer(said[0], question)
    return made


def parse_answer(value: Any, question: Question) -> Parsed:
    """The answer that a JSON value names; statuses as `parse_answers`, never raises."""
    if isinstance(value, Mapping):
        return _pair(value, question)
    if value is None or (isinstance(value, str) and not value.strip()):
        return _unparsed("no_answer", "the answer is empty")
    named = _named(value, question)
    if len(named) == 1:
        return Parsed(Status.OK, named[0])
    if named:
        return _unparsed("ambiguous", f"{_shown(value)} names several answers")
    number = _number(value)
    scores = [answer.score for answer in question.answers if answer.score is not None]
    if number is not None and scores and not min(scores) <= number <= max(scores):
        return Parsed(
            Status.OUT_OF_RANGE, None, "out_of_range", f"{_shown(value)} is not in {min(scores):g} to {max(scores):g}"
        )
    return _unparsed("not_an_answer", f"{_shown(value)} is none of the allowed answers")


def _pair(value: Mapping[str, Any], question: Question) -> Parsed:
    if len(value) != 1:
        return _unparsed("not_an_answer", f"a dictionary of {len(value)} entries is no answer")
    (key, inner), *_ = value.items()
    if isinstance(inner, Mapping | _Twice):
        return _unparsed("not_an_answer", "a dictionary inside a dictionary is no answer")
    outer, within = parse_answer(key, question), parse_answer(inner, question)
    if outer.answer is not None and outer.answer == within.answer:
        return outer
    if outer.status is within.status is Status.OUT_OF_RANGE:
        return outer
    if outer.answer is not None and within.answer is not None:
        return _unparsed("contradiction", f"{_shown(key)} and {_shown(inner)} are different answers")
    return _unparsed("not_an_answer", f"{_shown(key)} and {_shown(inner)} do not name the same answer")


def _named(value: Any, question: Question) -> list[Answer]:
    """The answers that `value` may mean."""
    if isinstance(value, bool):  # to Python, True is 1
        return []
    if isinstance(value, str):
        folded = value.strip().casefold()
        named = [a for a in question.answers if folded in (a.value.casefold(), a.label.casefold())]
        if named:
            return named
    number = _number(value)
    if number is None:
        return []
    return [a for a in question.answers if a.score is not None and a.score == number]


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and len(value) < 40 and _NUMBER.fullmatch(value.strip()):
        return float(value)
    return None


def _objects(text: str) -> list[dict[str, Any]]:
    """The outermost JSON objects in `text`, in their order."""
    decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
    found, place, tried = [], text.find("{"), 0
    while place >= 0 and tried < MAX_OBJECTS:
        tried += 1
        try:
            value, end = decoder.raw_decode(text, place)
        except _DECODER_LIMITS:
            end = place + 1
        else:
            found.append(value)
        place = text.find("{", end)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        made[key] = _Twice() if key in made and not _same(made[key], value) else value
    return made


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same; to Python, True equals 1."""
    return type(one) is type(other) and bool(one == other)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _unparsed(kind: str, message: str) -> Parsed:
    return Parsed(Status.UNPARSED, None, kind, message)


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = "a number"
    return text if len(text) <= 60 else f"{text[:57]}…"
