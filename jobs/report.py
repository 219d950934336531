"""Compute metrics of ratings and write one self-contained page -> table `metrics` and `index.html`.

    remine report 'ratings=[R/ratings/*,R/people]' images=R/images records=R/records out=R/report

The page has counts after each step, distributions of answers by rater and question, a gallery and the metrics that the
tables allow: agreement among raters, scores of models, models against people and gold, spans, scene graphs
(docs/metrics.md). It loads nothing and runs no script; pictures are blurred until the reader shows them. The job writes
OUT/index.html and the table OUT/metrics, and replaces an earlier report there.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from omegaconf import MISSING

from jobs.analysis import metric_settings
from jobs.analysis.computed_metrics import read_computed
from jobs.analysis.conditions import CONDITION
from jobs.analysis.item_attributes import Items
from jobs.analysis.output import refuse_foreign, write_metrics
from jobs.analysis.rated_items import mismatches
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.report_tables import (
    RatingSummary,
    ReportTables,
    read_report_items,
    report_metrics,
    rows_of_items,
    summarize_ratings,
)
from jobs.analysis.standings import standings
from jobs.errors import InputError
from jobs.judging import kept_raters
from jobs.judging.kept_rubric import Rubrics, read_rubrics
from jobs.judging.rating_tables import open_ratings
from jobs.metrics.distributions import metrics_of
from jobs.metrics.metric import Metric
from jobs.metrics.observations import Observations
from jobs.metrics.question import MetricSettings
from jobs.page import gallery
from jobs.page.build import report_page, wording
from jobs.page.render import render
from jobs.papers import registry
from jobs.papers.metric_index import MetricIndex
from jobs.papers.model import PaperFigure, PaperPart
from jobs.papers.output import write_parts
from jobs.papers.settings import PaperSettings
from jobs.papers.study import Study
from jobs.runtime import cli, exclusions, summary
from jobs.runtime.console import say
from jobs.store import locations
from jobs.store.keys import refuse_shared_keys
from jobs.store.reading import TableSource, open_table, open_tables


@dataclass
class ReportConfig:
    """Keys of `report`; only `out` is required."""

    out: str = MISSING  # a folder: index.html and the table metrics
    ratings: list[str] = field(default_factory=list)  # tables, or globs of tables
    images: str | None = None  # images table: thumbnails and fetch status
    records: str | None = None  # records of these pictures
    terms: list[str] = field(default_factory=list)  # tables, or globs: search terms, for the numbers of entities
    matches: str | None = None  # rarely: output of jobs.mine, for the funnel of counts
    embeddings: str | None = None  # embeddings table, for its counts
    raters: list[str] = field(default_factory=list)  # tables, or globs: kinds, families, countries of raters
    # tables, or globs: attributes to disaggregate by, targets, right values
    items: list[str] = field(default_factory=list)
    # tables, or globs: model, prompt and length of the rated responses; refusal rates
    responses: list[str] = field(default_factory=list)
    spans: list[str] = field(default_factory=list)  # tables, or globs of tables
    remarks: list[str] = field(default_factory=list)  # tables, or globs: people's free text, next to their ratings
    texts: list[str] = field(default_factory=list)  # tables, or globs: texts of the spans, for metrics of tokens
    questions: str | None = None  # scene graphs: questions and their parents; the answers are in ratings
    questions_rubric: str = "dsg"  # rubric of these answers
    likert: str | None = None  # rubric/question of people's ratings to correlate scene graphs with
    # rarely: tables of metrics of other jobs (evaluate, tric_rank, …), or globs, for the tables of a paper
    computed: list[str] = field(default_factory=list)
    metrics: MetricSettings = field(default_factory=MetricSettings)
    # a paper, of conf/paper: its tables and figures, with the printed numbers next to this report's
    paper: PaperSettings = field(default_factory=PaperSettings)
    title: str = "Report"  # of the page
    gallery: int = 48  # number of pictures and items on the page
    gallery_seed: int = 0  # rarely: the sample depends only on the pictures' ids and this number
    exclusions: str | None = None  # file of pictures that must not be used (jobs.runtime.exclusions)


def _items_and_settings(cfg: ReportConfig, tables: ReportTables, reduction: Reduction) -> tuple[Items, MetricSettings]:
    """The items' attributes, and the metrics' settings with what the paper adds for the conditions of the ratings."""
    items, settings = read_report_items(
        tables,
        cfg.metrics,
        disaggregate=cfg.paper.disaggregate,
        compare=cfg.paper.compare,
        contrast=cfg.paper.contrast,
    )
    conditions = {dict(zip(reduction.by, key[2:], strict=True))[CONDITION] for key in reduction.keys}
    settings = metric_settings.with_conditions(
        settings, conditions, baseline=cfg.paper.baseline_condition, reference=cfg.paper.reference_condition
    )
    return items, settings


@dataclass(frozen=True)
class _Results:
    """What the tables give: the summary of the ratings, the metrics, and what the page shows besides them."""

    ratings: RatingSummary
    chosen: gallery.Gallery
    of_answers: list[Metric]  # of the distributions of answers
    metrics: list[Metric]
    observations: Observations
    mismatches: list[str]  # tables of ratings that share no items or targets with others
    methods: Mapping[str, set[str]]  # rater -> the methods of its ratings
    parts: list[PaperPart]


def execute(cfg: ReportConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of the table of metrics."""
    _check(cfg)
    tables = read_tables(cfg)
    rubrics = read_rubrics(tables.ratings)
    models = kept_raters.read([*tables.ratings, *tables.responses])
    refuse_foreign(cfg.out, "index.html")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)

    results = _compute(cfg, tables, rubrics, models, exclusion_filter)
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
        results.ratings,
        results.metrics,
        observations=results.observations,
        mismatches=results.mismatches,
        rubrics=rubrics,
        models=models,
        methods=results.methods,
        gallery=results.chosen,
        rows_of=rows_of_items(tables, results.chosen.ids, results.ratings.distributions.extra, exclusion_filter),
        exclusion_filter=exclusion_filter,
        versions=manifest["versions"],
        paper=results.parts,
        paper_title=cfg.paper.title,
        paper_pictures={
            part.name: part.pictures for part in results.parts if isinstance(part, PaperFigure) and part.pictures
        },
    )
    write_parts(cfg.out, results.parts)
    uri = locations.join(locations.absolute(cfg.out), "index.html")
    locations.replace(uri, render(page).encode())
    say(f"report: {uri}")
    say(f"  {manifest['counts']['rows_out']:,} metrics in {manifest['out']}")
    for sentence in results.mismatches:
        say(f"  {sentence}")
    summary.show_exclusions(excluded, exclusion_filter.matched)
    return manifest


