"""WIT rows read by Python's csv module: slow, but correct for every file, with exact positions of faulty rows.

A row without the header's width is rejected with its position, and the rows around it are kept. A truncated or damaged
compressed file gives the rows before the damage and one reject with its position.
"""

import csv
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from jobs.corpora.wit.streams import ByteSource, DamagedError, careful_stream, opened
from jobs.errors import InputError
from jobs.store.writer import Reject

CHUNK = 1 << 20
MAX_FIELD = 16 << 20  # characters; the longest article section in WIT is far below
MAX_LINE = 4 * MAX_FIELD  # bytes without a newline that count as a line
RAW_KEPT = 200  # characters kept of a rejected line


class RowReader:
    """Reader of the rows of an open file.

    Args:
        uri: the file's URI, for rejects.
        source: the file, for `compressed_position`.
        stream: has `read`, and is at the file's start or at the row that begins at byte `offset`.
        header: the columns, if the stream is past the header; None: read them from the first line.

    Raises:
        InputError: the header cannot be read.
    """

    def __init__(
        self, uri: str, source: ByteSource, stream: Any, *, header: list[str] | None = None, offset: int = 0
    ) -> None:
        csv.field_size_limit(MAX_FIELD)
        self._uri, self._source = uri, source
        self._lines = _Lines(stream, offset)
        self._row_lines: list[_Line] = []
        self.header = self._read_header() if header is None else header

    @property
    def offset(self) -> int:
        """The byte of the decompressed file at which the last yielded row ends."""
        return self._lines.next_offset

    @property
    def row_offset(self) -> int:
        """The byte at which the last yielded row begins, or the row being read when the stream failed."""
        return self._row_lines[0].offset if self._row_lines else self.offset

    def skip_to(self, offset: int) -> None:
        """Continue with the row at byte `offset` of the decompressed file, if it is after the header."""
        self._lines.skip_to(offset)

    def unread(self) -> bytes:
        """Return the bytes that were read from the stream but not yielded as rows."""
        return self._lines.unread()

    def compressed_position(self) -> int:
        """Return how many bytes of the (compressed) file have been read."""
        return self._source.tell()

    def rows(self) -> Iterator[list[str] | Reject]:
        """Yield the fields of each row, or a Reject for a faulty line; after damage, one more Reject.

        Bytes that are not UTF-8 become lone surrogates in the fields.
        """
        width = len(self.header)
        while row := self._next_row():
            fields, fault = row
            if fault is None and len(fields) != width:
                fault = f"{len(fields)} fields instead of {width}"
            if fault is None:
                yield fields
                continue
            # Skip only its first line: a stray quote must not swallow the rows after it.
            self._lines.push_back(self._row_lines[1:])
            yield self.reject("malformed", fault)
        if damage := self._lines.damage:
            reason, message = damage
            yield Reject(self._uri, self._lines.offset, reason, message)

    def reject(self, reason: str, message: str) -> Reject:
        """Return the last yielded row as a reject."""
        line = self._row_lines[0]
        raw = line.text[:RAW_KEPT].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return Reject(self._uri, line.offset, reason, message, raw)

    def _read_header(self) -> list[str]:
        first = next(self._lines, None)
        if first is None:
            reason = self._lines.damage[1] if self._lines.damage else "empty"
            raise InputError(f"{reason}; a header is required", place=self._uri)
        try:
            return [name.strip() for name in next(csv.reader([first.text.removeprefix("\ufeff")], delimiter="\t"), [])]
        except csv.Error as error:
            raise InputError(f"its first line is not a valid header ({error})", place=self._uri) from error

    def _next_row(self) -> tuple[list[str], str | None] | None:
        """Return the next row's fields and its fault, if any, with its lines in `_row_lines`; None after the last."""
        self._row_lines = lines = []
        ended = False

        def feed() -> Iterator[str]:
            nonlocal ended
            for line in self._lines:
                lines.append(line)
                yield line.text
            ended = True

        try:
            fields = next(csv.reader(feed(), delimiter="\t"), [])
        except csv.Error as error:
            return [], str(error)
        if not lines:
            return None
        # csv asks for another line only inside quotes, so reaching the end means that a quote was not closed.
        return fields, "a quoted field is not closed" if ended else None


@contextmanager
def open_rows(uri: str, offset: int = 0) -> Iterator[RowReader]:
    """Open a file and yield a reader of its rows, starting with the row at byte `offset` (decompressed)."""
    with opened(uri) as (source, kind):
        reader = RowReader(uri, source, careful_stream(source, kind))
        reader.skip_to(offset)
        yield reader


class _Line(NamedTuple):
    """A physical line: the byte at which it begins, and its text with the line end."""

    offset: int
    text: str


class _Lines:
    """The physical lines of a stream; undecodable bytes become lone surrogates."""

    def __init__(self, stream: Any, offset: int) -> None:
        self._stream = stream
        self._pending: deque[_Line] = deque()
        self._rest = b""
        self._ended = False
        self.offset = offset  # offset of the byte after the last complete line
        self.damage: tuple[str, str] | None = None  # reason and message

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> _Line:
        while not self._pending:
            if self._ended:
                raise StopIteration
            self._fill()
        return self._pending.popleft()

    @property
    def next_offset(self) -> int:
        return self._pending[0].offset if self._pending else self.offset

    def skip_to(self, offset: int) -> None:
        """Skip the lines before byte `offset`, at which a line begins."""
        for line in self:
            if line.offset >= offset:
                self._pending.appendleft(line)
                return

    def push_back(self, lines: list[_Line]) -> None:
        self._pending.extendleft(reversed(lines))

    def unread(self) -> bytes:
        return b"".join(line.text.encode("utf-8", "surrogateescape") for line in self._pending) + self._rest

    def _fill(self) -> None:
        if not (chunk := self._read()):
            self._ended = True
            # Before damage, the rest may be half a row; before a regular end, it is a line without a newline.
            if self._rest and self.damage is None:
                self._append(self._rest)
            self._rest = b""
            return
        self._split(self._rest + chunk)
        while len(self._rest) > MAX_LINE:
            self._append(self._rest)
            self._split(self._skip_line())

    def _read(self) -> bytes:
        """Return the next bytes of the stream; empty if it ends or is damaged."""
        try:
            chunk: bytes = self._stream.read(CHUNK)
        except DamagedError as error:
            self.damage = error.reason, error.message
            return b""
        return chunk

    def _split(self, text: bytes) -> None:
        """Append the lines of `text`; what follows the last line becomes the rest."""
        *whole, self._rest = text.split(b"\n")
        for line in whole:
            self._append(line + b"\n")

    def _skip_line(self) -> bytes:
        """Read to the end of a line whose beginning counted as a line; return what was read of the lines after it."""
        while chunk := self._read():
            skipped, end, after = chunk.partition(b"\n")
            self.offset += len(skipped + end)
            if end:
                return after
        return b""

    def _append(self, raw: bytes) -> None:
        self._pending.append(_Line(self.offset, raw.decode("utf-8", "surrogateescape")))
        self.offset += len(raw)
