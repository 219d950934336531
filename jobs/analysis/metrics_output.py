"""Tables of metrics: writing that of `report` and `analyze`, and reading those of other jobs such as evaluate.

No file of another program is overwritten.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jobs.errors import InputError
from jobs.metrics.metric import COLUMNS, Metric, metrics_table
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.reading import TableSource
from jobs.store.runs.small_table import write_small

TABLE = "table"  # dim with the table's name


def refuse_foreign(out: str, *names: str) -> None:
    """Check that a folder with a file of one of these `names` is not another program's: it has a table of metrics.

    Raises:
        InputError: the folder has such a file but no table of metrics.
    """
    out = locations.absolute(out)
    present = [name for name in names if locations.exists(locations.join(out, name))]
    if present and not locations.exists(locations.join(out, "metrics", "_run", "identity.json")):
        raise InputError(
            f"this job did not write its {present[0]}", key="out", value=out, remedy="choose another folder"
        )


def write_metrics(
    out: str, metrics: Iterable[Metric], *, inputs: Sequence[Object], identity: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Write the table OUT/metrics, replacing an earlier one, and return its manifest with its location (`out`)."""
    return write_small(
        locations.join(locations.absolute(out), "metrics"),
        metrics_table(metrics),
        table="metrics",
        identity=identity,
        config=settings,
        inputs=tuple(inputs),
    )


def read_computed(sources: Sequence[TableSource]) -> Iterator[Metric]:
    """Yield the metrics in tables `metrics`, with the table's name as the dim `table`."""
    for source in sources:
        table = table_name(source.uri)
        for batch in source.batches():
            for row in batch.to_pylist():
                values = {column: row[column] for column in COLUMNS}
                yield Metric(name=row["metric"], dims={**json.loads(row["dims"]), TABLE: table}, **values)


def table_name(uri: str) -> str:
    """Return the last distinctive part of a table's location, such as clip-b32 for R/ranked/clip-b32/metrics."""
    parts = [part for part in uri.rstrip("/").split("/") if part]
    return parts[-2] if parts[-1] == "metrics" and len(parts) > 1 else parts[-1]
