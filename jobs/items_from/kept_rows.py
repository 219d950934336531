"""Rows of a large table that a run needs, copied to the local disk in one pass and then looked up by key.

The tables of a knowledge base are not ordered such that the rows for a unit of pictures are close together: looking
them up in the table would read most of it for each unit.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource
from jobs.tables import TABLES

ROWS = 1024  # rows of a batch of the copy, which is read from disk for one row
Keys = tuple[NDArray[np.int64], pa.Array]  # row numbers and their keys; a row can have several
KeysOf = Callable[[pa.Table], Keys]


def column_keys(column: str) -> KeysOf:
    """Return a function that returns the values in a column of strings as keys."""
    return lambda rows: (np.arange(rows.num_rows), rows[column].combine_chunks())


def value_keys(column: str) -> KeysOf:
    """Return a function that returns the values in a column of maps as keys."""

    def keys(rows: pa.Table) -> Keys:
        maps = rows[column].combine_chunks()
        offsets = maps.offsets.to_numpy()
        values = maps.items.slice(offsets[0], offsets[-1] - offsets[0]) if len(maps) else maps.items
        return np.repeat(np.arange(rows.num_rows), np.diff(offsets)), values

    return keys


class KeptRows:
    """The rows of a table with one of the wanted keys.

    They take 16 bytes of memory per wanted row and key.

    Args:
        path: the file for the copy.
        source: the table.
        columns: the columns to keep.
        keys_of: functions that return the keys of rows (`column_keys`, `value_keys`).
        wanted: uint64[n], hashes of the wanted keys (`hash_texts`); None: all rows.
        choose: filters rows before their keys are compared; None: keeps all.
    """

    def __init__(
        self,
        path: Path,
        source: TableSource,
        columns: Iterable[str],
        *,
        keys_of: Iterable[KeysOf],
        wanted: Hashes | None = None,
        choose: Callable[[pa.Table], pa.Table] | None = None,
    ) -> None:
        self._keys_of = tuple(keys_of)
        self._wanted = None if wanted is None else np.unique(wanted)
        names = list(columns)
        schema = pa.schema([TABLES[source.name].schema().field(name) for name in names])
        hashes, positions, firsts, count = [], [], [], 0
        with pa.ipc.new_file(str(path), schema) as writer:
            for group in source.batches(names):
                rows = choose(group) if choose else group
                for first in range(0, rows.num_rows, ROWS):
                    part = rows.slice(first, ROWS)
                    index, key_hashes = self._hits(part)
                    if not len(index):
                        continue
                    kept = np.unique(index)
                    batch = part.take(pa.array(kept)).cast(schema).combine_chunks().to_batches()[0]
                    writer.write_batch(batch)
                    hashes.append(key_hashes)
                    positions.append(count + np.searchsorted(kept, index))
                    firsts.append(count)
                    count += len(kept)
        all_hashes = np.concatenate(hashes) if hashes else np.empty(0, np.uint64)
        order = np.argsort(all_hashes, kind="stable")
        self._hashes = all_hashes[order]
        self._positions = np.concatenate(positions)[order] if positions else np.empty(0, np.int64)
        self._firsts = np.array(firsts, np.int64)
        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all copied rows."""
        for number in range(self._reader.num_record_batches):
            yield self._reader.get_batch(number)

    def rows(self, keys: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
        """Return (key, row) of the rows with one of `keys`, in the table's order."""
        names = set(keys)
        hashes = hash_texts(sorted(names))
        ends = zip(
            np.searchsorted(self._hashes, hashes, "left"), np.searchsorted(self._hashes, hashes, "right"), strict=True
        )
        positions = np.unique(np.concatenate([self._positions[:0], *(self._positions[low:high] for low, high in ends)]))
        numbers = np.searchsorted(self._firsts, positions, "right") - 1
        pairs = []
        for number in np.unique(numbers).tolist():
            local = positions[numbers == number] - self._firsts[number]
            part = pa.Table.from_batches([self._reader.get_batch(number).take(pa.array(local))])
            rows = part.to_pylist()
            for keys_of in self._keys_of:
                index, values = keys_of(part)
                keyed_rows = zip(values.to_pylist(), index.tolist(), strict=True)
                pairs += [(key, rows[row]) for key, row in keyed_rows if key in names]
        return pairs

    def _hits(self, rows: pa.Table) -> tuple[NDArray[np.int64], Hashes]:
        """Return the numbers of wanted rows and the hashes of their keys."""
        numbers, hashes = [], []
        for keys_of in self._keys_of:
            index, values = keys_of(rows)
            key_hashes = hash_texts(values)
            if self._wanted is not None:
                places = np.searchsorted(self._wanted, key_hashes)
                hit = np.append(self._wanted, np.uint64(0))[places] == key_hashes
                hit &= places < len(self._wanted)
                index, key_hashes = index[hit], key_hashes[hit]
            numbers.append(index)
            hashes.append(key_hashes)
        return np.concatenate(numbers), np.concatenate(hashes)
