"""Merges the k best rows of each unit of the corpus into the k best of the whole corpus, per query."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.search.top_k import Hits
from jobs.retrieval.neighbor_rows import CORPUS_TALLY, Calibration, neighbors
from jobs.runtime import exclusions
from jobs.store.reading import TableSource
from jobs.store.run import TableRun
from jobs.store.writer import UnitTask, UnitWriter

if TYPE_CHECKING:
    from jobs.retrieval.queries import QueryUnit

MERGED_AT_ONCE = 4  # times queries x k rows in memory before the worse ones are dropped


def merge(
    run: TableRun,
    partial: TableSource,
    units: Sequence[tuple[UnitTask, "QueryUnit"]],
    *,
    k: int,
    calibration: Calibration | None,
) -> None:
    """Write the units of `run` from the table `partial`, the best rows of each unit of the corpus.

    The first unit also carries the counts and the rejects of the corpus, as in `jobs.retrieval.search.SearchQueries`.
    Memory: a few times queries x k rows, however many units the corpus has.
    """
    ids = pa.concat_arrays([unit.ids for _, unit in units])
    best = _best(partial, ids, k)
    tallies = partial.counts().tallies
    corpus_tallies = {name: tallies[name] for name in (CORPUS_TALLY, exclusions.TALLY) if name in tallies}
    query = best["query"].to_numpy()
    start = 0
    for task, unit in units:
        begin, end = np.searchsorted(query, [start, start + len(unit.ids)]).tolist()
        rows = best.slice(begin, end - begin)
        index, score = rows["query"].to_numpy(), rows["score"].to_numpy()
        hits = Hits(index, index, score, rows["item_id"].to_pylist())
        with UnitWriter(run.target, task) as writer:
            table = neighbors(ids, hits, calibration)
            if task.unit.name == run.units[0].name:
                writer.counts.tallies |= corpus_tallies
                for reject in partial.rejects():
                    writer.reject(reject)
            unit.account(writer.counts, k, table.num_rows)
            writer.write(table)
        start += len(unit.ids)


def _best(partial: TableSource, ids: pa.Array, k: int) -> pa.Table:
    """Return query (index in `ids`), item_id and score of the k best rows per query, by query, score and item_id."""
    capacity = MERGED_AT_ONCE * (len(ids) * k + 1)
    empty = {
        "item_id": pa.array([], pa.string()),
        "score": pa.array([], pa.float64()),
        "query": pa.array([], pa.int64()),
    }
    candidates = [pa.table(empty)]
    for batch in partial.batches(["query_id", "item_id", "score"]):
        query = pc.index_in(batch["query_id"], value_set=ids).cast(pa.int64())
        unmerged = pc.is_valid(query)  # a resumed run only merges queries of unfinished units
        candidates.append(batch.select(["item_id", "score"]).append_column("query", query).filter(unmerged))
        if sum(rows.num_rows for rows in candidates) > capacity:
            candidates = [_first_k(pa.concat_tables(candidates), k)]
    return _first_k(pa.concat_tables(candidates), k)


def _first_k(rows: pa.Table, k: int) -> pa.Table:
    keys = [("query", "ascending"), ("score", "descending"), ("item_id", "ascending")]
    ordered = rows.take(pc.sort_indices(rows, sort_keys=keys))
    query = ordered["query"].to_numpy()
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    return ordered.filter(pa.array(rank < k))
