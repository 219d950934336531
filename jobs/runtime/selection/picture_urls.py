"""The picture that a URL refers to, whatever the spelling of the URL.

Two URLs refer to the same picture if they differ only in the scheme (http, https, none), the case of the host, a
default port, the percent-encoding or the fragment. All addresses of one file of Wikimedia refer to the same picture:
the original, thumbnails of any width, both hosts, File pages and Special:FilePath; an older version (`archive/`) is a
separate picture.

For other hosts, queries are compared only if both URLs have one: `a.jpg?size=2` in a list matches `a.jpg`, and `a.jpg`
matches `a.jpg?size=2`, but `picture?id=1` does not match `picture?id=2`.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urlsplit

from actors.fetching import wikimedia
from actors.fetching.wikimedia import NoThumbnailError, WikimediaFile

_LOCAL_PAGE = re.compile(r"(?P<wiki>[a-z][a-z0-9-]*)(?:\.m)?\.(?P<project>[a-z]+)\.org")  # en.m.wikipedia.org
_WEB = re.compile(r"(?:https?:)?//", re.I)
# An original of Wikimedia in the spelling of MediaWiki. Names that `wikimedia.parse` changes do not match: those with
# spaces, double encoding, letters that Unicode may compose, or a lower-case first letter.
PLAIN = (
    r"^https?://upload\.wikimedia\.org/[a-z]+/[a-z0-9-]+/[0-9a-f]/[0-9a-f]{2}/"
    r"(?:[A-Z0-9_~-]|%(?:2[1-46-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-D]))"
    r"(?:[A-Za-z0-9._~-]|%(?:2[1-46-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-D]|(?:C[3-9]|D[01])%[89AB][0-9A-F]))*$"
)
# Characters that writers of URLs do not quote in a path: none (MediaWiki's files), those of MediaWiki's pages, all.
_SAFE = ("", "!$()*,:;@~'", None)


class PictureName(NamedTuple):
    """The picture that a URL refers to: its address in a normalised spelling, and the query if it matters."""

    place: str
    query: str | None


def is_web(text: str) -> bool:
    """Return whether `text` has the form of a web address."""
    return _WEB.match(text) is not None


def pictures_of(url: str) -> list[PictureName]:
    """Return the pictures that `url` may refer to; empty if it is not a web address.

    A File page of a wiki may refer to two: the file is on that wiki or on Commons.
    """
    parts = _split(url)
    if parts is None:
        return []
    if files := _wikimedia_files(url, parts):
        return [PictureName(_file_place(file), None) for file in files]
    host = (parts.hostname or "").rstrip(".")
    port = f":{parts.port}" if parts.port not in (None, 80, 443) else ""
    return [PictureName(f"//{host}{port}{_path(parts)}", unquote(parts.query, errors="surrogateescape") or None)]


def spellings(url: str) -> Iterator[str]:
    """Yield URLs that a corpus may use for the picture of `url`, for tables that identify it by the hash of its URL.

    Thumbnails are not included: corpora name originals.
    """
    parts = _split(url)
    if parts is None:
        return
    if files := _wikimedia_files(url, parts):
        for file in files:
            yield from _schemes(_each_quoting(file.original_url()))
        return
    host = (parts.hostname or "").rstrip(".")
    port = f":{parts.port}" if parts.port not in (None, 80, 443) else ""
    for spelling in _each_quoting(f"https://{host}{port}{parts.path or '/'}"):
        yield from _schemes([spelling] if not parts.query else [spelling, f"{spelling}?{parts.query}"])


def plain_spellings(url: str) -> Iterator[str]:
    """Yield the URLs of form `PLAIN` of the Wikimedia file of `url`; other URLs of this form are of other files."""
    parts = _split(url)
    for file in _wikimedia_files(url, parts) if parts else ():
        original = file.original_url()
        yield from (original, original.replace("https:", "http:", 1))


def _split(url: str) -> SplitResult | None:
    text = url.strip()
    try:
        parts = urlsplit(f"https:{text}" if text.startswith("//") else text)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_address = is_address and not set("[]") & set(
            parts.hostname or ""
        )  # urlsplit leaves some of these characters in a damaged address
    except ValueError:  # a port that is not a number, an unclosed [
        return None
    return parts if is_address else None


def _wikimedia_files(url: str, parts: SplitResult) -> list[WikimediaFile]:
    host = (parts.hostname or "").rstrip(".")
    if not wikimedia.is_wikimedia_host(host):
        return []
    try:
        return [wikimedia.parse(url)]
    except NoThumbnailError:
        local = _LOCAL_PAGE.fullmatch(host)
        if not local:
            return []
        try:
            file = wikimedia.parse(parts._replace(scheme="https", netloc=wikimedia.COMMONS[0]).geturl())
        except NoThumbnailError:
            return []
        return [file, replace(file, project=local["project"], wiki=local["wiki"])]


def _file_place(file: WikimediaFile) -> str:
    version = f"@{file.stamp}" if file.stamp else ""
    # MediaWiki ignores the case of the first letter of a title.
    return f"wikimedia:{file.project}/{file.wiki}/{wikimedia.with_capital(file.name)}{version}"


def _path(parts: SplitResult) -> str:
    return quote(unquote(parts.path, errors="surrogateescape"), safe="/", errors="surrogateescape") or "/"


def _each_quoting(url: str) -> Iterator[str]:
    """Yield `url` unchanged, and with its path quoted in each of the usual ways."""
    parts = urlsplit(url)
    plain = unquote(parts.path, errors="surrogateescape")
    yield url
    for safe in _SAFE:
        path = plain if safe is None else quote(plain, safe=f"/{safe}", errors="surrogateescape")
        yield parts._replace(path=path).geturl()


def _schemes(urls: Iterable[str]) -> Iterator[str]:
    for url in urls:
        rest = url.partition("://")[2]
        yield from (f"https://{rest}", f"http://{rest}", f"//{rest}")
