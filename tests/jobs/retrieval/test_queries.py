"""The counts of a unit of queries, and queries that occur twice."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.search_queries import Hits
from jobs.checkpoints.encoder import EmbedderConfig
from jobs.corpora.embeddings import VectorsConfig
from jobs.errors import InputError
from jobs.retrieval import corpus_search
from jobs.retrieval.queries import (
    Calibration,
    QueryUnit,
    check_distinct,
    kept_calibration,
    neighbors,
    open_queries,
    read_queries,
)
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.counts import Counts
from jobs.store.reading import TableSource, open_table
from jobs.store.units import LIMIT, Unit
from tests.factories import DIM, embedding_rows, write_table, write_units


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


def test_ranks_begin_at_1_for_each_query() -> None:
    hits = Hits(np.array([0, 0, 2]), np.array([5, 6, 7]), np.array([0.5, 0.25, -1.0]), ["x", "y", "z"])
    ids = pa.array(["a", "b", "c"], pa.string())
    rows = neighbors(ids, hits, None).to_pylist()
    assert [(row["query_id"], row["rank"], row["item_id"], row["score"], row["probability"]) for row in rows] == [
        ("a", 1, "x", 0.5, None), ("a", 2, "y", 0.25, None), ("c", 1, "z", -1.0, None)
    ]  # fmt: skip
    # 1 / (1 + exp(-(2 * 0.5 - 1))) = 1/2, and 1 / (1 + exp(0.5)) and 1 / (1 + exp(3))
    calibrated = neighbors(ids, hits, Calibration(math.log(2), -1.0))["probability"].to_pylist()
    assert calibrated == pytest.approx([0.5, 1 / (1 + math.exp(0.5)), 1 / (1 + math.exp(3))])


def test_the_calibration_is_in_the_metadata_of_the_vectors(tmp_path: Path) -> None:
    def calibration_of(**metadata: str) -> Calibration | None:
        folder = tmp_path / "-".join(["table", *metadata])
        rows = embedding_rows(["x"], "text", np.ones((1, DIM)))
        return kept_calibration(open_table(write_units(folder, "embeddings", [rows], **metadata)))

    assert calibration_of(logit_scale="4.5", logit_bias="-12.25") == Calibration(4.5, -12.25)
    assert [calibration_of(), calibration_of(logit_scale="4.5"), calibration_of(logit_bias="0.0")] == [None] * 3


@pytest.mark.parametrize("at_once", [1, 100])
def test_the_best_of_all_units_are_those_of_one_sort(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_search, "MERGED_AT_ONCE", at_once)
    draw = np.random.default_rng(1)
    rows: list[dict[str, Any]] = [
        {"query_id": f"q{n % 4}", "item_id": f"i{n:02}", "score": float(score), "rank": 1}
        for n, score in enumerate(draw.integers(0, 5, 60))
    ]
    ids = ["q2", "q0", "q3"]  # q1 is of a finished unit
    wanted = [row | {"query": ids.index(row["query_id"])} for row in rows if row["query_id"] in ids]
    columns = ["item_id", "score", "query"]
    batches = (pa.Table.from_pylist(wanted[start : start + 7]).select(columns) for start in range(0, len(wanted), 7))
    best = corpus_search._best(batches, len(ids), 3).to_pylist()
    expected = [
        (number, row["item_id"], row["score"])
        for number, query in enumerate(ids)
        for row in sorted((r for r in rows if r["query_id"] == query), key=lambda r: (-r["score"], r["item_id"]))[:3]
    ]
    assert [(row["query"], row["item_id"], row["score"]) for row in best] == expected
