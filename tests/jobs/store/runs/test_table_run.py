"""A run is claimed, frozen, resumed and completed; every unit is there once whatever was killed."""

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError, RunError
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.json_types import FOOTER_KEY
from jobs.store.reading import open_table
from jobs.store.run_files import MANIFEST, read_json, read_manifest, run_uri
from jobs.store.runs.table_run import survey
from jobs.store.unit_index import read_index
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from tests.factories import unit_records
from tests.jobs.store.small_runs import ALL_ROWS, FILES, begin, complete, contents, plan, unit, write


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
    assert manifest == stored
    assert manifest["identity"] == {"rules": {"x": 1}}
    assert manifest["config"] == {"key": "value"}
    assert manifest["models"] == {"m": "rev"}
    assert {"python", "code", "pyarrow", "ray"} <= set(manifest["versions"])
    assert manifest["seconds"] >= 0
    counts = manifest["counts"]
    assert (counts["rows_in"], counts["rows_out"], counts["filtered"], counts["rejected"]) == (9, 6, {"rule": 3}, {})
    one = next(read_index(out))
    assert one.record is not None
    assert (one.record["generation"], one.rows, one.record["retired"]) == (0, 2, [])
    assert one.unit.inputs == (Object("/corpus/a", 10, "1"),)
    assert one.object.size == Path(out, f"{one.unit.name}.parquet").stat().st_size


def test_the_seconds_of_the_units_are_added_and_the_first_that_were_given_up_are_named(out: str) -> None:
    run = begin(plan(out, units=[unit(name, derived=True) for name in "abcdef"]))
    for task in run.todo[:2]:
        write(run, task)
    run.given_up |= dict.fromkeys("fedc", "broken")
    with pytest.raises(RunError, match=r"4 of 6 units were not written; c: broken; d: broken; e: broken$"):
        run.finish()
    seconds = [footer.record["seconds"] for footer in open_table(out, complete=False).footers if footer.record]
    assert read_json(run_uri(out, MANIFEST))["unit_seconds"] == round(sum(seconds), 3)


def test_a_run_with_a_unit_that_does_not_balance_fails_after_its_manifest_is_written(out: str) -> None:
    complete(plan(out))
    victim = Path(out, f"{unit('b').name}.parquet")
    rows = pq.read_table(victim)
    record = json.loads(pq.read_metadata(victim).metadata[FOOTER_KEY])
    record["counts"]["rows_in"] += 1
    pq.write_table(rows.replace_schema_metadata({**rows.schema.metadata, FOOTER_KEY: json.dumps(record)}), victim)
    with pytest.raises(RunError, match="the run does not balance"):
        begin(plan(out)).finish()
    assert read_manifest(out)["counts"]["rows_in"] == 10


def test_units_planned_in_another_order_are_those_that_were_frozen(out: str) -> None:
    first = begin(plan(out))
    write(first, first.todo[0])
    again = begin(plan(out, units=[unit(f) for f in reversed(FILES)]))
    assert [u.name for u in again.units] == [unit(f).name for f in FILES]
    assert [t.unit.name for t in again.todo] == [unit(f).name for f in FILES[1:]]
    for task in again.todo:
        write(again, task)
    again.finish()
    assert [record["unit"]["name"] for record in unit_records(out)] == [unit(f).name for f in FILES]


def test_an_object_with_another_unit_is_not_taken_for_the_units_object(out: str) -> None:
    units = [Unit(name, (), rows=2) for name in FILES]  # without inputs all are of one version
    planned = plan(out, units=units)
    run = begin(planned)
    for task in run.todo[:2]:
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 1
            writer.write(pa.table({"node_id": [task.unit.name], "image_id": ["i"]}))
    shutil.copy(Path(out, "a.parquet"), Path(out, "b.parquet"))
    assert [task.unit.name for task in begin(planned).todo] == ["b", "c"]


def test_an_object_of_another_configuration_is_written_again(out: str, tmp_path: Path) -> None:
    complete(plan(out))
    complete(plan(f"{tmp_path}/other", identity={"rules": {"x": 2}}))
    name = f"{unit('b').name}.parquet"
    shutil.copy(tmp_path / "other" / name, Path(out, name))
    assert [task.unit.name for task in begin(plan(out)).todo] == [unit("b").name]


def test_a_trial_takes_units_evenly_from_those_that_are_left(out: str) -> None:
    names = "abcdefg"
    run = begin(plan(out, units=[unit(name, derived=True) for name in names]))
    write(run, run.todo[0])
    run = begin(plan(out, units=[unit(name, derived=True) for name in names]))
    run.try_some(3)
    assert [task.unit.name for task in run.todo] == ["b", "d", "f"]
    for task in run.todo:
        write(run, task)
    assert not run.finish()["complete"]
    rest = begin(plan(out, units=[unit(name, derived=True) for name in names]))
    rest.try_some(3)  # all that are left
    assert ([task.unit.name for task in rest.todo], rest.is_trial) == (["c", "e", "g"], False)


def test_the_manifest_of_a_trial_counts_the_units_that_exist(out: str) -> None:
    complete(plan(out, units=[unit(name, derived=True) for name in FILES], derived=True))
    run = begin(plan(out, units=[unit(name, etag="2", derived=True) for name in FILES], derived=True))
    run.try_some(1)
    for task in run.todo:
        write(run, task, 5)
    manifest = run.finish()
    assert (manifest["complete"], manifest["counts"]["rows_out"]) == (False, 9)  # 5, and 2 of each earlier unit
    assert manifest["counts"] == open_table(out, complete=False).counts().to_json()


def test_rejects_are_those_of_the_current_generation(out: str) -> None:
    for etag, rejected in (("1", 1), ("2", 3)):
        run = begin(plan(out, units=[unit("a", etag=etag, derived=True)], derived=True))
        write(run, run.todo[0], rejected=rejected)
        run.finish()
    assert [reject.position for reject in open_table(out).rejects()] == [0, 1, 2]
    assert sorted(path.name for path in Path(out, "_rejects").iterdir()) == ["a.0.parquet", "a.1.parquet"]


def test_temporary_files_of_a_killed_run_are_swept(out: str) -> None:
    run = begin(plan(out))
    for name in (".u.parquet.123.tmp", "_rejects/.u.0.parquet.123.tmp"):
        left = Path(out, name)
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"half")
        os.utime(left, (time.time() - 60,) * 2)
    own_file = Path(out, ".now.tmp")
    own_file.write_bytes(b"")
    os.utime(own_file, (time.time(),) * 2)  # of a run that continues
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


def test_a_survey_counts_what_is_left(out: str) -> None:
    units = [replace(unit(name), rows=rows) for name, rows in zip(FILES, (3, 5, 7), strict=True)]
    planned = plan(out, units=units)
    assert (survey(planned).left, survey(planned).counted) == (15, "rows")
    run = begin(planned)
    write(run, run.todo[1])
    after = survey(planned)
    assert (after.units, after.done, after.rows, after.bytes, after.left) == (3, 1, 15, 30, 10)
    assert [rows for _, rows in after.ended()] == [5]
    assert survey(planned, overwrite=True).done == 0
    unknown = survey(plan(out, units=[*units[:2], unit("c")]))
    assert (unknown.counted, unknown.rows, unknown.left) == ("bytes", 8, 20)
    limited = survey(plan(str(Path(out).parent / "limited"), units=[replace(unit("c"), extra={"limit": 2})]))
    assert (limited.counted, limited.left) == ("units", 1)
