"""Pairs by their number."""

from itertools import combinations

import pytest

from jobs.items_from.pair_units import NumberedPairs, pair_count

GROUPS = [list("abcde"), ["x"], [], list("fg"), list("hijk")]


@pytest.mark.parametrize("orders", ["both", "one"])
def test_any_range_of_pairs_is_that_of_the_whole_list(orders: str) -> None:
    pairs = NumberedPairs(GROUPS, orders=orders)
    whole = [pair for ids in GROUPS for pair in combinations(ids, 2)]
    assert pairs.count == pairs.without_limit == len(whole) == sum(pair_count(len(ids)) for ids in GROUPS)
    for first in range(len(whole) + 1):
        for last in range(first, len(whole) + 1):
            ordered = list(pairs.ordered(first, last))
            assert len(ordered) == (last - first) * pairs.rows_per_pair
            assert [frozenset(pair) for pair in ordered[:: pairs.rows_per_pair]] == [
                frozenset(pair) for pair in whole[first:last]
            ]
            if orders == "both":
                assert ordered[1::2] == [(second, first) for first, second in ordered[::2]]


def test_a_limit_counts_pairs() -> None:
    assert (
        NumberedPairs(GROUPS, orders="both", limit=3).count,
        NumberedPairs(GROUPS, orders="one", limit=99).count,
    ) == (3, 17)
    assert NumberedPairs([], orders="one").count == 0
