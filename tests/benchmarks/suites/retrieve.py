"""The 8 nearest of a set of float16 vectors for 200 queries, exactly: what the search costs, without any start-up."""

import hashlib
from pathlib import Path

import numpy as np

from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.clock import Clock
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

ROWS: dict[Size, int] = {"smoke": 20_000, "default": 400_000, "full": 5_000_000}
SCANS: dict[Size, int] = {"smoke": 1, "default": 5, "full": 1}
PRODUCT_ROWS = 50_000  # of a product: 150 MB of vectors, 40 MB of scores
FAISS_ROWS = 400_000  # of float32 in memory at a time: 1.2 GB
DIM, QUERIES, K, THREADS = 768, 200, 8, 2
AT_A_TIME = 50_000
CORPUS, ASKED = "corpus.npy", "queries.npy"


def prepare(workdir: Path, size: Size) -> None:
    """Random directions, and queries near some of them."""
    write_vectors(workdir, ROWS[size], queries=QUERIES)


def write_vectors(workdir: Path, rows: int, *, queries: int) -> None:
    """Write the two files that a search reads."""
    draw = np.random.default_rng(0)
    corpus = np.lib.format.open_memmap(workdir / CORPUS, "w+", np.float16, (rows, DIM))
    for first in range(0, rows, AT_A_TIME):
        some = draw.standard_normal((min(AT_A_TIME, rows - first), DIM), dtype=np.float32)
        corpus[first : first + len(some)] = some / np.linalg.norm(some, axis=1, keepdims=True)
    corpus.flush()
    near = corpus[draw.choice(rows, queries, replace=False)].astype(np.float32)
    near += 0.02 * draw.standard_normal(near.shape, dtype=np.float32)
    np.save(workdir / ASKED, (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float16))


def remine(workdir: Path, size: Size) -> Result:
    """The project's reader and search, as a worker of `retrieve` uses them, a unit of 256 MB after the other."""
    return _remine(workdir, size, coarse=None)


def float32(workdir: Path, size: Size) -> Result:
    """The same as on a CPU without bfloat16."""
    return _remine(workdir, size, coarse=False)


def _remine(workdir: Path, size: Size, *, coarse: bool | None) -> Result:
    clock = Clock()
    for _ in range(SCANS[size]):
        result, spent = scanned(workdir, coarse=coarse)
        clock.add(spent)
    return _result(result, clock)


def scanned(workdir: Path, *, coarse: bool | None = None) -> tuple[list[list[int]], Clock]:
    """Search the file once with the project's reader and search; the rows found by query, and what that took."""
    from actors.search_queries import Queries, SearchSettings
    from actors.searcher import Search
    from jobs.checkpoints.encoder import EmbedderConfig
    from jobs.corpora.embeddings import VectorsConfig, find_corpus
    from jobs.corpora.vectors import UnitVectors, VectorLayout

    declared = EmbedderConfig(name="declared", checkpoint="ViT-B-16-SigLIP-i18n-256", pretrained="webli")
    corpus = find_corpus(VectorsConfig(layout="npy", path=str(workdir / CORPUS), embedder=declared))
    queries = Queries(np.load(workdir / ASKED), SearchSettings(k=K, device="cpu"), coarse=coarse)
    clock, base = Clock(), 0
    best: list[list[tuple[float, int]]] = [[] for _ in range(len(queries))]
    for unit in corpus.units:
        with clock:
            opened = UnitVectors(unit, VectorLayout(table=False))
            search = Search(queries, ids=_numbers, threads=THREADS)
            for block in opened.blocks(search.block_rows):
                search.add(block.vectors, block.places)
            hits = search.finish()
        for query, row, score in zip(hits.query.tolist(), hits.row.tolist(), hits.score.tolist(), strict=True):
            best[query].append((-score, base + row))
        base += unit.rows or 0
    return [[row for _, row in sorted(result)[:K]] for result in best], clock


def _numbers(places: np.ndarray) -> list[str]:
    return [f"{place:012d}" for place in places.tolist()]


def faiss(workdir: Path, size: Size) -> Result:
    """IndexFlatIP, fed the same vectors in float32, a part of them at a time if they are many."""
    try:
        import faiss
    except ModuleNotFoundError as error:
        raise SkippedError("faiss is not installed: pip install remine[bench]") from error
    faiss.omp_set_num_threads(THREADS)
    corpus = np.load(workdir / CORPUS, mmap_mode="r")
    queries = np.load(workdir / ASKED).astype(np.float32)
    best: list[list[tuple[float, int]]] = [[] for _ in range(QUERIES)]
    clock = Clock()
    for first in range(0, len(corpus), FAISS_ROWS):
        index = faiss.IndexFlatIP(DIM)
        index.add(corpus[first : first + FAISS_ROWS].astype(np.float32))
        for _ in range(SCANS[size]):
            with clock:
                scores, rows = index.search(queries, K)
        for query in range(QUERIES):
            best[query] += zip((-scores[query]).tolist(), (rows[query] + first).tolist(), strict=True)
    return _result([[row for _, row in sorted(result)[:K]] for result in best], clock)


def product(workdir: Path, size: Size) -> Result:
    """The scores alone, as one float32 product of torch for a part of the vectors at a time; nothing is selected."""
    import torch

    torch.set_num_threads(THREADS)
    corpus = np.load(workdir / CORPUS, mmap_mode="r")
    queries = torch.from_numpy(np.load(workdir / ASKED).astype(np.float32)).T.contiguous()
    clock = Clock()
    for first in range(0, len(corpus), PRODUCT_ROWS):
        part = torch.from_numpy(corpus[first : first + PRODUCT_ROWS].astype(np.float32))
        scores = torch.empty((len(part), queries.shape[1]))
        for _ in range(SCANS[size]):
            with clock:
                torch.mm(part, queries, out=scores)
    return Result(rows=len(corpus), digest="", wall_s=clock.wall_s, cpu_s=clock.cpu_s)


def _result(result: list[list[int]], clock: Clock) -> Result:
    """Return a result whose digest ignores the order of rows in a query, because float32's rounding may change it."""
    value = "\n".join(" ".join(map(str, sorted(rows))) for rows in result)
    digest = hashlib.sha256(value.encode()).hexdigest()
    return Result(rows=sum(map(len, result)), digest=digest, wall_s=clock.wall_s, cpu_s=clock.cpu_s)


BENCHMARK = Benchmark(
    name="retrieve",
    about=__doc__,
    bound="the matrix product of queries and vectors, which `product` computes alone in float32",
    prepare=prepare,
    contenders=(
        Contender(name="faiss", function=f"{__name__}:faiss", about="IndexFlatIP on float32"),
        Contender(name="remine", function=f"{__name__}:remine", about="from float16, exact in float64"),
        Contender(name="float32", function=f"{__name__}:float32", about="the same without bfloat16"),
        Contender(name="product", function=f"{__name__}:product", compared=False, about="one float32 product"),
    ),
    reference="faiss",
    targets=(
        Target(metric="cpu_s", contender="faiss", against="remine", at_least=0.85),
        Target(metric="wall_s", contender="faiss", against="remine", at_least=0.85),
        Target(metric="cpu_s", contender="faiss", against="float32", at_least=0.85),
        Target(metric="wall_s", contender="remine", against="product", at_most=1.5),
        Target(metric="peak_mb", contender="remine", at_most=3000),
    ),
    packages=("faiss-cpu", "numpy", "torch"),
)
