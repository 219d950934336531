"""A run is claimed, frozen, resumed and completed; every unit is there once whatever was killed."""

import json
import os
import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError, RunError
from jobs.store import locations
from jobs.store.counts import Counts
from jobs.store.footers import data_objects
from jobs.store.locations import Object
from jobs.store.reading import open_table, read_unit, tables_in
from jobs.store.run import TablePlan, survey
from jobs.store.run_files import read_manifest, read_written_units
from jobs.store.units import Unit
from jobs.store.writer import REJECTS, REJECTS_HELD, Reject, UnitTask, UnitWriter
from tests.jobs.store.small_runs import FILES, begin, complete, contents, plan, unit, write

ALL_ROWS = ["a0", "a1", "b0", "b1", "c0", "c1"]


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "out")


@pytest.fixture(params=["local", "s3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "out")
    return f"{request.getfixturevalue('s3')}/{tmp_path.name}/out"


def test_a_run_that_stops_half_way_is_gone_on_with(anywhere: str) -> None:
    first = begin(plan(anywhere))
    assert (len(first.todo), first.done_before) == (3, 0)
    write(first, first.todo[0], rejected=1)
    with pytest.raises(InputError, match="2 of 3 units are not done"):
        open_table(anywhere)
    assert survey(plan(anywhere)).done == 1

    second = begin(plan(anywhere))
    assert [t.unit.name for t in second.todo] == [t.unit.name for t in first.todo[1:]]
    assert second.done_before == 1
    with pytest.raises(RunError, match="2 of 3 units were not written"):
        second.finish()
    assert not read_manifest(anywhere)["complete"]
    for task in second.todo:
        write(second, task)
    manifest = second.finish()
    assert read_manifest(anywhere)["complete"]
    assert contents(anywhere) == ALL_ROWS
    assert manifest["counts"]["rows_in"] == 10
    assert begin(plan(anywhere)).todo == []


def test_the_manifest_says_what_was_done(out: str) -> None:
    manifest = complete(plan(out, models={"m": "rev"}))
    stored = json.loads(Path(out, "_run/manifest.json").read_bytes())
    assert manifest == stored | {"units": list(read_written_units(f"{out}/_run/units.jsonl"))}
    assert manifest["identity"] == {"rules": {"x": 1}}
    assert manifest["config"] == {"key": "value"}
    assert manifest["models"] == {"m": "rev"}
    assert {"python", "code", "pyarrow", "ray"} <= set(manifest["versions"])
    assert manifest["seconds"] >= 0
    counts = manifest["counts"]
    assert (counts["rows_in"], counts["rows_out"], counts["filtered"], counts["rejected"]) == (9, 6, {"rule": 3}, {})
    one = manifest["units"][0]
    assert (one["generation"], one["rows"], one["retired"]) == (0, 2, [])
    assert one["inputs"] == [{"uri": "/corpus/a", "size": 10, "etag": "1"}]
    assert one["bytes"] == Path(out, f"{one['name']}.parquet").stat().st_size


@pytest.mark.parametrize(
    ("identity", "key"),
    [
        ({"rules": {"x": 2}}, r"rules\.x was 1, now 2"),
        ({"rules": {"x": 1}, "model": "m"}, "model was not set, now 'm'"),
        ({"rules": {}}, "rules"),
        ({"rules": {"x": 1}, "model": None}, "model"),
    ],
)
def test_another_identity_is_refused_by_its_key(anywhere: str, identity: dict[str, Any], key: str) -> None:
    begin(plan(anywhere))
    with pytest.raises(InputError, match=key):
        begin(plan(anywhere, identity=identity))


def test_another_table_in_the_same_place_is_refused(out: str) -> None:
    complete(plan(out))
    with pytest.raises(InputError, match="a table 'node_images' exists, and this job writes 'nodes'"):
        begin(plan(out, table="nodes"))


def test_an_identity_is_compared_as_json(out: str) -> None:
    begin(plan(out, identity={"rules": ("a", "b"), "n": 1.0}))
    assert len(begin(plan(out, identity={"rules": ["a", "b"], "n": 1.0})).todo) == 3


@pytest.mark.parametrize(
    ("units", "named"),
    [
        ([unit("a"), unit("b", etag="2"), unit("c")], r"/corpus/b changed or is gone \(1 gone, 1 new\)"),
        ([unit("a"), unit("b"), unit("c"), unit("d")], r"/corpus/d is new \(0 gone, 1 new\)"),
        ([unit("a"), unit("c")], r"/corpus/b changed or is gone \(1 gone, 0 new\)"),
    ],
)
def test_inputs_that_are_not_the_frozen_ones_are_refused(out: str, units: list[Unit], named: str) -> None:
    begin(plan(out))
    with pytest.raises(InputError, match=named):
        begin(plan(out, units=units))


def test_units_planned_in_another_order_are_those_that_were_frozen(out: str) -> None:
    first = begin(plan(out))
    write(first, first.todo[0])
    again = begin(plan(out, units=[unit(f) for f in reversed(FILES)]))
    assert [u.name for u in again.units] == [unit(f).name for f in FILES]
    assert [t.unit.name for t in again.todo] == [unit(f).name for f in FILES[1:]]
    for task in again.todo:
        write(again, task)
    assert [u["name"] for u in again.finish()["units"]] == [unit(f).name for f in FILES]


def test_an_object_that_holds_another_unit_is_none_of_its_own(out: str) -> None:
    units = [Unit(name, (), rows=2) for name in FILES]  # without inputs all are of one version
    made = plan(out, units=units)
    run = begin(made)
    for task in run.todo[:2]:
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 1
            writer.write(pa.table({"node_id": [task.unit.name], "image_id": ["i"]}))
    shutil.copy(Path(out, "a.parquet"), Path(out, "b.parquet"))
    assert [task.unit.name for task in begin(made).todo] == ["b", "c"]


def test_an_input_named_twice_is_refused(out: str) -> None:
    with pytest.raises(InputError, match="/corpus/a: duplicate input"):
        begin(plan(out, units=[unit("a"), unit("a")]))
    assert not Path(out).exists()


def test_resume_false_refuses_and_overwrite_begins_again(anywhere: str) -> None:
    complete(plan(anywhere))
    with pytest.raises(InputError, match="resume=false"):
        begin(plan(anywhere), resume=False)
    assert contents(anywhere) == ALL_ROWS
    other = plan(anywhere, identity={"rules": {"x": 9}}, units=[unit("z")])
    assert complete(other, overwrite=True)["identity"] == {"rules": {"x": 9}}
    assert contents(anywhere) == ["z0", "z1"]


def test_overwrite_removes_only_what_a_run_writes(out: str) -> None:
    complete(plan(out))
    with pytest.raises(InputError, match="inside table"):
        begin(plan(f"{out}/nested"))
    shutil.copytree(out, f"{out}/nested")  # somebody's copy
    Path(out, "notes.txt").write_text("mine")
    complete(plan(out, units=[unit("z")]), overwrite=True)
    assert Path(out, "notes.txt").read_text() == "mine"
    assert contents(f"{out}/nested") == ALL_ROWS
    assert len(list(Path(out).glob("*.parquet"))) == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_foreign_folder_is_never_touched(anywhere: str, overwrite: bool) -> None:
    uri = locations.join(anywhere, "thesis.parquet")
    locations.replace(uri, b"years of work")
    with pytest.raises(InputError, match="not empty, and not a table that remine wrote"):
        begin(plan(anywhere), overwrite=overwrite)
    assert [o.uri for o in locations.listing(anywhere)] == [uri]
    assert locations.read_bytes(uri) == b"years of work"


def test_a_lost_identity_is_written_again_by_the_same_command(anywhere: str) -> None:
    complete(plan(anywhere))
    locations.remove([f"{anywhere}/_run/identity.json"])
    with pytest.raises(InputError, match=r"identity\.json is gone, and the units were written with another"):
        begin(plan(anywhere, identity={"rules": {"x": 9}}))
    assert not locations.exists(f"{anywhere}/_run/identity.json")
    assert list(begin(plan(anywhere)).todo) == []
    assert locations.exists(f"{anywhere}/_run/identity.json")
    locations.remove([f"{anywhere}/_run/identity.json"])
    complete(plan(anywhere, identity={"rules": {"x": 9}}), overwrite=True)
    assert contents(anywhere) == ALL_ROWS


def test_without_its_run_files_a_table_is_foreign(anywhere: str) -> None:
    complete(plan(anywhere))
    locations.remove([file.uri for file in locations.listing(f"{anywhere}/_run")])
    with pytest.raises(InputError, match="not a table that remine wrote"):
        begin(plan(anywhere), overwrite=True)
    assert contents(anywhere) == ALL_ROWS


def test_what_a_kill_before_the_claim_left_makes_no_place_foreign(out: str) -> None:
    left = Path(out, "_run", ".x1y2.tmp")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"{")
    os.utime(left, (time.time() - 60,) * 2)
    complete(plan(out))
    assert contents(out) == ALL_ROWS
    assert not left.exists()


def test_temporary_files_of_a_killed_run_are_swept(out: str) -> None:
    run = begin(plan(out))
    for name in (".u.parquet.123.tmp", "_rejects/.u.0.parquet.123.tmp"):
        left = Path(out, name)
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"half")
        os.utime(left, (time.time() - 60,) * 2)
    own = Path(out, ".now.tmp")
    own.write_bytes(b"")
    os.utime(own, (time.time() + 60,) * 2)  # of a run that goes on
    for task in run.todo:
        write(run, task)
    run.finish()
    assert [p.name for p in Path(out).rglob(".*")] == [".now.tmp"]


