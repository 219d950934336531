"""What all pages share: their style, attributes that name a region, and formats of numbers, shares and addresses."""

import posixpath
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from actors.fetching.signed_urls import gives_access

STYLE = Path(__file__).with_name("page.css")  # colours of light and dark, type, tables, cards, blurred pictures
# Attributes of items, and questions, that indicate the region of a picture; the first one with a value is used.
REGIONS = ("region", "sub_region", "country", "target", "category")
# Characters that HTML does not allow, and lone surrogates, which UTF-8 cannot encode.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def number(value: float | None, decimals: int = 0) -> str:
    """Return a number with thousands separators and a minus sign (37,800,000; −3.14), or an em dash for None."""
    return "—" if value is None else f"{value:,.{decimals}f}".replace("-", "−")


def percent(share: float | None) -> str:
    """Return a share in [0, 1] as a percentage with one decimal, such as 12.5%.

    Only a share of 1 becomes 100.0%, and only a share of 0 becomes 0.0%.
    """
    if share is None:
        return "—"
    if 0 < share < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= share < 1 else f"{share:.1%}"


def in_words(name: str) -> str:
    """Return the name of a question, attribute or status in words, such as time period, and sub-region as in M49."""
    return name.replace("sub_region", "sub-region").replace("_", " ")


def link(url: str | None) -> str | None:
    """Return `url` if it is http or https, with a host and without white space or credentials; else None."""
    if not url or any(ord(c) <= 0x20 or ord(c) == 0x7F for c in url):
        return None
    try:
        parts = urlsplit(url)
        secret = gives_access(url)
    except ValueError:
        return None
    return url if parts.scheme in {"http", "https"} and parts.hostname and not secret else None


def writable(html: str) -> str:
    """Return a page or figure whose characters HTML, XML and UTF-8 allow; others are replaced."""
    return _UNWRITABLE.sub("\ufffd", html)


def without_shared_folders(uris: Sequence[str]) -> list[str]:
    """Return local paths below the folder around all of them: a page that is sent to others does not show a disk."""
    local = [uri for uri in uris if uri.startswith("/")]
    around = len(posixpath.dirname(posixpath.commonpath(local)).rstrip("/")) + 1 if local else 0
    return [uri[around:] if uri.startswith("/") else uri for uri in uris]


def without_folders(place: str) -> str:
    """Return a local path, also after a kind (`local-dir:`), without its folders; a URL or S3 URI as it is."""
    kind, colon, path = place.rpartition(":")
    is_local = path.startswith(("/", ".", "~")) and "://" not in place
    return f"{kind}{colon}{posixpath.basename(path.rstrip('/'))}" if is_local else place