def _check(cfg: ReportConfig) -> None:
    for key in ("gallery", "gallery_seed"):
        if (value := getattr(cfg, key)) < 0:
            raise InputError(f"{key}={value}: must be at least 0")
    metric_settings.check(cfg.metrics)
    registry.check(cfg.paper)


def _compute(
    cfg: ReportConfig,
    tables: ReportTables,
    rubrics: Rubrics,
    models: Sequence[Mapping[str, Any]],
    exclusion_filter: exclusions.ExclusionFilter,
) -> _Results:
    """Reduce the ratings once, then compute what follows from them."""
    with Reduction(by=[CONDITION, *cfg.metrics.group_by], keep_ids=cfg.metrics.crowdtruth) as reduction:
        ratings = summarize_ratings(tables, cfg.metrics, reduction, models=models, exclusion_filter=exclusion_filter)
        chosen = gallery.choose(
            tables,
            cfg.gallery,
            exclusion_filter,
            seed=cfg.gallery_seed,
            standings=lambda: standings(reduction, list(wording(rubrics)), rubrics.scale),
        )
        items, settings = _items_and_settings(cfg, tables, reduction)
        observations = Observations()
        metrics = list(
            report_metrics(
                tables,
                reduction,
                settings,
                items=items,
                summary=ratings,
                rubrics=rubrics,
                questions_rubric=cfg.questions_rubric,
                likert=cfg.likert,
                exclusion_filter=exclusion_filter,
                observe=observations,
            )
        )
        of_answers = [m for distribution in ratings.distributions.result() for m in metrics_of(distribution)]
        of_people = [m for distribution in ratings.pooled.result() for m in metrics_of(distribution)]
        index = MetricIndex([*of_answers, *of_people, *metrics], condition=cfg.paper.condition)
        computed = MetricIndex(read_computed(tables.computed))
        parts = registry.arrange(
            Study(cfg.paper, settings, index, tables, ratings, items, reduction, rubrics, exclusion_filter, computed)
        )
        apart = mismatches(ratings.rated, tables.items, items.hashes)
    return _Results(ratings, chosen, of_answers, metrics, observations, apart, reduction.methods, parts)


def read_tables(cfg: ReportConfig) -> ReportTables:
    """Open the tables that the keys name.

    Raises:
        InputError: a table does not exist, two tables hold the same rating or span, or no key names a table to report
            on.
    """

    def single(key: str, uri: str | None) -> TableSource | None:
        return open_table(uri, key) if uri else None

    corpus = (
        ("matches", single("records", cfg.matches)),
        ("records", single("records", cfg.records)),
        ("images", single("images", cfg.images)),
        ("embeddings", single("embeddings", cfg.embeddings)),
    )
    tables = ReportTables(
        ratings=open_ratings(cfg.ratings),
        corpus={name: source for name, source in corpus if source},
        raters=open_tables(cfg.raters, "raters"),
        spans=open_tables(cfg.spans, "spans"),
        items=open_tables(cfg.items, "items"),
        responses=open_tables(cfg.responses, "responses"),
        texts=open_tables(cfg.texts, "texts"),
        remarks=open_tables(cfg.remarks, "remarks"),
        questions=single("questions", cfg.questions),
        terms=open_tables(cfg.terms, "terms"),
        computed=open_tables(cfg.computed, "metrics"),
    )
    refuse_shared_keys(tables.spans, groups=("rater", "kind"), row="span")
    reported = (tables.corpus, tables.ratings, tables.spans, tables.responses, tables.terms, tables.computed)
    if not any(reported):
        raise InputError(
            "report: no table to report on; give ratings=, responses=, images=, records=, matches=, spans=, terms= or "
            "computed="
        )
    return tables


JOB = cli.Job("report", ReportConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("report"))
