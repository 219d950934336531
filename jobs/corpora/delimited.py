"""Reader of delimited text (CSV, TSV) as written by spreadsheets and other programs; reads all files from people.

`read_dialect` detects how a file is written: its encoding (UTF-8 with or without a byte-order mark, UTF-16, UTF-32, or
the configured one), its delimiter (comma, semicolon, tab, bar, or the one in Excel's line `sep=;`) and its column
names. Then `rows` reads row by row and passes faulty rows to a callback; `records` raises at the first faulty row, as
does `text_batches`, which reads large files with Arrow, several times faster: where Arrow fails, `rows` continues after
the last row that it read. All of them accept the same rows:

- a row is not the header again;
- it has as many fields as the header, without NUL characters or bytes outside the file's encoding;
- fields in quotes may contain delimiters and line breaks;
- lines without text are skipped, even if they have delimiters, as spreadsheets write them.
"""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.writer import RAW_KEPT, Reject, Rejects

REPEATED_HEADER = "repeated_header", "the header again, as in files that were joined; remove the line"
DELIMITERS = ",;\t|"
_WORKBOOKS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
HEAD_BYTES = 1 << 18  # read to detect encoding and delimiter
MAX_FIELD = 1 << 24  # characters; a longer field must be a quote that is never closed
_BYTE_ORDER_MARKS = (  # longer ones first, since UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_OTHER_KINDS = (
    (b"PAR1", "a Parquet file; rename it to end in .parquet"),
    (b"PK\x03\x04", "an Excel workbook or a zip archive; save the sheet as CSV UTF-8, or unpack the archive"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook; save the sheet as CSV UTF-8"),
    (b"\x1f\x8b", "compressed with gzip; unpack it, or rename it to end in .gz"),
    (b"%PDF", "a PDF; save the table as CSV UTF-8"),
)
_EXCEL = re.compile(r'"?sep=(.)"?(\r\n|\r|\n)', re.IGNORECASE)
_LINE_END = re.compile(r"\r\n|\r|\n")
_NUL, _OUTSIDE_ENCODING = re.compile("\0"), re.compile("[\udc80-\udcff]")


@dataclass(frozen=True)
class Dialect:
    """The format of a file: its encoding, delimiter and column names, and the lines before the header."""

    encoding: str
    delimiter: str
    header: tuple[str, ...]
    lines_before: int = 0


def workbook_advice(uri: str) -> str:
    """Return how to save the workbook of a spreadsheet as text; empty for a file of another name."""
    return "save the sheet as CSV UTF-8" if uri.lower().endswith(_WORKBOOKS) else ""


def marked_encoding(head: bytes) -> str | None:
    """Return the encoding of the byte-order mark at the beginning of `head`; None without one."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if head.startswith(mark)), None)


def read_dialect(
    uri: str, *, encoding: str | None = None, delimiter: str | None = None, encoding_key: str = "encoding"
) -> Dialect:
    """Return how `uri` is written, judging by its first 256 KiB.

    A byte-order mark decides the encoding; without one, it is `encoding`, else UTF-8. If `encoding` is set, rows with
    invalid bytes are faulty; otherwise the file is refused. The fields of a `.tsv` file are divided by tabs if its
    header has any.

    Args:
        encoding_key: the configuration key that sets `encoding`, for messages.

    Raises:
        InputError: the file is of another kind, lacks a header, or has an unknown or different encoding.
    """
    csv.field_size_limit(MAX_FIELD)
    with locations.named_errors(uri), locations.opened(uri) as stream:
        head: bytes = stream.read(HEAD_BYTES)
    if kind := next((kind for magic, kind in _OTHER_KINDS if head.startswith(magic)), None):
        raise InputError(f"not delimited text but {kind}; convert it to CSV or TSV", place=uri)
    encoding, text = _decode(uri, head, encoding, encoding_key)
    if excel := _EXCEL.match(text):
        text, delimiter = text[excel.end() :], delimiter or excel.group(1)
    first = re.match(r"(?:[^\S\r\n]*(?:\r\n|\r|\n))*", text)
    blank_lines = len(_LINE_END.findall(first.group())) if first else 0  # splitlines() would count a form feed
    text = text[first.end() :] if first else text
    if not text.strip():
        raise InputError("empty; the first line must name the columns", place=uri)
    if delimiter is None:
        delimiter = _sniff(text, tabs_first=uri.lower().endswith((".tsv", ".tsv.gz")))
    elif len(delimiter) != 1:
        raise InputError("one character is needed, as in delimiter=;", key="delimiter", value=delimiter)
    header = next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
    if any("\0" in name for name in header):
        raise InputError(
            f"line {1 + bool(excel) + blank_lines} contains NUL characters, as UTF-16 without a byte-order mark "
            f"does; {_advice(encoding_key, 'utf-16-le')}",
            place=uri,
        )
    return Dialect(encoding, delimiter, tuple(name.strip() for name in header), bool(excel) + blank_lines)


def delimiter_of(text: str) -> str:
    """Return the delimiter of the text of a file: the one in Excel's line `sep=;`, or the one that fits the rows."""
    text = text.removeprefix("\ufeff")[:HEAD_BYTES]
    excel = _EXCEL.match(text)
    return excel[1] if excel else _sniff(text, tabs_first=False)


def _decode(uri: str, head: bytes, configured: str | None, key: str) -> tuple[str, str]:
    """Return the encoding and the text of `head`."""
    encoding = marked_encoding(head) or configured or "utf-8"
    try:
        decoder = codecs.getincrementaldecoder(encoding)("replace" if configured else "strict")
        text = decoder.decode(head, final=len(head) < HEAD_BYTES)
    except LookupError as error:
        why = "unknown encoding"
        raise InputError(why, key=key, value=configured, remedy="use for instance utf-8, cp1252 or utf-16") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"byte {error.start} is not {encoding.removesuffix('-sig').upper()}; {_advice(key, 'cp1252')}", place=uri
        ) from error
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding, text


