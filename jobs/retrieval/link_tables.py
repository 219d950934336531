"""The tables that `link` reads, knowledge base, vectors and pictures, and lookups of their rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from actors.linking import TEXT_METHODS, LinkSettings
from jobs.corpora.vector_space import check_same_space, space_of
from jobs.errors import InputError
from jobs.retrieval.contamination import KnowledgeBasePictures
from jobs.store.files import locations
from jobs.store.reading import TableSource, open_table
from jobs.store.shared_lookup import SharedLookup

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
class LinkLookups:
    """Lookups of rows by key; None: the method does not read the table.

    The key of `texts` is text_id for the text methods and the node for the others.
    """

    nodes: SharedLookup
    node_images: SharedLookup
    texts: SharedLookup | None
    query_vectors: SharedLookup | None
    text_vectors: SharedLookup | None


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
    tables = {part: open_table(locations.join(kb.path, part), table) for part, table in parts.items()}
    if settings.method not in TEXT_METHODS and not tables["node_images"].rows:
        raise InputError(f"kb.path={kb.path}: the knowledge base has no pictures; method={settings.method} needs them")
    vectors: dict[str, TableSource] = {}
    if pictures is not None and kb.vectors is not None:
        vectors = {"pictures": open_table(pictures, "embeddings"), "texts": open_table(kb.vectors, "embeddings")}
        check_same_space((pictures, space_of(vectors["pictures"])), (kb.vectors, space_of(vectors["texts"])))
    uris = {"queries": images, "kb": kb.images}
    return LinkTables(
        settings.method, tables, vectors, {name: open_table(uri, "images") for name, uri in uris.items() if uri}
    )


def _lookup(source: TableSource, key: str, *columns: str) -> SharedLookup:
    return SharedLookup([footer.object for footer in source.footers], key=key, columns=columns)
