"""Ranking the nodes of a knowledge base: the best text counts, ties are ordered, the input order does not matter."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.linking import (
    Link,
    LinkedText,
    LinkSettings,
    NearPicture,
    by_frequency,
    by_similarity,
    by_text,
    candidates,
)


def test_a_node_counts_by_its_best_text() -> None:
    hits = [
        LinkedText("b", "t1", 0.9),
        LinkedText("a", "t2", 0.8),
        LinkedText("b", "t3", 0.7),
        LinkedText("c", "t4", 0.6),
    ]
    assert by_text(hits, 2) == [Link("b", 0.9, "t1"), Link("a", 0.8, "t2")]


def test_equal_scores_are_ordered_by_node_and_equal_texts_by_id() -> None:
    hits = [LinkedText("b", "t2", 0.5), LinkedText("a", "t9", 0.5), LinkedText("b", "t1", 0.5)]
    assert by_text(hits, 5) == [Link("a", 0.5, "t9"), Link("b", 0.5, "t1")]


def test_frequency_then_the_nearest_picture_then_the_id() -> None:
    pictures = [
        NearPicture(("a", "z"), 0.9),
        NearPicture(("b", "c"), 0.8),
        NearPicture(("b", "c", "z"), 0.7),
        NearPicture((), 0.6),
    ]
    # z has pictures at 0.9 and 0.7, b and c at 0.8 and 0.7, a one
    order = [("z", 2), ("b", 2), ("c", 2), ("a", 1)]
    for listed in (pictures, pictures[::-1]):
        assert [(link.node_id, link.score) for link in by_frequency(listed, 4)] == order


def test_a_picture_that_names_a_node_twice_counts_once() -> None:
    assert (
        by_frequency([NearPicture(("a", "a"), 0.5), NearPicture(("b",), 0.4), NearPicture(("b",), 0.3)], 1)[0].node_id
        == "b"
    )


def test_candidates_are_each_once() -> None:
    assert candidates([NearPicture(("b", "a"), 0.1), NearPicture(("a",), 0.9)]) == ["a", "b"]


QUERY = np.array([1.0, 0.0], np.float16)
TEXTS = {
    "n": [("t1", np.array([0.6, 0.8], np.float16)), ("t2", np.array([1.0, 0.0], np.float16))],
    "m": [("t3", np.array([0.8, 0.6], np.float16))],
}


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("max", [("n", 1.0, "t2"), ("m", 0.8, "t3")]),
        ("mean", [("n", 0.8, "t2"), ("m", 0.8, "t3")]),
        ("first", [("m", 0.8, "t3"), ("n", 0.6, "t1")]),
    ],
)
def test_a_node_with_several_lemmas(aggregation: str, expected: list[tuple[str, float, str]]) -> None:
    hits = by_similarity(QUERY, TEXTS, 5, aggregation=aggregation)
    assert sorted((link.node_id, link.text_id) for link in hits) == sorted((n, t) for n, _, t in expected)
    assert [link.score for link in hits] == pytest.approx([score for _, score, _ in expected], abs=1e-3)
    assert aggregation == "mean" or [link.node_id for link in hits] == [node for node, _, _ in expected]


def test_equal_similarities_are_ordered_by_id_and_only_k_nodes_are_kept() -> None:
    here, away = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    texts = {"c": [("t9", here)], "b": [("t8", here), ("t2", here), ("t1", away)], "a": [("t5", here)]}
    assert by_similarity(QUERY, texts, 2) == [Link("a", 1.0, "t5"), Link("b", 1.0, "t2")]


def test_an_unknown_aggregation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lemma_aggregation=worst: .*max, mean, first"):
        by_similarity(QUERY, TEXTS, 1, aggregation="worst")


SETTINGS: dict[str, Any] = {
    "method": "lemma_vision",
    "k": 20,
    "nearest": 20,
    "lemma_aggregation": "mean",
    "language": "en",
}


def test_settings_that_are_not_allowed_are_named() -> None:
    assert LinkSettings(**SETTINGS).lemma_aggregation == "mean"
    assert LinkSettings(**SETTINGS | {"k": 1, "nearest": 1}).k == 1
    assert LinkSettings() == LinkSettings(**SETTINGS | {"lemma_aggregation": "max"})
    bad: list[dict[str, Any]] = [{"method": "magic"}, {"k": 0}, {"nearest": 0}, {"lemma_aggregation": "worst"}]
    for values in bad:
        ((key, value),) = values.items()
        with pytest.raises(ValueError, match=f"^{key}={value}: "):
            LinkSettings(**SETTINGS | values)
    for method in ("lemma", "gloss", "article", "frequency_vision"):
        with pytest.raises(ValueError, match=r"^lemma_aggregation=mean: "):
            LinkSettings(**SETTINGS | {"method": method})
        assert LinkSettings(method=method).method == method


@given(
    st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 4)), max_size=30),
    st.randoms(use_true_random=False),
)
def test_the_order_of_what_was_found_changes_nothing(rows: list[tuple[str, int]], draw: random.Random) -> None:
    hits = [LinkedText(node, f"t{number}", score / 4) for number, (node, score) in enumerate(rows)]
    pictures = [NearPicture((node,), score / 4) for node, score in rows]
    expected = by_text(hits, 5), by_frequency(pictures, 5)
    draw.shuffle(hits)
    draw.shuffle(pictures)
    assert (by_text(hits, 5), by_frequency(pictures, 5)) == expected
