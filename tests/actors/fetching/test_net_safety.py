import asyncio
import socket
import time
from importlib import metadata
from typing import Any

import pytest

from actors.fetching.net_safety import (
    RECEIVE_BUFFER,
    AddressError,
    BlockedError,
    CheckedResolver,
    Rules,
    address_error,
    connector,
    is_public,
)
from actors.fetching.politeness import opted_out, retry_after, user_agent


def test_public() -> None:
    addresses = """8.8.8.8 93.184.216.34 2606:4700::1 2606:4700::1%eth0 2606:4700::1%eth0%1 2606:4700::1% ::ffff:8.8.8.8
    64:ff9b::808:808 2002:808:808::1""".split()
    assert {address for address in addresses if not is_public(address)} == set()


def test_not_public() -> None:
    addresses = """127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1
    0.0.0.0 0.1.2.3 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255 192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1
    203.0.113.1 :: ::1 fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 ff02::1 fec0::1 2001:db8::1 2001::1 3fff::1 ::7f00:1
    ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:0:0 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::808:808
    2002:7f00:1::1 2002:a9fe:a9fe::1 4000::1 e000::1 example.org 127.1 2130706433 0x7f000001""".split()
    assert {address for address in addresses if is_public(address)} == set()


def test_hosts() -> None:
    rules = Rules(("upload.wikimedia.org", "*.example.org", "localhost:8443"))
    for url in ("https://upload.wikimedia.org/x", "https://UPLOAD.wikimedia.org.:443/", "https://a.b.example.org/"):
        rules.check_url(url)
    assert rules.check_url("https://localhost:8443/x") == ("localhost", 8443)
    assert Rules(("*.Example.ORG", "LOCALHOST:8443")).check_url("https://localhost:8443/x") == ("localhost", 8443)
    assert Rules(("*.Example.ORG",)).check_url("https://a.example.org/x") == ("a.example.org", 443)
    assert Rules(("2606:4700::AB",)).check_url("https://[2606:4700::ab]/x") == ("2606:4700::ab", 443)
    for url, rule in {
        "http://upload.wikimedia.org/x": "not_https",
        "https://upload.wikimedia.org:444/x": "host_not_allowed",
        "https://upload.wikimedia.org.evil.net/x": "host_not_allowed",
        "https://my-pload.wikimedia.org/x": "host_not_allowed",
        "https://upload.wikimedia.org@evil.net/x": "credentials_in_url",
        "https://:pw@upload.wikimedia.org/x": "credentials_in_url",
        "https://@upload.wikimedia.org/x": "credentials_in_url",
        "https://example.org/x": "host_not_allowed",
        "https://localhost/x": "host_not_allowed",
    }.items():
        with pytest.raises(BlockedError) as caught:
            rules.check_url(url)
        assert caught.value.rule == rule, url
    for host in ("[::ffff:10.0.0.1]", "10.0.0.1%25eth0", "10.0.0.1."):
        with pytest.raises(BlockedError, match="not a public address"):
            Rules(("*",)).check_url(f"https://{host}/")
    for pattern in ("2606:4700::443", "2606:4700:443"):  # a colon of an address does not begin a port
        with pytest.raises(BlockedError, match="allow_hosts"):
            Rules((pattern,)).check_url("https://[2606:4700::]/")
    for url in ("file:///etc/passwd", "file://a.org/x", "https:///x"):
        with pytest.raises(ValueError, match="http or https"):
            Rules(("*",)).check_url(url)


