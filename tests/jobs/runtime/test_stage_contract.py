"""A batch that is not what a stage declares is refused; the error names stage, column and both types."""

from typing import Any

import pyarrow as pa
import pytest

from jobs.errors import RunError
from jobs.runtime.stage_contract import Stage, check_inputs, check_outputs

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
