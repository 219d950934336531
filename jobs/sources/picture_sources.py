"""The sources of pictures: folder, wit_base, webdataset, parquet and urls.

`source=folder` reads pictures in a folder or under an `s3://` prefix, either all of them or those of the records;
`source=wit_base` the records' pictures from that data set's Parquet files, found by image_url; `source=webdataset` and
`source=parquet` all pictures of tar shards, or of a column of Parquet files; `source=urls` the records' pictures over
HTTPS.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from actors.fetching import wikimedia
from actors.fetching.http_connection import Bounds, tls_context
from actors.fetching.net_safety import Rules
from actors.fetching.politeness import RequestSettings, user_agent
from actors.ids import content_id
from actors.quantities import quantity
from actors.stored_pictures import FolderFetcher, ParquetPictures
from actors.url_fetcher import UrlFetcherSettings
from jobs.corpora.records import RecordsInput, open_records, read_records
from jobs.corpora.user_tables import list_files, name_in, opened_parquet
from jobs.corpora.wit import wit_base
from jobs.errors import InputError, as_input_error
from jobs.runtime.selection.exclusions import ExclusionFilter, read_exclusions
from jobs.sources.source_config import (
    FetchConfig,
    SourceConfig,
    SourcePlan,
    TestingConfig,
    required_input,
    required_path,
)
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.pieces import begun_cuts
from jobs.store.reading import TableSource
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit, unit_of_file
from jobs.store.writer import UnitTask
from jobs.workers import fetch_shards, fetch_urls

UNIT_FILES = 64  # a unit is one block in memory, and an original may have several MB


def folder_plan(cfg: FetchConfig) -> SourcePlan:
    """Return the units of the folder's files, or of the records, streamed through `FolderFetcher`.

    Raises:
        InputError: there is no folder, or it contains none of the records' pictures.
    """
    path = required_path(cfg)
    if cfg.input and not locations.is_s3(path) and Path(path).expanduser().is_file():
        why = "is a file; with input=, name the folder of the records' pictures"
        raise InputError(why, key="source.path", value=path)
    folder = locations.absolute(path)
    files = list_files(folder)
    note = f"{quantity(len(files), 'file')} in the folder"
    if cfg.input is None:
        unit_rows = cfg.unit_rows or UNIT_FILES
        return SourcePlan(
            units=_begun_or_new(cfg, folder, files, unit_rows),
            identity={"path": folder, "unit_rows": unit_rows},
            note=note,
            streamed=True,
            fetch=partial(_fetch_folder, cfg, folder, None),
        )
    records = open_records(cfg.input, cfg.unit_rows, begun_cuts(cfg.out, overwrite=cfg.overwrite))
    check_names(folder, files, records.table)
    if cfg.plan:
        note += (
            f", which has {count_names(folder, files, records.table):,} of the {records.table.rows:,} records' pictures"
        )
    return SourcePlan(
        units=records.units,
        identity={"path": folder, "unit_rows": records.unit_rows},
        note=note,
        streamed=True,
        fetch=partial(_fetch_folder, cfg, folder, records),
        records=records.table,
    )


def _fetch_folder(
    cfg: FetchConfig, folder: str, records: RecordsInput | None, run: TableRun, excluded: str | None
) -> None:
    from jobs.runtime import stages

    rows: Callable[[UnitTask], pa.Table] = partial(requests_of_files, folder=folder)
    if records is not None:
        rows = partial(requests_of_records, folder=folder, repeated=records.keep_repeats(run))
    kwargs = {
        "open_filesystem": filesystem_opener(folder),
        "max_bytes": cfg.source.max_bytes,
        "width": cfg.width,
        "processes": cfg.resources.fetch.threads,
    }
    read = stages.Read(rows, item="image_id", output_item="image_id", excluded=excluded)
    chain = [stages.Stage("fetch", FolderFetcher, kwargs)]
    stages.stream(run, name="fetch", read=read, stages=chain, resources=cfg.resources)


def count_names(folder: str, files: Sequence[Object], records: TableSource) -> int:
    """Return the number of records whose picture is in the folder."""
    names_in_folder = _names_in(folder, files)
    urls = (url for batch in records.batches(["image_url"]) for url in batch["image_url"].to_pylist())
    return sum(file_name(url or "") in names_in_folder for url in urls)


def _names_in(folder: str, files: Sequence[Object]) -> set[str]:
    return {o.uri.removeprefix(folder).lstrip("/") for o in files}


def check_names(folder: str, files: Sequence[Object], records: TableSource) -> None:
    """Check that the folder contains at least one of the records' pictures.

    Raises:
        InputError: it contains none; the message has the first name that was looked for.
    """
    names_in_folder = _names_in(folder, files)
    looked_for = ""
    for batch in records.batches(["image_url"]):
        names = [file_name(url or "") for url in batch["image_url"].to_pylist()]
        if any(name in names_in_folder for name in names):
            return
        looked_for = looked_for or next(filter(None, names), "")
    if looked_for:
        why = (
            f"none of the records' pictures is among its {quantity(len(files), 'file')}; a picture's name is "
            f"the last part of its image_url, for example {looked_for!r}"
        )
        raise InputError(why, key="source.path", value=folder)


def _begun_or_new(cfg: FetchConfig, folder: str, files: Sequence[Object], unit_rows: int) -> Sequence[Unit]:
    """Return the units of the files; those of the table at `out=` if only excluded pictures came or went since.

    A withdrawn picture is deleted from the folder, and `purge` removes it from the units of the table. Without it, all
    later files would be in other units.
    """
    units = list(folder_units(files, unit_rows))
    begun = [] if cfg.overwrite or not cfg.exclusions else list(run_files.begun_units(cfg.out))
    if not begun or units == begun:
        return units
    excluded = ExclusionFilter(read_exclusions(cfg.exclusions).marks)

    def used(some: Iterable[Object]) -> set[Object]:
        return {file for file in some if not excluded.hit(content_id(name_in(folder, file.uri)), file.uri)}

    return begun if used(files) == used(file for unit in begun for file in unit.inputs) else units


def folder_units(files: Sequence[Object], unit_rows: int) -> Iterator[Unit]:
    """Yield the files, sorted by path, in units of `unit_rows`."""
    for first in range(0, len(files), unit_rows):
        inputs = tuple(files[first : first + unit_rows])
        name = content_id(*(part for o in inputs for part in (o.uri, str(o.size), o.etag)))
        yield Unit(name, inputs, rows=len(inputs))


def requests_of_files(task: UnitTask, *, folder: str) -> pa.Table:
    """Return the inputs of `FolderFetcher` for a unit of files; an image_id is a hash of the path in the folder."""
    uris = [o.uri for o in task.unit.inputs]
    names = [name_in(folder, uri) for uri in uris]
    return _requests([content_id(name) for name in names], uris, [locations.filesystem(uri)[1] for uri in uris])


def requests_of_records(task: UnitTask, *, folder: str, repeated: str | None) -> pa.Table:
    """Return the inputs of `FolderFetcher` for a unit of records; a path is null if the folder lacks the file."""
    rows = read_records(task.unit, ["image_id", "image_url"], repeated)
    names = [file_name(url or "") for url in rows["image_url"].to_pylist()]
    fs, base = locations.filesystem(folder)
    paths = [f"{base}/{name}" for name in names]
    infos = fs.get_file_info(paths)
    existing = [
        path if name != "" and info.is_file else None for path, name, info in zip(paths, names, infos, strict=True)
    ]
    return _requests(rows["image_id"].to_pylist(), rows["image_url"].to_pylist(), existing)


def places_of_records(task: UnitTask, *, places: str, repeated: str | None) -> pa.Table:
    """Return the inputs of the fetcher from wit_base for a unit of records (`wit_base.places_of`)."""
    return wit_base.places_of(read_records(task.unit, ["image_id", "image_url"], repeated), places)


def file_name(url: str) -> str:
    """Return the last part of a URL's path, percent-decoded; empty if missing or if it would leave the folder."""
    name = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
    return "" if "/" in name or name in (".", "..") else name


