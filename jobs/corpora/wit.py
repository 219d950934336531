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
from glob import has_magic
from typing import Any, NamedTuple

import pyarrow as pa
from isal import igzip_lib
from omegaconf import MISSING

from actors.titles import TitleMatcher
from jobs.corpora.wit_scan import FastScan, UncertainError, gzip_stream
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.writer import Counts, Reject
from jobs.tables import WIT_COLUMNS

NEEDED = ("language", "page_url", "image_url", "page_title", "is_main_image")
CHUNK = 1 << 20
BLOCK = 1 << 18  # compressed bytes read at a time
MAX_FIELD = 16 << 20  # characters; the longest article section in WIT is far below
MAX_LINE = 4 * MAX_FIELD  # bytes without a newline that are held before they count as a line
RAW_KEPT = 200  # characters of a rejected line that are kept
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

_BREAKS: tuple[Any, ...] = (EOFError, OSError, ValueError, igzip_lib.IsalError)  # what decompressors raise


@dataclass
class WitConfig:
    """Which files, and which rows of them."""

    name: str = "wit"
    path: str = MISSING  # file, folder or glob; local or s3://
    language: str | None = "en"  # null: every language


@dataclass(frozen=True)
class Hit:
    """A row that is kept: its fields by WIT column (None where the file has no such column), and its terms."""

    fields: dict[str, str | None]
    terms: list[str]


def split_of(uri: str) -> str:
    """train, val or test as the file's name says, else empty."""
    found = re.search(r"(?:^|[._-])(train|val|test)(?=[._-])", uri.rsplit("/", 1)[-1])
    return found.group(1) if found else ""


def find_files(path: str) -> list[locations.Object]:
    """The corpus's files: what `path` names, and of a folder only what is called .tsv, .tsv.gz or .tsv.zst.

    Raises:
        InputError: nothing there.
    """
    found = locations.find(path)
    if len(found) == 1 or has_magic(path):
        return found
    named = [o for o in found if re.search(r"\.tsv(\.gz|\.zst)?$", o.uri)]
    if not named:
        raise InputError(f"{path}: {len(found)} files, none of them .tsv, .tsv.gz or .tsv.zst")
    return named


def check_header(uri: str) -> None:
    """Read the first line of `uri`.

    Raises:
        InputError: empty, unreadable, or without a needed column; the sentence names file and column.
    """
    with locations.named_errors(uri):
        try:
            with open_rows(uri) as file:
                header = file.header
        except pa.ArrowInvalid as error:
            raise InputError(f"{uri}: cannot be read as WIT ({error})") from error
    if missing := [c for c in NEEDED if c not in header]:
        raise InputError(f"{uri}: no column {', '.join(missing)} in its header")


def scan_file(
    uri: str,
    *,
    language: str | None,
    matcher: TitleMatcher,
    counts: Counts,
    reject: Callable[[Reject], None],
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Hit]:
    """The rows of `language` whose page title holds a term, in file order.

    `counts.rows_in` and `counts.filtered` (by `language` and `title`) are kept up to date; what is not a row
    goes to `reject`, which counts it. `progress(compressed_bytes, rows)` is called with what came since the
    last call.

    The byte scan reads; from where it cannot be sure on, the csv module does, and `counts.tallies` says so under
    `read_by_csv`: file, byte and reason.
    """
    told = _Told(counts, progress)
    try:
        yield from _scanned(uri, language=language, matcher=matcher, counts=counts, told=told)
    except UncertainError as doubt:
        place = f"{uri.rsplit('/', 1)[-1]} from byte {doubt.offset:,} on ({doubt.reason})"
        counts.tallies.setdefault("read_by_csv", {})[place] = 1
        yield from _parsed(
            uri, offset=doubt.offset, language=language, matcher=matcher, counts=counts, reject=reject, told=told
        )


class _Told:
    """Tells `progress` what came since it was last told."""

    def __init__(self, counts: Counts, progress: Callable[[int, int], None] | None) -> None:
        self._counts, self._progress = counts, progress
        self._bytes = self._rows = 0

    def __call__(self, position: int) -> None:
        if self._progress is not None:
            self._progress(max(position - self._bytes, 0), self._counts.rows_in - self._rows)
            self._bytes, self._rows = max(position, self._bytes), self._counts.rows_in


def _scanned(uri: str, *, language: str | None, matcher: TitleMatcher, counts: Counts, told: _Told) -> Iterator[Hit]:
    with _opened(uri) as (source, kind):
        stream = gzip_stream(source) if kind == GZIP else _zstd(source) if kind == ZSTD else source
        try:
            scan = FastScan(stream, chunk=CHUNK)
            place = {name: scan.header.index(name) for name in WIT_COLUMNS if name in scan.header}
            hits = scan.hits(language=language, matcher=matcher, counts=counts, progress=lambda _: told(source.tell()))
            for fields, terms in hits:
                yield _hit(fields, place, terms)
        except UncertainError:
            if source.failure is not None:
                raise source.failure from None
            raise


def _parsed(
    uri: str,
    *,
    offset: int,
    language: str | None,
    matcher: TitleMatcher,
    counts: Counts,
    reject: Callable[[Reject], None],
    told: _Told,
) -> Iterator[Hit]:
    with open_rows(uri, offset) as file:
        place = {name: file.header.index(name) for name in WIT_COLUMNS if name in file.header}
        at_language, at_title = place["language"], place["page_title"]
        for row in file.rows():
            counts.rows_in += 1
            if counts.rows_in % 2048 == 0:
                told(file.compressed_position())
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
            yield _hit(row, place, terms)
        told(file.compressed_position())


