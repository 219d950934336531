"""The classes below concepts and types."""

import pyarrow as pa

from jobs.tables import TABLES
from jobs.terms_from.class_tree import REDIRECT, SUBCLASS, TITLE, ClassEdges, ClassLookup, ClassTree
from jobs.terms_from.descriptions import ConceptList, Graph

EDGES = [(2, 1), (3, 2), (4, 3), (1, 4), (5, 3), (7, 6), (9, 9)]  # 1 to 4 are a cycle


def edges() -> ClassEdges:
    rows = [{"entity_id": f"Q{a}", "relation": SUBCLASS, "value": f"Q{b}"} for a, b in EDGES]
    rows += [
        {"entity_id": "Q30", "relation": REDIRECT, "value": "Q3"},
        {"entity_id": "Q2", "relation": TITLE, "value": "War"},
    ]
    return ClassEdges([pa.Table.from_pylist(rows, schema=TABLES["class_edges"].schema())])


def test_classes_below_a_root_with_cycles_redirects_and_a_depth() -> None:
    assert edges().below([2]).tolist() == [1, 2, 3, 4, 5, 30]
    assert edges().below([2], depth=1).tolist() == [2, 3]
    assert edges().below([6, 9]).tolist() == [6, 7, 9]
    assert edges().below([99]).tolist() == [99]
    assert edges().below([]).tolist() == []


def test_a_tree_can_be_sent_to_workers_and_back() -> None:
    concepts = ConceptList.from_dict(
        {"name": "c", "source": "s", "themes": {"t": {"war": ["war"], "other": ["Q6"], "none": ["Absent"]}}}
    )
    graph = Graph.from_dict(
        {
            "name": "g",
            "site": "enwiki",
            "languages": ["en"],
            "properties": {"instance of": {"id": "P31", "to": "classes"}},
            "subclass_property": "P279",
            "instance_property": "P31",
            "types": {"person": ["Q5"], "event": ["Q3"]},
            "dates": {},
        }
    )
    tree = ClassTree.from_bytes(ClassTree.of(edges(), concepts, graph, depth=None).to_bytes())
    assert tree.sizes(concepts) == {"war": 6, "other": 2, "none": 0}
    lookup = ClassLookup(tree, [concept.name for concept in concepts.concepts])
    assert [lookup.concepts(number) for number in (5, 30, 7, 8)] == [("war",), ("war",), ("other",), ()]
    assert [lookup.type(number) for number in (5, 30, 3, 6, 8)] == [0, 1, 1, -1, -1]  # the first type wins
    near = ClassTree.of(edges(), concepts, graph, depth=1)
    assert near.sizes(concepts) == {"war": 2, "other": 2, "none": 0}
    assert ClassLookup(near, ["war", "other", "none"]).type(1) == 1, "types have classes at any depth"
