"""Copies of tables between folders and object storage, each file compared with its source after it was written."""

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from actors.quantities import quantity
from jobs.errors import InputError, at
from jobs.inventory.found import files_by_table
from jobs.store import run_files
from jobs.store.files import locations, whole
from jobs.store.files.objects import Object
from jobs.store.files.threads import in_threads
from jobs.store.footers import data_objects, read_footer
from jobs.store.run_files import FOLDER, IDENTITY, INPUTS, MANIFEST, UNITS, run_uri
from jobs.store.runs import lock, place
from jobs.store.table_faults import content_faults

THREADS = 8
ATTEMPTS = 3  # of a file whose copy differs from its source
FEW_BYTES = 8  # of a file of `_run`: as many as differ by damage; a job that writes one again changes more


@dataclass(frozen=True)
class CopyPlan:
    """The files of a copy.

    Attributes:
        out: the folder or prefix to copy to.
        files: each source with the uri of its target, in the order of copying.
        present: the files that the target already has.
        damaged: the targets among `files` that are damaged copies of their sources.
        incomplete: a sentence for each table that is being written or was interrupted.
    """

    out: str
    files: list[tuple[Object, str]]
    present: int
    damaged: list[str] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)


@dataclass
class Copied:
    """Files and bytes that were written, and the files that another process removed before they were copied."""

    files: int = 0
    bytes: int = 0
    gone: int = 0


def plan_copy(source: str, out: str) -> CopyPlan:
    """List the files below `source` that `out` lacks or has damaged.

    Identities come first, so that an interrupted copy leaves incomplete tables rather than unknown files; manifests,
    which mark a table as complete, come last.

    Raises:
        InputError: there is nothing to copy, one place is inside the other, `out` cannot be created, or a file of `out`
            differs from its source without being a damaged copy of it.
    """
    source, out = locations.absolute(source), locations.absolute(out)
    if f"{out}/".startswith(f"{source}/") or f"{source}/".startswith(f"{out}/"):
        raise InputError(f"must not be input={source}, inside it, or contain it", key="out", value=out)
    listed = [file for file in locations.listing(source) if not _is_left_out(file.uri)]
    if not listed:
        raise InputError("nothing to copy", key="input", value=source, remedy="name a table, or a folder with tables")
    place.check_creatable(out)
    existing_files = {file.uri: file for file in locations.listing(out)}
    missing, damaged, present = [], [], 0
    for file in sorted(listed, key=_order):
        target = out + file.uri.removeprefix(source)
        other = existing_files.get(target)
        if other is not None and _is_equal(file, other):
            present += 1
            continue
        if other is not None:
            if not _is_damaged_copy(file, other):
                why = f"{target} exists with other content; remove it if it is a damaged copy, or use another out="
                raise InputError(why, key="out", value=out)
            damaged.append(target)
        missing.append((file, target))
    return CopyPlan(out, missing, present, damaged, _incomplete(listed))


def copy_files(plan: CopyPlan) -> Copied:
    """Copy the files of `plan`: identities, then all others in threads, then manifests.

    Raises:
        OSError: a copy differs from its source after `ATTEMPTS`.
    """
    copied = Copied()
    for stage in (0, 1, 2):
        pairs = [(source.uri, target) for source, target in plan.files if _order(source)[0] == stage]
        for size in in_threads(_copy, pairs, THREADS):
            copied.gone += size is None
            copied.files += size is not None
            copied.bytes += size or 0
    return copied


def _is_left_out(uri: str) -> bool:
    """Return whether the file is damaged and set aside, or of a process that writes: a copy would block other runs."""
    return place.is_temporary(uri) or place.is_set_aside(uri) or uri.endswith(f"/{FOLDER}/{lock.LEASE}")


def _order(file: Object) -> tuple[int, str]:
    folder, _, name = file.uri.rpartition("/")
    in_run = folder.endswith(f"/{FOLDER}")
    return (0 if in_run and name == IDENTITY else 2 if in_run and name in (MANIFEST, UNITS) else 1, file.uri)


