"""Tables of records written by hand, without Ray."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from jobs.store.run import TablePlan, open_run
from jobs.store.units import Unit
from jobs.store.writer import Reject, UnitWriter
from jobs.tables import TABLES


def record(
    title: str, *, page: str | None = None, image: str | None = None, main: str | None = "true", record_id: str = ""
) -> dict[str, Any]:
    """A row of `records`; page and image are the title's own unless given."""
    image = f"https://i/{title}.jpg" if image is None else image
    return {
        "record_id": record_id or content_id(title, page or "", image, main or ""),
        "image_id": content_id(image),
        "page_url": f"https://p/{title}" if page is None else page,
        "image_url": image,
        "page_title": title,
        "is_main_image": main,
    }


def write_records(out: str, units: Sequence[Sequence[dict[str, Any]]], *, rejected: int = 0) -> dict[str, Any]:
    """A complete table of records at `out`, one unit a list of rows; returns the manifest."""
    named = [Unit(f"unit{number}", (), rows=len(rows)) for number, rows in enumerate(units)]
    plan = TablePlan(out, "records", {"by": "hand"}, named, {}, {}, derived=False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    by_name = dict(zip((u.name for u in named), units, strict=True))
    for task in run.todo:
        rows = by_name[task.unit.name]
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(rows) + rejected
            for position in range(rejected):
                writer.reject(Reject("f", position, "malformed", "no row"))
            writer.write(pa.Table.from_pylist(list(rows), schema=TABLES["records"].schema()))
    return run.finish()
