"""Tables written by hand, and tables that are held in memory only."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from jobs.store.run import TablePlan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES


class Held:
    """Rows of a table in memory, read as a TableSource is: in batches, of the columns asked for."""

    def __init__(self, table: str, rows: Sequence[dict[str, Any]], *, batch: int = 3) -> None:
        self.uri, self.rows = f"held/{table}", len(rows)
        self._rows = pa.Table.from_pylist(list(rows), schema=TABLES[table].schema())
        self._batch = batch

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        for first in range(0, self._rows.num_rows, self._batch):
            yield self._rows.slice(first, self._batch).select(list(columns))


def write(out: str, table: str, rows: Sequence[dict[str, Any]], *, name: str = "unit") -> str:
    """A complete table of one unit at `out`; returns `out`."""
    plan = TablePlan(out, table, {"by": "hand"}, [Unit(name, (), rows=len(rows))], {}, {}, derived=False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(rows)
            writer.write(pa.Table.from_pylist(list(rows), schema=TABLES[table].schema()))
    run.finish()
    return out


def image(
    url: str, *, status: str = "ok", phash: str | None = None, rendition: str = "original", image_id: str = ""
) -> dict[str, Any]:
    """A row of `images` about the picture at `url`."""
    named = image_id or content_id(url)
    return {"image_id": named, "rendition": rendition, "status": status, "phash": phash, "source_url": url}


def rating(item: str, question: str, answer: object, *, rater: str = "m", **more: Any) -> dict[str, Any]:
    """A row of `ratings`: a number is a score, a word a category, None an answer that is not ok."""
    score = float(answer) if isinstance(answer, int | float) else None
    return {
        "item_id": item,
        "target": "",
        "rubric": "century_labels",
        "question": question,
        "rater": rater,
        "condition": "",
        "method": "closed",
        "order": "",
        "sample": 0,
        "value": None if answer is None else str(answer),
        "score": score,
        "status": "refused" if answer is None else "ok",
        **more,
    }
