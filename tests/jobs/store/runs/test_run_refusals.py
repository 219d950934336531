"""A run in a place that holds another table, other settings or other inputs is refused, and nothing there is lost."""

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.runs.table_run import check_place, survey
from jobs.store.units import Unit
from tests.jobs.store.small_runs import ALL_ROWS, begin, complete, contents, plan, unit


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
        ([unit("a"), unit("b", etag="2"), unit("c")], r"/corpus/b changed \(1 changed\)"),
        ([unit("a"), unit("b"), unit("c"), unit("d")], r"/corpus/d is new \(1 new\)"),
        ([unit("a"), unit("c")], r"/corpus/b is gone \(1 gone\)"),
        ([unit("a"), unit("c"), unit("e")], r"/corpus/b is gone \(1 gone, 1 new\)"),
    ],
)
def test_inputs_that_are_not_the_frozen_ones_are_refused(out: str, units: list[Unit], named: str) -> None:
    begin(plan(out))
    planned = plan(out, units=units)
    for look in (begin, survey, lambda same: check_place(same, resume=True, overwrite=False, retry=[])):
        with pytest.raises(InputError, match=named):
            look(planned)
    assert survey(planned, overwrite=True).units == len(units)
    check_place(planned, resume=False, overwrite=True, retry=[])


def test_a_new_file_in_a_unit_of_several_is_the_one_that_is_named(out: str) -> None:
    def of_files(names: str) -> list[Unit]:
        files = tuple(Object(f"/photos/{name}", 1, "e") for name in names)
        return [Unit(f"unit-{names}", files)]

    begin(plan(out, units=of_files("ac")))
    with pytest.raises(InputError, match=r"started: /photos/b is new \(1 new\); use another out= or overwrite=true$"):
        begin(plan(out, units=of_files("abc")))


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
    with pytest.raises(InputError, match=r"identity\.json is missing, and the units were written with another"):
        begin(plan(anywhere, identity={"rules": {"x": 9}}))
    assert not locations.exists(f"{anywhere}/_run/identity.json")
    assert list(begin(plan(anywhere)).todo) == []
    assert locations.exists(f"{anywhere}/_run/identity.json")
    locations.remove([f"{anywhere}/_run/identity.json"])
    complete(plan(anywhere, identity={"rules": {"x": 9}}), overwrite=True)
    assert contents(anywhere) == ALL_ROWS


def test_files_of_others_next_to_a_table_that_lost_its_identity_are_not_touched(anywhere: str) -> None:
    complete(plan(anywhere))
    locations.remove([f"{anywhere}/_run/identity.json"])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"years": ["of work"]}), sink)
    uri = locations.join(anywhere, "thesis.parquet")
    locations.replace(uri, sink.getvalue().to_pybytes())
    for overwrite in (False, True):
        with pytest.raises(InputError, match="not empty, and not a table that remine wrote"):
            begin(plan(anywhere), overwrite=overwrite)
    assert locations.exists(uri)
    locations.remove([uri])
    assert list(begin(plan(anywhere)).todo) == []


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
