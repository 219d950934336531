"""Arrays of rating codes: pairs of item and target, merging of several ratings of a pair, arrays that grow in place."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.store.hashing import Hashes


def units_of(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each row's pair of item and target, numbered in the order of hashes, and one row of each pair."""
    _, first, unit = np.unique(pair_hashes(rows), return_index=True, return_inverse=True)
    return unit, first


def pair_hashes(rows: NDArray[Any]) -> Hashes:
    """Return the hash of each row's pair of item and target."""
    mixed: Hashes = rows["item"] + rows["target"].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed


class Growing:
    """Arrays of a maximum length, filled from the front; unused memory pages take no memory."""

    def __init__(self, most: int, **kinds: str) -> None:
        self._arrays = {name: np.empty(most, kind) for name, kind in kinds.items()}
        self.n = 0

    def add(self, **parts: NDArray[Any]) -> None:
        """Append a part to each array; all parts have the same length."""
        length = {len(part) for part in parts.values()}.pop()
        for name, part in parts.items():
            self._arrays[name][self.n : self.n + length] = part
        self.n += length

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The filled part of each array, by name."""
        return {name: array[: self.n] for name, array in self._arrays.items()}


def distinct_pairs(unit: NDArray[np.int64], rater: NDArray[np.int64], raters: int) -> NDArray[np.int64]:
    """Return int64[raters], the number of distinct pairs that each rater was asked about."""
    pairs = np.unique(unit * np.int64(max(raters, 1)) + rater)
    return np.bincount(pairs % max(raters, 1), minlength=raters)


def merged(
    unit: NDArray[np.int64],
    rater: NDArray[np.int64],
    sample: NDArray[np.int32],
    value: NDArray[np.int32],
    score: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Return one row per unit and rater, sorted: unit, rater, value of the lowest sample, mean score."""
    order = np.lexsort((sample, rater, unit))
    unit, rater, value, score = unit[order], rater[order], value[order], score[order]
    new = np.ones(len(unit), bool)
    new[1:] = (unit[1:] != unit[:-1]) | (rater[1:] != rater[:-1])
    starts = np.flatnonzero(new)
    if len(starts) < len(unit):
        scored = ~np.isnan(score)
        total = np.add.reduceat(np.where(scored, score, 0.0), starts)
        n = np.add.reduceat(scored.astype(np.int64), starts)
        score = np.divide(total, n, out=np.full(len(starts), np.nan), where=n > 0)
    return unit[starts].astype(np.int32), rater[starts].astype(np.int32), value[starts], score
