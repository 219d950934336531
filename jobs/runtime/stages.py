"""Work units through Ray Data: read, a pool of actors a stage, write.

A unit travels as one Arrow block whose rows carry `_task` (the unit and what is to be done of it) and `_asked`
(how many rows it must have when it is written). Blocks are never split (`target_max_block_size=None`,
jobs.runtime.ray_session), so the sink sees whole units and refuses anything else. What is sent to the workers names
one unit
at a time: Ray keeps what it sends, and all units beside each of them would take memory by their square. Two shapes:

- `stream`: rows flow through stages; the sink writes each unit as it arrives.
- `process`: one actor call does a unit from reading to writing; for units whose rows do not fit a block
  (a 2.5 GB gzip file), which it streams to the unit's object itself.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import ray.data
from ray.data import ActorPoolStrategy, Datasink
from ray.data.block import Block, BlockAccessor

from jobs.errors import InputError, RunError
from jobs.runtime import exclusions
from jobs.runtime import resources as res
from jobs.runtime.progress import Progress, Reporter, StageProgress
from jobs.runtime.stage_contract import StageActor, check_inputs, check_outputs
from jobs.store import faults
from jobs.store.compact_list import CompactList
from jobs.store.reading import read_unit
from jobs.store.run import TableRun
from jobs.store.writer import Target, UnitTask, UnitWriter

TASK, ASKED = "_task", "_asked"
EXCLUDED = "_excluded"  # JSON of the unit's matches of the list of exclusions, the same in every row
TALLY = "_tally"  # counts an actor keeps beside its rows, as "group/key" -> n: they end in the unit's footer
OF_UNIT = (TASK, ASKED, EXCLUDED)  # columns that a row keeps through all stages
RESTARTS = 3  # a row that kills its process every time must end the run, not loop for ever


@dataclass(frozen=True)
class Stage:
    """A pool of plain actors: `actor(**kwargs)` is built once an actor and called with Arrow tables.

    `rows_out` is how many rows it makes of one, or a function from its input to how many it makes of each
    row; the pool's size and resources are those of `pool` in the config. An actor with `take_tally()` is
    asked for its counts after each call; one with `report_tokens(told)` calls `told` with the tokens that it writes,
    for the progress within a batch.
    """

    pool: str
    actor: type
    kwargs: dict[str, Any]
    rows_out: int | Callable[[pa.Table], list[int]] = 1

    @property
    def name(self) -> str:
        """The actor's class, which is what messages and Ray's operators call the stage."""
        return self.actor.__name__

    def made_of(self, rows: pa.Table) -> list[int]:
        """How many rows it makes of each of `rows`."""
        return self.rows_out(rows) if callable(self.rows_out) else [self.rows_out] * rows.num_rows


@dataclass(frozen=True)
class Read:
    """How a unit's rows are read: `rows(task)` gives the table that the first stage takes.

    `item` names the column by which a row is found again in the output (`output_item` there), which is what
    lets a retry redo single rows. `excluded` is the list of `jobs.runtime.exclusions.keep`.
    """

    rows: Callable[[UnitTask], pa.Table]
    item: str
    output_item: str
    excluded: str | None = None


def stream(run: TableRun, *, name: str, read: Read, stages: Sequence[Stage], resources: res.Resources) -> None:
    """Do `run.todo`: read each unit, pass it through `stages`, write it.

    Raises:
        RunError: an actor broke its contract or Ray gave up on a task.
    """
    # Ray drops empty blocks; an empty unit is an object of zero rows all the same.
    for task in (t for t in run.todo if t.unit.rows == 0):
        with UnitWriter(run.target, task) as writer:
            _count_in(writer, task, 0)
    tasks = CompactList(t for t in run.todo if t.unit.rows != 0)
    if not tasks:
        return
    if any(callable(stage.rows_out) for stage in stages) and len(stages) > 1:
        raise ValueError("a stage whose rows differ in number must be the only one")
    total = None if any(t.retry for t in tasks) else sum(t.unit.rows or 0 for t in tasks)
    shown = []
    for stage in stages:
        total = None if total is None or callable(stage.rows_out) else total * stage.rows_out
        shown.append(StageProgress(stage.pool, total))
    with _ray_errors(), Progress(name, shown) as progress:
        data = _blocks(tasks).map_batches(
            _UnitReader(read, run.target, stages),
            batch_format="pyarrow",
            batch_size=None,
            num_cpus=resources.read.num_cpus,
        )
        for stage in stages:
            data = _mapped(data, stage, _no_more(getattr(resources, stage.pool), len(tasks)), progress.board)
        sink = _UnitSink(run.target)
        data.write_datasink(sink, ray_remote_args={"num_cpus": resources.write.num_cpus})


def process(
    run: TableRun, *, name: str, stage: Stage, resources: res.Resources, total: int | None, counted: str
) -> None:
    """Do `run.todo`: each unit in one call `actor(task, writer, report)`, which writes it.

    `total` is what the stage's progress runs to, in units of `counted` (rows, MB).

    Raises: as `stream`.
    """
    if not run.todo:
        return
    with _ray_errors(), Progress(name, [StageProgress(stage.pool, total, counted)]) as progress:
        # Nothing is read ahead of the actors, and there are no processes for reading.
        data = _pool(
            _blocks(_largest_first(run.todo)),
            _runner(stage, _UnitRunner),
            {"stage": stage, "board": progress.board, "target": run.target},
            _no_more(getattr(resources, stage.pool), len(run.todo)),
            batch_size=1,
        )
        for _ in data.iter_batches(batch_size=None, batch_format="pyarrow"):
            pass


def _blocks(tasks: Sequence[UnitTask]) -> ray.data.Dataset:
    """A block a unit, which says what is to be done of it."""
    items: Any = CompactList({TASK: task.to_json()} for task in tasks)
    # Not `from_blocks`, which keeps 6 kB of each block beside it, where this keeps 2.5.
    return ray.data.from_items(items, override_num_blocks=len(items))


def _largest_first(tasks: Sequence[UnitTask]) -> list[UnitTask]:
    """The order in which actors are done at about the same time, also when each has its next unit waiting."""
    return sorted(tasks, key=lambda task: -sum(o.size for o in task.unit.inputs))


def _no_more(pool: res.StageResources, units: int) -> res.StageResources:
    """`pool` with no more actors than there are units: a unit is one block, and one actor's at a time."""
    return replace(pool, actors=min(pool.actors, units), max_actors=pool.max_actors and min(pool.max_actors, units))


