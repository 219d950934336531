"""Pairs of a picture and a linked entity that people review, with the texts and pictures of the entities."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import content_id
from jobs.annotation.form import is_web
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource

MAX_PAIRS = 100_000  # more than people can judge
LEMMAS = 5  # most lemmas of a node in an item's text
OPENING_WORDS = 40  # of the node's article in an item's text


def pairs(
    sources: Iterable[TableSource], ranks: int, exclusion_filter: ExclusionFilter, *, limit: int | None = None
) -> dict[tuple[str, str], dict[str, int]]:
    """Return the ranks by method of the best `ranks` links of each picture, by (image_id, node_id).

    Args:
        limit: number of pictures, counted from the first in the order of the tables; None: all.
    """
    pictures: dict[str, None] = {}
    ranks_of: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for source in sources:
        for batch in source.batches(["image_id", "method", "rank", "node_id"]):
            if limit is not None:  # the same pictures for every method, so that methods can be compared
                pictures |= dict.fromkeys(pc.unique(batch["image_id"]).to_pylist())
                pictures = dict.fromkeys(islice(pictures, limit))
            for row in batch.filter(pc.less_equal(batch["rank"], ranks)).to_pylist():
                if limit is not None and row["image_id"] not in pictures:
                    continue
                if not exclusion_filter.hit(row["image_id"]):
                    ranks_of[row["image_id"], row["node_id"]][row["method"]] = row["rank"]
            if len(ranks_of) > MAX_PAIRS:
                raise InputError(f"links=: more than {MAX_PAIRS:,} pairs, too many for people; link fewer pictures")
    if not ranks_of:
        raise InputError("links=: the tables have no links to review; see ranks= and exclusions=")
    return ranks_of


def texts(kb: Mapping[str, TableSource], wanted: set[str], language: str) -> dict[str, dict[str, Any]]:
    """Return rows of `texts` by node_id."""
    ids = pa.array(sorted(wanted), pa.string())
    rows = [row for batch in kb["nodes"].batches() for row in batch.filter(pc.is_in(batch["node_id"], ids)).to_pylist()]
    article_of = {row["node_id"]: _in_language(dict(row["article_text_ids"] or []), language) for row in rows}
    opening = pa.array(sorted(set(article_of.values()) - {""}), pa.string())
    articles = {
        row["text_id"]: " ".join(row["text"].split()[:OPENING_WORDS])
        for batch in kb["articles"].batches(["text_id", "text"])
        for row in batch.filter(pc.is_in(batch["text_id"], opening)).to_pylist()
    }
    rows_of_nodes = {}
    for row in rows:
        parts = [_lemmas(dict(row["lemmas"] or []), language), _in_language(dict(row["glosses"] or []), language)]
        parts.append(f"{article} …" if (article := articles.get(article_of[row["node_id"]])) else "")
        text = "\n\n".join(part for part in parts if part) or row["node_id"]
        rows_of_nodes[row["node_id"]] = {
            "text_id": content_id("entity", row["node_id"], text),
            "role": "reference",
            "language": language,
            "date": None,
            "source": row["node_id"],
            "revision": None,
            "text": text,
        }
    return rows_of_nodes


def _lemmas(lemmas: Mapping[str, list[str]], language: str) -> str:
    """Return up to LEMMAS distinct names of a node, first those in `language`."""
    ordered = [*lemmas.get(language, []), *(name for code in sorted(lemmas) for name in lemmas[code])]
    return "; ".join(list(dict.fromkeys(ordered))[:LEMMAS])


def _in_language(values: Mapping[str, str], language: str) -> str:
    """Return the value in `language`, else in the node's first language."""
    return values.get(language) or next((values[code] for code in sorted(values)), "")


def pictures(
    kb: Mapping[str, TableSource], nodes: set[str], exclusion_filter: ExclusionFilter
) -> dict[str, list[tuple[str, str]]]:
    """Return (image_id, web address) of each node's pictures that are not excluded, by node_id, sorted by image_id."""
    wanted = pa.array(sorted(nodes), pa.string())
    nodes_of: dict[str, set[str]] = defaultdict(set)
    for batch in kb["node_images"].batches(["node_id", "image_id"]):
        for row in batch.filter(pc.is_in(batch["node_id"], wanted)).to_pylist():
            if not exclusion_filter.hit(row["image_id"]):
                nodes_of[row["image_id"]].add(row["node_id"])
    ids = pa.array(sorted(nodes_of), pa.string())
    addresses = {}
    for batch in kb["images"].batches(["image_id", "source_url", "final_url", "status"]):
        usable = batch.filter(pc.and_(pc.is_in(batch["image_id"], ids), pc.equal(batch["status"], "ok")))
        for row in usable.to_pylist():
            if exclusion_filter.hit(row["source_url"]):
                continue
            if address := next((url for url in (row["final_url"], row["source_url"]) if is_web(url)), None):
                addresses[row["image_id"]] = address
    shown: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for image in sorted(addresses):
        for node in nodes_of[image]:
            shown[node].append((image, addresses[image]))
    return shown
