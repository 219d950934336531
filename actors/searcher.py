"""Exact nearest neighbours by inner product or cosine, the rows streaming past; one torch code for CPU and GPU.

A pass in float32 finds what can be among the k best: its scores are off by at most `bound`, so that whatever lies
below the k-th best score by more than that is out, for certain. What is left, a few rows a query, is scored again in
float64 from the vectors as they are stored. Equal vectors therefore get equal scores, and ties go by item id.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import torch

INNER_PRODUCT, COSINE = "inner_product", "cosine"
SCORES = (INNER_PRODUCT, COSINE)

_SCORES_AT_A_TIME = 1 << 23  # cells of a block's score matrix: 32 MB, of which half stays in a server's cache
_CPU_ROWS, _GPU_ROWS = 1 << 14, 1 << 17
_TILE = 512  # scores of which first only the highest is looked at: most hold nothing that passes
_PAIRS_AT_A_TIME = 8192  # scored in float64: 100 MB at 768 dimensions
_ROUNDING = 2.0**-24  # of float32
_ROWS = 1 << 16  # made float64 at a time

Ids = Callable[[np.ndarray], Sequence[str]]  # item ids of rows (int64), in their order


class Hits(NamedTuple):
    """The k best of each query: by query, then score from the highest, then item id; all of one length."""

    query: np.ndarray  # int64, place among the queries
    row: np.ndarray  # int64, as numbered by who called `add`
    score: np.ndarray  # float64
    item_id: list[str]


class BadRows(NamedTuple):
    """Rows that have no direction: they are in no result and are to be named by the caller."""

    not_finite: np.ndarray  # int64 rows with NaN or infinity
    zero: np.ndarray  # int64 rows that are zero everywhere


class Queries:
    """Query vectors, checked and on the device once; `Search` is begun with them as often as there are units."""

    def __init__(self, vectors: np.ndarray, *, score: str = INNER_PRODUCT, device: str = "auto") -> None:
        """Put the queries on the device.

        Args:
            vectors: [n, dim] float16, float32 or float64; finite and not zero.
            score: `inner_product` or `cosine` (both lengths divided out, in float64).
            device: `auto` (cuda if there is one, else cpu) or a device of torch's.

        Raises:
            ValueError: an unknown score, or vectors that are no matrix of such rows.
        """
        import torch

        if score not in SCORES:
            raise ValueError(f"score is {score!r}; allowed are {', '.join(SCORES)}")
        if vectors.ndim != 2 or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise ValueError(f"queries of shape {vectors.shape} must be rows of finite numbers, none of them all zero")
        torch.backends.cuda.matmul.allow_tf32 = False  # the bound is float32's
        self.device = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        self.cosine, self.vectors, self.dim = score == COSINE, vectors, vectors.shape[1]
        self.lengths = np.concatenate(
            [np.zeros(0), *(_lengths(vectors[at : at + _ROWS]) for at in range(0, len(vectors), _ROWS))]
        )
        self.tensor = torch.from_numpy(vectors.astype(np.float32)).to(self.device)
        if self.cosine:
            self.tensor /= torch.from_numpy(self.lengths.astype(np.float32)).to(self.device)[:, None]
        # Of a sum of `dim` products in any order (Higham, Accuracy and Stability, 3.1), one rounding for the query made
        # float32, two for each length divided out, times both lengths.
        terms = (self.dim + 5) * _ROUNDING
        self.bound = terms / (1 - terms) * (np.ones_like(self.lengths) if self.cosine else self.lengths)

    def __len__(self) -> int:
        return len(self.vectors)

    def exact(self, query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Scores [n] float64 of the queries at places `query` [n] with `vectors` [n, dim], pair by pair.

        Each is summed in the same order whatever stands beside it.
        """
        wide = vectors.astype(np.float64)
        made: np.ndarray = (self.vectors[query].astype(np.float64) * wide).sum(axis=1)
        return made / (self.lengths[query] * _lengths(vectors)) if self.cosine else made


