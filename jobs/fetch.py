"""Get pictures -> table `images`.

    python -m jobs.fetch source=urls source.contact=ADDRESS input=R/records width=300 out=R/images
    python -m jobs.fetch source=folder source.path=DIR out=R/images
    python -m jobs.fetch source=folder source.path=s3://b/pictures input=R/records out=R/images
    python -m jobs.fetch source=webdataset source.path='s3://b/shards/*.tar' out=R/images
    python -m jobs.fetch source=parquet source.path='DIR/*.parquet' out=R/images
    python -m jobs.fetch source=wit_base source.path='s3://b/wit_base/*.parquet' input=R/records out=R/images

Every record (with `input`) or file gives one row, whatever became of it; records of one picture share a row. With
`width` the pictures are made that wide, upright, 8 bits, on white; without, their bytes stay as they are.
`verify_only=true` (source=urls) asks whether the pictures are still there and fetches none. With `source=wit_base` the
records' pictures come out of that set's Parquet files, 300 pixels wide; no network is asked.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from actors.folder_fetcher import FolderFetcher
from actors.parquet_pictures import ParquetPictures
from jobs.corpora.wit import wit_base
from jobs.errors import InputError
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import Common, plain
from jobs.sources import folder, repeats, row_log
from jobs.sources.config import SourceConfig
from jobs.store import locations
from jobs.store.reading import TableSource, open_table
from jobs.store.run import TablePlan, TableRun
from jobs.store.units import Unit
from jobs.workers import fetch_shards, fetch_urls


@dataclass
class FetchConfig(Common):
    """Keys of `fetch`."""

    source: SourceConfig = field(default_factory=SourceConfig)
    input: str | None = None  # a table of records; null: everything in the folder or shards
    width: int | None = None  # pixels; null: the pictures as they are
    verify_only: bool = False  # ask only whether the original is there; no bytes (source=urls)
    unit_rows: int = 64  # pictures of a unit of source=folder without input: some MB of encoded pictures


def execute(cfg: FetchConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    _check(cfg)
    work = _SOURCES[cfg.source.name](cfg)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = TablePlan(
        out=cfg.out,
        table="images",
        identity={
            "source": {"name": cfg.source.name, "max_bytes": cfg.source.max_bytes, **work.identity},
            "input": work.records.identity if work.records else None,
            "width": cfg.width,
            **exclusions.identity(excluded),
        },
        units=work.units,
        config=plain(cfg),
        metadata={},
        derived=work.records is not None,
    )
    run = lifecycle.begin("fetch", cfg, plan, pools=["fetch"], note=work.note, streamed=work.streamed)
    if run is None:
        return None
    work.run(run, exclusions.keep(run, excluded))
    manifest = lifecycle.end("fetch", run, excluded)
    row_log.remove(run.target.out)
    return manifest


def _check(cfg: FetchConfig) -> None:
    if cfg.source.name == "urls":
        if cfg.input is None:
            raise InputError("source=urls: input= is required, a table of records (jobs.curate writes one)")
    elif cfg.source.path is None:
        raise InputError(f"source={cfg.source.name}: source.path= is required")
    if cfg.source.name == "wit_base":
        if cfg.input is None:
            raise InputError("source=wit_base: input= is needed, the records whose pictures are wanted")
        if cfg.width is not None:
            raise InputError(f"width={cfg.width}: source=wit_base has its pictures 300 wide and gives them as they are")
    if cfg.source.name in ("webdataset", "parquet") and cfg.input is not None:
        raise InputError(f"source={cfg.source.name} takes no input=: every picture in the files becomes a row")
    path = cfg.source.path or ""
    if cfg.source.name == "folder" and cfg.input and not locations.is_s3(path) and Path(path).expanduser().is_file():
        raise InputError(f"source.path={path}: a file; with input= it is the folder that holds the records' pictures")
    if cfg.verify_only and (cfg.source.name != "urls" or cfg.width is not None):
        raise InputError("verify_only=true is for source=urls, without width=")
    if cfg.unit_rows < 1:
        raise InputError(f"unit_rows={cfg.unit_rows}: at least 1")
    if cfg.width is not None and cfg.width < 1:
        raise InputError(f"width={cfg.width}: at least 1")


class _Records:
    """The records that pictures are got for, each picture once."""

    def __init__(self, uri: str) -> None:
        self.table: TableSource = open_table(uri, "records")
        self._repeated = repeats.find(self.table)
        self.units = repeats.units(self.table, self._repeated)
        self.note = f"{sum(int(marks.sum()) for marks in self._repeated.values()):,} records repeat a picture"

    def keep(self, run: TableRun) -> str | None:
        """Store which records are left out, where workers read it; its uri."""
        return run.keep(repeats.KEPT, repeats.encoded(self._repeated)) if self._repeated else None


class _Work(Protocol):
    """A source: what is to be done, and how. `streamed`: whether rows are streamed through Ray."""

    streamed: bool
    records: TableSource | None
    units: list[Unit]
    identity: dict[str, Any]
    note: str

    def run(self, run: TableRun, excluded: str | None) -> None:
        """Do what is left; `excluded` is where the list of exclusions lies."""


class _Urls:
    """source=urls: a unit is fetched and written by one actor."""

    def __init__(self, cfg: FetchConfig) -> None:
        self.streamed = False
        self._cfg, source = cfg, cfg.source
        self._settings = fetch_urls.settings_of(source, width=cfg.width, verify_only=cfg.verify_only)
        assert cfg.input is not None
        self._records = _Records(cfg.input)
        self.records: TableSource | None = self._records.table
        self.units, self.note = self._records.units, self._records.note
        # Who may be asked, how often and how fast changes no picture: retry=[blocked] may follow a longer list.
        self.identity: dict[str, Any] = {"form": source.form, "verify_only": cfg.verify_only, "credits": source.credits}

    def run(self, run: TableRun, excluded: str | None) -> None:
        from jobs.runtime import stages
        from jobs.sources import cluster_limiter

        cluster_limiter.start()
        cfg = self._cfg
        kwargs = {
            "settings": self._settings,
            "known": fetch_urls.RunFiles(run.target.out, excluded, self._records.keep(run)),
            "threads": cfg.resources.fetch.threads,
            "ca_file": cfg.source.ca_file,
        }
        stage = stages.Stage("fetch", fetch_urls.FetchUnit, kwargs)
        total = None if cfg.retry else sum(task.unit.rows or 0 for task in run.todo)
        stages.process(run, name="fetch", stage=stage, resources=cfg.resources, total=total, counted="pictures")


class _FetchFolder:
    """source=folder: files are read and decoded as they stream by."""

    def __init__(self, cfg: FetchConfig) -> None:
        self.streamed = True
        assert cfg.source.path is not None
        self._cfg = cfg
        self._place = locations.absolute(cfg.source.path)
        self._records = _Records(cfg.input) if cfg.input else None
        files = folder.files_of(self._place)
        if self._records:
            folder.check_names(self._place, files, self._records.table)
        self.records = self._records.table if self._records else None
        alone = [] if self._records else list(folder.folder_units(files, cfg.unit_rows))
        self.units = self._records.units if self._records else alone
        self.note = f"{len(files):,} files in the folder"
        self.identity: dict[str, Any] = {"path": self._place}

    def run(self, run: TableRun, excluded: str | None) -> None:
        from jobs.runtime import stages

        cfg = self._cfg
        if self._records:
            rows = partial(folder.of_records, folder=self._place, repeated=self._records.keep(run))
        else:
            rows = partial(folder.of_folder, folder=self._place)
        kwargs = {
            "open_filesystem": folder.opener(self._place),
            "max_bytes": cfg.source.max_bytes,
            "width": cfg.width,
            "processes": cfg.resources.fetch.threads,
        }
        read = stages.Read(rows, item="image_id", output_item="image_id", excluded=excluded)
        chain = [stages.Stage("fetch", FolderFetcher, kwargs)]
        stages.stream(run, name="fetch", read=read, stages=chain, resources=cfg.resources)


class _Shards:
    """source=webdataset and source=parquet: a shard or row group is read, decoded and written by one actor."""

    def __init__(self, cfg: FetchConfig) -> None:
        self.streamed = False
        self.records: TableSource | None = None
        assert cfg.source.path is not None
        self._cfg, source = cfg, cfg.source
        path = locations.absolute(cfg.source.path)
        self.units = (
            fetch_shards.tar_units(path) if source.name == "webdataset" else fetch_shards.parquet_units(source, path)
        )
        self.note = f"{len({unit.inputs[0].uri for unit in self.units}):,} files"
        self.identity: dict[str, Any] = {
            "path": path,
            "bytes_column": source.bytes_column,
            "key_column": source.key_column,
        }

    def run(self, run: TableRun, excluded: str | None) -> None:
        from jobs.runtime import stages

        cfg, source = self._cfg, self._cfg.source
        root = locations.absolute(source.path or "").split("*", 1)[0].rsplit("/", 1)[0]
        kwargs = {
            "shards": fetch_shards.Shards(source.name, root, source.max_bytes, source.bytes_column, source.key_column),
            "rendition": "original" if cfg.width is None else f"w{cfg.width}",
            "width": cfg.width,
            "processes": cfg.resources.fetch.threads,
            "excluded": excluded,
        }
        stage = stages.Stage("fetch", fetch_shards.ShardUnit, kwargs)
        stages.process(run, name="fetch", stage=stage, resources=cfg.resources, total=None, counted="pictures")


class _WitBase:
    """source=wit_base: the records' pictures out of that set's Parquet files, found by image_url."""

    def __init__(self, cfg: FetchConfig) -> None:
        self.streamed = True
        assert cfg.source.path is not None
        assert cfg.input is not None
        self._cfg = cfg
        self._place = locations.absolute(cfg.source.path)
        self._files = wit_base.find_files(self._place)
        self._records = _Records(cfg.input)
        self.records: TableSource | None = self._records.table
        self.units = self._records.units
        self.note = f"{len(self._files):,} files of wit_base; {self._records.note}"
        self.identity: dict[str, Any] = {"path": self._place}

    def run(self, run: TableRun, excluded: str | None) -> None:
        from jobs.runtime import stages

        wanted = pa.array([], pa.string())
        if run.todo:
            wanted = pa.concat_tables(self._records.table.batches(["image_url"]))["image_url"].unique()
        places = run.keep("places.parquet", wit_base.pack_places(wit_base.picture_places(self._files, wanted)))
        rows = partial(wit_base.of_records, places=places, repeated=self._records.keep(run))
        kwargs = {
            "open_filesystem": folder.opener(self._place),
            "max_bytes": self._cfg.source.max_bytes,
            "column": wit_base.PICTURE,
            "rendition": wit_base.RENDITION,
        }
        read = stages.Read(rows, item="image_id", output_item="image_id", excluded=excluded)
        chain = [stages.Stage("fetch", ParquetPictures, kwargs)]
        stages.stream(run, name="fetch", read=read, stages=chain, resources=self._cfg.resources)


_SOURCES: dict[str, Callable[[FetchConfig], _Work]] = {
    "urls": _Urls,
    "folder": _FetchFolder,
    "webdataset": _Shards,
    "parquet": _Shards,
    "wit_base": _WitBase,
}
JOB = cli.Job("fetch", FetchConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("fetch"))
