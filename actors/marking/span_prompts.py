"""The prompts of `actors.span_marker`, as data, and what both methods share: kinds of spans, descriptions, marks.

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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from actors.errors import SettingError
from actors.rubrics import checks, pieces
from actors.rubrics.checks import AS_IS, OPTIONAL_TEXT, REQUIRED_TEXT, TEXTS, Key
from actors.rubrics.pieces import Piece
from actors.rubrics.prompts import Prompt
from actors.rubrics.templates import compiled, words
from actors.status import Status
from actors.vlm.errors import ScoringError

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
KINDS = (MISTAKES, OMISSIONS)  # in the order of marking
MISTAKES_UNKNOWN = ScoringError(
    "mistakes_unknown", "omissions are marked after the mistakes, and these could not be marked"
)


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
    @checks.of_file("span_prompts")
    def from_dict(cls, data: Mapping[str, Any]) -> "SpanPrompts":
        """Return the prompts in `data`, as read from YAML.

        Raises:
            ValueError: the data is invalid; the message has the file's prompts, the place, the value, and what is
                allowed.
        """
        where = checks.named("span_prompts", data)
        keys = checks.read_keys(data, _KEYS, where)
        steps = {
            method: _steps(keys[method], method, keys["parts"], keys["system"], f"{where}, {method}")
            for method in METHODS
            if method in data
        }
        if not steps:
            raise ValueError(f"{where}: no steps; at least one of {', '.join(METHODS)} is required")
        return cls(keys["name"], keys["version"], keys["source"], steps)

    def of_method(self, method: str) -> Mapping[str, MarkingStep]:
        """Return the steps of a method.

        Raises:
            ValueError: the method is unknown, or the file has no prompts for it.
        """
        if method not in METHODS:
            raise SettingError(f"must be one of {', '.join(METHODS)}", "method", method)
        if method not in self.steps:
            why = f"span_prompts {self.name!r} has no steps of it; it has {', '.join(self.steps)}"
            raise SettingError(why, "method", method)
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
    form = {**_STEP, "answers": Key(checks.list_of(_ANSWER), required=True)} if answers else _STEP
    keys = checks.read_keys(data, form, where)
    parts, order = {**shared, **keys["parts"]}, keys["order"]
    pieces.check_order(parts, order, where=f"{where}, order")
    if not order or pieces.is_picture(order[-1]):
        raise ValueError(f"{where}, order: must end with a part, not with {order[-1] if order else 'nothing'}")
    if answers:
        checks.check_unique([answer.code for answer in keys["answers"]], where=f"{where}, answers", kind="code")
        if {answer.marks for answer in keys["answers"]} != {True, False}:
            raise ValueError(f"{where}, answers: at least one answer with marks: true and one without it are required")
    return MarkingStep(name, order, parts, answers=keys.get("answers", ()))


_AS_TEXT = Key(checks.as_string, required=True)
_PARTS = Key(checks.map_of(checks.as_string), {}, nullable=True)
_KEYS = {
    "name": REQUIRED_TEXT,
    **dict.fromkeys(("version", "source"), _AS_TEXT),
    "system": OPTIONAL_TEXT,
    "parts": _PARTS,
    **dict.fromkeys(METHODS, AS_IS),
}
_STEP = {"order": TEXTS._replace(required=True), "parts": _PARTS}
_ANSWER = checks.instance_of(
    ClosedAnswer, {"code": REQUIRED_TEXT, "label": REQUIRED_TEXT, "marks": Key(checks.boolean(), False)}
)


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


@dataclass(frozen=True)
class Kind:
    """A kind of spans: its name, its value in the table `spans`, the role of its text, and its labels' meanings."""

    name: str
    kind: str
    role: str
    labels: Mapping[str, str]


