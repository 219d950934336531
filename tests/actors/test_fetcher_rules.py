"""Rows that `UrlFetcher` returns for each kind of reply, and its settings; no request is sent."""

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from actors import url_fetcher
from actors.fetching import wikimedia
from actors.fetching.http_connection import Bounds, HttpError, HttpRequest, Reply
from actors.fetching.net_safety import BlockedError, Rules
from actors.fetching.wikimedia import NoThumbnailError, WikimediaFile, query_form
from actors.pictures import PictureError
from actors.url_fetcher import ImageRequest, UrlFetcher, UrlFetcherSettings, _History
from tests.cases import check_cases
from tests.picture_site import LocalLimiter

UPLOAD = "https://upload.wikimedia.org/wikipedia/commons"
THUMB = "https://thumb.wikimedia.org/wikipedia/commons/thumb"


def settings(**changes: Any) -> UrlFetcherSettings:
    return UrlFetcherSettings(agent="test", rules=Rules(("*",)), **changes)


def fetcher(**changes: Any) -> UrlFetcher:
    decoders: Any = SimpleNamespace(processes=1)
    tls: Any = None
    return UrlFetcher(settings=settings(**changes), limiter=LocalLimiter(), decoders=decoders, tls=tls)


def reply(status: int, *, location: str | None = None, robots: tuple[str, ...] = ()) -> Reply:
    return Reply(status, None, location, None, robots)


def test_settings_that_are_not_allowed() -> None:
    cases = [
        *((key, 0) for key in ("connections", "mbit_s", "attempts", "backoff_s", "max_wait_s", "max_timeouts")),
        ("form", "thumb"),
        ("api", "http://{host}/w/api.php"),
        ("api", "https://{wiki}/w/api.php"),
        ("api", "https://{0}/w/api.php"),
        ("api", "https://{host"),
    ]

    def check(key: str, value: Any) -> None:
        with pytest.raises(ValueError, match=f"{key}="):
            settings(**{key: value})

    check_cases(check, cases)


def test_settings_that_are_allowed() -> None:
    assert settings(mbit_s=None, connections=1, attempts=1, backoff_s=0.1, form="paper").rendition == "original"
    assert (settings(width=300).rendition, settings(width=300, verify_only=True).rendition) == ("w300", "verified")
    assert settings().bounds == Bounds(64 * 2**20)
    for name in ("max_bytes", "connect_s", "read_s", "total_s"):
        with pytest.raises(ValueError, match=f"{name}=0"):
            Bounds(**{"max_bytes": 1, name: 0})


def test_replies_without_a_picture() -> None:
    cases = [
        *((status, ("missing", "gone")) for status in (404, 410)),
        *((status, ("blocked", "forbidden")) for status in (401, 403, 451)),
        *((status, ("error", "http")) for status in (400, 402, 405, 406, 409, 411, 450, 501)),
    ]

    def check(status: int, kind: tuple[str, str]) -> None:
        row = fetcher()._refused(reply(status))
        assert (row["status"], row["error_kind"]) == kind
        assert fetcher()._verified(reply(status)) == row

    check_cases(check, cases)


def test_replies_that_opt_out() -> None:
    row = fetcher()._refused(reply(200, robots=("noai",)))
    assert (row["status"], row["error_kind"]) == ("blocked", "opt_out")
    assert fetcher()._verified(reply(200, robots=("noai",))) == row
    assert fetcher()._verified(reply(200, robots=("noindex",))) == {"status": "ok"}
    assert [fetcher()._verified(reply(status))["status"] for status in (199, 299, 300)] == ["error", "ok", "error"]


