"""Decoding of Thrift's compact protocol, in which Parquet's footers, page headers and page indexes are written."""

import struct
from collections.abc import Callable
from typing import Any

_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
_INTEGERS = (4, 5, 6)  # 16, 32 and 64 bits
_LONG_LIST = 15


def decode(data: bytes | memoryview, start: int = 0) -> tuple[dict[int, Any], int]:
    """Return the struct at `start`, field number -> value, and the position after it.

    Raises:
        ValueError: the bytes are not a struct.
    """
    reader = _Reader(memoryview(data), start)
    try:
        return reader.struct(), reader.position
    except (IndexError, struct.error, RecursionError) as error:
        raise ValueError("not a struct of Thrift's compact protocol") from error


class _Reader:
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


_READERS: dict[int, Callable[[_Reader], Any]] = {
    _BYTE: _Reader._byte,
    **dict.fromkeys(_INTEGERS, _Reader._integer),
    _DOUBLE: _Reader._double,
    _BINARY: _Reader._binary,
    _LIST: _Reader._sequence,
    _SET: _Reader._sequence,
    _MAP: _Reader._mapping,
    _STRUCT: _Reader.struct,
}
