"""What Ray's workers run: classes that read units, call the actors of stages, and write units.

`StageRunner`s between a `UnitReader` and a `UnitSink` stream the rows of units; a `UnitRunner` does all three itself.
"""

import faulthandler
import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import hub
from actors.errors import first_line
from actors.ids import content_id
from actors.status import TIMED_OUT, Reason
from actors.vlm.errors import is_device_lost, is_out_of_memory
from jobs.errors import InputError, RunError
from jobs.runtime import worker_reports
from jobs.runtime.attempts import BATCH_ATTEMPTS, UNIT_ATTEMPTS, Attempts, mark_failed
from jobs.runtime.board import Reporter, RunBoard
from jobs.runtime.process.timings import WorkerTimes
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
    StageActor,
    check_inputs,
    check_outputs,
    spread_tallies,
    sum_tallies,
)
from jobs.runtime.worker_reports import REMEDY, ErrorLimit, reported_errors
from jobs.store.object_rows import read_unit
from jobs.store.writer import Target, UnitTask, UnitWriter
from jobs.tables import TableError

STDERR = 2  # the log of a worker: the stacks of all threads are written there before a process is ended
OUR_ERRORS = (RunError, InputError, TableError, OSError)  # due to the plan, the code or storage: they end the run
log = logging.getLogger(__name__)


