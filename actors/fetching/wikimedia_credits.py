"""Author and licence of Wikimedia's files, from the metadata of their file pages. Pure: what to ask, how to read it."""

import json
from collections.abc import Sequence
from html.parser import HTMLParser

from actors.fetching.wikimedia import WikimediaFile

AT_ONCE = 50  # titles a call, the API's limit
UNKNOWN = "unknown"
LONGEST = 500  # characters kept of an author's name: some are whole essays
_FIELDS = ("Artist", "Attribution", "Credit", "LicenseShortName", "UsageTerms")


class Unanswered(Exception):  # noqa: N818 (not a fault of ours: the API asks to come back later, or says nothing)
    """The API gave no answer to the question."""


def question(files: Sequence[WikimediaFile]) -> tuple[tuple[str, str], ...]:
    """The form to POST for at most 50 files of one wiki."""
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


def answers(files: Sequence[WikimediaFile], body: bytes) -> list[tuple[str, str]]:
    """Author and licence of each file; `unknown` where its page, or the page's metadata, does not say.

    Raises:
        Unanswered: the body is no answer to `question`.
    """
    try:
        said = json.loads(body)
        query = said["query"]
        moved = {step["from"]: step["to"] for key in ("normalized", "redirects") for step in query.get(key, ())}
        pages = {page["title"]: page for page in query.get("pages", ())}
    except (ValueError, KeyError, TypeError) as error:
        raise Unanswered("the API's answer has no pages") from error
    return [_credit(pages.get(_end(file.title, moved))) for file in files]


def _end(title: str, moved: dict[str, str]) -> str:
    for _ in range(len(moved) + 1):
        if title not in moved:
            break
        title = moved[title]
    return title


def _credit(page: object) -> tuple[str, str]:
    try:
        fields = page["imageinfo"][0]["extmetadata"]  # type: ignore[index]
        known = {name: text_of(str(fields[name]["value"])) for name in _FIELDS if name in fields}
    except (KeyError, IndexError, TypeError):
        return UNKNOWN, UNKNOWN
    author = known.get("Artist") or known.get("Attribution") or known.get("Credit") or UNKNOWN
    return author, known.get("LicenseShortName") or known.get("UsageTerms") or UNKNOWN


class _Text(HTMLParser):
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
    """The text of a piece of HTML on one line, at most 500 characters."""
    parser = _Text()
    parser.feed(html)
    parser.close()
    return " ".join("".join(parser.parts).split())[:LONGEST]
