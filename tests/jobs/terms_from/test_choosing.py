"""Choice of the entities of a concept that become terms: by period, by their articles, and by age."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.terms_from.choosing import Choice, Concepts, choose, period_of
from jobs.terms_from.terms_config import GraphKeys, PeriodConfig

YEARS = PeriodConfig(first=1901, last=1950)
ENTITIES = [  # id, first and last year, articles, concepts
    ("Q9", 1800, 1900, 90, [0]),
    ("Q8", None, None, 50, [0, 1]),
    ("Q7", 1939, 1945, 10, [0]),
    ("Q6", 1914, 1918, 20, [0]),
    ("Q5", 1920, 1920, 10, [0]),
    ("Q4", 1951, 1960, None, [1]),
    ("Q3", 1910, 1910, 99, []),
    ("Q6", 1914, 1918, 20, [0]),  # again
]


def chosen(place: Sequence[int] = range(len(ENTITIES)), **keys: Any) -> tuple[Choice, list[list[str]]]:
    """Return the choice, and the entities of the two concepts; the rows have these places in the dump."""
    linked_to = {entity: linked for entity, *_, linked in ENTITIES}
    rows: list[dict[str, Any]] = [
        {"entity_id": entity, "first_year": first, "last_year": last, "sites": sites}
        for entity, first, last, sites, _ in ENTITIES
    ]
    concepts: Any = type("Concepts", (), {"of": staticmethod(lambda row: linked_to[row["entity_id"]])})
    batches = [pa.Table.from_pylist(rows[:3]), pa.Table.from_pylist(rows[3:])]
    choice = choose(GraphKeys(period=YEARS, **keys), concepts, batches, np.array(place))
    return choice, [
        [rows[n]["entity_id"] for n in range(len(rows)) if concept in choice.concepts(n)] for concept in (0, 1)
    ]


def test_years_that_touch_the_period_are_inside() -> None:
    for first, last, expected in (
        (1900, 1900, "outside"), (1900, 1901, "inside"), (1901, 1901, "inside"), (1950, 1950, "inside"),
        (1950, 1999, "inside"), (1951, 1999, "outside"), (1800, 2000, "inside"), (None, None, "undated"),
    ):  # fmt: skip
        assert period_of({"first_year": first, "last_year": last}, YEARS) == expected


def test_entities_of_the_period_come_first_then_those_with_more_articles_then_older_ones() -> None:
    choice, named = chosen(entities_per_concept=None)
    assert named == [["Q9", "Q8", "Q7", "Q6", "Q5"], ["Q8", "Q4"]]
    assert np.flatnonzero(choice.duplicate).tolist() == [7]
    assert np.flatnonzero(chosen([1] * 7 + [0])[0].duplicate).tolist() == [3], "the last row is the dump's first"
    assert choice.periods == {"inside": 4, "outside": 2, "undated": 1}  # of rows with a concept
    for count, first in ((1, ["Q6"]), (2, ["Q6", "Q5"]), (3, ["Q7", "Q6", "Q5"]), (4, ["Q8", "Q7", "Q6", "Q5"])):
        assert chosen(entities_per_concept=count)[1][0] == first
    assert chosen(entities_per_concept=1)[1][1] == ["Q8"]
    assert chosen(entities_per_concept=2, dates="ignore")[1][0] == ["Q9", "Q8"]
    assert chosen(entities_per_concept=None, dates="require")[1] == [["Q7", "Q6", "Q5"], []]


def test_an_entity_has_the_concepts_of_its_links_and_of_its_neighbors_classes() -> None:
    """Only an instance of a class below a concept passes the concept on, and each property is named once."""
    graph: Any = SimpleNamespace(
        instance_property="P31",
        properties=[SimpleNamespace(id=name, name=name.lower()) for name in ("P31", "P361", "P607")],
    )
    rows: list[dict[str, Any]] = [
        {"entity_id": "Q1", "links": ["P31=war", "P31=a=b"], "neighbors": []},
        {"entity_id": "Q2", "links": ["P361=war"], "neighbors": ["P361=Q1", "P607=Q1", "P361=Q3"]},
        {"entity_id": "Q3", "links": [], "neighbors": ["P361=Q2", "P607=Q9"]},
        {"entity_id": "Q4", "links": ["P31=peace"], "neighbors": [], "entity_type": None},
        *(
            {"entity_id": f"Q{n}", "links": [], "neighbors": [f"redirects_to=Q{n + 1}"], "entity_type": None}
            for n in (10, 11)
        ),
        {"entity_id": "Q12", "links": [], "neighbors": ["redirects_to=Q4"], "entity_type": None},
        *({"entity_id": f"Q{n}", "links": [], "neighbors": [f"redirects_to=Q{41 - n}"]} for n in (20, 21)),
        {"entity_id": "Q5", "links": ["P999=war"], "neighbors": ["P607=Q4", "P361=Q10", "P361=Q20"]},
    ]
    rows = [{"entity_type": "event", **row} for row in rows]
    batches = [pa.Table.from_pylist(rows[:1]), pa.Table.from_pylist(rows[1:])]
    concepts = Concepts(["a=b", "peace", "war"], graph, batches)
    assert concepts.names == ["a=b", "peace", "war"]
    assert {row["entity_id"]: linked for row in rows if (linked := concepts.of(row))} == {
        "Q1": {0: ["p31"], 2: ["p31"]},
        "Q2": {0: ["p361", "p607"], 2: ["p361", "p607"]},
        "Q5": {1: ["p607", "p361"]},  # of Q4 itself, and through three redirects; Q20 and Q21 redirect to each other
    }
    assert [list(concepts.of(row)) for row in rows[:3]] == [[0, 2], [0, 2], []]
