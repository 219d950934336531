"""The column of a Parquet file that holds pictures, and its cells."""

import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.workers.fetch_shards import ShardEntry, Shards, bytes_column
from tests.cases import check_cases

BYTES, LARGE, TEXT = pa.binary(), pa.large_binary(), pa.string()
STRUCT = pa.struct([("path", TEXT), ("bytes", BYTES)])


def test_the_column_of_bytes_is_the_one_that_is_set_or_usual_or_alone() -> None:
    def check(columns: dict[str, pa.DataType], configured: str | None, chosen: str) -> None:
        assert bytes_column(pa.schema(columns.items()), configured, "f") == chosen

    check_cases(check, [
        ({"x": BYTES, "image": BYTES}, None, "image"),
        ({"png": BYTES, "jpg": LARGE, "bytes": BYTES}, None, "bytes"),
        ({"png": BYTES, "jpg": LARGE}, None, "jpg"),
        ({"image": TEXT, "data": LARGE}, None, "data"),
        ({"image": STRUCT, "n": TEXT}, None, "image"),
        ({"image": BYTES, "x": STRUCT}, "x", "x"),
    ])  # fmt: skip


def test_other_columns_are_refused_with_those_that_there_are() -> None:
    def check(columns: dict[str, pa.DataType], configured: str | None, message: str) -> None:
        with pytest.raises(InputError, match=message):
            bytes_column(pa.schema(columns.items()), configured, "f")

    check_cases(check, [
        ({"a": BYTES, "b": BYTES}, None, r"^source\.bytes_column= is required; f has bytes in a, b \(of a, b\)$"),
        ({"a": TEXT}, None, r"required; f has bytes in no column \(of a\)$"),
        ({"a": TEXT, "image": BYTES}, "a", r"^source\.bytes_column=a: not a column of bytes; f has bytes in image"),
        ({"a": pa.struct([("path", BYTES)])}, "a", r"=a: not a column of bytes"),
        ({"a": pa.struct([("bytes", TEXT)])}, None, r"bytes in no column"),
    ])  # fmt: skip


def test_cells_without_bytes_or_with_too_many_are_errors() -> None:
    shards = Shards("parquet", "", 3, None, None)
    assert shards._cell("n", b"abc") == ShardEntry("n", b"abc")
    missing, large = shards._cell("n", None), shards._cell("n", b"abcd")
    assert missing.failure is not None
    assert large.failure is not None
    assert [(cell.name, cell.data, (cell.failure or {}).get("status")) for cell in (missing, large)] == [
        ("n", None, "missing"), ("n", None, "error")
    ]  # fmt: skip
    assert missing.failure["error_kind"] == "no_bytes"
    assert "4" in (large.failure["error_message"] or "")
