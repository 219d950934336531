"""Many small reads in threads, with a bounded number of results in memory."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from jobs.store.compact_list import CHUNK, chunked

T = TypeVar("T")
R = TypeVar("R")


def in_threads(function: Callable[[T], R], values: Iterable[T], threads: int) -> Iterator[R]:
    """`function` of each value, in order; computed a chunk of values at a time."""
    with ThreadPoolExecutor(threads) as pool:
        for chunk in chunked(values, CHUNK):
            yield from list(pool.map(function, chunk))
