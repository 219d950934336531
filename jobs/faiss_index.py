"""An approximate index of a corpus (FAISS), and how much of the exact result it finds.

Built on the driver: the index itself must fit its memory; vectors pass through a block at a time.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.corpora.embeddings import Corpus
from jobs.corpora.vectors import Layout, UnitVectors
from jobs.errors import InputError
from jobs.neighbors import QueryUnit
from jobs.store import locations
from jobs.store.reading import TableSource
from jobs.store.spool import Spool

ROWS = 1 << 14
TRAINED_ON = 200_000  # rows, spread over the corpus
INDEX, IDS = "corpus.faiss", "ids.parquet"


def build(
    corpus: Corpus, layout: Layout, *, factory: str, probe: int, cosine: bool, excluded: Collection[str]
) -> tuple[Any, pa.ChunkedArray]:
    """The index, and the item ids in the order of its numbers.

    Raises:
        InputError: FAISS does not know the factory's words, or wants more rows to train on.
    """
    index = _made(factory, corpus.made.dim)
    if not index.is_trained:
        every = max(1, corpus.rows // TRAINED_ON)
        sample = np.concatenate([vectors[::every] for vectors, _ in _vectors(corpus, layout, cosine, excluded)])
        try:
            index.train(sample)
        except RuntimeError as error:
            raise InputError(f"faiss.factory={factory}: not with {len(sample):,} rows ({_reason(error)})") from error
    ids = []
    for vectors, names in _vectors(corpus, layout, cosine, excluded):
        index.add(vectors)
        ids.append(pa.array(names, pa.string()))
    if hasattr(index, "nprobe"):
        index.nprobe = probe
    return index, pa.chunked_array(ids, pa.string())


def check(factory: str, probe: int, *, dim: int, rows: int) -> None:
    """Refuse what `build` could not make of `rows` vectors, before they are read.

    Raises:
        InputError: see above; what training says of other kinds than IVF comes later.
    """
    import faiss

    if probe < 1:
        raise InputError(f"faiss.probe={probe}: at least 1")
    try:
        lists = faiss.extract_index_ivf(_made(factory, dim)).nlist
    except RuntimeError:  # no IVF in it
        return
    if lists > rows:
        raise InputError(f"faiss.factory={factory}: {lists:,} lists of {rows:,} vectors; use fewer lists, or Flat")


def _made(factory: str, dim: int) -> Any:
    import faiss

    try:
        return faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise InputError(f"faiss.factory={factory}: FAISS does not take it ({_reason(error)})") from error


def _vectors(
    corpus: Corpus, layout: Layout, cosine: bool, excluded: Collection[str]
) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Blocks of vectors [n, dim] float32 that have a direction, with their ids."""
    for unit in corpus.units:
        opened = UnitVectors(unit, layout, excluded=excluded)
        for block in opened.blocks(ROWS):
            vectors = block.vectors.astype(np.float32)
            good = np.isfinite(vectors).all(axis=1) & vectors.any(axis=1)
            vectors = vectors[good]
            if cosine:
                vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            yield np.ascontiguousarray(vectors), opened.ids(block.places[good])


def write(index: Any, ids: pa.ChunkedArray, folder: str) -> None:
    """`corpus.faiss`, and `ids.parquet` with the item_id of each of its numbers; each appears whole."""
    import faiss

    with Spool("faiss") as aside:
        faiss.write_index(index, str(aside.path / INDEX))
        pq.write_table(pa.table({"item_id": ids}), aside.path / IDS)
        for name in (IDS, INDEX):
            locations.publish(aside.path / name, locations.join(folder, name))


def recall(
    index: Any,
    ids: pa.ChunkedArray,
    queries: Sequence[tuple[QueryUnit, np.ndarray]],
    exact: TableSource,
    *,
    k: int,
) -> float:
    """The share of the exact neighbours that the index finds among its k."""
    found: dict[str, set[str]] = {}
    for unit, vectors in queries:
        if not len(vectors):
            continue
        _, numbers = index.search(np.ascontiguousarray(vectors, np.float32), k)
        for query, row in zip(unit.ids.to_pylist(), numbers, strict=True):
            found[query] = set(ids.take(pa.array(row[row >= 0])).to_pylist())
    hit = total = 0
    for batch in exact.batches(["query_id", "item_id"]):
        for query, item in zip(batch["query_id"].to_pylist(), batch["item_id"].to_pylist(), strict=True):
            hit += item in found[query]
            total += 1
    return hit / total if total else float("nan")


def _reason(error: Exception) -> str:
    return str(error).strip().splitlines()[-1].split("Error: ")[-1]
