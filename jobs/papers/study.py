"""The inputs of a paper's tables and figures: the report's metrics, tables and raters, and the key `paper`.

The key names the paper and has the numbers that it prints. A module per paper, `NAME_tables`, arranges the study.
"""

import importlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Self

from actors.status import Status
from jobs.analysis.attributes import Items
from jobs.analysis.conditions import condition_groups
from jobs.analysis.metrics_output import read_computed
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.report_metrics import ReportResults
from jobs.analysis.report_tables import RatingSummary, ReportRatings, ReportTables
from jobs.errors import InputError
from jobs.judging.kept_rubric import Rubrics
from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric, MetricKind, undefined
from jobs.metrics.rated_question import MODELS, PEOPLE, MetricSettings, globs_for, matching, of_rubric, people_needed
from jobs.papers.paper_tables import PaperCell, PaperPart, PaperRow, PaperTable, Printed, Unit
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import Hashes
from jobs.tables import CONDITION

PAPERS = ("caire", "century", "docent", "rome", "tric")  # each has a module NAME_tables with `arrange(study)`
ABSENT = "Not computed in this report; n counts nothing."


@dataclass
class PrintedTable:
    """Numbers as printed in a table or figure of a paper.

    `rows` maps a row's name to one number per column, null where the paper has none. With `percent: true`, percentages
    are as printed (26.49); `PrintedNumbers` divides them by 100.
    """

    source: str = MISSING  # such as: Century, table 2
    columns: list[str] = field(default_factory=list)
    rows: dict[str, list[Any]] = field(default_factory=dict)
    percent: bool = True


@dataclass
class PaperSettings:
    """Keys of `paper`. The files of conf/paper also set keys of `metrics`; a key on the command line wins over both."""

    name: str | None = None  # the arrangement: a module of jobs.papers
    title: str = ""  # title of the section of the page
    # role in the paper -> rubric of the ratings, such as images: century_labels
    rubrics: dict[str, str] = field(default_factory=dict)
    # place the numbers that the paper prints next to this report's, for a replication of it
    show_printed: bool = False
    # group of raters -> its name in the paper, whose printed numbers are next to the group's own
    groups: dict[str, str] = field(default_factory=dict)
    # GLOB=NAME: likewise for the raters, groups and models that a glob matches; these come first
    names: list[str] = field(default_factory=list)
    condition: str | None = None  # of the ratings, if their questions were answered under several
    # added to the keys of these names of metrics if the items have these attributes
    disaggregate: list[str] = field(default_factory=list)
    compare: list[str] = field(default_factory=list)  # added to metrics.compare if the items have these attributes
    contrast: list[str] = field(default_factory=list)  # added to metrics.contrast likewise
    baseline_condition: str | None = None  # metrics.baseline_condition, if the ratings have this condition
    reference_condition: str | None = None  # metrics.reference_condition, if the ratings have this condition
    options: dict[str, str] = field(default_factory=dict)  # of the arrangement, which documents them
    printed: dict[str, PrintedTable] = field(default_factory=dict)  # table or figure -> its numbers

    @property
    def added(self) -> MetricSettings:
        """What the paper adds to the key `metrics`, where the items and ratings have it."""
        return MetricSettings(
            disaggregate=self.disaggregate,
            compare=self.compare,
            contrast=self.contrast,
            baseline_condition=self.baseline_condition,
            reference_condition=self.reference_condition,
        )


def check_paper(settings: PaperSettings) -> None:
    """Validate the settings without reading tables.

    Raises:
        InputError: no such arrangement, a name that is not GLOB=NAME, or a printed table whose rows do not fit its
            columns or are not numbers.
    """
    if settings.name is None:
        return
    if settings.name not in PAPERS:
        raise InputError(f"no such paper; must be one of {', '.join(PAPERS)}", key="paper.name", value=settings.name)
    if wrong := [entry for entry in settings.names if not all(entry.partition("="))]:
        raise InputError(f"{wrong[0]!r}: must be GLOB=NAME, such as 'my-model*=GPT-4 Omni'", key="paper.names")
    for name, table in settings.printed.items():
        for row, numbers in table.rows.items():
            if len(numbers) != len(table.columns):
                raise InputError(
                    f"paper.printed.{name}.rows.{row}: {len(numbers)} numbers for {len(table.columns)} columns; give "
                    "one per column, null where the paper has none"
                )
            if wrong := [n for n in numbers if n is not None and not isinstance(n, int | float)]:
                raise InputError(f"paper.printed.{name}.rows.{row}: {wrong[0]!r}: must be a number or null")


