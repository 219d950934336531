"""A run of one stage through Ray on rows that need no input: some fail, each has a picture and seven tokens."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from actors import schemas
from jobs.runtime import stages
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask

PICTURES = pa.schema({"image_id": pa.string(), "bytes": pa.large_binary()})


class Looker:
    """Returns a row of `images` for each picture, some of status error."""

    INPUTS = PICTURES
    OUTPUTS = schemas.IMAGES

    def __init__(self, *, errors: int) -> None:
        self._errors = errors
        self._report: Callable[[int], None] = lambda _: None

    def report_tokens(self, report: Callable[[int], None]) -> None:
        self._report = report

    def __call__(self, batch: pa.Table) -> pa.Table:
        self._report(7 * batch.num_rows)
        rows = [
            {"image_id": one, "rendition": "w", "attempts": 1, "status": "ok" if row >= self._errors else "error"}
            for row, one in enumerate(batch["image_id"].to_pylist())
        ]
        for row in rows[: self._errors]:
            row |= {"error_kind": "cursed", "error_message": "no"}
        return pa.Table.from_pylist(rows, schema=schemas.IMAGES)


class Numbered:
    """Reads the rows of a unit."""

    def __call__(self, task: UnitTask) -> pa.Table:
        rows = task.unit.rows or 0
        ids = [f"{task.unit.name}-{row}" for row in range(rows)]
        return pa.table({"image_id": ids, "bytes": [b"picture"] * rows}, schema=PICTURES)


def run_numbered(folder: Path, *, rows: int, errors: int) -> None:
    """Write a table of one unit of `rows` rows, the first `errors` of which fail."""
    units = [Unit("u", (), rows=rows)]
    plan = TablePlan(str(folder / "table"), "images", {"test": "numbered"}, units, {}, {}, derived=True)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    stages.stream(
        run,
        name="numbered",
        read=stages.Read(Numbered(), item="image_id", output_item="image_id"),
        stages=[stages.Stage("embed", Looker, {"errors": errors})],
        resources=Resources(embed=StageResources(batch_size=rows)),
    )
    run.finish()
