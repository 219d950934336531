"""Reader of a work unit's vectors: blocks of rows that satisfy the condition, and the ids of individual rows."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.errors import first_line
from actors.status import Status
from jobs.corpora.arrays import Matrix, blocks_of, find_matrix
from jobs.corpora.cell_texts import column_texts
from jobs.corpora.where import Where, parse_where, passed
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.units import Unit

if TYPE_CHECKING:
    from jobs.runtime.selection.exclusions import ExclusionFilter

T = TypeVar("T")
FITTED = 5000  # vectors that determine the axes of a map
LEAST_ON_MAP = 3  # fewest pictures of a map


@dataclass(frozen=True)
class VectorLayout:
    """Settings for reading the vectors of a corpus; sent to the workers."""

    table: bool  # a table `embeddings`, else arrays
    array: str | None = None  # member of .npz files
    id: str | None = None  # column with the item_id
    where: str | None = None  # condition on columns


NOT_IN_CONDITIONS = ("embedding", "error_kind", "error_message")  # columns of a table


def condition_columns(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a condition may use."""
    return pa.schema([column for column in schema if column.name not in NOT_IN_CONDITIONS])


class Part(NamedTuple):
    """Rows `first` to `last` (exclusive) of a file of vectors.

    `vectors` and `meta` are the indices of the files among the unit's inputs; `meta` is -1 without a Parquet file.
    """

    vectors: int
    meta: int
    first: int
    last: int


def parts_of(unit: Unit) -> list[Part]:
    """Return the parts of files in a unit."""
    return [Part(*part) for part in unit.extra["parts"]]


class VectorBlock(NamedTuple):
    """Vectors [n, dim], and the numbers [n] int64 of their rows in the unit, ascending."""

    vectors: np.ndarray
    places: np.ndarray


class UnitVectors:
    """The vectors of a unit, whose rows are numbered from 0 across all its parts.

    After `blocks` is exhausted, `counts` contains each row of the unit once: as `searched`, or under the reason why it
    is not searched (`where`, `excluded`, or its status).
    """

    def __init__(self, unit: Unit, layout: VectorLayout, *, exclusion_filter: "ExclusionFilter | None" = None) -> None:
        self._unit, self._layout = unit, layout
        self._exclusion_filter = exclusion_filter or None
        self._parts = parts_of(unit)
        sizes = [part.last - part.first for part in self._parts]
        self._starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.counts: Counter[str] = Counter()

    def blocks(self, rows: int) -> Iterator[VectorBlock]:
        """Yield the rows to search, at most `rows` at a time; reads one block while the caller uses the one before."""
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
        """Return the file of one of the unit's rows, and the row's number in that file."""
        number = int(np.searchsorted(self._starts, place, "right")) - 1
        part = self._parts[number]
        return self._unit.inputs[part.vectors].uri, part.first + place - int(self._starts[number])

    def ids(self, places: np.ndarray) -> list[str]:
        """Return the item ids of rows, in the order of `places`."""
        ids = np.empty(len(places), object)
        numbers = np.searchsorted(self._starts, places, "right") - 1
        for number in np.unique(numbers).tolist():
            inside = np.flatnonzero(numbers == number)
            part = self._parts[number]
            ids[inside] = self._part_ids(part, places[inside] - self._starts[number] + part.first)
        names: list[str] = ids.tolist()
        return names

    def _part_ids(self, part: Part, rows: np.ndarray) -> list[str]:
        column = "item_id" if self._layout.table else self._layout.id
        distinct, inverse = np.unique(rows, return_inverse=True)
        if column is None or part.meta < 0:
            ids = self._hashes(part, distinct)
        else:
            ids = _rows_of_column(self._unit.inputs[part.meta].uri, column, distinct)
            if unnamed := [n for n, name in enumerate(ids) if name is None]:
                for n, vector_hash in zip(unnamed, self._hashes(part, distinct[unnamed]), strict=True):
                    ids[n] = vector_hash
        return [str(ids[n]) for n in inverse.tolist()]

    def _hashes(self, part: Part, rows: np.ndarray) -> list[str | None]:
        """Return hashes of vectors, which are the ids of rows without a column of ids."""
        uri = self._unit.inputs[part.vectors].uri
        with blocks_of(uri, find_matrix(uri, array=self._layout.array), [(r, r + 1) for r in rows.tolist()]) as vectors:
            return [hashlib.sha256(vector.tobytes()).hexdigest()[:32] for vector in vectors]

    def _wanted(self, part: Part) -> np.ndarray | None:
        """Return which rows of the part are searched, bool [rows]; None if there is no condition: all."""
        layout = self._layout
        ids = "item_id" if layout.table else layout.id
        conditional = (
            layout.table or layout.where is not None or (self._exclusion_filter is not None and ids is not None)
        )
        if part.meta < 0 or not conditional:
            return None
        masks = []
        with _parquet(self._unit.inputs[part.meta].uri) as file:
            where = parse_where(layout.where, condition_columns(file.schema_arrow)) if layout.where else None
            columns = [*(where.columns if where else ()), *(["status"] if layout.table else [])]
            if self._exclusion_filter is not None and ids is not None:
                columns.append(ids)
            for first, rows in _groups(file, list(dict.fromkeys(columns)), part.first, part.last):
                masks.append(self._mask(rows, where, ids))
                assert len(masks[-1]) == rows.num_rows, first
        return np.concatenate(masks) if masks else np.zeros(0, bool)

    def _mask(self, rows: pa.Table, where: Where | None, ids: str | None) -> np.ndarray:
        """Return bool [rows], which rows are searched; count the others under the first condition that they fail."""
        keep = np.ones(rows.num_rows, bool)
        if self._layout.table:
            for entry in pc.value_counts(rows["status"]).to_pylist():
                if entry["values"] != Status.OK:
                    self.counts[str(entry["values"])] += entry["counts"]
            keep &= _as_bool(pc.equal(rows["status"], Status.OK.value))
        if self._exclusion_filter is not None and ids is not None:
            excluded = self._exclusion_filter.mask(rows[ids])
            self.counts["excluded"] += int((keep & excluded).sum())
            keep &= ~excluded
        if where is not None:
            selected = _as_bool(passed(rows, where.expression))
            self.counts["where"] += int((keep & ~selected).sum())
            keep &= selected
        return keep

    def _from_array(self, part: Part, wanted: np.ndarray | None, rows: int) -> Iterator[tuple[int, np.ndarray]]:
        ranges = [(at, min(at + rows, part.last)) for at in range(part.first, part.last, rows)]
        if wanted is not None:
            ranges = [(a, b) for a, b in ranges if wanted[a - part.first : b - part.first].any()]
        uri = self._unit.inputs[part.vectors].uri
        matrix: Matrix = find_matrix(uri, array=self._layout.array)
        with blocks_of(uri, matrix, ranges) as blocks:
            mapped = matrix.offset is not None and not locations.is_s3(uri)
            numbered = zip((first for first, _ in ranges), blocks, strict=True)
            yield from numbered if mapped else _read_ahead(numbered)

    def _from_table(self, part: Part, wanted: np.ndarray | None, rows: int) -> Iterator[tuple[int, np.ndarray]]:
        assert wanted is not None
        with _parquet(self._unit.inputs[part.vectors].uri) as file:
            groups = _groups(file, ["embedding"], part.first, part.last, wanted=wanted)
            for first, table in _read_ahead(groups):
                at = first
                for chunk in table["embedding"].chunks:
                    vectors = matrix_of(chunk)
                    for begin in range(0, len(vectors), rows):
                        yield at + begin, vectors[begin : begin + rows]
                    at += len(vectors)


