"""Reading of an object on S3 from a position to its end in large blocks, requested while the caller works.

A decompressor asks for a few hundred kilobytes at a time. If each were a request, a file would arrive at a few
megabytes per second, since a store takes tens of milliseconds to answer, however small the range.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

import pyarrow as pa

from actors.full_reads import ShortReadError, read_full
from jobs.store.files import locations
from jobs.store.files.whole import repeated

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
    if not locations.is_s3(uri):
        fs, path = locations.filesystem(uri)
        with fs.open_input_file(path) as file:
            yield file
        return
    with FullReads(uri) as reads:
        reader = ReadAhead(uri, reads.size(), reads.read_at, end=end)
        try:
            yield reader
        finally:
            reader.close()


class FullReads:
    """The object `uri`, opened by each thread that reads it: only reads that move the file notice a short answer."""

    def __init__(self, uri: str) -> None:
        self._uri, self._files, self._lock = uri, list[pa.NativeFile](), threading.Lock()
        self._of_thread = threading.local()
        self._of_thread.file = self._open()

    def size(self) -> int:
        """Return the object's size."""
        return int(self._files[0].size())

    def read_at(self, size: int, first: int) -> bytes:
        """Return `size` bytes from byte `first`. Raises as `actors.full_reads.read_full`."""
        if not hasattr(self._of_thread, "file"):
            self._of_thread.file = self._open()
        return read_full(self._of_thread.file, size, first)

    def _open(self) -> pa.NativeFile:
        fs, path = locations.filesystem(self._uri)
        file = fs.open_input_file(path)
        with self._lock:
            self._files.append(file)
        return file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.close()


class Block(NamedTuple):
    """Requested bytes of the file, from `first` to the one before `last`."""

    first: int
    last: int
    data: Future[bytes]


class ReadAhead:
    """A stream over a file, of which `read_at` returns bytes by their number and the first one, in several threads.

    Memory: `AHEAD` + 1 blocks.
    """

    def __init__(self, uri: str, size: int, read_at: Callable[[int, int], bytes], *, end: int | None = None) -> None:
        self._uri, self._read_at, self._size = uri, read_at, size
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
        try:
            return repeated(self._uri, partial(self._read_at, size, first))
        except ShortReadError as error:
            raise OSError(f"{self._uri}: {error}") from error

    def _forget_blocks(self) -> None:
        for block in self._blocks:
            block.data.cancel()
        self._blocks.clear()
