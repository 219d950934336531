"""WIT (Wikipedia-based Image Text): tab-separated files with a header, CSV quoting, gzip, zstd or plain.

Quoted fields may hold tabs, newlines and doubled quotes. What is not a row of the header's width, or not
UTF-8, is a reject with its position; the rows around it are kept. A compressed file that ends or breaks early
gives the rows before the break and one reject that says where.
"""

import csv
import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from isal import igzip, isal_zlib
from omegaconf import MISSING

from jobs.errors import InputError
from jobs.store import locations
from jobs.store.writer import Counts, Reject
from jobs.tables import WIT_COLUMNS

NEEDED = ("language", "page_url", "image_url", "page_title", "is_main_image")
CHUNK = 1 << 20
MAX_FIELD = 16 << 20  # characters; the longest article section in WIT is far below
RAW_KEPT = 200  # characters of a rejected line that are kept
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass
class WitConfig:
    """Which files, and which rows of them."""

    name: str = "wit"
    path: str = MISSING  # file, folder or glob; local or s3://
    language: str | None = "en"  # null: every language


class Matcher(Protocol):
    """Finds the terms in a title."""

    def match(self, title: str) -> list[str]: ...


@dataclass(frozen=True)
class Hit:
    """A row that is kept: its fields by WIT column (None where the file has no such column), and its terms."""

    fields: dict[str, str | None]
    terms: list[str]


def split_of(uri: str) -> str:
    """train, val or test as the file's name says, else empty."""
    found = re.search(r"(?:^|[._-])(train|val|test)(?=[._-])", uri.rsplit("/", 1)[-1])
    return found.group(1) if found else ""


def check_header(uri: str) -> None:
    """Read the first line of `uri`.

    Raises:
        InputError: empty, unreadable, or without a needed column; the sentence names file and column.
    """
    with locations.named_errors(uri):
        try:
            with open_rows(uri) as file:
                header = file.header
        except (EOFError, OSError, ValueError, UnicodeDecodeError) as error:
            if isinstance(error, InputError | FileNotFoundError | PermissionError):
                raise
            raise InputError(f"{uri}: cannot be read as WIT ({error})") from error
    if missing := [c for c in NEEDED if c not in header]:
        raise InputError(f"{uri}: no column {', '.join(missing)} in its header")


def scan_file(
    uri: str,
    *,
    language: str | None,
    matcher: Matcher,
    counts: Counts,
    reject: Callable[[Reject], None],
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Hit]:
    """The rows of `language` whose page title holds a term, in file order.

    `counts.rows_in` and `counts.filtered` (by `language` and `title`) are kept up to date; what is not a row
    goes to `reject`, which counts it. `progress(compressed_bytes, rows)` is called with what came since the
    last call.
    """
    with open_rows(uri) as file:
        place = {name: file.header.index(name) for name in WIT_COLUMNS if name in file.header}
        at_language, at_title = place["language"], place["page_title"]
        told_rows = told_bytes = 0
        for row in file.rows():
            counts.rows_in += 1
            if progress and counts.rows_in % 2048 == 0:
                position = file.compressed_position()
                progress(position - told_bytes, counts.rows_in - told_rows)
                told_bytes, told_rows = position, counts.rows_in
            if isinstance(row, Reject):
                reject(row)
                continue
            if language is not None and row[at_language] != language:
                counts.filtered["language"] += 1
                continue
            terms = matcher.match(row[at_title])
            if not terms:
                counts.filtered["title"] += 1
                continue
            yield Hit({name: row[place[name]] if name in place else None for name in WIT_COLUMNS}, terms)
        if progress:
            progress(max(file.compressed_position() - told_bytes, 0), counts.rows_in - told_rows)


