"""The input tables of a report: their keys, opening them, and one pass over all ratings."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.analysis import metric_settings
from jobs.analysis.attributes import Raters, read_raters, read_units
from jobs.analysis.conditions import are_separate, condition_groups
from jobs.analysis.mismatches import RatedItems
from jobs.analysis.rating_coder import RatingCoder
from jobs.analysis.rating_codes import PART, CodedPart, Reduction
from jobs.analysis.reduced_question import IndependentUnits, Key
from jobs.errors import InputError
from jobs.judging.kept_rubric import Rubrics
from jobs.judging.rating_tables import open_ratings
from jobs.metrics.distributions import Distribution, Distributions
from jobs.metrics.rated_question import MetricSettings
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.runtime.tasks import Tasks
from jobs.store.keys import refuse_shared_keys
from jobs.store.object_rows import RowLookup
from jobs.store.reading import TableSource, open_table, open_tables
from jobs.tables import CONDITION, HUMAN

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
GROUPS = ("country",)  # columns of raters that divide people into groups, by default
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
    assignments: Sequence[TableSource] = ()

    @property
    def sources(self) -> list[TableSource]:
        """All opened tables."""
        lists = (self.ratings, self.items, self.responses, self.texts, self.raters, self.spans)
        more = (self.remarks, self.terms, self.computed, self.assignments)
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


@dataclass(frozen=True)
class ReportRatings:
    """The ratings of a report while its reduction is open.

    Attributes:
        tables: the opened tables.
        reduction: of the ratings, by condition and by `metrics.group_by`; `summary`: from the same pass over them.
        rubrics: the rubrics kept with the ratings.
        exclusion_filter: the exclusions; it counts the entries that matched.
    """

    tables: ReportTables
    reduction: Reduction
    summary: RatingSummary
    rubrics: Rubrics
    exclusion_filter: ExclusionFilter


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
    rated = [RatedItems(source.uri, source.batches) for source in tables.ratings]
    parts = [(number, part) for number, source in enumerate(tables.ratings) for part in source.parts(PART)]
    shared = (reduction.by, reduction.coder.ids is not None, exclusion_filter.copy())
    read = reduction.tasks.spread(read_part, [(part,) for _, part in parts], shared=shared)
    for (number, _), (part, bundles) in zip(parts, read, strict=True):
        reduction.join(part.codes, bundles)
        distributions.join(part.distributions)
        pooled.join(part.pooled)
        rated[number].join(part.rated)
        exclusion_filter.matched.update(part.matched)
    reduction.units = read_units(tables.items, tables.responses, settings.unit)
    groups = () if not tables.raters else GROUPS if settings.groups is None else settings.groups
    raters = read_raters(tables.raters, reduction.methods, gold=settings.gold, groups=groups, kept=models)
    if not are_separate(condition_groups(reduction, raters.kinds)):
        distributions, pooled = distributions.without(CONDITION), pooled.without(CONDITION)
    add_units(reduction, distributions, pooled)
    return RatingSummary(distributions, pooled, raters, rated)


@dataclass(frozen=True)
class RatingsPart:
    """The results of reading a part of a table of ratings.

    Attributes:
        codes: see `CodedPart`.
        distributions, pooled, rated: as in `RatingSummary`.
        matched: entry of the exclusions -> ratings that it excludes.
    """

    codes: CodedPart
    distributions: Distributions
    pooled: Distributions
    rated: RatedItems
    matched: Mapping[str, int]


def read_part(
    by: Sequence[str], keep_ids: bool, exclusion_filter: ExclusionFilter, source: TableSource
) -> Iterator[Any]:
    """Yield the `RatingsPart` of a part of a table, then its bundles of codes: 57 bytes per rating."""
    rated = RatedItems(source.uri)

    def present() -> Iterator[pa.Table]:
        for rows in source.batches(sorted({*Distributions(extra=by).columns, *RatingCoder(by=by).columns})):
            batch = rows.filter(pa.array(~exclusion_filter.mask(rows["item_id"])))
            rated.add(batch)
            yield batch

    codes, bundles, distributions, pooled = code_part(present(), by=by, keep_ids=keep_ids)
    yield RatingsPart(codes, distributions, pooled, rated, exclusion_filter.take_matched())
    yield from bundles


def code_part(
    batches: Iterable[pa.Table], *, by: Sequence[str] = (), keep_ids: bool = False
) -> tuple[CodedPart, list[NDArray[Any]], Distributions, Distributions]:
    """Return the codes of batches of ratings with their bundles, and the distributions of raters and of all people."""
    coder, rows_of = RatingCoder(by=by, keep_ids=keep_ids), defaultdict[Key, list[NDArray[Any]]](list)
    distributions, pooled = Distributions(extra=by), Distributions(extra=by)
    for batch in batches:
        distributions.add(batch)
        for key, coded in coder.rows(batch):
            rows_of[key].append(coded)
        pooled.add(of_all_people(batch))
    return *CodedPart.of(coder, rows_of), distributions, pooled


def of_all_people(ratings: pa.Table) -> pa.Table:
    """Return people's ratings as those of one rater."""
    people = ratings.filter(pc.equal(ratings["method"], HUMAN))
    names = pa.array([ALL_PEOPLE] * len(people), pa.string())
    return people.set_column(people.column_names.index("rater"), "rater", names)


