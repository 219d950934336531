"""List the tables at or below a folder: rows, units, size, age, state and identity.

    remine ls R
    remine ls s3://bucket/R identity=true

A table whose run ended is `complete`; otherwise the state shows how many of its units were written, and running the
command that writes the table continues it. Tables with the same identity have the same configuration; identity=true
prints it, and `remine diff A B` compares two tables.
"""

import sys
import time
from dataclasses import dataclass, field

from actors.quantities import quantity
from jobs.inventory.found import FoundTable, age, find_all, flat_lines, in_columns, short_hash, size
from jobs.runtime.command_line import cli
from jobs.runtime.process.console import say


@dataclass
class LsConfig:
    """Keys of `ls`."""

    inputs: list[str] = field(default_factory=list)  # tables or folders of tables; local or s3://…
    identity: bool = False  # print what the rows of each table depend on


HEADINGS = ("table", "kind", "rows", "units", "size", "age", "state", "identity")


def execute(cfg: LsConfig) -> list[FoundTable]:
    """Run the job and return the tables; see the module's docstring.

    Raises:
        InputError: one of the folders has no table.
    """
    now = time.time()
    tables = find_all(cfg.inputs)
    lines = in_columns([HEADINGS, *(_cells(table, now) for table in tables)], numbers=range(2, 6))
    say(lines[0])
    for table, line in zip(tables, lines[1:], strict=True):
        say(line)
        for text in flat_lines(table.identity) if cfg.identity else ():
            say(f"    {text}")
    say(f"{quantity(len(tables), 'table')}, {size(sum(table.size for table in tables))}")
    return tables


def _cells(table: FoundTable, now: float) -> tuple[str, ...]:
    numbers = (f"{table.rows:,}", f"{table.units:,}", size(table.size), age(now - table.changed))
    return (table.uri, table.name, *numbers, table.state, short_hash(table.identity_hash))


JOB = cli.Job("ls", LsConfig, execute, positional=("inputs",), resumes=False)

if __name__ == "__main__":
    sys.exit(cli.main("ls"))
