"""Assign items to raters -> table `assignments`, and tasks for Label Studio or Prodigy.

    remine annotate input=R/images records=R/records rubric=century_labels tool=label_studio \\
        raters=raters.csv per_item=3 out=R/tasks
    remine annotate input=R/images rubric=cultural_relevance raters=raters.csv group=country \\
        per_group=20 out=R/tasks
    remine annotate input=R/items responses=R/responses texts=R/texts images=R/images \\
        span_labels=mistakes_omissions raters=raters.csv per_item=2 audit=0.1 auditor=checker out=R/tasks
    remine annotate input=R/items texts=R/texts images=R/images rubric=dsg questions=R/questions \\
        raters=raters.csv per_item=3 tool=spreadsheet out=R/tasks

    remine annotate input=R/images rubric=century_labels raters=raters.csv per_item=1 draw.n=200 \\
        draw.method=uncertain ratings=[R/ratings/qwen] out=R/tasks

Writes OUT/assignments (which rater sees which items, in which order, and how likely each was drawn) and
OUT/label_studio, OUT/prodigy or OUT/spreadsheet: the form, and one file of tasks per rater, in a random order.
`remine import_ratings` reads the answers. In the tools, pictures are blurred until the rater shows them; raters can
report a picture and skip any task (`welfare=`). The same seed gives the same plan.
"""

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.ids import content_id
from actors.quantities import quantity
from jobs.annotation import shown_items, study
from jobs.annotation.shown_items import ShownTables, read_own_sets
from jobs.annotation.study import AnnotateConfig, write_task_files
from jobs.page.build import more_ratings
from jobs.runtime.command_line import cli
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store import table_plan
from jobs.store.files import locations
from jobs.store.identity import identity_of
from jobs.store.reading import open_table
from jobs.store.runs.place import purged_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES

ASSIGNING = (  # keys that determine the rows, whose hash is in the identity
    "raters", "raters_encoding", "group", "per_item", "per_group", "quotas", "target", "shared", "together",
    "per_rater", "audit", "auditor", "draw", "ratings", "earlier", "seed",
)  # fmt: skip


