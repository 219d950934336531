"""Reading the tables of a report: one pass over all ratings, then the metrics that the tables allow."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.analysis import compute, metric_settings
from jobs.analysis.comparisons import comparison_metrics
from jobs.analysis.conditions import CONDITION, are_separate, condition_groups
from jobs.analysis.item_attributes import Items, read_items
from jobs.analysis.item_units import read_units
from jobs.analysis.rated_items import RatedItems
from jobs.analysis.rater_attributes import HUMAN, Raters, read_raters
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.remarks import remark_metrics
from jobs.analysis.responses import refusal_rates
from jobs.analysis.span_marks import methods_of
from jobs.analysis.span_metrics import SpanTables, read_span_tables, span_metrics
from jobs.judging import rating_tables
from jobs.judging.kept_rubric import Rubrics
from jobs.metrics import refusals
from jobs.metrics.distributions import Distribution, Distributions
from jobs.metrics.entity_counts import EntityCounts
from jobs.metrics.metric import Metric
from jobs.metrics.question import MetricSettings, RatedQuestion
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.object_rows import RowLookup
from jobs.store.reading import TableSource

ALL_PEOPLE = "all people"  # rater name of people's pooled ratings
ON_CARDS = (
    "target",
    "rubric",
    "question",
    "rater",
    "method",
    "sample",
    "value",
    "score",
    "status",
    "answers",
    "probabilities",
    "raw",
    "comment",
)
MAX_PEOPLE_SHOWN = 8  # with more people, the page shows their pooled distribution


@dataclass(frozen=True)
class ReportTables:
    """The opened tables of a report; `corpus` maps matches, records, images and embeddings to their tables."""

    ratings: Sequence[TableSource] = ()
    corpus: Mapping[str, TableSource] = field(default_factory=dict)
    raters: Sequence[TableSource] = ()
    spans: Sequence[TableSource] = ()
    items: Sequence[TableSource] = ()
    responses: Sequence[TableSource] = ()
    texts: Sequence[TableSource] = ()
    remarks: Sequence[TableSource] = ()
    questions: TableSource | None = None
    terms: Sequence[TableSource] = ()
    computed: Sequence[TableSource] = ()  # metrics of other jobs

    @property
    def sources(self) -> list[TableSource]:
        """All opened tables."""
        lists = (self.ratings, self.items, self.responses, self.texts, self.raters, self.spans)
        more = (self.remarks, self.terms, self.computed)
        questions = [self.questions] if self.questions else []
        return [*self.corpus.values(), *(source for sources in (*lists, *more) for source in sources), *questions]


@dataclass(frozen=True)
class RatingSummary:
    """The results of one pass over the ratings.

    Attributes:
        distributions, pooled: of each rater's answers, and of the answers of all people together. They distinguish
            conditions if a question was answered under several.
        raters: the attributes of the raters.
        rated: the items that each table is about.
    """

    distributions: Distributions
    pooled: Distributions
    raters: Raters
    rated: Sequence[RatedItems] = ()

    def shown(self, methods: Mapping[str, set[str]]) -> list[Distribution]:
        """Return the distributions for the page: one per rater, or a pooled one for people if there are many.

        Args:
            methods: rater -> the methods of its ratings.
        """
        people = {rater for rater, used in methods.items() if used == {HUMAN}}
        if len(people) <= MAX_PEOPLE_SHOWN:
            return self.distributions.result()
        return [d for d in self.distributions.result() if d.rater not in people] + self.pooled.result()


def summarize_ratings(
    tables: ReportTables,
    settings: MetricSettings,
    reduction: Reduction,
    *,
    models: Sequence[Mapping[str, Any]],
    exclusion_filter: ExclusionFilter,
) -> RatingSummary:
    """Read all ratings once, except those of excluded items, and add their codes to `reduction`.

    Args:
        models: rows of table `raters` kept with the tables of ratings and responses.

    Raises:
        InputError: the table of raters does not fit the settings, or contradicts itself.
    """
    metric_settings.check_groups(settings, has_raters=bool(tables.raters))
    distributions, pooled = Distributions(extra=reduction.by), Distributions(extra=reduction.by)
    columns = sorted({*distributions.columns, *reduction.columns, "item_id", "target"})
    rated = [RatedItems(source.uri, source.batches) for source in tables.ratings]
    for source, of_source in zip(tables.ratings, rated, strict=True):
        for rows in source.batches(columns):
            batch = rows.filter(pa.array(~exclusion_filter.mask(rows["item_id"])))
            distributions.add(batch)
            reduction.add(batch)
            of_source.add(batch)
            people = batch.filter(pc.equal(batch["method"], HUMAN))
            column = people.column_names.index("rater")
            pooled.add(people.set_column(column, "rater", pa.array([ALL_PEOPLE] * len(people), pa.string())))
    reduction.units = read_units(tables.items, tables.responses, settings.unit)
    groups = settings.groups if tables.raters else ()
    raters = read_raters(tables.raters, reduction.methods, gold=settings.gold, groups=groups, kept=models)
    if not are_separate(condition_groups(reduction, raters.kinds)):
        distributions, pooled = distributions.without(CONDITION), pooled.without(CONDITION)
    for key in reduction.keys:
        extra = [value for name, value in zip(reduction.by, key[2:], strict=True) if name in distributions.extra]
        for part in reduction.by_units(key):
            distributions.add_units((*key[:2], *extra), part)
            pooled.add_units((*key[:2], *extra), part.pooled(ALL_PEOPLE))
    return RatingSummary(distributions, pooled, raters, rated)


def rows_of_items(
    tables: ReportTables, item_ids: set[str], extra: Sequence[str], exclusion_filter: ExclusionFilter
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of `ratings` of each item that is not excluded, with the columns that cards show, by item_id.

    Args:
        extra: additional columns, which distinguish the ratings of one rater.
    """
    rows_of: dict[str, list[dict[str, Any]]] = defaultdict(list)
    wanted = pa.array(sorted(item_ids), pa.string())
    for source in tables.ratings if item_ids else ():
        uris = [footer.object.uri for footer in source.footers]
        for rows in RowLookup(uris, key="item_id", columns=[*ON_CARDS, *extra]).matching(wanted):
            for row in rows.filter(pa.array(~exclusion_filter.mask(rows["item_id"]))).to_pylist():
                rows_of[row["item_id"]].append(row)
    return rows_of


