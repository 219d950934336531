"""Select among matched records by the rules that need the whole set -> table `records`.

    remine curate input=R/matches out=R/records
    remine curate input=R/matches images=R/images draw.n=1500 out=R/century
    remine curate input=R/matches page_rule.by=page_title 'page_rule.methods=[knowledge_graph]' out=R/records
    remine curate input=R/century select=starter 'ratings=[R/ratings/*,R/people]' out=R/starter

The rules apply in the paper's order (Century, appendix E.1). To the records of each method separately: main images;
pages with one image URL; pictures that still exist (`images=`); https; URLs that Wikimedia can resize. To all methods
together: one record per image URL; excluded pictures; near-duplicates (`near_duplicates=`); a random draw (`draw.n=`);
the starter set (`select=starter`). The decisions use compact arrays (`jobs.curation`); then the selected rows are
copied unit by unit, in their parent's order.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from actors.settings import Location, RuntimeOnly
from jobs.curation import curation_steps
from jobs.curation.apply_rules import CurationTables, Selection, select
from jobs.curation.curated_units import begun_pieces, pieces, write_pieces
from jobs.curation.curation_rules import EXCLUDED, NEAR_FILE, CurationRules
from jobs.errors import InputError, check_least
from jobs.judging.rating_tables import open_ratings
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import Writing
from jobs.runtime.configuration.key_types import MISSING, conf_group
from jobs.runtime.configuration.resources import RayConfig, Resources
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.runtime.tasks import Tasks
from jobs.store import table_plan
from jobs.store.keys import duplicate_keys
from jobs.store.pieces import rows_per_piece
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run


@dataclass
class CurateConfig(CurationRules, Writing):
    """Keys of `curate`."""

    input: str = MISSING  # a table of records (remine mine, or an earlier curate)
    limit: RuntimeOnly[int | None] = None  # read only the first records, for a trial run in a separate table; null: all
    # rarely: selected rows per unit, the granularity of resuming in the jobs that follow; null: 256, and up to 1,440 if
    # there would be more than 8,000 units
    unit_rows: int | None = None
    images: Location[str | None] = None  # a table of images (remine fetch): missing pictures and perceptual hashes
    ratings: Location[list[str]] = field(default_factory=list)  # tables of ratings, or globs of tables
    # rarely: how Ray is reached or started, for millions of records
    ray: RuntimeOnly[RayConfig] = field(default_factory=RayConfig)
    resources: RuntimeOnly[Resources] = conf_group("laptop", Resources)  # rarely: what `reduce` may use


def execute(cfg: CurateConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring."""
    check(cfg)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    tables = open_tables(cfg)
    if repeated := duplicate_keys(tables.records, ("record_id",)):
        surplus = sum(repeated.values()) - len(repeated)
        raise InputError(f"{surplus:,} duplicate record_ids; record_ids must be unique", key="input", value=cfg.input)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    tasks = Tasks.of(tables.records.rows, cfg.ray, cfg.resources)
    selection = select(cfg, tables, exclusion_filter, tasks=tasks)
    earlier = curation_steps.selections(tables.records.counts().tallies)
    begun = None if cfg.overwrite else begun_pieces(cfg.out)
    plan = plan_table(
        cfg,
        "records",
        list(pieces(tables.records, selection, cfg.unit_rows or rows_per_piece(len(selection.rows)), begun=begun)),
        identity_entries(cfg, tables, selection),
        instead_of=OF_SOME_RULES,
        excluded=excluded,
        limit=table_plan.row_limit(tables.records, noun="records"),
    )
    if cfg.plan:
        counts = curation_steps.counts_of(selection, 0, len(selection.rows), earlier)
        listed = summary.exclusion_lines(excluded, exclusion_filter.matched)
        return summary.plan_of("curate", plan) + Plan([*selection_lines(counts.tallies, selection), *listed])
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    if selection.near is not None:
        selection.notes.append(f"near-duplicates are listed in {run.keep(NEAR_FILE, selection.near)}")
    write_pieces(run, selection, earlier, tasks=tasks)
    manifest = summary.closed("curate", run, excluded, exclusion_filter.matched)
    manifest.lines = [*selection_lines(manifest["counts"]["tallies"], selection), *manifest.lines]
    return manifest


def check(cfg: CurateConfig) -> None:
    """Raise InputError for a value that is not allowed, or keys that do not fit together; no table is read."""
    table_plan.check_limit(cfg.limit)
    if cfg.unit_rows is not None:
        check_least("unit_rows", cfg.unit_rows, 1)
    cfg.check()
    if cfg.near_duplicates != "keep" and cfg.images is None:
        why = "needs images=, a table of images with their phash"
        raise InputError(why, key="near_duplicates", value=cfg.near_duplicates)
    if cfg.select == "starter" and not cfg.ratings:
        why = "needs ratings=[…], tables with the pictures' sensitivity and sub-region"
        raise InputError(why, key="select", value="starter")
    if cfg.select != "starter" and cfg.ratings:
        raise InputError("only read with select=starter; set it, or omit ratings=", key="ratings", value=cfg.ratings)


def open_tables(cfg: CurateConfig) -> CurationTables:
    """Open the tables of records, images and ratings; raise InputError if one cannot be read."""
    records = open_table(cfg.input, "records", key="input").first(cfg.limit)
    images = open_table(cfg.images, "images", key="images") if cfg.images is not None else None
    return CurationTables(records, images, sorted(open_ratings(cfg.ratings), key=lambda source: source.uri))


# Keys of rules that may not be applied, and of the draws.
OF_SOME_RULES = ("near_duplicates", "near_distance", "draw", "downsample_from", "select", "starter")


def identity_entries(cfg: CurateConfig, tables: CurationTables, selection: Selection) -> dict[str, Any]:
    """Return the inputs, the applied rules and the keys of those that are not always applied."""
    entries: dict[str, Any] = {
        "input": tables.records.identity,
        "rules": [rule for rule in selection.decision.applied if rule != EXCLUDED],  # the list may grow
    }
    if cfg.limit is not None:
        entries["limit"] = cfg.limit
    if tables.images is not None:
        entries["images"] = tables.images.identity
    if cfg.near_duplicates != "keep":
        entries["near_duplicates"] = {"mode": cfg.near_duplicates, "distance": cfg.near_distance}
    if cfg.draw.is_set:
        entries |= {**cfg.draw.identity, "downsample_from": cfg.downsample_from}
    if cfg.select == "starter":
        ratings = [source.identity for source in tables.ratings]
        entries["starter"] = {**vars(cfg.starter), "seed": cfg.draw.seed, "ratings": ratings}
    return entries


def selection_lines(tallies: curation_steps.Tallies, selection: Selection) -> Iterator[str]:
    """Yield the records left after each step, by method, and the notes on the selection."""
    yield from curation_steps.lines(tallies)
    yield from curation_steps.region_lines(tallies)
    yield from (f"  {note}" for note in selection.notes)


JOB = cli.Job("curate", CurateConfig, execute, check=check, pools=("reduce",))

if __name__ == "__main__":
    sys.exit(cli.main("curate"))
