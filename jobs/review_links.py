"""Prepare `links` for review by people: pairs of a picture and a linked entity -> tables `items` and `texts`.

    remine review_links 'links=[R/links/lemma,R/links/lemma_vision]' kb.path=R/kb out=R/review
    remine annotate input=R/review/items texts=R/review/texts images=R/images rubric=link_verdict \\
        raters=raters.csv per_item=3 out=R/tasks
    remine import_ratings  input='export/*.json' format=label_studio rubric=link_verdict out=R/people
    remine report   'ratings=[R/people]' 'items=[R/review/items]' \\
        'metrics.disaggregate=[lemma,lemma_vision]' out=R/report

CAIRE's manual evaluation (section 6, appendix C.1): is the entity the one that the picture shows, a similar one, or a
wrong one? A picture and a node are one item, even if several methods link them, so that people judge a pair once;
the item's attributes have the rank that each method gives it. Its text is the node's lemmas, its gloss and the start of
its article. With kb.images=, the web addresses of up to `pictures` of the node's pictures are attributes too;
`annotate welfare=entity_links` adds them to the tasks as links.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.ids import content_id
from jobs.annotation.form import is_web
from jobs.errors import InputError
from jobs.runtime import cli, exclusions, summary
from jobs.runtime.console import say
from jobs.runtime.exclusions import ExclusionFilter
from jobs.store import locations
from jobs.store.reading import TableSource, open_table, tables_in
from jobs.store.single_unit import write_small
from jobs.tables import TABLES

MAX_PAIRS = 100_000  # more than people can judge
LEMMAS = 5  # of a node, in the text of an item
OPENING_WORDS = 40  # of its article
PICTURE = "entity_picture_"  # attributes: web addresses of a node's pictures, numbered from 1


@dataclass
class ReviewedKb:
    """The knowledge base of the links."""

    path: str = MISSING  # folder that jobs.kb wrote
    images: str | None = None  # table of its pictures, whose web addresses people see as links


@dataclass
class ReviewLinksConfig:
    """Keys of `review_links`."""

    out: str = MISSING  # folder or s3://bucket/prefix of the tables `items` and `texts`
    links: list[str] = field(default_factory=list)  # tables of links, or globs
    kb: ReviewedKb = field(default_factory=ReviewedKb)
    ranks: int = 1  # number of best nodes per picture and method that people judge
    pictures: int = 3  # per node, with kb.images; conf/welfare/entity_links.yaml has links for three
    language: str = "en"  # of lemmas and gloss, if the node has them in it
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.exclusions)


def execute(cfg: ReviewLinksConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of `items`."""
    if cfg.ranks < 1:
        raise InputError(f"ranks={cfg.ranks}: must be at least 1")
    if not cfg.links:
        raise InputError("links= is required: tables that jobs.link wrote")
    if cfg.pictures < 1:
        raise InputError(f"pictures={cfg.pictures}: must be at least 1")
    sources = [open_table(uri, "links") for pattern in cfg.links for uri in tables_in(pattern)]
    parts = {"nodes": "nodes", "articles": "texts"}
    kb = {part: open_table(locations.join(cfg.kb.path, part), table) for part, table in parts.items()}
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    pairs = _pairs(sources, cfg.ranks, exclusion_filter)
    texts = _texts(kb, {node for _, node in pairs}, cfg.language)
    if missing := next((node for _, node in pairs if node not in texts), None):
        raise InputError(
            f"kb.path={cfg.kb.path}: no node {missing!r}, which the links name; give the knowledge base of the links"
        )
    if cfg.kb.images is not None:
        kb["node_images"] = open_table(locations.join(cfg.kb.path, "node_images"), "node_images")
        kb["images"] = open_table(cfg.kb.images, "images")
    shown = _pictures(kb, set(texts), exclusion_filter) if cfg.kb.images is not None else {}
    items = []
    for (image, node), ranks in sorted(pairs.items()):
        attributes = {"node": node, **{method: f"rank {rank}" for method, rank in sorted(ranks.items())}}
        if cfg.kb.images is not None:
            others = [address for other, address in shown.get(node, ()) if other != image]
            # Missing pictures are empty attributes: the fields of links must exist; links with empty ones are left out.
            attributes |= {f"{PICTURE}{n + 1}": others[n] if n < len(others) else "" for n in range(cfg.pictures)}
        items.append(_item(image, node, texts[node]["text_id"], attributes))
    inputs = tuple(footer.object for source in [*sources, *kb.values()] for footer in source.footers)
    manifest = {}
    for name, rows in (("texts", list(texts.values())), ("items", items)):
        table = pa.Table.from_pylist(rows, schema=TABLES[name].schema())
        out = locations.join(locations.absolute(cfg.out), name)
        manifest = write_small(
            out, table, table=name, identity={"job": "review_links"}, config=asdict(cfg), inputs=inputs
        )
    say(
        f"review_links: {locations.absolute(cfg.out)}\n  {len(items):,} pairs of a picture and one of "
        f"{len(texts):,} nodes"
    )
    summary.show_exclusions(excluded, exclusion_filter.matched)
    return manifest


