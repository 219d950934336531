"""Reads of objects on S3 that notice bytes that were lost or changed on the way, and repeat what may pass.

The content is compared with the object's ETag, where that is an MD5 sum. Otherwise (objects that were uploaded in
parts, or are encrypted by the store) two reads must agree, one of them by another client with other connections.

pyarrow does not repeat reads that a store refused for a moment: the AWS SDK writes an answer into a buffer of the size
of the range that pyarrow requests. If the text of an error (SlowDown, InternalError, ExpiredToken) is longer than the
range, it does not fit, and the SDK reports a failure of the buffer, which it does not repeat. Small files, footers and
column chunks are shorter than such a text.

What a read finds damaged is read again before it counts as damaged: a damaged object on S3 costs `REPEATED_READS`
reads.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import pyarrow as pa

from actors.full_reads import ShortReadError, etag_in, is_md5, read_full
from jobs.store.files import faults, s3

ATTEMPTS = 5  # reads by each client until two agree
PIECE = 8 << 20


def read(uri: str) -> bytes:
    """Return the content of the object. Raises as `save`."""
    content = io.BytesIO()
    _confirm(uri, content)
    return content.getvalue()


def save(uri: str, target: Path) -> str:
    """Write the content of the object to the local file `target`; return its MD5 sum.

    Raises:
        FileNotFoundError: it does not exist.
        OSError: each read returned other bytes, or the store refused.
    """
    with target.open("wb") as file:
        return _confirm(uri, file)


def digest(uri: str) -> str:
    """Return the MD5 sum of the object's content. Raises as `save`."""
    return _confirm(uri, None)


def etag_of(uri: str) -> str:
    """Return the ETag that the store reports for the object now."""
    return str(s3.client().info(s3.key_path(uri)).get("ETag") or "").strip('"')


def confirmed_digest(uri: str) -> str:
    """Return the MD5 sum of the object's content as two reads agree on, whatever its ETag. Raises as `save`."""
    with s3.arrow_filesystem().open_input_file(s3.key_path(uri)) as file:
        return _digest(_confirmed_pieces(uri, file))


def end_of(uri: str, size: int) -> bytes:
    """Return the last `size` bytes of the object, as the other client reads them twice in the same way.

    Raises:
        OSError: no two of the reads are the same.
    """
    seen: set[bytes] = set()
    for _ in range(ATTEMPTS):
        data: bytes = s3.client().cat_file(s3.key_path(uri), start=-size)
        if data in seen:
            return data
        seen.add(data)
    raise _unsteady()


class CheckedStream(io.RawIOBase):
    """The bytes of pyarrow's open `file` of the object `uri`, for Python's readers.

    At the end of the object, a content that differs from its ETag is an OSError, unless the other client reads the
    same.
    """

    def __init__(self, uri: str, file: Any) -> None:
        self._uri, self._file, self._size = uri, file, int(file.size())
        self._at, self._hash = 0, hashlib.md5(usedforsecurity=False)
        self._etag = etag_in(file)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` and return the number of bytes, which is 0 at the end of the object."""
        size = min(len(buffer), self._size - self._at)
        data = repeated(self._uri, partial(read_full, self._file, size, self._at))
        buffer[:size] = data
        self._hash.update(data)
        self._at += size
        if size and self._at == self._size:
            self._check()
        return size

    def _check(self) -> None:
        digest = self._hash.hexdigest()
        if is_md5(self._etag) and digest != self._etag and digest != confirmed_digest(self._uri):
            raise OSError("the bytes that were read are not those of its ETag; run the same command again")


def _confirm(uri: str, sink: BinaryIO | None) -> str:
    """Write the content to `sink`, from its start, and return its MD5 sum. Raises as `save`."""
    for _ in range(ATTEMPTS):
        try:
            with s3.arrow_filesystem().open_input_file(s3.key_path(uri)) as file:
                etag = etag_in(file)
                if is_md5(etag) and _digest(_pieces(uri, file), _emptied(sink)) == etag:
                    return etag
                digest = _digest(_confirmed_pieces(uri, file), _emptied(sink))
            if etag_of(uri) == etag:  # it was not replaced meanwhile
                return digest
        except ShortReadError:  # replaced by a shorter object after its size was asked
            continue
    raise _unsteady()


def _emptied(sink: BinaryIO | None) -> BinaryIO | None:
    if sink is not None:
        sink.seek(0)
        sink.truncate()
    return sink


def _digest(pieces: Iterable[bytes], sink: BinaryIO | None = None) -> str:
    total = hashlib.md5(usedforsecurity=False)
    for piece in pieces:
        total.update(piece)
        if sink is not None:
            sink.write(piece)
    return total.hexdigest()


def _pieces(uri: str, file: Any) -> Iterator[bytes]:
    size = file.size()
    for first in range(0, size, PIECE):
        yield repeated(uri, partial(read_full, file, min(PIECE, size - first), first))


def _confirmed_pieces(uri: str, file: Any) -> Iterator[bytes]:
    """Yield the pieces, each as two reads agree on, one of them by the other client."""
    size = file.size()
    for first in range(0, size, PIECE):
        last = min(first + PIECE, size)
        seen: set[bytes] = set()  # digests
        for attempt in range(2 * ATTEMPTS):
            if attempt % 2:
                piece = repeated(uri, partial(read_full, file, last - first, first))
            else:
                piece = s3.client().cat_file(s3.key_path(uri), start=first, end=last)
            digest = hashlib.sha256(piece).digest()
            if digest in seen and len(piece) == last - first:
                yield piece
                break
            seen.add(digest)
        else:
            raise _unsteady()


def _unsteady() -> OSError:
    return OSError("each read returned other bytes; check the network and the store, then run the same command again")


REPEATED_READS = 6
_HIDDEN = "Failed to flush response stream"
Result = TypeVar("Result")


def repeated(uri: str, read: Callable[[], Result], *, also_damage: bool = False) -> Result:
    """Return the result of `read`, which reads `uri` and may be called several times.

    Args:
        also_damage: whether `read` checks what it reads, so that it is repeated on S3 if that is damaged.

    Raises:
        OSError: the store's answer.
        pa.ArrowException, UnicodeDecodeError, OSError: the object is damaged.
    """
    for attempt in range(1, REPEATED_READS + 1):
        try:
            return read()
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            is_hidden = _HIDDEN in str(error)
            may_pass = is_hidden or (also_damage and uri.startswith("s3://") and faults.is_damage(error))
            if not may_pass or attempt == REPEATED_READS:
                raise
        if is_hidden:
            s3.wait_for(uri)
    raise AssertionError("unreachable")
