"""Who made a table's rows: `_run/raters.parquet`, rows of table `raters`, written by every job that asks a model."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.errors import InputError
from jobs.models.vlm import ModelConfig
from jobs.store import locations
from jobs.store.reading import TableSource
from jobs.store.run import TableRun
from jobs.tables import conform, table

FILE = "raters.parquet"  # in _run/
TALLY = "rater"  # group of the counts by which actors say what ran the model (`actors.vlm.loading.RaterFacts`)


def of_model(model: ModelConfig, tallies: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """A row of `raters` for each kind of machine that ran the model, the one with most rows first.

    Args:
        tallies: counts of the run's manifest. Without those of `TALLY`, as where no row reached the model, the row
            says what the configuration asks for.
    """
    asked = {"kind": "model", "model": model.checkpoint, "licence": model.licence}
    told = tallies.get(TALLY, {})
    if not told:
        return [{"rater": model.rater, **asked, "revision": model.revision, "dtype": model.dtype}]
    rows = []
    for number, text in enumerate(sorted(told, key=lambda facts: (-told[facts], facts))):
        facts = dict(zip(("family", "revision", "dtype", "engine"), text.split("|", 3), strict=True))
        rows.append({"rater": model.rater if number == 0 else f"{model.rater} ({number + 1})", **asked, **facts})
    return rows


def keep(run: TableRun, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows of table `raters` with the run; columns that a row lacks are null."""
    made = pa.Table.from_pylist(list(rows), schema=table("raters").schema())
    out = io.BytesIO()
    pq.write_table(conform(made, table("raters")), out)
    run.keep(FILE, out.getvalue())


def read(sources: Sequence[TableSource]) -> list[dict[str, Any]]:
    """The rows that tables keep, each once, by the raters' names.

    Raises:
        InputError: a file that is not table `raters`.
    """
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for source in sources:
        uri = locations.join(source.uri, "_run", FILE)
        try:
            data = locations.read_bytes(uri)
        except FileNotFoundError:
            continue
        try:
            rows = conform(pq.read_table(io.BytesIO(data)), table("raters"))
        except (pa.ArrowException, ValueError) as error:
            raise InputError(f"{uri}: damaged, not a table of raters ({type(error).__name__}: {error})") from error
        found.update((tuple(row.values()), row) for row in rows.to_pylist())
    return sorted(found.values(), key=lambda row: (row["rater"], row["dtype"] or "", row["engine"] or ""))
