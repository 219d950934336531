"""No text of others is a formula in a file that people open in a spreadsheet program."""

import csv
import io
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from jobs.corpora.spreadsheet_cells import escaped, escaped_data, escaped_rows, original
from jobs.items_from import concepts
from jobs.items_from.concepts_sheet import as_csv
from jobs.page import picture_sheets
from jobs.papers import output
from tests.cases import check_cases

FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]


def test_formulas_become_texts() -> None:
    def check(text: str) -> None:
        assert escaped(text) == f"'{text}"

    check_cases(check, FORMULAS)


@given(st.text() | st.sampled_from([*FORMULAS, "'", "'=x", "''", "it's"]))
def test_every_text_is_read_back(text: str) -> None:
    assert original(escaped(text)) == text
    assert escaped(text)[:1] not in {"=", "+", "-", "@", "\t", "\r"}


def test_numbers_and_what_people_write_stay() -> None:
    assert [escaped(cell) for cell in (-0.5, 3, None, "x", "")] == [-0.5, 3, None, "x", ""]
    assert [escaped_data(cell) for cell in (-0.5, None, "-4", "+1e5", "-4x", "=1")] == [
        -0.5, None, "-4", "+1e5", "'-4x", "'=1"
    ]  # fmt: skip
    assert [original(cell) for cell in ("'tis", "x", "=x")] == ["'tis", "x", "=x"]


def test_columns_of_texts_have_no_formulas_and_keep_numbers() -> None:
    texts = [*FORMULAS, "-2", "+1.5e-3", "-inf", "3", "it's", "'x", "", None]
    rows = escaped_rows(pa.table({"text": texts, "number": pa.array([-1.0] * len(texts))}))
    numbers = ["+1", "-2", "+1.5e-3"]
    assert rows["text"].to_pylist() == [text if text in numbers else escaped(text) for text in texts]
    assert rows["number"].to_pylist() == [-1.0] * len(texts)


def test_files_of_concepts_and_papers_have_no_formulas() -> None:
    row = dict.fromkeys(concepts.COLUMNS, "") | {"concept": FORMULAS[0], "labels": "'s-Hertogenbosch"}
    (read,) = csv.DictReader(io.StringIO(as_csv(cast(Any, [row])).decode("utf-8-sig")))
    assert (read["concept"], read["labels"]) == (f"'{FORMULAS[0]}", "'s-Hertogenbosch")
    cell = SimpleNamespace(metric=None, printed=SimpleNamespace(value=-1.0, low=None, high=None))
    rows = [SimpleNamespace(headers=[header], cells=[cell]) for header in (FORMULAS[0], "-4")]
    table = SimpleNamespace(row_headers=["rater"], columns=[("a", "b")], rows=rows)
    _, line, number = csv.reader(io.StringIO(output.as_csv(cast(Any, table))))
    assert (line[0], number[0]) == (f"'{FORMULAS[0]}", "-4")
    assert "-1.0" in line


def test_a_prompt_does_not_become_a_formula_of_the_sheet() -> None:
    row = dict.fromkeys(picture_sheets.COLUMNS, "") | {"prompt": FORMULAS[0]}
    (read,) = csv.DictReader(io.StringIO(picture_sheets.choices_csv([row]).decode("utf-8-sig")))
    assert read["prompt"] == f"'{FORMULAS[0]}"
