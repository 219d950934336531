"""Entities -> terms: names and their kinds, concepts by link and by neighbour, why an entity has none, counts."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.runtime.configuration.config import load
from jobs.store.files.objects import Object
from jobs.store.units import Unit
from jobs.terms_from import graph_terms
from jobs.terms_from.descriptions import ConceptList, Graph, site_title
from jobs.terms_from.dump import SPAN
from jobs.terms_from.graph_passes import GraphInput
from jobs.terms_from.graph_terms import (
    COLUMNS,
    COUNTS,
    Choice,
    Concepts,
    UnitTerms,
    choose,
    count_lines,
    distinct_terms,
    keep_counts,
    period_of,
    term_text,
)
from jobs.terms_from.terms_config import GraphKeys, PeriodConfig, TermSourcesConfig
from tests.factories import write_units
from tests.wikidata import THEMES

CONCEPTS = ConceptList.from_dict({"name": "mine", "source": "me", "themes": THEMES})
GRAPH = Graph.from_dict({
    "name": "g",
    "site": "enwiki",
    "languages": ["en"],
    "properties": {
        "instance of": {"id": "P31", "to": "classes"}, "part of": {"id": "P361", "to": "classes_and_instances"},
    },
    "subclass_property": "P279",
    "instance_property": "P31",
    "types": {"person": ["Q5"]},
    "dates": {"point in time": "P585"},
})  # fmt: skip


def entity(number: int, *links: str, **columns: Any) -> dict[str, Any]:
    """Return an entity; of a link such as `P31=war` the value is a concept, and `P361=Q1` a neighbour."""
    near = [link for link in links if link.split("=")[1].startswith("Q")]
    return {
        "entity_id": f"Q{number}",
        "links": [link for link in links if link not in near],
        "neighbors": near,
        "first_year": None,
        "last_year": None,
        "sites": 1,
        "label": f"E{number}",
        "title": None,
        "aliases": [],
        "entity_type": "event",
        "entity_date": "",
        **columns,
    }


def terms(rows: list[dict[str, Any]], **keys: Any) -> tuple[list[dict[str, Any]], UnitTerms]:
    """Return the terms of all rows, and the unit's counts."""
    settings = GraphKeys(period=PeriodConfig(1901, 1950), **keys)
    names = [concept.name for concept in CONCEPTS.concepts]
    assert names == ["war", "civil war", "riot", "peace"]

    def batches() -> list[pa.Table]:
        return [pa.Table.from_pylist([{name: row[name] for name in COLUMNS} for row in rows])]

    concepts = Concepts(names, GRAPH, batches())
    choice: Choice = choose(settings, concepts, batches(), np.arange(len(rows)))
    unit = UnitTerms(settings, concepts, CONCEPTS, choice)
    return list(unit.rows(rows, 0)), unit


def test_the_text_of_a_term() -> None:
    assert term_text(" a \t b\u00a0c ", "keep") == "a b c"
    assert term_text("Sit-in, (1960) – ‘x’_y", "strip") == "Sitin 1960 – ‘x’y"
    assert term_text("-.-", "strip") == ""
    assert [site_title(title) for title in ("civil_war ", "", "éire", "War", "ßx")] == [
        "Civil war",
        "",
        "Éire",
        "War",
        "ßx",
    ]


def test_an_entity_has_a_row_for_each_concept_and_distinct_name() -> None:
    row = entity(1, "P31=riot", "P361=war", label="A  b", title="A b", aliases=["c", "", "A b", "c"],
                 entity_date="1914", first_year=1914, last_year=1950)  # fmt: skip
    rows, unit = terms([row], names=["title", "label", "alias"])
    assert [(r["concept"], r["theme"], r["term"], r["name_kinds"], r["linked_by"]) for r in rows] == [
        ("war", "conflict", "A b", ["title", "label", "alias"], ["part of"]),
        ("war", "conflict", "c", ["alias"], ["part of"]),
        ("riot", "reform", "A b", ["title", "label", "alias"], ["instance of"]),
        ("riot", "reform", "c", ["alias"], ["instance of"]),
    ]
    expected = {"source": "knowledge_graph", "entity_id": "Q1", "entity_type": "event", "entity_date": "1914"}
    assert all(r.items() >= {**expected, "period": "inside", "response_id": ""}.items() for r in rows)
    assert {name: dict(tally) for name, tally in unit.tallies.items()} == {
        "concept": {"war": 1, "riot": 1},
        "type": {"event": 1},
        "theme": {"conflict": 1, "reform": 1},
        "period": {"inside": 1},
        "linked_by": {"part of": 1, "instance of": 1},
        "name_kind": {"title": 1, "label": 1, "alias": 2},
        "total": {"entities": 1, "names_changed": 1},
    }


