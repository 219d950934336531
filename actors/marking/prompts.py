"""The prompts of `actors.span_marker`, as data.

A file of `conf/span_prompts/` reads

    name: docent
    version: 1
    source: where the rules come from
    system: You compare …           # optional: text of the system's turn in all steps
    parts:                          # Jinja2, sandboxed, shared by the steps
      texts: "CORRECT: {{ correct }} …"
    direct:                         # steps of method=direct, each with an order of parts and further parts
      mistakes: {order: [picture, texts, question], parts: {question: …}}
      …
    claims:                         # steps of method=claims; those with answers are scored, the others write
      mistakes: {order: […, question], answers: [{code: A, label: …, marks: true}, {code: B, label: …}]}

`STEPS` has the steps and the words of each. Only the last part of a scored step may use `claim` and `marked`: what
precedes it is encoded once for all claims.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from actors.rubrics import checks, pieces
from actors.rubrics.pieces import Piece
from actors.rubrics.prompts import Prompt
from actors.rubrics.templates import compiled, words

MISTAKES, OMISSIONS = "mistakes", "omissions"  # names of the kinds of spans, and of the steps that mark them
_TEXTS = ("correct", "generated", "labels")
_CLAIM = ("claim", "marked")  # the words of a claim, and its text with [[ ]] around them
STEPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {  # the words of each step's parts, by method
    "direct": {
        MISTAKES: _TEXTS,
        OMISSIONS: (*_TEXTS, "mistakes"),
        "mistakes_again": (*_TEXTS, "faults"),
        "omissions_again": (*_TEXTS, "mistakes", "faults"),
    },
    "claims": {
        "cut": ("text",),
        "cut_again": ("text", "faults"),
        MISTAKES: (*_TEXTS, *_CLAIM),
        OMISSIONS: (*_TEXTS, "mistakes", *_CLAIM),
        "category": (*_TEXTS, *_CLAIM),
    },
}
SCORED = {"claims": (MISTAKES, OMISSIONS, "category")}  # the steps whose answers are scored, by method
ANSWERED = {"claims": (MISTAKES, OMISSIONS)}  # … and those whose answers are in the file; categories are span labels
METHODS = tuple(STEPS)


@dataclass(frozen=True)
class ClosedAnswer:
    """An answer about a claim: its code, its label, and whether it means that the claim is to be marked."""

    code: str
    label: str
    marks: bool = False


@dataclass(frozen=True)
class MarkingStep:
    """A kind of prompt."""

    name: str
    order: tuple[str, ...]
    parts: Mapping[str, str]
    system: str = ""
    answers: tuple[ClosedAnswer, ...] = ()

    @property
    def shows_picture(self) -> bool:
        """Whether the prompt shows the picture."""
        return pieces.picture_count(self.order) != 0

    def turn(self, values: Mapping[str, Any]) -> list[Piece]:
        """Return the pieces of the user's turn for a written answer."""
        turn: list[Piece] = []
        for piece in self._rendered(values):
            if isinstance(piece, str) and turn and isinstance(turn[-1], str):
                turn[-1] = f"{turn[-1]}\n\n{piece}"
            else:
                turn.append(piece)
        return turn

    def prompt(self, values: Mapping[str, Any]) -> Prompt:
        """Return the prompt of a scored step."""
        *shared, last = self._rendered(values)
        whole = tuple(f"{piece}\n\n" if isinstance(piece, str) else piece for piece in shared)
        return Prompt(whole, str(last), system=self.system)

    def _rendered(self, values: Mapping[str, Any]) -> list[Piece]:
        words = dict(values)
        if self.answers:
            words["options"] = "\n".join(f"{answer.code} = {answer.label}" for answer in self.answers)
        rendered: list[Piece] = []
        for entry in self.order:
            if pieces.is_picture(entry):
                rendered.append(pieces.place(entry))
            elif text := compiled(self.parts[entry]).render(words).strip():
                rendered.append(text)
        return rendered


