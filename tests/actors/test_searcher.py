"""Exact search against a plain float64 brute force, with ties planted and rows that have no direction."""

import numpy as np
import pytest
import torch

from actors import searcher
from actors.search_queries import Candidates, Queries, SearchSettings, multiplies_bfloat16
from actors.searcher import Search, _round_down

DIM = 48
CPU = SearchSettings(device="cpu")


def made(rows: int, queries: int, *, seed: int = 0, kind: str = "float16") -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return a corpus with planted ties, queries near rows of it, and ids in another order than the rows."""
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
            with np.errstate(invalid="ignore", divide="ignore"):
                scores /= np.sqrt((wide * wide).sum(axis=1)) * np.sqrt((query * query).sum())
        rows = sorted(np.flatnonzero(usable).tolist(), key=lambda n: (-scores[n], ids[n]))[:k]
        wanted.append([(ids[n], scores[n]) for n in rows])
    return wanted


def searched(corpus, queries, ids, k, *, score="inner_product", block=1000, at_a_time=333, coarse=None, threads=1):
    settings = SearchSettings(k=k, score=score, device="cpu")
    search = Search(
        Queries(queries, settings, coarse=coarse), ids=lambda rows: [ids[n] for n in rows.tolist()], threads=threads
    )
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


coarse_or_not = pytest.mark.parametrize(
    "coarse",
    [False, pytest.param(True, marks=pytest.mark.skipif(not multiplies_bfloat16(), reason="CPU without bfloat16"))],
)


def test_the_limit_is_the_kth_score_as_soon_as_there_are_k() -> None:
    candidates = Candidates(2, 2, lambda rows: [f"{row}" for row in rows])
    query, row = np.array([0, 1, 1, 0]), np.arange(4)
    candidates.add(query[:3], row[:3], np.array([0.5, 0.9, 0.1]))
    assert candidates.worst.tolist() == [-np.inf, -np.inf]  # fewer than two per query are not settled yet
    candidates.add(query[3:], row[3:], np.array([0.3]))
    assert candidates.worst.tolist() == [0.3, 0.1]
    candidates.add(np.array([1, 0, 1, 0]), np.arange(4, 8), np.array([0.1, 0.3, 0.2, 0.1]))
    assert candidates.worst.tolist() == [0.3, 0.2]
    hits = candidates.finish()
    assert (hits.query.tolist(), hits.item_id) == ([0, 0, 1, 1], ["0", "3", "1", "6"])


@pytest.mark.parametrize("score", ["inner_product", "cosine"])
def test_rows_beyond_float64_are_reported_and_the_others_found(score):
    corpus, queries, ids = made(900, 5, kind="float64")
    corpus[[3, 400, 401, 402]] *= np.array([[1e300], [1e-300], [1e100], [1e-100]])
    usable = np.ones(len(corpus), bool)
    usable[[3, 400]] = False
    got, bad, _ = searched(corpus, queries, ids, 8, score=score)
    assert np.concatenate([b.out_of_range for b in bad]).tolist() == [3, 400]
    with np.errstate(over="ignore", divide="ignore"):
        expected = brute(corpus, queries, ids, 8, cosine=score == "cosine", usable=usable)
    assert [[item for item, _ in mine] for mine in got] == [[item for item, _ in theirs] for theirs in expected]


@coarse_or_not
@pytest.mark.parametrize("score", ["inner_product", "cosine"])
@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_the_same_as_brute_force(score, kind, coarse):
    corpus, queries, ids = made(6000, 40, kind=kind)
    corpus[[10, 2500, 5999], [0, 5, 9]] = [np.nan, np.inf, -np.inf]
    corpus[4000] = 0
    usable = np.ones(len(corpus), bool)
    usable[[10, 2500, 5999, 4000]] = False
    got, bad, _ = searched(corpus, queries, ids, 8, score=score, coarse=coarse, threads=2)
    expected = brute(corpus, queries, ids, 8, cosine=score == "cosine", usable=usable)
    for mine, theirs in zip(got, expected, strict=True):
        assert [item for item, _ in mine] == [item for item, _ in theirs]
        assert np.allclose([s for _, s in mine], [s for _, s in theirs], rtol=0, atol=1e-14)
    assert len({score for _, score in got[0]}) == 1  # the planted ties
    assert np.concatenate([b.not_finite for b in bad]).tolist() == [10, 2500, 5999]
    assert np.concatenate([b.zero for b in bad]).tolist() == [4000]


def test_how_it_is_cut_does_not_matter():
    corpus, queries, ids = made(6000, 5, seed=4)
    for rows, block, at_a_time in ((200, 1, 1), (400, 7, 7), (3000, 1000, 6000), (3000, 6000, 100_000)):
        one = searched(corpus[:rows], queries, ids, 5)[0]
        other = searched(corpus[:rows], queries, ids, 5, block=block, at_a_time=at_a_time)[0]
        assert one == other, (block, at_a_time)


def test_queries_are_multiplied_a_few_at_a_time(monkeypatch):
    corpus, queries, ids = made(700, 7, seed=5)
    whole = searched(corpus, queries, ids, 5)[0]
    monkeypatch.setattr(searcher, "_SCORES_AT_A_TIME", {"cpu": 2 * 333})
    assert searched(corpus, queries, ids, 5)[0] == whole


def test_nothing_but_ties_stays_small(monkeypatch):
    """100,000 equal rows and more: what is held must not grow with them."""
    corpus = np.repeat(made(10, 1)[0][:1], 30_000, axis=0)
    held: list[int] = []
    settle = Candidates._settle

    def settled(self: Candidates) -> None:
        settle(self)
        held.append(len(self._query))

    monkeypatch.setattr(Candidates, "_settle", settled)
    ids = [f"{n:06d}" for n in range(30_000)][::-1]
    got, _, _ = searched(corpus, corpus[:2], ids, 3, at_a_time=1000)
    assert [item for item, _ in got[1]] == ["000000", "000001", "000002"]
    assert max(held) <= 2 * 1000 + 2 * 3 * 5


def test_the_rows_of_a_piece_and_of_a_block(monkeypatch):
    """A piece has at least 2 k rows, up to a bound; a block has 8 pieces per thread, or 4 on a GPU."""

    def sizes(k, *, dim=DIM, place="cpu"):
        queries = Queries(np.ones((1, dim)), SearchSettings(k=k, device="cpu"))
        queries.device = torch.device(place)
        search = Search(queries, ids=lambda rows: [], threads=3)
        return search.rows_at_a_time, search.block_rows

    assert [sizes(k) for k in (10, 1024, 1025, 8192, 9000)] == [
        (2048, 49_152), (2048, 49_152), (2050, 49_200), (16_384, 393_216), (16_384, 393_216)
    ]  # fmt: skip
    monkeypatch.setattr(searcher, "CudaLane", lambda device: device)
    monkeypatch.setattr(searcher, "Uploads", lambda lane: lane)
    assert sizes(10, place="cuda") == (131_072, 524_288)
    # At 4100 dimensions, 2^29 bytes of float32 are 32,736 rows, of which 127 tiles of 256 are whole.
    expected = {10: 32_512, 20_000: 40_000, 70_000: 131_072}
    assert {k: sizes(k, dim=4100, place="cuda")[0] for k in expected} == expected
    assert searcher._gpu_rows(10**9) == 256


def test_fewer_rows_than_k_and_none():
    corpus, queries, ids = made(60, 4)
    got, _, _ = searched(corpus[:3], queries, ids, 8)
    assert [len(g) for g in got] == [3] * 4
    assert searched(corpus[:0], queries, ids, 8)[2].item_id == []
    assert searched(corpus, queries[:0], ids, 8)[2].item_id == []


@coarse_or_not
@pytest.mark.parametrize(("least", "most"), [(-6, 4), (-37, 37), (-45, -38)])
def test_lengths_that_differ_widely(coarse, least, most):
    """The bound follows the longest row of a piece: a long row must not hide, nor a short one be lost.

    Rows whose squares or products leave float32 are scored exactly, subnormal ones too.
    """
    corpus, queries, ids = made(2000, 6, kind="float64")
    corpus = (corpus * np.logspace(least, most, 2000)[:, None]).astype(np.float32)
    corpus = corpus[corpus.any(axis=1)]
    queries = (queries * np.logspace(-30, 30, 6)[:, None]).astype(np.float32)
    for score in ("inner_product", "cosine"):
        got = searched(corpus, queries, ids, 5, score=score, coarse=coarse)[0]
        expected = brute(corpus, queries, ids, 5, cosine=score == "cosine", usable=np.ones(len(corpus), bool))
        assert [[i for i, _ in g] for g in got] == [[i for i, _ in e] for e in expected]


def test_what_is_refused():
    corpus, queries, ids = made(10, 2)
    with pytest.raises(ValueError, match="k=0"):
        searched(corpus, queries, ids, 0)
    with pytest.raises(ValueError, match="score=euclidean"):
        SearchSettings(score="euclidean")
    assert len(searched(corpus, queries, ids, 1)[2].item_id) == 2
    for wrong in (queries * 0, queries * np.float16(np.nan), queries[0]):
        with pytest.raises(ValueError, match="queries of shape"):
            Queries(wrong, CPU)


def near_ties(kind: str, *, bits: int, rows: int = 4000) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return rows of which the best look worst once their entries are rounded to `bits` bits.

    Entries lie next to the middle between two such numbers. The first half of the rows goes up when rounded; the others
    go down, and have one entry so much greater that their scores are the higher ones, by little. As many entries that
    are not rounded at all bring the scores near zero, where nothing is lost when they are stored.
    """
    draw = np.random.default_rng(11)
    step, half = 2.0 ** (1 - bits), DIM // 2
    middle = 1 + (np.floor(draw.uniform(0, 1 / 8, half) / step) + 0.5) * step
    offset = step / (8 if kind == "float16" else 64)
    corpus = np.repeat(
        np.append(middle + offset, np.full(half, -np.round(middle.mean() * 64) / 64))[None], rows, axis=0
    )
    down = np.arange(rows // 2, rows)
    corpus[down, :half] = middle - offset
    corpus[down, draw.integers(0, half, len(down))] += 2 * half * offset * (1 + draw.integers(1, 4, len(down)) / 10)
    signs = draw.choice([-1.0, 1.0], DIM)
    return (corpus * signs).astype(kind), signs[None].astype(kind), [f"{n * 7919 % 1_000_003:07d}" for n in range(rows)]


@coarse_or_not
@pytest.mark.parametrize(("kind", "bits"), [("float16", 8), ("float32", 8), ("float64", 8), ("float64", 24)])
def test_near_ties_within_the_bound(coarse, kind, bits):
    corpus, queries, ids = near_ties(kind, bits=bits)
    usable = np.ones(len(corpus), bool)
    for score in ("inner_product", "cosine"):
        got = searched(corpus, queries, ids, 20, score=score, coarse=coarse)[0]
        expected = brute(corpus, queries, ids, 20, cosine=score == "cosine", usable=usable)
        assert [[item for item, _ in one] for one in got] == [[item for item, _ in one] for one in expected]


@coarse_or_not
@pytest.mark.parametrize("scale", [1.0, 2.0**-18, 2.0**12])
def test_the_products_keep_within_their_bounds(coarse, scale):
    """Of both products, the errors that are seen stay below those that are proven, at the worst roundings too."""
    import torch

    draw = np.random.default_rng(5)
    rows, queries, _ = near_ties("float16", bits=8)
    more = draw.standard_normal((3000, DIM)) * np.exp(draw.normal(0, 3, (3000, DIM)))  # a few entries outweigh all
    rows = np.concatenate([rows, (more / np.abs(more).max()).astype(np.float16)]) * np.float16(scale)
    rows = rows[rows.any(axis=1)]
    asked = Queries(np.concatenate([queries, rows[-20:]]), CPU, coarse=coarse)
    product = asked.coarse if asked.coarse is not None else asked.fine
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    products = torch.mm(product.directions, torch.from_numpy(rows).to(product.directions.dtype).T).double().numpy()
    true = (asked.vectors.astype(np.float64) @ rows.astype(np.float64).T) / asked.lengths[:, None]
    off = np.abs(true - products) - np.abs(products) * product.rounding * 2  # what storing them adds
    assert (off <= product.bound[:, None] * lengths).all()
    if coarse:
        assert (np.abs(true - products) > product.bound[:, None] * lengths / 4).any()  # no bound far from what happens


def test_rows_that_float32_or_float64_cannot_hold():
    """Rows of one number each; the bounds themselves are outside of what goes through the products."""
    powers = {-481: "bad", -480: "bad", -479: "usable", -50: "usable", -49: "other", 59: "other", 60: "usable",
              511: "usable", 512: "bad", 900: "bad", -900: "bad"}  # fmt: skip
    values = np.array([*(2.0**power for power in powers), 0.0, np.nan, np.inf, -(2.0**60)])
    numbers = np.arange(100, 100 + len(values))
    rows = searcher._Rows(values[:, None], torch.from_numpy(values[:, None]), numbers)
    lengths = torch.linalg.vector_norm(rows.tensor.float(), dim=1)
    extremes, bad = searcher._set_extremes_aside(rows, lengths)
    kinds = [*powers.values(), "zero", "not finite", "not finite", "usable"]
    places = {kind: [place for place, name in enumerate(kinds) if name == kind] for kind in kinds}
    assert (extremes.usable.tolist(), extremes.others.tolist()) == (places["usable"], places["other"])
    outcomes = [column.tolist() for column in (bad.not_finite, bad.zero, bad.out_of_range)]
    assert outcomes == [[100 + place for place in places[kind]] for kind in ("not finite", "zero", "bad")]


def test_a_limit_is_rounded_down():
    draw = np.random.default_rng(2)
    limits = np.concatenate([draw.standard_normal(1000) * 10.0 ** draw.integers(-30, 30, 1000), [0.0, -0.0, -np.inf]])
    for bits, step in ((16, 2.0**-7), (32, 2.0**-22)):
        low = _round_down(limits, bits=bits).astype(np.float64)
        assert (low <= limits).all()
        assert (low[:-1] >= limits[:-1] - step * np.abs(limits[:-1])).all()
    import torch

    tensor = torch.from_numpy(_round_down(limits, bits=16))
    assert torch.equal(tensor, tensor.bfloat16().float())


def test_a_row_is_kept_if_errors_of_both_scores_could_make_it_the_best():
    """The score of the k-th row may be too high by the bound, and that of another too low by it."""
    import torch

    queries = Queries(np.ones((2, 1)), SearchSettings(k=2, device="cpu"))
    search = Search(queries, ids=lambda rows: [""] * len(rows))
    scores = torch.tensor([[4.0], [3.0], [2.5], [2.0], [1.99]])
    piece, scratch = searcher._Piece(scores, 2.0, None), searcher._Scratch(queries.device)
    product = queries.fine._replace(bound=np.array([0.25, 0.125]), rounding=0.0)  # of rows of length 1
    query, row = search._multiply(product, slice(0, 2), piece, scores, scratch)
    pairs = sorted(zip(query.tolist(), row.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]
    stored = product._replace(bound=np.zeros(2), rounding=1 / 8)  # the k-th score, 3, may be 2.625, and 2.25 too
    _, row = search._multiply(stored, slice(0, 1), piece, scores, scratch)
    assert sorted(row.tolist()) == [0, 1, 2]
    search._candidates.worst[:] = 3.0  # exact, so that only the other row's error counts
    query, row = search._multiply(product, slice(0, 2), piece, scores, scratch)
    assert sorted(zip(query.tolist(), row.tolist(), strict=True)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]


@coarse_or_not
def test_vectors_that_are_nearly_all_alike(coarse, monkeypatch):
    """Scores close together, as from random weights: the coarse product excludes nothing and is soon skipped."""
    draw = np.random.default_rng(3)
    corpus = np.ones(DIM) + 1e-2 * draw.standard_normal((20_000, DIM))
    corpus = (corpus / np.linalg.norm(corpus, axis=1, keepdims=True)).astype(np.float32)
    ids = [f"{n:06d}" for n in range(len(corpus))]
    used: list[str] = []
    multiplied = Search._multiply

    def counted(self, product, *rest):
        used.append(str(product.directions.dtype))
        return multiplied(self, product, *rest)

    monkeypatch.setattr(Search, "_multiply", counted)
    got = searched(corpus, corpus[:30], ids, 5, coarse=coarse, at_a_time=500)[0]
    expected = brute(corpus, corpus[:30], ids, 5, cosine=False, usable=np.ones(len(corpus), bool))
    assert [[i for i, _ in g] for g in got] == [[i for i, _ in e] for e in expected]
    assert used.count("torch.bfloat16") == (8 if coarse else 0)
    assert used.count("torch.float32") == 40


def test_two_hundred_thousand_rows_with_ties_planted():
    """At the size that is asked for: ids and scores of a float64 brute force, ties within and across pieces."""
    draw = np.random.default_rng(8)
    rows, dim, k = 200_000, 64, 8
    corpus = draw.standard_normal((rows, dim), dtype=np.float32)
    corpus = (corpus / np.linalg.norm(corpus, axis=1, keepdims=True)).astype(np.float16)
    queries = corpus[draw.integers(0, rows, 20)].copy()
    for number in range(0, 20, 2):  # each other query has 3 to 12 rows equal to it, anywhere
        corpus[draw.integers(0, rows, 3 + number // 2)] = queries[number]
    ids = [f"{n:06d}" for n in draw.permutation(rows)]
    wide, names = corpus.astype(np.float64), np.array(ids)
    expected = []
    for query in queries.astype(np.float64):
        scores = (wide * query).sum(axis=1)
        among = np.flatnonzero(scores >= np.partition(scores, -k)[-k])
        best = among[np.lexsort((names[among], -scores[among]))[:k]]
        expected.append((names[best].tolist(), scores[best]))
    for threads in (1, 2):
        got = searched(corpus, queries, ids, k, block=60_000, at_a_time=2048, threads=threads)[0]
        for mine, (items, scores) in zip(got, expected, strict=True):
            assert [item for item, _ in mine] == items
            assert np.allclose([score for _, score in mine], scores, rtol=0, atol=1e-14)
