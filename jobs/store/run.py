"""One run that writes one table: claim the place, freeze the inputs, find what is left, close the books."""

import io
import json
import os
import platform
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from actors.ids import content_id
from actors.status import STATUSES
from jobs.errors import InputError, RunError
from jobs.store import locations, lock
from jobs.store.compact_list import CompactList, HashSet
from jobs.store.identity import TABLE, identity_hash
from jobs.store.locations import Object
from jobs.store.reading import Footer, data_objects, read_footers, run_json, run_units
from jobs.store.units import UNIT_JSON, Unit, check_distinct
from jobs.store.writer import COUNTS_JSON, Counts, Target, UnitTask

INPUTS_JSON = {"units": [UNIT_JSON]}
MANIFEST_JSON = {
    "units": [{"name": str, "generation": int, "rows": int}],
    "counts": COUNTS_JSON,
    "complete": bool,
}
_ABSENT = object()
PACKAGES = "remine ray torch torchvision transformers open_clip_torch accelerate pyarrow s3fs pillow".split()


@dataclass(frozen=True)
class TablePlan:
    """What a job wants to write: the table, what its rows depend on, and the units to be done."""

    out: str
    table: str
    identity: dict[str, Any]  # JSON values; everything that changes the output and nothing else
    units: Sequence[Unit]
    config: dict[str, Any]
    metadata: dict[str, str]
    derived: bool  # units are a parent table's: a changed input is a new generation, not another corpus
    dim: int | None = None
    models: dict[str, str] | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)  # of _run/, stored once when the run is first opened


class TableRun:
    """A claimed place with a frozen list of units; `todo` is what is left to do."""

    def __init__(self, plan: TablePlan, units: Sequence[Unit], todo: CompactList[UnitTask], target: Target) -> None:
        self.plan, self.units, self.todo, self.target = plan, units, todo, target
        self.done_before = len(units) - len(todo)
        self._begun = time.time()
        self._unlock = weakref.finalize(self, lock.release, target.out)  # of a run that failed, once nobody has it

    def keep(self, name: str, data: bytes) -> str:
        """Store `data` beside the manifest, as what this run was started with; returns its uri."""
        uri = _run_uri(self.target.out, name)
        locations.replace(uri, data)
        return uri

    def finish(self) -> dict[str, Any]:
        """Derive the manifest from the footers, write it and return it.

        Raises:
            RunError: a unit is missing or the counts do not balance.
        """
        total, unit_seconds, missing = Counts(), 0.0, 0

        def told() -> Iterator[dict[str, Any]]:
            nonlocal total, unit_seconds, missing
            for unit, footer in _with_footers(self.target, self.units):
                record = footer.record if footer is not None else None
                missing += not _is_current(unit, record, self.target.identity)
                if footer is not None and record is not None:
                    total += Counts.from_json(record["counts"])
                    unit_seconds += record["seconds"]
                    yield _unit_told(footer, record)

        units = CompactList(told())
        manifest = {
            **_manifest(self.plan, self.target),
            "counts": total.to_json(),
            "seconds": round(time.time() - self._begun, 3),
            "unit_seconds": round(unit_seconds, 3),
            "complete": not missing,
        }
        locations.replace(_run_uri(self.target.out, "manifest.json"), _with_units(manifest, units))
        _sweep(self.target.out, before=self._begun)
        self._unlock()
        if missing:
            raise RunError(f"{self.target.out}: {missing} of {len(self.units)} units were not written")
        if not total.balances():
            raise RunError(f"{self.target.out}: the run does not balance: {total}")
        return {**manifest, "units": units}


def check_place(plan: TablePlan, *, resume: bool, overwrite: bool, retry: Sequence[str]) -> None:
    """Refuse what `open_run` would refuse, without writing anything.

    Raises:
        InputError: as `open_run`.
    """
    _check_retry(retry)
    out = locations.absolute(plan.out)
    check_distinct(plan.units)
    listed, ours = _look(out, plan)
    if not ours:
        return
    _check_resume(out, resume=resume, overwrite=overwrite)
    if lock.hold(out):
        lock.release(out)
    if not overwrite:
        _compare(out, plan)
        if any(o.uri == _run_uri(out, "inputs.json") for o in listed):
            _still(out, plan)


