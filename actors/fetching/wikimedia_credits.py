"""Author and licence of Wikimedia's files, from the metadata of their file pages.

Builds the request and parses the answer; sends nothing. The API is MediaWiki's `action=query&prop=imageinfo` with the
`extmetadata` of its extension CommonsMetadata.
"""

import contextlib
from collections.abc import Sequence
from html.parser import HTMLParser

from actors.fetching.wikimedia import WikimediaFile
from actors.untrusted import parse_json

TITLES_PER_REQUEST = 50  # the API's limit
UNKNOWN = "unknown"
MAX_HTML = 100_000  # characters that are parsed
MAX_CHARACTERS = 500  # kept of an author's name; some are whole essays
_FIELDS = ("Artist", "Attribution", "Credit", "LicenseShortName", "UsageTerms")


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
