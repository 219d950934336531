"""Units of linked items and pictures: each row in one unit, whatever the size of the units."""

from pathlib import Path

import pytest

from jobs.items_from.linked_units import linked_items, linked_units
from jobs.store.files.objects import Object
from jobs.store.pieces import BegunCut
from jobs.store.reading import open_table
from tests.factories import image_row, write_units


@pytest.mark.parametrize("unit_rows", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("table", ["items", "images"])
def test_every_row_is_in_one_unit(tmp_path: Path, table: str, unit_rows: int) -> None:
    if table == "items":
        rows = [{"item_id": f"i{n}", "kind": "image", "image_ids": [], "text_ids": []} for n in range(7)]
        ids = [str(row["item_id"]) for row in rows]
        write_units(tmp_path / "t", "items", [rows])
    else:
        pictures = [image_row(f"https://i/{n}.jpg") for n in range(7)]
        renditions = [picture | {"rendition": "w300"} for picture in pictures[:3]]
        ids = [picture["image_id"] for picture in pictures]
        write_units(tmp_path / "t", "images", [[pictures[0], *renditions, *pictures[1:]]])
    base = open_table(str(tmp_path / "t"))
    units = list(linked_units(base, (), unit_rows, {}))
    read = [[item["item_id"] for item in linked_items(base, unit)[0]] for unit in units]
    assert [item for unit in read for item in unit] == ids
    assert sum(unit.rows or 0 for unit in units) == sum(unit.rows or 0 for unit in base.units())
    assert max(map(len, read)) == min(unit_rows, 7)
    assert len({unit.name for unit in units}) == len(units)


@pytest.mark.parametrize("table", ["items", "images"])
def test_a_unit_has_the_other_inputs_and_a_range_of_rows(tmp_path: Path, table: str) -> None:
    """A changed knowledge base makes every unit a new one; `purge` moves ranges of rows."""
    rows = (
        [{"item_id": f"i{n}", "kind": "image", "image_ids": [], "text_ids": []} for n in range(3)]
        if table == "items"
        else [image_row(f"https://i/{n}.jpg") for n in range(3)]
    )
    write_units(tmp_path / "t", table, [rows])
    base = open_table(str(tmp_path / "t"))
    other = Object("memory/kb", 1, "etag")
    units = list(linked_units(base, (other,), 2, {}))
    assert [unit.inputs for unit in units] == [(*next(iter(base.units())).inputs, other)] * 2
    assert [(unit.extra["from"], unit.extra["to"], unit.piece) for unit in units] == [
        (0, 2, "rows 0-2"),
        (2, 3, "rows 2-3"),
    ]
    assert [(unit.extra["pieces"], unit.extra["number"]) for unit in units] == [(2, 0), (2, 1)]


def test_a_range_has_the_first_rows_of_its_pictures_and_a_begun_table_keeps_its_ranges(tmp_path: Path) -> None:
    a, b, c = (image_row(f"https://i/{n}.jpg") for n in "abc")
    rows = [a, a | {"rendition": "w300"}, b, a | {"rendition": "w600"}, c]
    write_units(tmp_path / "t", "images", [rows])
    base = open_table(str(tmp_path / "t"))
    (parent,) = base.units()

    def ranges_of(begun: BegunCut) -> list[tuple[int, int]]:
        units = linked_units(base, (), 1, {parent.name: begun})
        return [(unit.extra["from"], unit.extra["to"]) for unit in units]

    assert ranges_of(BegunCut()) == [(0, 2), (2, 4), (4, 5)]
    assert ranges_of(BegunCut(2, ranges={0: (0, 4), 1: (4, 5)})) == [(0, 4), (4, 5)]
    assert ranges_of(BegunCut(5, ranges={0: (0, 9)})) == [(0, 2), (2, 4), (4, 5), (5, 5), (5, 5)]
