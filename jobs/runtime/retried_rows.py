"""The rows of a unit after a retry: those that were written, with the ones that were done again in their places."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import RunError
from jobs.runtime.stage_contract import ITEM
from jobs.store.writer import UnitTask


def merge_retried(written: pa.Table, redone: pa.Table, key: Sequence[str], task: UnitTask) -> pa.Table:
    """Return `written`, in its order, with the rows of retried statuses replaced by those of `redone` with their keys.

    Raises:
        RunError: `redone` lacks a row.
    """
    row_of = {values: row for row, values in enumerate(zip(*(redone[name].to_pylist() for name in key), strict=True))}
    keys = list(zip(*(written[name].to_pylist() for name in key), strict=True))
    retried = [status in task.retry for status in written["status"].to_pylist()]
    if lost := [values for values, again in zip(keys, retried, strict=True) if again and values not in row_of]:
        raise RunError(f"unit {task.unit.name}: the retry returned no row for {lost[0]}")
    both = pa.concat_tables([written, redone.select(written.column_names).cast(written.schema)])
    order = [
        written.num_rows + row_of[values] if again else row
        for row, (values, again) in enumerate(zip(keys, retried, strict=True))
    ]
    return both.take(pa.array(order, pa.int64()))


def replace_items(written: pa.Table, redone: pa.Table) -> pa.Table:
    """Return `written` with the rows of each item in `redone` replaced, at the item's place."""
    place = {item: number for number, item in enumerate(dict.fromkeys(written[ITEM].to_pylist()))}
    kept = written.filter(pc.invert(pc.is_in(written[ITEM], redone[ITEM].combine_chunks())))
    both = pa.concat_tables([kept, redone.select(written.column_names).cast(written.schema)])
    places = pa.array([place[item] for item in both[ITEM].to_pylist()], pa.int64())
    return both.take(pa.array(np.argsort(places.to_numpy(), kind="stable")))