def _advice(key: str, example: str) -> str:
    return f"save it as CSV UTF-8, or name its encoding, for instance {key}={example}"


def _sniff(text: str, *, tabs_first: bool) -> str:
    """Return the delimiter with which most of the first rows have the header's width; in a tie, the widest."""
    if tabs_first and "\t" in _LINE_END.split(text, 1)[0]:
        return "\t"

    def fit(delimiter: str) -> tuple[float, int]:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
        whole = rows[:-1] or rows  # the last row may be cut off
        width = len(rows[0])
        return (sum(len(row) == width for row in whole) / len(whole) if width > 1 else 0.0), width

    return max("\t,;|" if tabs_first else DELIMITERS, key=fit)


def require_columns(uri: str, header: Sequence[str], names: Iterable[str], *, hint: str = "") -> None:
    """Raise InputError unless `header` has each of `names` exactly once; `hint` says how to choose other columns."""
    required = list(dict.fromkeys(names))
    if missing := [name for name in required if name not in header]:
        raise InputError(f"no column {', '.join(missing)}; there are {', '.join(header) or 'none'}{hint}", place=uri)
    if duplicates := [name for name in required if header.count(name) > 1]:
        raise InputError(f"duplicate column {', '.join(duplicates)} in the header; rename one of the two", place=uri)


def column_in_any_case(uri: str, header: Sequence[str], name: str, *, key: str) -> str | None:
    """Return the column of `header` whose name differs from `name` in case at most; None without one.

    Args:
        key: the setting that chooses a column, for the message.

    Raises:
        InputError: two columns differ from each other only in case.
    """
    columns = list(dict.fromkeys(column for column in header if column.casefold() == name.casefold()))
    if len(columns) > 1:
        raise InputError(
            f"columns {' and '.join(columns)} differ only in case, and only one can be read; rename the others, "
            f"or choose one with {key}",
            place=uri,
        )
    return columns[0] if columns else None


