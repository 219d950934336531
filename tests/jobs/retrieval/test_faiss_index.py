"""Training and contents of an index, with a stand-in for FAISS that records its arguments."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.corpora.vectors import VectorBlock
from jobs.errors import InputError, RunError
from jobs.retrieval import faiss_index


class Index:
    """Keeps what it is trained on and what is added."""

    def __init__(self, *, is_trained: bool = False) -> None:
        self.is_trained, self.sample = is_trained, np.zeros((0, 2), np.float32)
        self.added: list[float] = []

    def train(self, sample: np.ndarray) -> None:
        if len(sample) < 2:
            raise RuntimeError("Error in train\nx.cpp:1: Error: 'n > 1' failed: too few")
        self.sample = sample

    def add(self, vectors: np.ndarray) -> None:
        self.added += vectors[:, 0].tolist()


def built(
    monkeypatch: pytest.MonkeyPatch, blocks: list[int], index: Index, ivf: Any = None
) -> tuple[list[float], list[str]]:
    """Build from blocks of so many vectors, numbered from 0; return the numbers of the sample, and the ids."""
    starts = np.cumsum([0, *blocks]).tolist()
    numbered = [np.arange(first, last, dtype=np.float32) for first, last in pairwise(starts)]
    vectors = [(np.stack([numbers, numbers], 1), [f"i{n:g}" for n in numbers]) for numbers in numbered]
    monkeypatch.setattr(faiss_index, "TRAINED_ON", 10)
    monkeypatch.setattr(faiss_index, "_empty_index", lambda *_: index)
    monkeypatch.setattr(faiss_index, "_ivf", lambda _: ivf)
    monkeypatch.setattr(faiss_index, "_vectors", lambda *_: iter(vectors))
    unused: Any = None
    corpus: Any = SimpleNamespace(rows=sum(blocks), space=SimpleNamespace(dim=2))
    keys: dict[str, Any] = {"factory": "F", "nprobe": 7, "cosine": True, "exclusion_filter": unused}
    _, ids = faiss_index.build(corpus, unused, **keys)
    return index.sample[:, 0].tolist(), ids.to_pylist()


def test_the_sample_is_spread_over_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    sample, ids = built(monkeypatch, [25, 10], index)
    assert sample == [0, 3, 6, 9, 12, 15, 18, 21, 24, 25, 28, 31, 34]  # every third vector of each block
    assert index.added == list(range(35))
    assert ids == [f"i{n}" for n in range(35)]


def test_vectors_have_length_1_for_cosines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = np.array([[3, 4], [0, 0], [np.nan, 1], [0, 2]], np.float16)

    class Unit:
        """Takes the place of UnitVectors."""

        def __init__(self, *_: Any, **__: Any) -> None:
            self.ids = lambda places: [f"i{place}" for place in places.tolist()]

        def blocks(self, rows: int) -> list[VectorBlock]:
            return [VectorBlock(stored, np.arange(len(stored)))]

    monkeypatch.setattr(faiss_index, "UnitVectors", Unit)
    corpus: Any = SimpleNamespace(units=[None])
    unused: Any = None
    for cosine, expected in ((True, [[0.6, 0.8], [0, 1]]), (False, [[3, 4], [0, 2]])):
        ((vectors, ids),) = faiss_index._vectors(corpus, unused, cosine, unused)
        assert (vectors.tolist(), ids) == (pytest.approx(np.array(expected)), ["i0", "i3"])


def test_a_small_corpus_is_used_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    for rows in (5, 10, 19):
        assert built(monkeypatch, [rows], Index())[0] == list(range(rows))


def test_many_lists_need_more_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    ivf = SimpleNamespace(nlist=4, cp=SimpleNamespace(min_points_per_centroid=5), nprobe=1)
    sample, _ = built(monkeypatch, [45], Index(), ivf)
    assert sample == list(range(0, 45, 2))  # 20 vectors are needed
    assert ivf.nprobe == 7
    ivf.nlist = 1
    assert built(monkeypatch, [45], Index(), ivf)[0] == list(range(0, 45, 4))  # 5 would do, and 10 are taken


def test_an_index_that_needs_no_training_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index(is_trained=True)
    assert built(monkeypatch, [3], index) == ([], ["i0", "i1", "i2"])
    with pytest.raises(RunError, match=r"faiss\.factory=F: cannot be trained on 1 vectors \(too few\)"):
        built(monkeypatch, [1], Index())


def test_trials_double_the_vectors_until_faiss_accepts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    trials: list[tuple[str, int]] = []
    accepts = 9

    def refusal(factory: str, sample: np.ndarray, block: np.ndarray) -> faiss_index._Refusal | None:
        trials.append((factory, len(sample)))
        assert sample.shape[1] == block.shape[1] == 3
        return None if len(sample) >= accepts else faiss_index._Refusal("too few", adding=factory == "adding")

    ivf = SimpleNamespace(nlist=4)
    monkeypatch.setattr(faiss_index, "_try", refusal)
    monkeypatch.setattr(faiss_index, "_empty_index", lambda factory, dim: factory)
    monkeypatch.setattr(faiss_index, "_ivf", lambda index: ivf if "IVF" in index else None)
    faiss_index.check("IVF4,PQ8", 1, dim=3, rows=20)
    assert trials == [("IVF1,PQ8", n) for n in (1, 2, 4, 8, 16)]
    trials.clear()
    with pytest.raises(InputError, match=r"faiss\.factory=F: cannot be built from 6 vectors of 3 numbers \(too few\)"):
        faiss_index.check("F", 1, dim=3, rows=6)
    assert [n for _, n in trials] == [1, 2, 4, 6]
    trials.clear()
    with pytest.raises(InputError, match="cannot be built"):
        faiss_index.check("adding", 1, dim=3, rows=20)
    assert trials == [("adding", 1)], "more vectors would not help"
    monkeypatch.setattr(faiss_index, "TRAINED_ON", 5)
    trials.clear()
    with pytest.raises(InputError, match="cannot be built from 20 vectors"):
        faiss_index.check("F", 1, dim=3, rows=20)
    assert [n for _, n in trials] == [1, 2, 4, 5]
    accepts = 1
    faiss_index.check("IVF4,Flat", 1, dim=3, rows=4)
    with pytest.raises(InputError, match="4 lists for 3 vectors; use fewer lists, or Flat"):
        faiss_index.check("IVF4,Flat", 1, dim=3, rows=3)
    with pytest.raises(InputError, match=r"faiss\.nprobe=0: must be at least 1"):
        faiss_index.check("F", 0, dim=3, rows=3)


def test_a_reason_is_the_last_line_without_its_place_in_the_source() -> None:
    reasons = {
        "Error in train\nx.cpp:1: Error: 'n > 1' failed: too few": "too few",
        "Error in virtual void f() at /a/b.cpp:12: no add": "no add",
        "x.cpp:1: Error: 'n > 1' failed: ": "'n > 1' failed:",
        "no place": "no place",
        " ": "RuntimeError",
    }
    assert {text: faiss_index._reason(RuntimeError(text)) for text in reasons} == reasons
