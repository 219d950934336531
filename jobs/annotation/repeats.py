"""Rows that have one key: which of them stays. Hashes decide, 40 bytes a row, so that millions of rows fit."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.store.hashing import hash_texts_128, joined_columns

RULES = ("last", "first", "sample", "refuse")


class Repeats:
    """Collects the keys of rows in order, then says which row of each key stays.

    `last` keeps the row of the latest time (of equal or absent ones the last in the input), `first` the earliest;
    `sample` keeps all and numbers them from 0 in that order.
    """

    def __init__(self, key: Sequence[str]) -> None:
        self.key = list(key)
        self._hashes: list[np.ndarray] = []
        self._times: list[np.ndarray] = []

    def add(self, rows: pa.Table, times: pa.ChunkedArray | None) -> None:
        """Take the next rows; `times` are seconds, null where unknown."""
        self._hashes.append(hash_texts_128(joined_columns(rows, self.key)))
        unknown = np.full(rows.num_rows, -np.inf)
        known = unknown if times is None else pc.fill_null(times, -np.inf).to_numpy().astype(np.float64)
        self._times.append(known)

    def ranks(self) -> np.ndarray:
        """int64 [rows]: the place of each row among those of its key, in order of time and input, from 0."""
        order, first = self._groups()
        places = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = places
        return ranks

    def keeps(self, rule: str) -> np.ndarray:
        """bool [rows]: whether the row stays under `rule`; all do under `sample`."""
        order, first = self._groups()
        kept = np.ones(len(order), bool)
        if rule in ("first", "last") and len(order):
            stays = first if rule == "first" else np.append(first[1:], True)
            kept[order] = stays
        return kept

    def keeps_with(self, rule: str, annotations: np.ndarray) -> np.ndarray:
        """bool [rows]: whether the row is of the annotation that stays; `annotations` int64 [rows] tells them apart.

        All rows of one key that stem from one annotation stay together.
        """
        order, first = self._groups()
        kept = np.ones(len(order), bool)
        if len(order):
            group = np.cumsum(first) - 1
            edges = np.flatnonzero(first) if rule == "first" else np.append(np.flatnonzero(first)[1:], len(order)) - 1
            ordered = annotations[order]
            kept[order] = ordered == ordered[edges][group]
        return kept

    def first_repeat(self) -> int | None:
        """The place of the first row whose key an earlier one has."""
        order, first = self._groups()
        if first.all():
            return None
        earliest = np.minimum.reduceat(order, np.flatnonzero(first))[np.cumsum(first) - 1]
        return int(order[order != earliest].min())

    def _groups(self) -> tuple[np.ndarray, np.ndarray]:
        if not self._hashes:
            return np.empty(0, np.int64), np.empty(0, bool)
        both = np.concatenate(self._hashes)
        order = np.lexsort((np.arange(len(both)), np.concatenate(self._times), both[:, 1], both[:, 0]))
        ordered = both[order]
        return order, np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
