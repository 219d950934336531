"""Runs of three small units without Ray, for the tests of the store."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit, unit_of_file
from jobs.store.writer import Reject, UnitTask, UnitWriter

FILES = ("a", "b", "c")
ALL_ROWS = ["a0", "a1", "b0", "b1", "c0", "c1"]  # of a complete run


def unit(name: str, *, etag: str = "1", derived: bool = False) -> Unit:
    source = Object(f"/corpus/{name}", 10, etag)
    return Unit(name, (source,)) if derived else unit_of_file(source)


def plan(out: str, **changes: Any) -> TablePlan:
    unchanged = TablePlan(
        out, "node_images", {"rules": {"x": 1}}, [unit(f) for f in FILES], {"key": "value"}, {}, derived=False
    )
    return replace(unchanged, **changes)


def begin(planned: TablePlan, *, resume: bool = True, overwrite: bool = False, retry: Sequence[str] = ()) -> TableRun:
    return open_run(planned, resume=resume, overwrite=overwrite, retry=retry)


def write(run: TableRun, task: UnitTask, rows: int = 2, *, rejected: int = 0) -> None:
    name = task.unit.inputs[0].uri.rsplit("/", 1)[-1]
    with UnitWriter(run.target, task) as writer:
        writer.counts.rows_in = rows + rejected + 1
        writer.counts.filtered["rule"] += 1
        for i in range(rejected):
            writer.reject(Reject(task.unit.inputs[0].uri, i, "malformed", "no row", "raw"))
        if rows:
            ids = [f"{name}{i}" for i in range(rows)]
            writer.write(pa.table({"node_id": ids, "image_id": ids}))


def complete(planned: TablePlan, **options: Any) -> dict[str, Any]:
    run = begin(planned, **options)
    for task in run.todo:
        write(run, task)
    return run.finish()


def contents(out: str) -> list[str]:
    return sorted(node for batch in open_table(out, "node_images").batches() for node in batch["node_id"].to_pylist())


def open_below(folder: Path) -> list[str]:
    """Return the files below a folder that this process has open, including those that were removed."""
    places = []
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the listing itself
            places.append(str(entry.readlink()))
    return [place for place in places if place.startswith(f"{folder}/")]
