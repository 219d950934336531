"""Wikidata's times as ISO 8601 texts and spans of years.

Wikidata's JSON numbers years as people write them: -0044 is 44 BC, and there is no year 0. ISO 8601 and the spans here
have a year 0, which is 1 BC, so that 44 BC is -0043. Dates are kept in the calendar in which they are stated.
"""

import re
from typing import NamedTuple

DAY, MONTH, YEAR, DECADE, CENTURY, MILLENNIUM = 11, 10, 9, 8, 7, 6  # values of `precision`
_TIME = re.compile(r"([+-])0*(\d+)-(\d\d)-(\d\d)T")


class GraphTime(NamedTuple):
    """A time with the precision with which it is stated.

    Attributes:
        text: ISO 8601: 1917-12-06, 1917-12, 1917, or an interval of years such as 1901/2000.
        first: the first possible year.
        last: the last possible year.
    """

    text: str
    first: int
    last: int


def read_time(time: str, precision: int) -> GraphTime | None:
    """Return the time of a value (`+1917-12-06T00:00:00Z`, 11); None if the text or precision is not supported.

    Centuries and millennia are counted as in Wikidata: 1901 to 2000 is the twentieth century, whichever of these years
    is stated.
    """
    match = _TIME.match(time)
    if match is None or not 0 <= precision <= 14:
        return None
    sign, digits, month, day = match.groups()
    number = int(digits)
    year = number if sign == "+" else 1 - number
    if precision < YEAR:
        first, last = _span(number, precision)
        if sign == "-":
            first, last = 1 - last, 1 - first
        return GraphTime(f"{_iso(first)}/{_iso(last)}", first, last)
    text = _iso(year)
    if precision >= MONTH and "01" <= month <= "12":
        text += f"-{month}"
        if precision >= DAY and "01" <= day <= "31":
            text += f"-{day}"
    return GraphTime(text, year, year)


def _span(number: int, precision: int) -> tuple[int, int]:
    """Return the first and last year around `number` for a precision coarser than a year."""
    size = 10 ** (YEAR - precision)
    if precision == DECADE:
        first = number - number % size
        return max(first, 1), first + size - 1
    if precision in (CENTURY, MILLENNIUM):
        first = max(number - 1, 0) // size * size + 1
        return first, first + size - 1
    return max(number - size, 1), number + size


def _iso(year: int) -> str:
    return f"{year:04d}" if year >= 0 else f"-{-year:04d}"
