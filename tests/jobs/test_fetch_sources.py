"""Tar shards, Parquet, records that repeat a picture, and the keys of `fetch`: without Ray where it is not needed."""

import io
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs.runtime import cli
from jobs.runtime.progress import Reporter
from jobs.sources import repeats
from jobs.sources.config import SourceConfig
from jobs.sources.row_log import Parts, folder
from jobs.sources.row_log import remove as remove_parts
from jobs.store.reading import open_table
from jobs.store.run import TablePlan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from jobs.workers.fetch_shards import Shards, ShardUnit, parquet_units, tar_units
from tests.actors.test_url_fetcher import jpeg
from tests.jobs.records import record, write_records


def tar(path: Path, members: dict[str, bytes], mode: Any = "w") -> None:
    with tarfile.open(path, mode) as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))


def written(units: list[Unit], shards: Shards, out: Path, **changed: Any) -> tuple[list[dict[str, Any]], Any]:
    """The rows and the counts of all units, done one after another."""
    run = open_run(
        TablePlan(str(out), "images", {"t": 1}, units, {}, {}, derived=False), resume=True, overwrite=False, retry=[]
    )
    options = {"rendition": "original", "width": None, "processes": 1, "excluded": None} | changed
    unit = ShardUnit(shards=shards, **options)
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            unit(task, writer, Reporter(None, "fetch"))
    run.finish()
    table = open_table(str(out), "images")
    return pa.concat_tables(table.batches()).to_pylist(), table.counts()


