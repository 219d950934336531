"""Metrics that other jobs computed and wrote as tables, such as evaluate, tric_rank and tric_statistics."""

import json
from collections.abc import Iterator, Sequence

from jobs.metrics.metric import Metric
from jobs.store.reading import TableSource

TABLE = "table"  # dim with the table's name
_COLUMNS = ["definition", "value", "n", "units", "coverage", "low", "high", "interval_method", "status", "reason"]


def read_computed(sources: Sequence[TableSource]) -> Iterator[Metric]:
    """Yield the metrics in tables `metrics`, with the table's name as the dim `table`."""
    for source in sources:
        table = table_name(source.uri)
        for batch in source.batches():
            for row in batch.to_pylist():
                values = {column: row[column] for column in _COLUMNS}
                yield Metric(name=row["metric"], dims={**json.loads(row["dims"]), TABLE: table}, **values)


def table_name(uri: str) -> str:
    """Return the last distinctive part of a table's location, such as clip-b32 for R/ranked/clip-b32/metrics."""
    parts = [part for part in uri.rstrip("/").split("/") if part]
    return parts[-2] if parts[-1] == "metrics" and len(parts) > 1 else parts[-1]
