"""The records whose pictures are fetched, cut into units of bounded size, with each picture only once.

A unit of `images` covers at most `unit_rows` rows of a unit of the records: a killed worker loses at most that much.
The footer names the records' unit and the range of rows (`extra`: `parent`, `from`, `to`), by which tables are joined
(`jobs.store.units.Unit.parent`). A unit that covers all rows of its parent keeps the parent's name. A table that has
begun keeps the names of its units (`jobs.store.pieces`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from jobs.corpora import repeats
from jobs.store.files.compact_list import CompactList
from jobs.store.object_rows import read_rows
from jobs.store.pieces import FROM, NUMBER, PIECES, TO, UNCUT, BegunCut, ranges
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit

UNIT_ROWS = 256  # records per unit, as in the units of `curate`


@dataclass(frozen=True)
class RecordsInput:
    """A table of records, cut into the units of `images`."""

    table: TableSource
    units: Sequence[Unit]
    unit_rows: int
    repeated: Mapping[str, np.ndarray]  # unit of the records -> bool per row: repeats a picture

    @property
    def note(self) -> str:
        """A line of the printed plan."""
        return f"{sum(int(marks.sum()) for marks in self.repeated.values()):,} records repeat a picture"

    def keep_repeats(self, run: TableRun) -> str | None:
        """Store which records repeat a picture, for the workers; return the URI, or None if no record does."""
        return run.keep(repeats.FILE, repeats.encoded(self.repeated)) if self.repeated else None


def open_records(uri: str, unit_rows: int | None, begun: Mapping[str, BegunCut]) -> RecordsInput:
    """Open the table of records at `uri` and cut it into units of `unit_rows` (None: `UNIT_ROWS`), as `cut` does.

    Raises:
        InputError: the table cannot be opened, or a record has no image_id.
    """
    table, unit_rows = open_table(uri, "records"), unit_rows or UNIT_ROWS
    repeated = repeats.find(table)
    return RecordsInput(table, CompactList(cut(table.units(), repeated, unit_rows, begun)), unit_rows, repeated)


def cut(
    parents: Sequence[Unit], repeated: Mapping[str, np.ndarray], unit_rows: int, begun: Mapping[str, BegunCut]
) -> Iterator[Unit]:
    """Yield units of at most `unit_rows` rows, in the order of the records; a parent without rows gives one unit.

    A unit's version covers which of its rows repeat an earlier picture: if that changes, the unit is fetched again.

    Args:
        begun: how the parents were cut in the table that is continued.
    """
    for parent in parents:
        rows, before = parent.rows or 0, begun.get(parent.name, UNCUT)
        pieces = list(ranges(rows, unit_rows, before))
        for number, (first, last) in enumerate(pieces):
            whole = (first, last) == (0, rows)
            marks = repeated[parent.name][first:last] if parent.name in repeated else np.zeros(0, bool)
            count = int(marks.sum())
            version = ([] if whole else [f"rows {first}-{last}"]) + ([repeats.fingerprint(marks)] if count else [])
            yield replace(
                parent,
                name=before.name(number, parent.name if whole else f"{parent.name}-{first:09}", rows=last - first),
                piece=", ".join(version) or parent.piece,
                rows=last - first - count,
                extra={"parent": parent.name, FROM: first, TO: last, PIECES: len(pieces), NUMBER: number}
                | ({"filtered": {repeats.FILTER: count}} if count else {}),
            )


def read_records(unit: Unit, columns: Sequence[str], repeated: str | None) -> pa.Table:
    """Return the rows of a unit of `cut` without those that repeat an earlier picture.

    Args:
        columns: the columns to read.
        repeated: the result of `RecordsInput.keep_repeats`.
    """
    first, last = unit.extra[FROM], unit.extra[TO]
    rows = read_rows(unit.inputs[0].uri, columns, first, last)
    return repeats.without(rows, repeated, unit.parent, first=first)