def read_report_items(
    tables: ReportTables,
    settings: MetricSettings,
    *,
    disaggregate: Sequence[str] = (),
    compare: Sequence[str] = (),
    contrast: Sequence[str] = (),
) -> tuple[Items, MetricSettings]:
    """Return the attributes of the items, and the settings with the arguments that apply.

    Args:
        disaggregate, compare, contrast: added to the setting of the same name if the items have the attributes.

    Raises:
        InputError: the settings themselves name an attribute that no item has.
    """
    more = replace(
        settings, disaggregate=[*settings.disaggregate, *disaggregate], compare=[*compare], contrast=[*contrast]
    )
    items = read_items(
        tables.items, tables.responses, metric_settings.attributes(settings) | metric_settings.attributes(more)
    )
    metric_settings.check_attributes(settings, items.named)
    return items, metric_settings.with_available(
        settings, items.named, disaggregate=disaggregate, compare=compare, contrast=contrast
    )


def report_metrics(
    tables: ReportTables,
    reduction: Reduction,
    settings: MetricSettings,
    *,
    items: Items,
    summary: RatingSummary,
    rubrics: Rubrics,
    spans: SpanTables | None,
    questions_rubric: str,
    likert: str | None,
    exclusion_filter: ExclusionFilter,
    observe: Callable[[Mapping[str, str], RatedQuestion], None] = lambda dims, question: None,
) -> Iterator[Metric]:
    """Yield all metrics that the tables allow, except those of distributions.

    Args:
        spans: the spans that raters marked (`read_spans`).
        questions_rubric: rubric of the answers to scene graphs; likert: `rubric/question` of people's ratings to
            correlate them with.
        observe: called with the dims and the answers of each question; see `compute.question_metrics`.

    Raises:
        InputError: the settings name a column or kind that the tables do not have.
    """
    orders = {(d.rubric, d.question): [a.answer for a in d.answers if a.listed] for d in summary.distributions.result()}

    def is_scene_graph(rubric: str, question: str) -> bool:
        return tables.questions is not None and rubric == questions_rubric

    yield from compute.question_metrics(
        reduction,
        summary.raters,
        items,
        settings,
        orders=orders,
        scale=rubrics.scale,
        skip=is_scene_graph,
        observe=observe,
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
        yield from refusals.refusal_metrics(refusal_rates(tables.responses, exclusion_filter=exclusion_filter))
    if tables.remarks:
        yield from remark_metrics(
            tables.remarks, tables.ratings, items, settings, exclusion_filter, units=reduction.units
        )
    yield from _entity_metrics(tables.terms)
    if spans:
        yield from span_metrics(spans, settings)
    if tables.questions:
        yield from compute.dsg_metrics(
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
