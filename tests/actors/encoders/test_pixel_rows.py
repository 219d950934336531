"""Joined pixels against row by row: chunks, slices, rows that are not good among those that are."""

import numpy as np
import pyarrow as pa
import pytest
import torch

from actors.encoders.pixel_rows import PixelRows

SIZE = 12


def table(rows: list[bytes | None], cuts: list[int]) -> pa.ChunkedArray:
    """Return rows in chunks that are slices of longer arrays."""
    whole = pa.array([b"x" * 5, *rows, b"yy"], pa.large_binary())
    ends = [*cuts, len(rows)]
    return pa.chunked_array([whole.slice(1 + start, end - start) for start, end in zip([0, *cuts], ends, strict=True)])


@pytest.mark.parametrize("cuts", [[], [3], [0, 3, 4, 20], [20]])
@pytest.mark.parametrize("bad", [[], [0], [19], [2, 3, 4], [0, 5, 7, 19], list(range(20))])
def test_the_same_as_row_by_row(cuts: list[int], bad: list[int]) -> None:
    draw = np.random.default_rng(0)
    rows: list[bytes | None] = [draw.integers(1, 256, SIZE, np.uint8).tobytes() for _ in range(20)]
    good = np.ones(20, bool)
    for number, row in enumerate(bad):
        good[row] = False
        rows[row] = (None, b"", b"too short", b"z" * SIZE)[number % 4]
    pixels, join = table(rows, cuts), PixelRows(SIZE)
    for first, end in ((0, 20), (1, 20), (0, 6), (4, 19), (18, 20)):  # each reuses the memory of the one before
        joined = join.join(pixels.slice(first, end - first), good[first:end])
        kept = [row if fits else bytes(SIZE) for row, fits in zip(rows, good.tolist(), strict=True)]
        assert joined.dtype == torch.uint8
        assert [bytes(row) for row in joined.numpy()] == kept[first:end]


def test_rows_that_lie_together_are_not_copied() -> None:
    pixels = table([bytes([n]) * SIZE for n in range(20)], [10])
    data = pixels.chunk(1).buffers()[2]
    inside = range(data.address, data.address + data.size)
    join, good = PixelRows(SIZE), np.ones(20, bool)
    assert join.join(pixels.slice(10, 10), good[10:]).data_ptr() in inside
    assert join.join(pixels.slice(12, 3), good[12:15]).data_ptr() in inside
    assert join.join(pixels.slice(8, 10), good[8:18]).data_ptr() not in inside
