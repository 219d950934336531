"""The place of a table before a run: whose files are there, and what a run must not touch."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.store.counts import PURGED
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.run_files import IDENTITY, run_uri
from jobs.store.runs import lock, place
from jobs.store.runs.place import check_identity, purged_table
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from tests.cases import check_cases
from tests.factories import record, write_records, write_table
from tests.jobs.store.small_runs import complete, plan


def test_names_that_a_run_writes() -> None:
    def check(name: str, written: bool, temporary: bool) -> None:
        assert place.is_written_by_run("s3://b/T", f"s3://b/T/{name}") == written
        assert place.is_temporary(f"s3://b/T/{name}") == temporary

    cases = [
        ("u.parquet", True, False), ("_run/identity.json", True, False), ("_rejects/u.1.parquet", True, False),
        ("_run", False, False), ("u.csv", False, False), ("sub/u.parquet", False, False), ("_other/x", False, False),
        (".u.parquet.tmp", False, True), ("_run/.x.tmp", True, True), ("x.tmp", False, False), (".x", False, False),
        (".tmp/x", False, False),
    ]  # fmt: skip
    check_cases(check, cases)


def test_old_temporary_files_are_removed_wherever_they_are(tmp_path: Path) -> None:
    for name, age in (("T/.a.tmp", 10), ("T/_run/.b.tmp", 10), ("T/.new.tmp", 30), ("T/kept", 10), (".c.tmp", 10)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (age, age))
    place.remove_temporary(str(tmp_path / "T"), before=30)
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"T/.new.tmp", "T/kept", ".c.tmp"}


def look(out: Path | str, *units: Unit) -> place.Place:
    """What a run would find, whatever the identity of a table."""
    return place.inspect(plan(str(out), units=units), resume=True, overwrite=True, locks=False)


def test_what_is_at_the_place(tmp_path: Path) -> None:
    out = tmp_path / "T"
    unit = Unit("unit0", (Object(f"{tmp_path}/in/f", 1, ""),))
    assert list(look(out, unit).listed) == []
    assert look(out).is_table is False
    write_records(str(out), [[record("a")]])
    (out / ".x.tmp").write_text("x")
    state = look(out, unit)
    assert state.is_table
    assert not any(file.uri.endswith(".tmp") for file in state.listed)
    (out / "_run" / "identity.json").unlink()
    assert look(out, unit).is_table, "it has inputs and an object that remine wrote"
    (out / "_run" / "inputs.jsonl").unlink()
    with pytest.raises(InputError, match="not empty, and not a table that remine wrote"):
        look(out, unit)
    with pytest.raises(InputError, match=f"contains the input {out}/sub/f"):
        look(out, Unit("u", (Object(f"{out}/sub/f", 1, ""),)))
    near = Unit("u", (Object(f"{out}2/f", 1, ""),))
    assert not look(tmp_path / "new", near).is_table


def test_a_table_within_a_table_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "T"
    write_records(str(out), [[record("a")]])
    for inside in ("x", "x/y", "x/y/z"):
        with pytest.raises(InputError, match=f"inside table {out}, which it would corrupt"):
            look(out / inside)
    look(out / "_partial")
    look(out / "_partial" / "x")
    look(f"{out}2")


def test_a_folder_with_the_name_of_a_unit_is_named(tmp_path: Path) -> None:
    out = tmp_path / "T"
    (out / "unit1.parquet").mkdir(parents=True)
    with pytest.raises(InputError, match=r"unit1\.parquet: a folder has the name of a unit's file"):
        look(out, Unit("unit0", ()), Unit("unit1", ()))
    assert not look(out, Unit("unit0", ())).is_table


def test_a_file_above_the_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for name in ("file", "file/T", "file/T/U"):
        with pytest.raises(InputError, match=f"images_out={tmp_path}/{name}: {tmp_path}/file is a file"):
            place.check_creatable(f"{tmp_path}/{name}", key="images_out")
    place.check_creatable(f"{tmp_path}/a/b/c")
    place.check_creatable("s3://bucket/file")
    assert not (tmp_path / "a").exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Path, int]] = []
    monkeypatch.setattr(os, "access", lambda path, mode: asked.append((path, mode)))
    with pytest.raises(InputError, match=f"^out={tmp_path}/a/b: {tmp_path} cannot be written; .* use another out="):
        place.check_creatable(f"{tmp_path}/a/b")
    assert asked == [(tmp_path, os.W_OK | os.X_OK)]


def test_without_the_identity_the_footers_decide(out: str) -> None:
    """The file may be lost after it was written and before it is read back."""
    planned, other = plan(out), plan(out, identity={"rules": {"x": 9}})
    complete(planned)
    locations.remove([run_uri(out, IDENTITY)])
    check_identity(out, planned)
    with pytest.raises(InputError, match=r"identity\.json is missing"):
        check_identity(out, other)


def test_another_list_of_exclusions_is_named_only_if_nothing_else_differs(out: str) -> None:
    complete(plan(out, identity={"x": 1, "exclusions": "a"}))
    with pytest.raises(InputError, match="exclusions= names another list"):
        check_identity(out, plan(out, identity={"x": 1, "exclusions": "b"}))
    with pytest.raises(InputError, match="also differing: x"):
        check_identity(out, plan(out, identity={"x": 2, "exclusions": "b"}))


def test_a_store_without_conditions_is_checked_again_and_warned_about_once(
    out: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The identity that was written may have replaced that of another run, whose objects are state."""
    complete(plan(out))
    locations.remove([run_uri(out, IDENTITY)])
    monkeypatch.setattr(locations, "creates_once", lambda _: False)
    monkeypatch.setattr(lock, "settle", lambda: None)
    with pytest.raises(InputError, match="the units were written with another configuration"):
        place.claim(out, plan(out, identity={"rules": {"x": 9}}), ())
    monkeypatch.setattr(place, "_warned", set())
    for uri in ("s3://one/a", "s3://one/b", "s3://two/a"):
        place.warn_of_store(uri)
    assert [record.args for record in caplog.records] == [("s3://one/a",), ("s3://two/a",)]
    monkeypatch.setattr(locations, "creates_once", lambda _: True)
    place.warn_of_store("s3://three/a")
    assert len(caplog.records) == 2