def test_a_missing_object_and_a_half_written_one_are_done_again(anywhere: str) -> None:
    complete(plan(anywhere))
    gone, half, whole = (o.uri for o in locations.listing(anywhere) if o.uri.endswith(".parquet"))
    before = locations.read_bytes(whole)
    locations.remove([gone])
    locations.replace(half, locations.read_bytes(half)[:-20])
    run = begin(plan(anywhere))
    assert {run.target.data_uri(t.unit.name) for t in run.todo} == {gone, half}
    for task in run.todo:
        write(run, task)
    run.finish()
    assert contents(anywhere) == ALL_ROWS
    assert locations.read_bytes(whole) == before


def test_a_footer_of_garbage_is_a_broken_object(out: str) -> None:
    complete(plan(out))
    victim = sorted(Path(out).glob("*.parquet"))[0]
    victim.write_bytes(b"PAR1" + b"\xff" * 100 + (80).to_bytes(4, "little") + b"PAR1")
    assert len(begin(plan(out)).todo) == 1
    with pytest.raises(InputError, match="not a readable Parquet file"):
        open_table(out)


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
    manifest = run.finish()
    (unit_b,) = [u for u in manifest["units"] if u["name"] == "b"]
    assert (unit_b["generation"], [r["generation"] for r in unit_b["retired"]]) == (1, [0])
    assert unit_b["retired"][0]["counts"]["rows_out"] == 2
    assert contents(out) == ["a0", "a1", "b0"]
    assert begin(derived("2")).todo == []


