"""The index of a buffer of WIT by NumPy: what `wit_kernel` does in compiled code, by the same rules, anywhere.

One vectorised pass finds the bytes that matter to CSV (tabs, line ends, quotes), which are one in a hundred; all that
follows works on their places alone. Quotes are paired, separators between a pair are left out, and what remains must be
a header's width of separators a row, the last of them a line end.
"""

from typing import Any, NamedTuple

import numpy as np

TAB, LF, CR, QUOTE = b'\t\n\r"'
WORD = 8
SLICE = 1 << 18  # bytes looked at together: with what is made of them they stay in the processor's cache
STRAY_QUOTE, WRONG_WIDTH, LONE_RETURN = -1, -2, -3  # what `index` says of a buffer that csv might read differently
QUOTED_TITLE, QUOTED_LANGUAGE = -2, -1  # in place of where a pick's title begins

BEFORE_OPENING = np.zeros(256, np.bool_)
BEFORE_OPENING[[TAB, LF, QUOTE]] = True
AFTER_CLOSING = np.zeros(256, np.bool_)
AFTER_CLOSING[[TAB, LF, CR, QUOTE]] = True
MEANINGLESS = np.ones(256, np.bool_)  # what is found with the others because it, too, is not above 13
MEANINGLESS[[TAB, LF, CR, QUOTE]] = False

Places = np.ndarray[Any, np.dtype[np.intp]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Picks = np.ndarray[Any, np.dtype[np.int64]]


class Index(NamedTuple):
    """What a buffer holds.

    `picks` are its rows of the wanted language: where the row begins, its line end, where its title begins and stops;
    the title's begin is QUOTED_TITLE where it must be unquoted, QUOTED_LANGUAGE where so must the language, and whether
    it is the wanted one is not known.
    """

    rows: int
    end: int  # byte behind the last whole row
    picks: Picks
    titles: memoryview | None = None  # those of the picks, each behind it a NUL, unless one of them is quoted


class NumpyIndex:
    """The index of one buffer after another; keeps its working memory.

    `around` is the buffer with one byte before it, a line end, and room for one behind.
    """

    def __init__(self, around: Bytes) -> None:
        self._around, self._data = around, around[1:]
        words = -(-len(around) // WORD)
        self._mask_words = np.zeros(words, np.uint64)
        self._mask = self._mask_words.view(np.uint8)
        self._flags = np.empty(SLICE, np.bool_)

    def __call__(self, have: int, width: int, at_language: int, at_title: int, wanted: bytes | None) -> Index | int:
        """The index of the first `have` bytes, which begin a row, or what is wrong with them."""
        at = self._special(have)
        what = self._data[at]
        is_quote = what == QUOTE
        if is_quote.any():
            if not self._quotes_pair(at[is_quote], have):
                return STRAY_QUOTE
            # Odd behind an opening quote, even behind a closing one; between both nothing separates.
            outside = np.bitwise_xor.accumulate(is_quote.view(np.uint8)) == 0
            outside &= ~is_quote
            at, what = at[outside], what[outside]
        returns = what == CR
        if returns.any():
            # Outside quotes csv ends a row at a carriage return; only before a line end is that no difference.
            places = at[returns]
            places = places[places + 1 < have]
            if (self._data[places + 1] != LF).any():
                return LONE_RETURN
            at, what = at[~returns], what[~returns]
        ends = (what == LF).nonzero()[0]
        rows = len(ends)
        if not rows:
            return Index(0, 0, np.empty((0, 4), np.int64))
        if ends[-1] != rows * width - 1 or (ends != np.arange(width - 1, rows * width, width)).any():
            return WRONG_WIDTH
        separators = at[: rows * width].reshape(rows, width)
        starts = np.empty(rows, np.intp)
        starts[0], starts[1:] = 0, separators[:-1, -1] + 1
        return Index(rows, int(separators[-1, -1]) + 1, self._picks(starts, separators, at_language, at_title, wanted))

    def _special(self, have: int) -> Places:
        """Where tabs, line ends, carriage returns and quotes stand; few bytes are, so words without one go first."""
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
        at: Places = (hit[within >> 3] << 3) + (within & 7)
        what = self._data[at]
        other = MEANINGLESS[what]
        return at[~other] if other.any() else at

    def _quotes_pair(self, quotes: Places, have: int) -> bool:
        """Whether csv reads quotes in pairs, as here.

        csv opens a quoted field at its first character only and ends it at a quote that no second one follows. Read
        in pairs, each first quote stands behind a separator, or behind the quote it doubles; each second one before a
        separator, or before the quote that doubles it. Where all do, pairing them is what csv does: were there a
        first quote that csv took for something else, all before it would have been read alike, so it would stand
        inside an unquoted field or behind a closing quote, and not where it must.
        """
        opening, closing = quotes[0::2], quotes[1::2]
        if len(closing) and closing[-1] + 1 == have:
            closing = closing[:-1]  # what follows is not read yet; its row is not whole and is seen again
        # `_around` begins one byte before `_data`
        return bool(BEFORE_OPENING[self._around[opening]].all() and AFTER_CLOSING[self._data[closing + 1]].all())

    def _picks(
        self, starts: Places, separators: Places, at_language: int, at_title: int, wanted: bytes | None
    ) -> Picks:
        data = self._data
        unknown = np.zeros(len(starts), np.bool_)
        if wanted is not None:
            begins, stops = self._field(starts, separators, at_language)
            unknown = data[begins] == QUOTE
            same = stops - begins == len(wanted)
            rows = same.nonzero()[0]
            for place, byte in enumerate(wanted):
                rows = rows[data[begins[rows] + place] == byte]
            if unknown.any():
                rows = np.union1d(rows, unknown.nonzero()[0])
            starts, separators, unknown = starts[rows], separators[rows], unknown[rows]
        begins, stops = self._field(starts, separators, at_title)
        begins = np.where(data[begins] == QUOTE, QUOTED_TITLE, begins)
        return np.stack([starts, separators[:, -1], np.where(unknown, QUOTED_LANGUAGE, begins), stops], axis=1)

    def _field(self, starts: Places, separators: Places, column: int) -> tuple[Places, Places]:
        """Where a column begins and stops, a carriage return before the line end not counted."""
        begins = separators[:, column - 1] + 1 if column else starts
        stops = separators[:, column]
        if column == separators.shape[1] - 1:
            stops = stops - ((self._data[stops - 1] == CR) & (stops > begins))
        return begins, stops
