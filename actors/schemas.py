"""Rows and Arrow schemas of stages' inputs and outputs; `jobs.tables` adds keys and versions for tables.

The rows that stages write are typed dictionaries, whose missing columns are null. Columns are declared there, with a
description if tables have them; a schema follows from the types (an int is an int32), unless an annotation has another
Arrow type.

A stage class declares the columns that it needs as `INPUTS` and those that it returns as `OUTPUTS`. The stage runner
(`jobs.runtime.stage_contract`) checks batches against both.
"""

import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from actors.status import Status
from actors.untrusted import storable

STR, I32, I64, F64 = pa.string(), pa.int32(), pa.int64(), pa.float64()
OWN_QUESTIONS = pa.list_(pa.struct({"set_id": STR, "question_id": STR, "text": STR}))
_KINDS = {str: STR, int: I32, float: F64, bool: pa.bool_(), bytes: pa.large_binary()}


class Ended(TypedDict, total=False):
    """Columns with the outcome of the work on a row."""

    status: Annotated[str, "how the work on this row ended: a value of actors.status.Status"]
    error_kind: Annotated[str | None, "short machine-readable kind of the error, null unless status says so"]
    error_message: Annotated[str | None, "the error in one sentence, null unless status says so"]


class ImageRow(Ended, total=False):
    """A row of `actors.schemas.IMAGES`."""

    image_id: Annotated[str, "hash of the picture's URL, or of its path inside the folder it came from"]
    rendition: Annotated[str, "original, w300 for a width of 300 pixels, or verified for an availability check"]
    bytes: Annotated[bytes | None, "the encoded picture; null unless status is ok, and for verified"]
    format: Annotated[str, "JPEG, PNG, …, detected from the bytes"]
    width: Annotated[int, "pixels"]
    height: Annotated[int, "pixels"]
    sha256: Annotated[str, "of bytes, hexadecimal"]
    phash: Annotated[str, "64-bit perceptual hash, hexadecimal"]
    source_url: Annotated[str | None, "the URL that was requested"]
    final_url: Annotated[str | None, "the URL after redirects"]
    author: Annotated[
        str | None, "author according to the source; unknown if it does not say, null if it was not asked"
    ]
    licence: Annotated[str | None, "licence according to the source; unknown and null as for author"]
    http_status: Annotated[int | None, "last HTTP status, null for a folder"]
    attempts: Annotated[int, "number of requests or reads"]


class ResponseRow(Ended, total=False):
    """A row of `actors.schemas.RESPONSES`."""

    response_id: Annotated[
        str, "hash of item, model, prompt, settings, condition and sample number; the same on a retry"
    ]
    item_id: Annotated[str, "the item that the model was asked about"]
    model: Annotated[str, "model and revision"]
    prompt: Annotated[str, "name of the prompt"]
    condition: Annotated[str, "experimental condition, empty if none"]
    sample: Annotated[int, "number of the sample, from 0"]
    seed: Annotated[int, I64, "seed of the sample"]
    text: Annotated[str, "the answer"]
    thought: Annotated[str | None, "what the model wrote as its thought before the answer, null if nothing"]
    finish_reason: Annotated[str, "stop, length or filter"]
    refusal_kind: Annotated[str | None, "full, hedge, blocked or drop_event; null if none"]
    truncated: Annotated[list[str] | None, "context fields that were cut so that the prompt fits, null if none"]
    empty_context: Annotated[
        str | None, "why the item has no text of its condition (no article, no link, …), null if it has"
    ]


class RatingRow(Ended, total=False):
    """A row of `actors.schemas.RATINGS`."""

    item_id: Annotated[str, "the item that was rated"]
    target: Annotated[str, "the label that it was rated against, empty if none"]
    rubric: Annotated[str, "name of the rubric"]
    question: Annotated[str, "name of the question"]
    rater: Annotated[str, "the rater: raters.rater"]
    condition: Annotated[str, "experimental condition, empty if none"]
    method: Annotated[
        str, "closed, closed_sequence, loglik, loglik_threshold, json, encoder, generate_then_score, or human"
    ]
    order: Annotated[str, "layout of the prompt or order of presentation, empty if none"]
    sample: Annotated[int, "number of the sample, from 0"]
    value: Annotated[str, "the answer's code (rubric's value), null unless ok"]
    score: Annotated[float | None, "the answer as a number on the scale, null for categories and unless ok"]
    expected: Annotated[float | None, "mean of the scale under probabilities, null for categories and unless ok"]
    answers: Annotated[list[str], "allowed values in the rubric's order"]
    probabilities: Annotated[list[float], "of the answers, in their order, summing to 1"]
    outside_mass: Annotated[float, "probability of anything but the allowed answers"]
    truncated: Annotated[list[str] | None, "context fields that were cut so that the prompt fits, null if none"]
    empty_context: Annotated[
        str | None, "why the item has no text of its condition (no article, no link, …), null if it has"
    ]
    raw: Annotated[str | None, "the rater's text, kept if status is not ok"]
    comment: Annotated[str, "free comment"]
    seconds: Annotated[float, "time spent on this rating"]