def test_a_theme_and_a_property_count_once_for_an_entity() -> None:
    _, unit = terms([entity(1, "P31=war", "P31=civil war"), entity(2, "P361=war", "P31=war")])
    assert unit.tallies["theme"] == {"conflict": 2}
    assert unit.tallies["concept"] == {"war": 2, "civil war": 1}
    assert unit.tallies["linked_by"] == {"instance of": 2, "part of": 1}


def test_neighbours_are_instances_of_a_class_below_the_concept() -> None:
    """Q1 is a war, Q2 part of it, Q3 part of what is only part of it, and Q4 is part of something unknown."""
    entities = [entity(1, "P31=war", "P31=riot"), entity(2, "P361=Q1"), entity(3, "P361=Q2"), entity(4, "P361=Q99")]
    rows, unit = terms(entities)
    assert [(r["entity_id"], r["concept"], r["linked_by"]) for r in rows] == [
        ("Q1", "war", ["instance of"]), ("Q1", "riot", ["instance of"]),
        ("Q2", "war", ["part of"]), ("Q2", "riot", ["part of"]),
    ]  # fmt: skip
    assert unit.filtered == {"no_concept": 2}


def test_why_an_entity_has_no_terms() -> None:
    """The first reason that holds counts; the limit is of each concept."""
    inside = {"first_year": 1901, "last_year": 1901}
    entities = [
        entity(1, "P31=war", **inside),
        entity(1, "P31=war", **inside),
        entity(2),
        entity(3, "P31=war"),
        entity(4, "P31=war", "P31=riot", **inside),
        entity(5, "P31=war", **inside),
        entity(6, "P31=peace", **inside, label="-", title=None),
        entity(7, "P31=peace", first_year=1951, last_year=1960),
    ]
    rows, unit = terms(entities, dates="require", entities_per_concept=1, punctuation="strip")
    assert [(r["entity_id"], r["concept"]) for r in rows] == [("Q1", "war"), ("Q4", "riot")]
    assert unit.filtered == {
        "duplicate_entity": 1, "no_concept": 1, "outside_period": 2, "entities_per_concept": 1, "empty_term": 1,
    }  # fmt: skip
    assert unit.tallies["total"] == {"entities": 2, "names_changed": 0}
    assert unit.tallies["concept"] == {"war": 1, "riot": 1}
    _, preferred = terms(entities, dates="prefer", entities_per_concept=1)
    assert preferred.filtered == {"duplicate_entity": 1, "no_concept": 1, "entities_per_concept": 3}


def test_lists_of_concepts_that_are_refused() -> None:
    def refused(themes: Any) -> str:
        with pytest.raises(ValueError) as error:  # noqa: PT011
            ConceptList.from_dict({"name": "mine", "source": "me", "themes": themes})
        return str(error.value)

    assert "at least one concept is required" in refused({})
    assert "themes.a.b: empty; list at least one id" in refused({"a": {"b": []}})
    assert "b" in refused({"a": {"b": ["Q1"]}, "c": {"b": ["Q2"]}})
    listed = ConceptList.from_dict(
        {"name": "mine", "source": "me", "themes": {"a": {"b": ["q7", "civil_war", "Q8"], "c": ["absent"]}}}
    )
    assert listed.titles == {"Civil war", "Absent", "Q7"}
    assert listed.roots({"Civil war": {1, 2}, "Q7": {3}, "Absent again": {4}}) == [{1, 2, 3, 8}, set()]


