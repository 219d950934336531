"""Wikimedia's files: which file a URL denotes, the URL of its thumbnail, and its author and licence. Sends no requests.

The rules come from MediaWiki's source (File::generateThumbName, FileRepo::nameForThumb, the media handlers'
getThumbType) and from Wikimedia's configuration of 2026, which serves thumbnails only in a few widths.

Author and licence are in the metadata of a file's page. The API is MediaWiki's `action=query&prop=imageinfo` with the
`extmetadata` of its extension CommonsMetadata.
"""

import contextlib
import hashlib
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html.parser import HTMLParser
from typing import Literal
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from actors.errors import SettingError
from actors.untrusted import parse_json, whole_number

SERVED_WIDTHS = (20, 40, 60, 120, 250, 330, 500, 960, 1280, 1920, 3840)
ORIGINALS, THUMBNAILS = "upload.wikimedia.org", "thumb.wikimedia.org"
COMMONS = ("commons.wikimedia.org", "commons.m.wikimedia.org")
DOMAINS = (
    "wikimedia.org wikipedia.org wiktionary.org wikibooks.org wikinews.org wikiquote.org wikisource.org "
    "wikiversity.org wikivoyage.org wikidata.org mediawiki.org"
).split()
LONG_NAME = 160  # bytes; thumbnails of files with longer names are `thumbnail.<ext>` (abbrvThreshold)
PICTURES = ("jpg", "jpeg", "jpe", "png", "apng", "gif", "webp", "bmp", "tif", "tiff")  # originals that can be decoded
SCALABLE = ("svg", "stl")  # their nominal width does not limit the width of thumbnails

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
_OPENED = re.compile("/media/(?P<title>.+)", re.S)  # the media viewer shows a file above another page
_INVISIBLE = re.compile("[\u200e\u200f\u202a-\u202e]")  # MediaWiki removes them from titles
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
# Letters of titles to which Wikimedia gives no capital ($wgOverrideUcfirstCharacters): Georgian, Medefaidrin, U+A7B9.
_WITHOUT_CAPITAL = re.compile("[\u10d0-\u10ff\ua7b9\U00016e60-\U00016e7f]")
TITLES_PER_REQUEST = 50  # the API's limit
UNKNOWN = "unknown"
MAX_HTML = 100_000  # characters that are parsed
MAX_CHARACTERS = 500  # kept of an author's name; some are whole essays
_FIELDS = ("Artist", "Attribution", "Credit", "LicenseShortName", "UsageTerms")


