"""Description of a knowledge graph: its properties, types and dates (`conf/graph/`)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.rubrics import checks

CLASSES, INSTANCES_TOO = "classes", "classes_and_instances"
_ITEM = re.compile(r"Q([1-9][0-9]*)")
_PROPERTY = re.compile(r"P[1-9][0-9]*")


def item_number(entity_id: str) -> int | None:
    """Return the number of an item's id (Q198 -> 198); None for any other text."""
    match = _ITEM.fullmatch(entity_id)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class Property:
    """A property that links entities to concepts.

    Attributes:
        to_instances: whether it also links to a concept's entities, not only to its classes.
    """

    name: str
    id: str
    to_instances: bool


@dataclass(frozen=True)
class Graph:
    """The description of a knowledge graph in `conf/graph/`.

    Attributes:
        types: the root classes of each type, in order of precedence.
        dates: property of each date, in order of precedence.
    """

    name: str
    site: str
    languages: tuple[str, ...]
    properties: tuple[Property, ...]
    subclass_property: str
    instance_property: str
    types: dict[str, tuple[int, ...]]
    dates: dict[str, str]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Graph":
        """Return the description in `data`, as read from YAML or Hydra.

        Raises:
            ValueError: the data is invalid; the message has the place, the value and what is allowed.
        """
        where = checks.named("graph", data)
        required = (*"name site languages properties subclass_property instance_property types dates".split(),)
        checks.check_keys(data, where=where, required=required)
        languages = checks.texts(data["languages"], f"{where}, languages")
        if not languages:
            raise ValueError(f"{where}, languages: at least one is required")
        properties = checks.mapping(data["properties"], f"{where}, properties")
        dates = checks.mapping(data["dates"], f"{where}, dates")
        types = checks.mapping(data["types"], f"{where}, types")
        return cls(
            name=str(data["name"]),
            site=checks.text(data["site"], f"{where}, site"),
            languages=languages,
            properties=tuple(_property(name, entry, where) for name, entry in properties.items()),
            subclass_property=_property_id(data["subclass_property"], f"{where}, subclass_property"),
            instance_property=_property_id(data["instance_property"], f"{where}, instance_property"),
            types={name: _items(entry, f"{where}, types.{name}") for name, entry in types.items()},
            dates={name: _property_id(entry, f"{where}, dates.{name}") for name, entry in dates.items()},
        )


def _property(name: str, data: Any, where: str) -> Property:
    where = f"{where}, properties.{name}"
    checks.check_keys(data, where=where, required=("id", "to"))
    if data["to"] not in (CLASSES, INSTANCES_TOO):
        raise ValueError(f"{where}.to: {data['to']!r}; must be {CLASSES} or {INSTANCES_TOO}")
    return Property(name, _property_id(data["id"], f"{where}.id"), data["to"] == INSTANCES_TOO)


def _property_id(data: Any, where: str) -> str:
    if not isinstance(data, str) or not _PROPERTY.fullmatch(data):
        raise ValueError(f"{where}: {data!r} must be the id of a property, such as P31")
    return data


def _items(data: Any, where: str) -> tuple[int, ...]:
    numbers = {entry: item_number(entry) for entry in checks.texts(data, where)}
    if wrong := next((entry for entry, number in numbers.items() if number is None), None):
        raise ValueError(f"{where}: {wrong!r} must be the id of an item, such as Q5")
    return tuple(number for number in numbers.values() if number is not None)
