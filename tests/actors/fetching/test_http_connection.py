"""Settings of connections, and the kinds of their errors; no connection is opened."""

import asyncio
import ssl
from typing import Any

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from actors.fetching.http_connection import Bounds, Connection, HttpError, HttpRequest, _classify, tls_context
from actors.fetching.net_safety import AddressError, BlockedError, Rules
from tests.cases import check_cases

KEY = ConnectionKey("a.org", 443, True, True, None, None, None)
INFO = aiohttp.RequestInfo(URL("https://a.org"), "GET", CIMultiDictProxy(CIMultiDict()), URL("https://a.org"))


def test_what_a_connection_sends_and_keeps() -> None:
    """No cookies, no proxy of the environment, no compression; the limits of time are those of the bounds."""

    async def session() -> tuple[aiohttp.ClientSession, Connection]:
        bounds = Bounds(9, connect_s=1.5, read_s=2.5, total_s=3.5)
        connection = Connection(agent="me", rules=Rules(("*",)), bounds=bounds, tls=ssl.create_default_context())
        opened = connection._session
        await connection.close()
        return opened, connection

    opened, connection = asyncio.run(session())
    assert opened.closed
    assert connection.origin is None
    assert isinstance(opened.cookie_jar, aiohttp.DummyCookieJar)
    assert (opened.trust_env, opened.auto_decompress) == (False, False)
    assert opened.timeout == aiohttp.ClientTimeout(total=None, sock_connect=1.5, sock_read=2.5)
    assert dict(opened.headers) == {
        "User-Agent": "me",
        "Accept": "image/*,*/*;q=0.5",
        "Accept-Encoding": "identity",
    }


def test_the_origin_of_a_request() -> None:
    assert HttpRequest("https://A.org:8443/x?y").origin == ("https", "a.org:8443")


def test_kinds_of_errors() -> None:
    cases = [
        (aiohttp.InvalidURL("x"), "bad_url", False),
        (aiohttp.ClientConnectorDNSError(KEY, OSError(1, "no")), "dns", True),
        (aiohttp.ClientConnectorSSLError(KEY, OSError(1, "no")), "tls", False),
        (aiohttp.ClientPayloadError(), "incomplete_body", True),
        (aiohttp.ClientResponseError(INFO, ()), "bad_answer", False),
        (aiohttp.ServerDisconnectedError(), "connection", True),
        (ConnectionResetError(), "connection", True),
        (ValueError("port"), "bad_url", False),
    ]

    def check(error: Exception, kind: str, retry: bool) -> None:
        classified: Any = _classify(error)
        assert isinstance(classified, HttpError)
        assert (classified.kind, classified.retry) == (kind, retry)

    check_cases(check, cases)


def test_a_private_address_is_no_failure_of_the_network() -> None:
    blocked: Any = _classify(aiohttp.ClientConnectorError(KEY, AddressError("10.0.0.1")))
    assert isinstance(blocked, BlockedError)
    assert (blocked.rule, str(blocked)) == ("private_address", "10.0.0.1")
    long = _classify(ValueError("x" * 300))
    assert str(long) == f"not a valid URL ({'x' * 200})"


def test_trusted_authorities(tmp_path: Any) -> None:
    assert tls_context().verify_mode == ssl.CERT_REQUIRED
    assert tls_context().check_hostname
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    with pytest.raises(OSError):  # noqa: PT011
        tls_context(str(wrong))


def test_a_body_may_have_as_many_bytes_as_allowed() -> None:
    """By the length that the host states, and by the bytes that arrive."""

    class Answer:
        """An answer whose body arrives in pieces of 4 bytes."""

        def __init__(self, size: int, stated: int | None, encoding: str = "") -> None:
            self.content, self.content_length, self.status = self, stated, 200
            self.headers = {"Content-Encoding": encoding} if encoding else {}
            self._left, self.closed = b"x" * size, False

        async def read(self, most: int) -> bytes:
            piece, self._left = self._left[: min(4, most)], self._left[min(4, most) :]
            return piece

        def close(self) -> None:
            self.closed = True

    async def body(answer: Any) -> tuple[bytes, int]:
        connection = Connection(agent="me", rules=Rules(("*",)), bounds=Bounds(8), tls=ssl.create_default_context())
        arrived: list[int] = []

        async def received(number: int) -> None:
            arrived.append(number)

        try:
            return await connection._body(answer, received), sum(arrived)
        finally:
            await connection.close()

    for size, stated in ((8, None), (8, 8), (5, None), (0, 0), (0, None)):
        assert asyncio.run(body(Answer(size, stated))) == (b"x" * size, size)
    assert asyncio.run(body(Answer(8, 8, " Identity "))) == (b"x" * 8, 8)
    for answer, kind in (
        (Answer(9, None), "too_many_bytes"), (Answer(9, 9), "too_many_bytes"), (Answer(8, 9), "too_many_bytes"),
        (Answer(1, 1, "gzip"), "encoded_body"),
    ):  # fmt: skip
        with pytest.raises(HttpError) as refused:
            asyncio.run(body(answer))
        assert (refused.value.kind, refused.value.retry, answer.closed) == (kind, False, True)
