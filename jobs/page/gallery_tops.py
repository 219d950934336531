"""The top pictures of each order of all pictures; a gallery shows some of them besides its sample."""

from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.analysis.standings import Standings
from jobs.html.regions import REGIONS
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

TOPS = 4  # each of three orders gets 1 / TOPS of the gallery, the sample at least the same

Floats = NDArray[np.float64]


class Best:
    """The `n` pictures with the smallest values; ties are broken by the smallest draws, and NaN is ignored."""

    def __init__(self, n: int) -> None:
        self._n = n
        self.rows: list[tuple[float, str, str]] = []  # value, draw, image_id

    def add(self, values: Floats, draws: Sequence[str], ids: Sequence[str]) -> None:
        """Add pictures, one per value."""
        if not self._n or not len(values):
            return
        order = np.lexsort((np.array(draws), values))[: self._n]
        added = ((float(values[row]), draws[row], ids[row]) for row in order.tolist() if not np.isnan(values[row]))
        self.rows = sorted({*self.rows, *added})[: self._n]

    @property
    def ids(self) -> list[str]:
        """The image_ids, best first."""
        return [image_id for _, _, image_id in self.rows]


class PictureValues(NamedTuple):
    """Disagreement, score and region of pictures and their items, by the hash of the picture's id."""

    standings: Standings
    image: Hashes
    disagreement: Floats
    score: Floats
    region: NDArray[np.int64]
    regions: list[str]

    def at(self, images: Hashes) -> tuple[Floats, Floats, list[str]]:
        """Return the largest disagreement and score of a picture's items (NaN if unknown), and its region or ""."""
        disagreement, score = self.standings.of(images)
        if not len(self.image):
            return disagreement, score, [""] * len(images)
        place = np.minimum(np.searchsorted(self.image, images), len(self.image) - 1)
        present = self.image[place] == images
        disagreement = np.fmax(disagreement, np.where(present, self.disagreement[place], np.nan))
        score = np.fmax(score, np.where(present, self.score[place], np.nan))
        codes = np.where(present, self.region[place], -1)
        return disagreement, score, [self.regions[code] if code >= 0 else "" for code in codes.tolist()]


def picture_values(items: Sequence[TableSource], standings: Standings) -> PictureValues:
    """Return the values of the first picture of each item, in memory that grows with the items: 32 bytes each."""
    images, disagreements, scores, codes = [np.zeros(0, np.uint64)], [np.zeros(0)], [np.zeros(0)], [np.zeros(0, int)]
    regions: dict[str, int] = {}
    for source in items:
        for rows in source.batches(["item_id", "image_ids", "attributes"]):
            batch = rows.filter(pc.greater(pc.fill_null(pc.list_value_length(rows["image_ids"]), 0), 0))
            if not batch.num_rows:
                continue
            first = pc.list_element(batch["image_ids"], 0)
            names = pc.coalesce(*(_attribute(batch["attributes"], name) for name in REGIONS), pa.scalar(""))
            images.append(hash_texts(first))
            for values, added in zip((disagreements, scores), standings.of(hash_texts(batch["item_id"])), strict=True):
                values.append(added)
            coded = [regions.setdefault(name, len(regions)) if name else -1 for name in names.to_pylist()]
            codes.append(np.array(coded, int))
    image, row = np.unique(np.concatenate(images), return_inverse=True)
    disagreement, score = np.full(len(image), np.nan), np.full(len(image), np.nan)
    np.fmax.at(disagreement, row, np.concatenate(disagreements))
    np.fmax.at(score, row, np.concatenate(scores))
    region = np.full(len(image), -1)
    np.maximum.at(region, row, np.concatenate(codes))
    return PictureValues(standings, image, disagreement, score, region, list(regions))


def _attribute(attributes: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Return an attribute of each item; null if it is empty or absent."""
    value = pc.map_lookup(attributes, pa.scalar(name), "first")
    return pc.if_else(pc.equal(value, ""), pa.scalar(None, pa.string()), value)


def in_turn(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the distinct elements of the lists, taking one from each list in turn."""
    return list(dict.fromkeys(name for name in chain.from_iterable(zip_longest(*lists)) if name is not None))
