"""Classes that read and write the units of streamed stages, on Ray's workers."""

import json
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import RunError
from jobs.runtime.attempts import UNIT_ATTEMPTS, Attempts
from jobs.runtime.board import RunBoard
from jobs.runtime.prometheus import JobMetrics
from jobs.runtime.selection import exclusions
from jobs.runtime.stage_contract import (
    BEGUN,
    EXCLUDED,
    EXPECTED_ROWS,
    ITEM,
    TALLY,
    TASK,
    UNIT_COLUMNS,
    Read,
    Stage,
    sum_tallies,
)
from jobs.runtime.worker_reports import REMEDY, ErrorLimit, reported_errors
from jobs.store.object_rows import read_unit
from jobs.store.writer import Target, UnitTask, UnitWriter


class UnitReader:
    """Reads the rows of the unit in a block; leaves out a unit that ends its process each time."""

    def __init__(self, read: Read, target: Target, stages: Sequence[Stage], board: RunBoard | None) -> None:
        self._read, self._target, self._board = read, target, board
        self._last_stage = stages[-1]

    def __call__(self, batch: pa.Table) -> pa.Table:
        (text,) = batch[TASK].to_pylist()
        task = UnitTask.from_json(text)
        attempts = Attempts(self._board, "UnitReader")
        if (earlier := attempts.begin(task.unit.name)) >= UNIT_ATTEMPTS:
            attempts.give_up(task.unit.name, f"the process that reads it ended {earlier} times; {REMEDY}")
            return batch.slice(0, 0)
        with reported_errors(self._board):
            rows = self._rows(task, text)
        attempts.end(task.unit.name, by_device=False)
        return rows

    def _rows(self, task: UnitTask, text: str) -> pa.Table:
        read, begun = self._read, time.time()
        exclusion_filter = exclusions.load(read.excluded)
        wanted = read.rows(task)
        if task.unit.limit is not None:
            wanted = wanted.slice(0, task.unit.limit)
        # Exclusions come before the rows of a retry are selected, so that matches are counted over the whole unit.
        rows = exclusions.withhold(wanted, item=read.item, exclusion_filter=exclusion_filter)
        if task.retry:
            written = read_unit(self._target.data_uri(task.unit.name), columns=[read.output_item, "status"])
            redone = written.filter(pc.is_in(written["status"], pa.array(task.retry)))
            rows = rows.filter(pc.is_in(rows[read.item], redone[read.output_item].combine_chunks()))
        expected = sum(self._last_stage.row_counts(rows))  # earlier stages return one row per row
        rows = rows.append_column(TASK, _repeat(text, rows.num_rows))
        rows = rows.append_column(EXPECTED_ROWS, pa.array([expected] * rows.num_rows, pa.int64()))
        rows = rows.append_column(BEGUN, pa.array([begun] * rows.num_rows, pa.float64()))
        return rows.append_column(EXCLUDED, _repeat(json.dumps(exclusion_filter.take_matched()), rows.num_rows))


