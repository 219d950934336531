"""The output of the readers of dumps: decompressed pieces of a file in order, and the places where it is damaged."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

READ = 1 << 20  # bytes of the file read at a time


@dataclass(frozen=True)
class Piece:
    """A decompressed part of a file.

    Attributes:
        data: at most a few MB.
        at: byte of the (compressed) file at or before which it begins.
        inside: whether it begins within the unit's span; later pieces only complete the unit's last line.
    """

    data: bytes
    at: int
    inside: bool = True


@dataclass(frozen=True)
class Damage:
    """A part of a compressed file that cannot be decompressed.

    Attributes:
        at: byte of the compressed file at which it begins.
        reason: truncated or corrupt.
        message: one sentence.
        inside: see `Piece`.
    """

    at: int
    reason: str
    message: str
    inside: bool = True


class Pieces(Protocol):
    """Interface of a reader for one compression format."""

    def __call__(self, source: Any, first: int, last: int) -> Iterator[Piece | Damage]:
        """Yield the pieces that begin in the bytes [first, last) of a binary file, then those after them.

        The caller stops when it has enough of the latter.
        """


def plain(source: Any, first: int, last: int) -> Iterator[Piece | Damage]:
    """Yield the pieces of an uncompressed file (see `Pieces`)."""
    source.seek(first)
    at = first
    while True:
        data = source.read(READ if at >= last else min(READ, last - at))
        if not data:
            return
        yield Piece(data, at, inside=at < last)
        at += len(data)
