"""Find the k nearest vectors of a corpus for each query, exactly -> table `neighbors`.

    remine retrieve queries=R/prompts corpus=embeddings corpus.path=R/embeddings k=8 out=R/neighbors
    remine retrieve queries=R/prompts corpus=datacomp corpus.path='s3://b/datacomp/*' k=8 out=R/neighbors

The smaller side stays in the workers' memory, the other is streamed. If the corpus is streamed, the best rows of each
of its work units become a shard of `out`/_partial, from which a killed run resumes; the driver merges the shards,
some hundred thousand queries at a time. Scores are computed in float64 from the stored vectors; ties are broken by
item_id. `out`/_rejects lists the rows of the corpus that cannot be scored, whichever side stays in memory.
"""

import sys
from dataclasses import dataclass, field

from actors.ids import content_id
from actors.quantities import quantity
from actors.search_queries import COSINE, SearchSettings
from actors.settings import RuntimeOnly
from jobs.checkpoints.placement import check_device
from jobs.corpora.embeddings import VectorCorpus, VectorsConfig, check_same_space, find_corpus, layout_of, space_of
from jobs.errors import InputError
from jobs.retrieval.corpus_search import (
    QUERIES,
    SearchInputs,
    SearchTask,
    check_side,
    corpus_fault,
    corpus_lines,
    resident_side,
    search,
)
from jobs.retrieval.faiss_index import FaissConfig, check_faiss_export, export_faiss_index
from jobs.retrieval.queries import Calibration, check_distinct, kept_calibration, open_queries
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import ReadingRows
from jobs.runtime.configuration.key_types import MISSING, conf_group
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning.expected_pace import Work
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store import run_files
from jobs.store.reading import TableSource
from jobs.store.runs.place import purged_table
from jobs.store.table_plan import TablePlan


@dataclass
class RetrieveConfig(SearchSettings, ReadingRows):
    """Keys of `retrieve`."""

    queries: str = MISSING  # a table of embeddings, or a glob of several
    corpus: VectorsConfig = conf_group("embeddings", VectorsConfig)
    logit_scale: float | None = None  # rarely: SigLIP's scale as stored (before exp); null: from the queries' table
    logit_bias: float | None = None  # rarely: SigLIP's bias; null: from the queries' table
    resident: RuntimeOnly[str] = "auto"  # rarely: queries or corpus: the side kept in memory; auto: the smaller one
    faiss: RuntimeOnly[FaissConfig] = field(default_factory=FaissConfig)  # rarely: export an index for FAISS


def execute(cfg: RetrieveConfig) -> Plan | Manifest:
    """Run the job; see the module's docstring.

    Returns:
        The manifest; with plan=true the plan.
    """
    _check(cfg)
    queries = open_queries(cfg.queries, cfg.corpus)
    corpus = find_corpus(cfg.corpus)
    check_same_space((cfg.queries, space_of(queries[0])), (cfg.corpus.path, corpus.space))
    if cfg.faiss.out is not None:
        check_faiss_export(cfg.faiss, corpus, {"out": cfg.out, "queries": cfg.queries, "corpus.path": cfg.corpus.path})
    calibration = _calibration(cfg, queries[0])
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = _plan(cfg, queries, corpus, calibration, excluded)
    check_distinct(cfg.queries, queries)
    keeps = not cfg.overwrite and cfg.faiss.out is None  # an index may contain purged pictures
    if keeps and (purged := _purged(plan)) is not None:
        return Plan(purged.lines) if cfg.only_plans else purged
    count = sum(source.rows for source in queries)
    side = resident_side(cfg.resident, queries=count, corpus=corpus.rows)
    vectors = f"{quantity(corpus.rows, 'vector')} of {corpus.space.dim} numbers"
    note = f"{quantity(count, 'query')}, {vectors}, the {side} kept in memory"
    pieces = len(corpus.units) if side == QUERIES else None
    work = Work("multiplications", corpus.rows * corpus.space.dim, pieces)
    run = lifecycle.begin(
        "retrieve", cfg, plan, excluded, pools=["search"], note=note, streamed=False, calibrates=False, work=work
    )
    if isinstance(run, Plan):
        return run
    task = SearchTask(
        search=SearchSettings.part_of(cfg),
        layout=layout_of(cfg.corpus),
        threads=cfg.resources.search.threads,
        excluded=run.excluded,
    )
    inputs = SearchInputs(corpus, calibration)
    search(run.table, task, inputs, side=side, resources=cfg.resources, overwrite=cfg.overwrite)
    manifest = run.end()
    manifest.lines += corpus_lines(manifest["counts"])
    manifest.fault = corpus_fault(run.table.target.out, manifest["counts"], corpus)
    if cfg.faiss.out is not None and not manifest.fault:
        manifest.lines += export_faiss_index(cfg.faiss, corpus, task, run.table)
    return manifest


def _purged(plan: TablePlan) -> Manifest | None:
    """Return the manifest if pictures were purged from a complete table of the same units of queries; else None."""
    units = {unit.name for unit in run_files.begun_units(plan.out)}
    if units != {unit.name for unit in plan.units} or (purged := purged_table(plan, ["queries", "corpus"])) is None:
        return None
    neighbors = purged["counts"]["rows_out"]
    line = f"retrieve: {plan.out}: {neighbors:,} neighbours remain after a purge; overwrite=true searches again"
    return Manifest(purged, [line])


def _check(cfg: RetrieveConfig) -> None:
    check_side(cfg.resident)
    if (cfg.logit_scale is None) != (cfg.logit_bias is None):
        raise InputError("logit_scale= and logit_bias=: set both or neither; a probability needs both")
    if cfg.retry:
        raise InputError("neighbors have no status; overwrite=true searches again", key="retry")
    check_device(cfg, cfg.device)


def _calibration(cfg: RetrieveConfig, queries: TableSource) -> Calibration | None:
    if cfg.logit_scale is not None and cfg.logit_bias is not None:
        return Calibration(cfg.logit_scale, cfg.logit_bias)
    # The inner product is a cosine only if the vectors are normalised, as those of our tables are.
    return kept_calibration(queries) if cfg.score == COSINE or cfg.corpus.layout == "table" else None


def _plan(
    cfg: RetrieveConfig,
    queries: list[TableSource],
    corpus: VectorCorpus,
    calibration: Calibration | None,
    excluded: Exclusions,
) -> TablePlan:
    units = [unit for source in queries for unit in source.units()]
    return plan_table(
        cfg,
        "neighbors",
        units,
        {
            "queries": content_id(*(f"{u.name} {u.version}" for u in units)),
            "corpus": corpus.identity,
            "calibration": list(calibration) if calibration else None,
        },
        instead_of=["logit_scale", "logit_bias"],
        excluded=excluded,
        metadata={"encoder": corpus.space.encoder, "preprocessing": corpus.space.preprocessing, "score": cfg.score},
        derived=False,
        models={"encoder": corpus.space.encoder},
    )


JOB = cli.Job("retrieve", RetrieveConfig, execute, pools=("search",))

if __name__ == "__main__":
    sys.exit(cli.main("retrieve"))
