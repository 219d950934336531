"""A job's stages in the process of the test: the same readers, runners and sinks as on Ray's workers, without Ray.

A process of a Ray worker takes seconds of CPU to start, and more to import a model's libraries. Tests of what a job
computes run here; tests of what Ray does with it (processes that die, batches over several units, kills) use the
fixture `ray_session`.
"""

import asyncio
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from jobs.runtime.configuration.resources import Resources
from jobs.runtime.stage_contract import Read, Stage
from jobs.runtime.worker_reports import as_run_errors
from jobs.store.runs.table_run import RunPart, TableRun
from jobs.store.writer import UnitTask, UnitWriter


@contextmanager
def stages_in_process() -> Iterator[None]:
    """Within the context, jobs neither start nor use Ray."""
    from jobs.runtime import stages
    from jobs.runtime.cluster import ray_session

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_session, "start", lambda *_: None)
        patch.setattr(stages, "stream", _without_event_loop(_stream))
        patch.setattr(stages, "process", _without_event_loop(_process))
        # One thread for each stage that has no number of its own, as `OMP_NUM_THREADS` in tests/conftest.py
        patch.setattr(os, "sched_getaffinity", lambda _: {0})
        yield


def _without_event_loop(function: Callable[..., None]) -> Callable[..., None]:
    """Return `function`, in a thread if an event loop runs in this one, as in a notebook: stages run their own."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            function(*arguments, **keywords)
        else:
            with ThreadPoolExecutor(1) as thread:
                thread.submit(function, *arguments, **keywords).result()

    return call


def _stream(run: TableRun | RunPart, *, name: str, read: Read, stages: Sequence[Stage], resources: Resources) -> None:
    from jobs.runtime.stage_workers import StageRunner, UnitReader, UnitSink, count_rows

    with as_run_errors(None):
        sent_read, target, sent_stages = _sent((read, run.target, list(stages)))
        reader = UnitReader(sent_read, target, sent_stages, board=None)
        sink = UnitSink(run.target, counts_items=stages[-1].rows_out is None)
        runners = None
        for task in run.todo:
            if task.unit.rows == 0:
                with UnitWriter(run.target, task) as writer:
                    count_rows(writer, task, 0)
                continue
            rows = reader(_block(task))
            runners = runners or [StageRunner(stage=_sent(stage), board=None) for stage in stages]
            for stage, runner in zip(stages, runners, strict=True):
                size = getattr(resources, stage.pool).batch_size * stage.batches
                rows = pa.concat_tables(
                    [runner(rows.slice(at, size)) for at in range(0, rows.num_rows, size)] or [rows]
                )
            if rows.num_rows:  # Ray drops empty blocks
                sink(rows.unify_dictionaries().combine_chunks())


def _process(run: TableRun, *, stage: Stage, resources: Resources, **_: Any) -> None:
    from jobs.runtime.stage_workers import UnitRunner

    if run.todo:
        with as_run_errors(None):
            runner = UnitRunner(stage=_sent(stage), board=None, target=run.target)
            for task in run.todo:
                runner(_block(task))


def _block(task: UnitTask) -> pa.Table:
    from jobs.runtime.stage_contract import TASK

    return pa.table({TASK: [task.to_json()]})


def _sent(value: Any) -> Any:
    """`value` as it arrives on a worker; fails for what cannot be sent to one."""
    from ray import cloudpickle

    return cloudpickle.loads(cloudpickle.dumps(value))
