"""A rubric's questions and their allowed answers; the checks report all mistakes at once.

`actors.rubrics.rubric` describes the file, `actors.rubrics.rubric_forms` the shorter forms of answers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from actors.rubrics import checks, rubric_forms
from actors.rubrics.checks import AS_IS, REQUIRED_TEXT, Key, or_empty
from actors.rubrics.rubric_forms import MAX_ANSWERS

SCALES = ("ordinal", "nominal")
REPLIES = ("code", "label")
ANY = "*"  # name of the question that the items' own questions replace
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


@dataclass(frozen=True)
class Answer:
    """An allowed answer: its stored value, its label in the prompt, and its number on an ordinal scale."""

    value: str
    label: str
    score: float | None = None


@dataclass(frozen=True)
class Question:
    """A question with a closed set of answers, in the order in which they are shown and stored."""

    name: str
    text: str
    note: str
    scale: Literal["ordinal", "nominal"]
    answers: tuple[Answer, ...]
    reply: Literal["code", "label"] = "code"
    targets: bool = True  # whether a rubric that asks about targets asks this question about each of them

    @property
    def codes(self) -> tuple[str, ...]:
        """The model's reply for each answer: one character, or with `reply: label` the label itself.

        An ordinal scale of integers from 0 to 9 uses these; all other sets use A, B, C, … in order.
        """
        if self.reply == "label":
            return tuple(answer.label for answer in self.answers)
        scores = [answer.score for answer in self.answers]
        if self.scale == "ordinal" and all(score in range(10) for score in scores):
            return tuple(str(int(score or 0)) for score in scores)
        return tuple(chr(ord("A") + place) for place in range(len(self.answers)))


def read_questions(data: Any, mistakes: checks.Mistakes, *, where: str) -> tuple[Question, ...]:
    """Return the questions of a rubric in its full form; use them only if there are no mistakes.

    Args:
        data: the value of the key `questions`.
        mistakes: collects the mistakes of the questions.
        where: the rubric's name in messages.
    """
    entries = mistakes.of(_at_least_one, data, f"{where}, questions", instead=())
    questions = tuple(_question(entry, mistakes, number, where=where) for number, entry in enumerate(entries, start=1))
    mistakes.of(_check_names, [question.name for question in questions], where=where, instead=None)
    return questions


def _at_least_one(data: Any, where: str) -> Sequence[Any]:
    entries = checks.entries(data, where)
    if not entries:
        raise ValueError(f"{where}: at least one is required")
    return entries


def _check_names(names: Sequence[str], *, where: str) -> None:
    """Check the names of all questions; a question whose name was refused has an empty one."""
    checks.check_unique(filter(None, names), where=where, kind="question")
    if len(names) > 1 and ANY in names:
        raise ValueError(f"{where}: question {ANY!r} is replaced by the items' own questions; it must be the only one")


def _question(data: Any, mistakes: checks.Mistakes, number: int, *, where: str) -> Question:
    entry = data if isinstance(data, Mapping) else {}
    name = entry.get("name")
    place = f"{where}, question {repr(name) if isinstance(name, str) and name.strip() else number}"
    required = rubric_forms.required_keys_of_question(entry)
    keys = checks.read_keys(data, _KEYS, place, mistakes=mistakes, required=required)
    if "answers" in entry:
        keys["answers"] = _answers(entry["answers"], mistakes, scale=keys["scale"], where=place)
    return Question(**keys)


def literal(data: Any, where: str) -> str:
    """Return `checks.text` of a text that is not a template.

    Raises:
        ValueError: as for `checks.text`; also if the text has template tags.
    """
    text = checks.text(data, where)
    if tag := _TAG.search(text):
        raise ValueError(
            f"{where}: {tag.group()} would reach the model as it is written; only parts and system are templates: use "
            "context fields and {{ target }} in a part, in a rubric with context, parts, layouts and layout"
        )
    return text


_KEYS = {
    "name": Key(checks.text, ""),
    "text": Key(literal, ""),
    "note": Key(or_empty(literal), ""),
    "scale": Key(checks.one_of(SCALES)),
    "answers": Key(lambda data, where: (), ()),  # read by `_answers`
    "reply": Key(checks.one_of(REPLIES), "code"),
    "targets": Key(checks.boolean("false (asked once, without a target) or true"), True),
}
_ANSWER = {"value": REQUIRED_TEXT, "label": Key(literal, "", required=True), "score": AS_IS}


def _answers(data: Any, mistakes: checks.Mistakes, *, scale: Any, where: str) -> tuple[Answer, ...]:
    """Read the answers of a question; if its scale is None, which is refused elsewhere, without their scores."""
    place = f"{where}, answers"
    entries = mistakes.of(_check_form, data, place, instead=())
    answers = tuple(
        _answer(entry, mistakes, scale=scale, where=f"{where}, answer {number}")
        for number, entry in enumerate(entries, start=1)
    )
    others: Sequence[Answer] = answers
    for kind in ("value", "label", "score"):
        by_text = {getattr(answer, kind): answer for answer in others}
        texts = [text for answer in others if (text := getattr(answer, kind)) not in ("", None)]
        mistakes.of(checks.check_unique, texts, where=where, kind=f"answer {kind}", instead=None)
        others = list(by_text.values())  # two answers with the same value are one mistake, even if they share more
    if all(isinstance(entry, Mapping) for entry in entries):
        scores = [(entry.get("value", number), entry.get("score")) for number, entry in enumerate(entries, start=1)]
        mistakes.of(_check_scores, scores, scale=scale, where=place, instead=None)
    return answers


def _check_form(data: Any, where: str) -> Sequence[Any]:
    if isinstance(data, str) or not isinstance(data, Sequence):
        raise ValueError(f"{where}: {data!r} must be {rubric_forms.ANSWERS}{rubric_forms.instead_of(data)}")
    if not 2 <= len(data) <= MAX_ANSWERS:
        advice = (
            rubric_forms.instead_of(data[0].get("value")) if len(data) == 1 and isinstance(data[0], Mapping) else ""
        )
        raise ValueError(f"{where}: {len(data)} of them; a closed question must have 2 to {MAX_ANSWERS}{advice}")
    return data


def _answer(data: Any, mistakes: checks.Mistakes, *, scale: Any, where: str) -> Answer:
    if not isinstance(data, Mapping):
        mistakes.add(f"{where}: {data!r} must be {rubric_forms.ANSWER}; quote a word that YAML reads otherwise")
        return Answer("", "")
    keys = checks.read_keys(data, _ANSWER, where, mistakes=mistakes)
    return Answer(keys["value"], keys["label"], _number(keys["score"]) if scale == "ordinal" else None)


def _number(score: Any) -> float | None:
    """Return a finite number; None for anything else."""
    is_number = isinstance(score, int | float) and not isinstance(score, bool) and abs(score) < float("inf")
    return float(score) if is_number else None


def _check_scores(scores: Sequence[tuple[Any, Any]], *, scale: Any, where: str) -> None:
    """Check the pairs of value and score of all answers, with one message for all that have the same mistake."""
    stated = [(value, score) for value, score in scores if score is not None]
    if scale == "nominal" and stated:
        pairs = ", ".join(f"score {score!r} of {value!r}" for value, score in stated)
        raise ValueError(f"{where}: {pairs} is not allowed with scale: nominal; remove it, or write scale: ordinal")
    if scale != "ordinal":
        return
    messages = []
    if missing := [value for value, score in scores if score is None]:
        first = f"{{value: {missing[0]}, label: {missing[0]}, score: 1}}"
        messages.append(
            f"no score of {', '.join(map(repr, missing))}, which scale: ordinal needs; write {first}, … or scale: "
            "nominal"
        )
    if wrong := [f"score {score!r} of {value!r}" for value, score in stated if _number(score) is None]:
        messages.append(f"{', '.join(wrong)} must be a finite number")
    if messages:
        raise ValueError(f"{where}: {'; '.join(messages)}")