def open_run(plan: TablePlan, *, resume: bool, overwrite: bool, retry: Sequence[str]) -> TableRun:
    """Claim `plan.out` and work out what is left.

    Raises:
        InputError: the place holds something else, another identity (the key that differs is named), inputs
            that changed since they were frozen, or `retry` names no status.
    """
    _check_retry(retry)
    out = locations.absolute(plan.out)
    check_distinct(plan.units)
    target = _target(out, plan)
    listed, ours = _look(out, plan)
    if ours:
        _check_resume(out, resume=resume, overwrite=overwrite)
    locked = ours and lock.hold(out)
    try:
        if overwrite and ours:
            identity_uri = _run_uri(out, "identity.json")
            locations.remove([o.uri for o in listed if _is_own(out, o.uri) and o.uri != identity_uri])
            locations.remove([identity_uri])  # last: an interrupted overwrite is still ours
            ours = False
        _claim(out, plan, there=ours)
        locked = lock.hold(out) or locked
        units = _freeze(out, plan, there=ours and any(o.uri == _run_uri(out, "inputs.json") for o in listed))
        for name, data in plan.files.items():
            locations.create(_run_uri(out, name), data)
        found = _with_footers(target, units) if ours else ((unit, None) for unit in units)
        todo = CompactList(task for unit, footer in found if (task := _task(unit, footer, target, retry)))
    except BaseException:
        if locked:
            lock.release(out)
        raise
    return TableRun(plan, units, todo, target)


def _check_retry(retry: Sequence[str]) -> None:
    if unknown := [word for word in retry if word not in STATUSES]:
        raise InputError(f"retry={unknown[0]}: no such status; there are {', '.join(STATUSES)}")


def _check_resume(out: str, *, resume: bool, overwrite: bool) -> None:
    if not (resume or overwrite):
        raise InputError(f"{out}: a table is already here and resume=false; use resume=true or overwrite=true")


def _target(out: str, plan: TablePlan) -> Target:
    return Target(out, plan.table, plan.metadata, identity_hash(plan.identity), versions(), plan.dim)


def _look(out: str, plan: TablePlan) -> tuple[CompactList[Object], bool]:
    """What lies at `out`, and whether it is a table of ours.

    Raises:
        InputError: something else, or what the plan reads.
    """
    if inside := next((o.uri for u in plan.units for o in u.inputs if o.uri.startswith(f"{out}/")), None):
        raise InputError(f"{out}: this is where the input lies ({inside}); use another out=")
    if table := _table_around(out):
        raise InputError(f"{out}: lies inside the table {table}, which would be none any more; use another out=")
    listed = CompactList(o for o in locations.listing(out) if not _left_over(o.uri))
    ours = any(o.uri == _run_uri(out, "identity.json") for o in listed)
    if listed and not ours:
        raise InputError(f"{out}: not empty, and not a table of remine; nothing is written over it")
    if folder := _folder_of_a_unit(out, plan):
        raise InputError(f"{folder}: a folder has the name of a unit's file; remove or rename it, or use another out=")
    return listed, ours


def _folder_of_a_unit(out: str, plan: TablePlan) -> str | None:
    """A local folder where the plan would write a unit, if there is one; a listing shows only files."""
    if locations.is_s3(out) or not Path(out).is_dir():
        return None
    with os.scandir(out) as entries:
        folders = {entry.name for entry in entries if entry.name.endswith(".parquet") and entry.is_dir()}
    named = (f"{unit.name}.parquet" for unit in plan.units) if folders else ()
    return next((locations.join(out, name) for name in named if name in folders), None)


def _table_around(out: str) -> str | None:
    """The table in whose folder `out` lies, its own folders (`_partial`) apart."""
    bucket = out.find("/", len("s3://")) if locations.is_s3(out) else 0
    outer = out
    while (cut := outer.rfind("/")) > max(bucket, 0):
        outer, name = outer[:cut], outer[cut + 1 :]
        if name.startswith("_"):
            return None
        if locations.exists(_run_uri(outer, "identity.json")):
            return outer
    return None