class HangWatch:
    """Ends this process if a piece of work takes too long, so that input that makes it hang is identified.

    `faulthandler` waits in a thread of C. A Python thread would wait for the interpreter's lock, which an endless
    regular expression or a native library may hold.

    Args:
        seconds: longest time without progress; None: no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._watches = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """End the process with status 1 if the block takes longer than `seconds` after its start or last `progress`."""
        self._watches = self._seconds is not None
        self.progress()
        try:
            yield
        finally:
            if self._watches:
                faulthandler.cancel_dump_traceback_later()
            self._watches = False

    def progress(self) -> None:
        """Restart the time, if a block is watched."""
        if self._watches and self._seconds is not None:
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=STDERR)


class StageRunner:
    """Calls an actor with its columns of a batch, and checks what it returns.

    If the actor raises, or its process ends or hangs, during a batch, the batch is done row by row; a row at which that
    happens again becomes an error.

    Args:
        row_timeout_s: see the key of this name in `jobs.runtime.configuration.resources.StageResources`.

    Raises:
        RunError: a column of the input or output is not as declared, or the number of rows is wrong.
    """

    def __init__(self, *, stage: Stage, board: RunBoard | None, row_timeout_s: float | None = None) -> None:
        kwargs = dict(stage.kwargs)
        if "threads" in kwargs and kwargs["threads"] is None:
            # Ray sets OMP_NUM_THREADS to the actor's logical CPUs, which are unrelated to the machine's.
            kwargs["threads"] = len(os.sched_getaffinity(0))
        self._stage = stage
        worker_reports.send_to(board)
        self._attempts = Attempts(board, stage.name, row_timeout_s)
        with self._attempts.start():
            self._times = WorkerTimes(board, stage.name)
            actor: StageActor = hub.with_retries(lambda: stage.actor(**kwargs)) if board else stage.actor(**kwargs)
            self._actor = actor
        self._watch = HangWatch(row_timeout_s)
        self._times.end()
        self._report = Reporter(board, stage.pool, on_flush=self._watch.progress)
        self._metrics = JobMetrics(board.job if board else "", stage.pool)
        self._tally: Counter[str] = Counter()
        if hasattr(self._actor, "report_tokens"):
            self._actor.report_tokens(self._add_tokens)

    def _add_tokens(self, tokens: int) -> None:
        self._report.add(0, tokens=tokens)
        self._metrics.count("remine_tokens", tokens)

    def __call__(self, batch: pa.Table) -> pa.Table:
        self._times.begin()
        begun = time.perf_counter()
        inputs = batch.drop_columns([name for name in (*UNIT_COLUMNS, TALLY) if name in batch.column_names])
        check_inputs(self._stage.name, inputs.schema, self._actor.INPUTS)
        tasks = pc.unique(batch[TASK].combine_chunks()).to_pylist()
        worker_reports.working_on(tasks)
        output = self._run(inputs, units=tasks)
        check_outputs(self._stage.name, output.schema, self._actor.OUTPUTS)
        counts = self._stage.returned_counts(inputs, output)
        for column in UNIT_COLUMNS:
            values = batch[column].combine_chunks()
            if output.num_rows != batch.num_rows or set(counts) != {1}:
                values = values.take(pa.array([row for row, n in enumerate(counts) for _ in range(n)], pa.int64()))
            output = output.append_column(column, values)
        tally, self._tally = dict(self._tally), Counter()
        self._metrics.add_batch(inputs, output, tally, seconds=time.perf_counter() - begun)
        if hasattr(self._actor, "take_tally") or TALLY in batch.column_names:  # in all batches of a unit, or in none
            output = output.append_column(TALLY, spread_tallies(batch, counts, tally))
        self._report.add(output.num_rows, errors=_count_errors(output), **_prompt_tokens(tally))
        self._report.flush()
        self._times.end()
        return output

    def _run(self, inputs: pa.Table, *, units: Sequence[str]) -> pa.Table:
        """Return the actor's output for a batch; done row by row if it fails or if its process ended at it before."""
        ids = inputs.column(self._actor.INPUTS.names[0])
        key = ("batch", *units, *([str(ids[0]), str(ids[-1]), str(len(ids))] if len(ids) else []))
        earlier = self._attempts.begin(*key)
        one_by_one = earlier >= BATCH_ATTEMPTS or (earlier > 0 and self._attempts.reason(*key) == TIMED_OUT)
        output = None
        if not one_by_one:
            output, reason = self._call(inputs)
            if reason is not None:
                log.warning("%s failed at a batch; its rows are done one by one: %s", self._stage.name, reason.message)
        if output is None:
            rows = [inputs.slice(row, 1) for row in range(inputs.num_rows)]
            output = pa.concat_tables([self._run_row(row, key=(*key, str(n))) for n, row in enumerate(rows)])
        self._attempts.end(*key)
        return output

    def _run_row(self, row: pa.Table, *, key: Sequence[str]) -> pa.Table:
        """Return the actor's output for a row; for a failed one, or one at which the process ended before, as an error.

        Raises:
            RunError: the actor fails, or its process ends, even for the row as an error.
        """
        if self._attempts.begin(*key):
            reason: Reason | None = self._attempts.reason(*key)
        else:
            output, reason = self._call(row)
            if output is not None:
                self._attempts.end(*key)
                return output
            self._attempts.end(*key, by_device=False)
        assert reason is not None
        if self._attempts.begin(*key, "marked"):
            raise RunError(f"the process of {self._stage.name} died at row {row.column(0)[0]}; {REMEDY}")
        output, failure = self._call(mark_failed(row, reason))
        if output is None:
            raise RunError(f"{self._stage.name} fails at row {row.column(0)[0]}: {failure and failure.message}")
        self._attempts.end(*key, "marked", by_device=False)  # the row's own attempt remains: it stays marked
        return output

    def _call(self, inputs: pa.Table) -> tuple[pa.Table, None] | tuple[None, Reason]:
        """Return what the actor returns, or why it failed."""
        try:
            with self._watch.watching():
                output = self._actor(inputs)
        except RunError:
            raise
        except Exception as error:
            if is_device_lost(error):
                self._attempts.leave(error)
            if not inputs.num_rows:
                raise
            self._take_tally()  # of what is done again
            return None, reason_of(error)
        self._tally.update(self._take_tally())
        return output, None

    def _take_tally(self) -> Mapping[str, int]:
        tally: Mapping[str, int] = self._actor.take_tally() if hasattr(self._actor, "take_tally") else {}
        return tally


class StageChain:
    """Calls the actors of consecutive stages one after the other, in one process."""

    def __init__(self, *, stages: Sequence[Stage], board: RunBoard | None, row_timeout_s: float | None) -> None:
        self._board = board
        with reported_errors(board):
            self._runners = [StageRunner(stage=stage, board=board, row_timeout_s=row_timeout_s) for stage in stages]

    def __call__(self, batch: pa.Table) -> pa.Table:
        with reported_errors(self._board):
            for runner in self._runners:
                batch = runner(batch)
        return batch


