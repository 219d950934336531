"""Reads in threads: in order, at the same time, and with bounded results in memory."""

import threading
from collections.abc import Iterator

import pytest

from jobs.store.files.threads import AHEAD, ahead

THREADS = 3


def test_later_values_are_read_while_the_first_is() -> None:
    together = threading.Barrier(THREADS, timeout=60)

    def read(value: int) -> int:
        together.wait()  # broken, which raises, unless three are read at a time
        return value * 10

    read_values = ahead(read, range(9), threads=THREADS, weight=lambda _: 1, most=100)
    assert list(read_values) == [value * 10 for value in range(9)]


def test_results_that_wait_are_bounded_by_their_weights() -> None:
    lock, begun, taken, largest = threading.Lock(), 0, 0, 0

    def read(value: int) -> int:
        nonlocal begun, largest
        with lock:
            begun += 1
            largest = max(largest, begun - taken)
        return value

    for value in ahead(read, range(40), threads=8, weight=lambda value: 30 if value == 20 else 5, most=20):
        assert value == taken
        with lock:
            taken += 1
    assert taken == 40
    assert largest <= 5  # four of weight 5, and the one that was handed over before it was counted


def test_an_error_is_raised_in_order_and_ends_the_reading() -> None:
    asked: list[int] = []

    def values() -> Iterator[int]:
        for value in range(1000):
            asked.append(value)
            yield value

    def read(value: int) -> int:
        if value == 2:
            raise ValueError("damaged")
        return value

    results = ahead(read, values(), threads=THREADS, weight=lambda _: 1, most=100)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="damaged"):
        next(results)
    assert len(asked) < 20


def test_a_slow_value_keeps_no_thread_from_those_after_it() -> None:
    count = 100
    begun = [threading.Event() for _ in range(count)]

    def read(value: int) -> int:
        begun[value].set()
        if value % (2 * AHEAD * THREADS) == 0 and (last := value + AHEAD * THREADS - 1) < count:
            assert begun[last].wait(timeout=60)
        return value

    assert list(ahead(read, range(count), threads=THREADS, weight=lambda _: 0, most=0)) == list(range(count))
