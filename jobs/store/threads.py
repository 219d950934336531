"""Many small reads at once, without holding them all."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from jobs.store.compact_list import AT_A_TIME, some_at_a_time

T = TypeVar("T")
R = TypeVar("R")


def in_threads(function: Callable[[T], R], things: Iterable[T], threads: int) -> Iterator[R]:
    """`function` of each of `things`, in their order, some dozens at a time."""
    with ThreadPoolExecutor(threads) as pool:
        for some in some_at_a_time(things, AT_A_TIME):
            yield from list(pool.map(function, some))