class UnitRunner:
    """Calls an actor with a task and the writer of its unit.

    A unit at which the actor raises, other than because of the run's plan or its storage, is left out; so is one that
    ends its process each time, or is without progress for `row_timeout_s` each time.
    """

    def __init__(
        self, *, stage: Stage, board: RunBoard | None, target: Target, row_timeout_s: float | None = None
    ) -> None:
        worker_reports.send_to(board)
        self._attempts = Attempts(board, stage.name)
        with reported_errors(board), self._attempts.start():
            self._times = WorkerTimes(board, stage.name)
            self._actor = stage.actor(**stage.kwargs)
        self._times.end()
        self._watch = HangWatch(row_timeout_s)
        self._report = Reporter(board, stage.pool, on_flush=self._watch.progress)
        self._metrics = JobMetrics(board.job if board else "", stage.pool)
        self._board, self._target, self._name = board, target, stage.name
        self._errors = ErrorLimit(board, target.max_error_share)

    def __call__(self, batch: pa.Table) -> pa.Table:
        with reported_errors(self._board):
            for text in batch[TASK].to_pylist():
                worker_reports.working_on([text])
                self._run(UnitTask.from_json(text))
        return batch

    def _run(self, task: UnitTask) -> None:
        self._times.begin()
        if (earlier := self._attempts.begin("unit", task.unit.name)) >= UNIT_ATTEMPTS:
            why = f"the process of {self._name} ended, or made no progress, {earlier} times; {REMEDY}"
            self._attempts.give_up(task.unit.name, why)
            return
        begun = time.perf_counter()
        writer = UnitWriter(self._target, task)
        try:
            with self._watch.watching(), writer:
                self._actor(task, writer, self._report)
                self._errors.check(writer.errors)
        except OUR_ERRORS:
            raise
        except Exception as error:
            if self._board is None or is_device_lost(error):
                raise
            self._attempts.give_up(task.unit.name, f"{self._name} failed: {reason_of(error).message}")
            self._attempts.end("unit", task.unit.name, by_device=False)
            return
        self._metrics.add_unit(writer.counts, seconds=time.perf_counter() - begun)
        self._times.end()
        self._attempts.end("unit", task.unit.name)
        self._report.flush()


_warm: dict[str, StageChain | UnitRunner] = {}  # of this process: the runner of the last run


class WarmRunner:
    """Calls a runner that this process builds once per run, discarding the runner of an earlier run.

    Args:
        name: what the runner runs.
        runner: the class of the runner.
        kwargs: the arguments of its constructor.
    """

    def __init__(self, *, name: str, runner: type[StageChain | UnitRunner], kwargs: dict[str, Any]) -> None:
        self._key = content_id(kwargs["board"].run, name)
        self._runner, self._kwargs = runner, kwargs

    def __call__(self, batch: pa.Table) -> pa.Table:
        if self._key not in _warm:
            _warm.clear()
            _warm[self._key] = self._runner(**self._kwargs)
        return _warm[self._key](batch)


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


def reason_of(error: Exception) -> Reason:
    """Return the reason for a row's error from what its stage raised."""
    if isinstance(error, MemoryError) or ("torch" in sys.modules and is_out_of_memory(error)):
        return Reason("out_of_memory", "not enough memory for this row alone")
    return Reason(type(error).__name__, f"{type(error).__name__}: {first_line(error)}")


def _prompt_tokens(tally: Mapping[str, int]) -> dict[str, int]:
    """Return the tokens of prompts that passed through a model, for the progress line, and those of whole prompts."""
    if not tally.get("tokens/of whole prompts"):
        return {}
    return {"tokens computed": tally["tokens/passed"], "tokens of whole prompts": tally["tokens/of whole prompts"]}


def _count_errors(batch: pa.Table) -> int:
    if "status" not in batch.column_names:
        return 0
    return pc.sum(pc.equal(batch["status"], "error")).as_py() or 0
