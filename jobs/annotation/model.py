"""What a reader gives: answers, marked spans of text, and people, as they were given."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

ROWS_AT_A_TIME = 20_000  # rows held as Python objects: a few tens of MB
TRUE, FALSE = frozenset("1 true t yes y x ja oui si".split()), frozenset(["", *"0 false f no n nein non".split()])

_STR, _F64 = pa.string(), pa.float64()
ANSWERS = pa.schema([
    ("item_id", _STR), ("target", _STR), ("question", _STR), ("rater", _STR), ("condition", _STR), ("order", _STR),
    ("sample", pa.int32()),
    ("given", _STR),  # what was chosen, as the file has it; null: nothing
    ("status", _STR),  # skipped or reported where the person said so, else null
    ("kind", _STR),  # why, short
    ("images", pa.list_(_STR)),  # the item's pictures where the file names them
    ("comment", _STR), ("seconds", _F64),
    ("time", _F64),  # seconds since 1970, of the annotation
    ("position", pa.int64()),
])  # fmt: skip
SPANS = pa.schema([
    ("item_id", _STR), ("rater", _STR), ("text_id", _STR), ("kind", _STR), ("start", pa.int32()), ("end", pa.int32()),
    ("category", _STR), ("score", _F64), ("status", _STR), ("time", _F64),
    ("annotation", pa.int64()),  # which annotation of the file; null: the file does not tell them apart
    ("position", pa.int64()),
])  # fmt: skip
PEOPLE = pa.schema([
    ("rater", _STR), ("country", _STR), ("pool", _STR), ("experience", _STR), ("position", pa.int64()),
])  # fmt: skip
SCHEMAS = {"ratings": ANSWERS, "spans": SPANS, "raters": PEOPLE}
ATTRIBUTES = ("country", "pool", "experience")


def table(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows as Arrow; what a row does not name is null."""
    return pa.Table.from_pylist(list(rows), schema=schema)


def blank(text: Any) -> bool:
    """Whether a cell holds nothing."""
    return text is None or not str(text).strip()


def seconds_since_1970(value: Any) -> float | None:
    """A time as ISO 8601 (UTC if it names no zone) or as a number of seconds; None if there is none.

    Raises:
        ValueError: neither.
    """
    if blank(value):
        return None
    try:
        number = float(value)
    except ValueError:
        moment = datetime.fromisoformat(str(value).strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no time")
    return number


def duration(value: Any) -> float | None:
    """A time spent, in seconds; None if there is none or it is no finite number from 0 on."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) and number >= 0 else None


def flag(value: Any) -> bool | None:
    """Whether a cell says yes; None if it says neither yes nor no."""
    word = "" if value is None else str(value).strip().casefold()
    return True if word in TRUE else False if word in FALSE else None
