"""Units of linked items and pictures: each row in one unit, whatever the size of the units."""

from pathlib import Path

import pytest

from jobs.items_from.linked_units import linked_items, linked_units
from jobs.store.files.objects import Object
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
    assert [len(unit) for unit in read] == [unit.rows for unit in units]
    assert max(map(len, read)) == min(unit_rows, 7)
    assert len({unit.name for unit in units}) == len(units)


@pytest.mark.parametrize("table", ["items", "images"])
def test_a_unit_has_the_other_inputs_and_a_range_of_rows_only_of_items(tmp_path: Path, table: str) -> None:
    """A changed knowledge base makes every unit a new one; `purge` cannot move a range of distinct pictures."""
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
    ranges = [(unit.extra.get("pieces"), unit.extra.get("number")) for unit in units]
    assert ranges == ([(2, 0), (2, 1)] if table == "items" else [(None, None)] * 2)
