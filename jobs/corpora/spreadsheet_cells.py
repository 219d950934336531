"""Cells of CSV files that people open in spreadsheet programs, where other people's texts must not become formulas."""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_TEXT = r"^(['=@\t\r]|[+-])"
_NUMBER = r"^[+-]?[0-9.]+([eE][+-]?[0-9]+)?$"  # must stay unchanged for programs that read the file as data
MARK = "'"  # before such a text; makes spreadsheet programs treat the cell as text


def escaped(cell: Any) -> Any:
    """Return the cell to write: a text that would be a formula, or begins with the mark, is prefixed with the mark."""
    if isinstance(cell, str) and cell.startswith((*_FORMULA, MARK)):
        return f"{MARK}{cell}"
    return cell


def escaped_data(cell: Any) -> Any:
    """Return the cell to write to a file that programs read as data: as `escaped`, but numbers are unchanged."""
    return cell if isinstance(cell, str) and re.match(_NUMBER, cell) else escaped(cell)


def escaped_rows(rows: pa.Table) -> pa.Table:
    """Return the rows to write, with `escaped_data` applied to each text."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            texts = rows.column(index)
            marked = pc.and_not(pc.match_substring_regex(texts, _TEXT), pc.match_substring_regex(texts, _NUMBER))
            cells = pc.if_else(marked, pc.binary_join_element_wise(MARK, texts, ""), texts)
            rows = rows.set_column(index, field, cells)
    return rows


def original(cell: str) -> str:
    """Return the text of a cell that `escaped` wrote, or that a person wrote without the mark."""
    rest = cell.removeprefix(MARK)
    return rest if cell != rest and rest.startswith((*_FORMULA, MARK)) else cell
