"""Entities by concept and type, and distinct terms, by hand."""

from jobs.metrics.entity_counts import EntityCounts


def test_an_entity_counts_once_per_concept_and_type_and_a_term_once_per_source():
    counts = EntityCounts()
    names = EntityCounts.columns
    for row in (
        ("revolt", "knowledge_graph", "war", "Q1", "event"),
        ("uprising", "knowledge_graph", "war", "Q1", "event"),
        ("uprising", "knowledge_graph", "art", "Q1", None),
        ("march", "knowledge_graph", "war", "Q2", "event"),
        ("march", "knowledge_graph", "war", None, "event"),
        ("march", "language_model", "war", "Q3", "event"),
        ("march", None, None, None, None),
    ):
        counts.add(dict(zip(names, row, strict=True)))
    assert {metric.coverage for metric in counts.metrics()} == {1.0}
    assert [(metric.name, *metric.dims.values(), metric.value, metric.n) for metric in counts.metrics()] == [
        ("entities", "art", 1, 1),
        ("entities", "war", 2, 2),
        ("entities", "event", 2, 2),
        ("entities", "unknown", 1, 1),
        ("distinct_terms", "", 1, 1),
        ("distinct_terms", "knowledge_graph", 3, 5),
        ("distinct_terms", "language_model", 1, 1),
    ]
