"""Both workers of a search against a plain sort, without Ray; and the choice of the side in memory."""

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.search_queries import SearchSettings
from jobs.corpora.vectors import VectorLayout
from jobs.errors import InputError
from jobs.retrieval import corpus_search
from jobs.retrieval import corpus_search as merging
from jobs.retrieval.corpus_search import ResidentCorpus, ScanUnit, SearchQueries, SearchTask, check_side, resident_side
from jobs.retrieval.queries import CORPUS_TALLY, QueryUnit
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import Reject, UnitWriter
from tests.factories import DIM, embedding_rows, rows_of, write_units

K = 3
SIZES = (9, 1, 11)  # rows of the units of the corpus
BAD = {2: "zero_vector", 5: "not_finite", 7: "zero_vector", 8: "not_finite", 10: "not_finite"}
EXCLUDED = 12
QUERIES = (2, 3)


def corpus_rows() -> list[dict[str, Any]]:
    rows = embedding_rows(
        [f"c{n:02}" for n in range(sum(SIZES))], "image", np.random.default_rng(3).standard_normal((sum(SIZES), DIM))
    )
    for number, reason in BAD.items():
        value = 0.0 if reason == "zero_vector" else np.nan
        rows[number]["embedding"] = np.full(DIM, value, np.float16)
    return rows


def query_rows() -> list[dict[str, Any]]:
    vectors = np.random.default_rng(4).standard_normal((sum(QUERIES), DIM))
    return embedding_rows([f"q{n}" for n in range(sum(QUERIES))], "text", vectors)


def units_of(uri: str) -> list[Unit]:
    footers = open_table(uri).footers
    return [Unit(f.unit.name, (f.object,), rows=f.rows, extra={"parts": [[0, 0, 0, f.rows]]}) for f in footers]


def cut(rows: Sequence[dict[str, Any]], sizes: Sequence[int]) -> list[Sequence[dict[str, Any]]]:
    ends = np.cumsum(sizes).tolist()
    return [rows[end - size : end] for end, size in zip(ends, sizes, strict=True)]


class Reports:
    """Takes the place of a Reporter."""

    def __init__(self) -> None:
        self.done = 0

    def add(self, done: int) -> None:
        assert done >= 0
        self.done += done


@pytest.fixture
def world(tmp_path: Path) -> tuple[SearchTask, list[Unit], list[Unit]]:
    corpus = write_units(tmp_path / "corpus", "embeddings", cut(corpus_rows(), SIZES))
    queries = write_units(tmp_path / "queries", "embeddings", cut(query_rows(), QUERIES))
    (tmp_path / "no.txt").write_text(f"c{EXCLUDED}\n")
    task = SearchTask(SearchSettings(k=K, device="cpu"), VectorLayout(table=True), 1, str(tmp_path / "no.txt"))
    return task, units_of(corpus), units_of(queries)


