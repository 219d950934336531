"""WIT read at about the speed of decompression: bytes are indexed, only rows that match are parsed.

A buffer's rows, each of them checked to have the header's width, come from `wit_kernel` where it could be compiled and
from `wit_numpy` elsewhere. The titles of its rows of the wanted language are joined, folded and matched in one call; a
row that matches goes through `csv.reader`.
"""

import csv
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from actors.titles import SEPARATOR, TitleMatcher
from jobs.corpora.wit import index_c
from jobs.corpora.wit.index_numpy import CR, LF, LONE_RETURN, QUOTED_TITLE, STRAY_QUOTE, WRONG_WIDTH, Index, NumpyIndex
from jobs.corpora.wit.streams import FAILURES, Pushback

if TYPE_CHECKING:
    from jobs.store.counts import Counts

CHUNK = 1 << 20  # bytes; smaller ones cost more calls, larger ones leave the processor's caches
LONGEST_ROW = 4 << 20  # bytes; longer rows are left to the csv module, memory stays bounded


class UncertainError(Exception):
    """The byte scan and the csv module might read the file differently from `offset` on.

    Attributes:
        reason: one clause, for the line that says so.
        offset: byte of the decompressed file, the start of a row. All before it is final: its hits were given out and
            its rows counted. Nothing from it on was.
        broken: whether it is the compressed data that is damaged, and nothing more can be read from the stream.
    """

    def __init__(self, reason: str, offset: int, *, broken: bool = False) -> None:
        super().__init__(f"{reason} (after byte {offset:,})")
        self.reason, self.offset, self.broken = reason, offset, broken


class FastScan:
    """One pass over a decompressed WIT file.

    A file that is read to its end gives what csv.reader gives, row by row and count by count. Wherever it might
    differ, `UncertainError` is raised before anything of the buffer in question is given out or counted. The caller
    then has the csv module read on from there: `give_back` returns the buffer to the stream. `resume` and `hits` go on
    behind what csv read. It is raised for

    - a quote inside an unquoted field, or text behind a closing quote, anywhere in the file
    - a row without the header's number of fields, empty lines included, whatever its language
    - a carriage return outside quotes that no line feed follows
    - a quoted field that is not closed at the end of the file, a row of more than about `longest_row` bytes
    - compressed data that is damaged or breaks off
    - bytes that are not UTF-8 in a title of the wanted language or in a row that matches; other rows are counted and
      dropped without being decoded
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
        self._stream = Pushback(stream)
        self._chunk, self._longest_row = chunk, longest_row
        self._kernel = index_c.kernel() if compiled else None
        self._have = 0  # bytes of the buffer that are in use; they begin at the start of a row
        self._ended = False
        self._completed = False  # whether the last line end of the buffer is not the file's own
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
        while True:
            index = self._index(self._have, len(self.header), at_language, at_title, wanted)
            if isinstance(index, int):
                raise self._uncertain(self._reason(index))
            if index.rows:
                picked, found = self._matches(index, at_language, at_title, wanted, matcher)
                counts.rows_in += index.rows
                if other := index.rows - picked:
                    counts.filtered["language"] += other
                if other := picked - len(found):
                    counts.filtered["title"] += other
                self._drop(index.end)
                if progress:
                    progress(index.rows)
                yield from found
            if self._ended:
                break
            self._fill()
        if self._have:
            raise self._uncertain("a quoted field is not closed")

    def give_back(self) -> tuple[Pushback, int]:
        """The stream, standing at the row of `offset` again, and how many bytes of it are in doubt."""
        held, self._have = self._have - self._completed, 0
        self._completed = False
        self._stream.push(bytes(self._view[:held]))
        return self._stream, held

    def resume(self, offset: int) -> None:
        """Go on at the stream, which now stands at the row that begins at byte `offset`."""
        self.offset, self._ended = offset, False

    def _uncertain(self, reason: str) -> UncertainError:
        return UncertainError(reason, self.offset)

    def _reason(self, fault: int) -> str:
        return {
            STRAY_QUOTE: "a quote inside an unquoted field, or text behind a closing quote",
            WRONG_WIDTH: f"a row without the header's {len(self.header)} fields",
            LONE_RETURN: "a carriage return outside quotes that ends no line",
        }[fault]

    # --- the buffer

    def _allocate(self, capacity: int) -> None:
        # A line end stands before the first row: what follows it is the start of a field, there as elsewhere. One
        # byte more than is ever read leaves room for the line end that the last row may lack.
        self._buffer = bytearray(capacity + 2)
        self._buffer[0] = LF
        self._view = memoryview(self._buffer)[1:]
        around = np.frombuffer(self._buffer, np.uint8)
        self._index: Callable[[int, int, int, int, bytes | None], Index | int] = (
            NumpyIndex(around) if self._kernel is None else index_c.CompiledIndex(self._kernel, around)
        )
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
                got = self._stream.readinto(self._view[self._have : until])
            except FAILURES as error:
                reason = f"the compressed data is damaged or breaks off: {error}"
                raise UncertainError(reason, self.offset, broken=True) from error
            self._have += got
            self._ended = not got
        if self._ended and self._have and self._view[self._have - 1] != LF:
            self._view[self._have] = LF
            self._have += 1
            self._completed = True

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

    def _matches(
        self, index: Index, at_language: int, at_title: int, wanted: bytes | None, matcher: TitleMatcher
    ) -> tuple[int, list[tuple[list[str], list[str]]]]:
        """How many rows are of the wanted language, and those whose title holds a term, parsed, with the terms."""
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
            found = matcher.match_joined(text)
        else:  # a title holds the separator itself
            _, titles = self._titles(index, at_language, at_title, wanted)
            found = matcher.match_all([title.decode("utf-8") for title in titles])
        parsed = [(self._parsed(int(picks[n][0]), int(picks[n][1])), found[n]) for n in sorted(found)]
        return len(picks), parsed

    def _titles(
        self, index: Index, at_language: int, at_title: int, wanted: bytes | None
    ) -> tuple[list[tuple[int, int]], list[bytes]]:
        """Where each row of the wanted language begins and ends, and its title; what is quoted is unquoted here."""
        places, titles = [], []
        view = self._view
        for start, end, title, stop in index.picks.tolist():
            if title >= 0:
                titles.append(bytes(view[title:stop]))
            else:
                # As Latin-1 every byte is a character, so csv cuts the row without decoding it.
                fields = self._cut(start, end, "latin-1")
                if title != QUOTED_TITLE and fields[at_language].encode("latin-1") != wanted:
                    continue
                titles.append(fields[at_title].encode("latin-1"))
            places.append((start, end))
        return places, titles

    def _cut(self, start: int, end: int, encoding: str) -> list[str]:
        """The fields of a row, by the csv module."""
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
