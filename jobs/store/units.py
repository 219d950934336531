"""Work units: what is read, done and written as one piece, named after what it covers."""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO

from actors.ids import content_id
from jobs.errors import InputError
from jobs.store.compact_list import HashSet
from jobs.store.locations import Object
from jobs.store.shapes import fits

WHOLE = "whole"
_BETWEEN = re.compile(r"[\s,]*")  # two elements of a list
UNIT_JSON = {
    "name": str,
    "inputs": [{"uri": str, "size": int, "etag": str}],
    "piece": str,
    "rows": (int, type(None)),
    "extra": dict,
}
_READ = 1 << 16  # characters of an inputs.json at a time


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

    @property
    def parent(self) -> str:
        """The unit of the parent table whose rows this one covers: its own name unless it covers only some of them."""
        name: str = self.extra.get("parent", self.name)
        return name

    def to_json(self) -> dict[str, Any]:
        inputs = [source._asdict() for source in self.inputs]
        return {"name": self.name, "inputs": inputs, "piece": self.piece, "rows": self.rows, "extra": self.extra}

    @staticmethod
    def from_json(data: dict[str, Any]) -> "Unit":
        inputs = tuple(Object(o["uri"], o["size"], o["etag"]) for o in data["inputs"])
        return Unit(data["name"], inputs, data["piece"], data["rows"], data["extra"])


def unit_of_file(source: Object, *, piece: str = WHOLE, rows: int | None = None) -> Unit:
    """The unit of one input file (or a piece of it), named by a hash of path, size, ETag and piece."""
    return Unit(content_id(source.uri, str(source.size), source.etag, piece), (source,), piece, rows)


def check_distinct(units: Iterable[Unit]) -> None:
    """Refuse two units of one name: their objects would overwrite each other."""
    if HashSet(unit.name for unit in units).distinct:
        return
    seen: dict[str, Unit] = {}
    for unit in units:
        other = seen.setdefault(unit.name, unit)
        if other is not unit:
            raise InputError(f"{unit.inputs[0].uri} is named twice among the inputs ({other.inputs[0].uri})")


def frozen_units(text: TextIO) -> Iterator[Unit]:
    """The units of an `inputs.json`, read as they are taken: all of its text would be tens of megabytes.

    Raises:
        ValueError: it is not JSON, ends too early, or an element does not describe a unit.
    """
    decoder, held, at = json.JSONDecoder(), "", 0
    while (begun := held.find("[")) < 0:
        if not (more := text.read(_READ)):
            raise ValueError("there is no list in it")
        held += more
    at = begun + 1
    while not held.startswith("]", at := _BETWEEN.match(held, at).end()):  # type: ignore[union-attr]  # it matches
        try:
            data, at = decoder.raw_decode(held, at)
        except json.JSONDecodeError:
            # The unit goes on. As much again as there is of it: one may name ten thousand inputs.
            if not (more := text.read(max(_READ, len(held) - at))):
                raise
            held, at = held[at:] + more, 0
        else:
            if not fits(data, UNIT_JSON):
                raise ValueError("an element of its list does not describe a unit")
            yield Unit.from_json(data)
