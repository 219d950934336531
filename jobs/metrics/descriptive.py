"""Descriptions of data without intervals: statistics of a column of numbers, and counts of entities and search terms.

Mean, median, standard deviation, range and histogram are of columns such as the words of captions. Entities of a
knowledge graph are counted by concept and type (Century, tables 6 and 7).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, exact, undefined

TABLE = "the table of jobs.steps.tric_statistics"
_REASON = "no interval: it describes these values only"
_STATISTICS = {
    name: MetricKind(name, place=TABLE).defined_as(f"{words} (TRIC, section VI.B); n counts values.")
    for name, words in (
        ("mean", "Arithmetic mean of the values"),
        ("median", "Median of the values; the mean of the middle two if their number is even"),
        ("standard_deviation", "Standard deviation (n - 1) of the values"),
        ("minimum", "Smallest value"),
        ("maximum", "Largest value"),
    )
}
_HISTOGRAM = MetricKind("histogram_count", Quantity.COUNT, place=TABLE).defined_as(
    "Number of values in the bin, its lower edge included (TRIC, figures 4 to 7); n counts values."
)
_OF_ENTITIES = MetricKind("entities", Quantity.COUNT, (Topic.TERMS,))
_ENTITIES = {
    "concept": _OF_ENTITIES.defined_as(
        "Number of entities that the graph links to the concept (Century, table 6); n counts entities."
    ),
    "entity_type": _OF_ENTITIES.defined_as("Number of entities of the type (Century, table 7); n counts entities."),
}
_TERMS = MetricKind("distinct_terms", Quantity.COUNT, (Topic.TERMS,)).defined_as(
    "Number of distinct search terms of the source (Century, section 3.2); n counts rows of the table of terms."
)
KNOWLEDGE_GRAPH = "knowledge_graph"


def describe(values: ArrayLike) -> Iterator[Metric]:
    """Yield mean, median, standard deviation (n - 1), minimum and maximum.

    Use them to describe a data set, not to generalise from it.

    Args:
        values: float[n] without missing values.

    Undefined: all statistics of no values; the standard deviation of a single value.
    """
    array = np.asarray(values, np.float64)
    for name, kind in _STATISTICS.items():
        needed = 2 if name == "standard_deviation" else 1
        if len(array) < needed:
            yield undefined(kind, f"{len(array)} values: at least {needed} needed", n=len(array))
        else:
            yield exact(kind, _statistic(name, array), len(array), reason=_REASON)


def _statistic(name: str, values: NDArray[np.float64]) -> float:
    if name == "median":
        return float(np.median(values))
    if name == "standard_deviation":
        return float(values.std(ddof=1))
    if name == "minimum":
        return float(values.min())
    return float(values.max() if name == "maximum" else values.mean())


def histogram(values: ArrayLike, width: int) -> Iterator[Metric]:
    """Yield `histogram_count` of each bin between the smallest and the largest value, empty bins included.

    Use it to draw a distribution. The dim `bin` is the lower edge, a multiple of `width`.

    Args:
        values: int[n].
        width: of the bins, at least 1.

    Raises:
        ValueError: `width` is less than 1.
    """
    if width < 1:
        raise ValueError(f"width={width}: must be at least 1")
    numbers = np.asarray(values, np.int64) // width
    if not len(numbers):
        return
    first = int(numbers.min())
    for place, count in enumerate(np.bincount(numbers - first)):
        edge = str((first + place) * width)
        dims = {"bin": edge, "width": str(width)}
        yield exact(_HISTOGRAM, float(count), len(numbers), reason=_REASON, dims=dims)


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
            yield exact(_ENTITIES[dim], len(entities), len(entities), coverage=1.0, dims={dim: value})
        for source, terms in sorted(self._terms.items()):
            yield exact(_TERMS, len(terms), self._rows[source], coverage=1.0, dims={"source": source})


def no_entities(dim: str, value: str) -> Metric:
    """Return the number of entities with a value of `concept` or `entity_type` that no entity has."""
    return exact(_ENTITIES[dim], 0, 0, coverage=1.0, dims={dim: value})
