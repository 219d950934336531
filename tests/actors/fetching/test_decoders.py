"""Children that decode: what comes back, and what becomes of a picture that takes one along."""

import asyncio
import contextlib
import functools
import gc
import io
import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actors import pictures
from actors.embedder import PictureDecoder
from actors.encoders.encoder_sources import EncoderSettings
from actors.fetching import decode_worker
from actors.fetching.decode_worker import DECODE, LENGTH, RENDER, serve
from actors.fetching.decoders import Decoders, PictureReader, close_when_dropped
from actors.pictures import PictureError, decode_rgb, inspect, needs_little, render
from actors.stored_pictures import ParquetPictures
from jobs.html import thumbnails
from jobs.html.thumbnails import thumbnail
from tests.cases import check_cases


def encoded(picture: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def photo(width: int = 640, height: int = 480) -> Image.Image:
    values = np.add.outer(np.arange(height) / height, np.arange(width) / width) * 127
    return Image.fromarray(np.stack([values, 255 - values, values / 2], axis=2).astype(np.uint8))


def rendered(data: bytes) -> Any:
    try:
        return render(data, width=300)
    except PictureError as error:
        return error


def comparable(outcome: Any) -> Any:
    return (outcome.kind, str(outcome)) if isinstance(outcome, PictureError) else outcome


def test_children_do_what_render_does() -> None:
    inputs = [encoded(photo(), "JPEG"), encoded(photo(200, 100)), b"", b"<html>", encoded(photo(400, 300))[:-50]] * 3

    async def go() -> list[Any]:
        decoders = Decoders(width=300, processes=2)
        try:
            return await asyncio.gather(*map(decoders.decode, inputs), return_exceptions=True)
        finally:
            await decoders.close()

    for data, got in zip(inputs, asyncio.run(go()), strict=True):
        assert comparable(got) == comparable(rendered(data))


def test_answers_of_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until its input ends, be it in the middle of a request's head."""
    small, large, html = encoded(photo(30, 20), "JPEG"), encoded(photo(50, 20), "JPEG"), b"<html>"
    sent = [(RENDER, small), (RENDER, large), (DECODE, small), (RENDER, html), (RENDER, b""), (DECODE, large)]

    def answers(requests: list[tuple[bytes, bytes]], *, width: int | None, max_pixels: int) -> list[tuple[Any, bytes]]:
        out = io.BytesIO()
        heads = [LENGTH.pack(operation, len(data)) + data for operation, data in requests]
        serve(io.BytesIO(b"".join(heads) + LENGTH.pack(RENDER, 0)[:-1]), out, width=width, max_pixels=max_pixels)
        received, at = [], 0
        while at < len(out.getvalue()):
            header, size = struct.unpack_from(">II", out.getvalue(), at)
            at += 8 + header + size
            received.append(
                (json.loads(out.getvalue()[at - size - header : at - size]), out.getvalue()[at - size : at])
            )
        return received

    kept, resized, pixels, *failed = answers(sent, width=40, max_pixels=900)
    shrunk = render(large, width=40, max_pixels=1000)
    assert kept == ({**inspect(small)._asdict(), "unchanged": True}, b"")
    assert resized[0]["error_kind"] == failed[2][0]["error_kind"] == "too_large"
    assert pixels == ({"width": 30, "height": 20}, decode_rgb(small).tobytes())
    assert [(header["error_kind"], bool(header["error_message"]), data) for header, data in failed[:2]] == [
        ("html", True, b""), ("empty", True, b"")
    ]  # fmt: skip
    assert answers(sent[1:2], width=40, max_pixels=1000) == [
        ({**shrunk.facts._asdict(), "unchanged": False}, shrunk.data)
    ]
    assert answers(sent[1:2], width=None, max_pixels=1000)[0][0]["unchanged"]

    def exhausted(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(decode_worker, "render", exhausted)
    ((header, data),) = answers(sent[:1], width=None, max_pixels=1000)
    assert (header["error_kind"], data) == ("too_large", b"")


def test_a_picture_that_takes_its_decoders_along_is_one_error() -> None:
    async def kill(others: set[psutil.Process], *, times: int) -> None:
        killed: set[psutil.Process] = set()
        while len(killed) < times:
            for child in set(psutil.Process().children()) - others - killed:
                child.kill()
                killed.add(child)
            await asyncio.sleep(0.01)

    async def go() -> list[Any]:
        decoders = Decoders(processes=1, timeout_s=200)
        good = encoded(photo(32, 32))
        others = set(psutil.Process().children())
        before = await decoders.decode(good)
        (child,) = set(psutil.Process().children()) - others
        child.suspend()
        asked = asyncio.create_task(decoders.decode(good))
        await asyncio.sleep(0.1)
        child.kill()  # for no fault of the picture's
        once = await asked
        (child,) = set(psutil.Process().children()) - others
        child.suspend()
        asked = asyncio.create_task(decoders.decode(good))
        await asyncio.sleep(0.1)
        await kill(others, times=2)
        died = await asyncio.gather(asked, return_exceptions=True)
        after = await decoders.decode(good)
        decoders._timeout_s = 0.2
        (child,) = set(psutil.Process().children()) - others
        child.suspend()
        late = await asyncio.gather(decoders.decode(good), return_exceptions=True)
        decoders._timeout_s = 200
        again = await decoders.decode(good)
        await decoders.close()
        assert set(psutil.Process().children()) <= others
        return [before, once, *died, after, *late, again]

    before, once, died, after, late, again = asyncio.run(go())
    assert before == once == after == again
    assert (died.kind, late.kind) == ("decoder_died", "decode_timeout")


def test_memory_is_bounded() -> None:
    async def go() -> Any:
        decoders = Decoders(processes=1, memory_bytes=400 * 2**20)
        got = await asyncio.gather(decoders.decode(encoded(Image.new("RGBA", (6000, 6000)))), return_exceptions=True)
        await decoders.close()
        return got[0]

    assert asyncio.run(go()).kind in ("too_large", "decode_failed")


def test_children_are_killed_with_their_decoders() -> None:
    others = set(psutil.Process().children())

    async def stopped_child() -> psutil.Process:
        decoders = Decoders(processes=1)
        await decoders.decode(encoded(photo(30, 20)))
        (child,) = set(psutil.Process().children()) - others
        child.suspend()  # it cannot end by itself when its input is closed
        del decoders
        gc.collect()
        await asyncio.sleep(0)  # the loop closes the pipes
        return child

    child = asyncio.run(stopped_child())
    try:
        psutil.wait_procs([child], timeout=60)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def test_any_thread_may_drop_the_owner_of_a_loop() -> None:
    """A failed call's traceback refers to its callers, so that a thread of the loop may hold the last reference."""

    class Owner:
        pass

    owners, runner, decoders = [Owner()], asyncio.Runner(), Decoders(processes=1)
    close_when_dropped(owners[0], runner, decoders)
    loop_has_stopped, dropped = threading.Event(), threading.Event()

    def drop() -> None:
        loop_has_stopped.wait(20)
        owners.clear()
        dropped.set()

    async def leave_a_call_running() -> psutil.Process:
        others = set(psutil.Process().children())
        await decoders.decode(encoded(photo(30, 20)))
        asyncio.get_running_loop().run_in_executor(None, drop)
        (child,) = set(psutil.Process().children()) - others
        return child

    child, loop = runner.run(leave_a_call_running()), runner.get_loop()
    loop_has_stopped.set()
    assert dropped.wait(20)
    for thread in threading.enumerate():
        if thread.name == "close decoders":
            thread.join(20)
    assert loop.is_closed()
    assert not child.is_running()


def test_children_end_with_a_killed_parent() -> None:
    code = (
        "import asyncio, io; from PIL import Image; from actors.fetching.decoders import Decoders\n"
        "b = io.BytesIO(); Image.new('RGB', (9, 9)).save(b, 'PNG')\n"
        "async def go():\n    d = Decoders(processes=2)\n"
        "    await asyncio.gather(d.decode(b.getvalue()), d.decode(b.getvalue()))\n"
        "    print('ready', flush=True); await asyncio.sleep(60)\n"
        "asyncio.run(go())"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=os.getcwd())  # noqa: PTH109
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    children = psutil.Process(parent.pid).children()
    assert len(children) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_bounds_are_checked() -> None:
    for wrong in ({"width": 0}, {"max_pixels": 0}, {"processes": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            Decoders(**wrong)
    with pytest.raises(ValueError, match="width=0"):
        render(encoded(photo()), width=0)


def test_render_keeps_bytes_where_nothing_changes() -> None:
    for data in (encoded(photo(300, 200), "JPEG"), encoded(photo(300, 200)), encoded(photo(10, 9), "WEBP")):
        assert render(data, width=300).data is None
        assert render(data, width=300).facts == inspect(data)
    assert render(encoded(photo(), "TIFF")).data is None  # without a width, whatever it is


def test_render_writes_a_narrow_picture_anew_only_if_some_reader_may_show_it_otherwise() -> None:
    small = photo(30, 20)
    frames: dict[str, Any] = {"save_all": True, "append_images": [small.rotate(180)]}
    clear = small.convert("RGBA")
    clear.putalpha(Image.linear_gradient("L").resize(small.size))
    cases = [
        (encoded(small.convert("L"), "JPEG"), None),
        *((encoded(small.convert(mode)), None) for mode in ("L", "P", "1")),
        (encoded(small.convert("L"), transparency=90), ("PNG", "L")),
        (encoded(small, transparency=small.getpixel((3, 3))), ("PNG", "RGB")),
        (encoded(small.quantize(16), transparency=5), ("PNG", "RGB")),
        (encoded(clear), ("PNG", "RGB")),
        (encoded(clear.convert("LA")), ("PNG", "L")),
        (encoded(Image.fromarray((np.arange(600) * 100).astype(np.uint16).reshape(20, 30))), ("PNG", "L")),
        (encoded(clear, "WEBP", lossless=True), ("PNG", "RGB")),
        (encoded(small, "WEBP", **frames), ("JPEG", "RGB")),
        (encoded(small, **frames), ("PNG", "RGB")),
        (encoded(small.convert("CMYK"), "JPEG"), ("JPEG", "RGB")),
        *((encoded(small, form), ("PNG", "RGB")) for form in ("TIFF", "BMP", "PPM")),
        (encoded(small.convert("1"), "TIFF"), ("PNG", "L")),
        (encoded(small.quantize(16), "GIF"), ("PNG", "RGB")),
    ]

    def check(data: bytes, written: tuple[str, str] | None) -> None:
        rendered = render(data, width=30)
        if written is None:
            assert rendered == (None, inspect(data))
            return
        assert rendered.data is not None
        picture = Image.open(io.BytesIO(rendered.data))
        assert (picture.format, picture.mode, picture.size) == (*written, (30, 20))
        assert not picture.has_transparency_data
        assert getattr(picture, "n_frames", 1) == 1
        difference = np.abs(np.asarray(picture.convert("RGB")).astype(int) - np.asarray(decode_rgb(data)))
        assert difference.max() <= (0 if written[0] == "PNG" else 8)

    check_cases(check, cases)


def test_render_makes_what_every_reader_shows_alike() -> None:
    cases = [
        (encoded(photo(), "JPEG"), "JPEG"),
        (encoded(photo()), "PNG"),
        (encoded(photo().convert("CMYK"), "JPEG"), "JPEG"),
        (encoded(photo().convert("CMYK"), "TIFF"), "PNG"),
        (encoded(photo().convert("P"), "GIF", save_all=True, append_images=[Image.new("P", (640, 480))]), "PNG"),
        (encoded(photo().convert("L")), "PNG"),
        (encoded(Image.fromarray((np.arange(640 * 480) % 65536).astype(np.uint16).reshape(480, 640))), "PNG"),
        (encoded(photo().convert("LA")), "PNG"),
        (encoded(photo(), "WEBP"), "JPEG"),
    ]

    def check(data: bytes, form: str) -> None:
        rendered = render(data, width=300)
        assert rendered.data is not None
        picture = Image.open(io.BytesIO(rendered.data))
        assert (picture.format, picture.size, rendered.facts.format) == (form, (300, 225), form)
        assert picture.mode in ("RGB", "L")
        expected = decode_rgb(data).resize((300, 225), Image.Resampling.BICUBIC)
        difference = np.abs(np.asarray(picture.convert("RGB")).astype(int) - np.asarray(expected))
        assert difference.mean() < 2
        assert rendered.facts == inspect(rendered.data)._replace(phash=rendered.facts.phash)

    check_cases(check, cases)


def test_render_turns_pictures_upright_before_it_measures_their_width() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(photo(640, 480), "JPEG", exif=exif)  # shown 480 wide
    assert render(data, width=300).facts[1:3] == (300, 400)
    small = render(encoded(photo(64, 48), "JPEG", exif=exif), width=300)
    assert small.data is not None  # no reader has to know EXIF
    assert small.facts[1:3] == (48, 64)
    assert "exif" not in Image.open(io.BytesIO(small.data)).info


def test_draft_mode_changes_next_to_nothing() -> None:
    data = encoded(photo(2401, 1803), "JPEG", quality=95)
    rendered = render(data, width=300)
    assert rendered.facts[1:3] == (300, 225)
    assert rendered.data is not None
    expected = decode_rgb(data).resize((300, 225), Image.Resampling.BICUBIC)
    assert np.abs(np.asarray(Image.open(io.BytesIO(rendered.data))).astype(int) - np.asarray(expected)).mean() < 2


def test_a_child_answers_each_picture_before_the_next_is_sent() -> None:
    """A pipe that waits for a flush, or for more input than there is, would end in PictureError decode_timeout."""

    async def go() -> list[bytes | None]:
        decoders = Decoders(processes=1)
        data = encoded(photo(64, 64))
        created = [(await decoders.decode(data)).data for _ in range(21)]
        await decoders.close()
        return created

    assert len(set(asyncio.run(go()))) == 1
    assert pictures.JPEG_QUALITY == 95


SIDE = 9000  # of a black square of 240 kB that takes 650 MB to decode
SMALL = 500 << 20  # bytes of address space


def encoded_as(form: str, size: tuple[int, int] = (40, 30)) -> bytes:
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
        (encoded_as("JPEG"), True),
        (encoded_as("PNG"), True),
        (encoded_as("TIFF"), False),
        (encoded_as("JPEG2000"), False),
        (encoded_as("PNG", (2000, 1)), False),
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
        (lambda: encoded_as("JPEG")[:300], "truncated"),
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
    for data in (encoded_as("JPEG"), encoded_as("TIFF")):
        for read in (reader, reader.inspect):
            with pytest.raises(PictureError) as raised:
                read(data)
            assert raised.value.kind == "too_large"


def test_a_bomb_among_the_pictures_of_a_stage_is_one_row() -> None:
    stage = PictureDecoder(EncoderSettings("local:siglip-tiny"))
    stage._read = PictureReader(memory_bytes=SMALL)
    rows = [encoded_as("JPEG"), bomb(), encoded_as("TIFF")]
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
        outcomes = list(threads.map(thumbnail, [encoded_as("TIFF"), bomb(), encoded_as("TIFF"), encoded_as("JPEG")]))
    assert [kind for _, kind in outcomes] == [None, "too_large", None, None]

    pq.write_table(pa.table({"image": [encoded_as("TIFF"), bomb()]}), tmp_path / "wit.parquet")
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
    read(encoded_as("TIFF"))
    (child,) = children() - before
    del read
    child.wait(60)
    asyncio.set_event_loop(None)  # this thread keeps the loop of its last runner
    gc.collect()
    assert unraisable == []