def filesystem_opener(folder: str) -> "partial[pafs.FileSystem]":
    """Return a picklable function without arguments that returns the file system of `folder`."""
    return partial(_filesystem, folder)


def _filesystem(folder: str) -> pafs.FileSystem:
    return locations.filesystem(folder)[0]


def _requests(ids: Sequence[str], urls: Sequence[str], paths: Sequence[str | None]) -> pa.Table:
    return pa.table([pa.array(values, pa.string()) for values in (ids, urls, paths)], schema=FolderFetcher.INPUTS)


def wit_base_plan(cfg: FetchConfig) -> SourcePlan:
    """Return the records' units, streamed through `ParquetPictures`.

    Raises:
        InputError: a key is missing or does not apply, or the files are not those of wit_base.
    """
    path, uri = required_path(cfg), required_input(cfg)
    if cfg.width is not None:
        why = "source=wit_base has pictures of width 300 and does not resize them"
        raise InputError(why, key="width", value=cfg.width, remedy="leave width= out")
    folder = locations.absolute(path)
    files = wit_base.find_files(folder)
    records = open_records(uri, cfg.unit_rows, begun_cuts(cfg.out, overwrite=cfg.overwrite))
    return SourcePlan(
        units=records.units,
        identity={"path": folder, "unit_rows": records.unit_rows},
        note=f"{quantity(len(files), 'file')} of wit_base; {records.note}",
        streamed=True,
        fetch=partial(_fetch_wit_base, cfg, files, records),
        records=records.table,
    )


