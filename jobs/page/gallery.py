"""The choice of pictures and items for the gallery: a sample, and the top pictures of each order of all pictures."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.status import Status
from jobs.analysis.report_tables import ReportTables
from jobs.analysis.standings import Standings
from jobs.html.formats import REGIONS
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

ITEMS_PER_PICTURE = 4  # cards per picture, so that pictures with many responses leave room for others
ITEM_COLUMNS = ["item_id", "kind", "image_ids", "text_ids", "response_id", "attributes"]


@dataclass(frozen=True)
class Gallery:
    """The contents of the gallery.

    Attributes:
        size: number of cards.
        pictures: image_ids of fetched pictures, beginning with those at the top of an order of all pictures.
        draws: image_id -> its place in the sample; cards are sorted by it.
        tops: name of an order -> image_ids of the pictures at its top.
        missing: status -> number of pictures that were not fetched and are not excluded.
        items_of: image_id -> rows of table `items` that show this picture, each under one picture only.
    """

    size: int = 0
    pictures: tuple[str, ...] = ()
    draws: Mapping[str, str] = field(default_factory=dict)
    tops: Mapping[str, Sequence[str]] = field(default_factory=dict)
    missing: Counter[str] = field(default_factory=Counter)
    items_of: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def items(self) -> list[Mapping[str, Any]]:
        """The rows of all items."""
        return [item for items in self.items_of.values() for item in items]

    @property
    def ids(self) -> set[str]:
        """The ids whose ratings the cards need."""
        return {*self.pictures, *(item["item_id"] for item in self.items)}


def choose(
    tables: ReportTables,
    size: int,
    exclusion_filter: ExclusionFilter,
    *,
    seed: int = 0,
    standings: Callable[[], Standings] | None = None,
) -> Gallery:
    """Return `size` pictures that are not excluded, and their items.

    A quarter of them have the widest disagreement of all pictures, a quarter the highest scores, and a quarter are some
    of every region. The others are a sample that depends only on ids and the seed: the pictures with the smallest
    hashes of seed and image_id or, with seed 0, the smallest image_ids, which are hashes themselves. Pictures that were
    not fetched are only counted.

    Args:
        standings: computes the disagreement and score of all items; called if there are more pictures than cards.
    """
    images = tables.corpus.get("images")
    if images is None or not size:
        return Gallery()
    missing, sample = Counter[str](), Best(size)
    share = size // TOPS if images.rows > size else 0
    order_of = {"disagreement": Best(share), "score": Best(share)}
    by_region: dict[str, Best] = {}
    values = picture_values(tables.items, standings()) if share and standings else None
    for batch in images.batches(["image_id", "source_url", "status"]):
        excluded = exclusion_filter.mask(batch["image_id"]) | exclusion_filter.mask(batch["source_url"])
        left = batch.filter(pa.array(~excluded))
        missing.update(status for status in left["status"].to_pylist() if status != Status.OK)
        ids = left.filter(pc.equal(left["status"], Status.OK.value))["image_id"]
        draws = _draws(ids, seed)
        sample.add(np.zeros(len(ids)), draws, ids.to_pylist())
        if values:
            disagreement, score, region = values.at(hash_texts(ids))
            order_of["disagreement"].add(-disagreement, draws, ids.to_pylist())
            order_of["score"].add(-score, draws, ids.to_pylist())
            for name in set(region) - {""}:
                of_region = np.where(np.array(region) == name, 0.0, np.nan)
                by_region.setdefault(name, Best(share)).add(of_region, draws, ids.to_pylist())
    tops = {name: best.ids for name, best in order_of.items()}
    tops["region"] = in_turn([by_region[name].ids for name in sorted(by_region)])[:share]
    tops = {name: ids for name, ids in tops.items() if ids}
    pictures = tuple(dict.fromkeys([*in_turn(list(tops.values())), *sample.ids]))[:size]
    draw_of = {image_id: draw for best in (sample, *order_of.values(), *by_region.values())
               for _, draw, image_id in best.rows}  # fmt: skip
    return Gallery(size, pictures, draw_of, tops, missing, _items(tables.items, pictures))


def _draws(ids: pa.ChunkedArray, seed: int) -> list[str]:
    if not seed:
        return [str(name) for name in ids.to_pylist()]
    seeded = pc.binary_join_element_wise(pa.scalar(str(seed)), ids, ":")
    return [f"{number:016x}" for number in hash_texts(seeded).tolist()]


def _items(sources: Sequence[TableSource], pictures: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each picture's items with the smallest ids, by image_id."""
    wanted, sampled = pa.array(pictures, pa.string()), set(pictures)
    items_of: dict[str, dict[str, dict[str, Any]]] = {}
    for source in sources:
        for batch in source.batches(ITEM_COLUMNS):
            column = batch["image_ids"].combine_chunks()
            shows = pc.is_in(pc.list_flatten(column), wanted)
            rows = np.unique(pc.list_parent_indices(column).filter(shows).to_numpy(zero_copy_only=False))
            for row in batch.take(pa.array(rows, pa.int64())).to_pylist():
                picture = next(image_id for image_id in row["image_ids"] if image_id in sampled)
                of_picture = items_of.setdefault(picture, {})
                of_picture.setdefault(row["item_id"], row)
                for surplus in sorted(of_picture)[ITEMS_PER_PICTURE:]:
                    del of_picture[surplus]
    return {picture: [items[name] for name in sorted(items)] for picture, items in items_of.items()}


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
