"""Wikimedia's addresses of files: which file a URL means, and the URL of its thumbnail. Pure, nothing is fetched.

Rules as in MediaWiki's source (File::generateThumbName, FileRepo::nameForThumb, the media handlers' getThumbType)
and Wikimedia's configuration of 2026: thumbnails are served in a few widths only.
"""

import hashlib
import re
import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from actors.numbers import whole_number

SERVED_WIDTHS = (20, 40, 60, 120, 250, 330, 500, 960, 1280, 1920, 3840)
ORIGINALS, THUMBNAILS = "upload.wikimedia.org", "thumb.wikimedia.org"
COMMONS = ("commons.wikimedia.org", "commons.m.wikimedia.org")
DOMAINS = (
    "wikimedia.org wikipedia.org wiktionary.org wikibooks.org wikinews.org wikiquote.org wikisource.org "
    "wikiversity.org wikivoyage.org wikidata.org mediawiki.org"
).split()
LONG_NAME = 160  # bytes: a longer name is `thumbnail.<ext>` in its thumbnails' names (abbrvThreshold)
PICTURES = ("jpg", "jpeg", "jpe", "png", "apng", "gif", "webp", "bmp", "tif", "tiff")  # decodable as they are
SCALABLE = ("svg", "stl")  # their nominal width bounds nothing

Form = Literal["served", "paper"]

_AS_PNG = ("svg", "webp", "bmp", "xcf", "stl")
_TIFF, _PAGED, _VIDEO = ("tif", "tiff"), ("pdf", "djvu", "djv"), ("webm", "ogv", "mpg", "mpeg")
_PICTURE_TYPES = ("image/", "application/pdf")
_SOUND = ("ogg", "oga", "opus", "mp3", "wav", "flac", "mid", "midi")
_THUMB_NAME = re.compile(
    r"(?:loss(?:y|less)-)?(?:page(?P<page>\d+)-)?(?:lang(?P<lang>[a-z][\w-]*?)-)?(?:qlow-)?\d+px-"
    r"(?:seek=(?P<seek>[\d.]+)-)?"
)
_ARCHIVED = re.compile(r"(?P<stamp>\d{14})!(?P<name>.+)", re.S)
_FILE_PAGE = re.compile(r"(?:File|Image):(?P<name>.+)", re.I | re.S)
_FILE_PATH = re.compile(r"Special:(?:FilePath|Redirect/file)/(?P<name>.+)", re.I | re.S)
_OPENED = re.compile("/media/(?P<title>.+)", re.S)  # a file shown above another page, by the media viewer
_INVISIBLE = re.compile("[\u200e\u200f\u202a-\u202e]")  # MediaWiki drops them from titles
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")


class NoThumbnailError(ValueError):
    """This address has no thumbnail form; the message is the reason, in a few words."""


