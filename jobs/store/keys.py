"""Duplicate keys, in one table or across several, detected by 64-bit hashes.

The hashes are compared one part at a time, so that memory does not grow with the number of rows; the keys themselves
are compared where hashes are equal.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.errors import InputError
from jobs.store.files.spool import Spool
from jobs.store.hashing import Hashes, hash_texts, joined_columns
from jobs.store.reading import TableSource
from jobs.store.run_files import limit_of
from jobs.tables import table

HASHES_PER_PART = 20_000_000  # 200 MB, including the numbers of their tables
HELD = np.dtype([("hash", "u8"), ("table", "u2")])
SUSPECTS_PER_PASS = 1000
MAX_SPAN = 2**40  # largest range of codes before they are renumbered; another factor of millions then fits 64 bits
Values = tuple[str, ...]  # values of the key columns in one row


def duplicate_keys(source: TableSource, key: Sequence[str]) -> dict[Values, int]:
    """Return the keys that occur more than once in a table, with the number of their occurrences."""
    hashed = ((0, key_hashes(batch, key)) for batch in source.batches(key))
    repeated = np.concatenate([np.zeros(0, np.uint64), *_repeated_hashes(hashed, source.rows)])
    if not len(repeated):
        return {}
    occurrences: Counter[Values] = Counter()
    for batch in source.batches(key):
        rows = batch.filter(pa.array(np.isin(key_hashes(batch, key), repeated)))
        occurrences.update(zip(*(rows[name].to_pylist() for name in key), strict=True))
    return {values: n for values, n in occurrences.items() if n > 1}


def key_hashes(batch: pa.Table, key: Sequence[str]) -> Hashes:
    """Return uint64[rows]: a hash of the key columns of each row."""
    return hash_texts(joined_columns(batch, key))


@dataclass(frozen=True)
class SharedKey:
    """A key that several tables have, and the first two of these tables."""

    key: dict[str, Any]
    first: TableSource
    second: TableSource

    @property
    def trial(self) -> TableSource | None:
        """The table with the smaller `limit=`; None if the limits are equal or absent."""
        limits = limit_of(self.first.uri), limit_of(self.second.uri)
        return None if limits[0] == limits[1] else (self.first, self.second)[limits[1] < limits[0]]


def refuse_shared_keys(sources: Sequence[TableSource], *, groups: Sequence[str], row: str) -> None:
    """Refuse tables of the same kind that have the same primary key, since both rows would count.

    Args:
        groups: see `shared_key`.
        row: what a row represents, for the message.

    Raises:
        InputError: two tables have the same key; the message names both, and says which of them is a trial run.
    """
    shared = shared_key(sources, table(sources[0].name).key, groups=groups) if len(sources) > 1 else None
    if shared is not None:
        key = ", ".join(f"{name}={value}" for name, value in shared.key.items() if value != "")
        trial = shared.trial
        mend = (
            f"{trial.uri} is a trial run (limit={limit_of(trial.uri):.0f}): leave it out"
            if trial
            else "name one of the two tables, or report each separately"
        )
        why = f"has a {row} with the same key as one in {shared.second.uri} ({key}); {mend}"
        raise InputError(why, key=sources[0].name, value=shared.first.uri)


def shared_key(sources: Sequence[TableSource], key: Sequence[str], *, groups: Sequence[str]) -> SharedKey | None:
    """Return a key that several of the tables have; None if there is none.

    Args:
        groups: columns with few distinct values that rows with the same key share, such as the raters' names. They are
            read first, and only rows whose values occur in several tables are hashed; if each table has one rater,
            there are no such rows.
    """
    shared, rows = _shared_groups(sources, groups)
    hashed = (
        (number, key_hashes(batch, key))
        for number, source in enumerate(sources)
        for batch in _rows_in_shared(source, key, groups, shared)
    )
    for suspects in _repeated_hashes(hashed, rows, across=True) if shared else ():
        for start in range(0, len(suspects), SUSPECTS_PER_PASS):
            batch = suspects[start : start + SUSPECTS_PER_PASS]
            if (key_found := _compare(sources, key, groups=groups, shared=shared, suspects=batch)) is not None:
                return key_found
    return None


def _repeated_hashes(hashed: Iterable[tuple[int, Hashes]], rows: int, *, across: bool = False) -> Iterator[Hashes]:
    """Yield the hashes that occur more than once, one part of them at a time, ascending.

    Args:
        hashed: (number of a table, uint64[n]), table after table; spooled to a temporary folder, 10 bytes per hash.
        rows: the number of hashes.
        across: yield only hashes that occur in more than one table.
    """
    parts = max(1, -(-rows // HASHES_PER_PART))
    with Spool("keys") as spool:
        paths = [spool.path / str(part) for part in range(parts)]
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("wb")) for path in paths]
            for number, hashes in hashed:
                held = np.empty(len(hashes), HELD)
                held["hash"], held["table"] = hashes, number
                part = hashes % np.uint64(parts)
                for number_of_part, file in enumerate(files):
                    file.write(held[part == number_of_part].tobytes())
        for path in paths:
            held = np.fromfile(path, HELD)
            held = held[np.argsort(held["hash"], kind="stable")]  # keeps the order of tables among equal hashes
            repeats = held["hash"][1:] == held["hash"][:-1]
            if across:
                repeats &= held["table"][1:] != held["table"][:-1]
            yield np.unique(held["hash"][1:][repeats])


def _shared_groups(sources: Sequence[TableSource], groups: Sequence[str]) -> tuple[set[Values], int]:
    """Return the values of `groups` that occur in several tables, and the number of rows that have them."""
    rows: Counter[Values] = Counter()
    tables: dict[Values, set[int]] = defaultdict(set)
    for number, source in enumerate(sources):
        for batch in source.batches(groups, dictionaries=groups):
            values, code = _group(batch, groups)
            for value, n in zip(values, np.bincount(code, minlength=len(values)).tolist(), strict=True):
                rows[value] += n
                tables[value].add(number)
    shared = {value for value, held in tables.items() if len(held) > 1}
    return shared, sum(rows[value] for value in shared)


def _group(batch: pa.Table, groups: Sequence[str]) -> tuple[list[Values], NDArray[np.int64]]:
    """Return the distinct values of `groups` in a batch, and int64[rows], the index of each row's value among them."""
    if not batch.num_rows:
        return [], np.zeros(0, np.int64)
    code, span = np.zeros(batch.num_rows, np.int64), 1
    for name in groups:
        whole = batch[name].combine_chunks()
        coded = whole if isinstance(whole, pa.DictionaryArray) else pc.dictionary_encode(whole)
        code, span = code * len(coded.dictionary) + coded.indices.to_numpy(), span * len(coded.dictionary)
        if span > MAX_SPAN:
            _, code = np.unique(code, return_inverse=True)
            span = batch.num_rows
    _, first, code = np.unique(code, return_index=True, return_inverse=True)
    chosen = batch.select(list(groups)).take(pa.array(first))
    return list(zip(*(chosen[name].to_pylist() for name in groups), strict=True)), code


def _rows_in_shared(
    source: TableSource, key: Sequence[str], groups: Sequence[str], shared: set[Values]
) -> Iterator[pa.Table]:
    """Yield the columns of the key and of `groups`, for the rows whose values of `groups` are shared."""
    for batch in source.batches(list(dict.fromkeys([*key, *groups])), dictionaries=groups):
        values, code = _group(batch, groups)
        chosen = np.array([value in shared for value in values], bool)
        if chosen.any():
            yield batch.filter(pa.array(chosen[code]))


def _compare(
    sources: Sequence[TableSource],
    key: Sequence[str],
    *,
    groups: Sequence[str],
    shared: set[Values],
    suspects: Hashes,
) -> SharedKey | None:
    """Return the first key that occurs in two tables, among keys with one of the hashes `suspects`."""
    held: dict[Values, TableSource] = {}
    for source in sources:
        for rows in _rows_in_shared(source, key, groups, shared):
            hit = rows.filter(pa.array(np.isin(key_hashes(rows, key), suspects)))
            for values in zip(*(hit[name].to_pylist() for name in key), strict=True):
                other = held.setdefault(values, source)
                if other is not source:
                    return SharedKey(dict(zip(key, values, strict=True)), other, source)
    return None
