"""Exact search against a plain float64 brute force, with ties planted and rows that have no direction."""

import numpy as np
import pytest

from actors.searcher import Queries, Search, _Candidates

DIM = 48


def made(rows: int, queries: int, *, seed: int = 0, kind: str = "float16") -> tuple[np.ndarray, np.ndarray, list[str]]:
    """A corpus with planted ties, queries near rows of it, and ids in another order than the rows."""
    draw = np.random.default_rng(seed)
    corpus = draw.standard_normal((rows, DIM))
    corpus /= np.linalg.norm(corpus, axis=1, keepdims=True)
    corpus = corpus.astype(kind)
    corpus[rows // 2 : rows // 2 + 50] = corpus[3]  # ties across blocks, more than k of them
    near = corpus[draw.integers(0, rows, queries)].astype(np.float64) + 0.05 * draw.standard_normal((queries, DIM))
    near[0] = corpus[3]
    ids = [f"{n * 7919 % 1_000_003:07d}" for n in range(rows)]
    return corpus, near.astype(kind), ids


def brute(corpus: np.ndarray, queries: np.ndarray, ids: list[str], k: int, *, cosine: bool, usable: np.ndarray) -> list:
    """[(item_id, score), …] for each query, in float64, sums of one order; ties by id."""
    wide = corpus.astype(np.float64)
    wanted = []
    for query in queries.astype(np.float64):
        scores = (wide * query).sum(axis=1)
        if cosine:
            with np.errstate(invalid="ignore"):
                scores /= np.sqrt((wide * wide).sum(axis=1)) * np.sqrt((query * query).sum())
        rows = sorted(np.flatnonzero(usable).tolist(), key=lambda n: (-scores[n], ids[n]))[:k]
        wanted.append([(ids[n], scores[n]) for n in rows])
    return wanted


def searched(corpus, queries, ids, k, *, score="inner_product", block=1000, at_a_time=333):
    search = Search(Queries(queries, score=score, device="cpu"), k=k, ids=lambda rows: [ids[n] for n in rows.tolist()])
    search.rows_at_a_time = at_a_time
    bad = []
    for first in range(0, len(corpus), block):
        rows = np.arange(first, min(first + block, len(corpus)))
        bad.append(search.add(corpus[rows], rows))
    hits = search.finish()
    got: list[list] = [[] for _ in queries]
    for query, item, value in zip(hits.query.tolist(), hits.item_id, hits.score.tolist(), strict=True):
        got[query].append((item, value))
    return got, bad, hits


@pytest.mark.parametrize("score", ["inner_product", "cosine"])
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_the_same_as_brute_force(score, kind):
    corpus, queries, ids = made(6000, 40, kind=kind)
    corpus[[10, 2500, 5999], [0, 5, 9]] = [np.nan, np.inf, -np.inf]
    corpus[4000] = 0
    usable = np.ones(len(corpus), bool)
    usable[[10, 2500, 5999, 4000]] = False
    got, bad, _ = searched(corpus, queries, ids, 8, score=score)
    expected = brute(corpus, queries, ids, 8, cosine=score == "cosine", usable=usable)
    for mine, theirs in zip(got, expected, strict=True):
        assert [item for item, _ in mine] == [item for item, _ in theirs]
        assert np.allclose([s for _, s in mine], [s for _, s in theirs], rtol=0, atol=1e-14)
    assert len({score for _, score in got[0]}) == 1  # the planted ties
    assert np.concatenate([b.not_finite for b in bad]).tolist() == [10, 2500, 5999]
    assert np.concatenate([b.zero for b in bad]).tolist() == [4000]


@pytest.mark.parametrize("sizes", [(1, 1), (7, 7), (1000, 6000), (6000, 100_000)])
def test_how_it_is_cut_does_not_matter(sizes):
    corpus, queries, ids = made(6000, 5, seed=4)
    one = searched(corpus[:3000], queries, ids, 5)[0]
    other = searched(corpus[:3000], queries, ids, 5, block=sizes[0], at_a_time=sizes[1])[0]
    assert one == other


def test_nothing_but_ties_stays_small(monkeypatch):
    """100,000 equal rows and more: what is held must not grow with them."""
    corpus = np.repeat(made(10, 1)[0][:1], 30_000, axis=0)
    held: list[int] = []
    settle = _Candidates._settle

    def settled(self: _Candidates) -> None:
        settle(self)
        held.append(len(self._query))

    monkeypatch.setattr(_Candidates, "_settle", settled)
    ids = [f"{n:06d}" for n in range(30_000)][::-1]
    got, _, _ = searched(corpus, corpus[:2], ids, 3, at_a_time=1000)
    assert [item for item, _ in got[1]] == ["000000", "000001", "000002"]
    assert max(held) <= 2 * 1000 + 2 * 3 * 5


def test_fewer_rows_than_k_and_none():
    corpus, queries, ids = made(60, 4)
    got, _, _ = searched(corpus[:3], queries, ids, 8)
    assert [len(g) for g in got] == [3] * 4
    assert searched(corpus[:0], queries, ids, 8)[2].item_id == []
    assert searched(corpus, queries[:0], ids, 8)[2].item_id == []


def test_lengths_that_differ_widely():
    """The bound follows the longest row of a block: a long row must not hide, nor a short one be lost."""
    corpus, queries, ids = made(2000, 6, kind="float32")
    corpus *= np.logspace(-6, 4, 2000)[:, None]
    for score in ("inner_product", "cosine"):
        got = searched(corpus, queries, ids, 5, score=score)[0]
        expected = brute(corpus, queries, ids, 5, cosine=score == "cosine", usable=np.ones(2000, bool))
        assert [[i for i, _ in g] for g in got] == [[i for i, _ in e] for e in expected]


def test_what_is_refused():
    corpus, queries, ids = made(10, 2)
    with pytest.raises(ValueError, match="k is 0"):
        searched(corpus, queries, ids, 0)
    with pytest.raises(ValueError, match="allowed are inner_product, cosine"):
        Queries(queries, score="euclidean", device="cpu")
    for wrong in (queries * 0, queries * np.float16(np.nan), queries[0]):
        with pytest.raises(ValueError, match="queries of shape"):
            Queries(wrong, device="cpu")
