"""Which units of a table are written and current, and the tasks of the others."""

from collections.abc import Iterable, Iterator, Sequence

from jobs.store.files import locations
from jobs.store.files.compact_list import CompactList, HashSet
from jobs.store.footers import Footer, data_objects, read_footers
from jobs.store.json_types import FooterJson, GenerationJson, WrittenUnitJson
from jobs.store.runs.amounts import Amounts
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask


def with_footers(target: Target, units: Iterable[Unit]) -> Iterator[tuple[Unit, Footer | None]]:
    """Yield each unit with its object's footer, None if there is none; footers are read during the iteration."""
    objects = CompactList(data_objects(target.out, locations.listing(target.out)))
    uris = HashSet(file.uri for file in objects)
    indexes = (uris.index(target.data_uri(unit.name)) for unit in units)
    existing = (objects[index] for index in indexes if index is not None)
    footers = read_footers(existing, remote=locations.is_s3(target.out))
    for unit in units:
        yield unit, next(footers) if target.data_uri(unit.name) in uris else None


def rows_of_units(out: str) -> dict[str, int]:
    """Return the number of rows of each unit that is written at `out`, by name; empty without a table."""
    out = locations.absolute(out)
    footers = read_footers(data_objects(out, locations.listing(out)), remote=locations.is_s3(out))
    return {footer.unit.name: footer.rows for footer in footers if footer is not None and footer.written}


def is_current(unit: Unit, record: FooterJson | None, identity: str) -> bool:
    """Return whether the unit was written from these inputs, with this configuration."""
    if record is None or record["unit"]["name"] != unit.name:
        return False
    return (record["version"], record["identity"]) == (unit.version, identity)


def remaining_tasks(
    footers: Iterable[tuple[Unit, Footer | None]], target: Target, retry: Sequence[str], amounts: Amounts
) -> Iterator[UnitTask]:
    """Yield the tasks of the units that are not complete; count the units that are done."""
    for unit, footer in footers:
        count_done(amounts, unit, footer, target)
        if task := _task(unit, footer, target, retry):
            yield task


def _task(unit: Unit, footer: Footer | None, target: Target, retry: Sequence[str]) -> UnitTask | None:
    """Return the remaining task of a unit; None if the unit is complete."""
    record = footer.record if footer is not None else None
    if record is None:
        return UnitTask(unit)
    written: GenerationJson = {
        "generation": record["generation"],
        "version": record["version"],
        "counts": record["counts"],
        "begun": record["begun"],
        "seconds": record["seconds"],
    }
    retired = (*record["retired"], written)
    following = record["generation"] + 1
    if not is_current(unit, record, target.identity):
        return UnitTask(unit, following, retired)
    if any(record["counts"]["status"].get(status) for status in retry):
        return UnitTask(unit, following, retired, tuple(retry))
    return None


def count_done(amounts: Amounts, unit: Unit, footer: Footer | None, target: Target) -> None:
    """Count a unit as done if its object is current."""
    record = footer.record if footer is not None else None
    if record is not None and is_current(unit, record, target.identity):
        amounts.add_done(unit, record)


def written_unit(footer: Footer, record: FooterJson) -> WrittenUnitJson:
    """Return the entry for a unit in `_run/units.jsonl`."""
    return {
        "name": record["unit"]["name"],
        "generation": record["generation"],
        "rows": footer.rows,
        "bytes": footer.object.size,
        "counts": record["counts"],
        "inputs": record["unit"]["inputs"],
        "retired": record["retired"],
    }
