"""The records whose pictures are fetched, cut into units of bounded size, with each picture only once.

A unit of `images` covers at most `unit_rows` rows of a unit of the records: a killed worker loses at most that much.
The footer names the records' unit and the range of rows (`extra`: `parent`, `from`, `to`), by which tables are joined
(`jobs.store.units.Unit.parent`). A unit that covers all rows of its parent keeps the parent's name. A table that has
begun keeps the names of its units (`jobs.store.pieces`).

`images` has one row per picture, but records may share pictures until they are curated. Before the run, the driver
reads their image_ids once and finds the records that repeat an earlier picture, using memory that does not grow with
the table; `_run/` stores one bit per record.
"""

import base64
import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from actors.ids import ID, content_id
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.objects import CompactList
from jobs.store.files.spool import Spool
from jobs.store.object_rows import read_rows
from jobs.store.pieces import FROM, NUMBER, PIECES, TO, UNCUT, UnitPieces, ranges, rows_per_piece
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit


@dataclass(frozen=True)
class RecordsInput:
    """A table of records, cut into the units of `images`."""

    table: TableSource
    units: Sequence[Unit]
    unit_rows: int
    repeated: Mapping[str, np.ndarray]  # unit of the records -> bool per row: repeats a picture

    @property
    def note(self) -> str:
        """A line of the printed plan."""
        return f"{sum(int(marks.sum()) for marks in self.repeated.values()):,} records repeat a picture"

    def keep_repeats(self, run: TableRun) -> str | None:
        """Store which records repeat a picture, for the workers; return the URI, or None if no record does."""
        return run.keep(REPEATS_FILE, encode_repeats(self.repeated)) if self.repeated else None


def open_records(uri: str, unit_rows: int | None, begun: Mapping[str, UnitPieces]) -> RecordsInput:
    """Open the table of records at `uri` and cut it into units of `unit_rows` (None: `rows_per_piece`), as `cut` does.

    Raises:
        InputError: the table cannot be opened, or a record has no image_id.
    """
    table = open_table(uri, "records")
    unit_rows = unit_rows or rows_per_piece(table.rows)
    repeated = find_repeats(table)
    return RecordsInput(table, CompactList(cut(table.units(), repeated, unit_rows, begun)), unit_rows, repeated)


def cut(
    parents: Sequence[Unit], repeated: Mapping[str, np.ndarray], unit_rows: int, begun: Mapping[str, UnitPieces]
) -> Iterator[Unit]:
    """Yield units of at most `unit_rows` rows, in the order of the records; a parent without rows gives one unit.

    A unit's version covers which of its rows repeat an earlier picture: if that changes, the unit is fetched again.

    Args:
        begun: how the parents were cut in the table that is continued.
    """
    for parent in parents:
        rows, before = parent.rows or 0, begun.get(parent.name, UNCUT)
        pieces = list(ranges(rows, unit_rows, before))
        for number, (first, last) in enumerate(pieces):
            whole = (first, last) == (0, rows)
            marks = repeated[parent.name][first:last] if parent.name in repeated else np.zeros(0, bool)
            count = int(marks.sum())
            version = ([] if whole else [f"rows {first}-{last}"]) + ([repeats_version(marks)] if count else [])
            yield replace(
                parent,
                name=before.name(number, parent.name if whole else f"{parent.name}-{first:09}", rows=last - first),
                piece=", ".join(version) or parent.piece,
                rows=last - first - count,
                extra={"parent": parent.name, FROM: first, TO: last, PIECES: len(pieces), NUMBER: number}
                | ({"filtered": {SAME_PICTURE: count}} if count else {}),
            )


def read_records(unit: Unit, columns: Sequence[str], repeated: str | None) -> pa.Table:
    """Return the rows of a unit of `cut` without those that repeat an earlier picture.

    Args:
        columns: the columns to read.
        repeated: the result of `RecordsInput.keep_repeats`.
    """
    first, last = unit.extra[FROM], unit.extra[TO]
    rows = read_rows(unit.inputs[0].uri, columns, first, last)
    return without_repeats(rows, repeated, unit.parent, first=first)


REPEATS_FILE = "repeats.json"
PASS_ROWS = 4_000_000  # records compared at a time; takes about 200 MB
_ID_ROW = np.dtype(
    [("high", np.uint64), ("low", np.uint64), ("unit", np.uint32), ("row", np.uint32)]
)  # halves of the id
SAME_PICTURE = "same_picture"


