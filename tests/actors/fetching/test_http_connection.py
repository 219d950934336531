"""Settings of connections, and the kinds of their errors; no connection is opened."""

import asyncio
import contextlib
import math
import ssl
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urljoin

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from actors.fetching.http_connection import (
    CLOSING_S,
    Bounds,
    Connection,
    HttpError,
    HttpRequest,
    Reply,
    _classify,
    as_given,
    redirected,
    tls_context,
)
from actors.fetching.net_safety import AddressError, BlockedError, CheckedResolver, Rules
from tests.cases import check_cases

KEY = ConnectionKey("a.org", 443, True, True, None, None, None)
TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a default context would load all authorities
INFO = aiohttp.RequestInfo(URL("https://a.org"), "GET", CIMultiDictProxy(CIMultiDict()), URL("https://a.org"))


def test_what_a_connection_sends_and_keeps() -> None:
    """No cookies, no proxy of the environment, no compression; addresses and times are those that are allowed."""
    rules, bounds = Rules(("a.org",)), Bounds(9, connect_s=1.5, read_s=2.5, total_s=3.5)

    async def lookup(host: str, port: int) -> list[str]:
        return []

    async def session() -> tuple[aiohttp.ClientSession, Connection, Any]:
        connection = Connection(agent="me", rules=rules, bounds=bounds, tls=TLS, lookup=lookup)
        opened = connection._session
        connector = opened.connector
        await connection.close()
        return opened, connection, connector

    opened, connection, connector = asyncio.run(session())
    assert opened.closed
    assert isinstance(connector._resolver, CheckedResolver)
    assert (connector._resolver._rules, connector._resolver._lookup, connector._ssl) == (rules, lookup, TLS)
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


def test_a_private_address_does_not_count_as_a_network_failure() -> None:
    blocked: Any = _classify(aiohttp.ClientConnectorError(KEY, AddressError("10.0.0.1")))
    assert isinstance(blocked, BlockedError)
    assert (blocked.rule, str(blocked)) == ("private_address", "10.0.0.1")
    long = _classify(ValueError("x" * 300))
    assert str(long) == f"not a valid URL ({'x' * 200})"


def test_the_messages_of_errors_are_short_and_without_secrets() -> None:
    refused = aiohttp.ClientResponseError(INFO, (), status=400, message="Invalid header:\n\n  Set-Cookie: a=word")
    assert str(_classify(refused)) == "not a valid HTTP reply (400, Invalid header)"
    broken = aiohttp.ClientError("no proxy http://user:word@a.org/?sig=word\nmore")
    assert str(_classify(broken)) == "the connection failed (no proxy http://a.org/)"


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
        connection = Connection(agent="me", rules=Rules(("*",)), bounds=Bounds(8), tls=TLS)
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
        assert refused.value.http_status == 200
    with pytest.raises(HttpError, match=rf"^the body is compressed \({'x' * 40}\), which"):
        asyncio.run(body(Answer(1, 1, "X" * 41)))


