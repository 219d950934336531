"""Remove tables, after asking, or with interrupted=true only what interrupted runs left in them.

    remine rm R/ratings/qwen
    remine rm R/old s3://bucket/R/old yes=true
    remine rm R interrupted=true

A folder of tables is removed with all tables below it. The job lists what it would remove and asks; without a terminal
it needs yes=true. Files that no run of remine wrote are kept, and a table that another process is writing is refused.
With interrupted=true no table is removed, only files that no reader uses: temporary files of killed runs, damaged files
that `verify repair=true` set aside, rejects of generations that a retry replaced, and objects of units that are not in
the table's list. `purge` removes pictures.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.quantities import quantity
from jobs.errors import InputError
from jobs.inventory.found import FoundTable, find_all, leftovers, remove_leftovers, remove_table, size
from jobs.runtime.command_line import cli
from jobs.runtime.process.console import confirm, say

KEPT_SHOWN = 5


@dataclass
class RmConfig:
    """Keys of `rm`."""

    inputs: list[str] = field(default_factory=list)  # tables or folders of tables; local or s3://…
    interrupted: bool = False  # remove only files of interrupted and repeated runs that no reader uses, without asking
    yes: bool = False  # remove without asking
    plan: bool = False  # print what would be removed, and stop


def execute(cfg: RmConfig) -> list[str]:
    """Run the job and return the uris of the removed, or changed, tables; see the module's docstring.

    Raises:
        InputError: a place has no table, another process is writing one, or there is no terminal to ask on.
    """
    tables = find_all(cfg.inputs)
    if cfg.interrupted:
        return _remove_leftovers(tables, plan=cfg.plan)
    for table in tables:
        say(f"  {table.uri}: {table.name}, {quantity(table.rows, 'row')}, {size(table.size)}")
    total = f"{quantity(len(tables), 'table')}, {size(sum(table.size for table in tables))}"
    if cfg.plan:
        say(f"rm: would remove {total}")
        return []
    if not cfg.yes:
        answer = confirm(f"rm: remove {total}?")
        if answer is None:
            why = "cannot ask without a terminal"
            raise InputError(why, key="yes", value="false", remedy="use yes=true to remove these tables")
        if not answer:
            say("rm: nothing removed")
            return []
    for table in reversed(tables):  # tables inside others first
        _remove(table)
    say(f"rm: removed {total}")
    return [table.uri for table in tables]


def _remove_leftovers(tables: Sequence[FoundTable], *, plan: bool) -> list[str]:
    """Remove what interrupted and repeated runs left in tables; return the uris of the tables that had something."""
    left = {table.uri: (table, files) for table in tables if (files := list(leftovers(table)))}
    for uri, (table, files) in left.items():
        if not plan:
            remove_leftovers(table, files)
        say(f"  {uri}: {quantity(len(files), 'file')}, {size(sum(file.size for file in files))}")
    removed = [file for _, files in left.values() for file in files]
    amount = f"{quantity(len(removed), 'file')}, {size(sum(file.size for file in removed))}"
    say(f"rm: {'would remove' if plan else 'removed'} {amount}")
    return list(left)


def _remove(table: FoundTable) -> None:
    if kept := remove_table(table):
        more = f" and {len(kept) - KEPT_SHOWN:,} more" if len(kept) > KEPT_SHOWN else ""
        say(f"  kept, not written by a run: {', '.join(kept[:KEPT_SHOWN])}{more}")


JOB = cli.Job("rm", RmConfig, execute, positional=("inputs",))

if __name__ == "__main__":
    sys.exit(cli.main("rm"))
