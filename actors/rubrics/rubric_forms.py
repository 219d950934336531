"""Short forms of a rubric's file, completed to the full form that `actors.rubrics.rubric` checks.

    name: mood
    targets: [joy, sorrow]                      # optional; the question then names one
    context: {fields: [title, year]}            # optional: what else the prompt says, where it is not empty
    questions:
      - name: shown
        text: How strongly does the picture show this feeling?
        answers: [1, 2, 3, 4, 5]
      - name: people
        text: Does the picture show people?
        answers: [yes, no]
        targets: false                          # asked once, without a target

An answer may be a number, a word, or a Boolean: YAML reads yes, no, on and off as Booleans, and they mean the words yes
and no here. Answers that are all numbers make an ordinal scale with these scores. A rubric without parts and layouts
has one prompt, with the picture, the fields of `context`, the question, the target and the answers. No column is sent
that `context` does not name.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

VERSION = 1
SOURCE = "not stated"
PARTS = {
    "introduction": "Look at the picture and answer a question about it.",
    "scale": "{% if numbers %}Possible answers: {{ numbers }}\n\nReply with one of these numbers and nothing else."
    "{% else %}Possible answers:\n{{ options }}\n\nReply with the code of one answer and nothing else.{% endif %}",
    "question": "Question: {{ question }}",
}
TARGET = "{% if target +%}\nIt is asked about: {{ target }}{% endif %}"  # + keeps the line break that trim_blocks drops
CONTEXT = "context"  # the part with its fields, each on a line with its name
LAYOUT_KEYS = ("parts", "layouts", "layout")  # all or none of them are set
ANSWER = "a number, a word, or {value: …, label: …, score: …} (score: with scale: ordinal)"  # for messages
ANSWERS = f"a list such as [1, 2, 3] or [yes, no], each answer {ANSWER}"
MAX_ANSWERS = 26  # one letter each
_RANGE = re.compile(r"(-?\d{1,4})\s*(?:\.{2,3}|…|-|–|to)\s*(-?\d{1,4})")
WORDS = {True: "yes", False: "no"}


def is_short(data: Mapping[str, Any]) -> bool:
    """Return whether a rubric leaves its prompts' parts and layouts to this module."""
    return not set(LAYOUT_KEYS) & set(data)


def required_keys(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that a rubric's file must have."""
    return ("name", "questions", *(() if is_short(data) else LAYOUT_KEYS))


def required_keys_of_question(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the keys that a completed question must have: its scale does not follow from values and labels."""
    answers = data.get("answers")
    has_mappings = isinstance(answers, Sequence) and any(isinstance(entry, Mapping) for entry in answers)
    return ("name", "text", "scale", "answers") if has_mappings and "scale" not in data else ("name", "text", "answers")


def instead_of(data: Any) -> str:
    """Return what to write for answers that are not a list (1..5, yes/no, {1: low}); empty if that is unclear."""
    if isinstance(data, str):
        return _list_of(data.strip())
    if isinstance(data, Mapping) and data and not {"value", "label"} & set(data):
        value, label = map(_word, next(iter(data.items())))
        if isinstance(value, int | float):
            return f"; write [{{value: {value}, label: {label}, score: {value}}}, …] with scale: ordinal"
        if isinstance(label, int | float):
            return f"; write [{{value: {value}, label: {value}, score: {label}}}, …] with scale: ordinal"
        return f"; write [{{value: {value}, label: {label}}}, …] with scale: nominal"
    return ""


def _list_of(text: str) -> str:
    if ends := _RANGE.fullmatch(text):
        first, last = map(int, ends.groups())
        numbers = range(first, last + 1)
        return f"; write {[*numbers]}" if 2 <= len(numbers) <= MAX_ANSWERS else ""
    answers = re.split(r"\s*[/,|;]\s*", text)
    return f"; write [{', '.join(answers)}]" if len(answers) > 1 and all(answers) else ""


def completed(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rubric in its full form; values of another shape are left for the checks to refuse."""
    full: dict[str, Any] = {"version": VERSION, "source": SOURCE, **data}
    if is_short(data):
        context = {CONTEXT: text} if (text := _context(data.get("context"))) else {}
        question = PARTS["question"] + (TARGET if data.get("targets") else "")
        parts = {**PARTS, **context, "question": question}
        layout = ["picture", "introduction", *context, "scale", "question"]
        full |= {"parts": parts, "layouts": {"fast": layout}, "layout": "fast"}
    questions = full.get("questions")
    if isinstance(questions, Sequence) and not isinstance(questions, str):
        full["questions"] = [_question(entry) if isinstance(entry, Mapping) else entry for entry in questions]
    return full


def _context(data: Any) -> str:
    """Return the template of the fields of a rubric's `context`; empty without fields or if it has another shape."""
    fields = data.get("fields") if isinstance(data, Mapping) else None
    if not isinstance(fields, Sequence) or isinstance(fields, str):
        return ""
    names = [name for name in fields if isinstance(name, str) and name.isidentifier()]  # others are refused later
    lines = "".join(f"{{% if {n} +%}}\n{n.replace('_', ' ')}: {{{{ {n} }}}}{{% endif %}}" for n in names)
    return f"{{% if {' or '.join(names)} %}}About the picture:{{% endif %}}{lines}" if names else ""


def _question(data: Mapping[str, Any]) -> dict[str, Any]:
    answers = data.get("answers")
    if not isinstance(answers, Sequence) or isinstance(answers, str):
        return dict(data)
    numeric = bool(answers) and all(isinstance(entry, int | float) and not isinstance(entry, bool) for entry in answers)
    question = {**data, "answers": [_answer(entry, scored=numeric) for entry in answers]}
    if not any(isinstance(entry, Mapping) for entry in answers):
        question.setdefault("scale", "ordinal" if numeric else "nominal")
        if question["scale"] == "nominal":
            for answer in question["answers"]:
                if isinstance(answer, dict):
                    answer.pop("score", None)
    return question


def _word(entry: Any) -> Any:
    return WORDS[entry] if isinstance(entry, bool) else entry


def _answer(entry: Any, *, scored: bool) -> Any:
    entry = _word(entry)
    if isinstance(entry, Mapping) or not isinstance(entry, str | int | float):
        return entry
    answer = {"value": str(entry), "label": str(entry)}
    return {**answer, "score": entry} if scored else answer