class NoThumbnailError(ValueError):
    """A URL without a thumbnail form; the message is the reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason.encode(errors="replace").decode())  # a name may hold bytes that are not UTF-8


@dataclass(frozen=True)
class WikimediaFile:
    """A file in one of Wikimedia's repositories."""

    project: str  # wikipedia, wikisource, …: the first part of the upload path
    wiki: str  # commons, en, …
    hash: str  # "a/ab": the first digits of the MD5 of the name
    name: str  # decoded, with underscores
    page: int | None = None  # page of a TIFF, PDF or DjVu; None: the first one
    lang: str | None = None  # language of an SVG with translations
    stamp: str | None = None  # when an older version was replaced, 14 digits
    seek: str | None = None  # second of a video's frame

    @property
    def extension(self) -> str:
        """The extension in lower case; empty if there is none."""
        return self.name.rpartition(".")[2].lower() if "." in self.name else ""

    @property
    def title(self) -> str:
        """The title of the file page."""
        return f"File:{self.name.replace('_', ' ')}"

    @property
    def host(self) -> str:
        """The host of the wiki with the file page."""
        if self.wiki == "mediawiki":
            return "www.mediawiki.org"
        # Wikis of a language are under their project's domain, others (commons, meta, species, …) under wikimedia.org.
        if self.wiki in ("commons", "meta", "species", "incubator", "foundation") or self.project == "wikimedia":
            return f"{self.wiki}.wikimedia.org"
        return f"{self.wiki}.{self.project}.org"

    def original_url(self) -> str:
        """Return the URL of the file itself."""
        zone = "archive/" if self.stamp else ""
        return f"https://{ORIGINALS}/{self.project}/{self.wiki}/{zone}{self.hash}/{_quote(self._stored_name)}"

    def thumbnail_url(self, width: int, form: Form = "served") -> str:
        """Return the URL of a thumbnail of `width` pixels; the file must be wider (`request_url` checks that).

        The form `served` is what Wikimedia serves in 2026. The form `paper` is what Century used (its figures 5 and
        10): any width, from the originals' host, named `lossless-page1-300px-NAME.jpg` for all formats.

        Raises:
            NoThumbnailError: the file is audio, or its format has no thumbnails.
            ValueError: `width` is not served.
        """
        if form == "served" and width not in SERVED_WIDTHS:
            raise SettingError(f"not served; must be one of {', '.join(map(str, SERVED_WIDTHS))}", "width", width)
        host = THUMBNAILS if form == "served" else ORIGINALS
        zone = "thumb/archive" if self.stamp else "thumb"
        path = f"{self.project}/{self.wiki}/{zone}/{self.hash}/{_quote(self._stored_name)}"
        return f"https://{host}/{path}/{_quote(self._thumb_name(width, form))}"

    @property
    def _stored_name(self) -> str:
        return f"{self.stamp}!{self.name}" if self.stamp else self.name

    def _thumb_name(self, width: int, form: Form) -> str:
        before, after = self._around(form)
        name = self.name
        if len(name.encode("utf-8", "surrogateescape")) > LONG_NAME:
            name = f"thumbnail.{self.extension}"
        return f"{before.format(width=width)}{name}{after}"

    def _around(self, form: Form) -> tuple[str, str]:
        """Return the text before (with {width}) and after the file's name in the thumbnail's name."""
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
            raise NoThumbnailError("audio")
        kind = f"of type .{extension}" if extension else "without extension"
        raise NoThumbnailError(f"files {kind} have no thumbnails")


def parse(url: str) -> WikimediaFile:
    """Return the file that a URL denotes.

    The URL may be that of an original, a thumbnail in any form, an older version, or a page or redirect of Commons;
    with http, https or no scheme; percent-encoded once, twice or not at all.

    Raises:
        NoThumbnailError: it does not denote a file in one of Wikimedia's repositories.
    """
    parts = _split(url)
    host = _host(parts)
    if host in (ORIGINALS, THUMBNAILS):
        return _parse_upload([part for part in parts.path.split("/") if part])
    if host in COMMONS:
        return _parse_commons(parts)
    if is_wikimedia_host(host):
        raise NoThumbnailError(f"a page of {host}, which does not identify the repository of the file")
    raise NoThumbnailError("not a URL of Wikimedia")


def with_capital(title: str) -> str:
    """Return a title with the capital that Wikimedia gives to its first letter.

    A letter keeps its case if its capital has several letters, as that of \u00df does, and other signs keep theirs.
    """
    first = title[:1]
    if not first or unicodedata.category(first) != "Ll" or _WITHOUT_CAPITAL.match(first):
        return title
    capital = next((form for form in (first.upper(), first.title()) if len(form) == 1), first)
    return capital + title[1:]


def is_wikimedia(url: str) -> bool:
    """Return whether the URL's host belongs to Wikimedia."""
    try:
        return is_wikimedia_host(_host(_split(url)))
    except NoThumbnailError:
        return False


@lru_cache(4096)
def is_wikimedia_host(host: str) -> bool:
    """Return whether a host (lower case, without a trailing dot) belongs to Wikimedia."""
    return any(host == domain or host.endswith(f".{domain}") for domain in DOMAINS)


def why_no_thumbnail(url: str, mime_type: str | None = None) -> str | None:
    """Return why `url` has no thumbnail form; None if it has one. Century drops pictures by this rule.

    The file's extension decides (a video's thumbnail is one of its frames). `mime_type`, if set, must be that of a
    picture or a PDF.
    """
    if mime_type and not mime_type.lower().startswith(_PICTURE_TYPES):
        return f"{mime_type} is not a picture"
    try:
        parse(url).thumbnail_url(SERVED_WIDTHS[0])
    except NoThumbnailError as reason:
        return str(reason)
    return None


