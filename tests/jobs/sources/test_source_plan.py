"""What a run of `fetch` depends on, by source: another value of such a key never continues a table."""

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.runtime.configuration.config import load
from jobs.sources import picture_sources
from jobs.sources.source_config import FetchConfig, SourcePlan
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.workers.fetch_shards import Shards
from tests.factories import record, write_table

PLANS = {
    "folder": picture_sources.folder_plan,
    "parquet": picture_sources.shard_plan,
    "webdataset": picture_sources.shard_plan,
    "urls": picture_sources.url_plan,
    "wit_base": picture_sources.wit_base_plan,
}


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Records of two pictures, of which a folder has one; a tar shard, and a Parquet file with two row groups."""
    write_table(tmp_path / "records", "records", [record("a"), record("b")])
    for name in ("pictures/a.jpg", "pictures/c.jpg", "other/a.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        tar.add(tmp_path / "pictures" / "a.jpg", "a.jpg")
    rows = pa.table({"image": [b"x", b"y", b"z"], "copy": [b"x", b"y", b"z"], "uid": ["1", "2", "3"]})
    rows = rows.append_column("image_url", pa.array(["u", "v", "w"]))
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=2)
    return tmp_path


def planned(source: str, world: Path, *keys: str) -> SourcePlan:
    keys = tuple(key.replace("W/", f"{world}/") for key in keys)
    return PLANS[source](load("fetch", FetchConfig, [f"source={source}", f"out={world}/R", *keys]))


def test_a_table_is_continued_only_with_the_keys_that_its_pictures_depend_on(world: Path) -> None:
    records, contact = "input=W/records", "source.contact=ada@uni-somewhere.edu"
    cases: dict[str, tuple[list[str], dict[str, list[str]]]] = {
        "folder": (
            ["source.path=W/pictures", records],
            {"path": ["source.path=W/other"], "unit_rows": ["unit_rows=1"]},
        ),
        "parquet": (
            ["source.path=W/rows.parquet"],
            {"bytes_column": ["source.bytes_column=copy"], "key_column": ["source.key_column=uid"]},
        ),
        "webdataset": (["source.path=W/shard.tar"], {"path": ["source.path=W/*.tar"]}),
        "urls": (
            [records, contact],
            {"unit_rows": ["unit_rows=1"], "verify_only": ["verify_only=true"], "form": ["source.form=paper"],
             "credits": ["source.credits=false"]},
        ),
        "wit_base": (
            ["source.path=W/rows.parquet", records],
            {"path": ["source.path=W/"], "unit_rows": ["unit_rows=1"]},
        ),
    }  # fmt: skip
    for source, (keys, changes) in cases.items():
        identity = planned(source, world, *keys).identity
        for key, change in changes.items():
            changed = planned(source, world, *keys, *change).identity
            names = {name for name in identity if changed[name] != identity[name]}
            assert (names, changed.keys()) == ({key}, identity.keys()), (source, change)
    polite = planned("urls", world, records, contact, "source.allow_hosts=[a.example]", "source.read_s=1").identity
    assert polite == planned("urls", world, records, contact).identity


def test_units_are_pieces_of_the_input(world: Path) -> None:
    def units(source: str, *keys: str) -> list[tuple[int | None, Any]]:
        return [(unit.rows, unit.piece) for unit in planned(source, world, *keys).units]

    assert units("parquet", "source.path=W/rows.parquet") == [(2, "row group 0"), (1, "row group 1")]
    assert units("webdataset", "source.path=W/shard.tar") == [(None, "whole")]
    assert [rows for rows, _ in units("folder", "source.path=W/pictures")] == [2]
    assert [rows for rows, _ in units("folder", "source.path=W/pictures", "unit_rows=1")] == [1, 1]
    assert [rows for rows, _ in units("wit_base", "source.path=W/rows.parquet", "input=W/records", "unit_rows=1")] == [
        1, 1
    ]  # fmt: skip


def test_a_plan_says_what_the_source_has(world: Path) -> None:
    def plan(source: str, *keys: str) -> tuple[str, bool, bool]:
        of_source = planned(source, world, *keys)
        return of_source.note, of_source.streamed, of_source.records is not None

    pictures, records = "source.path=W/pictures", "input=W/records"
    assert plan("folder", pictures) == ("2 files in the folder", True, False)
    assert plan("folder", pictures, records) == ("2 files in the folder", True, True)
    assert plan("folder", "source.path=W/other", records, "plan=true") == (
        "1 file in the folder, which has 1 of the 2 records' pictures", True, True
    )  # fmt: skip
    note, *rest = plan("wit_base", "source.path=W/rows.parquet", records)
    assert (note.partition(";")[0], rest) == ("1 file of wit_base", [True, True])
    assert plan("urls", records, "source.contact=ada@uni-somewhere.edu")[1:] == (False, True)


def test_workers_get_the_keys_and_the_run_its_total(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, Any] = {}

    def start(run: TableRun, *, stage: Any = None, stages: Any = None, total: int | None = None, **_: Any) -> None:
        (only,) = stages or [stage]
        started.update(only.kwargs, total=total, worker=only.actor.__name__)

    monkeypatch.setattr("jobs.runtime.stages.process", start)
    monkeypatch.setattr("jobs.runtime.stages.stream", start)
    monkeypatch.setattr("jobs.workers.cluster_limiter.start", lambda: None)

    def fetched(source: str, *keys: str) -> dict[str, Any]:
        source_plan = planned(source, world, *keys, "source.max_bytes=5", "resources.fetch.threads=3")
        table = TablePlan(str(world / source), "images", {}, source_plan.units, {}, {}, derived=False)
        started.clear()
        source_plan.fetch(open_run(table, resume=True, overwrite=True, retry=[]), "L")
        return started

    urls = ["input=W/records", "source.contact=ada@uni-somewhere.edu", "width=8", "source.ca_file=null"]
    keys = fetched("urls", *urls)
    assert (keys["total"], keys["threads"], keys["ca_file"], keys["worker"]) == (2, 3, None, "FetchUnit")
    assert (keys["run_files"].excluded, keys["run_files"].out) == ("L", str(world / "urls"))
    assert (keys["settings"].width, keys["settings"].bounds.max_bytes) == (8, 5)
    assert fetched("urls", *urls, "retry=[error]")["total"] is None
    of_folders = f"{world.parent}/*{world.name[1:]}/rows.*"  # only this folder: other tests have theirs next to it
    for path, root in (("W/rows.parquet", world), ("W/*.parquet", world), (of_folders, world.parent)):
        keys = fetched("parquet", f"source.path={path}", "width=8", "source.key_column=uid")
        assert keys["shards"] == Shards("parquet", str(root), 5, None, "uid")
        assert (keys["width"], keys["processes"], keys["excluded"], keys["total"]) == (8, 3, "L", None)
    keys = fetched("folder", "source.path=W/pictures", "width=8")
    assert (keys["max_bytes"], keys["width"], keys["processes"]) == (5, 8, 3)
    keys = fetched("wit_base", "source.path=W/rows.parquet", "input=W/records")
    assert (keys["max_bytes"], keys["column"], keys["rendition"]) == (5, "image", "w300")
    write_table(world / "none", "records", [])
    assert fetched("wit_base", "source.path=W/rows.parquet", "input=W/none")["max_bytes"] == 5, "records without a row"


def test_a_changed_file_is_another_unit(world: Path) -> None:
    before = [unit.name for unit in planned("folder", world, "source.path=W/pictures", "unit_rows=1").units]
    (world / "pictures" / "a.jpg").write_bytes(b"longer")
    after = [unit.name for unit in planned("folder", world, "source.path=W/pictures", "unit_rows=1").units]
    assert [name in before for name in after] == [False, True]


def test_keys_of_another_source_are_refused(world: Path) -> None:
    cases = [
        ("wit_base", ["source.path=W/rows.parquet", "input=W/records", "width=300"], "width=300"),
        ("wit_base", ["source.path=W/rows.parquet"], "input=: required"),
        ("wit_base", ["source.path=W/pictures", "input=W/records"], "none of them .parquet"),
        ("parquet", ["source.path=W/rows.parquet", "input=W/records"], "leave input= out"),
        ("parquet", ["source.path=W/rows.parquet", "source.key_column=id"], "source.key_column=id"),
        ("folder", ["source.path=W/rows.parquet", "input=W/records"], "is a file"),
        ("urls", ["input=W/records"], "source.contact=: required"),
    ]
    for source, keys, message in cases:
        with pytest.raises(InputError) as error:
            planned(source, world, *keys)
        assert message in str(error.value), (source, keys)
