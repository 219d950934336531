"""Reading the vectors of a work unit: blocks of rows that satisfy the condition, and the ids of the few that win."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from actors.errors import first_line
from actors.status import Status
from jobs.corpora.arrays import Matrix, blocks_of, find_matrix
from jobs.corpora.embeddings import Part, columns_to_ask, parts_of
from jobs.corpora.where import Where, parse_where
from jobs.errors import InputError
from jobs.runtime.exclusions import Barred
from jobs.store import locations
from jobs.store.units import Unit

T = TypeVar("T")


@dataclass(frozen=True)
class VectorLayout:
    """How vectors are read; travels to the workers."""

    table: bool  # a table `embeddings`, else arrays
    array: str | None = None  # member of .npz files
    id: str | None = None  # column that is the item_id
    where: str | None = None


class VectorBlock(NamedTuple):
    """Vectors [n, dim] and their places among the unit's rows [n] int64, ascending."""

    vectors: np.ndarray
    places: np.ndarray


class UnitVectors:
    """The vectors of one unit. Rows are numbered through its parts, from 0.

    After `blocks` is exhausted, `counts` has every row of the unit under one word: `searched`, or why not
    (`where`, `excluded`, or a row's status).
    """

    def __init__(self, unit: Unit, layout: VectorLayout, *, barred: Barred | None = None) -> None:
        self._unit, self._layout = unit, layout
        self._barred = barred or None
        self._parts = parts_of(unit)
        sizes = [part.last - part.first for part in self._parts]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.counts: Counter[str] = Counter()

    def blocks(self, rows: int) -> Iterator[VectorBlock]:
        """All rows to be searched, at most `rows` at a time; the next block is read while one is worked on."""
        for part, start in zip(self._parts, self._starts.tolist(), strict=False):
            wanted = self._wanted(part)
            read = self._from_table if self._layout.table else self._from_array
            for first, vectors in read(part, wanted, rows):
                if wanted is None:
                    places = np.arange(first, first + len(vectors), dtype=np.int64)
                else:
                    inside = np.flatnonzero(wanted[first - part.first : first - part.first + len(vectors)])
                    if not len(inside):
                        continue
                    places = first + inside
                self.counts["searched"] += len(places)
                kept = vectors if len(places) == len(vectors) else vectors[places - first]
                yield VectorBlock(kept, places - part.first + start)

    def source(self, place: int) -> tuple[str, int]:
        """File and row of a place in the unit."""
        number = int(np.searchsorted(self._starts, place, "right")) - 1
        part = self._parts[number]
        return self._unit.inputs[part.vectors].uri, part.first + place - int(self._starts[number])

    def ids(self, places: np.ndarray) -> list[str]:
        """The item ids of rows, in their order."""
        found = np.empty(len(places), object)
        of = np.searchsorted(self._starts, places, "right") - 1
        for number in np.unique(of).tolist():
            mine = np.flatnonzero(of == number)
            part = self._parts[number]
            found[mine] = self._part_ids(part, places[mine] - self._starts[number] + part.first)
        ids: list[str] = found.tolist()
        return ids

    def _part_ids(self, part: Part, rows: np.ndarray) -> list[str]:
        column = "item_id" if self._layout.table else self._layout.id
        distinct, back = np.unique(rows, return_inverse=True)
        if column is None or part.meta < 0:
            ids = self._hashes(part, distinct)
        else:
            ids = _rows_of_column(self._unit.inputs[part.meta].uri, column, distinct)
            if unnamed := [n for n, one in enumerate(ids) if one is None]:
                for n, made in zip(unnamed, self._hashes(part, distinct[unnamed]), strict=True):
                    ids[n] = made
        return [str(ids[n]) for n in back.tolist()]

    def _hashes(self, part: Part, rows: np.ndarray) -> list[str | None]:
        """Ids from what the vectors are: of a row without a name there is nothing else."""
        uri = self._unit.inputs[part.vectors].uri
        with blocks_of(uri, find_matrix(uri, array=self._layout.array), [(r, r + 1) for r in rows.tolist()]) as found:
            return [hashlib.sha256(vector.tobytes()).hexdigest()[:32] for vector in found]

    def _wanted(self, part: Part) -> np.ndarray | None:
        """Which rows of the part are to be searched, [rows] bool; None: all, as nothing was asked."""
        layout = self._layout
        ids = "item_id" if layout.table else layout.id
        asked = layout.table or layout.where is not None or (self._barred is not None and ids is not None)
        if part.meta < 0 or not asked:
            return None
        masks = []
        with _parquet(self._unit.inputs[part.meta].uri) as file:
            where = parse_where(layout.where, columns_to_ask(file.schema_arrow)) if layout.where else None
            columns = [*(where.columns if where else ()), *(["status"] if layout.table else [])]
            if self._barred is not None and ids is not None:
                columns.append(ids)
            for first, rows in _groups(file, list(dict.fromkeys(columns)), part.first, part.last):
                masks.append(self._mask(rows, where, ids))
                assert len(masks[-1]) == rows.num_rows, first
        return np.concatenate(masks) if masks else np.zeros(0, bool)

    def _mask(self, rows: pa.Table, where: Where | None, ids: str | None) -> np.ndarray:
        """Which of these rows are to be searched; the others are counted by what they fail at first."""
        keep = np.ones(rows.num_rows, bool)
        if self._layout.table:
            for word in pc.value_counts(rows["status"]).to_pylist():
                if word["values"] != Status.OK:
                    self.counts[str(word["values"])] += word["counts"]
            keep &= _plain(pc.equal(rows["status"], Status.OK.value))
        if self._barred is not None and ids is not None:
            out = self._barred.mask(rows[ids])
            self.counts["excluded"] += int((keep & out).sum())
            keep &= ~out
        if where is not None:
            passed = _plain(ds.dataset(rows).to_table(columns={"passed": where.expression})["passed"])
            self.counts["where"] += int((keep & ~passed).sum())
            keep &= passed
        return keep

    def _from_array(self, part: Part, wanted: np.ndarray | None, rows: int) -> Iterator[tuple[int, np.ndarray]]:
        ranges = [(at, min(at + rows, part.last)) for at in range(part.first, part.last, rows)]
        if wanted is not None:
            ranges = [(a, b) for a, b in ranges if wanted[a - part.first : b - part.first].any()]
        uri = self._unit.inputs[part.vectors].uri
        matrix: Matrix = find_matrix(uri, array=self._layout.array)
        with blocks_of(uri, matrix, ranges) as found:
            mapped = matrix.offset is not None and not locations.is_s3(uri)
            read = zip((first for first, _ in ranges), found, strict=True)
            yield from read if mapped else _ahead(read)

    def _from_table(self, part: Part, wanted: np.ndarray | None, rows: int) -> Iterator[tuple[int, np.ndarray]]:
        assert wanted is not None
        with _parquet(self._unit.inputs[part.vectors].uri) as file:
            groups = _groups(file, ["embedding"], part.first, part.last, wanted=wanted)
            for first, table in _ahead(groups):
                at = first
                for chunk in table["embedding"].chunks:
                    vectors = matrix_of(chunk)
                    for begin in range(0, len(vectors), rows):
                        yield at + begin, vectors[begin : begin + rows]
                    at += len(vectors)


