"""Overlap of queries and knowledge base: pictures in both, by id, by bytes or by perceptual hash."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from jobs.curation import near
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource
from jobs.store.shared_lookup import SharedLookup


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
        self._queries = _lookup(queries, "image_id", ("sha256", "phash")) if queries else None
        self._digests = _lookup(pictures, "sha256", ()) if pictures else None
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
        is_near = near.has_near(near.parse_hashes([row["phash"] for row in others]), self._kb_phashes(), near.DISTANCE)
        similar = {row["image_id"] for row, hit in zip(others, is_near.tolist(), strict=True) if hit}
        return Overlap(sorted(same_id), sorted(same_bytes), sorted(similar))

    def _kb_phashes(self) -> np.ndarray:
        if self._phashes is None:
            columns = [read_unit(uri, columns=["phash"])["phash"].drop_null().to_pylist() for uri in self._uris]
            self._phashes = np.unique(np.concatenate([near.parse_hashes([]), *map(near.parse_hashes, columns)]))
        return self._phashes


def _lookup(source: TableSource, key: str, columns: Sequence[str]) -> SharedLookup:
    return SharedLookup([footer.object for footer in source.footers], key=key, columns=columns)


def _uris(source: TableSource) -> list[str]:
    return [footer.object.uri for footer in source.footers]
