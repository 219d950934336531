"""Execution of work units with Ray Data: read, pass through pools of actors for the stages, write.

A unit travels as one Arrow block. Blocks are never split (`target_max_block_size=None` in
jobs.runtime.cluster.ray_session), so that the sink receives whole units. Each task that is sent to a worker is for one
unit: Ray keeps everything that it sends on the driver, where memory would grow with the square of the number of units
if each task listed all of them. There are two ways:

- `stream`: rows flow through stages; the sink writes each unit when it arrives. Stages may share a process
  (`groups_of`).
- `process`: one call of an actor reads, processes and writes a unit. Use it for units whose rows do not fit into a
  block, such as a gzip file of 2.5 GB, which the actor streams into the unit's object.

On one machine, jobs share the process of a pool of one actor (`_map`).

`jobs.runtime.stage_workers` has the code that runs on the workers.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ray.data
from ray.data import ActorPoolStrategy, TaskPoolStrategy

from actors.devices import GPU_SHARE
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration import resources as res
from jobs.runtime.progress import Progress, StageProgress
from jobs.runtime.stage_contract import TASK, Read, Stage
from jobs.runtime.stage_workers import StageChain, UnitReader, UnitRunner, UnitSink, WarmRunner, count_rows
from jobs.runtime.worker_reports import as_run_errors
from jobs.store.files.objects import CompactList
from jobs.store.pieces import PIECES_PER_ACTOR
from jobs.store.runs.table_run import RunPart, TableRun
from jobs.store.writer import UnitTask, UnitWriter

__all__ = ["Read", "Stage", "process", "stream"]


def stream(
    run: TableRun | RunPart, *, name: str, read: Read, stages: Sequence[Stage], resources: res.Resources
) -> None:
    """Read the units of `run.todo`, pass their rows through `stages` and write them.

    Args:
        name: the name of the job, for the progress lines.

    Raises:
        RunError: an actor broke its contract, or Ray gave up on a task.
        ValueError: a stage before the last does not return one row per row.
    """
    # Ray drops empty blocks, but an empty unit must still become an object of zero rows.
    for task in (t for t in run.todo if t.unit.rows == 0):
        with UnitWriter(run.target, task) as writer:
            count_rows(writer, task, 0)
    tasks = CompactList(t for t in run.todo if t.unit.rows != 0)
    if not tasks:
        return
    if any(stage.rows_out != 1 for stage in stages[:-1]):
        raise ValueError("every stage but the last must return one row per row")
    expected = expected_progress(tasks, stages)
    with _progress(name, expected, resources) as progress:
        data = _blocks(tasks).map_batches(
            UnitReader(read, run.target, stages, board=progress.board),
            batch_format="pyarrow",
            batch_size=None,
            num_cpus=resources.read.num_cpus,
        )
        one_machine = ray_session.is_one_machine(resources)
        unit_rows = [task.unit.rows for task in tasks]
        for group, group_pool in groups_of(stages, resources):
            pool = _limit_actors(group_pool, len(tasks))
            name = "_".join(stage.name for stage in group)
            kwargs = {"stages": group, "board": progress.board, "row_timeout_s": pool.row_timeout_s}
            rows = rows_per_call(pool, group[-1].batches, unit_rows)
            data = _map(data, name, StageChain, kwargs, pool, batch_size=rows, one_machine=one_machine)
        sink = UnitSink(run.target, counts_items=stages[-1].rows_out is None, board=progress.board)
        _run(data.map_batches(sink, batch_format="pyarrow", batch_size=None, num_cpus=resources.write.num_cpus))
    run.given_up.update(progress.given_up)


def process(
    run: TableRun, *, name: str, stage: Stage, resources: res.Resources, total: int | None, counted: str
) -> None:
    """Process each unit of `run.todo` by calling `actor(task, writer, report)`, which writes it.

    Args:
        name: the name of the job, for the progress lines.
        total: the amount of work, for the progress lines; None if unknown.
        counted: the unit of `total` (rows, MB).

    Raises:
        RunError: storage failed, an actor could not be built, or Ray gave up on a task.
    """
    if not run.todo:
        return
    pool = _limit_actors(getattr(resources, stage.pool), len(run.todo))
    expected = [StageProgress(stage.pool, total, counted)]
    with _progress(name, expected, resources) as progress:
        # The actors read their input themselves: no rows are read ahead, and no reading processes are needed.
        data = _map(
            _blocks(_largest_first(run.todo)),
            stage.name,
            UnitRunner,
            {"stage": stage, "board": progress.board, "target": run.target, "row_timeout_s": pool.row_timeout_s},
            pool,
            batch_size=1,
            one_machine=ray_session.is_one_machine(resources),
        )
        _run(data)
    run.given_up.update(progress.given_up)


@contextmanager
def _progress(name: str, expected: list[StageProgress], resources: res.Resources) -> Iterator[Progress]:
    with Progress(name, expected, grows=resources.autoscaling) as progress, as_run_errors(progress.board):
        yield progress


def _run(data: ray.data.Dataset) -> None:
    """Execute the tasks of `data` and discard their results."""
    for _ in data.iter_batches(batch_size=None, batch_format="pyarrow"):
        pass


def groups_of(stages: Sequence[Stage], resources: res.Resources) -> Iterator[tuple[list[Stage], res.StageResources]]:
    """Yield the groups of stages that share a process, with the pool of each group.

    A process takes a second of CPU to start and three more to import a model's libraries, which is most of a short run
    on a laptop. Consecutive stages therefore share a process if each of their pools has a single actor and no GPU, so
    that a GPU never waits for a stage that needs only CPUs. The pool of a group has the batch size of its last stage.
    """
    group: list[Stage] = []
    shared: res.StageResources | None = None
    for stage in stages:
        pool: res.StageResources = getattr(resources, stage.pool)
        if shared is not None and shared.is_single and pool.is_single:
            shared = pool.joined_with(shared)
        else:
            if shared is not None:
                yield group, shared
            group, shared = [], pool
        group.append(stage)
    if shared is not None:
        yield group, shared


def expected_progress(tasks: Sequence[UnitTask], stages: Sequence[Stage]) -> list[StageProgress]:
    """Return the stages with their numbers of rows; None where a retry or a stage leaves the number open."""
    total = None if any(task.retry for task in tasks) else sum(task.unit.rows or 0 for task in tasks)
    expected = []
    for stage in stages:
        rows_out = stage.rows_out
        total = None if total is None or not isinstance(rows_out, int) else total * rows_out
        expected.append(StageProgress(stage.pool, total))
    return expected


def _blocks(tasks: Sequence[UnitTask]) -> ray.data.Dataset:
    """Return one block per unit, with the unit's task."""
    items: Any = CompactList({TASK: task.to_json()} for task in tasks)
    # Not `from_blocks`, which keeps 6 kB per block on the driver; this keeps 2.5.
    return ray.data.from_items(items, override_num_blocks=len(items))


