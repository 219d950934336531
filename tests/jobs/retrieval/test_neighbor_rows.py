"""Rows of neighbours and their merging, by hand and against a plain sort."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.search.top_k import Hits
from jobs.retrieval import merge
from jobs.retrieval.neighbor_rows import Calibration, kept_calibration, neighbors
from jobs.store.reading import open_table
from tests.factories import DIM, embedding_rows, write_units


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
    monkeypatch.setattr(merge, "MERGED_AT_ONCE", at_once)
    draw = np.random.default_rng(1)
    rows: list[dict[str, Any]] = [
        {"query_id": f"q{n % 4}", "item_id": f"i{n:02}", "score": float(score), "rank": 1}
        for n, score in enumerate(draw.integers(0, 5, 60))
    ]
    ids = ["q2", "q0", "q3"]  # q1 is of a finished unit
    wanted = [row | {"query": ids.index(row["query_id"])} for row in rows if row["query_id"] in ids]
    columns = ["item_id", "score", "query"]
    batches = (pa.Table.from_pylist(wanted[start : start + 7]).select(columns) for start in range(0, len(wanted), 7))
    best = merge._best(batches, len(ids), 3).to_pylist()
    expected = [
        (number, row["item_id"], row["score"])
        for number, query in enumerate(ids)
        for row in sorted((r for r in rows if r["query_id"] == query), key=lambda r: (-r["score"], r["item_id"]))[:3]
    ]
    assert [(row["query"], row["item_id"], row["score"]) for row in best] == expected
