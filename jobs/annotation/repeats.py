"""The choice among rows with the same key. Keys are compared by hash, with 40 bytes of memory per row."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.store.hashing import hash_texts_128, joined_columns

RULES = ("last", "first", "sample", "refuse")


class Repeats:
    """Collector of the keys of rows, in order, which then decides which row of each key to keep.

    `last` keeps the row with the latest time (if times are equal or missing, the last in the input), `first` the
    earliest; `sample` keeps all and numbers them from 0 in that order.
    """

    def __init__(self, key: Sequence[str]) -> None:
        self.key = list(key)
        self._hashes: list[np.ndarray] = []
        self._times: list[np.ndarray] = []

    def add(self, rows: pa.Table, times: pa.ChunkedArray | None) -> None:
        """Add the next rows; `times` are seconds since 1970, null if unknown."""
        self._hashes.append(hash_texts_128(joined_columns(rows, self.key)))
        if times is None:
            self._times.append(np.full(rows.num_rows, -np.inf))
        else:
            self._times.append(pc.fill_null(times, -np.inf).to_numpy().astype(np.float64))

    def ranks(self) -> np.ndarray:
        """Return int64 [rows]: each row's number among those with its key, from 0, by time and then by input."""
        order, first = self._groups()
        numbers = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = numbers
        return ranks

    def keeps(self, rule: str) -> np.ndarray:
        """Return bool [rows]: whether `rule` keeps the row; `sample` keeps all."""
        order, first = self._groups()
        kept = np.ones(len(order), bool)
        if rule in ("first", "last") and len(order):
            stays = first if rule == "first" else np.append(first[1:], True)
            kept[order] = stays
        return kept

    def keeps_with(self, rule: str, annotations: np.ndarray) -> np.ndarray:
        """Return bool [rows]: whether the row belongs to the annotation that `rule` keeps.

        All rows with one key and one annotation stay together.

        Args:
            annotations: int64 [rows], a number for each annotation.
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
        """Return the index of the first row whose key occurred before; None if all keys differ."""
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
