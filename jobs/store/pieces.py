"""Pieces of large units: tables derived from units of thousands of rows get units of bounded size.

The pictures of a tar file are one unit of `images`. As one unit of `embed` or `judge` they would be one GPU's work, and
would be lost together with its machine. A piece is named after its parent and its first row, and reads only its rows.

Tables of millions of rows get larger pieces, so that there are at most `MOST_PIECES`: the driver takes as long for a
unit of any size. A killed actor loses its piece, which is therefore at most what an actor does in a minute, where that
was measured, and otherwise `LARGEST_ROWS`. A model that does fewer than 256 rows in a minute gets smaller pieces,
unless there would be more than `MOST_PIECES`. Small tables are cut finer, so that each actor of the pool has four
pieces: with only about as many pieces as actors, most actors would wait for the last ones, and an interruption of a
single actor would lose the whole table. A table that has begun keeps its cut, whatever pool continues it, even after a
purge, when the parent has fewer rows: the purge moves
the ranges of the pieces, so that they keep the same rows except for those that were removed. Pieces whose ranges it
cannot move, such as those of a draw, keep their names, and the last ones may be empty.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from jobs.store import run_files
from jobs.store.object_rows import read_rows, read_unit
from jobs.store.units import Unit

PIECE_ROWS = 256  # rows of a piece, as in the units of `curate`, unless the table has millions of rows
LARGEST_ROWS = 1440  # of a piece of a table whose pace is unknown: a minute at 24 pictures/s
MOST_PIECES = 8_000  # of a table, until its pieces take a minute: a fifth of 11.5 M pictures in pieces of 256, or less
PIECE_BYTES = 128 << 20  # bytes of the parent's object; the rows of a piece travel between stages as one block
PIECES_PER_ACTOR = 4  # all actors then end within a quarter of the time that each of them works
LEAST_ROWS = 8  # a piece is an object, whose writing takes longer than some models need for a row
LEAST_ROWS_ALONE = 16  # of a single actor, which gains no other actors' time
FROM, TO = "from", "to"  # `Unit.extra`: the rows of the parent's object that a piece covers
PIECES = "pieces"  # `Unit.extra`: the number of pieces of the parent; the range is one of rows of the first input
NUMBER = "number"  # `Unit.extra`: the number of this piece, from 0


@dataclass(frozen=True)
class UnitPieces:
    """The pieces into which a unit was cut in a table that has begun.

    Attributes:
        count: the number of its pieces.
        names: number -> name of each piece that the table has; a draw may leave some out.
        ranges: number -> the first row and the end of each piece, where they are known.
    """

    count: int = 0
    names: Mapping[int, str] = field(default_factory=dict)
    ranges: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def kept_ranges(self, rows: int) -> list[tuple[int, int]]:
        """Return the ranges of all pieces in order; empty if they do not cover a parent of `rows` rows."""
        ordered = [self.ranges[number] for number in range(self.count) if number in self.ranges]
        ends = [0, *(last for _, last in ordered)]
        is_cover = [first for first, _ in ordered] == ends[:-1] and ends[-1] == rows
        return ordered if is_cover and len(ordered) == self.count else []

    def name(self, number: int, proposed: str, *, rows: int) -> str:
        """Return the name of a piece of `rows` rows: the one that the table has, else `proposed`, made unique.

        Pieces without rows begin at the same row, and a piece may begin where another one did before a purge.
        """
        if number in self.names:
            return self.names[number]
        is_unique = proposed not in self.names.values() and (rows or not number)
        return proposed if is_unique else f"{proposed}-{number}"


UNCUT = UnitPieces()


@dataclass(frozen=True)
class PieceRule:
    """Rule for cutting the units of a table into pieces.

    Attributes:
        actors: how many actors share the table; None: small units stay whole.
        begun: unit -> its cut, if the table has begun.
        minute: the rows that an actor does in a minute; None: unknown.
    """

    actors: int | None = None
    begun: Mapping[str, UnitPieces] = field(default_factory=dict)
    minute: int | None = None


STANDARD = PieceRule()


def cut_of(out: str, *, actors: int | None, overwrite: bool, minute: int | None = None) -> PieceRule:
    """Return how the units of the table at `out` are cut: as when it began, or for `actors`.

    Args:
        actors, minute: as in `PieceRule`.
        overwrite: the table at `out` will be deleted.

    Raises:
        InputError: the list of its units is damaged.
    """
    begun = begun_cuts(out, overwrite=overwrite)
    return PieceRule(begun=begun) if begun else PieceRule(actors, minute=minute)


def begun_cuts(out: str, *, overwrite: bool) -> dict[str, UnitPieces]:
    """Return the cut of each of the parent's units in the table at `out`, by unit; empty without a table.

    Args:
        overwrite: the table at `out` will be deleted.

    Raises:
        InputError: the list of its units is damaged.
    """
    names: dict[str, dict[int, str]] = {}
    covered: dict[str, dict[int, tuple[int, int]]] = {}
    counts: dict[str, int] = {}
    for unit in run_files.begun_units(out) if not overwrite else ():
        of_parent = names.setdefault(unit.parent, {})
        number = unit.extra.get(NUMBER, len(of_parent))
        of_parent[number] = unit.name
        counts[unit.parent] = unit.extra.get(PIECES, len(of_parent))
        if PIECES in unit.extra:
            covered.setdefault(unit.parent, {})[number] = unit.extra[FROM], unit.extra[TO]
    return {parent: UnitPieces(counts[parent], names[parent], covered.get(parent, {})) for parent in names}


def rows_per_piece(rows: int, minute: int | None = None) -> int:
    """Return the number of rows of a piece of a table of `rows` rows, unless its actors need smaller ones.

    Args:
        minute: as in `PieceRule`.
    """
    least = -(-rows // MOST_PIECES)
    most = LARGEST_ROWS if minute is None else max(minute, min(PIECE_ROWS, least), LEAST_ROWS)
    return min(most, max(PIECE_ROWS, least))


def ranges(rows: int, unit_rows: int, begun: UnitPieces = UNCUT) -> Iterator[tuple[int, int]]:
    """Yield first row and end of each piece of `unit_rows` rows, and of empty pieces up to the number of `begun`.

    A unit without rows has one piece. Pieces of `begun` that cover the rows stay as they are.
    """
    if kept := begun.kept_ranges(rows):
        yield from kept
        return
    for number in range(max(1, -(-rows // unit_rows), begun.count)):
        yield min(number * unit_rows, rows), min((number + 1) * unit_rows, rows)


def in_pieces(units: Sequence[Unit], cut: PieceRule = STANDARD) -> Iterator[Unit]:
    """Yield the units, large ones as pieces of at most `rows_per_piece` rows and about 128 MB.

    A unit of fewer than twice as many rows stays whole unless it has more bytes, or the actors of `cut` would
    have fewer than four pieces each: the table is then cut into pieces of down to 8 rows, or 16 of a single actor.

    Args:
        units: units of a derived table, whose first input is the parent's object.
    """
    piece_rows = _piece_rows(sum(unit.rows or 0 for unit in units), cut)
    for unit in units:
        rows = unit.rows or 0
        begun = cut.begun.get(unit.name, UNCUT)
        count = begun.count or min(max(rows, 1), _count(unit, rows, piece_rows))
        if count == 1 or unit.limit is not None:
            yield unit
            continue
        equal = [(rows * number // count, rows * (number + 1) // count) for number in range(count)]
        for number, (first, last) in enumerate(begun.kept_ranges(rows) or equal):
            yield replace(
                unit,
                name=begun.name(number, f"{unit.name}-{first:09}", rows=last - first),
                piece=piece_of(first, last),
                rows=last - first,
                extra={**unit.extra, "parent": unit.name, FROM: first, TO: last, PIECES: count, NUMBER: number},
            )


def _piece_rows(rows: int, cut: PieceRule) -> int:
    """Return the largest number of rows of a piece of a table of `rows` rows."""
    most = rows_per_piece(rows, cut.minute)
    if cut.actors is None:
        return most
    least = min(most, LEAST_ROWS if cut.actors > 1 else LEAST_ROWS_ALONE)
    return max(least, min(most, rows // (PIECES_PER_ACTOR * cut.actors)))


def piece_of(first: int, last: int) -> str:
    """Return the text of a piece of all rows from `first` to before `last`."""
    return f"rows {first}-{last}"


def range_without(unit: Unit, removed: np.ndarray) -> dict[str, int]:
    """Return the range of a piece in its parent without some rows, as in `Unit.extra`; empty without a range of rows.

    Args:
        removed: int[rows], positions of rows of the parent, ascending.
    """
    if PIECES not in unit.extra:
        return {}
    return {end: int(unit.extra[end] - np.searchsorted(removed, unit.extra[end])) for end in (FROM, TO)}


def with_range(unit: Unit, moved: Mapping[str, int]) -> Unit | None:
    """Return a piece with a range of `range_without`; None if it does not have all rows of its range, as in a draw."""
    if not moved or unit.limit is not None or unit.piece != piece_of(unit.extra[FROM], unit.extra[TO]):
        return None
    first, last = moved[FROM], moved[TO]
    return replace(unit, piece=piece_of(first, last), rows=last - first, extra={**unit.extra, **moved})


def _count(unit: Unit, rows: int, piece_rows: int) -> int:
    """Return the number of pieces of a unit."""
    by_bytes = -(-unit.inputs[0].size // PIECE_BYTES)
    is_small = rows < 2 * piece_rows and piece_rows >= PIECE_ROWS
    return max(by_bytes, 1 if is_small else -(-rows // piece_rows))


def read_piece(unit: Unit, columns: Sequence[str]) -> pa.Table:
    """Return the rows of a unit of `in_pieces`; for a piece, read only the row groups that have some of its rows.

    Raises:
        RunError: the object is damaged.
    """
    uri = unit.inputs[0].uri
    if FROM in unit.extra:
        return read_rows(uri, columns, unit.extra[FROM], unit.extra[TO])
    return read_unit(uri, columns=columns)
