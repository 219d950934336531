"""Differences between two tables of the same kind: configuration, keys, and values of rows with equal keys.

DuckDB joins the tables by their primary key; it uses temporary files to stay within its memory limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from jobs import tables
from jobs.errors import InputError
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.identity import flatten
from jobs.store.reading import TableSource, open_table
from jobs.store.run_files import IDENTITY, run_uri

NOT_SET = "(not set)"


@dataclass(frozen=True)
class ColumnDifference:
    """Differences between the values of a column in rows with equal keys.

    Attributes:
        rows: the number of rows that differ.
        largest: the largest absolute difference of numbers; None for other types, and if one value is null.
    """

    rows: int
    largest: float | None


@dataclass(frozen=True)
class Differences:
    """The differences between the tables `a` and `b`.

    Attributes:
        name: the tables' name in `jobs.tables`.
        configuration: dotted key of the identity -> its value in `a` and in `b`.
        rows: the number of rows of `a` and of `b`.
        only: the number of keys that are only in `a`, and of those only in `b`.
        changed: the number of keys whose rows differ.
        columns: column -> its differences, for the columns that differ.
        examples: differing rows of the join, with the columns `in` (a, b or both), the key and, for each column that
            differs, its values in `a` and `b` as `NAME (a)` and `NAME (b)`.
    """

    name: str
    configuration: dict[str, tuple[Any, Any]]
    rows: tuple[int, int]
    only: tuple[int, int]
    changed: int
    columns: dict[str, ColumnDifference]
    examples: pa.Table

    @property
    def is_equal(self) -> bool:
        """Whether the rows are the same; the configuration may differ."""
        return not (any(self.only) or self.changed)


def compare(a: str, b: str, *, ignored: Sequence[str] = (), tolerance: float = 0.0, examples: int = 20) -> Differences:
    """Compare the rows of two tables by their primary key, or the metrics of two reports.

    Args:
        ignored: columns to ignore.
        tolerance: numbers that differ by at most this are equal.
        examples: the number of differing rows to return.

    Raises:
        InputError: a table does not exist, the kinds differ, or the tables lack an ignored column.
    """
    import duckdb

    sources = [_open(place) for place in (a, b)]
    first, second = sources
    if first.name != second.name:
        raise InputError(f"a={a} is a table of {first.name}, b={b} one of {second.name}; both must be of the same kind")
    definition = tables.TABLES[first.name]
    columns = _compared(definition, ignored)
    with duckdb.connect() as connection:
        connection.register("a", _dataset(first))
        connection.register("b", _dataset(second))
        connection.execute(f"CREATE VIEW both_tables AS {_join(definition.key, columns, tolerance)}")
        (counts,) = connection.sql(_count(columns)).fetchall()
        differing = {name: ColumnDifference(counts[3 + 2 * i], counts[4 + 2 * i]) for i, name in enumerate(columns)}
        differing = {name: difference for name, difference in differing.items() if difference.rows}
        shown = connection.sql(_examples(definition.key, list(differing), examples)).to_arrow_table()
    only_a, only_b, changed = (int(count or 0) for count in counts[:3])
    configuration = _configuration(*map(_identity, sources))
    return Differences(
        definition.name, configuration, (first.rows, second.rows), (only_a, only_b), changed, differing, shown
    )


def _compared(definition: tables.Table, ignored: Sequence[str]) -> dict[str, pa.DataType]:
    columns = {name: kind for name, (kind, _) in definition.columns.items() if name not in definition.key}
    if unknown := [name for name in ignored if name not in columns]:
        why = f"not a column to compare; must be one of {', '.join(columns)}"
        raise InputError(why, key="ignore", value=unknown[0])
    return {name: kind for name, kind in columns.items() if name not in ignored}


def _open(place: str) -> TableSource:
    """Open a table, or the metrics of the report in a folder."""
    uri = locations.absolute(place)
    metrics = locations.join(uri, "metrics")
    is_report = locations.exists(locations.join(uri, "index.html")) and locations.exists(run_uri(metrics, IDENTITY))
    return open_table(metrics if is_report else uri)


def _identity(source: TableSource) -> dict[str, Any]:
    """Return the content of `_run/identity.json`; empty if the file was lost, without which the rows can be read."""
    try:
        identity: dict[str, Any] = run_files.read_json(run_uri(source.uri, IDENTITY))
    except FileNotFoundError:
        return {}
    return identity


def _dataset(source: TableSource) -> pads.Dataset:
    places = [locations.filesystem(footer.object.uri) for footer in source.footers]
    schema = pa.schema([field.with_type(_readable(field.type)) for field in _schema(source)])
    if not places:
        return pads.dataset(schema.empty_table())
    return pads.dataset([path for _, path in places], filesystem=places[0][0], format="parquet", schema=schema)


def _schema(source: TableSource) -> pa.Schema:
    """Return the table's schema; its vectors have the length of those in the footers."""
    types = [field.type for schema in source.footers.schemas for field in schema]
    dims = [int(kind.list_size) for kind in types if pa.types.is_fixed_size_list(kind)]
    return tables.table(source.name, dim=dims[0] if dims else None).schema()


