"""remine from Python: run jobs, and read their tables as data frames.

    from jobs import api

    api.run("judge", input="R/set/items", images="R/images", rubric="mood.yaml", model="local-tiny", out="R/ratings")
    answers = api.StoredTable("R/ratings").pandas()
    metrics = api.metrics("R/report")

`run` takes the keys of the command line (`remine JOB --help`). Errors are `jobs.errors.InputError` (the input or the
configuration is wrong, and nothing was written) and `jobs.errors.RunError`.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_origin

import numpy as np
import pyarrow as pa

from jobs.analysis.metrics_output import read_metrics, wide
from jobs.errors import InputError
from jobs.runtime.command_line import cli, job_names
from jobs.runtime.configuration.key_types import alternatives, type_of
from jobs.runtime.configuration.key_values import literal
from jobs.runtime.outcomes import Manifest, Plan
from jobs.store.files import locations
from jobs.store.reading import open_table

if TYPE_CHECKING:
    import datasets
    import pandas as pd
    import polars as pl

__all__ = ["Manifest", "Plan", "StoredTable", "metrics", "run"]

Place = str | os.PathLike[str]


def run(job: str, /, **keys: Any) -> Any:
    """Run a job in this process, as `remine JOB key=value …` does, and return what it did.

    Args:
        job: its name, also of a step: "judge", "tric rank".
        keys: the keys of its command line. Keys below another are a dict (`metrics={"disaggregate": ["region"]}`) or
            dotted (`**{"metrics.disaggregate": ["region"]}`); a path may be a `pathlib.Path`.

    Returns:
        The `Manifest` of the table that it wrote: a dict with its place (`out`), its `counts` and its identity. With
        `plan=True`, a `Plan`, whose `lines` say what would be done. A few jobs, such as `ls`, return other values.

    Raises:
        InputError: no such job or key, or the input is wrong; nothing was written.
        RunError: the run failed or its counts do not add up; completed units are kept, and the same call continues.
    """
    name = job.replace("-", "_")
    if name not in job_names.JOBS:
        raise InputError(job_names.no_such_job(job))
    return cli.execute(name, _overrides(cli.job(name).schema, keys))


def _overrides(schema: type, keys: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return `key=value` of each key; of a dict, of the keys below."""
    overrides = []
    for name, value in keys.items():
        key = f"{prefix}{name}"
        kind = type_of(schema, key)
        if isinstance(value, Mapping):
            overrides += _overrides(schema, value, f"{key}.")
        else:
            is_list = any(get_origin(member) is list for member in alternatives(kind))
            overrides.append(f"{key}={literal(_plain(value, is_list=is_list))}")
    return overrides


def _plain(value: Any, *, is_list: bool) -> Any:
    """Return a value with paths as texts, tuples as lists and NumPy's numbers as Python's; a single text of a list as a
    list of it."""
    if isinstance(value, list | tuple):
        return [_plain(part, is_list=False) for part in value]
    if isinstance(value, np.generic):
        return value.item()
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    return [text] if is_list and isinstance(text, str) else text


class StoredTable:
    """A table that a job wrote, local or on S3.

    The columns of each kind of table, and what they mean, are in `jobs.tables`.

    Attributes:
        place: its folder or s3://bucket/prefix.
        name: its kind, such as "ratings".
        schema: its columns as an Arrow schema.
    """

    def __init__(self, place: Place) -> None:
        """Open the table at `place`; its rows are read by the methods.

        Raises:
            InputError: there is no table, or it is incomplete or damaged.
        """
        self._source = open_table(os.fspath(place))
        self.place, self.name = self._source.uri, self._source.name
        self.schema: pa.Schema = self._source.footers[0].schema.remove_metadata()

    def __len__(self) -> int:
        """The number of rows."""
        return self._source.rows

    def __repr__(self) -> str:
        return f"StoredTable({self.place!r}): {self.name}, {len(self):,} rows, columns {', '.join(self.schema.names)}"

    def arrow(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows, in order of unit, as an Arrow table.

        Args:
            columns: to read; None for all.

        Raises:
            InputError: there is no such column.
            RunError: an object is damaged.
        """
        if unknown := [name for name in columns or () if name not in self.schema.names]:
            raise InputError(
                f"no column {unknown[0]!r}; its columns are {', '.join(self.schema.names)}", place=self.place
            )
        schema = self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])
        parts = [part.replace_schema_metadata() for part in self._source.batches(columns)]
        return pa.concat_tables([schema.empty_table(), *parts])

    def pandas(self, columns: Sequence[str] | None = None) -> "pd.DataFrame":
        """Return the rows as a pandas DataFrame; a column of attributes has a dict in each row. Raises as `arrow`."""
        return self.arrow(columns).to_pandas(maps_as_pydicts="strict")

    def polars(self, columns: Sequence[str] | None = None) -> "pl.DataFrame":
        """Return the rows as a Polars DataFrame; attributes are lists of key and value. Raises as `arrow`."""
        import polars as pl

        frame = pl.from_arrow(_without_maps(self.arrow(columns)))
        assert isinstance(frame, pl.DataFrame)
        return frame

    def dataset(self, columns: Sequence[str] | None = None) -> "datasets.Dataset":
        """Return the rows as a Hugging Face `datasets.Dataset`; attributes as in `polars`. Raises as `arrow`."""
        import datasets

        return datasets.Dataset(datasets.table.InMemoryTable(_without_maps(self.arrow(columns))))


def _without_maps(rows: pa.Table) -> pa.Table:
    """Return the rows with maps as lists of a struct of key and value, the same bytes under a type that all know."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_map(field.type):
            pair = pa.struct([pa.field("key", field.type.key_type), pa.field("value", field.type.item_type)])
            rows = rows.set_column(place, field.name, rows[place].cast(pa.list_(pair)))
    return rows


def metrics(place: Place) -> "pd.DataFrame":
    """Return the metrics of a report, or of another table of metrics, with one column per dim.

    Args:
        place: the folder of the report, or the table `metrics` itself.

    Returns:
        One row per metric: `metric`; the dims that occur, such as `question`, `rater` and `group`, which are None
        where a metric does not have them (`dim_status` is the status of ratings, `status` that of the metric);
        `value`, `low` and `high` (95 % interval), `n`, `units`, `coverage`, `status`, `reason`,
        `interval_method`, `definition`.

    Raises:
        InputError: there is no table of metrics.
    """
    import pandas as pd

    uri = locations.absolute(os.fspath(place))
    inner = locations.join(uri, "metrics")
    source = open_table(inner if next(iter(locations.listing(inner)), None) else uri, "metrics")
    columns, rows = wide(list(read_metrics(source)))
    frame = pd.DataFrame(rows, columns=columns)
    dims = frame.columns[1 : frame.columns.get_loc("value")]
    return frame.assign(**{name: frame[name].replace("", None) for name in dims})
