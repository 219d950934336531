"""The counts of a unit of queries, and queries that occur twice."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from jobs.corpora.embeddings import VectorsConfig
from jobs.errors import InputError
from jobs.models.encoder import EmbedderConfig
from jobs.retrieval.queries import QueryUnit, check_distinct, open_queries, read_queries
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.counts import Counts
from jobs.store.reading import TableSource, open_table
from jobs.store.units import LIMIT, Unit
from tests.factories import DIM, embedding_rows, write_table


def test_each_row_asks_for_k_neighbours_and_the_counts_balance() -> None:
    unit = QueryUnit(pa.array(["a", "b", "c"]), Counter(missing=2, zero_vector=1), {"mark": 2})
    counts = Counts(rows_out=10)
    counts.rejected["too_long"] = 3
    unit.account(counts, 4, 10)
    assert counts.filtered == {"query_missing": 8, "query_zero_vector": 4, "fewer_than_k": 2}
    assert (unit.rows, counts.rows_in) == (6, 24 + 3)
    assert counts.balances()
    assert list(counts.tallies.values()) == [{"mark": 2}]
    full = Counts(rows_out=12)
    QueryUnit(pa.array(["a", "b", "c"]), Counter(), {}).account(full, 4, 12)
    assert (full.rows_in, full.filtered, full.tallies) == (12, {}, {})


def queries(out: Path, *names: str, failed: str = "") -> TableSource:
    """Queries of which the one with the name `failed` has no vector."""
    rows = embedding_rows(names, "image", np.ones((len(names), DIM)))
    rows = [row | ({"status": "missing", "embedding": None} if row["item_id"] == failed else {}) for row in rows]
    return open_table(write_table(out, "embeddings", rows))


def test_a_limit_counts_rows_that_are_not_searched(tmp_path: Path) -> None:
    source = queries(tmp_path / "q", *"abcde", failed="b")
    unit = Unit("unit", tuple(footer.object for footer in source.footers), rows=5, extra={LIMIT: 4})
    read, vectors = read_queries(unit, ExclusionFilter(frozenset({"a", "e"})))
    assert (read.ids.to_pylist(), vectors.shape, read.rows) == (["c", "d"], (2, DIM), 4)
    assert (read.absent, read.excluded) == ({"reported": 1, "missing": 1}, {"a": 1})


def test_vectors_that_cannot_be_compared_are_counted_by_their_reason(tmp_path: Path) -> None:
    vectors = {"a": [1, 0, 0, 0], "b": [0] * DIM, "c": [np.nan, 1, 0, 0], "d": [0] * DIM, "e": [np.inf, 0, 0, 0]}
    rows = [
        {"item_id": name, "kind": "image", "embedding": vector, "status": "error" if name in "de" else "ok"}
        for name, vector in vectors.items()
    ]
    source = open_table(write_table(tmp_path / "q", "embeddings", rows))
    unit = Unit("unit", tuple(footer.object for footer in source.footers), rows=5)
    read, searched = read_queries(unit, ExclusionFilter(frozenset()))
    assert (read.ids.to_pylist(), searched.tolist()) == (["a"], [[1, 0, 0, 0]])
    assert read.absent == {"zero_vector": 1, "not_finite": 1, "error": 2}


def test_only_queries_that_are_searched_must_differ(tmp_path: Path) -> None:
    first = queries(tmp_path / "first", "a", "b", "c")
    check_distinct("q", [first, queries(tmp_path / "second", "d", "c", failed="c")])
    with pytest.raises(InputError, match="queries=q: duplicate item_id c;"):
        check_distinct("q", [first, queries(tmp_path / "third", "d", "c")])
    with pytest.raises(InputError, match=r"duplicate item_id b \(and 1 others\);"):
        check_distinct("q", [first, queries(tmp_path / "fourth", "b", "c")])


def test_texts_must_be_embedded_with_the_encoder_of_the_corpus(tmp_path: Path) -> None:
    texts = write_table(tmp_path / "texts", "texts", [])
    for embedder, name in ((None, "…"), (EmbedderConfig(name="siglip", checkpoint="c"), "siglip")):
        with pytest.raises(InputError, match=f"remine embed input={texts} embedder={name} out="):
            open_queries(texts, VectorsConfig(path="c", embedder=embedder))
