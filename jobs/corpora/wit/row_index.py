"""The index of a buffer of WIT, made with NumPy on any machine, or by an extension module that follows the same rules.

With NumPy, one vectorised pass finds the bytes that matter in CSV (tabs, line ends, quotes), about one in a hundred;
all later steps work only on their positions. Quotes are paired, and separators within a pair are ignored. Of the
remaining separators, each row must have as many as the header has columns, the last of them a line end.

The module `_remine_byte_index` (`byte_index.c`), if the installation could build it, does all this in one pass. Its
name is outside `jobs` because a job submitted with `--working-dir` imports `jobs` from the uploaded folder, but the
module from the workers' environment.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

TAB, LF, CR, QUOTE = b'\t\n\r"'
WORD = 8
SLICE = 1 << 18  # bytes compared together; they and their masks fit the processor's cache
STRAY_QUOTE, WRONG_WIDTH, LONE_RETURN = -1, -2, -3  # faults: csv might read the buffer differently
QUOTED_TITLE, QUOTED_LANGUAGE = -2, -1  # values for the start of a pick's title

BEFORE_OPENING = np.zeros(256, np.bool_)
BEFORE_OPENING[[TAB, LF, QUOTE]] = True
AFTER_CLOSING = np.zeros(256, np.bool_)
AFTER_CLOSING[[TAB, LF, CR, QUOTE]] = True
MEANINGLESS = np.ones(256, np.bool_)  # other control characters up to 13, which the same comparison finds
MEANINGLESS[[TAB, LF, CR, QUOTE]] = False

Positions = np.ndarray[Any, np.dtype[np.intp]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Picks = np.ndarray[Any, np.dtype[np.int64]]


class Index(NamedTuple):
    """The rows of a buffer.

    `picks` int64 [n, 4] are the rows in the wanted language: start of the row, its line end, start and stop of its
    title. The title's start is QUOTED_TITLE if the title must be unquoted first, and QUOTED_LANGUAGE if the language
    must be unquoted first, so that it is not known yet whether it is the wanted one.
    """

    rows: int
    end: int  # byte after the last whole row
    picks: Picks
    titles: memoryview | None = None  # titles of the picks, each followed by a NUL; None if one of them is quoted


class NumpyIndex:
    """Indexer of one buffer after another, which keeps its working memory.

    Args:
        around: uint8, the buffer with a line feed before it and one spare byte after it.
    """

    def __init__(self, around: Bytes) -> None:
        self._around, self._data = around, around[1:]
        words = -(-len(around) // WORD)
        self._mask_words = np.zeros(words, np.uint64)
        self._mask = self._mask_words.view(np.uint8)
        self._flags = np.empty(SLICE, np.bool_)

    def __call__(self, have: int, width: int, at_language: int, at_title: int, wanted: bytes | None) -> Index | int:
        """Return the index of the first `have` bytes, which begin with a row, or the fault in them."""
        at = self._special(have)
        special = self._data[at]
        is_quote = special == QUOTE
        if is_quote.any():
            if not self._quotes_pair(at[is_quote], have):
                return STRAY_QUOTE
            # Odd after an opening quote, even after a closing quote; nothing separates fields in between.
            outside = np.bitwise_xor.accumulate(is_quote.view(np.uint8)) == 0
            outside &= ~is_quote
            at, special = at[outside], special[outside]
        returns = special == CR
        if returns.any():
            # Outside quotes, csv ends a row at a carriage return; the result is the same only before a line feed.
            positions = at[returns]
            positions = positions[positions + 1 < have]
            if (self._data[positions + 1] != LF).any():
                return LONE_RETURN
            at, special = at[~returns], special[~returns]
        ends = (special == LF).nonzero()[0]
        rows = len(ends)
        if not rows:
            return Index(0, 0, np.empty((0, 4), np.int64))
        if ends[-1] != rows * width - 1 or (ends != np.arange(width - 1, rows * width, width)).any():
            return WRONG_WIDTH
        separators = at[: rows * width].reshape(rows, width)
        starts = np.empty(rows, np.intp)
        starts[0], starts[1:] = 0, separators[:-1, -1] + 1
        return Index(rows, int(separators[-1, -1]) + 1, self._picks(starts, separators, at_language, at_title, wanted))

    def _special(self, have: int) -> Positions:
        """Return the positions of tabs, line ends, carriage returns and quotes, skipping words without any first."""
        for begin in range(0, have, SLICE):
            data = self._data[begin : min(begin + SLICE, have)]
            mask, flags = self._mask[begin : begin + len(data)].view(np.bool_), self._flags[: len(data)]
            np.less_equal(data, CR, out=flags)
            np.equal(data, QUOTE, out=mask)
            np.logical_or(mask, flags, out=mask)
        words = -(-have // WORD)
        self._mask[have : words * WORD] = 0
        hit = (self._mask_words[:words] != 0).nonzero()[0]
        within = self._mask_words[hit].view(np.bool_).nonzero()[0]
        at: Positions = (hit[within >> 3] << 3) + (within & 7)
        meaningless = MEANINGLESS[self._data[at]]
        return at[~meaningless] if meaningless.any() else at

    def _quotes_pair(self, quotes: Positions, have: int) -> bool:
        """Return whether csv pairs the quotes in the same way.

        csv opens a quoted field only at its first character, and ends it at a quote that is not doubled. In each pair,
        the first quote must follow a separator or the quote that it doubles, and the second must precede a separator or
        the quote that doubles it. If all do, csv pairs them in the same way. Proof: take the first quote that csv read
        differently. Everything before it was read alike, so it is inside an unquoted field or after a closing quote,
        and its neighbour is not one of those required.
        """
        opening, closing = quotes[0::2], quotes[1::2]
        if len(closing) and closing[-1] + 1 == have:
            closing = closing[:-1]  # the next byte has not been read yet; the incomplete row is indexed again
        # `_around` begins one byte before `_data`
        return bool(BEFORE_OPENING[self._around[opening]].all() and AFTER_CLOSING[self._data[closing + 1]].all())

    def _picks(
        self, starts: Positions, separators: Positions, at_language: int, at_title: int, wanted: bytes | None
    ) -> Picks:
        data = self._data
        unknown = np.zeros(len(starts), np.bool_)
        if wanted is not None:
            begins, stops = self._field(starts, separators, at_language)
            unknown = data[begins] == QUOTE
            same = stops - begins == len(wanted)
            rows = same.nonzero()[0]
            for offset, byte in enumerate(wanted):
                rows = rows[data[begins[rows] + offset] == byte]
            if unknown.any():
                rows = np.union1d(rows, unknown.nonzero()[0])
            starts, separators, unknown = starts[rows], separators[rows], unknown[rows]
        begins, stops = self._field(starts, separators, at_title)
        begins = np.where(data[begins] == QUOTE, QUOTED_TITLE, begins)
        return np.stack([starts, separators[:, -1], np.where(unknown, QUOTED_LANGUAGE, begins), stops], axis=1)

    def _field(self, starts: Positions, separators: Positions, column: int) -> tuple[Positions, Positions]:
        """Return the start and stop of a column in each row, excluding a carriage return before the line end."""
        begins = separators[:, column - 1] + 1 if column else starts
        stops = separators[:, column]
        if column == separators.shape[1] - 1:
            stops = stops - ((self._data[stops - 1] == CR) & (stops > begins))
        return begins, stops


INTERFACE = 1  # interface version of byte_index.c; an installed module with another version is not used
Scan = Callable[[Any, int, int, int, int, bytes | None, Any, Any], tuple[int, int, int, int, int] | int]


def installed_scan() -> Scan | None:
    """Return `scan` of the extension module; None if it is not installed or has another interface."""
    try:
        import _remine_byte_index
    except ImportError:
        return None
    return _remine_byte_index.scan if _remine_byte_index.INTERFACE == INTERFACE else None


SCAN = installed_scan()


class CompiledIndex:
    """Does the same as `NumpyIndex` in compiled code: same buffer, same results.

    Args:
        scan: function of the extension module.
        around: uint8, the buffer with a line feed before it and one spare byte after it.
    """

    def __init__(self, scan: Scan, around: Bytes) -> None:
        self._scan, self._around = scan, around
        self._titles = np.empty(len(around) + 1, np.uint8)  # a title and its NUL take no more than its row
        self._view = self._titles.data
        self._picks = np.empty((0, 4), np.int64)

    def __call__(self, have: int, width: int, at_language: int, at_title: int, wanted: bytes | None) -> Index | int:
        """Return the index of the first `have` bytes, which begin with a row, or the fault in them."""
        if not len(self._picks):
            # a row has at least one byte per column; pages that are never written to are never allocated
            self._picks = np.empty((len(self._around) // width + 1, 4), np.int64)
        result = self._scan(self._around, have, width, at_language, at_title, wanted, self._picks, self._titles)
        if isinstance(result, int):
            return result
        rows, picked, end, copied, quoted = result
        return Index(rows, end, self._picks[:picked], None if quoted else self._view[:copied])
