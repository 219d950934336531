"""The closed grammar of scene graphs after DSG, and the instructions for a text model to write them in three steps.

One line per tuple, question or list of parents, each beginning with the number of its tuple:

    tuples      1 | entity - whole (chariot)
                2 | attribute - color (chariot, golden)
    questions   2 | Is the chariot golden?
    parents     1 | 0
                2 | 1

Source: Cho et al., "Davidsonian Scene Graph", ICLR 2024: the three steps and the categories. A line that does not have
this form is a fault; its meaning is never guessed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from actors.ids import content_id
from actors.rubrics import checks
from actors.rubrics.checks import AS_IS, OPTIONAL_TEXT, REQUIRED_TEXT, Key
from actors.untrusted import text_lines

TUPLES, QUESTIONS, PARENTS = "tuples", "questions", "parents"
STEPS = (TUPLES, QUESTIONS, PARENTS)
FORMS = {TUPLES: "attribute - color (chariot, golden)", QUESTIONS: "Is the chariot golden?", PARENTS: "1, 2"}
KINDS = {  # kinds of each category; empty: none is written
    "entity": ("whole", "part"),
    "attribute": ("color", "material", "scale", "shape", "state", "texture", "type"),
    "relation": ("spatial", "scale"),
    "action": (),
    "other": ("count", "text"),
    "global": (),
}
MAX_QUESTIONS = 99  # most questions about a text
_LINE = re.compile(r"\s*(\d{1,3})\s*\|\s*(\S.*?)\s*")
_TUPLE = re.compile(r"(\w+)\s*-\s*(\w*)\s*\(\s*([^()]*\S)\s*\)")
_PARENTS = re.compile(r"\d{1,3}(?:\s*,\s*\d{1,3})*")


class LineFault(NamedTuple):
    """A line without a place in the answer: the step, the line (from 1), what is wrong, and its text."""

    step: str
    line: int
    kind: str
    text: str


class Parsed(NamedTuple):
    """The content of a step's answer: (line, content) by number of the tuple, and the lines with faults."""

    entries: dict[int, tuple[int, str]]
    faults: list[LineFault]


def parse(step: str, answer: str, *, numbers: Sequence[int] | None = None) -> Parsed:
    """Parse the answer of a step.

    Args:
        step: tuples, questions or parents.
        answer: the model's text; empty lines do not count.
        numbers: the numbers of the tuples, for the steps after the first.

    Returns:
        The content in the answer's order: tuples in canonical form, questions unchanged, parents as "1,2" or "".
    """
    entries: dict[int, tuple[int, str]] = {}
    faults: list[LineFault] = []
    for line, text in enumerate(text_lines(answer), 1):
        if not text.strip():
            continue
        match = _LINE.fullmatch(text)
        number, content = (int(match[1]), _READERS[step](match[2])) if match else (0, None)
        if content is None or not 1 <= number <= MAX_QUESTIONS:
            faults.append(LineFault(step, line, "unparsed", text.strip()))
        elif number in entries:
            faults.append(LineFault(step, line, "duplicate_number", text.strip()))
        elif numbers is not None and number not in numbers:
            faults.append(LineFault(step, line, "unknown_number", text.strip()))
        else:
            entries[number] = (line, content)
    return Parsed(entries, faults)


def tuple_line(number: int, text: str) -> str:
    """Return the line of an answer for a tuple's number and text."""
    return f"{number} | {text}"


def _tuple(text: str) -> str | None:
    match = _TUPLE.fullmatch(text)
    if match is None:
        return None
    category, kind = match[1].casefold(), match[2].casefold()
    arguments = [part.strip() for part in match[3].split(",")]
    kinds = KINDS.get(category)
    if kinds is None or (kind not in kinds if kinds else kind) or not all(arguments):
        return None
    return f"{category} - {kind + ' ' if kind else ''}({', '.join(arguments)})"


def _question(text: str) -> str | None:
    return text if text.endswith("?") and len(text) > 1 else None


def _parents(text: str) -> str | None:
    if not _PARENTS.fullmatch(text):
        return None
    numbers = [int(part) for part in text.split(",")]
    return "" if numbers == [0] else None if 0 in numbers else ",".join(map(str, dict.fromkeys(numbers)))


_READERS = {TUPLES: _tuple, QUESTIONS: _question, PARENTS: _parents}


