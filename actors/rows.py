"""Rows that stages write, as typed dictionaries with the columns of `actors.schemas`; missing columns are null."""

from collections.abc import Mapping
from typing import Any, TypedDict, TypeVar

from actors.status import Status


class Ended(TypedDict, total=False):
    """Columns with the outcome of the work on a row."""

    status: str
    error_kind: str | None
    error_message: str | None


class ImageRow(Ended, total=False):
    """A row of `actors.schemas.IMAGES`."""

    image_id: str
    rendition: str
    bytes: bytes | None
    format: str
    width: int
    height: int
    sha256: str
    phash: str
    source_url: str | None
    final_url: str | None
    author: str | None
    licence: str | None
    http_status: int | None
    attempts: int


class ResponseRow(Ended, total=False):
    """A row of `actors.schemas.RESPONSES`."""

    response_id: str
    item_id: str
    model: str
    prompt: str
    condition: str
    sample: int
    seed: int
    text: str
    thought: str | None
    finish_reason: str
    refusal_kind: str | None
    truncated: list[str] | None
    empty_context: str | None


class RatingRow(Ended, total=False):
    """A row of `actors.schemas.RATINGS`."""

    item_id: str
    target: str
    rubric: str
    question: str
    rater: str
    condition: str
    method: str
    order: str
    sample: int
    value: str
    score: float | None
    expected: float | None
    answers: list[str]
    probabilities: list[float]
    outside_mass: float
    truncated: list[str] | None
    empty_context: str | None
    raw: str | None
    comment: str
    seconds: float


class SpanRow(Ended, total=False):
    """A row of `actors.schemas.SPANS`."""

    item_id: str
    rater: str
    condition: str
    method: str
    text_id: str
    kind: str
    start: int
    end: int
    category: str | None
    score: float | None
    marked: bool
    probability: float | None
    raw: str | None


class PreparedQuestionsRow(Ended, total=False):
    """A row of `actors.schemas.PREPARED_QUESTIONS`."""

    item_id: str
    targets: list[str]
    questions: list[dict[str, Any]] | None
    inputs: bytes
    shared: int
    suffixes: list[list[int]]
    truncated: list[str] | None
    empty_context: str | None


class PreparedPromptRow(Ended, total=False):
    """A row of `actors.schemas.PREPARED_PROMPTS`."""

    item_id: str
    targets: list[str] | None
    inputs: bytes
    truncated: list[str] | None
    empty_context: str | None


Row = TypeVar("Row", ImageRow, ResponseRow, RatingRow, SpanRow, PreparedQuestionsRow, PreparedPromptRow)


def failed(row: type[Row], status: Status, reason: tuple[str | None, str | None]) -> Row:
    """Return a row of the type `row` with its status and error columns.

    Args:
        reason: `error_kind` and `error_message`.
    """
    return row(status=status.value, error_kind=reason[0], error_message=reason[1])


def ended(row: type[Row], earlier: Mapping[str, Any]) -> Row:
    """Return a row of the type `row` with status and error columns copied from a row of an earlier stage."""
    return failed(row, Status(earlier["status"]), (earlier["error_kind"], earlier["error_message"]))
