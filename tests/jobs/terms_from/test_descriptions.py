"""Files of `conf/graph`, `conf/topics` and `conf/concepts`: what they mean, and which are refused."""

from typing import Any

import pytest

from jobs.terms_from.descriptions import Concept, ConceptList, Graph, Property, TopicList, item_number, site_title
from tests.cases import check_cases

GRAPH: dict[str, Any] = {
    "name": "g",
    "site": "enwiki",
    "languages": ["en", "de"],
    "properties": {"is": {"id": "P31", "to": "classes"}, "part": {"id": "P361", "to": "classes_and_instances"}},
    "subclass_property": "P279",
    "instance_property": "P31",
    "types": {"person": ["Q5", "Q15632617"], "other": []},
    "dates": {"born": "P569"},
}
TOPICS: dict[str, Any] = {
    "name": "t", "source": "s", "titles": 40, "categories": {"war": ["battle", "siege"], "art": ["painting"]},
    "sub_regions": ["Eastern Asia", "Polynesia"],
}  # fmt: skip
CONCEPTS: dict[str, Any] = {
    "name": "c", "source": "s",
    "themes": {"conflict": {"war": ["Q198", "Q8"], "riot": ["mass_protest"]}, "reform": {"law": ["Statute", "Q7748"]}},
}  # fmt: skip


def test_a_graph_has_the_properties_types_and_dates_of_its_file() -> None:
    graph = Graph.from_dict(GRAPH)
    assert (graph.name, graph.site, graph.languages) == ("g", "enwiki", ("en", "de"))
    assert graph.properties == (Property("is", "P31", to_instances=False), Property("part", "P361", to_instances=True))
    assert (graph.subclass_property, graph.instance_property) == ("P279", "P31")
    assert graph.types == {"person": (5, 15632617), "other": ()}
    assert graph.dates == {"born": "P569"}


def test_ids_of_items_are_a_letter_and_a_number() -> None:
    ids = {"Q198": 198, "Q0": None, "Q01": None, "q1": None, "P1": None, "Q1 ": None, "xQ1": None, "": None}
    assert {text: item_number(text) for text in ids} == ids


def test_topics_are_shown_as_lines() -> None:
    topics = TopicList.from_dict(TOPICS)
    assert topics.attributes == {
        "titles": "40", "categories": "- war: battle, siege\n- art: painting",
        "sub_regions": "Eastern Asia, Polynesia",
    }  # fmt: skip
    assert TopicList.from_dict({**TOPICS, "titles": 1}).titles == 1


def test_roots_of_concepts_are_ids_or_titles() -> None:
    concepts = ConceptList.from_dict(CONCEPTS)
    assert concepts.concepts == (
        Concept("war", "conflict", ("Q198", "Q8")), Concept("riot", "conflict", ("mass_protest",)),
        Concept("law", "reform", ("Statute", "Q7748")),
    )  # fmt: skip
    assert concepts.titles == {"Mass protest", "Statute"}
    assert concepts.roots({"Mass protest": {1, 2}, "Other": {3}}) == [{198, 8}, {1, 2}, {7748}]
    assert [site_title(text) for text in (" eu_law ", "iPhone", "")] == ["Eu law", "IPhone", ""]


def test_what_cannot_be_used_is_refused_with_its_place() -> None:
    cases: list[tuple[Any, dict[str, Any], dict[str, Any], str]] = [
        (Graph, GRAPH, {"languages": []}, "graph 'g', languages: at least one"),
        (Graph, GRAPH, {"hue": "red"}, "unknown key 'hue'"),
        (Graph, GRAPH, {"site": " "}, "graph 'g', site: "),
        (Graph, GRAPH, {"properties": {"is": {"id": "P31", "to": "all"}}},
         r"graph 'g', properties\.is\.to: 'all'; must be classes or classes_and_instances"),
        (Graph, GRAPH, {"properties": {"is": {"id": "P31"}}}, r"properties\.is: missing key 'to'"),
        (Graph, GRAPH, {"properties": {"is": {"id": "Q31", "to": "classes"}}}, r"properties\.is\.id: 'Q31' must be"),
        (Graph, GRAPH, {"subclass_property": 279}, "subclass_property: 279 must be the id of a property"),
        (Graph, GRAPH, {"instance_property": "P0"}, "instance_property: 'P0' must be the id of a property"),
        (Graph, GRAPH, {"dates": {"born": "569"}}, r"dates\.born: '569' must be the id of a property"),
        (Graph, GRAPH, {"types": {"person": ["Q5", "P31"]}}, r"types\.person: 'P31' must be the id of an item"),
        (TopicList, TOPICS, {"titles": 0}, "topics 't', titles: 0; must be a number of at least 1"),
        (TopicList, TOPICS, {"titles": True}, "topics 't', titles: True; "),
        (TopicList, TOPICS, {"titles": "40"}, "topics 't', titles: '40'; "),
        (TopicList, TOPICS, {"categories": {}}, "topics 't', categories: at least one"),
        (TopicList, TOPICS, {"categories": {"war": ["battle"], "art": []}}, r"categories\.art: at least one topic"),
        (TopicList, TOPICS, {"sub_regions": []}, "topics 't', sub_regions: at least one"),
        (ConceptList, CONCEPTS, {"themes": {}}, "concepts 'c', themes: at least one concept"),
        (ConceptList, CONCEPTS, {"themes": {"a": {"war": []}}}, r"themes\.a\.war: empty; list at least one id"),
        (ConceptList, CONCEPTS, {"themes": {"a": {"war": ["Q1"]}, "b": {"war": ["Q2"]}}}, "duplicate concept 'war'"),
    ]  # fmt: skip

    def check(kind: Any, data: dict[str, Any], change: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            kind.from_dict(data | change)

    check_cases(check, cases)