def survey(plan: TablePlan, *, overwrite: bool = False) -> dict[str, int]:
    """How much of `plan` is there already, without writing anything: units, done, rows, bytes in.

    Raises:
        InputError: `open_run` would refuse the place.
    """
    out = locations.absolute(plan.out)
    listed, ours = _look(out, plan)
    ours = ours and not overwrite
    if ours:
        _compare(out, plan)
        if any(o.uri == _run_uri(out, "inputs.json") for o in listed):
            _still(out, plan)
    target = _target(out, plan)
    found = _with_footers(target, plan.units) if ours else ()
    done = sum(_is_current(unit, footer.record, target.identity) for unit, footer in found if footer is not None)
    sizes = {o.uri: o.size for u in plan.units for o in u.inputs}
    return {
        "units": len(plan.units),
        "done": done,
        "rows_in": sum(u.rows or 0 for u in plan.units),
        "bytes_in": sum(sizes.values()),
    }


def _is_current(unit: Unit, record: Mapping[str, Any] | None, identity: str) -> bool:
    """Whether the unit is done: from these inputs, with this configuration (another run may have written it over)."""
    if record is None or record["unit"]["name"] != unit.name:
        return False
    return (record["version"], record["identity"]) == (unit.version, identity)


def _is_own(out: str, uri: str) -> bool:
    """Whether a run writes things of this name: an object of the table, or something in its own folders."""
    first, _, rest = uri.removeprefix(out).lstrip("/").partition("/")
    return first in ("_run", "_rejects") if rest else first.endswith(".parquet")


def _left_over(uri: str) -> bool:
    """Whether this is what a killed run was writing; such a file makes no place foreign."""
    name = uri.rsplit("/", 1)[-1]
    return name.startswith(".") and name.endswith(".tmp")


def _task(unit: Unit, footer: Footer | None, target: Target, retry: Sequence[str]) -> UnitTask | None:
    record = footer.record if footer is not None else None
    if record is None:
        return UnitTask(unit)
    summary = {k: record[k] for k in ("generation", "version", "counts", "begun", "seconds")}
    retired = (*record["retired"], summary)
    following = record["generation"] + 1
    if not _is_current(unit, record, target.identity):
        return UnitTask(unit, following, retired)
    if any(record["counts"]["status"].get(word) for word in retry):
        return UnitTask(unit, following, retired, tuple(retry))
    return None


def _claim(out: str, plan: TablePlan, *, there: bool) -> None:
    with locations.named_errors(out):
        if not there:
            locations.create(_run_uri(out, "identity.json"), _json({TABLE: plan.table, **plan.identity}))
    # Read back even after a creation: some stores ignore its condition, and then the last of several drivers wins.
    _compare(out, plan)


def _compare(out: str, plan: TablePlan) -> None:
    """Refuse a table that was written with another configuration."""
    mine = json.loads(_json({TABLE: plan.table, **plan.identity}))
    with locations.named_errors(out):
        theirs = run_json(_run_uri(out, "identity.json"))
    flat_mine, flat_theirs = _flatten(mine), _flatten(theirs)
    differing = sorted(
        k for k in {*flat_mine, *flat_theirs} if flat_mine.get(k, _ABSENT) != flat_theirs.get(k, _ABSENT)
    )
    if differing:
        if TABLE in differing:
            raise InputError(
                f"{out}: a table {theirs.get(TABLE)!r} is there, this would be {plan.table!r}; use another out="
            )
        first = differing[0]
        there, here = (repr(flat[first]) if first in flat else "not set" for flat in (flat_theirs, flat_mine))
        raise InputError(
            f"{out}: written with another configuration: {first} is {there} there and {here} here "
            f"(differing: {', '.join(differing)}); use another out= or overwrite=true"
        )


def _freeze(out: str, plan: TablePlan, *, there: bool) -> Sequence[Unit]:
    uri = _run_uri(out, "inputs.json")
    if not there:
        locations.create(uri, _with_units({}, (u.to_json() for u in plan.units)))
    units = _still(out, plan)
    if plan.derived and not HashSet(u.version for u in units).same_as(HashSet(u.version for u in run_units(uri))):
        locations.replace(uri, _with_units({}, (u.to_json() for u in units)))
    return units


