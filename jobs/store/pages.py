"""Single values of a column of pictures, read from the pages of a data object that have them.

A row group of pictures has 64 MB. Items show pictures in any order, and pieces of a large unit begin anywhere, so that
reading whole row groups for a unit of 256 items would read many other pictures. `jobs.store.writer` therefore writes
each picture of 64 kB or more as a separate page, smaller ones a few per page, and an offset index with the places of
the pages. pyarrow writes that index but does not use it for reading.

Format: https://github.com/apache/parquet-format (data pages version 1, PLAIN, one optional column of BYTE_ARRAY).
Footer, page headers and index are written in Thrift's compact protocol.
"""

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa

from jobs.store.files.whole import repeated

PAGE_BYTES = 64 << 10  # a page ends with the value that reaches this size
TAIL_BYTES = 32 << 10  # read at once: usually includes the footer and the index of pages
RANGE_BYTES = 8 << 20  # most bytes of consecutive pages that are read at once
THREADS = 8  # number of ranges of an object that are read at the same time
_MAGIC = b"PAR1"
_BYTE_ARRAY, _PLAIN, _RLE, _DATA_PAGE = 6, 0, 3, 0
_OPTIONAL = 1
_CODECS = {0: None, 1: "snappy", 2: "gzip", 6: "zstd"}


class _Page(NamedTuple):
    offset: int
    size: int  # including its header
    first_row: int  # number of its first row in the object


@dataclass(frozen=True)
class ColumnPages:
    """The places of the pages of a column in one data object.

    Attributes:
        pages: the pages in order of their rows.
        rows: the number of rows of the object.
        codec: the codec that compresses the pages.
    """

    pages: tuple[_Page, ...]
    rows: int
    codec: str | None

    def read(self, uri: str, stream: Any, rows: Sequence[int]) -> list[bytes | None]:
        """Return the values of `rows`, in that order, from the open object `stream`.

        Raises:
            OSError: a page is damaged, as pyarrow would report it, or cannot be read.
        """
        starts = [page.first_row for page in self.pages]
        wanted = [bisect_right(starts, row) - 1 for row in rows]
        values: dict[int, list[bytes | None]] = {}
        ranges = list(self._ranges(sorted(set(wanted))))
        with ThreadPoolExecutor(min(THREADS, max(1, len(ranges)))) as pool:
            for part in pool.map(
                lambda run: repeated(uri, partial(self._read_range, stream, run), also_damage=True), ranges
            ):
                values.update(part)
        return [values[page][row - starts[page]] for page, row in zip(wanted, rows, strict=True)]

    def _ranges(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """Yield the numbers of the pages in runs of consecutive pages."""
        run: list[int] = []
        for number in numbers:
            page = self.pages[number]
            if run and (
                self.pages[run[-1]].offset + self.pages[run[-1]].size != page.offset
                or page.offset + page.size - self.pages[run[0]].offset > RANGE_BYTES
            ):
                yield run
                run = []
            run.append(number)
        if run:
            yield run

    def _read_range(self, stream: Any, run: Sequence[int]) -> dict[int, list[bytes | None]]:
        begin = self.pages[run[0]].offset
        size = self.pages[run[-1]].offset + self.pages[run[-1]].size - begin
        data = memoryview(stream.read_at(size, begin))
        ends = [page.first_row for page in self.pages[1:]] + [self.rows]
        values = {}
        for number in run:
            page = self.pages[number]
            part = data[page.offset - begin :][: page.size]
            try:
                values[number] = _values(part, ends[number] - page.first_row, self.codec)
            except (ValueError, LookupError, TypeError, OverflowError, struct.error, pa.ArrowException) as error:
                raise OSError(f"Unexpected end of stream: page at byte {page.offset}: {error}") from error
        return values


def column_pages(uri: str, stream: Any, column: str) -> ColumnPages | None:
    """Return the places of the pages of a top-level column of binary values.

    Args:
        uri: the uri of the object.
        stream: the open object.

    Returns:
        None if the object has no index of the pages, a damaged one, or pages of another kind.
    """
    end = stream.size()
    tail = _Tail(uri, stream, end)
    last = tail.read(end - 8, end)
    if last[4:] != _MAGIC:
        return None
    footer_begin = end - 8 - int(struct.unpack("<I", last[:4])[0])
    try:
        footer, _ = decode_thrift(tail.read(footer_begin, end - 8))
        return _column_pages(footer, column, tail)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError):  # reading by row groups reports damage
        return None


def _column_pages(footer: dict[int, Any], column: str, tail: "_Tail") -> ColumnPages | None:
    name = column.encode()
    schema = next((element for element in footer[2] if element.get(4) == name), None)
    if schema is None or (schema.get(1), schema.get(3)) != (_BYTE_ARRAY, _OPTIONAL):
        return None
    pages: list[_Page] = []
    rows, codec = 0, None
    for group in footer[4]:
        (chunk,) = (chunk for chunk in group[1] if chunk[3][3] == [name])
        meta = chunk[3]
        if 4 not in chunk or meta[4] not in _CODECS or 11 in meta or not {_PLAIN, _RLE} >= set(meta[2]):
            return None
        codec = _CODECS[meta[4]]
        index, _ = decode_thrift(tail.read(chunk[4], chunk[4] + chunk[5]))
        pages += [_Page(location[1], location[2], rows + location.get(3, 0)) for location in index[1]]
        rows += group[3]
    starts = [page.first_row for page in pages]
    if starts[:1] != [0] or starts != sorted(starts):
        raise ValueError("the pages are not in the order of their rows")
    if any(page.size <= 0 or page.offset + page.size > tail.end for page in pages):
        raise ValueError("a page is not in the object")
    return ColumnPages(tuple(pages), rows, codec)


