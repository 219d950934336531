"""No text of others is a formula in a file that people open in a spreadsheet program."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.corpora.spreadsheet_cells import escaped, original
from jobs.page import choice_sheet

FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_become_texts(text: str) -> None:
    assert escaped(text) == f"'{text}"


@given(st.text() | st.sampled_from([*FORMULAS, "'", "'=x", "''", "it's"]))
def test_every_text_is_read_back(text: str) -> None:
    assert original(escaped(text)) == text
    assert escaped(text)[:1] not in {"=", "+", "-", "@", "\t", "\r"}


def test_numbers_and_what_people_write_stay() -> None:
    assert [escaped(cell) for cell in (-0.5, 3, None, "x", "")] == [-0.5, 3, None, "x", ""]
    assert [original(cell) for cell in ("'tis", "x", "=x")] == ["'tis", "x", "=x"]


def test_a_prompt_is_no_formula_in_the_sheet() -> None:
    row = dict.fromkeys(choice_sheet.COLUMNS, "") | {"prompt": FORMULAS[0]}
    (read,) = csv.DictReader(io.StringIO(choice_sheet.as_csv([row]).decode("utf-8-sig")))
    assert read["prompt"] == f"'{FORMULAS[0]}"
