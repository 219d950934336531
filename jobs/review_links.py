"""Make what people judge of `links`: a picture beside the entity it was linked to -> tables `items` and `texts`.

    python -m jobs.review_links 'links=[R/links/lemma,R/links/lemma_vision]' kb.path=R/kb out=R/verdicts
    python -m jobs.annotate input=R/verdicts/items texts=R/verdicts/texts images=R/images rubric=link_verdict \\
        raters=raters.csv per_item=3 out=R/tasks
    python -m jobs.import_ratings  input='export/*.json' format=label_studio rubric=link_verdict out=R/people
    python -m jobs.report   'ratings=[R/people]' items=R/verdicts/items 'metrics.disaggregate=[lemma,lemma_vision]' \\
        out=R/report

CAIRE's manual evaluation (section 6, appendix C.1): is the entity the one that the picture shows, one like it, or a
wrong one? A picture and a node are one item, whichever methods gave it, so that nobody judges it twice; the item's
attributes say at which rank each method has it. Its text is the node's lemmas, its gloss and the start of its article.
With kb.images= the addresses of up to `pictures` of the node's own pictures are attributes, too, which annotate's
welfare=entity_links puts into the tasks as links.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.ids import content_id
from jobs.annotation.form import is_web
from jobs.errors import InputError
from jobs.runtime import cli, exclusions, summary
from jobs.runtime.config import plain
from jobs.runtime.console import say
from jobs.runtime.exclusions import Barred
from jobs.store import locations
from jobs.store.reading import TableSource, open_table, tables_in
from jobs.store.single_unit import write_small
from jobs.tables import TABLES

MOST = 100_000  # items: more is not for people
LEMMAS = 5  # of a node, that people are shown
PICTURE = "entity_picture_"  # attributes: addresses of a node's own pictures, from 1


@dataclass
class VerdictsKb:
    """The knowledge base that was linked to."""

    path: str = MISSING  # the folder that jobs.kb wrote
    images: str | None = None  # its pictures, a table of images: people are given their addresses


@dataclass
class ReviewLinksConfig:
    """Keys of `review_links`."""

    out: str = MISSING  # a folder or s3://bucket/prefix: tables `items` and `texts` below it
    links: list[str] = field(default_factory=list)  # tables of links, or globs
    kb: VerdictsKb = field(default_factory=VerdictsKb)
    ranks: int = 1  # how many of a picture's nodes are judged, the best ones
    pictures: int = 3  # of a node, with kb.images; conf/welfare/entity_links.yaml has links for three
    language: str = "en"  # of lemmas and gloss, where the node has them in it
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.exclusions)


def execute(cfg: ReviewLinksConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of `items`."""
    if cfg.ranks < 1:
        raise InputError(f"ranks={cfg.ranks}: at least 1")
    if not cfg.links:
        raise InputError("links= is required: tables that jobs.link wrote")
    if cfg.pictures < 1:
        raise InputError(f"pictures={cfg.pictures}: at least 1")
    sources = [open_table(place, "links") for pattern in cfg.links for place in tables_in(pattern)]
    parts = {"nodes": "nodes", "articles": "texts"}
    kb = {part: open_table(locations.join(cfg.kb.path, part), table) for part, table in parts.items()}
    excluded = exclusions.read_exclusions(cfg.exclusions)
    barred = exclusions.Barred(excluded.marks)
    pairs = _pairs(sources, cfg.ranks, barred)
    texts = _texts(kb, {node for _, node in pairs}, cfg.language)
    if lost := next((node for _, node in pairs if node not in texts), None):
        raise InputError(f"{cfg.kb.path}: has no node {lost!r}, which the links name")
    if cfg.kb.images is not None:
        kb["node_images"] = open_table(locations.join(cfg.kb.path, "node_images"), "node_images")
        kb["images"] = open_table(cfg.kb.images, "images")
    shown = _pictures(kb, set(texts), barred) if cfg.kb.images is not None else {}
    items = []
    for (image, node), ranks in sorted(pairs.items()):
        attributes = {"node": node, **{method: f"rank {rank}" for method, rank in sorted(ranks.items())}}
        if cfg.kb.images is not None:
            own = [address for other, address in shown.get(node, ()) if other != image]
            # One that a node does not have is empty: a link's field must be known, and is left out where empty.
            attributes |= {f"{PICTURE}{n + 1}": own[n] if n < len(own) else "" for n in range(cfg.pictures)}
        items.append(_item(image, node, texts[node]["text_id"], attributes))
    inputs = tuple(footer.object for source in [*sources, *kb.values()] for footer in source.footers)
    made = {}
    for name, rows in (("texts", list(texts.values())), ("items", items)):
        table = pa.Table.from_pylist(rows, schema=TABLES[name].schema())
        out = locations.join(locations.absolute(cfg.out), name)
        made = write_small(out, table, table=name, identity={"made": "verdicts"}, config=plain(cfg), inputs=inputs)
    say(
        f"review_links: {locations.absolute(cfg.out)}\n  {len(items):,} pairs of a picture and one of "
        f"{len(texts):,} nodes"
    )
    summary.show_exclusions(excluded, barred.matched)
    return made


