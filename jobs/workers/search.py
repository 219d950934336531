"""The inside of `retrieve`: queries as they are read, the two ways to search, and the merge."""

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.search.queries import Queries
from actors.search.top_k import Hits
from actors.searcher import BadRows, Search
from actors.status import Status
from jobs import tables
from jobs.corpora.vectors import UnitVectors, VectorLayout, matrix_of
from jobs.runtime import exclusions
from jobs.runtime.exclusions import Barred
from jobs.runtime.progress import Reporter
from jobs.store.counts import Counts
from jobs.store.reading import TableSource, read_unit
from jobs.store.run import TableRun
from jobs.store.units import Unit
from jobs.store.writer import Reject, UnitTask, UnitWriter

NOT_FINITE, ZERO, OUT_OF_RANGE = "not_finite", "zero_vector", "length_out_of_range"
TALLY = "corpus rows"
MERGED_AT_ONCE = 4  # times queries x k rows held before the worse ones are dropped
_SCHEMA = tables.TABLES["neighbors"].schema()


class Calibration(NamedTuple):
    """SigLIP's: the probability of a pair is the logistic function of exp(scale) * cosine + bias."""

    scale: float
    bias: float

    def probability(self, score: np.ndarray) -> np.ndarray:
        """[n] float64, of cosines [n]."""
        return 1 / (1 + np.exp(-(math.exp(self.scale) * score + self.bias)))


class QueryUnit(NamedTuple):
    """A unit of the queries' table: the ids to be searched for, in its order, and why the others are not."""

    ids: pa.StringArray
    absent: Counter[str]
    excluded: dict[str, int]  # marks of the list of exclusions, with the rows that they matched

    @property
    def rows(self) -> int:
        return len(self.ids) + self.absent.total()


def read_queries(uri: str, barred: Barred) -> tuple[QueryUnit, np.ndarray]:
    """One object of a table `embeddings`: what to search for, and the vectors [n, dim] float16."""
    rows = read_unit(uri, columns=["item_id", "embedding", "status"])
    rows = exclusions.withhold(rows, item="item_id", barred=barred)
    words = np.array(rows["status"].to_pylist(), object)
    chunks = [matrix_of(chunk) for chunk in rows["embedding"].chunks]
    vectors = np.concatenate(chunks) if chunks else np.zeros((0, rows.schema.field("embedding").type.list_size))
    ok = words == Status.OK.value
    words[ok & ~np.isfinite(vectors).all(axis=1)] = NOT_FINITE
    words[ok & ~vectors.any(axis=1)] = ZERO
    ok = words == Status.OK.value
    ids = pa.array(rows["item_id"].filter(pa.array(ok, pa.bool_())).to_pylist(), pa.string())
    return QueryUnit(ids, Counter(words[~ok].tolist()), barred.take_matched()), vectors[ok]


def neighbors(ids: pa.Array, hits: Hits, calibration: Calibration | None) -> pa.Table:
    """Rows of the table: `ids` are the queries'."""
    rank = np.arange(len(hits.query)) - np.searchsorted(hits.query, hits.query) + 1
    probability = calibration.probability(hits.score) if calibration else np.full(len(hits.score), np.nan)
    columns = [
        ids.take(pa.array(hits.query)),
        pa.array(rank, pa.int32()),
        pa.array(hits.item_id, pa.string()),
        pa.array(hits.score),
        pa.array(probability, from_pandas=True),  # NaN is null
    ]
    return pa.table(dict(zip(_SCHEMA.names, columns, strict=True)))


def _named(bad: BadRows) -> dict[str, np.ndarray]:
    return {NOT_FINITE: bad.not_finite, ZERO: bad.zero, OUT_OF_RANGE: bad.out_of_range}


