"""Training and contents of an index, with a stand-in for FAISS that records its arguments."""

import math
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from jobs.corpora.vectors import VectorBlock
from jobs.errors import InputError, RunError
from jobs.retrieval import faiss_index
from jobs.retrieval.faiss_index import FaissConfig, check_faiss_export, recall
from tests.factories import TableInMemory, write_table


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


IDS = pa.chunked_array([["a", "b"], ["c"]])


class QueryIds(NamedTuple):
    ids: pa.Array


class SearchedIndex:
    """Returns the given numbers, -1 where it has no further neighbour; like FAISS it refuses an empty search."""

    def __init__(self, numbers: list[list[int]]) -> None:
        self._numbers = iter(numbers)

    def search(self, vectors: np.ndarray, k: int) -> tuple[None, np.ndarray]:
        assert len(vectors)
        return None, np.array([next(self._numbers)[:k] for _ in vectors], np.int64)


def units(*names: list[str]) -> Any:
    return [(QueryIds(pa.array(of_item, pa.string())), np.zeros((len(of_item), 2), np.float16)) for of_item in names]


def test_the_share_is_of_all_exact_neighbours() -> None:
    """Of q's two neighbours one is found, of r's one, and of s's none: 2 of 4, after a unit without queries."""
    exact: Any = TableInMemory("neighbors", [
        {"query_id": query, "rank": rank, "item_id": item, "score": 1.0}
        for query, rank, item in (("q", 1, "a"), ("q", 2, "b"), ("r", 1, "c"), ("s", 1, "b"))
    ])  # fmt: skip
    index = SearchedIndex([[0, 2], [2, -1], [-1, -1]])
    assert recall(index, IDS, units([], ["q", "r"], [], ["s"]), exact, k=2) == 2 / 4
    nothing: Any = TableInMemory("neighbors", [])
    assert math.isnan(recall(SearchedIndex([[0]]), IDS, units(["q"]), nothing, k=1))


def test_an_index_without_faiss_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_index, "find_spec", lambda name: None)
    corpus: Any = None
    with pytest.raises(InputError, match=r"^faiss\.out=x: needs faiss-cpu; pip install 'remine\[ann\]'"):
        check_faiss_export(FaissConfig("x"), corpus, {})


def test_an_index_inside_a_table_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checked: list[Any] = []
    monkeypatch.setattr(faiss_index, "find_spec", lambda name: name)
    monkeypatch.setattr(faiss_index, "check", lambda *values, **keys: checked.append((values, keys)))
    corpus: Any = SimpleNamespace(space=SimpleNamespace(dim=3), rows=7)
    tables = {"queries": f"{tmp_path}/q/", "out": f"{tmp_path}/out"}
    for place, key in (("out", "out"), ("out/index", "out"), ("q", "queries"), ("q/a/b", "queries")):
        with pytest.raises(InputError, match=rf"^faiss\.out: is inside {key}="):
            check_faiss_export(FaissConfig(f"{tmp_path}/{place}"), corpus, tables)
    assert not checked
    for place in ("out2", "index", "."):
        check_faiss_export(FaissConfig(f"{tmp_path}/{place}", "F", 5), corpus, tables)
    assert checked == [(("F", 5), {"dim": 3, "rows": 7})] * 3


def test_the_index_has_the_score_and_the_exclusions_of_the_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "list.txt").write_text("a\n")
    out = write_table(tmp_path / "neighbors", "neighbors", [])
    calls: dict[str, Any] = {}

    def build(corpus: Any, layout: Any, **keys: Any) -> tuple[Any, list[str]]:
        calls["build"] = {**keys, "excludes a": keys.pop("exclusion_filter").hit("a")}
        return SimpleNamespace(ntotal=1234), ["x"]

    def share(index: Any, ids: Any, queries: Any, exact: Any, *, k: int) -> float:
        calls["recall"] = (ids, queries, exact.uri, k)
        return 2 / 3

    monkeypatch.setattr(faiss_index, "build", build)
    monkeypatch.setattr(faiss_index, "write", lambda *values: calls.setdefault("write", values[1:]))
    monkeypatch.setattr(faiss_index, "recall", share)
    monkeypatch.setattr(faiss_index, "read_queries", lambda unit, excluded: (unit, excluded.hit("a")))
    run: Any = SimpleNamespace(units=["u1", "u2"], target=SimpleNamespace(out=out))
    for score in ("cosine", "dot"):
        task: Any = SimpleNamespace(
            layout=None, excluded=str(tmp_path / "list.txt"), search=SimpleNamespace(k=4, score=score)
        )
        lines = faiss_index.export_faiss_index(FaissConfig(f"{tmp_path}/i", "F", 5), None, task, run)  # type: ignore[arg-type]
        built = calls["build"]
        assert (built["factory"], built["nprobe"], built["cosine"]) == ("F", 5, score == "cosine")
        assert built["excludes a"]
        assert calls["write"] == (["x"], f"{tmp_path}/i")
        assert calls["recall"] == (["x"], [("u1", True), ("u2", True)], out, 4)
        assert lines == [f"  index {tmp_path}/i: F, 1,234 vectors, recall@4 0.6667"]
