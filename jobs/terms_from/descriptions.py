"""Descriptions that `terms` reads from `conf/`: a knowledge graph, a list of concepts, and a list of topics.

A knowledge graph has properties, types and dates (`conf/graph/`), a concept its root entities in it (`conf/concepts/`),
and a topic the page titles that language models list about it (`conf/topics/`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.fetching.wikimedia import with_capital
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
    @checks.of_file("graph")
    def from_dict(cls, data: Mapping[str, Any]) -> "Graph":
        """Return the description in `data`, as read from YAML.

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


@dataclass(frozen=True)
class Concept:
    """A concept.

    Attributes:
        roots: ids (Q198) or titles of articles; entities in a class below one of them belong to the concept.
    """

    name: str
    theme: str
    roots: tuple[str, ...]


@dataclass(frozen=True)
class ConceptList:
    """The concepts in the order of their file."""

    name: str
    concepts: tuple[Concept, ...]

    @classmethod
    @checks.of_file("concepts")
    def from_dict(cls, data: Mapping[str, Any]) -> "ConceptList":
        """Return the list of concepts in `data`, as read from YAML.

        Raises:
            ValueError: the data is invalid; the message has the place, the value and what is allowed.
        """
        where = checks.named("concepts", data)
        checks.check_keys(data, where=where, required=("name", "source", "themes"))
        concepts = []
        for theme, entries in checks.mapping(data["themes"], f"{where}, themes").items():
            for name, roots in checks.mapping(entries, f"{where}, themes.{theme}").items():
                place = f"{where}, themes.{theme}.{name}"
                concepts.append(Concept(name, theme, checks.texts(roots, place)))
                if not concepts[-1].roots:
                    raise ValueError(f"{place}: empty; list at least one id such as Q198, or title of an article")
        checks.check_unique((concept.name for concept in concepts), where=where, kind="concept")
        if not concepts:
            raise ValueError(f"{where}, themes: at least one concept is required")
        return cls(str(data["name"]), tuple(concepts))

    @property
    def titles(self) -> frozenset[str]:
        """The roots that are titles, in the site's spelling."""
        return frozenset(site_title(r) for c in self.concepts for r in c.roots if item_number(r) is None)

    def roots(self, by_title: Mapping[str, set[int]]) -> list[set[int]]:
        """Return the numbers of each concept's roots.

        Args:
            by_title: the entities with each title of the site.
        """
        numbers: list[set[int]] = []
        for concept in self.concepts:
            roots = set[int]()
            for root in concept.roots:
                number = item_number(root)
                roots |= {number} if number is not None else by_title.get(site_title(root), set())
            numbers.append(roots)
        return numbers


def site_title(title: str) -> str:
    """Return a title with an initial capital and spaces, as in MediaWiki."""
    return with_capital(title.replace("_", " ").strip())


@dataclass(frozen=True)
class TopicList:
    """The lists that models are asked about.

    Attributes:
        titles: page titles per response.
        categories: the topics of each category.
    """

    name: str
    titles: int
    categories: dict[str, tuple[str, ...]]
    sub_regions: tuple[str, ...]

    @classmethod
    @checks.of_file("topics")
    def from_dict(cls, data: Mapping[str, Any]) -> "TopicList":
        """Return the list of topics in `data`, as read from YAML.

        Raises:
            ValueError: the data is invalid; the message has the place, the value and what is allowed.
        """
        where = checks.named("topics", data)
        required = ("name", "source", "titles", "categories", "sub_regions")
        checks.check_keys(data, where=where, required=required)
        titles = data["titles"]
        if not isinstance(titles, int) or isinstance(titles, bool) or titles < 1:
            raise ValueError(f"{where}, titles: {titles!r}; must be a number of at least 1")
        categories = {
            category: checks.texts(topics, f"{where}, categories.{category}")
            for category, topics in checks.mapping(data["categories"], f"{where}, categories").items()
        }
        if empty := [category for category, topics in categories.items() if not topics]:
            raise ValueError(f"{where}, categories.{empty[0]}: at least one topic is required")
        if not categories:
            raise ValueError(f"{where}, categories: at least one is required")
        sub_regions = checks.texts(data["sub_regions"], f"{where}, sub_regions")
        if not sub_regions:
            raise ValueError(f"{where}, sub_regions: at least one is required")
        return cls(str(data["name"]), titles, categories, sub_regions)

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of an item that asks for the list, as shown by `conf/prompt/page_titles.yaml`."""
        return {
            "titles": str(self.titles),
            "categories": "\n".join(f"- {name}: {', '.join(topics)}" for name, topics in self.categories.items()),
            "sub_regions": ", ".join(self.sub_regions),
        }


def spellings(names: Iterable[str]) -> dict[str, str]:
    """Return the names by their lower-case form, so that answers are recognised in any case."""
    return {name.lower(): name for name in names}