class _Searcher:
    """What both ways share: settings, threads, and the naming of rows that cannot be scored."""

    def __init__(
        self, *, layout: VectorLayout, k: int, score: str, device: str, threads: int | None, excluded: str | None
    ) -> None:
        import torch

        # Ray sets OMP_NUM_THREADS to the logical CPUs asked for, which say nothing about the machine's.
        self._threads = threads or len(os.sched_getaffinity(0))
        torch.set_num_threads(self._threads)
        self._layout, self._k, self._score, self._device = layout, k, score, device
        self._excluded = exclusions.kept(excluded)

    def _queries(self, vectors: np.ndarray) -> Queries:
        return Queries(vectors, score=self._score, device=self._device)

    def _refuse(self, writer: UnitWriter, unit: UnitVectors, found: Mapping[str, np.ndarray]) -> None:
        """Write bad rows to the rejects, in their order, and count them apart from those that were searched."""
        for place, reason in sorted((place, reason) for reason, places in found.items() for place in places.tolist()):
            file, row = unit.source(place)
            writer.reject(Reject(file, row, reason, f"row {row} cannot be scored and is nobody's neighbour"))
            unit.counts[reason] += 1
            unit.counts["searched"] -= 1


class ScanUnit(_Searcher):
    """A unit of the corpus against all queries, which stay in memory: the best k of the unit for each."""

    def __init__(self, *, queries: Sequence[str], **settings: Any) -> None:
        super().__init__(**settings)
        read = [read_queries(uri, self._excluded) for uri in queries]
        self._ids = pa.concat_arrays([unit.ids for unit, _ in read])
        self._all = self._queries(np.concatenate([vectors for _, vectors in read]))

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        unit = UnitVectors(task.unit, self._layout, barred=self._excluded)
        search = Search(self._all, k=self._k, ids=unit.ids, threads=self._threads)
        for block in unit.blocks(search.block_rows):
            bad = search.add(block.vectors, block.places)
            self._refuse(writer, unit, _named(bad))
            report.add(len(block.places))
        report.add((task.unit.rows or 0) - unit.counts["searched"] - writer.counts.rejected.total())
        made = neighbors(self._ids, search.finish(), None)
        writer.counts.rows_in = made.num_rows + writer.counts.rejected.total()
        writer.counts.tallies[TALLY] = dict(unit.counts)
        exclusions.count(writer.counts, self._excluded.take_matched())
        writer.write(made)


class SearchQueries(_Searcher):
    """A unit of queries against the whole corpus, which stays in memory."""

    def __init__(self, *, corpus: Sequence[Unit], first: str, calibration: Calibration | None, **settings: Any) -> None:
        """Read the corpus. The unit of queries named `first` carries the corpus's counts and rejects."""
        super().__init__(**settings)
        self._first, self._calibration = first, calibration
        corpus = sorted(corpus, key=lambda unit: unit.name)  # the order of rejects, that of a scan's units
        self._units = [UnitVectors(unit, self._layout, barred=self._excluded) for unit in corpus]
        starts = np.concatenate([[0], np.cumsum([unit.rows or 0 for unit in corpus])]).astype(np.int64)
        self._starts = starts
        blocks = [
            (block.vectors.copy(), block.places + start)
            for unit, start in zip(self._units, starts.tolist(), strict=False)
            for block in unit.blocks(1 << 16)
        ]
        self._blocks: list[tuple[np.ndarray, np.ndarray]] = blocks
        self._matched = self._excluded.take_matched()

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        unit, vectors = read_queries(task.unit.inputs[0].uri, self._excluded)
        search = Search(self._queries(vectors), k=self._k, ids=self._ids, threads=self._threads)
        bad: dict[str, list[np.ndarray]] = defaultdict(list)
        for block, places in self._blocks:
            for reason, rows in _named(search.add(block, places)).items():
                bad[reason].append(rows)
        made = neighbors(unit.ids, search.finish(), self._calibration)
        if task.unit.name == self._first:
            self._tell(writer, {reason: np.concatenate(places) for reason, places in bad.items()})
        account(writer.counts, unit, self._k, made.num_rows)
        writer.write(made)
        report.add(unit.rows)

    def _ids(self, places: np.ndarray) -> list[str]:
        found = np.empty(len(places), object)
        of = np.searchsorted(self._starts, places, "right") - 1
        for number in np.unique(of).tolist():
            mine = np.flatnonzero(of == number)
            found[mine] = self._units[number].ids(places[mine] - self._starts[number])
        ids: list[str] = found.tolist()
        return ids

    def _tell(self, writer: UnitWriter, bad: Mapping[str, np.ndarray]) -> None:
        total: Counter[str] = Counter()
        for unit, start, end in zip(self._units, self._starts[:-1].tolist(), self._starts[1:].tolist(), strict=True):
            mine = {reason: places[(places >= start) & (places < end)] - start for reason, places in bad.items()}
            self._refuse(writer, unit, mine)
            total += unit.counts
        writer.counts.tallies[TALLY] = dict(total)
        exclusions.count(writer.counts, self._matched)


