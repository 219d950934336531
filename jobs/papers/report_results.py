"""The results of a report from its tables and reduced ratings: metrics, and the tables and figures of a paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobs.analysis import metric_settings
from jobs.analysis.attributes import Items
from jobs.analysis.conditions import CONDITION
from jobs.analysis.metric_tables import read_computed
from jobs.analysis.mismatches import RatedTargets, left_out, mismatches, rated_items
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.report_metrics import read_report_items, read_spans, report_metrics
from jobs.analysis.report_tables import RatingSummary, ReportTables
from jobs.analysis.span_tables import SpanTables
from jobs.errors import InputError
from jobs.judging.kept_rubric import Rubrics
from jobs.metrics.distributions import metrics_of
from jobs.metrics.metric import Metric
from jobs.metrics.observations import Observations
from jobs.metrics.question import MetricSettings, RatedQuestion
from jobs.papers.paper_tables import PaperPart
from jobs.papers.study import MetricIndex, PaperSettings, Study, arrange_paper, check_paper
from jobs.runtime.configuration.config_files import options
from jobs.runtime.selection.exclusions import ExclusionFilter


@dataclass
class ReportSettings:
    """Keys for what a report computes and shows."""

    questions_rubric: str = "dsg"  # rubric of the answers to the questions of scene graphs
    likert: str | None = None  # rubric/question of people's ratings to correlate scene graphs with
    metrics: MetricSettings = field(default_factory=MetricSettings)
    # a paper, of conf/paper: its tables and figures, with the printed numbers next to this report's
    paper: PaperSettings = field(default_factory=PaperSettings)
    title: str = ""  # title of the page; empty: the names of the rubrics
    gallery: int = 48  # number of pictures and items on the page
    gallery_seed: int = 0  # rarely: the sample depends only on the pictures' ids and this number


@dataclass(frozen=True)
class ReportResults:
    """The metrics, and the other contents of the page."""

    of_answers: list[Metric]  # metrics of the distributions of answers
    metrics: list[Metric]
    observations: Observations  # the data of each question that plots need besides its metrics
    notices: list[str]  # tables of ratings that share no items or targets with others, and what metrics leave out
    methods: Mapping[str, set[str]]  # rater -> the methods of its ratings
    parts: list[PaperPart]
    spans: SpanTables | None  # the spans that raters marked


def check(settings: ReportSettings) -> None:
    """Raise InputError if the value of a key is not allowed."""
    for key in ("gallery", "gallery_seed"):
        if (value := getattr(settings, key)) < 0:
            raise InputError(f"{key}={value}: must be at least 0")
    metric_settings.check(settings.metrics)
    check_paper(settings.paper)


def compute_results(
    settings: ReportSettings,
    tables: ReportTables,
    reduction: Reduction,
    *,
    summary: RatingSummary,
    rubrics: Rubrics,
    exclusion_filter: ExclusionFilter,
) -> ReportResults:
    """Return the metrics that the tables allow, and the parts of the paper.

    Args:
        settings: keys that `check` accepted.
        tables: the opened tables.
        reduction: the open reduction of the ratings, by condition and by `metrics.group_by`.
        summary: the summary from the same pass over the ratings.
        rubrics: the rubrics kept with the ratings.
        exclusion_filter: the exclusions; it counts the entries that matched.
    """
    raters_of: dict[str, set[str]] = {}
    for key in reduction.keys:
        raters_of.setdefault(key[0], set()).update(reduction.methods_of(key))
    metric_settings.check_rubrics(settings.metrics, {*raters_of, *options("rubric", None)})
    items, of_metrics = _items_and_settings(settings, tables, reduction)
    observations, targets = Observations(), RatedTargets()

    def observe(dims: Mapping[str, str], question: RatedQuestion) -> None:
        observations(dims, question)
        targets(dims, question)

    spans = read_spans(tables, of_metrics, exclusion_filter)
    metrics = list(
        report_metrics(
            tables,
            reduction,
            of_metrics,
            items=items,
            summary=summary,
            rubrics=rubrics,
            spans=spans,
            questions_rubric=settings.questions_rubric,
            likert=settings.likert,
            exclusion_filter=exclusion_filter,
            observe=observe,
        )
    )
    of_answers = [m for distribution in summary.distributions.result() for m in metrics_of(distribution)]
    of_people = [m for distribution in summary.pooled.result() for m in metrics_of(distribution)]
    index = MetricIndex([*of_answers, *of_people, *metrics], condition=settings.paper.condition)
    study = Study(
        settings.paper,
        of_metrics,
        index,
        tables,
        summary,
        items,
        reduction,
        rubrics,
        exclusion_filter,
        computed=MetricIndex(read_computed(tables.computed)),
    )
    notices = [
        *mismatches(summary.rated, tables.items, items.hashes),
        *targets.sentences(items, rated_items(summary.rated)),
        *left_out([*of_answers, *metrics]),
        *metric_settings.unmatched(settings.metrics, raters_of),
    ]
    return ReportResults(of_answers, metrics, observations, notices, reduction.methods, arrange_paper(study), spans)


def _items_and_settings(
    settings: ReportSettings, tables: ReportTables, reduction: Reduction
) -> tuple[Items, MetricSettings]:
    """Return the items' attributes, and the metrics' settings with the paper's additions for these ratings."""
    paper = settings.paper
    items, of_metrics = read_report_items(
        tables, settings.metrics, disaggregate=paper.disaggregate, compare=paper.compare, contrast=paper.contrast
    )
    conditions = {dict(zip(reduction.by, key[2:], strict=True))[CONDITION] for key in reduction.keys}
    of_metrics = metric_settings.with_conditions(
        of_metrics, conditions, baseline=paper.baseline_condition, reference=paper.reference_condition
    )
    return items, of_metrics
