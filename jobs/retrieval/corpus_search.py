"""Search: the workers of `retrieve`, and the two ways of searching, in which the other side is in memory.

The corpus is streamed and each of its units is searched for all queries, or the queries are streamed and each of their
units is searched for in the whole corpus. Of a streamed corpus, the k best rows of each unit are merged into the k best
of all, per query. A corpus in memory belongs to one process, or is mapped from a copy that all processes of a machine
share.
"""

import json
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import content_id
from actors.search_queries import Hits, Queries, SearchSettings
from actors.searcher import BadRows, Search
from jobs.corpora.embeddings import VectorCorpus
from jobs.corpora.vectors import UnitVectors, VectorBlock, VectorLayout
from jobs.errors import RunError, check_choice
from jobs.retrieval.queries import (
    CORPUS_TALLY,
    NOT_FINITE,
    OUT_OF_RANGE,
    ZERO,
    Calibration,
    QueryUnit,
    neighbors,
    read_queries,
)
from jobs.runtime.board import Reporter
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.files.spool import MachineCopy
from jobs.store.files.threads import ahead
from jobs.store.footers import Footer
from jobs.store.object_rows import read_rows, read_unit
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.units import Unit
from jobs.store.writer import Reject, UnitTask, UnitWriter


@dataclass(frozen=True)
class SearchTask:
    """The settings of both workers."""

    search: SearchSettings
    layout: VectorLayout
    threads: int | None  # None: the CPUs of this process
    excluded: str | None  # URI of the list of exclusions


AUTO, QUERIES, CORPUS = SIDES = ("auto", "queries", "corpus")  # the side that stays in memory; auto: the smaller one
PARTIAL = "_partial"  # the scan's table, in the folder of the neighbors


class SearchInputs(NamedTuple):
    """The data in which the queries are searched, and the calibration of probabilities."""

    corpus: VectorCorpus
    calibration: Calibration | None


def check_side(resident: str) -> None:
    """Check the key `resident`.

    Raises:
        InputError: it is not one of `SIDES`.
    """
    check_choice("resident", resident, SIDES)


def resident_side(resident: str, *, queries: int, corpus: int) -> str:
    """Return the side that stays in memory, `QUERIES` or `CORPUS`, given the key and both sides' numbers of rows."""
    if resident != AUTO:
        return resident
    return QUERIES if queries <= corpus else CORPUS


def search(
    run: TableRun, task: SearchTask, inputs: SearchInputs, *, side: str, resources: Resources, overwrite: bool
) -> None:
    """Write the remaining units of `run`.

    Args:
        side: the side that stays in memory.
        overwrite: whether to delete an earlier scan's shards.
    """
    if run.todo and side == QUERIES:
        _scan_corpus(run, task, inputs, resources=resources, overwrite=overwrite)
    elif run.todo:
        _stream_queries(run, task, inputs, resources=resources)


def corpus_lines(counts: Mapping[str, Any]) -> list[str]:
    """Return a line with how many rows of the corpus were searched, and why others were not."""
    return summary.tally_lines(CORPUS_TALLY, counts["tallies"].get(CORPUS_TALLY, {}))


def corpus_fault(out: str, counts: Mapping[str, Any], corpus: VectorCorpus) -> RunError | None:
    """Return an error if not every row of the corpus is accounted for in the counts of a run."""
    total = sum(counts["tallies"].get(CORPUS_TALLY, {}).values())
    if total == corpus.rows:
        return None
    return RunError(f"only {total:,} of {corpus.rows:,} corpus rows are accounted for", place=out)


