"""Construction of an approximate FAISS index of a corpus, and its recall of the exact result.

The driver builds the index, which must fit its memory; vectors are read one block at a time.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from actors.quantities import quantity
from actors.search_queries import COSINE
from jobs.corpora.embeddings import VectorCorpus
from jobs.corpora.vectors import UnitVectors, VectorLayout
from jobs.errors import InputError, RunError, check_least
from jobs.retrieval.corpus_search import SearchTask
from jobs.retrieval.queries import read_queries
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.files.spool import Spool
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun

if TYPE_CHECKING:
    from jobs.retrieval.queries import QueryUnit

ROWS = 1 << 14
TRAINED_ON = 200_000  # rows, spread over the corpus
_TRIAL_ROWS = 128  # rows added at a time in a trial
INDEX, IDS = "corpus.faiss", "ids.parquet"


def build(
    corpus: VectorCorpus,
    layout: VectorLayout,
    *,
    factory: str,
    nprobe: int,
    cosine: bool,
    exclusion_filter: ExclusionFilter,
) -> tuple[Any, pa.ChunkedArray]:
    """Return the index, and the item ids in the order of its numbers.

    Raises:
        InputError: FAISS does not accept the factory string.
        RunError: FAISS needs more vectors for training than are available.
    """
    index = _empty_index(factory, corpus.space.dim)
    ivf = _ivf(index)
    if not index.is_trained:
        sample_rows = max(TRAINED_ON, ivf.nlist * ivf.cp.min_points_per_centroid) if ivf else TRAINED_ON
        every = max(1, corpus.rows // sample_rows)
        sample = np.concatenate([vectors[::every] for vectors, _ in _vectors(corpus, layout, cosine, exclusion_filter)])
        try:
            with _stderr_in_file() as file:
                index.train(sample)
                file.seek(0)
                lines = dict.fromkeys(file.read().decode(errors="replace").splitlines())
            for line in lines:  # each once: an OPQ repeats its warning about few vectors hundreds of times
                say(f"  FAISS: {line}", err=True, level="warning")
        except RuntimeError as error:
            why = f"cannot be trained on {len(sample):,} vectors ({_reason(error)}); the exact neighbors are written"
            raise RunError(why, key="faiss.factory", value=factory) from error
    ids = []
    for vectors, names in _vectors(corpus, layout, cosine, exclusion_filter):
        index.add(vectors)
        ids.append(pa.array(names, pa.string()))
    if ivf:
        ivf.nprobe = nprobe
    return index, pa.chunked_array(ids, pa.string())


def check(factory: str, nprobe: int, *, dim: int, rows: int) -> None:
    """Check, before vectors are read, that `build` can build the index from `rows` vectors.

    FAISS reports its limits (centroids of a PQ, rows of a PCA, no second `add`) only while training or adding. This
    function therefore builds small indices from random vectors, doubling their number up to that of the training
    vectors. Training all lists of an IVF would take as long as for the real index, so only their number is checked, and
    the trial has one list.

    Raises:
        InputError: FAISS refuses the factory string or these numbers of vectors, or nprobe is below 1.
    """
    check_least("faiss.nprobe", nprobe, 1)
    ivf = _ivf(_empty_index(factory, dim))
    if ivf and ivf.nlist > rows:
        why = f"{ivf.nlist:,} lists for {rows:,} vectors"
        raise InputError(why, key="faiss.factory", value=factory, remedy="use fewer lists, or Flat")
    one_list = re.sub(r"IVF\d+", "IVF1", factory)
    draw = np.random.default_rng(0)
    most, n = min(rows, TRAINED_ON), 1
    with _stderr_in_file():  # FAISS's warnings here are about the random vectors
        block = draw.random((_TRIAL_ROWS, dim), np.float32)
        while refusal := _try(_empty_index(one_list, dim), draw.random((n, dim), np.float32), block):
            if refusal.adding or n == most:
                vectors = f"{rows:,} vectors of {dim} numbers"
                why = f"cannot be built from {vectors} ({refusal.reason})"
                raise InputError(why, key="faiss.factory", value=factory)
            n = min(2 * n, most)


class _Refusal(NamedTuple):
    reason: str
    adding: bool  # while adding or searching, where more training vectors would not help


def _try(index: Any, sample: np.ndarray, block: np.ndarray) -> _Refusal | None:
    """Train on `sample`, add `block` twice and search; return why FAISS refuses, or None."""
    for part in _parts(index):
        if hasattr(part, "do_polysemous_training"):
            part.do_polysemous_training = False  # takes minutes, without limits to check
    try:
        index.train(sample)
    except RuntimeError as error:
        return _Refusal(_reason(error), adding=False)
    try:
        index.add(block)
        index.add(block)
        index.search(block, 1)
    except RuntimeError as error:
        return _Refusal(_reason(error), adding=True)
    return None


def _parts(index: Any) -> Iterator[Any]:
    """Yield an index and the indices inside it."""
    import faiss

    yield (whole := faiss.downcast_index(index))
    for name in ("index", "base_index", "storage"):
        if isinstance(inner := getattr(whole, name, None), faiss.Index):
            yield from _parts(inner)


def _ivf(index: Any) -> Any:
    """Return the inverted file in an index; None if there is none."""
    import faiss

    try:
        return faiss.extract_index_ivf(index)
    except RuntimeError:
        return None


@contextmanager
def _stderr_in_file() -> Iterator[IO[bytes]]:
    """Redirect stderr, including that of C++ code, to a file."""
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            try:
                yield file
            finally:
                os.dup2(stderr, 2)
    finally:
        os.close(stderr)


def _empty_index(factory: str, dim: int) -> Any:
    import faiss

    try:
        return faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise InputError(f"FAISS refuses it ({_reason(error)})", key="faiss.factory", value=factory) from error


def _vectors(
    corpus: VectorCorpus, layout: VectorLayout, cosine: bool, exclusion_filter: ExclusionFilter
) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Yield blocks of vectors [n, dim] float32, finite and not zero, with their ids."""
    for unit in corpus.units:
        opened = UnitVectors(unit, layout, exclusion_filter=exclusion_filter)
        for block in opened.blocks(ROWS):
            vectors = block.vectors.astype(np.float32)
            good = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
            vectors = vectors[good]
            if cosine:
                vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            yield np.ascontiguousarray(vectors), opened.ids(block.places[good])


