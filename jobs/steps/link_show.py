"""Show how pictures were linked: their nearest pictures by each encoder, and the ranking by each method -> a page.

    remine link show 'pictures=[3f2a…]' 'neighbors=[R/near/siglip,R/near/clip,R/near/dinov2]' \\
        'links=[R/links/*]' kb.path=R/kb kb.images=R/kb_images images=R/images out=R/example

For each picture, OUT/index.html shows its nearest pictures in the knowledge base with their nodes and scores, and the
distinct nodes of these, for each table of neighbors (CAIRE, figures 4 to 6 and table 5); and the nodes with lemma and
score for each method of links (tables 6 and 7). To compare encoders, search the same pictures of the knowledge base
with each of them. Pictures are blurred until the reader shows them. OUT/rankings.csv has the same rows.
"""

from dataclasses import dataclass, field

from actors.quantities import quantity
from jobs.errors import InputError, check_least
from jobs.page import picture_sheets
from jobs.retrieval.shown_links import check_pictures, read_links, read_neighbors, read_nodes
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.reading import open_table, open_tables

MAX_PICTURES = 100  # most pictures on one page


@dataclass
class ShownKb:
    """The knowledge base of the links."""

    path: str = MISSING  # folder that remine kb wrote
    images: str | None = None  # table of its pictures; null: a page without them


@dataclass
class ShowLinksConfig:
    """Keys of `link show`."""

    out: str = MISSING  # a folder for the page and its CSV
    pictures: list[str] = field(default_factory=list)  # image_ids
    neighbors: list[str] = field(default_factory=list)  # tables, or globs: searches in the knowledge base's pictures
    links: list[str] = field(default_factory=list)  # tables, or globs: one per method
    kb: ShownKb = field(default_factory=ShownKb)
    images: str | None = None  # table of the linked pictures; null: a page without them
    nearest: int = 20  # neighbours per table and picture
    k: int = 5  # nodes per method and picture
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.selection.exclusions)


def execute(cfg: ShowLinksConfig) -> None:
    """Run the job; see the module's docstring."""
    _check(cfg)
    neighbors, links = (
        open_tables(cfg.neighbors, "neighbors", key="neighbors"),
        open_tables(cfg.links, "links", key="links"),
    )
    images = {key: open_table(uri, "images") for key, uri in (("q", cfg.images), ("kb", cfg.kb.images)) if uri}
    kb = {part: open_table(locations.join(cfg.kb.path, part), part, key="kb.path") for part in ("nodes", "node_images")}
    out = locations.absolute(cfg.out)
    picture_sheets.check_links_place(out)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    wanted = [picture for picture in cfg.pictures if not exclusion_filter.hit(picture)]
    near = read_neighbors(neighbors, wanted, nearest=cfg.nearest, exclusion_filter=exclusion_filter)
    ranked = read_links(links, wanted, k=cfg.k)
    check_pictures(wanted, near, ranked)
    shown = {hit.item_id for hits in near.values() for hit in hits}
    nodes = read_nodes(kb["nodes"], kb["node_images"], shown)
    thumbnails = picture_sheets.read_pictures(images["q"], wanted) if "q" in images else {}
    thumbnails |= picture_sheets.read_pictures(images["kb"], shown) if "kb" in images else {}
    examples = picture_sheets.link_examples(wanted, near, ranked, nodes)
    locations.replace(locations.join(out, picture_sheets.RANKINGS), picture_sheets.rankings_csv(examples))
    locations.replace(locations.join(out, picture_sheets.PAGE), picture_sheets.links_page(examples, thumbnails))
    say(f"link show: {locations.join(out, picture_sheets.PAGE)}\n  {quantity(len(wanted), 'picture')}")
    for line in summary.exclusion_lines(excluded, exclusion_filter.matched):
        say(line)


def _check(cfg: ShowLinksConfig) -> None:
    if not 1 <= len(cfg.pictures) <= MAX_PICTURES:
        raise InputError(f"name 1 to {MAX_PICTURES} image_ids", key="pictures", value=cfg.pictures)
    if not cfg.neighbors and not cfg.links:
        raise InputError("neighbors= and links=: at least one is required")
    for key, value in (("nearest", cfg.nearest), ("k", cfg.k)):
        check_least(key, value, 1)


JOB = cli.Job("link show", ShowLinksConfig, execute)
