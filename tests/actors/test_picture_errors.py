"""Files that are not decoded: what is damaged, cut off, too large or of another kind, and its name."""

import itertools
import pickle
import re
import struct
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, features

from actors.pictures import PictureError, decode_rgb, inspect, render
from tests.actors.picture_samples import ENCODINGS, encoded, kind_of, textured
from tests.cases import check_cases


def test_a_cut_file_is_whole_or_an_error_and_never_half():
    def check(data):
        whole = np.asarray(decode_rgb(data))
        kinds = set()
        for length in {*range(0, len(data), 23), *range(len(data) - 40, len(data))}:
            try:
                picture = np.asarray(decode_rgb(data[:length]))
            except PictureError as error:
                kinds.add(error.kind)
            else:
                assert np.array_equal(picture, whole), f"cut at {length} of {len(data)} gave another picture"
        assert kinds - {"decode_failed"} == {"empty", "truncated"}
        assert kind_of(data[: len(data) // 2]) == "truncated"

    check_cases(check, ENCODINGS)


def test_data_that_are_not_a_picture():
    assert kind_of(b"") == "empty"
    assert kind_of(b"\xef\xbb\xbf \n<!DOCTYPE html><html>") == kind_of(b"<HTML>") == "html"
    assert kind_of(b'{"error": 1}') == kind_of(b"[]") == "json"
    for data in (
        b"{not json",
        b"P6 is a road",
        b"x" * 99,
    ):
        assert kind_of(data) == "not_an_image"
    assert kind_of(encoded(textured(), "TGA")) == "not_an_image"


def test_what_is_known_and_not_decoded_is_named():
    cases = [
        (b"<?xml version='1.0'?>\n<!-- drawn -->\n<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"%PDF-1.4", "PDF"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "PostScript"),
        (encoded(textured(), "EPS"), "PostScript"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic\0\0\0\x08mdat", "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\2\0isomiso2", "a video (MP4)"),
        (b"\xff\x0a\0\0", "JPEG XL"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"8BPS\0\1", "Photoshop"),
        (b"AT&TFORM\0\0\0\x10DJVM", "DjVu"),
        (encoded(textured(), "ICO"), "an icon"),
        (b"OggS\0\2", "a video or audio (Ogg)"),
        (b"\x1f\x8b\x08", "a gzip archive"),
    ]

    def check(data, name):
        with pytest.raises(PictureError, match=re.escape(f"{name}, which is not decoded")) as caught:
            decode_rgb(data)
        assert caught.value.kind == "unsupported"

    check_cases(check, cases)


@pytest.mark.skipif(not features.check("avif"), reason="Pillow was built without AVIF")
def test_a_damaged_avif_is_damaged_not_unsupported():
    assert kind_of(b"\0\0\0\x18ftypavif\0\0\0\0mif1avif" + bytes(99)) == "decode_failed"


def test_a_wrong_checksum_in_a_png_is_damage():
    data = encoded(textured())
    body = data.index(b"IDAT") + 4
    for at in (body + 8, body + 200, data.index(b"IDAT") - 6):  # pixels, and the checksum of the header
        damaged = bytearray(data)
        damaged[at] ^= 0x55
        assert kind_of(bytes(damaged)) in ("decode_failed", "truncated")


def png_with_a_bad_checksum(chunk):
    """Return a PNG with a tEXt chunk after its pixels, and a wrong checksum in `chunk`."""
    data = encoded(textured())
    text = b"tEXt" + b"Comment\0hello"
    end = data.index(b"IEND") - 4
    whole = data[:end] + struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text)) + data[end:]
    assert np.array_equal(np.asarray(decode_rgb(whole)), np.asarray(decode_rgb(data)))
    at = whole.index(chunk) - 4
    checksum = at + 8 + struct.unpack_from(">I", whole, at)[0]
    return whole[:checksum] + bytes([whole[checksum] ^ 0x55]) + whole[checksum + 1 :]


def test_a_wrong_checksum_matters_only_in_a_critical_chunk():
    """PNG specification, 5.4: a chunk whose type begins with a small letter is ancillary."""
    assert np.array_equal(np.asarray(decode_rgb(png_with_a_bad_checksum(b"tEXt"))), np.asarray(textured()))
    assert kind_of(png_with_a_bad_checksum(b"IDAT")) == "decode_failed"


def tiff(values, *, order="<", sample_format=3, compression=1):
    """Return an uncompressed TIFF of one strip, with its directory at the end; Pillow writes no 64-bit samples."""
    pixels = values.astype(values.dtype.newbyteorder(order)).tobytes()
    height, width = values.shape
    tags = [
        (256, 4, width),
        (257, 4, height),
        (258, 3, values.dtype.itemsize * 8),
        (259, 3, compression),
        (262, 3, 1),
        (273, 4, 8),
        (277, 3, 1),
        (278, 4, height),
        (279, 4, len(pixels)),
        (339, 3, sample_format),
    ]
    entries = [
        struct.pack(f"{order}HHI", tag, kind, 1)
        + struct.pack(f"{order}{'HH' if kind == 3 else 'I'}", value, *[0][: 4 - kind])
        for tag, kind, value in tags
    ]
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8 + len(pixels))
    return head + pixels + struct.pack(f"{order}H", len(tags)) + b"".join(entries) + bytes(4)


STEPS = np.linspace(0, 1, 64 * 48).reshape(48, 64)


def test_a_whole_tiff_that_cannot_be_decoded_is_unsupported_and_a_cut_one_truncated():
    contents = {
        "64 bits (floating-point": (STEPS, {}),
        "16 bits (floating-point": (STEPS.astype(np.float16), {}),
        "64 bits (unsigned": ((STEPS * 1000).astype(np.uint64), {"sample_format": 1}),
        "compression 34712": ((STEPS * 255).astype(np.uint8), {"sample_format": 1, "compression": 34712}),  # JPEG 2000
    }

    def check(order, named):
        values, options = contents[named]
        data = tiff(values, order=order, **options)
        for read in (decode_rgb, inspect, lambda data: render(data, width=20)):
            with pytest.raises(PictureError, match=re.escape(named)) as caught:
                read(data)
            assert caught.value.kind == "unsupported"
        kinds = {kind_of(data[:length]) for length in (6, 9, len(data) // 2, len(data) - 40)}
        assert kinds == {"truncated"}
        directory = bytearray(data)
        # The strip lies behind the end.
        directory[-4 - 12 * 5 + 8 : -4 - 12 * 5 + 12] = struct.pack(f"{order}I", len(data))
        assert kind_of(bytes(directory)) == "truncated"

    check_cases(check, itertools.product("<>", contents))


def test_a_plain_tiff_with_its_directory_at_the_end_is_decoded():
    values = (STEPS * 255).astype(np.uint8)
    assert np.array_equal(np.asarray(decode_rgb(tiff(values, sample_format=1)))[..., 0], values)


def outcome(read, data):
    try:
        read(data)
    except PictureError as error:
        return error.kind
    return "ok"


def test_a_resized_form_fails_for_the_same_reason():
    def check(data):
        assert render(data, width=20).facts.width == 20
        for length in (0, len(data) // 3, len(data) // 2, len(data) - 20):
            cut = data[:length]
            assert outcome(decode_rgb, cut) == outcome(lambda cut: render(cut, width=20), cut) == outcome(inspect, cut)

    check_cases(check, ENCODINGS)


def test_damage_in_the_middle():
    data = bytearray(ENCODINGS["png"])
    data[len(data) // 2] ^= 255
    assert kind_of(bytes(data)) == "decode_failed"


def test_bombs_are_refused_from_the_header(monkeypatch):
    data = encoded(Image.new("1", (10_000, 10_000)))  # 100 million pixels in 12 kB
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    monkeypatch.setattr(Image.core, "new", lambda *a: pytest.fail("allocated"))
    for bound in (None, 10, 10**12):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", bound)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert kind_of(data) == "too_large"


def test_the_bound_is_ours_and_not_pillows(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    data = ENCODINGS["jpeg"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode_rgb(data, max_pixels=56 * 40).size == (56, 40)
    assert kind_of(data, max_pixels=56 * 40 - 1) == "too_large"
    assert decode_rgb(encoded(Image.new("L", (1, 1))), max_pixels=1).size == (1, 1)
    with pytest.raises(ValueError, match="max_pixels=0"):
        decode_rgb(data, max_pixels=0)


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(PictureError("truncated", "it ends")))
    assert (error.kind, str(error)) == ("truncated", "it ends")


def test_a_jpeg_of_very_many_scans_is_refused_before_it_is_decoded():
    data = encoded(Image.effect_noise((64, 48), 60), "JPEG", progressive=True)
    assert data.count(b"\xff\xda") > 1
    assert inspect(data).width == 64
    # The header claims a large picture, and many scans follow.
    frame = data.index(b"\xff\xc2")
    claimed = data[: frame + 5] + (9000).to_bytes(2, "big") * 2 + data[frame + 9 :]
    with pytest.raises(PictureError) as raised:
        inspect(claimed + b"\xff\xda" * 300)
    assert raised.value.kind == "too_large"


def test_the_kind_of_an_error_in_a_whole_file(monkeypatch):
    cases = [
        (MemoryError(), "too_large"),
        (Image.DecompressionBombError("large"), "too_large"),
        (Image.DecompressionBombWarning("large"), "too_large"),
        (EOFError("no more"), "truncated"),
        (OSError("Truncated file"), "truncated"),
        (ValueError("Reached EOF"), "truncated"),
        (ValueError("odd"), "decode_failed"),
    ]

    def check(error, kind):
        def load(*_):
            raise error

        monkeypatch.setattr("actors.pictures._load", load)
        assert kind_of(encoded(Image.new("RGB", (8, 8)))) == kind

    check_cases(check, cases)


def test_a_format_that_this_pillow_cannot_decode_is_not_tried(monkeypatch):
    """Its plugin then returns a text instead of whether it accepts the bytes."""
    factory, _ = Image.OPEN["WEBP"]
    monkeypatch.setitem(Image.OPEN, "WEBP", (factory, lambda start: "WEBP support not installed"))
    assert kind_of(ENCODINGS["webp"]) == "not_an_image"
