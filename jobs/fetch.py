"""Get pictures -> table `images`.

    python -m jobs.fetch source=folder source.path=DIR out=R/images
    python -m jobs.fetch source=folder source.path=s3://b/pictures input=R/records out=R/images
    python -m jobs.fetch source=wit_base source.path='s3://b/wit_base/*.parquet' input=R/records out=R/images

Without `input` every file below the folder is a row. With `input` every record's picture is a row, looked up
in the folder by the file name that its image_url ends in; what the folder lacks is `missing`. A file that is
no picture, or a broken one, keeps its row with status `error`. With `source=wit_base` the pictures come out of
that set's Parquet files, found by the records' image_url; no network is asked.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
from omegaconf import MISSING

from actors.folder_fetcher import DEFAULT_MAX_BYTES, FolderFetcher
from actors.ids import content_id
from actors.parquet_pictures import ParquetPictures
from jobs import cli, exclusions, screen
from jobs.config import Common, plain
from jobs.corpora import wit_base as corpus
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.locations import Object
from jobs.store.reading import TableSource, open_table, read_unit
from jobs.store.run import Plan, TableRun, open_run
from jobs.store.units import Unit
from jobs.store.writer import Task


@dataclass
class FolderConfig:
    """Pictures in a folder or below an `s3://` prefix, or in the Parquet files of wit_base."""

    name: str = "folder"
    path: str = MISSING
    max_bytes: int = DEFAULT_MAX_BYTES


@dataclass
class FetchConfig(Common):
    """Keys of `fetch`."""

    source: FolderConfig = field(default_factory=FolderConfig)
    input: str | None = None  # a table of records; null: every file of the folder
    unit_rows: int = 64  # pictures of a unit, without input: some MB of encoded pictures


def execute(cfg: FetchConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    if cfg.unit_rows < 1:
        raise InputError(f"unit_rows={cfg.unit_rows}: at least 1")
    folder = locations.absolute(cfg.source.path)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    if wit_base := cfg.source.name == "wit_base":
        files = corpus.find_files(folder)
    else:
        files = [o for o in locations.find(folder) if not o.uri.rsplit("/", 1)[-1].startswith(".")]
    if cfg.input:
        records = open_table(cfg.input, "records")
        _check_one_row_a_picture(records)
        units, rows = records.units(), partial(of_records, folder=folder)
    elif wit_base:
        raise InputError("source=wit_base: input= is needed, the records whose pictures are wanted")
    else:
        units, rows = list(folder_units(files, cfg.unit_rows)), partial(of_folder, folder=folder)
    plan = Plan(
        out=cfg.out,
        table="images",
        identity={
            "source": {"name": cfg.source.name, "path": folder, "max_bytes": cfg.source.max_bytes},
            "input": records.identity if cfg.input else None,
            **exclusions.identity(excluded),
        },
        units=units,
        config=plain(cfg),
        metadata={},
        derived=bool(cfg.input),
    )
    if cfg.plan:
        screen.show_plan("fetch", plan, cfg.resources, ["fetch"], note=f"{len(files):,} files in the folder")
        return None
    from jobs import flow, session

    session.start(cfg.ray, cfg.resources)
    flow.check(cfg.resources, ["fetch"])
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    kwargs = {"open_filesystem": partial(_filesystem, folder), "max_bytes": cfg.source.max_bytes}
    actor: type = FolderFetcher
    if wit_base:
        actor, kwargs = ParquetPictures, {**kwargs, "column": corpus.PICTURE, "rendition": corpus.RENDITION}
        rows = partial(corpus.of_records, places=_keep_places(run, records, files))
    flow.stream(
        run,
        name="fetch",
        read=flow.Read(rows, item="image_id", output_item="image_id", excluded=exclusions.keep(run, excluded)),
        stages=[flow.Stage("fetch", actor, kwargs)],
        resources=cfg.resources,
    )
    manifest = run.finish()
    screen.show_result("fetch", manifest, run)
    return manifest


def folder_units(files: Sequence[Object], unit_rows: int) -> Iterator[Unit]:
    """The files, sorted by place, in units of `unit_rows`."""
    for first in range(0, len(files), unit_rows):
        inputs = tuple(files[first : first + unit_rows])
        name = content_id(*(part for o in inputs for part in (o.uri, str(o.size), o.etag)))
        yield Unit(name, inputs, rows=len(inputs))


def of_folder(task: Task, *, folder: str) -> pa.Table:
    """What to read for a unit of files: image_id (hash of the path inside the folder), source_url, path."""
    uris = [o.uri for o in task.unit.inputs]
    inside = [uri.removeprefix(folder).lstrip("/") or uri.rsplit("/", 1)[-1] for uri in uris]
    paths: list[str | None] = [locations.filesystem(uri)[1] for uri in uris]
    return _asked([content_id(name) for name in inside], uris, paths)


def of_records(task: Task, *, folder: str) -> pa.Table:
    """What to read for a unit of records: path is null where the folder has no file of that name."""
    rows = read_unit(task.unit.inputs[0].uri, columns=["image_id", "image_url"])
    names = [file_name(url or "") for url in rows["image_url"].to_pylist()]
    fs, base = locations.filesystem(folder)
    paths = [f"{base}/{name}" for name in names]
    there = [name != "" and info.is_file for name, info in zip(names, fs.get_file_info(paths), strict=True)]
    found = [path if here else None for path, here in zip(paths, there, strict=True)]
    return _asked(rows["image_id"].to_pylist(), rows["image_url"].to_pylist(), found)


def file_name(url: str) -> str:
    """The file name that a URL's path ends in, percent-decoded; empty if it has none or would leave the folder."""
    name = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    return "" if "/" in name or name in (".", "..") else name


def _asked(ids: list[str], urls: list[str], paths: list[str | None]) -> pa.Table:
    columns = {"image_id": ids, "source_url": urls, "path": paths}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _check_one_row_a_picture(records: TableSource) -> None:
    seen: set[str] = set()
    for batch in records.batches(["image_id"]):
        for image in batch["image_id"].to_pylist():
            if image in seen:
                raise InputError(
                    f"{records.uri}: several records of one picture ({image}); run jobs.curate on it first"
                )
            seen.add(image)


def _keep_places(run: TableRun, records: TableSource, files: Sequence[Object]) -> str:
    """Find where the records' pictures lie in the Parquet files; kept with the run, where workers read it."""
    urls = (
        pa.concat_tables(records.batches(["image_url"]))["image_url"].unique()
        if run.todo
        else pa.array([], pa.string())
    )
    return run.keep("places.parquet", corpus.pack_places(corpus.picture_places(files, urls)))


def _filesystem(folder: str) -> pafs.FileSystem:
    return locations.filesystem(folder)[0]


JOB = cli.Job("fetch", FetchConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("fetch"))
