"""Faults of a table on disk or S3: damaged objects, wrong counts, missing units and files, duplicate keys.

Each check yields one line per fault and writes nothing. `python -m jobs.verify` runs all of them: `damage` first,
because a table with damage cannot be opened, and then the others on the opened table.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from actors.errors import first_line
from jobs import tables
from jobs.errors import InputError, RunError
from jobs.store import locations
from jobs.store.counts import Counts
from jobs.store.faults import is_damage
from jobs.store.footers import data_objects, read_footer
from jobs.store.keys import duplicate_keys
from jobs.store.reading import TableSource, read_unit, schema_fault
from jobs.store.run_files import (
    IDENTITY,
    INPUTS,
    MANIFEST,
    UNITS,
    identity_at,
    read_inputs,
    read_json,
    read_manifest,
    read_written_units,
    run_uri,
)
from jobs.store.units import Unit
from jobs.store.writer import rejects_uri


def damage(uri: str) -> Iterator[str]:
    """Yield the faults that keep jobs from opening the table: unreadable or foreign objects, and missing units."""
    listed = locations.listing(uri)
    inputs = run_uri(uri, INPUTS)
    if not any(file.uri == inputs for file in listed):
        return  # remine did not write a table here; `open_table` says what it is
    versions: dict[str, str] = {}
    identities: dict[str, str] = {}
    for file, footer in ((file, read_footer(file)) for file in data_objects(uri, listed)):
        if footer is None:
            yield f"{file.uri}: damaged, not a readable Parquet file"
        elif (record := footer.record) is None:
            yield f"{file.uri}: not written by remine"
        else:
            if fault := schema_fault(footer):
                yield fault
            versions[record["unit"]["name"]] = record["version"]
            identities[file.uri] = record["identity"]
    units: list[Unit] = []
    try:
        yield from _identity_faults(uri, identities, identity_at(uri, listed))
        units = list(read_inputs(inputs))
    except InputError as error:
        yield str(error)
    if missing := [unit for unit in units if versions.get(unit.name) != unit.version]:
        first = missing[0]
        source = f" (of {first.inputs[0].uri})" if first.inputs else ""
        yield (
            f"{uri}: {len(missing):,} of {len(units):,} units are missing, the first is {first.name}{source}; "
            "run the command that writes the table again"
        )


def _identity_faults(uri: str, identities: Mapping[str, str], kept: str | None) -> Iterator[str]:
    """Yield the objects whose configuration differs from `identity.json`, or from the first object's without that file.

    Args:
        identities: uri of each object -> the identity hash in its footer.
        kept: the identity hash of `identity.json`.
    """
    if kept is not None and identities and kept not in identities.values():
        yield f"{uri}: _run/identity.json is not the configuration of any object"
        return
    expected = kept or next(iter(identities.values()), None)
    for file, identity in identities.items():
        if identity != expected:
            yield f"{file}: written with another configuration than the other objects"


def footer_faults(source: TableSource) -> Iterator[str]:
    """Yield objects without a record, and objects whose record does not fit their rows, name or rejects."""
    for footer in source.footers:
        uri = footer.object.uri
        if (record := footer.record) is None:
            yield f"{uri}: not written by remine"
            continue
        if footer.counts.rows_out != footer.rows:
            yield f"{uri}: has {footer.rows} rows, its footer says {footer.counts.rows_out}"
        if not footer.counts.balances():
            yield f"{uri}: does not balance: {footer.counts}"
        if not uri.endswith(f"/{footer.unit.name}.parquet"):
            yield f"{uri}: contains unit {footer.unit.name}"
        rejected = footer.counts.rejected.total()
        stored = _count_rejects(source.uri, footer.unit.name, record["generation"]) if rejected else 0
        if stored != rejected:
            yield f"{uri}: {rejected} rejected, {stored} stored in _rejects"


def _count_rejects(table: str, unit: str, generation: int) -> int:
    fs, path = locations.filesystem(rejects_uri(table, unit, generation))
    try:
        with fs.open_input_file(path) as stream:
            rows: int = pq.read_metadata(stream).num_rows
    except FileNotFoundError:
        return 0
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if not is_damage(error):
            raise
        return 0
    return rows


def run_faults(source: TableSource) -> Iterator[str]:
    """Yield the files of `_run/` that are missing, are damaged, or do not fit the objects."""
    checks: dict[str, Callable[[TableSource], list[str]]] = {
        IDENTITY: _identity_file_faults,
        INPUTS: _inputs_faults,
        MANIFEST: _manifest_faults,
        UNITS: _units_faults,
    }
    for name, check in checks.items():
        try:
            yield from check(source)
        except FileNotFoundError:
            yield f"{source.uri}: no _run/{name}"
        except InputError as error:
            yield str(error)


def _identity_file_faults(source: TableSource) -> list[str]:
    read_json(run_uri(source.uri, IDENTITY))
    return []


def _inputs_faults(source: TableSource) -> list[str]:
    names = {unit.name for unit in read_inputs(run_uri(source.uri, INPUTS))}
    extra = {footer.unit.name for footer in source.footers} - names
    return [f"{source.uri}: unit {name} is not in the list of inputs" for name in sorted(extra)]


def _manifest_faults(source: TableSource) -> list[str]:
    total = Counts.from_json(read_manifest(source.uri)["counts"])
    return [] if total == source.counts() else [f"{source.uri}: the manifest's counts are not the sum of the footers'"]


def _units_faults(source: TableSource) -> list[str]:
    units = read_written_units(run_uri(source.uri, UNITS))
    listed = {unit["name"]: (unit["generation"], unit["rows"]) for unit in units}
    written = {f.unit.name: (record["generation"], f.rows) for f in source.footers if (record := f.record)}
    return [] if listed == written else [f"{source.uri}: _run/{UNITS} lists other units or generations than exist"]


def row_faults(source: TableSource) -> Iterator[str]:
    """Yield statuses that the footers do not count, duplicate keys, and damage that prevents reading the rows."""
    definition = tables.table(source.name)
    try:
        if "status" in definition.columns:
            yield from _status_faults(source)
        for key, count in duplicate_keys(source, definition.key).items():
            yield f"{source.uri}: key {dict(zip(definition.key, key, strict=True))} occurs {count} times"
    except RunError as error:
        yield str(error)
    except UnicodeDecodeError as error:  # Arrow does not check that strings are UTF-8
        yield f"{source.uri}: damaged, a string is not UTF-8 ({first_line(error)})"


def _status_faults(source: TableSource) -> Iterator[str]:
    """Yield objects whose rows have other statuses than their footers count."""
    for footer in source.footers:
        rows = read_unit(footer.object.uri, columns=["status"])
        statuses = Counter(rows["status"].to_pylist())
        if footer.record is not None and statuses != footer.counts.status:
            yield f"{footer.object.uri}: statuses {dict(statuses)}, its footer says {dict(footer.counts.status)}"
