"""Reader of a user's file row by row: CSV, TSV, JSON lines, Parquet, or a list with one picture per line."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from actors.untrusted import cell_text
from jobs.corpora import delimited, json_files
from jobs.corpora.cell_texts import column_texts
from jobs.corpora.user_tables import opened_parquet
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.run_files import one_file
from jobs.store.writer import Reject, Rejects

PICTURE = "picture"  # the column of a list with one picture per line
SUFFIXES = {
    "delimited": (".csv", ".tsv", ".csv.gz", ".tsv.gz"),
    "lines": (".jsonl", ".jsonl.gz"),
    "parquet": (".parquet",),
    "list": (".txt", ".txt.gz"),
}
ENDINGS = ", ".join(suffix for suffixes in SUFFIXES.values() for suffix in suffixes if not suffix.endswith(".gz"))
HEAD_ROWS = 1000  # objects of JSON lines from which the columns are taken
BATCH_ROWS = 1024  # rows of Parquet read at a time
Cell = str | list[str] | None
Row = Mapping[str, Cell]


class UnusableRowError(ValueError):
    """A row that cannot become an item, and is rejected for `reason`. The message is one sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class UserFile:
    """A user's file.

    Attributes:
        columns: names of its columns, except those with binary data such as encoded pictures.
        rows: yields (line, or number of the row in Parquet; row), and passes faulty rows to a callback.
        counted: what the numbers count: line or row.
        binary: names of the columns that are left out.
    """

    object: Object
    columns: tuple[str, ...]
    rows: Callable[[Rejects], Iterator[tuple[int, Row]]]
    counted: str = "line"
    binary: tuple[str, ...] = ()

    @property
    def available(self) -> str:
        """The columns, for messages about one that is missing."""
        names = f"its columns are {', '.join(self.columns) or 'none'}"
        left_out = f"; not read, because they hold bytes and not text: {', '.join(self.binary)}; cast them to text"
        return names + (left_out if self.binary else "")

    def at(self, line: int) -> str:
        """Return the place of a row, for messages."""
        return f"{self.object.uri}: {self.counted} {line}"


def open_file(uri: str, *, encoding: str | None, delimiter: str | None) -> UserFile:
    """Open the file at `uri`, whose name determines the format.

    Raises:
        InputError: not one file, an unknown format, or a file that cannot be read or has no columns.
    """
    file = one_file("input", uri, f"file that ends with {ENDINGS}")
    match next((name for name, suffixes in SUFFIXES.items() if file.uri.lower().endswith(suffixes)), None):
        case "delimited":
            return _delimited(file, encoding, delimiter)
        case "lines":
            return _json_lines(file)
        case "parquet":
            return _parquet(file)
        case "list":
            return UserFile(file, (PICTURE,), lambda reject: _list(file, reject))
    advice = delimited.workbook_advice(uri) or f"allowed endings: {ENDINGS}"
    raise InputError("its name does not say the format", key="input", value=uri, remedy=advice)


def text_of(value: Any) -> Cell:
    """Return the value of a cell as trimmed text, or as a list of them; None if it is empty.

    A list without entries is not an empty cell: it says that there are none. One whose entries are all empty is.
    """
    if isinstance(value, list) and not any(isinstance(entry, list | dict | tuple) for entry in value):
        texts = [text for entry in value if isinstance(text := text_of(entry), str)]
        return None if value and not texts else texts
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return cell_text(value)


def _delimited(file: Object, encoding: str | None, delimiter: str | None) -> UserFile:
    dialect = delimited.read_dialect(file.uri, encoding=encoding, delimiter=delimiter)
    names = [name for name in dialect.header if name]
    delimited.require_columns(file.uri, names, names)

    def rows(reject: Rejects) -> Iterator[tuple[int, Row]]:
        for line, cells in delimited.rows(file.uri, dialect, reject=reject):
            yield line, {name: cell.strip() or None for name, cell in zip(dialect.header, cells, strict=True) if name}

    return UserFile(file, tuple(names), rows)


def _json_lines(file: Object) -> UserFile:
    def rows(reject: Rejects) -> Iterator[tuple[int, Row]]:
        for line, value in json_files.lines(file.uri, reject):
            yield line, {name: text_of(cell) for name, cell in value.items()}

    head = islice(rows(lambda _: None), HEAD_ROWS)
    return UserFile(file, tuple(dict.fromkeys(name for _, row in head for name in row)), rows)


def _parquet(file: Object) -> UserFile:
    with opened_parquet(file.uri) as opened:
        schema = opened.schema_arrow
    names = [field.name for field in schema if not _holds_bytes(field.type)]
    delimited.require_columns(file.uri, schema.names, names)

    def rows(_: Rejects) -> Iterator[tuple[int, Row]]:
        number = 0
        with opened_parquet(file.uri) as parquet:
            for batch in parquet.iter_batches(BATCH_ROWS, columns=names):
                columns = [_cells(batch.column(name)) for name in names]
                for cells in zip(*columns, strict=True):
                    number += 1
                    yield number, dict(zip(names, cells, strict=True))

    binary = tuple(name for name in schema.names if name not in names)
    return UserFile(file, tuple(names), rows, counted="row", binary=binary)


def _cells(column: pa.Array) -> list[Cell]:
    try:
        texts: list[Cell] = column_texts(column).to_pylist()
    except pa.ArrowNotImplementedError:  # lists and objects
        return [text_of(cell) for cell in column.to_pylist()]
    return texts


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_holds_bytes(kind.field(number).type) for number in range(kind.num_fields))
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(is_kind(kind) for is_kind in kinds)


def _list(file: Object, reject: Rejects) -> Iterator[tuple[int, Row]]:
    with locations.named_errors(file.uri), locations.opened(file.uri) as stream:
        for line, raw in enumerate(json_files.raw_lines(stream), start=1):
            try:
                text = raw.decode("utf-8-sig").strip()
            except UnicodeDecodeError:
                reject(Reject(file.uri, line, "bad_encoding", "the line is not UTF-8"))
                continue
            if text:
                yield line, {PICTURE: text}


def entries(cells: Sequence[Cell], separator: str | None) -> list[str]:
    """Return the entries of cells in order: the entries of lists, and the parts of texts divided by `separator`."""
    texts: list[str] = []
    for cell in cells:
        parts = cell if isinstance(cell, list) else [cell or ""] if separator is None else (cell or "").split(separator)
        texts += [part.strip() for part in parts if part.strip()]
    return texts
