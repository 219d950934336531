import numpy as np

from jobs.curation.hash_index import HashIndex, unique_codes
from tests.cases import check_cases

# Two share their first 64 bits.
HASHES = np.array([[1, 5], [1, 9], [3, 2], [7, 0]], np.uint64)


def test_index_of_a_hash() -> None:
    cases = [([1, 5], 0), ([1, 9], 1), ([3, 2], 2), ([7, 0], 3), ([1, 7], -1), ([3, 5], -1), ([0, 5], -1), ([9, 0], -1)]

    def check(wanted: list[int], index: int) -> None:
        assert HashIndex(HASHES).find_hashes(np.array([wanted], np.uint64)).tolist() == [index]

    check_cases(check, cases)


def test_index_of_several_in_their_order() -> None:
    wanted = np.array([[7, 0], [1, 7], [1, 9], [1, 5]], np.uint64)
    assert HashIndex(HASHES).find_hashes(wanted).tolist() == [3, -1, 1, 0]
    subset = HashIndex(HASHES).subset(np.array([1, 3]))
    assert (len(subset), subset.find_hashes(wanted).tolist()) == (2, [1, -1, 0, -1])
    assert HashIndex(HASHES[:0]).find_hashes(wanted).tolist() == [-1] * 4


def test_codes_of_rows() -> None:
    distinct, codes = unique_codes(HASHES[[2, 1, 0, 1, 3, 2]])
    assert distinct.tolist() == HASHES.tolist()
    assert codes.tolist() == [2, 1, 0, 1, 3, 2]
