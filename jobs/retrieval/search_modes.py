"""The two ways of searching: streaming the corpus or the queries, with the other side in memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.search_queries import Hits
from jobs.corpora.embeddings import VectorCorpus
from jobs.errors import InputError, RunError
from jobs.retrieval.queries import CORPUS_TALLY, Calibration, QueryUnit, neighbors, read_queries
from jobs.retrieval.search_workers import ScanUnit, SearchQueries, SearchTask
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.files.read_ahead import ahead
from jobs.store.footers import Footer
from jobs.store.object_rows import read_rows, read_unit
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.writer import UnitTask, UnitWriter

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
    if resident not in SIDES:
        raise InputError(f"resident={resident}: must be one of {', '.join(SIDES)}")


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

    The first unit also carries the corpus's counts and rejects, as in `jobs.retrieval.search_workers.SearchQueries`.
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
