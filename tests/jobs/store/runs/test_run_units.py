"""Which units of a table are written, current and done, and what is left of the others."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.footers import Footer
from jobs.store.run_files import INPUTS, read_inputs, run_uri
from jobs.store.runs.place import read_frozen
from jobs.store.runs.run_units import Amounts, rows_of_units, with_footers
from jobs.store.runs.table_run import survey
from jobs.store.table_plan import RowLimit
from jobs.store.units import Unit
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
    listed = locations.listing(out)
    footers: list[Footer | None] = [footer for _, footer in with_footers(run.target, run.units, listed)]
    assert [footer and footer.rows for footer in footers] == [2, 0, None]


def test_a_damaged_object_and_a_file_of_the_users_are_no_units(out: str) -> None:
    run = begin(plan(out))
    write(run, run.todo[0], rows=2)
    pq.write_table(pa.table({"node_id": ["x"]}), f"{out}/ours.parquet")
    Path(run.target.data_uri(unit("b").name)).write_bytes(b"PAR1")
    assert rows_of_units(out) == {unit("a").name: 2}


def test_a_place_without_a_table_has_no_units(out: str) -> None:
    assert rows_of_units(out) == {}


SHARED = Object("s3://b/shared", 5, "")
UNITS = [
    Unit("one", (Object("s3://b/1", 10, ""), SHARED), rows=3),
    Unit("two", (Object("s3://b/2", 20, ""), SHARED), rows=4),
    Unit("three", (Object("/local", 30, ""),), rows=5),
]


def test_a_unit_that_is_done_leaves_the_work_and_inputs_of_the_others() -> None:
    amounts = Amounts(UNITS)
    assert (amounts.units, amounts.done, amounts.left, amounts.inputs_left, amounts.bytes) == (3, 0, 12, 4, 65)
    assert amounts.remote_bytes_left == (10 + 5) + (20 + 5)
    record: Any = {"begun": 100.0, "seconds": 2.5}
    amounts.add_done(UNITS[1], record)
    assert (amounts.done, amounts.left, amounts.inputs_left, list(amounts.ended())) == (1, 8, 2, [(102.5, 4)])
    assert amounts.remote_bytes_left == 10 + 5


def test_work_is_counted_in_bytes_unless_a_limit_makes_them_meaningless() -> None:
    whole = [*UNITS, Unit("four", (Object("/local", 30, ""),))]
    amounts = Amounts(whole)
    assert (amounts.counted, amounts.left, amounts.rows, amounts.work_of(whole[0])) == ("bytes", 100, 12, 15)
    limited = [*whole, Unit("five", (Object("/local", 30, ""),), extra={"limit": 2})]
    amounts = Amounts(limited)
    assert (amounts.counted, amounts.left, amounts.rows, amounts.work_of(limited[0])) == ("units", 5, 12, 1)
    record: Any = {"begun": 0.0, "seconds": 1.0}
    amounts.add_done(limited[0], record)
    assert (amounts.left, list(amounts.ended())) == (4, [(1.0, 1)])
    amounts = Amounts([Unit("six", (), rows=7, extra={"limit": 7})])
    assert (amounts.counted, amounts.left) == ("rows", 7)


def derived_plan(out: str, names: str, *, etag: str = "1", limit: int | None = None) -> Any:
    taken = None if limit is None else RowLimit(limit, limit, 9, per_input=False, noun="rows")
    return plan(out, derived=True, units=[unit(name, etag=etag, derived=True) for name in names], limit=taken)


def test_only_a_trial_of_a_derived_table_may_have_more_units(out: str) -> None:
    """They come after the earlier ones; a unit that is gone is refused for a trial, too."""
    begin(derived_plan(out, "bd", limit=4))
    assert [of_run.name for of_run in begin(derived_plan(out, "abcd", limit=4)).units] == ["b", "d", "a", "c"]
    with pytest.raises(InputError, match=r"/corpus/d is gone"):
        begin(derived_plan(out, "abc", limit=4))
    whole = f"{out}-whole"
    begin(derived_plan(whole, "bd"))
    with pytest.raises(InputError, match=r"/corpus/a is new \(2 new\)"):
        begin(derived_plan(whole, "abcd"))


def test_the_list_follows_changed_inputs_of_a_derived_table(out: str) -> None:
    """It is written again with their new versions, so that other jobs see what the units were made from."""
    for etag in ("1", "2"):
        begin(derived_plan(out, "abc", etag=etag))
        listed = list(read_inputs(run_uri(out, INPUTS)))
        assert [(of_list.name, of_list.inputs[0].etag) for of_list in listed] == [(name, etag) for name in FILES]


def test_further_units_of_a_trial_come_after_those_that_were_frozen(tmp_path: Path) -> None:
    out, limit = str(tmp_path / "table"), RowLimit(5, 5, 9, per_input=False, noun="rows")
    frozen = [unit(name, derived=True) for name in ("c", "b")]
    complete(plan(out, units=frozen, derived=True, limit=limit))
    planned = plan(out, units=[unit(name, derived=True) for name in "abcd"], derived=True, limit=limit)
    assert [unit.name for unit in read_frozen(out, planned).units] == ["c", "b", "a", "d"]


def test_the_first_by_name_of_several_inputs_is_named(out: str) -> None:
    begin(plan(out, units=[unit(name) for name in "dabc"]))
    for names, message in (("e", r"/corpus/a is gone \(4 gone, 1 new\)"), ("dabchfg", r"/corpus/f is new \(3 new\)")):
        with pytest.raises(InputError, match=message):
            begin(plan(out, units=[unit(name) for name in names]))


def test_more_files_are_no_more_rows_of_a_trial(out: str) -> None:
    limit = RowLimit(4, None, None, per_input=True, noun="rows")
    begin(plan(out, units=[unit(name) for name in "ab"], limit=limit))
    with pytest.raises(InputError, match=r"/corpus/c is new"):
        begin(plan(out, units=[unit(name) for name in "abc"], limit=limit))


def test_the_list_of_a_table_that_is_not_derived_stays_as_it_is(out: str) -> None:
    for etag in ("1", "2"):
        begin(plan(out, units=[unit("a", etag=etag, derived=True)]))
    assert [of_list.inputs[0].etag for of_list in read_inputs(run_uri(out, INPUTS))] == ["1"]
