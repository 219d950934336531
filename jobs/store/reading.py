"""Reading tables: open and check them, and iterate over their rows. `jobs.store.object_rows` reads single objects."""

import fnmatch
import glob
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from actors.ids import content_id
from jobs import tables
from jobs.errors import InputError, about
from jobs.store.counts import Counts
from jobs.store.files import locations
from jobs.store.files.local_files import path_hint
from jobs.store.files.objects import CompactList, HashSet, Object
from jobs.store.files.threads import ahead
from jobs.store.footers import Footer, Footers, data_objects, read_footers
from jobs.store.identity import TABLE
from jobs.store.object_rows import opened_rows, row_groups, weight_of
from jobs.store.run_files import FOLDER, IDENTITY, INPUTS, identity_at, read_inputs, read_json, run_uri
from jobs.store.table_plan import first_rows
from jobs.store.unit_index import indexed_footers
from jobs.store.units import Unit
from jobs.store.writer import REJECTS_HELD, Reject, rejects_uri

# On S3, how many units are read ahead, and their bytes in total: a unit takes four requests of about 30 ms each.
AHEAD_THREADS, AHEAD_BYTES = 32, 64 << 20
MOST_WRITERS = 3  # tables whose writing jobs a message names
MOST_COMPARED = 10_000  # objects of a table on S3 whose footers are read again, and compared, before it is refused
_NAMED = 5  # units that a message lists


