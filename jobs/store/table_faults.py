"""Faults of a table on disk or S3: damaged objects, wrong counts, missing units and files, duplicate keys.

Each check yields faults and writes nothing. `remine verify` runs all of them: `damage` first, because a table
with damage cannot be opened, and then the others on the opened table.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.errors import first_line
from actors.quantities import quantity
from jobs import tables
from jobs.errors import InputError, RunError
from jobs.store.counts import Counts
from jobs.store.files import locations
from jobs.store.files.faults import is_damage
from jobs.store.footers import Footer, Footers, data_objects, read_footer
from jobs.store.keys import duplicate_keys
from jobs.store.object_rows import row_groups
from jobs.store.reading import TableSource, open_table, schema_fault
from jobs.store.run_files import (
    IDENTITY,
    INPUTS,
    MANIFEST,
    UNITS,
    identity_at,
    read_inputs,
    read_json,
    read_manifest,
    run_uri,
)
from jobs.store.runs import place
from jobs.store.unit_index import read_index
from jobs.store.units import Unit
from jobs.store.writer import rejects_uri


class Fault(NamedTuple):
    """A fault of a table.

    Attributes:
        place: the file or table.
        problem: what is wrong with it.
        damaged: the file to set aside so that the next run writes it again; None if that does not help.
        missing: whether something is missing that the next run writes.
        in_content: whether the content of `damaged` alone shows the fault, so that a compared copy must show it too.
    """

    place: str
    problem: str
    damaged: str | None = None
    missing: bool = False
    in_content: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


def damage(uri: str) -> Iterator[Fault]:
    """Yield the faults that keep jobs from opening the table: unreadable or foreign objects, and missing units."""
    listed = locations.listing(uri)
    inputs = run_uri(uri, INPUTS)
    if not any(file.uri == inputs for file in listed):
        return  # remine did not write a table here; `open_table` reports what it is
    units: list[Unit] = []
    try:
        units = list(read_inputs(inputs))
    except InputError as error:
        yield _of_run_file(uri, INPUTS, error)
    names = {unit.name for unit in units}
    versions: dict[str, str] = {}
    identities: dict[str, str] = {}
    for file, footer in ((file, read_footer(file)) for file in data_objects(uri, listed)):
        if footer is None:
            is_unit = file.uri.rsplit("/", 1)[-1].removesuffix(".parquet") in names
            other = "" if is_unit else ", and no unit of this table; move it elsewhere if you need it"
            damaged = file.uri if is_unit else None
            yield Fault(file.uri, f"damaged, not a readable Parquet file{other}", damaged, in_content=True)
        elif (record := footer.record) is None:
            yield Fault(file.uri, "not written by remine")
        else:
            if fault := schema_fault(footer):
                yield Fault(file.uri, fault, file.uri, in_content=True)
            versions[record["unit"]["name"]] = record["version"]
            identities[file.uri] = record["identity"]
    try:
        yield from _identity_faults(uri, identities, identity_at(uri, listed))
    except InputError as error:
        yield _of_run_file(uri, IDENTITY, error)
    if missing := [unit for unit in units if versions.get(unit.name) != unit.version]:
        first = missing[0]
        source = f" (of {first.inputs[0].uri})" if first.inputs else ""
        yield Fault(
            uri,
            f"{len(missing):,} of {len(units):,} units are missing, the first is {first.name}{source}; "
            "run the command that writes the table again",
            missing=True,
        )


def _of_run_file(uri: str, name: str, error: InputError) -> Fault:
    file = run_uri(uri, name)
    return Fault(file, error.why if error.place == file else str(error), file)


def _identity_faults(uri: str, identities: Mapping[str, str], kept: str | None) -> Iterator[Fault]:
    """Yield the objects whose configuration is not that of `identity.json` or, if it is lost, of the first object.

    Args:
        identities: the identity hash in each object's footer, by uri.
        kept: the identity hash of `identity.json`; None if it is lost.
    """
    if kept is not None and identities and kept not in identities.values():
        file = run_uri(uri, IDENTITY)  # without it, runs use the configuration of the objects, if they share one
        damaged = file if len(set(identities.values())) == 1 else None
        yield Fault(uri, f"_run/{IDENTITY} is not the configuration of any object", damaged=damaged)
        return
    expected = kept or next(iter(identities.values()), None)
    for file, identity in identities.items():
        if identity != expected:
            yield Fault(file, "written with another configuration than the other objects", file)


def footer_faults(source: TableSource) -> Iterator[Fault]:
    """Yield objects without a record, and objects whose record does not fit their rows, name or rejects."""
    for footer in source.footers:
        uri = footer.object.uri
        if (record := footer.record) is None:
            yield Fault(uri, "not written by remine")
            continue
        if footer.counts.rows_out != footer.rows:
            yield Fault(uri, f"has {quantity(footer.rows, 'row')}, its footer says {footer.counts.rows_out}", uri)
        if not footer.counts.balances():
            yield Fault(uri, f"does not balance: {footer.counts}", uri)
        if not uri.endswith(f"/{footer.unit.name}.parquet"):
            yield Fault(uri, f"contains unit {footer.unit.name}", uri)
        rejected = footer.counts.rejected.total()
        stored = _count_rejects(source.uri, footer.unit.name, record["generation"]) if rejected else 0
        if stored != rejected:
            yield Fault(uri, f"{rejected} rejected, {stored} stored in _rejects", uri)


def _count_rejects(table: str, unit: str, generation: int) -> int:
    try:
        with locations.local_copy(rejects_uri(table, unit, generation)) as path:
            rows: int = pq.read_metadata(path).num_rows
    except FileNotFoundError:
        return 0
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if not is_damage(error):
            raise
        return 0
    return rows


def run_faults(source: TableSource) -> Iterator[Fault]:
    """Yield the files of `_run/` that are missing or damaged, or that do not match the objects."""
    checks: dict[str, Callable[[TableSource], list[Fault]]] = {
        IDENTITY: _identity_file_faults,
        INPUTS: _inputs_faults,
        MANIFEST: _manifest_faults,
        UNITS: _units_faults,
    }
    for name, check in checks.items():
        try:
            yield from check(source)
        except FileNotFoundError:
            yield Fault(source.uri, f"no _run/{name}", missing=True)
        except InputError as error:
            yield _of_run_file(source.uri, name, error)


def _identity_file_faults(source: TableSource) -> list[Fault]:
    read_json(run_uri(source.uri, IDENTITY))
    return []


def _inputs_faults(source: TableSource) -> list[Fault]:
    names = {unit.name for unit in read_inputs(run_uri(source.uri, INPUTS))}
    extra = {footer.unit.name: footer.object.uri for footer in source.footers if footer.unit.name not in names}
    return [Fault(source.uri, f"unit {name} is not in the list of inputs", extra[name]) for name in sorted(extra)]


def _manifest_faults(source: TableSource) -> list[Fault]:
    total = Counts.from_json(read_manifest(source.uri)["counts"])
    if total == source.counts():
        return []
    return [Fault(source.uri, "the manifest's counts are not the sum of the footers'", run_uri(source.uri, MANIFEST))]


def _units_faults(source: TableSource) -> list[Fault]:
    index = read_index(source.uri)
    listed = {f.unit.name: (record["generation"], f.rows) for f in index if (record := f.record)}
    written = {f.unit.name: (record["generation"], f.rows) for f in source.footers if (record := f.record)}
    if listed == written:
        return []
    return [
        Fault(
            source.uri, f"_run/{UNITS} does not list the units and generations that exist", run_uri(source.uri, UNITS)
        )
    ]


def row_faults(source: TableSource) -> Iterator[Fault]:
    """Yield faults for damaged rows, statuses that the footers do not count, and duplicate keys.

    Every page is read and compared with its checksum.
    """
    damaged = False
    for footer in source.footers:
        for fault in _unit_row_faults(footer):
            damaged = True
            yield fault
    if damaged:
        return  # the keys cannot be read
    definition = tables.table(source.name)
    for key, count in duplicate_keys(source, definition.key).items():
        yield Fault(source.uri, f"key {dict(zip(definition.key, key, strict=True))} occurs {count} times")


def _unit_row_faults(footer: Footer) -> Iterator[Fault]:
    """Yield the faults of one object's rows: damage, or other statuses than its footer counts."""
    uri = footer.object.uri
    statuses: Counter[str] = Counter()
    has_status = "status" in footer.schema.names
    try:
        for rows in row_groups(uri):
            rows.validate(full=True)  # also checks that strings are UTF-8
            if has_status:
                statuses.update({e["values"]: e["counts"] for e in pc.value_counts(rows["status"]).to_pylist()})
    except RunError as error:
        yield Fault(uri, error.why, uri, in_content=True)
        return
    except pa.ArrowInvalid as error:
        yield Fault(uri, f"damaged ({first_line(error)})", uri, in_content=True)
        return
    if has_status and footer.record is not None and statuses != footer.counts.status:
        problem = f"statuses {dict(statuses)}, its footer says {dict(footer.counts.status)}"
        yield Fault(uri, problem, uri, in_content=True)


