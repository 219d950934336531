"""Search for the ids and URLs of a purge in texts, rows and file names."""

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import ID
from jobs.purging.matching import DIMS, IDS, URLS, Gone, columns_of, matches
from jobs.purging.mentions import (
    ID_IN_TEXT,
    PICTURE_SUFFIX,
    FileNames,
    Mentions,
    addresses_in,
    columns_of_texts,
    is_bytes,
    leaves,
    plain_texts,
    printable_runs,
)
from jobs.runtime.selection.picture_urls import is_web

PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".tif", ".tiff", ".bmp", ".avif", ".jp2", ".ppm")
_FIELDS = (*IDS, *URLS)
_SEPARATORS = (re.compile("[',]"), re.compile(r"[',;|()\[\]{}]"))  # of addresses; names of files may have them
_WORDS = (re.compile(r"\w+"), re.compile(r"\w+", re.ASCII))  # scripts without spaces go on next to an id


class Needles:
    """Finds the ids and URLs of `gone` in texts, rows and file names."""

    def __init__(self, gone: Gone) -> None:
        self.gone = gone
        self.ids = {mark for mark in gone.marks if ":" not in mark}
        self._hashes = set(filter(ID.fullmatch, self.ids))
        self._words = {name.casefold() for name in self.ids - self._hashes if _is_distinctive(name)}
        self._phrases = {mark for mark in self.ids if mark not in _words(mark)}
        self._filter = gone.exclusion_filter()
        # Not `_filter`, whose matches are counted: in texts, even an earlier list of exclusions would match entirely.
        self._addresses = gone.exclusion_filter()
        self._mentions = Mentions(gone)
        self._urls = {url for url in gone.urls if len(url) > len("https://")}
        self._files = FileNames({*self._urls, *filter(is_web, gone.marks)})

    @property
    def matched(self) -> set[str]:
        """The marks that `mask` has found in rows so far."""
        return set(self._filter.matched)

    def in_text(self, text: str) -> bool:
        """Return whether `text` contains one of the ids as a word, one of the URLs, or the distinctive name of a file.

        Ids that users chose, such as 7, may be words of any text; they count if they have both letters and digits.
        The spellings of `jobs.purging.mentions` count too.
        """
        return self._in_plain(text) or any(map(self._in_plain, plain_texts(text)))

    def _in_plain(self, text: str) -> bool:
        return (
            any(match[0].lower() in self._hashes for match in ID_IN_TEXT.finditer(text))
            or (bool(self._words) and any(word.casefold() in self._words for word in _words(text)))
            or self._has_address(text)
            or (bool(self._files) and self._files.in_text(text))
        )

    def in_bytes(self, data: bytes) -> bool:
        """Return whether the printable parts of binary data, such as the comment of a picture, name a picture."""
        return any(map(self.in_text, printable_runs(data)))

    def in_path(self, path: str) -> bool:
        """Return whether a path has an id, or the distinctive name of a picture's file, as the name of a part."""
        for spelling in (path, *plain_texts(path)):
            if any(match[0].lower() in self._hashes for match in ID_IN_TEXT.finditer(spelling)):
                return True
            if any(self.is_id(part) and _is_distinctive(part) for part in re.split(r"[/.]", spelling)):
                return True
            if any(map(self._files.is_name, spelling.split("/"))):
                return True
        return False

    def is_id(self, text: str) -> bool:
        """Return whether `text` is one of the ids; those that are hashes, in either case."""
        return text in self.ids or text.lower() in self._hashes

    def may_name(self, text: str) -> bool:
        """Return whether a field of the file with this content may have one of the ids, or a text one of the URLs."""
        return (
            any(word in self.ids for word in _words(text))
            or any(phrase in text for phrase in self._phrases)
            or self.in_text(text)
        )

    def _has_address(self, text: str) -> bool:
        return "//" in text and (any(url in text for url in self._urls) or self._addresses.hit(*_addresses(text)))

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
        """Return whether rows of a file name a picture, in strings or bytes of any type and depth."""
        return any(
            self._in_bytes_of(values) if is_bytes(values.type) else self._in_strings(values, is_field=name in _FIELDS)
            for name in rows.column_names
            for values in leaves(rows[name])
        )

    def _in_bytes_of(self, values: pa.Array) -> bool:
        return any(self.in_bytes(value) for value in values.to_pylist() if value)

    def _in_strings(self, values: pa.Array, *, is_field: bool) -> bool:
        """Return whether one of the strings names a picture; in fields for ids and URLs, whatever the id or URL."""
        if is_field and (self._filter.mask(values).any() or any(map(self.is_id, filter(None, values.to_pylist())))):
            return True
        return bool(self._mentions.in_texts(values).any()) or self._has_file_name(values)

    def _has_file_name(self, values: pa.Array) -> bool:
        named = values.filter(pc.match_substring_regex(values, PICTURE_SUFFIX)) if self._files else values[:0]
        return any(self._files.in_text(text) for text in named.unique().to_pylist())

    def in_schema(self, schema: pa.Schema) -> bool:
        """Return whether the names of columns, or the metadata of a file or a column, name a picture."""
        metadata = [schema.metadata, *(field.metadata for field in schema)]
        entries = (part for pairs in metadata for entry in (pairs or {}).items() for part in entry)
        texts = (part.decode("utf-8", "surrogateescape") for part in entries)
        return any(map(self.in_text, texts)) or self.in_text(str(schema.remove_metadata()))

    def is_picture(self, name: str) -> bool:
        """Return whether a file is named after one of the pictures."""
        stem, _, suffix = name.rpartition(".")
        return f".{suffix.lower()}" in PICTURES and self.is_id(stem)


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
