"""The place `out=` before a run: empty, a table of remine, or something else, which a run must not touch.

A run claims a place: its identity and the list of its units are written once, and a place with another identity or
other units is refused.
"""

import json
import logging
import os
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

from actors.quantities import quantity
from jobs.errors import InputError
from jobs.store import run_files
from jobs.store.counts import PURGED
from jobs.store.files import locations, s3
from jobs.store.files.objects import CompactList, HashSet, Object
from jobs.store.footers import data_objects, read_footers
from jobs.store.identity import EXCLUSIONS, RUN_KEYS, TABLE, describe_change, differing_keys, identity_hash
from jobs.store.run_files import CONFIG, FOLDER, IDENTITY, INPUTS, MANIFEST, run_uri
from jobs.store.runs import lock
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit

ASIDE = "damaged."  # begins the names of files in `_run` that `verify repair=true` set aside


_OF_FILES = (".csv", ".tsv", ".parquet", ".json", ".jsonl", ".xlsx", ".html", ".pdf")  # endings of no folder


class FrozenUnits(NamedTuple):
    """The plan's units in the order of a table's list of units, and whether that list has the same versions."""

    units: Sequence[Unit]
    is_current: bool


def check_creatable(place: str, *, key: str = "out") -> None:
    """Check that a local folder exists or can be created, without creating it.

    Args:
        place: a path or URI; one on S3 is not checked.
        key: the key of the configuration, for the message.

    Raises:
        InputError: there is a file in its place or in that of a folder above it, writing there is not permitted, or a
            new folder would have the name of a file.
    """
    if locations.is_s3(place):
        return
    path = Path(place)
    if path.suffix.lower() in _OF_FILES and not path.exists():
        remedy = f"name the folder, as in {key}={path.stem}"
        raise InputError("a folder is written there, not a file", key=key, value=place, remedy=remedy)
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not existing.is_dir():
        raise InputError(f"{existing} is a file, where a folder is needed; use another {key}=", key=key, value=place)
    if not os.access(existing, os.W_OK | os.X_OK):
        why = f"{existing} cannot be written; check its permissions, or use another {key}="
        raise InputError(why, key=key, value=place)


class Place(NamedTuple):
    """What is at `out=` before a run.

    Attributes:
        out: the absolute path or uri.
        listed: the files there, without temporary ones.
        is_table: whether they are a table that remine wrote, which the run continues or, with overwrite=true, deletes.
        frozen: the units of the plan, compared with the table's list; None without a list, or with overwrite=true.
        locked: whether `inspect` has locked the table.
    """

    out: str
    listed: CompactList[Object]
    is_table: bool
    frozen: FrozenUnits | None
    locked: bool

    def has(self, name: str) -> bool:
        """Return whether the table has the run file `name`."""
        return _has(self.out, self.listed, name)


def inspect(plan: TablePlan, *, resume: bool, overwrite: bool, locks: bool) -> Place:
    """Return what is at the plan's place; writes nothing there but the lock.

    Args:
        resume: an existing table may be continued.
        overwrite: an existing table will be deleted, and may have another identity and other units.
        locks: lock an existing table before its files are listed, so that no other process changes them.

    Raises:
        InputError: the place has other files or the inputs of the plan's units, is inside another table, has a folder
            in a unit's place, or cannot be written; it has a table with another identity (names the key that differs)
            or whose inputs have changed; or, with `locks`, another process is writing it.
    """
    out = locations.absolute(plan.out)
    inputs = (source.uri for unit in plan.units for source in unit.inputs)
    if inside := next((uri for uri in inputs if uri.startswith(f"{out}/")), None):
        relation = "is the table" if "/" not in inside.removeprefix(f"{out}/") else f"contains the input {inside}"
        raise InputError(f"{relation} that this job reads", key="out", value=out, remedy="use another out=")
    check_creatable(out)
    if table := table_around(out):
        raise InputError(f"inside table {table}, which it would corrupt; use another out=", key="out", value=out)
    with locations.named_errors(out):
        locked = locks and lock.acquire(out)
    try:
        listed, is_table = _listed_table(out, plan.units)
        if is_table and not (resume or overwrite):
            raise InputError("a table exists and resume=false; use resume=true or overwrite=true", key="out", value=out)
        frozen = None
        if is_table and not overwrite:
            check_identity(out, plan)
            frozen = read_frozen(out, plan) if _has(out, listed, INPUTS) else None
    except BaseException:
        if locked:
            lock.release(out)
        raise
    return Place(out, listed, is_table, frozen, locked)


