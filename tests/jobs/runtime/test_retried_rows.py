"""The rows of a unit whose retry is written."""

import pyarrow as pa
import pytest

from jobs.errors import RunError
from jobs.runtime.retried_rows import merge_retried, replace_items
from jobs.store.units import Unit
from jobs.store.writer import UnitTask


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
