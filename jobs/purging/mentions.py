"""Mentions of withdrawn pictures in columns that are not for ids: sources, texts, attributes, dimensions of metrics.

A mention is the id of a picture, or of an item, response or text about it, as a word, or an address of a picture.
Addresses are compared as they are spelt. Only those with a picture's file extension are also parsed and compared by the
picture that they name, because parsing all links of a corpus would take half a minute per million.

A text is also read without the escapes of JSON, HTML, XML, YAML and URLs (up to twice encoded), without invisible
characters, and as Latin-1 where it is not UTF-8. Ids count in either case and next to underscores. Addresses count
within others, with any scheme. File names count if they are distinctive: all names of files of Wikimedia, and others
of at least `LONG` characters, or of `LONG_WITH_DIGIT` with a digit.
"""

import html
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.fetching import wikimedia
from actors.fetching.wikimedia import NoThumbnailError
from actors.ids import content_id
from jobs.purging.matching import Gone, columns_of

HASHES = ("record_id", "sha256", "phash")  # columns of hexadecimal digits that name no picture
_ID = r"(?i)[0-9a-f]{32}"
_PICTURE = r"\.(?:jpe?g|png|gif|webp|tiff?|bmp|avif|jp2|ppm|svg|djvu|pdf)"
PICTURE_SUFFIX = rf"(?i){_PICTURE}\b"
_NO_WORD = r"[^0-9A-Za-z]+"
# What is between addresses: those with none of these signs, those that may have brackets, and those with any but quotes
_NO_SHORT_ADDRESS, _NO_ADDRESS, _NO_LONG_ADDRESS = r"[\s\"'<>,;|()\[\]{}]+", r"[\s\"'<>,]+", r"[\s\"<>]+"
_LONG = r"//[^\s\"<>]*[',]"  # an address may contain these signs, and they may end it
# Words that may be addresses, the long ones first: their parts are no addresses of pictures. A pattern of the two signs
# within a word would take the square of its length, and a text may be one word of a megabyte.
_WORDS = (re.compile(r"[^\s\"<>]+"), re.compile(r"[^\s\"'<>,]+"), re.compile(r"[^\s\"'<>,;|()\[\]{}]+"))
_AROUND = "()[]{};:.!?\\',"  # signs around an address
_BEFORE = r"^.*?(https?://)"  # what an address follows without a space, as in [text](https://…)
_AFTER = rf"(?i)({_PICTURE})[^\x00-\x25\x27-\x7f].*"  # scripts without spaces, or another parameter (&) of a query


def columns_of_texts(schema: pa.Schema) -> list[str]:
    """Return the columns of strings, or of lists or maps of strings, that may mention a picture: those not for ids."""
    matched = {*columns_of(schema.names), *HASHES}
    return [field.name for field in schema if field.name not in matched and has_strings(field.type)]