def execute(cfg: AnnotateConfig) -> Plan | Manifest:
    """Run the job and return the manifest of `assignments`, or the plan with plan=true; see the module's docstring."""
    raters = study.check_raters(cfg)
    rubric, span_labels = study.read_questions(cfg)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    sources = study.open_sources(cfg)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    left_out: Counter[str] = Counter()
    uncertainty = study.judge_uncertainty(cfg)
    drawn = shown_items.choose(
        sources, cfg.draw, cfg.together, exclusion_filter=exclusion_filter, left_out=left_out, uncertainty=uncertainty
    )
    earlier = study.read_earlier(cfg, drawn.frame)
    chosen = study.new_items(cfg, drawn.rows, earlier)
    own_sets = read_own_sets(cfg, chosen, shown_items.texts_of(chosen, sources)) if cfg.questions else {}
    chosen = [row for row in chosen if not own_sets or row["item_id"] in own_sets]
    if cfg.raters.isdigit() and not study.plans_of(cfg):
        cfg = replace(cfg, per_item=len(raters))
    tasks = study.assign_items(cfg, {row["item_id"]: row["set"] for row in chosen}, raters, rubric, own_sets)
    shown = shown_items.show_items(chosen, sources, study.showing(cfg, rubric, own_sets))
    form = study.build_form(cfg, rubric, span_labels, shown[0])
    new = study.assignment_rows(cfg, tasks, probability=study.probability_of(drawn.frame), earlier=earlier)
    rows = [*earlier, *new]
    undrawn = study.undrawn_rows(drawn.frame, {row["item_id"] for row in drawn.rows})
    out = locations.absolute(cfg.out)
    plan = _plan(cfg, sources, rows, form.rubric, exclusions.identity(excluded), undrawn=len(undrawn))
    lines = [drawn.description] if drawn.description else []
    if left_out:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(left_out.items()))
        lines.append(f"{quantity(left_out.total(), 'item')} left out ({reasons})")
    folder = locations.join(out, cfg.tool)
    if cfg.overwrite:
        study.refuse_filled(cfg, folder)
    if cfg.plan:
        lines += more_ratings(cfg.ratings, cfg.earlier, sources.main.sources, exclusion_filter)
        return summary.plan_of("annotate", plan, note=study.describe(cfg, tasks), lines=lines)
    if not cfg.overwrite and (purged := purged_table(plan, ["plan"])) is not None:
        kept = purged["counts"]["rows_out"]
        line = f"annotate: {plan.out}: {quantity(kept, 'row')} remain after a purge; overwrite=true plans new tasks"
        return Manifest(purged, [line])
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    if cfg.overwrite:  # so that nobody annotates files of an earlier plan by mistake
        locations.remove([o.uri for o in locations.listing(folder)])
    if cfg.pictures == "files":
        wanted = {image for item in chosen for image in item["image_ids"]}
        written = shown_items.write_pictures(sources.images, wanted, locations.join(out, shown_items.PICTURE_FOLDER))
        say(f"  {quantity(written, 'picture')} in {locations.join(out, shown_items.PICTURE_FOLDER)}")
    count = write_task_files(cfg, folder, form, {item.item_id: item for item in shown}, new)
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(rows) + len(undrawn)
            writer.counts.tallies["left out"] = dict(left_out)
            writer.write(pa.concat_tables([schemas.to_table(rows, TABLES["assignments"].schema()), undrawn]))
    manifest = summary.closed("annotate", run, excluded, exclusion_filter.matched)
    lines += [study.describe(cfg, tasks), f"{quantity(count, 'file')} in {folder}"]
    manifest.lines += [f"  {line}" for line in lines]
    return manifest


def _plan(
    cfg: AnnotateConfig,
    sources: ShownTables,
    rows: Sequence[Mapping[str, Any]],
    rubric: str,
    excluded: Mapping[str, str],
    *,
    undrawn: int = 0,
) -> TablePlan:
    """Return the run of `assignments`; its identity is the plan and everything that people see."""
    config = asdict(cfg)
    asked = {"rubric": rubric, "span_labels": (cfg.span_labels or {}).get("name")}
    shown = identity_of(cfg, instead_of=[*ASSIGNING, "rubric", "span_labels", "questions_by"])
    if cfg.questions:
        shown |= {
            "questions": open_table(cfg.questions, "questions", key="questions").identity,
            "questions_by": cfg.questions_by,
        }
    tables = [t for t in (sources.main, sources.images, sources.records, sources.texts, sources.responses) if t]
    inputs = tuple(dict.fromkeys(stored for table in tables for stored in table.objects))
    return TablePlan(
        out=locations.join(locations.absolute(cfg.out), "assignments"),
        table="assignments",
        identity={
            "input": sources.main.identity,
            "plan": content_id(json.dumps(list(rows), sort_keys=True)),
            "seed": cfg.seed,
            **({"limit": cfg.limit} if cfg.limit is not None else {}),
            **cfg.draw.identity,
            "rubric": content_id(json.dumps(cfg.rubric, sort_keys=True)) if cfg.rubric else None,
            "span_labels": content_id(json.dumps(cfg.span_labels, sort_keys=True)) if cfg.span_labels else None,
            "shown": shown,
            **excluded,
        },
        units=[Unit(content_id("assignments", sources.main.uri), inputs, rows=len(rows) + undrawn)],
        config=config,
        metadata={name: value for name, value in asked.items() if value},
        derived=True,
        limit=table_plan.row_limit(sources.main, noun=sources.main.name),
    )


JOB = cli.Job("annotate", AnnotateConfig, execute, check=study.check_raters)

if __name__ == "__main__":
    sys.exit(cli.main("annotate"))
