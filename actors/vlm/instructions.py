"""An instruction is data: what a model is told to write about an item, in parts, in an order.

An instruction's YAML file (`conf/prompt/`) reads

    name: explicit
    version: 1
    source: where the idea comes from
    context: {fields: [page_title, context_page_description], cut: [context_page_description]}
    parts:                                   # Jinja2, sandboxed; a part that renders to nothing is left out
      instruction: Describe this picture …
      context: "{% if page_title %}Title: {{ page_title }}{% endif %}"
    order: [instruction, context, picture]   # of the parts and the word `picture`; without it no picture is shown
    start: ""                                # how the model's own turn begins, if it is to go on from there

Context is data and is never read as a template. `questions` (a list of name, text, note and answers with value and
label) may be used by instructions that ask a rubric's questions, `target` by those about a label.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from actors.vlm.rubric import PICTURE, TARGET_WORD, Rubric, environment, words

QUESTIONS_WORD = "questions"


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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Instruction":
        """Check an instruction as YAML or Hydra gives it.

        Raises:
            ValueError: naming the instruction, the place, the value, and what is allowed there.
        """
        where = f"prompt {data.get('name')!r}" if isinstance(data, Mapping) else "a prompt"
        allowed = ("name", "version", "source", "parts", "order", "start", "context")
        if not isinstance(data, Mapping):
            raise ValueError(f"{where} is {data!r}; it must be a mapping with {', '.join(allowed)}")
        if unknown := [str(key) for key in data if key not in allowed]:
            raise ValueError(f"{where} has unknown key {unknown[0]!r}; allowed are {', '.join(allowed)}")
        if missing := [key for key in allowed[:5] if not data.get(key)]:
            raise ValueError(f"{where} lacks {missing[0]!r}; needed are {', '.join(allowed[:5])}")
        context = data.get("context") or {}
        if not isinstance(context, Mapping) or set(context) - {"fields", "cut"}:
            raise ValueError(f"{where}, context is {context!r}; it may have fields and cut")
        if not isinstance(data["parts"], Mapping):
            raise ValueError(f"{where}, parts is {data['parts']!r}; it must be a mapping of names to templates")
        made = cls(
            name=str(data["name"]),
            version=str(data["version"]),
            source=str(data["source"]),
            parts={str(name): str(text) for name, text in data["parts"].items()},
            order=_names(data["order"], f"{where}, order"),
            start=str(data.get("start") or ""),
            context_fields=_names(context.get("fields") or (), f"{where}, context.fields"),
            context_cut=_names(context.get("cut") or (), f"{where}, context.cut"),
        )
        _check(made, where=where)
        return made

    @property
    def shows_picture(self) -> bool:
        """Whether the picture is part of what the model is given."""
        return PICTURE in self.order

    @property
    def words(self) -> set[str]:
        """The words that the parts in use, and the start, take from outside."""
        used = [self.parts[entry] for entry in self.order if entry != PICTURE]
        return set().union(*(words(text) for text in (*used, self.start)))

    def render(self, context: Mapping[str, str], **more: Any) -> list[str | None]:
        """The pieces of the user's turn in their order, None for the pictures; texts side by side are joined.

        Args:
            context: text by context field; what is missing is empty.
            more: `questions` and `target`, where the instruction uses them.

        Raises:
            jinja2.TemplateError: a part that cannot be rendered.
        """
        values = {field: (context.get(field) or "").strip() for field in self.context_fields} | more
        pieces: list[str | None] = []
        for entry in self.order:
            if entry == PICTURE:
                pieces.append(None)
                continue
            text = environment().from_string(self.parts[entry]).render(values).strip()
            if not text:
                continue
            last = pieces[-1] if pieces else None
            if last is None:
                pieces.append(text)
            else:
                pieces[-1] = f"{last}\n\n{text}"
        return pieces

    def begin(self, **more: Any) -> str:
        """The start of the model's own turn."""
        return environment().from_string(self.start).render(more)


def identity(instruction: Instruction) -> str:
    """A hash (SHA-256, 32 hexadecimal digits) of everything in `instruction` that changes what a model is given."""
    facts = asdict(instruction)
    facts["parts"] = [(entry, instruction.parts.get(entry, "")) for entry in instruction.order]
    del facts["source"], facts["version"]
    canonical = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def asked_questions(rubric: Rubric) -> list[dict[str, Any]]:
    """A rubric's questions in the form in which an instruction reads them."""
    return [
        {
            "name": question.name,
            "text": question.text,
            "note": question.note,
            "answers": [{"value": answer.value, "label": answer.label} for answer in question.answers],
        }
        for question in rubric.questions
    ]


def _names(data: Any, where: str) -> tuple[str, ...]:
    if isinstance(data, str) or not isinstance(data, Sequence) or not all(isinstance(entry, str) for entry in data):
        raise ValueError(f"{where} is {data!r}; it must be a list of names")
    if twice := [entry for entry in data if list(data).count(entry) > 1]:
        raise ValueError(f"{where} has {twice[0]!r} twice; each may stand once")
    return tuple(data)


def _check(made: Instruction, *, where: str) -> None:
    if PICTURE in made.parts:
        raise ValueError(f"{where} has a part named {PICTURE!r}; that word stands for the picture itself")
    if unknown := [entry for entry in made.order if entry != PICTURE and entry not in made.parts]:
        raise ValueError(f"{where}, order names {unknown[0]!r}; it may name {', '.join([PICTURE, *made.parts])}")
    if all(entry == PICTURE for entry in made.order):
        raise ValueError(f"{where}, order names no part; a model has to be told something")
    if unknown := [field for field in made.context_cut if field not in made.context_fields]:
        raise ValueError(f"{where}, context.cut names {unknown[0]!r}; fields are {', '.join(made.context_fields)}")
    allowed = {QUESTIONS_WORD, TARGET_WORD, *made.context_fields}
    sample = [{"name": "x", "text": "x", "note": "", "answers": [{"value": "x", "label": "x"}]}]
    for name, text in {**made.parts, "start": made.start}.items():
        try:
            if unknown := sorted(words(text) - allowed):
                raise ValueError(f"it uses {unknown[0]!r}; it may use {', '.join(sorted(allowed))}")
            for filled in ("", "x"):
                values = {**dict.fromkeys(made.context_fields, filled), QUESTIONS_WORD: sample, TARGET_WORD: "x"}
                environment().from_string(text).render(values)
        except Exception as error:
            raise ValueError(f"{where}, part {name!r} is not a template that can be used: {error}") from error
