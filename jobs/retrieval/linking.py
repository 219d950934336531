"""Worker of `link` that ranks the nodes of a knowledge base for one unit of neighbors."""

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.errors import first_line
from actors.linking import (
    TEXT_METHODS,
    Link,
    LinkedText,
    LinkSettings,
    NearPicture,
    by_frequency,
    by_similarity,
    by_text,
    candidates,
)
from jobs.corpora.embeddings import check_same_space, space_of
from jobs.curation import near_hashes
from jobs.errors import InputError
from jobs.runtime.board import Reporter
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.object_rows import SharedLookup, distinct_values, first_values, read_unit
from jobs.store.reading import TableSource, open_table
from jobs.store.units import Unit
from jobs.store.writer import Reject, UnitTask, UnitWriter
from jobs.tables import TABLES


class Overlap(NamedTuple):
    """Sorted ids of queries; each query is in the first list that applies."""

    same_id: list[str]
    same_bytes: list[str]
    near_duplicates: list[str]


class KnowledgeBasePictures:
    """The pictures of a knowledge base; picklable until `overlap` is called.

    Args:
        node_images: lookup of the knowledge base's pictures by image_id.
        queries, pictures: tables `images` of the queries and of the knowledge base; None: compare ids only.
    """

    def __init__(self, node_images: SharedLookup, queries: TableSource | None, pictures: TableSource | None) -> None:
        self._node_images = node_images
        self._queries = _lookup(queries, "image_id", "sha256", "phash") if queries else None
        self._digests = _lookup(pictures, "sha256") if pictures else None
        self._uris = _uris(pictures) if pictures else []
        self._phashes: np.ndarray | None = None  # uint64, distinct

    def overlap(self, queries: Collection[str]) -> Overlap:
        """Return which of these image_ids are, or resemble, pictures of the knowledge base."""
        ids = pa.array(sorted(queries), pa.string())
        same_id = set(self._node_images.rows(ids)["image_id"].to_pylist())
        if self._queries is None or self._digests is None:
            return Overlap(sorted(same_id), [], [])
        rows = [row for row in self._queries.rows(ids).to_pylist() if row["image_id"] not in same_id]
        digests = pa.array([row["sha256"] for row in rows if row["sha256"]], pa.string())
        shared = set(self._digests.rows(digests)["sha256"].to_pylist())
        same_bytes = {row["image_id"] for row in rows if row["sha256"] in shared}
        others = [row for row in rows if row["phash"] and row["image_id"] not in same_bytes]
        is_near = near_hashes.has_near(
            near_hashes.parse_hashes([row["phash"] for row in others]), self._kb_phashes(), near_hashes.DISTANCE
        )
        similar = {row["image_id"] for row, hit in zip(others, is_near.tolist(), strict=True) if hit}
        return Overlap(sorted(same_id), sorted(same_bytes), sorted(similar))

    def _kb_phashes(self) -> np.ndarray:
        if self._phashes is None:
            columns = [read_unit(uri, columns=["phash"])["phash"].drop_null().to_pylist() for uri in self._uris]
            self._phashes = np.unique(
                np.concatenate([near_hashes.parse_hashes([]), *map(near_hashes.parse_hashes, columns)])
            )
        return self._phashes


@dataclass(frozen=True)
class LinkLookups:
    """Lookups of rows by key; None: the method does not read the table.

    The key of `texts` is text_id for the text methods and the node for the others.
    """

    nodes: SharedLookup
    node_images: SharedLookup
    texts: SharedLookup | None
    query_vectors: SharedLookup | None
    text_vectors: SharedLookup | None


# Tallies in a unit's footer.
SHORT = "queries with fewer than k nodes"
UNKNOWN = "neighbors that the knowledge base lacks"  # counted once per query and neighbour
NEAR = "near pictures of the knowledge base"  # by perceptual hash; these queries are kept

Hits = Mapping[str, Sequence[tuple[str, float]]]  # neighbours of each query with their scores, best first


