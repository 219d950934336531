"""Schemas of the readers' batches (answers, spans, remarks and raters as in the file), and the values of cells."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from actors import schemas

# Metadata of batches of answers from a file that cannot say whether a person reported the picture.
UNKNOWN_REPORTS = {"reports": "unknown"}
ROWS_AT_A_TIME = 20_000  # rows held as Python objects: a few tens of MB
TRUE, FALSE = frozenset("1 true t yes y x ja oui si".split()), frozenset(["", *"0 false f no n nein non".split()])

_STR, _F64 = pa.string(), pa.float64()
ANSWERS = pa.schema([
    ("item_id", _STR), ("target", _STR), ("question", _STR), ("rater", _STR), ("condition", _STR), ("order", _STR),
    ("sample", pa.int32()),
    ("method", _STR),  # value of the column `method`; null: the import's
    ("answer", _STR),  # the answer as in the file; null: none
    ("status", _STR),  # skipped, reported or refused if the person did so, else null
    ("kind", _STR),  # value of error_kind; null: the status's default
    ("images", pa.list_(_STR)),  # the item's pictures, if the file has them
    ("comment", _STR), ("seconds", _F64),
    ("time", _F64),  # time of the annotation, seconds since 1970
    ("position", pa.int64()),
])  # fmt: skip
SPANS = pa.schema([
    ("item_id", _STR), ("rater", _STR), ("condition", _STR), ("text_id", _STR), ("kind", _STR),
    ("start", pa.int32()), ("end", pa.int32()), ("category", _STR), ("score", _F64), ("probability", _F64),
    ("status", _STR), ("images", pa.list_(_STR)), ("time", _F64),
    ("shifted", pa.bool_()),  # whether it was moved to the place of its stored text
    ("annotation", pa.int64()),  # number of the annotation in the file; null: the file does not number them
    ("position", pa.int64()),
])  # fmt: skip
REMARKS = pa.schema([
    ("item_id", _STR), ("target", _STR), ("field", _STR), ("rater", _STR), ("condition", _STR), ("sample", pa.int32()),
    ("text", _STR),  # whole text of the field; null: left empty
    ("images", pa.list_(_STR)), ("time", _F64),
    ("annotation", pa.int64()),  # number of the annotation, or of the row, in the file
    ("position", pa.int64()),
])  # fmt: skip
PEOPLE = pa.schema([
    ("rater", _STR), ("country", _STR), ("pool", _STR), ("experience", _STR), ("position", pa.int64()),
])  # fmt: skip
SCHEMAS = {"ratings": ANSWERS, "spans": SPANS, "remarks": REMARKS, "raters": PEOPLE}
ATTRIBUTES = ("country", "pool", "experience")


def table(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as an Arrow table; columns that a row does not have are null."""
    return schemas.to_table(rows, schema)


def blank(text: Any) -> bool:
    """Return whether a cell is empty."""
    return text is None or not str(text).strip()


def seconds_since_1970(value: Any) -> float | None:
    """Return a time in ISO 8601 (UTC if it has no zone) or in seconds as a number; None for an empty cell.

    Raises:
        ValueError: the cell is neither.
    """
    if blank(value):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        moment = datetime.fromisoformat(str(value).strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not a time")
    return number


def moment(value: Any) -> float | None:
    """Return a time as `seconds_since_1970` does; None for any other value."""
    try:
        return seconds_since_1970(value)
    except (TypeError, ValueError):
        return None


def duration(value: Any) -> float | None:
    """Return a duration in seconds; None unless the cell is a finite number, at least 0."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def flag(value: Any) -> bool | None:
    """Return whether a cell means yes; None if it means neither yes nor no."""
    word = "" if value is None else str(value).strip().casefold()
    return True if word in TRUE else False if word in FALSE else None
