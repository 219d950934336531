"""Fetch pictures by their URLs, within the hosts' limits, decoding each once: rows of the table `images`."""

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from actors.errors import first_line
from actors.fetching import image_rows, wikimedia
from actors.fetching.decoders import Decoders
from actors.fetching.host_queue import BUSY, HostQueue, Shared, keep_leases
from actors.fetching.http_connection import Bounds, Connection, HttpError, HttpRequest, Reply, redirected
from actors.fetching.image_rows import DEFAULT_MAX_BYTES
from actors.fetching.net_safety import BlockedError, Lookup, Rules
from actors.fetching.politeness import Limit, Limiter, RequestSettings, opted_out, retry_after
from actors.fetching.signed_urls import without_secrets, without_signature
from actors.pictures import PictureError
from actors.schemas import ImageRow
from actors.status import Status

MAX_REDIRECTS = 3
REDIRECTS = (301, 302, 303, 307, 308)
GONE = (404, 410)
FORBIDDEN = (401, 403, 451)
TRANSIENT = (408, 425, 500, 502, 504)
IN_FLIGHT = 256  # pictures requested concurrently: enough to keep every allowed connection busy
VERIFIED = "verified"
NO_HEAD = (400, 403, 405, 501)  # statuses of a HEAD after which a GET is tried
# Errors that a picture's URL, headers or bytes can cause; any other error, such as one of the limiter, ends the unit.
FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError, TypeError)

Credits = dict[str, tuple[str, str]]  # image_id -> author, licence


@dataclass(frozen=True)
class ImageRequest:
    """A picture to fetch: its id, its URL, and the width of its file if known."""

    image_id: str
    url: str
    original_width: int | None = None
    reported: bool = False  # on the list of exclusions: it gets a row, and no request is sent


@dataclass(kw_only=True)
class UrlFetcherSettings(RequestSettings):
    """Settings of the requests for pictures.

    Attributes:
        agent: the User-Agent header, with an address at which the sender can be reached.
        rules: allowed hosts and addresses.
        width: see `actors.fetching.wikimedia.request_url`.
        verify_only: only check that the picture exists.
        bounds: limits of one request.

    Raises:
        ValueError: a value is not allowed; the message begins with `source.name=value`.
    """

    agent: str
    rules: Rules
    width: int | None = None
    verify_only: bool = False
    bounds: Bounds = field(default_factory=lambda: Bounds(DEFAULT_MAX_BYTES))

    @property
    def rendition(self) -> str:
        """The value of the rows' column `rendition`."""
        return VERIFIED if self.verify_only else image_rows.rendition_name(self.width)


@dataclass
class _History:
    """The requests sent for one picture so far."""

    attempts: int = 0
    http_status: int | None = None
    url: str = ""


