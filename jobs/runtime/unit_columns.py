"""Columns that rows have between the stages, in addition to their own; the sink removes them.

`UNIT_COLUMNS` are the same in all rows of a unit.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

TASK = "_task"  # the unit and what to do with it, as JSON
EXPECTED_ROWS = "_expected_rows"  # rows of the whole unit when it is written
EXCLUDED = "_excluded"  # JSON of the matches of the unit's rows with the list of exclusions
BEGUN = "_begun"  # Unix time at which the unit was read
UNIT_COLUMNS = (TASK, EXPECTED_ROWS, EXCLUDED, BEGUN)  # each row keeps them through all stages
TALLY = "_tally"  # counts of actors, as "group/key" -> n; stored in the unit's footer


def spread_tallies(batch: pa.Table, counts: Sequence[int], tally: Mapping[str, int]) -> pa.Array:
    """Return column TALLY: tallies of earlier stages stay with their rows; the first row gets those of this stage.

    Tallies of an item without rows are kept by the next item that has some, or by the last row.
    """
    tallies: list[list[tuple[str, int]]] = [[] for _ in range(sum(counts))]
    row = 0
    earlier = batch[TALLY].to_pylist() if TALLY in batch.column_names else [None] * batch.num_rows
    for entries, count in zip(earlier, counts, strict=True):
        if entries and tallies:
            tallies[min(row, len(tallies) - 1)] += entries
        row += count
    if tallies:
        tallies[0] += tally.items()
    return pa.array([entries or None for entries in tallies], pa.map_(pa.string(), pa.int64()))


def sum_tallies(rows: pa.Table) -> dict[str, dict[str, int]]:
    """Return the sums of column TALLY by group and key."""
    sums: dict[str, dict[str, int]] = {}
    for entries in rows[TALLY].drop_null().to_pylist() if TALLY in rows.column_names else ():
        for name, n in entries:
            group, _, key = name.partition("/")
            tally = sums.setdefault(group, {})
            tally[key] = tally.get(key, 0) + n
    return sums
