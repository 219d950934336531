"""Facts about containers, from files of a few bytes that are written here by the formats' specifications."""

import itertools
import struct

import pytest

from actors.picture_formats import describe, ends_early, is_lossy, tiff_directory_ends_early
from tests.cases import check_cases


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    """Return a WebP file; chunks of odd length are padded with a byte."""
    body = b"".join(kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for kind, data in chunks)
    return b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body


FRAME = b"\0" * 16  # position, duration and flags of a frame


def test_webp_by_its_first_picture() -> None:
    cases = [
        ([(b"VP8 ", b"ab")], True),
        ([(b"VP8L", b"ab")], False),
        ([(b"VP8L", b"")], False),  # its header alone
        ([(b"VP8X", b"\0" * 10), (b"ICCP", b"abc"), (b"VP8L", b"ab")], False),
        ([(b"VP8X", b"\0" * 10), (b"ICCP", b"abcd"), (b"VP8 ", b"ab"), (b"VP8L", b"ab")], True),
        ([(b"ANMF", FRAME + b"VP8L" + struct.pack("<I", 2) + b"ab")], False),
        ([(b"ANMF", FRAME + b"ALPH" + struct.pack("<I", 2) + b"ab" + b"VP8 " + struct.pack("<I", 0))], True),
        ([(b"EXIF", b"VP8L")], True),  # without a picture
    ]

    def check(chunks: list[tuple[bytes, bytes]], lossy: bool) -> None:
        assert is_lossy("WEBP", riff(*chunks)) == lossy

    check_cases(check, cases)


def codestream(wavelet: int, *before: bytes) -> bytes:
    """Return the main header of a JPEG 2000 codestream whose marker COD names the wavelet last."""
    size = b"\xff\x51" + struct.pack(">H", 6) + b"size"
    style = b"\xff\x52" + struct.pack(">H", 12) + b"\0" * 9 + bytes([wavelet])
    return b"\xff\x4f" + size + b"".join(before) + style + b"\xff\x90"


def test_jpeg_2000_by_its_wavelet() -> None:
    cases = [
        (codestream(0), True),
        (codestream(1), False),
        (codestream(1, b"\xff\x64" + struct.pack(">H", 5) + b"\xff\x52\0"), False),  # a comment
        (b"\0\0\0\x0cjP  \r\n\x87\n" + codestream(1), False),
        (codestream(1).replace(b"\xff\x52", b"\xff\x90"), True),  # the header ends before it
        (b"", True),
        (b"\0" * 40, True),
    ]

    def check(data: bytes, lossy: bool) -> None:
        assert is_lossy("JPEG2000", data) == lossy

    check_cases(check, cases)


def test_other_formats() -> None:
    kinds = ("JPEG", "MPO", "AVIF", "PNG", "GIF", "TIFF", "BMP")
    assert [kind for kind in kinds if is_lossy(kind, b"")] == ["JPEG", "MPO", "AVIF"]


def box(kind: bytes, data: bytes, *, length: int | None = None) -> bytes:
    return struct.pack(">I", 8 + len(data) if length is None else length) + kind + data


def long_box(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", 1) + kind + struct.pack(">Q", 16 + len(data)) + data


def test_boxes_that_end_after_the_file() -> None:
    cases = [
        (box(b"ftyp", b"avif") + box(b"mdat", b"abc"), False),
        (box(b"ftyp", b"avif") + box(b"mdat", b"abc")[:-1], True),
        (box(b"ftyp", b"avif") + long_box(b"mdat", b"abc"), False),
        (box(b"ftyp", b"avif") + long_box(b"mdat", b"abc")[:-1], True),
        (box(b"ftyp", b"avif") + box(b"mdat", b"abc", length=0), False),  # up to the end of the file
        (box(b"ftyp", b"avif") + box(b"jp2c", b"abc", length=0), True),
        (box(b"ftyp", b"avif") + box(b"jp2c", b"abc\xff\xd9\0\0", length=0), False),
        (box(b"ftyp", b"avif") + box(b"mdat", b"", length=8), False),
        (box(b"free", b"") + box(b"mdat", b"abc")[:-1], True),
        (long_box(b"free", b"") + box(b"mdat", b"abc")[:-1], True),
        (box(b"ftyp", b"avif") + box(b"mdat", b"a", length=7), False),  # damaged, not short
    ]

    def check(data: bytes, early: bool) -> None:
        assert ends_early(data, "AVIF") == early

    check_cases(check, cases)


def test_files_that_end_early() -> None:
    cases = [
        ("JPEG", b"\xff\xd8...\xff\xd9", b"\xff\xd8..."),
        ("JPEG", b"\xff\xd9" + b"." * 62, b"\xff\xd9" + b"." * 63),
        ("MPO", b"\xff\xd8...\xff\xd9", b"\xff\xd8..."),
        ("PNG", b"...IEND....", b"...IDAT...."),
        ("GIF", b"GIF89a;\0\0", b"GIF89a"),
        ("WEBP", riff((b"VP8 ", b"ab")), riff((b"VP8 ", b"ab"))[:-1]),
        ("JPEG2000", codestream(1) + b"\xff\xd9\0", codestream(1)),
        ("JPEG2000", box(b"ftyp", b"jp2 "), box(b"ftyp", b"jp2 ")[:-1]),
        ("BMP", b"", b""),
    ]

    def check(kind: str, whole: bytes, short: bytes) -> None:
        assert not ends_early(whole, kind)
        assert ends_early(short, kind) == (kind != "BMP")

    check_cases(check, cases)


def tiff(order: str, *, big: bool, entries: int, written: int) -> bytes:
    """Return a TIFF's header and a directory of which `written` bytes of entries follow the count."""
    mark = b"II" if order == "<" else b"MM"
    if big:
        return mark + struct.pack(f"{order}HHHQQ", 43, 8, 0, 16, entries) + b"\0" * written
    return mark + struct.pack(f"{order}HIH", 42, 8, entries) + b"\0" * written


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("big", "size"), [(False, 12), (True, 20)])
def test_a_tiff_whose_directory_ends_after_the_file(order: str, big: bool, size: int) -> None:
    assert not tiff_directory_ends_early(tiff(order, big=big, entries=3, written=3 * size))
    assert tiff_directory_ends_early(tiff(order, big=big, entries=3, written=3 * size - 1))


