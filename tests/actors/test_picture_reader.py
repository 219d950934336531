"""Pictures for models: the same pixels wherever they are decoded, and a bomb is an error."""

import functools
import io
import os

import numpy as np
import psutil
import pyarrow as pa
import pytest
from PIL import Image

from actors.embedder import PictureDecoder
from actors.encoders.settings import EncoderSettings
from actors.picture_reader import PictureReader
from actors.pictures import PictureError, decode_rgb, needs_little

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
    assert len(children() - before) == (0 if little else 1)


@pytest.mark.parametrize(
    ("data", "kind"),
    [(b"no picture", "not_an_image"), (b"", "empty"), (encoded("JPEG")[:300], "truncated"), (bomb(), "too_large")],
    ids=["text", "nothing", "cut", "bomb"],
)
def test_what_cannot_be_decoded_is_an_error(data: bytes, kind: str) -> None:
    with pytest.raises(PictureError) as raised:
        PictureReader(memory_bytes=SMALL)(data)
    assert raised.value.kind == kind


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


def test_its_process_ends_with_it() -> None:
    before, read = children(), PictureReader()
    read(encoded("TIFF"))
    (child,) = children() - before
    del read
    child.wait(60)
