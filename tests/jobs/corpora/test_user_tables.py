"""Columns and rows that are selected from a file of ratings."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.corpora import user_tables
from jobs.corpora.user_tables import batches, find_file, select_columns
from jobs.errors import InputError
from tests.factories import write_table


def test_ratings_are_in_one_file(tmp_path: Path) -> None:
    (tmp_path / ".DS_Store").touch()
    for number, name in enumerate(("a.csv", "b.csv")):
        (tmp_path / name).write_text("item\n")
        if number == 0:
            assert find_file("ratings.file", str(tmp_path)).uri == f"{tmp_path}/a.csv"
    assert find_file("ratings.file", f"{tmp_path}/b.csv").uri == f"{tmp_path}/b.csv"
    with pytest.raises(InputError, match=f"ratings.file={tmp_path}: 2 files"):
        find_file("ratings.file", str(tmp_path))
    table = write_table(tmp_path / "R", "ratings", [])
    with pytest.raises(InputError, match=r"^input=.*/R: a table that remine wrote, not a file; name one CSV, TSV or "):
        find_file("input", table)


def test_columns_are_joined_and_rows_have_exactly_the_texts() -> None:
    rows = pa.table({
        "page": ["a", "a", "b", "b", None],
        "number": ["1", "2", "1", None, "1"],
        "answer": ["yes", "no", "yes", "yes", "yes"],
        "kind": ["text", "text", "Text", "text", "text"],
    })  # fmt: skip
    columns = {"item": ["page", "number"], "value": ["answer"], "unused": []}
    selected = select_columns("ratings.csv", rows, columns, {"kind": "text"})
    assert selected.to_pydict() == {"item": ["a · 1", "a · 2", None, None], "value": ["yes", "no", "yes", "yes"]}
    both = select_columns("ratings.csv", rows, {"value": ["page"]}, {"kind": "text", "answer": "yes"})
    assert both["value"].to_pylist() == ["a", "b", None]
    with pytest.raises(InputError, match=r"ratings\.csv.*absent"):
        select_columns("ratings.csv", rows, columns, {"absent": "x"})


def test_columns_of_parquet_are_trimmed_texts_some_rows_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_tables, "BATCH_ROWS", 2)
    columns = {"item": [" a ", "", None], "value": [1, None, 3], "labels": [["x", "y"], [], None]}
    pq.write_table(pa.table(columns), tmp_path / "r.PARQUET")
    tables = list(batches(f"{tmp_path}/r.PARQUET", list(columns)))
    assert [table.num_rows for table in tables] == [2, 1]
    assert pa.concat_tables(tables).to_pydict() == {
        "item": ["a", None, None], "value": ["1", None, "3"], "labels": ["x,y", None, None]
    }  # fmt: skip
    pq.write_table(pa.table({"item": ["a"], "value": [{"a": 1}]}), tmp_path / "r.PARQUET")
    assert [table.to_pydict() for table in batches(f"{tmp_path}/r.PARQUET", ["item"])] == [{"item": ["a"]}]
    with pytest.raises(InputError, match=r"r\.PARQUET: column value is struct<a: int64>; text or numbers are needed"):
        list(batches(f"{tmp_path}/r.PARQUET", ["value"]))
    (tmp_path / "r.PARQUET").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"r\.PARQUET: not a readable Parquet file \("):
        list(batches(f"{tmp_path}/r.PARQUET", ["value"]))