@dataclass(frozen=True)
class SpanPrompts:
    """The checked prompts in a file; build them with `SpanPrompts.from_dict`."""

    name: str
    version: str
    source: str
    steps: Mapping[str, Mapping[str, MarkingStep]] = field(default_factory=dict)  # steps by name, by method

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SpanPrompts":
        """Return the prompts in `data`, as read from YAML or Hydra.

        Raises:
            ValueError: the data is invalid; the message has the file's prompts, the place, the value, and what is
                allowed.
        """
        where = checks.named("span_prompts", data)
        checks.check_keys(
            data, where=where, required=("name", "version", "source"), optional=("system", "parts", *METHODS)
        )
        shared = {name: str(text) for name, text in checks.mapping(data.get("parts") or {}, f"{where}, parts").items()}
        system = checks.optional_text(data.get("system"), f"{where}, system")
        steps = {}
        for method in METHODS:
            if method in data:
                steps[method] = _steps(data[method], method, shared, system, f"{where}, {method}")
        if not steps:
            raise ValueError(f"{where}: no steps; at least one of {', '.join(METHODS)} is required")
        return cls(checks.text(data["name"], where), str(data["version"]), str(data["source"]), steps)

    def of_method(self, method: str) -> Mapping[str, MarkingStep]:
        """Return the steps of a method.

        Raises:
            ValueError: the method is unknown, or the file has no prompts for it.
        """
        if method not in METHODS:
            raise ValueError(f"method={method}: must be one of {', '.join(METHODS)}")
        if method not in self.steps:
            raise ValueError(
                f"method={method}: span_prompts {self.name!r} has no steps of it; it has {', '.join(self.steps)}"
            )
        return self.steps[method]

    def identity(self, method: str) -> str:
        """Return a hash (SHA-256, 32 hexadecimal digits) of everything that changes the prompts of a method."""
        facts = {name: asdict(step) for name, step in self.of_method(method).items()}
        for step in facts.values():
            step["parts"] = {entry: step["parts"].get(entry, "") for entry in step["order"]}
        canonical = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def _steps(data: Any, method: str, shared: Mapping[str, str], system: str, where: str) -> dict[str, MarkingStep]:
    checks.check_keys(data, where=where, required=tuple(STEPS[method]))
    steps = {}
    for name, words_of_step in STEPS[method].items():
        step = _step(data[name], name, shared, f"{where}, {name}", answers=name in ANSWERED.get(method, ()))
        is_scored = name in SCORED.get(method, ())
        _check_words(step, words_of_step, is_scored=is_scored, where=f"{where}, {name}")
        steps[name] = replace(step, system=system)
    return steps


def _step(data: Any, name: str, shared: Mapping[str, str], where: str, *, answers: bool) -> MarkingStep:
    checks.check_keys(data, where=where, required=("order", *(["answers"] if answers else [])), optional=("parts",))
    own_parts = {part: str(text) for part, text in checks.mapping(data.get("parts") or {}, f"{where}, parts").items()}
    parts, order = {**shared, **own_parts}, checks.texts(data["order"], f"{where}, order")
    pieces.check_order(parts, order, where=f"{where}, order")
    if not order or pieces.is_picture(order[-1]):
        raise ValueError(f"{where}, order: must end with a part, not with {order[-1] if order else 'nothing'}")
    return MarkingStep(name, order, parts, answers=_answers(data["answers"], f"{where}, answers") if answers else ())


def _answers(data: Any, where: str) -> tuple[ClosedAnswer, ...]:
    answers = []
    for number, entry in enumerate(checks.entries(data, where), start=1):
        checks.check_keys(entry, where=f"{where}, entry {number}", required=("code", "label"), optional=("marks",))
        marks = entry.get("marks", False)
        if not isinstance(marks, bool):
            raise ValueError(f"{where}, entry {number}: marks is {marks!r}; must be true or false")
        code, label = (checks.text(entry[key], f"{where}, entry {number}, {key}") for key in ("code", "label"))
        answers.append(ClosedAnswer(code, label, marks))
    checks.check_unique([answer.code for answer in answers], where=where, kind="code")
    if {answer.marks for answer in answers} != {True, False}:
        raise ValueError(f"{where}: at least one answer with marks: true and one without it are required")
    return tuple(answers)


def _check_words(step: MarkingStep, allowed: tuple[str, ...], *, is_scored: bool, where: str) -> None:
    allowed = (*allowed, *(["options"] if is_scored else []))
    for entry in step.order:
        if pieces.is_picture(entry):
            continue
        try:
            used = words(step.parts[entry])
            if unknown := sorted(used - set(allowed)):
                raise ValueError(f"unknown word {unknown[0]!r}; must be one of {', '.join(allowed)}")
            if is_scored and entry != step.order[-1] and (early := sorted(used & set(_CLAIM))):
                raise ValueError(f"uses {early[0]!r}; only the last part of a scored step may use it")
            compiled(step.parts[entry]).render(dict.fromkeys((*allowed, "labels"), ""))
        except Exception as error:
            raise ValueError(f"{where}, part {entry!r}: not a valid template: {error}") from error
