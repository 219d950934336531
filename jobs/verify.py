"""Check a table: units, footers, counts, schema, rejects, and that every key occurs once.

    python -m jobs.verify input=R/records

Reads footers, keys and statuses, writes nothing; exits 1 and names each fault if there is one. Keys are
compared by 64-bit hashes a part at a time, so memory is bounded; suspects are then compared themselves.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from omegaconf import MISSING

from jobs import cli, screen, tables
from jobs.cli import say
from jobs.errors import InputError, RunError
from jobs.store import locations
from jobs.store.reading import TableSource, data_objects, open_table, read_footer, read_unit, run_json
from jobs.store.run import identity_hash
from jobs.store.units import Unit
from jobs.store.writer import Counts

HASHES_AT_A_TIME = 50_000_000  # 400 MB of hashes
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
    faults = [*footer_faults(source), *run_faults(source)]
    try:
        faults += row_faults(source)
    except (pa.ArrowException, OSError) as error:
        faults.append(f"{source.uri}: its rows cannot be read ({str(error).splitlines()[0]})")
    _refuse(uri, faults)
    say(f"verify: {source.uri}: table {source.name}, {len(source.footers):,} units, {source.rows:,} rows, no fault")
    say(screen.reconciliation(source.counts().to_json()))
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
    there = {}
    for found, footer in ((o, read_footer(o)) for o in data_objects(uri, listed)):
        if footer is None:
            yield f"{found.uri}: cut off or overwritten, not a readable Parquet file"
        elif footer.record is None:
            yield f"{found.uri}: not written by remine"
        else:
            there[footer.record["unit"]["name"]] = footer.record["version"]
    try:
        asked = [Unit.from_json(entry) for entry in run_json(frozen)["units"]]
    except InputError as error:
        yield str(error)
        return
    if missing := [unit for unit in asked if there.get(unit.name) != unit.version]:
        first = missing[0]
        of = f" (of {first.inputs[0].uri})" if first.inputs else ""
        yield (
            f"{uri}: {len(missing):,} of {len(asked):,} units are not there, the first is {first.name}{of}; "
            "the command that writes the table makes them"
        )


def footer_faults(source: TableSource) -> Iterator[str]:
    """Objects without a record, of another identity, or whose counts do not fit their rows."""
    for footer in source.footers:
        uri = footer.object.uri
        if (record := footer.record) is None:
            yield f"{uri}: not written by remine"
            continue
        if record["identity"] != source.identity:
            yield f"{uri}: written with another configuration than its neighbours"
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
    fs, path = locations.filesystem(locations.join(table, "_rejects", f"{unit}.{generation}.parquet"))
    try:
        with fs.open_input_file(path) as stream:
            rows: int = pq.read_metadata(stream).num_rows
    except (FileNotFoundError, pa.ArrowInvalid):
        return 0
    return rows


def run_faults(source: TableSource) -> Iterator[str]:
    """A manifest or list of inputs that does not fit the objects."""
    kept = {}
    for name in ("identity.json", "inputs.json", "manifest.json"):
        try:
            kept[name] = run_json(locations.join(source.uri, "_run", name))
        except FileNotFoundError:
            yield f"{source.uri}: no _run/{name}"
        except InputError as error:
            yield str(error)
    if len(kept) < 3:
        return
    identity, frozen, manifest = kept.values()
    if identity_hash({k: v for k, v in identity.items() if k != "table"}) != source.identity:
        yield f"{source.uri}: _run/identity.json does not say what its objects were written with"
    asked, there = {u["name"] for u in frozen["units"]}, {f.unit.name for f in source.footers}
    for name in sorted(there - asked):
        yield f"{source.uri}: unit {name} is not on the list of inputs"
    if Counts.from_json(manifest["counts"]) != source.counts():
        yield f"{source.uri}: the manifest's counts are not the sum of the footers'"
    told = {u["name"]: (u["generation"], u["rows"]) for u in manifest["units"]}
    if told != {f.unit.name: (record["generation"], f.rows) for f in source.footers if (record := f.record)}:
        yield f"{source.uri}: the manifest lists other units or generations than there are"


def row_faults(source: TableSource) -> Iterator[str]:
    """Rows that are not of the table's schema, and keys that occur twice."""
    width = None
    if source.name == "embeddings":
        width = next((f.type.list_size for f in source.footers[0].schema if pa.types.is_fixed_size_list(f.type)), None)
    definition = tables.table(source.name, dim=width)
    wanted = definition.schema()
    for footer in source.footers:
        if not footer.schema.equals(wanted):
            yield f"{footer.object.uri}: its schema is not that of table {source.name}"
            return
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


def double_keys(source: TableSource, key: Sequence[str]) -> dict[tuple[str, ...], int]:
    """The keys that occur more than once, and how often."""
    parts = -(-source.rows // HASHES_AT_A_TIME)
    suspects: set[int] = set()
    for part in range(parts):
        hashes = [h[h % parts == part] for h in (_hashes(batch, key) for batch in source.batches(key))]
        found, counts = np.unique(np.concatenate(hashes), return_counts=True)
        suspects.update(found[counts > 1].tolist())
    if not suspects:
        return {}
    wanted = np.array(sorted(suspects), np.uint64)
    seen: Counter[tuple[str, ...]] = Counter()
    for batch in source.batches(key):
        rows = batch.filter(pa.array(np.isin(_hashes(batch, key), wanted)))
        seen.update(zip(*(rows[name].to_pylist() for name in key), strict=True))
    return {k: n for k, n in seen.items() if n > 1}


def _hashes(batch: pa.Table, key: Sequence[str]) -> np.ndarray:
    """uint64 hashes [rows] of the key columns, joined by a separator that ids and names do not hold."""
    from pandas.util import hash_array

    joined = pc.binary_join_element_wise(*(batch[name].cast(pa.string()) for name in key), "\x1f")
    return hash_array(joined.to_numpy(zero_copy_only=False).astype(object), categorize=False)


JOB = cli.Job("verify", VerifyConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("verify"))