TALLIES: dict[str, dict[str, int]] = {
    "total": {"entities": 3, "names_changed": 2},
    "concept": {"war": 1, "art": 1, "flood": 2},
    "type": {"event": 3},
    "theme": {"b": 1, "a": 2},
    "period": {"before 1900": 3},
    "linked_by": {"part of": 1},
    "name_kind": {"alias": 4, "label": 3},
}


def table(folder: Path) -> str:
    """Terms in two units, of which one has another case and one is repeated in another unit."""
    units = [["Great War", "great war", "Straße"], ["GREAT WAR", "STRASSE", "Émile"], ["émile", "ΟΔΟΣ", "οδος"]]
    key = dict.fromkeys(["concept", "entity_id", "response_id"], "")
    rows = [[{"term": term, "source": "knowledge_graph", **key} for term in terms] for terms in units]
    return write_units(folder / "terms", "terms", rows)


def test_terms_that_differ_in_case_alone_are_one(tmp_path: Path) -> None:
    """Sigma has another form at a word's end, which `str.lower` knows and Arrow does not."""
    assert distinct_terms(table(tmp_path)) == 5  # great war, straße, strasse, émile, οδος
    assert distinct_terms(write_units(tmp_path / "none", "terms", [[]])) == 0


def test_counts_are_those_of_the_papers_tables(tmp_path: Path) -> None:
    kept: dict[str, Any] = {}
    run: Any = SimpleNamespace(
        target=SimpleNamespace(out=table(tmp_path)), keep=lambda name, data: kept.update({name: json.loads(data)})
    )
    counts = keep_counts(run, {"counts": {"rows_out": 7, "tallies": TALLIES}})
    assert kept == {COUNTS: counts}
    assert counts == {
        "entities": 3,
        "rows": 7,
        "distinct_terms": 5,
        "names_changed_by_punctuation_or_space": 2,
        "entities_by_concept": {"flood": 2, "art": 1, "war": 1},
        "entities_by_type": {"event": 3},
        "entities_by_theme": {"a": 2, "b": 1},
        "entities_by_period": {"before 1900": 3},
        "entities_by_property": {"part of": 1},
        "terms_by_kind_of_name": {"alias": 4, "label": 3},
    }
    assert list(counts["entities_by_concept"]) == ["flood", "art", "war"]  # most first, then by name
    printed = "\n".join(count_lines(counts))
    assert "3 entities, 5 distinct terms; 2 names changed" in printed
    titles = ("entities by concept (table 6)", "entities by type (table 7)", "entities by theme",
              "entities by property", "terms by kind of name")  # fmt: skip
    places = [printed.index(title) for title in titles]
    assert places == sorted(places)
    assert [word in printed for word in ("flood", "event", "part of", "alias")] == [True] * 4


def test_a_table_without_entities_has_counts_of_nothing(tmp_path: Path) -> None:
    uri = write_units(tmp_path / "none", "terms", [[]])
    run: Any = SimpleNamespace(target=SimpleNamespace(out=uri), keep=lambda *_: None)
    counts = keep_counts(run, {"counts": {"rows_out": 0, "tallies": {}}})
    assert not any(counts.values())


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


def config(*keys: str) -> TermSourcesConfig:
    return load("terms", TermSourcesConfig, ["out=O", "source=wikidata", "entities=E", *keys])


def rule(*keys: str) -> str:
    nothing = np.zeros(0, np.int64)
    periods = Counter({"outside": 1234, "inside": 2})
    choice = Choice(nothing, nothing.astype(np.int16), nothing.astype(bool), nothing.astype(bool), periods)
    return graph_terms.rule(config("period.first=1901", "period.last=1950", *keys), choice)


def test_the_rule_says_which_entities_are_taken() -> None:
    counts = "period 1901 to 1950: 2 inside, 0 undated, 1,234 outside"
    assert rule() == f"{counts}; all are taken, because entities_per_concept= sets no limit"
    assert rule("dates=ignore") == f"{counts}; all are taken, because entities_per_concept= sets no limit"
    assert rule("dates=require") == f"{counts}; dates=require takes only those inside"
    assert rule("dates=require", "entities_per_concept=1500") == (
        f"{counts}; dates=require takes only those inside, 1,500 per concept"
    )
    most = f"{counts}; at most 1,500 of each concept are taken,"
    assert rule("entities_per_concept=1500") == (
        f"{most} in this order (inside, undated, outside), then those with more articles first"
    )
    assert rule("entities_per_concept=1500", "dates=ignore") == (
        f"{most} whatever their dates, those with more articles first"
    )


