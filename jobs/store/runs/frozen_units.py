"""The list of a table's units, frozen in `_run/` when its first run begins."""

from collections.abc import Callable, Iterable, Sequence

from actors.quantities import quantity
from jobs.errors import InputError
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.files.compact_list import CompactList, HashSet
from jobs.store.files.objects import Object
from jobs.store.run_files import INPUTS, run_uri
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit


def has_inputs(out: str, listed: Iterable[Object]) -> bool:
    return any(file.uri == run_uri(out, INPUTS) for file in listed)


def freeze(out: str, plan: TablePlan, *, exists: bool) -> Sequence[Unit]:
    """Write the list of units, unless it exists, and return the plan's units in its order."""
    uri = run_uri(out, INPUTS)
    if not exists:
        locations.create(uri, run_files.to_lines(plan.units, Unit.to_json))
    units = in_frozen_order(out, plan)
    if plan.derived and not _same(units, run_files.read_inputs(uri), by=lambda unit: unit.version):
        locations.replace(uri, run_files.to_lines(units, Unit.to_json))
    return units


def in_frozen_order(out: str, plan: TablePlan) -> Sequence[Unit]:
    """Return the plan's units in the order in which they were frozen; raise InputError if the plan has other units.

    A trial may have additional units after them: after a purge, the earlier units have fewer than the first n rows.
    """
    uri = run_uri(out, INPUTS)
    if _same(plan.units, run_files.read_inputs(uri), by=lambda unit: unit.name):
        return plan.units
    frozen, planned = list(run_files.read_inputs(uri)), {unit.name: unit for unit in plan.units}
    gone = [unit for unit in frozen if unit.name not in planned]
    names = {unit.name for unit in frozen}
    new = [name for name in planned if name not in names]
    if gone or (new and not (plan.derived and plan.limit is not None)):
        difference = _difference(gone, [planned[name] for name in new])
        raise InputError(
            f"out={out}: the inputs changed since this run started: {difference}; use another out= or overwrite=true"
        )
    return CompactList(planned[name] for name in [*(unit.name for unit in frozen), *new])


def _difference(gone: Sequence[Unit], new: Sequence[Unit]) -> str:
    """Return which inputs differ between units that a run does not have any more and those that it did not have.

    A unit may have many inputs, such as the pictures of a folder, most of which are in both.
    """
    before, now = ({file.uri: file.etag for unit in units for file in unit.inputs} for units in (gone, new))
    kinds = {
        "changed": sorted(uri for uri in before.keys() & now.keys() if before[uri] != now[uri]),
        "gone": sorted(before.keys() - now.keys()),
        "new": sorted(now.keys() - before.keys()),
    }
    counts = [f"{len(uris):,} {kind}" for kind, uris in kinds.items() if uris]
    if not counts:
        return f"{quantity(len(gone), 'unit')} gone, {len(new):,} new"
    kind, first = next((kind, uris[0]) for kind, uris in kinds.items() if uris)
    return f"{first} {'changed' if kind == 'changed' else f'is {kind}'} ({', '.join(counts)})"


def _same(one: Iterable[Unit], other: Iterable[Unit], *, by: Callable[[Unit], str]) -> bool:
    return HashSet(map(by, one)).same_as(HashSet(map(by, other)))
