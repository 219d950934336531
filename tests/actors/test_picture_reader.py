"""Pictures for models: the same pixels wherever they are decoded, and a bomb is an error."""

import asyncio
import functools
import gc
import io
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actors.embedder import PictureDecoder
from actors.encoders.settings import EncoderSettings
from actors.parquet_pictures import ParquetPictures
from actors.picture_reader import PictureReader
from actors.pictures import PictureError, decode_rgb, inspect, needs_little
from jobs.html import thumbnails
from jobs.html.thumbnails import thumbnail

SIDE = 9000  # of a black square of 240 kB that takes 650 MB to decode
SMALL = 500 << 20  # bytes of address space


def encoded(form: str, size: tuple[int, int] = (40, 30)) -> bytes:
    out = io.BytesIO()
    pixels = np.random.default_rng(1).integers(0, 255, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(out, form)
    return out.getvalue()


@functools.cache
def bomb() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (SIDE, SIDE)).save(out, "PNG")
    return out.getvalue()


def children() -> set[psutil.Process]:
    return set(psutil.Process(os.getpid()).children())


@pytest.mark.parametrize(
    ("data", "little"),
    [
        (encoded("JPEG"), True),
        (encoded("PNG"), True),
        (encoded("TIFF"), False),
        (encoded("JPEG2000"), False),
        (encoded("PNG", (2000, 1)), False),
    ],
    ids=["JPEG", "PNG", "TIFF", "JPEG2000", "a strip"],
)
def test_the_pixels_are_those_of_decode_rgb(data: bytes, little: bool) -> None:
    before, read = children(), PictureReader()
    assert needs_little(data) is little
    for _ in range(2):
        assert np.array_equal(np.asarray(read(data)), np.asarray(decode_rgb(data)))
        assert read.inspect(data) == inspect(data)
    assert len(children() - before) == (0 if little else 1)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (lambda: b"no picture", "not_an_image"),
        (lambda: b"", "empty"),
        (lambda: encoded("JPEG")[:300], "truncated"),
        (bomb, "too_large"),
    ],
    ids=["text", "nothing", "cut", "bomb"],
)
def test_what_cannot_be_decoded_is_an_error(data: Callable[[], bytes], kind: str) -> None:
    reader = PictureReader(memory_bytes=SMALL)
    for read in (reader, reader.inspect):
        with pytest.raises(PictureError) as raised:
            read(data())
        assert raised.value.kind == kind


def test_larger_pictures_than_allowed_are_errors_wherever_they_are_decoded() -> None:
    reader = PictureReader(max_pixels=40 * 30 - 1)
    for data in (encoded("JPEG"), encoded("TIFF")):
        for read in (reader, reader.inspect):
            with pytest.raises(PictureError) as raised:
                read(data)
            assert raised.value.kind == "too_large"


def test_a_bomb_among_the_pictures_of_a_stage_is_one_row() -> None:
    stage = PictureDecoder(EncoderSettings("local:siglip-tiny"))
    stage._read = PictureReader(memory_bytes=SMALL)
    rows = [encoded("JPEG"), bomb(), encoded("TIFF")]
    nothing = pa.nulls(3, pa.string())
    batch = pa.table({
        "image_id": ["a", "b", "c"], "bytes": pa.array(rows, pa.large_binary()), "status": ["ok"] * 3,
        "error_kind": nothing, "error_message": nothing,
    })  # fmt: skip
    out = stage(batch)
    assert out["status"].to_pylist() == ["ok", "error", "ok"]
    assert out["error_kind"].to_pylist() == [None, "too_large", None]


def test_a_bomb_has_neither_a_thumbnail_nor_a_row_with_a_picture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(thumbnails, "_READER", PictureReader(memory_bytes=SMALL))
    with ThreadPoolExecutor(4) as threads:  # as the viewer's
        outcomes = list(threads.map(thumbnail, [encoded("TIFF"), bomb(), encoded("TIFF"), encoded("JPEG")]))
    assert [kind for _, kind in outcomes] == [None, "too_large", None, None]

    pq.write_table(pa.table({"image": [encoded("TIFF"), bomb()]}), tmp_path / "wit.parquet")
    stage = ParquetPictures(open_filesystem=pafs.LocalFileSystem, column="image", rendition="w300")
    stage._reader = PictureReader(memory_bytes=SMALL)
    place = {"image_id": ["a", "b"], "source_url": ["u", "v"], "path": [str(tmp_path / "wit.parquet")] * 2}
    rows = stage(pa.table({**place, "row_group": [0, 0], "row": [0, 1]}))
    assert rows["error_kind"].to_pylist() == [None, "too_large"]


@pytest.mark.filterwarnings("error::ResourceWarning")  # of an event loop or a pipe that is not closed
def test_its_process_ends_with_it_and_its_pipes_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # what other tests left
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: unraisable.append(error.exc_value))
    before, read = children(), PictureReader()
    read(encoded("TIFF"))
    (child,) = children() - before
    del read
    child.wait(60)
    asyncio.set_event_loop(None)  # this thread keeps the loop of its last runner
    gc.collect()
    assert unraisable == []
