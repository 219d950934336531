"""Rows of a table by the values of one column, read from the table at each call."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from jobs.store.files import locations
from jobs.store.object_rows import open_rows, reading_rows


class RowLookup:
    """Finds rows in the data objects of one table; picklable.

    Each call reads the key column, and the other columns of row groups with a matching row, which suits one or a few
    calls. For many calls, use `jobs.store.shared_lookup`.

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
            fs, path = locations.filesystem(uri)
            with reading_rows(uri), fs.open_input_file(path) as stream, open_rows(uri, stream) as file:
                file.check_columns([self._key, *self._columns])
                yield file.schema_arrow.empty_table().select([self._key, *self._columns])
                for group in range(file.num_row_groups):
                    rows = file.read_row_group(group, columns=[self._key])
                    hit = None if wanted is None else pc.is_in(rows[self._key], wanted)
                    if hit is None or pc.any(hit).as_py():
                        if self._columns:
                            rows = file.read_row_group(group, columns=[self._key, *self._columns])
                        yield rows if hit is None else rows.filter(hit)
