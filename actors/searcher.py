"""Exact nearest neighbours by inner product or cosine among streamed rows, with the same torch code on CPU and GPU.

On a GPU, copying the rows takes longest: the next pieces are copied (`actors.uploads`) while one is multiplied, and
the host waits for the GPU a few times per piece.

A fast product selects the rows that can be among the k best. The error of its scores has a proven bound
(`actors.search_queries`), so a row whose score is further below the k-th best than the bound cannot be among them.
The few rows that remain for each query are scored again in float64 from the stored vectors. Equal vectors therefore
get equal scores, and ties are broken by item id.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from actors.search_queries import LONGEST, SHORTEST, Candidates, Hits, Ids, Product, Queries, lengths_of
from actors.uploads import CudaLane, Uploads, tensor_of

if TYPE_CHECKING:
    import torch

# Rows of a piece: few enough to stay in a core's cache from their conversion to the comparison of their scores.
_CPU_ROWS = 1 << 11
# On a GPU: the smallest piece whose copy still hides the host's work on a piece.
_GPU_ROWS, _GPU_BYTES = 1 << 17, 1 << 29  # bytes in float32
_SCORES_AT_A_TIME = {"cpu": 1 << 22, "cuda": 1 << 25}  # elements of a piece's score matrix
_TILE = 256  # scores compared first by their maximum, since in most tiles no score passes
_PAIRS_AT_A_TIME = 1024  # scored in float64: 6 MB at 768 dimensions
_MAY_PASS = 1 / 256  # of a piece's scores; computing this share in float64 costs about as much as the float32 product
_COARSE_BALANCE = 8  # pieces for which the coarse product may exclude too few rows before it is skipped
_PIECES_AT_A_TIME = 8  # per thread, in a block
_GPU_PIECES = 4  # pieces of a block


class BadRows(NamedTuple):
    """Rows that cannot be scored and are in no result; the caller reports them."""

    not_finite: np.ndarray  # int64 rows with NaN or infinity
    zero: np.ndarray  # int64 rows that are zero everywhere
    out_of_range: np.ndarray  # int64 rows so short or long that float64 cannot square their length


_NONE_BAD = BadRows(*(np.zeros(0, np.int64),) * 3)


class _Scored(NamedTuple):
    """Pairs of queries and rows with their exact scores."""

    query: np.ndarray
    row: np.ndarray
    score: np.ndarray


class _Rows(NamedTuple):
    """Rows as stored, as an array and as a tensor, and their numbers."""

    stored: np.ndarray
    tensor: "torch.Tensor"  # shares the array's memory, or is a copy on the device
    numbers: np.ndarray


class _Piece(NamedTuple):
    """Rows prepared for the products."""

    block: "torch.Tensor"  # float32, of length 1 each for cosine
    longest: float  # upper bound of the lengths of the rows
    positions: np.ndarray | None  # int64, positions of the block's rows among the stored ones; None: all, in order


class Search:
    """Search for the k best rows of each query among blocks that are added one after the other."""

    def __init__(self, queries: Queries, *, ids: Ids, threads: int = 1) -> None:
        """Start a search for the `queries.settings.k` best rows of each query (fewer if there are fewer rows).

        Args:
            queries: the queries, with the settings of the search.
            ids: returns the item ids of rows; called only for the few rows that win or tie.
            threads: CPU threads; each takes whole pieces of a block, so that none waits for another within a piece.
        """
        self._queries, self._k = queries, (k := queries.settings.k)
        self._candidates = Candidates(len(queries), k, ids)
        on_cpu = queries.device.type == "cpu"
        self._threads = threads if on_cpu else 1
        self._uploads = None if on_cpu else Uploads(CudaLane(queries.device))
        # At least 2 k, so that the piece itself has a k-th best score to compare with.
        if on_cpu:
            self.rows_at_a_time = max(_CPU_ROWS, min(2 * k, 1 << 14))
        else:
            self.rows_at_a_time = max(_gpu_rows(queries.dim), min(2 * k, 1 << 17))
        self._scratch: list[_Scratch] = []
        self._coarse_balance = _COARSE_BALANCE

    @property
    def block_rows(self) -> int:
        """The number of rows to pass to `add` so that all threads are busy, or a GPU's copies and products overlap."""
        return self.rows_at_a_time * (_PIECES_AT_A_TIME * self._threads if self._uploads is None else _GPU_PIECES)

    def add(self, vectors: np.ndarray, rows: np.ndarray) -> BadRows:
        """Search a block, in pieces.

        Args:
            vectors: [n, dim] float16, float32 or float64.
            rows: int64 [n], the numbers that identify them in `Hits`.

        Returns:
            The rows that cannot be scored.
        """
        tensor = tensor_of(vectors)
        step = self.rows_at_a_time
        cuts = [slice(start, start + step) for start in range(0, len(vectors), step)]
        bad = [_NONE_BAD]
        for scored, piece_bad in self._search_pieces([_Rows(vectors[cut], tensor[cut], rows[cut]) for cut in cuts]):
            bad.append(piece_bad)
            for candidates in scored:
                self._candidates.add(*candidates)
        return BadRows(*(np.concatenate(column) for column in zip(*bad, strict=True)))

    def finish(self) -> Hits:
        """Return the k best of all rows that were added."""
        return self._candidates.finish()

    def _search_pieces(self, pieces: list[_Rows]) -> Iterator[tuple[list[_Scored], BadRows]]:
        if self._uploads is not None:
            with closing(self._uploads(rows.tensor for rows in pieces)) as copies:
                for rows, copy in zip(pieces, copies, strict=True):
                    yield self._search_piece(rows._replace(tensor=copy))
            return
        if self._threads == 1 or len(pieces) == 1:
            yield from map(self._search_piece, pieces)
            return
        with ThreadPoolExecutor(self._threads, initializer=_use_one_thread) as pool:
            yield from pool.map(self._search_piece, pieces)

    def _search_piece(self, rows: _Rows) -> tuple[list[_Scored], BadRows]:
        """Return the rows of a piece that may be among the best, with exact scores. Runs in several threads at once."""
        import torch

        scratch = self._scratch.pop() if self._scratch else _Scratch(self._queries.device)
        with torch.inference_mode():
            block = scratch.tensor("block", rows.tensor.shape, torch.float32).copy_(rows.tensor)
            lengths = torch.linalg.vector_norm(block, dim=1)
            shortest, longest = torch.stack(torch.aminmax(lengths)).tolist()  # NaN if any is NaN
            scored: list[_Scored] = []
            positions, bad = None, _NONE_BAD
            if not (shortest > SHORTEST and longest < LONGEST):
                extremes, bad = _set_extremes_aside(rows, lengths)
                scored += self._score_with_all(extremes.usable, rows)
                positions = extremes.others
                others = torch.from_numpy(positions).to(block.device)
                block, lengths = block[others], lengths[others]
                longest = float(lengths.max()) if len(positions) else 0.0
            if len(block):
                scored += self._best(self._piece(block, lengths, longest, positions), rows, scratch)
        self._scratch.append(scratch)
        return scored, bad

    def _piece(
        self, block: "torch.Tensor", lengths: "torch.Tensor", longest: float, positions: np.ndarray | None
    ) -> _Piece:
        if self._queries.cosine:
            return _Piece(block.div_(lengths[:, None]), 1.0, positions)
        return _Piece(block, longest * (1 + (self._queries.dim + 2) * 2.0**-24), positions)

    def _best(self, piece: _Piece, rows: _Rows, scratch: "_Scratch") -> Iterator[_Scored]:
        at_once = max(1, _SCORES_AT_A_TIME[piece.block.device.type] // len(piece.block))
        for first in range(0, len(self._queries), at_once):
            query, position = self._find_pairs(slice(first, first + at_once), piece, scratch)
            if len(query):
                place = position if piece.positions is None else piece.positions[position]
                yield self._score(query + first, place, rows)

    def _find_pairs(self, part: slice, piece: _Piece, scratch: "_Scratch") -> tuple[np.ndarray, np.ndarray]:
        """Return the pairs of the queries `part` and rows of the piece that may be among the best."""
        queries = self._queries
        if queries.coarse is not None and self._coarse_balance > 0:
            block = scratch.tensor("block", piece.block.shape, queries.coarse.directions.dtype).copy_(piece.block)
            query, position = self._multiply(queries.coarse, part, piece, block, scratch)
            count = len(queries.lengths[part])
            if len(query) <= count * (4 * self._k + len(block) * _MAY_PASS):
                self._coarse_balance = min(self._coarse_balance + 1, _COARSE_BALANCE)
                return query, position
            self._coarse_balance -= 1
        return self._multiply(queries.fine, part, piece, piece.block, scratch)

    def _multiply(
        self, product: Product, part: slice, piece: _Piece, block: "torch.Tensor", scratch: "_Scratch"
    ) -> tuple[np.ndarray, np.ndarray]:
        import torch

        directions = product.directions[part]
        shape = (len(directions), len(block))
        scores = torch.mm(directions, block.T, out=scratch.tensor("scores", shape, directions.dtype))
        bound = product.bound[part] * piece.longest
        least = self._candidates.worst[part] / self._queries.scale[part] - bound
        if np.isneginf(least).any() and len(block) >= self._k:  # k rows of this piece alone are at least this good
            kth = torch.topk(scores, self._k, dim=1, sorted=False).values.amin(dim=1).cpu().double().numpy()
            least = np.maximum(least, kth - 2 * product.rounding * np.abs(kth) - 2 * bound)
        limit = torch.from_numpy(_round_down(least, bits=16 if directions.dtype == torch.bfloat16 else 32))
        return _find_reaching(scores, limit.to(scores.device, scores.dtype))

    def _score(self, query: np.ndarray, position: np.ndarray, rows: _Rows) -> _Scored:
        pieces = [slice(at, at + _PAIRS_AT_A_TIME) for at in range(0, len(query), _PAIRS_AT_A_TIME)]
        score = np.concatenate([self._queries.exact(query[piece], rows.stored[position[piece]]) for piece in pieces])
        keep = score >= self._candidates.worst[query]
        return _Scored(query[keep], rows.numbers[position[keep]], score[keep])

    def _score_with_all(self, positions: np.ndarray, rows: _Rows) -> Iterator[_Scored]:
        """Score rows with every query."""
        for query in range(len(self._queries) if len(positions) else 0):
            yield self._score(np.full(len(positions), query), positions, rows)


class _Scratch:
    """Memory that pieces reuse, since allocating it for each would take a tenth of the time."""

    def __init__(self, device: "torch.device") -> None:
        self._device = device
        self._tensors: dict[str, torch.Tensor] = {}

    def tensor(self, name: str, shape: "torch.Size | tuple[int, int]", kind: "torch.dtype") -> "torch.Tensor":
        """Return a tensor of this shape with arbitrary content."""
        import torch

        name, size = f"{name} {kind}", shape[0] * shape[1]
        if name not in self._tensors or self._tensors[name].numel() < size:
            self._tensors[name] = torch.empty(size, device=self._device, dtype=kind)
        return self._tensors[name][:size].view(shape)


class _Extremes(NamedTuple):
    """Rows of a piece that are left out of the products, and all others."""

    usable: np.ndarray  # int64 positions: rows with a direction, but too short or too long for float32
    others: np.ndarray  # int64 positions: all other rows


def _gpu_rows(dim: int) -> int:
    """Return the number of rows of a piece on a GPU: whole tiles, in bounded memory."""
    return max(1, min(_GPU_ROWS, _GPU_BYTES // (4 * dim)) // _TILE) * _TILE


def _set_extremes_aside(rows: _Rows, lengths: "torch.Tensor") -> tuple[_Extremes, BadRows]:
    """Find the rows that are too short, too long or not finite, and those among them that cannot be scored."""
    import torch

    extremes = torch.logical_not((lengths > SHORTEST) & (lengths < LONGEST)).cpu().numpy()
    positions = np.flatnonzero(extremes)
    stored = rows.stored[positions]
    finite, zero = np.isfinite(stored).all(axis=1), ~stored.any(axis=1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        lengths64 = lengths_of(stored)
    usable = (lengths64 > 2.0**-480) & (lengths64 < np.inf) & finite
    out_of_range = finite & ~zero & ~usable
    bad = BadRows(*(rows.numbers[positions[part]] for part in (~finite, zero, out_of_range)))
    return _Extremes(positions[usable], np.flatnonzero(~extremes)), bad


def _round_down(limit: np.ndarray, *, bits: int) -> np.ndarray:
    """Return the largest float32 not above `limit` [n] float64; with bits=16, the largest bfloat16, as float32."""
    low = limit.astype(np.float32)
    low = np.where(low > limit, np.nextafter(low, np.float32(-np.inf)), low)
    if bits == 32:
        return low
    pattern = low.view(np.uint32)  # a bfloat16 is the upper 16 bits of a float32
    pattern = np.where(np.signbit(low), pattern + np.uint32(0xFFFF), pattern) & np.uint32(0xFFFF0000)
    return pattern.view(np.float32)


def _find_reaching(scores: "torch.Tensor", limit: "torch.Tensor") -> tuple[np.ndarray, np.ndarray]:
    """Return the positions (of queries and rows; int64) where scores [queries, rows] reach the limit [queries]."""
    import torch

    count = scores.shape[1]
    whole = count // _TILE * _TILE
    pairs: list[torch.Tensor] = []
    if whole:
        tiles = scores[:, :whole].view(len(scores), -1, _TILE)
        query, tile = torch.nonzero(tiles.amax(dim=2) >= limit[:, None], as_tuple=True)
        inside, position = torch.nonzero(tiles[query, tile] >= limit[query, None], as_tuple=True)
        pairs.append(torch.stack([query[inside], tile[inside] * _TILE + position]))
    if whole < count:
        query, position = torch.nonzero(scores[:, whole:] >= limit[:, None], as_tuple=True)
        pairs.append(torch.stack([query, position + whole]))
    queries, rows = torch.cat(pairs, dim=1).cpu().numpy()
    return queries, rows


def _use_one_thread() -> None:
    """Keep torch from starting threads inside a thread of the search."""
    import torch

    torch.set_num_threads(1)
