"""Pictures of Parquet files, by row group and row: each request has one row, also for a place that a file lacks."""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actors.stored_pictures import BATCH_ROWS, FolderFetcher, ParquetPictures
from jobs.corpora.user_tables import list_files
from jobs.errors import InputError
from jobs.sources.picture_sources import folder_units, requests_of_files
from jobs.store.files import locations
from jobs.store.writer import UnitTask
from jobs.tables import conform, table

ROWS = BATCH_ROWS + 1  # of the first row group: the last row begins a batch


def encoded(width: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (width, 1)).save(out, "PNG")
    return out.getvalue()


def write(folder: Path, pictures: list[Any]) -> str:
    """Write pictures in row groups of `ROWS`; return the path."""
    path = folder / "pictures.parquet"
    pq.write_table(pa.table({"image": pictures}), path, row_group_size=ROWS)
    return str(path)


def read(path: str | None, *places: tuple[int, int], status: str | None = None, **limits: Any) -> list[dict[str, Any]]:
    """Return the rows of pictures at (row group, row) of the file."""
    stage = ParquetPictures(open_filesystem=pafs.LocalFileSystem, column="image", rendition="w300", **limits)
    names = [f"id{number}" for number in range(len(places))]
    rows = stage(
        pa.table({
            "image_id": names, "source_url": names, "path": pa.array([path] * len(places), pa.string()),
            "row_group": [group for group, _ in places], "row": [row for _, row in places],
            "status": pa.array([status] * len(places), pa.string()),
        })
    )  # fmt: skip
    assert [row["image_id"] for row in conform(rows, table("images")).to_pylist()] == names
    return rows.to_pylist()


@pytest.mark.parametrize("as_struct", [False, True])
def test_pictures_are_those_of_their_row_group_and_row(tmp_path: Path, *, as_struct: bool) -> None:
    pictures: list[Any] = [encoded(number + 1) for number in range(2 * ROWS)]
    path = write(tmp_path, [{"bytes": data} for data in pictures] if as_struct else pictures)
    places = [(1, 0), (0, ROWS - 1), (0, BATCH_ROWS - 1), (0, 0), (1, ROWS - 1), (0, 0)]
    rows = read(path, *places)
    assert [row["width"] for row in rows] == [ROWS + 1, ROWS, BATCH_ROWS, 1, 2 * ROWS, 1]
    assert [row["bytes"] for row in rows] == [pictures[group * ROWS + row] for group, row in places]
    assert rows[1]["final_url"] == f"{path}#row_group=0&row={ROWS - 1}"
    assert {(row["status"], row["attempts"], row["rendition"]) for row in rows} == {("ok", 1, "w300")}


def test_a_place_that_the_file_lacks_is_an_error_of_its_row(tmp_path: Path) -> None:
    """The file was replaced by a shorter one after its pictures were listed."""
    path = write(tmp_path, [encoded(1), encoded(2)])
    rows = read(path, (0, 1), (0, 2), (0, ROWS), (1, 0), (0, 0))
    assert [row["error_kind"] for row in rows] == [None, "unreadable", "unreadable", "unreadable", None]
    assert [row["width"] for row in rows] == [2, None, None, None, 1]
    assert [row["error_message"] for row in rows[1:3]] == ["row group 0 of the file has no such row"] * 2
    assert str(rows[3]["error_message"]).startswith("row group 1 of the file cannot be read (")
    assert {row["attempts"] for row in rows} == {1}
    (tmp_path / "pictures.parquet").write_bytes(b"PAR1")
    assert [row["error_kind"] for row in read(path, (0, 0), (0, 1))] == ["unreadable"] * 2


def test_what_has_no_picture_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path, [None, b"", encoded(3)])
    assert [row["error_kind"] for row in read(path, (0, 0), (0, 1), (0, 2))] == ["no_bytes", "no_bytes", None]
    (row,) = read(None, (0, 0))
    assert (row["status"], row["error_kind"], row["attempts"]) == ("missing", "not_in_corpus", 0)
    (row,) = read(path, (0, 2), status="reported")
    assert (row["status"], row["bytes"], row["attempts"], row["final_url"]) == ("reported", None, None, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ParquetPictures, "_pictures", None)  # the file of reported pictures is not opened
        assert read(path, (0, 0), (0, 2), status="reported")[1]["source_url"] == "id1"


