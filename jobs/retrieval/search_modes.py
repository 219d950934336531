"""Runs a search in one of two ways: streams the corpus or the queries, with the other side in memory."""

from dataclasses import replace
from typing import NamedTuple

from jobs.corpora.embeddings import VectorCorpus
from jobs.retrieval.merge import merge
from jobs.retrieval.neighbor_rows import Calibration
from jobs.retrieval.queries import read_queries
from jobs.retrieval.search import ScanUnit, SearchQueries, SearchTask
from jobs.runtime import exclusions
from jobs.runtime.resources import Resources
from jobs.store import locations
from jobs.store.reading import open_table
from jobs.store.run import TableRun, open_run

PARTIAL = "_partial"  # in the folder of the neighbors: the table of the scan


class SearchInputs(NamedTuple):
    """What the queries are searched in, and the calibration of probabilities."""

    corpus: VectorCorpus
    calibration: Calibration | None


def scan_corpus(
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
    units = [(todo, read_queries(todo.unit, exclusion_filter)[0]) for todo in run.todo]
    merge(run, open_table(out, "neighbors"), units, k=task.search.k, calibration=inputs.calibration)


def stream_queries(run: TableRun, task: SearchTask, inputs: SearchInputs, *, resources: Resources) -> None:
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