class MetricIndex:
    """Metrics of a report by name and dims.

    Args:
        condition: the condition whose metrics are used if the ratings have several.

    Attributes:
        all: all metrics, whatever their condition.
        conditions: the conditions of the ratings, if they have several.
    """

    def __init__(self, metrics: Iterable[Metric], *, condition: str | None = None) -> None:
        self.all = list(metrics)
        self._by_name: dict[str, list[Metric]] = defaultdict(list)
        self._exact: dict[tuple[str, frozenset[tuple[str, str]]], Metric] = {}
        self.conditions: set[str] = set()
        for metric in self.all:
            dims = dict(metric.dims)
            if CONDITION in dims and "question" in dims:
                of_ratings = dims.pop(CONDITION)
                self.conditions.add(of_ratings)
                if of_ratings != condition:
                    continue
            dims.pop("inverted", None)
            self._by_name[metric.name].append(metric)
            self._exact[metric.name, frozenset(dims.items())] = metric
        self._condition = condition
        self._others: dict[str | None, MetricIndex] = {}

    def under(self, condition: str | None) -> "MetricIndex":
        """Return the metrics of another condition, or this index if the ratings have only one."""
        if condition == self._condition or not self.conditions:
            return self
        if condition not in self._others:  # arrangements ask for the same few conditions hundreds of times
            self._others[condition] = MetricIndex(self.all, condition=condition)
        return self._others[condition]

    def get(self, name: str, dims: Mapping[str, str], *, reason: str = "") -> Metric:
        """Return the metric with exactly these dims, apart from condition and inverted, or an undefined one.

        Args:
            reason: why the metric is undefined if the report does not have it.
        """
        if (metric := self._exact.get((name, frozenset(dims.items())))) is not None:
            return metric
        if self.conditions and self._condition not in self.conditions:
            key = name, frozenset(dims.items())
            having = [condition for condition in sorted(self.conditions) if key in self.under(condition)._exact]
            if having:
                listed = ", ".join(map(repr, having))
                reason = f"the ratings have several conditions; set paper.condition to one of {listed}"
        described = ", ".join(f"{key} {value}" for key, value in sorted(dims.items()))
        return undefined(
            MetricKind(name, definition=ABSENT),
            reason or f"this report has no {name} of {described}",
            status=Status.MISSING_INPUT,
            dims=dict(dims),
        )

    def find(self, name: str, **dims: str) -> list[Metric]:
        """Return all metrics of this name that have at least these dims, in the report's order."""
        return [m for m in self._by_name.get(name, ()) if all(m.dims.get(key) == v for key, v in dims.items())]

    def first(self, name: str, dims: Mapping[str, str], *, reason: str = "", **preferred: str) -> Metric:
        """Return a metric of all items that has at least these dims and, if possible, the `preferred` dims.

        Use it for metrics with dims that depend on the ratings, such as the number of slots of an ICC.
        """
        candidates = [m for m in self.find(name, **dims) if "attribute" in dims or "attribute" not in m.dims]
        if not candidates:
            return self.get(name, dims, reason=reason)
        return min(candidates, key=lambda m: sum(m.dims.get(key) != value for key, value in preferred.items()))

    def values(self, dim: str, name: str, **dims: str) -> list[str]:
        """Return the values of a dim among the metrics that `find` returns, in their order, without duplicates."""
        return list(dict.fromkeys(m.dims[dim] for m in self.find(name, **dims) if dim in m.dims))


