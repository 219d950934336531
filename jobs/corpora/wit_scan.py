"""WIT read at about the speed of decompression: bytes are indexed with NumPy, only rows that match are parsed.

Line ends and quotes of a buffer are found in one vectorised pass. Quotes are paired, line ends between a pair are
left out, the others end rows; tabs are not located but counted between them, so each row's width is checked whatever
its language. The titles of a buffer's rows of the wanted language are joined, folded and matched in one call; a row
that matches goes through `csv.reader`. Where `wit_kernel` could be compiled it does the first part, by the same rules.
"""

import csv
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from isal import igzip, isal_zlib

from actors.titles import SEPARATOR, TitleMatcher
from jobs.corpora import wit_kernel

if TYPE_CHECKING:
    from jobs.store.writer import Counts

CHUNK = 1 << 20  # bytes; smaller ones cost more calls, larger ones leave the processor's caches
GZIP_INPUT = 128 << 10
LONGEST_ROW = 4 << 20  # bytes; longer rows are left to the csv module, memory stays bounded

TAB, LF, CR, QUOTE = b'\t\n\r"'
# What is left of a line end and of a quote (and of 0x02 and *, nothing else) under the mask is COMMON: one comparison
# finds both.
COMMON_MASK, COMMON = 0xD7, 2
WORD = 8
HEAD = 512  # bytes of a row in which the title is looked for first
MOST_ADDED = 255  # zeros and ones whose sum a byte can hold

BEFORE_OPENING = np.zeros(256, np.bool_)
BEFORE_OPENING[[TAB, LF, QUOTE]] = True
AFTER_CLOSING = np.zeros(256, np.bool_)
AFTER_CLOSING[[TAB, LF, CR, QUOTE]] = True

Index = np.ndarray[Any, np.dtype[np.intp]]

Judged = tuple[int, list[int], list[int], list[bytes]]  # rows; of the wanted language: begins, line ends, titles


class UncertainError(Exception):
    """The byte scan and the csv module might read the file differently from `offset` on.

    Attributes:
        reason: one clause, for the line that says so.
        offset: byte of the decompressed file, the start of a row. All before it is final: its hits were given out and
            its rows counted. Nothing from it on was.
    """

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"{reason} (after byte {offset:,})")
        self.reason, self.offset = reason, offset


def gzip_stream(source: Any) -> Any:
    """A `readinto` over the gzip members of a binary file, for `FastScan`.

    `IGzipFile.readinto` makes a bytes object of each read and copies it; the reader inside it writes to the buffer that
    it is given.
    """
    reader = getattr(isal_zlib, "_GzipReader", None)
    return igzip.IGzipFile(fileobj=source) if reader is None else reader(source, GZIP_INPUT)