def of_table(source: TableSource, *more: Callable[[TableSource], Iterable[Fault]]) -> Iterator[Fault]:
    """Yield the faults of an opened table: those of this module's checks, and of `more`."""
    for check in (footer_faults, run_faults, *more, row_faults):
        yield from check(source)


def of_place(uri: str, *more: Callable[[TableSource], Iterable[Fault]]) -> list[Fault]:
    """Return the damage of the table at `uri`, and the other faults of what can be read of it.

    Raises:
        InputError: there is no table.
    """
    damages = list(damage(uri))
    if not damages:
        return list(of_table(open_table(uri, indexed=False), *more))
    # Summaries of all units differ from the sound ones; the next run derives them again.
    source, derived = sound_part(uri), {run_uri(uri, MANIFEST), run_uri(uri, UNITS)}
    others = (fault for fault in (of_table(source, *more) if source else ()) if fault not in damages)
    return damages + [fault for fault in others if fault.place != uri or fault.damaged not in derived]


def sound_part(uri: str) -> TableSource | None:
    """Return the table of the readable objects at `uri` that remine wrote, complete or not; None if there are none."""
    objects = data_objects(uri, locations.listing(uri))
    footers = Footers(f for f in map(read_footer, objects) if f is not None and f.written and not schema_fault(f))
    if not footers:
        return None
    metadata = {key.decode(): value.decode() for key, value in (footers[0].schema.metadata or {}).items()}
    return TableSource(uri, metadata.get("remine.table", ""), metadata, footers.by_unit(), "")


