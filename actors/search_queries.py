"""A search's settings, its queries on the device, and the k best rows of each.

`Queries` has an upper bound of the error of each of the two products that they are used in.

A search multiplies in float32 and, on CPUs with bfloat16 instructions, first in bfloat16, which is several times as
fast. Both multiply the directions d = q / |q| of the queries by rows x, after rounding both (to d' and x'). The exact
score d.x and the computed score s' differ by at most

    |d.x - s'|  <=  |d - d'| |x|  +  |d'| |x - x'|  +  g |d'| |x'|  +  u

The terms are:

- |d - d'|, the rounding of the query: computed for each query in float64.
- |x - x'| <= r |x|, the rounding of the row; r is the unit roundoff, 2^-8 for bfloat16 and 2^-24 for float32.
- g = n e / (1 - n e), the rounding of a float32 sum of n products in any order (Higham, Accuracy and Stability of
  Numerical Algorithms, 2nd ed., section 3.1). e is 2^-23 instead of 2^-24, because some hardware truncates. For cosine,
  rows are divided by their length, which is another such sum.
- u < n 2^-125, products that underflow to zero. `actors.searcher` puts no row shorter than 2^-50 or longer than 2^60
  through the products, so nothing overflows, and the factor 1 + 2^-10 on the bound covers u.

bfloat16 products are also rounded when stored. Rounding is monotonic, so a comparison with a limit that is itself a
bfloat16 number stays exact. Only a limit computed from stored scores must allow for it (`Product.rounding`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from actors.devices import enable_onednn, find_device
from actors.errors import SettingError
from actors.settings import RuntimeOnly, Settings

if TYPE_CHECKING:
    import torch


INNER_PRODUCT, COSINE = "inner_product", "cosine"
SCORES = (INNER_PRODUCT, COSINE)
SHORTEST, LONGEST = 2.0**-50, 2.0**60  # lengths of rows that go through the products
_FLOAT32, _BFLOAT16, _SUM = 2.0**-24, 2.0**-8, 2.0**-23
_SLACK = 1 + 2.0**-10
_ROWS = 1 << 16  # rows converted to float64 at a time
Ids = Callable[[np.ndarray], Sequence[str]]  # returns the item ids of row numbers (int64)


@dataclass
class SearchSettings(Settings):
    """Settings of a search for nearest neighbours.

    Raises:
        ValueError: k below 1, or an unknown score.
    """

    k: int = 10  # neighbours of each query
    score: str = INNER_PRODUCT  # inner_product, or cosine: the vectors' lengths divided out
    device: RuntimeOnly[str] = "auto"  # rarely: cuda if there is one, else cpu

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise SettingError("must be at least 1", "k", self.k)
        if self.score not in SCORES:
            raise SettingError(f"must be one of {', '.join(SCORES)}", "score", self.score)


class Product(NamedTuple):
    """The queries' side of one of the two products."""

    directions: "torch.Tensor"  # [n, dim]
    bound: np.ndarray  # [n] float64, the largest error of a score with a row of length 1
    rounding: float  # relative error of stored scores


class Queries:
    """Query vectors, checked and copied to the device once; used by each unit's `Search`."""

    def __init__(self, vectors: np.ndarray, settings: SearchSettings, *, coarse: bool | None = None) -> None:
        """Copy the queries to the device.

        Args:
            vectors: [n, dim] float16, float32 or float64; finite and not zero.
            settings: k, the score (`cosine` divides by both lengths, in float64) and the device.
            coarse: whether a bfloat16 product comes first; None: only if the CPU has instructions for it. The result
                does not depend on it.

        Raises:
            ValueError: an unknown device, or vectors with the wrong shape or bad rows.
        """
        import torch

        enable_onednn()
        if vectors.ndim != 2 or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise ValueError(f"queries of shape {vectors.shape} must be rows of finite numbers, none of them all zeros")
        torch.backends.cuda.matmul.allow_tf32 = False  # the bound holds for float32, not for TF32
        self.settings, self.device = settings, find_device(settings.device)
        self.cosine, self.vectors, self.dim = settings.score == COSINE, vectors, vectors.shape[1]
        self.lengths = np.concatenate(
            [np.zeros(0), *(lengths_of(vectors[start : start + _ROWS]) for start in range(0, len(vectors), _ROWS))]
        )
        # The factor between a score and that of a query of length 1.
        self.scale = np.ones_like(self.lengths) if self.cosine else self.lengths
        self.fine = self._product(torch.float32)
        if coarse is None:
            coarse = self.device.type == "cpu" and multiplies_bfloat16()
        self.coarse = self._product(torch.bfloat16) if coarse else None

    def __len__(self) -> int:
        return len(self.vectors)

    def exact(self, query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return the scores [n] float64 of pairs: the query at position `query[i]` with `vectors[i]`.

        Each is summed in the same order, so that equal vectors get equal scores.
        """
        wide = vectors.astype(np.float64)
        scores: np.ndarray = (self.vectors[query].astype(np.float64) * wide).sum(axis=1)
        return scores / (self.lengths[query] * lengths_of(vectors)) if self.cosine else scores

    def _product(self, kind: "torch.dtype") -> Product:
        import torch

        rounded = torch.empty(self.vectors.shape, dtype=kind)
        error, length = np.empty(len(self)), np.empty(len(self))  # |d - d'| and |d'|
        for start in range(0, len(self), _ROWS):
            part = slice(start, start + _ROWS)
            directions = self.vectors[part].astype(np.float64) / self.lengths[part, None]
            rounded[part] = torch.from_numpy(directions)
            wide = rounded[part].double().numpy()
            error[part], length[part] = lengths_of(directions - wide), lengths_of(wide)
        rounding = _FLOAT32 if kind == torch.float32 else _BFLOAT16
        terms = (2 * self.dim + 16) * _SUM  # the sum and, for cosine, the sum of the row's length
        bound = error + length * (rounding + terms / (1 - terms)) * _SLACK
        return Product(rounded.to(self.device), bound * _SLACK, rounding)


def lengths_of(vectors: np.ndarray) -> np.ndarray:
    """Return the lengths [n] float64 of vectors [n, dim]."""
    wide = vectors.astype(np.float64)
    lengths: np.ndarray = np.sqrt((wide * wide).sum(axis=1))
    return lengths


@lru_cache(maxsize=1)
def multiplies_bfloat16() -> bool:
    """Return whether this CPU has bfloat16 products and torch sums them in float32, as the error bound assumes."""
    import torch

    flags = Path("/proc/cpuinfo")
    if not flags.exists() or "avx512_bf16" not in flags.read_text():
        return False
    ones = torch.ones(64, 4096, dtype=torch.bfloat16)  # a sum kept in bfloat16 would stay at 256
    return bool((torch.mm(ones, ones.T) == 4096).all())


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
