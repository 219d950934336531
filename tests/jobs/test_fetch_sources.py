"""Tar shards, Parquet, records that repeat a picture, and the keys of `fetch`: without Ray where it is not needed."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.fetching.decoders import Decoders
from actors.ids import content_id
from jobs.runtime.board import Reporter
from jobs.runtime.command_line import cli
from jobs.runtime.planning.estimates import GETS_PER_INPUT
from jobs.sources.picture_sources import parquet_units, tar_units
from jobs.sources.source_config import SourceConfig
from jobs.store.files import locations
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan, limited
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.workers.fetch_shards import Shards, ShardUnit
from tests.cases import check_cases
from tests.factories import record, write_pictures, write_records
from tests.forwarding import counted_s3
from tests.picture_site import jpeg


def tar(path: Path, members: dict[str, bytes], mode: Any = "w") -> None:
    with tarfile.open(path, mode) as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))


def written(units: list[Unit], shards: Shards, out: Path, **changed: Any) -> tuple[list[dict[str, Any]], Any]:
    """Return the rows and the counts of all units, done one after another."""
    run = open_run(
        TablePlan(str(out), "images", {"t": 1}, units, {}, {}, derived=False), resume=True, overwrite=False, retry=[]
    )
    options = {"width": None, "processes": 1, "excluded": None} | changed
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
    rows, counts = written(units, Shards("webdataset", str(tmp_path), 15_000, None, None), tmp_path / "out", width=300)
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


def test_a_tar_on_s3_is_read_with_few_requests(s3: str, tmp_path: Path) -> None:
    data = jpeg() + bytes(40_000)  # decoders ignore what follows a picture
    tar(tmp_path / "many.tar", {f"{number:03}.jpg": data for number in range(100)})
    folder = f"{s3}/few-requests"
    locations.create(f"{folder}/many.tar", (tmp_path / "many.tar").read_bytes())
    units = tar_units(folder)
    with counted_s3() as front:
        rows, _ = written(units, Shards("webdataset", folder, 10**6, None, None), tmp_path / "out")
        assert front.requests["GET"] + front.requests["HEAD"] <= GETS_PER_INPUT  # of 4 MB
    assert [row["status"] for row in rows] == ["ok"] * 100


def test_parquet(tmp_path: Path) -> None:
    pictures = [{"bytes": jpeg(), "path": None}, {"bytes": None, "path": "x"}, None, {"bytes": b"{}", "path": None}]
    table = pa.table({"image": pictures, "url": ["u0", "u1", "u2", "u0"], "n": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    source = SourceConfig(name="parquet", key_column="url")
    units = parquet_units(source, str(tmp_path))
    assert [unit.rows for unit in units] == [3, 1]
    rows, counts = written(units, Shards("parquet", str(tmp_path), 10**6, None, "url"), tmp_path / "out")
    actual = sorted((row["source_url"], row["status"], row["error_kind"]) for row in rows)
    assert actual == [
        ("u0", "error", "json"),
        ("u0", "ok", None),
        ("u1", "missing", "no_bytes"),
        ("u2", "missing", "no_bytes"),
    ]
    assert counts.rows_in == 4
    assert next(row for row in rows if row["status"] == "ok")["bytes"] == jpeg()
    assert len({row["image_id"] for row in rows}) == 4


def test_one_picture_or_damaged_page_costs_no_other_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noise = random.Random(3)
    parts = [jpeg(), *(noise.randbytes(40_000) for _ in range(6))]
    pq.write_table(
        pa.table({"image": parts}), tmp_path / "a.parquet", row_group_size=4, data_page_size=1000, use_dictionary=False
    )
    group = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(1).column(0)
    damaged = bytearray((tmp_path / "a.parquet").read_bytes())
    begin = group.data_page_offset
    damaged[begin : begin + 40] = bytes(40)
    (tmp_path / "a.parquet").write_bytes(damaged)
    decode = Decoders.decode

    async def cursed(self: Decoders, data: bytes) -> Any:
        if data == parts[2]:
            raise IndexError("cursed")
        return await decode(self, data)

    monkeypatch.setattr(Decoders, "decode", cursed)
    units = parquet_units(SourceConfig(name="parquet"), str(tmp_path))
    rows, counts = written(units, Shards("parquet", str(tmp_path), 10**6, None, None), tmp_path / "out")
    kinds = [row["error_kind"] for row in rows]
    assert kinds == [None, "not_an_image", "IndexError", "not_an_image"]
    assert dict(counts.rejected) == {"damaged_row_group": 1}
    assert counts.balances()


def outcomes(out: Path, root: Path) -> list[tuple[str, str, str | None]]:
    rows = pa.concat_tables(open_table(str(out), "images").batches()).to_pylist()
    assert len({row["image_id"] for row in rows}) == len(rows)
    return sorted((row["source_url"].removeprefix(f"{root}/"), row["status"], row["error_kind"]) for row in rows)


@pytest.mark.usefixtures("in_process")
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


URLS = ["source=urls", "source.contact=ada@uni-somewhere.edu"]


WRONG_KEYS: list[tuple[list[str], str]] = [
    (["source=urls"], "source.contact="),
    (["source=urls", "source.contact=you@example.com"], "source.contact=you@example.com"),
    (["source=urls", "source.contact=nobody"], "source.contact=nobody"),
    ([*URLS, "source.connections=0"], "source.connections=0"),
    ([*URLS, "source.mbit_s=-1"], "source.mbit_s=-1"),
    ([*URLS, "source.attempts=0"], "source.attempts=0"),
    ([*URLS, "source.backoff_s=0"], "source.backoff_s=0"),
    ([*URLS, "source.max_wait_s=0"], "source.max_wait_s=0"),
    ([*URLS, "source.connect_s=0"], "source.connect_s=0.0"),
    ([*URLS, "source.read_s=-2"], "source.read_s=-2.0"),
    ([*URLS, "source.total_s=0"], "source.total_s=0.0"),
    ([*URLS, "source.max_bytes=0"], "source.max_bytes=0"),
    ([*URLS, "source.form=nice"], "source.form=nice"),
    ([*URLS, "source.allow_hosts=[]"], "source.allow_hosts=[]"),
    ([*URLS, "source.allow_hosts=[https://x.org]"], "source.allow_hosts=[https://x.org]: 'https://x.org'"),
    ([*URLS, "source.api=http://x/api"], "source.api=http://x/api"),
    ([*URLS, "source.api=http://{host}/api"], "source.api=http://{host}/api"),
    ([*URLS, "source.api=https://{host}/{wiki}"], "source.api=https://{host}/{wiki}"),
    ([*URLS, "source.api=https://{host"], "source.api=https://{host"),
    ([*URLS, "source.ca_file=/nowhere.pem"], "source.ca_file=/nowhere.pem"),
    ([*URLS, "source.testing.resolve=[localhost]"], "source.testing.resolve"),
    ([*URLS, "width=5000"], "width=5000"),
    ([*URLS, "width=300", "verify_only=true"], "verify_only=true"),
    ([*URLS, "unit_rows=0"], "unit_rows=0"),
    (["source=folder"], "source.path="),
    (["source=folder", "source.path=RECORDS", "source.max_bytes=0"], "source.max_bytes=0"),
    (["source=webdataset", "source.path=RECORDS", "input=null"], "source.path=RECORDS"),
    (["source=parquet", "source.path=RECORDS"], "input=RECORDS"),
    (["source=wit_base", "source.path=RECORDS", "width=300"], "width=300"),
    (["source=elsewhere"], "source=elsewhere"),
    (["width=0", "source.path=RECORDS"], "width=0"),
]


def test_wrong_keys_are_refused_in_one_line_that_names_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = tmp_path / "records"
    write_records(str(records), [[record("a")]])
    misses = []
    for keys, expected in WRONG_KEYS:
        arguments = [f"input={records}", *(key.replace("RECORDS", str(records)) for key in keys)]
        code = cli.main("fetch", [*arguments, f"out={tmp_path}/out"])
        error = capsys.readouterr().err
        if (code, len(error.splitlines())) != (2, 1) or expected.replace("RECORDS", str(records)) not in error:
            misses.append((keys, code, error))
        assert not (tmp_path / "out").exists()
    assert misses == []


def test_a_folder_without_any_of_the_pictures_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written: it is another folder, or its names are of another kind. One match is enough to go on."""
    write_records(str(tmp_path / "records"), [[record("a"), record("b")], [record("c")]])
    wanted = PurePosixPath(record("c")["image_url"]).name
    (tmp_path / "pictures" / "below").mkdir(parents=True)
    for name in ("other.jpg", f"below/{wanted}"):
        (tmp_path / "pictures" / name).write_bytes(b"x")
    keys = ["source=folder", f"source.path={tmp_path}/pictures", f"input={tmp_path}/records", f"out={tmp_path}/out"]
    assert cli.main("fetch", keys) == 2
    assert "none of the records' pictures is among its 2 files; " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "pictures" / wanted).write_bytes(b"x")
    assert cli.main("fetch", [*keys, "plan=true"]) == 0
    assert "3 files in the folder, which has 1 of the 3 records' pictures" in capsys.readouterr().out


