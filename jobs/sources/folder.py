"""source=folder: pictures in a folder or under an `s3://` prefix, either all of them or those of the records."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from actors.folder_fetcher import FolderFetcher
from actors.ids import content_id
from actors.quantities import quantity
from jobs.corpora.picture_folder import list_files, name_in
from jobs.corpora.records import RecordsInput, open_records, read_records
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter, read_exclusions
from jobs.sources.config import FetchConfig, required_path
from jobs.sources.source_plan import SourcePlan
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.files.locations import Object
from jobs.store.pieces import begun_cuts
from jobs.store.reading import TableSource
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit
from jobs.store.writer import UnitTask

UNIT_FILES = 64  # a unit is one block in memory, and an original may have several MB


def plan(cfg: FetchConfig) -> SourcePlan:
    """Return the units of the folder's files, or of the records, streamed through `FolderFetcher`.

    Raises:
        InputError: there is no folder, or it contains none of the records' pictures.
    """
    path = required_path(cfg)
    if cfg.input and not locations.is_s3(path) and Path(path).expanduser().is_file():
        raise InputError(f"source.path={path}: is a file; with input=, name the folder of the records' pictures")
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
            fetch=partial(_fetch, cfg, folder, None),
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
        fetch=partial(_fetch, cfg, folder, records),
        records=records.table,
    )


def _fetch(cfg: FetchConfig, folder: str, records: RecordsInput | None, run: TableRun, excluded: str | None) -> None:
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
        raise InputError(
            f"source.path={folder}: none of the records' pictures is among its {quantity(len(files), 'file')}; a "
            f"picture's name is the last part of its image_url, for example {looked_for!r}"
        )


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