def _pairs(sources: Iterable[TableSource], ranks: int, barred: Barred) -> dict[tuple[str, str], dict[str, int]]:
    """(image_id, node_id) -> method -> rank, of the best `ranks` links of each picture."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for source in sources:
        for batch in source.batches(["image_id", "method", "rank", "node_id"]):
            for row in batch.filter(pc.less_equal(batch["rank"], ranks)).to_pylist():
                if not barred.hit(row["image_id"]):
                    found[row["image_id"], row["node_id"]][row["method"]] = row["rank"]
            if len(found) > MOST:
                raise InputError(f"links: more than {MOST:,} pairs; people cannot judge so many, link fewer pictures")
    if not found:
        raise InputError("links: nothing in them to be judged")
    return found


def _texts(kb: Mapping[str, TableSource], wanted: set[str], language: str) -> dict[str, dict[str, Any]]:
    """node_id -> its row of `texts`."""
    ids = pa.array(sorted(wanted), pa.string())
    rows = [row for batch in kb["nodes"].batches() for row in batch.filter(pc.is_in(batch["node_id"], ids)).to_pylist()]
    opening = pa.array(sorted({row["article_text_id"] for row in rows if row["article_text_id"]}), pa.string())
    articles = {
        row["text_id"]: row["text"]
        for batch in kb["articles"].batches(["text_id", "text"])
        for row in batch.filter(pc.is_in(batch["text_id"], opening)).to_pylist()
    }
    made = {}
    for row in rows:
        parts = [_lemmas(dict(row["lemmas"] or []), language), _in(dict(row["glosses"] or []), language)]
        parts.append(f"{article} …" if (article := articles.get(row["article_text_id"])) else "")
        text = "\n\n".join(part for part in parts if part) or row["node_id"]
        made[row["node_id"]] = {
            "text_id": content_id("entity", row["node_id"], text),
            "role": "reference",
            "language": language,
            "date": None,
            "source": row["node_id"],
            "revision": None,
            "text": text,
        }
    return made


def _lemmas(lemmas: Mapping[str, list[str]], language: str) -> str:
    """A node's names, those in the language first, each once."""
    ordered = [*lemmas.get(language, []), *(name for of in sorted(lemmas) for name in lemmas[of])]
    return "; ".join(list(dict.fromkeys(ordered))[:LEMMAS])


def _in(texts: Mapping[str, str], language: str) -> str:
    """The text in the language, else in the first there is."""
    return texts.get(language) or next((texts[of] for of in sorted(texts)), "")


def _pictures(kb: Mapping[str, TableSource], nodes: set[str], barred: Barred) -> dict[str, list[tuple[str, str]]]:
    """node_id -> image_id and web address of its pictures that may be shown, by image_id."""
    wanted = pa.array(sorted(nodes), pa.string())
    carriers: dict[str, set[str]] = defaultdict(set)
    for batch in kb["node_images"].batches(["node_id", "image_id"]):
        for row in batch.filter(pc.is_in(batch["node_id"], wanted)).to_pylist():
            if not barred.hit(row["image_id"]):
                carriers[row["image_id"]].add(row["node_id"])
    ids = pa.array(sorted(carriers), pa.string())
    addresses = {}
    for batch in kb["images"].batches(["image_id", "source_url", "final_url", "status"]):
        some = batch.filter(pc.and_(pc.is_in(batch["image_id"], ids), pc.equal(batch["status"], "ok")))
        for row in some.to_pylist():
            if barred.hit(row["source_url"]):
                continue
            if address := next((url for url in (row["final_url"], row["source_url"]) if is_web(url)), None):
                addresses[row["image_id"]] = address
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for image in sorted(addresses):
        for node in carriers[image]:
            found[node].append((image, addresses[image]))
    return found


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