def test_the_resolver_refuses_a_name_with_one_private_address() -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return {"good": ["8.8.8.8"], "bad": ["8.8.8.8", "10.0.0.1"], "none": []}[host]

    resolver = CheckedResolver(Rules(("*",)), lookup)
    result = asyncio.run(resolver.resolve("good", 443))
    numeric = {"hostname": "good", "port": 443, "proto": socket.IPPROTO_TCP, "flags": socket.AI_NUMERICHOST}
    assert result == [{**numeric, "host": "8.8.8.8", "family": socket.AF_INET}]
    fixed = CheckedResolver(Rules(("*",), fixed=(("else", "8.8.4.4", 1), ("there", "2606:4700::1", 8443))), lookup)
    (one,) = asyncio.run(fixed.resolve("there", 443))
    assert (one["host"], one["port"], one["family"]) == ("2606:4700::1", 8443, socket.AF_INET6)
    with pytest.raises(AddressError, match=r"bad .*10\.0\.0\.1"):
        asyncio.run(resolver.resolve("bad", 443))
    with pytest.raises(OSError, match="no address"):
        asyncio.run(resolver.resolve("none", 443))


def test_names_are_resolved_with_the_settings_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, int]] = []

    async def lookup(host: str, port: int) -> list[str]:
        return ["8.8.4.4"]

    async def addresses(host: str, port: int, *, type: int) -> list[tuple[object, ...]]:
        asked.append((host, port, type))
        places = (("9.9.9.9", port), ("2620:fe::9", port, 0, 0), ("9.9.9.9", port))
        return [(socket.AF_INET, type, 6, "", place) for place in places]

    async def resolved(**settings: Any) -> list[str]:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
        opened = connector(Rules(("*",)), ssl=True, **settings)
        try:
            return [place["host"] for place in await opened._resolver.resolve("a.org", 443)]
        finally:
            await opened.close()

    assert asyncio.run(resolved(lookup=lookup)) == ["8.8.4.4"]
    assert asked == []
    assert asyncio.run(resolved()) == ["9.9.9.9", "2620:fe::9"]
    assert asked == [("a.org", 443, socket.SOCK_STREAM)]


def test_every_socket_is_checked_even_if_the_resolver_were_not() -> None:
    async def open_one(address: str) -> None:
        connection = connector(Rules(("*",)), ssl=True)
        assert (connection.limit, connection.use_dns_cache) == (1, False)
        assert connection._happy_eyeballs_delay is None  # two addresses at once would be two connections
        assert connection._socket_factory is not None
        info = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 443))
        try:
            opened = connection._socket_factory(info)
            opened.settimeout(0)
            buffer = opened.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            opened.close()
            assert buffer == 2 * RECEIVE_BUFFER  # Linux doubles it
        finally:
            await connection.close()

    asyncio.run(open_one("8.8.8.8"))
    with pytest.raises(AddressError):
        asyncio.run(open_one("127.0.0.1"))


def test_an_address_error_is_found_among_the_causes() -> None:
    private = AddressError("10.0.0.1")

    class ConnectorError(Exception):
        os_error = private

    assert address_error(private) is private
    assert address_error(ConnectorError()) is private
    for name in ("__cause__", "__context__"):
        outer = ValueError()
        setattr(outer, name, private)
        assert address_error(outer) is private
    circle = ValueError()
    circle.__context__ = KeyError()
    circle.__context__.__context__ = circle
    assert address_error(circle) is address_error(None) is None


def test_user_agent_of_a_copy_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "aiohttp":
            return "3.14"
        raise metadata.PackageNotFoundError(package)

    monkeypatch.setattr(metadata, "version", version)
    assert user_agent("ada@uni-somewhere.edu") == "remine/0 (ada@uni-somewhere.edu) aiohttp/3.14"