def test_a_tiff_whose_pixels_end_after_the_file() -> None:
    def check(offsets: tuple[int, int], missing: int) -> None:
        start, length = offsets
        # Two entries of one LONG each, the offset of the next directory, and 10 bytes of pixels at 38.
        entries = struct.pack("<HHIIHHII", start, 4, 1, 38, length, 4, 1, 10)
        data = b"II" + struct.pack("<HIH", 42, 8, 2) + entries + struct.pack("<I", 0) + b"p" * 10
        assert len(data) == 48
        assert ends_early(data[: 48 - missing], "TIFF") == bool(missing)

    offsets_of_strips_and_of_tiles = [(273, 279), (324, 325)]
    check_cases(check, itertools.product(offsets_of_strips_and_of_tiles, [0, 1]))


def test_kinds() -> None:
    cases = [
        (b"<!DOCTYPE HTML>", "html"),
        (b"\xef\xbb\xbf\r\n\t <html lang=en>", "html"),
        (b"<head>", "html"),
        (b"<body>", "html"),
        (b"<?xml version='1.0'?><html>", "html"),
        (b"<!-- " + b"x" * 502 + b"<html>", "html"),
        (b"<!-- " + b"x" * 503 + b"<html>", None),  # its mark ends after 512 bytes
        (b'{"error": 1}', "json"),
        (b"[ {}]", "json"),
        (b"[[1]]", "json"),
        (b"{ }", "json"),
        (b"[]", "json"),
        (b"[1]", None),
        (b"{text}", None),
        (b'"text"', None),
        (b"<svg>", "unsupported"),
        (b"<?xml?>" + b"x" * 4085 + b"<svg>", "unsupported"),
        (b"<?xml?>" + b"x" * 4086 + b"<svg>", None),
        (b"text <svg>", None),
        (b"RIFF1234WAVE", "unsupported"),
        (b"RIFF1234WEBP", None),
        (b"\0\0\0\x18ftypheic", "unsupported"),
        (b" ftypheic", None),
        (b"", None),
    ]

    def check(data: bytes, kind: str | None) -> None:
        description = describe(data)
        assert (description and description[0]) == kind

    check_cases(check, cases)


def test_names() -> None:
    box = b"\0\0\0\x18ftyp"
    names = {
        **{box + brand: "HEIC" for brand in (b"heic", b"hevc", b"mif1", b"msf1")},
        box + b"avif": "AVIF",
        box + b"avis": "AVIF",
        box + b"qt": "a video (MP4)",
        b"%!PS": "PostScript",
        b"\xc5\xd0\xd3\xc6": "PostScript",
        b"\x1a\x45\xdf\xa3": "a video (Matroska, WebM)",
        b"ID3\4": "audio (MP3)",
        b"RIFF1234WAVE": "audio (WAV) or a video (AVI)",
        b"RIFF1\n34AVI LIST": "audio (WAV) or a video (AVI)",
        b"\xff\x0a": "JPEG XL",
        b"gimp xcf v011": "GIMP's XCF",
        b"\0\0\1\0": "an icon",
        b"icns": "an icon",
        b"DDS |": "DDS",
        b"\xd7\xcd\xc6\x9a": "WMF or EMF",
        b"\1\0\0\0\x6c\0\0\0\0\0\0\0\0\0\0\0": "WMF or EMF",
        b"PK\3\4": "a ZIP archive",
        b"\x1f\x8b": "a gzip archive",
    }
    for data, name in names.items():
        assert describe(data) == ("unsupported", f"{name}, which is not decoded")
        assert describe(b"-" + data) is None
