"""A connection to one host that handles one request at a time.

Bytes and time are limited, redirects are not followed, and bodies are not decompressed.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
from yarl import URL

from actors.errors import SettingError, first_line
from actors.fetching.net_safety import BlockedError, Lookup, Rules, address_error, connector
from actors.fetching.signed_urls import without_secrets

CHUNK = 64 * 1024
CLOSING_S = 0.05  # pause between closing a connection and opening the next, so that the host counts only one
# RFC 3986, and [ ] |, which browsers send as they are; a percent sign must begin an encoded byte.
_NOT_ALLOWED = re.compile(r"[^!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z|~]+|%(?![0-9A-Fa-f]{2})")
_PARTS = re.compile(r"^([^:/?#]+:)(//[^/?#]*)([^?#]*)([^#]*)")  # of a URL: scheme, host, path, query
_PATH_AND_REST = re.compile(r"^([^?#]*)(.*)", re.DOTALL)
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
MAX_DISCARDED = 64 * 1024  # bytes of an unwanted body that are read to keep the connection open
_CAUSES: tuple[tuple[type[Exception], str, str, bool], ...] = (  # type, kind, message, retry; the first that fits
    (aiohttp.InvalidURL, "bad_url", "not a valid URL", False),
    (aiohttp.ClientConnectorDNSError, "dns", "the name cannot be resolved", True),
    (aiohttp.ClientSSLError, "tls", "the TLS handshake failed", False),
    (aiohttp.ClientPayloadError, "incomplete_body", "the body is shorter than announced", True),
    (aiohttp.ClientResponseError, "bad_answer", "not a valid HTTP reply", False),
    (aiohttp.ClientError, "connection", "the connection failed", True),
    (OSError, "connection", "the connection failed", True),
)


class HttpError(Exception):
    """A request without a usable reply.

    Attributes:
        kind: value of the row's column `error_kind`.
        retry: whether another attempt may succeed.
        http_status: status of the reply, if there was one.
    """

    def __init__(self, kind: str, message: str, *, retry: bool, http_status: int | None = None) -> None:
        super().__init__(message)
        self.kind, self.retry, self.http_status = kind, retry, http_status


@dataclass(frozen=True)
class Bounds:
    """Limits of one request: bytes of the body, and seconds to connect, between two pieces, and in total.

    Raises:
        ValueError: a limit is not positive; the message begins with `name=value`.
    """

    max_bytes: int
    connect_s: float = 10.0
    read_s: float = 30.0
    total_s: float = 180.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise SettingError("must be greater than 0", name, value)


@dataclass(frozen=True)
class HttpRequest:
    """A request; `headers` are added to those of every request, `data` is the form of a POST."""

    url: str
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    data: tuple[tuple[str, str], ...] | None = None

    @cached_property
    def origin(self) -> tuple[str, str]:
        """The scheme, and the host with its port; requests with the same origin can share a connection."""
        parts = urlsplit(self.url)
        return parts.scheme, parts.netloc.lower()


@dataclass(frozen=True)
class Reply:
    """A reply; it has a `body` if the status is 200 or 203, the method GET or POST, and no header opts out."""

    status: int
    body: bytes | None
    location: str | None
    retry_after: str | None
    robots: tuple[str, ...]


class Connection:
    """A connection that the first request opens; it is reopened after a loss, or for another host."""

    @property
    def origin(self) -> tuple[str, str] | None:
        """The origin for which it was opened; None before the first request."""
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
        """Keep the settings; open nothing.

        Args:
            agent: the User-Agent header.
            rules: addresses to which connections are allowed.
            bounds: limits of each request.
            tls: trusted certificates.
            lookup: resolves names; None: the system's resolver.
            opts_out: returns whether X-Robots-Tag headers forbid the use; the body is then not read.
        """
        self._agent, self._rules, self._tls, self._lookup = agent, rules, tls, lookup
        self._bounds, self._opts_out = bounds, opts_out
        self._session = self._new_session()
        self._origin: tuple[str, str] | None = None

    def _new_session(self) -> aiohttp.ClientSession:
        bounds = self._bounds
        return aiohttp.ClientSession(
            connector=connector(self._rules, ssl=self._tls, lookup=self._lookup),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,  # ignore the environment's proxies and .netrc
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=bounds.connect_s, sock_read=bounds.read_s),
            headers={"User-Agent": self._agent, "Accept": "image/*,*/*;q=0.5", "Accept-Encoding": "identity"},
        )

    async def ask(self, request: HttpRequest, received: Callable[[int], Awaitable[None]]) -> Reply:
        """Return the reply to `request`; `received` is awaited with each piece's length and may slow the transfer.

        Raises:
            BlockedError: the name resolves to an address that is not public.
            HttpError: kinds timeout, dns, connection, tls, bad_answer, bad_url, incomplete_body, too_many_bytes,
                encoded_body.
        """
        if self._origin not in (None, request.origin):  # aiohttp would keep the idle connection to the previous host
            await self._session.close()
            await asyncio.sleep(CLOSING_S)
            self._session = self._new_session()
        self._origin = request.origin
        try:
            async with asyncio.timeout(self._bounds.total_s):
                return await self._ask(request, received)
        except TimeoutError as error:
            raise HttpError("timeout", "the reply took too long", retry=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _classify(error) from error

    async def _ask(self, request: HttpRequest, received: Callable[[int], Awaitable[None]]) -> Reply:
        async with self._session.request(
            request.method,
            as_given(request.url),
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
                    await self._discard(answer, received)
            return Reply(
                status=answer.status,
                body=body,
                location=answer.headers.get("Location"),
                retry_after=answer.headers.get("Retry-After"),
                robots=robots,
            )

    async def _body(self, answer: aiohttp.ClientResponse, received: Callable[[int], Awaitable[None]]) -> bytes:
        limit = self._bounds.max_bytes
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", ""):
            answer.close()
            message = f"the body is compressed ({encoding[:40]}), which the request did not allow"
            raise HttpError("encoded_body", message, retry=False, http_status=answer.status)
        pieces: list[bytes] = []
        read = 0
        while (answer.content_length or 0) <= limit and read <= limit:
            piece = await answer.content.read(CHUNK)
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            read += len(piece)
            await received(len(piece))
        answer.close()
        raise HttpError("too_many_bytes", f"more than {limit} bytes", retry=False, http_status=answer.status)

    async def _discard(self, answer: aiohttp.ClientResponse, received: Callable[[int], Awaitable[None]]) -> None:
        """Read a short body, to keep the connection; abort a long one, which closes the connection."""
        read = 0
        while piece := await answer.content.read(CHUNK):
            read += len(piece)
            await received(len(piece))
            if read > MAX_DISCARDED:
                answer.close()
                return

    async def close(self) -> None:
        """Close the connection."""
        await self._session.close()


def as_given(url: str) -> URL:
    """Return `url` as it is written: only characters that no URL may contain are percent-encoded.

    Signatures cover a URL as it is written, and a server may tell `%2C` from a comma.

    Raises:
        ValueError: not the URL of a host.
    """
    parts = urlsplit(url)
    path, query = (_NOT_ALLOWED.sub(lambda match: quote(match[0], safe=""), text) for text in (parts.path, parts.query))
    host = URL.build(scheme=parts.scheme, host=parts.hostname or "").host_subcomponent or ""
    authority = host if parts.port is None else f"{host}:{parts.port}"
    path = path or "/"
    if not query and "?" in url.partition("#")[0]:  # an empty query, which yarl would leave out
        path += "?"
    return URL.build(scheme=parts.scheme, authority=authority, path=path, query_string=query, encoded=True)


def redirected(url: str, location: str) -> str:
    """Return the target of a redirect from `url`; bytes in `location` that are not UTF-8 are percent-encoded.

    Args:
        location: the header as aiohttp decodes it, with lone surrogates in place of these bytes.

    Raises:
        ValueError: `location` is relative, and `url` has no host.
    """
    location = _NOT_UTF8.sub(lambda match: f"%{ord(match[0]) - 0xDC00:02X}", location.strip())
    target = urlsplit(location)
    if target.scheme:
        return location if target.netloc else urljoin(url, location)
    # As RFC 3986 section 5.2; `urljoin` would drop an empty query, and one of two slashes.
    if (base := _PARTS.match(url)) is None:
        raise ValueError(f"{url:.200}: a redirect to {location:.200} needs the URL of a host")
    scheme, host, path, query = base.groups()
    if target.netloc:
        return str(scheme + location)
    new_path, rest = _PATH_AND_REST.findall(location)[0]
    if new_path:
        new_path = new_path if new_path.startswith("/") else f"{path.rpartition('/')[0]}/{new_path}"
        return f"{scheme}{host}{_without_dots(new_path)}{rest}"
    return f"{scheme}{host}{path}{rest if rest.startswith('?') else query + rest}"


def _without_dots(path: str) -> str:
    """Return an absolute path without the parts `.` and `..` (RFC 3986, section 5.2.4)."""
    parts: list[str] = []
    for part in (listed := path.split("/")[1:]):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/" + "/".join([*parts, *([""] if listed[-1] in (".", "..") else [])])


def _classify(error: Exception) -> Exception:
    if private := address_error(error):
        return BlockedError("private_address", str(private))
    if isinstance(error, aiohttp.ClientResponseError):  # the other lines quote headers, such as cookies
        reason = f"{error.status}, {(error.message.splitlines() or [''])[0].rstrip(':')}"[:200]
    else:
        reason = without_secrets(first_line(error))[:200]
    for cause, kind, message, retry in _CAUSES:
        if isinstance(error, cause):
            return HttpError(kind, f"{message} ({reason})", retry=retry)
    return HttpError("bad_url", f"not a valid URL ({reason})", retry=False)


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return a context that checks certificates and host names.

    Args:
        ca_file: PEM file of an authority to trust besides the system's.

    Raises:
        OSError: `ca_file` cannot be read or is not PEM.
    """
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(ca_file)
    return context
