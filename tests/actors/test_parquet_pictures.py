"""Pictures of Parquet files, by row group and row: each request has one row, also for a place that a file lacks."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actors.parquet_pictures import BATCH_ROWS, ParquetPictures
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
