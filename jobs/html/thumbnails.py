"""Small copies of pictures for a page."""

import io
from dataclasses import dataclass

from PIL import Image

from actors.fetching.decoders import PictureReader
from actors.pictures import PictureError

SIDE = 320  # pixels: cards are at most 320 CSS pixels wide
_READER = PictureReader()  # starts its process when a picture first needs it
QUALITY = 72  # of WebP: about 12 kB per picture, so that a page with 500 has 8 MB


@dataclass(frozen=True)
class Thumbnail:
    """An encoded picture, its MIME type and its size in pixels."""

    data: bytes
    mime: str
    width: int
    height: int


def thumbnail(data: bytes, *, side: int = SIDE) -> tuple[Thumbnail | None, str | None]:
    """Return a WebP copy of an encoded picture, at most `side` pixels wide and high and never larger than the picture.

    The copy has no metadata of the original, such as location, camera or comments.

    Returns:
        (thumbnail, None), or (None, the kind of error) if the picture cannot be decoded.
    """
    try:
        picture = _READER(data)
    except PictureError as error:
        return None, error.kind
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.save(out, "WEBP", quality=QUALITY, exif=b"", xmp=b"", icc_profile=b"")
    return Thumbnail(out.getvalue(), "image/webp", picture.width, picture.height), None