def _mapped(data: ray.data.Dataset, stage: Stage, pool: res.StageResources, board: Any) -> ray.data.Dataset:
    kwargs = {"stage": stage, "board": board}
    return _pool(data, _runner(stage, _StageRunner), kwargs, pool, batch_size=pool.batch_size)


def _pool(
    data: ray.data.Dataset, runner: type, kwargs: dict[str, Any], pool: res.StageResources, *, batch_size: int
) -> ray.data.Dataset:
    sizes: dict[str, Any] = {"size": pool.actors}
    if pool.max_actors and pool.max_actors > pool.actors:
        sizes = {"min_size": pool.actors, "max_size": pool.max_actors, "initial_size": pool.actors}
    return data.map_batches(
        runner,
        batch_format="pyarrow",
        batch_size=batch_size,
        fn_constructor_kwargs=kwargs,
        compute=ActorPoolStrategy(max_tasks_in_flight_per_actor=pool.max_in_flight, **sizes),
        num_cpus=pool.num_cpus,
        num_gpus=pool.num_gpus or None,
        memory=pool.memory_gb * 2**30 if pool.memory_gb else None,
        max_restarts=RESTARTS,
        max_task_retries=RESTARTS,
    )


def _runner(stage: Stage, base: type) -> type:
    """`base` under the actor's own name, which is what Ray calls the operator."""
    return type(stage.name, (base,), {"__module__": __name__})