@checks.of_file("span_labels")
def kinds_from(data: Sequence[Mapping[str, Any]]) -> tuple[Kind, Kind]:
    """Return the two kinds in a file of `conf/span_labels`, mistakes first.

    Args:
        data: the file's entries `kinds`.

    Raises:
        ValueError: the kinds are not mistakes and omissions, both are in one text, or a key is missing or unknown.
    """
    kinds = {}
    for entry in checks.entries(data, "span_labels, kinds"):
        keys = checks.read_keys(entry, _KIND, "span_labels, kinds")
        labels = {label["value"]: (label["guidance"] or label["label"]).strip() for label in keys["labels"]}
        kinds[keys["name"]] = Kind(keys["name"], keys["kind"], keys["text"], labels)
    if set(kinds) != set(KINDS):
        raise ValueError(
            f"span_labels, kinds: {', '.join(kinds) or 'none'}; must be {' and '.join(KINDS)}, which models mark"
        )
    if kinds[MISTAKES].role == kinds[OMISSIONS].role:
        raise ValueError(f"span_labels, kinds: {MISTAKES} and {OMISSIONS} are marked in one text; two are required")
    return kinds[MISTAKES], kinds[OMISSIONS]


_LABEL = {**dict.fromkeys(("value", "label"), _AS_TEXT), "guidance": Key(checks.as_string, "")} | (
    dict.fromkeys(("colour", "hotkey"), AS_IS)
)
_KIND = {
    **dict.fromkeys(("name", "kind", "text"), _AS_TEXT),
    "labels": Key(checks.list_of(lambda data, where: checks.read_keys(data, _LABEL, where)), required=True),
    **dict.fromkeys(("title", "guidance"), AS_IS),
}


class Description(NamedTuple):
    """A picture with a correct and a generated description.

    Attributes:
        pictures: PIL images; empty if the prompts show none.
        correct, generated: the texts in which omissions and mistakes are marked.
    """

    pictures: tuple[Any, ...]
    correct: str
    generated: str

    def text(self, kind: Kind) -> str:
        """Return the text in which a kind is marked."""
        return self.generated if kind.name == MISTAKES else self.correct

    def words(self, kind: Kind) -> dict[str, str]:
        """Return the words of all prompts about this description."""
        lines = [f"- {label}: {meaning}" for label, meaning in kind.labels.items()]
        labels = "\n".join(lines) if len(lines) > 1 else ""
        return {"correct": self.correct, "generated": self.generated, "labels": labels}


class Mark(NamedTuple):
    """A span of a text, in characters; if not `marked`, a claim whose probability is below the threshold."""

    start: int
    end: int
    category: str | None
    probability: float | None = None
    marked: bool = True


@dataclass
class Marks:
    """The marks of a model in one text; `status` is not ok if they are incomplete or unknown.

    Attributes:
        raw: the lines of the model's answer that could not be read or, if the status is not ok, the whole answer.
    """

    spans: list[Mark] = field(default_factory=list)
    status: Status = Status.OK
    reason: ScoringError | None = None
    raw: str | None = None

    def quoted(self, text: str) -> list[str]:
        """Return the words of all marked spans."""
        return [text[mark.start : mark.end] for mark in self.spans if mark.marked]

    @property
    def are_known(self) -> bool:
        """Whether the marks can be quoted to the model in a later step; lines that match no text are included."""
        return self.status in (Status.OK, Status.UNPARSED)


class Request(NamedTuple):
    """A request for one step of a prompt.

    Attributes:
        words: the values of the words in the step's templates, by word.
        pictures: PIL images.
        codes: the allowed answers of a scored step; empty for a written step.
    """

    step: MarkingStep
    words: Mapping[str, str]
    pictures: tuple[Any, ...]
    codes: tuple[str, ...] = ()


class SpanModel(Protocol):
    """Interface of a model that writes and scores answers."""

    def write(self, requests: Sequence[Request]) -> list[str | ScoringError]:
        """Return the answer to each request; a truncated one is an error of kind `answer_cut`."""
        ...

    def score(self, requests: Sequence[Request]) -> list[tuple[float, ...] | ScoringError]:
        """Return the probabilities of each request's codes, which sum to 1."""
        ...


def failed(error: ScoringError) -> Marks:
    """Return the marks of a text for which the model gave no complete answer."""
    return Marks(status=Status.TRUNCATED if error.kind == "answer_cut" else Status.ERROR, reason=error)


def bullets(lines: Sequence[str]) -> str:
    """Return lines as a list in a prompt, without duplicates."""
    return "\n".join(f"- {line}" for line in dict.fromkeys(lines))
