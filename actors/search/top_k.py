"""The k best of a stream of candidates, keeping little more than k per query in memory."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

Ids = Callable[[np.ndarray], Sequence[str]]  # returns the item ids of row numbers (int64)


class Hits(NamedTuple):
    """The k best rows of each query: by query, then descending score, then item id; all arrays have one length."""

    query: np.ndarray  # int64, positions among the queries
    row: np.ndarray  # int64, as numbered by the caller of `Candidates.add`
    score: np.ndarray  # float64
    item_id: list[str]


class Candidates:
    """Rows that may be among the k best; ties at the k-th place are kept until ids break them."""

    def __init__(self, queries: int, k: int, ids: Ids) -> None:
        """Start empty; `ids` returns rows' item ids and is called only for the few that win or tie."""
        self._k, self._ids, self._most = k, ids, queries * k
        # float64: the score that a row must reach to be among the k best so far. It only rises, in place, so a thread
        # that reads it during an update sees a valid limit.
        self.worst = np.full(queries, -np.inf)
        self._query, self._row, self._score = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        self._pending: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._waiting = 0

    def add(self, query: np.ndarray, row: np.ndarray, score: np.ndarray) -> None:
        """Consider rows [n] for the queries at positions `query` [n], with their exact scores [n] float64."""
        self._pending.append((query, row, score))
        self._waiting += len(query)
        if self._waiting >= self._most:
            self._settle()
            if len(self._query) > 4 * self._most:  # break ties now, since many equal vectors would fill the memory
                self._cut()

    def finish(self) -> Hits:
        """Return the k best of all rows."""
        self._settle()
        ids = self._cut()
        return Hits(self._query, self._row, self._score, ids)

    def _settle(self) -> None:
        """Sort by query and score, and drop rows below the k-th; ties with the k-th are kept."""
        parts = [(self._query, self._row, self._score), *self._pending]
        query, row, score = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        self._pending, self._waiting = [], 0
        order = np.lexsort((-score, query))
        query, row, score = query[order], row[order], score[order]
        starts = np.searchsorted(query, np.arange(len(self.worst)))
        ends = np.append(starts[1:], len(query))
        full = ends - starts >= self._k
        self.worst[full] = score[starts[full] + self._k - 1]
        keep = score >= self.worst[query]
        self._query, self._row, self._score = query[keep], row[keep], score[keep]

    def _cut(self) -> list[str]:
        """Keep exactly the k best, with ties broken by id; return their ids."""
        ids = np.array(self._ids(self._row), object)
        names = np.unique(ids, return_inverse=True)[1]
        order = np.lexsort((names, -self._score, self._query))
        query = self._query[order]
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        chosen = order[rank < self._k]
        self._query, self._row, self._score = self._query[chosen], self._row[chosen], self._score[chosen]
        kept: list[str] = ids[chosen].tolist()
        return kept
