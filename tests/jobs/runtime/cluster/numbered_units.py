"""Units of numbered items, and plain stages of a few lines through which tests pass them.

They are not in test modules: a worker that got one from there would import pytest, half a second for each process.
"""

import ctypes
import dataclasses
import os
import resource
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.fetching import image_rows
from jobs.runtime import stages
from jobs.runtime.board import Reporter
from jobs.runtime.configuration.resources import Resources, TaskResources
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter

NUMBERED = pa.schema({"item": pa.string(), "number": pa.int64()})
POISON = {  # what a row does to its process -> the kind of its error
    "raise": "ValueError",
    "exit": "process_died",
    "kill": "process_died",
    "hang": "timed_out",
    "memory": "out_of_memory",
}


def poison(fault: str) -> None:
    """Raise, end the process or block it, as a poisoned row does."""
    if fault == "raise":
        raise ValueError("this picture is cursed")
    if fault == "exit":
        os._exit(7)
    if fault == "kill":  # as the kernel does when memory is short
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hang":  # within C, with the interpreter's lock
        ctypes.PyDLL(None).sleep(1000)
    if fault == "memory":
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + (256 << 20), before[1]))
        try:
            bytearray(1 << 36)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)


class Poisoned:
    """A unit at a time, some of which do to their process what `faults` says."""

    def __init__(self, *, faults: dict[str, str]) -> None:
        self._faults = faults

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        poison(self._faults.get(task.unit.name, ""))


class Double:
    """First stage: twice the number; keeps one file per call that names the items it was given."""

    INPUTS = OUTPUTS = NUMBERED

    def __init__(self, *, log: str) -> None:
        self._log = Path(log)

    def __call__(self, batch: pa.Table) -> pa.Table:
        (self._log / uuid4().hex).write_text("\n".join(batch["item"].to_pylist()))
        return batch.set_column(1, "number", pc.multiply(batch["number"], 2))


class Finish:
    """Second stage: rows of `images`. `faults` says what befalls an item."""

    INPUTS = NUMBERED
    OUTPUTS = schemas.IMAGES

    def __init__(self, *, faults: dict[str, str], copies: int = 1, note: str = "", weights: str = "") -> None:
        if weights:
            raise FileNotFoundError(f"no weights at {weights}")
        self._faults, self._copies, self._note = faults, copies, note

    def __call__(self, batch: pa.Table) -> pa.Table:
        if "status" in batch.column_names:  # of a row that ended the process each time
            row = self._row(batch["item"][0].as_py(), 0, 0) | (image_rows.withheld(batch["status"][0].as_py()) or {})
            return pa.Table.from_pylist([row], schema=schemas.IMAGES)
        faults = {self._faults.get(item) for item in batch["item"].to_pylist()}
        for fault in faults & set(POISON):
            poison(fault or "")
        rows = [
            self._row(item, number, copy)
            for item, number in zip(batch["item"].to_pylist(), batch["number"].to_pylist(), strict=True)
            for copy in range(self._copies)
        ]
        return pa.Table.from_pylist(rows[: -1 if "drop" in faults else None], schema=schemas.IMAGES)

    def _row(self, item: str, number: int, copy: int) -> dict[str, Any]:
        failed = self._faults.get(item) == "error"
        return {
            "image_id": item,
            "rendition": f"copy {copy}",
            "attempts": number,
            "author": self._note,
            "bytes": None if failed else f"{item} {number} {self._note}".encode(),
            "status": "error" if failed else "ok",
        }


def numbered(task: UnitTask) -> pa.Table:
    """Return a unit's items: `unit-row`, and the row's number."""
    rows = range(task.unit.rows or 0)
    names = pa.array([f"{task.unit.name}-{row:03}" for row in rows], pa.string())
    return pa.table({"item": names, "number": pa.array(list(rows), pa.int64())})


def numbered_but_one(task: UnitTask) -> pa.Table:
    """Return rows as `numbered` does; the process that reads unit u001 ends."""
    if task.unit.name == "u001":
        os._exit(7)
    return numbered(task)


READ = stages.Read(numbered, item="item", output_item="image_id")


def opened(out: str, sizes: list[int], retry: list[str] | None = None) -> TableRun:
    """Return a run of units of these sizes, named u000, u001, …"""
    units = [Unit(f"u{number:03}", (), rows=rows) for number, rows in enumerate(sizes)]
    plan = TablePlan(out, "images", {"test": "flow"}, units, {}, {}, derived=True)
    return open_run(plan, resume=True, overwrite=False, retry=retry or [])


def go(
    run: TableRun, log: Path, faults: dict[str, str] | None = None, *, resources: Resources | None = None, **finish: Any
) -> None:
    log.mkdir(exist_ok=True)
    copies = finish.get("copies", 1)
    chain = [
        stages.Stage("decode", Double, {"log": str(log)}),
        stages.Stage("embed", Finish, {"faults": faults or {}, **finish}, rows_out=copies),
    ]
    # Fewer reads and writes at a time than the default: each is a separate process, which takes seconds to start.
    resources = dataclasses.replace(resources or Resources(), read=TaskResources(0.3), write=TaskResources(0.3))
    stages.stream(run, name="test", read=READ, stages=chain, resources=resources)


def given(log: Path) -> Counter[str]:
    """Return the number of times that each item was passed to the first stage."""
    return Counter(item for call in log.iterdir() for item in call.read_text().split("\n"))


def units_there(out: Path) -> set[str]:
    return {path.stem for path in out.glob("*.parquet")}
