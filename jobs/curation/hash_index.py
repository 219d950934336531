"""Strings as 128-bit hashes, which take 16 B whatever the strings' length; equal hashes count as equal strings."""

import numpy as np
import pyarrow as pa

from jobs.store.hashing import hash_texts_128


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
