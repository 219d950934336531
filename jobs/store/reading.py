"""Reading tables: their objects, footers and rows.

Strings of long tables can be read as dictionaries (`read_unit(…, dictionaries=[…])`): 800 M ratings share a
few dozen question, rater and rubric names.
"""

import fnmatch
import glob
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, overload

import pyarrow as pa
import pyarrow.parquet as pq

from jobs import tables
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.locations import Object
from jobs.store.packed import Marks, Packed
from jobs.store.threads import in_threads
from jobs.store.units import Unit, frozen_units, unit_of_file
from jobs.store.writer import FOOTER_KEY, Counts

# Footers are small ranged reads, on S3 all latency. Each thread costs a megabyte of heap, of no use on a local disk.
FOOTER_THREADS, FOOTER_THREADS_LOCAL = 16, 2


@dataclass(frozen=True, slots=True)
class Footer:
    """What a data object says of itself; `record` is None for a file that remine did not write."""

    object: Object
    rows: int
    schema: pa.Schema
    written: bytes | None

    @property
    def record(self) -> dict[str, Any] | None:
        return json.loads(self.written) if self.written else None

    @property
    def counts(self) -> Counts:
        record = self.record
        return Counts.from_json(record["counts"]) if record else Counts(self.rows, self.rows)

    @property
    def unit(self) -> Unit:
        record = self.record
        return Unit.from_json(record["unit"]) if record else unit_of_file(self.object, rows=self.rows)


def read_footer(source: Object) -> Footer | None:
    """The footer of `source`; None if it is not a complete Parquet file."""
    fs, path = locations.filesystem(source.uri)
    try:
        with fs.open_input_file(path) as stream:
            meta = pq.read_metadata(stream)
    except (pa.ArrowInvalid, FileNotFoundError):
        return None
    except OSError as error:
        if "thrift" in str(error):  # how pyarrow says that a footer is no footer
            return None
        raise
    return Footer(source, meta.num_rows, meta.schema.to_arrow_schema(), (meta.metadata or {}).get(FOOTER_KEY))


def read_footers(objects: Iterable[Object], *, remote: bool) -> Iterator[Footer | None]:
    """`read_footer` of each, in order; `remote`: they lie on S3."""
    return in_threads(read_footer, objects, FOOTER_THREADS if remote else FOOTER_THREADS_LOCAL)


class Footers(Sequence[Footer]):
    """The footers of a table, packed; equal schemas are one object."""

    def __init__(self, footers: Iterable[Footer]) -> None:
        self.schemas: list[pa.Schema] = []
        self._packed = Packed((f.object, f.rows, self._place(f.schema), f.written) for f in footers)

    def _place(self, schema: pa.Schema) -> int:
        """Where among `schemas` the one is that equals `schema`, metadata too."""
        for place, known in enumerate(self.schemas):
            if known is schema or known.equals(schema, check_metadata=True):
                return place
        self.schemas.append(schema)
        return len(self.schemas) - 1

    def _made(self, packed: tuple[Object, int, int, bytes | None]) -> Footer:
        source, rows, place, written = packed
        return Footer(source, rows, self.schemas[place], written)

    def __len__(self) -> int:
        return len(self._packed)

    def __iter__(self) -> Iterator[Footer]:
        return map(self._made, self._packed)

    @overload
    def __getitem__(self, place: int) -> Footer: ...
    @overload
    def __getitem__(self, place: slice) -> list[Footer]: ...
    def __getitem__(self, place: int | slice) -> Footer | list[Footer]:
        if isinstance(place, slice):
            return [self._made(packed) for packed in self._packed[place]]
        return self._made(self._packed[place])

    def by_unit(self) -> "Footers":
        """The same in order of unit name, which is that of their objects' names but for a dot in one."""
        names = (footer.unit.name for footer in self)
        if all(one <= other for one, other in pairwise(names)):
            return self
        return Footers(sorted(self, key=lambda footer: footer.unit.name))


def data_objects(folder: str, listed: Iterable[Object]) -> Iterator[Object]:
    """The Parquet objects of the table at `folder`: nothing whose name below it begins with `_` or `.`."""
    base = locations.absolute(folder)
    return (
        o
        for o in listed
        if o.uri.endswith(".parquet") and not any(p[:1] in "_." for p in o.uri.removeprefix(base).strip("/").split("/"))
    )


def run_json(uri: str) -> Any:
    """What a run keeps at `uri`, below the table's `_run`. FileNotFoundError if there is nothing.

    Raises:
        InputError: it is damaged.
    """
    try:
        return json.loads(locations.read_bytes(uri))
    except ValueError as error:
        raise InputError(f"{uri}: damaged, it is not JSON any more ({error})") from error


def run_units(uri: str) -> Iterator[Unit]:
    """The frozen units in an `inputs.json`, one at a time.

    Raises: as `run_json`.
    """
    fs, path = locations.filesystem(uri)
    try:
        with fs.open_input_stream(path) as stream, io.TextIOWrapper(stream, "utf-8") as text:
            yield from frozen_units(text)
    except ValueError as error:
        raise InputError(f"{uri}: damaged, it is not JSON any more ({error})") from error


