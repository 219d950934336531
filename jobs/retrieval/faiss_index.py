"""An approximate index of a corpus (FAISS), and how much of the exact result it finds.

Built on the driver: the index itself must fit its memory; vectors pass through a block at a time.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.corpora.embeddings import Corpus
from jobs.corpora.vectors import UnitVectors, VectorLayout
from jobs.errors import InputError, RunError
from jobs.retrieval.queries import QueryUnit
from jobs.runtime.console import say
from jobs.runtime.exclusions import Barred
from jobs.store import locations
from jobs.store.reading import TableSource
from jobs.store.spool import Spool

ROWS = 1 << 14
TRAINED_ON = 200_000  # rows, spread over the corpus
_ADDED = 128  # rows of a block in a trial
INDEX, IDS = "corpus.faiss", "ids.parquet"


def build(
    corpus: Corpus, layout: VectorLayout, *, factory: str, nprobe: int, cosine: bool, barred: Barred
) -> tuple[Any, pa.ChunkedArray]:
    """The index, and the item ids in the order of its numbers.

    Raises:
        InputError: FAISS does not know the factory's words.
        RunError: FAISS wants more rows than have a direction and are asked for.
    """
    index = _made(factory, corpus.space.dim)
    ivf = _ivf(index)
    if not index.is_trained:
        wanted = max(TRAINED_ON, ivf.nlist * ivf.cp.min_points_per_centroid) if ivf else TRAINED_ON
        every = max(1, corpus.rows // wanted)
        sample = np.concatenate([vectors[::every] for vectors, _ in _vectors(corpus, layout, cosine, barred)])
        try:
            with _aside() as file:
                index.train(sample)
                file.seek(0)
                said = dict.fromkeys(file.read().decode(errors="replace").splitlines())
            for line in said:  # once each: an OPQ says hundreds of times that it has few vectors
                say(f"  FAISS: {line}", err=True)
        except RuntimeError as error:
            raise RunError(
                f"faiss.factory={factory}: not with the {len(sample):,} vectors to train on ({_reason(error)}); "
                "the exact neighbors are written"
            ) from error
    ids = []
    for vectors, names in _vectors(corpus, layout, cosine, barred):
        index.add(vectors)
        ids.append(pa.array(names, pa.string()))
    if ivf:
        ivf.nprobe = nprobe
    return index, pa.chunked_array(ids, pa.string())


def check(factory: str, nprobe: int, *, dim: int, rows: int) -> None:
    """Refuse what `build` could not make of `rows` vectors, before they are read.

    FAISS tells its limits (centroids of a PQ, rows of a PCA, no second `add`) only while it works: it is asked with
    random vectors, ever more of them, up to as many as there are to train on. Lists it would take as long as for the
    real ones: they are counted, and one list stands for them.

    Raises:
        InputError: see above.
    """
    if nprobe < 1:
        raise InputError(f"faiss.nprobe={nprobe}: at least 1")
    ivf = _ivf(_made(factory, dim))
    if ivf and ivf.nlist > rows:
        raise InputError(f"faiss.factory={factory}: {ivf.nlist:,} lists of {rows:,} vectors; use fewer lists, or Flat")
    one_list = re.sub(r"IVF\d+", "IVF1", factory)
    draw = np.random.default_rng(0)
    most, n = min(rows, TRAINED_ON), 1
    with _aside():  # FAISS's own lines speak of the random vectors as if they were the corpus
        few = draw.random((_ADDED, dim), np.float32)
        while said := _tried(_made(one_list, dim), draw.random((n, dim), np.float32), few):
            if said.adding or n == most:
                raise InputError(f"faiss.factory={factory}: not with {rows:,} vectors of {dim} numbers ({said.reason})")
            n = min(2 * n, most)


class _Refused(NamedTuple):
    reason: str
    adding: bool  # more vectors to train on would not help


def _tried(index: Any, sample: np.ndarray, few: np.ndarray) -> _Refused | None:
    """What FAISS has against training on `sample`, adding a block after another, or searching; None: nothing."""
    for part in _parts(index):
        if hasattr(part, "do_polysemous_training"):
            part.do_polysemous_training = False  # takes minutes, and limits nothing
    try:
        index.train(sample)
    except RuntimeError as error:
        return _Refused(_reason(error), adding=False)
    try:
        index.add(few)
        index.add(few)
        index.search(few, 1)
    except RuntimeError as error:
        return _Refused(_reason(error), adding=True)
    return None


def _parts(index: Any) -> Iterator[Any]:
    """An index and those inside it."""
    import faiss

    yield (whole := faiss.downcast_index(index))
    for name in ("index", "base_index", "storage"):
        if isinstance(inner := getattr(whole, name, None), faiss.Index):
            yield from _parts(inner)


def _ivf(index: Any) -> Any:
    """The inverted file in an index, None if there is none."""
    import faiss

    try:
        return faiss.extract_index_ivf(index)
    except RuntimeError:
        return None


@contextmanager
def _aside() -> Iterator[IO[bytes]]:
    """What C++ writes to stderr goes into the file instead."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            try:
                yield file
            finally:
                os.dup2(kept, 2)
    finally:
        os.close(kept)


def _made(factory: str, dim: int) -> Any:
    import faiss

    try:
        return faiss.index_factory(dim, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        raise InputError(f"faiss.factory={factory}: FAISS does not take it ({_reason(error)})") from error


def _vectors(
    corpus: Corpus, layout: VectorLayout, cosine: bool, barred: Barred
) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Blocks of vectors [n, dim] float32 that have a direction, with their ids."""
    for unit in corpus.units:
        opened = UnitVectors(unit, layout, barred=barred)
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
    """What FAISS says, without where in its source it says it and which condition it looked at."""
    last = str(error).strip().rpartition("\n")[2] or type(error).__name__
    return re.sub(r"^.*\.cpp:\d+: (Error: )?('.*' failed: (?=.))?", "", last)