def matrix_of(vectors: pa.FixedSizeListArray) -> np.ndarray:
    """[n, dim]; what stands in the row of a null means nothing."""
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size)  # flatten() would leave out the nulls
    return values.to_numpy(zero_copy_only=False).reshape(-1, size)


def _plain(mask: Any) -> np.ndarray:
    """An Arrow mask as bool [n]; null is no."""
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), bool)


@contextmanager
def _parquet(uri: str) -> Iterator[pq.ParquetFile]:
    """An open file. Raises InputError that names it, for what is found out while it is read."""
    fs, path = locations.filesystem(uri)
    try:
        with (
            locations.named_errors(uri),
            fs.open_input_file(path) as stream,
            pq.ParquetFile(stream, pre_buffer=locations.is_s3(uri)) as file,
        ):
            yield file
    except pa.ArrowException as error:
        raise InputError(f"{uri}: cannot be read ({first_line(error)})") from error


def _groups(
    file: pq.ParquetFile, columns: Sequence[str], first: int, last: int, *, wanted: np.ndarray | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """The rows from `first` to `last` a row group at a time, each with its first row's number; unwanted are skipped."""
    start = 0
    for group in range(file.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        begin, stop = max(first, start), min(last, end)
        if begin < stop and (wanted is None or wanted[begin - first : stop - first].any()):
            rows = file.read_row_group(group, columns=list(columns))
            yield begin, rows.slice(begin - start, stop - begin)
        start = end


def _rows_of_column(uri: str, column: str, rows: np.ndarray) -> list[str | None]:
    """Values of a column as strings, for ascending row numbers."""
    found: list[str | None] = []
    with _parquet(uri) as file:
        start = 0
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            mine = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if len(mine):
                values = file.read_row_group(group, columns=[column])[column].take(pa.array(mine - start))
                try:
                    found += values.cast(pa.string()).to_pylist()
                except pa.ArrowInvalid as error:  # bytes that are no UTF-8
                    raise InputError(f"{uri}: column {column} is {values.type} and no text") from error
            start = end
    return found


def _ahead(source: Iterable[T]) -> Iterator[T]:
    """The same, the next one being made in a thread while one is worked on."""
    iterator = iter(source)
    done = object()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, iterator, done)
        while (one := coming.result()) is not done:
            coming = pool.submit(next, iterator, done)
            yield one  # type: ignore[misc]