class _Tail:
    """The end of an object; the first read fetches its last 32 kB."""

    def __init__(self, uri: str, stream: Any, end: int) -> None:
        self._uri, self._stream, self.end = uri, stream, end
        self._begin = max(0, end - TAIL_BYTES)
        self._data: bytes = self._get(self._begin, end)

    def read(self, begin: int, end: int) -> bytes:
        if not 0 <= begin < end:
            raise ValueError(f"bytes {begin} to {end} of the object do not exist")
        if begin < self._begin:
            return self._get(begin, end)
        return self._data[begin - self._begin : end - self._begin]

    def _get(self, begin: int, end: int) -> bytes:
        data: bytes = repeated(self._uri, partial(self._stream.read_at, end - begin, begin))
        return data


def _values(page: memoryview, count: int, codec: str | None) -> list[bytes | None]:
    """Return the `count` values of a page.

    Raises:
        ValueError: it is damaged.
    """
    header, begin = decode_thrift(page)
    data = page[begin : begin + header[3]]
    about = header[5]
    if (header[1], about[2], about[1]) != (_DATA_PAGE, _PLAIN, count):
        raise ValueError("not the page that the index says")
    if len(data) != header[3] or (4 in header and zlib.crc32(data) != header[4] % 2**32):
        raise ValueError("its checksum differs")
    if codec is not None:
        data = memoryview(pa.decompress(data, decompressed_size=header[2], codec=codec))
    size = int(struct.unpack_from("<I", data)[0])
    is_valid = _levels(data[4 : 4 + size], count)
    values: list[bytes | None] = []
    at = 4 + size
    for valid in is_valid:
        if not valid:
            values.append(None)
            continue
        size = int(struct.unpack_from("<I", data, at)[0])
        value = bytes(data[at + 4 : at + 4 + size])
        if len(value) < size:
            raise ValueError("it ends within a value")
        values.append(value)
        at += 4 + size
    return values


def _levels(data: memoryview, count: int) -> list[bool]:
    """Return whether each value exists: runs of one bit, or bits in groups of eight."""
    levels: list[bool] = []
    at = 0
    while len(levels) < count:
        head = shift = 0
        while (byte := data[at] if at < len(data) else -1) >= 0x80:
            head, shift, at = head | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0:
            raise ValueError("its levels end too early")
        head, at = head | byte << shift, at + 1
        if head & 1:
            bits = data[at : at + (head >> 1)]
            levels += [bool(value >> bit & 1) for value in bits for bit in range(8)]
            at += head >> 1
        else:
            levels += [bool(data[at] & 1)] * min(head >> 1, count - len(levels))
            at += 1
    return levels[:count]


_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)  # 16, 32 and 64 bits
_LONG_LIST = 15


def decode_thrift(data: bytes | memoryview, start: int = 0) -> tuple[dict[int, Any], int]:
    """Return the struct at `start`, field number -> value, and the position after it.

    Raises:
        ValueError: the bytes are not a struct.
    """
    reader = _ThriftReader(memoryview(data), start)
    try:
        return reader.struct(), reader.position
    except (IndexError, struct.error, RecursionError) as error:
        raise ValueError("not a struct of Thrift's compact protocol") from error


class _ThriftReader:
    def __init__(self, data: memoryview, position: int) -> None:
        self._data, self.position = data, position

    def struct(self) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self._integer()
            fields[number] = self._value(head & 15)
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind not in _READERS:
            raise ValueError(f"type {kind} does not exist in Thrift's compact protocol")
        return _READERS[kind](self)

    def _double(self) -> float:
        value: float = struct.unpack("<d", self._take(8))[0]
        return value

    def _binary(self) -> bytes:
        return bytes(self._take(self._varint()))

    def _sequence(self) -> list[Any]:
        head = self._byte()
        size = self._varint() if head >> 4 == _LONG_LIST else head >> 4
        return [self._element(head & 15) for _ in range(size)]

    def _mapping(self) -> dict[Any, Any]:
        if not (size := self._varint()):
            return {}
        kinds = self._byte()
        return {self._element(kinds >> 4): self._element(kinds & 15) for _ in range(size)}

    def _element(self, kind: int) -> Any:
        """Return a value inside a list or map, where a Boolean takes a byte."""
        return self._byte() == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind)

    def _byte(self) -> int:
        value = self._data[self.position]
        self.position += 1
        return value

    def _take(self, size: int) -> memoryview:
        part = self._data[self.position : self.position + size]
        if len(part) < size:
            raise IndexError
        self.position += size
        return part

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def _integer(self) -> int:
        value = self._varint()  # zigzag
        return value >> 1 ^ -(value & 1)


_READERS: dict[int, Callable[[_ThriftReader], Any]] = {
    _BYTE: _ThriftReader._byte,
    **dict.fromkeys(_INTEGERS, _ThriftReader._integer),
    _DOUBLE: _ThriftReader._double,
    _BINARY: _ThriftReader._binary,
    _LIST: _ThriftReader._sequence,
    _SET: _ThriftReader._sequence,
    _MAP: _ThriftReader._mapping,
    _STRUCT: _ThriftReader.struct,
}
