"""Reading a user's file row by row: names of formats, cells, numbers of lines, faults."""

import gzip
import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.items_from.input_rows import BATCH_ROWS, HEAD_ROWS, PICTURE, UserFile, entries, open_file, text_of
from jobs.store.writer import Reject
from tests.cases import check_cases


def opened(path: Path, data: str | bytes) -> UserFile:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return open_file(str(path), encoding=None, delimiter=None)


def read(file: UserFile) -> tuple[list[tuple[int, dict[str, Any]]], list[Reject]]:
    rejects: list[Reject] = []
    return [(line, dict(row)) for line, row in file.rows(rejects.append)], rejects


def test_cells() -> None:
    def check(value: Any, expected: Any) -> None:
        assert text_of(value) == expected

    nan = float("nan")
    cases: list[tuple[Any, Any]] = [
        (None, None), (nan, None), ("", None), (" \t", None), (" a b ", "a b"), (0, "0"), (0.0, "0"), (1.5, "1.5"),
        (True, "true"), (False, "false"), ([" a ", 1, None, nan, ""], ["a", "1"]), ([], []), ([""], None),
        ([None, " "], None),
        ([True], ["true"]), ({"b": 1, "a": "ü"}, '{"b": 1, "a": "ü"}'), ([["a"], "b"], '[["a"], "b"]'),
        ([{"a": 1}], '[{"a": 1}]'), ({}, "{}"), ([("a", "b")], '[["a", "b"]]'),
        ({"day": date(2020, 1, 31)}, '{"day": "2020-01-31"}'),
    ]  # fmt: skip
    check_cases(check, cases)


def test_entries() -> None:
    assert entries(["a; b", None, ["c ; d", " ", "e"], ";", ""], ";") == ["a", "b", "c ; d", "e"]
    assert entries([" a; b ", None, ["c", "c"], " "], None) == ["a; b", "c", "c"]
    assert entries([], ";") == []


def test_the_name_says_the_format(tmp_path: Path) -> None:
    table = "a,b\n1, \n, x \n"
    for name, data in (("f.csv", table), ("F.CSV", table), ("f.csv.gz", gzip.compress(table.encode()))):
        file = opened(tmp_path / name, data)
        assert (file.columns, file.counted) == (("a", "b"), "line")
        assert read(file) == ([(2, {"a": "1", "b": None}), (3, {"a": None, "b": "x"})], [])
        assert file.at(3) == f"{tmp_path / name}: line 3"
    tabbed, lines = "a\tb\n1\tx,y\n", '{"a": 1, "b": "x,y"}\n'
    for name, line, data in (("f.tsv", 2, tabbed), ("f.tsv.gz", 2, gzip.compress(tabbed.encode())),
                             ("f.jsonl", 1, lines), ("f.jsonl.gz", 1, gzip.compress(lines.encode()))):  # fmt: skip
        assert read(opened(tmp_path / name, data))[0] == [(line, {"a": "1", "b": "x,y"})], name
    listed = opened(tmp_path / "f.txt.gz", gzip.compress(b"\xef\xbb\xbf x \n\n \nb\xff\ny"))
    rows, (reject,) = read(listed)
    assert (listed.columns, rows) == ((PICTURE,), [(1, {PICTURE: "x"}), (5, {PICTURE: "y"})])
    assert (reject.position, reject.reason) == (4, "bad_encoding")
    with pytest.raises(InputError, match=r"allowed endings: \.csv, \.tsv, \.jsonl, \.parquet, \.txt$"):
        opened(tmp_path / "f.xml", "x")
    with pytest.raises(InputError, match=r"save the sheet as CSV UTF-8$"):
        opened(tmp_path / "f.xlsx", "x")
    with pytest.raises(InputError, match=r"2 files; name one file that ends with \.csv, "):
        open_file(f"{tmp_path}/[fF].[cC][sS][vV]", encoding=None, delimiter=None)


def test_a_column_without_a_name_is_left_out(tmp_path: Path) -> None:
    file = opened(tmp_path / "f.csv", ",a\n0,x\n")
    assert (file.columns, read(file)[0]) == (("a",), [(2, {"a": "x"})])


def test_encoding_and_delimiter_can_be_given(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_bytes("a;b,c\n1;2,é\n".encode("cp1252"))
    file = open_file(str(tmp_path / "f.csv"), encoding="cp1252", delimiter=";")
    assert read(file) == ([(2, {"a": "1", "b,c": "2,é"})], [])


def test_columns_of_json_lines_are_those_of_the_first_objects(tmp_path: Path) -> None:
    objects = [{"a": 1, "b": None}, *({"a": n} for n in range(HEAD_ROWS - 2)), {"last": "x"}, {"late": ["y"]}]
    file = opened(tmp_path / "f.jsonl", "\n".join(map(json.dumps, objects)))
    assert file.columns == ("a", "b", "last")
    rows, _ = read(file)
    assert (rows[0], rows[-1]) == ((1, {"a": "1", "b": None}), (HEAD_ROWS + 1, {"late": ["y"]}))


def test_rows_of_parquet_are_numbered_across_batches_without_bytes(tmp_path: Path) -> None:
    count = BATCH_ROWS + 2
    raw = pa.array([b"x"] * count)
    columns = {
        "n": pa.array(range(count)),
        "raw": raw,
        "large": raw.cast(pa.large_binary()),
        "uuid": raw.cast(pa.binary(1)),
        "several": pa.array([[b"x"]] * count),
        "within": pa.StructArray.from_arrays([raw, pa.array(["p"] * count)], ["bytes", "path"]),
        "struct": pa.StructArray.from_arrays([pa.array(["p"] * count)], ["path"]),
    }
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table(columns), path)
    file = open_file(str(path), encoding=None, delimiter=None)
    assert (file.columns, file.counted, file.at(7)) == (("n", "struct"), "row", f"{path}: row 7")
    assert file.binary == ("raw", "large", "uuid", "several", "within")
    assert file.available.startswith("its columns are n, struct; not read, because they hold bytes and not text: raw, ")
    rows, _ = read(file)
    assert [line for line, _ in rows] == list(range(1, count + 1))
    assert rows[-1] == (count, {"n": str(count - 1), "struct": '{"path": "p"}'})
    with pytest.raises(InputError, match="not a readable Parquet file"):
        opened(tmp_path / "broken.parquet", "PAR1 no")
    pq.write_table(pa.table([["x"], ["y"]], names=["a", "a"]), tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="duplicate column a "):
        open_file(f"{tmp_path}/twice.parquet", encoding=None, delimiter=None)


def test_rows_of_parquet_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    damaged, latin = tmp_path / "f.parquet", tmp_path / "g.parquet"
    pq.write_table(pa.table({"a": [f"text {n}" for n in range(2000)]}), damaged)
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:4] + b"\xff" * 100 + whole[104:])  # the names of the columns are at the end
    texts = pa.array([b"x", "é".encode("cp1252")], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"a": texts}), latin)
    for path in (damaged, latin):
        file = open_file(str(path), encoding=None, delimiter=None)
        assert file.columns == ("a",)
        with pytest.raises(InputError, match=rf"^{path}: not a readable Parquet file \(.*; replace"):
            read(file)
