import math
from decimal import Decimal
from typing import Any

import pytest

from actors.untrusted import cell_text, json_integer, parse_first_json, parse_json, storable, text_lines, whole_number
from tests.cases import check_cases


def test_whole_number() -> None:
    expected = {
        "0": 0,
        "1024": 1024,
        "0" * 9 + "7": 7,
        "9" * 10: 9_999_999_999,
        "9" * 11: None,
        "9" * 5000: None,
        "": None,
        None: None,
        "-1": None,
        "1.5": None,
        " 1": None,
        "\u0663": None,  # a digit to str.isdigit, three to int
        "\u00b2": None,  # a digit to str.isdigit, an error to int
    }
    assert {text: whole_number(text) for text in expected} == expected


def test_json_integer() -> None:
    assert json_integer(str(-(2**63))) == -(2**63)
    assert json_integer(str(2**64 - 1)) == 2**64 - 1
    assert json_integer("9" * 21) is None
    assert json_integer("-" + "9" * 5000) is None


def test_texts_that_utf8_cannot_encode_are_replaced_at_any_depth() -> None:
    value = {"a\ud83d": ["caf\udce9", ("x", "\udfff\ud800"), {"\u00e9": None}], "b": 1.5, "c": b"\xe9"}
    expected = {"a\ufffd": ["caf\ufffd", ("x", "\ufffd\ufffd"), {"\u00e9": None}], "b": 1.5, "c": b"\xe9"}
    assert storable(value) == expected
    assert storable("\U0001f600\u2028") == "\U0001f600\u2028"


def test_lines_end_at_line_ends_alone() -> None:
    within = "a\u2028b\x0cc\x85d\u2029e\x1cf"
    assert text_lines(f"{within}\r\ng\rh\n\ni\n") == [within, "g", "h", "", "i"]
    assert (text_lines(""), text_lines("\n"), text_lines("a")) == ([], [""], ["a"])


def test_json_of_any_kind_is_read_or_a_value_error() -> None:
    read: dict[Any, Any] = {
        b'\xef\xbb\xbf {"a": 1}\n': {"a": 1},
        '"\\ud83d\\ude00 \\ud83d"': "\U0001f600 \ufffd",
        '["\\\\ud83d"]': ["\\ud83d"],
        f"[{'9' * 21}, -{'9' * 5000}, {2**64}]": [None, None, 2**64],
        "null": None,
        "1e16": 1e16,
    }
    assert {text: parse_json(text) for text in read} == read
    wrong = [
        "",
        " ",
        "[",
        "[" * 200_000,
        '{"a":' * 200_000,
        "{} {}",
        "[1]]",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        '{"a": \x00}',
        "nul",
    ]

    def check(text: str | bytes) -> None:
        with pytest.raises(ValueError):  # noqa: PT011
            parse_json(text)

    check_cases(check, wrong)
    assert parse_first_json('x{"a": "\\udc00"}y', 1) == ({"a": "\ufffd"}, 16)


def test_numbers_that_are_none_are_empty_cells() -> None:
    assert [cell_text(value) for value in (math.nan, Decimal("NaN"), Decimal("sNaN"), Decimal("-sNaN1"))] == [None] * 4
    assert [cell_text(value) for value in (Decimal("12.0"), Decimal("Infinity"), math.inf)] == ["12", "Infinity", "inf"]
