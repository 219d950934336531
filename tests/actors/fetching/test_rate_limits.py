import pytest

from actors.fetching.rate_limits import BURST_S, LEASE_S, LONGEST_BACKOFF_S, LeaseTable, Limit

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
    for _ in range(30):
        clock.now += book.settle(HOST)
        assert book.settle(HOST, busy=True) <= LONGEST_BACKOFF_S * 1.25
    assert book.needed_until() > clock.now