class LinkUnit:
    """Ranks nodes for the pictures in one unit of neighbors.

    Args:
        kb_pictures: pictures to drop from the queries; None: keep all queries.
        excluded: URI of the list of exclusions; None if there is none.
    """

    def __init__(
        self,
        *,
        settings: LinkSettings,
        lookups: LinkLookups,
        kb_pictures: KnowledgeBasePictures | None,
        excluded: str | None,
    ) -> None:
        self._settings, self._lookups, self._kb_pictures = settings, lookups, kb_pictures
        self._excluded = exclusions.load(excluded)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Write the links of the unit's queries, and count filtered queries and unknown neighbours.

        A limit keeps the first queries of the unit, with all their neighbours.
        """
        neighbors = read_unit(task.unit.inputs[0].uri, columns=["query_id", "rank", "item_id", "score"])
        neighbors = first_values(neighbors, "query_id", task.unit.limit)
        neighbors = neighbors.sort_by([("query_id", "ascending"), ("rank", "ascending")])
        hits: dict[str, list[tuple[str, float]]] = defaultdict(list)
        columns = (neighbors[name].to_pylist() for name in ("query_id", "item_id", "score"))
        for query, item, score in zip(*columns, strict=True):
            hits[query].append((item, score))
        for query in self._filtered(hits, writer):
            del hits[query]
        ranked = (self._by_text if self._settings.method in TEXT_METHODS else self._by_vision)(hits, writer)
        writer.counts.tallies[SHORT] = {"": sum(len(links) < self._settings.k for links in ranked.values())}
        rows = self._rows({query: links for query, links in ranked.items() if links})
        writer.write(schemas.to_table(rows, TABLES["links"].schema()))
        counts = writer.counts
        counts.rows_in = len(rows) + counts.filtered.total() + counts.rejected.total()
        report.add(neighbors.num_rows)

    def _filtered(self, hits: Hits, writer: UnitWriter) -> list[str]:
        """Return and count the queries to drop: excluded ones, and pictures of the knowledge base (`kb_pictures`)."""
        excluded = [query for query in hits if self._excluded.hit(query)]
        writer.counts.filtered["excluded"] = len(excluded)
        exclusions.count(writer.counts, self._excluded.take_matched())
        if self._kb_pictures is None:
            return excluded
        overlap = self._kb_pictures.overlap(set(hits) - set(excluded))
        writer.counts.filtered["in_knowledge_base"] = len(overlap.same_id)
        writer.counts.filtered["bytes_in_knowledge_base"] = len(overlap.same_bytes)
        writer.counts.tallies[NEAR] = {"": len(overlap.near_duplicates)} if overlap.near_duplicates else {}
        return [*excluded, *overlap.same_id, *overlap.same_bytes]

    def _by_text(self, hits: Hits, writer: UnitWriter) -> dict[str, list[Link]]:
        texts = self._texts(item for neighbors in hits.values() for item, _ in neighbors)
        _count_unknown(hits, texts, writer)

        def rank(query: str) -> list[Link]:
            linked = (LinkedText(texts[item][0], item, score) for item, score in hits[query] if item in texts)
            return by_text(linked, self._settings.k)

        return _each(hits, rank, writer)

    def _by_vision(self, hits: Hits, writer: UnitWriter) -> dict[str, list[Link]]:
        nearest = {query: neighbors[: self._settings.nearest] for query, neighbors in hits.items()}
        ids = pa.array([item for neighbors in nearest.values() for item, _ in neighbors], pa.string())
        rows = self._lookups.node_images.rows(ids)
        nodes: dict[str, list[str]] = defaultdict(list)
        for image, node in zip(rows["image_id"].to_pylist(), rows["node_id"].to_pylist(), strict=True):
            nodes[image].append(node)
        _count_unknown(nearest, nodes, writer)
        pictures = {
            query: [NearPicture(tuple(nodes.get(item, ())), score) for item, score in neighbors]
            for query, neighbors in nearest.items()
        }
        if self._settings.method == "frequency_vision":
            return _each(pictures, lambda query: by_frequency(pictures[query], self._settings.k), writer)
        return self._by_similarity({query: candidates(near) for query, near in pictures.items()}, writer)

    def _by_similarity(self, nodes: Mapping[str, list[str]], writer: UnitWriter) -> dict[str, list[Link]]:
        """Return the links of each query: its candidates in `nodes`, ranked by the similarity of their texts' vectors.

        Queries without a vector are left out and counted in `writer`.
        """
        texts = self._text_vectors({node for candidate in nodes.values() for node in candidate})
        queries = _vectors(self._lookups.query_vectors, pa.array(list(nodes), pa.string()))
        # Each query of the search had a vector, so a query without one shows that `pictures` is another table.
        writer.counts.filtered["no_vector"] += len(nodes.keys() - queries.keys())

        def rank(query: str) -> list[Link]:
            vectors = {node: texts[node] for node in nodes[query] if node in texts}
            aggregation = self._settings.lemma_aggregation
            return by_similarity(queries[query], vectors, self._settings.k, aggregation=aggregation)

        return _each((query for query in nodes if query in queries), rank, writer)

    def _texts(self, ids: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return text_id -> (node, text)."""
        assert self._lookups.texts is not None
        rows = self._lookups.texts.rows(pa.array(list(ids), pa.string()))
        columns = (rows[name].to_pylist() for name in ("text_id", "source", "text"))
        return {text_id: (node, text) for text_id, node, text in zip(*columns, strict=True)}

    def _text_vectors(self, nodes: set[str]) -> dict[str, list[tuple[str, np.ndarray]]]:
        """Return the ids and vectors of each node's texts, in the knowledge base's order; only texts with a vector."""
        assert self._lookups.texts is not None
        rows = self._lookups.texts.rows(pa.array(sorted(nodes), pa.string()))
        vectors = _vectors(self._lookups.text_vectors, rows["text_id"].combine_chunks())
        by_node: dict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)
        for node, text in zip(rows["source"].to_pylist(), rows["text_id"].to_pylist(), strict=True):
            if text in vectors:
                by_node[node].append((text, vectors[text]))
        return by_node

    def _rows(self, ranked: Mapping[str, Sequence[Link]]) -> list[dict[str, Any]]:
        lemmas = self._lemmas([link for links in ranked.values() for link in links])
        return [
            {
                "image_id": query,
                "method": self._settings.method,
                "rank": rank,
                "node_id": link.node_id,
                "lemma": lemmas.get(link.text_id or "") or lemmas.get(link.node_id),
                "score": link.score,
            }
            for query, links in ranked.items()
            for rank, link in enumerate(links, 1)
        ]

    def _lemmas(self, links: Sequence[Link]) -> dict[str, str]:
        """Return a lemma by node_id and, if the method scores lemmas, the lemma by text_id."""
        nodes = pa.array(sorted({link.node_id for link in links}), pa.string())
        rows = self._lookups.nodes.rows(nodes)
        lemmas = {}
        for node, by_language in zip(rows["node_id"].to_pylist(), rows["lemmas"].to_pylist(), strict=True):
            languages = dict(by_language)
            if in_language := languages.get(self._settings.language) or next(iter(languages.values()), None):
                lemmas[node] = in_language[0]
        if self._settings.method == "lemma":
            texts = self._texts(link.text_id for link in links if link.text_id)
            lemmas |= {text_id: text for text_id, (_, text) in texts.items()}
        elif TEXT_TABLES.get(self._settings.method) == "lemmas":
            assert self._lookups.texts is not None
            rows = self._lookups.texts.rows(nodes)
            lemmas |= dict(zip(rows["text_id"].to_pylist(), rows["text"].to_pylist(), strict=True))
        return lemmas


