"""Queries ready to be multiplied with rows, and how far off each of the two products can be.

The product in float32 is always there. On CPUs that multiply bfloat16 a coarse one comes before it, several times as
fast. Both are of directions d = q / |q|, kept rounded (d'), with rows x, rounded too (x'). For the score in exact
arithmetic and the one that is computed, s',

    |d.x - s'|  <=  |d - d'| |x|  +  |d'| |x - x'|  +  g |d'| |x'|  +  u

where |d - d'| is computed here, in float64, for each query; |x - x'| <= r |x| with r the unit roundoff of x' (2^-8 for
bfloat16, which keeps eight bits); g bounds the rounding of a float32 sum of n products in any order (Higham, Accuracy
and Stability of Numerical Algorithms, 3.1: n e / (1 - n e)), with e = 2^-23 in place of 2^-24 for hardware that
truncates; and u, what is flushed to zero, is less than n 2^-125. Where rows are divided by their length (cosine), that
length is another sum of n squares. Rows shorter than 2^-50 or longer than 2^60 are not put through either product
(`searcher`), so that no square or product overflows and u is nothing beside the slack of 2^-10 that is left on r.

bfloat16 scores are rounded once more, when they are stored. That rounding never changes an order, so that a limit
which is itself a bfloat16 number stays exact; only where a limit is drawn from such scores is it counted.
"""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from actors.devices import find_device

if TYPE_CHECKING:
    import torch

INNER_PRODUCT, COSINE = "inner_product", "cosine"
SCORES = (INNER_PRODUCT, COSINE)
SHORTEST, LONGEST = 2.0**-50, 2.0**60  # of rows that go through the products

_FLOAT32, _BFLOAT16, _SUM = 2.0**-24, 2.0**-8, 2.0**-23
_SLACK = 1 + 2.0**-10
_ROWS = 1 << 16  # made float64 at a time


class Product(NamedTuple):
    """One of the two products: directions [n, dim], and the greatest error [n] float64 for a row of length 1."""

    directions: "torch.Tensor"
    bound: np.ndarray
    rounding: float  # relative, of the scores when they are stored


class Queries:
    """Query vectors, checked and on the device once; a search is begun with them as often as there are units."""

    def __init__(
        self, vectors: np.ndarray, *, score: str = INNER_PRODUCT, device: str = "auto", coarse: bool | None = None
    ) -> None:
        """Put the queries on the device.

        Args:
            vectors: [n, dim] float16, float32 or float64; finite and not zero.
            score: `inner_product` or `cosine` (both lengths divided out, in float64).
            device: `auto` (cuda if there is one, else cpu) or a device of torch's.
            coarse: whether a product in bfloat16 comes first; None where the CPU has instructions for it. The result
                is the same.

        Raises:
            ValueError: an unknown score or device, or vectors that are no matrix of such rows.
        """
        import torch

        if score not in SCORES:
            raise ValueError(f"score is {score!r}; allowed are {', '.join(SCORES)}")
        if vectors.ndim != 2 or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise ValueError(f"queries of shape {vectors.shape} must be rows of finite numbers, none of them all zero")
        torch.backends.cuda.matmul.allow_tf32 = False  # the bound is float32's
        self.device = find_device(device)
        self.cosine, self.vectors, self.dim = score == COSINE, vectors, vectors.shape[1]
        self.lengths = np.concatenate(
            [np.zeros(0), *(lengths_of(vectors[at : at + _ROWS]) for at in range(0, len(vectors), _ROWS))]
        )
        # What a score must be divided by to be that of a query of length 1.
        self.scale = np.ones_like(self.lengths) if self.cosine else self.lengths
        self.fine = self._product(torch.float32)
        if coarse is None:
            coarse = self.device.type == "cpu" and multiplies_bfloat16()
        self.coarse = self._product(torch.bfloat16) if coarse else None

    def __len__(self) -> int:
        return len(self.vectors)

    def exact(self, query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Scores [n] float64 of the queries at places `query` [n] with `vectors` [n, dim], pair by pair.

        Each is summed in the same order whatever stands beside it.
        """
        wide = vectors.astype(np.float64)
        made: np.ndarray = (self.vectors[query].astype(np.float64) * wide).sum(axis=1)
        return made / (self.lengths[query] * lengths_of(vectors)) if self.cosine else made

    def _product(self, kind: "torch.dtype") -> Product:
        import torch

        kept = torch.empty(self.vectors.shape, dtype=kind)
        off, length = np.empty(len(self)), np.empty(len(self))
        for at in range(0, len(self), _ROWS):
            some = slice(at, at + _ROWS)
            directions = self.vectors[some].astype(np.float64) / self.lengths[some, None]
            kept[some] = torch.from_numpy(directions)
            rounded = kept[some].double().numpy()
            off[some], length[some] = lengths_of(directions - rounded), lengths_of(rounded)
        rounding = _FLOAT32 if kind == torch.float32 else _BFLOAT16
        terms = (2 * self.dim + 16) * _SUM  # the sum, and with cosine the row's length
        bound = off + length * (rounding + terms / (1 - terms)) * _SLACK
        return Product(kept.to(self.device), bound * _SLACK, rounding)


def lengths_of(vectors: np.ndarray) -> np.ndarray:
    """[n] float64."""
    wide = vectors.astype(np.float64)
    lengths: np.ndarray = np.sqrt((wide * wide).sum(axis=1))
    return lengths


@lru_cache(maxsize=1)
def multiplies_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 itself and torch adds the products up in float32, as the bound assumes."""
    import torch

    flags = Path("/proc/cpuinfo")
    if not flags.exists() or "avx512_bf16" not in flags.read_text():
        return False
    ones = torch.ones(64, 4096, dtype=torch.bfloat16)  # a sum kept in bfloat16 would stay at 256
    return bool((torch.mm(ones, ones.T) == 4096).all())