def served_width(width: int) -> int:
    """Return the smallest served width that is at least `width`.

    Raises:
        ValueError: `width` is below 1 or above the largest served width.
    """
    served = next((w for w in SERVED_WIDTHS if w >= width), None)
    if width < 1 or served is None:
        raise SettingError(f"must be from 1 to {SERVED_WIDTHS[-1]}", "width", width)
    return served


def request_url(file: WikimediaFile, width: int | None, original_width: int | None, form: Form = "served") -> str:
    """Return the URL of a rendition at least `width` wide, or as wide as the file if it is narrower.

    That is the original for `width` None, and for a file that is not wider than the thumbnail and can be decoded.

    Raises:
        NoThumbnailError: there is neither a thumbnail nor a decodable original.
        ValueError: `width` is above the largest served width.
    """
    if width is None:
        if file.extension not in PICTURES:
            raise NoThumbnailError(f"a .{file.extension} file cannot be decoded; request a thumbnail with width=")
        return file.original_url()
    requested = width if form == "paper" else served_width(width)
    if original_width is not None and original_width <= requested and file.extension not in SCALABLE:
        if file.extension in PICTURES and file.page in (None, 1):
            file.thumbnail_url(requested, form)  # raises if the file has no thumbnails
            return file.original_url()
        requested = max((w for w in SERVED_WIDTHS if w <= original_width), default=SERVED_WIDTHS[0])
    return file.thumbnail_url(requested, form)


def _split(url: str) -> SplitResult:
    text = url.strip()
    if text.startswith("//"):
        text = f"https:{text}"
    try:
        parts = urlsplit(text)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 443) in (80, 443)
    except ValueError as error:  # a port that is not a number, an unclosed [
        raise NoThumbnailError("not a URL") from error
    if not is_web:
        raise NoThumbnailError("not an http or https URL on port 80 or 443")
    return parts


def _host(parts: SplitResult) -> str:
    return (parts.hostname or "").rstrip(".")


def _parse_upload(parts: list[str]) -> WikimediaFile:
    if len(parts) < 3 or not re.fullmatch("[a-z]+", parts[0]) or not re.fullmatch("[a-z0-9-]+", parts[1]):
        raise NoThumbnailError("not the URL of a file")
    project, wiki, rest = parts[0], parts[1], parts[2:]
    thumb = rest[0] == "thumb"
    rest = rest[1:] if thumb else rest
    zone = rest[0] if rest else ""
    if zone == "temp":
        raise NoThumbnailError("a temporary upload")
    if zone in ("archive", "transcoded"):
        rest = rest[1:]
    if len(rest) < 3 or not re.fullmatch(r"[0-9a-f]", rest[0]) or not re.fullmatch(f"{rest[0]}[0-9a-f]", rest[1]):
        raise NoThumbnailError("not the URL of a file")
    if len(rest) > (4 if thumb or zone == "transcoded" else 3):
        raise NoThumbnailError("not the URL of a file")
    file = WikimediaFile(project, wiki, f"{rest[0]}/{rest[1]}", _name(rest[2]))
    if file.name == f".{file.extension}":
        raise NoThumbnailError("not the URL of a file")
    if zone == "archive":
        if not (older := _ARCHIVED.fullmatch(file.name)):
            raise NoThumbnailError("an older version without its timestamp")
        file = replace(file, name=older["name"], stamp=older["stamp"])
    if thumb and len(rest) == 4 and (thumbnail := _THUMB_NAME.match(_decode(rest[3]))):
        seek = thumbnail["seek"] if file.extension in _VIDEO else None
        file = _with_page(replace(file, lang=thumbnail["lang"], seek=seek), whole_number(thumbnail["page"]))
    return file


def _parse_commons(parts: SplitResult) -> WikimediaFile:
    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
    path = parts.path
    page = whole_number(query.get("p") or query.get("page"))
    if path == "/w/thumb.php" and "f" in query:
        return _commons_file(query["f"], page)
    title = query.get("title", "") if path == "/w/index.php" else _decode(path.removeprefix("/wiki/"))
    if viewer := _OPENED.fullmatch(_decode(parts.fragment)):
        title = viewer["title"]
    if title.lower() == "special:filepath" and "file" in query:
        return _commons_file(query["file"], page)
    if match := (_FILE_PATH.fullmatch(title) or _FILE_PAGE.fullmatch(title)):
        return _commons_file(match["name"].removeprefix("File:"), page)
    raise NoThumbnailError("a page of Commons that is not a file page")


