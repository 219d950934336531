"""The k best of a stream, and the score that a row must reach, with scores chosen by hand."""

import numpy as np

from actors.search.top_k import Candidates


def candidates(k: int, *, queries: int = 1) -> Candidates:
    return Candidates(queries, k, lambda rows: [f"id{9 - row}" for row in rows.tolist()])


def add(to: Candidates, *scores: float, first: int = 0, query: int = 0) -> None:
    rows = np.arange(first, first + len(scores))
    to.add(np.full(len(scores), query), rows, np.array(scores))


def test_the_least_score_rises_once_k_rows_are_known() -> None:
    best = candidates(3)
    add(best, 5.0, 1.0)
    assert best.worst.tolist() == [-np.inf]
    add(best, 3.0, first=2)
    assert best.worst.tolist() == [1.0]
    add(best, 4.0, 2.0, 6.0, first=3)
    assert best.worst.tolist() == [4.0]
    hits = best.finish()
    assert (hits.row.tolist(), hits.score.tolist(), hits.item_id) == ([5, 0, 3], [6.0, 5.0, 4.0], ["id4", "id9", "id6"])


def test_ties_are_broken_by_id() -> None:
    best = candidates(2)
    add(best, 1.0, 2.0, 1.0, 1.0)
    hits = best.finish()
    assert (hits.row.tolist(), hits.item_id) == ([1, 3], ["id8", "id6"])


def test_ids_are_read_of_the_best_rows_only() -> None:
    read: list[int] = []

    def ids(rows: np.ndarray) -> list[str]:
        read.extend(rows.tolist())
        return [f"id{row}" for row in rows.tolist()]

    best = Candidates(1, 2, ids)
    for first in range(6):
        add(best, float(first), first=first)
    best.finish()
    assert sorted(read) == [4, 5]


def test_fewer_rows_than_k_and_several_queries() -> None:
    best = candidates(2, queries=3)
    add(best, 1.0, query=2)
    add(best, 1.0, 3.0, 2.0, query=0)
    hits = best.finish()
    assert (hits.query.tolist(), hits.row.tolist()) == ([0, 0, 2], [1, 2, 0])
    assert candidates(2).finish().item_id == []


def test_many_ties_are_cut_before_the_end() -> None:
    best = candidates(1)
    for first in range(9):
        add(best, 1.0, first=first)
        assert len(best._query) <= 5
    assert best.finish().item_id == ["id1"]
