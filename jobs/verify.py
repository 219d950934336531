"""Check a table: units, footers, counts, schema, rejects, checksums of all pages, and that all keys are unique.

    remine verify input=R/records
    remine verify input=R/records repair=true
    remine verify input=R exclusions=withdrawn.txt

Reads the whole table and writes nothing; if there are faults, lists them and exits with 1. Duplicate keys are found by
64-bit hashes, in bounded memory, and then compared. A fault counts only if a second look finds it too, in bytes that
were compared with what the store keeps. With repair=true it moves damaged units and run files to _run/damaged.NAME; the
command that wrote the table then writes these again, and nothing else. With exclusions= it checks instead that nothing
is left of the pictures on the list, in all tables and files below INPUT.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from actors.quantities import quantity
from jobs.errors import RunError
from jobs.judging.kept_rubric import rubric_faults
from jobs.purging import purged_files, run_tables
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store import table_faults
from jobs.store.files import locations
from jobs.store.reading import TableSource, open_table
from jobs.store.run_files import MANIFEST, UNITS, read_json, run_uri
from jobs.store.runs import lock
from jobs.store.table_faults import Fault
from jobs.store.table_plan import RowLimit

FAULTS_SHOWN = 20


@dataclass
class VerifyConfig:
    """Keys of `verify`."""

    input: str = MISSING  # a table: a folder or s3://bucket/prefix
    exclusions: str | None = None  # a list: check instead that nothing is left of its pictures below INPUT
    repair: bool = False  # set damaged units and run files aside, so that the table's command writes them again


def execute(cfg: VerifyConfig) -> dict[str, int]:
    """Run the job; see the module's docstring. Returns the units and rows; after a repair, the files set aside.

    Raises:
        RunError: the table has a fault; with repair=true, a fault that setting files aside does not repair.
    """
    uri = locations.absolute(cfg.input)
    if cfg.exclusions:
        return _check_absence(uri, cfg.exclusions)
    if cfg.repair:
        return _repair(uri)
    _refuse(uri, _confirmed(uri, lambda: list(table_faults.damage(uri))))
    source = open_table(uri)
    _refuse(uri, _confirmed(uri, lambda: list(_faults_of(source))))
    units, rows = len(source.footers), source.rows
    amounts = f"{quantity(units, 'unit')}, {quantity(rows, 'row')}"
    say(f"verify: {source.uri}: table {source.name}, {amounts}, no faults")
    say(summary.reconciliation(source.counts().to_json()))
    if limit := _kept_limit(uri):
        say(f"  {limit}; the table has no more")
    return {"units": units, "rows": rows}


def _kept_limit(uri: str) -> RowLimit | None:
    """Return what the limit of the table took from its input; None without a limit."""
    limit = read_json(run_uri(uri, MANIFEST)).get("limit")
    return RowLimit.from_json(limit) if limit else None


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
        faults = _confirmed(uri, lambda: _all_faults(uri))
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


def _all_faults(uri: str) -> list[Fault]:
    damage = list(table_faults.damage(uri))
    if not damage:
        return list(_faults_of(open_table(uri)))
    # Summaries of all units differ from the sound ones; the next run derives them again.
    source, derived = table_faults.sound_part(uri), {run_uri(uri, MANIFEST), run_uri(uri, UNITS)}
    others = (fault for fault in (_faults_of(source) if source else ()) if fault not in damage)
    return damage + [fault for fault in others if fault.place != uri or fault.damaged not in derived]


def _confirmed(uri: str, look: Callable[[], list[Fault]]) -> list[Fault]:
    """Return the faults that `look` finds twice; those that only one look finds come from a connection or a disk."""
    first = look()
    faults = list(table_faults.confirmed(first, look())) if first else []
    if first and not faults:
        once = f"a second look did not find {quantity(len(first), 'fault')} of the first"
        say(f"verify: {uri}: {once}; check the network and the store", err=True, level="warning")
    return faults


def _faults_of(source: TableSource) -> Iterator[Fault]:
    for check in (table_faults.footer_faults, table_faults.run_faults, rubric_faults, table_faults.row_faults):
        yield from check(source)


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
