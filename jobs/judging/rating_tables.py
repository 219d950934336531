"""Tables of ratings and their raters.

Several tables are opened together after a check that no two have the same rating. A table of each job that runs a model
keeps its raters, rows of table `raters`, in `_run/raters.parquet`.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from actors import schemas
from jobs.checkpoints.vlm import ModelConfig
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.keys import refuse_shared_keys
from jobs.store.reading import TableSource, open_tables
from jobs.store.runs.table_run import TableRun
from jobs.tables import conform, table

RATERS_FILE = "raters.parquet"  # in _run/
RATER_TALLY = "rater"  # group of the tallies whose keys describe the model (`actors.vlm.loading.RaterFacts`)
GROUPS = (
    "rubric",
    "question",
    "rater",
    "condition",
    "method",
    "order",
    "sample",
)  # columns of the key with few distinct values


def open_ratings(patterns: Sequence[str], *, key: str = "ratings") -> list[TableSource]:
    """Return the tables of ratings at `patterns` (paths, URIs or globs), each once, in that order.

    Args:
        key: the key of the job that names them, for messages.

    Raises:
        InputError: a table does not exist, or two tables have the same primary key of `ratings`: averaging both would
            count one rater twice, or mix runs that differ only in their settings.
    """
    sources = open_tables(patterns, "ratings", key=key)
    refuse_shared_keys(sources, groups=GROUPS, row="rating")
    return sources


def raters_of_model(model: ModelConfig, tallies: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    """Return a row of `raters` for each kind of machine that ran the model, the kind with most rows first.

    Args:
        model: the configured model.
        tallies: from the run's manifest. Without the group `TALLY` (no row reached the model), the only row has the
            configured values.
    """
    shared = {"kind": "model", "model": model.checkpoint, "licence": model.licence}
    rows_by_facts = tallies.get(RATER_TALLY, {})
    if not rows_by_facts:
        return [{"rater": model.rater, **shared, "revision": model.revision, "dtype": model.dtype}]
    rows = []
    for number, text in enumerate(sorted(rows_by_facts, key=lambda facts: (-rows_by_facts[facts], facts))):
        facts = dict(zip(("family", "revision", "dtype", "engine"), text.split("|", 3), strict=True))
        rows.append({"rater": model.rater if number == 0 else f"{model.rater} ({number + 1})", **shared, **facts})
    return rows


def keep_raters(run: TableRun, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows of table `raters` with the run; columns that a row lacks are null."""
    raters = schemas.to_table(rows, table("raters").schema())
    out = io.BytesIO()
    pq.write_table(conform(raters, table("raters")), out)
    run.keep(RATERS_FILE, out.getvalue())


def read_raters(sources: Sequence[TableSource]) -> list[dict[str, Any]]:
    """Return the distinct rows of `raters` that tables keep, sorted by the raters' names.

    Raises:
        InputError: a file is not a table `raters`.
    """
    distinct: dict[tuple[Any, ...], dict[str, Any]] = {}
    for source in sources:
        uri = locations.join(source.uri, "_run", RATERS_FILE)
        try:
            data = locations.read_bytes(uri)
        except FileNotFoundError:
            continue
        try:
            rows = conform(pq.read_table(io.BytesIO(data)), table("raters"))
        except (pa.ArrowException, ValueError) as error:
            raise InputError(f"damaged, not a table of raters ({type(error).__name__}: {error})", place=uri) from error
        distinct.update((tuple(row.values()), row) for row in rows.to_pylist())
    return sorted(distinct.values(), key=lambda row: (row["rater"], row["dtype"] or "", row["engine"] or ""))
