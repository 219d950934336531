"""Units of the curated table: pieces of the parent's units, and the rows that are copied into them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from actors.ids import content_id
from jobs.curation import curation_steps
from jobs.curation.apply_rules import Selection
from jobs.curation.record_arrays import CREDIT, PART
from jobs.runtime.tasks import Tasks
from jobs.store import run_files
from jobs.store.counts import Counts
from jobs.store.files import locations
from jobs.store.footers import read_footer
from jobs.store.object_rows import open_rows, reading_rows
from jobs.store.reading import TableSource
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask, UnitWriter

ROWS_AT_A_TIME = 1000  # selected rows in memory before they are written: a few MB of article text


def begun_pieces(out: str) -> dict[str, int]:
    """Return the number of pieces of each of the parent's units in the table at `out`; empty without a table.

    Raises:
        InputError: the list of its units is damaged, or cannot be read.
    """
    return dict(Counter(unit.parent for unit in run_files.begun_units(out)))


def pieces(
    parent: TableSource, selection: Selection, unit_rows: int, *, begun: Mapping[str, int] | None = None
) -> Iterator[Unit]:
    """Yield each unit of the parent in pieces of `unit_rows` selected rows, in order; at least one piece per unit.

    A piece's version covers the decisions about its rows: if another unit of the parent, the images or the ratings
    change, only pieces whose rows are decided differently are rewritten.

    Args:
        begun: unit of the parent -> the number of its pieces in a table that has begun, which it keeps: after a purge
            there are fewer rows, and the last pieces may be empty.
    """
    begun = begun or {}
    offset = 0
    is_selected = selection.decision.rule == 0
    for unit in parent.units():
        rows = unit.rows or 0
        selected = np.flatnonzero(is_selected[offset : offset + rows])
        ends = [int(row) + 1 for row in selected[unit_rows - 1 :: unit_rows]]
        if not ends or ends[-1] < rows:
            ends.append(rows)
        count = begun.get(unit.name, len(ends))
        ends = ends[: count - 1]
        ends += [rows] * (count - len(ends))
        for number, (first, last) in enumerate(zip([0, *ends], ends, strict=False)):
            yield replace(
                unit,
                name=content_id(unit.name, f"piece {number}"),
                piece=f"rows {first}-{last}, {selection.fingerprint(offset + first, offset + last)}",
                rows=last - first,
                extra={"from": first, "to": last, "offset": offset, "number": number, "parent": unit.name},
            )
        offset += rows


def earlier_steps(piece: Unit, names: Collection[str]) -> curation_steps.Tallies:
    """Return the tallies of earlier selections: those of the parent's unit for its first piece, else empty ones.

    Args:
        names: the names of these tallies, which each unit has.
    """
    if piece.extra["number"] or not names:
        return {name: {} for name in names}
    footer = read_footer(piece.inputs[0])
    return curation_steps.selections(footer.counts.tallies) if footer else {}


@dataclass(frozen=True)
class _DecidedPiece:
    """A piece that is left to do, and the decisions about its rows.

    Attributes:
        is_selected: bool [rows].
        credits: the credited method of each selected row.
        counts: of its footer.
    """

    task: UnitTask
    is_selected: np.ndarray
    credits: pa.Array
    counts: Counts


def write_pieces(run: TableRun, selection: Selection, earlier: Collection[str], *, tasks: Tasks) -> None:
    """Copy the selected rows into the pieces that are left to do, with their credits and the counts of each piece.

    Args:
        earlier: the names of the parent's tallies of selections.
        tasks: where the rows are copied.
    """
    for _ in tasks.map(_copy, ((part,) for part in _parts(run.todo, selection, earlier)), shared=(run.target,)):
        pass


def _parts(todo: Iterable[UnitTask], selection: Selection, earlier: Collection[str]) -> Iterator[list[_DecidedPiece]]:
    """Yield the pieces left to do, those of one object of the parent together up to `PART` rows."""
    is_selected = selection.decision.rule == 0
    part: list[_DecidedPiece] = []
    for task in todo:
        unit = task.unit
        first, last = (unit.extra["offset"] + unit.extra[key] for key in ("from", "to"))
        if part and (part[0].task.unit.inputs != unit.inputs or sum(len(piece.is_selected) for piece in part) >= PART):
            yield part
            part = []
        counts = curation_steps.counts_of(selection, first, last, earlier_steps(unit, earlier))
        part.append(_DecidedPiece(task, is_selected[first:last], selection.credits(first, last), counts))
    if part:
        yield part


def _copy(target: Target, part: Sequence[_DecidedPiece]) -> None:
    """Write pieces of one object of the parent."""
    with closing(ParentRows()) as parent:
        for piece in part:
            unit = piece.task.unit
            with UnitWriter(target, piece.task) as writer:
                writer.counts.rows_in, writer.counts.filtered = piece.counts.rows_in, piece.counts.filtered
                writer.counts.tallies = piece.counts.tallies
                credits = piece.credits
                for rows in parent.selected(unit.inputs[0].uri, unit.extra["from"], piece.is_selected):
                    place = rows.column_names.index(CREDIT)
                    writer.write(rows.set_column(place, CREDIT, credits[: rows.num_rows]))
                    credits = credits[rows.num_rows :]


class ParentRows:
    """Reads rows of the parent's objects by row group; successive pieces share the last group that was read."""

    def __init__(self) -> None:
        self._uri, self._group = "", -1
        self._file: pq.ParquetFile | None = None
        self._rows = pa.table({})

    def selected(self, uri: str, first: int, is_selected: np.ndarray) -> Iterator[pa.Table]:
        """Yield the selected rows from row `first` on (`is_selected`: bool [rows]); skips row groups without any."""
        file = self._open(uri)
        buffer: list[pa.Table] = []
        begin = 0
        for group in range(file.num_row_groups):
            end = begin + file.metadata.row_group(group).num_rows
            low, high = max(begin, first), min(end, first + len(is_selected))
            if low < high and (mask := is_selected[low - first : high - first]).any():
                buffer.append(self._read(group).slice(low - begin, high - low).filter(pa.array(mask)))
            if sum(rows.num_rows for rows in buffer) >= ROWS_AT_A_TIME:
                yield pa.concat_tables(buffer)
                buffer = []
            begin = end
        if buffer:
            yield pa.concat_tables(buffer)

    def close(self) -> None:
        """Close the open file, if any."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, uri: str) -> pq.ParquetFile:
        if uri != self._uri or self._file is None:
            self.close()
            fs, path = locations.filesystem(uri)
            with reading_rows(uri):
                self._file, self._uri, self._group = open_rows(uri, fs.open_input_file(path)), uri, -1
        return self._file

    def _read(self, group: int) -> pa.Table:
        if group != self._group:
            assert self._file is not None
            with reading_rows(self._uri):
                self._rows, self._group = self._file.read_row_group(group).replace_schema_metadata(None), group
        return self._rows
