"""A run that writes a table: claim the place, freeze the inputs, find the remaining units, write the manifest."""

import platform
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from actors import ROOT
from actors.ids import content_id
from actors.status import STATUSES
from jobs.errors import InputError, RunError
from jobs.store import run_files
from jobs.store.counts import Counts
from jobs.store.files import locations
from jobs.store.files.objects import CompactList, Object
from jobs.store.footers import Footer, Footers
from jobs.store.identity import identity_hash
from jobs.store.run_files import CONFIG, IDENTITY, MANIFEST, run_uri
from jobs.store.runs import lock, place
from jobs.store.runs.place import check_identity, claim, freeze, warn_of_store
from jobs.store.runs.run_units import Amounts, count_done, is_current, remaining_tasks, with_footers
from jobs.store.table_plan import TablePlan
from jobs.store.unit_index import write_index
from jobs.store.units import Unit, check_distinct
from jobs.store.writer import Target, UnitTask

GIVEN_UP_NAMED = 3  # units that the message lists


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
        """Derive the manifest and the index of units from the footers, write them, and return the manifest.

        Raises:
            RunError: a unit is missing and this is not a trial, the counts do not balance, or another process has taken
                over the table.
        """
        lock.check_held()
        total, unit_seconds, missing = Counts(), 0.0, 0

        def written_units() -> Iterator[Footer]:
            nonlocal total, unit_seconds, missing
            for unit, footer in with_footers(self.target, self.units, locations.listing(self.target.out)):
                record = footer.record if footer is not None else None
                missing += not is_current(unit, record, self.target.identity)
                if footer is not None and record is not None:
                    total += Counts.from_json(record["counts"])
                    unit_seconds += record["seconds"]
                    yield footer

        written = Footers(written_units())
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
        write_index(out, written)
        locations.replace(run_uri(out, MANIFEST), run_files.to_json(manifest))
        place.remove_temporary(out, before=self._begun)
        self._unlock()
        if missing and not self.is_trial:
            why = "".join(f"; {unit}: {reason}" for unit, reason in sorted(self.given_up.items())[:GIVEN_UP_NAMED])
            raise RunError(f"{missing} of {len(self.units)} units were not written{why}", place=out)
        if not total.balances():
            raise RunError(f"the run does not balance: {total}", place=out)
        return manifest


def check_place(plan: TablePlan, *, resume: bool, overwrite: bool, retry: Sequence[str]) -> None:
    """Run the checks of `open_run` without writing anything.

    Raises:
        InputError: as `open_run`.
    """
    _check_plan(plan, retry)
    state = place.inspect(plan, resume=resume, overwrite=overwrite, locks=True)
    if state.locked:
        lock.release(state.out)


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
    _check_plan(plan, retry)
    state = place.inspect(plan, resume=resume, overwrite=overwrite, locks=True)
    out, locked = state.out, state.locked
    try:
        target = _target(out, plan)
        if overwrite and state.is_table:
            _delete(out, state.listed)
            state = state._replace(listed=CompactList(), is_table=False)
        warn_of_store(out)
        if not state.has(IDENTITY):
            claim(out, plan, state.listed)
            locked = lock.acquire(out) or locked
            check_identity(out, plan)  # on a store that ignores conditions another run may have replaced it meanwhile
            if state.is_table:  # listed before it was locked
                state = state._replace(listed=locations.listing(out))
        units = freeze(out, plan, state.frozen)
        for name, data in {CONFIG: run_files.to_json(plan.config), **plan.files}.items():
            if not state.has(name):
                locations.create(run_uri(out, name), data)
        footers = with_footers(target, units, state.listed) if state.is_table else ((unit, None) for unit in units)
        amounts = Amounts(units)
        todo = CompactList(remaining_tasks(footers, target, retry, amounts))
        manifest = run_files.kept_manifest(out) if todo and state.has(MANIFEST) else {}
        if manifest.get("complete"):  # its counts are of an earlier run
            locations.replace(run_uri(out, MANIFEST), run_files.to_json({**manifest, "complete": False}))
    except BaseException:
        if locked:
            lock.release(out)
        raise
    return TableRun(plan, units, todo, target, amounts)


def survey(plan: TablePlan, *, resume: bool = True, overwrite: bool = False, retry: Sequence[str] = ()) -> Amounts:
    """Count what `plan` would read and what is done, without writing anything.

    Raises:
        InputError: `open_run` would refuse the place or a status; not if another process is writing there.
    """
    _check_plan(plan, retry)
    state = place.inspect(plan, resume=resume, overwrite=overwrite, locks=False)
    target, amounts = _target(state.out, plan), Amounts(plan.units)
    for unit, footer in with_footers(target, plan.units, state.listed) if state.is_table and not overwrite else ():
        count_done(amounts, unit, footer, target)
    return amounts


def _check_plan(plan: TablePlan, retry: Sequence[str]) -> None:
    if unknown := [status for status in retry if status not in STATUSES]:
        several = f" (several are written retry=[{unknown[0]}])" if "," in unknown[0] else ""
        why = f"no such status{several}; must be one of {', '.join(STATUSES)}"
        raise InputError(why, key="retry", value=unknown[0])
    check_distinct(plan.units)


def _target(out: str, plan: TablePlan) -> Target:
    share = plan.config.get("max_error_share")
    return Target(out, plan.table, plan.metadata, identity_hash(plan.identity), versions(), plan.dim, share)


def _delete(out: str, listed: Iterable[Object]) -> None:
    identity = run_uri(out, IDENTITY)
    kept = {identity, run_uri(out, lock.LEASE)}
    locations.remove([file.uri for file in listed if place.is_written_by_run(out, file.uri) and file.uri not in kept])
    locations.remove([identity])  # last, so that the place is still a table of remine after an interruption


PACKAGES = "remine ray torch torchvision transformers open_clip_torch diffusers accelerate pyarrow s3fs pillow".split()
SOURCES = (".py", ".j2", ".css", ".js")  # files whose text determines what tables and pages contain


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return the versions of the code, of Python and of the packages that influence the output."""
    installed = {"python": platform.python_version(), "code": code_hash()}
    for name in PACKAGES:
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return installed


def code_hash(root: Path = ROOT) -> str:
    """Return a hash of the source files below `root`, which identifies the code even outside a git checkout.

    Raises:
        RuntimeError: there are none; the hash would say nothing.
    """
    paths = (path for folder in ("jobs", "actors") for path in (root / folder).rglob("*"))
    files = sorted(path for path in paths if path.suffix in SOURCES)
    if not files:
        raise RuntimeError(f"{root}: has no source files")
    texts = (part for path in files for part in (path.relative_to(root).as_posix(), path.read_text("utf-8")))
    return content_id(*texts)
