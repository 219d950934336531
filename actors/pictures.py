"""Decoding of pictures: from bytes to an upright RGB picture, or a `PictureError`. No other module decodes pictures.

Fetchers store the result of `render`; models get that of `decode_rgb`.
"""

import hashlib
import io
import math
import struct
import zlib
from typing import NamedTuple

import numpy as np
from PIL import Image

from actors.errors import SettingError, first_line
from actors.picture_formats import describe, ends_early, is_lossy, tiff_directory_ends_early, tiff_not_decoded

DEFAULT_MAX_PIXELS = 89_478_485  # Pillow's own bound: 256 MiB of RGB

# In the order in which they are tried. Omitted on purpose: formats that run other programs (EPS, WMF), documents (PDF),
# and formats without a signature, which accept any bytes (TGA).
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "AVIF", "JPEG2000", "PPM")
# BMP and PPM begin with two letters, as texts may; AVIF shares its container with HEIC, which Pillow cannot read.
_PLAIN = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "PPM")
MODERATE_PIXELS = 16_000_000  # 48 MB of RGB
MAX_ELONGATION = 1000  # Pillow allocates each row separately: at a width of one pixel, fifty times the pixels' memory
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
_ORIENTATION = 0x0112
_SWAPPING = (
    Image.Transpose.TRANSPOSE,
    Image.Transpose.ROTATE_270,
    Image.Transpose.TRANSVERSE,
    Image.Transpose.ROTATE_90,
)
_GREY = ("1", "L", "LA", "La", "I", "F", "I;16", "I;16L", "I;16B", "I;16N")
_PORTABLE_MODES = {
    "JPEG": ("RGB", "L"),
    "PNG": ("RGB", "L", "P", "1"),
    "WEBP": ("RGB",),
}  # modes that all readers display alike
JPEG_QUALITY = 95  # at full colour resolution, the loss is too small for models to notice
PNG_LEVEL = 3
# A progressive JPEG is decoded once per scan. Most have ten; 300 scans of 81 megapixels take a minute.
MAX_SCANNED_PIXELS = 30 * DEFAULT_MAX_PIXELS
_SCAN = b"\xff\xda"  # begins a scan; within one, 0xff is followed by 0
_PNG_DEPTH = 24  # the byte of a PNG with its bits per sample
_PHOTOMETRIC, _WHITE_IS_ZERO = 262, 0  # a tag of TIFF, and its value for negatives
_HASH_PIXELS, _HASH_BITS = 32, 8  # a side of what imagehash.phash transforms, and of the frequencies that it keeps
_HASH_SIDE = 3 * _HASH_PIXELS
_COSINES = 2 * np.cos(np.pi * np.outer(np.arange(_HASH_BITS), 2 * np.arange(_HASH_PIXELS) + 1) / (2 * _HASH_PIXELS))


