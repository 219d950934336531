"""The share of exact neighbours that an index finds, with an index of which the test says what it returns."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.retrieval import faiss_export, faiss_index
from jobs.retrieval.faiss_export import FaissConfig, check_export
from jobs.retrieval.faiss_index import recall
from tests.factories import TableInMemory, write_table

IDS = pa.chunked_array([["a", "b"], ["c"]])


class QueryIds(NamedTuple):
    ids: pa.Array


class Index:
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
    index = Index([[0, 2], [2, -1], [-1, -1]])
    assert recall(index, IDS, units([], ["q", "r"], [], ["s"]), exact, k=2) == 2 / 4
    nothing: Any = TableInMemory("neighbors", [])
    assert math.isnan(recall(Index([[0]]), IDS, units(["q"]), nothing, k=1))


def test_an_index_without_faiss_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_export, "find_spec", lambda name: None)
    corpus: Any = None
    with pytest.raises(InputError, match=r"^faiss\.out=x: needs faiss-cpu; pip install 'remine\[ann\]'"):
        check_export(FaissConfig("x"), corpus, {})


def test_an_index_inside_a_table_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    checked: list[Any] = []
    monkeypatch.setattr(faiss_export, "find_spec", lambda name: name)
    monkeypatch.setattr(faiss_index, "check", lambda *values, **keys: checked.append((values, keys)))
    corpus: Any = SimpleNamespace(space=SimpleNamespace(dim=3), rows=7)
    tables = {"queries": f"{tmp_path}/q/", "out": f"{tmp_path}/out"}
    for place, key in (("out", "out"), ("out/index", "out"), ("q", "queries"), ("q/a/b", "queries")):
        with pytest.raises(InputError, match=rf"^faiss\.out={tmp_path}/{place}: is inside {key}="):
            check_export(FaissConfig(f"{tmp_path}/{place}"), corpus, tables)
    assert not checked
    for place in ("out2", "index", "."):
        check_export(FaissConfig(f"{tmp_path}/{place}", "F", 5), corpus, tables)
    assert checked == [(("F", 5), {"dim": 3, "rows": 7})] * 3


def test_the_index_has_the_score_and_the_exclusions_of_the_search(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
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
    monkeypatch.setattr(faiss_export, "read_queries", lambda unit, excluded: (unit, excluded.hit("a")))
    run: Any = SimpleNamespace(units=["u1", "u2"], target=SimpleNamespace(out=out))
    for score in ("cosine", "dot"):
        task: Any = SimpleNamespace(
            layout=None, excluded=str(tmp_path / "list.txt"), search=SimpleNamespace(k=4, score=score)
        )
        faiss_export.export(FaissConfig(f"{tmp_path}/i", "F", 5), None, task, run)  # type: ignore[arg-type]
        built = calls["build"]
        assert (built["factory"], built["nprobe"], built["cosine"]) == ("F", 5, score == "cosine")
        assert built["excludes a"]
        assert calls["write"] == (["x"], f"{tmp_path}/i")
        assert calls["recall"] == (["x"], [("u1", True), ("u2", True)], out, 4)
        assert capsys.readouterr().out == f"  index {tmp_path}/i: F, 1,234 vectors, recall@4 0.6667\n"