def write(out: Path, units: Sequence[Unit], work: Callable[[Any, UnitWriter, Any], None]) -> dict[str, Any]:
    """Run the worker on each unit; return unit -> counts, rejects and reported rows."""
    plan = TablePlan(str(out), "neighbors", {"test": 1}, units, {}, {}, derived=False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    done: dict[str, Any] = {}
    for task in run.todo:
        reports, rejects = Reports(), list[Reject]()
        with UnitWriter(run.target, task) as writer:
            keep = writer.reject
            writer.reject = lambda reject, keep=keep, to=rejects: (to.append(reject), keep(reject))  # type: ignore
            work(task, writer, reports)
        done[task.unit.name] = (writer.counts, rejects, reports.done)
    run.finish()
    return done


def expected(rows: Sequence[int], queries: Sequence[int]) -> list[tuple[str, int, str]]:
    """Return (query, rank, item) of the best of these rows of the corpus."""
    corpus = np.stack([row["embedding"] for row in corpus_rows()]).astype(float)
    asked = np.stack([row["embedding"] for row in query_rows()]).astype(float)
    usable = [n for n in rows if n not in BAD and n != EXCLUDED]
    return [
        (f"q{query}", rank, f"c{number:02}")
        for query in queries
        for rank, number in enumerate(sorted(usable, key=lambda n, q=query: -asked[q] @ corpus[n])[:K], 1)  # type: ignore
    ]


def neighbors_in(out: Path) -> list[tuple[str, int, str]]:
    return [(row["query_id"], row["rank"], row["item_id"]) for row in rows_of(str(out))]


def test_a_unit_of_the_corpus_is_searched_for_all_queries(world: Any, tmp_path: Path) -> None:
    task, corpus, queries = world
    done = write(tmp_path / "out", corpus, ScanUnit(task, queries=queries))
    firsts = [0, 9, 10, 21]
    everything = [row for a, b in itertools.pairwise(firsts) for row in expected(range(a, b), range(5))]
    assert neighbors_in(tmp_path / "out") == everything
    counts, rejects, reported = done["unit0"]
    assert [(reject.position, reject.reason) for reject in rejects] == list(BAD.items())[:4], "in their order"
    assert rejects[0].file == corpus[0].inputs[0].uri
    assert rejects[0].message == "row 2 cannot be scored; no query has it as a neighbour"
    assert counts.tallies["corpus rows"] == {
        "searched": 5, "zero_vector": 2, "not_finite": 2, "excluded": 0,
    }  # fmt: skip
    assert (counts.rows_in, counts.rows_out, counts.rejected.total(), reported) == (5 * K + 4, 5 * K, 4, 9)
    counts, rejects, reported = done["unit1"]
    assert (counts.rows_out, rejects, reported) == (5, [], 1)
    counts, rejects, reported = done["unit2"]
    assert [(reject.position, reject.reason) for reject in rejects] == [(0, "not_finite")]
    assert counts.tallies["corpus rows"] == {"searched": 9, "not_finite": 1, "excluded": 1}
    assert (sum(counts.tallies["exclusions"].values()), reported) == (1, 11)


def test_the_whole_corpus_is_searched_and_counted_once(world: Any, tmp_path: Path) -> None:
    task, corpus, queries = world
    work = SearchQueries(task, corpus=corpus[::-1], first="unit1", calibration=None, shared=False)
    done = write(tmp_path / "out", queries, work)
    assert neighbors_in(tmp_path / "out") == expected(range(21), range(5))
    counts, rejects, reported = done["unit0"]
    assert (counts.rows_in, rejects, reported, "corpus rows" in counts.tallies) == (2 * K, [], 2, False)
    counts, rejects, reported = done["unit1"]
    places = [(reject.file, reject.position, reject.reason) for reject in rejects]
    uris = [unit.inputs[0].uri for unit in corpus]
    assert places == [
        *((uris[0], number, reason) for number, reason in list(BAD.items())[:4]), (uris[2], 0, "not_finite"),
    ]  # fmt: skip
    assert counts.tallies["corpus rows"] == {"searched": 15, "zero_vector": 2, "not_finite": 3, "excluded": 1}
    assert (counts.rows_in, counts.rows_out, reported) == (3 * K + 5, 3 * K, 3)
    assert sum(counts.tallies["exclusions"].values()) == 1


def test_the_side_in_memory_is_the_smaller_one() -> None:
    assert [resident_side("auto", queries=n, corpus=5) for n in (4, 5, 6)] == ["queries", "queries", "corpus"]
    assert [resident_side(side, queries=9, corpus=1) for side in ("queries", "corpus")] == ["queries", "corpus"]
    for side in ("auto", "queries", "corpus"):
        check_side(side)
    with pytest.raises(InputError, match="resident=disk: must be one of auto, queries, corpus"):
        check_side("disk")


TABLE = VectorLayout(table=True)


def corpus_units(out: Path) -> list[Unit]:
    draw = np.random.default_rng(0)
    rows = embedding_rows([f"n{number}" for number in range(50)], "image", draw.normal(size=(50, DIM)))
    rows[7] = {**rows[7], "embedding": None, "status": "error"}
    write_units(out, "embeddings", [rows[:20], rows[20:21], rows[21:]])
    return [
        Unit(f.unit.name, (f.object,), rows=f.rows, extra={"parts": [[0, 0, 0, f.rows]]})
        for f in open_table(str(out)).footers
    ]


def described(corpus: ResidentCorpus) -> list[object]:
    blocks = [(block.vectors.dtype.str, block.vectors.tolist(), block.places.tolist()) for block in corpus.blocks]
    return [blocks, [unit.counts for unit in corpus.units], corpus.matched, corpus.starts.tolist()]


def places(corpus: ResidentCorpus) -> list[int]:
    return [place for block in corpus.blocks for place in block.places.tolist()]


def test_a_shared_corpus_is_that_of_one_process(
    tmp_path: Path, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_search, "BLOCK_ROWS", 8)
    units = corpus_units(tmp_path / "corpus")
    for marks in (frozenset[str](), frozenset(["n3", "n30"])):
        single = ResidentCorpus(units, TABLE, ExclusionFilter(marks), shared=False)
        first, second = (ResidentCorpus(units, TABLE, ExclusionFilter(marks), shared=True) for _ in range(2))
        assert described(first) == described(second) == described(single)
        # in the whole corpus; n7 has no vector
        assert places(first) == [number for number in range(50) if number != 7 and f"n{number}" not in marks]
        assert sum(single.matched.values()) == len(marks)
        (copy,) = temporary_folder.iterdir()
        del first
        assert copy.is_dir()
        del second
        assert not copy.exists()


def test_a_copy_is_shared_only_with_the_same_units_layout_and_exclusions(
    tmp_path: Path, temporary_folder: Path
) -> None:
    units = corpus_units(tmp_path / "corpus")
    conditional = VectorLayout(table=True, where="item_id = n5 or item_id = n30")
    corpora = [
        ResidentCorpus(part, layout, ExclusionFilter(frozenset(marks)), shared=True)
        for part, layout, marks in (
            (units, TABLE, []), (units, TABLE, ["n3"]), (units, conditional, []), (units[:1], TABLE, [])
        )
    ]  # fmt: skip
    assert [len(places(corpus)) for corpus in corpora] == [49, 48, 2, 19]
    assert len(list(temporary_folder.iterdir())) == 4


def test_a_shared_corpus_may_have_no_row_to_search(tmp_path: Path, temporary_folder: Path) -> None:
    units = corpus_units(tmp_path / "corpus")
    everything = ExclusionFilter(frozenset(f"n{number}" for number in range(50)))
    single, shared = (ResidentCorpus(units, TABLE, everything, shared=shared) for shared in (False, True))
    assert described(shared) == described(single)
    assert (shared.blocks, len(list(temporary_folder.iterdir()))) == ([], 1)


def test_without_room_each_process_reads_it(
    tmp_path: Path, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = corpus_units(tmp_path / "corpus")
    expected = described(ResidentCorpus(units, TABLE, ExclusionFilter(frozenset()), shared=False))
    monkeypatch.setattr(corpus_search, "ROOM", 1e12)
    assert described(ResidentCorpus(units, TABLE, ExclusionFilter(frozenset()), shared=True)) == expected
    assert not list(temporary_folder.iterdir())


def test_the_smaller_side_stays_in_memory_unless_the_other_is_set() -> None:
    cases = [("auto", 2, 3), ("auto", 3, 3), ("auto", 4, 3), ("queries", 9, 1), ("corpus", 1, 9)]
    sides = [corpus_search.resident_side(key, queries=queries, corpus=corpus) for key, queries, corpus in cases]
    assert sides == ["queries", "queries", "corpus", "queries", "corpus"]
    for side in corpus_search.SIDES:
        corpus_search.check_side(side)
    with pytest.raises(InputError, match="resident=both: must be one of auto, queries, corpus"):
        corpus_search.check_side("both")


def test_remaining_units_are_searched_by_the_side_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    unused: Any = None
    monkeypatch.setattr(corpus_search, "_scan_corpus", lambda *_, **__: searched.append("corpus scanned"))
    monkeypatch.setattr(corpus_search, "_stream_queries", lambda *_, **__: searched.append("queries streamed"))
    for todo in ([], ["unit"]):
        run: Any = SimpleNamespace(todo=todo)
        for side in (corpus_search.QUERIES, corpus_search.CORPUS):
            corpus_search.search(run, unused, unused, side=side, resources=unused, overwrite=False)
        assert searched == (["corpus scanned", "queries streamed"] if todo else [])


def test_every_row_of_the_corpus_is_accounted_for() -> None:
    corpus: Any = SimpleNamespace(rows=1200)
    counts = {"tallies": {CORPUS_TALLY: {"searched": 1190, "excluded": 10}}}
    assert corpus_search.corpus_fault("R", counts, corpus) is None
    assert corpus_search.corpus_lines(counts) == ["  corpus rows: searched 1,190, excluded 10"]
    for searched in (1199, 1201, 0):
        tallies = {CORPUS_TALLY: {"searched": searched}} if searched else {}
        fault = corpus_search.corpus_fault("R", {"tallies": tallies}, corpus)
        assert str(fault) == f"R: only {searched:,} of 1,200 corpus rows are accounted for"


NEIGHBORS, UNIT_SIZES = 3, (4, 0, 5, 2)  # queries of each unit
IDS = [f"q{number:02}" for number in range(sum(UNIT_SIZES))]
SEARCHED = (7, 2, 9)  # rows of each unit of the corpus: of the second, each query has two
Scores = dict[tuple[str, str], float]  # query_id, item_id


def scores() -> Scores:
    """Few distinct scores, so that many are equal."""
    draw = np.random.default_rng(0)
    items = [f"c{unit}{row}" for unit, rows in enumerate(SEARCHED) for row in range(rows)]
    return {(query, item): float(draw.integers(4)) for query in IDS for item in items}


def best(scored: Scores, prefix: str = "c") -> list[tuple[str, str, float]]:
    ranked = sorted((query, -score, item) for (query, item), score in scored.items() if item.startswith(prefix))
    return [
        (q, item, -score) for query in IDS for q, score, item in [row for row in ranked if row[0] == query][:NEIGHBORS]
    ]


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
    starts = np.cumsum((0, *UNIT_SIZES))
    return [QueryUnit(pa.array(IDS[a:b], pa.string()), Counter(), {}) for a, b in pairwise(starts)]


def begun(out: Path) -> TableRun:
    units = [Unit(f"u{number}", (), rows=rows) for number, rows in enumerate(UNIT_SIZES)]
    return open_run(
        TablePlan(str(out), "neighbors", {"test": 2}, units, {}, {}, False), resume=True, overwrite=False, retry=[]
    )


@pytest.mark.parametrize("pairs", [1, 4 * NEIGHBORS, 9 * NEIGHBORS, 1_000])
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
        merging.merge(run := begun(out), partial, queries(), k=NEIGHBORS, calibration=None)
        run.finish()
        rows = rows_of(str(out))
        assert [(row["query_id"], row["item_id"], row["score"]) for row in rows] == best(scored)
        assert [row["rank"] for row in rows] == [1, 2, 3] * len(IDS)


def test_a_purged_row_of_the_scan_moves_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "PAIRS_AT_ONCE", 1)
    scored = scores()
    gone = best(scored)[0][1]
    partial = scanned(tmp_path / "partial", scored, purged=gone)
    merging.merge(run := begun(tmp_path / "out"), partial, queries(), k=NEIGHBORS, calibration=None)
    run.finish()
    of_units = [row for unit in range(3) for row in best(scored, f"c{unit}") if row[1] != gone]
    expected = best({(query, item): score for query, item, score in of_units})
    rows = rows_of(str(tmp_path / "out"))
    assert [(row["query_id"], row["item_id"], row["score"]) for row in rows] == expected


def test_a_pass_reads_only_the_rows_of_its_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "PAIRS_AT_ONCE", 4 * NEIGHBORS)
    partial = scanned(tmp_path / "partial", scores())
    read: list[tuple[int, int]] = []
    rows_between = merging.read_rows

    def recorded(uri: str, columns: list[str], first: int, last: int) -> pa.Table:
        read.append((first, last))
        return rows_between(uri, columns, first, last)

    monkeypatch.setattr(merging, "read_rows", recorded)
    merging.merge(run := begun(tmp_path / "out"), partial, queries(), k=NEIGHBORS, calibration=None)
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
