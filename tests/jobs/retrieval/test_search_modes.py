"""The side of a search that stays in memory, and the account of the corpus."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.retrieval import search_modes
from jobs.retrieval import search_modes as merging
from jobs.retrieval.queries import CORPUS_TALLY, QueryUnit
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from tests.factories import rows_of


def test_the_smaller_side_stays_in_memory_unless_the_other_is_set() -> None:
    cases = [("auto", 2, 3), ("auto", 3, 3), ("auto", 4, 3), ("queries", 9, 1), ("corpus", 1, 9)]
    sides = [search_modes.resident_side(key, queries=queries, corpus=corpus) for key, queries, corpus in cases]
    assert sides == ["queries", "queries", "corpus", "queries", "corpus"]
    for side in search_modes.SIDES:
        search_modes.check_side(side)
    with pytest.raises(InputError, match="resident=both: must be one of auto, queries, corpus"):
        search_modes.check_side("both")


def test_remaining_units_are_searched_by_the_side_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    unused: Any = None
    monkeypatch.setattr(search_modes, "_scan_corpus", lambda *_, **__: searched.append("corpus scanned"))
    monkeypatch.setattr(search_modes, "_stream_queries", lambda *_, **__: searched.append("queries streamed"))
    for todo in ([], ["unit"]):
        run: Any = SimpleNamespace(todo=todo)
        for side in (search_modes.QUERIES, search_modes.CORPUS):
            search_modes.search(run, unused, unused, side=side, resources=unused, overwrite=False)
        assert searched == (["corpus scanned", "queries streamed"] if todo else [])


def test_every_row_of_the_corpus_is_accounted_for() -> None:
    corpus: Any = SimpleNamespace(rows=1200)
    counts = {"tallies": {CORPUS_TALLY: {"searched": 1190, "excluded": 10}}}
    assert search_modes.corpus_fault("R", counts, corpus) is None
    assert search_modes.corpus_lines(counts) == ["  corpus rows: searched 1,190, excluded 10"]
    for searched in (1199, 1201, 0):
        tallies = {CORPUS_TALLY: {"searched": searched}} if searched else {}
        fault = search_modes.corpus_fault("R", {"tallies": tallies}, corpus)
        assert str(fault) == f"R: only {searched:,} of 1,200 corpus rows are accounted for"


K, SIZES = 3, (4, 0, 5, 2)  # queries of each unit
IDS = [f"q{number:02}" for number in range(sum(SIZES))]
SEARCHED = (7, 2, 9)  # rows of each unit of the corpus: of the second, each query has two
Scores = dict[tuple[str, str], float]  # query_id, item_id


def scores() -> Scores:
    """Few distinct scores, so that many are equal."""
    draw = np.random.default_rng(0)
    items = [f"c{unit}{row}" for unit, rows in enumerate(SEARCHED) for row in range(rows)]
    return {(query, item): float(draw.integers(4)) for query in IDS for item in items}


def best(scored: Scores, prefix: str = "c") -> list[tuple[str, str, float]]:
    ranked = sorted((query, -score, item) for (query, item), score in scored.items() if item.startswith(prefix))
    return [(q, item, -score) for query in IDS for q, score, item in [row for row in ranked if row[0] == query][:K]]


def scanned(out: Path, scored: Scores, *, purged: str = "") -> TableSource:
    """Return the table of the scan, without the rows of the item `purged`."""
    plan = TablePlan(str(out), "neighbors", {"test": 1}, [Unit(f"c{unit}", ()) for unit in range(3)], {}, {}, False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task, searched in zip(run.todo, SEARCHED, strict=True):
        rows = [row for row in best(scored, task.unit.name) if row[1] != purged]
        query_ids, item_ids, values = zip(*rows, strict=True)
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(rows)
            writer.counts.tallies[CORPUS_TALLY] = {"searched": searched}
            nothing = pa.nulls(len(rows), pa.float64())
            writer.write(pa.table({"query_id": query_ids, "rank": pa.array(range(len(rows)), pa.int32()),
                                   "item_id": item_ids, "score": values, "probability": nothing}))  # fmt: skip
    run.finish()
    return open_table(str(out), "neighbors")


def queries() -> list[QueryUnit]:
    starts = np.cumsum((0, *SIZES))
    return [QueryUnit(pa.array(IDS[a:b], pa.string()), Counter(), {}) for a, b in pairwise(starts)]


def begun(out: Path) -> TableRun:
    units = [Unit(f"u{number}", (), rows=rows) for number, rows in enumerate(SIZES)]
    return open_run(
        TablePlan(str(out), "neighbors", {"test": 2}, units, {}, {}, False), resume=True, overwrite=False, retry=[]
    )


@pytest.mark.parametrize("pairs", [1, 4 * K, 9 * K, 1_000])
def test_any_number_of_passes_and_a_resumed_one_have_the_best_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: int
) -> None:
    monkeypatch.setattr(merging, "PAIRS_AT_ONCE", pairs)
    scored, out = scores(), tmp_path / "out"
    partial = scanned(tmp_path / "partial", scored)
    for missing in ((), ("u2",), ("u0",), ("u0", "u3")):  # at first all units, then one, then two around finished ones
        for unit in missing:
            (shard,) = out.glob(f"*{unit}*.parquet")
            shard.unlink()
        merging.merge(run := begun(out), partial, queries(), k=K, calibration=None)
        run.finish()
        rows = rows_of(str(out))
        assert [(row["query_id"], row["item_id"], row["score"]) for row in rows] == best(scored)
        assert [row["rank"] for row in rows] == [1, 2, 3] * len(IDS)


def test_a_purged_row_of_the_scan_moves_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "PAIRS_AT_ONCE", 1)
    scored = scores()
    gone = best(scored)[0][1]
    partial = scanned(tmp_path / "partial", scored, purged=gone)
    merging.merge(run := begun(tmp_path / "out"), partial, queries(), k=K, calibration=None)
    run.finish()
    of_units = [row for unit in range(3) for row in best(scored, f"c{unit}") if row[1] != gone]
    expected = best({(query, item): score for query, item, score in of_units})
    rows = rows_of(str(tmp_path / "out"))
    assert [(row["query_id"], row["item_id"], row["score"]) for row in rows] == expected


def test_a_pass_reads_only_the_rows_of_its_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "PAIRS_AT_ONCE", 4 * K)
    partial = scanned(tmp_path / "partial", scores())
    read: list[tuple[int, int]] = []
    rows_between = merging.read_rows

    def recorded(uri: str, columns: list[str], first: int, last: int) -> pa.Table:
        read.append((first, last))
        return rows_between(uri, columns, first, last)

    monkeypatch.setattr(merging, "read_rows", recorded)
    merging.merge(run := begun(tmp_path / "out"), partial, queries(), k=K, calibration=None)
    run.finish()
    assert Counter(read) == Counter({
        (0, 12): 2, (12, 27): 2, (27, 33): 2, (0, 8): 1, (8, 18): 1, (18, 22): 1
    })  # fmt: skip


def test_equal_scores_are_in_order_of_their_items() -> None:
    rows = [(0, 1.0, "b"), (1, 2.0, "a"), (0, 1.0, "a"), (0, 2.0, "c"), (1, 2.0, "b"), (0, 1.0, "d")]
    query, score, item = (list(column) for column in zip(*rows, strict=True))
    columns = {"item_id": item, "score": score, "query": pa.array(query, pa.int64())}
    best_rows = merging._first_k(pa.table(columns), 3)
    assert best_rows["query"].to_pylist() == [0, 0, 0, 1, 1]
    assert best_rows["item_id"].to_pylist() == ["c", "a", "b", "a", "b"]
