"""Many small reads in threads, with a bounded number of results in memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from jobs.store.files.objects import CHUNK, chunked

T = TypeVar("T")
R = TypeVar("R")
HELD_PER_THREAD = 2  # values per thread that `ahead` holds: with one each, all threads would wait for the slowest


def in_threads(function: Callable[[T], R], values: Iterable[T], threads: int) -> Iterator[R]:
    """Yield the result of `function` for each value, in order; computed in threads, a chunk of values at a time."""
    with ThreadPoolExecutor(threads) as pool:
        for chunk in chunked(values, CHUNK):
            yield from list(pool.map(function, chunk))


def ahead(
    function: Callable[[T], R], values: Iterable[T], *, threads: int, weight: Callable[[T], int], most: int
) -> Iterator[R]:
    """Yield the result of `function` for each value, in order; meanwhile threads compute those of later values.

    Args:
        weight: returns the weight of a value's result.
        most: the largest total weight of results that are waiting or being computed; a single one may exceed it.
    """
    waiting: deque[tuple[Future[R], int]] = deque()
    total = 0
    with ThreadPoolExecutor(threads) as pool:
        try:
            for value in values:
                following = weight(value)
                while waiting and (total + following > most or len(waiting) >= HELD_PER_THREAD * threads):
                    future, released = waiting.popleft()
                    yield future.result()
                    total -= released
                waiting.append((pool.submit(function, value), following))
                total += following
            while waiting:
                yield waiting.popleft()[0].result()
        finally:
            for future, _ in waiting:
                future.cancel()
