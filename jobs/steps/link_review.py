"""Prepare `links` for review by people: pairs of a picture and a linked entity -> tables `items` and `texts`.

    remine link review 'links=[R/links/lemma,R/links/lemma_vision]' kb.path=R/kb out=R/review
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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.ids import content_id
from actors.quantities import quantity
from jobs.errors import InputError, check_least
from jobs.items_from import link_contexts
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store import table_plan
from jobs.store.files import locations
from jobs.store.reading import open_table, tables_in

PICTURE = "entity_picture_"  # attributes: web addresses of a node's pictures, numbered from 1


@dataclass
class ReviewedKb:
    """The knowledge base of the links."""

    path: str = MISSING  # folder that remine kb wrote
    images: str | None = None  # table of its pictures, whose web addresses people see as links


@dataclass
class ReviewLinksConfig:
    """Keys of `link review`."""

    out: str = MISSING  # folder or s3://bucket/prefix of the tables `items` and `texts`
    links: list[str] = field(default_factory=list)  # tables of links, or globs
    kb: ReviewedKb = field(default_factory=ReviewedKb)
    ranks: int = 1  # number of best nodes per picture and method that people judge
    pictures: int = 3  # per node, with kb.images; conf/welfare/entity_links.yaml has links for three
    language: str = "en"  # preferred language of lemmas and gloss
    limit: int | None = None  # pairs of the first pictures only, for a trial run in separate tables; null: all
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.selection.exclusions)


def execute(cfg: ReviewLinksConfig) -> Manifest:
    """Run the job and return the manifest of `items`; see the module's docstring."""
    _check_keys(cfg)
    sources = [open_table(uri, "links", key="links") for pattern in cfg.links for uri in tables_in(pattern)]
    parts = {"nodes": "nodes", "articles": "texts"}
    kb = {part: open_table(locations.join(cfg.kb.path, part), table, key="kb.path") for part, table in parts.items()}
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    pairs = link_contexts.pairs(sources, cfg.ranks, exclusion_filter, limit=cfg.limit)
    texts = link_contexts.texts(kb, {node for _, node in pairs}, cfg.language)
    if missing := next((node for _, node in pairs if node not in texts), None):
        why = f"has no node {missing!r}, unlike the links"
        raise InputError(why, key="kb.path", value=cfg.kb.path, remedy="name the knowledge base of the links")
    if cfg.kb.images is not None:
        kb["node_images"] = open_table(locations.join(cfg.kb.path, "node_images"), "node_images", key="kb.path")
        kb["images"] = open_table(cfg.kb.images, "images", key="kb.images")
    shown = link_contexts.pictures(kb, set(texts), exclusion_filter) if cfg.kb.images is not None else None
    items = [
        _item(image, node, texts[node]["text_id"], _attributes(cfg, image, node, ranks, shown))
        for (image, node), ranks in sorted(pairs.items())
    ]
    limit = None
    if cfg.limit is not None:
        shown_pictures = len({image for image, _ in pairs})
        limit = table_plan.RowLimit(cfg.limit, shown_pictures, None, per_input=False, noun="pictures")
    identity = {
        "links": [source.identity for source in sources],
        "kb": {name: source.identity for name, source in kb.items()},
        **{name: getattr(cfg, name) for name in ("ranks", "pictures", "language")},
    }
    inputs = tuple(footer.object for source in [*sources, *kb.values()] for footer in source.footers)
    manifest = {}
    for name, rows in (("texts", list(texts.values())), ("items", items)):
        manifest = write_rows(cfg, name, rows, identity, excluded=excluded, below=name, inputs=inputs, limit=limit)
    amount = f"{quantity(len(items), 'pair')} of a picture and one of {len(texts):,} nodes"
    lines = [
        f"link review: {locations.absolute(cfg.out)}\n  {amount}",
        *([f"  {limit}; the tables have no more"] if limit else ()),
        *summary.exclusion_lines(excluded, exclusion_filter.matched),
    ]
    return Manifest(manifest, lines)


def _check_keys(cfg: ReviewLinksConfig) -> None:
    for key, number in (("ranks", cfg.ranks), ("pictures", cfg.pictures)):
        check_least(key, number, 1)
    if not cfg.links:
        raise InputError("required: tables that remine link wrote", key="links", value="")
    table_plan.check_limit(cfg.limit)


def _attributes(
    cfg: ReviewLinksConfig,
    image: str,
    node: str,
    ranks: Mapping[str, int],
    shown: Mapping[str, Sequence[tuple[str, str]]] | None,
) -> dict[str, str]:
    """Return the attributes of an item; `shown`: id and address of each node's pictures, None without kb.images."""
    attributes = {"node": node, **{method: f"rank {rank}" for method, rank in sorted(ranks.items())}}
    if shown is None:
        return attributes
    others = [address for other, address in shown.get(node, ()) if other != image]
    # A missing picture is an empty attribute: the fields of links must exist; links with empty ones are left out.
    return attributes | {f"{PICTURE}{n + 1}": others[n] if n < len(others) else "" for n in range(cfg.pictures)}


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


JOB = cli.Job("link review", ReviewLinksConfig, execute)
