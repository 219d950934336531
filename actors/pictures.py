"""The only place where pictures are decoded: bytes in, an upright RGB picture or a `PictureError` out.

`render` is what the fetcher stores, `decode_rgb` what models take.
"""

import hashlib
import io
import math
import re
import struct
import zlib
from typing import NamedTuple

import numpy as np
from PIL import Image

from actors.errors import first_line
from actors.fetching.containers import ends_early, is_lossy, tiff_directory_ends_early, tiff_not_decoded

DEFAULT_MAX_PIXELS = 89_478_485  # Pillow's own bound: 256 MiB of RGB

# In the order they are tried. Left out on purpose: formats that call other programs (EPS, WMF), documents (PDF),
# and formats without a signature, which would take any bytes for theirs (TGA).
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM")
# BMP and PPM begin with two letters, as a text may; AVIF shares its container with HEIC, which Pillow cannot read.
_WEAK_SIGNATURES = ("BMP", "PPM", "AVIF")
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# Known, and not decoded: told apart from bytes that nobody knows.
_UNSUPPORTED = tuple(
    (kind, re.compile(signature, re.S))
    for kind, signature in {
        "PDF": rb"%PDF-",
        "PostScript": rb"%!PS|\xc5\xd0\xd3\xc6",
        "HEIC": rb".{4}ftyp(hei|hev|mif1|msf1)",
        "AVIF": rb".{4}ftypavi",
        "a film (MP4)": rb".{4}ftyp",
        "a film (Matroska, WebM)": rb"\x1a\x45\xdf\xa3",
        "a film or sound (Ogg)": rb"OggS",
        "a sound (MP3)": rb"ID3",
        "a sound (WAV) or film (AVI)": rb"RIFF.{4}(WAVE|AVI )",
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
_ORIENTATION = 0x0112
_ACROSS = (Image.Transpose.TRANSPOSE, Image.Transpose.ROTATE_270, Image.Transpose.TRANSVERSE, Image.Transpose.ROTATE_90)
_GREY = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")
_TRAVELS = {"JPEG": ("RGB", "L"), "PNG": ("RGB", "L", "P", "1"), "WEBP": ("RGB",)}  # what every reader shows alike
JPEG_QUALITY = 95  # with full colour resolution: a second lossy step that models do not see
PNG_LEVEL = 3
_HASH_SIDE = 96  # pixels: three times what imagehash.phash looks at


class PictureError(Exception):
    """A picture that cannot be used.

    `kind` says why: `empty` (no bytes), `html` or `json` (a page or an answer of a program in its place),
    `unsupported` (of a kind that is known and not decoded: SVG, HEIC, a film, a TIFF with 64-bit samples; the message
    names it), `not_an_image` (of no known kind), `truncated` (the file ends early), `too_large` (more pixels than
    allowed) or `decode_failed` (damaged).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type["PictureError"], tuple[str, str]]:
        return type(self), (self.kind, str(self))


class PictureFacts(NamedTuple):
    """What a picture's bytes say of it."""

    format: str  # Pillow's word, "JPEG", found in the bytes
    width: int  # pixels as displayed: after the EXIF orientation, which may exchange the two
    height: int
    sha256: str  # of the bytes, 64 hexadecimal digits
    phash: str  # of the flattened picture, 16 hexadecimal digits


class Rendered(NamedTuple):
    """A picture as it is stored: its bytes (None: those that were given) and what they say."""

    data: bytes | None
    facts: PictureFacts


def decode_rgb(data: bytes, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> Image.Image:
    """Decode a whole picture to RGB, 8 bits a channel, as it is meant to be seen.

    The format is found in the bytes. The EXIF orientation is applied; whatever is transparent is laid on white; of
    an animation the first frame is taken. 16-bit grey is scaled to 8 bits; 32-bit grey counts as 16-bit where it
    fits and is stretched from its lowest to its highest value where it does not; floating-point grey counts as
    0 to 1, else as 0 to 255, else is stretched. Colour profiles are not applied, as in open_clip.

    Args:
        data: the encoded picture.
        max_pixels: width x height allowed, looked up in the header before anything is decoded.

    Raises:
        PictureError: see its kinds. A file that ends early is never filled up with grey.
        ValueError: `max_pixels` is not positive.
    """
    return _decode(data, max_pixels=max_pixels)[1]


def inspect(data: bytes, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> PictureFacts:
    """Decode a picture wholly, so that damage is found, and return what there is to know about it.

    Raises:
        PictureError, ValueError: as `decode_rgb`.
    """
    picture = _opened(data, max_pixels=max_pixels)
    found = picture.format or ""
    try:
        return _as_it_is(picture, found, data)
    except Exception as error:  # Pillow's decoders raise nearly anything on damaged files
        raise _explained(error, data=data, found=found) from error


def render(data: bytes, *, width: int | None = None, max_pixels: int = DEFAULT_MAX_PIXELS) -> Rendered:
    """Decode a picture once, to what is stored.

    With `width` None the bytes stay as they are. Otherwise the picture is at most `width` pixels wide (bicubic, with
    antialiasing; never enlarged), upright, 8 bits a channel, on white, its first frame only; a JPEG, PNG or WebP that
    is all that keeps its bytes. Anything else is encoded again: lossy input (JPEG, AVIF, lossy WebP, irreversible
    JPEG 2000) as JPEG of quality 95 with full colour resolution, everything else as PNG. AVIF counts as lossy because
    its header does not tell.

    Raises:
        PictureError, ValueError: as `decode_rgb`; ValueError also for a `width` below 1.
    """
    if width is None:
        return Rendered(None, inspect(data, max_pixels=max_pixels))
    if width < 1:
        raise ValueError(f"width is {width}; it must be at least 1")
    picture = _opened(data, max_pixels=max_pixels)
    found = picture.format or ""
    try:
        turn = _turn(picture)
        plain = turn is None and picture.mode in _TRAVELS.get(found, ()) and getattr(picture, "n_frames", 1) == 1
        grey = picture.mode in _GREY
        wide, high = _size(picture, turn)
        if plain and found == "JPEG" and wide <= width:
            return Rendered(None, _as_it_is(picture, found, data))
        if wide > width:
            _draft(picture, 2 * width / wide)
        _load(picture, data)
        flat = _turned(_flatten(picture), turn)
        if wide > width:
            flat = flat.resize((width, max(1, round(high * width / wide))), Image.Resampling.BICUBIC)
        elif plain and not picture.has_transparency_data:
            return Rendered(None, _facts(found, flat.size, flat, data))
        return _encoded(flat.convert("L") if grey else flat, "JPEG" if is_lossy(found, data) else "PNG")
    except Exception as error:  # Pillow's decoders raise nearly anything on damaged files
        raise _explained(error, data=data, found=found) from error


def _draft(picture: Image.Image, share: float) -> None:
    """Let a JPEG be decoded at a half, a quarter or an eighth, if that leaves `share` of its size."""
    picture.draft(None, (math.ceil(picture.width * share), math.ceil(picture.height * share)))


def _encoded(picture: Image.Image, form: str) -> Rendered:
    out = io.BytesIO()
    if form == "JPEG":
        picture.save(out, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    else:
        picture.save(out, "PNG", compress_level=PNG_LEVEL)
    data = out.getvalue()
    return Rendered(data, _facts(form, picture.size, picture, data))


def _as_it_is(picture: Image.Image, found: str, data: bytes) -> PictureFacts:
    """Facts of a picture whose bytes are kept: a JPEG is read to its last bit, so that damage is found, but made only
    grey and only as large as its hash needs, which takes half the time."""
    turn = _turn(picture)
    size = _size(picture, turn)
    picture.draft("L", (_HASH_SIDE, _HASH_SIDE))
    _load(picture, data)
    return _facts(found, size, _turned(_flatten(picture), turn), data)


def _facts(found: str, size: tuple[int, int], picture: Image.Image, data: bytes) -> PictureFacts:
    return PictureFacts(found, *size, hashlib.sha256(data).hexdigest(), _phash(picture))


def _phash(picture: Image.Image) -> str:
    """imagehash.phash, of the picture averaged down to some 96 pixels a side first: that is most of its time."""
    import imagehash

    step = min(picture.size) // _HASH_SIDE
    return str(imagehash.phash(picture.reduce(step) if step > 1 else picture))


def _decode(data: bytes, *, max_pixels: int) -> tuple[str, Image.Image]:
    picture = _opened(data, max_pixels=max_pixels)
    found = picture.format or ""
    try:
        _load(picture, data)
        return found, _turned(_flatten(picture), _turn(picture))
    except Exception as error:  # Pillow's decoders raise nearly anything on damaged files
        raise _explained(error, data=data, found=found) from error


def _opened(data: bytes, *, max_pixels: int) -> Image.Image:
    """The picture with only its header read."""
    if max_pixels < 1:
        raise ValueError(f"max_pixels is {max_pixels}; it must be at least 1")
    if not data:
        raise PictureError("empty", "there are no bytes")
    picture = _open(data)
    width, height = picture.size
    if width * height > max_pixels:
        raise PictureError("too_large", f"{width} x {height} pixels, and {max_pixels} are allowed")
    return picture


def _open(data: bytes) -> Image.Image:
    """Read the header with the plugins themselves: `Image.open` has a bound of its own, in a global variable."""
    Image.init()
    start = data[:16].ljust(16, b"\0")  # some plugins index into it
    for name in _FORMATS:
        factory, accept = Image.OPEN.get(name, (None, None))
        if factory is None or accept is None or accept(start) is not True:  # a word: built without that codec
            continue
        try:
            return factory(io.BytesIO(data), "")
        except Exception as error:
            explained = _explained(error, data=data, found=name)
            if name in _WEAK_SIGNATURES and explained.kind == "decode_failed" and start[4:12] != b"ftypavif":
                continue
            raise explained from error
    raise _instead(data) or PictureError("not_an_image", f"the bytes are in none of the formats {', '.join(_FORMATS)}")


def _instead(data: bytes) -> PictureError | None:
    """What servers send in a picture's place, by its first bytes."""
    start = data[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or b"<html" in start:
        return PictureError("html", "a page of HTML came in the picture's place")
    if start[:1] in (b"{", b"[") and start[1:].lstrip()[:1] in (b'"', b"{", b"[", b"}", b"]"):
        return PictureError("json", "JSON came in the picture's place")
    if b"<svg" in data[:4096].lower() and start.startswith(b"<"):
        return PictureError("unsupported", "SVG, which is not decoded")
    kind = next((kind for kind, signature in _UNSUPPORTED if signature.match(data[:16])), None)
    return PictureError("unsupported", f"{kind}, which is not decoded") if kind else None


def _load(picture: Image.Image, data: bytes) -> None:
    picture.load()
    if picture.format == "PNG":
        _check_png(data)
    elif picture.format == "TIFF" and tiff_directory_ends_early(data):
        raise EOFError("its directory is cut off")


def _check_png(data: bytes) -> None:
    """Refuse a damaged chunk that matters, as browsers do: Pillow shows what came before it, on black."""
    at, view = 8, memoryview(data)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + length
        if kind[:1].isupper() and zlib.crc32(view[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            if end + 4 <= len(data):
                raise SyntaxError(f"a wrong checksum in chunk {kind.decode('latin-1')}")
            return  # cut off, which the decoder has found
        at = end + 4


def _explained(error: Exception, *, data: bytes, found: str) -> PictureError:
    said = first_line(error)[:200]
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return PictureError("too_large", said)
    says_so = isinstance(error, EOFError) or "truncated" in said.lower() or "EOF" in said
    if says_so or ends_early(data, found):
        return PictureError("truncated", f"the {found} file ends early ({said})")
    if found == "TIFF" and (what := tiff_not_decoded(data)):
        return PictureError("unsupported", f"TIFF with {what}, which is not decoded")
    return PictureError("decode_failed", f"the {found} file cannot be decoded ({type(error).__name__}: {said})")


def _flatten(picture: Image.Image) -> Image.Image:
    """The loaded picture as RGB, on white where it is transparent."""
    if picture.mode.startswith("I") or picture.mode == "F":
        return _from_wide_grey(picture)
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    if picture.mode == "La":  # premultiplied grey has no direct way to RGBA
        picture = picture.convert("LA")
    coloured = picture.convert("RGBA")
    flat = Image.new("RGB", picture.size, "white")
    flat.paste(coloured, mask=coloured.getchannel("A"))
    return flat


def _from_wide_grey(picture: Image.Image) -> Image.Image:
    """Grey of 16 or 32 bits or in floating point, which Pillow's own conversion would clip at 255."""
    values = np.nan_to_num(np.asarray(picture).astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    if picture.mode == "F":
        ranges: tuple[float, ...] = (1.0, 255.0)
    else:
        ranges = (65535.0,)
    white = next((top for top in ranges if low >= 0 and high <= top), None)
    scaled = values / white if white else (values - low) / ((high - low) or 1.0)
    grey = np.rint(np.nan_to_num(scaled) * 255).astype(np.uint8)
    if isinstance(transparent := picture.info.get("transparency"), int):
        grey[values == transparent] = 255
    return Image.fromarray(grey).convert("RGB")


def _turn(picture: Image.Image) -> Image.Transpose | None:
    if picture.format == "TIFF":  # Pillow turns these as it loads them
        return None
    try:
        return _UPRIGHT.get(picture.getexif().get(_ORIENTATION, 1))
    except Exception:  # unreadable EXIF says nothing about the picture itself
        return None


def _turned(picture: Image.Image, turn: Image.Transpose | None) -> Image.Image:
    return picture if turn is None else picture.transpose(turn)


def _size(picture: Image.Image, turn: Image.Transpose | None) -> tuple[int, int]:
    """Width and height as displayed."""
    return picture.size if turn not in _ACROSS else picture.size[::-1]
