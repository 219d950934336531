"""An instruction: what a model is asked to write about an item, as the parts of a prompt in an order.

An instruction's YAML file (`conf/prompt/`) reads

    name: explicit
    version: 1
    source: where the idea comes from
    context: {fields: [page_title, context_page_description], cut: [context_page_description]}
    parts:                                   # Jinja2, sandboxed; a part that renders to nothing is left out
      instruction: Describe this picture …
      context: "{% if page_title %}Title: {{ page_title }}{% endif %}"
    order: [instruction, context, picture]   # of the parts and the word `picture`, or picture1, … (see
                                             # `actors.rubrics.pieces`); without any of them no picture is shown
    system: You describe …                   # optional: text of the system's turn; none if it renders to nothing
    start: ""                                # how the model's own turn begins

Context is data and is never read as a template. Instructions may use `questions` (a list of name, text, note and
answers with value and label) to ask a rubric's questions, and `target` to ask about a label.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypedDict

from actors.errors import FileError
from actors.rubrics import checks, pieces
from actors.rubrics.checks import OPTIONAL_TEXT, REQUIRED_TEXT, TEXTS, Key
from actors.rubrics.pieces import Piece
from actors.rubrics.rubric import CONTEXT, Rubric
from actors.rubrics.templates import TARGET_WORD, compiled, words

QUESTIONS_WORD = "questions"
_KEYS = {
    **dict.fromkeys(("name", "version", "source"), REQUIRED_TEXT),
    "parts": Key(checks.map_of(checks.as_string), required=True),
    "order": TEXTS._replace(required=True),
    "start": Key(checks.as_string, ""),
    "context": CONTEXT,
    "system": OPTIONAL_TEXT,
}


@dataclass(frozen=True)
class Instruction:
    """A checked instruction; build it with `Instruction.from_dict`."""

    name: str
    version: str
    source: str
    parts: dict[str, str]
    order: tuple[str, ...]
    start: str = ""
    context_fields: tuple[str, ...] = ()
    context_cut: tuple[str, ...] = ()
    system: str = ""

    @classmethod
    @checks.of_file("prompt")
    def from_dict(cls, data: Mapping[str, Any]) -> "Instruction":
        """Return the instruction in `data`, as read from YAML.

        Raises:
            ValueError: the data is invalid; the message has the instruction, the place, the value, and what is allowed.
        """
        where = checks.named("prompt", data)
        keys = checks.read_keys(data, _KEYS, where)
        context = keys.pop("context")
        instruction = cls(**keys, context_fields=context["fields"], context_cut=context["cut"])
        _check(instruction, where=where)
        return instruction

    @property
    def picture_count(self) -> int | None:
        """The number of pictures that an item must have; 0: none is shown; None: one or more."""
        return pieces.picture_count(self.order)

    @property
    def shows_picture(self) -> bool:
        """Whether the model is shown pictures."""
        return self.picture_count != 0

    @property
    def words(self) -> set[str]:
        """The names that the parts in use, the system's turn and the start take from outside."""
        used = [self.parts[entry] for entry in self.order if not pieces.is_picture(entry)]
        return set().union(*(words(text) for text in (*used, self.system, self.start)))

    def render(self, context: Mapping[str, str], **values: Any) -> list[Piece]:
        """Return the pieces of the user's turn in order (`actors.rubrics.pieces`); adjacent texts are joined.

        Args:
            context: text by context field; a missing field is empty.
            values: `questions` and `target`, where the instruction uses them.

        Raises:
            jinja2.TemplateError: a part cannot be rendered.
        """
        turn: list[Piece] = []
        for entry in self.order:
            if pieces.is_picture(entry):
                turn.append(pieces.place(entry))
                continue
            text = self._rendered(self.parts[entry], context, values)
            if not text:
                continue
            last = turn[-1] if turn else None
            if isinstance(last, str):
                turn[-1] = f"{last}\n\n{text}"
            else:
                turn.append(text)
        return turn

    def render_system(self, context: Mapping[str, str], **values: Any) -> str:
        """Return the text of the system's turn, empty if there is none; arguments as for `render`."""
        return self._rendered(self.system, context, values)

    def _rendered(self, template: str, context: Mapping[str, str], values: Mapping[str, Any]) -> str:
        names = {field: (context.get(field) or "").strip() for field in self.context_fields}
        return compiled(template).render({**names, **values}).strip()

    def begin(self, **values: Any) -> str:
        """Return the start of the model's own turn."""
        end = "\n" if self.start.endswith("\n") else ""  # Jinja2 drops a final newline
        return compiled(self.start).render(values) + end


def identity(instruction: Instruction) -> str:
    """Return a hash (SHA-256, 32 hexadecimal digits) of everything in `instruction` that changes the prompt."""
    facts = asdict(instruction)
    facts["parts"] = [(entry, instruction.parts.get(entry, "")) for entry in instruction.order]
    del facts["source"], facts["version"]
    canonical = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


class AnswerWords(TypedDict):
    """An answer as instruction templates see it."""

    value: str
    label: str


class QuestionWords(TypedDict):
    """A question as instruction templates see it."""

    name: str
    text: str
    note: str
    answers: Sequence[AnswerWords]


def asked_questions(rubric: Rubric) -> list[QuestionWords]:
    """Return a rubric's questions as the word `questions` of instructions.

    Raises:
        ValueError: the rubric asks about targets, or asks each item its own questions.
    """
    if rubric.asks_targets:
        raise FileError.of(
            "rubric", rubric.name, "asks about targets, and a JSON answer has no targets; use another rubric"
        )
    if rubric.asks_own_questions:
        raise FileError.of("rubric", rubric.name, "asks each item its own questions; use it with remine judge")
    return [
        {
            "name": question.name,
            "text": question.text,
            "note": question.note,
            "answers": [{"value": answer.value, "label": answer.label} for answer in question.answers],
        }
        for question in rubric.questions
    ]


def _check(instruction: Instruction, *, where: str) -> None:
    parts, order, fields = instruction.parts, instruction.order, instruction.context_fields
    pieces.check_order(parts, order, where=f"{where}, order")
    if all(pieces.is_picture(entry) for entry in order):
        raise ValueError(f"{where}, order: at least one part is required")
    if unknown := [field for field in instruction.context_cut if field not in fields]:
        raise ValueError(f"{where}, context, cut: unknown field {unknown[0]!r}; fields are {', '.join(fields)}")
    allowed = {QUESTIONS_WORD, TARGET_WORD, *fields}
    sample: QuestionWords = {"name": "x", "text": "x", "note": "", "answers": [{"value": "x", "label": "x"}]}
    for name, text in {**parts, "start": instruction.start, "system": instruction.system}.items():
        try:
            if unknown := sorted(words(text) - allowed):
                raise ValueError(f"unknown word {unknown[0]!r}; must be one of {', '.join(sorted(allowed))}")
            for filler in ("", "x"):
                values = {**dict.fromkeys(fields, filler), QUESTIONS_WORD: [sample], TARGET_WORD: "x"}
                compiled(text).render(values)
        except Exception as error:
            raise ValueError(f"{where}, part {name!r}: not a valid template: {error}") from error
