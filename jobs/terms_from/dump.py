"""A dump of entities, one JSON object per line: its files as units, and a unit's lines.

Files are cut at equal distances, regardless of lines. A unit has the lines that begin in the pieces (blocks of bzip2,
members of gzip, bytes of a plain file) that begin within its span: it skips to its first line end, and reads beyond its
span to the end of its last line. A plain file that is one JSON document (an entity as returned by the API, on one or
several lines) is one unit, read as a whole.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from actors.untrusted import parse_json
from jobs.errors import InputError, check_least
from jobs.runtime.configuration.key_types import MISSING
from jobs.store.files import locations, read_ahead
from jobs.store.files.objects import Object
from jobs.store.units import BYTES, Unit, unit_of_file
from jobs.terms_from import compressed_pieces
from jobs.terms_from.compressed_pieces import Damage, Piece, Pieces, plain

SPAN, READER = "span", "reader"  # in `Unit.extra`: first byte and one past the last; a key of `READERS`
DOCUMENT = "document"  # the reader of a whole JSON document
READERS: dict[str, Pieces] = {
    "bzip2": compressed_pieces.bzip2_pieces,
    "gzip": compressed_pieces.gzip_pieces,
    "plain": plain,
}
SUFFIXES = (".json", ".json.gz", ".json.bz2")
LONGEST_LINE = 64 << 20  # bytes; the longest entities have about 5 MB
MAGIC_BYTES = 4
HEAD_BYTES = 4096  # bytes in which the first line of a plain file must begin


@dataclass
class TermsSource:
    """The source of the terms; `conf/source/` has the options."""

    name: str = MISSING  # wikidata, or language_model
    path: str | None = None  # a file, a folder or a glob of .json, .json.gz or .json.bz2 files, one entity per line
    unit_mb: int = 64  # rarely: compressed megabytes per unit, the granularity of resuming


class Line(NamedTuple):
    """A line of a dump, and the byte of the (compressed) file near which it begins."""

    text: bytes
    at: int


class LongLine(NamedTuple):
    """The beginning of a line that is too long, and the byte of the file near which it begins."""

    head: bytes
    at: int


def units(config: TermsSource, *, whole: bool = False) -> list[Unit]:
    """Return the units of the dump's files.

    Args:
        whole: whether each file is one unit, whatever its size.

    Raises:
        InputError: there is no such file, or a file has another format.
    """
    check_least("source.unit_mb", config.unit_mb, 1)
    if not config.path:
        why = "required; a file, a folder or a glob of .json, .json.gz or .json.bz2 files"
        raise InputError(why, key="source.path")
    files = [file for file in locations.find(config.path) if file.uri.lower().endswith(SUFFIXES)]
    if not files:
        raise InputError(f"no file named *{', *'.join(SUFFIXES)}", key="source.path", value=config.path)
    return [unit for file in files for unit in _cut(file, file.size if whole else config.unit_mb * 10**6)]


def _cut(file: Object, size: int) -> Iterator[Unit]:
    reader = _reader(file)
    size = max(file.size if reader == DOCUMENT else size, 1)
    for first in range(0, max(file.size, 1), size):
        last = min(first + size, file.size)
        unit = unit_of_file(file, piece=f"bytes {first}-{last}")
        yield replace(unit, extra={SPAN: [first, last], READER: reader, BYTES: last - first})


def _reader(file: Object) -> str:
    """Return the reader of a file, chosen by its first bytes."""
    fs, path = locations.filesystem(file.uri)
    with locations.named_errors(file.uri), fs.open_input_file(path) as stream:
        head = stream.read(HEAD_BYTES)
    magic = head[:MAGIC_BYTES]
    if magic[:3] == compressed_pieces.BZIP2_MAGIC:
        return "bzip2"
    if magic[:2] == compressed_pieces.GZIP_START[:2]:
        return "gzip"
    if magic.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"[", b"{", b""):
        return DOCUMENT if file.size <= LONGEST_LINE and _is_document(head) else "plain"
    raise InputError("begins neither as JSON nor as gzip or bzip2; use a dump in JSON", place=file.uri)


def _is_document(head: bytes) -> bool:
    """Return whether a file is one JSON document: an answer of the API, or objects that span lines."""
    rows = (row.strip().removeprefix(b"\xef\xbb\xbf") for row in head.split(b"\n"))
    first = next((row for row in rows if row not in (b"", b"[", b",")), b"")
    return first == b"{" or first.replace(b" ", b"").startswith(b'{"entities":')


def lines(unit: Unit) -> Iterator[Line | LongLine | Damage]:
    """Yield the non-empty lines of a unit in order, without their line ends, and any damage.

    Memory holds one piece, and the line that it interrupts.
    """
    (first, last), uri = unit.extra[SPAN], unit.inputs[0].uri
    if unit.extra[READER] == DOCUMENT:
        yield from _document(locations.read_bytes(uri))
        return
    read = READERS[unit.extra[READER]]
    with read_ahead.opened(uri, end=last) as source:
        yield from _LineJoiner(skip=first > 0).of(read(source, first, last))


def _document(data: bytes) -> Iterator[Line]:
    """Yield each entity of a JSON document as a separate line; if the document is invalid, the document itself."""
    try:
        value = parse_json(data)
    except ValueError:
        yield Line(data, 0)
        return
    if isinstance(value, dict) and isinstance(value.get("entities"), dict):
        value = list(value["entities"].values())
    for entity in value if isinstance(value, list) else [value]:
        yield Line(json.dumps(entity, ensure_ascii=False).encode(), 0)


class _LineJoiner:
    """Joiner of pieces into lines.

    Args:
        skip: whether the unit begins within a line, which belongs to another unit.
    """

    def __init__(self, *, skip: bool) -> None:
        self._skip = skip  # up to the next line end
        self._open: list[bytes] = []  # the parts of the current line
        self._size = 0
        self._at = 0

    def of(self, pieces: Iterator[Piece | Damage]) -> Iterator[Line | LongLine | Damage]:
        """Yield the lines that begin in pieces within the unit's span."""
        for piece in pieces:
            if isinstance(piece, Damage):
                yield from self._close()
                self._skip = True
                if not piece.inside:
                    return
                yield piece
            elif piece.inside:
                yield from self._take(piece.data, piece.at)
            else:
                if self._skip:
                    return
                head, end, _ = piece.data.partition(b"\n")
                self._add(head, piece.at)
                if end:
                    break
        yield from self._close()

    def _take(self, data: bytes, at: int) -> Iterator[Line | LongLine]:
        if self._skip:
            _, end, data = data.partition(b"\n")
            if not end:
                return
            self._skip = False
        head, end, rest = data.partition(b"\n")
        self._add(head, at)
        if not end:
            return
        yield from self._close()
        *whole, tail = rest.split(b"\n")
        for text in whole:
            if text:
                yield Line(text, at)
        self._add(tail, at)

    def _add(self, data: bytes, at: int) -> None:
        if not self._open:
            self._at = at
        remaining = LONGEST_LINE - self._size
        self._size += len(data)
        if data and remaining > 0:
            self._open.append(data[:remaining])

    def _close(self) -> Iterator[Line | LongLine]:
        """Yield the current line, unless it is empty."""
        if self._size > LONGEST_LINE:
            yield LongLine(self._open[0], self._at)
        elif self._open:
            yield Line(b"".join(self._open), self._at)
        self._open, self._size = [], 0
