"""Exact nearest neighbours by inner product or cosine, the rows streaming past; one torch code for CPU and GPU.

A fast product finds what can be among the k best: its scores are off by at most a bound (`queries`), so that whatever
lies below the k-th best score by more than that is out, for certain. What is left, a few rows a query, is scored again
in float64 from the vectors as they are stored. Equal vectors therefore get equal scores, and ties go by item id.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from actors.search.queries import LONGEST, SHORTEST, Product, Queries, lengths_of
from actors.search.top_k import Candidates, Hits, Ids

if TYPE_CHECKING:
    import torch

# A piece of this many rows stays in a core's cache from its conversion to the last look at its scores.
_CPU_ROWS, _GPU_ROWS = 1 << 11, 1 << 17
_SCORES_AT_A_TIME = {"cpu": 1 << 22, "cuda": 1 << 25}  # cells of a piece's score matrix
_TILE = 256  # scores of which first only the highest is looked at: most hold nothing that passes
_PAIRS_AT_A_TIME = 1024  # scored in float64: 6 MB at 768 dimensions
_MAY_PASS = 1 / 256  # of a piece's cells: a float64 score costs about as much as so many of the float32 product
_COARSE_BALANCE = 8  # pieces for which the coarse product was not enough, before it is left out
_PIECES_AT_A_TIME = 8  # for each thread, in a block that is read at once


class BadRows(NamedTuple):
    """Rows that cannot be scored: they are in no result and are to be named by the caller."""

    not_finite: np.ndarray  # int64 rows with NaN or infinity
    zero: np.ndarray  # int64 rows that are zero everywhere
    out_of_range: np.ndarray  # int64 rows so short or long that float64 cannot square their length


_NONE_BAD = BadRows(*(np.zeros(0, np.int64),) * 3)


class _Found(NamedTuple):
    query: np.ndarray
    row: np.ndarray
    score: np.ndarray


class _Rows(NamedTuple):
    """Rows as they are stored, as an array and as a tensor over the same memory, and their numbers."""

    stored: np.ndarray
    tensor: "torch.Tensor"
    numbers: np.ndarray


class _Piece(NamedTuple):
    """Rows ready to be multiplied."""

    block: "torch.Tensor"  # float32, of length 1 each for cosine
    longest: float  # no row is longer


class Search:
    """The k best rows for each query among blocks that are given one after the other."""

    def __init__(self, queries: Queries, *, k: int, ids: Ids, threads: int = 1) -> None:
        """Begin a search.

        Args:
            queries: what is looked for.
            k: how many a query; fewer if there are fewer rows.
            ids: gives the item ids of rows, asked only for the few that win or tie.
            threads: of a CPU; each takes whole pieces of a block, so that none waits for another within one.

        Raises:
            ValueError: a k that is not positive.
        """
        if k < 1:
            raise ValueError(f"k is {k}; it must be at least 1")
        self._queries, self._k = queries, k
        self._found = Candidates(len(queries), k, ids)
        on_cpu = queries.device.type == "cpu"
        self._threads = threads if on_cpu else 1
        # Twice k, or a piece could not say by itself what is too low to be looked at.
        self.rows_at_a_time = max(_CPU_ROWS, min(2 * k, 1 << 14)) if on_cpu else _GPU_ROWS
        self._scratch: list[_Scratch] = []
        self._coarse_balance = _COARSE_BALANCE

    @property
    def block_rows(self) -> int:
        """How many rows to give `add` so that all threads are busy."""
        return self.rows_at_a_time * (_PIECES_AT_A_TIME * self._threads if self._queries.device.type == "cpu" else 1)

    def add(self, vectors: np.ndarray, rows: np.ndarray) -> BadRows:
        """Look at a block, in pieces.

        Args:
            vectors: [n, dim] float16, float32 or float64.
            rows: int64 [n], their numbers, to be found again by.
        """
        tensor = _tensor(vectors)
        cuts = [slice(at, at + self.rows_at_a_time) for at in range(0, len(vectors), self.rows_at_a_time)]
        bad = [_NONE_BAD]
        for found, unusable in self._looked([_Rows(vectors[cut], tensor[cut], rows[cut]) for cut in cuts]):
            bad.append(unusable)
            for some in found:
                self._found.add(*some)
        return BadRows(*(np.concatenate(column) for column in zip(*bad, strict=True)))

    def finish(self) -> Hits:
        """The k best of everything that was given."""
        return self._found.finish()

    def _looked(self, pieces: list[_Rows]) -> Iterator[tuple[list[_Found], BadRows]]:
        if self._threads == 1 or len(pieces) == 1:
            yield from map(self._look, pieces)
            return
        with ThreadPoolExecutor(self._threads, initializer=_one_thread) as pool:
            yield from pool.map(self._look, pieces)

    def _look(self, rows: _Rows) -> tuple[list[_Found], BadRows]:
        """What of a piece may be among the best, exactly scored. Runs in several threads at once."""
        import torch

        scratch = self._scratch.pop() if self._scratch else _Scratch(self._queries.device)
        with torch.inference_mode():
            block = scratch.copied(rows.tensor)
            lengths = torch.linalg.vector_norm(block, dim=1)
            odd, bad = _odd(rows, lengths)
            found: list[_Found] = []
            if odd is not None:
                found += self._all_scored(odd.usable, rows)
                others = torch.from_numpy(odd.others)
                rows = _Rows(rows.stored[odd.others], rows.tensor[others], rows.numbers[odd.others])
                block, lengths = scratch.copied(rows.tensor), lengths[others.to(lengths.device)]
            if len(rows.numbers):
                found += self._best(self._piece(block, lengths), rows, scratch)
        self._scratch.append(scratch)
        return found, bad

    def _piece(self, block: "torch.Tensor", lengths: "torch.Tensor") -> _Piece:
        if self._queries.cosine:
            return _Piece(block.div_(lengths[:, None]), 1.0)
        return _Piece(block, float(lengths.max()) * (1 + (self._queries.dim + 2) * 2.0**-24))

    def _best(self, piece: _Piece, rows: _Rows, scratch: "_Scratch") -> Iterator[_Found]:
        at_once = max(1, _SCORES_AT_A_TIME[piece.block.device.type] // len(piece.block))
        for first in range(0, len(self._queries), at_once):
            query, place = self._passing(slice(first, first + at_once), piece, scratch)
            if len(query):
                yield self._scored(query + first, place, rows)

    def _passing(self, some: slice, piece: _Piece, scratch: "_Scratch") -> tuple[np.ndarray, np.ndarray]:
        """Which pairs of the queries `some` and rows of the piece may be among the best."""
        queries = self._queries
        if queries.coarse is not None and self._coarse_balance > 0:
            block = scratch.tensor("block", piece.block.shape, queries.coarse.directions.dtype).copy_(piece.block)
            query, place = self._multiplied(queries.coarse, some, piece, block, scratch)
            asked = len(queries.lengths[some])
            if len(query) <= asked * (4 * self._k + len(block) * _MAY_PASS):
                self._coarse_balance = min(self._coarse_balance + 1, _COARSE_BALANCE)
                return query, place
            self._coarse_balance -= 1
        return self._multiplied(queries.fine, some, piece, piece.block, scratch)

    def _multiplied(
        self, product: Product, some: slice, piece: _Piece, block: "torch.Tensor", scratch: "_Scratch"
    ) -> tuple[np.ndarray, np.ndarray]:
        import torch

        from actors import onednn

        wanted = product.directions[some]
        shape = (len(wanted), len(block))
        scores = onednn.inner(wanted, block, scratch=lambda: scratch.tensor("scores", shape, wanted.dtype))
        bound = product.bound[some] * piece.longest
        least = self._found.worst[some] / self._queries.scale[some] - bound
        if np.isneginf(least).any() and len(block) >= self._k:  # k rows of this piece alone are at least this good
            kth = torch.topk(scores, self._k, dim=1, sorted=False).values.amin(dim=1).cpu().double().numpy()
            least = np.maximum(least, kth - 2 * product.rounding * np.abs(kth) - 2 * bound)
        limit = torch.from_numpy(_rounded_down(least, bits=16 if wanted.dtype == torch.bfloat16 else 32))
        return _reaching(scores, limit.to(scores.device, scores.dtype))

    def _scored(self, query: np.ndarray, place: np.ndarray, rows: _Rows) -> _Found:
        pieces = [slice(at, at + _PAIRS_AT_A_TIME) for at in range(0, len(query), _PAIRS_AT_A_TIME)]
        score = np.concatenate([self._queries.exact(query[piece], rows.stored[place[piece]]) for piece in pieces])
        keep = score >= self._found.worst[query]
        return _Found(query[keep], rows.numbers[place[keep]], score[keep])

    def _all_scored(self, places: np.ndarray, rows: _Rows) -> Iterator[_Found]:
        """These rows with every query."""
        for query in range(len(self._queries) if len(places) else 0):
            yield self._scored(np.full(len(places), query), places, rows)


class _Scratch:
    """Memory that the next piece takes over: new pages for each would cost a tenth of the time."""

    def __init__(self, device: "torch.device") -> None:
        self._device = device
        self._tensors: dict[str, torch.Tensor] = {}

    def tensor(self, name: str, shape: "torch.Size | tuple[int, int]", kind: "torch.dtype") -> "torch.Tensor":
        """Memory of this shape whose content means nothing."""
        import torch

        name, size = f"{name} {kind}", shape[0] * shape[1]
        if name not in self._tensors or self._tensors[name].numel() < size:
            self._tensors[name] = torch.empty(size, device=self._device, dtype=kind)
        return self._tensors[name][:size].view(shape)

    def copied(self, rows: "torch.Tensor") -> "torch.Tensor":
        """Rows in float32 on the device."""
        import torch

        return self.tensor("block", rows.shape, torch.float32).copy_(rows)


class _Odd(NamedTuple):
    """Rows that do not go through the products."""

    usable: np.ndarray  # int64 places: those with a direction, so short or long that float32 would not do
    others: np.ndarray  # int64 places: the rows that are left


def _odd(rows: _Rows, lengths: "torch.Tensor") -> tuple[_Odd | None, BadRows]:
    """Rows that are not as they should be (None: all are), and among them those that cannot be scored."""
    import torch

    odd = torch.logical_not((lengths > SHORTEST) & (lengths < LONGEST)).cpu().numpy()
    places = np.flatnonzero(odd)
    if not len(places):
        return None, _NONE_BAD
    stored = rows.stored[places]
    finite, zero = np.isfinite(stored).all(axis=1), ~stored.any(axis=1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        lengths64 = lengths_of(stored)
    usable = (lengths64 > 2.0**-480) & (lengths64 < np.inf) & finite
    out_of_range = finite & ~zero & ~usable
    bad = BadRows(*(rows.numbers[places[some]] for some in (~finite, zero, out_of_range)))
    return _Odd(places[usable], np.flatnonzero(~odd)), bad


def _rounded_down(limit: np.ndarray, *, bits: int) -> np.ndarray:
    """float32 at most as high as `limit` [n] float64; with 16 bits a number of bfloat16's, its upper half."""
    low = limit.astype(np.float32)
    low = np.where(low > limit, np.nextafter(low, np.float32(-np.inf)), low)
    if bits == 32:
        return low
    whole = low.view(np.uint32)
    whole = np.where(np.signbit(low), whole + np.uint32(0xFFFF), whole) & np.uint32(0xFFFF0000)
    return whole.view(np.float32)


def _reaching(scores: "torch.Tensor", limit: "torch.Tensor") -> tuple[np.ndarray, np.ndarray]:
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


def _one_thread() -> None:
    """A thread of a search is not to start threads of its own."""
    import torch

    torch.set_num_threads(1)


def _tensor(stored: np.ndarray) -> "torch.Tensor":
    """A tensor over the same memory; torch warns of read-only memory (a mapped file), which is only read here."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable")
        return torch.from_numpy(stored)
