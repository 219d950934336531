"""Units are read whole, written only if they arrive whole, and keep their other rows at a retry."""

from pathlib import Path

import pyarrow as pa
import pytest

from actors import schemas
from jobs.errors import RunError
from jobs.runtime.stage_contract import EXPECTED_ROWS, TASK, Read, Stage
from jobs.runtime.unit_blocks import UnitReader, UnitSink, count_rows, merge_retried, replace_items
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask, UnitWriter


def test_rows_of_a_retry_are_those_of_its_statuses(tmp_path: Path) -> None:
    """A limit of the unit cuts its rows first; each row knows how many are expected."""
    target = Target(str(tmp_path), "images", {}, "i", {}, None)
    task = UnitTask(Unit("u", (), rows=4, extra={"limit": 3}))
    rows = [{"image_id": f"{n}", "rendition": "w", "status": status} for n, status in enumerate(["ok", "error", "ok"])]
    with UnitWriter(target, task) as writer:
        writer.counts.rows_in = 3
        writer.write(pa.Table.from_pylist(rows, schema=schemas.IMAGES))

    def read(retry: tuple[str, ...]) -> list[tuple[str, int]]:
        reading = Read(lambda _: pa.table({"image_id": list("0123")}), "image_id", "image_id")
        reader = UnitReader(reading, target, [Stage("copy", object, {}, rows_out=2)], None)
        again = UnitTask(task.unit, 1, (), retry).to_json()
        returned = reader(pa.table({TASK: [again]}))
        assert returned[TASK].to_pylist() == [again] * returned.num_rows
        return list(zip(returned["image_id"].to_pylist(), returned[EXPECTED_ROWS].to_pylist(), strict=True))

    assert read(()) == [("0", 6), ("1", 6), ("2", 6)]
    assert read(("error",)) == [("1", 2)]
    assert read(("error", "ok")) == [("0", 6), ("1", 6), ("2", 6)]


def test_a_unit_that_did_not_arrive_whole_is_not_written(tmp_path: Path) -> None:
    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    task = pa.array([UnitTask(Unit("u", ())).to_json()] * 2).dictionary_encode()
    rows = pa.table({"item_id": ["a", "a"], TASK: task, EXPECTED_ROWS: [3, 3]})
    for counts_items, arrived in ((False, "2 of 3 rows"), (True, "1 of 3 items")):
        with pytest.raises(RunError, match=f"unit u: only {arrived} arrived"):
            UnitSink(target, counts_items=counts_items)(rows)
    assert not list(tmp_path.iterdir())


def test_rows_that_the_plan_left_out_are_read_and_filtered(tmp_path: Path) -> None:
    unit = Unit("u", (), extra={"filtered": {"same_picture": 2, "draw": 1}})
    with UnitWriter(Target(str(tmp_path), "records", {}, "i", {}), UnitTask(unit)) as writer:
        count_rows(writer, UnitTask(unit), 0)
        assert (writer.counts.rows_in, writer.counts.filtered) == (3, {"same_picture": 2, "draw": 1})
        count_rows(writer, UnitTask(Unit("v", ())), 5)
        assert writer.counts.rows_in == 5
        writer.counts.rows_in = 3


def test_of_a_retry_only_rows_with_its_statuses_are_replaced() -> None:
    schema = pa.schema({"item": pa.string(), "order": pa.string(), "status": pa.string(), "try": pa.int8()})

    def table(*rows: tuple[str, str, str, int]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)

    written = table(("a", "x", "error", 0), ("a", "y", "ok", 0), ("b", "x", "refused", 0), ("c", "x", "error", 0))
    redone = table(("c", "x", "error", 1), ("a", "y", "ok", 1), ("a", "x", "ok", 1)).append_column("more", [[1, 2, 3]])
    redone = redone.select(redone.column_names[::-1])
    task = UnitTask(Unit("u", ()), retry=("error",))
    merged = merge_retried(written, redone, ["item", "order"], task)
    assert merged.equals(
        table(("a", "x", "ok", 1), ("a", "y", "ok", 0), ("b", "x", "refused", 0), ("c", "x", "error", 1))
    )
    with pytest.raises(RunError, match=r"unit u: the retry returned no row for \('c', 'x'\)"):
        merge_retried(written, redone.slice(1), ["item", "order"], task)


def test_a_retry_replaces_the_rows_of_whole_items_in_their_places() -> None:
    schema = pa.schema({"item_id": pa.string(), "span": pa.int32()})

    def table(items: str, spans: list[int]) -> pa.Table:
        return pa.table({"item_id": list(items), "span": spans}, schema=schema)

    written = table("aabcc", [1, 2, 3, 4, 5])
    for redone, merged in (
        (table("bb", [8, 9]), table("aabbcc", [1, 2, 8, 9, 4, 5])),
        (table("bb", [8, 9]).select(["span", "item_id"]), table("aabbcc", [1, 2, 8, 9, 4, 5])),
        (table("ca", [8, 9]), table("abc", [9, 3, 8])),
    ):
        assert replace_items(written, redone).equals(merged)
