"""Compare two tables of the same kind: their configurations, the keys that only one has, and the values that differ.

    remine diff R/ratings/qwen R2/ratings/qwen
    remine diff R/report/metrics R2/report/metrics ignore=[status] tolerance=1e-6 out=changes.csv

Rows are matched by the table's primary key. Exits with 0 whether or not the tables differ; with strict=true it exits
with 1 if rows differ. out= writes all rows that differ, with both values of each column, as CSV.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv

from actors.quantities import quantity
from jobs.corpora.cell_texts import escape_cell
from jobs.errors import InputError, RunError, check_least
from jobs.inventory.differences import Differences, compare
from jobs.inventory.found import in_columns
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.process.console import say
from jobs.store.files import locations
from jobs.store.files.spool import Spool
from jobs.store.runs.place import check_creatable

ALL = 2**31 - 1
WIDTH = 40  # characters of a printed value


@dataclass
class DiffConfig:
    """Keys of `diff`."""

    a: str = MISSING  # a table; local or s3://bucket/prefix
    b: str = MISSING  # another table of the same kind
    ignore: list[str] = field(default_factory=list)  # columns to ignore, as in [seconds]
    tolerance: float = 0.0  # numbers that differ by at most this are equal
    examples: int = 10  # how many of the differing rows to print
    out: str | None = None  # a CSV file of all rows that differ
    overwrite: bool = False  # replace an existing file
    strict: bool = False  # exit with 1 if rows differ


def execute(cfg: DiffConfig) -> Differences:
    """Run the job and return the differences; see the module's docstring.

    Raises:
        InputError: a table does not exist, the kinds of the tables differ, a column is unknown, or `out` exists or
            cannot be created.
        RunError: rows differ, and strict=true.
    """
    for key, value in (("tolerance", cfg.tolerance), ("examples", cfg.examples)):
        check_least(key, value, 0)
    out = locations.absolute(cfg.out) if cfg.out else None
    if out and locations.exists(out) and not cfg.overwrite:
        raise InputError("exists", key="out", value=cfg.out, remedy="use another name or overwrite=true")
    if out:
        check_creatable(out.rsplit("/", 1)[0])
    examples = ALL if out else cfg.examples
    differences = compare(cfg.a, cfg.b, ignored=cfg.ignore, tolerance=cfg.tolerance, examples=examples)
    _show(differences, cfg.examples)
    if out:
        _write(differences.examples, out)
        say(f"  all of them: {out}")
    if cfg.strict and not differences.is_equal:
        raise RunError(f"a={cfg.a} and b={cfg.b} differ (strict=true)")
    return differences


def _show(differences: Differences, examples: int) -> None:
    say(f"diff: table {differences.name}, {quantity(differences.rows[0], 'row')} in a and {differences.rows[1]:,} in b")
    for key, (a, b) in differences.configuration.items():
        say(f"  {configuration_line(key, a, b)}")
    if differences.is_equal:
        say("  the rows are equal")
        return
    only_a, only_b = differences.only
    say(f"  {only_a:,} only in a, {only_b:,} only in b, {differences.changed:,} with other values")
    for name, difference in differences.columns.items():
        largest = f", by at most {difference.largest:.6g}" if difference.largest is not None else ""
        say(f"  {name}: differs in {quantity(difference.rows, 'row')}{largest}")
    rows = differences.examples.slice(0, examples)
    cells = [rows.column_names, *([_short(value) for value in row.values()] for row in rows.to_pylist())]
    for line in in_columns(cells) if rows.num_rows else ():
        say(f"    {line}")


def configuration_line(key: str, a: object, b: object) -> str:
    """Return the line about a key whose values differ; None is a key that is not set."""
    first, second = ("not set" if value is None else _short(value) for value in (a, b))
    return f"configuration: {key} is {first} in a, {second} in b"


def _short(value: object) -> str:
    text = "" if value is None else " ".join(str(value).split())
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def _write(rows: pa.Table, out: str) -> None:
    """Write rows as CSV; lists, structs and bytes become text."""
    columns = {name: _plain(rows[name]) for name in rows.column_names}
    with Spool("diff") as spool:
        path = Path(spool.path) / "rows.csv"
        pcsv.write_csv(pa.table(columns), path)
        locations.publish(path, out)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    if pa.types.is_primitive(column.type):
        return column
    return pa.array([None if value is None else escape_cell(str(value)) for value in column.to_pylist()], pa.string())


JOB = cli.Job("diff", DiffConfig, execute, positional=("a", "b"), resumes=False)

if __name__ == "__main__":
    sys.exit(cli.main("diff"))