def _scan_corpus(
    run: TableRun, task: SearchTask, inputs: SearchInputs, *, resources: Resources, overwrite: bool
) -> None:
    """Stream the corpus with the queries in memory, then merge the best rows of its units into the units of `run`."""
    from jobs.runtime import stages

    out = locations.join(run.target.out, PARTIAL)
    plan = replace(run.plan, out=out, units=inputs.corpus.units)
    partial = open_run(plan, resume=True, overwrite=overwrite, retry=[])
    stage = stages.Stage("search", ScanUnit, {"task": task, "queries": list(run.units)})
    total = sum(todo.unit.rows or 0 for todo in partial.todo)
    stages.process(partial, name="retrieve", stage=stage, resources=resources, total=total, counted="rows")
    partial.finish()
    exclusion_filter = exclusions.load(task.excluded)
    queries = (read_queries(unit, exclusion_filter)[0] for unit in run.units)
    merge(run, open_table(out, "neighbors"), queries, k=task.search.k, calibration=inputs.calibration)


def _stream_queries(run: TableRun, task: SearchTask, inputs: SearchInputs, *, resources: Resources) -> None:
    """Stream the queries, which are the units of `run`, with the corpus in memory."""
    from jobs.runtime import stages

    resident = {
        "corpus": inputs.corpus.units,
        "first": run.units[0].name,
        "calibration": inputs.calibration,
        "shared": resources.search.most_actors > 1,
    }
    stage = stages.Stage("search", SearchQueries, {"task": task, **resident})
    total = sum(todo.unit.rows or 0 for todo in run.todo)
    stages.process(run, name="retrieve", stage=stage, resources=resources, total=total, counted="rows")


PAIRS_AT_ONCE = 2_000_000  # pairs of a query and one of its k ranks, merged in one pass; about 0.5 kB each
MERGED_AT_ONCE = 4  # times the pairs of a pass that are in memory before worse ones are dropped
_COLUMNS = ["query_id", "item_id", "score"]
_THREADS, _AHEAD_ROWS = 16, 2_000_000  # threads that read the next units of the corpus, and the rows they read ahead


class _MergePass(NamedTuple):
    """Units whose neighbors are merged in one pass: `ids[begin:end]` are their queries."""

    units: list[tuple[UnitTask, QueryUnit]]
    begin: int
    end: int


def merge(
    run: TableRun, partial: TableSource, queries: Iterable[QueryUnit], *, k: int, calibration: Calibration | None
) -> None:
    """Write the unfinished units of `run` from the table `partial`, the best rows of each unit of the corpus.

    The first unit also carries the corpus's counts and rejects, as in `SearchQueries`.
    Memory holds a few times `PAIRS_AT_ONCE` rows, however many queries and units there are.

    Args:
        queries: the queries of each unit of the run, in order.
    """
    units = list(queries)
    ids = pa.concat_arrays([unit.ids for unit in units])
    tallies = partial.counts().tallies
    corpus_tallies = {name: tallies[name] for name in (CORPUS_TALLY, exclusions.TALLY) if name in tallies}
    for merge_pass in _passes(run, units, k):
        best = _best(_candidates(partial, ids, merge_pass, k), merge_pass.end - merge_pass.begin, k)
        query = best["query"].to_numpy()
        start = 0
        for task, unit in merge_pass.units:
            first, last = np.searchsorted(query, [start, start + len(unit.ids)]).tolist()
            hits = best.slice(first, last - first)
            index, score = hits["query"].to_numpy() - start, hits["score"].to_numpy()
            with UnitWriter(run.target, task) as writer:
                table = neighbors(unit.ids, Hits(index, index, score, hits["item_id"].to_pylist()), calibration)
                if task.unit.name == run.units[0].name:
                    writer.counts.tallies |= corpus_tallies
                    for reject in partial.rejects():
                        writer.reject(reject)
                unit.account(writer.counts, k, table.num_rows)
                writer.write(table)
            start += len(unit.ids)


