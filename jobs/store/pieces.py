"""Pieces of large units: a table made from one with units of thousands of rows has units of bounded size.

The pictures of a tar are one unit of `images`. As one unit of `embed` or `judge` they would be one GPU's work, and lost
as a whole with its machine. A piece is named after its parent and its first row, and reads only its rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from jobs.store.reading import read_rows, read_unit
from jobs.store.units import Unit

PIECE_ROWS = 256  # as many as the units that `curate` writes
FROM, TO = "from", "to"  # `Unit.extra`: the rows of the parent's object that a piece covers


def in_pieces(units: Iterable[Unit]) -> Iterator[Unit]:
    """Yield the units; one of 512 rows or more as pieces of at most 256 rows each.

    Args:
        units: units of a derived table, whose first input is the parent's object.
    """
    for unit in units:
        rows = unit.rows or 0
        if rows < 2 * PIECE_ROWS or unit.limit is not None:
            yield unit
            continue
        count = -(-rows // PIECE_ROWS)
        for number in range(count):
            first, last = rows * number // count, rows * (number + 1) // count
            yield replace(
                unit,
                name=f"{unit.name}-{first:09}",
                piece=f"rows {first}-{last}",
                rows=last - first,
                extra={**unit.extra, "parent": unit.name, FROM: first, TO: last},
            )


def read_piece(unit: Unit, columns: Sequence[str]) -> pa.Table:
    """Return the rows of a unit of `in_pieces`; of a piece it reads only the row groups that have some of them.

    Raises:
        RunError: the object is damaged.
    """
    uri = unit.inputs[0].uri
    if FROM in unit.extra:
        return read_rows(uri, columns, unit.extra[FROM], unit.extra[TO])
    return read_unit(uri, columns=columns)
