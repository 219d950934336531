"""A run that writes a table: claim the place, freeze the inputs, find the remaining units, write the manifest."""

import json
import logging
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.status import STATUSES
from jobs.errors import InputError, RunError
from jobs.store import lease, lock, place, run_files
from jobs.store.amounts import Amounts
from jobs.store.counts import Counts
from jobs.store.files import locations, s3
from jobs.store.files.compact_list import CompactList, HashSet
from jobs.store.files.objects import Object
from jobs.store.footers import Footer, data_objects, read_footers
from jobs.store.identity import EXCLUSIONS, TABLE, identity_hash
from jobs.store.identity_changes import describe, differing_keys
from jobs.store.json_types import FooterJson, GenerationJson, WrittenUnitJson
from jobs.store.limits import Taken
from jobs.store.run_files import CONFIG, IDENTITY, INPUTS, MANIFEST, UNITS, run_uri
from jobs.store.units import Unit, check_distinct
from jobs.store.versions import versions
from jobs.store.writer import Target, UnitTask

GIVEN_UP_NAMED = 3  # units that the message lists
_warned: set[str] = set()  # buckets about which a warning was logged
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TablePlan:
    """A table to write.

    Attributes:
        out: the folder or prefix to write to.
        table: its name in `jobs.tables`.
        identity: everything that changes the rows, and nothing else, as JSON values.
        units: the units to write.
        config: the job's configuration, for the manifest.
        metadata: strings for the schema of its objects.
        derived: the units are those of a parent table, and a changed input becomes a new generation of its unit. If
            False, changed inputs are refused.
        dim: length of the vectors, for a table of embeddings.
        models: names and revisions of models, for the manifest.
        files: additional files of `_run/`, written when the run is first opened.
        limit: how many rows `limit=` takes; None without a limit (`jobs.store.limits.limited`).
    """

    out: str
    table: str
    identity: dict[str, Any]
    units: Sequence[Unit]
    config: dict[str, Any]
    metadata: dict[str, str]
    derived: bool
    dim: int | None = None
    models: dict[str, str] | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    limit: Taken | None = None


Account = Callable[["TableRun", float], Mapping[str, Any]]  # additional keys of the manifest, from the run's seconds


class RunPart(NamedTuple):
    """Some of the remaining tasks of a run, for a separate stage."""

    todo: Sequence[UnitTask]
    target: Target
    given_up: dict[str, str]  # shared with the run


