"""A table's pixels as one array for the model, without a copy where they are adjacent in Arrow's memory."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from actors.uploads import tensor_of

if TYPE_CHECKING:
    import torch


class PixelRows:
    """Joins rows into an array in reused memory, since allocating it would take as long as the copy."""

    def __init__(self, size: int) -> None:
        """`size`: bytes of a row's pixels."""
        import torch

        self._size, self._memory = size, torch.empty((0, size), dtype=torch.uint8)

    def join(self, pixels: pa.ChunkedArray, good: np.ndarray) -> "torch.Tensor":
        """Return uint8 [n, size], valid until the next call: the rows, with zeros for rows that are not good.

        Args:
            pixels: large_binary [n]; those of good rows have `size` bytes.
            good: bool [n].
        """
        import torch

        runs = list(self._runs(pixels, good))
        if len(runs) == 1 and len(runs[0][1]) == len(good):
            return runs[0][1]
        if len(self._memory) < len(good):
            self._memory = torch.empty((len(good), self._size), dtype=torch.uint8)
        joined = self._memory[: len(good)]
        for first, rows in runs:
            joined[first : first + len(rows)].copy_(rows)
        joined[torch.from_numpy(np.flatnonzero(~good))] = 0
        return joined

    def _runs(self, pixels: pa.ChunkedArray, good: np.ndarray) -> Iterator[tuple[int, "torch.Tensor"]]:
        """Yield runs of good rows that are adjacent in a chunk's memory, each with the index of its first row."""
        start = 0
        for chunk in pixels.chunks:
            edges = np.flatnonzero(np.diff(good[start : start + len(chunk)], prepend=False, append=False))
            for first, end in edges.reshape(-1, 2).tolist():
                _, offsets, data = chunk.buffers()
                offset = int(np.frombuffer(offsets, np.int64, 1, 8 * (chunk.offset + first))[0])
                rows = np.frombuffer(data, np.uint8, (end - first) * self._size, offset)
                yield start + first, tensor_of(rows).view(-1, self._size)
            start += len(chunk)