def test_urls_that_are_requested() -> None:
    cases = [
        ("//a.org/1.jpg ", {}, ("https://a.org/1.jpg", None)),
        (f"{UPLOAD}/a/ab/N.jpg", {}, (f"{UPLOAD}/a/ab/N.jpg", None)),
        (f"{UPLOAD}/a/ab/N.jpg", {"width": 300}, (f"{THUMB}/a/ab/N.jpg/330px-N.jpg", f"{UPLOAD}/a/ab/N.jpg")),
        (f"{UPLOAD}/a/ab/N.svg", {"width": 300}, (f"{THUMB}/a/ab/N.svg/330px-N.svg.png", None)),
        (f"{THUMB}/a/ab/N.jpg/330px-N.jpg", {"verify_only": True}, (f"{UPLOAD}/a/ab/N.jpg", None)),
        (f"{UPLOAD}/a/ab/N.ogg", {"verify_only": True}, (f"{UPLOAD}/a/ab/N.ogg", None)),
    ]

    def check(url: str, changes: dict[str, Any], urls: tuple[str, str | None]) -> None:
        assert fetcher(**changes)._urls(ImageRequest("i", url)) == urls

    check_cases(check, cases)


def row_of(**stubs: Any) -> dict[str, Any]:
    """Return the row of a picture that a fetcher with these methods fetches."""
    one = fetcher()
    for name, stub in stubs.items():
        setattr(one, name, stub)
    return dict(asyncio.run(one._row(ImageRequest("i", f"{UPLOAD}/a/ab/N.jpg", 99))))


def test_rows_of_errors() -> None:
    def check(error: Exception, status: str, kind: str, message: str, http_status: int) -> None:
        async def fail(request: ImageRequest, history: _History) -> Any:
            history.attempts, history.http_status, history.url = 2, 301, "https://a.org/1?sig=word"
            raise error

        assert row_of(_outcome=fail) == {
            "image_id": "i", "rendition": "original", "source_url": f"{UPLOAD}/a/ab/N.jpg", "status": status,
            "error_kind": kind, "error_message": message, "attempts": 2, "http_status": http_status,
            "final_url": "https://a.org/1",
        }  # fmt: skip

    cases = [
        (NoThumbnailError("audio"), "skipped", "no_thumbnail", "audio", 301),
        (BlockedError("not_https", "http"), "blocked", "not_https", "http", 301),
        (HttpError("tls", "no", retry=False), "error", "tls", "no", 301),
        (HttpError("json", "no", retry=False, http_status=200), "error", "json", "no", 200),
        (PictureError("html", "a page"), "error", "html", "a page", 301),
        (ValueError("port"), "error", "bad_url", "not an http or https URL", 301),
        *((kind("https://u:word@a.org/\nmore"), "error", kind.__name__, "https://a.org/", 301)
          for kind in (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError)),
    ]  # fmt: skip
    check_cases(check, cases)
    with pytest.raises(ConnectionError):
        check(ConnectionError("the limiter"), "", "", "", 0)


def test_a_width_that_the_host_refuses_is_replaced_by_the_file() -> None:
    def answered(*statuses: int, fallback: str | None) -> tuple[str | None, list[str]]:
        urls: list[str] = []

        async def follow(request: HttpRequest, history: _History) -> Reply:
            urls.append(request.url)
            return reply(statuses[len(urls) - 1])

        row = row_of(_follow=follow, _urls=lambda request: ("https://t.org", fallback))
        return row["error_message"], urls

    assert answered(400, 404, fallback="https://f.org") == ("HTTP 404", ["https://t.org", "https://f.org"])
    assert answered(400, fallback=None) == ("HTTP 400", ["https://t.org"])
    assert answered(404, fallback="https://f.org") == ("HTTP 404", ["https://t.org"])


def test_hosts_share_the_limits_of_their_family() -> None:
    one = fetcher(connections=3, mbit_s=8.0, backoff_s=2.0)
    one._shared = SimpleNamespace()  # type: ignore[assignment]
    queues = [one._queue(host, 443) for host in ("upload.wikimedia.org", "en.wikipedia.org", "a.org")]
    assert queues[0] is queues[1] is not queues[2]
    assert one._queue("a.org", 443) is queues[2] is not one._queue("a.org", 8443)
    limits = [queue._limit for queue in one._queues.values()]
    assert [limit.key for limit in limits] == ["wikimedia", "a.org", "a.org:8443"]
    assert {(limit.connections, limit.bytes_per_s, limit.backoff_s) for limit in limits} == {(3, 1e6, 2.0)}