def test_limits_are_the_largest_that_pass(tmp_path: Path) -> None:
    data = encoded(7)
    path = write(tmp_path, [data])

    def kind(**limits: Any) -> str | None:
        error_kind: str | None = read(path, (0, 0), **limits)[0]["error_kind"]
        return error_kind

    assert (kind(max_bytes=len(data)), kind(max_bytes=len(data) - 1)) == (None, "too_many_bytes")
    assert (kind(max_pixels=7), kind(max_pixels=6)) == (None, "too_large")
    for limit in ({"max_bytes": 0}, {"max_pixels": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(limit))}=0: "):
            kind(**limit)


DATA = Path(os.environ.get("REMINE_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))


def encoded_as(form, size=(30, 20)):
    values = np.random.default_rng(1).integers(0, 255, (size[1], size[0], 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, form)
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path):
    files = {
        "good.jpg": encoded_as("JPEG"),
        "really.png.jpg": encoded_as("PNG"),  # the extension is wrong
        "unpacked.gz": encoded_as("JPEG"),
        "empty.jpg": b"",
        "page.jpg": b"<html>not found</html>",
        "cut.jpg": encoded_as("JPEG")[:-200],
        "heavy.bmp": encoded_as("BMP", (60, 60)),
        "wide.png": encoded_as("PNG", (200, 2)),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder.jpg").mkdir()
    return tmp_path


def asked(*paths):
    names = [f"id{number}" for number in range(len(paths))]
    return pa.table(
        {
            "image_id": pa.array(names, pa.string()),
            "source_url": pa.array([f"https://example.org/{name}" for name in names], pa.string()),
            "path": pa.array(paths, pa.string()),
        }
    )


def fetcher(folder, **options):
    local = pyarrow.fs.LocalFileSystem()
    return FolderFetcher(open_filesystem=lambda: pyarrow.fs.SubTreeFileSystem(str(folder), local), **options)


def test_every_row_once_in_order_with_its_status(folder):
    paths = [
        "good.jpg",
        None,
        "gone.jpg",
        "empty.jpg",
        "really.png.jpg",
        "page.jpg",
        "cut.jpg",
        "heavy.bmp",
        "wide.png",
    ]
    paths += ["folder.jpg", "bad\0name.jpg", "unpacked.gz"]
    out = fetcher(folder, max_bytes=5000, max_pixels=399)(asked(*paths[:1]))
    assert out["error_kind"].to_pylist() == ["too_large"]
    out = fetcher(folder, max_bytes=5000, max_pixels=600)(asked(*paths))
    rows = out.to_pylist()
    assert [row["image_id"] for row in rows] == [f"id{number}" for number in range(len(paths))]
    assert [(row["status"], row["error_kind"]) for row in rows] == [
        ("ok", None),
        ("missing", "not_in_folder"),
        ("missing", "vanished"),
        ("error", "empty"),
        ("ok", None),
        ("error", "html"),
        ("error", "truncated"),
        ("error", "too_many_bytes"),
        ("ok", None),
        ("error", "unreadable"),
        ("error", "unreadable"),
        ("ok", None),
    ]
    assert [row["attempts"] for row in rows] == [0 if path is None else 1 for path in paths]
    for row, path in zip(rows, paths, strict=True):
        good = row["status"] == "ok"
        facts = [row[name] for name in ("bytes", "format", "width", "height", "sha256", "phash")]
        assert all(fact is not None for fact in facts) if good else facts == [None] * 6
        assert (row["error_message"] is None) == good
        assert (row["rendition"], row["http_status"], row["author"]) == ("original", None, None)
        assert row["final_url"] == row["source_url"] == f"https://example.org/{row['image_id']}"
        if good:
            assert row["bytes"] == (folder / path).read_bytes()
            assert row["sha256"] == hashlib.sha256(row["bytes"]).hexdigest()
    assert [rows[0]["format"], rows[4]["format"]] == ["JPEG", "PNG"]
    assert (rows[8]["width"], rows[8]["height"]) == (200, 2)


def test_the_columns_are_those_of_the_table(folder):
    for batch in (asked("good.jpg", None), asked().slice(0, 0)):
        out = fetcher(folder)(batch)
        expected = table("images").schema()
        assert out.schema.names == expected.names
        assert out.schema.types == expected.types
        assert conform(out, table("images")).num_rows == batch.num_rows


def test_a_file_may_have_all_the_bytes_that_are_allowed(folder):
    size = (folder / "good.jpg").stat().st_size
    kinds = {by: fetcher(folder, max_bytes=size - by)(asked("good.jpg"))["error_kind"][0].as_py() for by in (0, 1)}
    assert kinds == {0: None, 1: "too_many_bytes"}


def test_a_heavy_file_is_not_read(folder):
    reads = []

    class File:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def size(self):
            return 10**12

        def read(self, *_):
            reads.append(1)
            return b""

    class Files:
        def open_input_file(self, path):
            return File()

    out = FolderFetcher(open_filesystem=Files)(asked("a.jpg"))
    assert out["error_kind"].to_pylist() == ["too_many_bytes"]
    assert not reads


def test_pictures_are_made_as_wide_as_asked(tmp_path):
    for name, size in (("wide.png", (900, 600)), ("small.png", (120, 90))):
        Image.new("RGB", size, "red").save(tmp_path / name)
    rows = fetcher(tmp_path, width=300)(asked("wide.png", "small.png")).to_pylist()
    assert [(row["width"], row["height"], row["rendition"]) for row in rows] == [(300, 200, "w300"), (120, 90, "w300")]
    assert [Image.open(io.BytesIO(row["bytes"])).size for row in rows] == [(300, 200), (120, 90)]


def test_bounds_are_checked(folder):
    with pytest.raises(ValueError, match="max_bytes=0"):
        fetcher(folder, max_bytes=0)


def test_real_pictures():
    images = DATA / "stamps" / "images"
    if not images.is_dir():
        pytest.skip(f"no pictures in {images}")
    names = sorted(path.name for path in images.iterdir())[:60:3]
    out = fetcher(images)(asked(*names))
    assert set(out["status"].to_pylist()) == {"ok"}
    assert [len(data) for data in out["bytes"].to_pylist()] == [(images / name).stat().st_size for name in names]
    assert len(set(out["phash"].to_pylist())) > len(names) // 2


def test_odd_names(tmp_path):
    """Whatever a file is called, it has a row."""
    names = ["new\nline.jpg", " lead.jpg", "#hash?q=%41.jpg", "quote'\".jpg", "漢字 😀.jpg", "UPPER.JPG", "none"]
    for name in names:
        (tmp_path / name).write_bytes(encoded_as("JPEG"))
    (tmp_path / ".hidden.jpg").write_bytes(encoded_as("JPEG"))
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.jpg"))).write_bytes(encoded_as("JPEG"))
    (tmp_path / "link.jpg").symlink_to("UPPER.JPG")
    (tmp_path / "dangling.jpg").symlink_to("nowhere")
    (tmp_path / "itself.jpg").symlink_to("itself.jpg")
    (tmp_path / "above").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.jpg")
    (unit,) = folder_units(list_files(str(tmp_path)), 100)
    rows = FolderFetcher(open_filesystem=pyarrow.fs.LocalFileSystem)(
        requests_of_files(UnitTask(unit), folder=str(tmp_path))
    )
    became = {row["source_url"].removeprefix(f"{tmp_path}/"): row["error_message"] for row in rows.to_pylist()}
    assert became == dict.fromkeys([*names, "link.jpg"]) | {r"caf\udce9.jpg": "the file's name is not UTF-8"}
    with pytest.raises(InputError, match=r"caf\\udce9.jpg has a name that is not UTF-8"):
        locations.find(str(tmp_path))