class TableRun:
    """A claimed table with a frozen list of units; `todo` has the remaining tasks."""

    def __init__(
        self, plan: TablePlan, units: Sequence[Unit], todo: CompactList[UnitTask], target: Target, amounts: Amounts
    ) -> None:
        self.plan, self.units, self.todo, self.target = plan, units, todo, target
        self.amounts = amounts  # amounts of work when the run was opened
        self.done_before = len(units) - len(todo)
        self.given_up: dict[str, str] = {}  # units that the workers left out -> why
        self.is_trial = False  # `try_some` left tasks out
        self.account: Account | None = None
        self._begun = time.time()
        self._unlock = weakref.finalize(self, lock.release, target.out)  # runs also if the run fails

    def part(self, is_wanted: Callable[[Unit], bool]) -> RunPart:
        """Return the remaining tasks of the units that are wanted."""
        return RunPart(CompactList(task for task in self.todo if is_wanted(task.unit)), self.target, self.given_up)

    def try_some(self, count: int) -> None:
        """Keep only `count` of the remaining tasks, evenly spread over all; `finish` then requires no other units."""
        if count < len(self.todo):
            step, self.is_trial = len(self.todo) / count, True
            self.todo = CompactList(self.todo[int(number * step)] for number in range(count))

    def keep(self, name: str, data: bytes) -> str:
        """Store `data` in the table's `_run/` folder and return its uri."""
        uri = run_uri(self.target.out, name)
        locations.replace(uri, data)
        return uri

    def finish(self) -> dict[str, Any]:
        """Derive the manifest from the footers, write it, and return it with the list `units`.

        Raises:
            RunError: a unit is missing and this is not a trial, the counts do not balance, or another process has taken
                over the table.
        """
        lock.check_held()
        total, unit_seconds, missing = Counts(), 0.0, 0

        def written_units() -> Iterator[WrittenUnitJson]:
            nonlocal total, unit_seconds, missing
            for unit, footer in _with_footers(self.target, self.units):
                record = footer.record if footer is not None else None
                missing += not _is_current(unit, record, self.target.identity)
                if footer is not None and record is not None:
                    total += Counts.from_json(record["counts"])
                    unit_seconds += record["seconds"]
                    yield written_unit(footer, record)

        units = CompactList(written_units())
        manifest = {
            "table": self.plan.table,
            "metadata": self.plan.metadata,
            "identity": self.plan.identity,
            "identity_hash": self.target.identity,
            "config": self.plan.config,
            "models": self.plan.models or {},
            "versions": self.target.versions,
            "conditional_writes": locations.creates_once(self.target.out),
            "counts": total.to_json(),
            "limit": self.plan.limit and self.plan.limit.to_json(),
            "seconds": (seconds := round(time.time() - self._begun, 3)),
            "unit_seconds": round(unit_seconds, 3),
            "complete": not missing,
            **(self.account(self, seconds) if self.account is not None else {}),
        }
        out = self.target.out
        locations.replace(run_uri(out, UNITS), run_files.to_lines(units))
        locations.replace(run_uri(out, MANIFEST), run_files.to_json(manifest))
        place.remove_temporary(out, before=self._begun)
        self._unlock()
        if missing and not self.is_trial:
            why = "".join(f"; {unit}: {reason}" for unit, reason in sorted(self.given_up.items())[:GIVEN_UP_NAMED])
            raise RunError(f"{out}: {missing} of {len(self.units)} units were not written{why}")
        if not total.balances():
            raise RunError(f"{out}: the run does not balance: {total}")
        return {**manifest, "units": units}


def check_place(plan: TablePlan, *, resume: bool, overwrite: bool, retry: Sequence[str]) -> None:
    """Run the checks of `open_run` without writing anything.

    Raises:
        InputError: as `open_run`.
    """
    _check_retry(retry)
    out = locations.absolute(plan.out)
    check_distinct(plan.units)
    listed, is_table = place.inspect(out, plan.units)
    if not is_table:
        return
    _check_resume(out, resume=resume, overwrite=overwrite)
    if lock.acquire(out):
        lock.release(out)
    if not overwrite:
        _check_identity(out, plan)
        if _has_inputs(out, listed):
            _in_frozen_order(out, plan)


def open_run(plan: TablePlan, *, resume: bool, overwrite: bool, retry: Sequence[str]) -> TableRun:
    """Claim `plan.out` and find the remaining units.

    Args:
        resume: continue an existing table.
        overwrite: delete an existing table first.
        retry: statuses whose rows are redone.

    Raises:
        InputError: the place has something else, a table with another identity (names the key that differs), or a table
            whose inputs have changed; another process is writing it; or `retry` has an unknown status.
    """
    _check_retry(retry)
    out = locations.absolute(plan.out)
    check_distinct(plan.units)
    target = _target(out, plan)
    listed, is_table = place.inspect(out, plan.units)
    if is_table:
        _check_resume(out, resume=resume, overwrite=overwrite)
    locked = is_table and lock.acquire(out)
    try:
        if overwrite and is_table:
            _delete(out, listed)
            is_table = False
        _warn_of_store(out)
        _claim(out, plan, listed if is_table else ())
        locked = lock.acquire(out) or locked
        _check_identity(out, plan)  # on a store that ignores conditions another run may have replaced it meanwhile
        units = _freeze(out, plan, exists=is_table and _has_inputs(out, listed))
        for name, data in {CONFIG: run_files.to_json(plan.config), **plan.files}.items():
            locations.create(run_uri(out, name), data)
        footers = _with_footers(target, units) if is_table else ((unit, None) for unit in units)
        amounts = Amounts(units)
        todo = CompactList(_remaining(footers, target, retry, amounts))
    except BaseException:
        if locked:
            lock.release(out)
        raise
    return TableRun(plan, units, todo, target, amounts)


