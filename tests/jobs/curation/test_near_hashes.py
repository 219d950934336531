"""Near-duplicates: exactly the pairs that comparing all with all finds, and a choice that no order changes."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.curation import near_hashes
from jobs.curation.near_hashes import Pairs, choose_keepers, has_near, near_pairs, parse_hashes

BIT = st.integers(0, 63)
# Hashes in clusters: a few seeds, each with some bits turned, so that there are near ones at every distance.
HASHES = st.lists(
    st.tuples(st.sampled_from([0, 2**64 - 1, 0x0123456789ABCDEF, 0xFFFF0000FFFF0000]), st.lists(BIT, max_size=9)),
    max_size=25,
).map(lambda drawn: sorted({seed ^ sum(1 << bit for bit in set(bits)) for seed, bits in drawn}))


def brute_force(hashes: list[int], distance: int) -> dict[tuple[int, int], int]:
    pairs = combinations(range(len(hashes)), 2)
    apart = {(i, j): (hashes[i] ^ hashes[j]).bit_count() for i, j in pairs}
    return {pair: bits for pair, bits in apart.items() if bits <= distance}


@settings(max_examples=50, deadline=None)
@given(HASHES, st.integers(0, near_hashes.MAX_DISTANCE), st.sampled_from([None, 0, 4, 5, 7, 11]))
def test_all_near_pairs_are_found_once(hashes: list[int], distance: int, bands: int | None) -> None:
    if bands == 4 and distance > 7:
        bands = 5  # the same arithmetic with fewer masks to try
    pairs = near_pairs(np.array(hashes, np.uint64), distance, bands=bands)
    actual = [tuple(sorted(pair)) for pair in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)]
    assert dict(zip(actual, pairs.distance.tolist(), strict=True)) == brute_force(hashes, distance)
    assert len(actual) == len(set(actual))


def test_bands_agree_with_all_on_all_where_blocks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    seeds = rng.integers(0, 2**64, 400, np.uint64, endpoint=False)
    turned = seeds[:, None] ^ (np.uint64(1) << rng.integers(0, 64, (400, 4), np.uint64))
    hashes = np.unique(np.concatenate([seeds, turned.ravel(), turned[:, 0] ^ np.uint64(5)]))
    monkeypatch.setattr(near_hashes, "PAIRS_AT_A_TIME", 77)
    all_pairs = near_pairs(hashes, 4, bands=0)
    expected = sorted(zip(all_pairs.left, all_pairs.right, all_pairs.distance, strict=True))
    assert len(expected) > 2000
    for bands in (3, 4, 5):
        pairs = near_pairs(hashes, 4, bands=bands)
        low, high = np.minimum(pairs.left, pairs.right), np.maximum(pairs.left, pairs.right)
        assert sorted(zip(low, high, pairs.distance, strict=True)) == expected


def test_partners_are_looked_up_in_chunks_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_hashes, "PAIRS_AT_A_TIME", 5)
    count = np.array([4, 2, 3, 0, 7, 1])  # the seven partners of one query are not divided
    chunks = [len(query) for query, _ in near_hashes._expand(np.arange(6), np.arange(6) * 10, count)]
    assert chunks == [4, 5, 7, 1]


def test_every_plan_covers_every_bit_and_the_pigeonhole_holds() -> None:
    for distance in range(near_hashes.MAX_DISTANCE + 1):
        for bands in range(3, 12):
            plan = near_hashes._plan(distance, bands)
            assert sum(radius + 1 for _, _, radius in plan) == distance + 1, (
                "one bit more must leave some band in reach"
            )
            assert all(width <= near_hashes.MAX_BAND for _, width, _ in plan)
            assert all(shift + width <= near_hashes.BITS for shift, width, _ in plan)


def test_few_are_compared_with_all_and_many_by_bands() -> None:
    assert near_hashes.cheapest(100, 4) == 0
    assert all(near_hashes.cheapest(1_000_000, distance) >= 3 for distance in range(near_hashes.MAX_DISTANCE + 1))


def test_alike_beyond_reason_is_an_error_not_a_full_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_hashes, "MAX_PAIRS", 100)
    with pytest.raises(near_hashes.TooManyPairsError, match="more than 100 pairs of pictures within 10 bits"):
        near_pairs(np.arange(64, dtype=np.uint64), 10)


def test_as_many_pairs_as_are_allowed_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = np.arange(4, dtype=np.uint64)  # six pairs within two bits
    monkeypatch.setattr(near_hashes, "MAX_PAIRS", 6)
    assert len(near_pairs(hashes, 2).left) == 6
    monkeypatch.setattr(near_hashes, "MAX_PAIRS", 5)
    with pytest.raises(near_hashes.TooManyPairsError):
        near_pairs(hashes, 2)


def test_nothing_to_compare() -> None:
    for n in (0, 1):
        assert len(near_pairs(np.arange(n, dtype=np.uint64), 4).left) == 0
    assert choose_keepers(near_pairs(np.empty(0, np.uint64), 4), np.empty(0, np.int64)).keeper.tolist() == []


def test_a_chain_keeps_pictures_that_are_near_no_kept_one() -> None:
    # 0 - 1 - 2 - 3: 0 stays, so 1 goes; 2 is near 1 only, which goes: it stays, and 3 goes in its favour.
    chain = Pairs(np.array([0, 2, 2], np.int32), np.array([1, 1, 3], np.int32), np.array([4, 2, 3], np.uint8))
    keepers = choose_keepers(chain, np.arange(4))
    assert keepers.keeper.tolist() == [0, 0, 2, 2]
    assert keepers.distance.tolist() == [0, 4, 0, 3]
    # with 1 in front, its neighbours go; 3 stays
    assert choose_keepers(chain, np.array([1, 0, 2, 3])).keeper.tolist() == [1, 1, 1, 3]


def test_the_keeper_is_the_nearest_kept_picture() -> None:
    pairs = Pairs(np.array([0, 1], np.int32), np.array([2, 2], np.int32), np.array([4, 1], np.uint8))
    assert choose_keepers(pairs, np.arange(3)).keeper.tolist() == [0, 1, 1]
    equally = replace(pairs, distance=np.array([2, 2], np.uint8))
    keepers = [choose_keepers(equally, np.array(rank)).keeper.tolist() for rank in ([0, 1, 2], [1, 0, 2])]
    assert keepers == [[0, 1, 0], [0, 1, 1]], "at a tie, the one with the better rank"


@settings(max_examples=50, deadline=None)
@given(HASHES, st.integers(0, 8), st.randoms(use_true_random=False))
def test_no_two_that_stay_are_near_and_all_others_are_near_one(hashes: list[int], distance: int, rng) -> None:
    rank = np.array(rng.sample(range(len(hashes)), len(hashes)), np.int64)
    keepers = choose_keepers(near_pairs(np.array(hashes, np.uint64), distance), rank)
    stays = set(np.flatnonzero(keepers.keeper == np.arange(len(hashes))).tolist())
    near_each_other = brute_force(hashes, distance)
    assert not any(i in stays and j in stays for i, j in near_each_other)
    for one, keeper in enumerate(keepers.keeper.tolist()):
        assert keeper in stays
        assert (hashes[one] ^ hashes[keeper]).bit_count() == keepers.distance[one] <= distance
        assert rank[keeper] <= rank[one]


@settings(max_examples=50, deadline=None)
@given(HASHES, HASHES, st.integers(0, 8), st.integers(1, 64))
def test_whether_another_set_has_a_near_hash(hashes: list[int], others: list[int], distance: int, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_hashes, "PAIRS_AT_A_TIME", at_once)
        result = has_near(np.array(hashes, np.uint64), np.array(others, np.uint64), distance)
    assert result.tolist() == [any((a ^ b).bit_count() <= distance for b in others) for a in hashes]


def test_hashes_are_read_from_hexadecimal_digits() -> None:
    assert parse_hashes(["00000000000000ff", "f" * 16]).tolist() == [255, 2**64 - 1]
    assert parse_hashes([]).dtype == np.uint64
