"""`retrieve faiss.out=`: writes an approximate index of the corpus and prints its recall of the exact result."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from actors.quantities import quantity
from actors.search.settings import COSINE
from jobs.corpora.embeddings import VectorCorpus
from jobs.errors import InputError
from jobs.retrieval.queries import read_queries
from jobs.retrieval.search import SearchTask
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.reading import open_table
from jobs.store.runs.table_run import TableRun


@dataclass
class FaissConfig:
    """An approximate index for FAISS, for fast searches elsewhere; needs remine[ann]."""

    out: str | None = None  # folder to write: corpus.faiss and ids.parquet; null: no index
    factory: str = "IVF1024,SQfp16"  # a string of faiss.index_factory
    nprobe: int = 16  # lists of an IVF index that each query searches


def check_export(cfg: FaissConfig, corpus: VectorCorpus, tables: Mapping[str, str]) -> None:
    """Check before the search that the index can be built; `tables` are the URIs of the run's tables by key.

    Raises:
        InputError: FAISS is not installed, the folder is inside a table, or FAISS refuses the factory or nprobe.
    """
    if find_spec("faiss") is None:
        raise InputError(f"faiss.out={cfg.out}: needs faiss-cpu; pip install 'remine[ann]'")
    folder = locations.absolute(cfg.out or "")
    for key, table in tables.items():
        # Other files inside a table would make it unreadable.
        if f"{folder}/".startswith(f"{locations.absolute(table)}/"):
            raise InputError(f"faiss.out={cfg.out}: is inside {key}={table}; use a separate folder for the index")
    from jobs.retrieval import faiss_index

    faiss_index.check(cfg.factory, cfg.nprobe, dim=corpus.space.dim, rows=corpus.rows)


def export(cfg: FaissConfig, corpus: VectorCorpus, task: SearchTask, run: TableRun) -> None:
    """Write the index and print its recall@k against the neighbors that `run` wrote."""
    from jobs.retrieval import faiss_index

    folder, k = locations.absolute(cfg.out or ""), task.search.k
    exclusion_filter, cosine = exclusions.load(task.excluded), task.search.score == COSINE
    index, ids = faiss_index.build(
        corpus, task.layout, factory=cfg.factory, nprobe=cfg.nprobe, cosine=cosine, exclusion_filter=exclusion_filter
    )
    faiss_index.write(index, ids, folder)
    searched = [read_queries(unit, exclusion_filter) for unit in run.units]
    recall = faiss_index.recall(index, ids, searched, open_table(run.target.out, "neighbors"), k=k)
    say(f"  index {folder}: {cfg.factory}, {quantity(index.ntotal, 'vector')}, recall@{k} {recall:.4f}")
