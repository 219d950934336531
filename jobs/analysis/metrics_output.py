"""Metrics as a table, as CSV and as lines: those that `report` writes, and tables of other jobs that it reads.

No file of another program is overwritten.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from actors import schemas
from jobs.corpora.cell_texts import csv_file
from jobs.errors import InputError
from jobs.metrics.metric import Metric
from jobs.runtime.job_tables import write_small
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.reading import TableSource
from jobs.store.runs.place import check_creatable
from jobs.tables import conform, table

# The columns of the table `metrics` that are fields of `Metric`, without its name; column `dims` is a JSON object.
COLUMNS = ("value", "low", "high", "n", "units", "coverage", "status", "reason", "interval_method", "definition")
MAX_SHOWN = 40  # lines on the terminal; all metrics are in the files
TABLE = "table"  # dim with the table's name


def refuse_foreign(out: str, *names: str) -> None:
    """Check that a folder with a file of one of these `names` is not another program's: it has a table of metrics.

    Raises:
        InputError: the folder has such a file but no table of metrics, or it cannot be written.
    """
    out = locations.absolute(out)
    check_creatable(out)
    present = [name for name in names if locations.exists(locations.join(out, name))]
    if present and not locations.exists(locations.join(out, "metrics", "_run", "identity.json")):
        raise InputError(
            f"this job did not write its {present[0]}", key="out", value=out, remedy="choose another folder"
        )


def write_metrics(
    out: str, metrics: Iterable[Metric], *, inputs: Sequence[Object], identity: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Write the table OUT/metrics and OUT/metrics.csv, and return the table's manifest with its location (`out`).

    Earlier ones are replaced. The CSV file has a column per dim (`wide`).
    """
    out, metrics = locations.absolute(out), list(metrics)
    locations.replace(locations.join(out, "metrics.csv"), csv_file(*wide(metrics)))
    return write_small(
        locations.join(out, "metrics"),
        metrics_table(metrics),
        table="metrics",
        identity=identity,
        config=settings,
        inputs=tuple(inputs),
    )


def metrics_table(metrics: Iterable[Metric]) -> pa.Table:
    """Return the metrics as rows of the table `metrics`.

    Raises:
        jobs.tables.TableError: two metrics have the same name and dims.
    """
    rows = [row(metric) for metric in metrics]
    return conform(schemas.to_table(rows, table("metrics").schema()), table("metrics"))


def wide(metrics: Sequence[Metric]) -> tuple[list[str], list[list[object]]]:
    """Return a table with one column per dim: the names of the columns, without duplicates, and the rows.

    The columns are `metric`, the dims by name, and the other columns of the table `metrics`. A dim that has the name of
    one of these becomes the column `dim_NAME` (`dim_status` is the status of ratings, `status` that of the metric). The
    cell of a dim that the metric does not have is "".
    """
    dims = sorted({name for metric in metrics for name in metric.dims})
    fixed = ("metric", *COLUMNS)
    used = {*fixed, *dims}
    columns = []
    for name in dims:
        column = name if name not in fixed else f"dim_{name}"
        while column != name and column in used:
            column = f"dim_{column}"
        used.add(column)
        columns.append(column)
    rows = [
        [metric.name, *(metric.dims.get(name, "") for name in dims), *_cells(metric).values()] for metric in metrics
    ]
    return ["metric", *columns, *COLUMNS], rows


def row(metric: Metric) -> dict[str, object]:
    """Return the metric as a row of the table `metrics`."""
    dims = json.dumps(dict(metric.dims), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return {"metric": metric.name, "dims": dims, **_cells(metric)}


def _cells(metric: Metric) -> dict[str, object]:
    return {name: getattr(metric, name) for name in COLUMNS} | {"status": str(metric.status)}


def metric_lines(metrics: Sequence[Metric]) -> Iterator[str]:
    """Yield the first metrics as lines for the terminal: those of groups of raters before those of single ones."""
    for metric in metrics:
        if metric.name == "ratings_repeated" and metric.value:
            yield (
                f"{metric.dims['question']}: {metric.value:,.0f} duplicate (rater, item) rows; scores are averaged, "
                "and of categories the first counts"
            )
    shown = sorted((m for m in metrics if "unit" not in m.dims), key=lambda m: "rater" in m.dims)  # groups first
    for metric in shown[:MAX_SHOWN]:
        dims = ", ".join(f"{name} {value}" for name, value in metric.dims.items() if name != "rubric")
        value = "undefined" if metric.value is None else f"{metric.value:.4f}"
        interval = "" if metric.low is None else f" [{metric.low:.4f}, {metric.high:.4f}]"
        reason = f" ({metric.reason})" if metric.value is None else ""
        yield f"{metric.name:28} {value}{interval} n={metric.n:,} {dims}{reason}"
    if len(shown) > MAX_SHOWN:
        yield f"… and {len(shown) - MAX_SHOWN:,} more"


def read_computed(sources: Sequence[TableSource]) -> Iterator[Metric]:
    """Yield the metrics in tables `metrics`, with the table's name as the dim `table`."""
    for source in sources:
        table = table_name(source.uri)
        for metric in read_metrics(source):
            yield metric.at(**{TABLE: table})


def read_metrics(source: TableSource) -> Iterator[Metric]:
    """Yield the metrics of a table `metrics`."""
    for batch in source.batches():
        for row in batch.to_pylist():
            values = {column: row[column] for column in COLUMNS}
            yield Metric(name=row["metric"], dims=json.loads(row["dims"]), **values)


def table_name(uri: str) -> str:
    """Return the last distinctive part of a table's location, such as clip-b32 for R/ranked/clip-b32/metrics."""
    parts = [part for part in uri.rstrip("/").split("/") if part]
    return parts[-2] if parts[-1] == "metrics" and len(parts) > 1 else parts[-1]
