"""Columns and rows that are selected from a file of ratings."""

import pyarrow as pa
import pytest

from jobs.corpora.ratings_file import select_columns
from jobs.errors import InputError


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