def _has(out: str, listed: Iterable[Object], name: str) -> bool:
    uri = run_uri(out, name)
    return any(file.uri == uri for file in listed)


def _listed_table(out: str, units: Sequence[Unit]) -> tuple[CompactList[Object], bool]:
    """Return the files at `out`, and whether they are a table. Raises as `inspect`."""
    listed = CompactList(file for file in locations.listing(out) if not is_temporary(file.uri))
    is_table = _has(out, listed, IDENTITY) or _lost_identity(out, listed)
    if listed and not is_table:
        raise InputError("not empty, and not a table that remine wrote; use another out=", key="out", value=out)
    if folder := _folder_of_a_unit(out, units):
        raise InputError(
            "a folder has the name of a unit's file; remove or rename it, or use another out=", place=folder
        )
    return listed, is_table


def _lost_identity(out: str, listed: Sequence[Object]) -> bool:
    """Return whether the files are a table of remine without its `identity.json`.

    They are if they include the list of inputs, and data objects all of which remine wrote.
    """
    if not _has(out, listed, INPUTS):
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


_warned: set[str] = set()  # buckets about which a warning was logged
log = logging.getLogger(__name__)


def claim(out: str, plan: TablePlan, listed: Iterable[Object]) -> None:
    """Write `identity.json` if it is not in `listed`, and refuse a place that another run claimed."""
    uri = run_uri(out, IDENTITY)
    with locations.named_errors(out):
        if not _has(out, listed, IDENTITY):
            if any(listed):
                _check_footers(out, plan)
            locations.create(uri, run_files.to_json({TABLE: plan.table, **plan.identity}))
            if not locations.creates_once(out):
                lock.settle()
                _check_footers(out, plan)  # in case the new file replaced the identity of a run
    # Read it back even if it was created: some stores ignore the condition, and then the last of several drivers wins.
    check_identity(out, plan)


def check_identity(out: str, plan: TablePlan) -> None:
    """Refuse a table that was written with another configuration."""
    planned = json.loads(run_files.to_json({TABLE: plan.table, **plan.identity}))
    with locations.named_errors(out):
        try:
            written = run_files.read_json(run_uri(out, IDENTITY))
        except FileNotFoundError:  # the file was lost, but the footers have its hash
            _check_footers(out, plan)
            return
    differing = differing_keys(written, planned)
    if TABLE in differing:
        why = f"a table {written.get(TABLE)!r} exists, and this job writes {plan.table!r}"
        raise InputError(why, key="out", value=out, remedy="use another out=")
    if differing == [EXCLUSIONS]:
        why = (
            "written with another configuration: exclusions= names another list of pictures than that of "
            "this table; use its list, or first apply a longer one to the existing tables: remine purge "
            "input=TABLE_OR_FOLDER exclusions=FILE"
        )
        raise InputError(why, key="out", value=out)
    if differing:
        change = describe_change(
            written,
            planned,
            written_config=_written_config(out),
            planned_config=json.loads(run_files.to_json(plan.config)),
        )
        why = f"written with another configuration: {change}"
        raise InputError(why, key="out", value=out, remedy="use another out= or overwrite=true")


def _written_config(out: str) -> dict[str, Any] | None:
    """Return the configuration of the command that began the table at `out`; None if it was lost."""
    try:
        config: dict[str, Any] = run_files.read_json(run_uri(out, CONFIG))
    except (FileNotFoundError, InputError):
        return None
    return config


def _check_footers(out: str, plan: TablePlan) -> None:
    """Refuse a table without `identity.json` whose data objects were written with another configuration."""
    objects = data_objects(out, locations.listing(out))
    footers = read_footers(objects, remote=locations.is_s3(out))
    identities = {record["identity"] for footer in footers if footer is not None and (record := footer.record)}
    if identities - {identity_hash(plan.identity)}:
        why = (
            f"_run/{IDENTITY} is missing, and the units were written with another configuration; run the "
            "command that wrote the table, or use another out= or overwrite=true"
        )
        raise InputError(why, key="out", value=out)


