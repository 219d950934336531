"""Joins of the tables that a model is asked about."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.corpora.records import open_records
from jobs.errors import InputError
from jobs.judging.items import ItemTables, Reader, open_sources
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.writer import UnitTask, UnitWriter
from jobs.tables import TABLES
from tests.factories import record, write_records


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
