"""Columns and rows that are selected from a file of ratings; the pictures of a folder."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.corpora import user_tables
from jobs.corpora.user_tables import batches, find_file, list_files, name_in, select_columns
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


def test_files_below_a_folder_are_named_by_their_path_in_it(tmp_path: Path) -> None:
    for name in ("a.jpg", "sub/a.jpg", "sub/deeper/no picture", ".hidden.jpg", "sub/.DS_Store"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    uris = [file.uri for file in list_files(str(tmp_path))]
    expected = ["a.jpg", "sub/a.jpg", "sub/deeper/no picture"]
    assert [name_in(str(tmp_path), uri) for uri in uris] == expected
    assert [name_in(f"{tmp_path}/", uri) for uri in uris] == expected
    assert name_in(uris[0], uris[0]) == "a.jpg"


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([".DS_Store"], "no pictures there; name the folder"),
        (["a.txt", "sub/b.CSV"], "no pictures there (it has a.txt); name the folder"),
        ([], "the folder is empty"),
    ],
)
def test_a_folder_without_pictures_is_refused(tmp_path: Path, names: list[str], why: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError) as error:
        list_files(str(tmp_path))
    assert why in str(error.value)


def test_a_file_in_place_of_a_folder_is_refused_unless_it_may_be_a_picture(tmp_path: Path) -> None:
    for name in ("set.csv", "a.jpg"):
        (tmp_path / name).write_bytes(b"x")
    assert len(list_files(f"{tmp_path}/a.jpg")) == 1
    with pytest.raises(InputError, match="no pictures there"):
        list_files(f"{tmp_path}/set.csv")