def add_units(reduction: Reduction, distributions: Distributions, pooled: Distributions) -> None:
    """Add the units of all ratings to the distributions of each rater and of all people, for their intervals."""
    keys_of: dict[tuple[str, ...], list[Key]] = {}  # group of the distributions -> questions
    for key in reduction.keys:
        extra = [value for name, value in zip(reduction.by, key[2:], strict=True) if name in distributions.extra]
        keys_of.setdefault((*key[:2], *extra), []).append(key)

    def arguments(group: tuple[str, ...], keys: Sequence[Key]) -> tuple[Any, ...]:
        raters = {rater: None for key in keys for rater in reduction.versions_of(key)}
        counted = distributions.of_question(group, raters), pooled.of_question(group, [ALL_PEOPLE])
        return reduction.of(keys), keys, group, counted

    groups = (arguments(group, keys) for group, keys in keys_of.items())
    for of_raters, of_people in reduction.tasks.map(_with_units, groups, shared=(reduction.units,)):
        distributions.join_units(of_raters)
        pooled.join_units(of_people)


def _with_units(
    units: IndependentUnits,
    reduction: Reduction,
    keys: Sequence[Key],
    group: tuple[str, ...],
    counted: tuple[Distributions, Distributions],
) -> tuple[Distributions, Distributions]:
    """Return the distributions of each rater and of all people with the units of their ratings."""
    reduction.units = units
    of_raters, of_people = counted
    for part in (part for key in keys for part in reduction.by_units(key)):
        of_raters.add_units(group, part)
        of_people.add_units(group, part.pooled(ALL_PEOPLE))
    return of_raters, of_people