class UrlFetcher:
    """Fetcher that turns requests for pictures into rows; keeps no connection open between calls.

    It is not a stage that maps Arrow tables, since `fetch` is asynchronous.
    """

    def __init__(
        self,
        *,
        settings: UrlFetcherSettings,
        limiter: Limiter,
        decoders: Decoders,
        tls: ssl.SSLContext,
        lookup: Lookup | None = None,
    ) -> None:
        """Keep the parts that requests share; open nothing.

        Args:
            settings: the settings of the requests.
            limiter: shared by all workers.
            decoders: must render to `settings.width`.
            tls: trusted certificates.
            lookup: resolves names; None: the system's resolver.
        """
        self._settings, self._limiter, self._decoders = settings, limiter, decoders
        self._tls, self._lookup = tls, lookup
        self._queues: dict[str, HostQueue] = {}

    async def fetch(
        self,
        requests: Sequence[ImageRequest],
        done: Callable[[ImageRow], None],
        *,
        credits_of: Sequence[ImageRequest] = (),
    ) -> Credits:
        """Fetch pictures, pass the row of each to `done` as soon as it is complete, and return the credits.

        Args:
            requests: the pictures to fetch.
            done: called once per request, in the order in which they complete; the rows lack `author` and `licence`.
            credits_of: pictures whose author and licence to request; only Wikimedia's are looked up.

        Returns:
            Credits of the files for which the API returned a page.
        """
        bodies = asyncio.Semaphore(self._decoders.processes + 2)
        settings = self._settings
        self._shared = Shared(
            self._limiter, self._new_connection, settings.max_wait_s, bodies=bodies, max_timeouts=settings.max_timeouts
        )
        self._queues = {}
        renewing = asyncio.create_task(keep_leases(self._shared))
        waiting = iter(requests)

        async def worker() -> None:
            for request in waiting:  # shared by the workers: each request is taken once
                done(await self._row(request))

        try:
            async with asyncio.TaskGroup() as group:
                credits = group.create_task(self._credits(credits_of))
                for _ in range(min(IN_FLIGHT, len(requests))):
                    group.create_task(worker())
            if renewing.done():
                renewing.result()
            return credits.result()
        finally:
            renewing.cancel()
            for queue in self._queues.values():
                await queue.close()

    async def _row(self, request: ImageRequest) -> ImageRow:
        row: ImageRow = {
            "image_id": request.image_id,
            "rendition": self._settings.rendition,
            "source_url": request.url,
        }
        history = _History()
        try:
            row |= await self._outcome(request, history)
        except wikimedia.NoThumbnailError as reason:
            row |= image_rows.failed(Status.SKIPPED, "no_thumbnail", str(reason))
        except BlockedError as blocked:
            row |= image_rows.failed(Status.BLOCKED, blocked.rule, str(blocked))
        except HttpError as error:
            history.http_status = error.http_status or history.http_status
            row |= image_rows.failed(Status.ERROR, error.kind, str(error))
        except PictureError as error:
            row |= image_rows.undecodable(error)
        except ValueError:
            row |= image_rows.failed(Status.ERROR, "bad_url", "not an http or https URL")
        except FAULTS as error:
            row |= image_rows.failed(Status.ERROR, type(error).__name__, without_secrets(first_line(error)))
        return row | {
            "attempts": history.attempts,
            "http_status": history.http_status,
            "final_url": without_signature(history.url) or None,
        }

    async def _outcome(self, request: ImageRequest, history: _History) -> ImageRow:
        if request.reported:
            return image_rows.excluded()
        url, fallback = self._urls(request)
        if self._settings.verify_only:
            return self._verified(await self._head(url, history))
        reply = await self._follow(HttpRequest(url), history)
        if reply.status == 400 and fallback:  # no thumbnail of that width: the file is narrower than recorded
            reply = await self._follow(HttpRequest(fallback), history)
        if reply.body is None:
            return self._refused(reply)
        try:
            rendered = await self._decoders.decode(reply.body)
        finally:
            self._shared.bodies.release()
        return image_rows.stored_picture(reply.body if rendered.data is None else rendered.data, rendered.facts)

    def _urls(self, request: ImageRequest) -> tuple[str, str | None]:
        """Return the URL to request, and the one to request if the host refuses that width."""
        url = request.url.strip()
        url = f"https:{url}" if url.startswith("//") else url
        if not wikimedia.is_wikimedia(url):
            return url, None
        if self._settings.verify_only:
            return (url if wikimedia.why_no_thumbnail(url) else wikimedia.parse(url).original_url()), None
        file = wikimedia.parse(url)
        form = cast(wikimedia.Form, self._settings.form)  # RequestSettings allows no other
        rendition = wikimedia.request_url(file, self._settings.width, request.original_width, form)
        original = file.original_url() if file.extension in wikimedia.PICTURES else None
        return rendition, None if rendition == original else original

    def _refused(self, reply: Reply) -> ImageRow:
        if reply.status in GONE:
            return image_rows.failed(Status.MISSING, "gone", f"HTTP {reply.status}")
        if word := opted_out(reply.robots, self._settings.opt_out):
            return image_rows.failed(Status.BLOCKED, "opt_out", f"X-Robots-Tag: {word}")
        if reply.status in FORBIDDEN:
            return image_rows.failed(Status.BLOCKED, "forbidden", f"HTTP {reply.status}")
        return image_rows.failed(Status.ERROR, "http", f"HTTP {reply.status}")

    def _verified(self, reply: Reply) -> ImageRow:
        if 200 <= reply.status < 300 and not opted_out(reply.robots, self._settings.opt_out):
            return {"status": Status.OK.value}
        return self._refused(reply)

    async def _head(self, url: str, history: _History) -> Reply:
        reply = await self._follow(HttpRequest(url, method="HEAD"), history)
        if reply.status in NO_HEAD:
            reply = await self._follow(HttpRequest(url, headers=(("Range", "bytes=0-0"),)), history)
        return reply

    async def _follow(self, request: HttpRequest, history: _History) -> Reply:
        """Return the reply after redirects; each target is checked like the first URL."""
        url = request.url
        for _ in range(MAX_REDIRECTS + 1):
            reply = await self._persist(HttpRequest(url, request.method, request.headers), history)
            if reply.status not in REDIRECTS:
                return reply
            if not reply.location:
                raise HttpError("bad_answer", "redirect without a Location header", retry=False)
            url = redirected(url, reply.location)
        raise HttpError("too_many_redirects", f"more than {MAX_REDIRECTS} redirects", retry=False)

    async def _persist(self, request: HttpRequest, history: _History) -> Reply:
        """Return the first reply that is not transient. 429 and 503 make the limiter pause the host for all workers."""
        host, port = self._settings.rules.check_url(request.url)
        queue = self._queue(host, port)
        history.url = request.url
        for attempt in range(self._settings.attempts):
            history.attempts += 1
            last = attempt == self._settings.attempts - 1
            try:
                reply = await queue.ask(request)
            except HttpError as error:
                if last or not error.retry:
                    raise
            else:
                history.http_status = reply.status
                if reply.status in BUSY:
                    if last:
                        raise HttpError("busy", f"HTTP {reply.status} each of {attempt + 1} times", retry=True)
                    continue
                if reply.status not in TRANSIENT:
                    return reply
                if last:
                    raise HttpError("server", f"HTTP {reply.status} each of {attempt + 1} times", retry=True)
            await asyncio.sleep(self._settings.backoff_s * 2**attempt)
        raise AssertionError("unreachable: attempts is at least 1")

    def _queue(self, host: str, port: int) -> HostQueue:
        # Wikimedia's policy limits a client's requests to all its hosts together.
        family = "wikimedia" if wikimedia.is_wikimedia_host(host) else host if port == 443 else f"{host}:{port}"
        if family not in self._queues:
            settings = self._settings
            bytes_per_s = None if settings.mbit_s is None else settings.mbit_s * 1e6 / 8
            limit = Limit(family, settings.connections, bytes_per_s, settings.backoff_s)
            self._queues[family] = HostQueue(limit, self._shared)
        return self._queues[family]

    def _new_connection(self) -> Connection:
        return Connection(
            agent=self._settings.agent,
            rules=self._settings.rules,
            bounds=self._settings.bounds,
            tls=self._tls,
            lookup=self._lookup,
            opts_out=lambda robots: opted_out(robots, self._settings.opt_out) is not None,
        )

    async def _credits(self, requests: Iterable[ImageRequest]) -> Credits:
        if not self._settings.credits or self._settings.verify_only:
            return {}
        wikis: dict[str, list[tuple[str, wikimedia.WikimediaFile]]] = defaultdict(list)
        for request in requests:
            try:
                file = wikimedia.parse(request.url)
            except wikimedia.NoThumbnailError:
                continue
            if not request.reported:
                wikis[self._settings.api.format(host=file.host)].append((request.image_id, file))
        credits: Credits = {}
        for api, files in wikis.items():
            for first in range(0, len(files), wikimedia.TITLES_PER_REQUEST):
                batch = files[first : first + wikimedia.TITLES_PER_REQUEST]
                answers = await self._request_credits(api, [file for _, file in batch])
                credits |= dict(zip([image_id for image_id, _ in batch], answers, strict=False))
        return credits

    async def _request_credits(self, api: str, files: list[wikimedia.WikimediaFile]) -> list[tuple[str, str]]:
        """Return author and licence of each file; an empty list if the API did not answer."""
        request = HttpRequest(api, method="POST", data=wikimedia.query_form(files))
        for _ in range(self._settings.attempts):
            try:
                reply = await self._persist(request, _History())
            except (BlockedError, HttpError, ValueError, *FAULTS):
                return []
            if reply.body is None:
                return []
            self._shared.bodies.release()
            try:
                return wikimedia.parse_answer(files, reply.body)
            except wikimedia.NoAnswerError:  # most often replication lag, with a Retry-After header
                pause = retry_after(reply.retry_after) or self._settings.backoff_s
                if pause > self._settings.max_wait_s:
                    return []
                await asyncio.sleep(pause)
        return []
