"""The User-Agent of a polite client, and the headers with which servers demand pauses or forbid a use."""

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import metadata

AGENT = "remine"
_EMAIL = re.compile(r"[^@\s()<>]+@[\w-]+(\.[\w-]+)+")
_PAGE = re.compile(r"https?://[\w-]+(\.[\w-]+)+(/[^\s()<>]*)?")
_PLACEHOLDER = re.compile(
    r"example\.|\.(invalid|test|example)\b|change[-_ ]?me|fill[-_ ]?me|placeholder|(^|[/@.])(your[-_]|(your|my)("
    r"[-_.]?(first|last|full|user|e?mail|name|lab|group|uni|university|institut\w*|organi[sz]ation|site|website|page|"
    r"domain|company|project|host)(\b|_|name)|\.(com|org|net|edu)\b))|"  # not John.Myers@ or my.harvard.edu
    r"^(you|me|name|user|email|mail|someone|foo|contact)@(domain|mail|email|foo|bar|company|host)\.",
    re.I,
)
_NAME = re.compile(r"[\w*.-]+")  # of an agent; the time of day in a date contains a colon too
_RULES_WITH_VALUES = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


def user_agent(contact: str) -> str:
    """Return the User-Agent header `remine/<version> (<contact>) aiohttp/<version>`, in the form of Wikimedia's policy.

    Raises:
        ValueError: `contact` is neither an e-mail address nor a web page, or is a placeholder.
    """
    contact = contact.strip()
    if not (_EMAIL.fullmatch(contact) or _PAGE.fullmatch(contact)) or not contact.isascii():
        raise ValueError("neither an e-mail address nor the URL of a page")
    if _PLACEHOLDER.search(contact):
        raise ValueError("a placeholder")
    return f"{AGENT}/{_version(AGENT)} ({contact}) aiohttp/{_version('aiohttp')}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # run from a copy of the sources
        return "0"


def retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds in a Retry-After header (seconds or a date, RFC 9110 section 10.2.3); None if invalid."""
    if value is None:
        return None
    text = value.strip()
    if re.fullmatch(r"\d{1,9}(\.\d+)?", text):
        return float(text)
    try:
        when = parsedate_to_datetime(text)
    except Exception:  # of several kinds: a time zone of thousands of digits is an OverflowError
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())


def opted_out(headers: Iterable[str], words: Collection[str]) -> str | None:
    """Return the one of `words` with which an X-Robots-Tag header forbids this use; None if no header does.

    A header may begin with the agent that it addresses (`googlebot: noindex`); only headers for all agents or for this
    one count.
    """
    forbidden = {word.lower() for word in words}
    for header in headers:
        applies = True
        for part in header.lower().split(","):
            agent, colon, rest = part.partition(":")
            if colon and _NAME.fullmatch(agent.strip()) and agent.strip() not in _RULES_WITH_VALUES:
                applies = agent.strip() in (AGENT, "*")
                part = rest  # noqa: PLW2901
            if applies and part.strip() in forbidden:
                return part.strip()
    return None
