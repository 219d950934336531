"""Byte scan of WIT at about the speed of decompression: bytes are indexed, and only matching rows are parsed.

The rows of a buffer, each checked to have the header's width, come from the extension module if it is installed,
else from NumPy (`row_index`). The titles of the rows in the wanted language are joined, folded and matched in one
call; `csv.reader` parses the rows that match.
"""

import csv
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from actors.titles import SEPARATOR, TitleMatcher
from jobs.corpora.wit import row_index
from jobs.corpora.wit.row_index import CR, LF, LONE_RETURN, QUOTED_TITLE, STRAY_QUOTE, WRONG_WIDTH, Index, NumpyIndex
from jobs.corpora.wit.streams import FAILURES, Pushback

if TYPE_CHECKING:
    from jobs.store.counts import Counts

CHUNK = 1 << 20  # bytes; smaller chunks take more calls, larger ones do not fit the processor's caches
LONGEST_ROW = 4 << 20  # bytes; bounds the memory; the csv module reads longer rows


class UncertainError(Exception):
    """The byte scan and the csv module might read the file differently from `offset` onwards.

    Attributes:
        reason: one clause, for the message.
        offset: start of a row, in bytes of the decompressed file. Hits before it were yielded and their rows counted;
            none after it.
        broken: whether the compressed data is damaged, so that the stream cannot be read further.
    """

    def __init__(self, reason: str, offset: int, *, broken: bool = False) -> None:
        super().__init__(f"{reason} (after byte {offset:,})")
        self.reason, self.offset, self.broken = reason, offset, broken


