"""Entities of a dump in Wikidata's JSON, parsed by simdjson without building Python objects for unused parts.

Wikidata's JSON numbers years as people write them: -0044 is 44 BC, and there is no year 0. ISO 8601 and the spans here
have a year 0, which is 1 BC, so that 44 BC is -0043. Dates are kept in the calendar in which they are stated.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import simdjson

from actors.errors import first_line
from jobs.terms_from.class_tree import REDIRECT, ClassLookup
from jobs.terms_from.descriptions import Graph, item_number


class GraphTime(NamedTuple):
    """A time with the precision with which it is stated.

    Attributes:
        text: ISO 8601: 1917-12-06, 1917-12, 1917, or an interval of years such as 1901/2000.
        first: the first possible year.
        last: the last possible year.
    """

    text: str
    first: int
    last: int


BRACKETS = (b"[", b"]")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DEPRECATED, PREFERRED = "deprecated", "preferred"
NOT_AN_ENTITY = "not_an_entity"
EQUALS = "="  # between property and concept or entity in the columns `links` and `neighbors`


class NotAnEntityError(ValueError):
    """A JSON value that is not an entity."""


def entity_text(line: bytes) -> bytes:
    """Return a line without the separators of entities (brackets, commas, spaces); empty if nothing else is left."""
    text = line.removeprefix(BYTE_ORDER_MARK).strip(b" \t\r\n,")
    if text.startswith(b"[{"):
        text = text[1:]
    if text.endswith(b"}]"):
        text = text[:-1]
    return b"" if text in BRACKETS else text


class EntityParser:
    """Parser of one entity after another; an entity's values are valid until the next one is parsed."""

    def __init__(self) -> None:
        self._parser = simdjson.Parser()

    def parse(self, text: bytes) -> Mapping[str, Any]:
        """Return the JSON object, or a proxy with the methods of a mapping.

        Raises:
            ValueError: not valid JSON, or not UTF-8.
            NotAnEntityError: JSON, but not an object.
        """
        try:
            value = self._parser.parse(text)
        except RuntimeError:  # values of the last document are still referenced, for example by a traceback
            self._parser = simdjson.Parser()
            try:
                value = self._parser.parse(text)
            except RuntimeError as error:  # integers of more than 64 bits, or nested too deeply
                raise ValueError(first_line(error)) from error
        if _object(value) is None:
            raise NotAnEntityError("a line must be one JSON object")
        return cast("Mapping[str, Any]", value)


def kind_of(entity: Mapping[str, Any]) -> str:
    """Return `item`, `redirect`, or the type of any other entity (property, lexeme, mediainfo).

    Raises:
        NotAnEntityError: it is not an entity.
    """
    kind = entity.get("type")
    if isinstance(kind, str) and isinstance(entity.get("id"), str):
        if kind == "item" and item_number(entity["id"]) is None:
            raise NotAnEntityError(f"id {entity['id'][:40]!r} is not the id of an item")
        return kind
    if isinstance(entity.get("redirect"), str) and isinstance(entity.get("entity"), str):
        return "redirect"
    raise NotAnEntityError("without type and id")