def records(uri: str, dialect: Dialect, columns: Iterable[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line (the header's is 1) of each row after the header, and the untrimmed text of each of `columns`.

    Raises:
        InputError: a column is missing or duplicate, or a row cannot be read.
    """
    names = list(dict.fromkeys(columns))
    require_columns(uri, dialect.header, names)
    indices = {name: dialect.header.index(name) for name in names}
    for line, row in rows(uri, dialect, reject=refuse):
        yield line, {name: row[index] for name, index in indices.items()}


def refuse(reject: Reject) -> None:
    """Raise InputError with the file, line and reason of `reject`; for readers that accept no faulty rows."""
    raise InputError(f"line {reject.position}: {reject.message}", place=reject.file)


def rows(
    uri: str, dialect: Dialect, *, reject: Rejects, private: bool = False, skip: int = 0
) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the line in which each row after the header begins (the file's first is 1), and its untrimmed fields.

    A row that cannot be read is passed to `reject`, without its text if `private`. The first `skip` rows are skipped;
    they are counted as `csv.reader` does, without empty lines but including lines of only delimiters.

    Raises:
        InputError: a field has more than `MAX_FIELD` characters, or UTF-16 or UTF-32 text ends within a character.
    """
    csv.field_size_limit(MAX_FIELD)
    with locations.named_errors(uri), locations.opened(uri) as stream:
        text = io.TextIOWrapper(stream, encoding=dialect.encoding, errors="surrogateescape", newline="")
        for _ in range(dialect.lines_before):
            next(text)
        lines = _CsvLines(text)
        reader = csv.reader(lines, delimiter=dialect.delimiter)
        with _csv_errors(uri, reader, dialect.lines_before):
            next(reader)
            next_line = dialect.lines_before + reader.line_num + 1
            for row in reader:
                line, next_line = next_line, dialect.lines_before + reader.line_num + 1
                if not row:
                    continue
                if skip:
                    skip -= 1
                    continue
                joined = "".join(row)
                if not joined or joined.isspace():
                    continue
                fault = _fault(row, joined, dialect, lines=next_line - line, unclosed=lines.ended)
                fault = fault or (REPEATED_HEADER if is_header(row, dialect) else None)
                if fault is None:
                    yield line, row
                    continue
                raw = "" if private else dialect.delimiter.join(row)[:RAW_KEPT]
                reject(Reject(uri, line, *fault, raw.encode("utf-8", "replace").decode()))


def is_header(row: Sequence[str | None], dialect: Dialect) -> bool:
    """Return whether a row is the header of several columns again, as in files that were joined."""
    return len(row) > 1 and tuple((cell or "").strip() for cell in row) == dialect.header


class _CsvLines:
    """The lines of a text; `ended` if a reader asked for a line after the last, which it does only inside quotes."""

    def __init__(self, text: io.TextIOWrapper) -> None:
        self._text, self.ended = text, False

    def __iter__(self) -> Iterator[str]:
        yield from self._text
        self.ended = True


def _fault(row: Sequence[str], joined: str, dialect: Dialect, *, lines: int, unclosed: bool) -> tuple[str, str] | None:
    """Return why a row cannot be read: a short reason for counts, and a sentence; None if it can."""
    if unclosed:
        return "unclosed_quote", f"column {_column(dialect, len(row) - 1)}: a quote begins that is never closed"
    if len(row) != len(dialect.header):
        over = f" over {lines} lines" if lines > 1 else ""
        return "wrong_width", (
            f"{len(row)} fields{over} where the header has {len(dialect.header)}; "
            f"put a field that contains {dialect.delimiter!r} in quotes"
        )
    if not joined.isascii() and (index := _first_match(row, _OUTSIDE_ENCODING)) is not None:
        message = (
            f"column {_column(dialect, index)}: bytes that are not {dialect.encoding.removesuffix('-sig').upper()}"
        )
        return "bad_encoding", message
    if "\0" in joined:
        return (
            "nul_character",
            f"column {_column(dialect, _first_match(row, _NUL) or 0)}: a NUL character; is this text?",
        )
    return None


def _first_match(row: Sequence[str], pattern: re.Pattern[str]) -> int | None:
    return next((index for index, cell in enumerate(row) if pattern.search(cell)), None)


def _column(dialect: Dialect, index: int) -> str:
    return dialect.header[index] if index < len(dialect.header) else str(index + 1)


@contextmanager
def _csv_errors(uri: str, reader: object, lines_before: int) -> Iterator[None]:
    try:
        yield
    except csv.Error as error:
        line = lines_before + getattr(reader, "line_num", 0)
        raise InputError(f"line {line}: not delimited text ({error})", place=uri) from error
    except UnicodeDecodeError as error:
        raise InputError(f"ends within a character, or is not {error.encoding} ({error.reason})", place=uri) from error


BLOCK_BYTES = 1 << 24  # bytes of text; Arrow refuses a row that does not fit in a block
TABLE_ROWS = 20_000  # rows per table when Python reads


def text_batches(uri: str, dialect: Dialect, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the rows of `uri` as tables of strings: `columns` in this order, or all columns. Empty fields are null.

    Fields are not trimmed. If `columns` is None, a duplicate name in the header is a duplicate name in the tables.

    Raises:
        InputError: a column is missing or duplicate, or a row cannot be read; the message has its line.
    """
    if columns is not None:
        require_columns(uri, dialect.header, columns)
    header, names = dialect.header, dialect.header if columns is None else list(dict.fromkeys(columns))
    indices = list(range(len(header))) if columns is None else [header.index(name) for name in names]
    reached, last_field = 0, ""
    try:
        with locations.named_errors(uri), locations.opened(uri) as stream, _reader(stream, dialect) as batches:
            for batch in batches:
                if _repeats_header(batch, dialect):
                    raise _HeaderError
                reached += batch.num_rows
                last_field = (batch.column(len(header) - 1)[-1].as_py() or "") if batch.num_rows else last_field
                rows_of_text = _with_text(pa.Table.from_batches([batch]))
                yield pa.table([rows_of_text.column(index) for index in indices], names=names)
    except (pa.ArrowInvalid, UnicodeDecodeError, _NulError, _HeaderError):
        rest = rows(uri, dialect, reject=refuse, skip=reached)
        while chunk := list(islice(rest, TABLE_ROWS)):
            fields = list(zip(*(row for _, row in chunk), strict=True))
            texts = [pa.array((text or None for text in fields[index]), pa.string()) for index in indices]
            yield pa.table(texts, names=names)
    else:
        if last_field.endswith("\n"):  # perhaps an unclosed quote that contains the line break of `_utf8`
            for _ in rows(uri, dialect, reject=refuse, skip=reached - 1):
                pass


def _reader(stream: pa.NativeFile, dialect: Dialect) -> pa_csv.CSVStreamingReader:
    """Return a reader of columns that are named by number and contain text, so that 007 and TRUE are not converted."""
    numbers = [str(index) for index in range(len(dialect.header))]
    return pa_csv.open_csv(
        pa.TransformInputStream(stream, _utf8(dialect)),
        read_options=pa_csv.ReadOptions(
            block_size=BLOCK_BYTES,
            column_names=numbers,
            skip_rows=dialect.lines_before,
            skip_rows_after_names=1,  # the header
        ),
        parse_options=pa_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(numbers, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )


def _utf8(dialect: Dialect) -> Callable[[pa.Buffer], pa.Buffer | bytes]:
    """Return a function that converts blocks to UTF-8, ends the last with a line break, and raises on a NUL."""
    utf8 = dialect.encoding == "utf-8-sig"
    decoder = None if utf8 else codecs.getincrementaldecoder(dialect.encoding)("strict")
    ended = False

    def block_as_utf8(block: pa.Buffer) -> pa.Buffer | bytes:
        nonlocal ended
        end = b"" if len(block) or ended else b"\n"
        ended = not len(block)
        if decoder is not None:
            text = decoder.decode(block, final=ended)
            if "\0" in text:
                raise _NulError
            return text.encode() + end
        if ended:
            return end
        if np.frombuffer(block, np.uint8).min() == 0:
            raise _NulError
        return block

    return block_as_utf8


class _NulError(ValueError):
    """Text with a NUL character, which Arrow would accept."""


class _HeaderError(ValueError):
    """The header again, which Arrow reads as a row."""


def _repeats_header(batch: pa.RecordBatch, dialect: Dialect) -> bool:
    may = pc.equal(pc.utf8_trim_whitespace(batch.column(0)), dialect.header[0])
    if len(dialect.header) < 2 or not pc.any(may).as_py():
        return False
    return any(is_header(list(row.values()), dialect) for row in batch.filter(may).to_pylist())


def _with_text(rows: pa.Table) -> pa.Table:
    """Return `rows` without rows that have no text in any column."""
    blank: Any = None
    for column in rows.columns:
        is_blank = pc.fill_null(pc.utf8_is_space(column), True)
        blank = is_blank if blank is None else pc.and_(blank, is_blank)
        if not pc.any(blank).as_py():
            return rows
    return rows if blank is None else rows.filter(pc.invert(blank))
