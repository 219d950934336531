"""Find the k nearest vectors of a corpus for each query, exactly -> table `neighbors`.

    python -m jobs.retrieve queries=R/prompts corpus=embeddings corpus.path=R/embeddings k=8 out=R/neighbors
    python -m jobs.retrieve queries=R/prompts corpus=datacomp corpus.path='s3://b/datacomp/*' k=8 out=R/neighbors

The smaller side stays in the workers' memory, the larger streams past. Where the corpus streams, the best of each of
its work units are a shard of `out`/_partial, so that a killed scan goes on where it was; merging them needs memory for
queries x k rows, whatever the corpus. Scores are float64 of the vectors as stored; ties go by item_id. Rows of the
corpus that cannot be scored are in `out`/_rejects, whichever side stays in memory.
"""

import sys
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.ids import content_id
from jobs.corpora.embeddings import Corpus, VectorsConfig, check_alike, find_corpus, made_by, open_tables
from jobs.corpora.vectors import VectorLayout
from jobs.errors import InputError, RunError
from jobs.models.devices import check_device
from jobs.runtime import cli, exclusions, lifecycle, summary
from jobs.runtime.config import Common, plain
from jobs.runtime.console import say
from jobs.runtime.exclusions import Barred
from jobs.store import locations
from jobs.store.reading import TableSource, open_table, tables_in
from jobs.store.run import TablePlan, TableRun, open_run
from jobs.workers.search import TALLY, Calibration, ScanUnit, SearchQueries, merge, read_queries

SIDES = ("auto", "queries", "corpus")
SCORES = ("inner_product", "cosine")
PARTIAL = "_partial"
MOST_COMPARED = 5_000_000  # queries whose ids are compared before the search; of more, jobs.verify tells it after it


@dataclass
class FaissConfig:
    """An index of FAISS for those who want approximate answers fast; needs remine[ann]."""

    out: str | None = None  # folder to be made: corpus.faiss and ids.parquet; null: no index
    factory: str = "IVF1024,SQfp16"  # as faiss.index_factory takes it
    nprobe: int = 16  # lists that a query searches, of an IVF index


@dataclass
class RetrieveConfig(Common):
    """Keys of `retrieve`."""

    queries: str = MISSING  # a table of embeddings, or a glob of several
    corpus: VectorsConfig = field(default_factory=VectorsConfig)
    k: int = 10  # neighbours of each query
    score: str = "inner_product"  # or cosine: the vectors' lengths divided out
    logit_scale: float | None = None  # SigLIP's, as stored (before exp); null: what the queries' table says
    logit_bias: float | None = None  # SigLIP's; null: what the queries' table says
    resident: str = "auto"  # queries or corpus: the side kept in memory; auto: the smaller one
    device: str = "auto"  # cuda if there is one, else cpu
    faiss: FaissConfig = field(default_factory=FaissConfig)


