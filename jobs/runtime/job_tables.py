"""The tables that jobs write: their plans, and small tables that the driver writes at once."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.ids import content_id
from jobs.errors import InputError
from jobs.runtime.configuration.config import Writing
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.identity import ROWS_HASH, UNITS_HASH, identity_hash, identity_of
from jobs.store.run_files import identity_at
from jobs.store.runs.table_run import open_run, survey
from jobs.store.table_plan import RowLimit, TablePlan
from jobs.store.units import LIMIT, Unit
from jobs.store.writer import Reject, UnitWriter
from jobs.tables import TABLES


def plan_table(
    cfg: Writing,
    table: str,
    units: Sequence[Unit],
    entries: Mapping[str, Any],
    *,
    base: type | None = None,
    instead_of: Collection[str] = (),
    excluded: Exclusions | None = None,
    out: str = "",
    metadata: Mapping[str, str] | None = None,
    derived: bool = True,
    **others: Any,
) -> TablePlan:
    """Return the plan of a table of a job.

    Args:
        entries, base, instead_of: what the identity has besides the keys (`jobs.store.identity.identity_of`).
        excluded: the list of exclusions, if it changes the rows.
        out: the place of the table; empty: that of the key `out`.
        metadata, derived, others: as in `jobs.store.table_plan.TablePlan`.
    """
    return TablePlan(
        out=out or cfg.out,
        table=table,
        identity={
            **identity_of(cfg, entries, base=base, instead_of=instead_of),
            **(exclusions.identity(excluded) if excluded is not None else {}),
        },
        units=units,
        config=asdict(cfg),
        metadata=dict(metadata or {}),
        derived=derived,
        **others,
    )


def write_rows(
    cfg: Any,
    table: str,
    rows: pa.Table | Sequence[Mapping[str, Any]],
    identity: Mapping[str, Any],
    *,
    excluded: Exclusions | None = None,
    below: str = "",
    **others: Any,
) -> dict[str, Any]:
    """Write a small table of a job at once, replacing an earlier one, and return its manifest with its place (`out`).

    A hash of the rows is in the identity: a key that is missing in `identity` changes it, if it changes rows.

    Args:
        cfg: the job's configuration, with the key `out`.
        rows: an Arrow table, or rows with the table's columns.
        excluded: the list of exclusions, if it is part of the identity.
        below: the table's folder below `out`; empty: `out` itself.
        others: as in `write_small`.
    """
    return write_small(
        locations.join(locations.absolute(cfg.out), below) if below else cfg.out,
        rows if isinstance(rows, pa.Table) else schemas.to_table(rows, TABLES[table].schema()),
        table=table,
        identity={**identity, **(exclusions.identity(excluded) if excluded is not None else {})},
        config=asdict(cfg),
        **others,
    )


UNIT_ROWS = 256
# Tables that models read: as one unit, all rows would be the work of one GPU and would be lost together.
BOUNDED = ("items", "texts", "records")


def write_small(
    out: str,
    rows: pa.Table,
    *,
    table: str,
    identity: Mapping[str, Any],
    config: dict[str, Any],
    inputs: tuple[Object, ...] = (),
    unit_rows: int | None = None,
    metadata: Mapping[str, str] | None = None,
    rejects: Sequence[Reject] = (),
    limit: RowLimit | None = None,
    only_checks: bool = False,
) -> dict[str, Any]:
    """Write `rows` as the table at `out`, replacing one that an earlier call wrote there, and return the manifest.

    A table that already has these rows, identity and inputs is left as it is, so that later steps have nothing to do
    either.

    Args:
        unit_rows: rows per unit, which jobs distribute and resume; None: `UNIT_ROWS` for a table that models read
            (`BOUNDED`), all rows for others.
        metadata: strings for the footers of its objects.
        rejects: parts of the input that could not become a row; they are stored with the first unit.
        limit: how many rows of the input were read; part of the identity. None: all.
        only_checks: raise what writing would raise, write nothing, and return an empty manifest.

    Raises:
        InputError: the place has something other than a table of remine.
    """
    unit_rows = unit_rows or (UNIT_ROWS if table in BOUNDED else None)
    starts = range(0, max(rows.num_rows, 1), unit_rows or max(rows.num_rows, 1))
    name = content_id(table, *(source.uri for source in inputs))
    parts = {
        name if len(starts) == 1 else f"{name}-{number:09}": rows.slice(start, unit_rows)
        for number, start in enumerate(starts)
    }
    units = [
        Unit(unit, inputs, piece=unit.removeprefix(name).removeprefix("-") or "whole", rows=part.num_rows)
        for unit, part in parts.items()
    ]
    plan = TablePlan(
        out=out,
        table=table,
        identity={
            **identity,
            **({LIMIT: limit.limit} if limit else {}),
            ROWS_HASH: _hash(rows),
            UNITS_HASH: content_id(*parts),
        },
        units=units,
        config=config,
        metadata=dict(metadata or {}),
        derived=bool(inputs),
        limit=limit,
    )
    same = _is_at(locations.absolute(out), plan)
    if only_checks:
        survey(plan, resume=same, overwrite=not same)
        return {}
    run = open_run(plan, resume=same, overwrite=not same, retry=[])
    for task in run.todo:
        kept = rejects if task.unit.name == units[0].name else ()
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = parts[task.unit.name].num_rows + len(kept)
            for reject in kept:
                writer.reject(reject)
            writer.write(parts[task.unit.name])
    return {**run.finish(), "out": run.target.out}


def _is_at(out: str, plan: TablePlan) -> bool:
    """Return whether the table at `out` has the identity of the plan; False if that cannot be read."""
    try:
        return identity_at(out, locations.listing(out)) == identity_hash(plan.identity)
    except InputError:
        return False


def _hash(rows: pa.Table) -> str:
    """Return the SHA-256 of the rows, in hexadecimal."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks())
    return hashlib.sha256(sink.getvalue()).hexdigest()
