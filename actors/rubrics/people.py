"""A rubric's variant for people: how people are asked its questions. Models never see it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.rubrics import checks

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
    checks.check_keys(data, where=where, required=("questions",), optional=("instructions", "free_texts"))
    questions = {}
    for name, entry in checks.mapping(data["questions"], f"{where}, questions").items():
        if name not in values:
            raise ValueError(f"{where}: unknown question {name!r}; the rubric's questions are {', '.join(values)}")
        questions[name] = _question(entry, values=values[name], where=f"{where}, question {name!r}")
    fields = checks.entries(data.get("free_texts") or [], f"{where}, free_texts")
    free_texts = tuple(_free_text(entry, questions=questions, where=f"{where}, free_texts") for entry in fields)
    checks.check_unique((field.name for field in free_texts), where=f"{where}, free_texts", kind="name")
    return PeopleVariant(str(data.get("instructions") or "").strip(), questions, free_texts)


def _free_text(data: Any, *, questions: Mapping[str, PeopleQuestion], where: str) -> FreeText:
    checks.check_keys(data, where=where, required=("name", "label"), optional=("guidance", "question", "separator"))
    name = checks.text(data["name"], f"{where}, name")
    if not FIELD_NAME.fullmatch(name):
        raise ValueError(f"{where}: name {name!r} must have lower-case letters, digits and underscores only")
    question = checks.optional_text(data.get("question"), f"{where}, question")
    if question and question not in questions:
        raise ValueError(f"{where}, {name}: question {question!r} must be one of {', '.join(questions)}")
    label = checks.text(data["label"], f"{where}, label")
    guidance, separator = (checks.optional_text(data.get(key), f"{where}, {key}") for key in ("guidance", "separator"))
    return FreeText(name, label, guidance, question, separator)


def _question(data: Any, *, values: Sequence[str], where: str) -> PeopleQuestion:
    checks.check_keys(data, where=where, required=("options",), optional=("guidance", "examples"))
    options = [_option(entry, where=where) for entry in checks.entries(data["options"], f"{where}, options")]
    examples = [
        _example(entry, where=where) for entry in checks.entries(data.get("examples") or [], f"{where}, examples")
    ]
    for value in [*(option.value for option in options), *(example.value for example in examples)]:
        if value is not None and value not in values:
            raise ValueError(f"{where}: unknown value {value!r}; the question's values are {', '.join(values)}")
    checks.check_unique((option.label for option in options), where=where, kind="option label")
    return PeopleQuestion(str(data.get("guidance") or "").strip(), tuple(options), tuple(examples))


def _example(data: Any, *, where: str) -> PeopleExample:
    keys = ("picture", "value", "why")
    checks.check_keys(data, where=f"{where}, an example", required=keys, optional=("image",))
    image = checks.optional_text(data.get("image"), f"{where}, image")
    if image and not ADDRESS.fullmatch(image):
        raise ValueError(
            f"{where}: image {image!r} must be an address that the annotation tool can open: https://… or /…"
        )
    picture, value, why = (checks.text(data[key], f"{where}, {key}") for key in keys)
    return PeopleExample(picture, value, why, image)


def _option(data: Any, *, where: str) -> PeopleOption:
    place = f"{where}, an option"
    checks.check_keys(data, where=place, required=("label", "value"), optional=("hotkey", "colour"))
    value = None if data["value"] is None else checks.text(data["value"], f"{place}'s value")
    hotkey, colour = (checks.optional_text(data.get(key), f"{where}, {key}") for key in ("hotkey", "colour"))
    if colour and not COLOUR.fullmatch(colour):
        raise ValueError(f"{where}: colour {colour!r} must have the form #1f77b4")
    return PeopleOption(checks.text(data["label"], f"{place}'s label"), value, hotkey, colour)