@dataclass(frozen=True)
class PrintedNumbers:
    """The numbers of one printed table, by row and column."""

    table: PrintedTable

    @property
    def rows(self) -> list[str]:
        """The names of the rows, as printed."""
        return list(self.table.rows)

    def rows_of(self, part: str) -> list[str]:
        """Return the names of the rows `part / NAME`."""
        return [row for row in self.table.rows if row.partition(" / ")[0] == part]

    def rows_alone(
        self,
        columns: Sequence[str | None],
        *,
        headers: Callable[[str], tuple[str, ...]],
        part: str | None = None,
        without: Collection[str] = (),
        unit: Unit = "percent",
    ) -> Iterator[PaperRow]:
        """Yield the rows without a counterpart in the report, except rows that have no number in these columns.

        Args:
            columns: the printed column of each cell; None or empty: an empty cell.
            headers: printed row -> headers of its row.
            part: only the rows `part / NAME`.
            without: printed rows that are shown next to rows of the report.
        """
        for row in self.rows if part is None else self.rows_of(part):
            cells = tuple(PaperCell(printed=self.at(row, column) if column else None, unit=unit) for column in columns)
            if row not in without and any(cell.printed for cell in cells):
                yield PaperRow(headers(row), cells)

    def at(self, row: str, column: str, *, low: str = "", high: str = "") -> Printed | None:
        """Return the number in a row and column, in the unit of metrics (26.49 % as 0.2649); None if there is none.

        Args:
            low, high: columns with the ends of its interval.
        """
        value = self._number(row, column)
        return None if value is None else Printed(value, self._number(row, low), self._number(row, high))

    def _number(self, row: str, column: str) -> float | None:
        columns = [name.casefold() for name in self.table.columns]  # attribute values may be in lower case
        if row not in self.table.rows or column.casefold() not in columns:
            return None
        number = self.table.rows[row][columns.index(column.casefold())]
        return round(number / 100, 9) if number is not None and self.table.percent else number


@dataclass(frozen=True)
class RowSpec:
    """A row of `Study.table`.

    Attributes:
        headers: one per row-header column; dims: what its metrics share.
        printed: its name in the printed table; reason: why the report does not have one of its metrics.
        metrics: where to look; None: among those of the report.
    """

    headers: tuple[str, ...]
    dims: Mapping[str, str] = field(default_factory=dict)
    printed: str = ""
    reason: str = ""
    metrics: MetricIndex | None = None


@dataclass(frozen=True)
class ColumnSpec:
    """A column of `Study.table`.

    Attributes:
        headers: from the outermost level to the innermost.
        metric: the name of its metrics, None: only printed numbers; dims: what they have besides those of the row.
        printed: its name in the printed table.
        cell: returns the cell of a row, for a column whose cells are not a metric and a printed number.
    """

    headers: tuple[str, ...]
    metric: str | None = None
    dims: Mapping[str, str] = field(default_factory=dict)
    printed: str = ""
    unit: Unit = "percent"
    cell: Callable[[RowSpec], PaperCell] | None = None