def _passes(run: TableRun, units: Sequence[QueryUnit], k: int) -> Iterator[_MergePass]:
    """Yield passes over consecutive unfinished units, with at most `PAIRS_AT_ONCE` pairs unless one unit has more."""
    todo = {task.unit.name: task for task in run.todo}
    merge_pass = _MergePass([], 0, 0)
    begin = 0
    for unit, queries in zip(run.units, units, strict=True):
        end = begin + len(queries.ids)
        task = todo.get(unit.name)
        if merge_pass.units and (task is None or (end - merge_pass.begin) * k > PAIRS_AT_ONCE):
            yield merge_pass
            merge_pass = _MergePass([], end, end)
        if task is not None:
            merge_pass = _MergePass(
                [*merge_pass.units, (task, queries)], merge_pass.begin if merge_pass.units else begin, end
            )
        begin = end
    if merge_pass.units:
        yield merge_pass


def _candidates(partial: TableSource, ids: pa.Array, merge_pass: _MergePass, k: int) -> Iterator[pa.Table]:
    """Yield item_id, score and query (0 is the first in the pass) of the rows in `partial` for the pass's queries."""
    wanted = ids.slice(merge_pass.begin, merge_pass.end - merge_pass.begin)

    def hits_per_query(footer: Footer) -> int:
        """Return the rows per query in a unit of the corpus; 0 if queries differ in it, because rows were purged."""
        hits = min(k, footer.counts.tallies.get(CORPUS_TALLY, {}).get("searched", 0))
        return hits if footer.rows == hits * len(ids) else 0

    def read(footer: Footer) -> pa.Table:
        if hits := hits_per_query(footer):
            return read_rows(footer.object.uri, _COLUMNS, merge_pass.begin * hits, merge_pass.end * hits)
        return read_unit(footer.object.uri, columns=_COLUMNS)

    def weight(footer: Footer) -> int:
        return hits_per_query(footer) * len(wanted) or footer.rows

    for rows in ahead(read, partial.footers, threads=_THREADS, weight=weight, most=_AHEAD_ROWS):
        query = pc.index_in(rows["query_id"], value_set=wanted).cast(pa.int64())
        yield rows.select(["item_id", "score"]).append_column("query", query).filter(pc.is_valid(query))


def _best(candidates: Iterable[pa.Table], queries: int, k: int) -> pa.Table:
    """Return query, item_id and score of the k best rows per query, sorted by query, score and item_id."""
    capacity = MERGED_AT_ONCE * (queries * k + 1)
    empty = {
        "item_id": pa.array([], pa.string()),
        "score": pa.array([], pa.float64()),
        "query": pa.array([], pa.int64()),
    }
    kept = [pa.table(empty)]
    for rows in candidates:
        kept.append(rows)
        if sum(table.num_rows for table in kept) > capacity:
            kept = [_first_k(pa.concat_tables(kept), k)]
    return _first_k(pa.concat_tables(kept), k)


def _first_k(rows: pa.Table, k: int) -> pa.Table:
    keys = [("query", "ascending"), ("score", "descending"), ("item_id", "ascending")]
    ordered = rows.take(pc.sort_indices(rows, sort_keys=keys))
    query = ordered["query"].to_numpy()
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    return ordered.filter(pa.array(rank < k))


class _Searcher:
    """Base of both workers: the task, its threads, and the rejection of rows that cannot be scored."""

    def __init__(self, task: SearchTask) -> None:
        import torch

        # Ray sets OMP_NUM_THREADS to the requested logical CPUs, whatever the machine has.
        self._threads = task.threads or len(os.sched_getaffinity(0))
        torch.set_num_threads(self._threads)
        self._task = task
        self._excluded = exclusions.load(task.excluded)

    def _reject(self, writer: UnitWriter, unit: UnitVectors, places: Mapping[str, np.ndarray]) -> None:
        """Write bad rows (row numbers in the unit, by reason) to the rejects in order, and count them."""
        pairs = [(place, reason) for reason, bad in places.items() for place in bad.tolist()]
        for place, reason in sorted(pairs):
            file, row = unit.source(place)
            writer.reject(Reject(file, row, reason, f"row {row} cannot be scored; no query has it as a neighbour"))
            unit.counts[reason] += 1
            unit.counts["searched"] -= 1


