"""Decompressed pieces of a file in order, and the places where it is damaged, for readers that start in its middle.

A bzip2 stream consists of blocks with at most 900 kB of text that can be decompressed independently. Each begins with a
48-bit mark, at any bit; another 48-bit mark ends the stream. A reader that starts in the middle of a file looks for the
mark and turns each block into a separate stream (header, block, end mark, checksum), which libbz2 decompresses and
checks. Thus a file can be read in parallel, regardless of the program that compressed it (bzip2, lbzip2, pbzip2) and of
the number of streams.

A gzip file has one or several members, each of which can be decompressed separately. Wikidata's dumps have several: the
shards of the exporting processes, one after another. A reader that starts in the middle of a file looks for the first
bytes of a member and checks them by decompressing; from then on it follows the members' ends. A file with a single
member can only be read from its start, by one process.
"""

import bz2
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from isal import igzip_lib, isal_zlib

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


BLOCK, END = 0x314159265359, 0x177245385090  # marks that begin a block and end the stream
MARK_BITS, CHECKSUM_BITS = 48, 32
MARK_BYTES = 7  # bytes that a mark can span
BZIP2_HEADER = b"BZh9"  # 9: the largest block size, which suits all smaller blocks
END_NEAR = 64  # bytes before the next stream's first block that contain the end mark
BZIP2_MAGIC = b"BZh"


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
        return (self.bit + self.bits) % 8 == 0 and self.data[-len(BZIP2_HEADER) : -1] == BZIP2_MAGIC


def bzip2_pieces(source: Any, first: int, last: int) -> Iterator[Piece | Damage]:
    """Yield the decompressed blocks (see `Pieces`).

    The 48 bits of a mark may occur within a block by chance, about once in 30 TB, so a segment that cannot be
    decompressed is tried again together with the next one before it counts as damaged.
    """
    failing: Segment | None = None
    for segment in bzip2_segments(source, first):
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


def bzip2_segments(source: Any, first: int) -> Iterator[Segment]:
    """Yield the segments that begin at or after byte `first` of the file."""
    source.seek(first)
    buffer, base = b"", first  # `base`: the file's byte at which the buffer begins
    start: int | None = None  # position in the file, in bits
    while chunk := source.read(READ):
        scanned = max(len(buffer) - MARK_BYTES + 1, 0)
        buffer += chunk
        for bit in block_marks(buffer, BLOCK, scanned):
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


def block_marks(data: bytes, mark: int, begin: int = 0) -> list[int]:
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
    stream = BZIP2_HEADER + (value << padding).to_bytes((bits + padding) // 8, "big")
    decompressor = bz2.BZ2Decompressor()
    try:
        data = decompressor.decompress(stream)
    except (OSError, ValueError):
        return None
    return data if decompressor.eof else None


def _end_mark(data: bytes, *, is_last: bool) -> int | None:
    """Return the bit of a byte-aligned segment at which its stream's end mark begins; None if there is none."""
    begin = MARK_BYTES if is_last else max(len(data) - END_NEAR, MARK_BYTES)
    return next(iter(block_marks(data, END, begin)), None)


def _damage(segment: Segment, last: int) -> Damage:
    if segment.is_last:
        reason, message = "truncated", "the bzip2 file ends within a block"
    else:
        reason, message = "corrupt", "a bzip2 block is damaged"
    return Damage(segment.at, reason, message, inside=segment.at < last)


GZIP_BLOCK = 128 << 10  # compressed bytes read at a time
GZIP_START = b"\x1f\x8b\x08"  # first bytes of a member compressed with deflate
RESERVED_FLAGS = 0xE0  # in the header's fourth byte
HEADER_BYTES = 10
GZIP_TRIAL = 64 << 10  # text that must be decompressed before bytes count as a member's start
GZIP_ERRORS: tuple[Any, ...] = (igzip_lib.IsalError, isal_zlib.error, OSError, ValueError)


def gzip_pieces(source: Any, first: int, last: int) -> Iterator[Piece | Damage]:
    """Yield the decompressed members (see `Pieces`); a member belongs to the unit with its first
    byte.


    After damage, the reader continues with the next member.
    """
    at = 0 if first == 0 else find_member(source, first, last)
    while at is not None:
        end, damage = yield from _member(source, at, inside=at < last)
        if damage is not None:
            yield damage
            at = find_member(source, max(damage.at, at + 1), None)
        else:
            at = end


def find_member(source: Any, first: int, last: int | None) -> int | None:
    """Return the byte at or after `first` and before `last` at which the first member begins; None if none does."""
    source.seek(first)
    buffer, base = b"", first
    while (last is None or base < last) and (chunk := source.read(READ)):
        buffer += chunk
        at = buffer.find(GZIP_START)
        while at >= 0 and at + HEADER_BYTES <= len(buffer):
            position = base + at
            if last is not None and position >= last:
                return None
            if not buffer[at + 3] & RESERVED_FLAGS and _is_member(source, position):
                return position
            at = buffer.find(GZIP_START, at + 1)
        keep = max(len(buffer) - HEADER_BYTES + 1, 0)
        buffer, base = buffer[keep:], base + keep
        source.seek(base + len(buffer))
    return None


def _is_member(source: Any, at: int) -> bool:
    """Return whether the bytes at `at` can be decompressed to the end of a member, or to `TRIAL` bytes of text."""
    source.seek(at)
    member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    size = 0
    try:
        while size < GZIP_TRIAL and not member.eof:
            data = source.read(GZIP_BLOCK) if member.needs_input else b""
            if member.needs_input and not data:
                return False
            size += len(member.decompress(data, GZIP_TRIAL))
    except GZIP_ERRORS:
        return False
    return True


def _member(source: Any, at: int, *, inside: bool) -> Generator[Piece, None, tuple[int | None, Damage | None]]:
    """Yield a member's text; return where the next one begins (None: at the end of the file), and any damage."""
    source.seek(at)
    member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    position = at  # bytes of the file given to the decompressor
    while not member.eof:
        data = b""
        if member.needs_input:
            data = source.read(GZIP_BLOCK)
            if not data:
                return None, Damage(at, "truncated", "the gzip file ends within a member", inside=inside)
        try:
            text = member.decompress(data, READ)
        except GZIP_ERRORS as error:
            return None, Damage(position, "corrupt", f"a gzip member is damaged ({error})", inside=inside)
        if text:
            yield Piece(text, position, inside=inside)
        position += len(data)
    return _after(source, position - len(member.unused_data)), None


def _after(source: Any, at: int) -> int | None:
    """Return where the next member begins, after zeros that may pad this one; None at the end of the file."""
    source.seek(at)
    while data := source.read(GZIP_BLOCK):
        if rest := data.lstrip(b"\0"):
            return at + len(data) - len(rest)
        at += len(data)
    return None
