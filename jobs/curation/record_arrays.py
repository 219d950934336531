"""The columns that curation decides on, as compact arrays over all rows of a table in its order.

Memory per row: 4 B each for its page, its image URL and its picture's id (numbers that are equal for equal strings),
1 B for its split, 4 B of flags, and 1 B per method; per distinct picture, 16 B for its hash. Hashes and their order
take more while the table is read: 155 B per row at the peak, if all rows have different pictures. Strings are hashed to
128 bits and not kept; equal hashes count as equal strings. If strings must be ordered (`ranks`), the few rows concerned
are read again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.fetching.wikimedia import is_wikimedia, why_no_thumbnail
from jobs.errors import InputError
from jobs.runtime.tasks import Tasks
from jobs.store.hashing import hash_texts_128, joined_columns

if TYPE_CHECKING:
    from jobs.runtime.selection.exclusions import ExclusionFilter
    from jobs.store.reading import TableSource

PART = 1 << 18  # rows that a task reads


class HashIndex:
    """Indices of strings in a sorted list of their 128-bit hashes."""

    def __init__(self, hashes: np.ndarray) -> None:
        """Index `hashes`, uint64 [strings, 2], distinct and sorted."""
        self._hashes = np.ascontiguousarray(hashes)
        first = hashes[:, 0]
        _, counts = np.unique(first, return_counts=True)
        self._run = int(counts.max(initial=0))  # hashes that share their first 64 bits: 1, barring a rare collision

    def __len__(self) -> int:
        return len(self._hashes)

    def subset(self, indices: np.ndarray) -> "HashIndex":
        """Return an index of the strings at the sorted `indices` only."""
        return HashIndex(self._hashes[indices])

    def find(self, strings: pa.ChunkedArray) -> np.ndarray:
        """Return int64 [strings]: the index of each string, -1 if it is missing."""
        return self.find_hashes(hash_texts_128(strings))

    def find_hashes(self, wanted: np.ndarray) -> np.ndarray:
        """Return int64 [wanted]: the index of each of the hashes uint64 [wanted, 2], -1 if it is missing."""
        indices = np.full(len(wanted), -1, np.int64)
        first = np.searchsorted(self._hashes[:, 0], wanted[:, 0])
        for step in range(self._run):
            candidate = np.minimum(first + step, len(self._hashes) - 1)
            hit = (self._hashes[candidate] == wanted).all(axis=1)
            indices[hit] = candidate[hit]
        return indices


def unique_codes(hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct rows of `hashes` uint64 [rows, 2], and int32 [rows]: the index of each row in them."""
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    new = np.ones(len(order), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    codes = np.empty(len(order), np.int32)
    codes[order] = np.cumsum(new, dtype=np.int32) - 1
    return ordered[new], codes


UNKNOWN = "unknown"  # for a missing method or split
MAX_METHODS = 64  # each takes a byte per row
THUMBNAILS = ("any", "wikimedia", "all")
PAGE_URL, PAGE_TITLE = "page_url", "page_title"
# Value of page_rule.by -> the columns that identify a page.
PAGES = {PAGE_URL: [PAGE_URL], PAGE_TITLE: ["language", PAGE_TITLE]}
CREDIT = "credited_method"
_COLUMNS = ["image_url", "image_id", "mime_type", "is_main_image", "split", "methods", CREDIT]


@dataclass(frozen=True)
class Rows:
    """Arrays over the rows of a table, in its order; `pictures` indexes the distinct image_ids."""

    methods: tuple[str, ...]
    splits: tuple[str, ...]
    member: np.ndarray  # bool [methods, rows]; a credited row belongs to the credited method alone
    split: np.ndarray  # uint8 [rows], index in `splits`
    page: np.ndarray  # int32 [rows], equal for equal page URLs, or for equal languages and titles
    url: np.ndarray  # int32 [rows], equal for equal image URLs
    image: np.ndarray  # int32 [rows], index in `pictures`
    main: np.ndarray  # bool [rows]
    https: np.ndarray  # bool [rows]
    thumbnail: np.ndarray  # bool [rows]
    excluded: np.ndarray  # bool [rows], by image_id or image URL
    pictures: HashIndex

    def __len__(self) -> int:
        return len(self.split)


def read_rows(
    source: "TableSource",
    *,
    thumbnails: str,
    exclusion_filter: "ExclusionFilter | None" = None,
    page: str = PAGE_URL,
    tasks: Tasks | None = None,
) -> Rows:
    """Read the narrow columns of a table of records in one pass.

    Args:
        thumbnails: URLs that must have a resized form: none with `any`, those of Wikimedia's file server with
            `wikimedia`, every URL with `all`.
        exclusion_filter: the list of exclusions.
        page: what identifies a page, a key of `PAGES`.
        tasks: where the parts of the table are read; None: in this process.

    Raises:
        InputError: there are more methods or splits than a byte per row can represent.
    """
    pages, urls, images = [_no_hashes()], [_no_hashes()], [_no_hashes()]
    flags, excluded = [np.empty((3, 0), bool)], [np.empty(0, bool)]
    splits, methods = _splits(), _methods()
    split, memberships = [np.empty(0, np.uint8)], [np.empty((2, 0), np.int64)]
    rows = 0
    shared = thumbnails, page, exclusion_filter and exclusion_filter.copy()
    for part in (tasks or Tasks()).map(_read_part, ((part,) for part in source.parts(PART)), shared=shared):
        pages.append(part.page)
        urls.append(part.url)
        images.append(part.image)
        flags.append(part.flags)
        excluded.append(part.excluded)
        if exclusion_filter is not None:
            exclusion_filter.matched.update(part.matched)
        split.append(splits.codes_of(part.splits)[part.split].astype(np.uint8))
        row, method = part.memberships
        memberships.append(np.array([row + rows, methods.codes_of(part.methods)[method]]))
        rows += len(part.split)
    page_code = unique_codes(np.concatenate(pages))[1]
    del pages
    url = unique_codes(np.concatenate(urls))[1]
    del urls
    pictures, image = unique_codes(np.concatenate(images))
    member = np.zeros((len(methods.names), rows), bool)
    row, method = np.concatenate(memberships, axis=1)
    member[method, row] = True
    main, https, thumbnail = np.concatenate(flags, axis=1)
    return Rows(
        methods=tuple(methods.names),
        splits=tuple(splits.names),
        member=member,
        split=np.concatenate(split),
        page=page_code,
        url=url,
        image=image,
        main=main,
        https=https,
        thumbnail=thumbnail,
        excluded=np.concatenate(excluded),
        pictures=HashIndex(pictures),
    )


@dataclass(frozen=True)
class _RowsPart:
    """A part of a table: hashes in place of the codes of `Rows`.

    Attributes:
        page, url, image: uint64 [rows, 2].
        flags: bool [3, rows], see `_flags`.
        excluded: bool [rows].
        splits, split: the names, and int64 [rows] indices in them.
        methods, memberships: the names, and int64 [2, pairs] of (row, index in them).
        matched: entry of the exclusions -> rows that it matched.
    """

    page: np.ndarray
    url: np.ndarray
    image: np.ndarray
    flags: np.ndarray
    excluded: np.ndarray
    splits: list[str]
    split: np.ndarray
    methods: list[str]
    memberships: np.ndarray
    matched: Mapping[str, int]


def _read_part(
    thumbnails: str, page: str, exclusion_filter: "ExclusionFilter | None", source: "TableSource"
) -> _RowsPart:
    """Read a part of a table of records; see `read_rows`."""
    columns = [*PAGES[page], *_COLUMNS]
    batch = pa.concat_tables(source.by_object(columns))
    splits, methods = _splits(), _methods()
    excluded = np.zeros(batch.num_rows, bool)
    if exclusion_filter is not None:
        excluded = exclusion_filter.mask(batch["image_id"]) | exclusion_filter.mask(batch["image_url"])
    return _RowsPart(
        page=hash_texts_128(joined_columns(batch, PAGES[page])),
        url=hash_texts_128(batch["image_url"]),
        image=hash_texts_128(batch["image_id"]),
        flags=_flags(batch, thumbnails),
        excluded=excluded,
        split=splits.codes(pc.fill_null(batch["split"], "")),
        splits=splits.names,
        memberships=_memberships(batch, methods),
        methods=methods.names,
        matched=exclusion_filter.take_matched() if exclusion_filter is not None else {},
    )


class Categories:
    """Numbers for the few distinct words of a column, in order of first appearance."""

    def __init__(self, column: str, maximum: int) -> None:
        self.names: list[str] = []
        self._column, self._maximum = column, maximum
        self._number: dict[str, int] = {}

    def codes(self, words: pa.ChunkedArray) -> np.ndarray:
        """Return int64 [words]: the number of each word; an empty word counts as `unknown`.

        Raises:
            InputError: there are too many distinct words.
        """
        coded = words.combine_chunks().dictionary_encode()
        return self.codes_of(coded.dictionary.to_pylist())[coded.indices.to_numpy(zero_copy_only=False)]

    def codes_of(self, words: Sequence[str]) -> np.ndarray:
        """Return int64 [words or 1]: the number of each word, as `codes`."""
        return np.array([self._code(word or UNKNOWN) for word in words] or [0], np.int64)

    def _code(self, word: str) -> int:
        if word not in self._number:
            if len(self.names) == self._maximum:
                raise InputError(f"more than {self._maximum} values of {self._column} (the last is {word!r})")
            self._number[word] = len(self.names)
            self.names.append(word)
        return self._number[word]


def _splits() -> Categories:
    return Categories("split", 256)


def _methods() -> Categories:
    return Categories("method", MAX_METHODS)


def _memberships(batch: pa.Table, methods: Categories) -> np.ndarray:
    """Return int64 [2, pairs] of (row, method): its credited method alone, else its methods, else `unknown`."""
    column, credits = batch["methods"].combine_chunks(), pc.fill_null(batch[CREDIT], "")
    is_credited = pc.not_equal(credits, "").to_numpy().astype(bool)
    parents = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    is_listed = ~is_credited[parents]
    (alone,) = np.nonzero(is_credited | (lengths == 0))
    listed = pa.chunked_array([column.flatten().filter(pa.array(is_listed))], pa.string())
    codes = methods.codes(listed), methods.codes(credits.take(pa.array(alone)))
    return np.array([np.concatenate([parents[is_listed], alone]), np.concatenate(codes)], np.int64)


def _flags(batch: pa.Table, thumbnails: str) -> np.ndarray:
    """Return bool [3, rows]: main image, https, has a resized form if it must have one."""
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


def columns_at(source: "TableSource", positions: np.ndarray, columns: Sequence[str]) -> pa.Table:
    """Return `columns` of the rows at the sorted `positions`, nulls as empty strings."""
    parts: list[pa.Table] = []
    for rows in batches_at(source, positions, columns):
        filled = [pc.fill_null(rows[name], "") for name in columns]
        parts.append(pa.table(filled, names=list(columns)))
    return pa.concat_tables(parts) if parts else pa.table({name: pa.array([], pa.string()) for name in columns})


def batches_at(source: "TableSource", positions: np.ndarray, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows at the sorted `positions`, one row group at a time."""
    first = 0
    for batch in source.batches(columns):
        low, high = np.searchsorted(positions, [first, first + batch.num_rows])
        if high > low:
            yield batch.take(pa.array(positions[low:high] - first))
        first += batch.num_rows


def ranks(source: "TableSource", positions: np.ndarray) -> np.ndarray:
    """Return int64 [positions]: the rank of each row in the order of (page_title, page_url, record_id)."""
    keys = ["page_title", "page_url", "record_id"]
    rows = columns_at(source, positions, keys)
    rank = np.empty(len(positions), np.int64)
    rank[pc.sort_indices(rows, [(key, "ascending") for key in keys]).to_numpy()] = np.arange(len(positions))
    return rank
