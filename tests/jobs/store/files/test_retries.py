"""Retries and changed inputs give units new generations, which keep what they replace."""

from pathlib import Path

import pyarrow as pa
import pytest

from jobs.errors import InputError, RunError
from jobs.store.reading import open_table
from jobs.store.runs.table_run import survey
from jobs.store.table_plan import TablePlan
from jobs.store.writer import UnitTask, UnitWriter
from tests.factories import unit_records
from tests.jobs.store.small_runs import begin, complete, contents, plan, unit, write


def test_a_changed_parent_gives_a_new_generation(out: str) -> None:
    def derived(etag: str) -> TablePlan:
        return plan(out, units=[unit("a", derived=True), unit("b", etag=etag, derived=True)], derived=True)

    complete(derived("1"))
    run = begin(derived("2"))
    (task,) = run.todo
    assert (task.unit.name, task.generation, task.retry) == ("b", 1, ())
    assert [r["generation"] for r in task.retired] == [0]
    with pytest.raises(InputError, match="1 of 2 units are not done"):
        open_table(out)  # half of it is of the old parent
    with pytest.raises(RunError, match="1 of 2 units were not written"):
        run.finish()
    assert survey(derived("2")).done == 1
    write(run, task, rows=1)
    run.finish()
    (unit_b,) = [record for record in unit_records(out) if record["unit"]["name"] == "b"]
    assert (unit_b["generation"], [r["generation"] for r in unit_b["retired"]]) == (1, [0])
    assert unit_b["retired"][0]["counts"]["rows_out"] == 2
    assert contents(out) == ["a0", "a1", "b0"]
    assert begin(derived("2")).todo == []


def pictures(statuses: list[str]) -> pa.Table:
    from jobs.tables import TABLES

    rows = [{"image_id": str(i), "rendition": "original", "status": s} for i, s in enumerate(statuses)]
    return pa.Table.from_pylist(rows, schema=TABLES["images"].schema())


def test_retry_takes_the_units_that_have_the_status(out: str) -> None:
    planned = plan(out, table="images", units=[unit("a"), unit("b")])
    run = begin(planned)
    for task, statuses in zip(run.todo, (["ok", "error"], ["ok", "ok"]), strict=True):
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 2
            writer.write(pictures(statuses))
    assert run.finish()["counts"]["status"] == {"ok": 3, "error": 1}
    assert begin(planned, retry=["refused"]).todo == []
    again = begin(planned, retry=["error", "truncated"])
    (task,) = again.todo
    assert (task.unit.inputs[0].uri, task.generation, task.retry) == ("/corpus/a", 1, ("error", "truncated"))
    assert UnitTask.from_json(task.to_json()) == task
    with UnitWriter(again.target, task) as writer:
        writer.counts.rows_in = 2
        writer.write(pictures(["ok", "ok"]))
    manifest = again.finish()
    assert manifest["counts"]["status"] == {"ok": 4}
    assert sorted(len(u["retired"]) for u in unit_records(out)) == [0, 1]


def test_retry_with_an_unknown_status_is_refused(out: str) -> None:
    with pytest.raises(InputError, match="retry=broken: no such status; must be one of ok, refused"):
        begin(plan(out), retry=["broken"])
    assert not Path(out).exists()


def test_each_retry_keeps_the_generations_before_it(out: str) -> None:
    planned = plan(out, table="images", units=[unit("a")])
    for statuses in (["error", "error"], ["error", "ok"], ["ok", "ok"]):
        run = begin(planned, retry=["error"])
        (task,) = run.todo
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 2
            writer.write(pictures(statuses))
        run.finish()
    (one,) = unit_records(out)
    assert one["generation"] == 2
    assert [r["generation"] for r in one["retired"]] == [0, 1]
    assert [r["counts"]["status"] for r in one["retired"]] == [{"error": 2}, {"error": 1, "ok": 1}]