@dataclass(frozen=True)
class Example:
    """A worked example: a text, its tuples, and each tuple's question and the numbers of its parents."""

    text: str
    tuples: tuple[str, ...]
    questions: tuple[str, ...]
    parents: tuple[str, ...]

    def answer(self, step: str) -> str:
        """Return the correct answer of a step."""
        lines = {TUPLES: self.tuples, QUESTIONS: self.questions, PARENTS: self.parents}[step]
        return "\n".join(tuple_line(number, text) for number, text in enumerate(lines, 1))


@dataclass(frozen=True)
class SceneGraphInstructions:
    """Instructions for the three steps, with examples; build them with `SceneGraphInstructions.from_dict`."""

    name: str
    source: str
    system: str
    steps: Mapping[str, str]
    examples: tuple[Example, ...]

    @classmethod
    @checks.of_file("scene_graph")
    def from_dict(cls, data: Mapping[str, Any]) -> "SceneGraphInstructions":
        """Return the instructions in `data`, as read from YAML; the examples must follow the grammar.

        Raises:
            ValueError: the data is invalid; the message has the place, the value, and what is allowed.
        """
        where = checks.named("scene_graph", data)
        keys = checks.read_keys(data, _KEYS, where)
        return cls(**{field.name: keys[field.name] for field in fields(cls)})

    @property
    def hash(self) -> str:
        """Return a hash of everything that changes the prompts."""
        facts = [self.system, dict(self.steps), [(e.text, e.tuples, e.questions, e.parents) for e in self.examples]]
        return content_id(json.dumps(facts, sort_keys=True))

    def prompt(self, step: str, text: str, tuples: str = "") -> str:
        """Return the user's turn of a step.

        Args:
            text: the text to make a scene graph of; data, never read as a template.
            tuples: the lines of the tuples, for the steps after the first.
        """
        parts = [self.steps[step].strip()]
        for number, example in enumerate(self.examples, 1):
            example_lines = _given(example.text, example.answer(TUPLES) if step != TUPLES else "")
            parts.append(f"Example {number}\n{example_lines}\nAnswer:\n{example.answer(step)}")
        return "\n\n".join([*parts, f"Your turn\n{_given(text, tuples)}\nAnswer:"])


def _given(text: str, tuples: str) -> str:
    """Return the lines that a step starts from."""
    return f"Text: {' '.join(text.split())}" + (f"\nTuples:\n{tuples}" if tuples else "")


def _example(data: Any, where: str) -> Example:
    keys = checks.read_keys(data, _EXAMPLE, where)
    rows = keys["graph"]
    parsed: dict[str, list[str]] = {step: [] for step in STEPS}
    for number, row in enumerate(rows, 1):
        place = f"{where}, graph, entry {number}"
        parents = row["parents"] or []
        lines = {TUPLES: row["tuple"], QUESTIONS: row["question"], PARENTS: ",".join(map(str, parents)) or "0"}
        for step, text in lines.items():
            if _READERS[step](str(text)) is None:
                raise ValueError(f"{place}, {step}: {text!r} must have the form {FORMS[step]!r}")
            parsed[step].append(str(text))
        if wrong := [parent for parent in parents if not 1 <= int(parent) <= len(rows) or int(parent) == number]:
            raise ValueError(f"{place}: parent {wrong[0]} is not another row; must be one of 1 to {len(rows)}")
    if not rows:
        raise ValueError(f"{where}: the graph is empty; at least one row is required")
    return Example(keys["text"], *(tuple(parsed[step]) for step in STEPS))


_REQUIRED = AS_IS._replace(required=True)
_ROW = {"tuple": _REQUIRED, "question": _REQUIRED, "parents": AS_IS}
_EXAMPLE = {
    "text": REQUIRED_TEXT,
    "graph": Key(checks.list_of(lambda data, where: checks.read_keys(data, _ROW, where)), required=True),
}


_KEYS = {
    "name": REQUIRED_TEXT,
    "version": _REQUIRED,
    "source": REQUIRED_TEXT,
    "steps": Key(lambda data, where: checks.read_keys(data, dict.fromkeys(STEPS, REQUIRED_TEXT), where), required=True),
    "examples": Key(checks.list_of(_example), required=True),
    "system": OPTIONAL_TEXT,
}
