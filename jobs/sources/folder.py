"""Pictures in a folder or below an `s3://` prefix: by themselves, or looked up for the records of a table."""

from collections.abc import Iterator, Sequence
from functools import partial
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from actors.ids import content_id
from jobs.errors import InputError
from jobs.sources import repeats
from jobs.store import locations
from jobs.store.locations import Object
from jobs.store.reading import TableSource, read_unit
from jobs.store.units import Unit
from jobs.store.writer import UnitTask


def files_of(folder: str) -> list[Object]:
    """The files below `folder` whose names do not begin with a dot, those that cannot be read among them."""
    return [o for o in locations.find(folder, strict=False) if not o.uri.rsplit("/", 1)[-1].startswith(".")]


def check_names(folder: str, files: Sequence[Object], records: TableSource) -> None:
    """Refuse a folder that has not one of the records' pictures: it is another one, or its names are of another kind.

    Raises:
        InputError: with the name that was looked for.
    """
    there = {o.uri.removeprefix(folder).lstrip("/") for o in files}
    looked_for = ""
    for batch in records.batches(["image_url"]):
        names = [file_name(url or "") for url in batch["image_url"].to_pylist()]
        if any(name in there for name in names):
            return
        looked_for = looked_for or next(filter(None, names), "")
    if looked_for:
        raise InputError(
            f"source.path={folder}: none of the records' pictures is among its {len(files):,} files; looked for is the "
            f"last part of image_url, as {looked_for!r}"
        )


def folder_units(files: Sequence[Object], unit_rows: int) -> Iterator[Unit]:
    """The files, sorted by place, in units of `unit_rows`."""
    for first in range(0, len(files), unit_rows):
        inputs = tuple(files[first : first + unit_rows])
        name = content_id(*(part for o in inputs for part in (o.uri, str(o.size), o.etag)))
        yield Unit(name, inputs, rows=len(inputs))


def of_folder(task: UnitTask, *, folder: str) -> pa.Table:
    """What to read for a unit of files: image_id (hash of the path inside the folder), source_url, path."""
    uris = [o.uri for o in task.unit.inputs]
    inside = [uri.removeprefix(folder).lstrip("/") or uri.rsplit("/", 1)[-1] for uri in uris]
    paths: list[str | None] = [locations.filesystem(uri)[1] for uri in uris]
    return _asked([content_id(name) for name in inside], uris, paths)


def of_records(task: UnitTask, *, folder: str, repeated: str | None) -> pa.Table:
    """What to read for a unit of records: path is null where the folder has no file of that name."""
    rows = read_unit(task.unit.inputs[0].uri, columns=["image_id", "image_url"])
    rows = repeats.without(rows, repeated, task.unit.name)
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


def opener(folder: str) -> "partial[pafs.FileSystem]":
    """What opens the folder's file system where it is called."""
    return partial(_filesystem, folder)


def _filesystem(folder: str) -> pafs.FileSystem:
    return locations.filesystem(folder)[0]


def _asked(ids: list[str], urls: list[str], paths: list[str | None]) -> pa.Table:
    columns = {"image_id": ids, "source_url": urls, "path": paths}
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
