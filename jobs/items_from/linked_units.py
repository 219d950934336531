"""The pictures or items that were linked, cut into units that keep the names of their table's units."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from jobs.store.files.compact_list import CompactList
from jobs.store.files.objects import Object
from jobs.store.object_rows import read_unit
from jobs.store.pieces import FROM, NUMBER, PIECES, TO, UNCUT, BegunCut, piece_of, ranges
from jobs.store.reading import TableSource
from jobs.store.units import Unit


def linked_units(
    base: TableSource, others: tuple[Object, ...], unit_rows: int, begun: Mapping[str, BegunCut]
) -> CompactList[Unit]:
    """Return units of at most `unit_rows` items or distinct pictures; a whole unit of `base` keeps its name.

    Args:
        base: a table of items, images or links.
        others: other inputs of each unit; if one changes, the unit is written again.
        begun: how the units of `base` were cut in the table that is continued; its units keep their names.
    """
    return CompactList(_cut(base, others, unit_rows, begun))


def linked_items(base: TableSource, unit: Unit) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the rows of a unit as rows of `items`, and the URLs of the pictures by image_id, where known."""
    first, last = unit.extra[FROM], unit.extra[TO]
    if base.name == "items":
        return read_unit(unit.inputs[0].uri).slice(first, last - first).to_pylist(), {}
    columns = ["image_id", *(["source_url"] if base.name == "images" else [])]
    rows = read_unit(unit.inputs[0].uri, columns=columns).to_pylist()
    ids = [image_id for image_id, row in _first_rows(rows).items() if first <= row < last]
    urls = {row["image_id"]: row["source_url"] for row in rows if row.get("source_url")}
    return [{"item_id": i, "kind": "image", "image_ids": [i], "text_ids": [], "attributes": []} for i in ids], urls


def _cut(
    base: TableSource, others: tuple[Object, ...], unit_rows: int, begun: Mapping[str, BegunCut]
) -> Iterator[Unit]:
    for parent in base.units():
        rows, before = parent.rows or 0, begun.get(parent.name, UNCUT)
        pieces = before.kept_ranges(rows) or list(_ranges(base, parent, unit_rows, before))
        for number, (first, last) in enumerate(pieces):
            whole = (first, last) == (0, rows)
            yield replace(
                parent,
                name=before.name(number, parent.name if whole else f"{parent.name}-{first:09}", rows=last - first),
                inputs=(*parent.inputs, *others),
                piece=parent.piece if whole else piece_of(first, last),
                rows=last - first,
                extra={"parent": parent.name, FROM: first, TO: last, PIECES: len(pieces), NUMBER: number},
            )


def _ranges(base: TableSource, parent: Unit, unit_rows: int, begun: BegunCut) -> Iterator[tuple[int, int]]:
    """Yield first row and end of each piece: of `unit_rows` items, or of the first rows of as many pictures.

    A picture has several renditions, and several links. It belongs to the piece that has its first row: all of its rows
    are removed together, so that a purge leaves it there.
    """
    rows = parent.rows or 0
    if base.name == "items":
        yield from ranges(rows, unit_rows, begun)
        return
    firsts = list(_first_rows(read_unit(parent.inputs[0].uri, columns=["image_id"]).to_pylist()).values())
    ends = [*firsts[unit_rows::unit_rows], rows]
    yield from pairwise([0, *ends, *[rows] * (begun.count - len(ends))])


def _first_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the position of the first row of each picture, by image_id."""
    firsts: dict[str, int] = {}
    for position, row in enumerate(rows):
        firsts.setdefault(row["image_id"], position)
    return firsts