@dataclass(frozen=True)
class WikimediaFile:
    """A file in a repository of Wikimedia."""

    project: str  # wikipedia, wikisource, … : the first part of the upload path
    wiki: str  # commons, en, …
    hash: str  # "a/ab": the first digits of the MD5 of the name
    name: str  # decoded, with underscores
    page: int | None = None  # of a TIFF, PDF or DjVu; None: the first
    lang: str | None = None  # of an SVG with translations
    stamp: str | None = None  # of an older version: when it was replaced, 14 digits
    seek: str | None = None  # of a film: the second of the frame

    @property
    def extension(self) -> str:
        """In lower case, empty if there is none."""
        return self.name.rpartition(".")[2].lower() if "." in self.name else ""

    @property
    def title(self) -> str:
        """The title of its file page."""
        return f"File:{self.name.replace('_', ' ')}"

    @property
    def host(self) -> str:
        """The wiki whose file page it has."""
        if self.wiki == "mediawiki":
            return "www.mediawiki.org"
        # A language's wiki lies at its project; the others (commons, meta, species, …) at wikimedia.org.
        if self.wiki in ("commons", "meta", "species", "incubator", "foundation") or self.project == "wikimedia":
            return f"{self.wiki}.wikimedia.org"
        return f"{self.wiki}.{self.project}.org"

    def original_url(self) -> str:
        """Where the file itself lies."""
        zone = "archive/" if self.stamp else ""
        return f"https://{ORIGINALS}/{self.project}/{self.wiki}/{zone}{self.hash}/{_quoted(self._stored)}"

    def thumbnail_url(self, width: int, form: Form = "served") -> str:
        """Where a rendition of `width` pixels lies; the file should be wider than that (see `request_url`).

        Form `served` is what Wikimedia serves in 2026. Form `paper` is what Century used (its figures 5 and 10): any
        width, from the host of the originals, named `lossless-page1-300px-NAME.jpg` whatever the file's format.

        Raises:
            NoThumbnailError: sounds, and formats that are not rendered.
            ValueError: a width that is not served.
        """
        if form == "served" and width not in SERVED_WIDTHS:
            raise ValueError(f"width {width} is not served; there are {', '.join(map(str, SERVED_WIDTHS))}")
        host = THUMBNAILS if form == "served" else ORIGINALS
        zone = "thumb/archive" if self.stamp else "thumb"
        path = f"{self.project}/{self.wiki}/{zone}/{self.hash}/{_quoted(self._stored)}"
        return f"https://{host}/{path}/{_quoted(self._thumb_name(width, form))}"

    @property
    def _stored(self) -> str:
        return f"{self.stamp}!{self.name}" if self.stamp else self.name

    def _thumb_name(self, width: int, form: Form) -> str:
        before, after = self._around(form)
        name = self.name
        if len(name.encode("utf-8", "surrogateescape")) > LONG_NAME:
            name = f"thumbnail.{self.extension}"
        return f"{before.format(width=width)}{name}{after}"

    def _around(self, form: Form) -> tuple[str, str]:
        """What stands before (with {width}) and after the name in its thumbnail's name."""
        extension, page = self.extension, self.page or 1
        if form == "paper" and extension in (*PICTURES, "svg"):
            return f"lossless-page{page}-{{width}}px-", ".jpg"
        if extension in _TIFF:
            return f"lossy-page{page}-{{width}}px-", ".jpg"
        if extension in _PAGED:
            return f"page{page}-{{width}}px-", ".jpg"
        if extension in _VIDEO:
            return f"{{width}}px-{f'seek={self.seek}' if self.seek else ''}-", ".jpg"
        if extension in _AS_PNG:
            return (f"lang{self.lang}-" if self.lang and extension == "svg" else "") + "{width}px-", ".png"
        if extension in PICTURES:
            return "{width}px-", ""
        if extension in _SOUND:
            raise NoThumbnailError("a sound")
        raise NoThumbnailError(f"no thumbnails are made of {f'.{extension}' if extension else 'such'} files")


def parse(url: str) -> WikimediaFile:
    """The file that a URL means: an original, a thumbnail of any form, an older version, or a page or redirect of
    Commons that names the file; http, https or without a scheme, percent-encoded (once or twice) or not.

    Raises:
        NoThumbnailError: the URL means no file in a repository of Wikimedia.
    """
    parts = _split(url)
    host = _host(parts)
    if host in (ORIGINALS, THUMBNAILS):
        return _of_upload([part for part in parts.path.split("/") if part])
    if host in COMMONS:
        return _of_commons(parts)
    if is_their_host(host):
        raise NoThumbnailError(f"a page of {host}, which does not say which repository holds the file")
    raise NoThumbnailError("not an address of Wikimedia")


def is_wikimedia(url: str) -> bool:
    """Whether the URL's host belongs to Wikimedia."""
    try:
        return is_their_host(_host(_split(url)))
    except NoThumbnailError:
        return False


@lru_cache(4096)
def is_their_host(host: str) -> bool:
    """Whether a host (lower case, no dot at its end) belongs to Wikimedia."""
    return any(host == domain or host.endswith(f".{domain}") for domain in DOMAINS)


def why_no_thumbnail(url: str, mime_type: str | None = None) -> str | None:
    """Why `url` has no thumbnail form; None if it has one. The rule by which Century drops pictures.

    The file's extension decides (a film's thumbnail is a frame of it); what a MIME type, where one is given, calls no
    picture has none either. Nothing is fetched.
    """
    if mime_type and not mime_type.lower().startswith(_PICTURE_TYPES):
        return f"{mime_type} is no picture"
    try:
        parse(url).thumbnail_url(SERVED_WIDTHS[0])
    except NoThumbnailError as reason:
        return str(reason)
    return None


def served_width(width: int) -> int:
    """The narrowest width that is served and not narrower than `width`.

    Raises:
        ValueError: below 1, or wider than anything that is served.
    """
    found = next((w for w in SERVED_WIDTHS if w >= width), None)
    if width < 1 or found is None:
        raise ValueError(f"width={width}: from 1 to {SERVED_WIDTHS[-1]}")
    return found


