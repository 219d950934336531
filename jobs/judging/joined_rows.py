"""Rows of the tables joined to items, by key, such as an item's pictures by image_id.

A unit's input is an object of the joined table, or the whole table. An object is read directly. Of a whole table, each
machine copies the columns once (`jobs.store.object_rows`), since each unit may need rows from anywhere in it.
Pictures are not copied: the copy has their places, and only the pictures needed are read (`jobs.store.pages`).
"""

import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.footers import data_objects
from jobs.store.object_rows import OBJECT, ROW, RowLookup, SharedLookup, open_rows, read_unit, reading_rows
from jobs.store.pages import ColumnPages, column_pages

COPIES = 8  # copies of tables that a process keeps open
OBJECTS_AT_ONCE = 8  # objects from which pictures are read at the same time
INDEXES = 4096  # indexes of pages that a process keeps, 10 kB each
ROOM = 4  # a copy needs this many times the table's size as free space, since the table's objects are compressed
PICTURE_COLUMNS = ["source_url", "status"]


def lookup(
    source: Object | None, key: str, values: Collection[str], columns: Sequence[str], *, copies: bool = True
) -> dict[str, dict[str, Any]]:
    """Return rows of a data object or a whole table by their key.

    Args:
        source: the object, or a table as in `ItemTables.units`; None has no rows.
        key: name of the key's column.
        values: values of the key to look up; of several rows with the same value, the first is returned.
        columns: other columns to read.
        copies: whether to copy a whole table to this machine.
    """
    first_rows: dict[str, dict[str, Any]] = {}
    if source is not None:
        for rows in matching_rows(source, key, values, columns, copies=copies):
            for row in rows.select([key, *columns]).to_pylist():
                first_rows.setdefault(row.pop(key), row)
    return first_rows


def matching_rows(
    source: Object, key: str, values: Collection[str], columns: Sequence[str], *, copies: bool = True
) -> Iterator[pa.Table]:
    """Yield the rows of a data object or a whole table whose `key` is in `values`; takes the arguments of `lookup`."""
    if not values:
        return
    keys = pa.array(sorted(values), pa.string())
    if _is_object(source):
        yield from RowLookup([source.uri], key=key, columns=columns).matching(keys)
    elif copies and shutil.disk_usage(tempfile.gettempdir()).free > ROOM * source.size:
        yield _copy(source, key, tuple(columns), places=False).rows(keys)
    else:
        yield from RowLookup([part.uri for part in _objects(source)], key=key, columns=columns).matching(keys)


def lookup_pictures(
    source: Object | None, values: Collection[str], *, with_bytes: bool, copies: bool = True
) -> dict[str, dict[str, Any]]:
    """Return rows of `images` by image_id, with `source_url` and `status`; takes the arguments of `lookup`.

    Args:
        with_bytes: whether to include `bytes`.
    """
    if source is None or not values:
        return {}
    if not _is_object(source) and not copies:
        columns = [*PICTURE_COLUMNS, *(["bytes"] if with_bytes else [])]
        return lookup(source, "image_id", values, columns, copies=False)
    keys = pa.array(sorted(values), pa.string())
    if _is_object(source):
        objects: Sequence[Object] = [source]
        rows = read_unit(source.uri, columns=["image_id", *PICTURE_COLUMNS])
        rows = rows.append_column(OBJECT, pa.array(np.zeros(rows.num_rows, np.int32)))
        rows = rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))
        rows = rows.filter(pc.is_in(rows["image_id"], keys))
    else:
        objects = _objects(source)
        rows = _copy(source, "image_id", tuple(PICTURE_COLUMNS), places=True).rows(keys)
    first_rows: dict[str, dict[str, Any]] = {}
    for row in rows.to_pylist():
        first_rows.setdefault(row.pop("image_id"), row)
    places = [(row.pop(OBJECT), row.pop(ROW)) for row in first_rows.values()]
    if with_bytes:
        for row, value in zip(first_rows.values(), _pictures(objects, places), strict=True):
            row["bytes"] = value
    return first_rows


def _pictures(objects: Sequence[Object], places: Sequence[tuple[int, int]]) -> list[bytes | None]:
    """Return the bytes of the pictures at these places: number of the object, row."""
    numbers = sorted({number for number, _ in places})
    rows = [sorted({row for place, row in places if place == number}) for number in numbers]
    pictures: dict[tuple[int, int], bytes | None] = {}
    with ThreadPoolExecutor(min(OBJECTS_AT_ONCE, max(1, len(numbers)))) as pool:
        values = pool.map(_of_object, [objects[number] for number in numbers], rows)
        for number, places_in, of_object in zip(numbers, rows, values, strict=True):
            pictures.update(zip(((number, row) for row in places_in), of_object, strict=True))
    return [pictures[place] for place in places]


def _of_object(source: Object, rows: Sequence[int]) -> list[bytes | None]:
    """Return the bytes of the pictures in ascending `rows` of an object."""
    fs, path = locations.filesystem(source.uri)
    with reading_rows(source.uri), fs.open_input_file(path) as stream:
        if (pages := _pages(source, stream)) is not None:
            return pages.read(source.uri, stream, rows)
        return _of_row_groups(source, stream, rows)


_indexes: dict[Object, ColumnPages | None] = {}


def _pages(source: Object, stream: Any) -> ColumnPages | None:
    if source not in _indexes:
        if len(_indexes) >= INDEXES:
            _indexes.clear()
        _indexes[source] = column_pages(source.uri, stream, "bytes")
    return _indexes[source]


def _of_row_groups(source: Object, stream: Any, rows: Sequence[int]) -> list[bytes | None]:
    """Return the same as `_of_object`, by row groups, for objects of other programs or earlier versions."""
    values: list[bytes | None] = []
    with open_rows(source.uri, stream) as file:
        begin = 0
        for group in range(file.num_row_groups):
            end = begin + file.metadata.row_group(group).num_rows
            if inside := [row - begin for row in rows if begin <= row < end]:
                values += file.read_row_group(group, columns=["bytes"])["bytes"].take(inside).to_pylist()
            begin = end
    return values


def _is_object(source: Object) -> bool:
    return source.uri.endswith(".parquet")


@lru_cache(COPIES)
def _objects(source: Object) -> Sequence[Object]:
    """Return the data objects of a whole table."""
    return list(data_objects(source.uri, locations.listing(source.uri)))


@lru_cache(COPIES)
def _copy(source: Object, key: str, columns: tuple[str, ...], *, places: bool) -> SharedLookup:
    """Return this machine's copy of the columns of a whole table."""
    return SharedLookup(_objects(source), key=key, columns=columns, places=places)
