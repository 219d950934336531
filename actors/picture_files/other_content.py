"""Recognition, by their first bytes, of formats and documents that are not decoded as pictures."""

import re

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
