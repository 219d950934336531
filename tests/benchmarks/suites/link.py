"""Linking pictures by their 20 nearest ones in a knowledge base of BabelNet's form (CAIRE, `method=lemma_vision`).

The nearest pictures are drawn over the whole knowledge base, so that no unit's rows are near another's: the worst case
for reading. The nodes have one or two lemmas, the pictures one or two nodes.
"""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

SIZES: dict[Size, tuple[int, int]] = {  # nodes, pictures
    "smoke": (2_000, 512), "default": (100_000, 10_000), "full": (1_000_000, 100_000),
}  # fmt: skip
DIM, NEAREST, UNIT = 768, 20, 256
KB_UNIT = 20_000  # rows, as jobs.kb writes
UNITS_READ_ANEW = 2
FACTS = {"encoder": "random", "preprocessing": "none"}


def prepare(workdir: Path, size: Size) -> None:
    """Write the tables that `link` reads."""
    nodes, pictures = SIZES[size]
    kb = workdir / "kb"
    for start in range(0, nodes, KB_UNIT):
        part = range(start, min(start + KB_UNIT, nodes))
        unit, texts = f"{start:09}", [lemma for node in part for lemma in _lemmas(node)]
        names = [{"node_id": _node(n), "lemmas": [("EN", [text for _, _, text in _lemmas(n)])]} for n in part]
        _put(kb / "nodes", "nodes", unit, pa.Table.from_pylist(names, schema=_schema("nodes")))
        images = [{"node_id": _node(node), "image_id": _image(n)} for n in part for node in _nodes_of(n, nodes)]
        _put(kb / "node_images", "node_images", unit, pa.Table.from_pylist(images, schema=_schema("node_images")))
        rows = [{"text_id": name, "role": "lemma", "source": node, "text": text} for name, node, text in texts]
        _put(kb / "lemmas", "texts", unit, pa.Table.from_pylist(rows, schema=_schema("texts")))
        vectors = _vectors(start + 1, len(texts))
        _put(workdir / "vectors", "embeddings", unit, _embeddings([name for name, _, _ in texts], "text", vectors))
    for start in range(0, pictures, UNIT):
        queries = [f"q{number:031}" for number in range(start, min(start + UNIT, pictures))]
        unit, draw = f"{start:09}", np.random.default_rng([7, start])
        _put(workdir / "pictures", "embeddings", unit, _embeddings(queries, "image", _vectors(10**9 + start, UNIT)))
        near = draw.integers(0, nodes, (len(queries), NEAREST))
        neighbors: list[dict[str, Any]] = [
            {"query_id": query, "rank": rank, "item_id": _image(number), "score": 1 - rank / 100}
            for query, numbers in zip(queries, near.tolist(), strict=True)
            for rank, number in enumerate(dict.fromkeys(numbers), 1)
        ]
        _put(workdir / "near", "neighbors", unit, pa.Table.from_pylist(neighbors, schema=_schema("neighbors")))


def _node(number: int) -> str:
    return f"bn:{number:08}n"


def _image(number: int) -> str:
    return f"{number:032x}"


def _nodes_of(picture: int, nodes: int) -> list[int]:
    """Return the nodes of a picture: its own, and of every fifth picture another."""
    other = picture * 7 % nodes
    return [picture, other] if picture % 5 == 0 and other != picture else [picture]


def _lemmas(node: int) -> list[tuple[str, str, str]]:
    """text_id, node and text of a node's lemmas."""
    return [(f"{node:030x}{n:02x}", _node(node), f"lemma {n} of {node}") for n in range(2 if node % 4 == 0 else 1)]


def _vectors(seed: int, count: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).standard_normal((count, DIM), dtype=np.float32)
    return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float16)


def _embeddings(ids: Sequence[str], kind: str, vectors: np.ndarray) -> pa.Table:
    from jobs.tables import table

    schema = table("embeddings", dim=DIM).schema()
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors[: len(ids)].reshape(-1)), DIM)
    columns: Mapping[str, Any] = {
        "item_id": ids,
        "kind": [kind] * len(ids),
        "embedding": values,
        "status": ["ok"] * len(ids),
    }
    empty = pa.nulls(len(ids), pa.string())
    return pa.table([pa.array(columns[f.name], f.type) if f.name in columns else empty for f in schema], schema=schema)


def _schema(name: str) -> pa.Schema:
    from jobs.tables import table

    return table(name).schema()


def _put(out: Path, name: str, unit: str, rows: pa.Table) -> None:
    from jobs.store.units import Unit
    from jobs.store.writer import Target as Place
    from jobs.store.writer import UnitTask, UnitWriter

    place = Place(
        str(out), name, FACTS if name == "embeddings" else {}, "identity", {}, DIM if name == "embeddings" else None
    )
    with UnitWriter(place, UnitTask(Unit(unit, (), rows=rows.num_rows))) as writer:
        writer.counts.rows_in = rows.num_rows
        writer.write(rows)