def pictures(statuses: list[str]) -> pa.Table:
    from jobs.tables import TABLES

    rows = [{"image_id": str(i), "rendition": "original", "status": s} for i, s in enumerate(statuses)]
    return pa.Table.from_pylist(rows, schema=TABLES["images"].schema())


def test_retry_takes_the_units_that_have_the_status(out: str) -> None:
    made = plan(out, table="images", units=[unit("a"), unit("b")])
    run = begin(made)
    for task, statuses in zip(run.todo, (["ok", "error"], ["ok", "ok"]), strict=True):
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 2
            writer.write(pictures(statuses))
    assert run.finish()["counts"]["status"] == {"ok": 3, "error": 1}
    assert begin(made, retry=["refused"]).todo == []
    again = begin(made, retry=["error", "truncated"])
    (task,) = again.todo
    assert (task.unit.inputs[0].uri, task.generation, task.retry) == ("/corpus/a", 1, ("error", "truncated"))
    assert UnitTask.from_json(task.to_json()) == task
    with UnitWriter(again.target, task) as writer:
        writer.counts.rows_in = 2
        writer.write(pictures(["ok", "ok"]))
    manifest = again.finish()
    assert manifest["counts"]["status"] == {"ok": 4}
    assert sorted(len(u["retired"]) for u in manifest["units"]) == [0, 1]


def test_retry_with_a_word_that_is_no_status_is_refused(out: str) -> None:
    with pytest.raises(InputError, match="retry=broken: no such status; allowed: ok, refused"):
        begin(plan(out), retry=["broken"])
    assert not Path(out).exists()


