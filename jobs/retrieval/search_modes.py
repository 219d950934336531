"""The two ways of searching: streaming the corpus or the queries, with the other side in memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from jobs.corpora.embeddings import VectorCorpus
from jobs.errors import InputError, RunError
from jobs.retrieval.merge import merge
from jobs.retrieval.neighbor_rows import CORPUS_TALLY, Calibration
from jobs.retrieval.queries import read_queries
from jobs.retrieval.search import ScanUnit, SearchQueries, SearchTask
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.reading import open_table
from jobs.store.runs.table_run import TableRun, open_run

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


def account_corpus(out: str, counts: Mapping[str, Any], corpus: VectorCorpus) -> None:
    """Print how many rows of the corpus were searched, and why others were not.

    Args:
        out: location of the neighbors, for the message.
        counts: counts in the run's manifest.

    Raises:
        RunError: not every row is accounted for.
    """
    tally = counts["tallies"].get(CORPUS_TALLY, {})
    summary.show_tally(CORPUS_TALLY, tally)
    if sum(tally.values()) != corpus.rows:
        raise RunError(f"only {sum(tally.values()):,} of {corpus.rows:,} corpus rows are accounted for", place=out)


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