@dataclass(frozen=True)
class TableSource:
    """A table to read.

    Attributes:
        uri: the folder or prefix of the table.
        name: its name in `jobs.tables`.
        metadata: the metadata of its schema.
        footers: the footers of its objects, in order of unit name.
        identity: hash of everything that its rows depend on; empty for a table of objects without records.
        limit: only its first rows are read (`first`); None for all.
        span: only the row groups that begin in these rows of its only object are read (`parts`); None for all.
    """

    uri: str
    name: str
    metadata: dict[str, str]
    footers: Footers
    identity: str
    limit: int | None = None
    span: tuple[int, int] | None = None

    def first(self, limit: int | None) -> "TableSource":
        """Return the table limited to its first rows, for `rows`, `units` and `batches`; None: all rows."""
        return replace(self, limit=limit)

    @property
    def rows(self) -> int:
        """The number of rows."""
        rows = sum(footer.rows for footer in self.footers)
        return rows if self.limit is None else min(rows, self.limit)

    def units(self) -> CompactList[Unit]:
        """Return its objects as units of a derived table, under their own names."""
        units = (Unit(footer.unit.name, (footer.object,), rows=footer.rows) for footer in self.footers)
        return CompactList(units) if self.limit is None else first_rows(units, self.limit)

    def parts(self, rows: int) -> "Iterator[TableSource]":
        """Yield the table in parts of about `rows` rows for `batches`, in order: whole objects, or row groups of one.

        The part with the last row of a limit is that object alone, up to the limit.
        """
        part: list[Footer] = []
        n, left = 0, self.rows
        for footer in self.footers:
            is_cut = footer.rows > left
            if part and (is_cut or n + footer.rows > rows):
                yield self._part(part)
                part, n = [], 0
            if is_cut:
                if left:
                    yield replace(self._part([footer]), limit=left)
                return
            left -= footer.rows
            if footer.rows > rows:
                for first in range(0, footer.rows, rows):
                    yield replace(self._part([footer]), span=(first, first + rows))
            else:
                part.append(footer)
                n += footer.rows
        if part:
            yield self._part(part)

    def _part(self, footers: list[Footer]) -> "TableSource":
        return replace(self, footers=Footers(footers), limit=None)

    def by_unit(self) -> dict[str, Object]:
        """Return the object of each unit, by the name of the unit."""
        return {footer.unit.name: footer.object for footer in self.footers}

    def whole(self) -> Object:
        """Return the table as one input; its etag changes when any of its objects changes."""
        return whole_of(self.uri, [footer.object for footer in self.footers])

    def counts(self) -> Counts:
        """Return the sum of the counts of its units."""
        total = Counts()
        for footer in self.footers:
            total += footer.counts
        return total

    def rejects(self) -> Iterator[Reject]:
        """Yield the rejects of each unit's current generation, in order of unit name and as written."""
        for footer in self.footers:
            yield from rejects_of(self.uri, footer)

    def batches(self, columns: Sequence[str] | None = None, *, dictionaries: Sequence[str] = ()) -> Iterator[pa.Table]:
        """Yield the rows, one row group at a time, in order of unit name.

        Args:
            columns: to read; None for all.
            dictionaries: string columns to read as dictionary arrays.

        Raises:
            RunError: an object is damaged.
        """
        for rows in self._parts(columns, dictionaries):
            yield from rows

    def by_object(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the rows of each object, in order of unit name. Raises as `batches`."""
        for footer, rows in zip(self.footers, self._parts(columns, ()), strict=False):  # a limit may end earlier
            yield pa.concat_tables([footer.schema.empty_table().select(list(columns)), *rows])

    def _parts(self, columns: Sequence[str] | None, dictionaries: Sequence[str]) -> Iterator[Iterable[pa.Table]]:
        """Yield the row groups of each object; on S3, where latency dominates, several are read at a time."""
        footers = ((footer, None) for footer in self.footers)
        sources: Iterable[tuple[Footer, int | None]] = footers if self.limit is None else self._limited()

        def read(source: tuple[Footer, int | None]) -> Iterable[pa.Table]:
            footer, limit = source
            groups = row_groups(footer.object.uri, limit, columns, dictionaries, span=self.span)
            return list(groups) if weight_of(footer, columns) <= AHEAD_BYTES else groups

        if not locations.is_s3(self.uri):
            for footer, limit in sources:
                yield row_groups(footer.object.uri, limit, columns, dictionaries, span=self.span)
            return
        yield from ahead(
            read, sources, threads=AHEAD_THREADS, weight=lambda source: weight_of(source[0], columns), most=AHEAD_BYTES
        )

    def _limited(self) -> Iterator[tuple[Footer, int | None]]:
        of_uri = {footer.object.uri: footer for footer in self.footers}
        return ((of_uri[unit.inputs[0].uri], unit.limit) for unit in self.units())


def rejects_of(table: str, footer: Footer) -> Iterator[Reject]:
    """Yield the rejects of a unit's generation, of the table at `table`."""
    record = footer.record
    if record is None or not sum(record["counts"]["rejected"].values()):
        return
    with opened_rows(rejects_uri(table, record["unit"]["name"], record["generation"])) as file:
        for batch in file.iter_batches(REJECTS_HELD):
            yield from (Reject(**row) for row in batch.to_pylist())


def whole_of(uri: str, objects: Sequence[Object]) -> Object:
    """Return the table at `uri` with these data objects as one input."""
    return Object(uri, sum(o.size for o in objects), content_id(*(f"{o.uri}:{o.etag}" for o in objects)))


def tables_in(pattern: str) -> list[str]:
    """Return the places of tables that match `pattern`: itself or, if it is a glob, the folders that match it.

    Raises:
        InputError: no folder matches a glob.
    """
    if not glob.has_magic(pattern):
        return [pattern]
    base = locations.absolute(pattern)
    while glob.has_magic(base):
        base = base.rsplit("/", 1)[0]
    depth = locations.absolute(pattern).count("/")
    files = (file.uri for file in locations.listing(base) if file.uri.count("/") > depth)
    folders = {"/".join(uri.split("/")[: depth + 1]) for uri in files}
    matching = fnmatch.filter(sorted(folders), locations.absolute(pattern))
    if not matching:
        raise InputError(f"no table matches{path_hint(locations.absolute(pattern))}", place=pattern)
    return matching


def open_tables(patterns: Sequence[str], *expected: str, key: str | None = None) -> list[TableSource]:
    """Return the tables at `patterns` (paths, URIs or globs), each once, in that order.

    A folder of several tables, such as one that `models=` writes, stands for all of them.

    Args:
        key: the key of the job that names them, for messages.

    Raises:
        InputError: a glob matches nothing, or as `open_table`.
    """
    with about(key):
        uris = dict.fromkeys(locations.absolute(uri) for pattern in patterns for uri in _tables_of(pattern, expected))
        return [open_table(uri, *expected) for uri in uris]


def _tables_of(pattern: str, expected: Sequence[str]) -> list[str]:
    if glob.has_magic(pattern):
        return tables_in(pattern)
    uri = locations.absolute(pattern)
    if locations.exists(run_uri(uri, IDENTITY)):
        return [uri]
    below = _tables_below(uri, locations.listing(uri))
    if (fitting := _folders_of(expected, below)) and not all(
        any(_is_in(name, folder) for folder in fitting) for name in below
    ):
        raise _several_tables(uri, below, fitting)
    return [locations.join(uri, name) for name in below] or [uri]


def _folders_of(expected: Sequence[str], below: Sequence[str]) -> list[str]:
    """Return the folders with the name of an expected table, such as `set/items`, that have tables of `below`."""
    parts = [name.split("/") for name in below]
    ends = [(names, next((n for n, part in enumerate(names, 1) if part in expected), 0)) for names in parts]
    return list(dict.fromkeys("/".join(names[:end]) for names, end in ends if end))


def _is_in(name: str, folder: str) -> bool:
    return f"{name}/".startswith(f"{folder}/")


def _several_tables(uri: str, below: Sequence[str], fitting: Sequence[str]) -> InputError:
    hint = f"; did you mean {locations.join(uri, fitting[0])}?" if len(fitting) == 1 else "; name one of them"
    return InputError(f"a folder of several tables: {', '.join(below)}{hint}", place=uri)


def refuse_absent(*uris: str | None) -> None:
    """Refuse local paths that do not exist, before a model is looked up or built, which takes longer.

    Args:
        uris: of tables that the job will open; None and s3:// are ignored.

    Raises:
        InputError: a local path does not exist.
    """
    for uri in uris:
        if uri and not locations.is_s3(uri) and not Path(locations.absolute(uri)).exists():
            raise _no_table(locations.absolute(uri))


def refuse_early(uri: str | None, *expected: str, key: str | None = None) -> None:
    """Refuse what `refuse_absent` does and, by `_run/identity.json` alone, local tables not named in `expected`.

    Args:
        key: the key of the job that names the table, for messages.

    Raises:
        InputError: a local path does not exist, or has another table.
    """
    with about(key):
        refuse_absent(uri)
        if uri and not locations.is_s3(uri) and Path(file := run_uri(locations.absolute(uri), IDENTITY)).exists():
            name = read_json(file).get(TABLE)
            if isinstance(name, str) and name not in expected:
                raise _other_table(locations.absolute(uri), name, expected)


def _no_table(uri: str, expected: Sequence[str] = ()) -> InputError:
    wanted = f", expected {_wanted(expected)}" if expected else ""
    if not locations.is_s3(uri) and Path(uri).is_file():
        return InputError(f"is a file, and a table is a folder that a job writes{wanted}{path_hint(uri)}", place=uri)
    return InputError(f"no table here (no .parquet objects){wanted}{path_hint(uri)}", place=uri)


def _other_table(uri: str, name: str, expected: Sequence[str]) -> InputError:
    return InputError(f"is a table {name!r}, expected {_wanted(expected)}", place=uri)


def open_table(
    uri: str, *expected: str, complete: bool = True, indexed: bool = True, key: str | None = None
) -> TableSource:
    """Return the table at `uri`, whose name must be one of `expected`.

    Args:
        complete: False: also a table of an incomplete run.
        indexed: False: read the footers from the objects rather than from the index (`jobs.store.unit_index`).
        key: the key of the job that names it, for messages.

    Raises:
        InputError: there is no table of remine, it is another table than expected, a file cannot be read, its columns
            differ from the table's, its units have several configurations, or its run is incomplete (the message says
            how to complete it).
    """
    with about(key):
        return _open_table(locations.absolute(uri), expected, complete=complete, indexed=indexed)


def _open_table(uri: str, expected: Sequence[str], *, complete: bool, indexed: bool) -> TableSource:
    listed = locations.listing(uri)
    if below := _tables_below(uri, listed):
        raise _several_tables(uri, below, _folders_of(expected, below))

    def opened(footers: Iterable[Footer | None]) -> TableSource:
        return _opened(uri, listed, Footers(_sound(data_objects(uri, listed), footers)), expected, complete=complete)

    def from_objects(*, compared: bool) -> Iterator[Footer | None]:
        return read_footers(data_objects(uri, listed), remote=locations.is_s3(uri), compared=compared)

    try:
        index = indexed_footers(uri, data_objects(uri, listed), listed)
        return opened(index if indexed else from_objects(compared=False))
    except InputError:
        objects = sum(1 for _ in data_objects(uri, listed))
        if not (locations.is_s3(uri) and 0 < objects <= MOST_COMPARED):
            raise
    return opened(from_objects(compared=True))  # perhaps bytes of a footer were changed on the way


def _opened(
    uri: str, listed: Sequence[Object], footers: Footers, expected: Sequence[str], *, complete: bool
) -> TableSource:
    """Return the table with these footers. Raises InputError as `open_table`."""
    if not footers:
        if any(file.uri == run_uri(uri, IDENTITY) for file in listed):
            raise InputError("no unit is done yet; run the command that writes it again, or wait", place=uri)
        raise _no_table(uri, expected)
    name = _table_name(uri, footers, expected)
    _check_version(name, footers)
    _check_schema(footers)
    _check_complete(uri, listed, footers, required=complete)
    first = footers[0]
    metadata = {key.decode(): value.decode() for key, value in (first.schema.metadata or {}).items()}
    identity = first.record["identity"] if first.record else ""
    return TableSource(uri, name, metadata, footers.by_unit(), identity)


def schema_fault(footer: Footer) -> str | None:
    """Return how the columns differ from those of the table in the metadata.

    None if they do not differ, or for another version of the table. Vectors may have any length.
    """
    name = _metadata(footer.schema, "table")
    if name not in tables.TABLES or _metadata(footer.schema, "version") != str(tables.table(name).version):
        return None
    if footer.schema.equals(tables.table(name, dim=footer.dim).schema()):
        return None
    return f"its schema is not that of table {name}; the file is damaged or was rewritten"


def _sound(objects: Iterable[Object], footers: Iterable[Footer | None]) -> Iterator[Footer]:
    """Yield the footers of these objects. Raises InputError for the first that could not be read."""
    for source, footer in zip(objects, footers, strict=True):
        if footer is None:
            raise InputError(
                "not a readable Parquet file; if remine wrote it, it is damaged: run the command that "
                "writes the table again, which replaces it",
                place=source.uri,
            )
        yield footer


def _table_name(uri: str, footers: Footers, expected: Sequence[str]) -> str:
    """Return the name of the table that all `footers` belong to."""
    names = {_metadata(schema, "table") for schema in footers.schemas}
    if names == {""}:
        raise InputError(f"Parquet files, but not a table of remine; expected {_wanted(expected)}", place=uri)
    if "" in names:
        foreign = next(footer for footer in footers if not _metadata(footer.schema, "table"))
        raise InputError(
            "not written by remine, but in the folder of a table; move it elsewhere", place=foreign.object.uri
        )
    if len(names) > 1:
        raise InputError(
            f"several tables in one folder: {', '.join(sorted(names))}; move all but one to other folders", place=uri
        )
    (name,) = names
    if name not in tables.TABLES:
        raise InputError(
            f"table {name!r} is unknown to this version of remine; use the version that wrote it, or a newer one",
            place=uri,
        )
    if expected and name not in expected:
        raise _other_table(uri, name, expected)
    return name


def _wanted(expected: Sequence[str]) -> str:
    """Return the names of tables, with the jobs that write them."""
    if len(expected) > MOST_WRITERS:
        return f"one of {', '.join(expected)}"
    wanted = (f"{name} (written by remine {', '.join(tables.WRITTEN_BY[name])})" for name in expected)
    return " or ".join(wanted)


def _metadata(schema: pa.Schema, key: str) -> str:
    """Return the value of `remine.<key>` in a schema's metadata; empty if there is none."""
    value: bytes = (schema.metadata or {}).get(f"remine.{key}".encode(), b"")
    return value.decode()


def _tables_below(uri: str, listed: Sequence[Object]) -> list[str]:
    """Return the tables in folders of `uri`, if it is not a table itself."""
    suffix = f"/{FOLDER}/{IDENTITY}"
    names = [f.uri.removeprefix(uri).removesuffix(suffix).lstrip("/") for f in listed if f.uri.endswith(suffix)]
    return [] if "" in names else [name for name in names if not name.startswith("_") and "/_" not in name]


def _check_version(name: str, footers: Footers) -> None:
    current = str(tables.table(name).version)
    if {_metadata(schema, "version") for schema in footers.schemas} == {current}:
        return
    other = next(footer for footer in footers if _metadata(footer.schema, "version") != current)
    version = _metadata(other.schema, "version")
    raise InputError(
        f"version {version} of table {name!r}; this version of remine reads {current}", place=other.object.uri
    )


def _check_schema(footers: Footers) -> None:
    for schema in footers.schemas:
        footer = next(footer for footer in footers if footer.schema is schema)
        if fault := schema_fault(footer):
            raise InputError(fault, place=footer.object.uri)
        if not schema.equals(footers.schemas[0]):
            raise InputError(
                f"its vectors and those of {footers[0].object.uri} differ in length", place=footer.object.uri
            )


def _check_complete(uri: str, listed: Iterable[Object], footers: Footers, *, required: bool) -> None:
    identities: set[str] = set()

    def written_versions() -> Iterator[tuple[str, str]]:
        for footer in footers:
            if record := footer.record:
                identities.add(record["identity"])
                yield record["unit"]["name"], record["version"]

    written = HashSet(written_versions())
    identity = identity_at(uri, listed)
    if len(identities | {identity} - {None}) > 1:
        raise _several_configurations(uri, footers, identity)
    inputs = run_uri(uri, INPUTS)
    if not required or not any(file.uri == inputs for file in listed):
        return  # a table assembled by hand: every file is a unit
    total = done = 0
    for unit in read_inputs(inputs):
        total += 1
        done += (unit.name, unit.version) in written  # a unit with another version must be redone
    if done < total:
        raise InputError(
            f"{total - done} of {total} units are not done; run the command that writes it again", place=uri
        )


def _several_configurations(uri: str, footers: Footers, expected: str | None) -> InputError:
    """Return the error about units whose identity is not `expected` or, if none is expected, the first unit's."""
    units = [(record["unit"]["name"], record["identity"]) for footer in footers if (record := footer.record)]
    others = [name for name, identity in units if identity != (expected or units[0][1])]
    names = ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
    if expected is None:
        return InputError(
            f"units of several configurations are mixed: {names} and {units[0][0]} differ; "
            "keep the units of each configuration in a separate folder",
            place=uri,
        )
    return InputError(
        f"{len(others)} of {len(units)} units have another configuration than {FOLDER}/{IDENTITY}: {names}; "
        "run the command that writes the table again, which replaces them",
        place=uri,
    )
