"""Records that share a picture: only the first of them, in the order of the table, is fetched.

`images` has one row per picture, but records may share pictures until they are curated. Before the run, passes over
their image_ids, whose memory does not grow with the table, find the records that repeat an earlier one; `_run/` stores
one bit per record.
"""

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from actors.ids import ID, content_id
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.reading import TableSource

FILE = "repeats.json"
PASS_ROWS = 4_000_000  # records compared in one pass; takes some 100 MB
FILTER = "same_picture"


def find(records: TableSource, *, pass_rows: int = PASS_ROWS) -> dict[str, np.ndarray]:
    """Return unit name -> bool [rows], whether the record repeats an earlier one; leaves out units without any.

    Raises:
        InputError: a record without an image_id.
    """
    names = [footer.unit.name for footer in records.footers]
    repeated = {name: np.zeros(footer.rows, bool) for name, footer in zip(names, records.footers, strict=True)}
    passes = max(1, -(-records.rows // pass_rows))
    for number in range(passes):
        parts = list(_ids(records, number, passes))
        if not parts:
            continue
        high, low, unit, row = (np.concatenate([part[i] for part in parts]) for i in range(4))
        order = np.lexsort((row, unit, low, high))
        same = (high[order][1:] == high[order][:-1]) & (low[order][1:] == low[order][:-1])
        for later in order[1:][same]:
            repeated[names[unit[later]]][row[later]] = True
    return {name: marks for name, marks in repeated.items() if marks.any()}


def _ids(records: TableSource, number: int, passes: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the records of one pass, by unit: the two halves of the image_id, the numbers of unit and row."""
    for unit, footer in enumerate(records.footers):
        fs, path = locations.filesystem(footer.object.uri)
        column = pq.read_table(path, columns=["image_id"], filesystem=fs)["image_id"]
        if column.null_count:
            raise InputError(f"{footer.object.uri}: {column.null_count} records have no image_id")
        halves = np.array([_halves(image_id) for image_id in column.to_pylist()], np.uint64).reshape(-1, 2)
        rows = np.flatnonzero(halves[:, 0] % np.uint64(passes) == number)
        yield halves[rows, 0], halves[rows, 1], np.full(len(rows), unit, np.uint32), rows.astype(np.uint32)


def _halves(image_id: str) -> tuple[int, int]:
    digest = (
        image_id if ID.fullmatch(image_id) else content_id(image_id)
    )  # other tools' tables have ids of another form
    return int(digest[:16], 16), int(digest[16:], 16)


def fingerprint(marks: np.ndarray) -> str:
    """Return a checksum of `marks` (bool [rows]) as text."""
    return f"without {zlib.crc32(np.packbits(marks).tobytes()):08x}"


def encoded(repeated: Mapping[str, np.ndarray]) -> bytes:
    """Return the result of `find` as bytes, which `without` reads."""
    return json.dumps({n: base64.b64encode(np.packbits(m).tobytes()).decode() for n, m in repeated.items()}).encode()


@lru_cache(maxsize=2)
def _stored(uri: str) -> dict[str, str]:
    marks: dict[str, str] = json.loads(locations.read_bytes(uri))
    return marks


def without(rows: pa.Table, uri: str | None, unit: str, *, first: int = 0) -> pa.Table:
    """Return `rows` without those that repeat an earlier picture.

    Args:
        rows: consecutive rows of a unit of the records.
        uri: URI of the bytes of `encoded`; None: no record repeats a picture.
        unit: name of that unit.
        first: number of the first of `rows` in that unit.
    """
    marks = _stored(uri).get(unit) if uri else None
    if marks is None:
        return rows
    bits = np.unpackbits(np.frombuffer(base64.b64decode(marks), np.uint8))[first : first + rows.num_rows]
    return rows.filter(pa.array(bits == 0))