class ScanUnit(_Searcher):
    """Worker that searches one unit of the corpus for all queries, held in memory, and writes their k best rows."""

    def __init__(self, task: SearchTask, *, queries: Sequence[Unit]) -> None:
        """Read the queries, which are units of tables `embeddings`."""
        super().__init__(task)
        units, vectors = zip(*(read_queries(unit, self._excluded) for unit in queries), strict=True)
        self._ids = pa.concat_arrays([unit.ids for unit in units])
        self._queries = Queries(np.concatenate(vectors), task.search)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Search one unit of the corpus and write its best rows for each query."""
        unit = UnitVectors(task.unit, self._task.layout, exclusion_filter=self._excluded)
        search = Search(self._queries, ids=unit.ids, threads=self._threads)
        for block in unit.blocks(search.block_rows):
            bad = search.add(block.vectors, block.places)
            self._reject(writer, unit, _by_reason(bad))
            report.add(len(block.places))
        report.add((task.unit.rows or 0) - unit.counts["searched"] - writer.counts.rejected.total())
        rows = neighbors(self._ids, search.finish(), None)
        writer.counts.rows_in = rows.num_rows + writer.counts.rejected.total()
        writer.counts.tallies[CORPUS_TALLY] = dict(unit.counts)
        exclusions.count(writer.counts, self._excluded.take_matched())
        writer.write(rows)


class SearchQueries(_Searcher):
    """Worker that searches the whole corpus, held in memory, for one unit of queries."""

    def __init__(
        self, task: SearchTask, *, corpus: Sequence[Unit], first: str, calibration: Calibration | None, shared: bool
    ) -> None:
        """Read the corpus.

        Args:
            first: the unit of queries that carries the corpus's counts and rejects.
            shared: whether several processes on a machine may search.
        """
        super().__init__(task)
        self._first, self._calibration = first, calibration
        corpus = sorted(corpus, key=lambda unit: unit.name)  # gives rejects the same order as a scan's units
        self._corpus = ResidentCorpus(corpus, task.layout, self._excluded, shared=shared)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Search for one unit of queries and write its neighbours."""
        unit, vectors = read_queries(task.unit, self._excluded)
        settings = self._task.search
        search = Search(Queries(vectors, settings), ids=self._ids, threads=self._threads)
        bad: dict[str, list[np.ndarray]] = defaultdict(list)
        for block, places in self._corpus.blocks:
            for reason, rows in _by_reason(search.add(block, places)).items():
                bad[reason].append(rows)
        table = neighbors(unit.ids, search.finish(), self._calibration)
        if task.unit.name == self._first:
            self._count_corpus(writer, {reason: np.concatenate(places) for reason, places in bad.items()})
        unit.account(writer.counts, settings.k, table.num_rows)
        writer.write(table)
        report.add(unit.rows)

    def _ids(self, places: np.ndarray) -> list[str]:
        """Return the item ids of the corpus's rows, in the order of `places`."""
        ids = np.empty(len(places), object)
        starts = self._corpus.starts
        numbers = np.searchsorted(starts, places, "right") - 1
        for number in np.unique(numbers).tolist():
            inside = np.flatnonzero(numbers == number)
            ids[inside] = self._corpus.units[number].ids(places[inside] - starts[number])
        names: list[str] = ids.tolist()
        return names

    def _count_corpus(self, writer: UnitWriter, bad: Mapping[str, np.ndarray]) -> None:
        total: Counter[str] = Counter()
        starts = self._corpus.starts.tolist()
        for unit, start, end in zip(self._corpus.units, starts[:-1], starts[1:], strict=True):
            inside = {reason: places[(places >= start) & (places < end)] - start for reason, places in bad.items()}
            self._reject(writer, unit, inside)
            total += unit.counts
        writer.counts.tallies[CORPUS_TALLY] = dict(total)
        exclusions.count(writer.counts, self._corpus.matched)


