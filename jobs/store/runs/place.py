"""The place `out=` before a run: empty, a table of remine, or something else, which a run must not touch."""

import os
from collections.abc import Container, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.compact_list import CompactList
from jobs.store.files.objects import Object
from jobs.store.footers import data_objects, read_footers
from jobs.store.run_files import FOLDER, IDENTITY, INPUTS, run_uri
from jobs.store.units import Unit

ASIDE = "damaged."  # begins the names of files in `_run` that `verify repair=true` set aside


def check_creatable(place: str, *, key: str = "out") -> None:
    """Check that a local folder exists or can be created, without creating it.

    Args:
        place: a path or URI; one on S3 is not checked.
        key: the key of the configuration, for the message.

    Raises:
        InputError: there is a file in its place or in that of a folder above it, or writing there is not permitted.
    """
    if locations.is_s3(place):
        return
    path = Path(place)
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not existing.is_dir():
        raise InputError(f"{key}={place}: {existing} is a file, where a folder is needed; use another {key}=")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{key}={place}: {existing} cannot be written; check its permissions, or use another {key}=")


def inspect(out: str, units: Sequence[Unit]) -> tuple[CompactList[Object], bool]:
    """Return the files at `out`, and whether they are a table that remine wrote.

    Args:
        units: the units that a run would write there.

    Raises:
        InputError: the place has other files or the inputs of `units`, is inside another table, has a folder in a
            unit's place, or cannot be written.
    """
    inputs = (source.uri for unit in units for source in unit.inputs)
    if inside := next((uri for uri in inputs if uri.startswith(f"{out}/")), None):
        raise InputError(f"out={out}: contains the input {inside}; use another out=")
    check_creatable(out)
    if table := table_around(out):
        raise InputError(f"out={out}: inside table {table}, which it would corrupt; use another out=")
    listed = CompactList(file for file in locations.listing(out) if not is_temporary(file.uri))
    is_table = any(file.uri == run_uri(out, IDENTITY) for file in listed) or _lost_identity(out, listed)
    if listed and not is_table:
        raise InputError(f"out={out}: not empty, and not a table that remine wrote; use another out=")
    if folder := _folder_of_a_unit(out, units):
        raise InputError(
            "a folder has the name of a unit's file; remove or rename it, or use another out=", place=folder
        )
    return listed, is_table


def _lost_identity(out: str, listed: Sequence[Object]) -> bool:
    """Return whether the files are a table of remine without its `identity.json`.

    They are if they include the list of inputs, and data objects all of which remine wrote.
    """
    if not any(file.uri == run_uri(out, INPUTS) for file in listed):
        return False
    footers = [f for f in read_footers(data_objects(out, listed), remote=locations.is_s3(out)) if f is not None]
    return bool(footers) and all(footer.written for footer in footers)


def is_written_by_run(out: str, uri: str) -> bool:
    """Return whether `uri` has a name that a run of the table at `out` writes."""
    first, _, rest = uri.removeprefix(out).lstrip("/").partition("/")
    return first in (FOLDER, "_rejects") if rest else first.endswith(".parquet")


def is_temporary(uri: str) -> bool:
    """Return whether `uri` has the name of a temporary file, which a killed run may leave."""
    name = uri.rsplit("/", 1)[-1]
    return name.startswith(".") and name.endswith(".tmp")


def is_set_aside(uri: str) -> bool:
    """Return whether `uri` has the name of a damaged file that a repair set aside."""
    *_, folder, name = ["", *uri.rsplit("/", 2)]
    return folder == FOLDER and name.startswith(ASIDE)


def name_aside(out: str, uri: str, taken: Container[str]) -> str:
    """Return the place for a damaged file of the table at `out` that is set aside, other than those in `taken`."""
    name = uri.removeprefix(out).strip("/").replace("/", ".")
    numbers = chain([""], (f"{number}." for number in count(1)))
    places = (run_uri(out, f"{ASIDE}{number}{name}") for number in numbers)
    return next(place for place in places if place not in taken)


def remove_temporary(out: str, *, before: float) -> None:
    """Remove local temporary files last changed before the Unix time `before`; an upload to S3 leaves none."""
    if not locations.is_s3(out):
        for path in _temporary_below(out):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)


def _temporary_below(folder: str) -> Iterator[Path]:
    """Yield the temporary files below `folder`; unlike rglob it does not hold a list of all files."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _temporary_below(entry.path)
            elif is_temporary(entry.name):
                yield Path(entry.path)


def _folder_of_a_unit(out: str, units: Sequence[Unit]) -> str | None:
    """Return a local folder that has the name of a unit's file; listings have only files."""
    if locations.is_s3(out) or not Path(out).is_dir():
        return None
    with os.scandir(out) as entries:
        folders = {entry.name for entry in entries if entry.name.endswith(".parquet") and entry.is_dir()}
    names = (f"{unit.name}.parquet" for unit in units) if folders else ()
    return next((locations.join(out, name) for name in names if name in folders), None)


def table_around(out: str) -> str | None:
    """Return the table in whose folder `out` is, unless it is below one of the table's own folders (`_partial`)."""
    root = out.find("/", len("s3://")) if locations.is_s3(out) else 0
    outer = out
    while (cut := outer.rfind("/")) > max(root, 0):
        outer, name = outer[:cut], outer[cut + 1 :]
        if name.startswith("_"):
            return None
        if locations.exists(run_uri(outer, IDENTITY)):
            return outer
    return None