def find_repeats(records: TableSource, *, pass_rows: int = PASS_ROWS) -> dict[str, np.ndarray]:
    """Return bool [rows], whether each record repeats an earlier one, by unit name; omits units without repeats.

    The table is read once; if it has more than `pass_rows` rows, it is divided by image_id into temporary files.

    Raises:
        InputError: a record has no image_id.
    """
    names = [footer.unit.name for footer in records.footers]
    repeated = {name: np.zeros(footer.rows, bool) for name, footer in zip(names, records.footers, strict=True)}
    count = max(1, -(-records.rows // pass_rows))
    with Spool("repeats") as spool, contextlib.ExitStack() as stack:
        files = [stack.enter_context((spool.path / str(number)).open("w+b")) for number in range(count)]
        for rows in _ids(records):
            share = rows["high"] % np.uint64(count)
            for number, file in enumerate(files):
                rows[share == number].tofile(file)
        for file in files:
            file.seek(0)
            rows = np.fromfile(file, _ID_ROW)
            rows = rows[np.lexsort((rows["row"], rows["unit"], rows["low"], rows["high"]))]
            same = (rows["high"][1:] == rows["high"][:-1]) & (rows["low"][1:] == rows["low"][:-1])
            for later in rows[1:][same]:
                repeated[names[later["unit"]]][later["row"]] = True
    return {name: marks for name, marks in repeated.items() if marks.any()}


def _ids(records: TableSource) -> Iterator[np.ndarray]:
    """Yield ROW [rows] of each unit."""
    for unit, (footer, batch) in enumerate(zip(records.footers, records.by_object(["image_id"]), strict=True)):
        column = batch["image_id"]
        if column.null_count:
            raise InputError(
                f"{column.null_count} records have no image_id; write the table of records again",
                place=footer.object.uri,
            )
        rows = np.empty(len(column), _ID_ROW)
        halves = np.array([_halves(image_id) for image_id in column.to_pylist()], np.uint64).reshape(-1, 2)
        rows["high"], rows["low"] = halves[:, 0], halves[:, 1]
        rows["unit"], rows["row"] = unit, np.arange(len(column))
        yield rows


def _halves(image_id: str) -> tuple[int, int]:
    digest = (
        image_id if ID.fullmatch(image_id) else content_id(image_id)
    )  # tables of other tools have ids in another form
    return int(digest[:16], 16), int(digest[16:], 16)


def repeats_version(marks: np.ndarray) -> str:
    """Return a checksum of `marks` (bool [rows]) as text."""
    return f"without {zlib.crc32(np.packbits(marks).tobytes()):08x}"


def encode_repeats(repeated: Mapping[str, np.ndarray]) -> bytes:
    """Return the result of `find` as bytes that `without` can read."""
    return json.dumps({n: base64.b64encode(np.packbits(m).tobytes()).decode() for n, m in repeated.items()}).encode()


@lru_cache(maxsize=2)
def _stored_repeats(uri: str) -> dict[str, str]:
    marks: dict[str, str] = json.loads(locations.read_bytes(uri))
    return marks


def without_repeats(rows: pa.Table, uri: str | None, unit: str, *, first: int = 0) -> pa.Table:
    """Return `rows` without those that repeat an earlier picture.

    Args:
        rows: consecutive rows of a unit of the records.
        uri: URI of the bytes that `encoded` returned; None: no record repeats a picture.
        unit: name of that unit.
        first: number of the first of `rows` in the unit.
    """
    marks = _stored_repeats(uri).get(unit) if uri else None
    if marks is None:
        return rows
    bits = np.unpackbits(np.frombuffer(base64.b64decode(marks), np.uint8))[first : first + rows.num_rows]
    return rows.filter(pa.array(bits == 0))


RELEASED_METHODS = {
    "knowledge_graph": "with_knowledge_graph",
    "language_model": "with_foundation_model",
    "manual": "manually_curated",
}
RELEASED_SPLITS = {"val": "validation"}


def record_columns(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of `records` that a row of `pictures.csv` has under other names; empty for other rows."""
    columns: dict[str, Any] = {}
    if page := row.get("wikipedia_url"):
        columns["page_url"] = page
    if split := row.get("wit_split"):
        columns["split"] = {released: name for name, released in RELEASED_SPLITS.items()}.get(split, split)
    if methods := row.get("century_method"):
        names = {released: name for name, released in RELEASED_METHODS.items()}
        columns["methods"] = [names.get(method, method) for method in map(str.strip, methods.split(";")) if method]
        if len(columns["methods"]) == 1:
            columns["credited_method"] = columns["methods"][0]
    return columns


def released_method(record: Mapping[str, Any]) -> str:
    """Return `century_method` of a row of `records`: the credited method, else the methods that found the picture."""
    credited = record["credited_method"]
    methods = [credited] if credited else record["methods"] or ()
    return ";".join(RELEASED_METHODS.get(method, method) for method in methods)
