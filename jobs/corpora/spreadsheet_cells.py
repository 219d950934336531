"""Cells of CSV files that people open in spreadsheet programs: texts of others must not become formulas."""

from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
MARK = "'"  # in front of such a text; spreadsheet programs take the cell as text


def escaped(cell: Any) -> Any:
    """The cell to write: a text that would be a formula, or that begins with the mark, gets the mark in front."""
    if isinstance(cell, str) and cell.startswith((*_FORMULA, MARK)):
        return f"{MARK}{cell}"
    return cell


def original(cell: str) -> str:
    """The text of a cell that `escaped` wrote, or that a person wrote without the mark."""
    rest = cell.removeprefix(MARK)
    return rest if cell != rest and rest.startswith((*_FORMULA, MARK)) else cell
