"""Small tables that a driver writes as one unit, replacing an earlier one."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from jobs.store.objects import Object
from jobs.store.run import TablePlan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter


def write_small(
    out: str,
    rows: pa.Table,
    *,
    table: str,
    identity: Mapping[str, Any],
    config: dict[str, Any],
    inputs: tuple[Object, ...] = (),
) -> dict[str, Any]:
    """Write `rows` as the table at `out`, replacing what an earlier call wrote there; returns the manifest.

    Raises:
        InputError: the place holds something other than a table of remine.
    """
    unit = Unit(content_id(table, *(source.uri for source in inputs)), inputs, rows=rows.num_rows)
    plan = TablePlan(
        out=out, table=table, identity=dict(identity), units=[unit], config=config, metadata={}, derived=bool(inputs)
    )
    run = open_run(plan, resume=False, overwrite=True, retry=[])
    with UnitWriter(run.target, run.todo[0]) as writer:
        writer.counts.rows_in = rows.num_rows
        writer.write(rows)
    return {**run.finish(), "out": run.target.out}
