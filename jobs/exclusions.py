"""Pictures that must not be used: reported or withdrawn ones. Every job honours the list (`exclusions=FILE`).

The file has one picture a line: its image_id or its URL; `#` begins a comment. What is already in a table
stays there until its job is run again with the list, which, as it changes the output, takes `overwrite=true`.
"""

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import content_id
from actors.status import Status
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.run import TableRun

KEPT = "exclusions.txt"
ID = re.compile(r"[0-9a-f]{32}")
HOLDS_PICTURE = ("bytes", "path")  # columns through which a stage could reach the picture


def read_exclusions(uri: str | None) -> frozenset[str]:
    """The excluded image_ids; none without a file.

    Raises:
        InputError: the file cannot be read.
    """
    if uri is None:
        return frozenset()
    (file,) = locations.find(uri)[:1]
    with locations.named_errors(uri):
        text = locations.read_bytes(file.uri).decode("utf-8-sig", "replace")
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    named = [line for line in lines if line and not line.startswith("#")]
    if not named:
        raise InputError(f"exclusions={uri}: no picture in it")
    return frozenset(line if ID.fullmatch(line) else content_id(line) for line in named)


def identity(excluded: frozenset[str]) -> dict[str, str]:
    """What a run's identity says of the list; nothing without one."""
    return {"exclusions": content_id(*sorted(excluded))} if excluded else {}


def keep(run: TableRun, excluded: frozenset[str]) -> str | None:
    """Store the list with the run, where workers read it; its uri, None if it is empty."""
    return run.keep(KEPT, "\n".join(sorted(excluded)).encode()) if excluded else None


@lru_cache(maxsize=4)
def kept(uri: str | None) -> frozenset[str]:
    """The list that `keep` stored, read once a process."""
    return frozenset(locations.read_bytes(uri).decode().split()) if uri else frozenset()


def withhold(rows: pa.Table, *, item: str, excluded: frozenset[str]) -> pa.Table:
    """`rows` with the excluded ones' pictures out of reach and their status `reported`."""
    if not excluded:
        return rows
    hit = pc.is_in(rows[item], pa.array(sorted(excluded), pa.string()))
    for name in HOLDS_PICTURE:
        if name in rows.column_names:
            column = rows[name]
            rows = _set(rows, name, pc.if_else(hit, pa.scalar(None, column.type), column))
    before = rows["status"] if "status" in rows.column_names else pa.scalar(Status.OK.value)
    return _set(rows, "status", pc.if_else(hit, pa.scalar(Status.REPORTED.value), before))


def _set(rows: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    if name in rows.column_names:
        return rows.set_column(rows.column_names.index(name), name, column)
    return rows.append_column(name, column)
