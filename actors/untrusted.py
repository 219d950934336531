"""Values from untrusted text: whole numbers, JSON, lines, and text that can be stored.

The time that `int` takes grows with the square of the number of digits, and beyond 4,300 digits it raises ValueError.
Numbers with more digits than any meaningful one count as unknown.
"""

import codecs
import json
import re
from decimal import Decimal
from typing import Any, SupportsFloat

MAX_DIGITS = 10  # pixels of a side, pages of a document
MAX_JSON_DIGITS = 20  # ids of other tools have up to 64 bits
LARGEST_WHOLE = 1e21  # from which on numbers are written with an exponent, as JavaScript does
REPLACEMENT = "\ufffd"
_SURROGATES = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # two such escapes encode one character beyond U+FFFF
_LINE_END = re.compile(r"\r\n|\r|\n")


def whole_number(text: str | None) -> int | None:
    """Return the number in `text` (ASCII digits); None for any other text or more than `MAX_DIGITS` digits."""
    return int(text) if text and len(text) <= MAX_DIGITS and text.isascii() and text.isdigit() else None


def json_integer(text: str) -> int | None:
    """Return the number, as `parse_int` of the json module; None if it has more than `MAX_JSON_DIGITS` digits."""
    return int(text) if len(text.removeprefix("-")) <= MAX_JSON_DIGITS else None


def storable(value: Any) -> Any:
    """Return `value` with U+FFFD in place of lone surrogates, which UTF-8 cannot encode, in all texts inside it.

    They come from bytes in another encoding, and from JSON escapes of half a character, where a program cut a text.
    """
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATES.sub(REPLACEMENT, value)
    if isinstance(value, dict):
        return {storable(key): storable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([storable(part) for part in value])
    return value


def cell_text(value: Any) -> str | None:
    """Return the text of a cell of a file, such as an id, the same for whatever type a program gave the column.

    A whole number is its digits, also as a float, into which programs convert integers next to a missing value. None
    for an empty cell, and for a list or an object, which is not text.
    """
    if value is None or isinstance(value, list | tuple | dict | bytes | bytearray | memoryview):
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value.strip() or None
    number: Any = value
    if isinstance(value, SupportsFloat) and not isinstance(value, int):
        if number.is_nan() if isinstance(value, Decimal) else number != number:  # noqa: PLR0124 (NaN)
            return None
        if abs(number) < LARGEST_WHOLE and number == int(number):
            return str(int(number))
    return str(value)


def text_lines(text: str) -> list[str]:
    """Return the lines of `text`, without their ends.

    `str.splitlines` would also split at form feeds, U+0085, U+2028 and U+2029, which occur inside lines of text from
    web pages and PDFs, and inside strings of JSON.
    """
    *whole, last = _LINE_END.split(text)
    return [*whole, last] if last else whole


class TooDeepError(ValueError):
    """JSON that is nested too deeply to be parsed."""

    def __init__(self) -> None:
        super().__init__("nested too deeply")


_DECODER = json.JSONDecoder(parse_int=json_integer)


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text that may be of any kind, nesting and size, with storable texts (`storable`).

    Raises:
        ValueError: not JSON, not UTF-8, or nested too deeply.
    """
    text = text if isinstance(text, str) else text.removeprefix(codecs.BOM_UTF8).decode()
    stripped = text.strip(" \t\r\n")
    value, end = parse_first_json(stripped)
    if end < len(stripped):
        raise json.JSONDecodeError("extra data", stripped, end)
    return value


def parse_first_json(text: str, start: int = 0, decoder: json.JSONDecoder = _DECODER) -> tuple[Any, int]:
    """Return the JSON value that begins at index `start` of `text`, as `parse_json` does, and the index after its end.

    Raises:
        ValueError: no JSON begins there, or it is nested too deeply.
    """
    try:
        value, end = decoder.raw_decode(text, start)
        return (storable(value) if _ESCAPED_SURROGATE.search(text, start, end) else value), end
    except RecursionError as error:
        raise TooDeepError from error