def confirmed(first: Collection[Fault], second: Iterable[Fault]) -> Iterator[Fault]:
    """Yield the faults of the second of two looks at a table that are no errors of reading.

    An object is damaged if a copy is, whose bytes were compared with what the store keeps. A fault of a footer that can
    be read must be the same in both looks. Run files were compared when they were read.
    """
    for fault in second:
        is_object = fault.damaged is not None and fault.damaged.endswith(".parquet")
        if not is_object or _is_confirmed(fault, first):
            yield fault


def _is_confirmed(fault: Fault, first: Collection[Fault]) -> bool:
    return bool(content_faults(fault.damaged)) if fault.damaged and fault.in_content else fault in first


def content_faults(uri: str) -> list[str]:
    """Return what is wrong with the content of a data object, in a copy that was compared with what the store keeps."""
    with locations.local_copy(uri) as path:
        footer = read_footer(next(iter(locations.find(str(path)))))
        if footer is None:
            return ["not a readable Parquet file"]
        return [*filter(None, [schema_fault(footer)]), *(fault.problem for fault in _unit_row_faults(footer))]


def set_aside(uri: str, faults: Iterable[Fault]) -> dict[str, str]:
    """Move the damaged files among `faults` of the table at `uri`, with the rejects of their units, out of the way.

    The next run of the command that writes the table writes them again. Readers of the table skip the moved files.

    Returns:
        The place of each damaged file before -> after.
    """
    files = sorted({fault.damaged for fault in faults if fault.damaged})
    units = {file.rsplit("/", 1)[-1].removesuffix(".parquet") for file in files if file.endswith(".parquet")}
    rejects = [
        o.uri for o in locations.listing(f"{uri}/_rejects") if o.uri.rsplit("/", 1)[-1].rsplit(".", 2)[0] in units
    ]
    taken = {file.uri for file in locations.listing(run_uri(uri, ""))}
    moved = {}
    for file in (*rejects, *files):
        moved[file] = place.name_aside(uri, file, taken)
        locations.move(file, moved[file])
        taken.add(moved[file])
    return {file: moved[file] for file in files}
