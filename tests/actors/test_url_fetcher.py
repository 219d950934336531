"""The fetcher against a real HTTPS server on loopback that does everything wrong."""

import asyncio
import json
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from actors.fetching import wikimedia
from actors.fetching.decoders import Decoders
from actors.fetching.http_connection import Bounds, tls_context
from actors.fetching.net_safety import Rules
from actors.schemas import ImageRow
from actors.url_fetcher import ImageRequest, UrlFetcher, UrlFetcherSettings
from tests.https_server import ADDRESS, Answer, HttpsServer, Seen
from tests.picture_site import LocalLimiter, Site, jpeg

AGENT = "remine/0 (tests@remine.dev) aiohttp/0"


def bomb() -> bytes:
    """Return a PNG of 60,000 x 60,000 pixels in a few kB."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes(1_000_000), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def server(tmp_path: Path, site: Site) -> Iterator[HttpsServer]:
    with HttpsServer(tmp_path, site) as running:
        yield running


def settings(server: HttpsServer, **changed: Any) -> UrlFetcherSettings:
    names = ("upload.wikimedia.org", "thumb.wikimedia.org", "commons.wikimedia.org", "pictures.example.com")
    rules = Rules(
        (f"localhost:{server.port}", *names, "127.0.0.1:*".replace("*", str(server.port)), "inside.example.com"),
        frozenset({ADDRESS}),
        tuple((name, ADDRESS, server.port) for name in names),
    )
    base = UrlFetcherSettings(
        agent=AGENT, rules=rules, backoff_s=0.02, attempts=4, credits=False, bounds=Bounds(200_000, 2.0, 0.6, 1.5)
    )
    return replace(base, **changed)


def fetch(
    server: HttpsServer, *asked: str | ImageRequest, lookup: Any = None, trusted: bool = True, **changed: Any
) -> list[ImageRow]:
    """Return the rows, in the order asked."""
    rows: dict[str, ImageRow] = {}
    wanted = [one if isinstance(one, ImageRequest) else ImageRequest(f"{n:03}", one) for n, one in enumerate(asked)]

    async def go() -> None:
        server_settings = settings(server, **changed)
        decoders = Decoders(width=server_settings.width, processes=1)
        fetcher = UrlFetcher(
            settings=server_settings,
            limiter=LocalLimiter(),
            decoders=decoders,
            tls=tls_context(str(server.ca_file) if trusted else None),
            lookup=lookup,
        )
        credits = await fetcher.fetch(wanted, lambda row: rows.update({row["image_id"]: row}), credits_of=wanted)
        for image_id, (author, licence) in credits.items():
            rows[image_id] |= {"author": author, "licence": licence}
        await decoders.close()

    asyncio.run(go())
    assert sorted(rows) == sorted(one.image_id for one in wanted)
    return [rows[one.image_id] for one in wanted]


def kinds(rows: list[ImageRow]) -> list[tuple[str, str | None]]:
    return [(row["status"], row.get("error_kind")) for row in rows]


def test_a_picture_and_its_facts(server: HttpsServer) -> None:
    (row,) = fetch(server, server.url("/a.jpg?x=%C3%A9&y=1"))
    assert (row["status"], row["bytes"], row["format"], row["width"]) == ("ok", jpeg(), "JPEG", 330)
    assert (row["attempts"], row["http_status"], row["rendition"]) == (1, 200, "original")
    (seen,) = server.seen
    assert seen.path == "/a.jpg?x=%C3%A9&y=1"
    assert seen.headers["user-agent"] == AGENT
    assert seen.headers["accept-encoding"] == "identity"
    assert "cookie" not in seen.headers


def test_statuses(server: HttpsServer, site: Site) -> None:
    for status in (404, 410, 403, 451, 418, 500):
        site.script[f"/{status}"] = [Answer(status, b"no")]
    site.script["/later"] = [Answer(500), Answer(502), Answer(200, jpeg())]
    rows = fetch(server, *(server.url(f"/{s}") for s in (404, 410, 403, 451, 418, 500)), server.url("/later"))
    assert kinds(rows) == [
        ("missing", "gone"),
        ("missing", "gone"),
        ("blocked", "forbidden"),
        ("blocked", "forbidden"),
        ("error", "http"),
        ("error", "server"),
        ("ok", None),
    ]
    assert [row["http_status"] for row in rows] == [404, 410, 403, 451, 418, 500, 200]
    assert [row["attempts"] for row in rows] == [1, 1, 1, 1, 1, 4, 3]


def test_redirects_are_followed_three_times_and_checked_each_time(server: HttpsServer, site: Site) -> None:
    def to(place: str, status: int = 302) -> list[Answer | Callable[[Seen], Any]]:
        return [Answer(status, b"", (("Location", place),))]

    site.script |= {
        "/one": to("/two", 301),
        "/two": to("/three", 307),
        "/three": to(server.url("/picture"), 308),
        "/zero": to("/one", 303),
        "/http": to(f"http://localhost:{server.port}/x"),
        "/loopback": to("https://127.0.0.1/x"),
        "/metadata": to("https://169.254.169.254/latest/meta-data"),
        "/metadata-name": to("https://inside.example.com/"),
        "/elsewhere": to("https://other.example.net/x"),
        "/password": to(f"https://me:secret@localhost:{server.port}/x"),
        "/file": to("file:///etc/passwd"),
        "/nowhere": [Answer(302)],
    }
    paths = "one zero http loopback metadata metadata-name elsewhere password file nowhere".split()

    async def lookup(host: str, port: int) -> list[str]:
        return ["169.254.169.254"] if host == "inside.example.com" else [ADDRESS]

    rows = fetch(server, *(server.url(f"/{path}") for path in paths), lookup=lookup)
    assert kinds(rows) == [
        ("ok", None),
        ("error", "too_many_redirects"),
        ("blocked", "not_https"),
        ("blocked", "host_not_allowed"),
        ("blocked", "host_not_allowed"),
        ("blocked", "private_address"),
        ("blocked", "host_not_allowed"),
        ("blocked", "credentials_in_url"),
        ("error", "bad_url"),
        ("error", "bad_answer"),
    ]
    assert rows[0]["final_url"] == server.url("/picture")
    assert rows[0]["attempts"] == 4  # each hop was a request
    assert "/x" not in server.paths()


def test_a_name_that_leads_inside(server: HttpsServer) -> None:
    for address in ("10.0.0.1", "127.0.0.2", "::ffff:192.168.0.1", "64:ff9b::a00:1", "100.64.0.1"):

        async def lookup(host: str, port: int, address: str = address) -> list[str]:
            return ["93.184.216.34", address]  # one public answer does not help

        (row,) = fetch(server, "https://inside.example.com/x", lookup=lookup)
        assert kinds([row]) == [("blocked", "private_address")]
        assert address in str(row["error_message"])
    assert server.seen == []


def test_a_name_that_leads_inside_the_second_time(server: HttpsServer) -> None:
    answers = [["169.254.169.254"], [ADDRESS]]  # the first is for the connection, whatever was checked before
    asked = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[min(len(asked), 2) - 1]

    rows = fetch(server, f"https://localhost:{server.port}/x", lookup=lookup)
    assert kinds(rows) == [("blocked", "private_address")]
    assert len(asked) == 1  # the addresses that were checked are those connected to


def test_an_address_in_the_url(server: HttpsServer) -> None:
    everything = Rules(("*", f"*:{server.port}"))
    urls = [f"https://{host}/x" for host in ("127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "0.0.0.0")]
    rows = fetch(server, *urls, "https://2130706433/", f"https://127.1:{server.port}/", rules=everything)
    assert kinds(rows)[:5] == [("blocked", "private_address")] * 5
    assert {row["status"] for row in rows[5:]} <= {"blocked", "error"}
    assert server.seen == []


def test_busy_hosts_are_waited_for_and_never_missing(server: HttpsServer, site: Site) -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    site.script = {
        "/429": [Answer(429), Answer(200, jpeg())],
        "/503": [Answer(503, b"", (("Retry-After", "0"),)), Answer(200, jpeg())],
        "/seconds": [Answer(429, b"", (("Retry-After", "1"),)), Answer(200, jpeg())],
        "/date": [Answer(503, b"", (("Retry-After", soon),)), Answer(200, jpeg())],
    }
    rows = fetch(server, *(server.url(path) for path in site.script), connections=1)
    assert kinds(rows) == [("ok", None)] * 4
    assert [row["attempts"] for row in rows] == [2] * 4
    at = {path: [one.at for one in server.seen if one.path == path] for path in ("/seconds", "/date")}
    after = {path: min(one.at for one in server.seen if one.at > times[0]) for path, times in at.items()}
    # Nobody asked the host anything meanwhile. One connection: a busy machine can only make the pause longer.
    assert after["/seconds"] - at["/seconds"][0] >= 0.95


def test_busy_for_ever_is_an_error_and_a_long_wait_too(server: HttpsServer, site: Site) -> None:
    site.script["/for-ever"] = [Answer(429)]
    rows = fetch(server, server.url("/for-ever"))
    assert kinds(rows) == [("error", "busy")]
    assert (rows[0]["attempts"], rows[0]["http_status"]) == (4, 429)
    site.script["/hour"] = [Answer(429, b"", (("Retry-After", "3600"),))]
    rows = fetch(server, server.url("/hour"), server.url("/other"), connections=1)
    assert kinds(rows) == [("error", "busy"), ("error", "busy")]  # the host is asked nothing at all
    assert server.counted()["/other"] == 0


def test_bodies_that_take_too_long(server: HttpsServer, site: Site) -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        writer.write(jpeg()[:100])
        await writer.drain()
        await asyncio.sleep(5)

    async def dripping(writer: asyncio.StreamWriter) -> None:
        for byte in jpeg():
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.05)

    site.script = {"/slow": [Answer(stream=slow)], "/dripping": [Answer(stream=dripping)]}
    rows = fetch(server, *(server.url(path) for path in site.script), attempts=2)
    assert kinds(rows) == [("error", "timeout")] * 2


def test_bodies_that_are_no_pictures(server: HttpsServer, site: Site) -> None:
    async def too_long(writer: asyncio.StreamWriter) -> None:
        for _ in range(16):
            writer.write(bytes(65536))
            await writer.drain()

    packed = (("Content-Encoding", "gzip"),)
    site.script = {
        "/too-long": [Answer(stream=too_long)],
        "/short": [Answer(200, jpeg(), (("Content-Length", str(len(jpeg()) + 50)),))],
        "/huge": [Answer(200, b"", (("Content-Length", "99999999999"),))],
        "/gzip-bomb": [Answer(200, zlib.compress(bytes(10_000_000), 9), packed)],
        "/pixel-bomb": [Answer(200, bomb(), (("Content-Type", "image/png"),))],
        "/truncated": [Answer(200, jpeg()[:-200])],
        "/html": [Answer(200, b"<!DOCTYPE html><p>no", (("Content-Type", "image/jpeg"),))],
        "/json": [Answer(200, b'{"error": "no"}', (("Content-Type", "image/jpeg"),))],
        "/text": [Answer(200, jpeg(), (("Content-Type", "text/html"),))],
        "/empty": [Answer(200, b"")],
        "/svg": [Answer(200, b"<svg xmlns='http://www.w3.org/2000/svg'/>")],
    }
    patient = Bounds(200_000, 60.0, 60.0, 60.0)
    rows = fetch(server, *(server.url(path) for path in site.script), attempts=2, connections=8, bounds=patient)
    assert dict(zip(site.script, kinds(rows), strict=True)) == {
        "/too-long": ("error", "too_many_bytes"),
        "/short": ("error", "incomplete_body"),
        "/huge": ("error", "too_many_bytes"),
        "/gzip-bomb": ("error", "encoded_body"),
        "/pixel-bomb": ("error", "too_large"),
        "/truncated": ("error", "truncated"),
        "/html": ("error", "html"),
        "/json": ("error", "json"),
        "/text": ("ok", None),
        "/empty": ("error", "empty"),
        "/svg": ("error", "unsupported"),
    }
    assert all(row["error_message"] for row in rows if row["status"] == "error")


def test_opting_out(server: HttpsServer, site: Site) -> None:
    site.script = {
        "/out": [Answer(200, jpeg(), (("X-Robots-Tag", "noindex, noai"),))],
        "/other-agent": [Answer(200, jpeg(), (("X-Robots-Tag", "googlebot: noai"),))],
    }
    rows = fetch(server, *(server.url(path) for path in site.script))
    assert kinds(rows) == [("blocked", "opt_out"), ("ok", None)]
    assert kinds(fetch(server, server.url("/out"), opt_out=("noindex",))) == [("blocked", "opt_out")]
    assert kinds(fetch(server, server.url("/out"), opt_out=())) == [("ok", None)]


def test_a_lost_connection_an_unknown_authority_and_a_dead_port(server: HttpsServer, site: Site) -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    broken = Answer(stream=cut, headers=(("Content-Length", "1000"),))
    site.script = {"/cut": [broken, broken, Answer(200, jpeg())]}
    (row,) = fetch(server, server.url("/cut"))
    assert row["status"] == "ok"
    rules = Rules(("localhost:1", f"localhost:{server.port}"), frozenset({ADDRESS, "::1"}))
    (row,) = fetch(server, "https://localhost:1/x", rules=rules, attempts=2)
    assert (row["error_kind"], row["attempts"], row["http_status"]) == ("connection", 2, None)
    (row,) = fetch(server, server.url("/a"), trusted=False)
    assert (row["error_kind"], row["attempts"]) == ("tls", 1)

    async def nowhere(host: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    (row,) = fetch(server, server.url("/a"), lookup=nowhere, attempts=2)
    assert row["error_kind"] == "dns"


def test_no_more_connections_than_allowed_and_they_are_kept(server: HttpsServer, site: Site) -> None:
    async def some_time(seen: Seen) -> Answer:
        await asyncio.sleep(0.01)
        return Answer(404 if seen.path.endswith("7") else 200, jpeg())

    site.default = some_time
    rows = fetch(server, *(server.url(f"/{number}") for number in range(60)), connections=3)
    assert {row["status"] for row in rows} == {"ok", "missing"}
    assert server.most_connections == 3
    assert len(server.seen) == 60


def test_bytes_a_second(server: HttpsServer, site: Site) -> None:
    body = jpeg(1200, 900, quality=100)
    rate = 600_000
    site.default = Answer(200, body)
    began = time.monotonic()
    rows = fetch(
        server, *(server.url(f"/{n}") for n in range(2_000_000 // len(body))), mbit_s=rate * 8 / 1e6, connections=2
    )
    took = time.monotonic() - began
    assert {row["status"] for row in rows} == {"ok"}
    total = sum(count for _, count in server.sent)
    slack = 0.25 * rate + 2 * 400_000  # a burst, and what lies in the buffers of two connections
    # Over the whole run, which a busy machine can only make longer; second by second: test_limits, with its own clock.
    assert total - slack <= rate * took


def test_wikimedia_is_asked_for_what_it_serves(server: HttpsServer, site: Site) -> None:
    upload = "https://upload.wikimedia.org/wikipedia/commons"
    rows = fetch(
        server,
        f"{upload}/a/ab/Big.jpg",
        ImageRequest("small", f"{upload}/a/ac/Small.jpg", 200),
        f"{upload}/a/ad/Sound.ogg",
        f"{upload}/a/ae/Drawing.svg",
        "http://upload.wikimedia.org/wikipedia/commons/thumb/a/af/Old.tif/lossless-page1-200px-Old.tif.png",
        width=300,
    )
    assert kinds(rows) == [("ok", None), ("ok", None), ("skipped", "no_thumbnail"), ("ok", None), ("ok", None)]
    assert sorted(server.paths()) == [
        "/wikipedia/commons/a/ac/Small.jpg",
        "/wikipedia/commons/thumb/a/ab/Big.jpg/330px-Big.jpg",
        "/wikipedia/commons/thumb/a/ae/Drawing.svg/330px-Drawing.svg.png",
        "/wikipedia/commons/thumb/a/af/Old.tif/lossy-page1-330px-Old.tif.jpg",
    ]
    assert {row["rendition"] for row in rows} == {"w300"}
    assert {row.get("width") for row in rows} == {300, None}
    assert rows[0]["final_url"] == "https://thumb.wikimedia.org/wikipedia/commons/thumb/a/ab/Big.jpg/330px-Big.jpg"
    assert rows[0]["source_url"] == f"{upload}/a/ab/Big.jpg"
    assert server.most_connections <= 2  # both hosts together


def test_a_file_narrower_than_the_requested_thumbnail(server: HttpsServer, site: Site) -> None:
    site.script["/wikipedia/commons/thumb/a/ab/Tiny.jpg/330px-Tiny.jpg"] = [Answer(400, b"too wide")]
    site.default = Answer(200, jpeg(120, 80))
    (row,) = fetch(server, "https://upload.wikimedia.org/wikipedia/commons/a/ab/Tiny.jpg", width=300)
    assert (row["status"], row["width"], row["bytes"]) == ("ok", 120, jpeg(120, 80))
    assert row["attempts"] == 2


def test_verify_only(server: HttpsServer, site: Site) -> None:
    def no_head(seen: Seen) -> Answer:
        return Answer(405) if seen.method == "HEAD" else Answer(206, b"x")

    site.script = {"/gone": [Answer(404)], "/no-head": [no_head], "/busy": [Answer(429), Answer(200)]}
    commons = "https://upload.wikimedia.org/wikipedia/commons/thumb/a/ab/There.jpg/300px-There.jpg"
    rows = fetch(server, *(server.url(p) for p in ("/there", "/gone", "/no-head", "/busy")), commons, verify_only=True)
    assert [row["status"] for row in rows] == ["ok", "missing", "ok", "ok", "ok"]
    assert {row["rendition"] for row in rows} == {"verified"}
    assert not any(row.get("bytes") for row in rows)
    assert "/wikipedia/commons/a/ab/There.jpg" in server.paths()
    methods = {one.path: one.headers.get("range") for one in server.seen if one.method == "GET"}
    assert methods == {"/no-head": "bytes=0-0"}


def test_author_and_licence(server: HttpsServer, site: Site) -> None:
    calls: list[list[str]] = []

    def api(seen: Seen) -> Answer:
        titles = parse_qs(seen.body.decode())["titles"][0].split("|")
        calls.append(titles)
        pages = []
        for title in titles:
            if title.endswith(" 1.jpg"):
                pages.append({"title": title, "missing": True})
                continue
            fields = {"Artist": {"value": "<a href='//x'>Ada <b>L.</b></a><style>p{}</style>"}}
            if not title.endswith(" 2.jpg"):
                fields["LicenseShortName"] = {"value": "CC BY-SA 4.0"}
            pages.append({"title": title.replace(" 3.", " three."), "imageinfo": [{"extmetadata": fields}]})
        moved = [{"from": t, "to": t.replace(" 3.", " three.")} for t in titles if " 3." in t]
        return Answer(200, json.dumps({"query": {"redirects": moved, "pages": pages}}).encode())

    site.script["/w/api.php"] = [Answer(503), api]
    base = "https://upload.wikimedia.org/wikipedia/commons/a/ab"
    rows = fetch(server, *(f"{base}/File_{n}.jpg" for n in range(60)), server.url("/web"), credits=True, connections=4)
    assert sorted(map(len, calls)) == [10, 50]
    assert [(row["author"], row["licence"]) for row in rows[:4]] == [
        ("Ada L.", "CC BY-SA 4.0"),
        ("unknown", "unknown"),
        ("Ada L.", "unknown"),
        ("Ada L.", "CC BY-SA 4.0"),
    ]
    assert "author" not in rows[60]
    site.script["/w/api.php"] = [Answer(403)]
    (row,) = fetch(server, f"{base}/File_0.jpg", credits=True)
    assert row["status"] == "ok"
    assert "author" not in row


def test_invalid_urls_and_excluded_ones(server: HttpsServer) -> None:
    rows = fetch(
        server,
        "",
        "not a url",
        "ftp://localhost/x",
        "https://",
        "https://localhost:99999/x",
        "https://[::1/x",
        "http://pictures.example.com/x",
        ImageRequest("zz", server.url("/secret"), reported=True),
    )
    assert kinds(rows) == [("error", "bad_url")] * 6 + [("blocked", "not_https"), ("reported", "excluded")]
    assert server.seen == []


def test_an_error_that_nobody_foresaw_costs_one_picture(
    server: HttpsServer, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cursed(url: str) -> bool:
        if "cursed" in url:
            raise IndexError("out of range")
        return False

    monkeypatch.setattr(wikimedia, "is_wikimedia", cursed)
    rows = fetch(server, "https://pictures.example.com/cursed.jpg", "https://nowhere.example.com/a.jpg")
    assert [(row["status"], row["error_kind"]) for row in rows] == [
        ("error", "IndexError"),
        ("blocked", "host_not_allowed"),
    ]