def _hit(fields: list[str], place: dict[str, int], terms: list[str]) -> Hit:
    return Hit({name: fields[place[name]] if name in place else None for name in WIT_COLUMNS}, terms)


class RowReader:
    """The header and rows of one opened file."""

    def __init__(self, uri: str, source: "_Source", stream: Any) -> None:
        csv.field_size_limit(MAX_FIELD)
        self._uri, self._source = uri, source
        self._lines = _Lines(stream)
        first = next(self._lines, None)
        if first is None:
            why = self._lines.broke[1] if self._lines.broke else "empty"
            raise InputError(f"{uri}: {why}; a header is needed")
        text = first.text.removeprefix("\ufeff")
        try:
            self.header = [name.strip() for name in next(csv.reader([text], delimiter="\t"), [])]
        except csv.Error as error:
            raise InputError(f"{uri}: its first line is no header ({error})") from error

    def skip_to(self, offset: int) -> None:
        """Go on at the row that begins at byte `offset` of the decompressed file, if that lies behind the header."""
        self._lines.skip_to(offset)

    def compressed_position(self) -> int:
        """Bytes of the file read so far."""
        return self._source.tell()

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

    def skip_to(self, offset: int) -> None:
        """Leave out the lines before byte `offset`, which begins one."""
        for line in self:
            if line.offset >= offset:
                self._pending.appendleft(line)
                return

    def push_back(self, lines: list[_Line]) -> None:
        self._pending.extendleft(reversed(lines))

    def _fill(self) -> None:
        try:
            chunk = self._stream.read(CHUNK)
        except _BrokenOffError as broken:
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
        try:
            self._pending.append(_Line(self.offset, raw.decode("utf-8"), damaged=False))
        except UnicodeDecodeError:
            self._pending.append(_Line(self.offset, raw.decode("utf-8", "surrogateescape"), damaged=True))
        self.offset += len(raw)


class _BrokenOffError(Exception):
    """The compressed data ends or breaks here; everything before was given out."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


class _Source:
    """The bytes of the file as they lie there. Remembers its own failure: a lost connection is no damaged file."""

    closed = False

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self.failure: BaseException | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            data: bytes = self._file.read(size if size >= 0 else None)
        except Exception as error:
            self.failure = error
            raise
        return data

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._file.readinto(buffer))
        except Exception as error:
            self.failure = error
            raise

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """The file belongs to who opened it."""


class _Gunzip:
    """A gzip file of one or more members. isal's own file object loses a whole buffer where the file breaks."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._member: Any = None

    def read(self, size: int) -> bytes:
        while True:
            if self._member is None or self._member.eof:
                rest = self._member.unused_data if self._member else b""
                while not rest.lstrip(b"\0"):  # members may be padded with zeros
                    if not (rest := self._source.read(BLOCK)):
                        return b""
                rest = rest.lstrip(b"\0")
                if rest[:2] != GZIP[: len(rest)]:
                    raise ValueError("what follows a gzip member is none")
                self._member = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
                data = self._member.decompress(rest, size)
            elif self._member.needs_input:
                if not (more := self._source.read(BLOCK)):
                    raise EOFError
                data = self._member.decompress(more, size)
            else:
                data = self._member.decompress(b"", size)
            if data:
                return bytes(data)


class _Decompressed:
    """A compressed stream, given out to the last byte before a break; `begin` makes the stream from the start.

    A decompressor that fails keeps the bytes of the call in which it failed. They are fetched by a second one
    that begins again and goes byte by byte where the first one broke off.
    """

    def __init__(self, source: _Source, begin: Callable[[_Source], Any]) -> None:
        self._source, self._begin = source, begin
        self._stream = begin(source)
        self._given = 0
        self._broken: _BrokenOffError | None = None

    def read(self, size: int) -> bytes:
        if self._broken:
            raise self._broken
        try:
            data: bytes = self._stream.read(size)
        except _BREAKS as error:
            self._broken = self._verdict(error)
            if not (data := self._rescued(size)):
                raise self._broken from error
        self._given += len(data)
        return data

    def _verdict(self, error: Exception) -> _BrokenOffError:
        if self._source.failure is not None:
            raise self._source.failure
        if isinstance(error, EOFError) or "truncated" in str(error).lower():
            return _BrokenOffError("truncated", "the compressed file ends before its end-of-stream mark")
        return _BrokenOffError("corrupt", f"the compressed data is damaged ({error})")

    def _rescued(self, size: int) -> bytes:
        self._source.seek(0)
        stream = self._begin(self._source)
        saved = bytearray()
        try:
            left = self._given
            while left and (skipped := stream.read(min(left, CHUNK))):
                left -= len(skipped)
            while len(saved) < size and (byte := stream.read(1)):
                saved += byte
        except _BREAKS:
            if self._source.failure is not None:
                raise self._source.failure from None
        return bytes(saved)


def _zstd(source: _Source) -> pa.NativeFile:
    return pa.CompressedInputStream(pa.PythonFile(source, mode="r"), "zstd")


@contextmanager
def _opened(uri: str) -> Iterator[tuple[_Source, bytes]]:
    """The file at its start, and what its first bytes are (GZIP, ZSTD or empty); its name is not believed."""
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as file:
        magic = file.read(4)
        file.seek(0)
        yield _Source(file), GZIP if magic[:2] == GZIP else ZSTD if magic == ZSTD else b""


@contextmanager
def open_rows(uri: str, offset: int = 0) -> Iterator[RowReader]:
    """The rows of a file, read by the csv module, from the row that begins at byte `offset` (decompressed) on."""
    with _opened(uri) as (source, kind):
        stream = _Decompressed(source, _Gunzip if kind == GZIP else _zstd) if kind else source
        reader = RowReader(uri, source, stream)
        reader.skip_to(offset)
        yield reader