def followed(replies: list[Reply], request: HttpRequest) -> tuple[Reply, list[HttpRequest]]:
    """Return the last reply, and the requests that were sent."""
    asked = []

    async def persist(request: HttpRequest, history: _History) -> Reply:
        asked.append(request)
        return replies[len(asked) - 1]

    one = fetcher()
    one._persist = persist  # type: ignore[method-assign]
    return asyncio.run(one._follow(request, _History())), asked


def test_redirects_are_followed_three_times() -> None:
    def check(status: int) -> None:
        moved = [reply(status, location=place) for place in ("/2", "3", "https://b.org/4", "/5")]
        last, asked = followed([*moved[:3], reply(200)], HttpRequest("https://a.org/1/", headers=(("Range", "x"),)))
        assert (last.status, {(request.method, request.headers) for request in asked}) == (
            200,
            {("GET", (("Range", "x"),))},
        )
        assert [request.url for request in asked] == [
            "https://a.org/1/",
            "https://a.org/2",
            "https://a.org/3",
            "https://b.org/4",
        ]
        with pytest.raises(HttpError, match="more than 3 redirects") as caught:
            followed(moved, HttpRequest("https://a.org/1"))
        assert not caught.value.retry
        with pytest.raises(HttpError, match="without a Location"):
            followed([reply(status)], HttpRequest("https://a.org/1"))

    check_cases(check, [301, 302, 303, 307, 308])


def test_other_statuses_are_no_redirects() -> None:
    for status in (300, 304, 305, 306, 309):
        assert followed([reply(status, location="/2")], HttpRequest("https://a.org/1"))[0].status == status


def test_a_host_that_refuses_head_is_asked_for_the_first_byte() -> None:
    def check(status: int) -> None:
        asked = []

        async def follow(request: HttpRequest, history: _History) -> Reply:
            asked.append((request.method, request.headers))
            return reply(status)

        one = fetcher()
        one._follow = follow  # type: ignore[method-assign]
        assert asyncio.run(one._head("https://a.org/1", _History())).status == status
        assert asked == [("HEAD", ()), ("GET", (("Range", "bytes=0-0"),))][: 1 if status == 404 else 2]

    check_cases(check, [400, 403, 405, 501, 404])


def persisted(
    monkeypatch: pytest.MonkeyPatch, outcomes: Sequence[Reply | HttpError], attempts: int
) -> tuple[Reply | HttpError, _History, list[float]]:
    """Return the outcome, what the row says of the requests, and the pauses between them."""
    pauses: list[float] = []
    left = list(outcomes)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def ask(request: HttpRequest) -> Reply:
        outcome = left.pop(0)
        if isinstance(outcome, HttpError):
            raise outcome
        return outcome

    monkeypatch.setattr(url_fetcher, "asyncio", SimpleNamespace(sleep=sleep))
    one, history = fetcher(attempts=attempts, backoff_s=0.5), _History()
    one._queue = lambda *_: SimpleNamespace(ask=ask)  # type: ignore[method-assign, assignment]
    try:
        return asyncio.run(one._persist(HttpRequest("https://a.org/1"), history)), history, pauses
    except HttpError as error:
        return error, history, pauses


def test_transient_replies_are_asked_again_after_growing_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(status: int) -> None:
        outcome, history, pauses = persisted(monkeypatch, [reply(status)] * 3 + [reply(200)], 4)
        assert isinstance(outcome, Reply)
        assert (outcome.status, history, pauses) == (200, _History(4, 200, "https://a.org/1"), [0.5, 1.0, 2.0])
        outcome, history, pauses = persisted(monkeypatch, [reply(status)] * 4, 4)
        assert isinstance(outcome, HttpError)
        assert (outcome.kind, history.attempts, history.http_status, len(pauses)) == ("server", 4, status, 3)

    check_cases(check, [408, 425, 500, 502, 504])