class FastScan:
    """One pass over a decompressed WIT file; made once a file, then `hits` once.

    A file that is read to its end gives what csv.reader gives, row by row and count by count. Wherever it might
    differ, `UncertainError` is raised before anything of the buffer in question is given out or counted. The
    caller then has the csv module read the file: from `error.offset` on (open the file anew, skip that many
    decompressed bytes; what was given out and counted stays), or from its start after throwing all away. It is
    raised for

    - a quote inside an unquoted field, or text behind a closing quote, anywhere in the file
    - a row without the header's number of fields, empty lines included, whatever its language
    - a carriage return outside quotes that no line feed follows
    - a quoted field that is not closed at the end of the file, a row of more than about `longest_row` bytes
    - compressed data that is damaged or breaks off
    - bytes that are not UTF-8, anywhere
    - an empty file, or a header without the two columns

    Args:
        stream: has `readinto`; stands at the start of the decompressed file. It is not closed.
        chunk: bytes read at a time; a row may be larger.
        compiled: use the compiled loop of `wit_kernel` where there is one; it says the same, in less time.
    """

    def __init__(
        self, stream: Any, *, chunk: int = CHUNK, longest_row: int = LONGEST_ROW, compiled: bool = True
    ) -> None:
        # csv counts characters, of which a row has no more than bytes
        csv.field_size_limit(max(csv.field_size_limit(), longest_row + chunk))
        self.offset = 0
        self._readinto, self._chunk, self._longest_row = stream.readinto, chunk, longest_row
        self._kernel = wit_kernel.kernel() if compiled else None
        self._have = 0  # bytes of the buffer that are in use; they begin at the start of a row
        self._ended = False
        self._allocate(2 * chunk)
        self.header = self._read_header()

    def hits(
        self,
        *,
        language: str | None,
        matcher: TitleMatcher,
        counts: "Counts",
        progress: Callable[[int], None] | None = None,
        language_column: str = "language",
        title_column: str = "page_title",
    ) -> Iterator[tuple[list[str], list[str]]]:
        """The rows of `language` (None: of every one) whose title holds a term, with these terms, in file order.

        A row's fields are in the order of `header`. `counts.rows_in` and `counts.filtered` (`language` and `title`)
        are raised a buffer at a time, before its hits are given out; `progress(rows)` is called with what was added.

        Raises:
            UncertainError: see the class.
        """
        if missing := [c for c in (language_column, title_column) if c not in self.header]:
            raise UncertainError(f"no column {', '.join(missing)} in the header", 0)
        at_language, at_title = self.header.index(language_column), self.header.index(title_column)
        wanted = None if language is None else language.encode()
        judge = self._judge if self._kernel is None else self._judge_compiled
        while True:
            rows, starts, ends, titles = judge(at_language, at_title, wanted)
            if rows:
                self._check_utf8(self._judged)
                found = self._matches(starts, ends, titles, matcher)
                counts.rows_in += rows
                if other := rows - len(titles):
                    counts.filtered["language"] += other
                if other := len(titles) - len(found):
                    counts.filtered["title"] += other
                self._drop(self._judged)
                if progress:
                    progress(rows)
                yield from found
            if self._ended:
                break
            self._fill()
        if self._have:
            raise self._uncertain("a quoted field is not closed")

    def _check_utf8(self, size: int) -> None:
        """Refuse bytes that are no UTF-8, whatever row they stand in; Arrow checks 1 MB in 0.3 to 0.8 ms."""
        ends = pa.py_buffer(np.array([0, size], np.int64))
        text = pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(self._view[:size]))
        try:
            text.validate(full=True)
        except pa.ArrowInvalid as error:
            raise self._uncertain("bytes that are not UTF-8") from error

    def _uncertain(self, reason: str) -> UncertainError:
        return UncertainError(reason, self.offset)

    # --- the buffer

    def _allocate(self, capacity: int) -> None:
        # A line end stands before the first row: what follows it is the start of a field, there as elsewhere. One
        # byte more than is ever read leaves room for the line end that the last row may lack.
        self._buffer = bytearray(capacity + 2)
        self._buffer[0] = LF
        self._bytes = np.frombuffer(self._buffer, np.uint8)
        self._view = memoryview(self._buffer)[1:]
        self._data = self._bytes[1:]
        words = -(-(capacity + 1) // WORD)
        self._mask_words = np.zeros(words, np.uint64)
        self._mask = self._mask_words.view(np.uint8)
        self._mask_cells = self._mask.view(np.bool_).reshape(words, WORD)
        self._capacity = capacity

    def _fill(self) -> None:
        """Read one more chunk behind what is there, or what is left of the file."""
        if self._have > self._longest_row:
            raise self._uncertain(f"a row of more than {self._longest_row:,} bytes")
        if self._have + self._chunk > self._capacity:
            rest = bytes(self._view[: self._have])
            self._allocate(2 * (self._have + self._chunk))
            self._view[: self._have] = rest
        until = self._have + self._chunk
        while self._have < until and not self._ended:
            try:
                got = self._readinto(self._view[self._have : until])
            except (EOFError, OSError, ValueError, isal_zlib.error) as error:  # type: ignore[misc]
                raise self._uncertain(f"the compressed data is damaged or breaks off: {error}") from error
            self._have += got
            self._ended = not got
        if self._ended and self._have and self._view[self._have - 1] != LF:
            self._view[self._have] = LF
            self._have += 1

    def _drop(self, size: int) -> None:
        """Give up the first `size` bytes of the buffer."""
        rest = bytes(self._view[size : self._have])
        self._view[: len(rest)] = rest
        self._have = len(rest)
        self.offset += size

    def _read_header(self) -> list[str]:
        """The first physical line, as `RowReader` takes it."""
        end = 0
        while not end and not self._ended:
            self._fill()
            end = bytes(self._view[: self._have]).find(b"\n") + 1
        if not end:
            raise self._uncertain("empty, a header is needed")
        try:
            text = bytes(self._view[:end]).decode("utf-8").removeprefix("\ufeff")
            header = [name.strip() for name in next(csv.reader([text], delimiter="\t"), [])]
        except (UnicodeDecodeError, csv.Error) as error:
            raise self._uncertain(f"its first line is no header: {error}") from error
        self._drop(end)
        return header

    # --- what is in it

    def _judge(self, at_language: int, at_title: int, wanted: bytes | None) -> Judged:
        """The buffer's whole rows, all of which are what csv would make of them; sets `_judged`, where they end."""
        ends = self._row_ends()
        if not len(ends):
            return 0, [], [], []
        rows = len(ends)
        starts = np.empty_like(ends)
        starts[0], starts[1:] = 0, ends[:-1] + 1
        if wanted is not None:
            starts, ends = self._of_language(starts, ends, at_language, wanted)
        begin, stop = starts.tolist(), ends.tolist()
        return rows, begin, stop, self._fields(begin, stop, at_title)

    def _judge_compiled(self, at_language: int, at_title: int, wanted: bytes | None) -> Judged:
        """The same."""
        assert self._kernel is not None
        width = len(self.header)
        room = np.empty((self._have // width + 1, 4), np.int64)  # a row has a byte a column at least
        out = np.zeros(3, np.int64)
        fault = self._kernel(
            self._data.ctypes.data, self._have, width, at_language, at_title, wanted or b"",
            -1 if wanted is None else len(wanted), room.ctypes.data, out.ctypes.data,
        )  # fmt: skip
        if fault:
            raise self._uncertain(self._reason(fault))
        rows, picked, self._judged = out.tolist()
        starts, ends, titles = [], [], []
        view = self._view
        for start, end, title, stop in room[:picked].tolist():
            if title >= 0:
                titles.append(bytes(view[title:stop]))
            elif title == wit_kernel.QUOTED_TITLE or self._field(start, end, at_language) == wanted:
                titles.append(self._field(start, end, at_title))
            else:
                continue
            starts.append(start)
            ends.append(end)
        return rows, starts, ends, titles

    def _row_ends(self) -> Index:
        """Where the line end of each whole row in the buffer stands; proven to be where csv ends these rows."""
        data = self._data[: self._have]
        mask = self._mask[: self._have]
        np.bitwise_and(data, COMMON_MASK, out=mask)
        np.equal(mask, COMMON, out=mask.view(np.bool_))
        at = self._marked()
        what = data[at]
        is_quote, is_end = what == QUOTE, what == LF
        if is_quote.any():
            self._check_quotes(at[is_quote])
            # Odd behind an opening quote, even behind a closing one; between both nothing ends a row.
            inside = np.bitwise_xor.accumulate(is_quote.view(np.uint8))
            is_end &= inside == 0
        else:
            inside = np.zeros(len(at), np.uint8)
        places = is_end.nonzero()[0]
        ends: Index = at[places]
        if len(ends):
            self._judged = int(ends[-1]) + 1
            self._check_returns(at[is_quote])
            self._check_widths(at, inside, places)
        return ends

    def _reason(self, fault: int) -> str:
        return {
            wit_kernel.STRAY_QUOTE: "a quote inside an unquoted field, or text behind a closing quote",
            wit_kernel.WRONG_WIDTH: f"a row without the header's {len(self.header)} fields",
            wit_kernel.LONE_RETURN: "a carriage return outside quotes that ends no line",
        }[fault]

    def _marked(self) -> Index:
        """Where the mask is 1; few bytes are, so whole words that are 0 are left out first."""
        words = -(-self._have // WORD)
        self._mask[self._have : words * WORD] = 0
        hit = (self._mask_words[:words] != 0).nonzero()[0]
        within = self._mask_cells[hit].ravel().nonzero()[0]
        return (hit[within >> 3] << 3) + (within & 7)

    def _check_quotes(self, quotes: Index) -> None:
        """Make sure that csv reads quotes in pairs, as here.

        csv opens a quoted field at its first character only and ends it at a quote that no second one follows. Read
        in pairs, each first quote stands behind a separator, or behind the quote it doubles; each second one before a
        separator, or before the quote that doubles it. Where all do, pairing them is what csv does: were there a
        first quote that csv took for something else, all before it would have been read alike, so it would stand
        inside an unquoted field or behind a closing quote, and not where it must.
        """
        opening, closing = quotes[0::2], quotes[1::2]
        if len(closing) and closing[-1] + 1 == self._have:
            closing = closing[:-1]  # what follows is not read yet; its row is not whole and is seen again
        # `_bytes` begins one byte before `_data`
        if not (BEFORE_OPENING[self._bytes[opening]].all() and AFTER_CLOSING[self._data[closing + 1]].all()):
            raise self._uncertain(self._reason(wit_kernel.STRAY_QUOTE))

    def _check_returns(self, quotes: Index) -> None:
        """Make sure that outside quotes a carriage return stands before line ends only: csv ends the row there."""
        if self._buffer.find(b"\r", 1, self._judged + 1) < 0:
            return
        returns = (self._data[: self._judged] == CR).nonzero()[0]
        returns = returns[self._data[returns + 1] != LF]
        if (np.searchsorted(quotes, returns) % 2 == 0).any():
            raise self._uncertain(self._reason(wit_kernel.LONE_RETURN))

    def _check_widths(self, at: Index, inside: np.ndarray[Any, np.dtype[np.uint8]], places: Index) -> None:
        """Make sure that each row has as many tabs outside quotes as the header.

        `at` are the line ends and quotes, `inside` is 1 for those behind which a quoted field goes on, `places` are
        the indexes of those that end a row.
        """
        last = int(places[-1])
        tabs = self._mask[: self._judged]
        np.equal(self._data[: self._judged], TAB, out=tabs.view(np.bool_))
        # From each of `at` to the next. Sums of bytes in bytes are what NumPy adds fast.
        begins = np.empty(last + 1, np.intp)
        begins[0], begins[1:] = 0, at[:last]
        between = np.add.reduceat(tabs, begins, dtype=np.uint8)
        # A byte cannot hold more than 255 of them: compare with sums of few enough, eight next to each other in a word.
        words = -(-self._judged // WORD)
        self._mask[self._judged : words * WORD] = 0
        sums = np.add.reduceat(self._mask_words[:words], np.arange(0, words, MOST_ADDED))
        total = sums.view(np.uint8).sum(dtype=np.intp)
        overflown = total != between.sum(dtype=np.intp)
        between[1:] *= inside[:last] ^ 1
        firsts = np.empty_like(places)
        firsts[0], firsts[1:] = 0, places[:-1] + 1
        width = len(self.header)
        if overflown or (np.add.reduceat(between, firsts, dtype=np.intp) != width - 1).any():
            raise self._uncertain(self._reason(wit_kernel.WRONG_WIDTH))

    def _of_language(self, starts: Index, ends: Index, column: int, value: bytes) -> tuple[Index, Index]:
        """The rows whose field is `value`."""
        if column or any(byte in value for byte in (TAB, LF, CR, QUOTE)):
            fields = self._fields(starts.tolist(), ends.tolist(), column)
            rows = np.array([field == value for field in fields], np.bool_).nonzero()[0]
            return starts[rows], ends[rows]
        # A row may be shorter than the value; its line end is no tab either.
        equal = self._data[np.minimum(starts + len(value), ends)] == TAB
        rows = equal.nonzero()[0]
        for place, byte in enumerate(value):
            rows = rows[self._data[starts[rows] + place] == byte]
        quoted = (self._data[starts] == QUOTE).nonzero()[0].tolist()
        if quoted := [row for row in quoted if self._field(int(starts[row]), int(ends[row]), 0) == value]:
            rows = np.sort(np.append(rows, quoted))
        return starts[rows], ends[rows]

    def _fields(self, starts: list[int], ends: list[int], column: int) -> list[bytes]:
        """`_field` of many rows."""
        buffer = self._buffer
        found = []
        for start, end in zip(starts, ends, strict=True):
            # `_buffer` begins one byte before `_data`
            head = bytes(buffer[start + 1 : min(start + 1 + HEAD, end + 1)])
            parts = head.split(b"\t", column + 1)
            # What is cut off at the end, by the row's end or the head's, stands in the last part.
            plain = len(parts) == column + 2 and b'"' not in head[: len(head) - len(parts[-1])]
            found.append(parts[column] if plain else self._field(start, end, column))
        return found

    def _field(self, start: int, end: int, column: int) -> bytes:
        """A column of the row between `start` and the place of its line end, without its quotes."""
        buffer = self._buffer
        find = buffer.find
        begin = start + 1  # `_buffer` begins one byte before `_data`
        for _ in range(column):
            begin = find(b"\t", begin) + 1
        stop = find(b"\t", begin, end + 1)
        if stop < 0:
            stop = end + 1 - (buffer[end] == CR)
        if find(b'"', start + 1, stop) < 0:
            return bytes(buffer[begin:stop])
        # Rare. As Latin-1 every byte is a character, so csv cuts the row without decoding it.
        return self._cut(start, end, "latin-1")[column].encode("latin-1")

    def _cut(self, start: int, end: int, encoding: str) -> list[str]:
        """The fields of a row, by the csv module."""
        text = bytes(self._view[start:end]).decode(encoding)
        return next(csv.reader(io.StringIO(text, newline="\n"), delimiter="\t"))

    def _matches(
        self, starts: list[int], ends: list[int], titles: list[bytes], matcher: TitleMatcher
    ) -> list[tuple[list[str], list[str]]]:
        """The parsed rows among those given whose title holds a term, with the terms."""
        if not titles:
            return []
        try:
            text = b"\0".join(titles).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._uncertain(f"a title that is not UTF-8: {error}") from error
        if text.count(SEPARATOR) == len(titles) - 1:
            found = matcher.match_joined(text)
        else:
            one_by_one = enumerate(title.decode("utf-8") for title in titles)
            found = {number: terms for number, title in one_by_one if (terms := matcher.match(title))}
        return [(self._parsed(starts[number], ends[number]), found[number]) for number in sorted(found)]

    def _parsed(self, start: int, end: int) -> list[str]:
        try:
            fields = self._cut(start, end, "utf-8")
        except (UnicodeDecodeError, csv.Error) as error:
            raise self._uncertain(f"a matched row that cannot be read: {error}") from error
        if len(fields) != len(self.header):
            raise self._uncertain(f"a matched row of {len(fields)} fields instead of {len(self.header)}")
        return fields
