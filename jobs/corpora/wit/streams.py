"""Opening of a WIT file, gzip, zstd or plain as detected from its first bytes, and decompression up to any damage.

`fast_stream` is for the byte scan and only reports that something is wrong. `careful_stream` is for the csv module: it
returns every byte before the damage and then reports what is damaged.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from isal import igzip, igzip_lib, isal_zlib

from jobs.store.files import read_ahead

BLOCK = 1 << 18  # compressed bytes that `careful_stream` reads at a time
FAST_BLOCK = 128 << 10
SKIP = 1 << 20
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
SKIPPED = b"\x2a\x4d\x18"  # begins a skippable zstd frame, after a byte from 0x50 to 0x5f
PARQUET = "Parquet"
FOREIGN = {  # other formats of TSV exports, which are reported by name instead of being read as text without a header
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "a zip archive",
    b"PK\x05\x06": "an empty zip archive",
    b"PAR1": PARQUET,
    b"7z\xbc\xaf": "a 7z archive",
    b"ARROW1": "an Arrow file",
}
_TAR, _TAR_AT = b"ustar", 257
FAILURES: tuple[Any, ...] = (EOFError, OSError, ValueError, igzip_lib.IsalError, isal_zlib.error)  # of decompressors


class DamagedError(Exception):
    """The compressed data is truncated or damaged here; everything before was returned."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class ByteSource:
    """The stored bytes of a file. Keeps its own failure, because a lost connection is not a damaged file."""

    closed = False

    def __init__(self, file: Any) -> None:
        self._file = file
        self.failure: BaseException | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            data: bytes = self._file.read(size if size >= 0 else None)
        except Exception as error:
            self.failure = error
            raise
        return data

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._file.readinto(buffer))
        except Exception as error:
            self.failure = error
            raise

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Do nothing: the caller who opened the file closes it."""


@contextmanager
def opened(uri: str) -> Iterator[tuple[ByteSource, bytes]]:
    """Yield the file at its start, and its compression by its first bytes (GZIP, ZSTD or empty), not by its name."""
    with read_ahead.opened(uri) as file:
        magic = file.read(4)
        file.seek(0)
        yield ByteSource(file), GZIP if magic[:2] == GZIP else ZSTD if _is_zstd(magic) else b""


def _is_zstd(magic: bytes) -> bool:
    """Return whether the bytes begin a zstd frame, or a skippable frame, which pzstd writes first."""
    return magic == ZSTD or (magic[1:] == SKIPPED and magic[0] >> 4 == 5)


def foreign_format(uri: str) -> str | None:
    """Return the name of an unsupported format by the first bytes, also within gzip and zstd; None for any other."""
    with opened(uri) as (source, kind):
        try:
            head: bytes = careful_stream(source, kind).read(_TAR_AT + len(_TAR))
        except (DamagedError, *FAILURES):
            if source.failure is not None:
                raise source.failure from None
            return None
    name = next((name for start, name in FOREIGN.items() if head.startswith(start)), None)
    if name is None and head[_TAR_AT:] == _TAR:
        name = "a tar archive"
    if name is None and kind and (head[:2] == GZIP or _is_zstd(head[:4])):
        name = "compressed data again"
    packed = {GZIP: "gzip of ", ZSTD: "zstd of "}.get(kind, "")
    return f"{packed}{name}" if name else None


def fast_stream(source: ByteSource, kind: bytes) -> Any:
    """Return a stream with `readinto`; at damage it raises one of FAILURES and loses the bytes just before it."""
    return gzip_stream(source) if kind == GZIP else _zstd(source) if kind == ZSTD else source


def careful_stream(source: ByteSource, kind: bytes) -> Any:
    """Return a stream with `read`, which returns every byte before damage and then raises DamagedError."""
    return Careful(source, Gunzip if kind == GZIP else _zstd) if kind else source


def gzip_stream(source: Any) -> Any:
    """Return a stream with `readinto` over the gzip members of a binary file.

    `IGzipFile.readinto` creates and copies a bytes object per read; the reader inside it writes to the buffer directly.
    """
    reader = getattr(isal_zlib, "_GzipReader", None)
    return igzip.IGzipFile(fileobj=source) if reader is None else reader(source, FAST_BLOCK)


def _zstd(source: ByteSource) -> pa.NativeFile:
    return pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd")


class Pushback:
    """A stream to which surplus bytes can be returned."""

    def __init__(self, stream: Any) -> None:
        self._readinto = stream.readinto
        self._back = memoryview(b"")

    def push(self, data: bytes) -> None:
        """Insert `data` before the next bytes of the stream."""
        self._back = memoryview(data + bytes(self._back))

    def readinto(self, buffer: memoryview) -> int:
        if not self._back:
            return int(self._readinto(buffer))
        size = min(len(buffer), len(self._back))
        buffer[:size], self._back = self._back[:size], self._back[size:]
        return size

    def read(self, size: int) -> bytes:
        buffer = bytearray(size)
        return bytes(buffer[: self.readinto(memoryview(buffer))])


class Gunzip:
    """A gzip file with one or more members. isal's own file object loses a whole buffer at damage."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._member: Any = None

    def read(self, size: int) -> bytes:
        while True:
            if self._member is None or self._member.eof:
                rest = self._member.unused_data if self._member else b""
                while not rest.lstrip(b"\0"):  # members may be padded with zeros
                    if not (rest := self._source.read(BLOCK)):
                        return b""
                rest = rest.lstrip(b"\0")
                if rest[:2] != GZIP[: len(rest)]:
                    raise ValueError("the data after a gzip member is not a gzip member")
                self._member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
                data = self._member.decompress(rest, size)
            elif self._member.needs_input:
                if not (more := self._source.read(BLOCK)):
                    raise EOFError
                data = self._member.decompress(more, size)
            else:
                data = self._member.decompress(b"", size)
            if data:
                return bytes(data)


class Careful:
    """A decompressed stream that returns every byte before damage; `begin` opens it from the start.

    A decompressor that fails loses the bytes of the failing call. A second one recovers them: it starts again and reads
    single bytes from where the first one stopped.
    """

    def __init__(self, source: ByteSource, begin: Callable[[ByteSource], Any]) -> None:
        self._source, self._begin = source, begin
        self._stream = begin(source)
        self._returned = 0
        self._damage: DamagedError | None = None

    def read(self, size: int) -> bytes:
        if self._damage:
            raise self._damage
        try:
            data: bytes = self._stream.read(size)
        except FAILURES as error:
            self._damage = self._classify(error)
            if not (data := self._recover(size)):
                raise self._damage from error
        self._returned += len(data)
        return data

    def _classify(self, error: Exception) -> DamagedError:
        if self._source.failure is not None:
            raise self._source.failure
        if isinstance(error, EOFError) or "truncated" in str(error).lower():
            return DamagedError("truncated", "the compressed file ends before its end-of-stream mark")
        return DamagedError("corrupt", f"the compressed data is damaged ({error})")

    def _recover(self, size: int) -> bytes:
        self._source.seek(0)
        stream = self._begin(self._source)
        saved = bytearray()
        try:
            left = self._returned
            while left and (skipped := stream.read(min(left, SKIP))):
                left -= len(skipped)
            while len(saved) < size and (byte := stream.read(1)):
                saved += byte
        except FAILURES:
            if self._source.failure is not None:
                raise self._source.failure from None
        return bytes(saved)
