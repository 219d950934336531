"""Concepts of one set of labels: which entity, which labels, and what is left out."""

import json
from collections import Counter

from jobs.items_from.concepts import NO_ARTICLE, NO_LABEL, NOT_JSON, concepts_of, sheet_row
from jobs.retrieval.lemma_index import NamedNode

LABELS = ["Zebra", "Ant", "wild boar"]
NODES = {"safari": [NamedNode(0, "n1", "Safari"), NamedNode(1, "n2", "Safari")], "hunt": [NamedNode(0, "n3", "hunt")]}
TITLES = {"n2": "Safari park", "n4": "Other"}


def response(*concepts: tuple[str, list[str]]) -> str:
    return "\n".join(json.dumps({"concept": name, "labels": labels}) for name, labels in concepts)


def test_a_concept_has_the_labels_of_the_set_in_its_order() -> None:
    """The first entity with an article counts, under the name and labels of the first response."""
    responses = [
        response(("safari", ["ant", "ZEBRA", "lion"]), ("Safari!", ["wild  boar"])),
        response(("SAFARI", ["Wild boar"]), ("hunt", ["Ant"]), ("safari", ["lion"]), ("absent", ["Ant"])) + "\nNo.",
    ]
    (concept,), left_out = concepts_of(responses, LABELS, NODES, TITLES)
    assert (concept.name, concept.gold, concept.node, concept.title) == (
        "safari", ("Zebra", "Ant"), "n2", "Safari park"
    )  # fmt: skip
    assert concept.proposals == 3
    assert left_out == Counter({NO_ARTICLE: 2, NO_LABEL: 1, NOT_JSON: 1})
    row = sheet_row(concept, "animals", LABELS)
    assert (row["labels"], row["gold"], row["gold_node"], row["proposals"]) == (
        "Zebra; Ant; wild boar", "Zebra; Ant", "n2", "3"
    )  # fmt: skip
