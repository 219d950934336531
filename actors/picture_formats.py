"""Facts read from a file's bytes without decoding a picture: whether it is one, complete, lossy and decodable."""

import io
import re
from collections.abc import Callable
from typing import Literal

from PIL import Image, TiffImagePlugin

BIG_TIFF = 43  # the version in the header of a TIFF with 64-bit offsets; 42 in others
_LOSSY = ("JPEG", "MPO", "AVIF")  # WebP and JPEG 2000 may be either, depending on the bytes
_SAMPLE_FORMATS = {1: "unsigned", 2: "signed", 3: "floating-point", 5: "complex", 6: "complex floating-point"}


def is_lossy(kind: str, data: bytes) -> bool:
    """Return whether a picture of format `kind` (Pillow's name) lost information when encoded.

    AVIF counts as lossy because its header does not say.
    """
    if kind == "WEBP":
        return not _webp_is_lossless(data)
    if kind == "JPEG2000":
        return not _jpeg2000_is_reversible(data)
    return kind in _LOSSY


def _webp_is_lossless(data: bytes) -> bool:
    """Return whether the first frame is lossless (chunk VP8L, not VP8, in the WebP container specification)."""
    at = 12
    while at + 8 <= len(data):
        kind, length = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if kind in (b"VP8 ", b"VP8L"):
            return kind == b"VP8L"
        # An animation's frame contains chunks after 16 bytes of position, duration and flags.
        at += 8 + (16 if kind == b"ANMF" else length + length % 2)
    return False


def _jpeg2000_is_reversible(data: bytes) -> bool:
    """Return whether the codestream uses the reversible 5-3 wavelet (ISO/IEC 15444-1, A.6.1: last byte of COD)."""
    at = data.find(b"\xff\x4f\xff\x51")  # SOC and SIZ begin every codestream
    at = at + 2 if at >= 0 else len(data)
    while data[at : at + 1] == b"\xff" and (marker := data[at + 1 : at + 2]) != b"\x90":  # SOT ends the main header
        if marker == b"\x52":
            return data[at + 13 : at + 14] == b"\x01"
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return False


def ends_early(data: bytes, kind: str) -> bool:
    """Return whether a file of format `kind` (Pillow's name) ends before its structure does; cheap, not a proof."""
    last, body = data[-64:], data.rstrip(b"\0")
    checks: dict[str, Callable[[], bool]] = {
        "JPEG": lambda: b"\xff\xd9" not in last,
        "MPO": lambda: b"\xff\xd9" not in last,
        "PNG": lambda: b"IEND" not in last,
        "GIF": lambda: not body.endswith(b";"),
        "WEBP": lambda: int.from_bytes(data[4:8], "little") + 8 > len(data),
        "TIFF": lambda: _tiff_ends_early(data),
        "AVIF": lambda: _boxes_end_early(data),
        "JPEG2000": lambda: not body.endswith(b"\xff\xd9") if data.startswith(b"\xff\x4f") else _boxes_end_early(data),
    }
    return checks[kind]() if kind in checks else False


def _boxes_end_early(data: bytes) -> bool:
    """Return whether a box of an ISO media file extends past the end of the file.

    A box begins with its length (4 bytes) and type (4 bytes); if the length is 1, its 8 bytes follow the type.
    """
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if length == 0:  # extends to the end of the file; a JPEG 2000 codestream then has an end marker
            return data[at + 4 : at + 8] == b"jp2c" and not data.rstrip(b"\0").endswith(b"\xff\xd9")
        if length == 1:
            length = int.from_bytes(data[at + 8 : at + 16], "big")
        if length < 8:
            return False
        at += length
    return at > len(data)


def _tiff_tags(data: bytes) -> TiffImagePlugin.ImageFileDirectory_v2:
    """Return the first directory of a TIFF, even if Pillow cannot decode the picture.

    Raises:
        Exception: of any type, if the directory is damaged.
    """
    tags = TiffImagePlugin.ImageFileDirectory_v2(data[: 16 if BIG_TIFF in data[2:4] else 8])
    stream = io.BytesIO(data)
    stream.seek(tags.next)
    tags.load(stream)
    return tags


