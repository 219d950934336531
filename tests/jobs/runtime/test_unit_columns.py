"""Counts of actors that travel with the rows."""

import pyarrow as pa

from jobs.runtime.unit_columns import TALLY, spread_tallies, sum_tallies


def test_tallies_stay_with_their_rows_and_are_summed_by_group() -> None:
    kept = pa.array([[("a/x", 1)], None, [("a/x", 2), ("b/", 3)]], pa.map_(pa.string(), pa.int64()))
    rows = pa.table({TALLY: kept})
    spread = spread_tallies(rows, [3, 0, 1], {"a/y": 5})
    assert spread.to_pylist() == [[("a/x", 1), ("a/y", 5)], None, None, [("a/x", 2), ("b/", 3)]]
    assert spread_tallies(rows, [1, 1, 0], {}).to_pylist() == [[("a/x", 1)], [("a/x", 2), ("b/", 3)]]
    assert len(spread_tallies(rows, [0, 0, 0], {"a/y": 5})) == 0
    assert sum_tallies(pa.table({TALLY: spread})) == {"a": {"x": 3, "y": 5}, "b": {"": 3}}
    assert sum_tallies(pa.table({"n": [1]})) == {}


def test_tallies_are_summed_by_group_and_key() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    rows = pa.table(
        {TALLY: pa.array([[("links/none", 2), ("links/gold", 1)], None, [("links/none", 3), ("x/a/b", 4)]], kind)}
    )
    assert sum_tallies(rows) == {"links": {"none": 5, "gold": 1}, "x": {"a/b": 4}}