class Session:
    """A session of aiohttp that answers each request with `answer`, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.asked = answer, []  # type: ignore[var-annotated]

    @contextlib.asynccontextmanager
    async def request(self, *place: Any, **options: Any) -> AsyncIterator[Any]:
        self.asked.append((*place, options))
        yield self.answer


class ScriptedAnswer:
    """An answer of 200,000 bytes."""

    def __init__(self, status: int, **headers: str) -> None:
        self.headers = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
        self.status, self.content, self.content_length, self.closed = status, self, None, False
        self.left = 200_000

    async def read(self, most: int) -> bytes:
        piece, self.left = min(most, self.left), max(0, self.left - most)
        return bytes(piece)

    def close(self) -> None:
        self.closed = True


def asked(answer: ScriptedAnswer, request: HttpRequest, **settings: Any) -> tuple[Reply, int, Session]:
    """Return the reply, the number of bytes that arrived, and the session."""

    async def ask() -> tuple[Reply, int, Session]:
        keys: dict[str, Any] = {"bounds": Bounds(10**6), **settings}
        connection = Connection(agent="me", rules=Rules(("*",)), tls=TLS, **keys)
        await connection.close()
        session: Any = Session(answer)
        connection._session = session
        arrived: list[int] = []

        async def received(number: int) -> None:
            arrived.append(number)

        return await connection.ask(request, received), sum(arrived), session

    return asyncio.run(ask())


def test_replies_with_a_body() -> None:
    """Of others, 64 KiB and one more piece are read before the connection is closed."""
    whole, part = 200_000, 131_072
    cases: list[tuple[int, dict[str, Any], dict[str, Any], int]] = [
        *((status, {}, {}, whole) for status in (200, 203)),
        *((status, {}, {}, part) for status in (201, 202, 204, 206, 299, 301, 404, 500)),
        (200, {"method": "POST"}, {}, whole),
        (200, {"method": "HEAD"}, {}, 0),
        (200, {"headers": (("Range", "bytes=0-0"),)}, {}, part),
        (200, {"headers": (("Accept", "x"),)}, {}, whole),
        (200, {}, {"opts_out": lambda robots: robots == ("noai", "none")}, part),
        (200, {}, {"opts_out": lambda robots: robots == ("noai",)}, whole),
    ]

    def check(status: int, keys: dict[str, Any], settings: dict[str, Any], read: int) -> None:
        answer = ScriptedAnswer(status, Location="/2", Retry_After="7")
        answer.headers.extend([("X-Robots-Tag", "noai"), ("x-robots-tag", "none")])
        reply, arrived, _ = asked(answer, HttpRequest("https://a.org/1", **keys), **settings)
        assert (reply.body is not None, arrived) == (read == whole, read)
        assert len(reply.body or b"") in (0, whole)
        assert (reply.status, reply.location, reply.retry_after) == (status, "/2", "7")
        assert reply.robots == ("noai", "none")
        assert answer.closed == (read == part)

    check_cases(check, cases)


def test_a_short_body_that_is_not_needed_keeps_the_connection() -> None:
    for size, closed in ((0, False), (65_536, False), (65_537, True)):
        answer = ScriptedAnswer(404)
        answer.left = size
        reply, arrived, _ = asked(answer, HttpRequest("https://a.org/1"))
        assert (reply.body, reply.location, reply.retry_after, reply.robots) == (None, None, None, ())
        assert (arrived, answer.closed) == (size, closed)


def test_a_request_ends_in_time_and_its_failures_have_kinds() -> None:
    class Late(ScriptedAnswer):
        async def read(self, most: int) -> bytes:
            await asyncio.sleep(30)
            return b""

    class Failed(ScriptedAnswer):
        async def read(self, most: int) -> bytes:
            raise failures[-1]

    request = HttpRequest("https://a.org/1")
    with pytest.raises(HttpError, match="the reply took too long") as late:
        asked(Late(200), request, bounds=Bounds(9, total_s=0.01))
    assert (late.value.kind, late.value.retry, late.value.http_status) == ("timeout", True, None)
    failures: list[Exception] = []
    for failure, kind in (
        (aiohttp.ClientPayloadError("cut"), "incomplete_body"),
        (OSError("lost"), "connection"),
        (ValueError("x"), "bad_url"),
    ):
        failures.append(failure)
        with pytest.raises(HttpError) as failed:
            asked(Failed(200), request)
        assert failed.value.kind == kind


def test_another_host_gets_another_connection_after_the_first_was_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Noted(Session):
        async def close(self) -> None:
            events.append(f"close {sessions.index(self)}")

        @contextlib.asynccontextmanager
        async def request(self, *place: Any, **options: Any) -> AsyncIterator[Any]:
            events.append(f"{sessions.index(self)}: {place[1]}")
            yield ScriptedAnswer(204)

    sessions: list[Noted] = []

    def new_session(_: Connection) -> Noted:
        sessions.append(Noted(None))
        return sessions[-1]

    async def pause(seconds: float) -> None:
        events.append(f"pause of {seconds}")

    async def use() -> None:
        connection = Connection(agent="me", rules=Rules(("*",)), bounds=Bounds(9), tls=TLS)
        for url in ("https://a.org/1", "https://A.org/2", "https://a.org:8443/1", "https://b.org/1"):
            await connection.ask(HttpRequest(url), received=lambda _: pause(0))
        assert connection.origin == ("https", "b.org")

    monkeypatch.setattr(Connection, "_new_session", new_session)
    monkeypatch.setattr(asyncio, "sleep", pause)
    asyncio.run(use())
    ours = [event for event in events if event != "pause of 0"]
    assert ours == [
        "0: https://a.org/1", "0: https://a.org/2", "close 0", f"pause of {CLOSING_S}",
        "1: https://a.org:8443/1", "close 1", f"pause of {CLOSING_S}", "2: https://b.org/1",
    ]  # fmt: skip


def test_limits_are_greater_than_nothing() -> None:
    assert Bounds(1, connect_s=0.1, read_s=0.1, total_s=0.1).total_s == 0.1
    for name in ("max_bytes", "connect_s", "read_s", "total_s"):
        for wrong in (0, -1, math.nan):
            values: dict[str, Any] = {"max_bytes": 1, name: wrong}
            with pytest.raises(ValueError, match=f"^{name}={wrong}: must be greater than 0$"):
                Bounds(**values)


def test_what_a_request_sends() -> None:
    url = "https://a.org/1?b=%C3%A9"
    for keys, method, headers, data in (
        ({}, "GET", {}, None),
        ({"method": "POST", "data": ()}, "POST", {}, {}),
        ({"method": "POST", "headers": (("a", "b"),), "data": (("c", "d"),)}, "POST", {"a": "b"}, {"c": "d"}),
    ):
        _, _, session = asked(ScriptedAnswer(200), HttpRequest(url, **keys))
        options = {"allow_redirects": False, "headers": headers, "data": data}
        assert session.asked == [(method, URL(url), options)]


def test_a_url_is_sent_as_it_is_written() -> None:
    written = [
        "/iiif/2/ark%3A%2F12345%2Fab%2C1/full/!300,300/0/default.jpg",
        "/img/x.jpg?Policy=a~b&Signature=aa%2Fbb%2Bcc%3D%3D&Key-Pair-Id=K",
        "/http%3A%2F%2Fwww.example.org%2Fa%20b.jpg?w=10&s=abc",
        "/p?url=https%3A%2F%2Fe.org%2Fa.jpg%3Fx%3D1%26y%3D2",
        "/a%2Cb.jpg", "/q?crop=1%2C2&x[]=%5B1%5D", "/a%7Eb.jpg", "/a%2fb", "/%E4", "/a/../b/./c", "/a+b?c+d=%2B&&e",
        "//a;b=c/..%2F/*'()$@:",
    ]  # fmt: skip
    quoted = {
        "/a b.jpg?x y": "/a%20b.jpg?x%20y",
        "/Zürich/東?q=ü": "/Z%C3%BCrich/%E6%9D%B1?q=%C3%BC",
        "/100%/%zz%4": "/100%25/%25zz%254",
        '/"<>\\^`{}': "/%22%3C%3E%5C%5E%60%7B%7D",
        "/a#part": "/a",
        "": "/",
        "?x=1": "/?x=1",
    }
    hosts = {"h.org": "h.org", "H.org:8443": "h.org:8443", "bücher.de": "xn--bcher-kva.de", "[::1]:9": "[::1]:9"}

    def check(host: str, sent_host: str, path: str, sent: str) -> None:
        url = as_given(f"https://{host}{path}")
        assert (str(url), url.raw_path_qs) == (f"https://{sent_host}{sent}", sent)

    paths = {path: path for path in written} | quoted
    check_cases(check, [(*host, *path) for host in hosts.items() for path in paths.items()])


def test_the_target_of_a_redirect_agrees_with_the_standard_library() -> None:
    bases = (
        "https://h.org",
        "https://h.org/",
        "https://h.org/x/y?z",
        "https://h.org/x/y/#f",
        "http://h.org:8080/x?/a/b",
    )
    locations = ("a", "/a", "a/b?c=/d", "?q", "//o.org", "//o.org/a?b#c", "..", "../a", ".", "./", "a/..", "../../../a",
                 "/..", "/a/../b/.", "mailto:a", "https:", "https:b", "a:b", "%2e%2e/a", "a#b?c")  # fmt: skip
    check_cases(
        lambda base, location: (
            ((target := redirected(base, location)) == (expected := urljoin(base, location)))
            or pytest.fail(f"{target}, not {expected}")
        ),
        [(base, location) for base in bases for location in locations],
    )


def test_an_empty_query_is_kept() -> None:
    for url in ("https://h.org/a.jpg?", "https://h.org/?", "https://h.org/a//b.jpg?"):
        assert str(as_given(url)) == url
    assert as_given("https://h.org?").raw_path_qs == as_given("https://h.org/?#a").raw_path_qs == "/?"
    assert as_given("https://h.org/a#?").raw_path_qs == "/a"


@pytest.mark.parametrize("base", ["", "data:image/png;base64,AA", "h.org/x"])
def test_a_relative_redirect_needs_the_url_of_a_host(base: str) -> None:
    with pytest.raises(ValueError, match="needs the URL of a host"):
        redirected(base, "/a.jpg")


def test_the_target_of_a_redirect() -> None:
    def check(location: str, target: str) -> None:
        header = location.encode("latin-1").decode("utf-8", "surrogateescape")  # as aiohttp decodes the header
        assert redirected("https://h.org/x/y?z", header) == target

    check_cases(check, [
        ("/up/caf\xe9.jpg", "https://h.org/up/caf%E9.jpg"),
        ("/up/caf\xc3\xa9.jpg", "https://h.org/up/café.jpg"),
        ("\x83e\x83X\x83g.jpg", "https://h.org/x/%83e%83X%83g.jpg"),  # Shift-JIS
        (" w ", "https://h.org/x/w"),
        ("?q=%2C", "https://h.org/x/y?q=%2C"),
        ("//o.org/a%2Cb", "https://o.org/a%2Cb"),
        ("https://o.org/a%2Cb/../c", "https://o.org/a%2Cb/../c"),
        ("/a.jpg?", "https://h.org/a.jpg?"),
        ("b.jpg?", "https://h.org/x/b.jpg?"),
        ("/a//b.jpg", "https://h.org/a//b.jpg"),
        ("a//b/../c", "https://h.org/x/a//c"),
        ("../../a/./b/..", "https://h.org/a/"),
        ("/a/https://o.org/b", "https://h.org/a/https://o.org/b"),
        ("", "https://h.org/x/y?z"),
        ("#f", "https://h.org/x/y?z#f"),
        ("?", "https://h.org/x/y?"),
        ("https:a", "https://h.org/x/a"),
    ])  # fmt: skip
