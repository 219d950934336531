"""Rank the entities of a knowledge base that a picture shows -> table `links`.

    remine link method=lemma_vision neighbors=R/near_pictures kb.path=R/kb kb.vectors=R/kb_lemmas \\
        pictures=R/embeddings out=R/links/lemma_vision
    remine link method=frequency_vision neighbors=R/near_pictures kb.path=R/kb out=R/links/frequency
    remine link method=lemma neighbors=R/near_lemmas kb.path=R/kb out=R/links/lemma

CAIRE's methods (sections 3.1, A.3, A.4). The vision methods take the nodes of the nearest pictures in the knowledge
base (neighbors: pictures searched in the pictures of the knowledge base, k=20) and rank them by lemma, by gloss or by
how many of the nearest pictures each has. The other methods search all texts of the knowledge base (neighbors: pictures
searched in the embedded R/kb/lemmas, glosses or windows, with k well above the number of nodes wanted, because a node
has several texts). remine link evaluate computes how often the right node is among the first.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from actors.linking import TEXT_METHODS, VECTOR_METHODS, LinkSettings
from actors.settings import Location
from jobs.errors import InputError, RunError, check_choice
from jobs.retrieval.linking import (
    NEAR,
    SHORT,
    TEXT_TABLES,
    UNKNOWN,
    LinkedKbConfig,
    LinkUnit,
    open_link_tables,
    queries_in,
)
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import ReadingRows
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.reading import TableSource, open_table
from jobs.store.table_plan import limited

CONTAMINATED = ("keep", "skip")


@dataclass
class LinkConfig(LinkSettings, ReadingRows):
    """Keys of `link`."""

    neighbors: str = MISSING  # a table of neighbors (remine retrieve): of pictures, or of the knowledge base's texts
    kb: LinkedKbConfig = field(default_factory=LinkedKbConfig)
    pictures: Location[str | None] = None  # the queries' embeddings, for lemma_vision and gloss_vision
    contaminated: str = "keep"  # skip: no links for a query that is a picture of the knowledge base
    images: str | None = None  # the queries' pictures, together with kb.images


def execute(cfg: LinkConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring."""
    settings = checked(cfg)
    neighbors = open_table(cfg.neighbors, "neighbors", key="neighbors")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    tables = open_link_tables(settings, cfg.kb, pictures=cfg.pictures, images=cfg.images)
    entries = {"neighbors": neighbors.identity, **tables.identity}
    plan = plan_table(cfg, "links", neighbors.units(), entries, excluded=excluded, metadata={"method": cfg.method})
    plan = limited(plan, cfg.limit, noun="pictures", count=queries_in)
    run = lifecycle.begin(
        "link", cfg, plan, excluded, pools=["link"], note=cfg.method, streamed=False, calibrates=False
    )
    if isinstance(run, Plan):
        return run
    from jobs.runtime import stages

    lookups = tables.lookups()
    stage = stages.Stage(
        "link",
        LinkUnit,
        {
            "settings": settings,
            "lookups": lookups,
            "kb_pictures": tables.kb_pictures(lookups) if cfg.contaminated == "skip" else None,
            "excluded": run.excluded,
        },
    )
    total = None if cfg.limit else neighbors.rows
    stages.process(run.table, name="link", stage=stage, resources=cfg.resources, total=total, counted="rows")
    manifest = run.end()
    manifest.fault = _fault(cfg, neighbors, manifest)
    if not manifest.fault:
        manifest.lines += _tally_lines(cfg, manifest["counts"]["tallies"])
    return manifest


def checked(cfg: LinkConfig) -> LinkSettings:
    """Return the settings of the ranking; no table is read.

    Raises:
        InputError: keys do not fit together.
    """
    check_choice("contaminated", cfg.contaminated, CONTAMINATED)
    if (cfg.images is None) != (cfg.kb.images is None):
        raise InputError("images= and kb.images=: set both or neither; the bytes of their pictures are compared")
    if cfg.images is not None and cfg.contaminated != "skip":
        raise InputError(
            f"images={cfg.images}, kb.images={cfg.kb.images}: only read with contaminated=skip; set it, or omit both"
        )
    for key, uri in (("pictures", cfg.pictures), ("kb.vectors", cfg.kb.vectors)):
        if uri is None and cfg.method in VECTOR_METHODS:
            raise InputError(f"method={cfg.method} compares vectors: {key}= is required")
        if uri is not None and cfg.method not in VECTOR_METHODS:
            raise InputError(f"method={cfg.method} does not read vectors", key=key, value=uri, remedy="omit it")
    return LinkSettings.part_of(cfg)


def _fault(cfg: LinkConfig, neighbors: TableSource, manifest: Manifest) -> RunError | None:
    """Return an error if there are queries and none of them has a link: the tables do not belong together."""
    counts = manifest["counts"]
    if not neighbors.rows or counts["rows_out"] or any(counts["filtered"].values()):
        return None
    if cfg.method in TEXT_METHODS:
        reason = f"no neighbor is a text of {cfg.kb.path}/{TEXT_TABLES[cfg.method]}; search there for {cfg.method}"
    else:
        reason = f"no neighbor is a picture of a node of {cfg.kb.path}"
        if cfg.method in TEXT_TABLES:
            reason += f", or {cfg.kb.vectors} has no vectors of the nodes' {TEXT_TABLES[cfg.method]}"
    return RunError(f"out={locations.absolute(cfg.out)}: no picture has a link: {reason}")


def _tally_lines(cfg: LinkConfig, tallies: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    if near := tallies.get(NEAR):
        yield f"  {sum(near.values()):,} pictures resemble one of the knowledge base and were kept"
    if unknown := tallies.get(UNKNOWN):
        yield f"  {sum(unknown.values()):,} neighbors are not in the knowledge base and were ignored"
    if short := tallies.get(SHORT):
        key = "k of the search" if cfg.method in TEXT_METHODS else "nearest= (and k of the search)"
        yield f"  {sum(short.values()):,} pictures have fewer than {cfg.k} nodes; increase {key}"


JOB = cli.Job("link", LinkConfig, execute, check=checked, pools=("link",))

if __name__ == "__main__":
    sys.exit(cli.main("link"))
