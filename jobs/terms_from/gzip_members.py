"""Decompression of a part of a gzip file, member by member.

A gzip file has one or several members, each of which can be decompressed separately. Wikidata's dumps have several: the
shards of the exporting processes, one after another. A reader that starts in the middle of a file looks for the first
bytes of a member and checks them by decompressing; from then on it follows the members' ends. A file with a single
member can only be read from its start, by one process.
"""

from collections.abc import Generator, Iterator
from typing import Any

from isal import igzip_lib, isal_zlib

from jobs.terms_from.pieces import READ, Damage, Piece

BLOCK = 128 << 10  # compressed bytes read at a time
START = b"\x1f\x8b\x08"  # first bytes of a member compressed with deflate
RESERVED_FLAGS = 0xE0  # in the header's fourth byte
HEADER_BYTES = 10
TRIAL = 64 << 10  # text that must be decompressed before bytes count as a member's start
ERRORS: tuple[Any, ...] = (igzip_lib.IsalError, isal_zlib.error, OSError, ValueError)


def pieces(source: Any, first: int, last: int) -> Iterator[Piece | Damage]:
    """Yield the decompressed members (see `jobs.terms_from.pieces.Pieces`); a member belongs to the unit with its first
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
        at = buffer.find(START)
        while at >= 0 and at + HEADER_BYTES <= len(buffer):
            position = base + at
            if last is not None and position >= last:
                return None
            if not buffer[at + 3] & RESERVED_FLAGS and _is_member(source, position):
                return position
            at = buffer.find(START, at + 1)
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
        while size < TRIAL and not member.eof:
            data = source.read(BLOCK) if member.needs_input else b""
            if member.needs_input and not data:
                return False
            size += len(member.decompress(data, TRIAL))
    except ERRORS:
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
            data = source.read(BLOCK)
            if not data:
                return None, Damage(at, "truncated", "the gzip file ends within a member", inside=inside)
        try:
            text = member.decompress(data, READ)
        except ERRORS as error:
            return None, Damage(position, "corrupt", f"a gzip member is damaged ({error})", inside=inside)
        if text:
            yield Piece(text, position, inside=inside)
        position += len(data)
    return _after(source, position - len(member.unused_data)), None


def _after(source: Any, at: int) -> int | None:
    """Return where the next member begins, after zeros that may pad this one; None at the end of the file."""
    source.seek(at)
    while data := source.read(BLOCK):
        if rest := data.lstrip(b"\0"):
            return at + len(data) - len(rest)
        at += len(data)
    return None
