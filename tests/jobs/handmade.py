"""Small tables written by hand, without Ray: pictures, records, embeddings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from actors.ids import content_id
from jobs.store.reading import open_table
from jobs.store.run import TablePlan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES, table

DIM = 4  # of embeddings


def write_table(out: str, name: str, rows: Sequence[dict[str, Any]]) -> str:
    """Write a complete table of one unit to `out`, with null for missing columns; return `out`."""
    plan = TablePlan(out, name, {"by": "hand"}, [Unit("unit", (), rows=len(rows))], {}, {}, derived=False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    with UnitWriter(run.target, run.todo[0]) as writer:
        writer.counts.rows_in = len(rows)
        writer.write(pa.Table.from_pylist(list(rows), schema=TABLES[name].schema()))
    run.finish()
    return out


def picture(number: int, *, url: str | None = None, status: str = "ok") -> dict[str, Any]:
    """Return a row of `images`."""
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
    """Return the row of `records` of a picture."""
    return {
        "record_id": content_id("record", image["image_id"]),
        "image_id": image["image_id"],
        "image_url": image["source_url"],
        "page_title": title,
        "page_url": f"https://en.wikipedia.org/wiki/{title}",
    }


def write(out: Path, name: str, units: Sequence[Sequence[dict[str, Any]]], **metadata: str) -> str:
    """Write a complete table to `out`, a unit of each list of rows; return its URI."""
    dim = DIM if name == "embeddings" else None
    plan_units = [Unit(f"unit{number}", (), rows=len(rows)) for number, rows in enumerate(units)]
    plan = TablePlan(str(out), name, {"by": "hand"}, plan_units, {}, metadata, derived=False, dim=dim)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task, rows in zip(run.todo, units, strict=True):
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(rows)
            writer.write(pa.Table.from_pylist(list(rows), schema=table(name, dim=dim).schema()))
    run.finish()
    return str(out)


def embedded(ids: Sequence[str], kind: str, vectors: np.ndarray) -> list[dict[str, Any]]:
    """Return rows of `embeddings` with the normalised `vectors` [ids, DIM]."""
    unit = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    return [
        {"item_id": name, "kind": kind, "embedding": vector, "status": "ok"}
        for name, vector in zip(ids, unit, strict=True)
    ]


def rows_of(uri: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    rows: list[dict[str, Any]] = pa.concat_tables(open_table(uri).batches()).to_pylist()
    return rows