class RowReader:
    """The header and rows of one opened file."""

    def __init__(self, uri: str, source: Any, stream: Any) -> None:
        csv.field_size_limit(MAX_FIELD)
        self._uri, self._source = uri, source
        self._lines = _Lines(stream)
        first = next(self._lines, None)
        if first is None:
            raise InputError(f"{uri}: empty, a header is needed")
        text = first.text.removeprefix("\ufeff")
        try:
            self.header = [name.strip() for name in next(csv.reader([text], delimiter="\t"), [])]
        except csv.Error as error:
            raise InputError(f"{uri}: its first line is no header ({error})") from error

    def compressed_position(self) -> int:
        """Bytes of the file read so far."""
        return int(self._source.tell()) if not self._source.closed else 0

    def rows(self) -> Iterator[list[str] | Reject]:
        """Each row's fields, or a Reject in place of what is none; then one Reject if the file broke off."""
        width = len(self.header)
        while taken := self._next_row():
            lines, fields, fault = taken
            if fault is None and len(fields) != width:
                fault = f"{len(fields)} fields instead of {width}"
            if fault is not None:
                # Only its first line is given up: a stray quote must not swallow the rows behind it.
                self._lines.push_back(lines[1:])
                yield self._reject(lines[0], "malformed", fault)
            elif any(line.damaged for line in lines):
                yield self._reject(lines[0], "invalid_utf8", "the row is not UTF-8")
            else:
                yield fields
        if broke := self._lines.broke:
            reason, message = broke
            yield Reject(self._uri, self._lines.offset, reason, message)

    def _next_row(self) -> tuple[list["_Line"], list[str], str | None] | None:
        """The physical lines of the next row, its fields, and why it is none; None at the end."""
        taken: list[_Line] = []
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
            return taken, [], str(error)
        if not taken:
            return None
        # csv asks for another line only inside quotes, so having met the end means they were never closed.
        return taken, fields, "a quoted field is not closed" if ended else None

    def _reject(self, line: "_Line", reason: str, message: str) -> Reject:
        raw = line.text[:RAW_KEPT].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return Reject(self._uri, line.offset, reason, message, raw)


class _Line(NamedTuple):
    """A physical line: where it begins (byte), its text with its line end, whether it is not UTF-8."""

    offset: int
    text: str
    damaged: bool


class _Lines:
    """The physical lines of a stream; undecodable bytes become lone surrogates."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._pending: deque[_Line] = deque()
        self._rest = b""
        self._ended = False
        self.offset = 0  # of the byte after the last line given out for the first time
        self.broke: tuple[str, str] | None = None

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> _Line:
        while not self._pending:
            if self._ended:
                raise StopIteration
            self._fill()
        return self._pending.popleft()

    def push_back(self, lines: list[_Line]) -> None:
        self._pending.extendleft(reversed(lines))

    def _fill(self) -> None:
        read = getattr(self._stream, "read1", self._stream.read)  # read1 gives what precedes a break first
        try:
            chunk = read(CHUNK)
        except EOFError:
            self.broke, chunk = ("truncated", "the compressed file ends before its end-of-stream mark"), b""
        except (OSError, ValueError, isal_zlib.error) as error:  # type: ignore[misc]
            self.broke, chunk = ("corrupt", f"the compressed data is damaged ({error})"), b""
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

    def _give(self, raw: bytes) -> None:
        try:
            self._pending.append(_Line(self.offset, raw.decode("utf-8"), damaged=False))
        except UnicodeDecodeError:
            self._pending.append(_Line(self.offset, raw.decode("utf-8", "surrogateescape"), damaged=True))
        self.offset += len(raw)


@contextmanager
def open_rows(uri: str) -> Iterator[RowReader]:
    """Open `uri` by what its first bytes are, not by its name."""
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as source:
        magic = source.read(4)
        source.seek(0)
        if magic[:2] == GZIP:
            yield RowReader(uri, source, igzip.IGzipFile(fileobj=source))
        elif magic == ZSTD:
            yield RowReader(uri, source, pa.CompressedInputStream(source, "zstd"))
        else:
            yield RowReader(uri, source, source)