def _incomplete(listed: Sequence[Object]) -> list[str]:
    """Return a sentence for each table among the files that lacks units, or is being written."""
    sentences = []
    for uri, files in files_by_table(listed).items():
        is_written, planned = lock.is_held(uri), 0
        written = sum(1 for _ in data_objects(uri, files))
        with suppress(FileNotFoundError, InputError):  # lost or damaged, which `verify` reports
            planned = sum(1 for _ in run_files.read_inputs(run_uri(uri, INPUTS)))
        if is_written or written < planned or not any(file.uri == run_uri(uri, MANIFEST) for file in files):
            state = "is being written" if is_written else "is not complete"
            of_units = f"{written:,} of {quantity(planned, 'unit')}"
            sentences.append(f"{uri} {state} ({of_units}): copy it again once its command has ended")
    return sentences


def _copy(pair: tuple[str, str]) -> int | None:
    """Copy a file until the copy equals it, and return its size; None if it no longer exists."""
    source, target = pair
    try:
        for _ in range(ATTEMPTS):
            with locations.local_copy(source) as path:
                locations.publish(path, target)
                size, digest = path.stat().st_size, _digest(str(path))
                if not (locations.is_s3(source) or locations.is_s3(target)):  # units identify local inputs by time too
                    times = path.stat()
                    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
            if _has(target, digest):
                return size
    except FileNotFoundError:
        if locations.exists(source):
            raise
        return None
    raise OSError(
        f"{target}: differs from {source} after {ATTEMPTS} attempts; check the store, the disk and the network"
    )


def _has(uri: str, digest: str) -> bool:
    """Return whether the file or object has this MD5 sum."""
    return (locations.is_s3(uri) and whole.etag_of(uri) == digest) or _digest(uri) == digest


def _is_equal(file: Object, other: Object) -> bool:
    """Return whether two files have the same content. An ETag that is an MD5 sum saves reading an object."""
    if file.size != other.size:
        return False
    local, remote = (file, other) if locations.is_s3(other.uri) else (other, file)
    return (digest := _digest(local.uri)) == remote.etag or digest == _digest(remote.uri)


def _digest(uri: str) -> str:
    """Return the MD5 sum of a file or object."""
    with at(uri):
        if locations.is_s3(uri):
            return whole.digest(uri)
        with Path(uri).open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _is_damaged_copy(source: Object, target: Object) -> bool:
    """Return whether the target is a damaged copy of the source rather than another file of its name.

    It is if its time is still that of its source; if it is Parquet that cannot be read, or of the same generation of
    the same unit; or if it is a run file that cannot be read, or that differs in `FEW_BYTES`.
    """
    if not (locations.is_s3(source.uri) or locations.is_s3(target.uri)):
        times = [Path(file.uri).stat().st_mtime_ns for file in (source, target)]
        if times[0] == times[1]:
            return True
    if source.uri.endswith(".parquet"):
        return _is_damaged_unit(source, target)
    if source.uri.rsplit("/", 2)[-2] != FOLDER or not source.uri.endswith((".json", ".jsonl")):
        return False
    before, after = locations.read_bytes(source.uri), locations.read_bytes(target.uri)
    differing = sum(one != other for one, other in zip(before, after, strict=False))
    return not _is_json(after) or (len(before) == len(after) and differing <= FEW_BYTES)


def _is_damaged_unit(source: Object, target: Object) -> bool:
    """Return whether the target cannot be read, although the source can, or was written by the same task."""
    footers = [read_footer(file) for file in (source, target)]
    if footers[0] is None or footers[1] is None:
        return footers[0] is not None
    records = [footer.record for footer in footers if footer is not None]
    written = [(record["unit"]["name"], record["generation"], record["begun"]) for record in records if record]
    if len(written) == len(footers):
        return written[0] == written[1]
    return not content_faults(source.uri) and bool(content_faults(target.uri))


def _is_json(data: bytes) -> bool:
    """Return whether the data is one JSON value, or lines of JSON."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        try:
            lines = data.decode().splitlines()
            return bool(lines) and [json.loads(line) for line in lines] != []
        except (ValueError, RecursionError):
            return False
    return True
