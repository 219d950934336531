"""Code shared by both methods of marking: the kinds of spans, the descriptions, their marks, and the model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from actors.marking.prompts import MISTAKES, OMISSIONS, MarkingStep
from actors.rubrics import checks
from actors.status import Status
from actors.vlm.errors import ScoringError

KINDS = (MISTAKES, OMISSIONS)  # in the order of marking
MISTAKES_UNKNOWN = ScoringError(
    "mistakes_unknown", "omissions are marked after the mistakes, and these could not be marked"
)


@dataclass(frozen=True)
class Kind:
    """A kind of spans: its name, its value in the table `spans`, the role of its text, and its labels' meanings."""

    name: str
    kind: str
    role: str
    labels: Mapping[str, str]


def kinds_from(data: Sequence[Mapping[str, Any]]) -> tuple[Kind, Kind]:
    """Return the two kinds in a file of `conf/span_labels`, mistakes first.

    Args:
        data: the file's entries `kinds`.

    Raises:
        ValueError: the kinds are not mistakes and omissions, both are in one text, or a key is missing or unknown.
    """
    kinds = {}
    for entry in checks.entries(data, "span_labels, kinds"):
        checks.check_keys(
            entry,
            where="span_labels, kinds",
            required=("name", "kind", "text", "labels"),
            optional=("title", "guidance"),
        )
        labels = {str(label["value"]): _meaning(label) for label in _labels(entry["labels"])}
        kind = Kind(str(entry["name"]), str(entry["kind"]), str(entry["text"]), labels)
        kinds[kind.name] = kind
    if set(kinds) != set(KINDS):
        raise ValueError(
            f"span_labels, kinds: {', '.join(kinds) or 'none'}; must be {' and '.join(KINDS)}, which models mark"
        )
    if kinds[MISTAKES].role == kinds[OMISSIONS].role:
        raise ValueError(f"span_labels, kinds: {MISTAKES} and {OMISSIONS} are marked in one text; two are required")
    return kinds[MISTAKES], kinds[OMISSIONS]


def _labels(data: Any) -> Sequence[Mapping[str, Any]]:
    labels: Sequence[Mapping[str, Any]] = checks.entries(data, "span_labels, labels")
    for label in labels:
        checks.check_keys(
            label,
            where="span_labels, labels",
            required=("value", "label"),
            optional=("colour", "hotkey", "guidance"),
        )
    return labels


def _meaning(label: Mapping[str, Any]) -> str:
    return str(label.get("guidance") or label["label"]).strip()


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
