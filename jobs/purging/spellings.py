"""Other spellings in which texts, file names and binary data may name a picture.

A text is also read without the escapes of JSON, HTML, XML, YAML and URLs (up to twice encoded), without invisible
characters, and as Latin-1 where it is not UTF-8. Ids count in either case and next to underscores. Addresses count
within others, with any scheme. File names count if they are distinctive: all names of files of Wikimedia, and others
of at least `LONG` characters, or of `LONG_WITH_DIGIT` with a digit.
"""

import html
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

from actors.fetching import wikimedia
from actors.fetching.wikimedia import NoThumbnailError

LONG, LONG_WITH_DIGIT, LONG_OF_WIKIMEDIA = 16, 10, 6  # characters of a file's name without its suffix
ID_IN_TEXT = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{32}(?![0-9a-fA-F])")
_INVISIBLE_SIGNS = "\u00ad\u200b-\u200f\u2060\ufeff"
# Signs of other spellings, for Python and pyarrow: escapes, invisible characters, an address in another, other schemes
ESCAPED = (
    r"(?i)\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|\\/|&#?[0-9a-z]{2,8};|''|[" + _INVISIBLE_SIGNS + "]"
    r"|%(?:25)*2f|\S//\S*//|https?:/[^/]|ftps?:"
)
_ESCAPED = re.compile(ESCAPED)
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_INVISIBLE = re.compile(f"[{_INVISIBLE_SIGNS}]")
_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")
_BYTES = re.compile("[\udc80-\udcff]")  # of a file that is not UTF-8
_ONE_SLASH = re.compile(r"(?i)\b(https?|ftp):/(?=[^/\s])")  # as the Wayback Machine writes an address in another one
_ADDRESS = re.compile(r"(?i)(?:(https?:)|ftps?:)?//")
_DECODED = 3  # times that percent signs are decoded
_PICTURE_SUFFIX = re.compile(r"\.(?:jpe?g|png|gif|webp|tiff?|bmp|avif|jp2|ppm|svg|djvu|pdf)\b")
_END = 8  # characters at the end of a name by which it is found in a text; no name is shorter
_WIDTH = re.compile(r"^\d+px-")
# Printable runs of binary data, such as the comment of a picture.
_PRINTABLE = re.compile(rb"(?:[\x20-\x7e]|[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}){12,}")


def plain_texts(text: str) -> Iterator[str]:
    """Yield the other spellings of a text, each once."""
    seen = {text}
    for plain in _decoded(text):
        if plain not in seen:
            seen.add(plain)
            yield plain


def is_escaped(text: str) -> bool:
    """Return whether `plain_texts` may have a spelling of an id or address that the text itself does not have."""
    return _ESCAPED.search(text) is not None


def _decoded(text: str) -> Iterator[str]:
    text = _BYTES.sub(lambda match: chr(ord(match[0]) - 0xDC00), text)
    text = _UNICODE.sub(lambda match: chr(int(match[1] or match[2], 16)), text).replace("\\/", "/")
    text = _INVISIBLE.sub("", html.unescape(html.unescape(text))).replace("''", "'")
    text = _ONE_SLASH.sub(r"\1://", text)
    yield text
    yield _apart(text)
    for _ in range(_DECODED):
        if not _PERCENT.search(text):
            break
        decoded = unquote(text, errors="surrogateescape")
        text = _ONE_SLASH.sub(r"\1://", _BYTES.sub(lambda match: chr(ord(match[0]) - 0xDC00), decoded))
        yield text
        yield _apart(text)


def _apart(text: str) -> str:
    """Return a text with a space before each address, also before one within another, and without other schemes."""
    return _ADDRESS.sub(lambda match: f" {match[1] or ''}//", text) if "//" in text else text


def printable_runs(data: bytes) -> Iterator[str]:
    """Yield the runs of at least 12 printable characters of binary data."""
    for match in _PRINTABLE.finditer(data):
        yield match[0].decode("utf-8", "replace")


class FileNames:
    """The distinctive names of the files at some addresses, found in texts and in names of other files."""

    def __init__(self, urls: Iterable[str]) -> None:
        self._names = {name for url in urls if (name := _file_name(url))}
        self._by_end: dict[str, set[str]] = defaultdict(set)
        for name in self._names:
            self._by_end[name[-_END:]].add(name)

    def __bool__(self) -> bool:
        return bool(self._names)

    def in_text(self, text: str) -> bool:
        """Return whether a text has one of the names, with spaces or underscores."""
        folded = _folded(text)
        return any(
            folded.endswith(name, 0, match.end())
            for match in _PICTURE_SUFFIX.finditer(folded)
            for name in self._by_end.get(folded[max(0, match.end() - _END) : match.end()], ())
        )

    def is_name(self, name: str) -> bool:
        """Return whether this is one of the names, perhaps after the width of a thumbnail."""
        folded = _folded(name)
        return folded in self._names or _WIDTH.sub("", folded) in self._names


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).replace(" ", "_").casefold()


def _file_name(url: str) -> str:
    """Return the distinctive name of the file at an address; empty if it has none."""
    try:
        name, least = wikimedia.parse(url).name, LONG_OF_WIKIMEDIA
    except (NoThumbnailError, ValueError):
        try:
            name = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
        except ValueError:
            return ""
        least = LONG_WITH_DIGIT if any(map(str.isdigit, name)) else LONG
    stem, dot, _ = name.rpartition(".")
    return _folded(name) if dot and len(stem) >= least else ""
