"""The pictures or items that were linked, cut into units that keep the names of their table's units."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.store.files.compact_list import CompactList
from jobs.store.files.objects import Object
from jobs.store.object_rows import read_unit
from jobs.store.pieces import FROM, NUMBER, PIECES, TO, UNCUT, BegunCut, ranges
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
    ids = list(dict.fromkeys(row["image_id"] for row in rows))[first:last]
    urls = {row["image_id"]: row["source_url"] for row in rows if row.get("source_url")}
    return [{"item_id": i, "kind": "image", "image_ids": [i], "text_ids": [], "attributes": []} for i in ids], urls


def _cut(
    base: TableSource, others: tuple[Object, ...], unit_rows: int, begun: Mapping[str, BegunCut]
) -> Iterator[Unit]:
    for parent in base.units():
        rows, before = _size(base, parent), begun.get(parent.name, UNCUT)
        pieces = list(ranges(rows, unit_rows, before))
        for number, (first, last) in enumerate(pieces):
            whole = (first, last) == (0, rows)
            # Of images and links a range is one of distinct pictures, which `purge` cannot move.
            of_rows = {PIECES: len(pieces), NUMBER: number} if base.name == "items" else {}
            yield replace(
                parent,
                name=before.name(number, parent.name if whole else f"{parent.name}-{first:09}", rows=last - first),
                inputs=(*parent.inputs, *others),
                piece=parent.piece if whole else f"rows {first}-{last}",
                rows=last - first,
                extra={"parent": parent.name, FROM: first, TO: last, **of_rows},
            )


def _size(base: TableSource, unit: Unit) -> int:
    """Return the number of items, or of distinct pictures: an image has several renditions, and several links."""
    if base.name == "items":
        return unit.rows or 0
    ids: pa.ChunkedArray = read_unit(unit.inputs[0].uri, columns=["image_id"])["image_id"]
    return int(pc.count_distinct(ids).as_py())
