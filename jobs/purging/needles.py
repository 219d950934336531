"""What must go, as it is found in texts, rows and names of files."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from jobs.purging.matching import DIMS, Gone, columns_of, matches
from jobs.purging.mentions import Mentions, columns_of_texts

PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".tif", ".tiff", ".bmp", ".avif", ".jp2", ".ppm")
_WORDS = (re.compile(r"\w+"), re.compile(r"\w+", re.ASCII))  # scripts without spaces go on next to an id


class Needles:
    """Finds what must go (`gone`) in texts, rows and names of files."""

    def __init__(self, gone: Gone) -> None:
        self.gone = gone
        self.ids = {mark for mark in gone.marks if ":" not in mark}
        self._filter = gone.exclusion_filter()
        self._addresses = gone.exclusion_filter()  # apart: an earlier list is a text that has all entries
        self._mentions = Mentions(gone)
        self._urls = {url for url in gone.urls if len(url) > len("https://")}

    @property
    def matched(self) -> set[str]:
        """The marks that rows have that `mask` has seen."""
        return set(self._filter.matched)

    def in_text(self, text: str) -> bool:
        """Whether `text` has one of the ids as a word, or one of the addresses."""
        if any(word in self.ids for word in _words(text)):
            return True
        return "//" in text and (any(url in text for url in self._urls) or self._addresses.hit(*_addresses(text)))

    def mask(self, rows: pa.Table) -> np.ndarray:
        """bool [rows]: whether a row names one of the ids or addresses, in the columns for them."""
        return matches(rows, self._filter)

    def masks(self, rows: pa.Table, key: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Two bool [rows]: which rows of a table must go, and which others mention a picture in a text.

        Args:
            rows: with the columns of `columns_to_read`.
            key: columns of the table's primary key, which cannot lose a mention: such a row must go.
        """
        texts = columns_of_texts(rows.schema)
        keys = [name for name in rows.column_names if name in key and name in (*texts, DIMS)]
        gone = self.mask(rows) | self._mentions.mask(rows, keys)
        return gone, self._mentions.mask(rows, [name for name in texts if name not in key]) & ~gone

    def without_mentions(self, rows: pa.Table, key: Sequence[str]) -> pa.Table:
        """The rows without the mentions of pictures in their texts."""
        return self._mentions.without(rows, [name for name in columns_of_texts(rows.schema) if name not in key])

    def in_any_column(self, rows: pa.Table) -> bool:
        """Whether rows of a file name a picture, in a column for ids or in a text."""
        return bool(self.mask(rows).any() or self._mentions.mask(rows, columns_of_texts(rows.schema)).any())

    def is_picture(self, name: str) -> bool:
        """Whether a file is named after one of the pictures."""
        stem, _, suffix = name.rpartition(".")
        return f".{suffix.lower()}" in PICTURES and stem in self.ids


def columns_to_read(schema: pa.Schema) -> list[str]:
    """The columns by which rows are matched, and those that may mention a picture."""
    return [*columns_of(schema.names), *columns_of_texts(schema)]


def _words(text: str) -> Iterator[str]:
    """The words of a text, with and without the signs around and inside them."""
    for part in text.split():
        yield part.strip("'\"()[]{};,:")
    for words in _WORDS[: 1 if text.isascii() else 2]:
        yield from (match[0] for match in words.finditer(text))


def _addresses(text: str) -> list[str]:
    parts = text.replace("\\/", "/").replace('"', " ").replace("'", " ").replace("<", " ").replace(",", " ").split()
    return [part.strip("()[]{};") for part in parts if "//" in part]
