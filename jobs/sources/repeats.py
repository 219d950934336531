"""Records of one picture: the first of them, in the order of the table, stands for all.

`images` has one row a picture, and nothing is fetched twice, but records may share pictures until they are curated.
Which records repeat an earlier one is found before the run, in narrow passes over their image_ids whose memory does
not grow with the table, and kept beside the manifest as one bit a record.
"""

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from actors.ids import content_id
from jobs.errors import InputError
from jobs.runtime.exclusions import ID
from jobs.store import locations
from jobs.store.reading import TableSource
from jobs.store.units import Unit

KEPT = "repeats.json"
PASS_ROWS = 4_000_000  # records looked at in one pass: some 100 MB
FILTER = "same_picture"


def find(records: TableSource, *, pass_rows: int = PASS_ROWS) -> dict[str, np.ndarray]:
    """Unit name -> which of its records repeat an earlier one (bool); units without any are left out.

    Raises:
        InputError: a record without an image_id.
    """
    names = [footer.unit.name for footer in records.footers]
    found = {name: np.zeros(footer.rows, bool) for name, footer in zip(names, records.footers, strict=True)}
    passes = max(1, -(-records.rows // pass_rows))
    for number in range(passes):
        parts = list(_ids(records, number, passes))
        if not parts:
            continue
        high, low, unit, row = (np.concatenate([part[i] for part in parts]) for i in range(4))
        order = np.lexsort((row, unit, low, high))
        same = (high[order][1:] == high[order][:-1]) & (low[order][1:] == low[order][:-1])
        for again in order[1:][same]:
            found[names[unit[again]]][row[again]] = True
    return {name: marks for name, marks in found.items() if marks.any()}


def _ids(records: TableSource, number: int, passes: int) -> Iterator[tuple[np.ndarray, ...]]:
    """Of the records of one pass: the two halves of the image_id, the unit's and the row's number."""
    for unit, footer in enumerate(records.footers):
        fs, path = locations.filesystem(footer.object.uri)
        column = pq.read_table(path, columns=["image_id"], filesystem=fs)["image_id"]
        if column.null_count:
            raise InputError(f"{footer.object.uri}: a record without an image_id")
        halves = np.array([_halves(image_id) for image_id in column.to_pylist()], np.uint64).reshape(-1, 2)
        mine = np.flatnonzero(halves[:, 0] % np.uint64(passes) == number)
        yield halves[mine, 0], halves[mine, 1], np.full(len(mine), unit, np.uint32), mine.astype(np.uint32)


def _halves(image_id: str) -> tuple[int, int]:
    digest = image_id if ID.fullmatch(image_id) else content_id(image_id)  # another tool may have made other ids
    return int(digest[:16], 16), int(digest[16:], 16)


def units(records: TableSource, repeated: dict[str, np.ndarray]) -> list[Unit]:
    """The records' units, each with the rows that are left; which ones these are is part of its version."""
    made = []
    for unit in records.units():
        if unit.name in repeated:
            marks = repeated[unit.name]
            piece = f"without {zlib.crc32(np.packbits(marks).tobytes()):08x}"
            unit = replace(unit, piece=piece, rows=int((~marks).sum()), extra={"filtered": {FILTER: int(marks.sum())}})  # noqa: PLW2901
        made.append(unit)
    return made


def encoded(repeated: dict[str, np.ndarray]) -> bytes:
    """For `TableRun.keep`."""
    return json.dumps({n: base64.b64encode(np.packbits(m).tobytes()).decode() for n, m in repeated.items()}).encode()


@lru_cache(maxsize=2)
def _kept(uri: str) -> dict[str, str]:
    marks: dict[str, str] = json.loads(locations.read_bytes(uri))
    return marks


def without(rows: pa.Table, uri: str | None, unit: str) -> pa.Table:
    """The unit's rows less those that repeat an earlier one, by the list at `uri`."""
    marks = _kept(uri).get(unit) if uri else None
    if marks is None:
        return rows
    bits = np.unpackbits(np.frombuffer(base64.b64decode(marks), np.uint8))[: rows.num_rows]
    return rows.filter(pa.array(bits == 0))
