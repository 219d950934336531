"""Rank the entities of a knowledge base that a picture shows -> table `links`.

    python -m jobs.link method=lemma_vision neighbors=R/near_pictures kb.path=R/kb kb.vectors=R/kb_lemmas \\
        pictures=R/embeddings out=R/links/lemma_vision
    python -m jobs.link method=frequency_vision neighbors=R/near_pictures kb.path=R/kb out=R/links/frequency
    python -m jobs.link method=lemma neighbors=R/near_lemmas kb.path=R/kb out=R/links/lemma

CAIRE's methods (sections 3.1, A.3, A.4). The vision ones take the nodes that the nearest pictures of the knowledge
base carry (neighbors: pictures searched in the knowledge base's pictures, k=20) and order them by lemma, by gloss or
by how many of the pictures carry them. The others search the texts of the whole knowledge base (neighbors: pictures
searched in the embedded R/kb/lemmas, glosses or articles, with k well above the nodes wanted: a node has several).
How often the right node is among the first: jobs.evaluate.
"""

import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.linking import (
    METHODS,
    SEVERAL,
    TEXT_METHODS,
    Link,
    LinkedText,
    Seen,
    by_frequency,
    by_similarity,
    by_text,
    candidates,
)
from jobs.corpora.vector_space import check_same_space, space_of
from jobs.errors import InputError, RunError
from jobs.retrieval.contamination import KnownPictures
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import Common, plain
from jobs.runtime.console import say
from jobs.runtime.progress import Reporter
from jobs.store import locations
from jobs.store.lookup import RowLookup
from jobs.store.reading import TableSource, open_table, read_unit
from jobs.store.run import TablePlan
from jobs.store.writer import UnitTask, UnitWriter
from jobs.tables import TABLES

TEXTS = {  # which texts of the knowledge base a method reads
    "lemma": "lemmas", "gloss": "glosses", "article": "articles", "lemma_vision": "lemmas", "gloss_vision": "glosses",
}  # fmt: skip
SHORT = "queries with fewer than k nodes"
UNKNOWN = "neighbors the knowledge base lacks"  # tally, one a query and neighbour
NEAR = "near pictures of the knowledge base"  # tally: by perceptual hash, not left out


@dataclass
class LinkedConfig:
    """The knowledge base, as jobs.kb wrote it."""

    path: str = MISSING  # the folder that jobs.kb wrote
    vectors: str | None = None  # its lemmas or glosses embedded, for lemma_vision and gloss_vision
    images: str | None = None  # its pictures, a table of images: contaminated=skip compares bytes, too
    hold_gb: float = 2.0  # a table of it up to this size is kept in a worker's memory, a larger one read once a unit


@dataclass
class LinkConfig(Common):
    """Keys of `link`."""

    neighbors: str = MISSING  # a table of neighbors (jobs.retrieve): of pictures, or of the knowledge base's texts
    kb: LinkedConfig = field(default_factory=LinkedConfig)
    method: str = "lemma_vision"  # lemma_vision, gloss_vision, frequency_vision, lemma, gloss or article
    pictures: str | None = None  # the queries' embeddings, for lemma_vision and gloss_vision
    k: int = 20  # nodes a picture
    nearest: int = 20  # pictures of the knowledge base that the vision methods look at (CAIRE: 20)
    several: str = "best"  # a node with several lemmas counts by the best, the mean or the first (lemma_vision)
    language: str = "en"  # of the lemma shown beside a node, where no lemma gave the score
    contaminated: str = "keep"  # skip: no links for a query that is a picture of the knowledge base
    images: str | None = None  # the queries' pictures, with kb.images