def test_user_agent() -> None:
    agent = user_agent("ada@uni-somewhere.edu")
    assert agent.startswith("remine/")
    assert " (ada@uni-somewhere.edu) aiohttp/" in agent
    assert user_agent(" ada@uni-somewhere.edu\n") == agent
    others = """https://lab.uni-somewhere.edu/crawler http://uni-somewhere.edu https://my.harvard.edu/~ada?a=b
    amy@uni.edu me@uni.edu some@domain.com ada@mail.uni.edu ada@a.testing.edu fillmore@uni.edu john.myers@uni.edu
    youri@uni.nl my-linh@uni.edu ada@army-lab.edu ada@mysites.edu ada@mynet.edu"""
    for contact in others.split():
        assert f" ({contact}) " in user_agent(contact)
    placeholders = "you@example.com me@domain.com your-name@uni.edu changeme@uni.edu https://example.org/bot"
    placeholders += " https://your-lab.edu/ user@test.invalid ada@uni.test ada@uni.example ada@my-lab.edu"
    placeholders += " my_name@uni.edu your-x@uni.edu yourname@a.edu your.email@a.edu my_first_name@a.edu ada@your.org"
    placeholders += " ada@yourdomain.com ada@my.com yourlastname@a.edu https://mywebsite.org/"
    placeholders += " ChangeMe@uni.edu change-me@uni.edu fill_me@uni.edu placeholder@uni.edu name@mail.org mail@foo.org"
    placeholders += " someone@company.com email@bar.org foo@email.com contact@host.net"
    for wrong in [
        "",
        "ada",
        "ada@localhost",
        "adä@uni-somewhere.edu",
        "ädä",
        "ada@uni.edu\r\nX: y",
        *placeholders.split(),
    ]:
        with pytest.raises(ValueError, match=r"neither|placeholder"):
            user_agent(wrong)


def test_retry_after(monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime

    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert retry_after("120") == 120
    assert retry_after(" 1.5 ") == 1.5
    assert retry_after("Thu, 01 Jan 2026 12:01:00 GMT", now) == 60
    assert retry_after("Thu, 01 Jan 2026 11:00:00 GMT", now) == 0
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert retry_after("Thu, 01 Jan 2026 12:00:30 -0000", now) == 30  # without a time zone
    time.tzset()
    assert retry_after("Thu, 01 Jan 2026 14:00:30 +0200", now) == 30
    assert retry_after("Thu, 02 Jan 2020 11:00:00 GMT") == 0
    assert (retry_after("Thu, 02 Jan 2126 11:00:00 GMT") or 0) > 86_400
    assert [retry_after(text) for text in (None, "", "soon", "-5", "9" * 10)] == [None] * 5
    assert retry_after("9" * 9) == 999_999_999


def test_opt_out_headers() -> None:
    words = ("noai", "noimageai")
    assert opted_out(["noindex, NoAI"], words) == "noai"
    assert opted_out(["noindex", "*: noimageai"], words) == "noimageai"
    assert opted_out(["remine: noai"], words) == "noai"
    assert opted_out(["googlebot: noai, noimageai"], words) is None
    assert opted_out(["googlebot: noindex, remine: noai"], words) == "noai"
    assert opted_out(["unavailable_after: 25 Jun 2026 15:00:00 PST, noai"], words) == "noai"
    assert opted_out(["googlebot: noindex", "noai"], words) == "noai"
    for rule in ("max-snippet: -1", "max-image-preview: large", "max-video-preview:-1"):
        assert opted_out([f"{rule}, noai"], words) == "noai"
    for date in ("Wed, 25 Jun 2026 15:00:00 GMT", "Wednesday, 25-Jun-26 15:00:00 UTC", "2026-06-25T15:00:00+00:00"):
        assert opted_out([f"googlebot: unavailable_after: {date}, noai"], words) is None
        assert opted_out([f"unavailable_after: {date}, noai"], words) == "noai"
    assert opted_out(["noai"], ["NoAI"]) == "noai"
    assert opted_out(["noaiming"], words) is None
    assert opted_out([], words) is None


def test_any_retry_after_is_seconds_or_none() -> None:
    date = "Mon, 01 Jan 2026 00:00:00 "
    texts = [
        "",
        " ",
        "0",
        "9" * 4000,
        date + "+" + "9" * 4000,
        date + "-9999999",
        date + "GMT" * 1000,
        "1e9",
        "Mon",
        "," * 999,
    ]
    texts += [date[:cut] for cut in range(len(date))]
    assert [text for text in texts if not isinstance(retry_after(text), float | None)] == []
    assert retry_after(date + "+" + "9" * 4000) is None
