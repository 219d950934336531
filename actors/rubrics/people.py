"""A rubric's variant for people: how people are asked its questions. Models never see it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.rubrics import checks
from actors.rubrics.checks import OPTIONAL_TEXT, REQUIRED_TEXT, Key, matching, or_empty

COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
ADDRESS = re.compile(r"(https?://[^\s/@]+/|/)\S*")
FIELD_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class PeopleOption:
    """An option that a person may choose.

    Attributes:
        value: the rubric's value that it means; None: choosing it gives no rating.
        hotkey: a key of the keyboard; if empty, the export for the annotation tool chooses one.
        colour: a colour such as #1f77b4; if empty, the tool's own.
    """

    label: str
    value: str | None
    hotkey: str = ""
    colour: str = ""


@dataclass(frozen=True)
class PeopleExample:
    """A worked example: a picture in words, the rubric's value for it, and why.

    Attributes:
        image: address of the picture that the annotation tool shows; if empty, only the words are shown.
    """

    picture: str
    value: str
    why: str
    image: str = ""


@dataclass(frozen=True)
class PeopleQuestion:
    """The form in which people are asked one of the rubric's questions."""

    guidance: str
    options: tuple[PeopleOption, ...]
    examples: tuple[PeopleExample, ...]


@dataclass(frozen=True)
class FreeText:
    """A field in which people write, such as a factual error that they noticed (Century, appendix U).

    question: the question whose rating the text explains; if empty, the text is about the item as a whole.
    separator: divides a text into several entries; if empty, the text is one entry.
    """

    name: str
    label: str
    guidance: str = ""
    question: str = ""
    separator: str = ""


@dataclass(frozen=True)
class PeopleVariant:
    """A rubric's variant for people; `questions` are in people's order, by the names of the rubric's questions."""

    instructions: str
    questions: dict[str, PeopleQuestion]
    free_texts: tuple[FreeText, ...] = ()


def people_variant(data: Any, *, values: Mapping[str, Sequence[str]], where: str) -> PeopleVariant | None:
    """Return the checked variant in a rubric's key `people`; None if the key is missing.

    Args:
        values: the answers' values, by the names of the rubric's questions.
        where: the rubric's name in messages.

    Raises:
        ValueError: the variant is invalid; the message has the place, the value, and what is allowed.
    """
    if data is None:
        return None
    variant = PeopleVariant(**checks.read_keys(data, _VARIANT, where))
    for name, question in variant.questions.items():
        place = f"{where}, questions, {name!r}"
        if name not in values:
            raise ValueError(f"{where}: unknown question {name!r}; the rubric's questions are {', '.join(values)}")
        for value in [option.value for option in question.options] + [example.value for example in question.examples]:
            if value is not None and value not in values[name]:
                raise ValueError(
                    f"{place}: unknown value {value!r}; the question's values are {', '.join(values[name])}"
                )
        checks.check_unique((option.label for option in question.options), where=place, kind="option label")
    for field in variant.free_texts:
        if field.question and field.question not in variant.questions:
            raise ValueError(
                f"{where}, free_texts, {field.name}: question {field.question!r} must be one of "
                f"{', '.join(variant.questions)}"
            )
    checks.check_unique((field.name for field in variant.free_texts), where=f"{where}, free_texts", kind="name")
    return variant


_FREE_TEXT = {
    "name": Key(matching(FIELD_NAME, "have lower-case letters, digits and underscores only"), required=True),
    "label": REQUIRED_TEXT,
    **dict.fromkeys(("guidance", "question", "separator"), OPTIONAL_TEXT),
}
_OPTION = {
    "label": REQUIRED_TEXT,
    "value": Key(checks.or_null(checks.text), required=True),
    "hotkey": OPTIONAL_TEXT,
    "colour": Key(or_empty(matching(COLOUR, "have the form #1f77b4")), ""),
}
_EXAMPLE = {
    **dict.fromkeys(("picture", "value", "why"), REQUIRED_TEXT),
    "image": Key(or_empty(matching(ADDRESS, "be an address that the annotation tool can open: https://… or /…")), ""),
}
_QUESTION = {
    "options": Key(checks.list_of(checks.instance_of(PeopleOption, _OPTION)), required=True),
    "guidance": OPTIONAL_TEXT,
    "examples": Key(checks.list_of(checks.instance_of(PeopleExample, _EXAMPLE)), (), nullable=True),
}
_VARIANT = {
    "questions": Key(checks.map_of(checks.instance_of(PeopleQuestion, _QUESTION)), required=True),
    "instructions": OPTIONAL_TEXT,
    "free_texts": Key(checks.list_of(checks.instance_of(FreeText, _FREE_TEXT)), (), nullable=True),
}