class PictureError(Exception):
    """A picture that cannot be used.

    `kind` is `empty` (no bytes), `html` or `json` (received instead of a picture), `unsupported` (a known format that
    is not decoded: SVG, HEIC, videos, a TIFF with 64-bit samples; the message names it), `not_an_image` (an unknown
    format), `truncated` (the file ends early), `too_large` (more pixels than allowed) or `decode_failed` (damaged).
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    def __reduce__(self) -> tuple[type["PictureError"], tuple[str, str]]:
        return type(self), (self.kind, str(self))


class PictureFacts(NamedTuple):
    """Facts about a picture."""

    format: str  # Pillow's name, such as "JPEG", by the bytes
    width: int  # pixels as displayed: the EXIF orientation may swap width and height
    height: int
    sha256: str  # of the bytes, 64 hexadecimal digits
    phash: str  # of the flattened picture, 16 hexadecimal digits


class Rendered(NamedTuple):
    """A picture as it is stored: its bytes (None: the input's) and the facts about them."""

    data: bytes | None
    facts: PictureFacts


def decode_rgb(data: bytes, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> Image.Image:
    """Return the complete picture in RGB, 8 bits per channel, as it is displayed.

    The bytes determine the format. The EXIF orientation is applied, transparency becomes white, and the first frame of
    an animation is used. 16-bit grey is scaled to 8 bits; 32-bit grey is treated as 16-bit if its values fit, else
    scaled from its minimum to its maximum; floating-point grey is assumed to range from 0 to 1, or from 0 to 255, if
    its values fit, else scaled likewise. Colour profiles are not applied, as in open_clip.

    Args:
        data: the encoded picture.
        max_pixels: largest allowed width x height, compared with the header before decoding.

    Raises:
        PictureError: see its kinds. A truncated file is an error, never a picture with a grey part.
        ValueError: `max_pixels` is not positive.
    """
    picture = _open_checked(data, max_pixels=max_pixels)
    try:
        _load(picture, data)
        return _rotate(_flatten(picture), _rotation(picture))
    except Exception as error:  # Pillow's decoders raise errors of nearly all types on damaged files
        raise _classify(error, data=data, kind=picture.format or "") from error


def needs_little(data: bytes) -> bool:
    """Return whether decoding takes little memory and time: a common format of moderate size, or a refused header.

    Other formats have compressed parts, directories or tiles whose size the number of pixels does not reveal.
    """
    try:
        picture = _open_checked(data, max_pixels=MODERATE_PIXELS)
    except PictureError as error:
        return error.kind != "too_large"
    return picture.format in _PLAIN and min(picture.size) * MAX_ELONGATION >= max(picture.size)


def inspect(data: bytes, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> PictureFacts:
    """Decode a picture completely, so that damage is detected, and return the facts about it.

    Raises:
        PictureError, ValueError: as for `decode_rgb`.
    """
    picture = _open_checked(data, max_pixels=max_pixels)
    kind = picture.format or ""
    try:
        return _facts_of_unchanged(picture, kind, data)
    except Exception as error:  # Pillow's decoders raise errors of nearly all types on damaged files
        raise _classify(error, data=data, kind=kind) from error


def render(data: bytes, *, width: int | None = None, max_pixels: int = DEFAULT_MAX_PIXELS) -> Rendered:
    """Decode a picture once and return it as it is stored.

    With `width` None its bytes are kept. Otherwise the result is at most `width` pixels wide (bicubic, with
    antialiasing; never enlarged), upright, 8 bits, on white, and a single frame. A JPEG, PNG or WebP that already
    satisfies this keeps its bytes. Others are re-encoded: lossy input (JPEG, AVIF, lossy WebP, irreversible JPEG 2000)
    as JPEG of quality 95 with full colour resolution, lossless input as PNG. AVIF counts as lossy because its header
    does not say.

    Raises:
        PictureError, ValueError: as for `decode_rgb`; also ValueError for a `width` below 1.
    """
    if width is None:
        return Rendered(None, inspect(data, max_pixels=max_pixels))
    if width < 1:
        raise SettingError("must be at least 1", "width", width)
    picture = _open_checked(data, max_pixels=max_pixels)
    kind = picture.format or ""
    try:
        turn = _rotation(picture)
        plain = turn is None and picture.mode in _PORTABLE_MODES.get(kind, ()) and getattr(picture, "n_frames", 1) == 1
        grey = picture.mode in _GREY
        wide, high = _size(picture, turn)
        if plain and kind == "JPEG" and wide <= width:
            return Rendered(None, _facts_of_unchanged(picture, kind, data))
        if wide > width:
            _draft(picture, 2 * width / wide)
        _load(picture, data)
        flat = _rotate(_flatten(picture), turn)
        if wide > width:
            flat = flat.resize((width, max(1, round(high * width / wide))), Image.Resampling.BICUBIC)
        elif plain and not picture.has_transparency_data:
            return Rendered(None, _facts(kind, flat.size, flat, data))
        return _encode(flat.convert("L") if grey else flat, "JPEG" if is_lossy(kind, data) else "PNG")
    except Exception as error:  # Pillow's decoders raise errors of nearly all types on damaged files
        raise _classify(error, data=data, kind=kind) from error


def _draft(picture: Image.Image, share: float) -> None:
    """Make a JPEG decode at 1/2, 1/4 or 1/8 of its size, if that is at least `share` of it."""
    picture.draft(None, (math.ceil(picture.width * share), math.ceil(picture.height * share)))


def _encode(picture: Image.Image, form: str) -> Rendered:
    out = io.BytesIO()
    if form == "JPEG":
        picture.save(out, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    else:
        picture.save(out, "PNG", compress_level=PNG_LEVEL)
    data = out.getvalue()
    return Rendered(data, _facts(form, picture.size, picture, data))


def _facts_of_unchanged(picture: Image.Image, kind: str, data: bytes) -> PictureFacts:
    """Return the facts about a picture whose bytes are kept.

    A JPEG is read completely, so that damage is detected, but decoded in grey at the size that its hash needs, in half
    the time.
    """
    turn = _rotation(picture)
    size = _size(picture, turn)
    picture.draft("L", (_HASH_SIDE, _HASH_SIDE))
    _load(picture, data)
    return _facts(kind, size, _rotate(_flatten(picture), turn), data)


def _facts(kind: str, size: tuple[int, int], picture: Image.Image, data: bytes) -> PictureFacts:
    return PictureFacts(kind, *size, hashlib.sha256(data).hexdigest(), _phash(picture))


def _phash(picture: Image.Image) -> str:
    """Return imagehash.phash of the picture, averaged down to about 96 pixels a side, which is faster.

    The library would import scipy's transforms in each decoding process, which takes as long as hundreds of pictures.
    Rounding makes frequencies that are equal but for the order of the additions equal on every processor.
    """
    step = min(picture.size) // _HASH_SIDE
    grey = (picture.reduce(step) if step > 1 else picture).convert("L")
    pixels = np.asarray(grey.resize((_HASH_PIXELS, _HASH_PIXELS), Image.Resampling.LANCZOS), np.float64)
    frequencies = (_COSINES @ pixels @ _COSINES.T).round(6)
    bits = frequencies > np.median(frequencies)
    return np.packbits(bits).tobytes().hex()


def _open_checked(data: bytes, *, max_pixels: int) -> Image.Image:
    """Open the picture and check it, reading only its header."""
    if max_pixels < 1:
        raise SettingError("must be at least 1", "max_pixels", max_pixels)
    if not data:
        raise PictureError("empty", "no bytes")
    picture = _open(data)
    width, height = picture.size
    if width * height > max_pixels:
        raise PictureError("too_large", f"{width} x {height} pixels, and {max_pixels} are allowed")
    if picture.format == "JPEG" and (scans := data.count(_SCAN)) * width * height > MAX_SCANNED_PIXELS:
        raise PictureError("too_large", f"{scans} scans of {width} x {height} pixels take too long to decode")
    return picture


def _open(data: bytes) -> Image.Image:
    """Read the header with Pillow's plugins, since `Image.open` would apply a global limit."""
    Image.init()
    start = data[:16].ljust(16, b"\0")  # some plugins index it
    for name in _FORMATS:
        factory, accept = Image.OPEN.get(name, (None, None))
        if (
            factory is None or accept is None or accept(start) is not True
        ):  # a string: Pillow was built without that codec
            continue
        try:
            picture = factory(io.BytesIO(data), "")
            colour = picture.info.get("transparency")
            if name == "PNG" and data[_PNG_DEPTH] == 16 and isinstance(colour, tuple):
                # Pillow keeps the high byte of each sample, and compares it with the whole value.
                picture.info["transparency"] = tuple(sample >> 8 for sample in colour)
            return picture
        except Exception as error:
            classified = _classify(error, data=data, kind=name)
            if name in _WEAK_SIGNATURES and classified.kind == "decode_failed" and start[4:12] != b"ftypavif":
                continue
            raise classified from error
    kind, message = describe(data) or ("not_an_image", f"the bytes are in none of the formats {', '.join(_FORMATS)}")
    raise PictureError(kind, message)


def _load(picture: Image.Image, data: bytes) -> None:
    picture.load()
    if picture.format == "PNG":
        _check_png(data)
    elif picture.format == "TIFF" and tiff_directory_ends_early(data):
        raise EOFError("its directory is truncated")


def _check_png(data: bytes) -> None:
    """Raise if a critical chunk is damaged, as browsers do; Pillow would return the rows before it, the rest black."""
    at, view = 8, memoryview(data)
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + length
        if kind[:1].isupper() and zlib.crc32(view[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            if end + 4 <= len(data):
                raise SyntaxError(f"wrong checksum in chunk {kind.decode('latin-1')}")
            return  # truncated, which the decoder reports
        at = end + 4


def _classify(error: Exception, *, data: bytes, kind: str) -> PictureError:
    text = first_line(error)[:200]
    if isinstance(error, MemoryError):
        return PictureError("too_large", "decoding takes more memory than allowed")
    if isinstance(error, Image.DecompressionBombError | Image.DecompressionBombWarning):
        return PictureError("too_large", text)
    truncated = isinstance(error, EOFError) or "truncated" in text.lower() or "EOF" in text
    if truncated or ends_early(data, kind):
        return PictureError("truncated", f"the {kind} file ends early ({text})")
    if kind == "TIFF" and (feature := tiff_not_decoded(data)):
        return PictureError("unsupported", f"TIFF with {feature}, which is not decoded")
    return PictureError("decode_failed", f"the {kind} file cannot be decoded ({type(error).__name__}: {text})")


def _flatten(picture: Image.Image) -> Image.Image:
    """Return the loaded picture as RGB, white where it is transparent."""
    if picture.mode.startswith("I") or picture.mode == "F":
        return _from_wide_grey(picture)
    if not picture.has_transparency_data:
        return picture.convert("RGB")
    if picture.mode == "La":  # Pillow cannot convert premultiplied grey to RGBA
        picture = picture.convert("LA")
    coloured = picture.convert("RGBA")
    flat = Image.new("RGB", picture.size, "white")
    flat.paste(coloured, mask=coloured.getchannel("A"))
    return flat


def _from_wide_grey(picture: Image.Image) -> Image.Image:
    """Convert grey of 16 bits, 32 bits or in floating point to RGB; Pillow's own conversion would clip it at 255."""
    values = np.nan_to_num(np.asarray(picture).astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    if picture.mode == "F":
        ranges: tuple[float, ...] = (1.0, 255.0)
    else:
        ranges = (65535.0,)
    white = next((top for top in ranges if low >= 0 and high <= top), None)
    scaled = np.nan_to_num(values / white if white else (values - low) / ((high - low) or 1.0))
    if _is_negative(picture):  # of 8 bits, Pillow inverts them itself
        scaled = 1 - scaled
    grey = np.rint(scaled * 255).astype(np.uint8)
    if isinstance(transparent := picture.info.get("transparency"), int):
        grey[values == transparent] = 255
    return Image.fromarray(grey).convert("RGB")


def _is_negative(picture: Image.Image) -> bool:
    """Return whether a picture is a TIFF in which 0 is white."""
    return getattr(picture, "tag_v2", {}).get(_PHOTOMETRIC) == _WHITE_IS_ZERO


def _rotation(picture: Image.Image) -> Image.Transpose | None:
    if picture.format == "TIFF":  # Pillow rotates these when loading
        return None
    try:
        return _UPRIGHT.get(picture.getexif().get(_ORIENTATION, 1))
    except Exception:  # unreadable EXIF does not make the picture unreadable
        return None


def _rotate(picture: Image.Image, turn: Image.Transpose | None) -> Image.Image:
    return picture if turn is None else picture.transpose(turn)


def _size(picture: Image.Image, turn: Image.Transpose | None) -> tuple[int, int]:
    """Return width and height as displayed."""
    return picture.size if turn not in _SWAPPING else picture.size[::-1]