@dataclass(frozen=True)
class Study:
    """The inputs of an arrangement.

    Attributes:
        settings: key `paper`; metric_settings: key `metrics` with the paper's additions.
        metrics: all metrics of the report, including those of distributions.
        tables: the opened tables; `summary`: distributions and attributes of raters; `items`: attributes of items.
        reduction: the ratings of each question as codes, for plots of single items.
        rubrics: the rubrics of the ratings; exclusion_filter: the exclusions.
        computed: metrics of other jobs (`report computed=`), with the dim `table`.
    """

    settings: PaperSettings
    metric_settings: MetricSettings
    metrics: MetricIndex
    tables: ReportTables
    summary: RatingSummary
    items: Items
    reduction: Reduction
    rubrics: Rubrics
    exclusion_filter: ExclusionFilter
    computed: MetricIndex = field(default_factory=lambda: MetricIndex([]))

    @classmethod
    def of_report(cls, settings: PaperSettings, results: ReportResults, ratings: ReportRatings) -> Self:
        """Return the study of a report, while its reduction is open."""
        metrics = [*results.of_answers, *results.of_people, *results.metrics]
        return cls(
            settings,
            results.settings,
            MetricIndex(metrics, condition=settings.condition),
            ratings.tables,
            ratings.summary,
            results.items,
            ratings.reduction,
            ratings.rubrics,
            ratings.exclusion_filter,
            computed=MetricIndex(read_computed(ratings.tables.computed)),
        )

    def rubric(self, role: str) -> str:
        """Return the rubric for a role in the paper; the role's name if the settings have none."""
        return self.settings.rubrics.get(role, role)

    def has_ratings(self, rubric: str) -> bool:
        """Return whether the report has ratings of a rubric."""
        return any(key[0] == rubric for key in self.reduction.keys)

    def raters(self, rubric: str, *, kinds: Sequence[str] = ("model", "encoder")) -> list[str]:
        """Return the raters of these kinds that answered a rubric, by name."""
        names = {rater for key in self.reduction.keys if key[0] == rubric for rater in self.reduction.methods_of(key)}
        return sorted(rater for rater in names if self.summary.raters.kinds.get(rater, "model") in kinds)

    def model_group(self, rubric: str) -> tuple[str, ...]:
        """Return the models of the group `models` that answered a rubric: all except those in `metrics.leave_out`."""
        raters, patterns = self.raters(rubric), globs_for(self.metric_settings.leave_out, rubric)
        left_out = {name for pattern in patterns for name in matching(raters, pattern)}
        return tuple(name for name in raters if name not in left_out)

    def rated(self, rubric: str, question: str) -> tuple[RatingTable, Hashes] | None:
        """Return the ok ratings of a question and the hash of each item, under the condition of the settings.

        None if nobody was asked.
        """
        condition = self.settings.condition
        for groups in condition_groups(self.reduction, self.summary.raters.kinds).values():
            for group in groups:
                if group.question[:2] == (rubric, question) and (len(groups) == 1 or group.condition == condition):
                    reduced = self.reduction.question(group.key, shared=group.shared)
                    return reduced.answers, reduced.item
        return None

    def groups(self, rubric: str, *, people: str, models: str) -> list[tuple[str, str]]:
        """Return the groups of raters that answered a rubric with their labels: people, all models, ensembles."""
        groups = [(PEOPLE, people)] if self.raters(rubric, kinds=("human",)) else []
        groups += [(MODELS, models)] if self.model_group(rubric) else []
        raters = self.raters(rubric, kinds=("human", "model", "encoder"))
        for name, patterns in of_rubric(self.metric_settings, rubric).ensembles.items():
            if any(matching(raters, pattern) for pattern in patterns):
                groups.append((name, name))
        return groups

    def members(self, rubric: str, group: str) -> set[str]:
        """Return the raters of a rubric in a group: people, all models, an ensemble, or a single rater."""
        if group == PEOPLE:
            return set(self.raters(rubric, kinds=("human",)))
        if group == MODELS:
            return set(self.model_group(rubric))
        patterns = of_rubric(self.metric_settings, rubric).ensembles.get(group)
        if patterns is None:
            return {group}
        raters = self.raters(rubric, kinds=("human", "model", "encoder"))
        return {name for pattern in patterns for name in matching(raters, pattern)}

    def people_needed(self, rubric: str, questions: Iterable[str], *, items: str) -> str:
        """Return a sentence about the ratings by people that an item needs for means and majorities, "" without people.

        Args:
            items: what is rated, in the plural.
        """
        people = self.raters(rubric, kinds=("human",))
        rated = (self.rated(rubric, question) for question in questions) if people else ()
        answers = (of_question[0].of_raters(people) for of_question in rated if of_question is not None)
        numbers = sorted({people_needed(table, self.metric_settings) for table in answers if table.n})
        if not numbers:
            return ""
        listed = " or ".join(map(str, numbers)) + (", by question" if len(numbers) > 1 else "")
        return f"For people, {items} count that have at least {listed} of their ratings (metrics.people)."

    def no_rating(self, rubric: str, question: str, group: str) -> str:
        """Return why the report has no metric of a group's, or a rater's, answers to a question."""
        keys = [key for key in self.reduction.keys if key[:2] == (rubric, question)]
        asked = {rater for key in keys for rater in self.reduction.methods_of(key)}
        if not asked:
            return f"nobody rated {question}"
        if not asked & self.members(rubric, group):
            return f"{group} did not rate {question}"
        return f"no rating of {question} by {group} is ok"

    def stands_for(self, name: str, group: str) -> bool:
        """Return whether a group is `group` or has its name in the paper (`paper.groups`), and so its numbers."""
        return name == group or self.name_in_paper(name) == self.name_in_paper(group) is not None

    def name_in_paper(self, name: str) -> str | None:
        """Return the paper's name of a rater, group or model, according to `paper.names` and `paper.groups`.

        Globs and names are compared in lower case, with a hyphen for each space, underscore and full stop. A glob may
        match the name, the name without its revision, or what follows the owner or folder in the latter.
        """
        whole = _folded(name)
        unversioned = whole.partition("@")[0]
        forms = (whole, unversioned, unversioned.rsplit("/", 1)[-1])
        for entry in self.settings.names:
            pattern, _, printed = entry.partition("=")
            if any(fnmatchcase(form, _folded(pattern)) for form in forms):
                return printed
        return self.settings.groups.get(name)

    def printed(self, table: str) -> PrintedNumbers:
        """Return the numbers that the paper prints in a table or figure; empty if there are none, or none are shown."""
        printed = self.settings.printed if self.settings.show_printed else {}
        return PrintedNumbers(printed.get(table, PrintedTable(source="")))

    def unmatched(self, printed: Sequence[str], names: Sequence[str]) -> list[str]:
        """Return the names in the paper that `paper.names` gives to no rater, group or model in `names`."""
        matched = {self.name_in_paper(name) for name in names}
        return [name for name in printed if name not in matched]

    def table(
        self,
        name: str,
        title: str,
        citation: str,
        *,
        row_headers: tuple[str, ...],
        rows: Iterable[RowSpec],
        columns: Sequence[ColumnSpec],
        reason: Callable[[RowSpec, ColumnSpec], str] = lambda row, _: row.reason,
        notes: Iterable[str] = (),
        others: Callable[[str], tuple[str, ...]] | None = None,
    ) -> PaperTable:
        """Return a table with the metric of each row and column, and the printed number.

        Args:
            name: of its file and of its printed table.
            reason: why the report does not have the metric of a row and column; by default the row's reason.
            notes: empty ones are left out.
            others: returns the headers of a printed row without a counterpart; None: such rows are left out.
        """
        printed, rows = self.printed(name), list(rows)
        shown = []
        for row in rows:
            cells = []
            for column in columns:
                if column.cell:
                    cells.append(column.cell(row))
                    continue
                metric, dims = None, {**row.dims, **column.dims}
                if column.metric:
                    metric = (row.metrics or self.metrics).get(column.metric, dims, reason=reason(row, column))
                cells.append(PaperCell(metric, printed.at(row.printed, column.printed), column.unit))
            shown.append(PaperRow(row.headers, tuple(cells)))
        if others:
            unit: Unit = next((column.unit for column in columns if column.printed), "percent")
            names = [column.printed for column in columns]
            shown += printed.rows_alone(names, headers=others, without={row.printed for row in rows}, unit=unit)
        headers = tuple(column.headers for column in columns)
        return PaperTable(name, title, citation, row_headers, headers, tuple(shown), tuple(filter(None, notes)))

    def cell(
        self,
        name: str,
        dims: Mapping[str, str],
        *,
        unit: Unit = "percent",
        printed: Printed | None = None,
        reason: str = "",
    ) -> PaperCell:
        """Return a cell with the metric that has exactly these dims, and the printed number."""
        return PaperCell(self.metrics.get(name, dims, reason=reason), printed, unit)


def _folded(name: str) -> str:
    return name.lower().translate(str.maketrans(" _.", "---"))


def arrange_paper(study: Study) -> list[PaperPart]:
    """Return the tables and figures of the configured paper, in the paper's order.

    Raises:
        ValueError: two parts have the same name.
    """
    if study.settings.name is None:
        return []
    arrangement: Callable[[Study], Iterator[PaperPart]]
    arrangement = importlib.import_module(f"jobs.papers.{study.settings.name}_tables").arrange
    parts = list(arrangement(study))
    names = [part.name for part in parts]
    if len(set(names)) < len(names):
        raise ValueError(f"{study.settings.name}: two tables or figures have the same name")
    return parts


def no_part(settings: PaperSettings) -> str:
    """Return why a report has no table or figure of the configured paper."""
    rubrics = ", ".join(settings.rubrics.values()) or "of the paper"
    return f"paper={settings.name}: no table or figure applies; they need ratings with the rubrics {rubrics}"
