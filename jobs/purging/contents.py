"""Removal of tasks, lines, entries and rows that name a withdrawn picture from JSON, JSON lines, CSV and Parquet."""

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.corpora.delimited import delimiter_of
from jobs.purging.needles import Needles


def without(text: str, name: str, needles: Needles) -> str | None:
    """Return the text of the file `name` without the tasks, lines, entries or rows that `needles` finds.

    Return None if the file is damaged, or neither CSV, JSON lines, nor a JSON array or object whose parts can be
    removed.
    """
    if name.endswith(".csv"):
        return _rows_without(text, needles)
    try:
        if name.endswith(".jsonl"):
            return "".join(_lines_without(text, needles))
        value = json.loads(text) if name.endswith(".json") else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list | dict):
        return None
    kept = _entries_without(value, needles)
    return None if _names(kept, needles) else json.dumps(kept, ensure_ascii=False, indent=1)


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
        if needles.in_text(line):
            value = _keys_without(json.loads(line), needles)
            if value is None or _names(value, needles):
                continue
            lines.append(json.dumps(value, ensure_ascii=False) + "\n")
        else:
            lines.append(line)
    return lines


def _keys_without(value: Any, needles: Needles) -> Any:
    """Return a line's value without the entries whose key `needles` finds; None if this empties a nested object."""
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for key, part in value.items():
        if needles.in_text(key):
            continue
        kept[key] = _keys_without(part, needles)
        if kept[key] is None or (part and kept[key] == {}):
            return None
    return kept


def _entries_without(value: list[Any] | dict[str, Any], needles: Needles) -> list[Any] | dict[str, Any]:
    """Return the elements of a list, or the entries of a mapping, that `needles` does not find."""
    if isinstance(value, list):
        return [element for element in value if not _names(element, needles)]
    return {key: part for key, part in value.items() if not needles.in_text(key)}


def _names(value: Any, needles: Needles) -> bool:
    return needles.in_text(json.dumps(value, ensure_ascii=False))


def _rows_without(text: str, needles: Needles) -> str:
    """Return the sheet without the rows that `needles` finds; the others stay as they are, whatever their delimiter."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a cell may be a whole article
    lines, kept, begin = list(io.StringIO(text, newline="")), list[str](), 0
    reader = csv.reader(lines, delimiter=delimiter_of(text))
    for row in reader:
        if not any(needles.in_text(cell) for cell in row):
            kept += lines[begin : reader.line_num]
        begin = reader.line_num
    return "".join(kept)
