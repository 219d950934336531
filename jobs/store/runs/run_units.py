"""The units of a table that a run writes: which are done, tasks for the others, and their work."""

from array import array
from collections.abc import Iterable, Iterator, Sequence

from jobs.store.files import locations
from jobs.store.files.locations import is_s3
from jobs.store.files.objects import CompactList, HashSet, Object
from jobs.store.footers import Footer, data_objects
from jobs.store.json_types import FooterJson, GenerationJson
from jobs.store.unit_index import indexed_footers
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask

ROWS, BYTES, UNITS = "rows", "bytes", "units"


class Amounts:
    """Counts units while they are compared with the footers of their objects; takes 16 bytes of memory per unit.

    Attributes:
        counted: what work is counted in: rows if they are known for all units; otherwise bytes of the inputs, or units
            if a limit makes the bytes meaningless.
        units, done: numbers of units.
        left: the work of the units that are not done.
        inputs_left, remote_bytes_left: objects on S3 that the units left to do read, counted once per unit, and the
            bytes of these objects that the units cover.
        rows: rows of all units, as far as they are known.
    """

    def __init__(self, units: Sequence[Unit]) -> None:
        self._listed = units
        rows = size = inputs = remote = 0
        unknown = limited = False
        for unit in units:
            rows += unit.rows or 0
            size += unit.bytes
            inputs += _remote(unit)
            remote += _remote_bytes(unit)
            unknown |= unit.rows is None
            limited |= unit.limit is not None
        self.units, self.rows, self.inputs_left, self.remote_bytes_left = len(units), rows, inputs, remote
        self.counted = ROWS if not unknown else UNITS if limited else BYTES
        self.left = {ROWS: rows, BYTES: size, UNITS: len(units)}[self.counted]
        self._times, self._work = array("d"), array("q")

    @property
    def bytes(self) -> int:
        """The bytes of the inputs of all units; an input that several units read counts once."""
        return sum({source.uri: source.size for unit in self._listed for source in unit.inputs}.values())

    @property
    def done(self) -> int:
        """The number of units that are done."""
        return len(self._times)

    def work_of(self, unit: Unit) -> int:
        """Return the work of a unit, in what is `counted`."""
        if self.counted == ROWS:
            return unit.rows or 0
        return unit.bytes if self.counted == BYTES else 1

    def add_done(self, unit: Unit, record: FooterJson) -> None:
        """Count a unit as done."""
        self._times.append(record["begun"] + record["seconds"])
        self._work.append(self.work_of(unit))
        self.left -= self.work_of(unit)
        self.inputs_left -= _remote(unit)
        self.remote_bytes_left -= _remote_bytes(unit)

    def ended(self) -> Iterator[tuple[float, int]]:
        """Yield the time in seconds since 1970 at which each finished unit was written, and its work."""
        return zip(self._times, self._work, strict=True)


def _remote(unit: Unit) -> int:
    return sum(is_s3(source.uri) for source in unit.inputs)


def _remote_bytes(unit: Unit) -> int:
    return unit.bytes if _remote(unit) else 0


def with_footers(
    target: Target, units: Iterable[Unit], listed: Iterable[Object]
) -> Iterator[tuple[Unit, Footer | None]]:
    """Yield each unit with its object's footer, None if there is none; footers are read during the iteration.

    Args:
        listed: the files of the table.
    """
    objects = CompactList(data_objects(target.out, listed))
    uris = HashSet(file.uri for file in objects)
    indexes = (uris.index(target.data_uri(unit.name)) for unit in units)
    existing = (objects[index] for index in indexes if index is not None)
    footers = indexed_footers(target.out, existing, listed)
    for unit in units:
        yield unit, next(footers) if target.data_uri(unit.name) in uris else None


def rows_of_units(out: str) -> dict[str, int]:
    """Return the number of rows of each unit that is written at `out`, by name; empty without a table."""
    out = locations.absolute(out)
    listed = locations.listing(out)
    footers = indexed_footers(out, data_objects(out, listed), listed)
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
    retired = (*record["retired"], generation_of(record))
    following = record["generation"] + 1
    if not is_current(unit, record, target.identity):
        return UnitTask(unit, following, retired)
    if any(record["counts"]["status"].get(status) for status in retry):
        return UnitTask(unit, following, retired, tuple(retry))
    return None


def generation_of(record: GenerationJson) -> GenerationJson:
    """Return what is kept of a unit's record when a new generation replaces it."""
    return {
        "generation": record["generation"],
        "version": record["version"],
        "counts": record["counts"],
        "begun": record["begun"],
        "seconds": record["seconds"],
    }


def count_done(amounts: Amounts, unit: Unit, footer: Footer | None, target: Target) -> None:
    """Count a unit as done if its object is current."""
    record = footer.record if footer is not None else None
    if record is not None and is_current(unit, record, target.identity):
        amounts.add_done(unit, record)
