"""Files and S3 objects, as a listing describes them, compressed in-memory lists of such values, and sets of hashes.

A driver lists all shards that it reads and writes, and a table may have tens of thousands. As a Python object, an
input, a footer or a unit takes half a kilobyte to two. They differ in little more than a few hashes, so that compressed
they take a few dozen bytes. The lists hold four kinds of objects (inputs, units, tasks, footers), and are therefore
pickled rather than stored as columns of one Arrow table per kind.
"""

import pickle
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar, overload

import numpy as np


class Object(NamedTuple):
    """A file or S3 object.

    Attributes:
        uri: a local path or `s3://bucket/key`.
        size: bytes.
        etag: S3's ETag, or the size and modification time of a local file. It changes when the content is replaced.
    """

    uri: str
    size: int
    etag: str


T = TypeVar("T")
CHUNK = 64  # objects compressed together
ZLIB_LEVEL = 1  # higher levels take three times as long to save a tenth


def chunked(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of `size` values; the last one may be shorter."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk


class CompactList(Sequence[T], Generic[T]):
    """An immutable list, compressed in chunks; each access returns a new, equal object.

    Use it for lists that are iterated, or indexed roughly in order: access out of order decompresses a chunk.
    """

    def __init__(self, values: Iterable[T] = ()) -> None:
        self._length = 0
        self._chunks: list[bytes] = []
        for chunk in chunked(values, CHUNK):
            self._chunks.append(zlib.compress(pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL), ZLIB_LEVEL))
            self._length += len(chunk)
        self._last: tuple[int, list[T]] = (-1, [])  # number and content of the chunk that was accessed last

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[T]:
        for chunk in self._chunks:
            yield from self._decompress(chunk)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[n] for n in range(*index.indices(self._length))]
        number, offset = divmod(range(self._length)[index], CHUNK)
        if self._last[0] != number:
            self._last = (number, self._decompress(self._chunks[number]))
        return self._last[1][offset]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_equal, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CompactList({list(self)!r})"

    @staticmethod
    def _decompress(chunk: bytes) -> list[T]:
        values: list[T] = pickle.loads(zlib.decompress(chunk))
        return values


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other)


class HashSet:
    """An ordered set of names, or of tuples of them, as 64-bit hashes: eight bytes each, valid in this process only.

    Among ten thousand names, two have the same hash in one of 10**11 sets.
    """

    def __init__(self, names: Iterable[Any]) -> None:
        self._hashes = np.fromiter(map(hash, names), np.int64)
        self._order = np.argsort(self._hashes, kind="stable")
        self._sorted = self._hashes[self._order]

    def index(self, name: Any) -> int | None:
        """Return the index of `name`; None if it is not in the set."""
        hashed = hash(name)
        at = bisect_left(self._sorted, hashed)
        return int(self._order[at]) if at < len(self._sorted) and self._sorted[at] == hashed else None

    def __contains__(self, name: Any) -> bool:
        return self.index(name) is not None

    def same_as(self, other: "HashSet") -> bool:
        """Return whether both have equal names in the same order."""
        return np.array_equal(self._hashes, other._hashes)

    @property
    def distinct(self) -> bool:
        """Whether there are no duplicates."""
        return bool((self._sorted[1:] != self._sorted[:-1]).all())
