"""A knowledge base's information about a picture, as texts and attributes of an item."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.ids import content_id
from actors.items import EMPTY_CONTEXT

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
