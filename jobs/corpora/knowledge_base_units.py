"""A knowledge base's files as work units; a large Parquet file is cut between nodes."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.units import BYTES, Unit, unit_of_file

SPAN = "span"  # in a unit's `extra`: first row and one past the last


def cut(files: Sequence[Object], *, node: str, unit_rows: int) -> Iterator[Unit]:
    """Yield the files' units: one per file, or parts of a Parquet file with about `unit_rows` rows.

    All rows of a node must be in one unit, because they become one row of `nodes`: a file is cut only if the rows of
    each node are consecutive. Text files are not cut, because finding their rows would require reading the file.

    Args:
        node: the column of the nodes.
    """
    for file in files:
        if not file.uri.lower().endswith(".parquet"):
            yield unit_of_file(file)
            continue
        ends = _ends(file, node, unit_rows)
        rows = ends[-1]
        if len(ends) < 3:
            yield unit_of_file(file, rows=rows)
            continue
        for first, last in pairwise(ends):
            unit = unit_of_file(file, piece=f"rows {first}-{last}", rows=last - first)
            share = file.size * last // rows - file.size * first // rows
            yield replace(unit, extra={SPAN: [first, last], BYTES: share})


def _ends(file: Object, node: str, unit_rows: int) -> list[int]:
    """Return the ends of the parts: 0, the number of rows and, if the file can be cut, ends between them."""
    fs, path = locations.filesystem(file.uri)
    with locations.named_errors(file.uri), fs.open_input_file(path) as stream, pq.ParquetFile(stream) as parquet:
        rows = parquet.metadata.num_rows
        whole = [0, rows]
        if rows <= unit_rows:
            return whole
        column = parquet.read(columns=[node])[node]
    try:
        names = pc.fill_null(pc.utf8_trim_whitespace(column.cast(pa.string())), "").combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # rows with lists or objects are rejected one by one
        return whole
    places = np.flatnonzero(pc.not_equal(names, "").to_numpy(zero_copy_only=False))
    named = names.take(pa.array(places))
    if not len(named):
        return whole
    changes = pc.not_equal(named.slice(1), named.slice(0, len(named) - 1)).to_numpy(zero_copy_only=False)
    starts = places[np.append(True, changes)]
    if len(starts) != pc.count_distinct(named).as_py():
        return whole
    at = np.searchsorted(starts, np.arange(unit_rows, rows, unit_rows))
    return [0, *np.unique(starts[at[at < len(starts)]]).tolist(), rows]