class SpanRow(Ended, total=False):
    """A row of `actors.schemas.SPANS`."""

    item_id: Annotated[str, "the item"]
    rater: Annotated[str, "the rater who read the text: raters.rater"]
    condition: Annotated[str, "experimental condition, empty if none"]
    method: Annotated[str, "human, direct or claims"]
    text_id: Annotated[str, "the text that contains it, empty if the item has none"]
    kind: Annotated[str, "mistake or omission"]
    start: Annotated[int, "first character, from 0; 0 to 0: nothing is marked, or the status says why it is unknown"]
    end: Annotated[int, "one past the last character"]
    category: Annotated[str | None, "kind of mistake"]
    score: Annotated[float | None, "severity"]
    marked: Annotated[bool, "false from 0 to 0, and for a claim with a probability below the threshold"]
    probability: Annotated[float | None, "that the span is a mistake or an omission, null unless the method is claims"]
    raw: Annotated[str | None, "the rater's text, kept if status is not ok"]


class VectorRow(Ended, total=False):
    """A row of `actors.schemas.embeddings`."""

    item_id: Annotated[str, "image_id or text_id"]
    kind: Annotated[str, "image or text"]
    embedding: Annotated[
        list[float] | None, pa.list_(pa.float16(), 768), "L2-normalised vector, null unless status is ok"
    ]


class PreparedQuestionsRow(Ended, total=False):
    """A row of `actors.schemas.PREPARED_QUESTIONS`."""

    item_id: str
    targets: list[str]
    questions: Annotated[list[dict[str, Any]] | None, OWN_QUESTIONS]
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


def columns_of(row: type, *, end_before: str | None = None) -> dict[str, tuple[pa.DataType, str]]:
    """Return the columns of rows, with their Arrow types and descriptions.

    Args:
        end_before: the first column after those of `Ended`; None: those are the last.
    """
    hints = get_type_hints(row, include_extras=True)
    names = [name for name in hints if name not in Ended.__annotations__]
    at = names.index(end_before) if end_before else len(names)
    return {name: _column(hints[name]) for name in (*names[:at], *Ended.__annotations__, *names[at:])}


def schema_of(row: type, *, end_before: str | None = None) -> pa.Schema:
    """Return the Arrow schema of rows; see `columns_of`."""
    return pa.schema([(name, kind) for name, (kind, _) in columns_of(row, end_before=end_before).items()])


def _column(hint: Any) -> tuple[pa.DataType, str]:
    notes = getattr(hint, "__metadata__", ())
    kind = next((note for note in notes if isinstance(note, pa.DataType)), None)
    text = next((note for note in notes if isinstance(note, str)), "")
    return kind or _arrow_type(get_args(hint)[0] if notes else hint), text


def _arrow_type(kind: Any) -> pa.DataType:
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(member for member in get_args(kind) if member is not type(None))
    return pa.list_(_arrow_type(get_args(kind)[0])) if get_origin(kind) is list else _KINDS[kind]


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


STRS = pa.list_(STR)
_END = dict.fromkeys(Ended.__annotations__, STR)  # how the work on a row ended

# Tables
IMAGES = schema_of(ImageRow)
RESPONSES = schema_of(ResponseRow)
RATINGS = schema_of(RatingRow, end_before="raw")
SPANS = schema_of(SpanRow, end_before="raw")


def embeddings(dim: int) -> pa.Schema:
    """Return the schema of the table `embeddings` with vectors of `dim` float16 numbers."""
    return pa.schema({"item_id": STR, "kind": STR, "embedding": pa.list_(pa.float16(), dim), **_END})


def to_table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as an Arrow table, null where they lack a column; texts that UTF-8 cannot encode become storable.

    All rows are written through this function, so that no text from outside can stop a run (`actors.untrusted`).
    """
    rows = list(rows)
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except UnicodeEncodeError:
        return pa.Table.from_pylist([storable(dict(row)) for row in rows], schema=schema)


# Batches that pass from reader to stage, or from stage to stage
PICTURE_PATHS = pa.schema({"image_id": STR, "source_url": STR, "path": STR})
PICTURE_ROWS = pa.schema([*PICTURE_PATHS, ("row_group", I32), ("row", I64)])
ENCODED_PICTURES = pa.schema({"image_id": STR, "bytes": pa.large_binary(), **_END})
DECODED_PICTURES = pa.schema({"item_id": STR, "kind": STR, "pixels": pa.large_binary(), **_END})
TEXTS = pa.schema({"text_id": STR, "text": STR})
IMAGE_PROMPTS = pa.schema({"image_id": STR, "prompt": STR, "seed": I64, "status": STR})
ITEMS = pa.schema({"item_id": STR, "pictures": pa.list_(pa.large_binary()), "status": STR})
DESCRIBED_ITEMS = pa.schema([*ITEMS, ("texts", pa.map_(STR, STRS)), ("text_ids", pa.map_(STR, STRS))])
PREPARED_QUESTIONS = schema_of(PreparedQuestionsRow)
PREPARED_PROMPTS = schema_of(PreparedPromptRow)
WRITTEN_ANSWERS = pa.schema({
    "item_id": STR,
    "model": STR,
    "prompt": STR,
    "condition": STR,
    "sample": I32,
    "text": STR,
    "truncated": STRS,
    "empty_context": STR,
    **_END,
})  # fmt: skip
RATED_ITEMS = pa.schema({"item_id": STR, **_END})
