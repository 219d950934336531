"""Search for the ids and URLs of a purge in texts, rows and file names."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from actors.ids import ID
from jobs.purging.matching import DIMS, Gone, columns_of, matches
from jobs.purging.mentions import Mentions, addresses_in, columns_of_texts

PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".tif", ".tiff", ".bmp", ".avif", ".jp2", ".ppm")
_SEPARATORS = (re.compile("[',]"), re.compile(r"[',;|()\[\]{}]"))  # of addresses; names of files may have them
_WORDS = (re.compile(r"\w+"), re.compile(r"\w+", re.ASCII))  # scripts without spaces go on next to an id


class Needles:
    """Finds the ids and URLs of `gone` in texts, rows and file names."""

    def __init__(self, gone: Gone) -> None:
        self.gone = gone
        self.ids = {mark for mark in gone.marks if ":" not in mark}
        self._words = set(filter(_is_distinctive, self.ids))
        self._phrases = {mark for mark in self.ids if mark not in _words(mark)}
        self._filter = gone.exclusion_filter()
        # Not `_filter`, whose matches are counted: in texts, even an earlier list of exclusions would match entirely.
        self._addresses = gone.exclusion_filter()
        self._mentions = Mentions(gone)
        self._urls = {url for url in gone.urls if len(url) > len("https://")}

    @property
    def matched(self) -> set[str]:
        """The marks that `mask` has found in rows so far."""
        return set(self._filter.matched)

    def in_text(self, text: str) -> bool:
        """Return whether `text` contains one of the ids as a word, or one of the URLs.

        Ids that users chose, such as 7, may be words of any text; they count if they have both letters and digits.
        """
        return any(word in self._words for word in _words(text)) or self._has_address(text)

    def may_name(self, text: str) -> bool:
        """Return whether a field of the file with this content may have one of the ids, or a text one of the URLs."""
        return (
            any(word in self.ids for word in _words(text))
            or any(phrase in text for phrase in self._phrases)
            or self._has_address(text)
        )

    def _has_address(self, text: str) -> bool:
        plain = text.replace("\\/", "/")  # as JSON may escape it
        return "//" in plain and (any(url in plain for url in self._urls) or self._addresses.hit(*_addresses(plain)))

    def is_source(self, uri: str) -> bool:
        """Return whether the file `uri`, an input of a table, is one of the pictures."""
        return self._addresses.hit(uri)

    def mask(self, rows: pa.Table) -> np.ndarray:
        """Return bool [rows]: whether a row has one of the ids or URLs in a column for ids or URLs."""
        return matches(rows, self._filter)

    def masks(self, rows: pa.Table, key: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return two bool [rows]: which rows must be removed, and which others mention a picture in a text.

        Args:
            rows: rows with the columns of `columns_to_read`.
            key: columns of the table's primary key. A row that mentions a picture there must be removed, because the
                mention cannot be deleted from a key.
        """
        texts = columns_of_texts(rows.schema)
        keys = [name for name in rows.column_names if name in key and name in (*texts, DIMS)]
        gone = self.mask(rows) | self._mentions.mask(rows, keys)
        return gone, self._mentions.mask(rows, [name for name in texts if name not in key]) & ~gone

    def without_mentions(self, rows: pa.Table, key: Sequence[str]) -> pa.Table:
        """Return the rows without the mentions of pictures in their texts; columns of `key` stay unchanged."""
        return self._mentions.without(rows, [name for name in columns_of_texts(rows.schema) if name not in key])

    def in_any_column(self, rows: pa.Table) -> bool:
        """Return whether rows of a file name a picture, in a column for ids or in a text."""
        return bool(self.mask(rows).any() or self._mentions.mask(rows, columns_of_texts(rows.schema)).any())

    def is_picture(self, name: str) -> bool:
        """Return whether a file is named after one of the pictures."""
        stem, _, suffix = name.rpartition(".")
        return f".{suffix.lower()}" in PICTURES and stem in self.ids


def columns_to_read(schema: pa.Schema) -> list[str]:
    """Return the columns by which rows are matched, and those that may mention a picture."""
    return [*columns_of(schema.names), *columns_of_texts(schema)]


def _is_distinctive(name: str) -> bool:
    """Return whether an id is not an ordinary word or number: a content hash, or one with letters and digits."""
    return bool(ID.fullmatch(name)) or (any(map(str.isdigit, name)) and any(map(str.isalpha, name)))


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text, both with and without the punctuation around and inside them."""
    for part in text.split():
        yield part.strip("'\"()[]{};,:")
    for words in _WORDS[: 1 if text.isascii() else 2]:
        yield from (match[0] for match in words.finditer(text))


def _addresses(text: str) -> list[str]:
    """Return the possible addresses in a text, with and without what commas, apostrophes and brackets separate."""
    words = [word for word in text.replace('"', " ").replace("<", " ").split() if "//" in word]
    parts = [part for word in words for signs in _SEPARATORS for part in signs.split(word) if "//" in part]
    return list(dict.fromkeys(address for word in (*words, *parts) for address in addresses_in(word)))
