"""Rows of the data objects of a table: of a whole object, of a range, or by the values of a column.

Strings of long tables can be read as dictionaries (`read_unit(…, dictionaries=[…])`): 800 million ratings share a few
dozen names of questions, raters and rubrics.
"""

import contextlib
import errno
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from actors.errors import first_line
from actors.ids import content_id
from jobs.errors import RunError, at
from jobs.store.files import faults, locations
from jobs.store.files.objects import Object
from jobs.store.files.s3 import CONNECTIONS
from jobs.store.files.spool import MachineCopy
from jobs.store.files.whole import repeated
from jobs.store.footers import Footer
from jobs.store.hashing import hash_texts
from jobs.store.pages import column_pages

NARROW_BYTES = 1000  # assumed size of a value in a column without pictures or vectors


class RowGroups(pq.ParquetFile):  # type: ignore[misc] # pyarrow has no types
    """A data object of a table, which fails on pages whose checksum differs."""

    def __init__(self, uri: str, stream: Any, **options: Any) -> None:
        repeated(uri, partial(super().__init__, stream, page_checksum_verification=True, **options), also_damage=True)
        self._uri = uri

    def read_row_group(self, *arguments: Any, **options: Any) -> pa.Table:
        """Return the row group as `ParquetFile` does, but repeat reads that a busy store refuses.

        Raises:
            pa.ArrowInvalid: a column of `columns=` is absent, which `ParquetFile` would leave out.
        """
        self.check_columns(options.get("columns") or ())
        return repeated(self._uri, partial(super().read_row_group, *arguments, **options), also_damage=True)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise pa.ArrowInvalid if a column is absent."""
        if absent := [name for name in columns if name not in self.schema_arrow.names]:
            raise pa.ArrowInvalid(f"no column {', '.join(absent)}")


def open_rows(uri: str, stream: Any, *, dictionaries: Sequence[str] = ()) -> RowGroups:
    """Return the open data object at `uri`, for reading its rows; use it within `reading_rows`."""
    return RowGroups(uri, stream, read_dictionary=list(dictionaries) or None)


@contextlib.contextmanager
def opened_rows(uri: str) -> Iterator[RowGroups]:
    """Yield the data object at `uri`, opened for reading its rows. Raises as `reading_rows`."""
    fs, path = locations.filesystem(uri)
    with reading_rows(uri), fs.open_input_file(path) as stream, open_rows(uri, stream) as file:
        yield file


@contextlib.contextmanager
def reading_rows(uri: str) -> Iterator[None]:
    """Turn the error of damaged rows of `uri` into a RunError with the uri.

    Raises:
        RunError: the rows are damaged.
    """
    try:
        with at(uri):
            yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if not faults.is_damage(error):
            raise
        raise RunError(
            f"damaged, its rows cannot be read ({first_line(error)}); "
            "run remine verify on the table with repair=true, which looks again and sets a damaged unit aside, "
            "and then the command that writes the table",
            place=uri,
        ) from error


def read_unit(uri: str, *, columns: Sequence[str] | None = None, dictionaries: Sequence[str] = ()) -> pa.Table:
    """Return all rows of one data object, without the schema's metadata, which would be wrong for derived rows.

    Raises:
        RunError: the object is damaged.
    """
    fs, path = locations.filesystem(uri)
    with reading_rows(uri), fs.open_input_file(path) as stream:
        read = partial(
            pq.read_table,
            stream,
            columns=list(columns) if columns else None,
            read_dictionary=list(dictionaries) or None,
            page_checksum_verification=True,
        )
        rows = repeated(uri, read, also_damage=True)
    return rows.replace_schema_metadata(None)


def distinct_values(uri: str, column: str) -> int:
    """Return the number of distinct values of a column of one data object. Raises as `read_unit`."""
    count: int = pc.count_distinct(read_unit(uri, columns=[column])[column]).as_py()
    return count


def first_values(rows: pa.Table, column: str, limit: int | None) -> pa.Table:
    """Return all rows with the first `limit` distinct values of a column; None: all rows."""
    if limit is None:
        return rows
    return rows.filter(pc.is_in(rows[column], pc.unique(rows[column]).slice(0, limit)))


def read_rows(uri: str, columns: Sequence[str], first: int, last: int) -> pa.Table:
    """Return the rows [first, last) of a data object; reads only row groups that contain some of them.

    Of pictures, only those in these rows are read, if `jobs.store.pages` can read them.
    """
    fs, path = locations.filesystem(uri)
    with reading_rows(uri), fs.open_input_file(path) as stream, open_rows(uri, stream) as file:
        file.check_columns(columns)
        schema, paged = file.schema_arrow, {}
        for name in (name for name in columns if pa.types.is_large_binary(schema.field(name).type)):
            if (pages := column_pages(uri, stream, name)) is not None:
                values = pages.read(uri, stream, range(first, min(last, pages.rows)))
                paged[name] = pa.array(values, schema.field(name).type)
        others = [name for name in columns if name not in paged]
        tables, begin = [schema.empty_table().select(others)], 0
        for group in range(file.num_row_groups if others else 0):
            end = begin + file.metadata.row_group(group).num_rows
            if (low := max(begin, first)) < (high := min(end, last)):
                rows = file.read_row_group(group, columns=others)
                tables.append(rows.slice(low - begin, high - low))
            begin = end
    rows = pa.concat_tables(tables)
    for name, values in paged.items():
        rows = rows.append_column(schema.field(name), values) if others else pa.table({name: values})
    return rows.select(list(columns)).replace_schema_metadata(None)


def row_groups(
    uri: str,
    limit: int | None = None,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
    *,
    span: tuple[int, int] | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of an object by row group; only the first `limit` rows if any. Raises as `read_unit`.

    Args:
        span: only the row groups that begin in these rows, from the first to before the last; None: all.
    """
    fs, path = locations.filesystem(uri)
    with contextlib.ExitStack() as stack:
        with reading_rows(uri):
            stream = stack.enter_context(fs.open_input_file(path))
            file = stack.enter_context(open_rows(uri, stream, dictionaries=dictionaries))
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        begins = np.cumsum([0, *sizes[:-1]]).tolist()
        read = 0
        for group in range(file.num_row_groups):
            if span is not None and not span[0] <= begins[group] < span[1]:
                continue
            with reading_rows(uri):
                rows = file.read_row_group(group, columns=list(columns) if columns else None)
            if limit is not None:
                rows = rows.slice(0, limit - read)
            yield rows
            read += rows.num_rows
            if read == limit:
                break


