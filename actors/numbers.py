"""Whole numbers from untrusted text.

The time that `int` takes grows with the square of the number of digits, and beyond 4,300 digits it raises ValueError.
Numbers with more digits than any meaningful one count as unknown.
"""

MAX_DIGITS = 10  # pixels of a side, pages of a document
MAX_JSON_DIGITS = 20  # ids of other tools have up to 64 bits


def whole_number(text: str | None) -> int | None:
    """Return the number in `text` (ASCII digits); None for any other text or more than `MAX_DIGITS` digits."""
    return int(text) if text and len(text) <= MAX_DIGITS and text.isascii() and text.isdigit() else None


def json_integer(text: str) -> int | None:
    """Return the number, as `parse_int` of the json module; None if it has more than `MAX_JSON_DIGITS` digits."""
    return int(text) if len(text.removeprefix("-")) <= MAX_JSON_DIGITS else None