def _largest_first(tasks: Sequence[UnitTask]) -> list[UnitTask]:
    """Return the tasks, largest units first, so that the actors finish at about the same time."""
    return sorted(tasks, key=lambda task: -sum(source.size for source in task.unit.inputs))


def _limit_actors(pool: res.StageResources, units: int) -> res.StageResources:
    """Return `pool` with at most as many actors as there are units, since only one actor works on a unit at a time."""
    return replace(pool, actors=min(pool.actors, units), max_actors=pool.max_actors and min(pool.max_actors, units))


def rows_per_call(pool: res.StageResources, batches: int, unit_rows: Sequence[int | None]) -> int:
    """Return the rows per call of an actor: `batches` times the pool's batch size, or less to keep all actors busy.

    Ray joins units until a call has its rows, so that one actor might get all units of a small table.

    Args:
        unit_rows: the rows of each unit; None if unknown.
    """
    most, rows = pool.batch_size * batches, [rows for rows in unit_rows if rows is not None]
    if pool.most_actors == 1 or len(rows) < len(unit_rows):
        return most
    return min(most, max(*rows, sum(rows) // (PIECES_PER_ACTOR * pool.most_actors), 1))


def pool_sizes(pool: res.StageResources) -> dict[str, Any]:
    """Return the sizes of a pool, as arguments of `ray.data.ActorPoolStrategy`.

    A pool on GPUs requests all its actors at once, so that all machines boot at the same time; the run starts with the
    first of them (`jobs.runtime.cluster.ray_internals`). If they were requested as the work demands, eight machines
    would take three rounds of booting. Other pools start with `actors` and grow while all their actors are busy.
    """
    if not pool.max_actors or pool.max_actors <= pool.actors:
        return {"size": pool.actors}
    if pool.num_gpus:
        return {"min_size": 1, "max_size": pool.max_actors, "initial_size": pool.max_actors}
    return {"min_size": pool.actors, "max_size": pool.max_actors, "initial_size": pool.actors}


def _map(
    data: ray.data.Dataset,
    name: str,
    runner: type[StageChain | UnitRunner],
    kwargs: dict[str, Any],
    pool: res.StageResources,
    *,
    batch_size: int,
    one_machine: bool,
) -> ray.data.Dataset:
    """Return `data` mapped by a pool of actors that call `runner`; Ray shows the operator as `name`.

    On one machine, a pool of one actor is a task, whose process the next job finds warm. An actor's process ends with
    its job, and the next one imports torch and transformers again (five seconds of CPU; with actors, the demo takes 1.4
    times as long); a task runs in a process that Ray keeps. There is one process for tasks with a separate environment
    that run one at a time.
    """
    memory = pool.memory_gb * 2**30 if pool.memory_gb else None
    if one_machine and pool.is_single:
        return data.map_batches(
            _named(name, WarmRunner)(name=name, runner=runner, kwargs=kwargs),
            batch_format="pyarrow",
            batch_size=batch_size,
            compute=TaskPoolStrategy(size=1),
            num_cpus=pool.num_cpus,
            memory=memory,
            runtime_env={"env_vars": {"REMINE_WORKER": "stages"}},
            max_retries=-1,  # as for actors
        )
    environment: dict[str, Any] = {}
    if 0 < pool.num_gpus < 1:
        environment = {"runtime_env": {"env_vars": {GPU_SHARE: f"{pool.num_gpus:g}"}}}
    return data.map_batches(
        _named(name, runner),
        batch_format="pyarrow",
        batch_size=batch_size,
        fn_constructor_kwargs=kwargs,
        compute=ActorPoolStrategy(max_tasks_in_flight_per_actor=pool.max_in_flight, **pool_sizes(pool)),
        num_cpus=pool.num_cpus,
        num_gpus=pool.num_gpus or None,
        memory=memory,
        **environment,
        max_restarts=-1,  # machines are withdrawn; jobs.runtime.attempts finds data that end a process
        max_task_retries=-1,
    )


def _named(name: str, runner: type) -> Any:
    """Return `runner` as a class called `name`."""
    return type(name, (runner,), {"__module__": __name__})