def _still(out: str, plan: TablePlan) -> Sequence[Unit]:
    """The plan's units in the order in which they were frozen; refuses a plan that has others."""
    uri = _run_uri(out, "inputs.json")
    if HashSet(u.name for u in run_units(uri)).same_as(HashSet(u.name for u in plan.units)):
        return plan.units
    frozen, now = list(run_units(uri)), {u.name: u for u in plan.units}
    gone = [u for u in frozen if u.name not in now]
    new = sorted(set(now) - {u.name for u in frozen})
    if gone or new:
        other = gone[0] if gone else now[new[0]]
        name = other.inputs[0].uri if other.inputs else f"unit {other.name}"
        what = "changed or is gone" if gone else "is new"
        raise InputError(
            f"{out}: the inputs are not those this run was started with: {name} {what} "
            f"({len(gone)} gone, {len(new)} new); use another out= or overwrite=true"
        )
    return CompactList(now[u.name] for u in frozen)


def _with_footers(target: Target, units: Iterable[Unit]) -> Iterator[tuple[Unit, Footer | None]]:
    """Each unit and the footer of its object, read as they are taken and not held; None if there is none."""
    objects = CompactList(data_objects(target.out, locations.listing(target.out)))
    places = HashSet(o.uri for o in objects)
    mine = (places.place(target.data_uri(unit.name)) for unit in units)
    footers = read_footers((objects[n] for n in mine if n is not None), remote=locations.is_s3(target.out))
    for unit in units:
        yield unit, next(footers) if target.data_uri(unit.name) in places else None


def _unit_told(footer: Footer, record: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest tells of a unit."""
    return {
        "name": record["unit"]["name"],
        "generation": record["generation"],
        "rows": footer.rows,
        "bytes": footer.object.size,
        "counts": record["counts"],
        "inputs": record["unit"]["inputs"],
        "retired": record["retired"],
    }


def _manifest(plan: TablePlan, target: Target) -> dict[str, Any]:
    """What the manifest tells of the run, whatever came of it."""
    return {
        "table": plan.table,
        "metadata": plan.metadata,
        "identity": plan.identity,
        "identity_hash": target.identity,
        "config": plan.config,
        "models": plan.models or {},
        "versions": target.versions,
    }


def _sweep(out: str, *, before: float) -> None:
    """Remove local temporary files that a killed run left behind; an upload to S3 leaves none."""
    if not locations.is_s3(out):
        for left in _temporary(out):
            if left.stat().st_mtime < before:
                left.unlink(missing_ok=True)


def _temporary(folder: str) -> Iterator[Path]:
    """What is called as a temporary file below `folder`; unlike rglob it holds no list of all there is."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _temporary(entry.path)
            elif _left_over(entry.name):
                yield Path(entry.path)


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Versions of the code, of Python and of the packages that shape the output."""
    found = {"python": platform.python_version(), "code": _code_hash()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _code_hash() -> str:
    """Hash of the project's own source files: names a state of the code also outside a git checkout."""
    root = Path(__file__).parents[2]
    files = sorted(p for top in ("jobs", "actors") for p in (root / top).rglob("*.py"))
    return content_id(*(part for p in files for part in (p.relative_to(root).as_posix(), p.read_text("utf-8"))))


def _flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= _flatten(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat


def _run_uri(out: str, name: str) -> str:
    return locations.join(out, "_run", name)


def _json(value: Any) -> bytes:
    made = io.BytesIO()
    made.writelines(_tokens(value))
    return made.getvalue()


def _tokens(value: Any, *, indent: str = "") -> Iterator[bytes]:
    """JSON in pieces: one unit may name ten thousand inputs, whose text takes megabytes."""
    for token in json.JSONEncoder(indent=1, sort_keys=True, ensure_ascii=False).iterencode(value):
        yield token.replace("\n", f"\n{indent}").encode()


def _with_units(head: Mapping[str, Any], units: Iterable[Any]) -> Iterator[bytes]:
    """`_json` of `head` and its list `units`, a unit at a time: all of it would be tens of megabytes."""
    before, empty, after = _json({**head, "units": []}).partition(b'\n "units": [')
    yield before + empty
    some = False
    for unit in units:
        yield b",\n  " if some else b"\n  "
        yield from _tokens(unit, indent="  ")
        some = True
    yield (b"\n " if some else b"") + after


def is_complete(out: str) -> bool:
    """Whether the table at `out` has a manifest that says complete."""
    try:
        manifest = run_json(_run_uri(locations.absolute(out), "manifest.json"), MANIFEST_JSON)
    except (OSError, InputError):
        return False
    return bool(manifest["complete"])