def purged_plan(out: Path, **identity: str) -> TablePlan:
    keys = {"by": "hand", "input": "v1", **identity}
    return TablePlan(str(out), "items", keys, [], {"out": str(out), "seed": 0}, {}, derived=False)


def purged(out: Path, planned: TablePlan, **changes: Any) -> bool:
    """Return whether a table is kept whose manifest has these changes."""
    write_table(out, "items", [{"item_id": "a"}], input="v1")
    path = out / "_run" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest |= {"config": {"out": "elsewhere", "seed": 0}, "complete": True, **changes}
    manifest["counts"]["filtered"] = changes.get("filtered", {PURGED: 1})
    path.write_text(json.dumps(manifest))
    kept = purged_table(planned, ["input", "queries"])
    assert kept in (None, manifest)
    return kept is not None


def test_only_a_whole_purged_table_of_another_input_is_kept(tmp_path: Path) -> None:
    cases: dict[str, tuple[dict[str, str], dict[str, Any], bool]] = {
        "another input": ({"input": "v2"}, {}, True),
        "the same": ({}, {}, False),  # nothing to keep it for: it continues
        "another key": ({"by": "machine"}, {}, False),
        "both": ({"input": "v2", "by": "machine"}, {}, False),
        "never purged": ({"input": "v2"}, {"filtered": {}}, False),
        "not complete": ({"input": "v2"}, {"complete": False}, False),
        "another setting": ({"input": "v2"}, {"config": {"out": "x", "seed": 1}}, False),
        "a setting of the run": ({"input": "v2"}, {"config": {"out": "x", "seed": 0, "ray": {"cpus": 2}}}, True),
        "a new setting": ({"input": "v2"}, {"config": {"out": "x"}}, False),
    }
    results = {
        name: purged(tmp_path / name, purged_plan(tmp_path / name, **identity), **changes)
        for name, (identity, changes, _) in cases.items()
    }
    assert results == {name: kept for name, (*_, kept) in cases.items()}


def test_without_a_table_there_is_none_to_keep(tmp_path: Path) -> None:
    assert purged_table(purged_plan(tmp_path / "none"), ["input"]) is None
    write_table(tmp_path / "broken", "items", [{"item_id": "a"}])
    (tmp_path / "broken" / "_run" / "manifest.json").unlink()
    assert purged_table(replace(purged_plan(tmp_path / "broken"), identity={}), ["input"]) is None