def _readable(kind: pa.DataType) -> pa.DataType:
    """Return the type that DuckDB, which has no float16, uses to read a column."""
    if pa.types.is_fixed_size_list(kind) and pa.types.is_float16(kind.value_type):
        return pa.list_(pa.float32(), kind.list_size)
    return kind


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _differs(name: str, kind: pa.DataType, tolerance: float) -> str:
    one, other = f"a.{_name(name)}", f"b.{_name(name)}"
    distinct = f"({one} IS DISTINCT FROM {other})"
    if tolerance and (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return f"({distinct} AND coalesce(abs({one}::DOUBLE - {other}::DOUBLE) > '{tolerance!r}'::DOUBLE, true))"
    return distinct


def _join(key: Sequence[str], columns: Mapping[str, pa.DataType], tolerance: float) -> str:
    """Return the full join by the key: side and key of a row, and per column both values and whether they differ."""
    parts = ["CASE WHEN b.present IS NULL THEN 'a' WHEN a.present IS NULL THEN 'b' ELSE 'both' END AS \"in\""]
    parts += [f"coalesce(a.{_name(name)}, b.{_name(name)}) AS {_name(name)}" for name in key]
    for name, kind in columns.items():
        parts += [f"{side}.{_name(name)} AS {_name(f'{name} ({side})')}" for side in "ab"]
        parts.append(f"{_differs(name, kind, tolerance)} AS {_name(f'{name} differs')}")
    on = " AND ".join(f"a.{_name(name)} = b.{_name(name)}" for name in key)
    sides = ("(SELECT *, true AS present FROM a) AS a", "(SELECT *, true AS present FROM b) AS b")
    return f"SELECT {', '.join(parts)} FROM {sides[0]} FULL JOIN {sides[1]} ON {on}"


def _any_differs(columns: Sequence[str]) -> str:
    return " OR ".join(_name(f"{name} differs") for name in columns) or "false"


def _count(columns: Mapping[str, pa.DataType]) -> str:
    both = "\"in\" = 'both'"
    parts = ["count(*) FILTER (\"in\" = 'a')", "count(*) FILTER (\"in\" = 'b')"]
    parts.append(f"count(*) FILTER ({both} AND ({_any_differs(list(columns))}))")
    for name, kind in columns.items():
        where = f"FILTER ({both} AND {_name(f'{name} differs')})"
        parts.append(f"count(*) {where}")
        if pa.types.is_floating(kind) or pa.types.is_integer(kind):
            values = f"{_name(f'{name} (a)')}::DOUBLE - {_name(f'{name} (b)')}::DOUBLE"
            parts.append(f"max(abs({values})) {where}")
        else:
            parts.append("NULL")
    return f"SELECT {', '.join(parts)} FROM both_tables"


def _examples(key: Sequence[str], differing: Sequence[str], n: int) -> str:
    shown = [_name("in"), *map(_name, key)]
    shown += [_name(f"{name} ({side})") for name in differing for side in "ab"]
    where = f"\"in\" <> 'both' OR ({_any_differs(differing)})"
    order = ", ".join(map(_name, key))
    return f"SELECT {', '.join(shown)} FROM both_tables WHERE {where} ORDER BY {order} LIMIT {n:d}"


def _configuration(a: dict[str, Any], b: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    flat_a, flat_b = (flatten(identity) if identity else {} for identity in (a, b))
    pairs = {key: (flat_a.get(key, NOT_SET), flat_b.get(key, NOT_SET)) for key in sorted({*flat_a, *flat_b})}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