class Search:
    """The k best rows for each query among blocks that are given one after the other."""

    def __init__(self, queries: Queries, *, k: int, ids: Ids) -> None:
        """Begin a search.

        Args:
            queries: what is looked for.
            k: how many a query; fewer if there are fewer rows.
            ids: gives the item ids of rows, asked only for the few that win or tie.

        Raises:
            ValueError: a k that is not positive.
        """
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        self._queries, self._k = queries, k
        self._found = _Candidates(len(queries), k, ids)
        self.rows_at_a_time = _CPU_ROWS if queries.device.type == "cpu" else _GPU_ROWS
        self._rooms: dict[str, torch.Tensor] = {}

    def add(self, vectors: np.ndarray, rows: np.ndarray) -> BadRows:
        """Look at a block, in pieces that fit the device.

        Args:
            vectors: [n, dim] float16, float32 or float64.
            rows: int64 [n], their numbers, to be found again by.
        """
        bad = [self._add(vectors[at : at + self.rows_at_a_time], rows[at : at + self.rows_at_a_time])
               for at in range(0, len(vectors), self.rows_at_a_time)]  # fmt: skip
        empty = np.zeros(0, np.int64)
        return BadRows(
            np.concatenate([empty, *(b.not_finite for b in bad)]), np.concatenate([empty, *(b.zero for b in bad)])
        )

    def finish(self) -> Hits:
        """The k best of everything that was given."""
        return self._found.finish()

    def _add(self, stored: np.ndarray, rows: np.ndarray) -> BadRows:
        import torch

        with torch.inference_mode():
            block = self._loaded(stored)
            lengths = torch.linalg.vector_norm(block, dim=1)
            good, bad = self._usable(stored, lengths, rows)
            if good is not None:
                stored, rows, lengths = stored[good], rows[good], lengths[torch.from_numpy(good).to(lengths.device)]
                block = self._loaded(stored)
            if not len(rows):
                return bad
            longest = 1.0
            if self._queries.cosine:
                block /= lengths[:, None]
            else:
                longest = float(lengths.max()) * (1 + self._queries.dim * _ROUNDING)
            at_once = max(1, _SCORES_AT_A_TIME // len(rows))
            for first in range(0, len(self._queries), at_once):
                some = slice(first, first + at_once)
                self._search(some, block, stored, rows=rows, longest=longest)
        return bad

    def _loaded(self, stored: np.ndarray) -> "torch.Tensor":
        """The rows on the device in float32, in memory that the next block takes over."""
        return self._room("block", *stored.shape).copy_(_tensor(stored))

    def _room(self, name: str, rows: int, columns: int) -> "torch.Tensor":
        """[rows, columns] float32 of memory that is kept: new pages for each block would cost a tenth of the time."""
        import torch

        if name not in self._rooms or self._rooms[name].numel() < rows * columns:
            self._rooms[name] = torch.empty(rows * columns, device=self._queries.device)
        return self._rooms[name][: rows * columns].view(rows, columns)

    def _usable(
        self, stored: np.ndarray, lengths: "torch.Tensor", rows: np.ndarray
    ) -> tuple[np.ndarray | None, BadRows]:
        """Which rows have a direction (None: all), and the others. A length that over- or underflows is looked at."""
        import torch

        none = np.zeros(0, np.int64)
        suspect = torch.logical_not(torch.isfinite(lengths) & (lengths > 0)).cpu().numpy()
        if not suspect.any():
            return None, BadRows(none, none)
        places = np.flatnonzero(suspect)
        finite = np.isfinite(stored[places]).all(axis=1)
        zero = ~stored[places].any(axis=1)
        if (finite & ~zero).any():
            place = int(rows[places[finite & ~zero][0]])
            raise ValueError(f"row {place}: its length {np.linalg.norm(stored[places[0]])} is out of float32's range")
        good = np.ones(len(rows), bool)
        good[places] = False
        return good, BadRows(rows[places[~finite]], rows[places[finite & zero]])

    def _search(
        self, some: slice, block: "torch.Tensor", stored: np.ndarray, *, rows: np.ndarray, longest: float
    ) -> None:
        import torch

        wanted = self._queries.tensor[some]
        scores = torch.mm(wanted, block.T, out=self._room("scores", len(wanted), len(block)))
        bound = self._queries.bound[some] * longest
        worst = self._found.worst[some] - bound
        if np.isneginf(worst).any() and len(rows) >= self._k:  # k rows of this block alone are at least this good
            kth = torch.topk(scores, self._k, dim=1, sorted=False).values.amin(dim=1).cpu().numpy().astype(np.float64)
            worst = np.maximum(worst, kth - 2 * bound)
        # Rounded down, so that float32 lets pass whatever float64 would.
        limit = np.nextafter(worst.astype(np.float32), np.float32(-np.inf))
        query, place = _passing(scores, torch.from_numpy(limit).to(scores.device))
        if len(query):
            query += some.start
            self._found.add(query, rows[place], self._score(stored, query, place))

    def _score(self, stored: np.ndarray, query: np.ndarray, place: np.ndarray) -> np.ndarray:
        pieces = [slice(at, at + _PAIRS_AT_A_TIME) for at in range(0, len(query), _PAIRS_AT_A_TIME)]
        return np.concatenate([self._queries.exact(query[piece], stored[place[piece]]) for piece in pieces])


class _Candidates:
    """What may be among the k best: few more than k a query, however many rows pass."""

    def __init__(self, queries: int, k: int, ids: Ids) -> None:
        self._k, self._ids, self._room = k, ids, queries * k
        self.worst = np.full(queries, -np.inf)  # float64: a row must reach this to be among the k best so far
        self._query, self._row, self._score = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        self._pending: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._waiting = 0

    def add(self, query: np.ndarray, row: np.ndarray, score: np.ndarray) -> None:
        self._pending.append((query, row, score))
        self._waiting += len(query)
        if self._waiting >= self._room:
            self._settle()
            if len(self._query) > 4 * self._room:  # many equal vectors: ids decide now, or they would fill the memory
                self._cut()

    def finish(self) -> Hits:
        self._settle()
        ids = self._cut()
        return Hits(self._query, self._row, self._score, ids)

    def _settle(self) -> None:
        """Sort by query and score, and drop what is below the k-th; ties with the k-th stay."""
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
        """Keep exactly the k best, ties by id; the ids of what is left."""
        ids = np.array(self._ids(self._row), object)
        names = np.unique(ids, return_inverse=True)[1] if len(ids) else np.zeros(0, np.int64)
        order = np.lexsort((names, -self._score, self._query))
        query = self._query[order]
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        chosen = order[rank < self._k]
        self._query, self._row, self._score = self._query[chosen], self._row[chosen], self._score[chosen]
        found: list[str] = ids[chosen].tolist()
        return found


def _passing(scores: "torch.Tensor", limit: "torch.Tensor") -> tuple[np.ndarray, np.ndarray]:
    """Where scores [queries, rows] reach the limit [queries]: places of queries and of rows, int64."""
    import torch

    whole = scores.shape[1] // _TILE
    tiles = scores[:, : whole * _TILE].unflatten(1, (whole, _TILE))
    query, tile = (
        torch.nonzero(tiles.amax(dim=2) >= limit[:, None], as_tuple=True) if whole else (limit[:0].long(),) * 2
    )
    inside, place = torch.nonzero(tiles[query, tile] >= limit[query, None], as_tuple=True)
    rest, last = torch.nonzero(scores[:, whole * _TILE :] >= limit[:, None], as_tuple=True)
    queries = torch.cat([query[inside], rest])
    rows = torch.cat([tile[inside] * _TILE + place, last + whole * _TILE])
    return queries.cpu().numpy(), rows.cpu().numpy()


def _lengths(vectors: np.ndarray) -> np.ndarray:
    """[n] float64."""
    wide = vectors.astype(np.float64)
    lengths: np.ndarray = np.sqrt((wide * wide).sum(axis=1))
    return lengths


def _tensor(stored: np.ndarray) -> "torch.Tensor":
    """A tensor over the same memory; torch warns of read-only memory (a mapped file), which is only read here."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable")
        return torch.from_numpy(stored)
