"""Import annotations by people -> table `ratings`, `spans`, `remarks` or `raters`.

    remine import_ratings input=people.csv columns.item_id=picture columns.rater=worker columns.value=answer \\
        question=sensitive rubric=century_labels out=R/people
    remine import_ratings input='export/*.json' format=label_studio rubric=century_labels out=R/people
    remine import_ratings input='export/*.json' format=label_studio span_labels=mistakes_omissions \\
        table=spans out=R/spans
    remine import_ratings input=people.csv 'columns.remarks={sources: links}' table=remarks out=R/remarks
    remine import_ratings input=annotations.csv format=century rubric=century_labels out=R/released
    remine import_ratings input=raters.csv table=raters out=R/raters

Reads CSV and Parquet through a mapping of columns, Label Studio's JSON export, Prodigy's db-out, and annotations in the
format in which Century released its own (docs/release.md). A cell may give the rubric's answer by its value, label,
label for people, or number; any other text becomes out_of_range and is kept in column `raw`. Running the same command
again reads the annotations that have arrived since. The job can add pictures that people reported to a list of
exclusions (`reports=`).
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

from actors.ids import content_id
from actors.quantities import quantity
from actors.rubrics.rubric import Rubric
from jobs.annotation import import_config, imported_rows
from jobs.annotation.batch_schemas import UNKNOWN_REPORTS
from jobs.annotation.import_config import ImportRatingsConfig, files_of
from jobs.annotation.imported_rows import REPORTED, add_reported
from jobs.annotation.importing import Importer, ItemNames
from jobs.annotation.pseudonyms import Pseudonyms, read_key
from jobs.judging import kept_rubric
from jobs.judging.kept_rubric import KeptRubric
from jobs.runtime.command_line import cli
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.files.spool import Spool
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan, limited
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter


def execute(cfg: ImportRatingsConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring."""
    import_config.check(cfg)
    files = files_of(cfg.input, cfg.format)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    pseudonyms = read_key(cfg.key_file) if cfg.anonymise else None
    importer = import_config.importer(cfg, files, exclusions.ExclusionFilter(excluded.marks), pseudonyms)
    importer.peek()
    plan = _plan(cfg, files, pseudonyms, excluded, importer.items, knows_reports=importer.knows_reports)
    plan = limited(plan, cfg.limit, noun="rows or tasks")
    planned, where = summary.plan_of("import_ratings", plan), locations.absolute(cfg.input)
    with Spool("import") as spool:
        # Read everything before claiming the output: an error in the last line must leave no trace either.
        fresh = cfg.overwrite or planned.planned[0].amounts.done == 0
        if fresh:
            importer.read(spool.path, named=where)
        if cfg.plan:
            return planned
        run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
        for task in run.todo:
            if not fresh:
                importer.read(spool.path, named=where)
            with UnitWriter(run.target, task) as writer:
                importer.write(spool.path, writer)
            run.keep(REPORTED, json.dumps(importer.reported(), indent=1).encode())
    manifest = summary.closed("import_ratings", run)
    manifest.lines += _lines(cfg, importer, manifest, run.target.out)
    matched = manifest["counts"]["tallies"].get(exclusions.TALLY, {})
    manifest.lines += summary.exclusion_lines(excluded, matched)
    return manifest


def _plan(
    cfg: ImportRatingsConfig,
    files: list[Object],
    pseudonyms: Pseudonyms | None,
    excluded: Exclusions,
    items: ItemNames | None,
    *,
    knows_reports: bool,
) -> TablePlan:
    """Return the run: all files are one unit."""
    kept = _kept(cfg)
    return TablePlan(
        out=cfg.out,
        table=cfg.table,
        identity={
            **import_config.identity(cfg),
            "anonymised": pseudonyms.fingerprint if pseudonyms else None,  # of the key, which is not kept
            **exclusions.identity(excluded),
            **({"items": items.identity} if items else {}),
        },
        units=[Unit(content_id("annotations", locations.absolute(cfg.input)), tuple(files))],
        config=asdict(cfg),
        metadata={**(kept.metadata if kept else {}), **({} if knows_reports else UNKNOWN_REPORTS)},
        derived=True,  # annotations that arrive later make a new generation of the unit, not another corpus
        files=kept.files if kept else {},
    )


def _kept(cfg: ImportRatingsConfig) -> KeptRubric | None:
    """Return the rubric that is kept with the table of ratings; None for other tables."""
    if cfg.table != "ratings":
        return None
    if cfg.rubric:
        return kept_rubric.of_rubric(Rubric.from_dict(cfg.rubric), cfg.rubric)
    return kept_rubric.of_answers(cfg.name, cfg.answers, ordinal=cfg.scale == "ordinal")


def _lines(cfg: ImportRatingsConfig, importer: Importer, manifest: Manifest, out: str) -> Iterator[str]:
    for reject in importer.first_rejects:
        yield f"  rejected: {reject.file}, position {reject.position:,}: {reject.message}"
    if cfg.items == "id" and cfg.columns.item_id:  # not a sheet of annotate, which has the items' ids
        yield "  items=id: the names of the items were not checked; items=TABLE finds them, and rejects unknown ones"
    if importer.first_repeat:
        yield f"  repeated (duplicates={cfg.duplicates}), the first at {importer.first_repeat}"
    tallies = manifest["counts"]["tallies"]
    for word, label in (("reports", "reported"), ("skips", "skipped"), ("issues", "response issues")):
        counts = tallies.get(word, {})
        if counts.get("tasks"):
            shares = ", ".join(
                f"{counts[name]:,} of {counts[f'of_{name}']:,} {name} ({counts[name] / counts[f'of_{name}']:.1%})"
                for name in imported_rows.Welfare.KEYS
            )
            yield f"  {label}: {shares}"
    if spans := tallies.get("spans"):
        yield (
            f"  spans: {spans['shifted']:,} of {spans['of_spans']:,} were shifted to the place of their stored text, "
            "since tools count line ends and emoji differently"
        )
    for name, n in tallies.get("conflicts", {}).items():
        yield f"  {name}: {n:,} people have two different values; neither is kept"
    if cfg.reports:
        reported = json.loads(locations.read_bytes(locations.join(out, "_run", REPORTED)))
        added, total = add_reported(cfg.reports, reported, least=cfg.reports_min)
        yield f"  {cfg.reports}: {quantity(added, 'reported picture')} added; the list has {total:,} of them"


JOB = cli.Job("import_ratings", ImportRatingsConfig, execute, check=import_config.check)

if __name__ == "__main__":
    sys.exit(cli.main("import_ratings"))
