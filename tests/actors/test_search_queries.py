"""The k best of a stream, and the score that a row must reach, with scores chosen by hand."""

import math

import numpy as np
import pytest
import torch

from actors import search_queries as module
from actors.search_queries import COSINE, Candidates, Queries, SearchSettings


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


ON_CPU = SearchSettings(device="cpu")


def test_the_bound_holds_if_queries_and_rows_are_both_rounded_most() -> None:
    """Numbers just below 1 + 2^-8 become 1 in bfloat16; no other relative error is larger."""
    number = (1 + 2**-8) * (1 - 2**-14)
    query = np.full(64, number / 8)
    query[-1] = math.sqrt(1 - 63 * query[0] ** 2)
    row = np.full(64, number)
    product = Queries(query[None], ON_CPU, coarse=True).coarse
    assert product is not None
    rounded = torch.from_numpy(row).to(torch.bfloat16).double()
    error = abs(float(product.directions[0].double() @ rounded) - query @ row) / np.linalg.norm(row)
    assert 1.9 * 2**-8 < error <= product.bound[0] < 2.1 * 2**-8


def test_the_bound_of_a_sum_follows_from_the_number_of_its_products() -> None:
    """2 n + 16 = 2^21 roundings of 2^-23 are 1/4, which n e / (1 - n e) makes 1/3; see Higham, section 3.1."""
    query = np.zeros((1, 2**20 - 8), np.float32)
    query[0, 7] = 5  # its direction is not rounded
    queries = Queries(query, ON_CPU, coarse=True)
    assert queries.coarse is not None
    for product, rounding in ((queries.fine, 2**-24), (queries.coarse, 2**-8)):
        assert product.rounding == rounding
        assert 1 < product.bound[0] / (1 / 3 + rounding) < 1.003


def test_queries_are_converted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 2)
    vectors = np.random.default_rng(0).standard_normal((5, 8)) * np.array([1, 9, 0.1, 4, 30])[:, None]
    lengths = np.linalg.norm(vectors, axis=1)
    for score, scale in (("inner_product", lengths), (COSINE, np.ones(5))):
        queries = Queries(vectors, SearchSettings(device="cpu", score=score), coarse=True)
        assert queries.lengths == pytest.approx(lengths)
        assert queries.scale == pytest.approx(scale)
        assert queries.coarse is not None
        for product, error in ((queries.fine, 2**-24), (queries.coarse, 2**-8)):
            assert product.directions.double().numpy() == pytest.approx(vectors / lengths[:, None], rel=1.01 * error)
            assert product.bound.shape == (5,)
        exact = queries.exact(np.array([4, 1]), vectors[:2])
        assert exact == pytest.approx((vectors[[4, 1]] * vectors[:2]).sum(axis=1) / (
            lengths[[4, 1]] * lengths[:2] if score == COSINE else 1))  # fmt: skip


def test_lengths_and_scores_are_summed_in_float64() -> None:
    """The square of 300 is infinite in float16. TensorFloat-32 would exceed the bound of a float32 product."""
    torch.backends.cuda.matmul.allow_tf32 = True
    vectors = np.full((2, 4), 300, np.float16)
    queries = Queries(vectors, ON_CPU)
    assert not torch.backends.cuda.matmul.allow_tf32
    assert queries.lengths.tolist() == [600, 600]
    assert queries.exact(np.array([0, 1]), vectors).tolist() == [360_000, 360_000]


@pytest.mark.parametrize(
    "bad",
    [
        *(np.zeros((1, 3)), np.array([[1, np.nan]]), np.array([[1, np.inf]]), np.ones(3)),
        np.array([[1.0, 2.0], [0.0, 0.0]]),
    ],
)
def test_queries_without_a_direction_are_refused(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="queries of shape"):
        Queries(bad, ON_CPU)


def test_settings_that_find_nothing_are_refused() -> None:
    assert SearchSettings(k=1, score=COSINE).k == 1
    with pytest.raises(ValueError, match=r"^k=0: must be at least 1"):
        SearchSettings(k=0)
    with pytest.raises(ValueError, match=r"^score=dot: must be one of inner_product, cosine"):
        SearchSettings(score="dot")
