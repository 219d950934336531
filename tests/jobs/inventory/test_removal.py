"""Removed and kept files of a table, and files that no reader uses."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.inventory.removal import leftovers, remove_leftovers, remove_table
from jobs.store.files import locations
from jobs.store.json_types import FOOTER_KEY
from tests.factories import record, write_records


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    out = tmp_path / "records"
    write_records(str(out), [[record("a")], [record("b")]], rejected=1)
    return out


def opened(folder: Path) -> Any:
    """Return the table as the inventory has it: its place and files."""
    return type("Table", (), {"uri": str(folder), "files": list(locations.listing(str(folder)))})


def names(folder: Path, files: Any) -> list[str]:
    return sorted(Path(getattr(file, "uri", file)).relative_to(folder).as_posix() for file in files)


def test_files_of_others_stay(folder: Path) -> None:
    for name in ("notes.txt", "mine/x.parquet", "_other/y"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    (folder / ".unit.tmp").write_text("x")
    assert names(folder, remove_table(opened(folder))) == ["_other/y", "mine/x.parquet", "notes.txt"]
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left == {"notes.txt", "mine/x.parquet", "_other/y"}
    assert not (folder / "_run").exists()
    assert not (folder / "_rejects").exists()


def test_a_table_alone_leaves_no_folder_and_its_identity_goes_last(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[list[str]] = []
    remove = locations.remove

    def recorded(uris: list[str]) -> None:
        removed.append(names(folder, uris))
        remove(uris)

    monkeypatch.setattr(locations, "remove", recorded)
    assert remove_table(opened(folder)) == []
    assert not folder.exists()
    assert removed[-1] == ["_run/identity.json"]
    assert "_run/identity.json" not in removed[0]


def test_leftovers_are_what_no_reader_uses(folder: Path) -> None:
    assert list(leftovers(opened(folder))) == []
    rows = pq.read_table(folder / "unit0.parquet")
    footer = json.loads(pq.read_metadata(folder / "unit0.parquet").metadata[FOOTER_KEY]) | {"generation": 3}
    metadata = {**rows.schema.metadata, FOOTER_KEY: json.dumps(footer).encode()}
    pq.write_table(rows.replace_schema_metadata(metadata), folder / "unit0.parquet")
    rejects = folder / "_rejects"
    for name in ("unit0.2", "unit0.3", "unit0.4", "unit1.9", "gone.5", "unit0.x"):
        (rejects / f"{name}.parquet").write_text("x")
    for name in ("old.parquet", "notes.txt", "sub/old.parquet", ".a.tmp", "sub/.b.parquet.tmp"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    first = sorted(path.name for path in rejects.glob("unit0.?.parquet"))[0]
    expected = {".a.tmp", "sub/.b.parquet.tmp", "old.parquet", "_rejects/gone.5.parquet", "_rejects/unit0.2.parquet"}
    table = opened(folder)
    unused = names(folder, leftovers(table))
    assert unused == sorted(expected | {f"_rejects/{first}"})
    remove_leftovers(table, list(leftovers(table)))
    assert list(leftovers(opened(folder))) == []
    assert (folder / "unit0.parquet").exists()
    (folder / "more.parquet").write_text("x")
    (folder / ".c.tmp").write_text("x")
    (folder / "_run" / "inputs.jsonl").unlink()
    assert names(folder, leftovers(opened(folder))) == [".c.tmp"], "without the list of units"
