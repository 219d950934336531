"""Compute metrics of ratings and write one self-contained page -> table `metrics` and `index.html`.

    remine report 'ratings=[R/ratings/*,R/people]' images=R/images records=R/records out=R/report
    remine report input=ratings.csv columns.item=image columns.rater=who columns.value=score out=F
    remine report input=judgments.csv task=crowdtruth columns.value=answer out=F
    remine report input=answers.csv task=dsg people=likert.csv out=F

The page has counts after each step, distributions of answers by rater and question, a gallery and the metrics that the
tables allow: agreement among raters, scores of models, models against people and gold, spans, scene graphs
(docs/metrics.md). It loads nothing and runs no script; pictures are blurred until the reader shows them. The job writes
OUT/index.html, OUT/metrics.csv and the table OUT/metrics, and replaces an earlier report there.

With input=, the ratings are the rows of a file, whose columns can also be attributes of items (metrics.disaggregate=)
and of people (metrics.groups=); numeric answers form a scale, other answers categories. The task `crowdtruth` computes
the quality of units, workers and annotations of a closed task (CrowdTruth 2.0); `dsg` computes scores of scene graphs
with and without dependencies, and their correlation with people's ratings. Columns that are not named are looked up
under their names in the released data sets.
"""

import sys
from dataclasses import asdict, dataclass, field

from actors.quantities import quantity
from jobs.analysis import metric_settings
from jobs.analysis.file_analysis import RatedFile
from jobs.analysis.metrics_output import refuse_foreign, write_metrics
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.report_metrics import compute_results
from jobs.analysis.report_tables import ReportInputs, ReportRatings, open_inputs, rows_of_items, summarize_ratings
from jobs.analysis.standings import standings
from jobs.errors import check_least
from jobs.judging import rating_tables
from jobs.judging.kept_rubric import read_rubrics
from jobs.page import gallery
from jobs.page.build import report_page, wording
from jobs.page.file_report import refuse_idle, report_of_file
from jobs.page.page_figures import plot_files
from jobs.page.render import render
from jobs.page.summary import terminal_lines
from jobs.papers.paper_tables import PaperFigure, write_parts
from jobs.papers.study import PaperSettings, Study, arrange_paper, check_paper, no_part
from jobs.plots.files import replace_files
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import RayConfig
from jobs.runtime.configuration.key_types import conf_group
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.runtime.tasks import Tasks
from jobs.store.files import locations
from jobs.tables import CONDITION


@dataclass
class ReportConfig(ReportInputs, RatedFile):
    """Keys of `report`: tables, or a file."""

    ratings: list[str] = field(default_factory=list)  # tables, or globs of tables
    questions_rubric: str = "dsg"  # rubric of the answers to the questions of scene graphs
    likert: str | None = None  # rubric/question of people's ratings to correlate scene graphs with
    # a paper, of conf/paper: its tables and figures, computed from this report's ratings
    paper: PaperSettings = conf_group(None, PaperSettings)
    ray: RayConfig = field(default_factory=RayConfig)  # rarely: how Ray is reached or started, for millions of ratings
    resources: Resources = conf_group("laptop", Resources)  # rarely: what `reduce` may use
    gallery: int = 48  # number of pictures and items on the page
    gallery_seed: int = 0  # rarely: the sample depends only on the pictures' ids and this number


def check(cfg: ReportConfig) -> None:
    """Raise InputError if the value of a key is not allowed."""
    for key in ("gallery", "gallery_seed"):
        check_least(key, getattr(cfg, key), 0)
    metric_settings.check(cfg.metrics)
    check_paper(cfg.paper)
    refuse_idle(cfg)


def execute(cfg: ReportConfig) -> Manifest:
    """Run the job and return the manifest of the table of metrics; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed, or a table cannot be used; nothing was written.
    """
    check(cfg)
    if cfg.input is not None:
        return report_of_file(cfg, lambda rows: Tasks.of(rows, cfg.ray, cfg.resources))
    tables = open_inputs(cfg)
    rubrics = read_rubrics(tables.ratings)
    models = rating_tables.read_raters([*tables.ratings, *tables.responses])
    refuse_foreign(cfg.out, "index.html", "metrics.csv")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)

    by, keep_ids = [CONDITION, *cfg.metrics.group_by], cfg.metrics.crowdtruth
    tasks = Tasks.of(sum(source.rows for source in tables.ratings), cfg.ray, cfg.resources)
    with Reduction(by=by, keep_ids=keep_ids, tasks=tasks) as reduction:
        rating_summary = summarize_ratings(
            tables, cfg.metrics, reduction, models=models, exclusion_filter=exclusion_filter
        )
        chosen = gallery.choose(
            tables,
            cfg.gallery,
            exclusion_filter,
            seed=cfg.gallery_seed,
            standings=lambda: standings(reduction, list(wording(rubrics)), rubrics.scale),
        )
        ratings = ReportRatings(tables, reduction, rating_summary, rubrics, exclusion_filter)
        results = compute_results(
            ratings,
            cfg.metrics,
            added=cfg.paper.added,
            questions_rubric=cfg.questions_rubric,
            likert=cfg.likert,
        )
        parts = arrange_paper(Study.of_report(cfg.paper, results, ratings))
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
        rating_summary,
        results,
        rubrics=rubrics,
        models=models,
        gallery=chosen,
        rows_of=rows_of_items(tables, chosen.ids, rating_summary.distributions.extra, exclusion_filter, tasks),
        exclusion_filter=exclusion_filter,
        versions=manifest["versions"],
        parts=parts,
        paper_title=cfg.paper.title,
        paper_pictures={part.name: part.pictures for part in parts if isinstance(part, PaperFigure) and part.pictures},
    )
    write_parts(cfg.out, parts)
    replace_files(locations.join(locations.absolute(cfg.out), "plots"), plot_files(page.all_figures))
    uri = locations.join(locations.absolute(cfg.out), "index.html")
    locations.replace(uri, render(page).encode())
    lines = [
        *([no_part(cfg.paper)] if cfg.paper.name and not parts else []),
        f"report: {uri}",
        *(terminal_lines(page.summary) if page.summary else ()),
        *(f"  {sentence}" for sentence in results.notices),
        f"  {quantity(manifest['counts']['rows_out'], 'metric')} in {manifest['out']} and metrics.csv",
        *summary.exclusion_lines(excluded, exclusion_filter.matched),
    ]
    return Manifest(manifest, lines)


JOB = cli.Job(
    "report",
    ReportConfig,
    execute,
    check=check,
    check_attributes=metric_settings.check_of_items,
    pools=("reduce",),
)

if __name__ == "__main__":
    sys.exit(cli.main("report"))