def test_tar_shards(tmp_path: Path) -> None:
    members = {"a/0.jpg": jpeg(), "a/0.json": b"{}", "a/1.PNG": b"no", "a/0.jpg ": b"", "a/2.jpg": b"x" * 20_000}
    tar(tmp_path / "one.tar", members)
    tar(tmp_path / "two.tar.gz", {"0.jpg": jpeg(400, 300), "0.txt": b"words"}, "w:gz")
    whole = (tmp_path / "one.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: whole.index(jpeg()) + 100])
    units = tar_units(str(tmp_path))
    assert len(units) == 3
    rows, counts = written(
        units, Shards("webdataset", str(tmp_path), 15_000, None, None), tmp_path / "out", width=300, rendition="w300"
    )
    by_place = {row["source_url"].removeprefix(str(tmp_path)): row for row in rows}
    assert {place: (row["status"], row["error_kind"]) for place, row in by_place.items()} == {
        "/one.tar#a/0.jpg": ("ok", None),
        "/one.tar#a/1.PNG": ("error", "not_an_image"),
        "/one.tar#a/2.jpg": ("error", "too_many_bytes"),
        "/two.tar.gz#0.jpg": ("ok", None),
    }
    assert by_place["/two.tar.gz#0.jpg"]["width"] == by_place["/one.tar#a/0.jpg"]["width"] == 300
    assert by_place["/one.tar#a/0.jpg"]["image_id"] == content_id("one.tar", "a/0.jpg")
    assert dict(counts.filtered) == {"no_picture_by_name": 3}
    assert dict(counts.rejected) == {"damaged_archive": 1}
    assert counts.balances()


def test_parquet(tmp_path: Path) -> None:
    pictures = [{"bytes": jpeg(), "path": None}, {"bytes": None, "path": "x"}, None, {"bytes": b"{}", "path": None}]
    table = pa.table({"image": pictures, "url": ["u0", "u1", "u2", "u0"], "n": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    source = SourceConfig(name="parquet", key_column="url")
    units = parquet_units(source, str(tmp_path))
    assert [unit.rows for unit in units] == [3, 1]
    rows, counts = written(units, Shards("parquet", str(tmp_path), 10**6, None, "url"), tmp_path / "out")
    found = sorted((row["source_url"], row["status"], row["error_kind"]) for row in rows)
    assert found == [
        ("u0", "error", "json"),
        ("u0", "ok", None),
        ("u1", "missing", "no_bytes"),
        ("u2", "missing", "no_bytes"),
    ]
    assert counts.rows_in == 4
    assert next(row for row in rows if row["status"] == "ok")["bytes"] == jpeg()
    assert len({row["image_id"] for row in rows}) == 4


def outcomes(out: Path, root: Path) -> list[tuple[str, str, str | None]]:
    rows = pa.concat_tables(open_table(str(out), "images").batches()).to_pylist()
    assert len({row["image_id"] for row in rows}) == len(rows)
    return sorted((row["source_url"].removeprefix(f"{root}/"), row["status"], row["error_kind"]) for row in rows)


@pytest.mark.usefixtures("ray_session")
def test_shards_by_the_command(tmp_path: Path) -> None:
    tars, columns = tmp_path / "tars", tmp_path / "columns"
    tars.mkdir()
    columns.mkdir()
    tar(tars / "good.tar", {"0.jpg": jpeg(400, 300), "0.json": b"{}", "1.png": b"<html>", "2.webp": b""})
    tar(tars / "words.tar", {"0.txt": b"no picture"})
    with tarfile.open(tars / "twice.tar", "w") as file:
        for data in (jpeg(), jpeg(50, 40)):
            info = tarfile.TarInfo("same.jpg")
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    whole = (tars / "good.tar").read_bytes()
    end = whole.rindex(b"2.webp") + 512
    assert not any(whole[end:])
    (tars / "cut.tar").write_bytes(whole[: 512 + len(jpeg(400, 300)) // 2])
    (tars / "endless.tar").write_bytes(whole[:end])  # cut between two members
    (tars / "late.tar").write_bytes(whole[:end] + b"x" * 700)  # something else where the next member should be
    (tars / "none.tar").write_bytes(b"")
    (tars / "page.tar").write_bytes(b"<!doctype html>" * 200)
    out = tmp_path / "from-tars"
    command = ["source=webdataset", f"source.path={tars}", "width=300", f"out={out}", "resources.fetch.threads=1"]
    assert cli.main("fetch", command) == 0
    of_good = {"0.jpg": ("ok", None), "1.png": ("error", "html"), "2.webp": ("error", "empty")}
    expected = [
        (f"{shard}.tar#{name}", *became) for shard in ("good", "endless", "late") for name, became in of_good.items()
    ]
    assert outcomes(out, tars) == sorted([*expected, *[("twice.tar#same.jpg", "ok", None)] * 2])
    counts = open_table(str(out)).counts()
    assert counts.filtered == {"no_picture_by_name": 4}
    assert counts.rejected == {"damaged_archive": 5}
    assert cli.main("verify", [f"input={out}"]) == 0

    pictures = [jpeg(), None, b"", b"GIF89a", jpeg(50, 40), jpeg()[:-50]]
    keys = ["a", "b", "a", None, "c", "d"]
    pq.write_table(pa.table({"picture": pictures, "key": keys}), columns / "0.parquet", row_group_size=4)
    pq.write_table(
        pa.table({"picture": pa.array([], pa.binary()), "key": pa.array([], pa.string())}), columns / "1.parquet"
    )
    out = tmp_path / "from-columns"
    command = ["source=parquet", f"source.path={columns}", "source.key_column=key", f"out={out}"]
    assert cli.main("fetch", [*command, "resources.fetch.threads=1"]) == 0
    assert outcomes(out, columns) == [
        ("0/3", "error", "truncated"),
        ("a", "error", "empty"),
        ("a", "ok", None),
        ("b", "missing", "no_bytes"),
        ("c", "ok", None),
        ("d", "error", "truncated"),
    ]
    assert cli.main("verify", [f"input={out}"]) == 0


def test_repeated_pictures_are_found_whatever_the_passes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    units = [[record(f"{u}-{n}", image=f"https://i/{rng.integers(60)}") for n in range(50)] for u in range(6)]
    write_records(str(tmp_path / "records"), units)
    table = open_table(str(tmp_path / "records"), "records")
    seen: set[str] = set()
    expected = {}
    for footer in table.footers:
        ids = pq.read_table(footer.object.uri, columns=["image_id"])["image_id"].to_pylist()
        marks = []
        for image_id in ids:
            marks.append(image_id in seen)
            seen.add(image_id)
        if any(marks):
            expected[footer.unit.name] = marks
    for pass_rows in (10**6, 70, 11):
        found = repeats.find(table, pass_rows=pass_rows)
        assert {name: marks.tolist() for name, marks in found.items()} == expected
    made = repeats.units(table, found)
    assert sum(unit.rows or 0 for unit in made) == len(seen)
    assert [u.name for u in made] == [u.name for u in table.units()]
    assert all((u.version != v.version) == (u.name in expected) for u, v in zip(made, table.units(), strict=True))
    kept = tmp_path / "repeats.json"
    kept.write_bytes(repeats.encoded(found))
    rows = pa.table({"n": list(range(50))})
    for name, marks in expected.items():
        left = repeats.without(rows, str(kept), name)["n"].to_pylist()
        assert left == [n for n, again in enumerate(marks) if not again]
    assert repeats.without(rows, None, "x") is rows


@pytest.mark.parametrize(("place", "cut"), [("local", True), ("local", False), ("s3", False)])
def test_parts_survive_what_happens_to_a_worker(
    tmp_path: Path, place: str, cut: bool, request: pytest.FixtureRequest
) -> None:
    out = str(tmp_path) if place == "local" else f"{request.getfixturevalue('s3')}/parts-test"
    task = UnitTask(Unit("unit", (), rows=3))

    def row(name: str, data: bytes | None = None) -> dict[str, Any]:
        import hashlib

        digest = hashlib.sha256(data).hexdigest() if data else None
        return {"image_id": name, "rendition": "original", "bytes": data, "sha256": digest, "status": "ok"}

    parts = Parts(out, task).__enter__()
    parts.add(row("a", b"x" * 1000))
    parts.add(row("b"))
    parts.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    if place == "local":
        (log,) = Path(folder(out, task)).iterdir()
        with log.open("ab") as file:  # a row that was being written, and one that the disk lost
            good = log.read_bytes()
            file.write(good[:200] if cut else good.replace(b'"a"', b'"z"').replace(b"x" * 1000, bytes(1000)))
    with Parts(out, task) as parts:
        assert parts.done == {"a", "b"}
        parts.add(row("c", b"z"))
        made = list(parts.rows(["c", "a", "b"]))
        assert [one["image_id"] for one in made] == ["c", "a", "b"]
        assert [one["bytes"] for one in made] == [b"z", b"x" * 1000, None]
    other = UnitTask(Unit("unit", (), rows=3), generation=1)
    with Parts(out, other) as parts:
        assert parts.done == frozenset()
    remove_parts(out, task)
    with Parts(out, task) as parts:
        assert parts.done == frozenset()
    remove_parts(out)
    if place == "local":
        assert not (tmp_path / "_run" / "parts").exists()


URLS = ["source=urls", "source.contact=ada@uni-somewhere.edu"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["source=urls"], "source.contact= is required: an e-mail address or web page"),
        (["source=urls", "source.contact=you@example.com"], "is a placeholder"),
        (["source=urls", "source.contact=nobody"], "neither an e-mail address nor the URL of a page"),
        ([*URLS, "source.connections=0"], "source.connections=0: must be greater than 0"),
        ([*URLS, "source.mbit_s=-1"], "source.mbit_s=-1.0: must be greater than 0"),
        ([*URLS, "source.form=nice"], "source.form=nice: there are served and paper"),
        ([*URLS, "source.allow_hosts=[]"], "source.allow_hosts=[]"),
        ([*URLS, "source.allow_hosts=[https://x.org]"], "is not a host name"),
        ([*URLS, "source.api=http://x/api"], "source.api=http://x/api: an https:// URL"),
        ([*URLS, "source.api=http://{host}/api"], "source.api=http://{host}/api: an https:// URL"),
        ([*URLS, "source.api=https://{host}/{wiki}"], "source.api=https://{host}/{wiki}: an https:// URL"),
        ([*URLS, "source.api=https://{host"], "source.api=https://{host: an https:// URL"),
        ([*URLS, "source.ca_file=/nowhere.pem"], "source.ca_file=/nowhere.pem: not a readable PEM"),
        ([*URLS, "source.testing.resolve=[localhost]"], "source.testing.resolve: name:address:port"),
        ([*URLS, "width=5000"], "width=5000: from 1 to 3840"),
        ([*URLS, "width=300", "verify_only=true"], "verify_only=true is for source=urls, without width="),
        (["source=folder"], "source=folder: source.path= is required"),
        (["source=webdataset", "source.path=RECORDS"], "no .tar file there"),
        (["source=parquet", "source.path=RECORDS"], "takes no input="),
        (["source=elsewhere"], "source=elsewhere: no such option"),
        (["width=0", "source.path=RECORDS"], "width=0: at least 1"),
    ],
)
def test_wrong_keys_are_told_in_one_sentence(
    tmp_path: Path, keys: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    records = tmp_path / "records"
    write_records(str(records), [[record("a")]])
    given = [key.replace("RECORDS", str(records)) for key in keys]
    if "source=webdataset" not in given:
        given.append(f"input={records}")
    assert cli.main("fetch", [*given, f"out={tmp_path}/out"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_without_any_of_the_pictures_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written: it is another folder, or its names are of another kind. One match is enough to go on."""
    write_records(str(tmp_path / "records"), [[record("a"), record("b")], [record("c")]])
    wanted = PurePosixPath(record("c")["image_url"]).name
    (tmp_path / "pictures" / "below").mkdir(parents=True)
    for name in ("other.jpg", f"below/{wanted}"):
        (tmp_path / "pictures" / name).write_bytes(b"x")
    keys = ["source=folder", f"source.path={tmp_path}/pictures", f"input={tmp_path}/records", f"out={tmp_path}/out"]
    assert cli.main("fetch", keys) == 2
    assert "none of the records' pictures is among its 2 files; looked for is" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "pictures" / wanted).write_bytes(b"x")
    assert cli.main("fetch", [*keys, "plan=true"]) == 0


def test_wrong_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    for keys, said in (
        ([*URLS], "input= is required"),
        ([*URLS, f"input={tmp_path}"], "not a table of remine"),
        ([*URLS, f"input={tmp_path}/nowhere"], "no table here"),
        (["source=parquet", f"source.path={tmp_path}"], "has bytes in no column (of a)"),
        (["source=parquet", f"source.path={tmp_path}", "source.bytes_column=a"], "source.bytes_column=a"),
    ):
        assert cli.main("fetch", [*keys, f"out={tmp_path}/out"]) == 2
        assert said in capsys.readouterr().err
