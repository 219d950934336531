"""Compute metrics of ratings and write one self-contained page -> table `metrics` and `index.html`.

    remine report 'ratings=[R/ratings/*,R/people]' images=R/images records=R/records out=R/report

The page has counts after each step, distributions of answers by rater and question, a gallery and the metrics that the
tables allow: agreement among raters, scores of models, models against people and gold, spans, scene graphs
(docs/metrics.md). It loads nothing and runs no script; pictures are blurred until the reader shows them. The job writes
OUT/index.html and the table OUT/metrics, and replaces an earlier report there.
"""

import sys
from dataclasses import asdict, dataclass
from typing import Any

from omegaconf import MISSING

from actors.quantities import quantity
from jobs.analysis.conditions import CONDITION
from jobs.analysis.metric_tables import refuse_foreign, write_metrics
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.report_tables import ReportInputs, open_inputs, rows_of_items, summarize_ratings
from jobs.analysis.standings import standings
from jobs.judging import rating_tables
from jobs.judging.kept_rubric import read_rubrics
from jobs.page import gallery
from jobs.page.build import report_page, wording
from jobs.page.render import render
from jobs.papers.paper_tables import PaperFigure, write_parts
from jobs.papers.report_results import ReportSettings, check, compute_results
from jobs.runtime.command_line import cli
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store.files import locations


@dataclass
class ReportConfig(ReportSettings, ReportInputs):
    """Keys of `report`; only `out` is required."""

    out: str = MISSING  # a folder: index.html and the table metrics


def execute(cfg: ReportConfig) -> dict[str, Any]:
    """Run the job and return the manifest of the table of metrics; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed, or a table cannot be used; nothing was written.
    """
    check(cfg)
    tables = open_inputs(cfg)
    rubrics = read_rubrics(tables.ratings)
    models = rating_tables.read_raters([*tables.ratings, *tables.responses])
    refuse_foreign(cfg.out, "index.html")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)

    by, keep_ids = [CONDITION, *cfg.metrics.group_by], cfg.metrics.crowdtruth
    with Reduction(by=by, keep_ids=keep_ids) as reduction:
        ratings = summarize_ratings(tables, cfg.metrics, reduction, models=models, exclusion_filter=exclusion_filter)
        chosen = gallery.choose(
            tables,
            cfg.gallery,
            exclusion_filter,
            seed=cfg.gallery_seed,
            standings=lambda: standings(reduction, list(wording(rubrics)), rubrics.scale),
        )
        results = compute_results(
            cfg, tables, reduction, summary=ratings, rubrics=rubrics, exclusion_filter=exclusion_filter
        )
    manifest = write_metrics(
        cfg.out,
        [*results.of_answers, *results.metrics],
        inputs=[footer.object for source in tables.sources for footer in source.footers],
        identity={"inputs": [source.identity for source in tables.sources]},
        settings=asdict(cfg),
    )
    page = report_page(
        cfg.title,
        tables,
        ratings,
        results,
        rubrics=rubrics,
        models=models,
        gallery=chosen,
        rows_of=rows_of_items(tables, chosen.ids, ratings.distributions.extra, exclusion_filter),
        exclusion_filter=exclusion_filter,
        versions=manifest["versions"],
        paper_title=cfg.paper.title,
        paper_pictures={
            part.name: part.pictures for part in results.parts if isinstance(part, PaperFigure) and part.pictures
        },
    )
    write_parts(cfg.out, results.parts)
    uri = locations.join(locations.absolute(cfg.out), "index.html")
    locations.replace(uri, render(page).encode())
    say(f"report: {uri}")
    say(f"  {quantity(manifest['counts']['rows_out'], 'metric')} in {manifest['out']}")
    for sentence in results.notices:
        say(f"  {sentence}")
    summary.show_exclusions(excluded, exclusion_filter.matched)
    return manifest


JOB = cli.Job("report", ReportConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("report"))