def account(counts: Counts, unit: QueryUnit, k: int, made: int) -> None:
    """Count a unit of queries: k rows each are asked for; fewer come where the corpus is smaller or a query has no
    vector."""
    exclusions.count(counts, unit.excluded)
    for word, n in unit.absent.items():
        counts.filtered[f"query_{word}"] += n * k
    if missing := len(unit.ids) * k - made:
        counts.filtered["fewer_than_k"] += missing
    counts.rows_in = unit.rows * k + counts.rejected.total()


def merge(
    run: TableRun,
    partial: TableSource,
    units: Iterable[tuple[UnitTask, QueryUnit]],
    *,
    k: int,
    calibration: Calibration | None,
) -> None:
    """Write the units of `run` from the best of each unit of the corpus.

    The first unit also carries the counts and the rejects of the corpus, as in `SearchQueries`. Holds a few times
    queries x k rows, however many units the corpus has.
    """
    asked = list(units)
    ids = pa.concat_arrays([unit.ids for _, unit in asked])
    best = _best(partial, ids, k)
    of_corpus = {name: tally for name, tally in partial.counts().tallies.items() if name in (TALLY, exclusions.TALLY)}
    first = run.units[0].name
    start = 0
    query = best["query"].to_numpy()
    for task, unit in asked:
        begin, end = np.searchsorted(query, [start, start + len(unit.ids)]).tolist()
        mine = best.slice(begin, end - begin)
        place, score = mine["query"].to_numpy(), mine["score"].to_numpy()
        hits = Hits(place, place, score, mine["item_id"].to_pylist())
        with UnitWriter(run.target, task) as writer:
            made = neighbors(ids, hits, calibration)
            if task.unit.name == first:
                writer.counts.tallies |= of_corpus
                for reject in partial.rejects():
                    writer.reject(reject)
            account(writer.counts, unit, k, made.num_rows)
            writer.write(made)
        start += len(unit.ids)


def _best(partial: TableSource, ids: pa.Array, k: int) -> pa.Table:
    """Columns query (place in `ids`), item_id and score: the k best of each, by query, score and item_id."""
    most_rows = MERGED_AT_ONCE * (len(ids) * k + 1)
    held: list[pa.Table] = []
    for batch in partial.batches(["query_id", "item_id", "score"]):
        place = pc.index_in(batch["query_id"], value_set=ids).cast(pa.int64())
        known = pc.is_valid(place)  # a unit that was merged before the run was killed is not merged again
        held.append(batch.select(["item_id", "score"]).append_column("query", place).filter(known))
        if sum(rows.num_rows for rows in held) > most_rows:
            held = [_first_k(pa.concat_tables(held), k)]
    if not held:
        return pa.table(
            {
                "item_id": pa.array([], pa.string()),
                "score": pa.array([], pa.float64()),
                "query": pa.array([], pa.int64()),
            }
        )
    return _first_k(pa.concat_tables(held), k)


def _first_k(rows: pa.Table, k: int) -> pa.Table:
    keys = [("query", "ascending"), ("score", "descending"), ("item_id", "ascending")]
    ordered = rows.take(pc.sort_indices(rows, sort_keys=keys))
    query = ordered["query"].to_numpy()
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    return ordered.filter(pa.array(rank < k))