def request_url(file: WikimediaFile, width: int | None, original_width: int | None, form: Form = "served") -> str:
    """The URL to ask for, so that the picture comes at least `width` wide where the file has that much.

    A file that is no wider than what would be served is asked for as it is, if pictures like it can be decoded. With
    `width` None the original is.

    Raises:
        NoThumbnailError: there is neither a thumbnail nor a decodable original.
        ValueError: `width` is wider than anything that is served.
    """
    if width is None:
        if file.extension not in PICTURES:
            raise NoThumbnailError(f"a .{file.extension} file is no picture as it lies there; ask for a width")
        return file.original_url()
    asked = width if form == "paper" else served_width(width)
    if original_width is not None and original_width <= asked and file.extension not in SCALABLE:
        if file.extension in PICTURES and file.page in (None, 1):
            file.thumbnail_url(asked, form)  # refuses what it refuses at every width
            return file.original_url()
        asked = max((w for w in SERVED_WIDTHS if w <= original_width), default=SERVED_WIDTHS[0])
    return file.thumbnail_url(asked, form)


def _split(url: str) -> SplitResult:
    text = url.strip()
    if text.startswith("//"):
        text = f"https:{text}"
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 443) in (80, 443)
    except ValueError as error:  # a port that is no number, an unclosed [
        raise NoThumbnailError("not a URL") from error
    if not known:
        raise NoThumbnailError("not a URL of the web")
    return parts


def _host(parts: SplitResult) -> str:
    return (parts.hostname or "").rstrip(".")


def _of_upload(parts: list[str]) -> WikimediaFile:
    if len(parts) < 3 or not re.fullmatch("[a-z]+", parts[0]) or not re.fullmatch("[a-z0-9-]+", parts[1]):
        raise NoThumbnailError("not the address of a file")
    project, wiki, rest = parts[0], parts[1], parts[2:]
    thumb = rest[0] == "thumb"
    rest = rest[1:] if thumb else rest
    zone = rest[0] if rest else ""
    if zone == "temp":
        raise NoThumbnailError("a temporary upload")
    if zone in ("archive", "transcoded"):
        rest = rest[1:]
    if len(rest) < 3 or not re.fullmatch(r"[0-9a-f]", rest[0]) or not re.fullmatch(f"{rest[0]}[0-9a-f]", rest[1]):
        raise NoThumbnailError("not the address of a file")
    if len(rest) > (4 if thumb or zone == "transcoded" else 3):
        raise NoThumbnailError("not the address of a file")
    file = WikimediaFile(project, wiki, f"{rest[0]}/{rest[1]}", _name(rest[2]))
    if file.name == f".{file.extension}":
        raise NoThumbnailError("not the address of a file")
    if zone == "archive":
        if not (older := _ARCHIVED.fullmatch(file.name)):
            raise NoThumbnailError("an older version without the time it was replaced")
        file = replace(file, name=older["name"], stamp=older["stamp"])
    if thumb and len(rest) == 4 and (of := _THUMB_NAME.match(_decoded(rest[3]))):
        page = whole_number(of["page"])
        page = page if file.extension in (*_TIFF, *_PAGED) else None
        file = replace(file, page=page, lang=of["lang"], seek=of["seek"] if file.extension in _VIDEO else None)
    return file


def _of_commons(parts: SplitResult) -> WikimediaFile:
    asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
    path = parts.path
    page = whole_number(asked.get("p") or asked.get("page"))
    if path == "/w/thumb.php" and "f" in asked:
        return _on_commons(asked["f"], page)
    title = asked.get("title", "") if path == "/w/index.php" else _decoded(path.removeprefix("/wiki/"))
    if opened := _OPENED.fullmatch(_decoded(parts.fragment)):
        title = opened["title"]
    if title.lower() == "special:filepath" and "file" in asked:
        return _on_commons(asked["file"], None)
    if found := (_FILE_PATH.fullmatch(title) or _FILE_PAGE.fullmatch(title)):
        return _on_commons(found["name"].removeprefix("File:"), page)
    raise NoThumbnailError("a page of Commons that is no file's")


def _on_commons(name: str, page: int | None) -> WikimediaFile:
    name = re.sub("_+", "_", _name(name)).strip("_")
    if not name or "/" in name:
        raise NoThumbnailError("a page of Commons that is no file's")
    name = name[0].upper() + name[1:]
    digest = hashlib.md5(name.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
    return WikimediaFile("wikipedia", "commons", f"{digest[0]}/{digest[:2]}", name, page)


def _name(part: str) -> str:
    """A part of a path as MediaWiki names the file: decoded, NFC, underscores, nothing invisible."""
    name = unicodedata.normalize("NFC", _INVISIBLE.sub("", _decoded(part)))
    return name.replace(" ", "_")


def _decoded(part: str) -> str:
    text = unquote(part, errors="surrogateescape")
    # A title cannot hold %XX, so what still does was encoded twice.
    return unquote(text, errors="surrogateescape") if _ENCODED.search(text) else text


def _quoted(name: str) -> str:
    return quote(name, safe="", errors="surrogateescape")
