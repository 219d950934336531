"""Removal of tasks, lines, entries and rows that name a withdrawn picture from JSON, JSON lines, CSV and Parquet."""

import csv
import io
import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.corpora.delimited import delimiter_of
from jobs.purging.matching import IDS
from jobs.purging.needles import Needles

_HALVES = re.compile("[\ud800-\udfff]")
FIELDS = (*IDS, "stays")  # the last one of lists of near-duplicates


def without(text: str, name: str, needles: Needles) -> str | None:
    """Return the text of the file `name` without the tasks, lines, entries or rows that `needles` finds.

    Fields for ids are compared as a whole; other texts may have ids as words (`Needles.in_text`). Return None if the
    file is damaged, or neither CSV, JSON lines, nor a JSON array or object whose parts can be removed.
    """
    if name.endswith(".csv"):
        return _rows_without(text, needles)
    try:
        if name.endswith(".jsonl"):
            return "".join(_lines_without(text, needles))
        value = json.loads(text) if name.endswith(".json") else None
        if not isinstance(value, list | dict):
            return None
        kept = _entries_without(value, needles)
        if _names(kept, needles):
            return None
    except (ValueError, RecursionError):
        return None
    return text if kept == value else _as_json(kept, text, indent=1)


def _as_json(value: Any, source: str, **options: Any) -> str:
    """Return `value` as JSON; halves of characters that are escaped in `source`, the text it is from, stay escaped."""
    undecoded = set(_HALVES.findall(source))  # stand for bytes of the file
    text = json.dumps(value, ensure_ascii=False, **options)
    return _HALVES.sub(lambda match: match[0] if match[0] in undecoded else f"\\u{ord(match[0]):04x}", text)


def rows_without(data: bytes, needles: Needles) -> bytes | None:
    """Return the Parquet file without the rows that `needles` finds by ids and addresses; None if there are none."""
    rows = pq.read_table(pa.BufferReader(data))
    gone = needles.mask(rows)
    if not gone.any():
        return None
    out = pa.BufferOutputStream()
    pq.write_table(rows.filter(pa.array(~gone)), out, compression="zstd")
    kept: bytes = out.getvalue().to_pybytes()
    return kept


def _lines_without(text: str, needles: Needles) -> list[str]:
    lines = []
    for line in io.StringIO(text, newline="\n"):
        if needles.may_name(line):
            value = json.loads(line)
            kept = _keys_without(value, needles)
            if kept is None or _names(kept, needles):
                continue
            lines.append(line if kept == value else _as_json(kept, line) + "\n")
        else:
            lines.append(line)
    return lines


def _keys_without(value: Any, needles: Needles) -> Any:
    """Return a line's value without the entries whose key `needles` finds; None if this empties a nested object."""
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for key, part in value.items():
        if _is_named(key, needles):
            continue
        kept[key] = _keys_without(part, needles)
        if kept[key] is None or (part and kept[key] == {}):
            return None
    return kept


def _entries_without(value: list[Any] | dict[str, Any], needles: Needles) -> list[Any] | dict[str, Any]:
    """Return the elements of a list, or the entries of a mapping, that `needles` does not find."""
    if isinstance(value, list):
        return [element for element in value if not _names(element, needles)]
    return {key: part for key, part in value.items() if not _is_named(key, needles)}


def _is_named(name: str, needles: Needles) -> bool:
    return needles.is_id(name) or needles.in_text(name)


def _names(value: Any, needles: Needles) -> bool:
    return _in_fields(value, needles) or needles.in_text(json.dumps(value, ensure_ascii=False))


def _in_fields(value: Any, needles: Needles, field: str = FIELDS[0]) -> bool:
    """Return whether one of the ids is a value without a key, or of one of the keys `FIELDS`."""
    if isinstance(value, dict):
        return any(_in_fields(part, needles, key) for key, part in value.items())
    if isinstance(value, list):
        return any(_in_fields(part, needles, field) for part in value)
    return field in FIELDS and isinstance(value, str | int) and needles.is_id(str(value))


def _rows_without(text: str, needles: Needles) -> str:
    """Return the sheet without the rows that `needles` finds; the others stay as they are, whatever their delimiter."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a cell may be a whole article
    lines, kept, begin = list(io.StringIO(text, newline="")), list[str](), 0
    reader = csv.reader(lines, delimiter=delimiter_of(text))
    columns: list[int] = []  # those for ids
    for row in reader:
        of_ids = {row[column].strip() for column in columns if column < len(row)}
        if not any(map(needles.is_id, of_ids)) and not any(needles.in_text(cell) for cell in row):
            kept += lines[begin : reader.line_num]
        begin = reader.line_num
        columns = columns or [n for n, cell in enumerate(row) if cell.strip("\ufeff ").lower() in FIELDS]
    return "".join(kept)