class Entities:
    """A table of entities with units of some parts of a dump's files: (file, first byte, rows)."""

    def __init__(self, *parts: tuple[str, int, int], first: int | None = None, metadata: Any = None) -> None:
        units = [
            Unit(f"u{n}", (Object(uri, 1, ""),), rows=rows, extra={SPAN: [start, 99]})
            for n, (uri, start, rows) in enumerate(parts)
        ]
        self.footers = [type("Footer", (), {"unit": unit})() for unit in units]
        self._units, self.uri, self.metadata = units[:first], "E", metadata

    def units(self) -> list[Unit]:
        return self._units


def places(*parts: tuple[str, int, int], first: int | None = None) -> list[int]:
    source: Any = Entities(*parts, first=first)
    numbers: list[int] = graph_terms._places(source).tolist()
    return numbers


def test_a_period_is_two_centuries_by_default_and_may_be_one_year() -> None:
    assert config().period == PeriodConfig(1901, 2100)
    config("period.first=1945", "period.last=1945").check()
    with pytest.raises(InputError, match=r"period\.first=1946: must not be after period\.last=1945"):
        config("period.first=1946", "period.last=1945").check()


def test_places_follow_the_files_and_their_bytes() -> None:
    assert places(("b", 0, 1), ("a", 900, 2), ("a", 1000, 1), ("a", 90, 2)) == [3, 1, 1, 2, 0, 0]
    assert places(("a", 5, 0), ("a", 4, 2)) == [0, 0]
    assert places(("b", 0, 1), ("a", 0, 2), ("a", 9, 4), first=2) == [1, 0, 0], "of the units of a limit"
    assert places() == []


def test_a_limit_ends_within_or_between_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_terms, "ROWS_AT_A_TIME", 4)
    pq.write_table(pa.table({"n": range(10)}), tmp_path / "f.parquet", row_group_size=3)

    def batches(limit: int | None) -> list[list[int]]:
        return [[row["n"] for row in rows] for rows in graph_terms._batches(str(tmp_path / "f.parquet"), limit)]

    whole = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches(None) == batches(10) == batches(99) == whole
    assert batches(4) == whole[:1]
    assert batches(5) == [whole[0], [4]]
    assert batches(8) == whole[:2]
    assert batches(1) == [[0]]
    assert batches(0) == []


def test_entities_of_other_concepts_or_another_graph_are_refused() -> None:
    graph = GraphInput.of(config())
    hashes = {f"remine.{key}": value for key, value in graph.hashes.items()}
    same: Any = Entities(metadata=hashes)
    graph_terms._check_same(same, graph)
    for key in ("concepts", "graph"):
        for changed in ({**hashes, f"remine.{key}": "x"}, {k: v for k, v in hashes.items() if not k.endswith(key)}):
            other: Any = Entities(metadata=changed)
            with pytest.raises(InputError, match=f"^{key}=.*: E was collected with other {key}"):
                graph_terms._check_same(other, graph)


def test_entities_are_those_of_the_run_unless_others_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """They must have been collected with the same concepts."""
    opened: list[str] = []

    def open_table(uri: str, *_: str) -> Entities:
        opened.append(uri)
        return Entities(metadata={"remine.concepts": "other"})

    monkeypatch.setattr(graph_terms, "open_table", open_table)
    graph: Any = SimpleNamespace(
        hashes={"concepts": "abc"}, concepts=SimpleNamespace(name="list"), graph=SimpleNamespace(name="wikidata")
    )
    for keys in ([], ["entities=null", "source.path=dump"]):
        with pytest.raises(InputError, match="concepts=list: E was collected with other concepts"):
            graph_terms.write_terms(config(*keys), graph)
    assert opened == ["E", "O/entities"]
