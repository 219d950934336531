"""Entities of a knowledge graph by concept and type, and distinct search terms (Century, tables 6 and 7)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from jobs.metrics.metric import Metric

_ENTITIES = {
    "concept": "Number of entities that the graph links to the concept (Century, table 6); n counts entities.",
    "entity_type": "Number of entities of the type (Century, table 7); n counts entities.",
}
_TERMS = "Number of distinct search terms of the source (Century, section 3.2); n counts rows of the table of terms."
KNOWLEDGE_GRAPH = "knowledge_graph"


class EntityCounts:
    """Accumulates rows of the table `terms`; memory grows with the numbers of entities and distinct terms."""

    columns = ("term", "source", "concept", "entity_id", "entity_type")

    def __init__(self) -> None:
        self._entities: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._terms: dict[str, set[str]] = defaultdict(set)
        self._rows: dict[str, int] = defaultdict(int)

    def add(self, row: Mapping[str, str | None]) -> None:
        """Count one row; an entity with several names or concepts counts once per concept and type."""
        source, entity = row["source"] or "", row["entity_id"] or ""
        self._terms[source].add(row["term"] or "")
        self._rows[source] += 1
        if source == KNOWLEDGE_GRAPH and entity:
            for dim in _ENTITIES:
                self._entities[dim, row[dim] or "unknown"].add(entity)

    def metrics(self) -> Iterator[Metric]:
        """Yield the numbers of entities by concept and by type, and of distinct terms by source."""
        for (dim, value), entities in sorted(self._entities.items()):
            yield _count("entities", _ENTITIES[dim], len(entities), len(entities), {dim: value})
        for source, terms in sorted(self._terms.items()):
            yield _count("distinct_terms", _TERMS, len(terms), self._rows[source], {"source": source})


def no_entities(dim: str, value: str) -> Metric:
    """Return the number of entities with a value of `concept` or `entity_type` that no entity has."""
    return _count("entities", _ENTITIES[dim], 0, 0, {dim: value})


def _count(name: str, definition: str, value: int, n: int, dims: Mapping[str, str]) -> Metric:
    return Metric(
        name=name, definition=definition, value=value, n=n, coverage=1.0, reason="a count: no interval", dims=dims
    )
