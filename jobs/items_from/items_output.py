"""Writer of the tables of `items` and `pairs`: items, texts and perhaps records, unit by unit, with the same units.

The tables of a unit are written one after another, `items` last. A killed run continues with the first unit that a
table lacks.
"""

import csv
import functools
import io
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from actors import schemas
from jobs.corpora.cell_texts import escape_cell
from jobs.runtime.configuration.config import Writing
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.files import locations
from jobs.store.runs.table_run import check_place, open_run
from jobs.store.table_plan import RowLimit, TablePlan
from jobs.store.units import Unit
from jobs.store.writer import Reject, UnitWriter
from jobs.tables import TABLES

ITEMS = "items"
REJECTED_ROWS = "rejects.csv"  # the rows of a user's file that could not become items


@dataclass(frozen=True)
class UnitRows:
    """The rows of one unit.

    Attributes:
        tables: the rows of each table, with the table's schema (`rows_of`).
        rows_in: number of input rows in the unit: items, `filtered` and `rejects` together.
        filtered: number of input rows that each rule removed.
        rejects: input that could not become an item.
        tallies: other counts of the unit (`jobs.store.counts`), such as matched exclusions.
    """

    tables: Mapping[str, pa.Table]
    rows_in: int
    filtered: Counter[str] = field(default_factory=Counter)
    rejects: Sequence[Reject] = ()
    tallies: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class ItemsPlan:
    """The output of a mode of `items`.

    Attributes:
        units: the units of every table.
        identity: everything that changes the rows.
        read: returns the rows of a unit.
        tables: the tables to write below `out=`; `items` is the last.
        derived: whether the units are those of a parent table (`jobs.store.table_plan.TablePlan`).
        condition: the default condition of the items, stored in the footers.
        own_units: tables whose units have other names, so that jobs look rows up in the whole table.
        metadata: other strings for the footers of the items.
        lines: lines to print.
        matched: exclusions matched by an input row when the plan was made.
        limit: how many rows of the input are read; None: all.
        rejects: yields the rows of a user's file that could not become items; None: there is no such file.
    """

    units: Sequence[Unit]
    identity: dict[str, Any]
    read: Callable[[Unit], UnitRows]
    tables: tuple[str, ...] = ("texts", ITEMS)
    derived: bool = False
    condition: str = ""
    own_units: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[str] = ()
    matched: Mapping[str, int] = field(default_factory=dict)
    limit: RowLimit | None = None
    rejects: Callable[[], Iterator[Reject]] | None = None


def rows_of(table: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return `rows` with the table's schema; missing columns are null."""
    return schemas.to_table(rows, TABLES[table].schema())


def check(cfg: Writing, plan: ItemsPlan, excluded: Exclusions) -> dict[str, TablePlan]:
    """Return the plans of the tables, by name.

    Raises:
        InputError: a location below `out=` cannot be used.
    """
    plans = {name: _table_plan(cfg, plan, name, excluded) for name in plan.tables}
    if not cfg.plan:
        for table in plans.values():
            check_place(table, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    return plans


def describe(cfg: Writing, plan: ItemsPlan, excluded: Exclusions, *, job: str = ITEMS) -> Plan:
    """Return the plan of the tables.

    Raises:
        InputError: a location below `out=` cannot be used.
    """
    plans = [
        summary.plan_of(job, table, lines=plan.lines if table.table == ITEMS else ())
        for table in check(cfg, plan, excluded).values()
    ]
    return functools.reduce(operator.add, plans)


def write(cfg: Writing, plan: ItemsPlan, excluded: Exclusions, *, job: str = ITEMS) -> Plan | Manifest:
    """Write the tables; return their manifests by name, or with plan=true their plan.

    Args:
        job: the name of the job, for the summary.

    Raises:
        InputError: a location below `out=` cannot be used; nothing was written.
    """
    if cfg.plan:
        return describe(cfg, plan, excluded, job=job)
    plans = check(cfg, plan, excluded)
    runs = {
        name: open_run(table, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
        for name, table in plans.items()
    }
    tasks = {name: {task.unit.name: task for task in run.todo} for name, run in runs.items()}
    for unit in plan.units:
        todo = {name: task for name in plan.tables if (task := tasks[name].get(_name(plan, name, unit)))}
        if todo:
            rows = plan.read(unit)
            for name, task in todo.items():
                with UnitWriter(runs[name].target, task) as writer:
                    _fill(writer, name, rows)
    if plan.rejects and (place := _write_rejects(locations.absolute(cfg.out), plan.rejects())):
        plan = replace(plan, lines=[*plan.lines, f"they are in {place}"])
    manifests = {name: summary.closed(job, run) for name, run in runs.items()}
    shown = [manifest for name, manifest in manifests.items() if name == ITEMS or manifest["counts"]["rows_in"]]
    lines = [line for manifest in shown for line in manifest.lines]
    lines += [f"  {line}" for line in plan.lines]
    tallies = manifests[ITEMS]["counts"]["tallies"]
    for title, tally in tallies.items():
        if title != exclusions.TALLY:
            lines += summary.tally_lines(title, tally)
    matched = {**plan.matched, **tallies.get(exclusions.TALLY, {})}
    return Manifest(manifests, [*lines, *summary.exclusion_lines(excluded, matched)])


def _write_rejects(folder: str, rejects: Iterator[Reject]) -> str:
    """Write the rejects to `folder`/rejects.csv for people, and return its place; empty and no file without rejects."""
    place, file = locations.join(folder, REJECTED_ROWS), io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["line", "reason", "problem", "row"])
    n = 0
    for n, reject in enumerate(rejects, start=1):  # noqa: B007
        texts = (reject.reason, reject.message, reject.raw or "")
        writer.writerow([reject.position, *map(escape_cell, texts)])
    if not n:
        locations.remove([place])
        return ""
    locations.replace(place, f"\ufeff{file.getvalue()}".encode())  # a byte-order mark, for spreadsheet programs
    return place


def _table_plan(cfg: Writing, plan: ItemsPlan, name: str, excluded: Exclusions) -> TablePlan:
    units: Sequence[Unit] = plan.units
    if name in plan.own_units:
        units = [replace(unit, name=_name(plan, name, unit)) for unit in plan.units]
    metadata = {**plan.metadata, **({"condition": plan.condition} if plan.condition else {})}
    return TablePlan(
        out=locations.join(locations.absolute(cfg.out), name),
        table=name,
        identity={**plan.identity, "condition": plan.condition, **exclusions.identity(excluded)},
        units=units,
        config=asdict(cfg),
        metadata=metadata if name == ITEMS else {},
        derived=plan.derived,
        limit=plan.limit,
    )


def _name(plan: ItemsPlan, table: str, unit: Unit) -> str:
    return f"{table}-{unit.name}" if table in plan.own_units else unit.name


def _fill(writer: UnitWriter, name: str, rows: UnitRows) -> None:
    """Write a unit's rows of one table with the counts; rejects go with the items."""
    writer.write(rows.tables[name])
    writer.counts.rows_in = rows.tables[name].num_rows
    if name != ITEMS:
        return
    writer.counts.rows_in = rows.rows_in
    writer.counts.filtered = Counter(rows.filtered)
    for reject in rows.rejects:
        writer.reject(reject)
    for tally, counts in rows.tallies.items():
        writer.counts.tallies[tally] = dict(counts)
