"""Reader of rows of NumPy arrays in `.npy` files and in members of `.npz` files, local or on S3; refuses pickles.

A local array is memory-mapped and returned without a copy; from S3 only the requested rows are fetched. A compressed
member of an `.npz` file can only be read from its start.
"""

import io
import lzma
import mmap
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from actors.errors import first_line
from actors.full_reads import read_full
from jobs.errors import InputError
from jobs.store.files import locations

_FLOATS = ("<f2", "<f4", "<f8")
_HEADER_READ = 1 << 16
_READ_AHEAD = 3  # ranges of a mapped file that the kernel reads ahead: the current one and the next two
_LOCAL_FILE_HEADER = 30  # bytes before the name in a zip's entry
# Raised by zipfile and NumPy for a broken archive or header; RuntimeError for a password or an unknown compression.
_UNREADABLE = (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, pa.ArrowException)


@dataclass(frozen=True)
class Matrix:
    """The shape of a two-dimensional array in a file, and the position of its rows."""

    rows: int
    dim: int
    dtype: str  # NumPy's: <f2, <f4 or <f8
    member: str | None = None  # of an .npz
    offset: int | None = None  # bytes from the file's start; None: the array is compressed

    @property
    def row_bytes(self) -> int:
        return self.dim * np.dtype(self.dtype).itemsize


def find_matrix(uri: str, *, array: str | None = None) -> Matrix:
    """Return the shape and position of the array in an `.npy` file, or in the member `array` of an `.npz` file.

    Raises:
        InputError: there is no such file or member; it is not a NumPy array, not two-dimensional, not floating point,
            in column order, or shorter than its header says.
    """
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_file(path) as stream:
        try:
            if uri.endswith(".npz"):
                return _in_archive(uri, stream, array)
            return _uncompressed(uri, stream, 0, stream.size(), None)
        except InputError:
            raise
        except _UNREADABLE as error:
            raise InputError(f"not a NumPy array ({first_line(error)})", place=uri) from error


def _in_archive(uri: str, stream: Any, array: str | None) -> Matrix:
    if array is None:
        raise InputError(f"required: {uri} holds several arrays", key="corpus.array", value="")
    with zipfile.ZipFile(stream) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        if array not in names:
            why = f"{uri} has no such array; it has {', '.join(sorted(names)) or 'none'}"
            raise InputError(why, key="corpus.array", value=array)
        entry = archive.getinfo(f"{array}.npy")
        if entry.compress_type != zipfile.ZIP_STORED:
            with archive.open(entry) as member:
                return _header(uri, member, array)
        start = entry.header_offset
        stream.seek(start + _LOCAL_FILE_HEADER - 4)
        name, extra = np.frombuffer(stream.read(4), "<u2").tolist()
        start += _LOCAL_FILE_HEADER + name + extra
        return _uncompressed(uri, stream, start, start + entry.file_size, array)


def _uncompressed(uri: str, stream: Any, start: int, end: int, member: str | None) -> Matrix:
    stream.seek(start)
    head = io.BytesIO(stream.read(min(_HEADER_READ, end - start)))
    matrix = _header(uri, head, member)
    offset = start + head.tell()
    if offset + matrix.rows * matrix.row_bytes > end:
        raise InputError(f"is shorter than its header says ({matrix.rows:,} x {matrix.dim})", place=uri)
    return Matrix(matrix.rows, matrix.dim, matrix.dtype, member, offset)


def _header(uri: str, stream: Any, member: str | None) -> Matrix:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(stream)
    where = f"{uri}: array {member!r}" if member else uri
    if dtype.hasobject:
        raise InputError("holds Python objects, which are never unpickled; save numbers", place=where)
    if len(shape) != 2 or shape[1] < 1 or dtype.str not in _FLOATS:
        raise InputError(f"is {dtype.str} of shape {shape}; vectors must be rows of <f2, <f4 or <f8", place=where)
    if by_column and shape[0] > 1:
        raise InputError("is in column order; save it with np.ascontiguousarray", place=where)
    return Matrix(shape[0], shape[1], dtype.str, member)


Ranges = Sequence[tuple[int, int]]  # first row and the row after the last of each range, ascending


@contextmanager
def blocks_of(uri: str, matrix: Matrix, ranges: Ranges) -> Iterator[Iterator[np.ndarray]]:
    """Open an array and yield an iterator of read-only arrays [rows, dim] per range; other rows are not read."""
    if matrix.offset is None:
        with _decompressed(uri, matrix) as stream:
            yield _streamed(uri, stream, matrix, ranges)
    elif locations.is_s3(uri):
        fs, path = locations.filesystem(uri)
        with fs.open_input_file(path) as stream:
            yield (_fetched(uri, stream, matrix, first, last) for first, last in ranges)
    else:
        yield _mapped(uri, matrix, ranges)


def _mapped(uri: str, matrix: Matrix, ranges: Ranges) -> Iterator[np.ndarray]:
    """Map the file from the first to the last range, and unmap it afterwards: mapped pages count as used memory."""
    assert matrix.offset is not None
    if not ranges:
        return
    begin = matrix.offset + ranges[0][0] * matrix.row_bytes
    aligned = begin // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    length = matrix.offset + ranges[-1][1] * matrix.row_bytes - aligned
    with Path(uri).open("rb") as file:
        whole = mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ, offset=aligned)
    advised = 0
    for number, (first, last) in enumerate(ranges):
        while advised < min(
            number + _READ_AHEAD, len(ranges)
        ):  # the kernel reads while the caller works on the current range
            start, stop = (matrix.offset + row * matrix.row_bytes - aligned for row in ranges[advised])
            start = start // mmap.PAGESIZE * mmap.PAGESIZE
            whole.madvise(mmap.MADV_WILLNEED, start, stop - start)
            advised += 1
        start = matrix.offset + first * matrix.row_bytes - aligned
        yield np.frombuffer(whole, matrix.dtype, (last - first) * matrix.dim, start).reshape(-1, matrix.dim)


def _fetched(uri: str, stream: Any, matrix: Matrix, first: int, last: int) -> np.ndarray:
    assert matrix.offset is not None
    size = (last - first) * matrix.row_bytes
    data = read_full(stream, size, matrix.offset + first * matrix.row_bytes)
    return _rows(uri, data, matrix, size)


@contextmanager
def _decompressed(uri: str, matrix: Matrix) -> Iterator[Any]:
    fs, path = locations.filesystem(uri)
    with (
        fs.open_input_file(path) as file,
        zipfile.ZipFile(file) as archive,
        archive.open(f"{matrix.member}.npy") as stream,
    ):
        _header(uri, stream, matrix.member)
        yield stream


def _streamed(uri: str, stream: Any, matrix: Matrix, ranges: Ranges) -> Iterator[np.ndarray]:
    row = 0
    for first, last in ranges:
        size = (last - first) * matrix.row_bytes
        try:
            stream.seek((first - row) * matrix.row_bytes, io.SEEK_CUR)
            data = stream.read(size)
        except _UNREADABLE as error:
            raise InputError(f"cannot be read after row {row:,} ({first_line(error)})", place=uri) from error
        yield _rows(uri, data, matrix, size)
        row = last


def _rows(uri: str, data: bytes, matrix: Matrix, size: int) -> np.ndarray:
    if len(data) < size:
        raise InputError("is shorter than its header says", place=uri)
    return np.frombuffer(data, matrix.dtype).reshape(-1, matrix.dim)
