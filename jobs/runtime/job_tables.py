"""The tables that jobs write: their plans, and small tables that the driver writes at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from actors import schemas
from jobs.runtime.configuration.config import Writing
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.files import locations
from jobs.store.identity import identity_of
from jobs.store.runs.small_table import write_small
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
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
        others: as in `jobs.store.runs.small_table.write_small`.
    """
    return write_small(
        locations.join(locations.absolute(cfg.out), below) if below else cfg.out,
        rows if isinstance(rows, pa.Table) else schemas.to_table(rows, TABLES[table].schema()),
        table=table,
        identity={**identity, **(exclusions.identity(excluded) if excluded is not None else {})},
        config=asdict(cfg),
        **others,
    )
