"""Records that share a picture, of which only the first in the table is fetched.

`images` has one row per picture, but records may share pictures until they are curated. Before the run, the driver
reads their image_ids once and finds the records that repeat an earlier picture, using memory that does not grow with
the table; `_run/` stores one bit per record.
"""

import base64
import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache

import numpy as np
import pyarrow as pa

from actors.ids import ID, content_id
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.spool import Spool
from jobs.store.reading import TableSource

FILE = "repeats.json"
PASS_ROWS = 4_000_000  # records compared at a time; takes about 200 MB
ROW = np.dtype([("high", np.uint64), ("low", np.uint64), ("unit", np.uint32), ("row", np.uint32)])  # halves of the id
FILTER = "same_picture"


def find(records: TableSource, *, pass_rows: int = PASS_ROWS) -> dict[str, np.ndarray]:
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
            rows = np.fromfile(file, ROW)
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
        rows = np.empty(len(column), ROW)
        halves = np.array([_halves(image_id) for image_id in column.to_pylist()], np.uint64).reshape(-1, 2)
        rows["high"], rows["low"] = halves[:, 0], halves[:, 1]
        rows["unit"], rows["row"] = unit, np.arange(len(column))
        yield rows


def _halves(image_id: str) -> tuple[int, int]:
    digest = (
        image_id if ID.fullmatch(image_id) else content_id(image_id)
    )  # tables of other tools have ids in another form
    return int(digest[:16], 16), int(digest[16:], 16)


def fingerprint(marks: np.ndarray) -> str:
    """Return a checksum of `marks` (bool [rows]) as text."""
    return f"without {zlib.crc32(np.packbits(marks).tobytes()):08x}"


def encoded(repeated: Mapping[str, np.ndarray]) -> bytes:
    """Return the result of `find` as bytes that `without` can read."""
    return json.dumps({n: base64.b64encode(np.packbits(m).tobytes()).decode() for n, m in repeated.items()}).encode()


@lru_cache(maxsize=2)
def _stored(uri: str) -> dict[str, str]:
    marks: dict[str, str] = json.loads(locations.read_bytes(uri))
    return marks


def without(rows: pa.Table, uri: str | None, unit: str, *, first: int = 0) -> pa.Table:
    """Return `rows` without those that repeat an earlier picture.

    Args:
        rows: consecutive rows of a unit of the records.
        uri: URI of the bytes that `encoded` returned; None: no record repeats a picture.
        unit: name of that unit.
        first: number of the first of `rows` in the unit.
    """
    marks = _stored(uri).get(unit) if uri else None
    if marks is None:
        return rows
    bits = np.unpackbits(np.frombuffer(base64.b64decode(marks), np.uint8))[first : first + rows.num_rows]
    return rows.filter(pa.array(bits == 0))
