"""Reading tables: their objects, footers and rows.

Strings of long tables can be read as dictionaries (`read_unit(…, dictionaries=[…])`): 800 M ratings share a
few dozen question, rater and rubric names.
"""

import contextlib
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

from actors.errors import first_line
from jobs import tables
from jobs.errors import InputError, RunError
from jobs.store import faults, locations
from jobs.store.compact_list import CompactList, HashSet
from jobs.store.identity import hash_of_kept
from jobs.store.locations import Object
from jobs.store.shapes import fits
from jobs.store.threads import in_threads
from jobs.store.units import Unit, frozen_units, unit_of_file
from jobs.store.writer import FOOTER_JSON, FOOTER_KEY, REJECTS_HELD, Counts, Reject, rejects_uri

# Footers are small ranged reads, on S3 all latency. Each thread costs a megabyte of heap, of no use on a local disk.
FOOTER_THREADS, FOOTER_THREADS_LOCAL = 16, 2
_NAMED = 5  # units that a sentence names


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
    """The footer of `source`; None if there is no such file, or it is damaged or not Parquet.

    A footer counts as damaged where its metadata is not text, or what remine wrote there has lost its form.
    """
    footer = _footer(source)
    return footer if footer is not None and _is_whole(footer) else None


def _footer(source: Object) -> Footer | None:
    """As `read_footer`, without a look at the metadata."""
    fs, path = locations.filesystem(source.uri)
    try:
        with faults.at(source.uri), fs.open_input_file(path) as stream:
            meta = pq.read_metadata(stream)
            schema = meta.schema.to_arrow_schema()
    except FileNotFoundError:
        return None
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if faults.is_damage(error):
            return None
        raise
    return Footer(source, meta.num_rows, schema, (meta.metadata or {}).get(FOOTER_KEY))


def _is_whole(footer: Footer) -> bool:
    """Whether the metadata is text and the record, if there is one, what `UnitWriter` keeps in a footer."""
    try:
        for entry in (footer.schema.metadata or {}).items():
            b"".join(entry).decode()
        return not footer.written or fits(json.loads(footer.written), FOOTER_JSON)
    except (ValueError, RecursionError):
        return False


def read_footers(objects: Iterable[Object], *, remote: bool) -> Iterator[Footer | None]:
    """`read_footer` of each, in order; `remote`: they lie on S3."""
    # The threads only read: what they parsed would stay in the heap of each.
    for footer in in_threads(_footer, objects, FOOTER_THREADS if remote else FOOTER_THREADS_LOCAL):
        yield footer if footer is not None and _is_whole(footer) else None


class Footers(Sequence[Footer]):
    """The footers of a table, packed; equal schemas are one object."""

    def __init__(self, footers: Iterable[Footer]) -> None:
        self.schemas: list[pa.Schema] = []
        self._packed = CompactList((f.object, f.rows, self._place(f.schema), f.written) for f in footers)

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


def run_json(uri: str, shape: Any = dict) -> Any:
    """What a run keeps at `uri`, below the table's `_run`. FileNotFoundError if there is nothing.

    Args:
        shape: what it must look like (`jobs.store.shapes`).

    Raises:
        InputError: it is damaged.
    """
    try:
        kept = json.loads(locations.read_bytes(uri))
    except (ValueError, RecursionError) as error:
        raise _damaged(uri, f"not JSON: {error}") from error
    if not fits(kept, shape):
        raise _damaged(uri, "JSON of another shape than remine writes")
    return kept


def _damaged(uri: str, how: str) -> InputError:
    again = "run the command that writes the table again"
    # Only the identity cannot be made anew: without it nothing says that the place is ours.
    remedy = f"{again} with overwrite=true" if uri.endswith("/identity.json") else f"delete it and {again}"
    return InputError(f"{uri}: damaged ({how}); {remedy}")


