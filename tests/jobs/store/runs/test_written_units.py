"""Which units of a table are written, current and done, and what is left of the others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.store.footers import Footer
from jobs.store.runs.table_run import survey
from jobs.store.runs.written_units import rows_of_units, with_footers
from jobs.store.writer import UnitWriter
from tests.jobs.store.small_runs import FILES, begin, complete, plan, unit, write


def derived(out: str, *etags: str, **changes: Any) -> Any:
    units = [unit(name, etag=etag, derived=True) for name, etag in zip(FILES, etags, strict=True)]
    return plan(out, derived=True, units=[replace(of_file, rows=2) for of_file in units], **changes)


def test_a_unit_whose_input_changed_is_written_again_and_is_not_done_before(out: str) -> None:
    """Its earlier generation is retired, each of several in turn."""
    complete(derived(out, "1", "1", "1"))
    for generation, etag in ((1, "2"), (2, "3")):
        planned = derived(out, "1", etag, "1")
        assert (survey(planned).done, survey(planned).left) == (2, 2)
        run = begin(planned)
        (task,) = run.todo
        assert (task.unit.name, task.generation, len(task.retired)) == ("b", generation, generation)
        assert [earlier["generation"] for earlier in task.retired] == list(range(generation))
        write(run, task)
        run.finish()
    assert survey(derived(out, "1", "3", "1")).done == 3


def test_a_retry_is_of_the_units_with_one_of_the_statuses(out: str) -> None:
    """Its task has the statuses, so that the other rows are kept."""
    run = begin(plan(out))
    for task, status in zip(run.todo, ("error", "blocked", "ok"), strict=True):
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 1
            writer.counts.status[status] += 1
            writer.write(pa.table({"node_id": [status], "image_id": ["i"]}))
    for retry, names in ((["error"], "a"), (["error", "blocked"], "ab"), (["missing"], "")):
        tasks = list(begin(plan(out), retry=retry).todo)
        assert [task.unit.name for task in tasks] == [unit(name).name for name in names]
        assert all(task.retry == tuple(retry) and task.generation == 1 for task in tasks)


def test_rows_are_those_of_units_that_are_written(out: str) -> None:
    """A unit without an object has no number of rows, rather than none."""
    run = begin(plan(out))
    write(run, run.todo[0], rows=2)
    write(run, run.todo[1], rows=0)
    assert rows_of_units(out) == {unit("a").name: 2, unit("b").name: 0}
    footers: list[Footer | None] = [footer for _, footer in with_footers(run.target, run.units)]
    assert [footer and footer.rows for footer in footers] == [2, 0, None]


def test_a_damaged_object_and_a_file_of_the_users_are_no_units(out: str) -> None:
    run = begin(plan(out))
    write(run, run.todo[0], rows=2)
    pq.write_table(pa.table({"node_id": ["x"]}), f"{out}/ours.parquet")
    Path(run.target.data_uri(unit("b").name)).write_bytes(b"PAR1")
    assert rows_of_units(out) == {unit("a").name: 2}


def test_a_place_without_a_table_has_no_units(out: str) -> None:
    assert rows_of_units(out) == {}
