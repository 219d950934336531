"""The tables that jobs write: their plans, and jobs whose driver writes a table unit by unit or at once."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from jobs.runtime.configuration.config import Writing
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.identity import identity_of
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit


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