def _fetch_wit_base(
    cfg: FetchConfig,
    files: Sequence[Object],
    records: RecordsInput,
    run: TableRun,
    excluded: str | None,
) -> None:
    from jobs.runtime import stages

    urls = pa.array([], pa.string())
    if run.todo:
        chunks = [chunk for rows in records.table.batches(["image_url"]) for chunk in rows["image_url"].chunks]
        urls = pa.chunked_array(chunks, pa.string()).unique()
    places = run.keep(wit_base.PLACES_FILE, wit_base.pack_places(wit_base.picture_places(files, urls)))
    rows = partial(places_of_records, places=places, repeated=records.keep_repeats(run))
    kwargs = {
        "open_filesystem": filesystem_opener(locations.absolute(required_path(cfg))),
        "max_bytes": cfg.source.max_bytes,
        "column": wit_base.PICTURE,
        "rendition": wit_base.RENDITION,
    }
    read = stages.Read(rows, item="image_id", output_item="image_id", excluded=excluded)
    chain = [stages.Stage("fetch", ParquetPictures, kwargs)]
    stages.stream(run, name="fetch", read=read, stages=chain, resources=cfg.resources)


def shard_plan(cfg: FetchConfig) -> SourcePlan:
    """Return one unit per tar shard or row group, fetched by `jobs.workers.fetch_shards`.

    Raises:
        InputError: a key is missing or does not apply, or there is no file of that kind.
    """
    source = cfg.source
    path = locations.absolute(required_path(cfg))
    if cfg.input is not None:
        raise InputError(f"source={source.name} reads all pictures of the files; leave input= out", key="input")
    units = tar_units(path) if source.name == "webdataset" else parquet_units(source, path)
    return SourcePlan(
        units=units,
        identity={"path": path, "bytes_column": source.bytes_column, "key_column": source.key_column},
        note=quantity(len({unit.inputs[0].uri for unit in units}), "file"),
        streamed=False,
        fetch=partial(_fetch_shards, cfg, path),
    )


def _fetch_shards(cfg: FetchConfig, path: str, run: TableRun, excluded: str | None) -> None:
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
        why = "contains no .tar or .tgz file"
        raise InputError(why, key="source.path", value=path, remedy="set it to a shard, a folder or a glob")
    return [unit_of_file(file) for file in files]


def parquet_units(source: SourceConfig, path: str) -> list[Unit]:
    """Return one unit per row group.

    Raises:
        InputError: there is no Parquet file, or a file has no column of bytes; the message lists its columns.
    """
    files = [o for o in locations.find(path) if o.uri.endswith((".parquet", ".parq"))]
    if not files:
        why = "contains no .parquet file"
        raise InputError(why, key="source.path", value=path, remedy="set it to a file, a folder or a glob")
    return [unit for file in files for unit in _row_groups(source, file)]


def _row_groups(source: SourceConfig, file: Object) -> Iterator[Unit]:
    with opened_parquet(file.uri) as parquet:
        meta = parquet.metadata
    schema = meta.schema.to_arrow_schema()
    fetch_shards.bytes_column(schema, source.bytes_column, file.uri)
    if source.key_column is not None and source.key_column not in schema.names:
        columns = ", ".join(schema.names)
        why = f"not a column of {file.uri}; its columns are {columns}"
        raise InputError(why, key="source.key_column", value=source.key_column)
    for group in range(meta.num_row_groups):
        yield unit_of_file(file, piece=f"row group {group}", rows=meta.row_group(group).num_rows)