def weight_of(footer: Footer, columns: Sequence[str] | None) -> int:
    """Return an estimate of the compressed bytes of these columns of an object, too large rather than too small."""
    if not columns or any(_is_wide(footer.schema.field(name).type) for name in columns if name in footer.schema.names):
        return footer.object.size
    return min(footer.object.size, footer.rows * len(columns) * NARROW_BYTES)


def _is_wide(kind: pa.DataType) -> bool:
    """Return whether values of the type are pictures or vectors."""
    return bool(pa.types.is_large_binary(kind) or pa.types.is_fixed_size_list(kind))


class RowLookup:
    """Finds rows in the data objects of one table; picklable.

    Each call reads the key column, and the other columns of row groups with a matching row, which suits one or a few
    calls. For many calls, use `SharedLookup`.

    Args:
        uris: the table's data objects, in order.
        key: the string column to look up.
        columns: other columns to return.
    """

    def __init__(self, uris: Sequence[str], *, key: str, columns: Sequence[str]) -> None:
        self._uris, self._key, self._columns = list(uris), key, [name for name in columns if name != key]

    def rows(self, wanted: pa.Array) -> pa.Table:
        """Return the rows whose key is in `wanted`, each once, in the table's order."""
        return pa.concat_tables(self.matching(pc.unique(wanted)), promote_options="permissive")

    def matching(self, wanted: pa.Array | None) -> Iterator[pa.Table]:
        """Yield the rows whose key is in `wanted` (None: all), one row group of the objects at a time."""
        for uri in self._uris:
            with opened_rows(uri) as file:
                file.check_columns([self._key, *self._columns])
                yield file.schema_arrow.empty_table().select([self._key, *self._columns])
                for group in range(file.num_row_groups):
                    rows = file.read_row_group(group, columns=[self._key])
                    hit = None if wanted is None else pc.is_in(rows[self._key], wanted)
                    if hit is None or pc.any(hit).as_py():
                        if self._columns:
                            rows = file.read_row_group(group, columns=[self._key, *self._columns])
                        yield rows if hit is None else rows.filter(hit)


BATCH_ROWS = 16_384  # rows per batch of the copy
HELD_BYTES = 1 << 30  # of objects whose rows are in memory while the copy is written
OBJECT, ROW = "_object", "_row"
_ROWS, _HASHES, _PLACES = "rows.arrow", "hashes.npy", "places.npy"


