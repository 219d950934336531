"""The ranks of right answers, by hand."""

from typing import Any

from jobs.analysis.gold_answers import ranks_of
from tests.factories import TableInMemory


def test_ranks_ascend_whatever_the_order_of_the_rows() -> None:
    rows = [("q", 3, "a"), ("q", 1, "b"), ("none", 1, "x"), ("q", 2, "x"), ("other", 1, "a"), ("q", 4, "c")]
    links = [
        {"image_id": query, "rank": rank, "node_id": node, "method": "lemma", "score": 0.0}
        for query, rank, node in rows
    ]
    source: Any = TableInMemory("links", links)
    source.name = "links"
    right = {"q": {"a", "b", "c"}, "none": {"y"}, "unlisted": {"a"}}
    assert ranks_of(source, right) == {"q": [1, 3, 4], "none": []}
