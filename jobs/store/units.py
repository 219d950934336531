"""Work units: what is read, done and written as one piece, named after what it covers."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from actors.ids import content_id
from jobs.errors import InputError
from jobs.store.locations import Object

WHOLE = "whole"
_BETWEEN = re.compile(r"[\s,]*")  # two elements of a list


@dataclass(frozen=True)
class Unit:
    """A piece of the frozen input list.

    `name` is what its data object is called; a derived table keeps its parent's names, so that a join of
    two tables derived from the same parent reads one object of each. `version` is what the parent's bytes
    were (ETag): when a parent's unit gets a new generation, the name stays and the version changes.
    `rows` is how many rows go in, if the source knows before reading.
    """

    name: str
    inputs: tuple[Object, ...]
    piece: str = WHOLE
    rows: int | None = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def version(self) -> str:
        return content_id(*(f"{o.etag}:{o.size}" for o in self.inputs), self.piece)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> "Unit":
        inputs = tuple(Object(**o) for o in data["inputs"])
        return Unit(data["name"], inputs, data["piece"], data["rows"], data["extra"])


def unit_of_file(source: Object, *, piece: str = WHOLE, rows: int | None = None) -> Unit:
    """The unit of one input file (or a piece of it), named by a hash of path, size, ETag and piece."""
    return Unit(content_id(source.uri, str(source.size), source.etag, piece), (source,), piece, rows)


def check_distinct(units: Iterable[Unit]) -> None:
    """Refuse two units of one name: their objects would overwrite each other."""
    seen: dict[str, Unit] = {}
    for unit in units:
        other = seen.setdefault(unit.name, unit)
        if other is not unit:
            raise InputError(f"{unit.inputs[0].uri} is named twice among the inputs ({other.inputs[0].uri})")


def frozen_units(text: str) -> Iterator[Unit]:
    """The units of an `inputs.json`, one at a time: as one tree, tens of thousands would take tens of megabytes."""
    decoder = json.JSONDecoder()
    at = text.index("[") + 1
    while text[at := _BETWEEN.match(text, at).end()] != "]":  # type: ignore[union-attr]  # it matches everywhere
        data, at = decoder.raw_decode(text, at)
        yield Unit.from_json(data)
