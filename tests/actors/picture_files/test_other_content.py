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
    names = {b"\0\0\0\x18ftypheic": "HEIC", b"\0\0\0\x18ftypavif": "AVIF", b"\0\0\0\x18ftypqt": "a video (MP4)"}
    for data, name in names.items():
        assert describe(data) == ("unsupported", f"{name}, which is not decoded")
