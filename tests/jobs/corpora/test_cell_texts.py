"""One id, one text: the same cells in any type of column, file and reader."""

import csv
import io
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.annotation.reading import RatingColumns, Reading
from jobs.annotation.tabular import read_parquet
from jobs.corpora.cell_texts import column_texts, escape_cell, escape_data_cell, escape_rows, list_texts, unescape_cell
from jobs.corpora.knowledge_base import KnowledgeBaseConfig, NodeColumns, NodeEntry, entries
from jobs.corpora.user_tables import batches
from jobs.items_from import concepts
from jobs.items_from.concepts import as_csv
from jobs.items_from.input_rows import open_file
from jobs.page import picture_sheets
from jobs.papers import paper_tables
from tests.cases import check_cases

NAME = uuid.UUID("00000000-0000-0000-0000-4a4b4c4d4e4f")
COLUMNS: list[tuple[list[Any], pa.DataType, list[str | None]]] = [
    ([1.0, None, 3.0], pa.float64(), ["1", None, "3"]),
    ([1.0, float("nan"), -0.0], pa.float32(), ["1", None, "0"]),
    ([1234567890123456.0, 1e16, 2e15], pa.float64(), ["1234567890123456", "10000000000000000", "2000000000000000"]),
    ([1e20, 1e21, 1e300], pa.float64(), ["100000000000000000000", "1e+21", "1e+300"]),
    ([0.1, 1.5, 1e-7], pa.float64(), ["0.1", "1.5", "1e-07"]),
    ([0.1, 16777216.0], pa.float32(), ["0.1", "16777216"]),
    ([2.0, 0.5], pa.float16(), ["2", "0.5"]),
    ([Decimal("1.00"), None, Decimal("1.50")], pa.decimal128(20, 2), ["1", None, "1.50"]),
    ([2**63 - 1, -1], pa.int64(), ["9223372036854775807", "-1"]),
    ([2**64 - 1], pa.uint64(), ["18446744073709551615"]),
    ([True, False, None], pa.bool_(), ["true", "false", None]),
    ([" a ", "", "01", "1.0", None], pa.string(), ["a", None, "01", "1.0", None]),
    (["a"], pa.large_string(), ["a"]),
    (["a"], pa.string_view(), ["a"]),
    (["a", "b", "a"], pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
    ([1.0, 2.0], pa.dictionary(pa.int8(), pa.float64()), ["1", "2"]),
    ([NAME.bytes, None], pa.uuid(), [str(NAME), None]),
]


def test_whole_numbers_are_digits_in_every_type() -> None:
    def check(cells: list[Any], kind: pa.DataType, texts: list[str | None]) -> None:
        column = pa.array(cells, kind)
        assert column_texts(column).to_pylist() == texts
        assert column_texts(pa.chunked_array([column, column])).to_pylist() == texts * 2

    check_cases(check, COLUMNS)


def test_lists_are_joined_and_other_types_refused() -> None:
    for kind in (pa.list_(pa.float64()), pa.large_list(pa.string()), pa.list_(pa.string(), 2)):
        column = pa.array([["1", "2"]] * 2 if kind.value_type == pa.string() else [[1.0, 2.0], [1.0, 2.0]], kind)
        assert list_texts(column.slice(1)).to_pylist() == ["1,2"]
    assert list_texts(pa.array([["a"], None, [], ["b", None]])).to_pylist() == ["a", None, None, "b,"]
    kinds = [pa.list_(pa.string()), pa.struct({"a": pa.string()}), pa.map_(pa.string(), pa.string()), pa.binary(16)]
    for kind in kinds:
        with pytest.raises(pa.ArrowException):
            column_texts(pa.array([None], kind))


def _items(uri: str) -> list[Any]:
    return [row["id"] for _, row in open_file(uri, encoding=None, delimiter=None).rows(print)]


def _ratings(uri: str) -> list[Any]:
    reading = Reading("ratings", RatingColumns(item_id="id", value="v"), None, question="q", rater="r")
    return [name for rows in read_parquet(uri, reading, print) for name in rows["item_id"].to_pylist()]


def _analyzed(uri: str) -> list[Any]:
    return [name for rows in batches(uri, ["id"]) for name in rows["id"].to_pylist()]


def _nodes(uri: str) -> list[Any]:
    read = entries(uri, KnowledgeBaseConfig("k", uri, columns=NodeColumns(node="id")))
    return [entry.node_id for entry in read if isinstance(entry, NodeEntry)]


@pytest.mark.parametrize("reader", [_items, _ratings, _analyzed, _nodes])
def test_every_reader_gives_an_id_the_same_text(tmp_path: Path, reader: Callable[[str], list[Any]]) -> None:
    def check(cells: list[Any], kind: pa.DataType, texts: list[str | None]) -> None:
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({"id": pa.array(cells, kind), "v": ["1"] * len(cells)}), path)
        assert list(filter(None, reader(str(path)))) == list(filter(None, texts))

    check_cases(check, [case for case in COLUMNS if case[1] != pa.float32() or reader is not _nodes])