def _by_reason(bad: BadRows) -> dict[str, np.ndarray]:
    return {NOT_FINITE: bad.not_finite, ZERO: bad.zero, OUT_OF_RANGE: bad.out_of_range}


BLOCK_ROWS = 1 << 18  # per block: several pieces of a search on a GPU, one copied while another is multiplied
ROOM = 1.5  # free space needed for a copy, as a multiple of the corpus's size, since tables are slightly compressed
ALIGNED = 64  # arrays begin at multiples of this number of bytes
_DATA, _BLOCKS = "data.bin", "blocks.json"


class ResidentCorpus:
    """All vectors in a corpus's units, with the numbers of their rows in the whole corpus.

    Attributes:
        units: readers of the units, whose `counts` are complete.
        starts: the number of each unit's first row, and of all rows.
        blocks: the rows to search.
        matched: number of rows that each mark of the exclusions matched.
    """

    def __init__(
        self, units: Sequence[Unit], layout: VectorLayout, exclusion_filter: ExclusionFilter, *, shared: bool
    ) -> None:
        """Read the corpus.

        Args:
            units: sorted by name.
            shared: whether to map a copy, which the first process on a machine writes to the temporary files, unless
                they lack room.
        """
        self.units = [UnitVectors(unit, layout, exclusion_filter=exclusion_filter) for unit in units]
        self.starts = np.concatenate([[0], np.cumsum([unit.rows or 0 for unit in units])]).astype(np.int64)
        self._filter = exclusion_filter
        size = sum({source.uri: source.size for unit in units for source in unit.inputs}.values())
        if shared and shutil.disk_usage(tempfile.gettempdir()).free > ROOM * size:
            sources = [json.dumps(unit.to_json(), sort_keys=True) for unit in units]
            name = content_id("corpus", repr(layout), exclusion_filter.fingerprint, *sources)
            self._copy = MachineCopy(name, self._fill)  # in use while this object exists
            self.blocks, self.matched = self._mapped(self._copy.path)
        else:
            self.blocks = [VectorBlock(block.vectors.copy(), block.places) for block in self._read()]
            self.matched = exclusion_filter.take_matched()

    def _read(self) -> Iterator[VectorBlock]:
        """Yield the blocks; each block's vectors are valid only until the next one."""
        for unit, start in zip(self.units, self.starts[:-1].tolist(), strict=True):
            for block in unit.blocks(BLOCK_ROWS):
                yield VectorBlock(block.vectors, block.places + start)

    def _fill(self, folder: Path) -> None:
        listed = []
        with (folder / _DATA).open("wb") as file:
            for block in self._read():
                entries = []
                for array in block:
                    file.write(bytes(-file.tell() % ALIGNED))
                    entries.append([file.tell(), array.dtype.str, array.shape])
                    file.write(np.ascontiguousarray(array).view(np.uint8).data)
                listed.append(entries)
        counts = [dict(unit.counts) for unit in self.units]
        description = {"blocks": listed, "counts": counts, "matched": self._filter.take_matched()}
        (folder / _BLOCKS).write_text(json.dumps(description), encoding="utf-8")

    def _mapped(self, folder: Path) -> tuple[list[VectorBlock], dict[str, int]]:
        description = json.loads((folder / _BLOCKS).read_text(encoding="utf-8"))
        for unit, counts in zip(self.units, description["counts"], strict=True):
            unit.counts = Counter(counts)
        if not description["blocks"]:
            return [], description["matched"]
        data = np.memmap(folder / _DATA, np.uint8, mode="r")
        blocks = [VectorBlock(*(_array(data, *entry) for entry in entries)) for entries in description["blocks"]]
        return blocks, description["matched"]


def _array(data: np.ndarray, begin: int, dtype: str, shape: Sequence[int]) -> Any:
    """Return the array at byte `begin` without copying it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return data[begin : begin + size].view(dtype).reshape(shape)
