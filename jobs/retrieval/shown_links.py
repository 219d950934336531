"""The neighbours, links and nodes of a few pictures, for a page that shows how they were linked."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource


class ShownNeighbor(NamedTuple):
    """A picture of the knowledge base among the nearest ones."""

    rank: int
    item_id: str
    score: float


class ShownLink(NamedTuple):
    """A node in a method's ranking."""

    rank: int
    node_id: str
    lemma: str
    score: float


Places = tuple[str, str]  # picture, and name of the search or method
Neighbors = Mapping[Places, Sequence[ShownNeighbor]]
Links = Mapping[Places, Sequence[ShownLink]]


def read_neighbors(
    sources: Sequence[TableSource], pictures: Collection[str], *, nearest: int, exclusion_filter: ExclusionFilter
) -> Neighbors:
    """Return the nearest pictures of each of `pictures`, by the tables' names.

    Raises:
        InputError: two tables have the same name.
    """
    names = [_name(source) for source in sources]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two tables have the name {twice}, by which the page distinguishes them", key="neighbors")
    neighbors: dict[Places, list[ShownNeighbor]] = defaultdict(list)
    for name, source in zip(names, sources, strict=True):
        for row in _rows(source, "query_id", pictures, ["rank", "item_id", "score"]):
            if row["rank"] <= nearest and not exclusion_filter.hit(row["item_id"]):
                neighbors[row["query_id"], name].append(ShownNeighbor(row["rank"], row["item_id"], row["score"]))
    return {place: sorted(hits) for place, hits in neighbors.items()}


def read_links(sources: Sequence[TableSource], pictures: Collection[str], *, k: int) -> Links:
    """Return the first `k` nodes of each of `pictures`, by the links' method.

    If several tables have the same method, such as frequency_vision with several encoders, its name ends in the
    table's.
    """
    shown: dict[tuple[str, str, str], list[ShownLink]] = defaultdict(list)
    for source in sources:
        table = _name(source)
        for row in _rows(source, "image_id", pictures, ["method", "rank", "node_id", "lemma", "score"]):
            if row["rank"] <= k:
                link = ShownLink(row["rank"], row["node_id"], row["lemma"] or "", row["score"])
                shown[row["image_id"], row["method"], table].append(link)
    tables = Counter(method for method, _ in {(method, table) for _, method, table in shown})
    return {
        (image, f"{method}, {table}" if tables[method] > 1 else method): sorted(links)
        for (image, method, table), links in shown.items()
    }


def read_nodes(
    nodes: TableSource, node_images: TableSource, images: Collection[str], *, language: str = "en"
) -> dict[str, list[tuple[str, str]]]:
    """Return each image's nodes with a lemma of each, sorted by id, by image_id."""
    nodes_of: dict[str, list[str]] = defaultdict(list)
    for row in _rows(node_images, "image_id", images, ["node_id"]):
        nodes_of[row["image_id"]].append(row["node_id"])
    lemma_of = {}
    for row in _rows(nodes, "node_id", {node for some in nodes_of.values() for node in some}, ["lemmas"]):
        lemmas = dict(row["lemmas"] or ())
        in_language: list[str] = lemmas.get(language) or lemmas.get(language.upper()) or next(iter(lemmas.values()), [])
        lemma_of[row["node_id"]] = in_language[0] if in_language else ""
    return {image: [(node, lemma_of.get(node, "")) for node in sorted(some)] for image, some in nodes_of.items()}


def check_pictures(pictures: Sequence[str], neighbors: Neighbors, links: Links) -> None:
    """Refuse pictures that are in none of the tables.

    Raises:
        InputError: a picture has neither neighbours nor links; the message has an id that is in the tables.
    """
    present = {picture for picture, _ in (*neighbors, *links)}
    if missing := next((picture for picture in pictures if picture not in present), None):
        raise InputError(
            f"{missing} is in no table of neighbors= or links=; image_ids look like 3f2a9c…, as in the table of images",
            key="pictures",
        )


def _name(source: TableSource) -> str:
    return source.uri.rstrip("/").rsplit("/", 1)[-1]


def _rows(source: TableSource, key: str, wanted: Collection[str], columns: list[str]) -> Iterator[dict[str, Any]]:
    ids = pa.array(sorted(wanted), pa.string())
    for batch in source.batches([key, *columns]):
        yield from batch.filter(pc.is_in(batch[key], ids)).to_pylist()