def warn_of_store(out: str) -> None:
    """Warn, once per bucket, about a store on which two runs of different configurations could claim the same table.

    Raises:
        InputError: nothing can be written at `out`.
    """
    with locations.named_errors(out):
        creates_once = locations.creates_once(out)
    if not creates_once and (bucket := s3.bucket_of(out)) not in _warned:
        _warned.add(bucket)
        log.warning(
            "out=%s: the store ignores conditional writes (If-None-Match), which let only one of several runs claim a "
            "table; start only one run per table",
            out,
        )


def purged_table(plan: TablePlan, keys: Collection[str]) -> dict[str, Any] | None:
    """Return the manifest of a whole table that was purged and differs from the plan in nothing else; None without one.

    Args:
        keys: of the identity, which change with the rows that purge removed from the input.
    """
    try:
        written, manifest = (run_files.read_json(run_uri(plan.out, name)) for name in (IDENTITY, MANIFEST))
    except FileNotFoundError:
        return None
    planned = json.loads(run_files.to_json({TABLE: plan.table, **plan.identity}))
    config = json.loads(run_files.to_json(plan.config))
    changed = {name.split(".")[0] for name in differing_keys(manifest["config"], config)} - set(RUN_KEYS)
    is_whole = manifest.get("complete") and PURGED in manifest["counts"]["filtered"]
    differing = {name.split(".")[0] for name in differing_keys(written, planned)}
    return manifest if is_whole and not changed and differing and differing <= set(keys) else None


def freeze(out: str, plan: TablePlan, frozen: FrozenUnits | None) -> Sequence[Unit]:
    """Write the list of units, unless it exists, and return the plan's units in its order.

    Args:
        frozen: what `read_frozen` returned; None if there was no list.
    """
    uri = run_uri(out, INPUTS)
    if frozen is None:
        locations.create(uri, run_files.to_lines(plan.units, Unit.to_json))
        frozen = read_frozen(out, plan)
    if plan.derived and not frozen.is_current:
        locations.replace(uri, run_files.to_lines(frozen.units, Unit.to_json))
    return frozen.units


def read_frozen(out: str, plan: TablePlan) -> FrozenUnits:
    """Compare the plan's units with the list of the table at `out`; raise InputError if the plan has other units.

    A trial may have additional units after them: after a purge, the earlier units have fewer than the first n rows.
    """
    frozen = CompactList(run_files.read_inputs(run_uri(out, INPUTS)))
    units = _in_order(out, plan, frozen)
    return FrozenUnits(units, _same(units, frozen, by=lambda unit: unit.version))


def _in_order(out: str, plan: TablePlan, frozen: Sequence[Unit]) -> Sequence[Unit]:
    if _same(plan.units, frozen, by=lambda unit: unit.name):
        return plan.units
    planned = {unit.name: unit for unit in plan.units}
    gone = [unit for unit in frozen if unit.name not in planned]
    names = {unit.name for unit in frozen}
    new = [name for name in planned if name not in names]
    if gone or (new and not (plan.derived and plan.limit is not None)):
        difference = _difference(gone, [planned[name] for name in new])
        why = f"the inputs changed since this run started: {difference}"
        raise InputError(why, key="out", value=out, remedy="use another out= or overwrite=true")
    return CompactList(planned[name] for name in [*(unit.name for unit in frozen), *new])


def _difference(gone: Sequence[Unit], new: Sequence[Unit]) -> str:
    """Return which inputs differ between units that a run does not have any more and those that it did not have.

    A unit may have many inputs, such as the pictures of a folder, most of which are in both.
    """
    before, now = ({file.uri: file.etag for unit in units for file in unit.inputs} for units in (gone, new))
    kinds = {
        "changed": sorted(uri for uri in before.keys() & now.keys() if before[uri] != now[uri]),
        "gone": sorted(before.keys() - now.keys()),
        "new": sorted(now.keys() - before.keys()),
    }
    counts = [f"{len(uris):,} {kind}" for kind, uris in kinds.items() if uris]
    if not counts:
        return f"{quantity(len(gone), 'unit')} gone, {len(new):,} new"
    kind, first = next((kind, uris[0]) for kind, uris in kinds.items() if uris)
    return f"{first} {'changed' if kind == 'changed' else f'is {kind}'} ({', '.join(counts)})"


def _same(one: Iterable[Unit], other: Iterable[Unit], *, by: Callable[[Unit], str]) -> bool:
    return HashSet(map(by, one)).same_as(HashSet(map(by, other)))
