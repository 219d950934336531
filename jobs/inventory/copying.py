"""Copies of tables between folders and object storage."""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.files.threads import in_threads
from jobs.store.run_files import FOLDER, IDENTITY, MANIFEST, UNITS
from jobs.store.runs import lease, place

THREADS = 8
_CHUNK = 8 << 20


@dataclass(frozen=True)
class CopyPlan:
    """The files of a copy.

    Attributes:
        out: the folder or prefix to copy to.
        files: each source with the uri of its target, in the order of copying.
        present: the files that the target already has.
    """

    out: str
    files: list[tuple[Object, str]]
    present: int


def plan_copy(source: str, out: str) -> CopyPlan:
    """List the files below `source` that `out` lacks.

    Identities come first, so that an interrupted copy leaves incomplete tables rather than unknown files; manifests,
    which mark a table as complete, come last.

    Raises:
        InputError: there is nothing to copy, one place is inside the other, `out` cannot be created, or a file of `out`
            differs from its source.
    """
    source, out = locations.absolute(source), locations.absolute(out)
    if f"{out}/".startswith(f"{source}/") or f"{source}/".startswith(f"{out}/"):
        raise InputError(f"out={out}: must not be input={source}, inside it, or contain it")
    listed = [file for file in locations.listing(source) if not _is_passing(file.uri)]
    if not listed:
        raise InputError(f"input={source}: nothing to copy; name a table, or a folder with tables")
    place.check_creatable(out)
    existing_files = {file.uri: file for file in locations.listing(out)}
    missing, present = [], 0
    for file in sorted(listed, key=_order):
        target = out + file.uri.removeprefix(source)
        if (other := existing_files.get(target)) is None:
            missing.append((file, target))
        elif other.size == file.size and _digest(other.uri) == _digest(file.uri):
            present += 1
        else:
            raise InputError(f"out={out}: {target} exists with other content; remove it or use another out=")
    return CopyPlan(out, missing, present)


def copy_files(plan: CopyPlan) -> None:
    """Copy the files of `plan`: identities, then all others in threads, then manifests."""
    for stage in (0, 1, 2):
        pairs = [(source.uri, target) for source, target in plan.files if _order(source)[0] == stage]
        for _ in in_threads(_copy, pairs, THREADS):
            pass


def _is_passing(uri: str) -> bool:
    """Return whether the file belongs to a process that is writing the table: a copy of it would block other runs."""
    return place.is_temporary(uri) or uri.endswith(f"/{FOLDER}/{lease.NAME}")


def _order(file: Object) -> tuple[int, str]:
    folder, _, name = file.uri.rpartition("/")
    in_run = folder.endswith(f"/{FOLDER}")
    return (0 if in_run and name == IDENTITY else 2 if in_run and name in (MANIFEST, UNITS) else 1, file.uri)


def _copy(pair: tuple[str, str]) -> None:
    source, target = pair
    locations.replace(target, _chunks(source))
    if not (locations.is_s3(source) or locations.is_s3(target)):  # units identify local inputs by size and time
        times = Path(source).stat()
        os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


def _digest(uri: str) -> bytes:
    digest = hashlib.sha256()
    for chunk in _chunks(uri):
        digest.update(chunk)
    return digest.digest()


def _chunks(uri: str) -> Iterator[bytes]:
    fs, path = locations.filesystem(uri)
    with fs.open_input_stream(path, compression=None) as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
