"""Reading the rows of one data object of a table.

Strings of long tables can be read as dictionaries (`read_unit(…, dictionaries=[…])`): 800 million ratings share a few
dozen names of questions, raters and rubrics.
"""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.errors import first_line
from jobs.errors import RunError
from jobs.store.files import faults, locations
from jobs.store.files.repeating import repeated
from jobs.store.footers import Footer
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
def reading_rows(uri: str) -> Iterator[None]:
    """Turn the error of damaged rows of `uri` into a RunError with the uri.

    Raises:
        RunError: the rows are damaged.
    """
    try:
        with faults.at(uri):
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
    uri: str, limit: int | None, columns: Sequence[str] | None, dictionaries: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the rows of an object by row group; only the first `limit` rows if it is not None."""
    fs, path = locations.filesystem(uri)
    with contextlib.ExitStack() as stack:
        with reading_rows(uri):
            stream = stack.enter_context(fs.open_input_file(path))
            file = stack.enter_context(open_rows(uri, stream, dictionaries=dictionaries))
        read = 0
        for group in range(file.num_row_groups):
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