def run_units(uri: str) -> Iterator[Unit]:
    """The frozen units in an `inputs.json`, one at a time.

    Raises: as `run_json`.
    """
    fs, path = locations.filesystem(uri)
    try:
        with fs.open_input_stream(path) as stream, io.TextIOWrapper(stream, "utf-8") as text:
            yield from frozen_units(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(uri, str(error)) from error


def own_identity(uri: str, listed: Iterable[Object]) -> str | None:
    """The identity hash that the `_run/identity.json` of the table at `uri` makes; None if it is not in `listed`.

    Raises:
        InputError: it is damaged.
    """
    kept = locations.join(uri, "_run", "identity.json")
    return hash_of_kept(run_json(kept)) if any(o.uri == kept for o in listed) else None


@contextlib.contextmanager
def reading_rows(uri: str) -> Iterator[None]:
    """Raise a RunError that names `uri` if its rows turn out to be damaged."""
    try:
        with faults.at(uri):
            yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if not faults.is_damage(error):
            raise
        raise RunError(
            f"{uri}: damaged, its rows cannot be read ({first_line(error)}); "
            "delete it and run the command that writes the table again"
        ) from error


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

    def units(self) -> CompactList[Unit]:
        """Its objects as work units of a derived table, under their own names."""
        return CompactList(Unit(f.unit.name, (f.object,), rows=f.rows) for f in self.footers)

    def by_unit(self) -> dict[str, Object]:
        return {f.unit.name: f.object for f in self.footers}

    def counts(self) -> Counts:
        total = Counts()
        for footer in self.footers:
            total += footer.counts
        return total

    def rejects(self) -> Iterator[Reject]:
        """What the current generation of each unit rejected, in order of unit name and as written."""
        for footer in self.footers:
            record = footer.record
            if record is None or not sum(record["counts"]["rejected"].values()):
                continue
            fs, path = locations.filesystem(rejects_uri(self.uri, record["unit"]["name"], record["generation"]))
            with fs.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
                for batch in file.iter_batches(REJECTS_HELD):
                    yield from (Reject(**row) for row in batch.to_pylist())

    def batches(self, columns: Sequence[str] | None = None, *, dictionaries: Sequence[str] = ()) -> Iterator[pa.Table]:
        """The rows a row group at a time, in order of unit name; strings of `dictionaries` as dictionary arrays."""
        as_read = list(dictionaries) or None
        for footer in self.footers:
            uri = footer.object.uri
            fs, path = locations.filesystem(uri)
            with contextlib.ExitStack() as opened:
                with reading_rows(uri):
                    stream = opened.enter_context(fs.open_input_file(path))
                    file = opened.enter_context(pq.ParquetFile(stream, read_dictionary=as_read))
                for group in range(file.num_row_groups):
                    with reading_rows(uri):
                        rows = file.read_row_group(group, columns=list(columns) if columns else None)
                    yield rows


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
        InputError: nothing there, not a remine table, another table than expected, a file that is no Parquet, other
            columns than the table's, units of several configurations, or a run that is not complete (the sentence
            says how to complete it).
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
    _check_schema(footers)
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
            raise InputError(
                f"{source.uri}: not a readable Parquet file; if remine wrote it, it is damaged, and the command that "
                "writes the table replaces it when it is run again"
            )
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


def schema_fault(footer: Footer) -> str | None:
    """What is wrong with the columns of an object of a table that is known here; vectors may have any length."""
    name = _said(footer.schema, "table")
    if name not in tables.TABLES or _said(footer.schema, "version") != str(tables.table(name).version):
        return None
    length = next((field.type.list_size for field in footer.schema if pa.types.is_fixed_size_list(field.type)), None)
    if footer.schema.equals(tables.table(name, dim=length).schema()):
        return None
    return f"{footer.object.uri}: its schema is not that of table {name}; it is damaged, or somebody rewrote it"


def _check_schema(footers: Footers) -> None:
    for schema in footers.schemas:
        of_it = next(f for f in footers if f.schema is schema)
        if fault := schema_fault(of_it):
            raise InputError(fault)
        if not schema.equals(footers.schemas[0]):
            raise InputError(f"{of_it.object.uri}: its vectors are not as long as those of {footers[0].object.uri}")


def _check_complete(uri: str, listed: Iterable[Object], footers: Footers) -> None:
    identities: set[str] = set()

    def versions() -> Iterator[tuple[str, str]]:
        for footer in footers:
            if record := footer.record:
                identities.add(record["identity"])
                yield record["unit"]["name"], record["version"]

    there = HashSet(versions())
    own = own_identity(uri, listed)
    if len(identities | {own} - {None}) > 1:
        raise InputError(_several_configurations(uri, footers, own))
    frozen = locations.join(uri, "_run", "inputs.json")
    if not any(o.uri == frozen for o in listed):
        return  # a table put together by hand: its files are all there is
    asked = done = 0
    for unit in run_units(frozen):
        asked += 1
        done += (unit.name, unit.version) in there  # of another version: to be redone
    if done < asked:
        raise InputError(
            f"{uri}: {asked - done} of {asked} units are not done yet; run the command that writes it again"
        )


def _several_configurations(uri: str, footers: Footers, own: str | None) -> str:
    """The sentence about units whose identity is not `own`, or if that is not known, not that of the first unit."""
    found = [(record["unit"]["name"], record["identity"]) for footer in footers if (record := footer.record)]
    others = [name for name, identity in found if identity != (own or found[0][1])]
    named = ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    if own is None:
        return (
            f"{uri}: units of several configurations are mixed here: {named} and {found[0][0]} differ; "
            "keep the units of each configuration in a folder of their own"
        )
    return (
        f"{uri}: {len(others)} of {len(found)} units were written with another configuration than "
        f"_run/identity.json says: {named}; run the command that writes the table again, which replaces them"
    )


def read_unit(uri: str, *, columns: Sequence[str] | None = None, dictionaries: Sequence[str] = ()) -> pa.Table:
    """All rows of one data object, with the schema's metadata dropped (it grows stale in transit)."""
    fs, path = locations.filesystem(uri)
    with reading_rows(uri), fs.open_input_file(path) as stream:
        read = pq.read_table(
            stream, columns=list(columns) if columns else None, read_dictionary=list(dictionaries) or None
        )
    return read.replace_schema_metadata(None)
