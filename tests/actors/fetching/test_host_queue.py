"""Queues of hosts with scripted connections: which request is sent where, and what becomes of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from actors.fetching import host_queue
from actors.fetching.host_queue import HostQueue, Shared, keep_leases
from actors.fetching.http_connection import HttpError, HttpRequest, Reply
from actors.fetching.politeness import Limit
from tests.picture_site import LocalLimiter


def reply(status: int = 200, *, body: bytes | None = b"x", retry_after: str | None = None) -> Reply:
    return Reply(status, body, None, retry_after, ())


class Site:
    """Connections to it answer with `answers` in turn, then with 200; they wait while `open` is not set."""

    def __init__(self, *answers: Reply | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []  # the URLs of each connection
        self.closed = 0
        self.busy, self.most = 0, 0
        self.open = asyncio.Event()
        self.open.set()

    def connection(self) -> Any:
        return ScriptedConnection(self)


class ScriptedConnection:
    def __init__(self, site: Site) -> None:
        self.site, self.origin = site, None
        self.urls: list[str] = []
        site.asked.append(self.urls)

    async def ask(self, request: HttpRequest, received: Callable[[int], Awaitable[None]]) -> Reply:
        self.origin = request.origin  # type: ignore[assignment]
        self.urls.append(request.url)
        self.site.busy += 1
        self.site.most = max(self.site.most, self.site.busy)
        await self.site.open.wait()
        await asyncio.sleep(0)
        self.site.busy -= 1
        await received(1000)
        answer = self.site.answers.pop(0) if self.site.answers else reply()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.site.closed += 1


def shared(site: Site, *, max_wait_s: float = 60, bodies: int = 99) -> Shared:
    return Shared(LocalLimiter(), site.connection, max_wait_s, asyncio.Semaphore(bodies))


def requests(*urls: str) -> list[HttpRequest]:
    return [HttpRequest(f"https://{url}") for url in urls]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_queue, "IDLE_S", 0.01)
    monkeypatch.setattr(host_queue, "CLOSING_S", 0.0)


@pytest.mark.parametrize(("connections", "asked", "opened"), [(2, 5, 2), (3, 2, 2), (1, 3, 1)])
def test_as_many_connections_as_are_allowed_and_needed(connections: int, asked: int, opened: int) -> None:
    async def run() -> Site:
        site = Site()
        queue = HostQueue(Limit("host", connections), shared(site))
        urls = requests(*(f"a.org/{number}" for number in range(asked)))
        replies = await asyncio.gather(*map(queue.ask, urls))
        assert [one.status for one in replies] == [200] * asked
        await queue.close()
        return site

    site = asyncio.run(run())
    assert (len(site.asked), site.most, site.closed) == (opened, opened, opened)
    urls = {url for urls in site.asked for url in urls}
    assert urls == {f"https://a.org/{number}" for number in range(asked)}


def test_a_request_does_not_wait_for_another_while_a_connection_is_allowed() -> None:
    async def run() -> int:
        site = Site()
        site.open.clear()
        queue = HostQueue(Limit("host", 2), shared(site))
        asked = []
        for request in requests("a.org/1", "a.org/2"):
            asked.append(asyncio.create_task(queue.ask(request)))
            await asyncio.sleep(0.01)  # it is sent
        busy = site.busy
        site.open.set()
        await asyncio.gather(*asked)
        await queue.close()
        return busy

    assert asyncio.run(run()) == 2


def test_no_more_tasks_than_connections_wait() -> None:
    async def run() -> int:
        site = Site()
        site.open.clear()
        queue = HostQueue(Limit("host", 2), shared(site))
        asked = [asyncio.create_task(queue.ask(request)) for request in requests(*(f"a.org/{n}" for n in range(5)))]
        await asyncio.sleep(0.01)
        lanes = len(queue._lanes)
        site.open.set()
        await asyncio.gather(*asked)
        await queue.close()
        return lanes

    assert asyncio.run(run()) == 2


def test_an_open_connection_takes_the_requests_of_its_host_first() -> None:
    async def run() -> Site:
        site = Site()
        queue = HostQueue(Limit("family", 1), shared(site))
        await asyncio.gather(*map(queue.ask, requests("a.org/1", "b.org/1", "A.org/2", "b.org/2", "a.org/3")))
        await queue.close()
        return site

    names = [url.removeprefix("https://") for url in asyncio.run(run()).asked[0]]
    assert names == ["a.org/1", "A.org/2", "a.org/3", "b.org/1", "b.org/2"]


def test_it_looks_ahead_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_queue, "LOOK_AHEAD", 2)

    async def run() -> Site:
        site = Site()
        queue = HostQueue(Limit("family", 1), shared(site))
        await asyncio.gather(
            *map(queue.ask, requests("a.org/1", "b.org/1", "a.org/2", "c.org/1", "d.org/1", "a.org/3"))
        )
        await queue.close()
        return site

    names = [url.removeprefix("https://") for url in asyncio.run(run()).asked[0]]
    assert names == ["a.org/1", "a.org/2", "b.org/1", "c.org/1", "d.org/1", "a.org/3"]


def test_an_idle_connection_is_closed_and_opened_again() -> None:
    async def run() -> Site:
        site = Site()
        common = shared(site)
        queue = HostQueue(Limit("host", 1), common)
        await queue.ask(*requests("a.org/1"))
        assert len(common.opened) == 1
        while common.opened:
            await asyncio.sleep(0.005)
        lease = await common.limiter.acquire(Limit("host", 1))
        assert lease is not None  # released, rather than left to expire
        await common.limiter.release(lease)
        await queue.ask(*requests("a.org/2"))
        await queue.close()
        return site

    assert asyncio.run(run()).asked == [["https://a.org/1"], ["https://a.org/2"]]


def test_an_error_is_that_of_its_request_only() -> None:
    async def run() -> list[Any]:
        site = Site(reply(), HttpError("timeout", "slow", retry=True), reply(404, body=None))
        queue = HostQueue(Limit("host", 1), shared(site))
        asked = [queue.ask(request) for request in requests("a.org/1", "a.org/2", "a.org/3")]
        replies = await asyncio.gather(*asked, return_exceptions=True)
        await queue.close()
        return replies

    first, second, third = asyncio.run(run())
    assert (first.status, second.kind, third.status) == (200, "timeout", 404)


def test_bodies_in_memory_are_bounded() -> None:
    """Who receives a body releases its place; a reply without a body takes none."""

    async def run() -> None:
        site = Site(reply(404, body=None), reply(), reply())
        common = shared(site, bodies=1)
        queue = HostQueue(Limit("host", 1), common)
        asked = [asyncio.create_task(queue.ask(request)) for request in requests("a.org/1", "a.org/2", "a.org/3")]
        await asyncio.sleep(0.02)
        assert [task.done() for task in asked] == [True, True, False]
        common.bodies.release()
        await asked[2]
        await queue.close()

    asyncio.run(run())


def test_a_cancelled_request_keeps_no_place_of_a_body() -> None:
    async def run() -> None:
        site = Site()
        site.open.clear()
        common = shared(site, bodies=1)
        queue = HostQueue(Limit("host", 1), common)
        asked = asyncio.create_task(queue.ask(*requests("a.org/1")))
        await asyncio.sleep(0.005)
        asked.cancel()
        await asyncio.sleep(0)
        site.open.set()
        assert (await queue.ask(*requests("a.org/2"))).status == 200
        await queue.close()

    asyncio.run(run())


def test_a_request_ends_with_its_queue() -> None:
    async def run() -> list[Any]:
        site = Site()
        site.open.clear()
        queue = HostQueue(Limit("host", 1), shared(site))
        asked = asyncio.create_task(queue.ask(*requests("a.org/1")))
        await asyncio.sleep(0.005)
        await queue.close()
        async with asyncio.timeout(20):
            return list(await asyncio.gather(asked, return_exceptions=True))

    assert [type(error) for error in asyncio.run(run())] == [asyncio.CancelledError]


def test_too_long_a_pause_is_an_error() -> None:
    async def run(retry_after: str, status: int = 429) -> Any:
        site = Site(reply(status, body=None, retry_after=retry_after))
        queue = HostQueue(Limit("host", 1), shared(site, max_wait_s=0.05))
        first = await queue.ask(*requests("a.org/1"))
        assert first.status == status
        (second,) = await asyncio.gather(queue.ask(*requests("a.org/2")), return_exceptions=True)
        await queue.close()
        return second

    for status in (429, 503):
        refused = asyncio.run(run("30", status))
        assert isinstance(refused, HttpError)
        assert (refused.kind, refused.retry, str(refused)) == ("busy", False, "host demands a pause of 30 s")
    assert asyncio.run(run("30", 504)).status == 200
    assert asyncio.run(run("0.01")).status == 200


def test_a_host_whose_requests_time_out_in_a_row_is_given_up() -> None:
    async def run(*kinds: str) -> list[str]:
        site = Site(*(HttpError(kind, "slow", retry=True) if kind else reply() for kind in kinds))
        common = shared(site)
        common.max_timeouts = 3
        queue = HostQueue(Limit("host", 1), common)
        urls = requests(*(f"a.org/{number}" for number in range(7)))
        outcomes = await asyncio.gather(*map(queue.ask, urls), return_exceptions=True)
        await queue.close()
        return [outcome.kind if isinstance(outcome, HttpError) else "" for outcome in outcomes]

    given_up = ["host_timeouts"] * 4
    assert asyncio.run(run("timeout", "timeout", "timeout")) == ["timeout", "timeout", "timeout", *given_up]
    broken = [
        "timeout",
        "timeout",
        "",
        "timeout",
        "connection",
        "timeout",
        "timeout",
    ]  # a reply, then other errors in between
    assert asyncio.run(run(*broken)) == broken


def test_a_limiter_that_fails_refuses_what_waits() -> None:
    async def run() -> list[Any]:
        common = shared(Site())

        async def fail(limit: Limit) -> int | None:
            raise ConnectionError("gone")

        common.limiter.acquire = fail  # type: ignore[method-assign]
        queue = HostQueue(Limit("host", 1), common)
        return await asyncio.gather(*map(queue.ask, requests("a.org/1", "a.org/2")), return_exceptions=True)

    assert [str(error) for error in asyncio.run(run())] == ["gone", "gone"]


def test_connections_whose_lease_is_lost_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_queue, "RENEW_S", 0.001)
    monkeypatch.setattr(host_queue, "IDLE_S", 60)

    async def run() -> None:
        site = Site()
        common = shared(site)
        queue = HostQueue(Limit("host", 1), common)
        await queue.ask(*requests("a.org/1"))
        renewing = asyncio.create_task(keep_leases(common))
        await asyncio.sleep(0.01)
        (leased,) = common.opened.values()
        assert (leased.lost, site.closed) == (False, 0)
        await common.limiter.release(leased.lease)
        while not leased.lost:
            await asyncio.sleep(0.001)
        renewing.cancel()
        assert site.closed >= 1
        await queue.close()

    asyncio.run(run())


def test_another_connection_serves_what_waits_when_a_lease_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_queue, "RENEW_S", 0.001)

    async def run() -> Site:
        site = Site()
        site.open.clear()
        common = shared(site)
        queue = HostQueue(Limit("host", 1), common)
        asked = [asyncio.create_task(queue.ask(request)) for request in requests("a.org/1", "a.org/2")]
        while not common.opened:
            await asyncio.sleep(0.001)
        renewing = asyncio.create_task(keep_leases(common))
        (leased,) = common.opened.values()
        await common.limiter.release(leased.lease)
        while not leased.lost:
            await asyncio.sleep(0.001)
        site.open.set()
        async with asyncio.timeout(20):
            await asyncio.gather(*asked)
        renewing.cancel()
        await queue.close()
        return site

    assert asyncio.run(run()).asked == [["https://a.org/1"], ["https://a.org/2"]]


def test_bytes_count_only_with_a_rate_limit() -> None:
    async def run(limit: Limit) -> list[dict[str, Any]]:
        common = shared(Site())
        settled = keep_settled(common)
        queue = HostQueue(limit, common)
        await queue.ask(*requests("a.org/1"))
        await queue.close()
        return [keys for keys in settled if "received" in keys]

    assert asyncio.run(run(Limit("host", 1))) == []
    assert asyncio.run(run(Limit("host", 1, bytes_per_s=1e9))) == [{"received": 1000}]


def keep_settled(common: Shared) -> list[dict[str, Any]]:
    """Return a list that will have the arguments of each call of the limiter's `settle`."""
    settled, settle = list[dict[str, Any]](), common.limiter.settle

    async def keep(limit: Limit, **keys: Any) -> float:
        settled.append(keys)
        return await settle(limit, **keys)

    common.limiter.settle = keep  # type: ignore[method-assign]
    return settled


def test_pauses_are_asked_about_before_a_connection_and_after_a_pause() -> None:
    """After a reply without a pause the limiter is not asked again at once: it may be on another machine."""

    async def run(*statuses: int) -> list[bool | None]:
        common = shared(Site(*(reply(status, body=None, retry_after="0.01") for status in statuses)))
        settled = keep_settled(common)
        queue = HostQueue(Limit("host", 1), common)
        await asyncio.gather(*map(queue.ask, requests("a.org/1", "a.org/2", "a.org/3")))
        await queue.close()
        return [keys.get("busy") for keys in settled]

    assert asyncio.run(run(200, 200, 404)) == [None, False, False, False]
    assert asyncio.run(run(200, 503))[:4] == [None, False, True, None]