def survey(plan: TablePlan, *, overwrite: bool = False) -> Amounts:
    """Count what `plan` would read and what is done, without writing anything.

    Raises:
        InputError: `open_run` would refuse the place.
    """
    out = locations.absolute(plan.out)
    listed, is_table = place.inspect(out, plan.units)
    is_table = is_table and not overwrite
    if is_table:
        _check_identity(out, plan)
        if _has_inputs(out, listed):
            _in_frozen_order(out, plan)
    target, amounts = _target(out, plan), Amounts(plan.units)
    for unit, footer in _with_footers(target, plan.units) if is_table else ():
        _count(amounts, unit, footer, target)
    return amounts


def _count(amounts: Amounts, unit: Unit, footer: Footer | None, target: Target) -> None:
    """Count a unit as done if its object is current."""
    record = footer.record if footer is not None else None
    if record is not None and _is_current(unit, record, target.identity):
        amounts.add_done(unit, record)


def _check_retry(retry: Sequence[str]) -> None:
    if unknown := [status for status in retry if status not in STATUSES]:
        raise InputError(f"retry={unknown[0]}: no such status; must be one of {', '.join(STATUSES)}")


def _check_resume(out: str, *, resume: bool, overwrite: bool) -> None:
    if not (resume or overwrite):
        raise InputError(f"out={out}: a table exists and resume=false; use resume=true or overwrite=true")


def _target(out: str, plan: TablePlan) -> Target:
    share = plan.config.get("max_error_share")
    return Target(out, plan.table, plan.metadata, identity_hash(plan.identity), versions(), plan.dim, share)


def _has_inputs(out: str, listed: Iterable[Object]) -> bool:
    return any(file.uri == run_uri(out, INPUTS) for file in listed)


def _delete(out: str, listed: Iterable[Object]) -> None:
    identity = run_uri(out, IDENTITY)
    kept = {identity, run_uri(out, lease.NAME)}
    locations.remove([file.uri for file in listed if place.is_written_by_run(out, file.uri) and file.uri not in kept])
    locations.remove([identity])  # last, so that the place is still a table of remine after an interruption


def _warn_of_store(out: str) -> None:
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


def _claim(out: str, plan: TablePlan, listed: Iterable[Object]) -> None:
    """Write `identity.json` if it is not in `listed`, and refuse a place that another run claimed."""
    uri = run_uri(out, IDENTITY)
    with locations.named_errors(out):
        if not any(file.uri == uri for file in listed):
            if any(listed):
                _check_footers(out, plan)
            locations.create(uri, run_files.to_json({TABLE: plan.table, **plan.identity}))
            if not locations.creates_once(out):
                lease.settle()
                _check_footers(out, plan)  # in case the new file replaced the identity of a run
    # Read it back even if it was created: some stores ignore the condition, and then the last of several drivers wins.
    _check_identity(out, plan)


def _check_identity(out: str, plan: TablePlan) -> None:
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
        raise InputError(
            f"out={out}: a table {written.get(TABLE)!r} exists, and this job writes {plan.table!r}; use another out="
        )
    if differing == [EXCLUSIONS]:
        raise InputError(
            f"out={out}: written with another configuration: exclusions= names another list of pictures than that of "
            "this table; use its list, or first apply a longer one to the existing tables: "
            "remine purge input=TABLE_OR_FOLDER exclusions=FILE"
        )
    if differing:
        change = describe(
            written,
            planned,
            written_config=_written_config(out),
            planned_config=json.loads(run_files.to_json(plan.config)),
        )
        raise InputError(f"out={out}: written with another configuration: {change}; use another out= or overwrite=true")


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
        raise InputError(
            f"out={out}: _run/{IDENTITY} is missing, and the units were written with another configuration; "
            "run the command that wrote the table, or use another out= or overwrite=true"
        )


def _freeze(out: str, plan: TablePlan, *, exists: bool) -> Sequence[Unit]:
    """Write the list of units, unless it exists, and return the plan's units in its order."""
    uri = run_uri(out, INPUTS)
    if not exists:
        locations.create(uri, run_files.to_lines(plan.units, Unit.to_json))
    units = _in_frozen_order(out, plan)
    if plan.derived and not _same(units, run_files.read_inputs(uri), by=lambda unit: unit.version):
        locations.replace(uri, run_files.to_lines(units, Unit.to_json))
    return units