class UnitSink:
    """Writes whole units and returns nothing; leaves out units that end its process each time.

    A sink of Ray Data would keep the result of each task until the end, and with it what Ray needs to do the tasks
    before it again: 14 kB on the driver per unit.

    Args:
        counts_items: the last stage returns any number of rows per item, so that items are counted, not rows
            (`jobs.runtime.stage_contract.Stage`).
        board: counts the errors of all sinks; None: each counts its own.

    Raises:
        RunError: a unit did not arrive whole in one call, which is a fault in the plan; or too many items failed.
    """

    def __init__(self, target: Target, *, counts_items: bool = False, board: RunBoard | None = None) -> None:
        self._target, self._counts_items = target, counts_items
        self._errors = ErrorLimit(board, target.max_error_share)
        self._board, self._job = board, board.job if board else ""

    def __call__(self, rows: pa.Table) -> pa.Table:
        tasks = rows[TASK].combine_chunks()
        attempts = Attempts(self._board, "UnitSink")
        for index in pc.unique(tasks.indices).to_pylist():
            task = UnitTask.from_json(tasks.dictionary[index].as_py())
            if (earlier := attempts.begin(task.unit.name)) >= UNIT_ATTEMPTS:
                attempts.give_up(task.unit.name, f"the process that writes it ended {earlier} times; {REMEDY}")
                continue
            with reported_errors(self._board):
                self._write_unit(task, rows.filter(pc.equal(tasks.indices, index)))
            attempts.end(task.unit.name, by_device=False)
        return pa.table({})

    def _write_unit(self, task: UnitTask, rows: pa.Table) -> None:
        expected = rows[EXPECTED_ROWS][0].as_py()
        arrived = pc.count_distinct(rows[ITEM]).as_py() if self._counts_items else rows.num_rows
        if arrived != expected:
            kind = "items" if self._counts_items else "rows"
            raise RunError(f"unit {task.unit.name}: only {arrived} of {expected} {kind} arrived")
        output = rows.drop_columns([column for column in (*UNIT_COLUMNS, TALLY) if column in rows.column_names])
        if task.retry:
            written = read_unit(self._target.data_uri(task.unit.name))
            if self._counts_items:
                output = replace_items(written, output)
            else:
                output = merge_retried(written, output, self._target.definition().key, task)
        with UnitWriter(self._target, task) as writer:
            count_rows(writer, task, output.num_rows)
            writer.counts.tallies = sum_tallies(rows)
            exclusions.count(writer.counts, json.loads(rows[EXCLUDED][0].as_py()))
            writer.write(output)
            self._errors.check(writer.errors)
        JobMetrics(self._job, "write").observe("remine_unit_seconds", time.time() - rows[BEGUN][0].as_py())


def count_rows(writer: UnitWriter, task: UnitTask, rows: int) -> None:
    """Count the rows that were read, including those that the plan left out of the unit (`extra["filtered"]`)."""
    left_out = task.unit.extra.get("filtered", {})
    writer.counts.filtered.update(left_out)
    writer.counts.rows_in = rows + sum(left_out.values())


def _repeat(text: str, rows: int) -> pa.DictionaryArray:
    """Return `text` in every row, stored only once, because a task may list ten thousand inputs."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [text])


def merge_retried(written: pa.Table, redone: pa.Table, key: Sequence[str], task: UnitTask) -> pa.Table:
    """Return `written`, in its order, with the rows of retried statuses replaced by those of `redone` with their keys.

    Raises:
        RunError: `redone` lacks a row.
    """
    row_of = {values: row for row, values in enumerate(zip(*(redone[name].to_pylist() for name in key), strict=True))}
    keys = list(zip(*(written[name].to_pylist() for name in key), strict=True))
    retried = [status in task.retry for status in written["status"].to_pylist()]
    if lost := [values for values, again in zip(keys, retried, strict=True) if again and values not in row_of]:
        raise RunError(f"unit {task.unit.name}: the retry returned no row for {lost[0]}")
    both = pa.concat_tables([written, redone.select(written.column_names).cast(written.schema)])
    order = [
        written.num_rows + row_of[values] if again else row
        for row, (values, again) in enumerate(zip(keys, retried, strict=True))
    ]
    return both.take(pa.array(order, pa.int64()))


def replace_items(written: pa.Table, redone: pa.Table) -> pa.Table:
    """Return `written` with the rows of each item in `redone` replaced, at the item's place."""
    place = {item: number for number, item in enumerate(dict.fromkeys(written[ITEM].to_pylist()))}
    kept = written.filter(pc.invert(pc.is_in(written[ITEM], redone[ITEM].combine_chunks())))
    both = pa.concat_tables([kept, redone.select(written.column_names).cast(written.schema)])
    places = pa.array([place[item] for item in both[ITEM].to_pylist()], pa.int64())
    return both.take(pa.array(np.argsort(places.to_numpy(), kind="stable")))