def remine(workdir: Path, size: Size) -> Result:
    """The worker of `link`, unit after unit; the copies of the tables are part of the figures."""
    from actors.linking import LinkSettings
    from jobs.retrieval.linking import LinkedKbConfig, LinkUnit, open_link_tables
    from jobs.runtime.board import Reporter
    from jobs.store.reading import open_table
    from jobs.store.writer import Target as Place
    from jobs.store.writer import UnitTask, UnitWriter

    settings = LinkSettings(method="lemma_vision", k=20, nearest=NEAREST, lemma_aggregation="max", language="EN")
    kb = LinkedKbConfig(path=str(workdir / "kb"), vectors=str(workdir / "vectors"))
    tables = open_link_tables(settings, kb, pictures=str(workdir / "pictures"), images=None)
    lookups = tables.lookups()
    linker = LinkUnit(settings=settings, lookups=lookups, kb_pictures=None, excluded=None)
    place = Place(str(workdir / f"links-{time.time_ns()}"), "links", {}, "identity", {})
    began, units = _characters_read(), open_table(str(workdir / "near"), "neighbors").units()
    for unit in units:
        with UnitWriter(place, UnitTask(unit)) as writer:
            linker(UnitTask(unit), writer, Reporter(None, "link"))
    used = (lookups.nodes, lookups.node_images, lookups.texts, lookups.query_vectors, lookups.text_vectors)
    links = open_table(place.out, "links").batches(["image_id", "rank", "node_id", "lemma"])
    result = _result(tuple(row.values()) for rows in links for row in rows.to_pylist())
    result.apart["GB of tables copied"] = sum(lookup.bytes_read for lookup in used if lookup) / 1e9
    result.apart["GB read by calls"] = (_characters_read() - began) / 1e9
    return result


def brute_force(workdir: Path, size: Size) -> Result:
    """A loop over the pictures in float64, with all vectors in memory."""
    nodes, _ = SIZES[size]
    counts = np.array([len(_lemmas(node)) for node in range(nodes)])
    firsts = np.cumsum(counts) - counts
    vectors = np.empty((int(counts.sum()), DIM), np.float16)
    for start in range(0, nodes, KB_UNIT):
        first, stop = firsts[start], firsts[start] + counts[start : start + KB_UNIT].sum()
        vectors[first:stop] = _vectors(start + 1, int(stop - first))
    return _result(_brute_rows(workdir, vectors, firsts, counts))


def _brute_rows(
    workdir: Path, vectors: np.ndarray, firsts: np.ndarray, counts: np.ndarray
) -> Iterator[tuple[Any, ...]]:
    import pyarrow.parquet as pq

    nodes = len(counts)
    for file in sorted((workdir / "near").glob("*.parquet")):
        rows = pq.read_table(file, columns=["query_id", "rank", "item_id"]).to_pylist()
        own_values = pq.read_table(workdir / "pictures" / file.name, columns=["item_id", "embedding"])
        queries = dict(zip(own_values["item_id"].to_pylist(), own_values["embedding"].to_pylist(), strict=True))
        near: dict[str, set[int]] = {}
        for row in rows:
            near.setdefault(row["query_id"], set()).update(_nodes_of(int(row["item_id"], 16), nodes))
        for query, candidates in near.items():
            places = np.concatenate([np.arange(firsts[node], firsts[node] + counts[node]) for node in candidates])
            owner = np.repeat(list(candidates), counts[list(candidates)])
            scores = vectors[places].astype(np.float64) @ np.array(queries[query], np.float64)
            best: dict[int, tuple[float, int]] = {}
            for node, score, place in zip(owner.tolist(), scores.tolist(), places.tolist(), strict=True):
                best[node] = max(best.get(node, (-2.0, 0)), (score, -place))
            order = sorted(best, key=lambda node: (-best[node][0], node))[:20]
            for rank, node in enumerate(order, 1):
                yield query, rank, _node(node), _lemmas(node)[-best[node][1] - firsts[node]][2]


def read_anew(workdir: Path, size: Size) -> Result:
    """Measure the cost of reading the two largest tables once per unit, for two units."""
    from jobs.store.object_rows import RowLookup
    from jobs.store.reading import open_table

    nodes = np.random.default_rng(3).integers(0, SIZES[size][0], UNIT * NEAREST).tolist()  # of a unit's pictures
    ids = pa.array([text_id for node in nodes for text_id, _, _ in _lemmas(node)])
    began = _characters_read()
    tables = {
        "vectors": ("item_id", ["embedding", "status"]), "kb/lemmas": ("text_id", ["source", "text"]),
    }  # fmt: skip
    for _ in range(UNITS_READ_ANEW):
        for name, (key, columns) in tables.items():
            uris = [footer.object.uri for footer in open_table(str(workdir / name)).footers]
            RowLookup(uris, key=key, columns=columns).rows(ids)
    result = Result(rows=0, digest="")
    result.apart["GB read by calls, per unit"] = (_characters_read() - began) / 1e9 / UNITS_READ_ANEW
    return result


def _characters_read() -> int:
    """Bytes that this process asked the system for; pages of mapped files are not among them."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("rchar:")))


def _result(rows: Iterator[tuple[Any, ...]]) -> Result:
    """The number of links and a digest of them, whatever their order."""
    count, total = 0, 0
    for row in rows:
        count += 1
        total ^= int.from_bytes(hashlib.sha256(repr(row).encode()).digest()[:16], "big")
    return Result(rows=count, digest=f"{total:032x}")


BENCHMARK = Benchmark(
    name="link",
    about=__doc__,
    bound="reading the nodes of the nearest pictures, which are spread over all units",
    prepare=prepare,
    contenders=(
        Contender(name="brute", function=f"{__name__}:brute_force", about="a loop in float64 over vectors in memory"),
        Contender(name="remine", function=f"{__name__}:remine", about="one worker of jobs.link, copies included"),
        Contender(name="anew", function=f"{__name__}:read_anew", compared=False, about="reading per unit, two units"),
    ),
    reference="brute",
    targets=(Target(metric="peak_mb", contender="remine", at_most=4000),),
    repeats={"smoke": 1, "default": 1, "full": 1},
    packages=("numpy", "pyarrow"),
)
