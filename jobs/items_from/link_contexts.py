"""A knowledge base's information about a picture: texts and attributes of an item, or of links that people review."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import content_id
from actors.items import EMPTY_CONTEXT
from jobs.annotation.form import is_web
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource

NO_CONTEXT = "none"
CONTEXTS = ("article", "titles", "gold", NO_CONTEXT)
ARTICLE, TITLES = "article", "titles"  # roles of texts
ENTITY, NODE = "entity", "node"  # attributes
TALLY = "context"  # tally of the outcomes
NO_LINK, NO_GOLD = "no link", "no gold entity"
UNKNOWN, NO_ARTICLE = "not in the knowledge base", "no article"

Node = Mapping[str, Any]  # a row of the table `nodes`
Link = Mapping[str, Any]  # a row of the table `links`


@dataclass(frozen=True)
class Context:
    """The context of one item.

    Attributes:
        outcome: what was added, or the reason why nothing was added.
        role: role of the text; empty without a text.
        source: the text's node; empty if there are several.
    """

    outcome: str
    attributes: tuple[tuple[str, str], ...] = ()
    role: str = ""
    text: str = ""
    source: str = ""


def in_language(values: Sequence[tuple[str, Any]] | None, language: str) -> Any:
    """Return the value in `language`, else the first one; None if there is none."""
    by_language = dict(values or ())
    return by_language.get(language) or next(iter(by_language.values()), None)


def name_of(node: Node, lemma: str | None, language: str) -> str:
    """Return the title in `language` or without one, else the lemma, else another language's title or lemma, or the id.

    Titles without a language come from a knowledge base in a single language that it does not state.
    """
    titles = dict(node["titles"] or ())
    title = titles.get(language) or titles.get("") or lemma or in_language(node["titles"], language)
    lemmas = in_language(node["lemmas"], language)
    return str(title or (lemmas[0] if lemmas else node["node_id"]))


def article_context(
    node: Node | None, articles: Mapping[str, str], *, language: str, lemma: str | None = None
) -> Context:
    """Return the whole article of a node, with its title as the attribute `entity`; only the title without an article.

    Args:
        node: the node; None if the knowledge base does not have it.
        articles: the articles' texts, by text_id.
    """
    if node is None:
        return Context(UNKNOWN)
    text = articles.get(in_language(node["article_text_ids"], language) or "")
    attributes = ((ENTITY, name_of(node, lemma, language)), (NODE, node["node_id"]))
    if not text:
        return Context(NO_ARTICLE, attributes)
    return Context(ARTICLE, attributes, ARTICLE, text, node["node_id"])


def titles_context(links: Sequence[Link], nodes: Mapping[str, Node], *, language: str) -> Context:
    """Return the titles of the linked nodes, one per line, best first; for nodes without a title, the lemma."""
    if not links:
        return Context(NO_LINK)
    names = [name_of(nodes[link["node_id"]], link["lemma"], language) for link in links if link["node_id"] in nodes]
    if not names:
        return Context(UNKNOWN)
    return Context(TITLES, role=TITLES, text="\n".join(dict.fromkeys(names)))


def with_context(
    item: Mapping[str, Any], texts: Sequence[Mapping[str, Any]], context: Context, *, language: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the rows of `items` and `texts` of an item with a context.

    The id is unchanged, so that ratings under several conditions can be compared by item. A context from another
    knowledge base is replaced. An item that gets no text, although its condition has one, has the attribute
    `empty_context` with the reason.

    Args:
        item: row of `items`.
        texts: the rows of its texts.
    """
    earlier = (ENTITY, NODE, EMPTY_CONTEXT)
    attributes = [(name, value) for name, value in item["attributes"] or () if name not in earlier]
    attributes += context.attributes
    kept = [dict(text) for text in texts if text["role"] not in (ARTICLE, TITLES)]
    if context.text:
        parts = ("item", item["item_id"], context.role, context.source, context.text)
        kept.append({
            "text_id": content_id(*parts),  # contains the item: units share no rows
            "role": context.role,
            "language": language,
            "source": context.source or item["item_id"],
            "text": context.text,
        })  # fmt: skip
    elif context.outcome != NO_CONTEXT:
        attributes.append((EMPTY_CONTEXT, context.outcome))
    row = {**item, "text_ids": [text["text_id"] for text in kept], "attributes": attributes}
    return row, kept


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
                why = f"more than {MAX_PAIRS:,} pairs, too many for people"
                raise InputError(why, key="links", remedy="link fewer pictures")
    if not ranks_of:
        raise InputError("the tables have no links to review", key="links", remedy="see ranks= and exclusions=")
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
