"""Bytes of pictures for pages: their places, damaged ones, and row groups that stay in memory."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from jobs.viewer import thumbnail_files
from jobs.viewer.thumbnail_files import PictureBytes, PicturePlace

COLOURS = ["red", "lime", "blue", "black"]


def png(colour: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 20), colour).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[PictureBytes, list[tuple[int, int]]]:
    """Two objects with two row groups of two rows each, and the row groups that were read."""
    values = [png(colour) for colour in COLOURS]
    files = []
    for number, rows in enumerate(([values[0], None, values[1], b"damaged"], [values[2], values[2], values[3], None])):
        files.append(str(tmp_path / f"{number}.parquet"))
        table = pa.table({"bytes": pa.array(rows, pa.large_binary()), "n": range(4)})
        pq.write_table(table, files[-1], row_group_size=2)
    places = {f"{file}{row}": PicturePlace(file, row // 2, row % 2) for file in range(2) for row in range(4)}
    shown = PictureBytes(files, places.get)
    read: list[tuple[int, int]] = []
    whole = shown._read

    def counted(file: int, row_group: int) -> pa.ChunkedArray:
        read.append((file, row_group))
        return whole(file, row_group)

    shown._read = counted  # type: ignore[method-assign]
    return shown, read


def colour(data: bytes) -> tuple[int, ...]:
    pixel = Image.open(io.BytesIO(data)).convert("RGB").getpixel((2, 2))
    assert isinstance(pixel, tuple)
    return tuple(round(value / 255) for value in pixel)


def test_each_picture_is_that_of_its_place(pictures: tuple[PictureBytes, list[tuple[int, int]]]) -> None:
    shown, _ = pictures
    thumbnails = {name: shown.thumbnail(name, 10) for name in ("00", "02", "10", "12")}
    assert {name: colour(one.data) for name, one in thumbnails.items() if one} == {
        "00": (1, 0, 0), "02": (0, 1, 0), "10": (0, 0, 1), "12": (0, 0, 0)
    }  # fmt: skip
    assert {(one.width, one.height) for one in thumbnails.values() if one} == {(10, 5)}
    assert [shown.thumbnail(name, 10) for name in ("01", "03", "13", "unknown")] == [None] * 4


def test_a_row_group_is_read_once_and_the_oldest_leaves_first(
    pictures: tuple[PictureBytes, list[tuple[int, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, read = pictures
    for name in ("00", "01", "02", "00"):
        shown.thumbnail(name, 10)
    assert read == [(0, 0), (0, 1)]
    shown.thumbnail("00", 20)  # another size, of bytes in memory; the group is the one used last
    assert read == [(0, 0), (0, 1)]
    size = shown._groups[0, 0].nbytes + shown._read(1, 0).nbytes
    monkeypatch.setattr(thumbnail_files, "HELD_BYTES", size)
    shown.thumbnail("10", 10)
    assert list(shown._groups) == [(0, 0), (1, 0)]
    monkeypatch.setattr(thumbnail_files, "HELD_BYTES", 0)
    shown.thumbnail("12", 10)
    assert list(shown._groups) == [(1, 1)]  # at least the one that is needed