def rows_of_items(
    tables: ReportTables, item_ids: set[str], extra: Sequence[str], exclusion_filter: ExclusionFilter, tasks: Tasks
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of `ratings` of each item that is not excluded, with the columns that cards show, by item_id.

    Args:
        extra: additional columns, which distinguish the ratings of one rater.
        tasks: where they are looked up.
    """
    rows_of: dict[str, list[dict[str, Any]]] = defaultdict(list)
    parts = [part for source in tables.ratings for part in source.parts(PART)] if item_ids else []
    objects = (([f.object.uri for f in part.footers],) for part in parts if not (part.span and part.span[0]))
    shared = (pa.array(sorted(item_ids), pa.string()), [*ON_CARDS, *extra], exclusion_filter.copy())
    for rows, matched in tasks.map(_rows_in, objects, shared=shared):
        exclusion_filter.matched.update(matched)
        for row in rows:
            rows_of[row["item_id"]].append(row)
    return rows_of


def _rows_in(
    wanted: pa.Array, columns: Sequence[str], exclusion_filter: ExclusionFilter, uris: Sequence[str]
) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Return the rows of some items in data objects, without excluded ones, and the entries that exclude others."""
    row_groups = RowLookup(uris, key="item_id", columns=columns).matching(wanted)
    kept = [rows.filter(pa.array(~exclusion_filter.mask(rows["item_id"]))).to_pylist() for rows in row_groups]
    return [row for rows in kept for row in rows], exclusion_filter.take_matched()


@dataclass
class ReportInputs:
    """Keys for tables; none is required, but at least one must have rows to report on."""

    ratings: list[str] = field(default_factory=list)
    images: str | None = None  # images table: thumbnails and fetch status
    records: str | None = None  # records of these pictures
    terms: list[str] = field(default_factory=list)  # tables, or globs: search terms, for the numbers of entities
    matches: str | None = None  # rarely: output of remine mine, for the funnel of counts
    embeddings: str | None = None  # embeddings table, for its counts
    raters: list[str] = field(default_factory=list)  # tables, or globs: kinds, families, countries of raters
    # tables, or globs: attributes to disaggregate by, targets, right values
    items: list[str] = field(default_factory=list)
    # tables, or globs: model, prompt and length of the rated responses; refusal rates
    responses: list[str] = field(default_factory=list)
    spans: list[str] = field(default_factory=list)  # tables, or globs of tables
    remarks: list[str] = field(default_factory=list)  # tables, or globs: people's free text, next to their ratings
    # tables, or globs, that annotate wrote: which items people were given, for estimates of their answers to all items
    assignments: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # tables, or globs: texts of the spans, for metrics of tokens
    questions: str | None = None  # scene graphs: questions and their parents; the answers are in ratings
    # rarely: tables of metrics of other jobs (link evaluate, tric rank, …), or globs, for the tables of a paper
    computed: list[str] = field(default_factory=list)


def open_inputs(inputs: ReportInputs) -> ReportTables:
    """Open the tables that the keys name.

    Raises:
        InputError: a table does not exist, two tables hold the same rating or span, or no key names a table to report
            on.
    """

    def single(key: str, uri: str | None) -> TableSource | None:
        return open_table(uri, key, key=key) if uri else None

    corpus = (
        ("matches", single("records", inputs.matches)),
        ("records", single("records", inputs.records)),
        ("images", single("images", inputs.images)),
        ("embeddings", single("embeddings", inputs.embeddings)),
    )
    tables = ReportTables(
        ratings=open_ratings(inputs.ratings),
        corpus={name: source for name, source in corpus if source},
        raters=open_tables(inputs.raters, "raters", key="raters"),
        spans=open_tables(inputs.spans, "spans", key="spans"),
        items=open_tables(inputs.items, "items", key="items"),
        responses=open_tables(inputs.responses, "responses", key="responses"),
        texts=open_tables(inputs.texts, "texts", key="texts"),
        remarks=open_tables(inputs.remarks, "remarks", key="remarks"),
        questions=single("questions", inputs.questions),
        terms=open_tables(inputs.terms, "terms", key="terms"),
        computed=open_tables(inputs.computed, "metrics", key="computed"),
        assignments=open_tables(inputs.assignments, "assignments", key="assignments"),
    )
    refuse_shared_keys(tables.spans, groups=("rater", "kind"), row="span")
    reported = (tables.corpus, tables.ratings, tables.spans, tables.responses, tables.terms, tables.computed)
    if not any(reported):
        raise InputError(
            "report: no table to report on; set ratings=, responses=, images=, records=, matches=, spans=, terms= or "
            "computed="
        )
    return tables
