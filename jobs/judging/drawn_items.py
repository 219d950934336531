"""Draws from the items of a run, which decide which rows of each unit are read (`draw.*`)."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.ids import content_id
from jobs.judging.items import DRAWN, ItemTables
from jobs.runtime.selection.draws import CompleteDrawConfig, Draw, draw_columns, usable
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files.objects import CompactList
from jobs.store.pieces import STANDARD, Cut
from jobs.store.units import WHOLE, Unit


class ItemUnits(NamedTuple):
    """The units of a run.

    Attributes:
        units: in the order of the items' table; with a draw, each lists the rows to read.
        rows: the number of items that are read.
        lines: lines to print about the draw; empty without a draw.
    """

    units: Sequence[Unit]
    rows: int
    lines: list[str]


def item_units(
    sources: ItemTables, config: CompleteDrawConfig, marks: frozenset[str], cut: Cut = STANDARD
) -> ItemUnits:
    """Return the units of `sources`, with the rows of each that are drawn.

    A unit's version covers its drawn rows: if other units of the input change, only units whose drawn rows change are
    rewritten. Reads the narrow columns of the items' table once; holds 8 B per item.

    Args:
        marks: the marks of the exclusions. Excluded pictures, and pictures that are not ok, are not drawn.
        cut: how the units are cut into pieces.

    Raises:
        InputError: the draw is not possible.
    """
    units = sources.units(cut)
    if not config.is_set:
        return ItemUnits(units, sources.items.rows, [])
    table, exclusion_filter = sources.items.name, ExclusionFilter(marks)
    draw = Draw(config, table)
    batches = sources.items.batches(list(dict.fromkeys([*draw_columns(table), *draw.columns])))
    keys = np.concatenate(
        [np.zeros(0, np.uint64), *(draw.add(rows, usable(rows, table, exclusion_filter)) for rows in batches)]
    )
    drawn = draw.drawn()
    is_drawn = drawn.mask(keys)
    return ItemUnits(CompactList(_drawn(units, is_drawn)), int(is_drawn.sum()), [str(drawn)])


def _drawn(units: Iterable[Unit], is_drawn: NDArray[np.bool_]) -> Iterator[Unit]:
    """Yield the units, restricted to the rows for which `is_drawn`, bool [items], is true."""
    first = 0
    for unit in units:
        count = unit.rows or 0
        rows = np.flatnonzero(is_drawn[first : first + count]).tolist()
        first += count
        extra = {**unit.extra, DRAWN: rows, "filtered": {"draw": count - len(rows)} if len(rows) < count else {}}
        of_rows = "" if unit.piece == WHOLE else f"{unit.piece}, "
        yield replace(unit, rows=len(rows), piece=f"{of_rows}draw {content_id(*map(str, rows))}", extra=extra)
