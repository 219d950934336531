"""source=webdataset and source=parquet: all pictures of tar shards, or of a column of Parquet files."""

from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from actors.quantities import quantity
from jobs.errors import InputError
from jobs.sources.config import FetchConfig, SourceConfig, required_path
from jobs.sources.source_plan import SourcePlan
from jobs.store.files import locations
from jobs.store.files.locations import Object
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit, unit_of_file
from jobs.workers import fetch_shards


def plan(cfg: FetchConfig) -> SourcePlan:
    """Return one unit per tar shard or row group, fetched by `jobs.workers.fetch_shards`.

    Raises:
        InputError: a key is missing or does not apply, or there is no file of that kind.
    """
    source = cfg.source
    path = locations.absolute(required_path(cfg))
    if cfg.input is not None:
        raise InputError(f"input={cfg.input}: source={source.name} reads all pictures of the files; leave input= out")
    units = tar_units(path) if source.name == "webdataset" else parquet_units(source, path)
    return SourcePlan(
        units=units,
        identity={"path": path, "bytes_column": source.bytes_column, "key_column": source.key_column},
        note=quantity(len({unit.inputs[0].uri for unit in units}), "file"),
        streamed=False,
        fetch=partial(_fetch, cfg, path),
    )


def _fetch(cfg: FetchConfig, path: str, run: TableRun, excluded: str | None) -> None:
    from jobs.runtime import stages

    source = cfg.source
    root = path.split("*", 1)[0].rsplit("/", 1)[0]
    kwargs = {
        "shards": fetch_shards.Shards(source.name, root, source.max_bytes, source.bytes_column, source.key_column),
        "width": cfg.width,
        "processes": cfg.resources.fetch.threads,
        "excluded": excluded,
    }
    stage = stages.Stage("fetch", fetch_shards.ShardUnit, kwargs)
    stages.process(run, name="fetch", stage=stage, resources=cfg.resources, total=None, counted="pictures")


def tar_units(path: str) -> list[Unit]:
    """Return one unit per tar shard.

    Raises:
        InputError: there is no shard at `path`.
    """
    files = [o for o in locations.find(path) if ".tar" in PurePosixPath(o.uri).suffixes or o.uri.endswith(".tgz")]
    if not files:
        raise InputError(f"source.path={path}: contains no .tar or .tgz file; set it to a shard, a folder or a glob")
    return [unit_of_file(file) for file in files]


def parquet_units(source: SourceConfig, path: str) -> list[Unit]:
    """Return one unit per row group.

    Raises:
        InputError: there is no Parquet file, or a file has no column of bytes; the message lists its columns.
    """
    files = [o for o in locations.find(path) if o.uri.endswith((".parquet", ".parq"))]
    if not files:
        raise InputError(f"source.path={path}: contains no .parquet file; set it to a file, a folder or a glob")
    return [unit for file in files for unit in _row_groups(source, file)]


def _row_groups(source: SourceConfig, file: Object) -> Iterator[Unit]:
    fs, path = locations.filesystem(file.uri)
    try:
        with fs.open_input_file(path) as stream:
            meta = pq.read_metadata(stream)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError("not a readable Parquet file; replace it with a complete copy", place=file.uri) from error
    schema = meta.schema.to_arrow_schema()
    fetch_shards.bytes_column(schema, source.bytes_column, file.uri)
    if source.key_column is not None and source.key_column not in schema.names:
        columns = ", ".join(schema.names)
        raise InputError(
            f"source.key_column={source.key_column}: not a column of {file.uri}; its columns are {columns}"
        )
    for group in range(meta.num_row_groups):
        yield unit_of_file(file, piece=f"row group {group}", rows=meta.row_group(group).num_rows)
