"""The amount of work in a table's units: what is done, when it was done, and what is left."""

from array import array
from collections.abc import Iterator, Sequence

from jobs.store.files.locations import is_s3
from jobs.store.json_types import FooterJson
from jobs.store.units import Unit

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