def claims_of(entity: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the statements of an entity by property."""
    claims = _object(entity.get("claims"))
    return {} if claims is None else claims


def targets(claims: Mapping[str, Any], property_id: str) -> Iterator[int]:
    """Yield the items in the statements of a property, except deprecated ones, novalue and somevalue."""
    for _, value in _values(claims, property_id):
        if (value := _object(value)) is not None:
            entity_id = value.get("id")
            # Dumps before 2016 have only the number.
            number = item_number(entity_id) if isinstance(entity_id, str) else value.get("numeric-id")
            if isinstance(number, int) and value.get("entity-type", "item") == "item":
                yield number


def times(claims: Mapping[str, Any], property_id: str) -> list[GraphTime]:
    """Return the times in a property's best statements: the preferred ones, else the normal ones."""
    by_rank: dict[bool, list[GraphTime]] = {True: [], False: []}
    for rank, value in _values(claims, property_id):
        if (value := _object(value)) is not None:
            time, precision = value.get("time"), value.get("precision")
            if isinstance(time, str) and isinstance(precision, int) and (read := read_time(time, precision)):
                by_rank[rank == PREFERRED].append(read)
    return by_rank[True] or by_rank[False]


def site_link(entity: Mapping[str, Any], site: str) -> str | None:
    """Return the title of the entity's article on a site; None if it has none."""
    link = _object((_object(entity.get("sitelinks")) or {}).get(site))
    return _text(link.get("title")) if link is not None else None


class EntityReader:
    """Converter of items to rows of the table `entities`."""

    def __init__(self, graph: Graph, lookup: ClassLookup) -> None:
        self._graph, self._lookup, self._types = graph, lookup, list(graph.types)
        instance = graph.instance_property
        linking = {linking.id: linking.to_instances for linking in graph.properties}
        self._linking = {instance: False, **linking}  # the concepts that an instance passes on are always kept
        self._properties, self._instance = frozenset(self._linking), f"{instance}{EQUALS}"

    def row(self, entity: Mapping[str, Any]) -> dict[str, Any] | str:
        """Return the row of an item, or the rule that it fails: no_concept, no_type or no_name.

        An instance of a class below a concept links others to it, so it is kept without a type or a name too.
        """
        claims = claims_of(entity)
        links, neighbors = self._links(claims)
        if not links and not neighbors:
            return "no_concept"
        kind, names = self._type(claims), self._names(entity)
        is_named = any(names.values())
        if not (kind and is_named) and not any(link.startswith(self._instance) for link in links):
            return "no_name" if kind else "no_type"
        return {
            "entity_id": str(entity["id"]),
            **names,
            "entity_type": kind if is_named else None,
            **self._dates(claims),
            "links": links,
            "neighbors": neighbors,
            "sites": len(_object(entity.get("sitelinks")) or ()),
        }

    @staticmethod
    def redirect(entity: Mapping[str, Any]) -> dict[str, Any] | str:
        """Return the row of a redirect, through which entities are linked to its target, or `redirect` if it has none.

        The columns that it lacks are null.
        """
        source, target = str(entity["entity"]), str(entity["redirect"])
        if not item_number(source) or not item_number(target):
            return "redirect"
        return {"entity_id": source, "aliases": [], "links": [], "neighbors": [f"{REDIRECT}{EQUALS}{target}"]}

    def _links(self, claims: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Return `property=concept` for each link to a class, and `property=entity` for links to possible instances.

        A class may itself be an instance of a class below another concept.
        """
        links: dict[str, None] = {}
        neighbors: dict[str, None] = {}
        # Most entities have one or two of the properties, so looking each one up would take longer than listing all.
        present = self._properties.intersection(claims)
        for property_id, to_instances in self._linking.items() if present else ():
            if property_id not in present:
                continue
            for number in targets(claims, property_id):
                concepts = self._lookup.concepts(number)
                links.update(dict.fromkeys(f"{property_id}{EQUALS}{concept}" for concept in concepts))
                if to_instances:
                    neighbors[f"{property_id}{EQUALS}Q{number}"] = None
        return list(links), list(neighbors)

    def _type(self, claims: Mapping[str, Any]) -> str | None:
        """Return the first type among the classes of the entity and the classes above them."""
        graph = self._graph
        kinds = {
            kind
            for property_id in (graph.instance_property, graph.subclass_property)
            for number in targets(claims, property_id)
            if (kind := self._lookup.type(number)) >= 0
        }
        return self._types[min(kinds)] if kinds else None

    def _names(self, entity: Mapping[str, Any]) -> dict[str, Any]:
        labels, aliases = (_object(entity.get(key)) or {} for key in ("labels", "aliases"))
        languages = self._graph.languages
        in_order = (_text((_object(labels.get(language)) or {}).get("value")) for language in languages)
        others = [alias for language in languages for alias in _array(aliases.get(language))]
        values = (_text((_object(alias) or {}).get("value")) for alias in others)
        return {
            "label": next((label for label in in_order if label), None),
            "aliases": list(dict.fromkeys(value for value in values if value)),
            "title": site_link(entity, self._graph.site),
        }

    def _dates(self, claims: Mapping[str, Any]) -> dict[str, Any]:
        by_property = [times(claims, property_id) for property_id in self._graph.dates.values()]
        every = [time for dates in by_property for time in dates]
        first = next((min(dates, key=lambda time: (time.first, time.text)) for dates in by_property if dates), None)
        return {
            "entity_date": first.text if first else None,
            "first_year": min((time.first for time in every), default=None),
            "last_year": max((time.last for time in every), default=None),
        }


def _values(claims: Mapping[str, Any], property_id: str) -> Iterator[tuple[str, Any]]:
    """Yield the rank and value of each statement that has a value and is not deprecated."""
    for statement in _array(claims.get(property_id)):
        if (statement := _object(statement)) is None:
            continue
        rank, snak = statement.get("rank"), _object(statement.get("mainsnak"))
        if rank == DEPRECATED or snak is None or snak.get("snaktype") != "value":
            continue
        value = _object(snak.get("datavalue"))
        if value is not None:
            yield rank, value.get("value")


def _object(value: Any) -> Any:
    """Return a JSON object; None for anything else, such as the empty arrays that PHP writes for empty objects."""
    return value if isinstance(value, simdjson.Object | dict) else None


def _array(value: Any) -> Any:
    """Return a JSON array; empty for anything else."""
    return value if isinstance(value, simdjson.Array | list) else ()


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


DAY, MONTH, YEAR, DECADE, CENTURY, MILLENNIUM = 11, 10, 9, 8, 7, 6  # values of `precision`
_TIME = re.compile(r"([+-])0*(\d+)-(\d\d)-(\d\d)T")


def read_time(time: str, precision: int) -> GraphTime | None:
    """Return the time of a value (`+1917-12-06T00:00:00Z`, 11); None if the text or precision is not supported.

    Centuries and millennia are counted as in Wikidata: 1901 to 2000 is the twentieth century, whichever of these years
    is stated.
    """
    match = _TIME.match(time)
    if match is None or not 0 <= precision <= 14:
        return None
    sign, digits, month, day = match.groups()
    number = int(digits)
    year = number if sign == "+" else 1 - number
    if precision < YEAR:
        first, last = _span(number, precision)
        if sign == "-":
            first, last = 1 - last, 1 - first
        return GraphTime(f"{_iso(first)}/{_iso(last)}", first, last)
    text = _iso(year)
    if precision >= MONTH and "01" <= month <= "12":
        text += f"-{month}"
        if precision >= DAY and "01" <= day <= "31":
            text += f"-{day}"
    return GraphTime(text, year, year)


def _span(number: int, precision: int) -> tuple[int, int]:
    """Return the first and last year around `number` for a precision coarser than a year."""
    size = 10 ** (YEAR - precision)
    if precision == DECADE:
        first = number - number % size
        return max(first, 1), first + size - 1
    if precision in (CENTURY, MILLENNIUM):
        first = max(number - 1, 0) // size * size + 1
        return first, first + size - 1
    return max(number - size, 1), number + size


def _iso(year: int) -> str:
    return f"{year:04d}" if year >= 0 else f"-{-year:04d}"