def execute(cfg: RetrieveConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    _check(cfg)
    sources = _queries(cfg)
    made = made_by(sources[0])
    corpus = find_corpus(cfg.corpus)
    check_alike((cfg.queries, made), (cfg.corpus.path, corpus.made))
    if cfg.faiss.out is not None:
        _check_faiss(cfg, corpus)
    calibration = _calibration(cfg, sources[0])
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = _plan(cfg, sources, corpus, calibration, exclusions.identity(excluded))
    count = sum(source.rows for source in sources)
    if count <= MOST_COMPARED:
        _check_distinct(cfg.queries, sources)
    side = cfg.resident if cfg.resident != "auto" else ("queries" if count <= corpus.rows else "corpus")
    note = f"{count:,} queries, {corpus.rows:,} vectors of {made.dim} numbers, the {side} kept in memory"
    run = lifecycle.begin("retrieve", cfg, plan, pools=["search"], note=note, streamed=False)
    if run is None:
        return None
    kept = exclusions.keep(run, excluded)
    if run.todo and side == "queries":
        _scan(cfg, run, corpus, queries=sources, calibration=calibration, kept=kept)
    elif run.todo:
        _stream(cfg, run, corpus, calibration, kept)
    manifest = lifecycle.end("retrieve", run, excluded)
    _account(run.target.out, manifest, corpus)
    if cfg.faiss.out is not None:
        _export(cfg, run, corpus, sources, exclusions.kept(kept))
    return manifest


def _check(cfg: RetrieveConfig) -> None:
    if cfg.k < 1:
        raise InputError(f"k={cfg.k}: at least 1")
    for key, allowed in (("resident", SIDES), ("score", SCORES)):
        if getattr(cfg, key) not in allowed:
            raise InputError(f"{key}={getattr(cfg, key)}: allowed are {', '.join(allowed)}")
    if (cfg.logit_scale is None) != (cfg.logit_bias is None):
        raise InputError("logit_scale= and logit_bias= go together: a probability needs both")
    if cfg.retry:
        raise InputError("retry=: neighbors have no status; overwrite=true searches again")
    check_device(cfg, "device", cfg.device)


def _check_faiss(cfg: RetrieveConfig, corpus: Corpus) -> None:
    """Refuse an index that cannot be made before the search that comes first."""
    if find_spec("faiss") is None:
        raise InputError("faiss.out= needs faiss-cpu: pip install 'remine[ann]'")
    place = locations.absolute(cfg.faiss.out or "")
    tables = {"out": cfg.out, "queries": cfg.queries, "corpus.path": cfg.corpus.path}
    for key, table in tables.items():
        # What lies below a table that is none of its own objects makes it unreadable.
        if f"{place}/".startswith(f"{locations.absolute(table)}/"):
            raise InputError(f"faiss.out={cfg.faiss.out}: lies in {key}={table}; an index has a folder of its own")
    from jobs.retrieval import faiss_index

    faiss_index.check(cfg.faiss.factory, cfg.faiss.nprobe, dim=corpus.made.dim, rows=corpus.rows)


def _queries(cfg: RetrieveConfig) -> list[TableSource]:
    """The tables to search for. Raises InputError; of texts it says how to embed them."""
    first = open_table(tables_in(cfg.queries)[0], "embeddings", "texts")
    if first.name == "texts":
        named = cfg.corpus.embedder.name if cfg.corpus.embedder else "…"
        raise InputError(
            f"queries={cfg.queries} are texts, not yet vectors: python -m jobs.embed input={cfg.queries} "
            f"embedder={named} out=… makes them, with the encoder of the corpus"
        )
    return open_tables(cfg.queries)


def _check_distinct(named: str, sources: list[TableSource]) -> None:
    """Refuse queries of one name: their neighbours could not be told apart."""
    batches = (batch for source in sources for batch in source.batches(["item_id", "status"]))
    usable = (batch.filter(pc.equal(batch["status"], "ok"))["item_id"] for batch in batches)
    counts = pc.value_counts(pa.chunked_array([chunk for ids in usable for chunk in ids.chunks], pa.string()))
    if twice := counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist():
        more = f" (and {len(twice) - 1:,} others)" if len(twice) > 1 else ""
        raise InputError(f"queries={named}: the item_id {twice[0]} stands twice{more}; a query is found again by it")


def _calibration(cfg: RetrieveConfig, source: TableSource) -> Calibration | None:
    if cfg.logit_scale is not None and cfg.logit_bias is not None:
        return Calibration(cfg.logit_scale, cfg.logit_bias)
    said = [source.metadata.get(f"remine.{name}") for name in ("logit_scale", "logit_bias")]
    if None in said or (cfg.score != "cosine" and cfg.corpus.layout != "table"):
        return None  # an inner product of vectors of any length is no cosine
    scale, bias = map(float, said)  # type: ignore[arg-type]
    return Calibration(scale, bias)


def _plan(
    cfg: RetrieveConfig,
    sources: list[TableSource],
    corpus: Corpus,
    calibration: Calibration | None,
    excluded: dict[str, str],
) -> TablePlan:
    units = [unit for source in sources for unit in source.units()]
    return TablePlan(
        out=cfg.out,
        table="neighbors",
        identity={
            "queries": content_id(*(f"{u.name} {u.version}" for u in units)),
            "corpus": corpus.identity,
            "k": cfg.k,
            "score": cfg.score,
            "calibration": list(calibration) if calibration else None,
            **excluded,
        },
        units=units,
        config=plain(cfg),
        metadata={"encoder": corpus.made.encoder, "preprocessing": corpus.made.preprocessing, "score": cfg.score},
        derived=False,
        models={"encoder": corpus.made.encoder},
    )


def _options(cfg: RetrieveConfig, kept: str | None) -> dict[str, Any]:
    """What an actor must know beside the vectors."""
    corpus = cfg.corpus
    table = corpus.layout == "table"
    return {
        "layout": VectorLayout(table, corpus.array, corpus.id, corpus.where),
        "k": cfg.k,
        "score": cfg.score,
        "device": cfg.device,
        "threads": cfg.resources.search.threads,
        "excluded": kept,
    }


def _scan(
    cfg: RetrieveConfig,
    run: TableRun,
    corpus: Corpus,
    *,
    queries: list[TableSource],
    calibration: Calibration | None,
    kept: str | None,
) -> None:
    """The corpus streams past the queries; the best of its units are merged."""
    from jobs.runtime import stages

    out = locations.join(run.target.out, PARTIAL)
    plan = replace(run.plan, out=out, units=corpus.units)
    partial = open_run(plan, resume=True, overwrite=cfg.overwrite, retry=[])
    objects = [footer.object.uri for source in queries for footer in source.footers]
    stage = stages.Stage("search", ScanUnit, {"queries": objects, **_options(cfg, kept)})
    total = sum(task.unit.rows or 0 for task in partial.todo)
    stages.process(partial, name="retrieve", stage=stage, resources=cfg.resources, total=total, counted="rows")
    partial.finish()
    barred = exclusions.kept(kept)
    todo = [(task, read_queries(task.unit.inputs[0].uri, barred)[0]) for task in run.todo]
    merge(run, open_table(out, "neighbors"), todo, k=cfg.k, calibration=calibration)


def _stream(
    cfg: RetrieveConfig, run: TableRun, corpus: Corpus, calibration: Calibration | None, kept: str | None
) -> None:
    """The queries stream past the corpus."""
    from jobs.runtime import stages

    known = {"corpus": corpus.units, "first": run.units[0].name, "calibration": calibration}
    stage = stages.Stage("search", SearchQueries, {**known, **_options(cfg, kept)})
    total = sum(task.unit.rows or 0 for task in run.todo)
    stages.process(run, name="retrieve", stage=stage, resources=cfg.resources, total=total, counted="rows")


def _export(cfg: RetrieveConfig, run: TableRun, corpus: Corpus, sources: list[TableSource], barred: Barred) -> None:
    """Write the index and say how much of the exact result it finds."""
    from jobs.retrieval import faiss_index

    place = locations.absolute(cfg.faiss.out or "")
    layout, cosine = _options(cfg, None)["layout"], cfg.score == "cosine"
    index, ids = faiss_index.build(
        corpus, layout, factory=cfg.faiss.factory, nprobe=cfg.faiss.nprobe, cosine=cosine, barred=barred
    )
    faiss_index.write(index, ids, place)
    exact = open_table(run.target.out, "neighbors")
    queries = [read_queries(f.object.uri, barred) for source in sources for f in source.footers]
    recall = faiss_index.recall(index, ids, queries, exact, k=cfg.k)
    say(f"  index {place}: {cfg.faiss.factory}, {index.ntotal:,} vectors, recall@{cfg.k} {recall:.4f}")


def _account(out: str, manifest: dict[str, Any], corpus: Corpus) -> None:
    """Say what became of the corpus's rows, and see that it is all of them.

    Raises:
        RunError: it is not.
    """
    tally = manifest["counts"]["tallies"].get(TALLY, {})
    summary.show_tally(TALLY, tally)
    if sum(tally.values()) != corpus.rows:
        raise RunError(f"{out}: {sum(tally.values()):,} of the corpus's {corpus.rows:,} rows are accounted for")


JOB = cli.Job("retrieve", RetrieveConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("retrieve"))
