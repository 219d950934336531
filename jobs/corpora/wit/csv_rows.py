"""WIT rows by Python's csv module: slow, sure of every file, and exact about what is no row.

What has not the header's width is a reject with its position; the rows around it are kept. A compressed file that
ends or breaks early gives the rows before the break and one reject that says where.
"""

import csv
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from jobs.corpora.wit.streams import BrokenOffError, ByteSource, careful_stream, opened
from jobs.errors import InputError
from jobs.store.writer import Reject

CHUNK = 1 << 20
MAX_FIELD = 16 << 20  # characters; the longest article section in WIT is far below
MAX_LINE = 4 * MAX_FIELD  # bytes without a newline that are held before they count as a line
RAW_KEPT = 200  # characters of a rejected line that are kept


class RowReader:
    """The rows of one opened file.

    Args:
        uri: what rejects name.
        source: the file, for `compressed_position`.
        stream: has `read`; stands at the file's start, or at the row that begins at byte `offset`.
        header: the columns where the stream stands behind them; None: its first line holds them.

    Raises:
        InputError: there is no header to read.
    """

    def __init__(
        self, uri: str, source: ByteSource, stream: Any, *, header: list[str] | None = None, offset: int = 0
    ) -> None:
        csv.field_size_limit(MAX_FIELD)
        self._uri, self._source = uri, source
        self._lines = _Lines(stream, offset)
        self._taken: list[_Line] = []
        self.header = self._read_header() if header is None else header

    @property
    def offset(self) -> int:
        """Byte of the decompressed file at which the row given out last ends."""
        return self._lines.next_offset

    @property
    def row_offset(self) -> int:
        """Byte at which the row begins that was given out last, or that was being read when the stream failed."""
        return self._taken[0].offset if self._taken else self.offset

    def skip_to(self, offset: int) -> None:
        """Go on at the row that begins at byte `offset` of the decompressed file, if that lies behind the header."""
        self._lines.skip_to(offset)

    def unread(self) -> bytes:
        """What was read from the stream and not given out."""
        return self._lines.unread()

    def compressed_position(self) -> int:
        """Bytes of the file read so far."""
        return self._source.tell()

    def rows(self) -> Iterator[list[str] | Reject]:
        """Each row's fields, or a Reject in place of what is none; then one Reject if the file broke off.

        Bytes that are not UTF-8 stand in the fields as lone surrogates.
        """
        width = len(self.header)
        while taken := self._next_row():
            fields, fault = taken
            if fault is None and len(fields) != width:
                fault = f"{len(fields)} fields instead of {width}"
            if fault is None:
                yield fields
                continue
            # Only its first line is given up: a stray quote must not swallow the rows behind it.
            self._lines.push_back(self._taken[1:])
            yield self.reject("malformed", fault)
        if broke := self._lines.broke:
            reason, message = broke
            yield Reject(self._uri, self._lines.offset, reason, message)

    def reject(self, reason: str, message: str) -> Reject:
        """The row that was given out last as a reject."""
        line = self._taken[0]
        raw = line.text[:RAW_KEPT].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return Reject(self._uri, line.offset, reason, message, raw)

    def _read_header(self) -> list[str]:
        first = next(self._lines, None)
        if first is None:
            why = self._lines.broke[1] if self._lines.broke else "empty"
            raise InputError(f"{self._uri}: {why}; a header is needed")
        try:
            return [name.strip() for name in next(csv.reader([first.text.removeprefix("\ufeff")], delimiter="\t"), [])]
        except csv.Error as error:
            raise InputError(f"{self._uri}: its first line is no header ({error})") from error

    def _next_row(self) -> tuple[list[str], str | None] | None:
        """The next row's fields, and why it is none; None at the end. Its physical lines are in `_taken`."""
        self._taken = taken = []
        ended = False

        def feed() -> Iterator[str]:
            nonlocal ended
            for line in self._lines:
                taken.append(line)
                yield line.text
            ended = True

        try:
            fields = next(csv.reader(feed(), delimiter="\t"), [])
        except csv.Error as error:
            return [], str(error)
        if not taken:
            return None
        # csv asks for another line only inside quotes, so having met the end means they were never closed.
        return fields, "a quoted field is not closed" if ended else None


@contextmanager
def open_rows(uri: str, offset: int = 0) -> Iterator[RowReader]:
    """The rows of a file from the row that begins at byte `offset` (decompressed) on."""
    with opened(uri) as (source, kind):
        reader = RowReader(uri, source, careful_stream(source, kind))
        reader.skip_to(offset)
        yield reader


class _Line(NamedTuple):
    """A physical line: where it begins (byte), and its text with its line end."""

    offset: int
    text: str


class _Lines:
    """The physical lines of a stream; undecodable bytes become lone surrogates."""

    def __init__(self, stream: Any, offset: int) -> None:
        self._stream = stream
        self._pending: deque[_Line] = deque()
        self._rest = b""
        self._ended = False
        self.offset = offset  # of the byte after the last line that was cut off
        self.broke: tuple[str, str] | None = None

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
        """Leave out the lines before byte `offset`, which begins one."""
        for line in self:
            if line.offset >= offset:
                self._pending.appendleft(line)
                return

    def push_back(self, lines: list[_Line]) -> None:
        self._pending.extendleft(reversed(lines))

    def unread(self) -> bytes:
        return b"".join(line.text.encode("utf-8", "surrogateescape") for line in self._pending) + self._rest

    def _fill(self) -> None:
        try:
            chunk = self._stream.read(CHUNK)
        except BrokenOffError as broken:
            self.broke, chunk = (broken.reason, broken.message), b""
        if not chunk:
            self._ended = True
            # What stands before a break may be half a row; before a regular end it is a line without its newline.
            if self._rest and self.broke is None:
                self._give(self._rest)
            self._rest = b""
            return
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._give(line + b"\n")
        if len(self._rest) > MAX_LINE:
            self._give(self._rest)
            self._rest = b""

    def _give(self, raw: bytes) -> None:
        self._pending.append(_Line(self.offset, raw.decode("utf-8", "surrogateescape")))
        self.offset += len(raw)