def _each(queries: Iterable[str], rank: Callable[[str], list[Link]], writer: UnitWriter) -> dict[str, list[Link]]:
    """Return the links of each query; a query for which `rank` raises becomes a reject."""
    ranked = {}
    for number, query in enumerate(queries):
        try:
            ranked[query] = rank(query)
        except Exception as error:
            writer.reject(Reject(query, number, type(error).__name__, first_line(error)))
    return ranked


def queries_in(unit: Unit) -> int:
    """Return the number of queries in a unit of neighbors."""
    return distinct_values(unit.inputs[0].uri, "query_id")


def _vectors(lookup: SharedLookup | None, ids: pa.Array) -> dict[str, np.ndarray]:
    """Return the vectors [dim] of the ids with an ok vector, by id."""
    assert lookup is not None
    rows = lookup.rows(ids)
    rows = rows.filter(pc.equal(rows["status"], "ok"))
    if not rows.num_rows:
        return {}
    matrix = np.concatenate([chunk.flatten().to_numpy() for chunk in rows["embedding"].chunks])
    return dict(zip(rows["item_id"].to_pylist(), matrix.reshape(rows.num_rows, -1), strict=True))


def _count_unknown(hits: Hits, ids: Container[str], writer: UnitWriter) -> None:
    """Count neighbours that are not among `ids`, since the search used another or an earlier knowledge base."""
    if unknown := sum(item not in ids for neighbors in hits.values() for item, _ in neighbors):
        writer.counts.tallies[UNKNOWN] = {"": unknown}


