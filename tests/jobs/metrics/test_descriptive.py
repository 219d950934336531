"""Descriptive statistics, worked by hand."""

import pytest

from jobs.metrics.descriptive import EntityCounts, describe, histogram


def test_statistics_by_hand() -> None:
    values = {metric.name: metric.value for metric in describe([1890, 1892, 1900, 1904])}
    assert values == {
        "mean": 1896.5,
        "median": 1896.0,
        "standard_deviation": pytest.approx((131 / 3) ** 0.5),  # (6.5² + 4.5² + 3.5² + 7.5²) / 3
        "minimum": 1890,
        "maximum": 1904,
    }


def test_too_few_values_are_undefined() -> None:
    one = {metric.name: metric.value for metric in describe([7])}
    assert (one["mean"], one["standard_deviation"]) == (7, None)
    assert {metric.value for metric in describe([])} == {None}
    assert list(histogram([], 5)) == []
    two = {metric.name: (metric.value, metric.n) for metric in describe([1, 3])}
    assert two["standard_deviation"] == (pytest.approx(2**0.5), 2)
    reasons = {metric.reason for metric in describe([7])}
    assert reasons == {"1 values: at least 2 needed", "no interval: it describes these values only"}


def test_a_histogram_has_its_empty_bins() -> None:
    (first, *_) = histogram([3, 4, 5, 9, 21], 5)
    assert (first.n, first.dims) == (5, {"bin": "0", "width": "5"})
    counts = {metric.dims["bin"]: metric.value for metric in histogram([3, 4, 5, 9, 21], 5)}
    assert counts == {"0": 2, "5": 2, "10": 0, "15": 0, "20": 1}
    assert {metric.dims["bin"]: metric.value for metric in histogram([3, 4, 4], 1)} == {"3": 1, "4": 2}
    assert {metric.dims["bin"]: metric.value for metric in histogram([23, 31], 5)} == {"20": 1, "25": 0, "30": 1}
    with pytest.raises(ValueError, match="width=0"):
        list(histogram([1], 0))


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
