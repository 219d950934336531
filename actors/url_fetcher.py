"""Fetch pictures by their URLs: politely, safely, and decoded once. The rows of the table `images`."""

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from actors.fetching import wikimedia, wikimedia_credits
from actors.fetching.decoders import Decoders
from actors.fetching.host_queue import BUSY, HostQueue, Shared, keep_leases
from actors.fetching.http_connection import Bounds, Connection, HttpError, HttpRequest, Reply
from actors.fetching.net_safety import BlockedError, Lookup, Rules
from actors.fetching.politeness import opted_out, retry_after
from actors.fetching.rate_limits import Limit, Limiter
from actors.pictures import PictureError
from actors.status import Status

MAX_REDIRECTS = 3
REDIRECTS = (301, 302, 303, 307, 308)
GONE = (404, 410)
FORBIDDEN = (401, 403, 451)
TRANSIENT = (408, 425, 500, 502, 504)
AT_ONCE = 256  # records under way: enough to keep every allowed connection busy
VERIFIED = "verified"
NO_HEAD = (400, 403, 405, 501)  # answers to HEAD after which a GET is tried


@dataclass(frozen=True)
class ImageRequest:
    """A picture to get: its id, where it is said to lie, and how wide the file is, if that is known."""

    image_id: str
    url: str
    original_width: int | None = None
    reported: bool = False


@dataclass(frozen=True)
class Settings:
    """How to ask. `width` and `form` as in `actors.fetching.wikimedia.request_url`; see conf/source/urls.yaml "
    "for the rest."""

    agent: str
    rules: Rules
    width: int | None = None
    form: wikimedia.Form = "served"
    verify_only: bool = False
    connections: int = 2
    bytes_per_s: float | None = None
    attempts: int = 5
    backoff_s: float = 1.0
    longest_wait_s: float = 900.0
    bounds: Bounds = field(default_factory=lambda: Bounds(64 * 2**20))
    opt_out: tuple[str, ...] = ("noai", "noimageai")
    credits: bool = True
    api: str = "https://{host}/w/api.php"

    @property
    def rendition(self) -> str:
        """The word for what is fetched, in the table's key."""
        if self.verify_only:
            return VERIFIED
        return "original" if self.width is None else f"w{self.width}"


@dataclass
class _Tries:
    """What happened to one picture so far."""

    attempts: int = 0
    http_status: int | None = None
    url: str = ""


Row = dict[str, Any]


