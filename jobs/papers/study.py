"""The inputs of an arrangement: the report's metrics, tables and raters, its settings, and the printed numbers."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from jobs.analysis.attributes import Items
from jobs.analysis.conditions import condition_groups
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.report_tables import RatingSummary, ReportTables
from jobs.judging.kept_rubric import Rubrics
from jobs.metrics.answers import RatingTable
from jobs.metrics.question import MODELS, PEOPLE, MetricSettings, globs_for, matching, of_rubric, people_needed
from jobs.papers.metric_index import MetricIndex
from jobs.papers.model import PaperCell, PaperRow, Printed, Unit
from jobs.papers.settings import PaperSettings, PrintedTable
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import Hashes


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

    def printed(self, table: str) -> "PrintedNumbers":
        """Return the numbers that the paper prints in a table or figure, empty if the settings have none."""
        return PrintedNumbers(self.settings.printed.get(table, PrintedTable(source="")))

    def unmatched(self, printed: Sequence[str], names: Sequence[str]) -> list[str]:
        """Return the names in the paper that `paper.names` gives to no rater, group or model in `names`."""
        matched = {self.name_in_paper(name) for name in names}
        return [name for name in printed if name not in matched]

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
            columns: the printed column of each cell; None: an empty cell.
            headers: printed row -> headers of its row.
            part: only the rows `part / NAME`.
            without: printed rows that are shown next to rows of the report.
        """
        for row in self.rows if part is None else self.rows_of(part):
            cells = tuple(
                PaperCell(printed=None if column is None else self.at(row, column), unit=unit) for column in columns
            )
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
