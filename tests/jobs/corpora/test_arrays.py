"""Rows of NumPy arrays: every dtype and container, any ranges, and what is refused."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.corpora.arrays import blocks_of, find_matrix
from jobs.errors import InputError
from tests.cases import check_cases

RANGES = {
    "all": [(0, 1000)],
    "one row": [(999, 1000)],
    "gaps": [(1, 2), (5, 9), (300, 301), (301, 640), (990, 999)],
    "none": [],
    "an empty one": [(3, 3), (7, 8)],
}


def read(uri: Path, ranges: Sequence[tuple[int, int]], array: str | None = None) -> list[np.ndarray]:
    matrix = find_matrix(str(uri), array=array)
    with blocks_of(str(uri), matrix, ranges) as blocks:
        return [block.copy() for block in blocks]


def containers(folder: Path, values: np.ndarray) -> list[tuple[Path, str | None]]:
    """Write an array as a file, with a header of version 2, and as the second member of archives."""
    np.save(folder / "plain.npy", values)
    with (folder / "second.npy").open("wb") as file:
        np.lib.format.write_array(file, values, version=(2, 0))
    other = np.arange(6.0).reshape(2, 3)
    np.savez(folder / "stored.npz", other=other, mine=values)
    np.savez_compressed(folder / "compressed.npz", other=other, mine=values)
    files = [(folder / name, None) for name in ("plain.npy", "second.npy")]
    return [*files, *((folder / name, "mine") for name in ("stored.npz", "compressed.npz"))]


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_any_ranges_of_any_container(tmp_path: Path, dtype: str) -> None:
    """1,000 rows of 37 numbers: neither rows nor the beginning of a member lie on the borders of pages."""
    values = np.random.default_rng(0).standard_normal((1000, 37)).astype(dtype)
    files = containers(tmp_path, values)

    def check(uri: Path, array: str | None, ranges: list[tuple[int, int]]) -> None:
        matrix = find_matrix(str(uri), array=array)
        assert (matrix.rows, matrix.dim, matrix.dtype, matrix.member) == (1000, 37, dtype, array)
        assert matrix.row_bytes == 37 * np.dtype(dtype).itemsize
        assert (matrix.offset is None) == (uri.name == "compressed.npz")
        blocks = read(uri, ranges, array)
        assert [block.shape for block in blocks] == [(last - first, 37) for first, last in ranges]
        assert all((block == values[first:last]).all() for block, (first, last) in zip(blocks, ranges, strict=True))

    check_cases(check, [(uri, array, ranges) for uri, array in files for ranges in RANGES.values()])


def test_arrays_without_rows_and_single_rows_in_column_order(tmp_path: Path) -> None:
    for uri, array in containers(tmp_path, np.zeros((0, 5), "<f4")):
        assert find_matrix(str(uri), array=array).rows == 0
        assert read(uri, [], array) == []
    for uri, array in containers(tmp_path, np.asfortranarray(np.arange(5, dtype="<f4")[None])):
        assert read(uri, [(0, 1)], array)[0].tolist() == [[0, 1, 2, 3, 4]]


def test_arrays_other_than_a_matrix_of_numbers_are_refused(tmp_path: Path) -> None:
    cases: list[tuple[Any, str]] = [
        (np.zeros(5, "<f4"), r"is <f4 of shape \(5,\); vectors must be rows of"),
        (np.zeros((2, 0), "<f4"), r"of shape \(2, 0\)"),
        (np.zeros((2, 2, 2), "<f4"), r"of shape \(2, 2, 2\)"),
        (np.zeros((2, 2), ">f4"), "is >f4"),
        (np.zeros((2, 2), "<i4"), "is <i4"),
        (np.zeros((2, 2), np.float128 if hasattr(np, "float128") else "<c8"), "vectors must be rows of"),
        (np.asfortranarray(np.zeros((2, 2), "<f4")), "is in column order"),
        (np.array([[None]]), "holds Python objects"),
    ]

    def check(values: Any, message: str) -> None:
        np.save(tmp_path / "f.npy", values)
        np.savez(tmp_path / "f.npz", mine=values)
        with pytest.raises(InputError, match=rf"f\.npy: {'.*' if message[0] != 'i' else ''}{message}"):
            find_matrix(str(tmp_path / "f.npy"))
        with pytest.raises(InputError, match=rf"f\.npz: array 'mine': .*{message}"):
            find_matrix(str(tmp_path / "f.npz"), array="mine")

    check_cases(check, cases)


def test_a_file_that_ends_too_early_is_refused(tmp_path: Path) -> None:
    values = np.zeros((3, 2), "<f4")
    for uri in (tmp_path / "f.npy", tmp_path / "g.npy"):
        np.save(uri, values)
    (tmp_path / "g.npy").write_bytes((tmp_path / "f.npy").read_bytes() + b"more")
    assert find_matrix(str(tmp_path / "g.npy")).rows == 3
    (tmp_path / "f.npy").write_bytes((tmp_path / "f.npy").read_bytes()[:-1])
    with pytest.raises(InputError, match=r"is shorter than its header says \(3 x 2\)"):
        find_matrix(str(tmp_path / "f.npy"))
    for data in (b"", b"\x93NUMPY", b"not an array"):
        (tmp_path / "f.npy").write_bytes(data)
        with pytest.raises(InputError, match=r"f\.npy: not a NumPy array"):
            find_matrix(str(tmp_path / "f.npy"))


def test_members_of_archives(tmp_path: Path) -> None:
    np.savez(tmp_path / "f.npz", b=np.zeros((1, 1)), a=np.zeros((1, 1)))
    with zipfile.ZipFile(tmp_path / "f.npz", "a") as archive:
        archive.writestr("readme.txt", "x")
    with pytest.raises(InputError, match=r"corpus\.array=: required: .*f\.npz holds several arrays"):
        find_matrix(str(tmp_path / "f.npz"))
    with pytest.raises(InputError, match=r"corpus\.array=readme\.txt: .* has no such array; it has a, b$"):
        find_matrix(str(tmp_path / "f.npz"), array="readme.txt")
    with zipfile.ZipFile(tmp_path / "g.npz", "w") as archive:
        archive.writestr("readme.txt", "x")
    with pytest.raises(InputError, match=r"it has none$"):
        find_matrix(str(tmp_path / "g.npz"), array="a")


def test_a_stored_member_is_not_read_beyond_its_end(tmp_path: Path) -> None:
    """Its header promises a row that would be the bytes of what follows in the archive."""
    np.save(tmp_path / "f.npy", np.zeros((2, 2), "<f4"))
    data = (tmp_path / "f.npy").read_bytes()
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / "f.npz", "w", compression) as archive:
            archive.writestr("mine.npy", data[:-8])
            archive.writestr("next.npy", data)
        with pytest.raises(InputError, match="is shorter than its header says"):
            read(tmp_path / "f.npz", [(0, 1), (1, 2)], "mine")


def test_a_single_row_may_be_in_column_order(tmp_path: Path) -> None:
    """NumPy writes such a row in row order, other programs may not."""
    for rows in (1, 2):
        values = np.arange(3 * rows, dtype="<f4")
        with (tmp_path / f"{rows}.npy").open("wb") as file:
            header = {"descr": "<f4", "fortran_order": True, "shape": (rows, 3)}
            np.lib.format.write_array_header_1_0(file, header)
            file.write(values.tobytes())
    assert read(tmp_path / "1.npy", [(0, 1)])[0].tolist() == [[0, 1, 2]]
    with pytest.raises(InputError, match="is in column order; save it"):
        find_matrix(f"{tmp_path}/2.npy")
