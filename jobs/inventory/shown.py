"""Sizes, ages, identities and columns of text, as `ls`, `rm`, `gc`, `copy` and `diff` print them."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from jobs.store.identity import flatten

_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_AGES = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def size(n: int) -> str:
    """Return a number of bytes in the largest decimal unit that makes it at least one."""
    value, unit = float(n), 0
    while value >= 999.95 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.1f} {_SIZES[unit]}" if unit else f"{n} B"


def age(seconds: float) -> str:
    """Return a duration in its largest whole unit."""
    for length, unit in _AGES:
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return "0 s"


def short_hash(identity: str) -> str:
    """Return the first eight digits of an identity's hash."""
    return identity[:8]


def flat_lines(identity: Mapping[str, Any]) -> list[str]:
    """Return an identity as `key: value` lines, one for each leaf, in order of the keys."""
    return [f"{key}: {value}" for key, value in sorted(flatten(dict(identity)).items())]


def in_columns(rows: Sequence[Sequence[str]], *, numbers: Container[int] = ()) -> list[str]:
    """Return the rows with cells padded to the width of their column; the columns `numbers` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