def write(index: Any, ids: pa.ChunkedArray, folder: str) -> None:
    """Write `corpus.faiss`, and `ids.parquet` with the item_id of each number; files are never incomplete."""
    import faiss

    with Spool("faiss") as spool:
        faiss.write_index(index, str(spool.path / INDEX))
        pq.write_table(pa.table({"item_id": ids}), spool.path / IDS)
        for name in (IDS, INDEX):
            locations.publish(spool.path / name, locations.join(folder, name))


def recall(
    index: Any,
    ids: pa.ChunkedArray,
    queries: Sequence[tuple["QueryUnit", np.ndarray]],
    exact: TableSource,
    *,
    k: int,
) -> float:
    """Return the share of the exact neighbours among the k that the index returns."""
    approximate: dict[str, set[str]] = {}
    for unit, vectors in queries:
        if not len(vectors):
            continue
        _, numbers = index.search(np.ascontiguousarray(vectors, np.float32), k)
        for query, row in zip(unit.ids.to_pylist(), numbers, strict=True):
            approximate[query] = set(ids.take(pa.array(row[row >= 0])).to_pylist())
    hit = total = 0
    for batch in exact.batches(["query_id", "item_id"]):
        for query, item in zip(batch["query_id"].to_pylist(), batch["item_id"].to_pylist(), strict=True):
            hit += item in approximate[query]
            total += 1
    return hit / total if total else float("nan")


def _reason(error: Exception) -> str:
    """Return FAISS's message without its position in the source and the failed condition."""
    last = str(error).strip().rpartition("\n")[2] or type(error).__name__
    return re.sub(r"^.*\.cpp:\d+: (Error: )?('.*' failed: (?=.))?", "", last)


@dataclass
class FaissConfig:
    """An approximate index for FAISS, for fast searches elsewhere; needs remine[ann]."""

    out: str | None = None  # folder to write: corpus.faiss and ids.parquet; null: no index
    factory: str = "IVF1024,SQfp16"  # a string of faiss.index_factory
    nprobe: int = 16  # lists of an IVF index that each query searches


def check_faiss_export(cfg: FaissConfig, corpus: VectorCorpus, tables: Mapping[str, str]) -> None:
    """Check before the search that the index can be built; `tables` are the URIs of the run's tables by key.

    Raises:
        InputError: FAISS is not installed, the folder is inside a table, or FAISS refuses the factory or nprobe.
    """
    if find_spec("faiss") is None:
        raise InputError("needs faiss-cpu", key="faiss.out", value=cfg.out, remedy="pip install 'remine[ann]'")
    folder = locations.absolute(cfg.out or "")
    for key, table in tables.items():
        # Other files inside a table would make it unreadable.
        if f"{folder}/".startswith(f"{locations.absolute(table)}/"):
            raise InputError(f"is inside {key}={table}", key="faiss.out", remedy="use a separate folder for the index")
    check(cfg.factory, cfg.nprobe, dim=corpus.space.dim, rows=corpus.rows)


def export_faiss_index(cfg: FaissConfig, corpus: VectorCorpus, task: SearchTask, run: TableRun) -> list[str]:
    """Write the index and return a line with its recall@k against the neighbors that `run` wrote."""
    folder, k = locations.absolute(cfg.out or ""), task.search.k
    exclusion_filter, cosine = exclusions.load(task.excluded), task.search.score == COSINE
    index, ids = build(
        corpus, task.layout, factory=cfg.factory, nprobe=cfg.nprobe, cosine=cosine, exclusion_filter=exclusion_filter
    )
    write(index, ids, folder)
    searched = [read_queries(unit, exclusion_filter) for unit in run.units]
    share = recall(index, ids, searched, open_table(run.target.out, "neighbors"), k=k)
    return [f"  index {folder}: {cfg.factory}, {quantity(index.ntotal, 'vector')}, recall@{k} {share:.4f}"]