@pytest.mark.parametrize("reader", [_items, _nodes])
def test_ids_in_json_lines_have_the_same_text(tmp_path: Path, reader: Callable[[str], list[Any]]) -> None:
    path = tmp_path / "a.jsonl"
    ids = [1, 2.0, 1234567890123456.0, 1e16, "01", 0.5, True, 2**64 - 1]
    path.write_text("".join(json.dumps({"id": name}) + "\n" for name in ids))
    assert reader(str(path)) == ["1", "2", "1234567890123456", "10000000000000000", "01", "0.5", "true", str(2**64 - 1)]


FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]


def test_formulas_become_texts() -> None:
    def check(text: str) -> None:
        assert escape_cell(text) == f"'{text}"

    check_cases(check, FORMULAS)


@given(st.text() | st.sampled_from([*FORMULAS, "'", "'=x", "''", "it's"]))
def test_every_text_is_read_back(text: str) -> None:
    assert unescape_cell(escape_cell(text)) == text
    assert escape_cell(text)[:1] not in {"=", "+", "-", "@", "\t", "\r"}


def test_numbers_and_what_people_write_stay() -> None:
    assert [escape_cell(cell) for cell in (-0.5, 3, None, "x", "")] == [-0.5, 3, None, "x", ""]
    assert [escape_data_cell(cell) for cell in (-0.5, None, "-4", "+1e5", "-4x", "=1")] == [
        -0.5, None, "-4", "+1e5", "'-4x", "'=1"
    ]  # fmt: skip
    assert [unescape_cell(cell) for cell in ("'tis", "x", "=x")] == ["'tis", "x", "=x"]


def test_columns_of_texts_have_no_formulas_and_keep_numbers() -> None:
    texts = [*FORMULAS, "-2", "+1.5e-3", "-inf", "3", "it's", "'x", "", None]
    rows = escape_rows(pa.table({"text": texts, "number": pa.array([-1.0] * len(texts))}))
    numbers = ["+1", "-2", "+1.5e-3"]
    assert rows["text"].to_pylist() == [text if text in numbers else escape_cell(text) for text in texts]
    assert rows["number"].to_pylist() == [-1.0] * len(texts)


def test_files_of_concepts_and_papers_have_no_formulas() -> None:
    row = dict.fromkeys(concepts.COLUMNS, "") | {"concept": FORMULAS[0], "labels": "'s-Hertogenbosch"}
    (read,) = csv.DictReader(io.StringIO(as_csv(cast(Any, [row])).decode("utf-8-sig")))
    assert (read["concept"], read["labels"]) == (f"'{FORMULAS[0]}", "'s-Hertogenbosch")
    cell = SimpleNamespace(metric=None, printed=SimpleNamespace(value=-1.0, low=None, high=None))
    rows = [SimpleNamespace(headers=[header], cells=[cell]) for header in (FORMULAS[0], "-4")]
    table = SimpleNamespace(row_headers=["rater"], columns=[("a", "b")], rows=rows)
    _, line, number = csv.reader(io.StringIO(paper_tables.table_csv(cast(Any, table)).decode()))
    assert (line[0], number[0]) == (f"'{FORMULAS[0]}", "-4")
    assert "-1.0" in line


def test_a_prompt_does_not_become_a_formula_of_the_sheet() -> None:
    row = dict.fromkeys(picture_sheets.COLUMNS, "") | {"prompt": FORMULAS[0]}
    (read,) = csv.DictReader(io.StringIO(picture_sheets.choices_csv([row]).decode("utf-8-sig")))
    assert read["prompt"] == f"'{FORMULAS[0]}"