def _commons_file(name: str, page: int | None) -> WikimediaFile:
    name = re.sub("_+", "_", _name(name)).strip("_")
    if not name or "/" in name or name.rfind(".") == 0:
        raise NoThumbnailError("a page of Commons that is not a file page")
    name = with_capital(name)
    digest = hashlib.md5(name.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
    return _with_page(WikimediaFile("wikipedia", "commons", f"{digest[0]}/{digest[:2]}", name), page)


def _with_page(file: WikimediaFile, page: int | None) -> WikimediaFile:
    """Return the file with a page if its format has pages."""
    return replace(file, page=page if file.extension in (*_TIFF, *_PAGED) else None)


def _name(part: str) -> str:
    """Return the file name in a part of a path, as MediaWiki normalises it: decoded, NFC, underscores, no marks."""
    name = unicodedata.normalize("NFC", _INVISIBLE.sub("", _decode(part)))
    return name.replace(" ", "_")


def _decode(part: str) -> str:
    text = unquote(part, errors="surrogateescape")
    # Titles cannot contain %XX: a text that still does was encoded twice.
    return unquote(text, errors="surrogateescape") if _ENCODED.search(text) else text


def _quote(name: str) -> str:
    return quote(name, safe="", errors="surrogateescape")


class NoAnswerError(Exception):
    """The API did not answer the query, but may answer it later."""


def query_form(files: Sequence[WikimediaFile]) -> tuple[tuple[str, str], ...]:
    """Return the form to POST for at most `TITLES_PER_REQUEST` files of one wiki."""
    return (
        ("action", "query"),
        ("format", "json"),
        ("formatversion", "2"),
        ("prop", "imageinfo"),
        ("iiprop", "extmetadata"),
        ("iiextmetadatafilter", "|".join(_FIELDS)),
        ("redirects", "1"),
        ("maxlag", "5"),
        ("titles", "|".join(file.title for file in files)),
    )


def parse_answer(files: Sequence[WikimediaFile], body: bytes) -> list[tuple[str, str]]:
    """Return author and licence of each file; `unknown` if its page or the page's metadata does not state them.

    Raises:
        NoAnswerError: the body does not answer `query_form`.
    """
    try:
        query = parse_json(body)["query"]
        moved = {step["from"]: step["to"] for key in ("normalized", "redirects") for step in query.get(key, ())}
        pages = {page["title"]: page for page in query.get("pages", ())}
        return [_credit(pages.get(_final_title(file.title, moved))) for file in files]
    except Exception as error:  # the answer is untrusted, so any exception is possible
        raise NoAnswerError("the API's answer has no pages") from error


def _final_title(title: str, moved: dict[str, str]) -> str:
    for _ in range(len(moved) + 1):
        if title not in moved:
            break
        title = moved[title]
    return title


def _credit(page: object) -> tuple[str, str]:
    try:
        fields = page["imageinfo"][0]["extmetadata"]  # type: ignore[index]
        texts = {name: text_of(str(fields[name]["value"])) for name in _FIELDS if name in fields}
    except (LookupError, TypeError):
        return UNKNOWN, UNKNOWN
    author = texts.get("Artist") or texts.get("Attribution") or texts.get("Credit") or UNKNOWN
    return author, texts.get("LicenseShortName") or texts.get("UsageTerms") or UNKNOWN


class _TextParser(HTMLParser):
    """Collector of the visible text of HTML; block elements become spaces."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "script")
        self.parts.append(" " if tag in ("br", "p", "div", "li", "td", "tr") else "")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script") and self._hidden > 0

    def handle_data(self, data: str) -> None:
        self.parts.append("" if self._hidden else data)


def text_of(html: str) -> str:
    """Return the text of a piece of HTML on one line, at most `MAX_CHARACTERS` long; damaged HTML ends early."""
    parser = _TextParser()
    with contextlib.suppress(AssertionError):  # the parser's answer to some unclosed declarations
        parser.feed(html[:MAX_HTML])
        parser.close()
    return " ".join("".join(parser.parts).split())[:MAX_CHARACTERS]
