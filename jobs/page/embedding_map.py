"""A map of the gallery's pictures: their vectors along the two directions of largest variance."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.status import Status
from jobs.corpora.vectors import matrix_of
from jobs.html.thumbnails import Thumbnail, thumbnail
from jobs.page.model import EmbeddingMap, GalleryPicture, MapPoint
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

FITTED = 5000  # pictures that determine the directions
SIDE = 56  # pixels of a picture on the map
LEAST = 3  # fewest pictures of a map

Vectors = NDArray[np.float32]


def principal_axes(vectors: Vectors) -> tuple[Vectors, Vectors, tuple[float, float]]:
    """Return the mean [dim], the first two principal axes [2, dim] and their shares of the variance, 0 to 1.

    The component of each axis with the largest absolute value is positive, so that the same vectors give the same map.
    """
    mean = vectors.mean(axis=0)
    values, axes = np.linalg.eigh(np.cov(vectors - mean, rowvar=False).astype(np.float64))
    first = axes[:, [-1, -2]].T
    first *= np.sign(first[np.arange(2), np.abs(first).argmax(axis=1)])[:, None]
    total = values.clip(0).sum()
    x, y = (float(max(values[-number], 0) / total) if total > 0 else 0.0 for number in (1, 2))
    return mean, first.astype(np.float32), (x, y)


def embedding_map(
    source: TableSource, cards: Sequence[GalleryPicture], exclusion_filter: ExclusionFilter
) -> EmbeddingMap | None:
    """Return the places of the cards' first pictures by their vectors; None with fewer than three vectors.

    The axes are fitted to at most `FITTED` pictures that are not excluded, those whose ids have the smallest hashes.
    """
    small_of = {card.image_id: card.thumbnails[0] for card in reversed(cards) if card.thumbnails}
    ids, vectors, sample = _read(source, list(small_of), exclusion_filter)
    if len(ids) < LEAST or vectors.shape[1] < 2:
        return None
    mean, axes, shares = principal_axes(sample)
    places = (vectors - mean) @ axes.T
    low, width = places.min(axis=0), np.ptp(places, axis=0)
    places = (places - low) / np.where(width > 0, width, 1)
    points = [
        MapPoint(image_id, float(x), float(y), _smaller(small_of[image_id]))
        for image_id, (x, y) in zip(ids, places, strict=True)
    ]
    return EmbeddingMap(points, len(sample), source.metadata.get("remine.encoder", ""), shares)


def _smaller(picture: Thumbnail) -> Thumbnail:
    return thumbnail(picture.data, side=SIDE)[0] or picture


def _read(
    source: TableSource, wanted: Sequence[str], exclusion_filter: ExclusionFilter
) -> tuple[list[str], Vectors, Vectors]:
    """Return the ids among `wanted` that have vectors, in order, their vectors, and the vectors of the sample."""
    vector_of: dict[str, Vectors] = {}
    hashes: Hashes = np.zeros(0, np.uint64)
    sample: Vectors = np.zeros((0, 0), np.float32)
    for batch in source.batches(["item_id", "kind", "embedding", "status"]):
        usable = pc.and_(pc.equal(batch["kind"], "image"), pc.equal(batch["status"], Status.OK.value))
        rows = batch.filter(pc.and_(usable, pa.array(~exclusion_filter.mask(batch["item_id"]))))
        for ids, column in zip(rows["item_id"].chunks, rows["embedding"].chunks, strict=True):
            vectors = matrix_of(column).astype(np.float32)
            for row in np.flatnonzero(pc.is_in(ids, pa.array(wanted, pa.string())).to_numpy(zero_copy_only=False)):
                vector_of.setdefault(ids[int(row)].as_py(), vectors[row])
            hashes = np.concatenate([hashes, hash_texts(ids)])
            sample = np.concatenate([sample.reshape(-1, vectors.shape[1]), vectors])
            kept = np.argsort(hashes, kind="stable")[:FITTED]
            hashes, sample = hashes[kept], sample[kept]
    mapped = sorted(vector_of)
    return mapped, np.array([vector_of[name] for name in mapped], np.float32).reshape(len(vector_of), -1), sample
