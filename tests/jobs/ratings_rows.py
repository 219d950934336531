"""Tables of ratings, raters, items, responses and spans for tests, written by hand."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.judging.kept_rubric import KeptRubric, of_answers
from jobs.tables import table

FIVE = of_answers("r", ["1", "2", "3", "4", "5"], ordinal=True)  # rubric r: every question from 1 to 5


def write(folder: Path, name: str, rows: list[dict[str, Any]], *, rubric: KeptRubric | None = None) -> str:
    """The rows as a table in `folder`; columns that a row lacks are null. Returns its place.

    With `rubric` the table keeps it, as jobs that write ratings do.
    """
    schema = table(name).schema(**(rubric.metadata if rubric else {}))
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in (rubric.files if rubric else {}).items():
        (folder / "_run").mkdir(exist_ok=True)
        (folder / "_run" / file).write_bytes(data)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "part.parquet", row_group_size=64)
    return str(folder)


def rating(item: str, rater: str, question: str, value: str | None, **more: Any) -> dict[str, Any]:
    """A rating; digits are scores. Without a value it is unparsed."""
    made = {
        "item_id": item,
        "target": "",
        "rubric": "r",
        "question": question,
        "rater": rater,
        "condition": "",
        "method": "human" if rater.startswith("p") else "closed",
        "order": "",
        "sample": 0,
        "value": value,
        "score": float(value) if value and value.isdigit() else None,
        "status": "ok" if value else "unparsed",
    }
    return made | more
