"""Work units, each of which is read, processed and written as one piece."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from actors.ids import content_id
from jobs.errors import InputError
from jobs.store.files.objects import HashSet, Object
from jobs.store.json_types import ObjectJson, UnitJson

WHOLE = "whole"
OWN_ROWS = "own rows"  # `Unit.piece` begins with it: rows made from all inputs, which `purge` only makes fewer
LIMIT = "limit"  # `Unit.extra`: how many of its rows are read, from the first one; all if absent
BYTES = "bytes"  # `Unit.extra`: how many bytes of its inputs it covers; all if absent


@dataclass(frozen=True)
class Unit:
    """A piece of the frozen input list.

    Attributes:
        name: the name of its data object. A derived table keeps its parent's names, so that a join of two tables
            derived from the same parent reads one object of each.
        inputs: the files or objects that it reads.
        piece: the part of the inputs that it covers; `WHOLE` for all. A piece of `OWN_ROWS` stays as it is if a purge
            removes rows of the inputs.
        rows: the number of rows that it reads, if known before reading.
        extra: JSON values for the job that created the unit; not part of its identity.
    """

    name: str
    inputs: tuple[Object, ...]
    piece: str = WHOLE
    rows: int | None = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def version(self) -> str:
        """A hash of the content of its inputs. When a parent's unit is written again, the version changes."""
        first = [] if self.limit is None else [f"first {self.limit}"]
        return content_id(*(f"{source.etag}:{source.size}" for source in self.inputs), self.piece, *first)

    @property
    def limit(self) -> int | None:
        """The number of its rows that are read, from the first one; None for all (`jobs.store.table_plan`)."""
        limit: int | None = self.extra.get(LIMIT)
        return limit

    @property
    def bytes(self) -> int:
        """The bytes of its inputs that it covers."""
        size: int = self.extra[BYTES] if BYTES in self.extra else sum(source.size for source in self.inputs)
        return size

    @property
    def parent(self) -> str:
        """The unit of the parent table whose rows this one covers: itself unless it covers only some of them."""
        name: str = self.extra.get("parent", self.name)
        return name

    def to_json(self) -> UnitJson:
        """Return the unit as JSON values."""
        return {
            "name": self.name,
            "inputs": [ObjectJson(uri=source.uri, size=source.size, etag=source.etag) for source in self.inputs],
            "piece": self.piece,
            "rows": self.rows,
            "extra": self.extra,
        }

    @staticmethod
    def from_json(data: UnitJson) -> "Unit":
        """Return the unit from its JSON values."""
        inputs = tuple(Object(source["uri"], source["size"], source["etag"]) for source in data["inputs"])
        return Unit(data["name"], inputs, data["piece"], data["rows"], data["extra"])


def unit_of_file(source: Object, *, piece: str = WHOLE, rows: int | None = None) -> Unit:
    """Return the unit of one input file (or a piece of it), named by a hash of path, size, ETag and piece."""
    return Unit(content_id(source.uri, str(source.size), source.etag, piece), (source,), piece, rows)


def check_distinct(units: Iterable[Unit]) -> None:
    """Check that no two units have the same name, since their objects would overwrite each other.

    Raises:
        InputError: two units have the same name; names the input of the second one.
    """
    if HashSet(unit.name for unit in units).distinct:
        return
    first_of: dict[str, Unit] = {}
    for unit in units:
        first = first_of.setdefault(unit.name, unit)
        if first is not unit:
            raise InputError(f"duplicate input ({first.inputs[0].uri})", place=unit.inputs[0].uri)