class SharedLookup:
    """Finds rows in one table; picklable until the first call.

    The first call copies the columns to a folder of the machine's temporary files, unless another process of the
    machine has done so: each machine reads the table once, whatever the number of calls and processes. The copy is
    mapped into memory, so that processes share its pages and the kernel can drop them when it needs memory. Other
    memory grows with the rows that a call returns and, while the copy is written, by 16 bytes per row.

    Args:
        objects: the table's data objects, in order.
        key: the string column to look up.
        columns: other columns to return. places: add the columns `OBJECT`, the number of the row's object in `objects`,
        and `ROW`, its number in the object.

    Attributes:
        bytes_read: size of the objects that this process copied; 0 if another process did, and before the first call.
    """

    def __init__(self, objects: Sequence[Object], *, key: str, columns: Sequence[str], places: bool = False) -> None:
        self._objects, self._key, self._columns = list(objects), key, [name for name in columns if name != key]
        self._places = [OBJECT, ROW] if places else []
        self._opened: _Opened | None = None
        self.bytes_read = 0

    def rows(self, wanted: pa.Array) -> pa.Table:
        """Return the rows whose key is in `wanted`, each once, in the table's order.

        Raises:
            RunError: an object is damaged, or the folder of temporary files is full.
        """
        wanted = pc.unique(wanted.drop_null())
        rows = self._open().at(hash_texts(wanted))
        return rows.filter(pc.is_in(rows[self._key], wanted))  # without other keys that have the same hash

    def _open(self) -> "_Opened":
        if self._opened is None:
            parts = [f"{source.uri} {source.etag} {source.size}" for source in self._objects]
            copy = MachineCopy(content_id(self._key, *self._columns, *self._places, "", *parts), self._fill)
            self.bytes_read = sum(source.size for source in self._objects) if copy.filled else 0
            self._opened = _Opened(copy)
        return self._opened

    def _fill(self, folder: Path) -> None:
        """Write the copy: the rows in order, and the places of rows sorted by the hash of their key."""
        hashes = [np.empty(0, np.uint64)]
        try:
            with ExitStack() as stack:
                writer: pa.ipc.RecordBatchFileWriter | None = None
                for rows in self._all_rows():
                    whole = rows.replace_schema_metadata(None).combine_chunks()
                    if writer is None:
                        sink = stack.enter_context(pa.OSFile(str(folder / _ROWS), "wb"))
                        writer = stack.enter_context(pa.ipc.new_file(sink, whole.schema))
                    hashes.append(hash_texts(whole[self._key]))
                    writer.write_table(whole, max_chunksize=BATCH_ROWS)
            joined = np.concatenate(hashes)
            order = np.argsort(joined, kind="stable")
            np.save(folder / _HASHES, joined[order])
            np.save(folder / _PLACES, order)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            why = (
                f"full while copying {self._objects[0].uri.rsplit('/', 1)[0]}; set TMPDIR to a folder with more "
                "space on every machine"
            )
            raise RunError(why, key="TMPDIR", value=tempfile.gettempdir()) from error

    def _all_rows(self) -> Iterator[pa.Table]:
        """Yield the rows of each object, in order; small objects are read in threads, since S3 answers slowly."""
        threads = min(CONNECTIONS, HELD_BYTES // max(source.size for source in self._objects))
        if threads < 2:
            for number in range(len(self._objects)):
                yield from self._rows_of(number)
            return
        with ThreadPoolExecutor(threads) as pool:
            for first in range(0, len(self._objects), threads):
                numbers = range(first, min(first + threads, len(self._objects)))
                for parts in pool.map(lambda number: list(self._rows_of(number)), numbers):
                    yield from parts

    def _rows_of(self, number: int) -> Iterator[pa.Table]:
        lookup = RowLookup([self._objects[number].uri], key=self._key, columns=self._columns)
        begin = 0
        for rows in lookup.matching(None):
            end = begin + rows.num_rows
            if self._places:
                objects = pa.array(np.full(rows.num_rows, number, np.int32))
                yield rows.append_column(OBJECT, objects).append_column(ROW, pa.array(np.arange(begin, end)))
            else:
                yield rows
            begin = end


class _Opened:
    """A mapped copy."""

    def __init__(self, copy: MachineCopy) -> None:
        self._copy = copy  # in use as long as this object lives
        self._file = pa.ipc.open_file(pa.memory_map(str(copy.path / _ROWS)))
        self._hashes: NDArray[np.uint64] = np.load(copy.path / _HASHES, mmap_mode="r")
        self._places: NDArray[np.int64] = np.load(copy.path / _PLACES, mmap_mode="r")
        sizes = [self._file.get_batch(number).num_rows for number in range(self._file.num_record_batches)]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])

    def at(self, hashes: NDArray[np.uint64]) -> pa.Table:
        """Return the rows whose key has one of these distinct hashes, in the table's order."""
        hashes = np.unique(hashes)
        first = np.searchsorted(self._hashes, hashes, side="left")
        counts = np.searchsorted(self._hashes, hashes, side="right") - first
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.sort(self._places[np.repeat(first, counts) + within])
        if not len(places):
            return self._file.schema.empty_table()
        numbers, begins = np.unique(np.searchsorted(self._starts, places, side="right") - 1, return_index=True)
        taken = [
            self._file.get_batch(number).take(pa.array(inside - self._starts[number]))
            for number, inside in zip(numbers.tolist(), np.split(places, begins[1:]), strict=True)
        ]
        return pa.Table.from_batches(taken, schema=self._file.schema)