def _in_frozen_order(out: str, plan: TablePlan) -> Sequence[Unit]:
    """Return the plan's units in the order in which they were frozen; raise InputError if the plan has other units.

    A trial may have additional units after them: after a purge, the earlier units have fewer than the first n rows.
    """
    uri = run_uri(out, INPUTS)
    if _same(plan.units, run_files.read_inputs(uri), by=lambda unit: unit.name):
        return plan.units
    frozen, planned = list(run_files.read_inputs(uri)), {unit.name: unit for unit in plan.units}
    gone = [unit for unit in frozen if unit.name not in planned]
    names = {unit.name for unit in frozen}
    new = [name for name in planned if name not in names]
    if gone or (new and not (plan.derived and plan.limit is not None)):
        unit = gone[0] if gone else planned[min(new)]
        name = unit.inputs[0].uri if unit.inputs else f"unit {unit.name}"
        change = "changed or is gone" if gone else "is new"
        raise InputError(
            f"out={out}: the inputs changed since this run started: {name} {change} "
            f"({len(gone)} gone, {len(new)} new); use another out= or overwrite=true"
        )
    return CompactList(planned[name] for name in [*(unit.name for unit in frozen), *new])


def _same(one: Iterable[Unit], other: Iterable[Unit], *, by: Callable[[Unit], str]) -> bool:
    return HashSet(map(by, one)).same_as(HashSet(map(by, other)))


def _with_footers(target: Target, units: Iterable[Unit]) -> Iterator[tuple[Unit, Footer | None]]:
    """Yield each unit with its object's footer, None if there is none; footers are read during the iteration."""
    objects = CompactList(data_objects(target.out, locations.listing(target.out)))
    uris = HashSet(file.uri for file in objects)
    indexes = (uris.index(target.data_uri(unit.name)) for unit in units)
    existing = (objects[index] for index in indexes if index is not None)
    footers = read_footers(existing, remote=locations.is_s3(target.out))
    for unit in units:
        yield unit, next(footers) if target.data_uri(unit.name) in uris else None


def _is_current(unit: Unit, record: FooterJson | None, identity: str) -> bool:
    """Return whether the unit was written from these inputs, with this configuration."""
    if record is None or record["unit"]["name"] != unit.name:
        return False
    return (record["version"], record["identity"]) == (unit.version, identity)


def _remaining(
    footers: Iterable[tuple[Unit, Footer | None]], target: Target, retry: Sequence[str], amounts: Amounts
) -> Iterator[UnitTask]:
    """Yield the tasks of the units that are not complete; count the units that are done."""
    for unit, footer in footers:
        _count(amounts, unit, footer, target)
        if task := _task(unit, footer, target, retry):
            yield task


def _task(unit: Unit, footer: Footer | None, target: Target, retry: Sequence[str]) -> UnitTask | None:
    """Return the remaining task of a unit; None if the unit is complete."""
    record = footer.record if footer is not None else None
    if record is None:
        return UnitTask(unit)
    written: GenerationJson = {
        "generation": record["generation"],
        "version": record["version"],
        "counts": record["counts"],
        "begun": record["begun"],
        "seconds": record["seconds"],
    }
    retired = (*record["retired"], written)
    following = record["generation"] + 1
    if not _is_current(unit, record, target.identity):
        return UnitTask(unit, following, retired)
    if any(record["counts"]["status"].get(status) for status in retry):
        return UnitTask(unit, following, retired, tuple(retry))
    return None


def written_unit(footer: Footer, record: FooterJson) -> WrittenUnitJson:
    """Return the entry for a unit in `_run/units.jsonl`."""
    return {
        "name": record["unit"]["name"],
        "generation": record["generation"],
        "rows": footer.rows,
        "bytes": footer.object.size,
        "counts": record["counts"],
        "inputs": record["unit"]["inputs"],
        "retired": record["retired"],
    }