def matrix_of(vectors: pa.FixedSizeListArray) -> np.ndarray:
    """Return the vectors [n, dim] in an Arrow column; null rows are arbitrary."""
    size = vectors.type.list_size
    values = vectors.values.slice(vectors.offset * size, len(vectors) * size)  # flatten() would leave out the nulls
    return values.to_numpy(zero_copy_only=False).reshape(-1, size)


def principal_axes(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Return the mean [dim], the first two principal axes [2, dim] and their shares of the variance, 0 to 1.

    The component of each axis with the largest absolute value is positive, so that the same vectors give the same map.
    """
    mean = vectors.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov(vectors - mean, rowvar=False).astype(np.float64))
    first = axes[:, [-1, -2]].T
    first *= np.sign(first[np.arange(2), np.abs(first).argmax(axis=1)])[:, None]
    total = values.clip(0).sum()
    x, y = (float(max(values[-number], 0) / total) if total > 0 else 0.0 for number in (1, 2))
    return mean, first.astype(np.float32), (x, y)


def in_unit_square(places: np.ndarray) -> np.ndarray:
    """Return places [n, 2] moved and scaled so that the smallest coordinate along each axis is 0 and the largest 1."""
    low, width = places.min(axis=0), np.ptp(places, axis=0)
    return (places - low) / np.where(width > 0, width, 1)


def _as_bool(mask: Any) -> np.ndarray:
    """Return an Arrow mask as bool [n]; null becomes False."""
    return np.asarray(pc.fill_null(mask, False).to_numpy(zero_copy_only=False), bool)


@contextmanager
def _parquet(uri: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; errors while reading it become an InputError with its name."""
    fs, path = locations.filesystem(uri)
    try:
        with (
            locations.named_errors(uri),
            fs.open_input_file(path) as stream,
            pq.ParquetFile(stream, pre_buffer=locations.is_s3(uri)) as file,
        ):
            yield file
    except pa.ArrowException as error:
        raise InputError(f"cannot be read ({first_line(error)})", place=uri) from error


def _groups(
    file: pq.ParquetFile, columns: Sequence[str], first: int, last: int, *, wanted: np.ndarray | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """Yield each row group from `first` to `last` with its first row's number; skip groups without wanted rows."""
    start = 0
    for group in range(file.num_row_groups):
        end = start + file.metadata.row_group(group).num_rows
        begin, stop = max(first, start), min(last, end)
        if begin < stop and (wanted is None or wanted[begin - first : stop - first].any()):
            rows = file.read_row_group(group, columns=list(columns))
            yield begin, rows.slice(begin - start, stop - begin)
        start = end


def _rows_of_column(uri: str, column: str, rows: np.ndarray) -> list[str | None]:
    """Return the values of a column as strings, for ascending row numbers."""
    strings: list[str | None] = []
    with _parquet(uri) as file:
        start = 0
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            inside = rows[np.searchsorted(rows, start) : np.searchsorted(rows, end)]
            if len(inside):
                values = file.read_row_group(group, columns=[column])[column].take(pa.array(inside - start))
                try:
                    strings += column_texts(values).to_pylist()
                except pa.ArrowException as error:  # the bytes are not UTF-8
                    raise InputError(f"column {column} is {values.type}, not text in UTF-8", place=uri) from error
            start = end
    return strings


def _read_ahead(source: Iterable[T]) -> Iterator[T]:
    """Yield from `source`; a thread computes the next element while the caller uses the current one."""
    iterator = iter(source)
    end = object()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, iterator, end)
        while (element := future.result()) is not end:
            future = pool.submit(next, iterator, end)
            yield element  # type: ignore[misc]