@pytest.mark.parametrize("status", [429, 503])
def test_busy_replies_are_asked_again_and_the_limiter_pauses(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    outcome, history, pauses = persisted(monkeypatch, [reply(status), reply(404)], 2)
    assert isinstance(outcome, Reply)
    assert (outcome.status, history.attempts, pauses) == (404, 2, [])
    outcome, history, pauses = persisted(monkeypatch, [reply(status)] * 2, 2)
    assert isinstance(outcome, HttpError)
    assert (outcome.kind, str(outcome), pauses) == ("busy", f"HTTP {status} each of 2 times", [])


def test_errors_are_tried_again_if_that_may_help(monkeypatch: pytest.MonkeyPatch) -> None:
    lost, wrong = HttpError("connection", "lost", retry=True), HttpError("tls", "no", retry=False)
    assert persisted(monkeypatch, [lost, reply(200)], 2)[1:] == (_History(2, 200, "https://a.org/1"), [0.5])
    assert persisted(monkeypatch, [lost, lost], 2)[0] is lost
    assert persisted(monkeypatch, [wrong, reply(200)], 2)[0] is wrong


def test_credits_are_requested_from_each_wiki_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.fetching.wikimedia.TITLES_PER_REQUEST", 2)
    calls: list[tuple[str, list[str]]] = []

    async def ask(api: str, files: list[WikimediaFile]) -> list[tuple[str, str]]:
        calls.append((api, [file.name for file in files]))
        return [] if len(calls) == 3 else [(file.name, "CC0") for file in files]

    def credits_of(**changes: Any) -> dict[str, tuple[str, str]]:
        one = fetcher(**changes)
        one._request_credits = ask  # type: ignore[method-assign]
        wikis = {"A": "commons", "B": "commons", "C": "commons", "D": "en"}
        requests = [
            ImageRequest(name.lower(), f"https://upload.wikimedia.org/wikipedia/{wiki}/a/ab/{name}.jpg")
            for name, wiki in wikis.items()
        ]
        other = [ImageRequest("r", f"{UPLOAD}/a/ab/R.jpg", reported=True), ImageRequest("o", "https://a.org/O.jpg")]
        return asyncio.run(one._credits([*other, *requests]))

    assert credits_of() == {name.lower(): (f"{name}.jpg", "CC0") for name in "ABC"}
    apis = [f"https://{wiki}.org/w/api.php" for wiki in ("commons.wikimedia", "en.wikipedia")]
    assert calls == [(apis[0], ["A.jpg", "B.jpg"]), (apis[0], ["C.jpg"]), (apis[1], ["D.jpg"])]
    assert credits_of(credits=False) == credits_of(verify_only=True) == {}
    assert len(calls) == 3


def test_an_api_that_is_behind_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    file = wikimedia.parse(f"{UPLOAD}/a/ab/A.jpg")
    page = {"title": "File:A.jpg", "imageinfo": [{"extmetadata": {"Artist": {"value": "Ada"}}}]}
    right, behind = json.dumps({"query": {"pages": [page]}}).encode(), b'{"error": {"code": "maxlag"}}'

    def asked(*outcomes: Any) -> tuple[list[tuple[str, str]], list[float], int]:
        """Return the credits, the pauses and the number of bodies whose memory was released."""
        pauses: list[float] = []
        left = list(outcomes)

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        async def persist(request: HttpRequest, history: _History) -> Reply:
            assert (request.method, request.url, request.data) == ("POST", "https://api", query_form([file]))
            if isinstance(outcome := left.pop(0), Exception):
                raise outcome
            return outcome

        released: list[bool] = []
        monkeypatch.setattr(url_fetcher, "asyncio", SimpleNamespace(sleep=sleep))
        one: Any = fetcher(attempts=3, backoff_s=0.5)
        one._persist = persist
        one._shared = SimpleNamespace(bodies=SimpleNamespace(release=lambda: released.append(True)))
        credits = asyncio.run(one._request_credits("https://api", [file]))
        return credits, pauses, len(released)

    def answer(body: bytes | None, retry_after: str | None = None) -> Reply:
        return Reply(200, body, None, retry_after, ())

    assert asked(answer(right)) == ([("Ada", "unknown")], [], 1)
    assert asked(answer(behind, "7"), answer(behind), answer(right)) == ([("Ada", "unknown")], [7.0, 0.5], 3)
    assert asked(*[answer(behind)] * 3) == ([], [0.5] * 3, 3)
    assert asked(answer(None)) == ([], [], 0)
    for error in (HttpError("busy", "no", retry=False), BlockedError("not_https", "no"), ValueError("no URL")):
        assert asked(error) == ([], [], 0)
