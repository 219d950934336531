"""How hosts are asked for pictures: settings, the User-Agent, pauses and opt-outs that they send, and limits per host.

A host's limits are concurrent connections, bytes per second, and pauses that it demands. `LeaseTable` holds the state.
A Ray cluster shares one (jobs.workers.cluster_limiter).
"""

import asyncio
import random
import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import metadata
from typing import Protocol, get_args

from actors.errors import SettingError
from actors.fetching.wikimedia import Form
from actors.settings import RuntimeOnly, Settings, check_positive

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
LEASE_S = 15.0  # a lease expires unless it is renewed: its worker may have died
RENEW_S = 5.0
POLL_S = 0.2  # interval at which workers try to acquire a lease
BURST_S = 0.25  # seconds of the allowed rate that may arrive at once after an idle time
LONGEST_BACKOFF_S = 120.0


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


@dataclass(kw_only=True)
class RequestSettings(Settings):
    """Settings of requests for pictures by URL."""

    connections: RuntimeOnly[int] = (
        2  # rarely: concurrent, per host, all workers together; Wikimedia's hosts count as one
    )
    mbit_s: RuntimeOnly[float | None] = 25.0  # rarely: per host, all workers together; null: not limited
    form: str = "served"  # of Wikimedia's thumbnail URLs: served (in 2026), or paper (Century's, any width)
    opt_out: RuntimeOnly[list[str]] = field(
        default_factory=lambda: ["noai", "noimageai"]
    )  # rarely: words of X-Robots-Tag that block a picture
    attempts: RuntimeOnly[int] = (
        5  # rarely: requests for a picture before 429, 503, lost connections and the like become an error
    )
    backoff_s: RuntimeOnly[float] = 1.0  # rarely: first pause of a host that does not specify one; doubles each time
    max_timeouts: RuntimeOnly[int] = (
        10  # rarely: of requests to a host in a row; the unit's other pictures of the host then become error rows
    )
    max_wait_s: RuntimeOnly[float] = 900.0  # rarely: a host that demands a longer pause gives error rows instead
    credits: bool = True  # rarely: author and licence from the files' pages (Wikimedia)
    api: RuntimeOnly[str] = "https://{host}/w/api.php"  # rarely: where author and licence are requested

    def __post_init__(self) -> None:
        numbers = ("connections", "mbit_s", "attempts", "backoff_s", "max_timeouts", "max_wait_s")
        check_positive(**{name: getattr(self, name) for name in numbers})
        if self.form not in get_args(Form):
            raise SettingError(f"must be one of {', '.join(get_args(Form))}", "form", self.form)
        try:
            api = self.api.format(host="wiki.example")
        except (KeyError, IndexError, ValueError):
            api = ""
        if not api.startswith("https://"):
            raise SettingError("must be an https:// URL, with {host} in place of the wiki's host", "api", self.api)
        super().__post_init__()


@dataclass(frozen=True)
class Limit:
    """Limits of a host, or of a family of hosts under one `key`."""

    key: str
    connections: int
    bytes_per_s: float | None = None
    backoff_s: float = 1.0  # first pause after a 429 or 503 without Retry-After; doubles each time


class Limiter(Protocol):
    """Interface that grants connections and pauses; shared by all workers."""

    async def acquire(self, limit: Limit) -> int | None:
        """Return a lease of one connection; None if all are in use."""

    async def renew(self, leases: Collection[int]) -> list[int]:
        """Extend `leases`; return those that were already lost."""

    async def release(self, lease: int) -> None:
        """End a lease after its connection was closed."""

    async def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        """Count what happened; return the seconds to wait before the next transfer.

        Args:
            limit: the host's limits.
            received: bytes of a reply.
            busy: whether a reply had status 429 or 503; None: there was no reply.
            retry_after: seconds that this reply demands.
        """


@dataclass
class _Host:
    leases: dict[int, float] = field(default_factory=dict)  # time at which each lease expires
    transferred_at: float = 0.0  # time at which the allowed rate would have transferred all bytes received so far
    paused_until: float = 0.0
    strikes: int = 0  # consecutive pauses


class LeaseTable:
    """The state of all hosts; not thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, closed_until: float = 0.0) -> None:
        """Create an empty table.

        Args:
            now: a clock in seconds.
            closed_until: no lease is granted before this time, since a predecessor's leases may still be in use.
        """
        self._now, self._closed_until = now, closed_until
        self._hosts: dict[str, _Host] = {}
        self._keys: dict[int, str] = {}  # key of each lease's limit
        self._last = random.getrandbits(40)  # random, to differ from a predecessor's leases

    def acquire(self, limit: Limit) -> int | None:
        now = self._now()
        host = self._hosts.setdefault(limit.key, _Host())
        for lease in [lease for lease, until in host.leases.items() if until <= now]:
            self.release(lease)
        if now < self._closed_until or len(host.leases) >= limit.connections:
            return None
        self._last += 1
        host.leases[self._last] = now + LEASE_S
        self._keys[self._last] = limit.key
        return self._last

    def renew(self, leases: Collection[int]) -> list[int]:
        now = self._now()
        lost = [lease for lease in leases if lease not in self._keys or self._host(lease).leases[lease] <= now]
        for lease in leases:
            if lease not in lost:
                self._host(lease).leases[lease] = now + LEASE_S
        return lost

    def release(self, lease: int) -> None:
        if (key := self._keys.pop(lease, None)) is not None:
            self._hosts[key].leases.pop(lease, None)

    def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        now = self._now()
        host = self._hosts.setdefault(limit.key, _Host())
        if limit.bytes_per_s and received:
            host.transferred_at = max(host.transferred_at, now - BURST_S) + received / limit.bytes_per_s
        if busy:
            if now >= host.paused_until:  # replies to requests sent before the pause do not prolong it
                host.strikes += 1
            pause = min(LONGEST_BACKOFF_S, limit.backoff_s * 2 ** min(20, max(0, host.strikes - 1)))
            pause *= random.uniform(1.0, 1.25)  # workers must not return all at once
            host.paused_until = max(host.paused_until, now + (pause if retry_after is None else retry_after))
        elif busy is False:
            host.strikes = 0
        return max(0.0, host.transferred_at - now, host.paused_until - now)

    def needed_until(self) -> float:
        """Return the time at which the last lease and the last pause end."""
        ends = (max([host.paused_until, *host.leases.values()]) for host in self._hosts.values())
        return max(ends, default=0.0)

    def _host(self, lease: int) -> _Host:
        return self._hosts[self._keys[lease]]


async def wait_for_lease(limiter: Limiter, limit: Limit) -> int:
    """Return a lease as soon as one is free."""
    while (lease := await limiter.acquire(limit)) is None:
        await asyncio.sleep(POLL_S * random.uniform(0.5, 1.5))
    return lease
