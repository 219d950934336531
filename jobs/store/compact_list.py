"""Long lists of things that are much alike, held small.

A driver names each shard of what it reads and writes, and there are tens of thousands. As Python objects an input, a
footer or a work unit is half a kilobyte to two; they differ in little more than a few hashes, which is what is left
of them packed: some dozens of bytes.
"""

import pickle
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar, overload

import numpy as np

T = TypeVar("T")
AT_A_TIME = 64  # things packed as one
FAST = 1  # zlib's level: the higher ones take three times as long to save a tenth


def some_at_a_time(things: Iterable[T], number: int) -> Iterator[list[T]]:
    """Lists of so many `things`, the last one of what is left."""
    left = iter(things)
    while some := list(islice(left, number)):
        yield some


class CompactList(Sequence[T], Generic[T]):
    """A list that cannot be changed, packed some dozens of things at a time; what is taken out of it is made anew.

    To be walked through, or taken from in about its order: a thing elsewhere costs the unpacking of its neighbours.
    """

    def __init__(self, things: Iterable[T] = ()) -> None:
        self._length = 0
        self._packs: list[bytes] = []
        for some in some_at_a_time(things, AT_A_TIME):
            self._packs.append(zlib.compress(pickle.dumps(some, pickle.HIGHEST_PROTOCOL), FAST))
            self._length += len(some)
        self._open: tuple[int, list[T]] = (-1, [])  # the pack that was looked into last, and what is in it

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for pack in self._packs:
            yield from self._unpacked(pack)

    @overload
    def __getitem__(self, place: int) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> list[T]: ...
    def __getitem__(self, place: int | slice) -> T | list[T]:
        if isinstance(place, slice):
            return [self[n] for n in range(*place.indices(self._length))]
        pack, inside = divmod(range(self._length)[place], AT_A_TIME)
        if self._open[0] != pack:
            self._open = (pack, self._unpacked(self._packs[pack]))
        return self._open[1][inside]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_same, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Packed({list(self)!r})"

    @staticmethod
    def _unpacked(pack: bytes) -> list[T]:
        things: list[T] = pickle.loads(zlib.decompress(pack))
        return things


def _same(one: Any, other: Any) -> bool:
    return bool(one == other)


class HashSet:
    """Which names, or pairs of them, there are, in their order: eight bytes each, for this process alone.

    Of ten thousand names two have the same mark once in 10**11 lists.
    """

    def __init__(self, names: Iterable[Any]) -> None:
        self._marks = np.fromiter(map(hash, names), np.int64)
        self._order = np.argsort(self._marks, kind="stable")
        self._sorted = self._marks[self._order]

    def place(self, name: Any) -> int | None:
        """Where `name` is among them; None if it is not."""
        mark = hash(name)
        at = bisect_left(self._sorted, mark)
        return int(self._order[at]) if at < len(self._sorted) and self._sorted[at] == mark else None

    def __contains__(self, name: Any) -> bool:
        return self.place(name) is not None

    def same_as(self, other: "HashSet") -> bool:
        """Whether they are of equal names in the same order."""
        return np.array_equal(self._marks, other._marks)

    @property
    def distinct(self) -> bool:
        """Whether none is there twice."""
        return bool((self._sorted[1:] != self._sorted[:-1]).all())
