import asyncio
import random
from typing import Any

import pytest

from actors.fetching import politeness
from actors.fetching.politeness import (
    BURST_S,
    LEASE_S,
    LONGEST_BACKOFF_S,
    LeaseTable,
    Limit,
    RequestSettings,
    wait_for_lease,
)
from tests.cases import check_cases
from tests.picture_site import LocalLimiter

HOST = Limit("host", 2, bytes_per_s=1000.0, backoff_s=1.0)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_leases() -> None:
    clock = Clock()
    book = LeaseTable(clock)
    one, two = book.acquire(HOST), book.acquire(HOST)
    assert one
    assert two
    assert one != two
    assert book.acquire(HOST) is None
    assert book.acquire(Limit("other", 1)) is not None
    book.release(one)
    book.release(one)
    three = book.acquire(HOST)
    assert three is not None
    assert book.acquire(HOST) is None
    clock.now += LEASE_S - 1
    assert book.renew([three]) == []
    clock.now += 2  # `two` was a dead worker's
    assert book.acquire(HOST) is not None
    assert book.acquire(HOST) is None
    assert book.renew([two, three]) == [two]


def test_a_book_after_a_dead_one_waits_and_knows_none_of_its_leases() -> None:
    clock = Clock()
    dead = LeaseTable(clock).acquire(HOST)
    assert dead
    book = LeaseTable(clock, closed_until=clock.now + LEASE_S)
    assert book.acquire(HOST) is None
    assert book.renew([dead]) == [dead]
    clock.now += LEASE_S
    assert book.acquire(HOST) is not None


def test_bytes_a_second() -> None:
    clock = Clock()
    book = LeaseTable(clock)
    total, began = 0, clock.now
    for _ in range(100):
        wait = book.settle(HOST, received=300)
        total += 300
        clock.now += wait
        assert total <= 1000 * (clock.now - began + BURST_S) + 300
    assert total >= 1000 * (clock.now - began) * 0.95
    clock.now += 60
    assert book.settle(HOST, received=250) == 0  # a burst of a quarter of a second after a silence
    clock.now += 60
    assert book.settle(HOST, received=500) == pytest.approx(0.25)  # and no more than that
    assert book.settle(HOST, received=1000) == pytest.approx(1.25)
    assert book.settle(HOST) == pytest.approx(1.25)  # nothing more was received
    assert book.settle(Limit("free", 1), received=10**9) == 0


def test_pauses() -> None:
    clock = Clock()
    book = LeaseTable(clock)
    first = book.settle(HOST, busy=True)
    assert 1.0 <= first <= 1.25
    assert book.settle(HOST, busy=True) <= 1.25  # was under way when the pause began
    assert book.settle(Limit("other", 1)) == 0
    for expected in (2, 4, 8):
        clock.now += book.settle(HOST)
        assert expected <= book.settle(HOST, busy=True) <= 1.25 * expected
    assert book.settle(HOST, busy=True, retry_after=30) == pytest.approx(30)
    assert book.settle(HOST, busy=True, retry_after=1) > 29  # the longest counts
    clock.now += 31
    assert book.settle(HOST, busy=False) == 0
    assert book.settle(HOST, busy=True) <= 1.25  # a good answer in between forgives
    for _ in range(1100):  # beyond the largest power of two that a float holds
        clock.now += book.settle(HOST)
        assert book.settle(HOST, busy=True) <= LONGEST_BACKOFF_S * 1.25
    assert book.needed_until() > clock.now
    assert book.settle(Limit("soon", 1), busy=True, retry_after=0.2) == pytest.approx(0.2)
    assert book.settle(Limit("soon", 1), busy=False) == pytest.approx(0.2)
    assert book.settle(Limit("soon", 1), busy=True) >= 1.0  # sent before the pause, received after a good answer


def test_a_host_that_demands_no_pause_gets_none() -> None:
    assert LeaseTable(Clock()).settle(HOST, busy=True, retry_after=0) == 0


def test_pauses_differ_so_that_workers_do_not_return_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, high: high)
    assert LeaseTable(Clock()).settle(HOST, busy=True) == pytest.approx(1.25)


def test_time_at_which_all_leases_and_pauses_end() -> None:
    clock = Clock()
    table = LeaseTable(clock)
    assert table.needed_until() == 0
    table.acquire(HOST)
    assert table.needed_until() == 100 + LEASE_S
    table.settle(Limit("other", 1), busy=True, retry_after=30)
    assert table.needed_until() == 130
    clock.now += 20
    table.acquire(HOST)
    assert table.needed_until() == 120 + LEASE_S


def test_a_lease_ends_when_its_time_is_over() -> None:
    clock = Clock()
    table = LeaseTable(clock)
    lease = table.acquire(Limit("host", 1))
    assert lease
    clock.now += LEASE_S
    assert table.renew([lease]) == [lease]
    assert table.acquire(Limit("host", 1)) is not None


def test_a_limiter_of_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """It hands all on to its table; who waits for a lease gets the one that is released."""
    monkeypatch.setattr(politeness, "POLL_S", 0.001)

    async def use() -> None:
        limiter, one = LocalLimiter(), Limit("host", 1, bytes_per_s=1000.0)
        lease = await wait_for_lease(limiter, one)
        assert await limiter.renew([lease, lease + 1]) == [lease + 1]
        waiting = asyncio.create_task(wait_for_lease(limiter, one))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await limiter.release(lease)
        assert await waiting != lease
        assert await limiter.settle(one, received=10_000) == pytest.approx(9.75, abs=0.1)
        assert await limiter.settle(one, busy=True, retry_after=40) == pytest.approx(40, abs=0.1)
        assert await limiter.settle(one, busy=True) == pytest.approx(40, abs=0.1)

    asyncio.run(use())


def test_settings_that_are_allowed() -> None:
    settings = RequestSettings()
    assert (settings.connections, settings.form, settings.opt_out) == (2, "served", ["noai", "noimageai"])
    assert RequestSettings(mbit_s=None, form="paper", api="https://wiki.example/api").mbit_s is None
    settings.opt_out.append("nosearch")
    assert RequestSettings().opt_out == ["noai", "noimageai"]


def test_settings_that_are_refused() -> None:
    numbers = ("connections", "mbit_s", "attempts", "backoff_s", "max_timeouts", "max_wait_s")
    cases: list[tuple[str, Any, str]] = [
        *((name, value, f"{value}: must be above 0") for name in numbers for value in (0, -1)),
        ("form", "nice", "nice: must be one of served, paper"),
        *(
            ("api", value, f"{value}: must be an https:// URL, with {{host}} in place")
            for value in ("http://{host}/w/api.php", "https://{wiki}", "https://{host", "https://{}", "")
        ),
    ]

    def check(name: str, value: Any, message: str) -> None:
        with pytest.raises(ValueError) as refused:  # noqa: PT011
            RequestSettings(**{name: value})
        assert str(refused.value).startswith(f"{name}={message}")

    check_cases(check, cases)
