"""`retrieve faiss.out=`: writes an approximate index of the corpus and prints its recall of the exact result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from jobs.corpora.embeddings import VectorCorpus
from jobs.corpora.vectors import VectorLayout
from jobs.errors import InputError
from jobs.retrieval.queries import read_queries
from jobs.runtime.console import say
from jobs.runtime.exclusions import ExclusionFilter
from jobs.store import locations
from jobs.store.reading import TableSource
from jobs.store.units import Unit


@dataclass
class FaissConfig:
    """An approximate index for FAISS, for fast searches elsewhere; needs remine[ann]."""

    out: str | None = None  # folder to write: corpus.faiss and ids.parquet; null: no index
    factory: str = "IVF1024,SQfp16"  # a string of faiss.index_factory
    nprobe: int = 16  # lists of an IVF index that each query searches


def check_export(cfg: FaissConfig, corpus: VectorCorpus, tables: Mapping[str, str]) -> None:
    """Check before the search that the index can be built. `tables`: key -> URI of the run's tables.

    Raises:
        InputError: FAISS is not installed, the folder is inside a table, or FAISS refuses the factory or nprobe.
    """
    if find_spec("faiss") is None:
        raise InputError(f"faiss.out={cfg.out}: needs faiss-cpu; pip install 'remine[ann]'")
    folder = locations.absolute(cfg.out or "")
    for key, table in tables.items():
        # Other files inside a table would make it unreadable.
        if f"{folder}/".startswith(f"{locations.absolute(table)}/"):
            raise InputError(f"faiss.out={cfg.out}: is inside {key}={table}; give the index a separate folder")
    from jobs.retrieval import faiss_index

    faiss_index.check(cfg.factory, cfg.nprobe, dim=corpus.space.dim, rows=corpus.rows)


def export(
    cfg: FaissConfig,
    corpus: VectorCorpus,
    layout: VectorLayout,
    *,
    queries: Sequence[Unit],
    exact: TableSource,
    cosine: bool,
    k: int,
    exclusion_filter: ExclusionFilter,
) -> None:
    """Write the index and print its recall@k against the table `exact`."""
    from jobs.retrieval import faiss_index

    folder = locations.absolute(cfg.out or "")
    index, ids = faiss_index.build(
        corpus, layout, factory=cfg.factory, nprobe=cfg.nprobe, cosine=cosine, exclusion_filter=exclusion_filter
    )
    faiss_index.write(index, ids, folder)
    searched = [read_queries(unit, exclusion_filter) for unit in queries]
    recall = faiss_index.recall(index, ids, searched, exact, k=k)
    say(f"  index {folder}: {cfg.factory}, {index.ntotal:,} vectors, recall@{k} {recall:.4f}")
