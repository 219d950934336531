"""Delimited text as people's programs write it: encodings, byte-order marks, delimiters, quoted newlines, `sep=;`."""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from jobs.annotation.model import RAW_KEPT, Rejects
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.writer import Reject

DELIMITERS = ",;\t|"
SNIFFED = 1 << 18  # bytes looked at to tell encoding and delimiter
MAX_FIELD = 1 << 24  # characters; longer means a quote that is never closed
_MARKS = (  # the longer ones first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True)
class Dialect:
    """How a file is to be read: encoding, delimiter, the names in its header, and lines before it (Excel's `sep=;`)."""

    encoding: str
    delimiter: str
    header: tuple[str, ...]
    before: int = 0


def marked(head: bytes) -> str:
    """The encoding that a byte-order mark at the beginning tells, else UTF-8."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")


def look_at(uri: str, *, encoding: str | None = None, delimiter: str | None = None) -> Dialect:
    """Tell how `uri` is written from its beginning; what is given is not sniffed.

    Where the encoding is given, bytes that are not of it make their rows rejects; where not, the file is refused.

    Raises:
        InputError: empty, an unknown encoding, or none given and neither a byte-order mark nor UTF-8.
    """
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_stream(path) as stream:
        head: bytes = stream.read(SNIFFED)
    told = encoding or marked(head)
    try:
        errors = "replace" if encoding else "strict"
        text = codecs.getincrementaldecoder(told)(errors).decode(head, final=len(head) < SNIFFED)
    except LookupError as error:
        raise InputError(f"encoding={encoding}: no such encoding") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{uri}: byte {error.start} is not {told.upper()}; say what it is, for instance encoding=cp1252"
        ) from error
    if codecs.lookup(told).name == "utf-8":
        told, text = "utf-8-sig", text.removeprefix("\ufeff")
    if not text.strip():
        raise InputError(f"{uri}: empty, a header is needed")
    told_there = re.match(r"sep=(.)\r?\n", text)
    if told_there:
        text, delimiter = text[told_there.end() :], delimiter or told_there.group(1)
    if delimiter is None:
        delimiter = _delimiter(text)
    elif len(delimiter) != 1:
        raise InputError(f"delimiter={delimiter!r}: one character is needed, as in delimiter=;")
    header = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    return Dialect(told, delimiter, tuple(name.strip() for name in header), before=int(told_there is not None))


def _delimiter(text: str) -> str:
    """The delimiter that cuts most of the first rows into as many fields as the first, and into the most."""

    def fit(delimiter: str) -> tuple[float, int]:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
        whole = rows[:-1] or rows  # the last may be cut off
        width = len(rows[0])
        return (sum(len(row) == width for row in whole) / len(whole) if width > 1 else 0.0), width

    return max(DELIMITERS, key=fit)


def rows(uri: str, dialect: Dialect, *, reject: Rejects, private: bool = False) -> Iterator[tuple[int, Sequence[str]]]:
    """The rows after the header with the line they begin in (the header is line 1); blank lines are no rows.

    A row of another width, or with bytes that are not of the encoding, is a reject; `private` keeps its text out.

    Raises:
        InputError: a field of more than `MAX_FIELD` characters (a quote that is never closed), or a UTF-16 or UTF-32
            file that breaks off.
    """
    width = len(dialect.header)
    csv.field_size_limit(MAX_FIELD)
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_stream(path) as stream:
        text = io.TextIOWrapper(stream, encoding=dialect.encoding, errors="surrogateescape", newline="")
        reader = csv.reader(text, delimiter=dialect.delimiter)
        with _csv_errors(uri, reader):
            for _ in range(dialect.before + 1):
                next(reader)
            line = reader.line_num + 1
            for row in reader:
                begun, line = line, reader.line_num + 1
                if not row:
                    continue
                fault = _fault(row, width=width, lines=line - begun)
                if fault is None:
                    yield begun, row
                    continue
                kept = "" if private else dialect.delimiter.join(row)[:RAW_KEPT]
                reject(Reject(uri, begun, *fault, kept.encode("utf-8", "replace").decode()))


def _fault(row: Sequence[str], *, width: int, lines: int) -> tuple[str, str] | None:
    if len(row) != width:
        over = f" over {lines} lines" if lines > 1 else ""
        return "wrong_width", f"{len(row)} fields{over} where the header has {width}"
    if not "".join(row).isascii() and any("\udc80" <= c <= "\udcff" for cell in row for c in cell):
        return "bad_encoding", "bytes that are not of the file's encoding"
    return None


@contextmanager
def _csv_errors(uri: str, reader: object) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        raise InputError(f"{uri}: line {getattr(reader, 'line_num', 0)} cannot be read as CSV ({error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{uri}: breaks off or is not {error.encoding} ({error.reason})") from error
