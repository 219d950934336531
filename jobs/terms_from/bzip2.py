"""Decompression of a part of a bzip2 file, block by block.

A bzip2 stream consists of blocks with at most 900 kB of text that can be decompressed independently. Each begins with a
48-bit mark, at any bit; another 48-bit mark ends the stream. A reader that starts in the middle of a file looks for the
mark and turns each block into a separate stream (header, block, end mark, checksum), which libbz2 decompresses and
checks. Thus a file can be read in parallel, regardless of the program that compressed it (bzip2, lbzip2, pbzip2) and of
the number of streams.
"""

import bz2
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobs.terms_from.pieces import READ, Damage, Piece

BLOCK, END = 0x314159265359, 0x177245385090  # marks that begin a block and end the stream
MARK_BITS, CHECKSUM_BITS = 48, 32
MARK_BYTES = 7  # bytes that a mark can span
HEADER = b"BZh9"  # 9: the largest block size, which suits all smaller blocks
END_NEAR = 64  # bytes before the next stream's first block that contain the end mark
MAGIC = b"BZh"


@dataclass(frozen=True)
class Segment:
    """The bits from one block mark to the next, or to the end of the file.

    Attributes:
        data: the bytes that contain them.
        bit: number of the first bit in the file.
        bits: number of bits.
        is_last: whether the file ends after them.
    """

    data: bytes
    bit: int
    bits: int
    is_last: bool

    @property
    def at(self) -> int:
        """The byte of the file in which it begins."""
        return self.bit // 8

    @property
    def ends_stream(self) -> bool:
        """Whether another stream's header, which begins at a whole byte, comes before the next mark."""
        return (self.bit + self.bits) % 8 == 0 and self.data[-len(HEADER) : -1] == MAGIC


def pieces(source: Any, first: int, last: int) -> Iterator[Piece | Damage]:
    """Yield the decompressed blocks (see `jobs.terms_from.pieces.Pieces`).

    The 48 bits of a mark may occur within a block by chance, about once in 30 TB, so a segment that cannot be
    decompressed is tried again together with the next one before it counts as damaged.
    """
    failing: Segment | None = None
    for segment in segments(source, first):
        if failing is not None:
            data = _decompress(_joined(failing, segment))
            if data is not None:
                yield Piece(data, failing.at, inside=failing.at < last)
                failing = None
                continue
            yield _damage(failing, last)
            failing = None
        data = _decompress(segment)
        if data is None:
            failing = segment
        else:
            yield Piece(data, segment.at, inside=segment.at < last)
    if failing is not None:
        yield _damage(failing, last)


def segments(source: Any, first: int) -> Iterator[Segment]:
    """Yield the segments that begin at or after byte `first` of the file."""
    source.seek(first)
    buffer, base = b"", first  # `base`: the file's byte at which the buffer begins
    start: int | None = None  # position in the file, in bits
    while chunk := source.read(READ):
        scanned = max(len(buffer) - MARK_BYTES + 1, 0)
        buffer += chunk
        for bit in marks(buffer, BLOCK, scanned):
            mark = 8 * base + bit
            if start is not None:
                if mark <= start:
                    continue
                yield _segment(buffer, base, start, mark, is_last=False)
            start = mark
        keep = start // 8 - base if start is not None else max(len(buffer) - MARK_BYTES + 1, 0)
        buffer, base = buffer[keep:], base + keep
    if start is not None:
        yield _segment(buffer, base, start, 8 * (base + len(buffer)), is_last=True)


def marks(data: bytes, mark: int, begin: int = 0) -> list[int]:
    """Return the bits at which a 48-bit mark begins in `data`, ascending, from byte `begin` onwards.

    For each of the eight alignments, the bytes that the mark fills completely are searched first.
    """
    bits = []
    for shift in range(8):
        window = mark << (8 - shift)  # 56 bits: the seven bytes that the mark touches
        before, after = window >> MARK_BITS, window & 0xFF
        middle = mark.to_bytes(6, "big") if shift == 0 else ((window >> 8) & (1 << 40) - 1).to_bytes(5, "big")
        offset = 0 if shift == 0 else 1
        at = data.find(middle, begin + offset)
        while at >= 0:
            head, tail = at - offset, at + len(middle)
            left = shift == 0 or data[head] & (0xFF >> shift) == before & (0xFF >> shift)
            right = shift == 0 or (tail < len(data) and data[tail] >> (8 - shift) == after >> (8 - shift))
            if left and right:
                bits.append(8 * head + shift)
            at = data.find(middle, at + 1)
    return sorted(bits)


def _segment(buffer: bytes, base: int, start: int, end: int, *, is_last: bool) -> Segment:
    return Segment(buffer[start // 8 - base : (end + 7) // 8 - base], start, end - start, is_last)


def _joined(one: Segment, other: Segment) -> Segment:
    """Return two adjacent segments as one; they share a byte if the mark between them does not begin at a byte."""
    shared = 1 if (one.bit + one.bits) % 8 else 0
    return Segment(one.data + other.data[shared:], one.bit, one.bits + other.bits, other.is_last)


def _decompress(segment: Segment) -> bytes | None:
    """Return the text of a block; None if the segment is not exactly one block."""
    lead = segment.bit % 8
    value = int.from_bytes(segment.data, "big") >> (8 * len(segment.data) - lead - segment.bits)
    value &= (1 << segment.bits) - 1
    bits = segment.bits
    padding = -bits % 8
    end = None
    if segment.is_last or segment.ends_stream:
        end = _end_mark((value << padding).to_bytes((bits + padding) // 8, "big"), is_last=segment.is_last)
    if end is not None:
        value, bits = value >> (bits - end), end
    elif segment.is_last:
        return None
    if bits < MARK_BITS + CHECKSUM_BITS:
        return None
    checksum = (value >> (bits - MARK_BITS - CHECKSUM_BITS)) & ((1 << CHECKSUM_BITS) - 1)
    # The checksum of a stream with one block is the block's.
    value, bits = ((value << MARK_BITS | END) << CHECKSUM_BITS) | checksum, bits + MARK_BITS + CHECKSUM_BITS
    padding = -bits % 8
    stream = HEADER + (value << padding).to_bytes((bits + padding) // 8, "big")
    decompressor = bz2.BZ2Decompressor()
    try:
        data = decompressor.decompress(stream)
    except (OSError, ValueError):
        return None
    return data if decompressor.eof else None


def _end_mark(data: bytes, *, is_last: bool) -> int | None:
    """Return the bit of a byte-aligned segment at which its stream's end mark begins; None if there is none."""
    begin = MARK_BYTES if is_last else max(len(data) - END_NEAR, MARK_BYTES)
    return next(iter(marks(data, END, begin)), None)


def _damage(segment: Segment, last: int) -> Damage:
    if segment.is_last:
        reason, message = "truncated", "the bzip2 file ends within a block"
    else:
        reason, message = "corrupt", "a bzip2 block is damaged"
    return Damage(segment.at, reason, message, inside=segment.at < last)