def test_a_unit_that_does_not_balance_is_not_published(out: str) -> None:
    run = begin(plan(out))
    writer = UnitWriter(run.target, run.todo[0]).__enter__()
    writer.counts.rows_in = 5
    writer.write(pa.table({"node_id": ["n"], "image_id": ["i"]}))
    with pytest.raises(RunError, match="does not balance"):
        writer.__exit__(None, None, None)
    assert list(Path(out).glob("*.parquet")) == []


def test_an_exception_inside_the_block_publishes_nothing(out: str) -> None:
    run = begin(plan(out))

    def fail() -> None:
        with UnitWriter(run.target, run.todo[0]) as writer:
            writer.reject(Reject("f", 0, "malformed", "no row"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sorted(p.name for p in Path(out).rglob("*") if p.is_file()) == [
        "config.json",
        "identity.json",
        "inputs.jsonl",
    ]


def test_an_empty_unit_is_an_object_of_zero_rows(anywhere: str) -> None:
    run = begin(plan(anywhere, units=[unit("a")]))
    write(run, run.todo[0], rows=0)
    run.finish()
    source = open_table(anywhere)
    assert (len(source.footers), source.rows) == (1, 0)
    assert read_unit(source.footers[0].object.uri).column_names == ["node_id", "image_id"]
    assert begin(plan(anywhere, units=[unit("a")])).todo == []


def test_rejects_are_there_before_data(anywhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = plan(anywhere, units=[unit("a")])
    run = begin(made)
    publish = locations.publish

    def broken(source: Path, uri: str) -> None:
        if "/_rejects/" not in uri and uri.endswith(".parquet"):
            raise OSError("the store is gone")
        publish(source, uri)

    monkeypatch.setattr(locations, "publish", broken)
    with pytest.raises(OSError, match="the store is gone"):
        write(run, run.todo[0], rejected=2)
    monkeypatch.undo()
    there = [o.uri for o in locations.listing(anywhere) if o.uri.endswith(".parquet")]
    assert there == [run.target.rejects_uri(run.todo[0].unit.name, 0)]

    again = begin(made)
    write(again, again.todo[0], rejected=2)
    assert again.finish()["counts"]["rejected"] == {"malformed": 2}
    rejects = read_unit(there[0])
    assert rejects["position"].to_pylist() == [0, 1]
    assert rejects["file"].to_pylist() == ["/corpus/a"] * 2
    assert contents(anywhere) == ["a0", "a1"]


def test_many_rejects_are_all_kept_and_not_all_in_memory(out: str) -> None:
    run = begin(plan(out, units=[unit("a")]))
    with UnitWriter(run.target, run.todo[0]) as writer:
        for i in range(2 * REJECTS_HELD + 1):
            writer.counts.rows_in += 1
            writer.reject(Reject("f", i, "malformed", "no row"))
            assert len(writer._rejects) < REJECTS_HELD
    kept = pq.read_table(run.target.rejects_uri(run.todo[0].unit.name, 0))
    assert kept.schema.equals(REJECTS)
    assert kept["position"].to_pylist() == list(range(2 * REJECTS_HELD + 1))
    assert run.finish()["counts"]["rejected"] == Counter(malformed=2 * REJECTS_HELD + 1)


def test_row_groups_are_bounded_by_their_bytes(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.store.writer.ROW_GROUP_BYTES", 1000)
    run = begin(plan(out, units=[unit("a"), unit("b")]))
    for task, text in zip(run.todo, ("x" * 100, "x" * 5000), strict=True):
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 20
            writer.write(pa.table({"node_id": [f"{n:02}{text}" for n in range(20)], "image_id": ["i"] * 20}))
    groups = [pq.ParquetFile(run.target.data_uri(task.unit.name)).metadata for task in run.todo]
    # 20 rows of some 110 B are 2.2 kB: 8 or 9 rows in each; a row of 5 kB is a group of its own
    assert groups[0].num_row_groups == 3
    assert groups[1].num_row_groups == 20


def test_rejects_are_read_in_order_from_the_units_that_have_some(out: str) -> None:
    run = begin(plan(out))
    for task, rejected in zip(run.todo, (2, 0, 1), strict=True):
        write(run, task, rejected=rejected)
    run.finish()
    rejects = list(open_table(out, "node_images").rejects())
    assert [f"{reject.file} {reject.position}" for reject in rejects] == ["/corpus/a 0", "/corpus/a 1", "/corpus/c 0"]


def test_a_survey_counts_what_is_left(out: str) -> None:
    units = [replace(unit(name), rows=rows) for name, rows in zip(FILES, (3, 5, 7), strict=True)]
    planned = plan(out, units=units)
    assert survey(planned).rows_left == 15
    run = begin(planned)
    write(run, run.todo[1])
    after = survey(planned)
    assert (after.units, after.done, after.rows_in, after.bytes_in, after.rows_left) == (3, 1, 15, 30, 10)
    assert [rows for _, rows in after.ended] == [3]
    assert survey(planned, overwrite=True).done == 0
    unknown = survey(plan(out, units=[*units[:2], unit("c")]))
    assert (unknown.rows_in, unknown.rows_left) == (8, None)


def test_a_glob_names_the_folders_at_its_depth(tmp_path: Path) -> None:
    for name in ("x/one", "x/two", "x/deep/three", "y/one"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "a.parquet").write_bytes(b"")
    (tmp_path / "x" / "file").write_bytes(b"")
    assert tables_in(f"{tmp_path}/x/*") == [f"{tmp_path}/x/{name}" for name in ("deep", "one", "two")]
    assert tables_in(f"{tmp_path}/*/o?e") == [f"{tmp_path}/{name}/one" for name in "xy"]
    assert tables_in(f"{tmp_path}/x/no") == [f"{tmp_path}/x/no"]
    with pytest.raises(InputError, match="no table matches"):
        tables_in(f"{tmp_path}/x/n*")


def test_a_table_of_a_newer_remine_is_refused(out: str) -> None:
    complete(plan(out, units=[unit("a")]))
    (victim,) = Path(out).glob("*.parquet")
    read = pq.read_table(victim)
    for changed, said in (({b"remine.table": b"dreams"}, "'dreams'"), ({b"remine.version": b"99"}, "version 99")):
        pq.write_table(read.replace_schema_metadata({**read.schema.metadata, **changed}), victim)
        with pytest.raises(InputError, match=said):
            open_table(out)


def test_each_retry_keeps_the_generations_before_it(out: str) -> None:
    made = plan(out, table="images", units=[unit("a")])
    for statuses in (["error", "error"], ["error", "ok"], ["ok", "ok"]):
        run = begin(made, retry=["error"])
        (task,) = run.todo
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 2
            writer.write(pictures(statuses))
        manifest = run.finish()
    (one,) = manifest["units"]
    assert one["generation"] == 2
    assert [r["generation"] for r in one["retired"]] == [0, 1]
    assert [r["counts"]["status"] for r in one["retired"]] == [{"error": 2}, {"error": 1, "ok": 1}]


@pytest.mark.parametrize(
    ("counts", "balances"),
    [
        (Counts(rows_in=2, rows_out=2), True),
        (Counts(rows_in=2, rows_out=2, status=Counter(ok=2)), True),
        (Counts(rows_in=2, rows_out=2, status=Counter(ok=1)), False),
        (Counts(rows_in=3, rows_out=2, filtered=Counter(rule=1)), True),
        (Counts(rows_in=3, rows_out=2), False),
    ],
)
def test_counts_balance_if_every_row_is_accounted_for(counts: Counts, balances: bool) -> None:
    assert counts.balances() is balances


def test_hidden_names_and_folders_hold_no_data_objects(out: str) -> None:
    names = ["a.parquet", ".b.parquet", ".ipynb_checkpoints/c.parquet", "_rejects/d.parquet", "x/e.parquet", "f.txt"]
    listed = [Object(f"{out}/{name}", 1, "") for name in names]
    assert [o.uri for o in data_objects(out, listed)] == [f"{out}/a.parquet", f"{out}/x/e.parquet"]


def test_what_a_run_keeps_in_its_own_folders_is_no_table_to_name(out: str) -> None:
    complete(plan(f"{out}/_partial/one"))
    with pytest.raises(InputError, match="no table here"):
        open_table(out)
    complete(plan(f"{out}/two"))
    with pytest.raises(InputError, match="a folder of several tables: two; name one of them"):
        open_table(out)
