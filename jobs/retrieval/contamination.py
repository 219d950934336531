"""Which query pictures are pictures of the knowledge base: the same id, the same bytes, or alike to the eye."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from jobs.store.lookup import RowLookup
from jobs.store.reading import TableSource, read_unit

NEAR_BITS = 4  # of a 64-bit perceptual hash, as near-duplicates of curate
_TEXT_BYTES = {"image_id": 40, "sha256": 72, "phash": 24}  # of a value in memory
_COMPARED_AT_ONCE = 1 << 22  # pairs of hashes


class Contaminated(NamedTuple):
    """Ids of queries, each in one of the three, the first that holds; in order."""

    by_id: list[str]
    by_bytes: list[str]
    near: list[str]


class KnownPictures:
    """The pictures of a knowledge base; picklable as long as nothing was asked."""

    def __init__(
        self, node_images: RowLookup, queries: TableSource | None, pictures: TableSource | None, *, hold: int
    ) -> None:
        """What queries are compared with.

        Args:
            node_images: by image_id.
            queries, pictures: tables `images` of the queries and of the knowledge base; None: only ids are compared.
            hold: bytes up to which a column is kept in memory.
        """
        self._node_images = node_images
        self._queries = _lookup(queries, "image_id", ("sha256", "phash"), hold) if queries else None
        self._hashes = _lookup(pictures, "sha256", (), hold) if pictures else None
        self._looks = _uris(pictures) if pictures else []
        self._known: np.ndarray | None = None  # uint64, distinct

    def among(self, queries: Collection[str]) -> Contaminated:
        """Which of these image_ids are, or look like, pictures of the knowledge base."""
        asked = pa.array(sorted(queries), pa.string())
        by_id = set(self._node_images.rows(asked)["image_id"].to_pylist())
        if self._queries is None or self._hashes is None:
            return Contaminated(sorted(by_id), [], [])
        rows = [row for row in self._queries.rows(asked).to_pylist() if row["image_id"] not in by_id]
        digests = pa.array([row["sha256"] for row in rows if row["sha256"]], pa.string())
        same = set(self._hashes.rows(digests)["sha256"].to_pylist())
        by_bytes = {row["image_id"] for row in rows if row["sha256"] in same}
        looks = [(row["image_id"], row["phash"]) for row in rows if row["phash"] and row["image_id"] not in by_bytes]
        return Contaminated(sorted(by_id), sorted(by_bytes), self._near(looks))

    def _near(self, looks: Sequence[tuple[str, str]]) -> list[str]:
        if self._known is None:
            read = [read_unit(uri, columns=["phash"])["phash"].to_pylist() for uri in self._looks]
            self._known = np.unique(np.concatenate([np.zeros(0, np.uint64), *map(_numbers, read)]))
        hashes = _numbers([phash for _, phash in looks])
        step = max(1, _COMPARED_AT_ONCE // max(len(hashes), 1))
        near = np.zeros(len(hashes), bool)
        for first in range(0, len(self._known), step):
            apart = np.bitwise_count(hashes[:, None] ^ self._known[None, first : first + step])
            near |= (apart <= NEAR_BITS).any(axis=1)
        return sorted({looks[place][0] for place in np.flatnonzero(near).tolist()})


def _lookup(source: TableSource, key: str, columns: Sequence[str], hold: int) -> RowLookup:
    size = source.rows * sum(_TEXT_BYTES[name] for name in (key, *columns))
    return RowLookup(_uris(source), key=key, columns=columns, size=size, hold=hold)


def _uris(source: TableSource) -> list[str]:
    return [footer.object.uri for footer in source.footers]


def _numbers(hashes: Sequence[str | None]) -> np.ndarray:
    """uint64 of hashes in hexadecimal digits; nulls are left out."""
    return np.array([int(each, 16) for each in hashes if each is not None], np.uint64)
