"""The units of items and of drawn items: their inputs, rows and versions, and what is never drawn."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs.corpora.records import open_records
from jobs.errors import InputError
from jobs.judging.items import DRAWN, ItemTables, Reader, item_units, open_sources
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.runtime.selection.exclusions import marks_of
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from jobs.tables import TABLES
from tests.factories import TableInMemory, record, write_records


def write_images(out: str, records: str, unit_rows: int) -> None:
    """Write a complete table of images for the records, with the units that `fetch` writes."""
    units = open_records(records, unit_rows, {}).units
    run = open_run(
        TablePlan(out, "images", {"by": "hand"}, units, {}, {}, derived=True), resume=True, overwrite=False, retry=[]
    )
    rows = {footer.unit.name: footer.object.uri for footer in open_records(records, unit_rows, {}).table.footers}
    for task in run.todo:
        first, last = task.unit.extra["from"], task.unit.extra["to"]
        parent = pq.read_table(rows[task.unit.parent]).slice(first, last - first).to_pylist()
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(parent)
            images = [{"image_id": row["image_id"], "rendition": "original", "status": "ok"} for row in parent]
            writer.write(pa.Table.from_pylist(images, schema=TABLES["images"].schema()))
    run.finish()


def joined(images: str, records: str) -> ItemTables:
    return open_sources(images, images=None, texts=None, records=records, fields=["page_title"], pictures=False)


@pytest.mark.parametrize("unit_rows", [2, 3, 100])
def test_units_of_images_are_joined_to_the_unit_of_their_records(tmp_path: Path, unit_rows: int) -> None:
    images, records = str(tmp_path / "images"), str(tmp_path / "records")
    write_records(records, [[record(f"{unit}{n}") for n in range(7)] for unit in "ab"])
    write_images(images, records, unit_rows)
    tables = joined(images, records)
    objects = {Path(footer.object.uri).stem: footer.object for footer in open_records(records, None, {}).table.footers}
    assert [unit.inputs[1] for unit in tables.units()] == [
        objects[footer.unit.parent] for footer in tables.items.footers
    ]
    reader = Reader("images", ("records",), ("page_title",), pictures=False)
    titles = [title for unit in tables.units() for title in reader(UnitTask(unit))["page_title"].to_pylist()]
    assert titles == [f"{unit}{n}" for unit in "ab" for n in range(7)]


def test_images_of_other_records_are_refused(tmp_path: Path) -> None:
    images, records = str(tmp_path / "images"), str(tmp_path / "records")
    write_records(records, [[], [record(f"a{n}") for n in range(7)]])
    write_images(images, records, 3)
    write_records(str(tmp_path / "others"), [[record("a0")]])
    tables = joined(images, str(tmp_path / "others"))
    assert tables.units()  # `unit0` is in both
    for path in Path(images).glob("unit0*"):
        path.unlink()
    for path in (Path(images) / "_run").glob("inputs.*"):  # the table then consists of the files that are left
        path.unlink()
    with pytest.raises(InputError, match="no unit in common"):
        joined(images, str(tmp_path / "others")).units()


ITEMS = [content_id(str(number)) for number in range(20)]


def sources(sizes: list[int], items: list[str] = ITEMS) -> Any:
    """Items in units of these sizes."""
    table: Any = TableInMemory("items", [{"item_id": name, "image_ids": [name]} for name in items])
    table.name = "items"
    units = [Unit(f"u{number}", (), rows=size) for number, size in enumerate(sizes)]
    return SimpleNamespace(items=table, units=lambda _: units)


def drawn(sizes: list[int], marks: frozenset[str] = frozenset(), **keys: Any) -> list[list[str]]:
    """Return the drawn items of each unit."""
    names, first = [], 0
    result = item_units(sources(sizes), CompleteDrawConfig(**keys), marks)
    for unit, size in zip(result.units, sizes, strict=True):
        rows = unit.extra[DRAWN]
        assert (unit.rows, unit.extra["filtered"]) == (
            len(rows), {"draw": size - len(rows)} if len(rows) < size else {}
        )  # fmt: skip
        names.append([ITEMS[first + row] for row in rows])
        first += size
    assert result.rows == sum(map(len, names))
    assert len(result.lines) == 1
    return names


def test_without_a_draw_all_items_are_read() -> None:
    tables = sources([15, 5])
    result = item_units(tables, CompleteDrawConfig(), frozenset())
    assert (list(result.units), result.rows, result.lines) == (tables.units(None), 20, [])


def test_each_unit_has_its_own_rows() -> None:
    whole = drawn([20], n=6)
    assert len(whole[0]) == 6
    first, second, third = drawn([7, 1, 12], n=6)
    assert [*first, *second, *third] == whole[0]  # the draw does not depend on the units
    first, nothing, second = drawn([7, 0, 13], n=6)
    assert ([*first, *second], nothing) == (whole[0], [])
    assert drawn([20], n=6, seed=1) != whole
    assert drawn([20], n=20) == [ITEMS]


def test_excluded_items_are_not_drawn_and_others_take_their_place() -> None:
    chosen = drawn([20], n=6)[0]
    marks = frozenset().union(*(marks_of(name) for name in chosen[:2]))
    others = drawn([20], marks, n=6)[0]
    assert len(others) == 6
    assert set(others) & set(chosen) == set(chosen[2:])


def test_the_version_of_a_unit_changes_with_its_rows_alone() -> None:
    pieces: dict[tuple[int, ...], set[str]] = {}
    for seed in range(12):
        for unit in item_units(sources([10, 10]), CompleteDrawConfig(n=1, seed=seed), frozenset()).units:
            pieces.setdefault(tuple(unit.extra[DRAWN]), set()).add(unit.piece)
    assert () in pieces  # the unit from which nothing is drawn
    assert all(len(of_rows) == 1 for of_rows in pieces.values())
    assert len(set().union(*pieces.values())) == len(pieces) > 3
    tables = sources([20])
    (whole,) = item_units(tables, CompleteDrawConfig(n=6), frozenset()).units
    tables.units = lambda _: [Unit("u", (), "rows 0-20", 20, {"from": 0, "to": 20})]
    (piece,) = item_units(tables, CompleteDrawConfig(n=6), frozenset()).units
    assert whole.piece.startswith("draw ")
    assert piece.piece == f"rows 0-20, {whole.piece}"
    assert (piece.extra["from"], piece.extra["to"]) == (0, 20)