@dataclass(frozen=True)
class TableSource:
    """One table to read: its place, name, metadata and footers in order of unit name."""

    uri: str
    name: str
    metadata: dict[str, str]
    footers: Footers
    identity: str

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.footers)

    def units(self) -> Packed[Unit]:
        """Its objects as work units of a derived table, under their own names."""
        return Packed(Unit(f.unit.name, (f.object,), rows=f.rows) for f in self.footers)

    def by_unit(self) -> dict[str, Object]:
        return {f.unit.name: f.object for f in self.footers}

    def counts(self) -> Counts:
        total = Counts()
        for footer in self.footers:
            total += footer.counts
        return total

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows a row group at a time, in order of unit name."""
        for footer in self.footers:
            fs, path = locations.filesystem(footer.object.uri)
            with fs.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
                for group in range(file.num_row_groups):
                    yield file.read_row_group(group, columns=list(columns) if columns else None)


def tables_in(pattern: str) -> list[str]:
    """The places of tables that `pattern` names: itself, or if it is a glob, the folders that match it.

    Raises:
        InputError: a glob that no folder matches.
    """
    if not glob.has_magic(pattern):
        return [pattern]
    base = locations.absolute(pattern)
    while glob.has_magic(base):
        base = base.rsplit("/", 1)[0]
    depth = locations.absolute(pattern).count("/")
    folders = {"/".join(o.uri.split("/")[: depth + 1]) for o in locations.listing(base) if o.uri.count("/") > depth}
    if not (found := fnmatch.filter(sorted(folders), locations.absolute(pattern))):
        raise InputError(f"{pattern}: no table matches")
    return found


def open_table(uri: str, *expected: str) -> TableSource:
    """The table at `uri`, of one of the `expected` names.

    Raises:
        InputError: nothing there, not a remine table, another table than expected, a file that is no Parquet,
            or a run that is not complete (the sentence says how to complete it).
    """
    uri = locations.absolute(uri)
    listed = locations.listing(uri)
    if below := _tables_below(uri, listed):
        raise InputError(f"{uri}: not a table but a folder of some: {', '.join(below)}; name one of them")
    footers = Footers(_readable(uri, listed))
    if not footers:
        raise InputError(f"{uri}: no table here (no .parquet objects)")
    names = {_said(schema, "table") for schema in footers.schemas}
    if names == {""}:
        raise InputError(f"{uri}: Parquet files, but not a table of remine; expected {' or '.join(expected)}")
    if "" in names:
        foreign = next(f for f in footers if not _said(f.schema, "table"))
        raise InputError(f"{foreign.object.uri}: does not belong to the table it lies in (not written by remine)")
    if len(names) > 1:
        raise InputError(f"{uri}: several tables in one place: {', '.join(sorted(names))}")
    (name,) = names
    if name not in tables.TABLES:
        raise InputError(f"{uri}: is a table {name!r}, which this remine does not know")
    if expected and name not in expected:
        raise InputError(f"{uri}: is a table {name!r}, expected {' or '.join(expected)}")
    _check_version(name, footers)
    _check_complete(uri, listed, footers)
    first = footers[0]
    metadata = {k.decode(): v.decode() for k, v in (first.schema.metadata or {}).items()}
    identity = first.record["identity"] if first.record else ""
    return TableSource(uri, name, metadata, footers.by_unit(), identity)


def _readable(uri: str, listed: Iterable[Object]) -> Iterator[Footer]:
    """The footers of the table at `uri`. Raises InputError of the first that cannot be read."""
    footers = read_footers(data_objects(uri, listed), remote=locations.is_s3(uri))
    for source, footer in zip(data_objects(uri, listed), footers, strict=True):
        if footer is None:
            raise InputError(f"{source.uri}: not a readable Parquet file")
        yield footer


def _said(schema: pa.Schema, what: str) -> str:
    """What a schema's metadata says under `remine.<what>`; nothing if it says nothing."""
    said: bytes = (schema.metadata or {}).get(f"remine.{what}".encode(), b"")
    return said.decode()


def _tables_below(uri: str, listed: Sequence[Object]) -> list[str]:
    """The tables in folders of `uri`, if it is none itself: those of two judges are not one."""
    mark = "/_run/identity.json"
    runs = [o.uri.removeprefix(uri).removesuffix(mark).lstrip("/") for o in listed if o.uri.endswith(mark)]
    return [] if "" in runs else [name for name in runs if not name.startswith("_") and "/_" not in name]


def _check_version(name: str, footers: Footers) -> None:
    current = str(tables.table(name).version)
    if {_said(schema, "version") for schema in footers.schemas} == {current}:
        return
    other = next(f for f in footers if _said(f.schema, "version") != current)
    version = _said(other.schema, "version")
    raise InputError(f"{other.object.uri}: version {version} of table {name!r}, this remine reads {current}")


def _check_complete(uri: str, listed: Iterable[Object], footers: Footers) -> None:
    frozen = locations.join(uri, "_run", "inputs.json")
    if not any(o.uri == frozen for o in listed):
        return  # a table put together by hand: its files are all there is
    there = Marks((record["unit"]["name"], record["version"]) for f in footers if (record := f.record))
    asked = done = 0
    for unit in run_units(frozen):
        asked += 1
        done += (unit.name, unit.version) in there  # of another version: to be redone
    if done < asked:
        raise InputError(
            f"{uri}: {asked - done} of {asked} units are not done yet; run the command that writes it again"
        )


def read_unit(uri: str, *, columns: Sequence[str] | None = None, dictionaries: Sequence[str] = ()) -> pa.Table:
    """All rows of one data object, with the schema's metadata dropped (it grows stale in transit)."""
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as stream:
        read = pq.read_table(
            stream, columns=list(columns) if columns else None, read_dictionary=list(dictionaries) or None
        )
    return read.replace_schema_metadata(None)
