"""A batch that is not what a stage declares is refused; counts of actors travel with the rows."""

from typing import Any

import pyarrow as pa
import pytest

from jobs.errors import RunError
from jobs.runtime.stage_contract import TALLY, Stage, check_inputs, check_outputs, spread_tallies, sum_tallies

DECLARED = pa.schema({"item_id": pa.string(), "scores": pa.list_(pa.float64())})
EXTRA = pa.schema([*DECLARED, ("note", pa.string())])
MISTYPED = pa.schema({"item_id": pa.int32(), "scores": pa.list_(pa.float64())})
MISSING = pa.schema({"item_id": pa.string()})
SWAPPED = pa.schema([DECLARED.field("scores"), DECLARED.field("item_id")])


@pytest.mark.parametrize("check", [check_inputs, check_outputs])
def test_a_missing_or_mistyped_column_is_refused(check: Any) -> None:
    check("Judge", DECLARED, DECLARED)
    check("Judge", SWAPPED, DECLARED)
    with pytest.raises(RunError, match=r"Judge.*item_id is int32, expected string"):
        check("Judge", MISTYPED, DECLARED)
    with pytest.raises(RunError, match=r"Judge.*scores is missing, expected list<item: double>"):
        check("Judge", MISSING, DECLARED)


def test_stages_may_receive_but_not_return_further_columns() -> None:
    check_inputs("Judge", EXTRA, DECLARED)
    with pytest.raises(RunError, match=r"Judge.*note is not declared"):
        check_outputs("Judge", EXTRA, DECLARED)


def test_the_number_of_rows_that_is_expected_is_named() -> None:
    rows = pa.table({"n": [0, 1, 2]})
    for rows_out, expected in ((2, "2 per row"), (lambda _: [2, 1, 3], "6"), (lambda _: [3, 3, 3], "3 per row")):
        stage = Stage("judge", object, {}, rows_out=rows_out)
        with pytest.raises(RunError, match=rf"^stage object: returned 3 rows for 3, expected {expected}$"):
            stage.returned_counts(rows, rows)
    assert Stage("judge", object, {}).returned_counts(rows, rows) == [1, 1, 1]


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
