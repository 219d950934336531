"""Check a table: units, footers, counts, schema, rejects, and that every key occurs once.

    python -m jobs.verify input=R/records

Reads footers, keys and statuses, writes nothing; exits 1 and names each fault if there is one. Keys are
compared by 64-bit hashes a part at a time, so memory is bounded; suspects are then compared themselves.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import MISSING

from actors.errors import first_line
from jobs import tables
from jobs.errors import InputError, RunError
from jobs.judging.kept_rubric import FILE, HASH, read_kept
from jobs.runtime import cli, summary
from jobs.runtime.console import say
from jobs.store import locations
from jobs.store.faults import is_damage
from jobs.store.keys import double_keys
from jobs.store.reading import (
    TableSource,
    data_objects,
    open_table,
    own_identity,
    read_footer,
    read_unit,
    run_json,
    run_units,
    schema_fault,
)
from jobs.store.run import INPUTS_JSON, MANIFEST_JSON
from jobs.store.units import Unit
from jobs.store.writer import Counts, rejects_uri

FAULTS_SHOWN = 20


@dataclass
class VerifyConfig:
    """Keys of `verify`."""

    input: str = MISSING  # a table, or s3://bucket/prefix of one


def execute(cfg: VerifyConfig) -> dict[str, int]:
    """Run the job; see the module's docstring. Returns the number of units and rows.

    Raises:
        RunError: the table has a fault.
    """
    uri = locations.absolute(cfg.input)
    _refuse(uri, list(damage(uri)))
    source = open_table(uri)
    faults = [*footer_faults(source), *run_faults(source), *rubric_faults(source)]
    try:
        faults += row_faults(source)
    except RunError as error:
        faults.append(str(error))
    except UnicodeDecodeError as error:  # Arrow does not check that strings are text
        faults.append(f"{source.uri}: damaged, a string is not UTF-8 ({first_line(error)})")
    _refuse(uri, faults)
    say(f"verify: {source.uri}: table {source.name}, {len(source.footers):,} units, {source.rows:,} rows, no fault")
    say(summary.reconciliation(source.counts().to_json()))
    return {"units": len(source.footers), "rows": source.rows}


def _refuse(uri: str, faults: Sequence[str]) -> None:
    for fault in faults[:FAULTS_SHOWN]:
        say(f"  fault: {fault}", err=True)
    if len(faults) > FAULTS_SHOWN:
        say(f"  … and {len(faults) - FAULTS_SHOWN:,} more", err=True)
    if faults:
        raise RunError(f"{uri}: {len(faults):,} fault{'s' * (len(faults) > 1)}")


def damage(uri: str) -> Iterator[str]:
    """Objects that cannot be read, objects of others, units that are not there: with these it opens for no job."""
    listed = locations.listing(uri)
    frozen = locations.join(uri, "_run", "inputs.json")
    if not any(o.uri == frozen for o in listed):
        return  # no run of ours; what it is instead, `open_table` says
    there: dict[str, str] = {}
    identities: dict[str, str] = {}
    for found, footer in ((o, read_footer(o)) for o in data_objects(uri, listed)):
        if footer is None:
            yield f"{found.uri}: damaged, not a readable Parquet file"
        elif (record := footer.record) is None:
            yield f"{found.uri}: not written by remine"
        else:
            if misfit := schema_fault(footer):
                yield misfit
            there[record["unit"]["name"]] = record["version"]
            identities[found.uri] = record["identity"]
    asked: list[Unit] = []
    try:
        yield from identity_faults(uri, identities, own_identity(uri, listed))
        asked = list(run_units(frozen))
    except InputError as error:
        yield str(error)
    if missing := [unit for unit in asked if there.get(unit.name) != unit.version]:
        first = missing[0]
        of = f" (of {first.inputs[0].uri})" if first.inputs else ""
        yield (
            f"{uri}: {len(missing):,} of {len(asked):,} units are not there, the first is {first.name}{of}; "
            "the command that writes the table makes them"
        )


def identity_faults(uri: str, identities: Mapping[str, str], own: str | None) -> Iterator[str]:
    """Objects of another configuration than that of `identity.json`, or if there is none, than the first object.

    Args:
        identities: uri of each object -> the identity hash in its footer.
        own: the identity hash of `identity.json`.
    """
    if own is not None and identities and own not in identities.values():
        yield f"{uri}: _run/identity.json does not say what its objects were written with"
        return
    expected = own or next(iter(identities.values()), None)
    for found, identity in identities.items():
        if identity != expected:
            yield f"{found}: written with another configuration than its neighbours"


def footer_faults(source: TableSource) -> Iterator[str]:
    """Objects without a record, or whose counts do not fit their rows."""
    for footer in source.footers:
        uri = footer.object.uri
        if (record := footer.record) is None:
            yield f"{uri}: not written by remine"
            continue
        if footer.counts.rows_out != footer.rows:
            yield f"{uri}: {footer.rows} rows, its footer says {footer.counts.rows_out}"
        if not footer.counts.balances():
            yield f"{uri}: does not balance: {footer.counts}"
        if not uri.endswith(f"/{footer.unit.name}.parquet"):
            yield f"{uri}: holds unit {footer.unit.name}"
        rejected = footer.counts.rejected.total()
        kept = _rejects(source.uri, footer.unit.name, record["generation"]) if rejected else 0
        if kept != rejected:
            yield f"{uri}: {rejected} rejected, {kept} kept in _rejects"


def _rejects(table: str, unit: str, generation: int) -> int:
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
    """A manifest or list of inputs that does not fit the objects."""
    kept = {}
    for name, shape in (("identity.json", dict), ("inputs.json", INPUTS_JSON), ("manifest.json", MANIFEST_JSON)):
        try:
            kept[name] = run_json(locations.join(source.uri, "_run", name), shape)
        except FileNotFoundError:
            yield f"{source.uri}: no _run/{name}"
        except InputError as error:
            yield str(error)
    if len(kept) < 3:
        return
    _, frozen, manifest = kept.values()
    asked, there = {u["name"] for u in frozen["units"]}, {f.unit.name for f in source.footers}
    for name in sorted(there - asked):
        yield f"{source.uri}: unit {name} is not on the list of inputs"
    if Counts.from_json(manifest["counts"]) != source.counts():
        yield f"{source.uri}: the manifest's counts are not the sum of the footers'"
    told = {u["name"]: (u["generation"], u["rows"]) for u in manifest["units"]}
    if told != {f.unit.name: (record["generation"], f.rows) for f in source.footers if (record := f.record)}:
        yield f"{source.uri}: the manifest lists other units or generations than there are"


def rubric_faults(source: TableSource) -> Iterator[str]:
    """A table of ratings whose footers name a rubric that it does not keep, or keeps in another state."""
    try:
        kept = read_kept(source)
    except InputError as error:
        yield str(error)
        return
    if kept is None and f"remine.{HASH}" in source.metadata:
        yield f"{source.uri}: no _run/{FILE}, the rubric that its footers name"


def row_faults(source: TableSource) -> Iterator[str]:
    """Statuses that the footers do not count, and keys that occur twice."""
    definition = tables.table(source.name)
    if "status" in definition.columns:
        yield from status_faults(source)
    doubles = double_keys(source, definition.key)
    for key, count in doubles.items():
        yield f"{source.uri}: key {dict(zip(definition.key, key, strict=True))} occurs {count} times"


def status_faults(source: TableSource) -> Iterator[str]:
    """Objects whose rows have other statuses than their footer counts."""
    for footer in source.footers:
        rows = read_unit(footer.object.uri, columns=["status"])
        there = Counter(rows["status"].to_pylist())
        if footer.record is not None and there != footer.counts.status:
            yield f"{footer.object.uri}: statuses {dict(there)}, its footer says {dict(footer.counts.status)}"


JOB = cli.Job("verify", VerifyConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("verify"))
