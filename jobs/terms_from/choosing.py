"""Choice of the entities that become terms, and for which concepts, made over all of them on compact arrays.

Memory: for each entity its number, and 12 B for each of its concepts; for each entity that is an instance of a class
below a concept, and for each redirect, a dict entry (about 100 B), through which entities that are part of it are
linked.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jobs.terms_from.class_tree import REDIRECT
from jobs.terms_from.descriptions import Graph, item_number
from jobs.terms_from.entity import EQUALS
from jobs.terms_from.terms_config import IGNORE, REQUIRE, GraphKeys, PeriodConfig

INSIDE, UNDATED, OUTSIDE = "inside", "undated", "outside"
PERIODS = (INSIDE, UNDATED, OUTSIDE)  # in order of preference
COLUMNS = ["entity_id", "entity_type", "links", "neighbors", "first_year", "last_year", "sites"]

_LINKED = ("entity_id", "links", "neighbors")
_REDIRECT = f"{REDIRECT}{EQUALS}"

Row = Mapping[str, Any]


class Concepts:
    """The concepts of entities, from their own classes and from the entities that they are linked to.

    Args:
        names: the concepts, in the order of their list.
        batches: all rows of the table `entities`, with `COLUMNS`.
    """

    def __init__(self, names: Sequence[str], graph: Graph, batches: Iterable[pa.Table]) -> None:
        self.names = list(names)
        self._number = {name: number for number, name in enumerate(names)}
        self._property = {linking.id: linking.name for linking in graph.properties}
        self._of_instance: dict[int, tuple[int, ...]] = {}
        self._redirect: dict[int, int] = {}
        shared: dict[tuple[int, ...], tuple[int, ...]] = {}  # stores equal tuples once
        for batch in batches:
            for entity_id, links, neighbors in zip(*(batch[name].to_pylist() for name in _LINKED), strict=True):
                pairs = (link.split(EQUALS, 1) for link in links)
                concepts = tuple(sorted({self._number[name] for id_, name in pairs if id_ == graph.instance_property}))
                if concepts:
                    self._of_instance[_number(entity_id)] = shared.setdefault(concepts, concepts)
                if neighbors and neighbors[0].startswith(_REDIRECT):
                    self._redirect[_number(entity_id)] = _number(neighbors[0].removeprefix(_REDIRECT))

    def of(self, row: Row) -> dict[int, list[str]]:
        """Return the concepts of an entity, ascending, with the properties that link it to each.

        An entity without a type has none: it only passes its concepts on.
        """
        if row["entity_type"] is None:
            return {}
        linked: dict[int, dict[str, None]] = {}
        for link in row["links"]:
            property_id, name = link.split(EQUALS, 1)
            if property_id in self._property:
                linked.setdefault(self._number[name], {})[self._property[property_id]] = None
        for neighbor in row["neighbors"]:
            property_id, entity_id = neighbor.split(EQUALS, 1)
            for concept in self._of_instance.get(self._target(_number(entity_id)), ()):
                linked.setdefault(concept, {})[self._property[property_id]] = None
        return {concept: list(linked[concept]) for concept in sorted(linked)}

    def _target(self, number: int) -> int:
        """Return the entity to which redirects lead from `number`, itself without one; circles end anywhere."""
        passed = set[int]()
        while number in self._redirect and number not in passed:
            passed.add(number)
            number = self._redirect[number]
        return number


@dataclass(frozen=True)
class Choice:
    """The pairs of entity and concept that become terms.

    Attributes:
        row: int64[pairs], the entity's row in the table, ascending.
        concept: int16[pairs], index of the concept.
        kept: bool[pairs], whether the pair becomes terms.
        duplicate: bool[rows], whether an earlier row has the same entity.
        periods: number of entities with a concept, by period.
    """

    row: NDArray[np.int64]
    concept: NDArray[np.int16]
    kept: NDArray[np.bool_]
    duplicate: NDArray[np.bool_]
    periods: Counter[str]

    def concepts(self, row: int) -> set[int]:
        """Return the concepts for which a row's entity was chosen."""
        span = slice(*np.searchsorted(self.row, [row, row + 1]))
        return set(self.concept[span][self.kept[span]].tolist())


def period_of(row: Row, period: PeriodConfig) -> str:
    """Return whether the years of an entity overlap the period: inside, outside or undated."""
    if row["first_year"] is None:
        return UNDATED
    return INSIDE if row["first_year"] <= period.last and row["last_year"] >= period.first else OUTSIDE


def choose(settings: GraphKeys, concepts: Concepts, batches: Iterable[pa.Table], place: NDArray[np.int64]) -> Choice:
    """Choose at most `entities_per_concept` entities for each concept.

    Entities within the period come first, then undated ones, then others (unless `dates=ignore`); among equals, those
    with more articles, then those with the smaller id, which is the older entry. `dates=require` keeps only the first
    group.

    Args:
        batches: all rows of the table `entities`, with `COLUMNS`.
        place: int64[rows], ascending in the dump's order; if an entity has several rows, the first is taken.
    """
    ids, row, concept, rank, sites = array("q"), array("q"), array("h"), array("b"), array("i")
    periods = Counter[str]()
    for batch in batches:
        for entity in batch.to_pylist():
            linked = concepts.of(entity)
            period = period_of(entity, settings.period)
            periods[period] += bool(linked)
            for number in linked:
                row.append(len(ids))
                concept.append(number)
                rank.append(PERIODS.index(period))
                sites.append(entity["sites"] or 0)
            ids.append(_number(entity["entity_id"]))
    numbers, rows = np.frombuffer(ids, np.int64), np.frombuffer(row, np.int64)
    by_concept, ranks = np.frombuffer(concept, np.int16), np.frombuffer(rank, np.int8)
    duplicate = np.ones(len(numbers), bool)
    in_order = np.lexsort((place, numbers))
    duplicate[in_order[np.unique(numbers[in_order], return_index=True)[1]]] = False
    kept = ~duplicate[rows]
    if settings.dates == REQUIRE:
        kept &= ranks == PERIODS.index(INSIDE)
    if settings.dates == IGNORE:
        ranks = np.zeros_like(ranks)
    if settings.entities_per_concept is not None:
        order = np.lexsort((numbers[rows], -np.frombuffer(sites, np.int32), ranks, by_concept))
        order = order[kept[order]]
        groups = by_concept[order]
        place = np.arange(len(order)) - np.searchsorted(groups, groups, "left")
        kept[order[place >= settings.entities_per_concept]] = False
    return Choice(rows, by_concept, kept, duplicate, periods)


def _number(entity_id: str) -> int:
    return item_number(entity_id) or 0