class _StageRunner:
    """Holds a plain actor; keeps the unit columns aside and checks that every row comes out once."""

    def __init__(self, *, stage: Stage, board: Any) -> None:
        kwargs = dict(stage.kwargs)
        if "threads" in kwargs and kwargs["threads"] is None:
            # Ray sets OMP_NUM_THREADS to the logical CPUs asked for, which say nothing about the machine's.
            kwargs["threads"] = len(os.sched_getaffinity(0))
        self._stage = stage
        self._actor: StageActor = stage.actor(**kwargs)
        self._report = Reporter(board, stage.pool)
        if hasattr(self._actor, "report_tokens"):
            self._actor.report_tokens(lambda tokens: self._report.add(0, tokens=tokens))

    def __call__(self, batch: pa.Table) -> pa.Table:
        given = batch.drop_columns([name for name in (*OF_UNIT, TALLY) if name in batch.column_names])
        check_inputs(self._stage.name, given.schema, self._actor.INPUTS)
        counts = self._stage.made_of(given)
        made: pa.Table = self._actor(given)
        check_outputs(self._stage.name, made.schema, self._actor.OUTPUTS)
        if made.num_rows != sum(counts):
            asked = f"{counts[0]} each" if len(set(counts)) == 1 else f"{sum(counts)}"
            raise RunError(f"{self._stage.name} made {made.num_rows} rows of {batch.num_rows}, not {asked}")
        for column in OF_UNIT:
            values = batch[column].combine_chunks()
            if made.num_rows != batch.num_rows or set(counts) != {1}:
                values = values.take(pa.array([row for row, n in enumerate(counts) for _ in range(n)], pa.int64()))
            made = made.append_column(column, values)
        if hasattr(self._actor, "take_tally") or TALLY in batch.column_names:
            made = made.append_column(TALLY, self._tallied(batch, counts))
        self._report.add(made.num_rows, errors=_errors(made))
        self._report.flush()
        return made

    def _tallied(self, batch: pa.Table, counts: Sequence[int]) -> pa.Array:
        """Column TALLY: what an earlier stage counted stays with the rows' unit, what this one counted goes first."""
        tallies: list[list[tuple[str, int]]] = [[] for _ in range(sum(counts))]
        row = 0
        before = batch[TALLY].to_pylist() if TALLY in batch.column_names else [None] * batch.num_rows
        for counted, made in zip(before, counts, strict=True):
            if counted and made:
                tallies[row] += counted
            row += made
        if tallies and hasattr(self._actor, "take_tally"):
            tallies[0] += self._actor.take_tally().items()
        return pa.array([tally or None for tally in tallies], pa.map_(pa.string(), pa.int64()))


class _UnitRunner:
    """Holds a unit-at-a-time actor and gives it the unit's writer."""

    def __init__(self, *, stage: Stage, board: Any, target: Target) -> None:
        self._actor = stage.actor(**stage.kwargs)
        self._report = Reporter(board, stage.pool)
        self._target = target

    def __call__(self, batch: pa.Table) -> pa.Table:
        for text in batch[TASK].to_pylist():
            task = UnitTask.from_json(text)
            with UnitWriter(self._target, task) as writer:
                self._actor(task, writer, self._report)
            self._report.flush()
        return batch


def _errors(batch: pa.Table) -> int:
    if "status" not in batch.column_names:
        return 0
    bad = pc.sum(pc.equal(batch["status"], "error")).as_py()
    return bad or 0


class _UnitReader:
    """Reads the unit that a block names: its rows as the first stage takes them, with what is to be done of it."""

    def __init__(self, read: Read, target: Target, stages: Sequence[Stage]) -> None:
        self._read, self._target = read, target
        self._first = stages[0]
        self._then = math.prod(stage.rows_out for stage in stages[1:] if isinstance(stage.rows_out, int))

    def __call__(self, batch: pa.Table) -> pa.Table:
        (text,) = batch[TASK].to_pylist()
        task, read = UnitTask.from_json(text), self._read
        barred = exclusions.kept(read.excluded)
        # Before a retry leaves rows out: the unit's counts are of all its rows.
        rows = exclusions.withhold(read.rows(task), item=read.item, barred=barred)
        if task.retry:
            kept = read_unit(self._target.data_uri(task.unit.name), columns=[read.output_item, "status"])
            again = kept.filter(pc.is_in(kept["status"], pa.array(task.retry)))
            rows = rows.filter(pc.is_in(rows[read.item], again[read.output_item].combine_chunks()))
        asked = sum(self._first.made_of(rows)) * self._then
        rows = rows.append_column(TASK, _same(text, rows.num_rows))
        rows = rows.append_column(ASKED, pa.array([asked] * rows.num_rows, pa.int64()))
        return rows.append_column(EXCLUDED, _same(json.dumps(barred.take_matched()), rows.num_rows))