def _pairs(
    sources: Iterable[TableSource], ranks: int, exclusion_filter: ExclusionFilter
) -> dict[tuple[str, str], dict[str, int]]:
    """Return (image_id, node_id) -> method -> rank, of the best `ranks` links of each picture."""
    pairs: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for source in sources:
        for batch in source.batches(["image_id", "method", "rank", "node_id"]):
            for row in batch.filter(pc.less_equal(batch["rank"], ranks)).to_pylist():
                if not exclusion_filter.hit(row["image_id"]):
                    pairs[row["image_id"], row["node_id"]][row["method"]] = row["rank"]
            if len(pairs) > MAX_PAIRS:
                raise InputError(f"links=: more than {MAX_PAIRS:,} pairs, too many for people; link fewer pictures")
    if not pairs:
        raise InputError("links=: the tables have no links to review; see ranks= and exclusions=")
    return pairs


def _texts(kb: Mapping[str, TableSource], wanted: set[str], language: str) -> dict[str, dict[str, Any]]:
    """Return node_id -> row of `texts`."""
    ids = pa.array(sorted(wanted), pa.string())
    rows = [row for batch in kb["nodes"].batches() for row in batch.filter(pc.is_in(batch["node_id"], ids)).to_pylist()]
    article_of = {row["node_id"]: _in_language(dict(row["article_text_ids"] or []), language) for row in rows}
    opening = pa.array(sorted(set(article_of.values()) - {""}), pa.string())
    articles = {
        row["text_id"]: " ".join(row["text"].split()[:OPENING_WORDS])
        for batch in kb["articles"].batches(["text_id", "text"])
        for row in batch.filter(pc.is_in(batch["text_id"], opening)).to_pylist()
    }
    texts = {}
    for row in rows:
        parts = [_lemmas(dict(row["lemmas"] or []), language), _in_language(dict(row["glosses"] or []), language)]
        parts.append(f"{article} …" if (article := articles.get(article_of[row["node_id"]])) else "")
        text = "\n\n".join(part for part in parts if part) or row["node_id"]
        texts[row["node_id"]] = {
            "text_id": content_id("entity", row["node_id"], text),
            "role": "reference",
            "language": language,
            "date": None,
            "source": row["node_id"],
            "revision": None,
            "text": text,
        }
    return texts


def _lemmas(lemmas: Mapping[str, list[str]], language: str) -> str:
    """Return up to LEMMAS distinct names of a node, those in `language` first."""
    ordered = [*lemmas.get(language, []), *(name for code in sorted(lemmas) for name in lemmas[code])]
    return "; ".join(list(dict.fromkeys(ordered))[:LEMMAS])


def _in_language(values: Mapping[str, str], language: str) -> str:
    """Return the value in `language`, else in the first language that the node has."""
    return values.get(language) or next((values[code] for code in sorted(values)), "")


def _pictures(
    kb: Mapping[str, TableSource], nodes: set[str], exclusion_filter: ExclusionFilter
) -> dict[str, list[tuple[str, str]]]:
    """Return node_id -> (image_id, web address) of its pictures that are not excluded, by image_id."""
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


def _item(image: str, node: str, text_id: str, attributes: Mapping[str, str]) -> dict[str, Any]:
    return {
        "item_id": content_id("link", image, node),
        "kind": "pair",
        "image_ids": [image],
        "text_ids": [text_id],
        "response_id": None,
        "targets": None,
        "gold": None,
        "attributes": list(attributes.items()),
    }


JOB = cli.Job("review_links", ReviewLinksConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("review_links"))
