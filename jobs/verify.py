"""Check tables: units, footers, counts, schema, rejects, checksums of all pages, and that all keys are unique.

    remine verify R
    remine verify R/records repair=true
    remine verify R exclusions=withdrawn.txt

Reads each table at or below INPUT whole and writes nothing; if there are faults, lists them and exits with 1. Duplicate
keys are found by 64-bit hashes, in bounded memory, and then compared. A fault counts only if a second look finds it
too, in bytes that were compared with what the store keeps. With repair=true it moves damaged units and run files to
_run/damaged.NAME; the command that wrote the table then writes these again, and nothing else. With exclusions= it
checks instead that nothing is left of the pictures on the list, in all tables and files below INPUT.
"""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from actors.quantities import quantity
from jobs.errors import InputError, RunError
from jobs.inventory.found import files_by_table
from jobs.judging.kept_rubric import rubric_faults
from jobs.purging import purged_files, run_tables
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store import table_faults
from jobs.store.files import locations
from jobs.store.reading import open_table
from jobs.store.run_files import MANIFEST, read_json, run_uri
from jobs.store.runs import lock
from jobs.store.table_faults import Fault
from jobs.store.table_plan import RowLimit

FAULTS_SHOWN = 20


@dataclass
class VerifyConfig:
    """Keys of `verify`."""

    input: str = MISSING  # a table, or a folder of tables; local or s3://…
    exclusions: str | None = None  # a list: check instead that nothing is left of its pictures below INPUT
    repair: bool = False  # set damaged units and run files aside, so that the table's command writes them again


def execute(cfg: VerifyConfig) -> dict[str, int]:
    """Run the job; see the module's docstring. Returns the units and rows; after a repair, the files set aside.

    Raises:
        InputError: there is no table.
        RunError: a table has a fault; with repair=true, a fault that setting files aside does not repair.
    """
    uri = locations.absolute(cfg.input)
    if cfg.exclusions:
        return _check_absence(uri, cfg.exclusions)
    check = _repair if cfg.repair else _check
    below = files_by_table(locations.listing(uri))
    tables = [table for table in below if "/_" not in table.removeprefix(uri)]  # of `_partial`, keys repeat
    return check(uri) if tables in ([], [uri]) else _check_each(uri, tables, check)


def _check_each(uri: str, tables: Sequence[str], check: Callable[[str], dict[str, int]]) -> dict[str, int]:
    """Check all tables, also after one with faults, and return the sums of what `check` returns.

    Raises:
        RunError: a table has a fault or cannot be read.
    """
    sums: Counter[str] = Counter()
    faulty = []
    for table in tables:
        try:
            sums.update(check(table))
        except (InputError, RunError) as error:
            faulty.append(table)
            say(f"  {error}", err=True)
    if faulty:
        raise RunError(f"{len(faulty):,} of {len(tables):,} tables have faults: {', '.join(faulty)}", place=uri)
    say(f"verify: {uri}: {len(tables):,} tables, no faults")
    return dict(sums)


def _check(uri: str) -> dict[str, int]:
    """Check the table at `uri` and return the numbers of its units and rows; raises RunError if it has a fault."""
    _refuse(uri, _confirmed(uri, lambda: list(table_faults.damage(uri))))
    source = open_table(uri, indexed=False)
    _refuse(uri, _confirmed(uri, lambda: list(table_faults.of_table(source, rubric_faults))))
    units, rows = len(source.footers), source.rows
    amounts = f"{quantity(units, 'unit')}, {quantity(rows, 'row')}"
    say(f"verify: {source.uri}: table {source.name}, {amounts}, no faults")
    say(summary.reconciliation(source.counts().to_json()))
    if limit := read_json(run_uri(uri, MANIFEST)).get("limit"):
        say(f"  {RowLimit.from_json(limit)}; the table has no more")
    return {"units": units, "rows": rows}


def _check_absence(uri: str, listed: str) -> dict[str, int]:
    """Check that neither the tables at or below `uri` nor the files among them mention a picture of the list.

    Raises:
        InputError: there is no table.
        RunError: something is left.
    """
    excluded = exclusions.read_exclusions(listed)
    left = run_tables.find_leftovers(uri, excluded, without=[locations.absolute(listed)])
    if left.unchecked:  # also next to faults: nobody knows whom these files show
        say(f"  files {purged_files.not_checked(left.unchecked)}", err=bool(left.faults))
    _refuse(uri, left.faults)
    amounts = f"{quantity(left.tables, 'table')}, {quantity(left.rows, 'row')}, {quantity(left.read, 'other file')}"
    entries = f"the {quantity(len(excluded), 'entry')} of exclusions={listed}"
    say(f"verify: {uri}: {amounts}: nothing about {entries}")
    return {"tables": left.tables, "rows": left.rows}


def _repair(uri: str) -> dict[str, int]:
    """Set the damaged files of the table at `uri` aside and return their number.

    Raises:
        InputError: there is no table, or another process is writing it.
        RunError: a fault remains.
    """
    lock.acquire(uri)
    try:
        faults = _confirmed(uri, lambda: table_faults.of_place(uri, rubric_faults))
        moved = table_faults.set_aside(uri, faults)
    finally:
        lock.release(uri)
    for file, place in moved.items():
        say(f"  moved {file} to {place}: {next(fault.problem for fault in faults if fault.damaged == file)}")
    missing = any(fault.missing for fault in faults)
    _refuse(uri, [fault for fault in faults if not fault.damaged and not fault.missing])
    again = "run the command that writes the table again" if moved or missing else "nothing to repair"
    kept = f", and remine rm {uri} interrupted=true, which removes the damaged ones" if moved else ""
    say(f"verify: {uri}: {quantity(len(moved), 'damaged file')} set aside; {again}{kept}")
    return {"set_aside": len(moved)}


def _confirmed(uri: str, look: Callable[[], list[Fault]]) -> list[Fault]:
    """Return the faults that `look` finds twice; those that only one look finds come from a connection or a disk."""
    first = look()
    faults = list(table_faults.confirmed(first, look())) if first else []
    if first and not faults:
        once = f"a second look did not find {quantity(len(first), 'fault')} of the first"
        say(f"verify: {uri}: {once}; check the network and the store", err=True, level="warning")
    return faults


def _refuse(uri: str, faults: Sequence[Fault]) -> None:
    """Print the first faults and raise RunError, if there are any."""
    for fault in faults[:FAULTS_SHOWN]:
        say(f"  fault: {fault}", err=True)
    if len(faults) > FAULTS_SHOWN:
        say(f"  … and {len(faults) - FAULTS_SHOWN:,} more", err=True)
    if faults:
        hint = "; repair=true sets damaged units aside, which the table's command then writes again"
        mendable = any(fault.damaged for fault in faults)
        raise RunError(f"{quantity(len(faults), 'fault')}{hint if mendable else ''}", place=uri)


JOB = cli.Job("verify", VerifyConfig, execute, positional=("input",), resumes=False)

if __name__ == "__main__":
    sys.exit(cli.main("verify"))
