"""Kinds of content that is not a picture, recognised by its first bytes."""

from actors.picture_files.other_content import describe
from tests.cases import check_cases


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
