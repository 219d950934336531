"""The share of exact neighbours that an index finds, with an index of which the test says what it returns."""

import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.retrieval import faiss_export
from jobs.retrieval.faiss_export import FaissConfig, check_export
from jobs.retrieval.faiss_index import recall
from tests.factories import TableInMemory

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
