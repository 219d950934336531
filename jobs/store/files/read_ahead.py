"""Reading of an object on S3 from a position to its end in large blocks, requested while the caller works.

A decompressor asks for a few hundred kilobytes at a time. If each were a request, a file would arrive at a few
megabytes per second, since a store takes tens of milliseconds to answer, however small the range.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from jobs.store.files import locations
from jobs.store.files.repeating import repeated

BLOCK = 8 << 20  # bytes per request
AHEAD = 2  # blocks that are requested while one is read
BEHIND = 1 << 20  # bytes that are requested beyond the end to which the caller wants to read
# Bytes after a seek that are requested in the sizes that the caller asks for: looking at the beginning gets only that.
AS_ASKED = 256 << 10


@contextmanager
def opened(uri: str, *, end: int | None = None) -> Iterator[Any]:
    """Yield a file at its start, with `read`, `readinto`, `seek` and `tell`; on S3 it reads ahead.

    Args:
        end: the byte up to which it reads ahead; None: the end of the file.

    Raises:
        OSError: the file cannot be opened; a failed request is raised by the read that reaches it.
    """
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as file:
        if not locations.is_s3(uri):
            yield file
            return
        reader = ReadAhead(uri, file, end=end)
        try:
            yield reader
        finally:
            reader.close()


class Block(NamedTuple):
    """Requested bytes of the file, from `first` to the one before `last`."""

    first: int
    last: int
    data: Future[bytes]


class ReadAhead:
    """A stream over `file`, which several threads can read at the same time.

    Memory: `AHEAD` + 1 blocks.
    """

    def __init__(self, uri: str, file: pa.NativeFile, *, end: int | None = None) -> None:
        self._uri, self._file, self._size = uri, file, file.size()
        self._end = self._size if end is None else min(end, self._size)
        self._at = 0
        self._read_since_seek = 0
        self._blocks: deque[Block] = deque()  # without gaps; the first block has the current byte, or ends before it
        self._threads = ThreadPoolExecutor(AHEAD + 1, "read-ahead")

    def read(self, size: int | None = None) -> bytes:
        """Return the next `size` bytes, fewer only at the end of the file; None: all that are left."""
        left = self._size - self._at if size is None else min(size, self._size - self._at)
        pieces = []
        while left > 0 and (piece := self._piece(left)):
            pieces.append(piece)
            left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` and return the number of bytes, which is smaller only at the end of the file."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a byte of the file; the blocks are kept if it is in one of them."""
        start: int = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        at = start + offset
        is_in_block = self._blocks and self._blocks[0].first <= at < self._blocks[-1].last
        if at != self._at and not is_in_block:
            self._forget_blocks()
            self._read_since_seek = 0
        self._at = at
        return at

    def tell(self) -> int:
        """Return the current byte of the file."""
        return self._at

    def close(self) -> None:
        """Wait for the pending requests."""
        self._forget_blocks()
        self._threads.shutdown(cancel_futures=True)

    def _piece(self, most: int) -> bytes:
        """Return at least one of the next `most` bytes."""
        if self._read_since_seek < AS_ASKED:
            piece = self._request(min(most, BLOCK), self._at)
        else:
            self._ask_ahead()
            block = self._blocks[0]
            try:
                piece = block.data.result()[self._at - block.first : self._at - block.first + most]
            except BaseException:
                self._forget_blocks()  # a repeated read requests them again
                raise
        self._at += len(piece)
        self._read_since_seek += len(piece)
        return piece

    def _ask_ahead(self) -> None:
        """Request the block of the current byte and the blocks after it."""
        while self._blocks and self._at >= self._blocks[0].last:
            self._blocks.popleft()
        if self._at >= self._end:
            self._end = min(self._at + BEHIND, self._size)
        first = self._blocks[-1].last if self._blocks else self._at
        while len(self._blocks) <= AHEAD and first < self._end:
            last = min(first + BLOCK, self._end)
            self._blocks.append(Block(first, last, self._threads.submit(self._request, last - first, first)))
            first = last

    def _request(self, size: int, first: int) -> bytes:
        data: bytes = repeated(self._uri, partial(self._file.read_at, size, first))
        if len(data) < size:
            raise OSError(
                f"{self._uri}: changed while it was read: {len(data):,} of {size:,} bytes from byte {first:,}"
            )
        return data

    def _forget_blocks(self) -> None:
        for block in self._blocks:
            block.data.cancel()
        self._blocks.clear()