TEXT_TABLES = {  # the table of the knowledge base's texts that each method reads
    "lemma": "lemmas", "gloss": "glosses", "article": "windows", "lemma_vision": "lemmas", "gloss_vision": "glosses",
}  # fmt: skip


@dataclass
class LinkedKbConfig:
    """The knowledge base that remine kb wrote."""

    path: str = MISSING  # the folder that remine kb wrote
    vectors: str | None = None  # embeddings of its lemmas or glosses, for lemma_vision and gloss_vision
    images: str | None = None  # its pictures, a table of images: contaminated=skip also compares bytes


@dataclass(frozen=True)
class LinkTables:
    """Opened tables: `kb` by part, `vectors` of `pictures` and `texts`, and `images` of `queries` and `kb`, if set."""

    method: str
    kb: Mapping[str, TableSource]
    vectors: Mapping[str, TableSource]
    images: Mapping[str, TableSource]

    @property
    def identity(self) -> dict[str, Any]:
        """The tables' part of the identity of `links`."""
        parts = {"kb": self.kb, "vectors": self.vectors, "images": self.images}
        return {name: {key: source.identity for key, source in tables.items()} for name, tables in parts.items()}

    def lookups(self) -> LinkLookups:
        """Return lookups of the tables' rows."""
        texts = None
        if self.method in TEXT_TABLES:
            key = "text_id" if self.method in TEXT_METHODS else "source"
            texts = _lookup(self.kb[TEXT_TABLES[self.method]], key, "text_id", "source", "text")
        vectors = {name: _lookup(source, "item_id", "embedding", "status") for name, source in self.vectors.items()}
        return LinkLookups(
            nodes=_lookup(self.kb["nodes"], "node_id", "lemmas"),
            node_images=_lookup(self.kb["node_images"], "image_id", "node_id"),
            texts=texts,
            query_vectors=vectors.get("pictures"),
            text_vectors=vectors.get("texts"),
        )

    def kb_pictures(self, lookups: LinkLookups) -> KnowledgeBasePictures:
        """Return the knowledge base's pictures, for finding queries among them."""
        queries, pictures = self.images.get("queries"), self.images.get("kb")
        return KnowledgeBasePictures(lookups.node_images, queries, pictures)


def open_link_tables(
    settings: LinkSettings, kb: LinkedKbConfig, *, pictures: str | None, images: str | None
) -> LinkTables:
    """Open the tables that `settings.method` reads.

    Args:
        pictures: the queries' embeddings.
        images: the queries' pictures.

    Raises:
        InputError: a table cannot be read, the method needs pictures but the knowledge base has none, or the vectors
            come from different encoders.
    """
    parts = {"nodes": "nodes", "node_images": "node_images"}
    if settings.method in TEXT_TABLES:
        parts[TEXT_TABLES[settings.method]] = "texts"
    tables = {part: open_table(locations.join(kb.path, part), table, key="kb.path") for part, table in parts.items()}
    if settings.method not in TEXT_METHODS and not tables["node_images"].rows:
        why = f"the knowledge base has no pictures; method={settings.method} needs them"
        raise InputError(why, key="kb.path", value=kb.path)
    vectors: dict[str, TableSource] = {}
    if pictures is not None and kb.vectors is not None:
        vectors = {
            "pictures": open_table(pictures, "embeddings", key="pictures"),
            "texts": open_table(kb.vectors, "embeddings", key="kb.vectors"),
        }
        check_same_space((pictures, space_of(vectors["pictures"])), (kb.vectors, space_of(vectors["texts"])))
    images_of = {"queries": ("images", images), "kb": ("kb.images", kb.images)}
    return LinkTables(
        settings.method,
        tables,
        vectors,
        {name: open_table(uri, "images", key=key) for name, (key, uri) in images_of.items() if uri},
    )


def _lookup(source: TableSource, key: str, *columns: str) -> SharedLookup:
    return SharedLookup([footer.object for footer in source.footers], key=key, columns=columns)


def _uris(source: TableSource) -> list[str]:
    return [footer.object.uri for footer in source.footers]
