"""Rows by Python's csv module: fields, positions, and rows that are not whole."""

import io
from typing import Any

import pytest

from jobs.corpora.wit.csv_rows import RowReader
from jobs.errors import InputError
from jobs.store.writer import RAW_KEPT, Reject
from tests.cases import check_cases


def rows(text: str, *, width: int = 2) -> list[Any]:
    """Return each row's fields, or the position and message of its reject."""
    source: Any = None
    reader = RowReader("f", source, io.BytesIO(text.encode()), header=[f"c{number}" for number in range(width)])
    return [(row.position, row.message) if isinstance(row, Reject) else row for row in reader.rows()]


def test_a_row_begins_where_the_one_before_ends() -> None:
    reader = RowReader("f", object(), io.BytesIO(b'a\tb\nc\t"d\n1"\n'), header=["c0", "c1"])  # type: ignore[arg-type]
    places = [(reader.row_offset, reader.offset)] + [(reader.row_offset, reader.offset) for _ in reader.rows()]
    assert places == [(0, 0), (0, 4), (4, 12)]


def test_rows_and_rejects() -> None:
    open_quote, narrow = "a quoted field is not closed", "1 fields instead of 2"
    cases = {
        "plain": ("a\tb\nc\td\n", [["a", "b"], ["c", "d"]]),
        "no newline at the end": ("a\tb\nc\td", [["a", "b"], ["c", "d"]]),
        "lines in a field": ('a\t"b\n1"\nc\td\n', [["a", "b\n1"], ["c", "d"]]),
        "a closed field at the end": ('a\t"b"', [["a", "b"]]),
        "an open one in the last line": ('a\tb\nc\t"d', [["a", "b"], (4, open_quote)]),
        "an open one before other rows": ('a\t"b\nc\td\n', [(0, open_quote), ["c", "d"]]),
        "too narrow": ("a\nb\tc\n", [(0, narrow), ["b", "c"]]),
        "too wide": ("a\tb\tc\nd\te\n", [(0, "3 fields instead of 2"), ["d", "e"]]),
        "nothing": ("", []),
    }

    def check(text: str, expected: list[Any]) -> None:
        assert rows(text) == expected

    check_cases(check, cases)


def test_a_reject_keeps_the_start_of_its_line() -> None:
    source: Any = None
    text = "x" * (RAW_KEPT + 5) + "\n\udcff\n"
    reader = RowReader("f", source, io.BytesIO(text.encode("utf-8", "surrogateescape")), header=["a", "b"])
    rejects = [row for row in reader.rows() if isinstance(row, Reject)]
    assert [(row.reason, row.raw) for row in rejects] == [("malformed", "x" * RAW_KEPT), ("malformed", "\ufffd\n")]


def test_a_row_after_a_line_that_is_too_long_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.corpora.wit.csv_rows.MAX_LINE", 8)
    monkeypatch.setattr("jobs.corpora.wit.csv_rows.CHUNK", 4)
    text = b"a\tb\n" + b"x" * 30 + b"\nc\td\ne\tf\n"
    reader = RowReader("f", object(), io.BytesIO(text), header=["c0", "c1"])  # type: ignore[arg-type]
    places = {row[0]: reader.row_offset for row in reader.rows() if not isinstance(row, Reject)}
    assert places == {"a": 0, "c": text.index(b"c\td"), "e": text.index(b"e\tf")}


def test_a_header_is_read_without_its_mark_and_outer_spaces() -> None:
    source: Any = None
    reader = RowReader("f", source, io.BytesIO("\ufeff a \tb\n1\t2\n".encode()))
    assert (reader.header, list(reader.rows())) == (["a", "b"], [["1", "2"]])
    with pytest.raises(InputError, match=r"^f: empty; a header is required$"):
        RowReader("f", source, io.BytesIO(b""))