def test_wrong_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    for keys, message in (
        ([*URLS], "input="),
        ([*URLS, f"input={tmp_path}"], "not a table of remine"),
        ([*URLS, f"input={tmp_path}/nowhere"], "no table here"),
        (["source=parquet", f"source.path={tmp_path}"], "has bytes in no column (of a)"),
        (["source=parquet", f"source.path={tmp_path}", "source.bytes_column=a"], "source.bytes_column=a"),
    ):
        assert cli.main("fetch", [*keys, f"out={tmp_path}/out"]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.usefixtures("in_process")
def test_a_limit_fetches_the_first_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "pictures", tmp_path / "out"
    write_pictures(folder, ["blue", "green", "red", "white"])
    command = ["source=folder", f"source.path={folder}", f"out={out}", "unit_rows=2", "resources.fetch.threads=1"]
    assert cli.main("fetch", [*command, "limit=3", "plan=true"]) == 0
    assert "limit=3: the first 3 of 4 rows" in capsys.readouterr().out
    assert cli.main("fetch", [*command, "limit=3"]) == 0
    assert outcomes(out, folder) == [(f"{name}.png", "ok", None) for name in ("blue", "green", "red")]
    counts = open_table(str(out)).counts()
    assert (counts.rows_in, counts.rows_out, dict(counts.filtered)) == (3, 3, {})
    assert cli.main("fetch", command) == 2
    assert "limit was 3, now not set" in capsys.readouterr().err
    assert cli.main("verify", [f"input={out}"]) == 0
    assert cli.main("ls", [str(out)]) == 0
    assert capsys.readouterr().out.count("limit=3") == 2


def test_a_limit_takes_the_first_pictures_of_each_shard(tmp_path: Path) -> None:
    tar(tmp_path / "one.tar", {"0.txt": b"words", "0.jpg": jpeg(), "1.jpg": jpeg(), "2.jpg": jpeg()})
    plan = TablePlan("out", "images", {}, tar_units(str(tmp_path)), {}, {}, derived=False)
    units = list(limited(plan, 2).units)
    rows, counts = written(units, Shards("webdataset", str(tmp_path), 15_000, None, None), tmp_path / "out")
    assert [row["source_url"].rsplit("#", 1)[1] for row in rows] == ["0.jpg", "1.jpg"]
    assert (counts.rows_in, counts.filtered) == (3, {"no_picture_by_name": 1})


def test_what_follows_the_end_of_a_tar_is_read_or_rejected(tmp_path: Path) -> None:
    for name in ("a", "b"):
        tar(tmp_path / f"{name}.part", {f"{name}{number}.jpg": jpeg() for number in range(2)})
    first, second = ((tmp_path / f"{name}.part").read_bytes() for name in ("a", "b"))
    end = len(first.rstrip(b"\0")) + 512
    packers: dict[str, Any] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
    files = {
        "joined.tar": (first + second, 4, 0),
        "thrice.tar": (first + second + first, 6, 0),
        "short.tar": (first[: end + 1024 - end % 512] + second, 4, 0),
        "padded.tar": (first + bytes(51200), 2, 0),
        "page.tar": (first + b"<html>" * 200, 2, 1),
        "text.tar": (first + b"more", 2, 1),
        "cut.tar": (first + second[:700], 2, 1),
        **{f"joined.tar.{name}": (pack(first) + pack(second), 4, 0) for name, pack in packers.items()},
        **{f"whole.tar.{name}": (pack(first + second), 4, 0) for name, pack in packers.items()},
        **{f"cut.tar.{name}": ((pack(first) + pack(second))[:-30], 2, 1) for name, pack in packers.items()},
    }

    def check(name: str) -> None:
        data, pictures, rejected = files[name]
        (tmp_path / name).write_bytes(data)
        shards = Shards("webdataset", str(tmp_path), 10**6, None, None)
        rows, counts = written(tar_units(str(tmp_path / name)), shards, tmp_path / "out" / name)
        assert (counts.rejected.total(), counts.balances()) == (rejected, True)
        assert len(rows) == pictures if not name.startswith("cut") else len(rows) >= pictures
        assert {row["status"] for row in rows} == {"ok"}

    check_cases(check, list(files))


def test_metadata_of_macos_in_tars_is_left_out(tmp_path: Path) -> None:
    members = [
        "a.jpg",
        "._a.jpg",
        "d/b.jpg",
        "d/._b.jpg",
        "__MACOSX/d/._b.jpg",
        "__MACOSX/c.jpg",
        "._.DS_Store",
        ".e.jpg",
    ]
    tar(tmp_path / "a.tar", {name: jpeg() for name in members})
    rows, counts = written(
        tar_units(str(tmp_path)), Shards("webdataset", str(tmp_path), 10**6, None, None), tmp_path / "out"
    )
    assert [row["source_url"].rpartition("#")[2] for row in rows] == ["a.jpg", "d/b.jpg", ".e.jpg"]
    assert dict(counts.filtered) == {"macos_metadata": 5}


def test_pictures_in_any_type_of_bytes(tmp_path: Path) -> None:
    kinds = [pa.binary(), pa.large_binary(), pa.binary_view()]
    kinds += [pa.struct([("bytes", kind), ("path", pa.string())]) for kind in kinds]

    def check(kind: pa.DataType) -> None:
        cell = {"bytes": jpeg(), "path": None} if pa.types.is_struct(kind) else jpeg()
        path = tmp_path / f"{kind}.parquet"
        pq.write_table(pa.table({"key": pa.array(["k"], pa.string_view()), "image": pa.array([cell], kind)}), path)
        units = parquet_units(SourceConfig(name="parquet"), str(path))
        rows, _ = written(units, Shards("parquet", str(tmp_path), 10**6, None, None), tmp_path / "out" / str(kind))
        assert [(row["status"], row["bytes"]) for row in rows] == [("ok", jpeg())]

    check_cases(check, kinds)
