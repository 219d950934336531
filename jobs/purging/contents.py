"""Contents of files without what must go: JSON, JSON lines, CSV and Parquet."""

import csv
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.purging.needles import Needles


def without(text: str, name: str, needles: Needles) -> str | None:
    """The text without the tasks, lines, entries or rows that name what must go; None if it has another form."""
    if name.endswith(".csv"):
        return _rows_without(text, needles)
    if name.endswith(".jsonl"):
        return "".join(_lines_without(text, needles))
    if not name.endswith(".json"):
        return None
    value = json.loads(text)
    if not isinstance(value, list | dict):
        return None
    kept = _entries_without(value, needles)
    return None if _names(kept, needles) else json.dumps(kept, ensure_ascii=False, indent=1)


def rows_without(data: bytes, needles: Needles) -> bytes | None:
    """The Parquet file without rows that name what must go in a column for ids or addresses; None if there is none."""
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
    """A line's value without entries whose key names what must go; None if nothing is left of a part."""
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
    """The elements, or the entries, that do not name what must go."""
    if isinstance(value, list):
        return [element for element in value if not _names(element, needles)]
    return {key: part for key, part in value.items() if not needles.in_text(key)}


def _names(value: Any, needles: Needles) -> bool:
    return needles.in_text(json.dumps(value, ensure_ascii=False))


def _rows_without(text: str, needles: Needles) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    for row in csv.reader(io.StringIO(text, newline="")):
        if not any(needles.in_text(cell) for cell in row):
            writer.writerow(row)
    return out.getvalue()
