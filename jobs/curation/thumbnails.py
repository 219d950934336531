"""Whether Wikimedia serves a resized picture of a URL: the one question `curate` asks about URLs."""

import re
from urllib.parse import unquote, urlsplit

HOST = "upload.wikimedia.org"
# /PROJECT/WIKI/h/hh/NAME: a file lies in folders named after the first digits of its name's MD5, so the second
# begins with the first. `thumb/` stands before them where the URL is a resized picture's already. Older versions of
# a file (`archive/`) and what is drawn on demand (formulas, scores, maps) lie elsewhere and have no such form.
_PATH = re.compile(r"/[a-z]+/[a-z0-9-]+/(?:thumb/)?([0-9a-f])/\1[0-9a-f]/([^/]+)(?:/[^/]+)?", re.I)
# Still pictures that MediaWiki scales (to JPEG or PNG; of documents the first page). Sound, film, 3-D models, text
# and data have none; of a film there are frames, which are not the picture that was asked for.
_SCALED = frozenset("jpg jpeg jpe png apng gif svg tif tiff webp xcf djvu pdf".split())
_SCALED_TYPES = ("image/", "application/pdf")


def has_thumbnail(url: str, mime_type: str | None = None) -> bool | None:
    """Whether `url` is a file of Wikimedia's that can be asked for at another width; None where it is not theirs.

    The file's extension decides; a MIME type, where one is given, may only take away. Nothing is fetched.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.hostname != HOST:
        return None
    if not (found := _PATH.fullmatch(parts.path)):
        return False
    stem, dot, extension = unquote(found.group(2)).rpartition(".")
    named = bool(stem and dot) and extension.lower() in _SCALED
    return named and (not mime_type or mime_type.lower().startswith(_SCALED_TYPES))