def has_strings(kind: pa.DataType) -> bool:
    """Return whether a column's values are strings, or lists or maps of strings, as in tables of remine."""
    if pa.types.is_map(kind):
        return has_strings(kind.item_type)
    return has_strings(kind.value_type) if pa.types.is_list(kind) else bool(pa.types.is_string(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether values of the type are bytes."""
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view)
    return any(is_kind(kind) for is_kind in tests)


def has_texts(kind: pa.DataType) -> bool:
    """Return whether values of the type have strings or bytes at any depth, as `leaves` yields them."""
    if pa.types.is_dictionary(kind):
        return has_texts(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return has_texts(kind.storage_type)
    if pa.types.is_nested(kind):
        return any(has_texts(kind.field(number).type) for number in range(kind.num_fields))
    return is_bytes(kind) or _is_string(kind)


def _is_string(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def leaves(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the strings (as pa.string) and the bytes in a column of any type, also in keys of maps and dictionaries."""
    for chunk in column.chunks:
        yield from _leaves(chunk)


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    kind = values.type
    if pa.types.is_dictionary(kind):
        yield from _leaves(values.dictionary)
    elif isinstance(kind, pa.BaseExtensionType):
        yield from _leaves(values.storage)
    elif pa.types.is_struct(kind):
        for part in values.flatten():
            yield from _leaves(part)
    elif pa.types.is_map(kind):
        yield from (*_leaves(values.keys), *_leaves(values.items))
    elif pa.types.is_union(kind):
        for number in range(kind.num_fields):
            yield from _leaves(values.field(number))
    elif pa.types.is_nested(kind):  # lists of any kind
        yield from _leaves(values.flatten())
    elif _is_string(kind):
        yield values.cast(pa.string())
    elif is_bytes(kind):
        yield values


class Mentions:
    """Finds and deletes mentions of the ids and URLs of `gone`."""

    def __init__(self, gone: Gone) -> None:
        self._pictures = gone.pictures
        self._names = gone.pictures | gone.others
        self._ids = pa.array(sorted(self._names), pa.string())
        # As the words are compared: an address may end with a sign such as a bracket, which is cut from words.
        self._urls = pa.array(sorted({url.strip(_AROUND) for url in gone.urls}), pa.string())
        self._filter = gone.exclusion_filter()

    def mask(self, rows: pa.Table, columns: Sequence[str]) -> np.ndarray:
        """Return bool [rows]: whether one of the columns mentions a picture."""
        hit = np.zeros(rows.num_rows, bool)
        for name in columns:
            hit |= self._mask(rows[name])
        return hit

    def without(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Return the rows without mentions in the columns; a value that is only a mention becomes an empty string."""
        for name in columns:
            column = rows[name]
            hit = np.flatnonzero(self._mask(column))
            if not len(hit):
                continue
            values = column.to_pylist()
            for row in hit.tolist():
                values[row] = self._cleaned(values[row])
            position = rows.schema.get_field_index(name)
            rows = rows.set_column(position, rows.schema.field(position), pa.chunked_array([values], column.type))
        return rows

    def _mask(self, column: pa.ChunkedArray) -> np.ndarray:
        hit = np.zeros(len(column), bool)
        begin = 0
        for chunk in column.chunks:
            for texts, rows in _texts_of(chunk):
                hit[begin + rows[self.in_texts(texts)]] = True
            begin += len(chunk)
        return hit

    def in_texts(self, texts: pa.Array) -> np.ndarray:
        """Return bool [texts]: whether a text has a mention, also in one of the spellings of `plain_texts`."""
        hit = self._in_words(texts)
        positions = np.flatnonzero(_bools(pc.match_substring_regex(texts, ESCAPED)) & ~hit)
        if len(positions):
            encoded = texts.take(pa.array(positions)).dictionary_encode()
            forms = [(form, n) for n, text in enumerate(encoded.dictionary.to_pylist()) for form in plain_texts(text)]
            of_value = np.zeros(len(encoded.dictionary), bool)
            if forms:
                names, numbers = zip(*forms, strict=True)
                safe = [name.encode("utf-8", "replace").decode() for name in names]
                of_value[np.array(numbers)[self._in_words(pa.array(safe, pa.string()))]] = True
            hit[positions] = of_value[encoded.indices.to_numpy()]
        return hit

    def _in_words(self, texts: pa.Array) -> np.ndarray:
        """Return bool [texts]: whether a text has a mention as it is spelt."""
        hit = np.zeros(len(texts), bool)
        forms: tuple[tuple[pa.Array, str, Callable[[pa.Array], np.ndarray]], ...] = (
            (pc.match_substring_regex(texts, _ID), _NO_WORD, self._are_ids),
            (pc.match_substring(texts, "//"), _NO_SHORT_ADDRESS, self._have_addresses),
            (pc.match_substring(texts, "//"), _NO_ADDRESS, self._have_addresses),
            (pc.match_substring_regex(texts, _LONG), _NO_LONG_ADDRESS, self._have_addresses),
        )
        for possible, separator, test in forms:
            positions = np.flatnonzero(_bools(possible))
            if not len(positions):
                continue
            encoded = texts.take(pa.array(positions)).dictionary_encode()
            values = encoded.dictionary
            words = pc.split_pattern_regex(values, separator)
            of_value = self._are_addresses(values)  # which may have spaces and quotes
            of_value[pc.list_parent_indices(words).to_numpy()[test(words.flatten())]] = True
            hit[positions] |= of_value[encoded.indices.to_numpy()]
        return hit

    def _are_ids(self, words: pa.Array) -> np.ndarray:
        return _bools(pc.is_in(pc.ascii_lower(words), self._ids))

    def _have_addresses(self, words: pa.Array) -> np.ndarray:
        words = pc.replace_substring_regex(words, _BEFORE, r"\1")
        hit = self._are_addresses(words)
        positions = np.flatnonzero(_bools(pc.match_substring_regex(words, _AFTER)))
        if len(positions):
            cut = pc.replace_substring_regex(words.take(pa.array(positions)), _AFTER, r"\1")
            hit[positions] |= self._are_addresses(cut)
        return hit

    def _are_addresses(self, words: pa.Array) -> np.ndarray:
        words = pc.utf8_trim(words, _AROUND)
        hit = _bools(pc.is_in(words, self._urls))
        possible = _bools(pc.match_substring(words, "//")) & _bools(pc.match_substring_regex(words, PICTURE_SUFFIX))
        positions = np.flatnonzero(possible & ~hit)
        if not len(positions):
            return hit
        encoded = words.take(pa.array(positions)).dictionary_encode()
        named = self._filter.mask(encoded.dictionary)
        named |= np.array([content_id(url) in self._pictures for url in encoded.dictionary.to_pylist()], bool)
        hit[positions] = named[encoded.indices.to_numpy()]
        return hit

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._cleaned(part) for part in value]
        if isinstance(value, tuple):  # an entry of a map
            return value[0], self._cleaned(value[1])
        return self._text_without(value) if value else value

    def _text_without(self, text: str) -> str:
        if self._are_addresses(pa.array([text], pa.string()))[0]:
            return ""

        def address(match: re.Match[str]) -> str:
            if "//" not in match[0]:
                return match[0]
            names = pa.array(addresses_in(match[0]), pa.string())
            gone = names.filter(pa.array(self._are_addresses(names))).to_pylist()
            return match[0].replace(gone[0], "") if gone else match[0]

        def word(match: re.Match[str]) -> str:
            return "" if match[0].lower() in self._names else match[0]

        for pattern in _WORDS:
            text = pattern.sub(address, text)
        text = ID_IN_TEXT.sub(word, text)
        if not self._is_escaped_mention(text):
            return text
        text = _WORDS[0].sub(lambda match: "" if self._is_escaped_mention(match[0]) else match[0], text)
        return "" if self._is_escaped_mention(text) else text

    def _is_escaped_mention(self, text: str) -> bool:
        return is_escaped(text) and bool(self.in_texts(pa.array([text], pa.string()))[0])


def addresses_in(word: str) -> list[str]:
    """Return the address in a word without the signs around it and what is in front of it, and up to its suffix."""
    address = re.sub(_BEFORE, r"\1", word.strip(_AROUND))
    return list(dict.fromkeys([address, re.sub(_AFTER, r"\1", address)]))


def _texts_of(chunk: pa.Array) -> Iterator[tuple[pa.Array, np.ndarray]]:
    """Yield the strings of a column, also those in lists and maps, with int64 [strings], the row of each."""
    if pa.types.is_string(chunk.type):
        yield chunk, np.arange(len(chunk))
        return
    if pa.types.is_map(chunk.type):
        chunk = pa.ListArray.from_arrays(chunk.offsets, chunk.items)
    parents = pc.list_parent_indices(chunk).to_numpy()
    for texts, rows in _texts_of(chunk.flatten()):
        yield texts, parents[rows]


def _bools(values: Any) -> np.ndarray:
    mask: np.ndarray = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(bool)
    return mask


LONG, LONG_WITH_DIGIT, LONG_OF_WIKIMEDIA = 16, 10, 6  # characters of a file's name without its suffix
ID_IN_TEXT = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{32}(?![0-9a-fA-F])")
_INVISIBLE_SIGNS = "\u00ad\u200b-\u200f\u2060\ufeff"
# Signs of other spellings, for Python and pyarrow: escapes, invisible characters, an address in another, other schemes
ESCAPED = (
    r"(?i)\\u[0-9a-f]{4}|\\x[0-9a-f]{2}|\\/|&#?[0-9a-z]{2,8};|''|[" + _INVISIBLE_SIGNS + "]"
    r"|%(?:25)*2f|\S//\S*//|https?:/[^/]|ftps?:"
)
_ESCAPED = re.compile(ESCAPED)
_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
_INVISIBLE = re.compile(f"[{_INVISIBLE_SIGNS}]")
_UNICODE = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")
_BYTES = re.compile("[\udc80-\udcff]")  # of a file that is not UTF-8
_ONE_SLASH = re.compile(r"(?i)\b(https?|ftp):/(?=[^/\s])")  # as the Wayback Machine writes an address in another one
_ADDRESS = re.compile(r"(?i)(?:(https?:)|ftps?:)?//")
_DECODED = 3  # times that percent signs are decoded
_PICTURE_SUFFIX = re.compile(r"\.(?:jpe?g|png|gif|webp|tiff?|bmp|avif|jp2|ppm|svg|djvu|pdf)\b")
_END = 8  # characters at the end of a name by which it is found in a text; no name is shorter
_WIDTH = re.compile(r"^\d+px-")
# Printable runs of binary data, such as the comment of a picture.
_PRINTABLE = re.compile(rb"(?:[\x20-\x7e]|[\xc3-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}){12,}")


def plain_texts(text: str) -> Iterator[str]:
    """Yield the other spellings of a text, each once."""
    seen = {text}
    for plain in _decoded(text):
        if plain not in seen:
            seen.add(plain)
            yield plain


def is_escaped(text: str) -> bool:
    """Return whether `plain_texts` may have a spelling of an id or address that the text itself does not have."""
    return _ESCAPED.search(text) is not None


def _decoded(text: str) -> Iterator[str]:
    text = _BYTES.sub(lambda match: chr(ord(match[0]) - 0xDC00), text)
    text = _UNICODE.sub(lambda match: chr(int(match[1] or match[2], 16)), text).replace("\\/", "/")
    text = _INVISIBLE.sub("", html.unescape(html.unescape(text))).replace("''", "'")
    text = _ONE_SLASH.sub(r"\1://", text)
    yield text
    yield _apart(text)
    for _ in range(_DECODED):
        if not _PERCENT.search(text):
            break
        decoded = unquote(text, errors="surrogateescape")
        text = _ONE_SLASH.sub(r"\1://", _BYTES.sub(lambda match: chr(ord(match[0]) - 0xDC00), decoded))
        yield text
        yield _apart(text)


def _apart(text: str) -> str:
    """Return a text with a space before each address, also before one within another, and without other schemes."""
    return _ADDRESS.sub(lambda match: f" {match[1] or ''}//", text) if "//" in text else text


def printable_runs(data: bytes) -> Iterator[str]:
    """Yield the runs of at least 12 printable characters of binary data."""
    for match in _PRINTABLE.finditer(data):
        yield match[0].decode("utf-8", "replace")


class FileNames:
    """The distinctive names of the files at some addresses, found in texts and in names of other files."""

    def __init__(self, urls: Iterable[str]) -> None:
        self._names = {name for url in urls if (name := _file_name(url))}
        self._by_end: dict[str, set[str]] = defaultdict(set)
        for name in self._names:
            self._by_end[name[-_END:]].add(name)

    def __bool__(self) -> bool:
        return bool(self._names)

    def in_text(self, text: str) -> bool:
        """Return whether a text has one of the names, with spaces or underscores."""
        folded = _folded(text)
        return any(
            folded.endswith(name, 0, match.end())
            for match in _PICTURE_SUFFIX.finditer(folded)
            for name in self._by_end.get(folded[max(0, match.end() - _END) : match.end()], ())
        )

    def is_name(self, name: str) -> bool:
        """Return whether this is one of the names, perhaps after the width of a thumbnail."""
        folded = _folded(name)
        return folded in self._names or _WIDTH.sub("", folded) in self._names


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).replace(" ", "_").casefold()


def _file_name(url: str) -> str:
    """Return the distinctive name of the file at an address; empty if it has none."""
    try:
        name, least = wikimedia.parse(url).name, LONG_OF_WIKIMEDIA
    except (NoThumbnailError, ValueError):
        try:
            name = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
        except ValueError:
            return ""
        least = LONG_WITH_DIGIT if any(map(str.isdigit, name)) else LONG
    stem, dot, _ = name.rpartition(".")
    return _folded(name) if dot and len(stem) >= least else ""