def _same(text: str, rows: int) -> pa.DictionaryArray:
    """`text` in every row, held once: a task may name ten thousand inputs."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [text])


class _UnitSink(Datasink):
    """Writes whole units; a block with part of a unit is a fault in the plan, never written."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def write(self, blocks: Iterable[Block], ctx: Any) -> None:
        rows = pa.concat_tables([BlockAccessor.for_block(b).to_arrow() for b in blocks])
        tasks = rows[TASK].combine_chunks()
        for place in pc.unique(tasks.indices).to_pylist():
            mine = rows.filter(pc.equal(tasks.indices, place))
            task = UnitTask.from_json(tasks.dictionary[place].as_py())
            asked = mine[ASKED][0].as_py()
            if mine.num_rows != asked:
                raise RunError(f"unit {task.unit.name}: {mine.num_rows} of {asked} rows arrived together")
            tallies, matched = _tallies(mine), json.loads(mine[EXCLUDED][0].as_py())
            made = mine.drop_columns([column for column in (*OF_UNIT, TALLY) if column in mine.column_names])
            if task.retry:
                made = _merged(read_unit(self._target.data_uri(task.unit.name)), made, self._target, task)
            with UnitWriter(self._target, task) as writer:
                _count_in(writer, task, made.num_rows)
                writer.counts.tallies = tallies
                exclusions.count(writer.counts, matched)
                writer.write(made)


def _tallies(rows: pa.Table) -> dict[str, dict[str, int]]:
    """The sums of column TALLY by group and key."""
    found: dict[str, dict[str, int]] = {}
    for entries in rows[TALLY].drop_null().to_pylist() if TALLY in rows.column_names else ():
        for name, n in entries:
            group, _, key = name.partition("/")
            tally = found.setdefault(group, {})
            tally[key] = tally.get(key, 0) + n
    return found


def _count_in(writer: UnitWriter, task: UnitTask, rows: int) -> None:
    """Account for a unit's rows: those that were read, and those that its plan left out (`extra["filtered"]`)."""
    left_out = task.unit.extra.get("filtered", {})
    writer.counts.filtered.update(left_out)
    writer.counts.rows_in = rows + sum(left_out.values())


def _merged(old: pa.Table, new: pa.Table, target: Target, task: UnitTask) -> pa.Table:
    """`old` in its order, its rows of the retried statuses replaced by those of `new` with the same key."""
    key = list(target.definition().key)
    place = {k: i for i, k in enumerate(zip(*(new[c].to_pylist() for c in key), strict=True))}
    keys = list(zip(*(old[c].to_pylist() for c in key), strict=True))
    redo = [s in task.retry for s in old["status"].to_pylist()]
    if lost := [k for k, again in zip(keys, redo, strict=True) if again and k not in place]:
        raise RunError(f"unit {task.unit.name}: the retry made no row for {lost[0]}")
    both = pa.concat_tables([old, new.select(old.column_names).cast(old.schema)])
    order = [old.num_rows + place[k] if again else i for i, (k, again) in enumerate(zip(keys, redo, strict=True))]
    return both.take(pa.array(order, pa.int64()))


@contextmanager
def _ray_errors() -> Iterator[None]:
    """Turn Ray's wrapping of what went wrong on a worker into one sentence: the last error of its trace."""
    try:
        yield
    except (KeyboardInterrupt, InputError, RunError):
        raise
    except Exception as error:
        raise RunError(f"a worker failed: {_sentence(str(error))} (ray.verbose=true shows its trace)") from error


def _sentence(trace: str) -> str:
    wrapping = ("UserCodeException", "ActorDiedError")
    named = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Invalid|BadZipFile)): (.+)$", trace, re.M)
    if own := [(kind, message) for kind, message in named if kind not in wrapping]:
        return faults.sentence_of_text(own[-1][1]) or ": ".join(own[-1])
    if died := re.search(r"class_name: MapWorker\(MapBatches\((\w+)\)\)", trace):
        return (
            f"the process of {died.group(1)} ended {RESTARTS + 1} times; either there is too little memory, "
            "or a row in its hands makes a library crash"
        )
    return (trace.strip() or "Ray gave no reason").splitlines()[-1]
