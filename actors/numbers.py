"""Whole numbers from text that others wrote.

`int` takes time that grows with the square of the digits, and raises ValueError beyond 4,300 of them: a number that is
longer than any meaningful one counts as unknown.
"""

MAX_DIGITS = 10  # pixels of a side, pages of a document
MAX_JSON_DIGITS = 20  # ids of other tools have up to 64 bits


def whole_number(text: str | None) -> int | None:
    """The number that `text` writes in ASCII digits; None if it is anything else or has more than `MAX_DIGITS`."""
    return int(text) if text and len(text) <= MAX_DIGITS and text.isascii() and text.isdigit() else None


def json_integer(text: str) -> int | None:
    """For `parse_int` of the json module: None for a number of more than `MAX_JSON_DIGITS` digits."""
    return int(text) if len(text.removeprefix("-")) <= MAX_JSON_DIGITS else None