class UrlFetcher:
    """Turns pictures that are asked for into rows; holds no connection between calls."""

    def __init__(
        self,
        *,
        settings: Settings,
        limiter: Limiter,
        decoders: Decoders,
        tls: ssl.SSLContext,
        lookup: Lookup | None = None,
    ) -> None:
        """`limiter` is shared by all workers; `decoders` render to `settings.width`; `lookup` resolves names."""
        self._settings, self._limiter, self._decoders = settings, limiter, decoders
        self._tls, self._lookup = tls, lookup
        self._queues: dict[str, HostQueue] = {}

    async def fetch(
        self, asked: Sequence[ImageRequest], done: Callable[[Row], None], *, credits_of: Sequence[ImageRequest] = ()
    ) -> dict[str, tuple[str, str]]:
        """Get each picture; `done` is called with each row as it is ready, in no order.

        A row lacks `author` and `licence`: these are returned, by image_id, of those files of `credits_of` that are
        Wikimedia's and whose pages could be asked.
        """
        bound = self._decoders.processes + 2
        self._shared = Shared(
            self._limiter, self._new_line, self._settings.longest_wait_s, held=asyncio.Semaphore(bound)
        )
        self._queues = {}
        renewing = asyncio.create_task(keep_leases(self._shared))
        waiting = iter(asked)

        async def worker() -> None:
            for one in waiting:  # shared by the workers: each record is taken once
                done(await self._row(one))

        try:
            async with asyncio.TaskGroup() as group:
                found = group.create_task(self._credits(credits_of))
                for _ in range(min(AT_ONCE, len(asked))):
                    group.create_task(worker())
            if renewing.done():
                renewing.result()
            return found.result()
        finally:
            renewing.cancel()
            for queue in self._queues.values():
                await queue.close()

    async def _row(self, one: ImageRequest) -> Row:
        row: Row = {"image_id": one.image_id, "rendition": self._settings.rendition, "source_url": one.url}
        tries = _Tries()
        try:
            row |= await self._fetched(one, tries)
        except wikimedia.NoThumbnailError as reason:
            row |= _failed(Status.SKIPPED, "no_thumbnail", str(reason))
        except BlockedError as rule:
            row |= _failed(Status.BLOCKED, rule.rule, str(rule))
        except HttpError as error:
            tries.http_status = error.http_status or tries.http_status
            row |= _failed(Status.ERROR, error.kind, str(error))
        except PictureError as error:
            row |= _failed(Status.ERROR, error.kind, str(error))
        except ValueError:
            row |= _failed(Status.ERROR, "bad_url", "not a URL of the web")
        return row | {"attempts": tries.attempts, "http_status": tries.http_status, "final_url": tries.url or None}

    async def _fetched(self, one: ImageRequest, tries: _Tries) -> Row:
        if one.reported:
            return _failed(Status.REPORTED, "excluded", "the picture is on the list of exclusions")
        url, instead = self._plan(one)
        if self._settings.verify_only:
            return self._verified(await self._head(url, tries))
        reply = await self._follow(HttpRequest(url), tries)
        if reply.status == 400 and instead:  # no thumbnail of that width: the file is narrower than was known
            reply = await self._follow(HttpRequest(instead), tries)
        if reply.body is None:
            return self._refused(reply)
        try:
            rendered = await self._decoders.decode(reply.body)
        finally:
            self._shared.held.release()
        data = reply.body if rendered.data is None else rendered.data
        return {"bytes": data, **rendered.facts._asdict(), "status": Status.OK.value}

    def _plan(self, one: ImageRequest) -> tuple[str, str | None]:
        """The URL to ask, and what to ask when that width is refused."""
        url = f"https:{one.url.strip()}" if one.url.strip().startswith("//") else one.url.strip()
        if not wikimedia.is_wikimedia(url):
            return url, None
        if self._settings.verify_only:
            return (url if wikimedia.why_no_thumbnail(url) else wikimedia.parse(url).original_url()), None
        file = wikimedia.parse(url)
        asked = wikimedia.request_url(file, self._settings.width, one.original_width, self._settings.form)
        original = file.original_url() if file.extension in wikimedia.PICTURES else None
        return asked, None if asked == original else original

    def _refused(self, reply: Reply) -> Row:
        if reply.status in GONE:
            return _failed(Status.MISSING, "gone", f"HTTP {reply.status}")
        if word := opted_out(reply.robots, self._settings.opt_out):
            return _failed(Status.BLOCKED, "opt_out", f"X-Robots-Tag: {word}")
        if reply.status in FORBIDDEN:
            return _failed(Status.BLOCKED, "forbidden", f"HTTP {reply.status}")
        return _failed(Status.ERROR, "http", f"HTTP {reply.status}")

    def _verified(self, reply: Reply) -> Row:
        if 200 <= reply.status < 300 and not opted_out(reply.robots, self._settings.opt_out):
            return {"status": Status.OK.value}
        return self._refused(reply)

    async def _head(self, url: str, tries: _Tries) -> Reply:
        reply = await self._follow(HttpRequest(url, method="HEAD"), tries)
        if reply.status in NO_HEAD:
            reply = await self._follow(HttpRequest(url, headers=(("Range", "bytes=0-0"),)), tries)
        return reply

    async def _follow(self, request: HttpRequest, tries: _Tries) -> Reply:
        """The reply after redirects, each of them checked as the first URL was."""
        url = request.url
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._persist(HttpRequest(url, request.method, request.headers), tries)
            if reply.status not in REDIRECTS:
                return reply
            if not reply.location:
                raise HttpError("bad_answer", "a redirect to nowhere", retry=False)
            url = urljoin(url, reply.location)
        raise HttpError("too_many_redirects", f"more than {MAX_REDIRECTS} redirects", retry=False)

    async def _persist(self, request: HttpRequest, tries: _Tries) -> Reply:
        """A reply that says something for good. 429 and 503 pause the host for everyone (the limiter sees to that)."""
        host, port = self._settings.rules.check_url(request.url)
        queue = self._queue(host, port)
        tries.url = request.url
        for again in range(self._settings.attempts):
            tries.attempts += 1
            last = again == self._settings.attempts - 1
            try:
                reply = await queue.ask(request)
            except HttpError as error:
                if last or not error.retry:
                    raise
            else:
                tries.http_status = reply.status
                if reply.status in BUSY:
                    if last:
                        raise HttpError("busy", f"HTTP {reply.status} each of {again + 1} times", retry=True)
                    continue
                if reply.status not in TRANSIENT:
                    return reply
                if last:
                    raise HttpError("server", f"HTTP {reply.status} each of {again + 1} times", retry=True)
            await asyncio.sleep(self._settings.backoff_s * 2**again)
        raise AssertionError("unreachable: attempts is at least 1")

    def _queue(self, host: str, port: int) -> HostQueue:
        # Wikimedia counts what one user asks of all its hosts, so they share a limit.
        family = "wikimedia" if wikimedia.is_their_host(host) else host if port == 443 else f"{host}:{port}"
        if family not in self._queues:
            limit = Limit(family, self._settings.connections, self._settings.bytes_per_s, self._settings.backoff_s)
            self._queues[family] = HostQueue(limit, self._shared)
        return self._queues[family]

    def _new_line(self) -> Connection:
        return Connection(
            agent=self._settings.agent,
            rules=self._settings.rules,
            bounds=self._settings.bounds,
            tls=self._tls,
            lookup=self._lookup,
            opts_out=lambda robots: opted_out(robots, self._settings.opt_out) is not None,
        )

    async def _credits(self, asked: Iterable[ImageRequest]) -> dict[str, tuple[str, str]]:
        if not self._settings.credits or self._settings.verify_only:
            return {}
        wikis: dict[str, list[tuple[str, wikimedia.WikimediaFile]]] = defaultdict(list)
        for one in asked:
            try:
                file = wikimedia.parse(one.url)
            except wikimedia.NoThumbnailError:
                continue
            if not one.reported:
                wikis[self._settings.api.format(host=file.host)].append((one.image_id, file))
        found: dict[str, tuple[str, str]] = {}
        for api, files in wikis.items():
            for first in range(0, len(files), wikimedia_credits.AT_ONCE):
                some = files[first : first + wikimedia_credits.AT_ONCE]
                credits = await self._ask_pages(api, [file for _, file in some])
                found |= dict(zip([image_id for image_id, _ in some], credits, strict=False))
        return found

    async def _ask_pages(self, api: str, files: list[wikimedia.WikimediaFile]) -> list[tuple[str, str]]:
        """Author and licence of each file; nothing where the API could not be asked."""
        request = HttpRequest(api, method="POST", data=wikimedia_credits.question(files))
        for _ in range(self._settings.attempts):
            try:
                reply = await self._persist(request, _Tries())
            except (BlockedError, HttpError, ValueError):
                return []
            if reply.body is None:
                return []
            self._shared.held.release()
            try:
                return wikimedia_credits.answers(files, reply.body)
            except wikimedia_credits.Unanswered:  # most often its databases lag, and it says for how long
                await asyncio.sleep(retry_after(reply.retry_after) or self._settings.backoff_s)
        return []


def _failed(status: Status, kind: str, message: str) -> Row:
    return {"status": status.value, "error_kind": kind, "error_message": message}
