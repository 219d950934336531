"""Rows of a table by the values of one column, from a memory-mapped copy that all processes of a machine share."""

import errno
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.ids import content_id
from jobs.errors import RunError
from jobs.store.files.machine_copy import MachineCopy
from jobs.store.files.objects import Object
from jobs.store.files.s3 import CONNECTIONS
from jobs.store.hashing import hash_texts
from jobs.store.lookup import RowLookup

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
            raise RunError(
                f"TMPDIR={tempfile.gettempdir()}: full while copying {self._objects[0].uri.rsplit('/', 1)[0]}; set "
                "TMPDIR to a folder with more space on every machine"
            ) from error

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
