"""Small tables written by hand, without Ray: pictures, records, items with texts and responses."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from jobs.store.run import TablePlan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES


def write_table(out: str, table: str, rows: Sequence[dict[str, Any]]) -> str:
    """A complete table of one unit at `out`; what a row does not name is null. Returns `out`."""
    plan = TablePlan(out, table, {"by": "hand"}, [Unit("unit", (), rows=len(rows))], {}, {}, derived=False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    with UnitWriter(run.target, run.todo[0]) as writer:
        writer.counts.rows_in = len(rows)
        writer.write(pa.Table.from_pylist(list(rows), schema=TABLES[table].schema()))
    run.finish()
    return out


def picture(number: int, *, url: str | None = None, status: str = "ok") -> dict[str, Any]:
    """A row of `images`."""
    url = url or f"https://upload.example/{number}.jpg"
    return {
        "image_id": content_id(url),
        "rendition": "original",
        "bytes": f"picture {number}".encode() if status == "ok" else None,
        "format": "JPEG",
        "source_url": url,
        "status": status,
    }


def record_of(image: dict[str, Any], title: str) -> dict[str, Any]:
    """The row of `records` of a picture."""
    return {
        "record_id": content_id("record", image["image_id"]),
        "image_id": image["image_id"],
        "image_url": image["source_url"],
        "page_title": title,
        "page_url": f"https://en.wikipedia.org/wiki/{title}",
    }
