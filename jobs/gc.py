"""Remove files of interrupted and repeated runs that no reader uses.

    remine gc R plan=true
    remine gc R

Leftovers are temporary files of killed runs, damaged files that `verify repair=true` set aside, rejects of generations
that a retry replaced, and objects of units that are not in the table's list. Rows that readers see never
change. A table that another process is writing is refused.
"""

import sys
from dataclasses import dataclass, field

from actors.quantities import quantity
from jobs.inventory.found import find_all, size
from jobs.inventory.removal import leftovers, remove_leftovers
from jobs.runtime.command_line import cli
from jobs.runtime.process.console import say


@dataclass
class GcConfig:
    """Keys of `gc`."""

    inputs: list[str] = field(default_factory=list)  # tables or folders of tables; local or s3://…
    plan: bool = False  # print what would be removed, and stop


def execute(cfg: GcConfig) -> dict[str, int]:
    """Run the job and return the number of removed files by table; see the module's docstring.

    Raises:
        InputError: a folder has no table, or another process is writing one.
    """
    removed: dict[str, int] = {}
    total = 0
    for table in find_all(cfg.inputs):
        files = list(leftovers(table))
        if not files:
            continue
        if not cfg.plan:
            remove_leftovers(table, files)
        freed = sum(file.size for file in files)
        total += freed
        removed[table.uri] = len(files)
        say(f"  {table.uri}: {quantity(len(files), 'file')}, {size(freed)}")
    say(f"gc: {'would remove' if cfg.plan else 'removed'} {quantity(sum(removed.values()), 'file')}, {size(total)}")
    return removed


JOB = cli.Job("gc", GcConfig, execute, positional=("inputs",))

if __name__ == "__main__":
    sys.exit(cli.main("gc"))
