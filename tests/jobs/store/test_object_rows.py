"""Rows of one object: by row group, by position and by key, and damage in them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import RunError
from jobs.store.lookup import RowLookup
from jobs.store.object_rows import distinct_values, first_values, read_rows, read_unit, row_groups

KEYS = ["a", "b", "a", "c", "b", "d", "e"]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Seven rows in row groups of two."""
    path = str(tmp_path / "u.parquet")
    rows = pa.table({"n": range(7), "key": KEYS, "text": [f"text {n}" for n in range(7)]})
    options: dict[str, Any] = {"row_group_size": 2, "compression": "none", "write_page_checksum": True}
    pq.write_table(rows.replace_schema_metadata({"remine.table": "x"}), path, use_dictionary=False, **options)
    return path


@pytest.mark.parametrize(("limit", "sizes"), [(None, [2, 2, 2, 1]), (1, [1]), (2, [2]), (3, [2, 1]), (9, [2, 2, 2, 1])])
def test_no_row_group_after_a_limit_is_read(uri: str, limit: int | None, sizes: list[int]) -> None:
    groups = list(row_groups(uri, limit, ["n"], ()))
    assert [rows.num_rows for rows in groups] == sizes
    assert pa.concat_tables(groups).to_pydict() == {"n": list(range(sum(sizes)))}


def test_columns_and_dictionaries_are_those_that_are_asked_for(uri: str) -> None:
    (rows,) = row_groups(uri, 1, None, ["key"])
    assert rows.column_names == ["n", "key", "text"]
    assert [pa.types.is_dictionary(field.type) for field in rows.schema] == [False, True, False]
    whole = read_unit(uri, columns=["text", "key"], dictionaries=["text"])
    assert set(whole.column_names) == {"text", "key"}
    assert pa.types.is_dictionary(whole.schema.field("text").type)
    assert not pa.types.is_dictionary(whole.schema.field("key").type)
    assert (whole.schema.metadata, read_rows(uri, ["n"], 0, 1).schema.metadata) == (None, None)
    assert not any(pa.types.is_dictionary(field.type) for field in read_unit(uri).schema)


def test_rows_of_a_range_have_their_columns_in_the_order_that_is_asked_for(uri: str) -> None:
    for first, last in ((0, 7), (1, 2), (1, 5), (2, 4), (6, 9), (3, 3), (8, 9)):
        rows = read_rows(uri, ["text", "n"], first, last)
        assert rows.column_names == ["text", "n"]
        assert rows["n"].to_pylist() == list(range(7))[first:last]


def test_distinct_values_are_counted_and_the_first_of_them_keep_all_their_rows(uri: str) -> None:
    assert distinct_values(uri, "key") == 5
    rows = read_unit(uri)
    assert first_values(rows, "key", 2)["n"].to_pylist() == [0, 1, 2, 4]
    assert first_values(rows, "key", None) is rows
    assert first_values(rows, "key", 9).num_rows == 7


def test_rows_are_found_by_their_key_in_the_order_of_the_table(uri: str) -> None:
    lookup = RowLookup([uri, uri], key="key", columns=["key", "n"])
    rows = lookup.rows(pa.array(["d", "a", "a", "absent"]))
    assert rows.to_pydict() == {"key": ["a", "a", "d"] * 2, "n": [0, 2, 5] * 2}
    assert [rows.num_rows for rows in lookup.matching(pa.array(["d"]))] == [0, 1, 0, 1]
    assert pa.concat_tables(lookup.matching(None))["n"].to_pylist() == [*range(7)] * 2
    keys = RowLookup([uri], key="key", columns=[]).rows(pa.array(["b"]))
    assert keys.to_pydict() == {"key": ["b", "b"]}
    assert lookup.rows(pa.array(["absent"])).to_pydict() == {"key": [], "n": []}


@pytest.mark.parametrize(
    "read",
    [
        lambda uri: read_unit(uri, columns=["key", "text"]),
        lambda uri: list(row_groups(uri, None, ["key", "text"], ())),
        lambda uri: read_rows(uri, ["text"], 0, 7),
        lambda uri: RowLookup([uri], key="key", columns=["text"]).rows(pa.array(["a"])),
    ],
)
def test_a_changed_byte_of_a_page_or_of_a_column_name_is_damage(uri: str, read: Callable[[str], object]) -> None:
    data = bytearray(Path(uri).read_bytes())
    data[data.index(b"\x06\0\0\0text 2") + 4] ^= 1  # not in the statistics
    Path(uri).write_bytes(data)
    with pytest.raises(RunError, match=r"u\.parquet: damaged, its rows cannot be read .*repair=true"):
        read(uri)
    Path(uri).write_bytes(data.replace(b"text", b"tent"))  # among them the column's name, which has no checksum
    with pytest.raises(RunError, match=r"u\.parquet: damaged, its rows cannot be read .*text.*repair=true"):
        read(uri)