_HOST = re.compile(r"(\*|(\*\.)?[\w-]+(\.[\w-]+)*|\d+(\.\d+){3})(:\d{1,5})?")
_RESOLVE = re.compile(r"([\w.-]+):([\d.]+|\[[\da-f:]+\]):(\d{1,5})")


def url_plan(cfg: FetchConfig) -> SourcePlan:
    """Return the records' units, fetched by `jobs.workers.fetch_urls`.

    Raises:
        InputError: a key is missing or out of range, or the table of records cannot be read.
    """
    uri = required_input(cfg)
    settings = fetcher_settings(cfg)
    records = open_records(uri, cfg.unit_rows, begun_cuts(cfg.out, overwrite=cfg.overwrite))
    return SourcePlan(
        units=records.units,
        # Rate limits and allow-lists do not affect content: retry=[blocked] may follow a longer list.
        identity={
            "form": cfg.source.form,
            "verify_only": cfg.verify_only,
            "credits": cfg.source.credits,
            "unit_rows": records.unit_rows,
        },
        note=records.note,
        streamed=False,
        fetch=partial(_fetch, cfg, settings, records),
        records=records.table,
    )


def _fetch(
    cfg: FetchConfig, settings: UrlFetcherSettings, records: RecordsInput, run: TableRun, excluded: str | None
) -> None:
    from jobs.runtime import stages
    from jobs.workers import cluster_limiter

    cluster_limiter.start()
    kwargs = {
        "settings": settings,
        "run_files": fetch_urls.RunFiles(run.target.out, excluded, records.keep_repeats(run)),
        "threads": cfg.resources.fetch.threads,
        "ca_file": cfg.source.ca_file,
    }
    stage = stages.Stage("fetch", fetch_urls.FetchUnit, kwargs)
    total = None if cfg.retry else sum(task.unit.rows or 0 for task in run.todo)
    stages.process(run, name="fetch", stage=stage, resources=cfg.resources, total=total, counted="pictures")


def fetcher_settings(cfg: FetchConfig) -> UrlFetcherSettings:
    """Return the fetcher's settings in the configuration.

    Raises:
        InputError: a key is missing or out of range; the message has the key.
    """
    source = cfg.source
    agent = _agent(source.contact)
    _check_hosts(source.allow_hosts)
    if cfg.width is not None and source.form == "served":
        try:
            wikimedia.served_width(cfg.width)
        except ValueError as error:
            raise as_input_error(error) from error
    if source.ca_file is not None:
        try:
            tls_context(source.ca_file)
        except OSError as error:
            why = "not a readable PEM file of certificates"
            raise InputError(why, key="source.ca_file", value=source.ca_file) from error
    rules = Rules(tuple(source.allow_hosts), frozenset(source.testing.allow_addresses), _resolved(source.testing))
    try:
        bounds = Bounds(source.max_bytes, source.connect_s, source.read_s, source.total_s)
    except ValueError as error:
        raise InputError(f"source.{error}") from error
    return UrlFetcherSettings(
        **vars(RequestSettings.part_of(source)),
        agent=agent,
        rules=rules,
        width=cfg.width,
        verify_only=cfg.verify_only,
        bounds=bounds,
    )


def _agent(contact: str | None) -> str:
    if not contact:
        why = (
            "required: an e-mail address or web page at which the operators of the hosts can reach you, for "
            "example source.contact=ada@uni-somewhere.edu"
        )
        raise InputError(why, key="source.contact", value="")
    try:
        return user_agent(contact)
    except ValueError as error:
        why = f"{error}; use an address at which the operators of the hosts can reach you"
        raise InputError(why, key="source.contact", value=contact) from error


def _check_hosts(hosts: list[str]) -> None:
    if not hosts:
        why = "at least one host is required, for example [upload.wikimedia.org]"
        raise InputError(why, key="source.allow_hosts", value="[]")
    if invalid := [host for host in hosts if not _HOST.fullmatch(host)]:
        raise InputError(
            f"{invalid[0]!r} must be a host name, *.name or *, each optionally with :port", key="source.allow_hosts"
        )


def _resolved(testing: TestingConfig) -> tuple[tuple[str, str, int], ...]:
    matches = [_RESOLVE.fullmatch(text) for text in testing.resolve]
    if None in matches:
        raise InputError("must be a list of name:address:port; set it in tests only", key="source.testing.resolve")
    return tuple((match[1], match[2].strip("[]"), int(match[3])) for match in matches if match)