def tiff_directory_ends_early(data: bytes) -> bool:
    """Return whether the entries of a TIFF's first directory extend past the end of the file.

    Pillow ignores the missing entries, but without its sample format the decoded picture is a different one.
    """
    order: Literal["little", "big"] = "little" if data.startswith(b"II") else "big"
    big = int.from_bytes(data[2:4], order) == BIG_TIFF
    # Position of the directory's offset, and the sizes of its count and of an entry.
    offset, count, entry = (8, 8, 20) if big else (4, 2, 12)
    start = int.from_bytes(data[offset : offset + (8 if big else 4)], order)
    entries = int.from_bytes(data[start : start + count], order)
    return start + count + entries * entry > len(data)


def _tiff_ends_early(data: bytes) -> bool:
    if tiff_directory_ends_early(data):
        return True
    try:
        tags = _tiff_tags(data)
        starts, lengths = (tags.get(273) or tags[324]), (tags.get(279) or tags[325])
        return any(start + length > len(data) for start, length in zip(starts, lengths, strict=True))
    except Exception:  # usually because the directory is after the end
        return True


def tiff_not_decoded(data: bytes) -> str | None:
    """Return what Pillow cannot decode in a complete TIFF: its compression or its kind of samples.

    Returns None if it supports both, so that the file must be damaged.
    """
    try:
        tags = _tiff_tags(data)
        if (compression := tags.get(259, 1)) not in TiffImagePlugin.COMPRESSION_INFO:
            return f"compression {compression}"
        bits, kind = max(tags.get(258, (1,))), _SAMPLE_FORMATS.get(tags.get(339, (1,))[0], "unknown")
        Image.OPEN["TIFF"][0](io.BytesIO(data), "")
    except SyntaxError as error:
        if "unknown pixel mode" not in str(error):
            return None
        return f"samples of {bits} bits ({kind}; photometric interpretation {tags.get(262, 0)})"
    except Exception:  # Pillow raises errors of many types on damaged files
        return None
    return None


# The first signature that matches counts. "AVIF" is here for builds of Pillow without that codec.
_SIGNATURES = tuple(
    (kind, re.compile(signature, re.S))
    for kind, signature in {
        "PDF": rb"%PDF-",
        "PostScript": rb"%!PS|\xc5\xd0\xd3\xc6",
        "HEIC": rb".{4}ftyp(hei|hev|mif1|msf1)",
        "AVIF": rb".{4}ftypavi",
        "a video (MP4)": rb".{4}ftyp",
        "a video (Matroska, WebM)": rb"\x1a\x45\xdf\xa3",
        "a video or audio (Ogg)": rb"OggS",
        "audio (MP3)": rb"ID3",
        "audio (WAV) or a video (AVI)": rb"RIFF.{4}(WAVE|AVI )",
        "JPEG XL": rb"\xff\x0a|\x00\x00\x00\x0cJXL ",
        "Photoshop": rb"8BPS",
        "GIMP's XCF": rb"gimp xcf",
        "DjVu": rb"AT&TFORM",
        "an icon": rb"\x00\x00\x01\x00|icns",
        "DDS": rb"DDS ",
        "WMF or EMF": rb"\xd7\xcd\xc6\x9a|\x01\x00\x00\x00.{4}\x00\x00\x00\x00",
        "a ZIP archive": rb"PK\x03\x04",
        "a gzip archive": rb"\x1f\x8b",
    }.items()
)


def describe(data: bytes) -> tuple[str, str] | None:
    """Return the `kind` and message of `actors.pictures.PictureError` for these bytes; None if not recognised.

    The kinds are `html` and `json`, which servers send instead of pictures, and `unsupported` for known formats that
    are not decoded.
    """
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or b"<html" in start:
        return "html", "received an HTML page instead of a picture"
    if start[:1] in (b"{", b"[") and start[1:].lstrip()[:1] in (b'"', b"{", b"[", b"}", b"]"):
        return "json", "received JSON instead of a picture"
    if b"<svg" in data[:4096].lower() and start.startswith(b"<"):
        return "unsupported", "SVG, which is not decoded"
    name = next((name for name, signature in _SIGNATURES if signature.match(data[:16])), None)
    return ("unsupported", f"{name}, which is not decoded") if name else None