def execute(cfg: LinkConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    _check(cfg)
    near = open_table(cfg.neighbors, "neighbors")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    parts = {"nodes": "nodes", "node_images": "node_images"}
    if cfg.method in TEXTS:
        parts[TEXTS[cfg.method]] = "texts"
    kb = {part: open_table(locations.join(cfg.kb.path, part), table) for part, table in parts.items()}
    if cfg.method not in TEXT_METHODS and not kb["node_images"].rows:
        raise InputError(f"{cfg.kb.path}: the knowledge base has no pictures; method={cfg.method} needs them")
    vectors = _vectors(cfg)
    compared = {"images": cfg.images, "kb.images": cfg.kb.images}
    pictures = {name: open_table(uri, "images") for name, uri in compared.items() if uri is not None}
    plan = TablePlan(
        out=cfg.out,
        table="links",
        identity={
            "method": cfg.method,
            "k": cfg.k,
            "nearest": cfg.nearest,
            "several": cfg.several,
            "language": cfg.language,
            "contaminated": cfg.contaminated,
            "neighbors": near.identity,
            "kb": {part: source.identity for part, source in kb.items()},
            **{name: source.identity for name, source in (vectors | pictures).items()},
            **exclusions.identity(excluded),
        },
        units=near.units(),
        config=plain(cfg),
        metadata={"method": cfg.method},
        derived=True,
    )
    run = lifecycle.begin("link", cfg, plan, pools=["link"], note=cfg.method, streamed=False)
    if run is None:
        return None
    from jobs.runtime import stages

    settings = {name: getattr(cfg, name) for name in ("method", "k", "nearest", "several", "language")}
    lookups = _lookups(cfg, kb, vectors)
    known = KnownPictures(
        lookups["node_images"], pictures.get("images"), pictures.get("kb.images"), hold=int(cfg.kb.hold_gb * 2**30)
    )
    stage = stages.Stage(
        "link",
        LinkUnit,
        {
            **settings,
            "known": known if cfg.contaminated == "skip" else None,
            "lookups": lookups,
            "excluded": exclusions.keep(run, excluded),
        },
    )
    stages.process(run, name="link", stage=stage, resources=cfg.resources, total=near.rows, counted="rows")
    manifest = lifecycle.end("link", run, excluded)
    _check_known(cfg, near, manifest)
    if near_ones := manifest["counts"]["tallies"].get(NEAR):
        say(f"  {sum(near_ones.values()):,} pictures look like one of the knowledge base and are not left out")
    if unknown := manifest["counts"]["tallies"].get(UNKNOWN):
        say(f"  {sum(unknown.values()):,} of the neighbors are not in the knowledge base and were passed over")
    if short := manifest["counts"]["tallies"].get(SHORT):
        more = "k of the search" if cfg.method in TEXT_METHODS else "nearest= (and k of the search)"
        say(f"  {sum(short.values()):,} pictures have fewer than {cfg.k} nodes; a larger {more} finds more")
    return manifest


def _check(cfg: LinkConfig) -> None:
    for key, allowed in (("method", METHODS), ("several", SEVERAL), ("contaminated", ("keep", "skip"))):
        if getattr(cfg, key) not in allowed:
            raise InputError(f"{key}={getattr(cfg, key)}: one of {', '.join(allowed)}")
    if (cfg.images is None) != (cfg.kb.images is None):
        raise InputError("images= and kb.images= go together: the bytes of pictures are compared")
    if cfg.images is not None and cfg.contaminated != "skip":
        raise InputError("images=, kb.images=: are read for contaminated=skip alone")
    for key in ("k", "nearest"):
        if getattr(cfg, key) < 1:
            raise InputError(f"{key}={getattr(cfg, key)}: at least 1")
    if cfg.kb.hold_gb < 0:
        raise InputError(f"kb.hold_gb={cfg.kb.hold_gb:g}: at least 0")
    if cfg.several != "best" and cfg.method not in ("lemma_vision", "gloss_vision"):
        raise InputError(
            f"several={cfg.several}: for lemma_vision and gloss_vision; method={cfg.method} takes the best"
        )
    needs = cfg.method in ("lemma_vision", "gloss_vision")
    for key, given in (("pictures", cfg.pictures), ("kb.vectors", cfg.kb.vectors)):
        if needs and given is None:
            raise InputError(f"method={cfg.method} compares vectors: {key}= is required")
        if given is not None and not needs:
            raise InputError(f"{key}={given}: method={cfg.method} reads no vectors")


def _check_known(cfg: LinkConfig, near: TableSource, manifest: Mapping[str, Any]) -> None:
    """Refuse to call it done when neighbours and knowledge base have nothing in common.

    Raises:
        RunError: queries there were, and no link came of any.
    """
    counts = manifest["counts"]
    if not near.rows or counts["rows_out"] or any(counts["filtered"].values()):
        return
    if cfg.method in TEXT_METHODS:
        what = f"no neighbor is a text of {cfg.kb.path}/{TEXTS[cfg.method]}: method={cfg.method} needs a search there"
    else:
        what = f"no neighbor is a picture of a node of {cfg.kb.path}"
        if cfg.method in TEXTS:
            what += f", or {cfg.kb.vectors} has no vector of their {TEXTS[cfg.method]}"
    raise RunError(f"{locations.absolute(cfg.out)}: not one link was made; {what}")


def _vectors(cfg: LinkConfig) -> dict[str, TableSource]:
    if cfg.pictures is None or cfg.kb.vectors is None:
        return {}
    found = {"pictures": open_table(cfg.pictures, "embeddings"), "vectors": open_table(cfg.kb.vectors, "embeddings")}
    check_same_space((cfg.pictures, space_of(found["pictures"])), (cfg.kb.vectors, space_of(found["vectors"])))
    return found


def _lookups(
    cfg: LinkConfig, kb: Mapping[str, TableSource], vectors: Mapping[str, TableSource]
) -> dict[str, RowLookup]:
    hold = int(cfg.kb.hold_gb * 2**30)

    def lookup(source: TableSource, key: str, *columns: str) -> RowLookup:
        objects = [footer.object for footer in source.footers]
        return RowLookup(
            [o.uri for o in objects], key=key, columns=columns, size=sum(o.size for o in objects), hold=hold
        )

    made = {
        "nodes": lookup(kb["nodes"], "node_id", "lemmas"),
        "node_images": lookup(kb["node_images"], "image_id", "node_id"),
    }
    if cfg.method in TEXTS:
        key = "text_id" if cfg.method in TEXT_METHODS else "source"
        made["texts"] = lookup(kb[TEXTS[cfg.method]], key, "text_id", "source", "text")
    for name, source in vectors.items():
        made[name] = lookup(source, "item_id", "embedding", "status")
    return made


class LinkUnit:
    """Ranks nodes for the pictures of one unit of neighbors."""

    def __init__(
        self,
        *,
        method: str,
        k: int,
        nearest: int,
        several: str,
        language: str,
        known: KnownPictures | None,
        lookups: Mapping[str, RowLookup],
        excluded: str | None,
    ) -> None:
        self._method, self._k, self._nearest, self._several = method, k, nearest, several
        self._language, self._known, self._lookups = language, known, lookups
        self._excluded = exclusions.kept(excluded)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        rows = read_unit(task.unit.inputs[0].uri, columns=["query_id", "rank", "item_id", "score"])
        rows = rows.sort_by([("query_id", "ascending"), ("rank", "ascending")])
        near: dict[str, list[tuple[str, float]]] = defaultdict(list)
        columns = (rows[name].to_pylist() for name in ("query_id", "item_id", "score"))
        for query, item, score in zip(*columns, strict=True):
            near[query].append((item, score))
        for query in self._left_out(near, writer):
            del near[query]
        ranked = (self._by_text if self._method in TEXT_METHODS else self._by_vision)(near, writer)
        made = {query: links for query, links in ranked.items() if links}
        writer.counts.tallies[SHORT] = {"": sum(len(links) < self._k for links in ranked.values())}
        out = self._rows(made)
        writer.write(pa.Table.from_pylist(out, schema=TABLES["links"].schema()))
        writer.counts.rows_in = len(out) + sum(writer.counts.filtered.values())
        report.add(rows.num_rows)

    def _left_out(self, near: Mapping[str, object], writer: UnitWriter) -> list[str]:
        """Excluded queries, and if asked for those that are pictures of the knowledge base; counted."""
        excluded = [query for query in near if self._excluded.hit(query)]
        writer.counts.filtered["excluded"] = len(excluded)
        exclusions.count(writer.counts, self._excluded.take_matched())
        if self._known is None:
            return excluded
        found = self._known.among(set(near) - set(excluded))
        writer.counts.filtered["in_knowledge_base"] = len(found.by_id)
        writer.counts.filtered["bytes_in_knowledge_base"] = len(found.by_bytes)
        writer.counts.tallies[NEAR] = {"": len(found.near)} if found.near else {}
        return [*excluded, *found.by_id, *found.by_bytes]

    def _by_text(self, near: Mapping[str, Sequence[tuple[str, float]]], writer: UnitWriter) -> dict[str, list[Link]]:
        found = self._texts(item for hits in near.values() for item, _ in hits)
        _count_unknown(near, found, writer)
        return {
            query: by_text((LinkedText(found[item][0], item, score) for item, score in hits if item in found), self._k)
            for query, hits in near.items()
        }

    def _by_vision(self, near: Mapping[str, Sequence[tuple[str, float]]], writer: UnitWriter) -> dict[str, list[Link]]:
        pictures = {query: hits[: self._nearest] for query, hits in near.items()}
        wanted = pa.array([item for hits in pictures.values() for item, _ in hits], pa.string())
        carried = self._lookups["node_images"].rows(wanted)
        nodes: dict[str, list[str]] = defaultdict(list)
        for image, node in zip(carried["image_id"].to_pylist(), carried["node_id"].to_pylist(), strict=True):
            nodes[image].append(node)
        _count_unknown(pictures, nodes, writer)
        seen = {
            query: [Seen(tuple(nodes.get(item, ())), score) for item, score in hits] for query, hits in pictures.items()
        }
        if self._method == "frequency_vision":
            return {query: by_frequency(of, self._k) for query, of in seen.items()}
        asked = {query: candidates(of) for query, of in seen.items()}
        texts = self._embedded({node for of in asked.values() for node in of})
        queries = self._vectors_of("pictures", pa.array(list(asked), pa.string()))
        ranked = {}
        for query, of in asked.items():
            if query not in queries:  # without a vector there would be no neighbours; the tables do not belong together
                writer.counts.filtered["no_vector"] += 1
                continue
            named = {node: texts[node] for node in of if node in texts}
            ranked[query] = by_similarity(queries[query], named, self._k, several=self._several)
        return ranked

    def _texts(self, ids: Iterator[str]) -> dict[str, tuple[str, str]]:
        """text_id -> node and text."""
        rows = self._lookups["texts"].rows(pa.array(list(ids), pa.string()))
        columns = (rows[name].to_pylist() for name in ("text_id", "source", "text"))
        return {text_id: (node, text) for text_id, node, text in zip(*columns, strict=True)}

    def _embedded(self, nodes: set[str]) -> dict[str, list[tuple[str, np.ndarray]]]:
        """node -> its texts' ids and vectors, in the knowledge base's order; texts without a vector are left out."""
        rows = self._lookups["texts"].rows(pa.array(sorted(nodes), pa.string()))
        vectors = self._vectors_of("vectors", rows["text_id"].combine_chunks())
        made: dict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)
        for node, text in zip(rows["source"].to_pylist(), rows["text_id"].to_pylist(), strict=True):
            if text in vectors:
                made[node].append((text, vectors[text]))
        return made

    def _vectors_of(self, table: str, ids: pa.Array) -> dict[str, np.ndarray]:
        rows = self._lookups[table].rows(ids)
        rows = rows.filter(pc.equal(rows["status"], "ok"))
        if not rows.num_rows:
            return {}
        matrix = np.concatenate([chunk.flatten().to_numpy() for chunk in rows["embedding"].chunks])
        return dict(zip(rows["item_id"].to_pylist(), matrix.reshape(rows.num_rows, -1), strict=True))

    def _rows(self, ranked: Mapping[str, Sequence[Link]]) -> list[dict[str, Any]]:
        named = self._names(ranked)
        return [
            {
                "image_id": query,
                "method": self._method,
                "rank": rank,
                "node_id": link.node_id,
                "lemma": named.get(link.text_id or "") or named.get(link.node_id),
                "score": link.score,
            }
            for query, links in ranked.items()
            for rank, link in enumerate(links, 1)
        ]

    def _names(self, ranked: Mapping[str, Sequence[Link]]) -> dict[str, str]:
        """The lemma of each text that gave a score, where texts are lemmas, and a lemma of each node."""
        links = [link for of in ranked.values() for link in of]
        named = {}
        rows = self._lookups["nodes"].rows(pa.array(sorted({link.node_id for link in links}), pa.string()))
        for node, lemmas in zip(rows["node_id"].to_pylist(), rows["lemmas"].to_pylist(), strict=True):
            of = dict(lemmas)
            if first := of.get(self._language) or next(iter(of.values()), None):
                named[node] = first[0]
        if TEXTS.get(self._method) == "lemmas":
            if self._method == "lemma":
                ids = (link.text_id for link in links if link.text_id)
                named.update({text_id: text for text_id, (_, text) in self._texts(ids).items()})
            else:
                rows = self._lookups["texts"].rows(pa.array(sorted({link.node_id for link in links}), pa.string()))
                named.update(zip(rows["text_id"].to_pylist(), rows["text"].to_pylist(), strict=True))
        return named


def _count_unknown(near: Mapping[str, Sequence[tuple[str, float]]], there: Container[str], writer: UnitWriter) -> None:
    """Neighbours that are nothing of the knowledge base: a search of another one, or of a part that was left out."""
    if unknown := sum(item not in there for hits in near.values() for item, _ in hits):
        writer.counts.tallies[UNKNOWN] = {"": unknown}


JOB = cli.Job("link", LinkConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("link"))
