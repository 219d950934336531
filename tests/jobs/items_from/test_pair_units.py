"""Pairs by their number."""

from itertools import combinations

import pytest

from jobs.items_from import pair_units
from jobs.items_from.pair_units import NumberedPairs, pair_count
from jobs.store.pieces import FROM, TO
from jobs.store.units import Unit

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


def units_of(begun: list[Unit], rows_of: dict[str, int], unit_rows: int = 7) -> list[tuple[str, int | None, int, int]]:
    """Return name, rows and range of pairs of each unit of 17 pairs in both orders."""
    units = list(pair_units._units(NumberedPairs(GROUPS, orders="both"), (), unit_rows, begun, rows_of))
    return [(unit.name, unit.rows, unit.extra[FROM], unit.extra[TO]) for unit in units]


def test_units_of_whole_pairs_cover_all_and_a_begun_table_keeps_its_names() -> None:
    fresh = units_of([], {})
    assert [entry[1:] for entry in fresh] == [(8, 0, 4), (8, 4, 8), (8, 8, 12), (8, 12, 16), (2, 16, 17)]
    assert len({name for name, *_ in fresh}) == 5
    begun = [Unit(f"n{number}", ()) for number in range(7)]
    assert units_of(begun, {}) == [
        *((f"n{number}", *entry[1:]) for number, entry in enumerate(fresh)), ("n5", 0, 17, 17), ("n6", 0, 17, 17)
    ]  # fmt: skip
    assert units_of(begun[:2], {}) == [("n0", 8, 0, 4), ("n1", 8, 4, 8), *fresh[2:]]


def test_a_complete_table_keeps_the_rows_of_its_units() -> None:
    begun = [Unit("a", (), "first"), Unit("b", (), "second")]
    assert units_of(begun, {"a": 10, "b": 24}) == [("a", 10, 0, 5), ("b", 24, 5, 17)]
    for rows_of in ({"a": 34}, {"a": 10, "b": 22}):  # incomplete, and other pairs
        assert [entry[1] for entry in units_of(begun, rows_of)] == [8, 8, 8, 8, 2]
