"""A batch that is not what a stage declares is refused; the error names stage, column and both types."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.errors import RunError
from jobs.runtime.stage_contract import Stage, check_inputs, check_outputs
from jobs.runtime.stage_workers import (
    BEGUN,
    EXCLUDED,
    EXPECTED_ROWS,
    TALLY,
    TASK,
    StageRunner,
    UnitSink,
    merge_retried,
    replace_items,
    sum_tallies,
)
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask
from tests.cases import check_cases

DECLARED = pa.schema({"item_id": pa.string(), "scores": pa.list_(pa.float64())})
EXTRA = pa.schema([*DECLARED, ("note", pa.string())])
MISTYPED = pa.schema({"item_id": pa.int32(), "scores": pa.list_(pa.float64())})
MISSING = pa.schema({"item_id": pa.string()})
SWAPPED = pa.schema([DECLARED.field("scores"), DECLARED.field("item_id")])


class Labels:
    """A stage whose output is `output`, whatever it declares."""

    INPUTS = pa.schema({"item_id": pa.string()})
    OUTPUTS = pa.schema({"label": pa.string()})

    def __init__(self, *, output: pa.Table) -> None:
        self._output = output

    def __call__(self, batch: pa.Table) -> pa.Table:
        return self._output


def run_stage(item: Any, label: Any) -> pa.Table:
    """Return one row of column `item_id` through the runner; the stage returns one row of column `label`."""
    batch = pa.table({"item_id": [item], TASK: ["unit"], EXPECTED_ROWS: [1], EXCLUDED: ["{}"], BEGUN: [0.0]})
    stage = Stage("judge", Labels, {"output": pa.table({"label": [label]})})
    return StageRunner(stage=stage, board=None)(batch)


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


def test_the_runner_checks_both_sides() -> None:
    assert run_stage("a", "good")["label"].to_pylist() == ["good"]
    with pytest.raises(RunError, match=r"Labels, input: column item_id is int64"):
        run_stage(1, "good")
    with pytest.raises(RunError, match=r"Labels, output: column label is double"):
        run_stage("a", 0.5)


VARYING = pa.schema({"item_id": pa.string(), "span": pa.int32()})


class Spans:
    """A stage that returns any number of rows per item."""

    INPUTS = pa.schema({"item_id": pa.string()})
    OUTPUTS = VARYING

    def __init__(self, *, items: list[str]) -> None:
        self._items = items

    def __call__(self, batch: pa.Table) -> pa.Table:
        return pa.table({"item_id": self._items, "span": range(len(self._items))}, schema=VARYING)


def varying(items: list[str]) -> pa.Table:
    columns = {TASK: ["u", "u", "v"], EXPECTED_ROWS: [2, 2, 1], EXCLUDED: ["{}"] * 3, BEGUN: [0.0] * 3}
    batch = pa.table({"item_id": ["a", "b", "c"], **columns})
    return StageRunner(stage=Stage("judge", Spans, {"items": items}, rows_out=None), board=None)(batch)


def test_rows_that_vary_keep_the_unit_of_their_item() -> None:
    rows = varying(["a", "a", "b", "c", "c", "c"])
    assert rows[TASK].to_pylist() == ["u", "u", "u", "v", "v", "v"]


def test_as_many_rows_as_items_need_not_be_one_of_each() -> None:
    columns = {TASK: ["u", "v"], EXPECTED_ROWS: [1, 1], EXCLUDED: ["{}"] * 2, BEGUN: [0.0] * 2}
    stage = Stage("judge", Labels, {"output": pa.table({"label": ["x", "y"]})}, rows_out=lambda _: [0, 2])
    rows = StageRunner(stage=stage, board=None)(pa.table({"item_id": ["a", "b"], **columns}))
    assert rows[TASK].to_pylist() == ["v", "v"]


def test_each_item_has_rows_in_order() -> None:
    cases = [["a", "b"], ["a", "c", "b"], ["a", "b", "a", "c"], ["a", "b", "c", "d"], []]

    def check(items: list[str]) -> None:
        with pytest.raises(RunError, match="stage Spans: returned rows that are not those of its 3 items"):
            varying(items)

    check_cases(check, cases)


def test_a_retry_replaces_the_rows_of_whole_items() -> None:
    def table(items: str, spans: list[int]) -> pa.Table:
        return pa.table({"item_id": list(items), "span": spans}, schema=VARYING)

    replaced = replace_items(table("aabcc", [1, 2, 3, 4, 5]), table("bb", [8, 9]))
    assert replaced.to_pylist() == table("aabbcc", [1, 2, 8, 9, 4, 5]).to_pylist()


def test_of_a_retry_only_rows_with_its_statuses_are_replaced() -> None:
    schema = pa.schema({"item": pa.string(), "order": pa.string(), "status": pa.string(), "try": pa.int8()})

    def table(*rows: tuple[str, str, str, int]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)

    written = table(("a", "x", "error", 0), ("a", "y", "ok", 0), ("b", "x", "refused", 0), ("c", "x", "error", 0))
    redone = table(("c", "x", "error", 1), ("a", "y", "ok", 1), ("a", "x", "ok", 1)).append_column("more", [[1, 2, 3]])
    task = UnitTask(Unit("u", ()), retry=("error",))
    merged = merge_retried(written, redone, ["item", "order"], task)
    assert merged.equals(
        table(("a", "x", "ok", 1), ("a", "y", "ok", 0), ("b", "x", "refused", 0), ("c", "x", "error", 1))
    )
    with pytest.raises(RunError, match=r"unit u: the retry returned no row for \('c', 'x'\)"):
        merge_retried(written, redone.slice(1), ["item", "order"], task)


class Failing(Labels):
    """A stage that raises `error` at every batch."""

    def __init__(self, *, error: Exception) -> None:
        self._error = error

    def __call__(self, batch: pa.Table) -> pa.Table:
        raise self._error


def test_errors_of_the_run_and_of_batches_without_rows_are_not_errors_of_rows() -> None:
    batch = pa.table({"item_id": ["i"], TASK: ["unit"], EXPECTED_ROWS: [1], EXCLUDED: ["{}"], BEGUN: [0.0]})
    for error, rows in ((RunError("no such column"), 1), (ValueError("an empty batch"), 0)):
        with pytest.raises(type(error), match=f"^{error}$"):
            StageRunner(stage=Stage("judge", Failing, {"error": error}), board=None)(batch.slice(0, rows))


def test_a_unit_that_did_not_arrive_whole_is_not_written(tmp_path: Path) -> None:
    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    task = pa.array([UnitTask(Unit("u", ())).to_json()] * 2).dictionary_encode()
    rows = pa.table({"item_id": ["a", "a"], TASK: task, EXPECTED_ROWS: [3, 3]})
    for counts_items, arrived in ((False, "2 of 3 rows"), (True, "1 of 3 items")):
        with pytest.raises(RunError, match=f"unit u: only {arrived} arrived"):
            UnitSink(target, counts_items=counts_items)(rows)
    assert not list(tmp_path.iterdir())


def test_tallies_are_summed_by_group_and_key() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    rows = pa.table(
        {TALLY: pa.array([[("links/none", 2), ("links/gold", 1)], None, [("links/none", 3), ("x/a/b", 4)]], kind)}
    )
    assert sum_tallies(rows) == {"links": {"none": 5, "gold": 1}, "x": {"a/b": 4}}
    assert sum_tallies(pa.table({"item": ["a"]})) == {}


class Counting(Labels):
    """A stage that counts something in its first batch only."""

    def __init__(self, *, output: pa.Table) -> None:
        super().__init__(output=output)
        self._tallies = [{"tokens/passed": 3}, {}]

    def take_tally(self) -> dict[str, int]:
        return self._tallies.pop(0)


def test_batches_without_counts_have_the_columns_of_those_with_some() -> None:
    runner = StageRunner(stage=Stage("judge", Counting, {"output": pa.table({"label": ["a"]})}), board=None)
    batch = pa.table({"item_id": ["i"], TASK: ["unit"], EXPECTED_ROWS: [1], EXCLUDED: ["{}"], BEGUN: [0.0]})
    assert pa.concat_tables([runner(batch), runner(batch)])[TALLY].to_pylist() == [[("tokens/passed", 3)], None]


def test_tallies_of_items_without_rows_are_kept() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    columns = {TASK: ["u"] * 3, EXPECTED_ROWS: [3] * 3, EXCLUDED: ["{}"] * 3, BEGUN: [0.0] * 3}
    tallies = pa.array([[("a/b", 1)], [("a/b", 2)], [("a/b", 4)]], kind)
    batch = pa.table({"item_id": ["a", "b", "c"], **columns, TALLY: tallies})
    for counts, expected in (
        ([0, 2, 0], [[("a/b", 1), ("a/b", 2)], [("a/b", 4)]]),
        ([1, 1, 0], [[("a/b", 1)], [("a/b", 2), ("a/b", 4)]]),
        ([2, 0, 0], [[("a/b", 1)], [("a/b", 2), ("a/b", 4)]]),
    ):
        output = pa.table({"label": ["x"] * sum(counts)})
        stage = Stage("judge", Labels, {"output": output}, rows_out=lambda _, counts=counts: counts)  # type: ignore[misc]
        assert StageRunner(stage=stage, board=None)(batch)[TALLY].to_pylist() == expected


def test_a_batch_without_rows_has_no_tallies() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    batch = pa.table({"item_id": ["i"], TASK: ["unit"], EXPECTED_ROWS: [1], EXCLUDED: ["{}"], BEGUN: [0.0]})
    stage = Stage("judge", Labels, {"output": pa.table({"label": pa.array([], pa.string())})})
    rows = StageRunner(stage=stage, board=None)(batch.append_column(TALLY, pa.array([None], kind)).slice(1))
    assert (rows.num_rows, rows[TALLY].type, rows["label"].type) == (0, kind, pa.string())


def test_the_number_of_rows_that_is_expected_is_named() -> None:
    rows = pa.table({"n": [0, 1, 2]})
    for rows_out, expected in ((2, "2 per row"), (lambda _: [2, 1, 3], "6"), (lambda _: [3, 3, 3], "3 per row")):
        stage = Stage("judge", object, {}, rows_out=rows_out)
        with pytest.raises(RunError, match=rf"^stage object: returned 3 rows for 3, expected {expected}$"):
            stage.returned_counts(rows, rows)
    assert Stage("judge", object, {}).returned_counts(rows, rows) == [1, 1, 1]
