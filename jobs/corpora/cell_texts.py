"""Cells as texts: those of Arrow columns, and those of CSV files that people open in spreadsheet programs.

A column gives the same texts for whatever type the program that wrote the file gave it. In spreadsheet programs, other
people's texts must not become formulas.
"""

import csv
import io
import re
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.untrusted import cell_text


def column_texts(column: Any) -> pa.Array:
    """Return the cells of a column as trimmed strings (`actors.untrusted.cell_text`); empty ones are null.

    Raises:
        pa.ArrowException: the column has lists, objects or bytes that are not UTF-8.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array.type, pa.BaseExtensionType):
        array = _uuids(array.storage) if array.type.extension_name == "arrow.uuid" else array.storage
    if pa.types.is_nested(array.type) or pa.types.is_fixed_size_binary(array.type):
        raise pa.ArrowNotImplementedError(f"{array.type} holds no text")
    if pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        array = _numbers(array)
    trimmed = pc.utf8_trim_whitespace(array.cast(pa.string()))
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column of this type has lists."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def list_texts(column: Any) -> pa.Array:
    """Return the lists of a column as the texts of their entries, which must not be lists, joined by commas.

    Raises:
        pa.ArrowException: as for `column_texts`.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    texts = column_texts(pc.list_flatten(array))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, pc.fill_null(texts, "")), ",")
    return pc.if_else(
        pc.and_(pc.is_valid(array), pc.greater(pa.array(lengths), 0)), joined, pa.scalar(None, pa.string())
    )


def _numbers(array: pa.Array) -> pa.Array:
    """Return numbers that may have a fraction as texts, each distinct one converted once."""
    array = array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
    coded = array.dictionary_encode()
    values = coded.dictionary
    distinct = values.to_numpy(zero_copy_only=False) if pa.types.is_floating(values.type) else values.to_pylist()
    return pa.array([cell_text(value) for value in distinct], pa.string()).take(coded.indices)


def _uuids(storage: pa.Array) -> pa.Array:
    texts = [None if value is None else str(uuid.UUID(bytes=value)) for value in storage.to_pylist()]
    return pa.array(texts, pa.string())


_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_TEXT = r"^(['=@\t\r]|[+-])"
_NUMBER = r"^[+-]?[0-9.]+([eE][+-]?[0-9]+)?$"  # must stay unchanged for programs that read the file as data
TEXT_MARK = "'"  # before such a text; makes spreadsheet programs treat the cell as text


def escape_cell(cell: Any) -> Any:
    """Return the cell to write: a text that would be a formula, or begins with the mark, is prefixed with the mark."""
    if isinstance(cell, str) and cell.startswith((*_FORMULA, TEXT_MARK)):
        return f"{TEXT_MARK}{cell}"
    return cell


def escape_data_cell(cell: Any) -> Any:
    """Return the cell to write to a file that programs read as data: as `escaped`, but numbers are unchanged."""
    return cell if isinstance(cell, str) and re.match(_NUMBER, cell) else escape_cell(cell)


def escape_rows(rows: pa.Table) -> pa.Table:
    """Return the rows to write, with `escaped_data` applied to each text."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            texts = rows.column(index)
            marked = pc.and_not(pc.match_substring_regex(texts, _TEXT), pc.match_substring_regex(texts, _NUMBER))
            cells = pc.if_else(marked, pc.binary_join_element_wise(TEXT_MARK, texts, ""), texts)
            rows = rows.set_column(index, field, cells)
    return rows


def unescape_cell(cell: str) -> str:
    """Return the text of a cell that `escaped` wrote, or that a person wrote without the mark."""
    rest = cell.removeprefix(TEXT_MARK)
    return rest if cell != rest and rest.startswith((*_FORMULA, TEXT_MARK)) else cell


def csv_file(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """Return a CSV file in UTF-8 whose cells no spreadsheet takes for formulas; None becomes an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerows([escape_data_cell(cell) for cell in row] for row in (columns, *rows))
    return out.getvalue().encode(errors="replace")
