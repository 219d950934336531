"""The metrics that the tables of a report allow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs.analysis import compute, metric_settings, scene_graph_scores
from jobs.analysis.assigned_items import read_assignments, unequal_draws
from jobs.analysis.attributes import Items, read_items, read_raters
from jobs.analysis.comparisons import comparison_metrics
from jobs.analysis.mismatches import RatedTargets, left_out, mismatches, rated_items
from jobs.analysis.reduced_question import IndependentUnits
from jobs.analysis.report_tables import ReportRatings, ReportTables
from jobs.analysis.responses import refusal_rates
from jobs.analysis.span_tables import SpanTables, methods_of, read_span_tables, span_metrics
from jobs.judging import rating_tables
from jobs.metrics import refused_texts
from jobs.metrics.descriptive import EntityCounts
from jobs.metrics.distributions import metrics_of
from jobs.metrics.intervals import Units
from jobs.metrics.metric import Metric
from jobs.metrics.model_scores import marked
from jobs.metrics.observations import Observations
from jobs.metrics.participation import remark_share
from jobs.metrics.rated_question import MetricSettings, RatedQuestion
from jobs.runtime.configuration.config_files import options
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource
from jobs.tables import CONDITION, HUMAN


@dataclass(frozen=True)
class ReportResults:
    """The metrics, and the other contents of the page.

    Attributes:
        of_answers, of_people: metrics of the distributions of each rater's answers, and of all people's together.
        metrics: all others.
        observations: the data of each question that plots need besides its metrics.
        notices: tables of ratings that share no items or targets with others, and what metrics leave out.
        methods: rater -> the methods of its ratings.
        spans: the spans that raters marked.
        items: attributes of the items.
        settings: the key `metrics`, with what was added for these items and ratings.
    """

    of_answers: list[Metric]
    of_people: list[Metric]
    metrics: list[Metric]
    observations: Observations
    notices: list[str]
    methods: Mapping[str, set[str]]
    spans: SpanTables | None
    items: Items
    settings: MetricSettings


def compute_results(
    ratings: ReportRatings,
    settings: MetricSettings,
    *,
    added: MetricSettings,
    questions_rubric: str,
    likert: str | None,
) -> ReportResults:
    """Return the metrics that the tables allow.

    Args:
        settings: keys that `metric_settings.check` accepted.
        added: attributes to disaggregate by, compare and contrast, and conditions to compare with, which are used if
            the items and ratings have them.
        questions_rubric, likert: see `report_metrics`.
    """
    tables, reduction, summary = ratings.tables, ratings.reduction, ratings.summary
    raters_of: dict[str, set[str]] = {}
    for key in reduction.keys:
        raters_of.setdefault(key[0], set()).update(reduction.methods_of(key))
    metric_settings.check_rubrics(settings, {*raters_of, *options("rubric", None)})
    items, used = read_report_items(tables, settings, added)
    conditions = {dict(zip(reduction.by, key[2:], strict=True))[CONDITION] for key in reduction.keys}
    used = metric_settings.with_conditions(used, conditions, added)
    observer = _Observer()
    spans = read_spans(tables, used, ratings.exclusion_filter)
    metrics = list(
        report_metrics(
            ratings,
            used,
            items=items,
            spans=spans,
            questions_rubric=questions_rubric,
            likert=likert,
            observer=observer,
        )
    )
    of_answers = [m for distribution in summary.distributions.result() for m in metrics_of(distribution)]
    of_people = [m for distribution in summary.pooled.result() for m in metrics_of(distribution)]
    notices = [
        *(unequal_draws(tables.ratings) if used.random_part and not tables.assignments else ()),
        *mismatches(summary.rated, tables.items, items.hashes),
        *observer.targets.sentences(items, rated_items(summary.rated)),
        *left_out([*of_answers, *metrics]),
        *metric_settings.unmatched(settings, raters_of),
    ]
    methods = reduction.methods
    return ReportResults(of_answers, of_people, metrics, observer.observations, notices, methods, spans, items, used)


@dataclass
class _Observer:
    """Collects what plots and notices need of each question (`compute.Observer`)."""

    observations: Observations = field(default_factory=Observations)
    targets: RatedTargets = field(default_factory=RatedTargets)

    def __call__(self, dims: Mapping[str, str], question: RatedQuestion) -> None:
        self.observations(dims, question)
        self.targets(dims, question)

    def join(self, question: "_Observer") -> None:
        """Add what another observer has collected from the next question."""
        self.observations.join(question.observations)
        self.targets.join(question.targets)


def read_report_items(
    tables: ReportTables, settings: MetricSettings, added: MetricSettings
) -> tuple[Items, MetricSettings]:
    """Return the attributes of the items, and the settings with those attributes of `added` that the items have.

    Raises:
        InputError: the settings themselves name an attribute that no item has.
    """
    wanted = metric_settings.attributes(settings) | metric_settings.compared_attributes(added)
    items = replace(
        read_items(tables.items, tables.responses, wanted), assignments=read_assignments(tables.assignments)
    )
    metric_settings.check_attributes(settings, items.named)
    return items, metric_settings.with_available(settings, items.named, added)


def report_metrics(
    ratings: ReportRatings,
    settings: MetricSettings,
    *,
    items: Items,
    spans: SpanTables | None,
    questions_rubric: str,
    likert: str | None,
    observer: compute.Observer | None = None,
) -> Iterator[Metric]:
    """Yield all metrics that the tables allow, except those of distributions.

    Args:
        spans: the spans that raters marked (`read_spans`).
        questions_rubric: rubric of the answers to scene graphs; likert: `rubric/question` of people's ratings to
            correlate them with.
        observer: collects other data of the questions; see `compute.question_metrics`.

    Raises:
        InputError: the settings name a column or kind that the tables do not have.
    """
    tables, reduction, summary = ratings.tables, ratings.reduction, ratings.summary
    exclusion_filter = ratings.exclusion_filter
    orders = {(d.rubric, d.question): [a.answer for a in d.answers if a.listed] for d in summary.distributions.result()}

    def is_scene_graph(rubric: str, question: str) -> bool:
        return tables.questions is not None and rubric == questions_rubric

    yield from compute.question_metrics(
        reduction,
        summary.raters,
        items,
        settings,
        orders=orders,
        scale=ratings.rubrics.scale,
        skip=is_scene_graph,
        observer=observer,
        knows_reports=not any(source.metadata.get("remine.reports") == "unknown" for source in tables.ratings),
    )
    yield from comparison_metrics(
        tables.ratings,
        tables.items,
        summary.raters,
        competitors=settings.competitors,
        exclusion_filter=exclusion_filter,
    )
    if tables.responses:
        yield from refused_texts.refusal_metrics(refusal_rates(tables.responses, exclusion_filter=exclusion_filter))
    if tables.remarks:
        yield from remark_metrics(
            tables.remarks, tables.ratings, items, settings, exclusion_filter, units=reduction.units
        )
    yield from _entity_metrics(tables.terms)
    if spans:
        yield from span_metrics(spans, settings, items.assignments.of_spans)
    if tables.questions:
        yield from scene_graph_scores.dsg_metrics(
            tables.ratings,
            tables.questions,
            rubric=questions_rubric,
            likert=likert,
            kinds=summary.raters.kinds,
            exclusion_filter=exclusion_filter,
        )


def read_spans(tables: ReportTables, settings: MetricSettings, exclusion_filter: ExclusionFilter) -> SpanTables | None:
    """Return the spans that raters marked, except those of excluded pictures; None without tables of spans.

    Raises:
        InputError: a span is outside of its text, a text is missing, or two tables contradict each other.
    """
    if not tables.spans:
        return None
    kinds = _span_kinds(tables, settings.gold)
    return read_span_tables(tables.spans, tables.texts, tables.items, kinds=kinds, exclusion_filter=exclusion_filter)


def _entity_metrics(terms: Sequence[TableSource]) -> Iterator[Metric]:
    counts = EntityCounts()
    for source in terms:
        for batch in source.batches(list(counts.columns)):
            for row in batch.to_pylist():
                counts.add(row)
    yield from counts.metrics()


def _span_kinds(tables: ReportTables, gold: Sequence[str]) -> dict[str, str]:
    """Return the kinds of the raters who marked spans; they may have no ratings."""
    kept = rating_tables.read_raters(tables.spans)
    return read_raters(tables.raters, methods_of(tables.spans), gold=gold, groups=(), kept=kept).kinds


def remark_metrics(
    remarks: Sequence[TableSource],
    ratings: Sequence[TableSource],
    items: Items,
    settings: MetricSettings,
    exclusion_filter: ExclusionFilter,
    *,
    units: IndependentUnits,
) -> Iterator[Metric]:
    """Yield `remark_share` of each rubric and field, in all and by `metrics.disaggregate` and writer of rated
    responses.

    Memory grows by 8 bytes per rated item.
    """
    written: dict[tuple[str, str], Hashes] = {}
    for source in remarks:
        for batch in source.batches(["item_id", "rubric", "field"]):
            for (rubric, name), hashes in _by_key(batch, ("rubric", "field"), exclusion_filter):
                earlier = written.get((rubric, name), np.zeros(0, np.uint64))
                written[rubric, name] = np.union1d(earlier, hashes)
    rated = dict.fromkeys((rubric for rubric, _ in written), np.zeros(0, np.uint64))
    for source in ratings:
        for batch in source.batches(["item_id", "rubric", "method", "status"]):
            by_people = pc.and_(pc.equal(batch["method"], HUMAN), pc.equal(batch["status"], Status.OK.value))
            for (rubric,), hashes in _by_key(batch.filter(by_people), ("rubric",), exclusion_filter):
                if rubric in rated:
                    rated[rubric] = np.union1d(rated[rubric], hashes)
    attributes = dict.fromkeys(["model", *settings.disaggregate])
    for (rubric, name), noted in sorted(written.items()):
        about = rated[rubric]
        has_text, everything = np.isin(about, noted), np.ones(len(about), bool)
        dims = {"rubric": rubric, "field": name}
        of_items = Units(units.of(about).view(np.int64), units.name_of(about))
        yield remark_share(has_text, everything, of_items).at(**dims)
        for attribute in attributes:
            for value, members in items.subgroups(attribute, about).items():
                metric = marked(remark_share(has_text, members, of_items), settings.minimum)
                yield metric.at(**dims, attribute=attribute, part=value)


def _by_key(
    batch: pa.Table, names: tuple[str, ...], exclusion_filter: ExclusionFilter
) -> Iterator[tuple[tuple[str, ...], Hashes]]:
    """Yield the values of the columns `names` and the hashes of their items, without excluded ones."""
    rows = batch.filter(pa.array(~exclusion_filter.mask(batch["item_id"]))).select(["item_id", *names])
    ids: dict[tuple[str, ...], set[str]] = {}
    for row in rows.unify_dictionaries().group_by(["item_id", *names]).aggregate([]).to_pylist():
        ids.setdefault(tuple(row[name] for name in names), set()).add(row["item_id"])
    for key, members in ids.items():
        yield key, hash_texts(sorted(members))
