"""One connection to one host, one request at a time: bounded in bytes and time, nothing followed, nothing unpacked."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from actors.errors import first_line
from actors.fetching.net_safety import BlockedError, Lookup, Rules, address_error, connector

CHUNK = 64 * 1024
CLOSING_S = 0.05  # between a closed connection and the next, so that the host has seen the end of the first
SKIMMED = 64 * 1024  # of an answer whose body is not wanted: read if it is no longer, so that the connection is kept


class HttpError(Exception):
    """No answer, or one that cannot be used. `retry`: whether asking again may help."""

    def __init__(self, kind: str, message: str, *, retry: bool, http_status: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.retry, self.http_status = kind, retry, http_status


@dataclass(frozen=True)
class Bounds:
    """Limits of one request: bytes of the body; seconds to connect, between two pieces, and in total.

    Raises:
        ValueError: `name=value` of a limit that is not positive.
    """

    max_bytes: int
    connect_s: float = 10.0
    read_s: float = 30.0
    total_s: float = 180.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name}={value}: must be greater than 0")


@dataclass(frozen=True)
class HttpRequest:
    """What to ask: `headers` beyond those of every request; `data` is the form of a POST."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    data: tuple[tuple[str, str], ...] | None = None

    @cached_property
    def origin(self) -> tuple[str, str]:
        """What a connection can be kept for: scheme, and host with port."""
        parts = urlsplit(self.url)
        return parts.scheme, parts.netloc.lower()


@dataclass(frozen=True)
class Reply:
    """An answer; `body` only of a 200 or 203 to a GET or POST whose headers `wanted` let pass."""

    status: int
    body: bytes | None
    location: str | None
    retry_after: str | None
    robots: tuple[str, ...]


class Connection:
    """A connection, opened by the first request and again when it was lost or another host is asked."""

    @property
    def origin(self) -> tuple[str, str] | None:
        """Whom it was opened for."""
        return self._origin

    def __init__(
        self,
        *,
        agent: str,
        rules: Rules,
        bounds: Bounds,
        tls: ssl.SSLContext,
        lookup: Lookup | None = None,
        opts_out: Callable[[tuple[str, ...]], bool] = lambda robots: False,
    ) -> None:
        """`opts_out` looks at X-Robots-Tag headers; the body of an answer that opts out is not read."""
        self._agent, self._rules, self._tls, self._lookup = agent, rules, tls, lookup
        self._bounds, self._opts_out = bounds, opts_out
        self._session = self._new_session()
        self._origin: tuple[str, str] | None = None

    def _new_session(self) -> aiohttp.ClientSession:
        bounds = self._bounds
        return aiohttp.ClientSession(
            connector=connector(self._rules, ssl=self._tls, lookup=self._lookup),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,  # no proxy, no .netrc
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=bounds.connect_s, sock_read=bounds.read_s),
            headers={"User-Agent": self._agent, "Accept": "image/*,*/*;q=0.5", "Accept-Encoding": "identity"},
        )

    async def ask(self, request: HttpRequest, received: Callable[[int], Awaitable[None]]) -> Reply:
        """Send `request`; `received` is told of each piece of the body, and may take its time.

        Raises:
            BlockedError: the name leads to an address that is not public.
            HttpError: kinds timeout, dns, connection, tls, bad_answer, bad_url, incomplete_body, too_many_bytes,
                encoded_body.
        """
        if self._origin not in (None, request.origin):  # aiohttp would keep the idle connection to the other host
            await self._session.close()
            await asyncio.sleep(CLOSING_S)
            self._session = self._new_session()
        self._origin = request.origin
        try:
            async with asyncio.timeout(self._bounds.total_s):
                return await self._ask(request, received)
        except TimeoutError as error:
            raise HttpError("timeout", "the answer took too long", retry=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _explained(error) from error

    async def _ask(self, request: HttpRequest, received: Callable[[int], Awaitable[None]]) -> Reply:
        async with self._session.request(
            request.method,
            URL(request.url),
            allow_redirects=False,
            headers=dict(request.headers),
            data=dict(request.data) if request.data is not None else None,
        ) as answer:
            robots = tuple(answer.headers.getall("X-Robots-Tag", ()))
            body = None
            if request.method != "HEAD":
                if answer.status in (200, 203) and not self._opts_out(robots) and "Range" not in dict(request.headers):
                    body = await self._body(answer, received)
                else:
                    await self._skim(answer, received)
            return Reply(
                status=answer.status,
                body=body,
                location=answer.headers.get("Location"),
                retry_after=answer.headers.get("Retry-After"),
                robots=robots,
            )

    async def _body(self, answer: aiohttp.ClientResponse, received: Callable[[int], Awaitable[None]]) -> bytes:
        most = self._bounds.max_bytes
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", ""):
            answer.close()
            message = f"the body is packed ({encoding[:40]}), which was not asked for"
            raise HttpError("encoded_body", message, retry=False, http_status=answer.status)
        pieces: list[bytes] = []
        read = 0
        while (answer.content_length or 0) <= most and read <= most:
            piece = await answer.content.read(CHUNK)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            read += len(piece)
            await received(len(piece))
        answer.close()
        raise HttpError("too_many_bytes", f"more than {most} bytes", retry=False, http_status=answer.status)

    async def _skim(self, answer: aiohttp.ClientResponse, received: Callable[[int], Awaitable[None]]) -> None:
        """Read a short body to keep the connection, give up a long one with it."""
        read = 0
        while piece := await answer.content.read(CHUNK):
            read += len(piece)
            await received(len(piece))
            if read > SKIMMED:
                answer.close()
                return

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()


_CAUSES: tuple[tuple[type[Exception], str, str, bool], ...] = (  # the first that fits
    (aiohttp.InvalidURL, "bad_url", "not a URL that can be asked", False),
    (aiohttp.ClientConnectorDNSError, "dns", "the name does not resolve", True),
    (aiohttp.ClientSSLError, "tls", "no secure connection", False),
    (aiohttp.ClientPayloadError, "incomplete_body", "the body ended before its announced end", True),
    (aiohttp.ClientResponseError, "bad_answer", "not an answer of HTTP", False),
    (aiohttp.ClientError, "connection", "the connection failed", True),
    (OSError, "connection", "the connection failed", True),
)


def _explained(error: Exception) -> Exception:
    if private := address_error(error):
        return BlockedError("private_address", str(private))
    for cause, kind, message, retry in _CAUSES:
        if isinstance(error, cause):
            return HttpError(kind, f"{message} ({first_line(error)[:200]})", retry=retry)
    return HttpError("bad_url", f"not a URL that can be asked ({first_line(error)[:200]})", retry=False)


def tls_context(ca_file: str | None = None) -> Any:
    """Certificates and names are checked; `ca_file` is an authority that is trusted besides the system's."""
    made = ssl.create_default_context()
    if ca_file:
        made.load_verify_locations(ca_file)
    return made
