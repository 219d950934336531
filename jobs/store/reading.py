"""Reading tables: their objects, footers and rows.

Strings of long tables can be read as dictionaries (`read_unit(…, dictionaries=[…])`): 800 M ratings share a
few dozen question, rater and rubric names.
"""

import fnmatch
import glob
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jobs import tables
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.locations import Object
from jobs.store.units import Unit, frozen_units, unit_of_file
from jobs.store.writer import FOOTER_KEY, Counts

FOOTERS_AT_A_TIME = 64
# Footers are small ranged reads, on S3 all latency. Each thread costs memory, which is of no use on a local disk.
FOOTER_THREADS, FOOTER_THREADS_LOCAL = 16, 4


@dataclass(frozen=True, slots=True)
class Footer:
    """What a data object says of itself; `record` is None for a file that remine did not write.

    A table has up to tens of thousands of them, all held by the driver: the record is kept as it was written, under a
    kilobyte, and read when it is asked for; equal schemas are one object.
    """

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


def read_footers(objects: Sequence[Object]) -> list[Footer | None]:
    """`read_footer` of each, in order."""
    read: list[Footer | None] = []
    threads = FOOTER_THREADS if objects and locations.is_s3(objects[0].uri) else FOOTER_THREADS_LOCAL
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(objects), FOOTERS_AT_A_TIME):
            known = next((f.schema for f in read if f is not None), None)
            some = pool.map(read_footer, objects[first : first + FOOTERS_AT_A_TIME])
            read += [_sharing(footer, known) for footer in some]
    return read


def _sharing(footer: Footer | None, known: pa.Schema | None) -> Footer | None:
    """The footer with the schema `known` in place of its own if they are equal, metadata too."""
    if footer is None or known is None or not footer.schema.equals(known, check_metadata=True):
        return footer
    return replace(footer, schema=known)


def data_objects(folder: str, listed: Sequence[Object] | None = None) -> list[Object]:
    """The Parquet objects of the table at `folder`: nothing whose name below it begins with `_` or `.`."""
    listed = locations.listing(folder) if listed is None else listed
    base = locations.absolute(folder)
    return [
        o
        for o in listed
        if o.uri.endswith(".parquet") and not any(p[:1] in "_." for p in o.uri.removeprefix(base).strip("/").split("/"))
    ]


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
    try:
        yield from frozen_units(locations.read_bytes(uri).decode())
    except (ValueError, IndexError) as error:
        raise InputError(f"{uri}: damaged, it is not JSON any more ({error})") from error


@dataclass(frozen=True)
class TableSource:
    """One table to read: its place, name, metadata and footers in order of unit name."""

    uri: str
    name: str
    metadata: dict[str, str]
    footers: tuple[Footer, ...]
    identity: str

    @property
    def rows(self) -> int:
        return sum(f.rows for f in self.footers)

    def units(self) -> list[Unit]:
        """Its objects as work units of a derived table, under their own names."""
        return [Unit(f.unit.name, (f.object,), rows=f.rows) for f in self.footers]

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
    objects = data_objects(uri, listed)
    if below := _tables_below(uri, listed):
        raise InputError(f"{uri}: not a table but a folder of some: {', '.join(below)}; name one of them")
    if not objects:
        raise InputError(f"{uri}: no table here (no .parquet objects)")
    footers = read_footers(objects)
    if broken := [o.uri for o, f in zip(objects, footers, strict=True) if f is None]:
        raise InputError(f"{broken[0]}: not a readable Parquet file")
    whole = [f for f in footers if f is not None]
    names = {(f.schema.metadata or {}).get(b"remine.table", b"").decode() for f in whole}
    if names == {""}:
        raise InputError(f"{uri}: Parquet files, but not a table of remine; expected {' or '.join(expected)}")
    if "" in names:
        foreign = next(f for f in whole if b"remine.table" not in (f.schema.metadata or {}))
        raise InputError(f"{foreign.object.uri}: does not belong to the table it lies in (not written by remine)")
    if len(names) > 1:
        raise InputError(f"{uri}: several tables in one place: {', '.join(sorted(names))}")
    (name,) = names
    if name not in tables.TABLES:
        raise InputError(f"{uri}: is a table {name!r}, which this remine does not know")
    if expected and name not in expected:
        raise InputError(f"{uri}: is a table {name!r}, expected {' or '.join(expected)}")
    _check_version(uri, name, whole)
    _check_complete(uri, listed, whole)
    metadata = {k.decode(): v.decode() for k, v in (whole[0].schema.metadata or {}).items()}
    record = whole[0].record
    identity = record["identity"] if record else ""
    ordered = tuple(sorted(whole, key=lambda f: f.unit.name))
    return TableSource(uri, name, metadata, ordered, identity)


def _tables_below(uri: str, listed: Sequence[Object]) -> list[str]:
    """The tables in folders of `uri`, if it is none itself: those of two judges are not one."""
    mark = "/_run/identity.json"
    runs = [o.uri.removeprefix(uri).removesuffix(mark).lstrip("/") for o in listed if o.uri.endswith(mark)]
    return [] if "" in runs else [name for name in runs if not name.startswith("_") and "/_" not in name]


def _check_version(uri: str, name: str, footers: Sequence[Footer]) -> None:
    current = str(tables.table(name).version)
    for footer in footers:
        version = (footer.schema.metadata or {}).get(b"remine.version", b"").decode()
        if version != current:
            raise InputError(f"{footer.object.uri}: version {version} of table {name!r}, this remine reads {current}")


def _check_complete(uri: str, listed: Sequence[Object], footers: Sequence[Footer]) -> None:
    frozen = locations.join(uri, "_run", "inputs.json")
    if not any(o.uri == frozen for o in listed):
        return  # a table put together by hand: its files are all there is
    there = {(record["unit"]["name"], record["version"]) for f in footers if (record := f.record)}
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
