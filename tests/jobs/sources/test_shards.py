"""The units of tar shards and of Parquet files with pictures, and files that are refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.sources import shards
from jobs.sources.config import FetchConfig, SourceConfig
from jobs.store.units import WHOLE


def fetch_config(name: str, path: str | None, **keys: Any) -> FetchConfig:
    return FetchConfig(source=SourceConfig(name=name, path=path), out="o", **keys)


def test_a_shard_is_a_unit_whatever_its_compression(tmp_path: Path) -> None:
    for name in ("b.tar", "a.tar.gz", "c.tgz", "tar.txt", "d.tar.json", "e.zip"):
        (tmp_path / name).write_bytes(b"x" * len(name))
    units = shards.tar_units(str(tmp_path))
    assert [Path(unit.inputs[0].uri).name for unit in units] == ["a.tar.gz", "b.tar", "c.tgz", "d.tar.json"]
    assert {(unit.piece, unit.rows) for unit in units} == {(WHOLE, None)}
    assert len({unit.name for unit in units}) == 4
    with pytest.raises(InputError, match=r"source\.path=.*e\.zip: contains no \.tar or \.tgz file"):
        shards.tar_units(f"{tmp_path}/e.zip")


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """Five pictures in row groups of two."""
    rows = pa.table({"image": [b"x"] * 5, "key": list("abcde"), "n": range(5)})
    pq.write_table(rows, tmp_path / "p.parquet", row_group_size=2)
    (tmp_path / "notes.txt").write_text("x")
    return tmp_path


def test_a_row_group_is_a_unit(parquet: Path) -> None:
    pq.write_table(pa.table({"image": [b"x"]}), parquet / "q.parq")
    units = shards.parquet_units(SourceConfig(name="parquet"), str(parquet))
    assert [(unit.piece, unit.rows) for unit in units] == [
        ("row group 0", 2), ("row group 1", 2), ("row group 2", 1), ("row group 0", 1)
    ]  # fmt: skip
    assert len({unit.name for unit in units}) == 4
    assert len({unit.inputs for unit in units}) == 2


def test_files_without_pictures_or_keys_are_refused(parquet: Path) -> None:
    path = f"{parquet}/p.parquet"
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({}, f"{parquet}/notes.txt", r"contains no \.parquet file"),
        ({"key_column": "name"}, path, r"source\.key_column=name: not a column .* its columns are image, key, n$"),
        ({"bytes_column": "key"}, path, r"source\.bytes_column=key: not a column of bytes; .* has bytes in image"),
    ]
    for keys, place, message in cases:
        with pytest.raises(InputError, match=message):
            shards.parquet_units(SourceConfig(name="parquet", **keys), place)
    assert len(shards.parquet_units(SourceConfig(name="parquet", key_column="key"), path)) == 3
    (parquet / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"bad\.parquet: not a readable Parquet file"):
        shards.parquet_units(SourceConfig(name="parquet"), str(parquet))


def test_the_plan_counts_files_and_depends_on_what_is_read(parquet: Path) -> None:
    cfg = fetch_config("parquet", str(parquet))
    cfg.source.key_column = "key"
    plan = shards.plan(cfg)
    assert (len(plan.units), plan.note, plan.streamed) == (3, "1 file", False)
    assert plan.identity == {"path": str(parquet), "bytes_column": None, "key_column": "key"}
    with pytest.raises(InputError, match=r"input=R: source=parquet reads all pictures"):
        shards.plan(fetch_config("parquet", str(parquet), input="R"))
    with pytest.raises(InputError, match=r"source\.path= is required with source=webdataset"):
        shards.plan(fetch_config("webdataset", None))
