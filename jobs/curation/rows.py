"""The columns that curation decides on, as compact arrays over all rows of a table in its order.

What is held of a row: 4 B each for its page, its image URL and its picture's id (numbers that stand for equal
strings), 1 B for its split, 4 B of yes or no, and 1 B a method; of a distinct picture its hash, 16 B. Strings are
hashed to 128 bits as they pass and never kept; equal hashes count as equal strings, as everywhere with ids. Where an
order of strings is needed (`ranks`), the few rows concerned are read again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.fetching.wikimedia import is_wikimedia, why_no_thumbnail
from jobs.errors import InputError
from jobs.runtime.exclusions import Barred
from jobs.store.hashing import hash_texts_128
from jobs.store.reading import TableSource

UNSAID = "unsaid"  # a method or split that the table does not name
MAX_METHODS = 64  # a byte a row each
THUMBNAILS = ("any", "wikimedia", "all")
_COLUMNS = ["page_url", "image_url", "image_id", "mime_type", "is_main_image", "split", "methods"]


@dataclass(frozen=True)
class Rows:
    """Arrays over the rows of a table, in its order; `pictures` are the distinct image_ids."""

    methods: tuple[str, ...]
    splits: tuple[str, ...]
    member: np.ndarray  # bool [methods, rows]
    split: np.ndarray  # uint8 [rows], place in `splits`
    page: np.ndarray  # int32 [rows], equal for equal page URLs
    url: np.ndarray  # int32 [rows], equal for equal image URLs
    image: np.ndarray  # int32 [rows], place in `pictures`
    main: np.ndarray  # bool [rows]
    https: np.ndarray  # bool [rows]
    thumbnail: np.ndarray  # bool [rows]
    excluded: np.ndarray  # bool [rows], by image_id or image URL
    pictures: "HashIndex"

    def __len__(self) -> int:
        return len(self.split)


class HashIndex:
    """Places of strings in a sorted list of their 128-bit hashes."""

    def __init__(self, hashes: np.ndarray) -> None:
        """`hashes`: uint64 [strings, 2], distinct and sorted."""
        self._hashes = np.ascontiguousarray(hashes)
        first = hashes[:, 0]
        _, counts = np.unique(first, return_counts=True)
        self._run = int(counts.max(initial=0))  # rows that share their first 64 bits: 1 unless by a great accident

    def __len__(self) -> int:
        return len(self._hashes)

    def subset(self, places: np.ndarray) -> "HashIndex":
        """Of the strings at the sorted `places` alone."""
        return HashIndex(self._hashes[places])

    def find(self, strings: pa.ChunkedArray) -> np.ndarray:
        """int64 [strings]: the place of each, -1 where there is none."""
        return self.find_hashes(hash_texts_128(strings))

    def find_hashes(self, wanted: np.ndarray) -> np.ndarray:
        """int64 [wanted]: the place of each of the hashes uint64 [wanted, 2], -1 where there is none."""
        found = np.full(len(wanted), -1, np.int64)
        first = np.searchsorted(self._hashes[:, 0], wanted[:, 0])
        for step in range(self._run):
            place = np.minimum(first + step, len(self._hashes) - 1)
            hit = (self._hashes[place] == wanted).all(axis=1)
            found[hit] = place[hit]
        return found


def numbered(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of `hashes` uint64 [rows, 2], sorted, and int32 [rows]: the place of each among them."""
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    new = np.ones(len(order), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    codes = np.empty(len(order), np.int32)
    codes[order] = np.cumsum(new, dtype=np.int32) - 1
    return ordered[new], codes


def read_rows(source: TableSource, *, thumbnails: str, barred: Barred | None = None) -> Rows:
    """One pass over the narrow columns of a table of records.

    Args:
        thumbnails: which URLs must have a resized form: with `any` none, with `wikimedia` those of Wikimedia's file
            server, with `all` every one.
        barred: the list of exclusions.

    Raises:
        InputError: more methods or splits than a byte a row can hold.
    """
    barred = barred or Barred(frozenset())
    pages, urls, images = [_no_hashes()], [_no_hashes()], [_no_hashes()]
    flags, excluded = [np.empty((3, 0), bool)], [np.empty(0, bool)]
    splits, methods = Names("split", 256), Names("method", MAX_METHODS)
    split, found = [np.empty(0, np.uint8)], [np.empty((2, 0), np.int64)]
    rows = 0
    for batch in source.batches(_COLUMNS):
        pages.append(hash_texts_128(batch["page_url"]))
        urls.append(hash_texts_128(batch["image_url"]))
        images.append(hash_texts_128(batch["image_id"]))
        flags.append(_flags(batch, thumbnails))
        excluded.append(barred.mask(batch["image_id"]) | barred.mask(batch["image_url"]))
        split.append(splits.places(pc.fill_null(batch["split"], "")).astype(np.uint8))
        found.append(_memberships(batch["methods"], methods, rows))
        rows += batch.num_rows
    page = numbered(np.concatenate(pages))[1]
    del pages
    url = numbered(np.concatenate(urls))[1]
    del urls
    pictures, image = numbered(np.concatenate(images))
    member = np.zeros((len(methods.names), rows), bool)
    where, which = np.concatenate(found, axis=1)
    member[which, where] = True
    main, https, thumbnail = np.concatenate(flags, axis=1)
    return Rows(
        methods=tuple(methods.names),
        splits=tuple(splits.names),
        member=member,
        split=np.concatenate(split),
        page=page,
        url=url,
        image=image,
        main=main,
        https=https,
        thumbnail=thumbnail,
        excluded=np.concatenate(excluded),
        pictures=HashIndex(pictures),
    )


class Names:
    """Numbers for the few distinct words of a column, in the order of their coming."""

    def __init__(self, what: str, most: int) -> None:
        self.names: list[str] = []
        self._what, self._most = what, most
        self._number: dict[str, int] = {}

    def places(self, words: pa.ChunkedArray) -> np.ndarray:
        """int64 [words]: the number of each word; an empty one counts as `unsaid`.

        Raises:
            InputError: too many distinct words.
        """
        coded = words.combine_chunks().dictionary_encode()
        numbers = [self._place(word or UNSAID) for word in coded.dictionary.to_pylist()]
        return np.array(numbers or [0], np.int64)[coded.indices.to_numpy(zero_copy_only=False)]

    def _place(self, word: str) -> int:
        if word not in self._number:
            if len(self.names) == self._most:
                raise InputError(f"more than {self._most} values of {self._what} (the last one {word!r})")
            self._number[word] = len(self.names)
            self.names.append(word)
        return self._number[word]


def _memberships(lists: pa.ChunkedArray, methods: Names, first: int) -> np.ndarray:
    """int64 [2, pairs] of (row, method); a row that names no method belongs to `unsaid`."""
    column = lists.combine_chunks()
    flat = pa.chunked_array([column.flatten()], pa.string())
    parents = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    (bare,) = np.nonzero(lengths == 0)
    named = methods.places(flat)
    none = methods.places(pa.chunked_array([[""] * len(bare)], pa.string()))
    return np.array([np.concatenate([parents, bare]) + first, np.concatenate([named, none])], np.int64)


def _flags(batch: pa.Table, thumbnails: str) -> np.ndarray:
    """bool [3, rows]: main image, https, has a resized form where one is asked for."""
    main = pc.fill_null(pc.equal(pc.utf8_lower(batch["is_main_image"]), "true"), False)
    https = pc.starts_with(pc.fill_null(batch["image_url"], ""), "https://")
    if thumbnails == "any":
        resized = np.ones(batch.num_rows, bool)
    else:
        urls, types = (batch[c].to_pylist() for c in ("image_url", "mime_type"))
        resized = np.fromiter((_resized(u or "", t, thumbnails) for u, t in zip(urls, types, strict=True)), bool)
    return np.stack([c.to_numpy().astype(bool) for c in (main, https)] + [resized])


def _resized(url: str, mime_type: str | None, thumbnails: str) -> bool:
    if not is_wikimedia(url):
        return thumbnails == "wikimedia"
    return why_no_thumbnail(url, mime_type) is None


def _no_hashes() -> np.ndarray:
    return np.empty((0, 2), np.uint64)


def columns_at(source: TableSource, positions: np.ndarray, columns: Sequence[str]) -> pa.Table:
    """`columns` of the rows at the sorted `positions`, nulls as empty strings."""
    parts: list[pa.Table] = []
    for rows in batches_at(source, positions, columns):
        filled = [pc.fill_null(rows[name], "") for name in columns]
        parts.append(pa.table(filled, names=list(columns)))
    return pa.concat_tables(parts) if parts else pa.table({name: pa.array([], pa.string()) for name in columns})


def batches_at(source: TableSource, positions: np.ndarray, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows at the sorted `positions`, a row group's at a time."""
    first = 0
    for batch in source.batches(columns):
        low, high = np.searchsorted(positions, [first, first + batch.num_rows])
        if high > low:
            yield batch.take(pa.array(positions[low:high] - first))
        first += batch.num_rows


def ranks(source: TableSource, positions: np.ndarray) -> np.ndarray:
    """int64 [positions]: the place of each row in the order of (page_title, page_url, record_id)."""
    keys = ["page_title", "page_url", "record_id"]
    rows = columns_at(source, positions, keys)
    place = np.empty(len(positions), np.int64)
    place[pc.sort_indices(rows, [(key, "ascending") for key in keys]).to_numpy()] = np.arange(len(positions))
    return place