class FastScan:
    """A pass over a decompressed WIT file.

    A file that is read completely gives the same rows and counts as csv.reader. Where they might differ,
    `UncertainError` is raised before any row of the current buffer is yielded or counted. The caller then lets the csv
    module continue: `give_back` returns the buffer to the stream; `resume` and `hits` continue after the rows that csv
    read. It is raised for

    - a quote inside an unquoted field, or text after a closing quote, anywhere in the file
    - a row without the header's number of fields, including empty lines, in any language
    - a carriage return outside quotes that is not followed by a line feed
    - a quoted field that is not closed at the end of the file, or a row of more than about `longest_row` bytes
    - compressed data that is damaged or truncated
    - bytes that are not UTF-8 in a title of the wanted language or in a row that matches; other rows are counted and
      dropped without being decoded
    - an empty file, or a header without the two columns

    Args:
        stream: has `readinto` and is at the start of the decompressed file; it is not closed.
        chunk: bytes read at a time; a row may be larger.
    """

    def __init__(self, stream: Any, *, chunk: int = CHUNK, longest_row: int = LONGEST_ROW) -> None:
        # csv counts characters, and a row has at most as many as bytes
        csv.field_size_limit(max(csv.field_size_limit(), longest_row + chunk))
        self.offset = 0
        self._stream = Pushback(stream)
        self._chunk, self._longest_row = chunk, longest_row
        self._have = 0  # bytes of the buffer in use; the first begins a row
        self._ended = False
        self._completed = False  # whether the buffer's last line end was added because the file lacks it
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
        """Yield the rows of `language` (None: any) whose title contains a term, each with its terms, in file order.

        A row's fields are in the order of `header`. `counts.rows_in` and `counts.filtered` (`language` and `title`)
        grow once per buffer, before its hits are yielded; `progress(rows)` is called with the number of rows added.

        Raises:
            UncertainError: see the class.
        """
        if missing := [c for c in (language_column, title_column) if c not in self.header]:
            raise UncertainError(f"no column {', '.join(missing)} in the header", 0)
        at_language, at_title = self.header.index(language_column), self.header.index(title_column)
        wanted = None if language is None else language.encode()
        while True:
            index = self._index(self._have, len(self.header), at_language, at_title, wanted)
            if isinstance(index, int):
                raise self._uncertain(self._reason(index))
            if index.rows:
                picked, matches = self._matches(index, at_language, at_title, wanted, matcher)
                counts.rows_in += index.rows
                if in_other_language := index.rows - picked:
                    counts.filtered["language"] += in_other_language
                if without_term := picked - len(matches):
                    counts.filtered["title"] += without_term
                self._drop(index.end)
                if progress:
                    progress(index.rows)
                yield from matches
            if self._ended:
                break
            self._fill()
        if self._have:
            raise self._uncertain("a quoted field is not closed")

    def give_back(self) -> tuple[Pushback, int]:
        """Return the stream, repositioned at the row of `offset`, and how many of its bytes must be reread."""
        size, self._have = self._have - self._completed, 0
        self._completed = False
        self._stream.push(bytes(self._view[:size]))
        return self._stream, size

    def resume(self, offset: int) -> None:
        """Continue with the stream, which is now at the start of the row at byte `offset`."""
        self.offset, self._ended = offset, False

    def _uncertain(self, reason: str) -> UncertainError:
        return UncertainError(reason, self.offset)

    def _reason(self, fault: int) -> str:
        return {
            STRAY_QUOTE: "a quote inside an unquoted field, or text after a closing quote",
            WRONG_WIDTH: f"a row without the header's {len(self.header)} fields",
            LONE_RETURN: "a carriage return outside quotes without a line feed",
        }[fault]

    # Buffer

    def _allocate(self, capacity: int) -> None:
        # A line end before the first row makes its first field begin like all others. One byte more than is ever read
        # leaves space for the line end that the last row may lack.
        self._buffer = bytearray(capacity + 2)
        self._buffer[0] = LF
        self._view = memoryview(self._buffer)[1:]
        around, scan = np.frombuffer(self._buffer, np.uint8), row_index.SCAN
        self._index: Callable[[int, int, int, int, bytes | None], Index | int] = (
            NumpyIndex(around) if scan is None else row_index.CompiledIndex(scan, around)
        )
        self._capacity = capacity

    def _fill(self) -> None:
        """Append the next chunk of the file, or the rest of it, to the buffer."""
        if self._have > self._longest_row:
            raise self._uncertain(f"a row of more than {self._longest_row:,} bytes")
        if self._have + self._chunk > self._capacity:
            rest = bytes(self._view[: self._have])
            self._allocate(2 * (self._have + self._chunk))
            self._view[: self._have] = rest
        until = self._have + self._chunk
        while self._have < until and not self._ended:
            try:
                size = self._stream.readinto(self._view[self._have : until])
            except FAILURES as error:
                reason = f"the compressed data is damaged or truncated: {error}"
                raise UncertainError(reason, self.offset, broken=True) from error
            self._have += size
            self._ended = not size
        if self._ended and self._have and self._view[self._have - 1] != LF:
            self._view[self._have] = LF
            self._have += 1
            self._completed = True

    def _drop(self, size: int) -> None:
        """Drop the first `size` bytes of the buffer."""
        rest = bytes(self._view[size : self._have])
        self._view[: len(rest)] = rest
        self._have = len(rest)
        self.offset += size

    def _read_header(self) -> list[str]:
        """Return the fields of the first physical line, parsed as `RowReader` does."""
        end = 0
        while not end and not self._ended:
            self._fill()
            end = bytes(self._view[: self._have]).find(b"\n") + 1
        if not end:
            raise self._uncertain("the file is empty: a header is required")
        try:
            text = bytes(self._view[:end]).decode("utf-8").removeprefix("\ufeff")
            header = [name.strip() for name in next(csv.reader([text], delimiter="\t"), [])]
        except (UnicodeDecodeError, csv.Error) as error:
            raise self._uncertain(f"its first line is not a valid header: {error}") from error
        self._drop(end)
        return header

    # Rows of the buffer

    def _matches(
        self, index: Index, at_language: int, at_title: int, wanted: bytes | None, matcher: TitleMatcher
    ) -> tuple[int, list[tuple[list[str], list[str]]]]:
        """Return the number of rows in the wanted language, and the matching rows, parsed, with their terms."""
        if not len(index.picks):
            return 0, []
        if index.titles is not None:
            picks: Any = index.picks
            joined = bytes(index.titles[:-1])
        else:
            picks, titles = self._titles(index, at_language, at_title, wanted)
            if not titles:
                return 0, []
            joined = b"\0".join(titles)
        try:
            text = joined.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._uncertain("a title that is not UTF-8") from error
        if text.count(SEPARATOR) == len(picks) - 1:
            terms = matcher.match_joined(text)
        else:  # a title contains the separator itself
            _, titles = self._titles(index, at_language, at_title, wanted)
            terms = matcher.match_all([title.decode("utf-8") for title in titles])
        parsed = [(self._parsed(int(picks[n][0]), int(picks[n][1])), terms[n]) for n in sorted(terms)]
        return len(picks), parsed

    def _titles(
        self, index: Index, at_language: int, at_title: int, wanted: bytes | None
    ) -> tuple[list[tuple[int, int]], list[bytes]]:
        """Return the start and end of each row in the wanted language, and the unquoted titles."""
        spans, titles = [], []
        view = self._view
        for start, end, title, stop in index.picks.tolist():
            if title >= 0:
                titles.append(bytes(view[title:stop]))
            else:
                # In Latin-1 every byte is a character, so that csv can split the row without decoding it.
                fields = self._cut(start, end, "latin-1")
                if title != QUOTED_TITLE and fields[at_language].encode("latin-1") != wanted:
                    continue
                titles.append(fields[at_title].encode("latin-1"))
            spans.append((start, end))
        return spans, titles

    def _cut(self, start: int, end: int, encoding: str) -> list[str]:
        """Return the fields of a row, split by the csv module."""
        stop = end - (end > start and self._view[end - 1] == CR)
        text = bytes(self._view[start:stop]).decode(encoding)
        return next(csv.reader(io.StringIO(text, newline="\n"), delimiter="\t"))

    def _parsed(self, start: int, end: int) -> list[str]:
        try:
            fields = self._cut(start, end, "utf-8")
        except (UnicodeDecodeError, csv.Error) as error:
            raise self._uncertain(f"a matched row that cannot be read: {error}") from error
        if len(fields) != len(self.header):
            raise self._uncertain(f"a matched row of {len(fields)} fields instead of {len(self.header)}")
        return fields
