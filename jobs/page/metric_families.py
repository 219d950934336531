"""Tables of metrics for the page: one table per family of metrics, one cell per metric."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from jobs.metrics.majority import NO_MAJORITY
from jobs.metrics.metric import Metric
from jobs.metrics.question import MODELS, PEOPLE
from jobs.page.anchors import anchor
from jobs.page.metric_labels import IN_HEADING, label, name_of

MAX_OPEN = 12  # rows of a table that is not folded
MAX_ROWS = 60  # of a table on the page; all rows are in the table `metrics`


@dataclass(frozen=True)
class MetricFamily:
    """Metrics that share a table: their names, and the dims (or 'metric') whose values become the columns."""

    title: str
    metrics: tuple[str, ...]
    columns: tuple[str, ...]
    needs: str = ""  # only metrics with this dim
    without: str = ""  # only metrics without it; the dim `versions` is only in families that need it


@dataclass(frozen=True)
class MetricTable:
    """The table of a family: labels of columns, and rows of (label, one metric or None per column).

    `name` is its anchor on the page; `metric_columns`: whether the columns, rather than the rows, are the metrics.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Metric | None, ...]], ...]
    more: int  # rows beyond MAX_ROWS
    notes: tuple[str, ...]  # reasons of undefined metrics, without duplicates
    remarks: tuple[str, ...]  # reasons for missing intervals, and caveats, without duplicates
    metric_columns: bool = False

    @property
    def empty(self) -> bool:
        """Whether all metrics are undefined, so that only the reasons are shown."""
        return all(metric is None or metric.value is None for _, line in self.rows for metric in line)

    @property
    def folded(self) -> bool:
        """Whether the table is long and therefore folded at first."""
        return len(self.rows) > MAX_OPEN

    @property
    def line(self) -> list[tuple[str, Metric]]:
        """The labelled numbers of a table that the page shows as a line: with a single row, or at most two numbers."""
        cells = [
            (row, column, metric)
            for row, line in self.rows
            for column, metric in zip(self.columns, line, strict=True)
            if metric
        ]
        if len(self.rows) > 1 and len(cells) > 2:
            return []
        return [
            (", ".join(part for part in parts if part not in ("all", "value")) or self.title.lower(), metric)
            for row, column, metric in cells
            for parts in ((column, row) if self.metric_columns else (row, column),)
        ]


@dataclass(frozen=True)
class MetricBlock:
    """The tables of one question, or of metrics without a question; `lines` are the tables without a grid of
    numbers."""

    rubric: str
    question: str
    about: str  # condition, method or order, if the metrics separate them
    tables: tuple[MetricTable, ...]

    @property
    def title(self) -> str:
        """The heading of a block without a question."""
        if self.rubric:
            return self.rubric
        return "Spans" if all(table.title in OF_SPANS for table in self.tables) else "Other"

    @property
    def lines(self) -> list[MetricTable]:
        """The tables that the page shows as a line of numbers."""
        return [table for table in self.tables if table.line or table.empty]

    @property
    def grids(self) -> list[MetricTable]:
        """The tables with a grid of numbers."""
        return [table for table in self.tables if not (table.line or table.empty)]

    @property
    def cells(self) -> int:
        """Number of cells of all tables."""
        return sum(len(table.rows) * len(table.columns) for table in self.tables)


CHANGES = (
    "score_change",
    "share_at_least_change",
    "f1_change",
    "accuracy_change",
    "pearson_with_people_change",
    "pearson_by_image_change",
)
_SHARES = ("share_lowest", "share_at_least", "group_mean_score")
_WITH_PEOPLE = (
    "pearson_with_people",
    "spearman_with_people",
    "kendall_with_people",
    "pearson_by_image",
    "pearson_by_target",
    "pearson_by_concept_and_target",
    "pearson_concept_average",
    "pearson_global_average",
    "preference_agreement",
    "mean_deviation",
)
_ONE_BY_ONE = (
    "rater_correlation_mean",
    "rater_correlation_max",
    "rater_correlation_min",
    "rater_correlation_median",
    "rater_correlation_sd",
    "correlation_with_average",
)
_AGREEMENT = (
    "percent_agreement",
    "percent_agreement_within",
    "alpha",
    "icc1",
    "icc2",
    "icc2k",
    "pairwise_pearson",
    "pairwise_spearman",
)
DESCRIPTIONS = tuple(
    f"description_{score}"
    for score in ("mistakes", "mistake_share", "omissions", "omission_share", "precision", "coverage")
)
FAMILIES = (
    MetricFamily("Ratings", ("ratings_total", "ratings_double", "ratings_repeated", "ratings_excluded", "ratings_left",
           "ratings_per_person", "ratings_per_person_sd"), ("metric",)),
    MetricFamily("Comparisons", ("position_bias", "first_position_share", "pair_agreement"), ("metric", "by")),
    MetricFamily("Comparisons: competitors", ("win_rate", "bradley_terry"), ("metric", "rater")),
    MetricFamily("Ratings without an answer", ("status_share",), ("group",)),
    MetricFamily("People", ("people_total", "items_per_person", "items_per_person_sd", "reported_share"),
           ("metric", "of")),
    MetricFamily("Agreement among raters", _AGREEMENT, ("group",), without="attribute"),
    MetricFamily("Agreement by subgroup", _AGREEMENT, ("group",), needs="attribute"),
    MetricFamily("One rater asked in several ways", (*_AGREEMENT, "kappa", *_SHARES), ("rater",), needs="versions"),
    MetricFamily("Agreement of two raters", ("kappa",), ("weights",)),
    MetricFamily("Each rater and the other raters", ("agreement_with_majority", "agreement_with_mean"), ("metric",)),
    MetricFamily("Answers by majority", ("majority_share",), ("group",), without="attribute"),
    MetricFamily("Answers by majority, by subgroup", ("majority_share",), ("group",), needs="attribute"),
    MetricFamily("Scores", _SHARES, ("metric", "threshold", "rule"), without="attribute"),
    MetricFamily("Scores by subgroup", ("group_mean_score", "share_at_least", "average_of_shares"), ("metric", "group"),
           needs="attribute"),
    MetricFamily("Comparison of subgroups", ("part_mean", "part_sd", "mean_difference", "welch_p", "share_difference"),
           ("metric", "part", "threshold")),
    MetricFamily("Changes between conditions", CHANGES, ("first", "second")),
    MetricFamily("Biases of judges", ("self_preference", "length_bias", "length_slope"), ("metric", "kind")),
    MetricFamily("Models and people", _WITH_PEOPLE, ("rater",)),
    MetricFamily("Models and single raters of a target",
           _ONE_BY_ONE, ("metric",)),
    MetricFamily("Model’s score minus a person’s", ("deviation_share",), ("rater",)),
    MetricFamily("Against gold", ("accuracy", "precision", "recall", "f1"), ("group", "positive")),
    MetricFamily("Rated items without gold", ("without_gold",), ("metric",)),
    MetricFamily("CrowdTruth", ("unit_quality_mean", "unit_quality_zero", "worker_quality_mean", "annotation_quality",
                          "crowdtruth_rounds"), ("bins",)),
    MetricFamily("CrowdTruth: workers",
                 ("worker_quality", "worker_worker_agreement", "worker_unit_agreement"), ("metric",)),
    MetricFamily("Search terms", ("entities", "distinct_terms"), ("metric",)),
    MetricFamily("Refusals", ("refusal_rate",), ("kind",)),
    MetricFamily("Items that people wrote about", ("remark_share",), ("field",)),
    MetricFamily("Texts with marked spans by status", ("span_status_share",), ("kind", "status")),
    MetricFamily("Marked spans",
                 ("span_precision", "span_recall", "span_f1", "span_auc", "span_agreement", "span_alpha"), ("unit",)),
    MetricFamily("Descriptions: mistakes and omissions", DESCRIPTIONS, ("metric",), without="category"),
    MetricFamily("Descriptions: kinds of mistakes", ("description_mistakes",), ("category",), needs="category"),
    MetricFamily("Scores of descriptions and people", ("description_pearson", "description_spearman"),
                 ("metric", "score")),
    MetricFamily("Scene graphs", ("dsg_score", "dsg_spearman", "dsg_kendall", "dsg_invalid", "dsg_unclear"),
           ("reading", "convention")),
)  # fmt: skip
SHARE_METRICS = frozenset({
    "percent_agreement", "percent_agreement_within", "agreement_with_majority", "agreement_with_mean",
    "majority_share", "status_share", "reported_share", "answer_share",
    "share_lowest", "share_at_least", "average_of_shares", "preference_agreement", "deviation_share",
    "span_status_share",
    "accuracy", "without_gold",
    "unit_quality_zero", "position_bias", "first_position_share", "pair_agreement", "win_rate",
    "share_difference", "refusal_rate", "share_at_least_change", "accuracy_change",
    "remark_share",
})  # fmt: skip
COUNTS = frozenset({
    "ratings_total", "ratings_double", "ratings_repeated", "ratings_excluded", "ratings_left",
    "crowdtruth_rounds", "dsg_invalid", "dsg_unclear", "people_total",
    "entities", "distinct_terms",
})  # fmt: skip
MEANS_OF_COUNTS = frozenset({"items_per_person", "items_per_person_sd", "ratings_per_person", "ratings_per_person_sd"})
WITHOUT_INTERVAL = COUNTS | {
    "welch_p",
    "without_gold",
    "part_mean",
    "part_sd",
    "ratings_per_person",
    "ratings_per_person_sd",
}  # by definition, so no remark is needed
# Families that repeat numbers of a single rater's distributions.
SHOWN_BY_DISTRIBUTIONS = frozenset({"Ratings", "Ratings without an answer", "Answers by majority"})
OF_SPANS = frozenset({
    "Texts with marked spans by status", "Marked spans", "Descriptions: mistakes and omissions",
    "Descriptions: kinds of mistakes", "Scores of descriptions and people",
})  # fmt: skip
COUNTED = ("People", "Ratings", "Ratings without an answer")  # often the same for every question


def blocks(
    metrics: Sequence[Metric], order: Sequence[tuple[str, str]] = (), *, one_rater: bool = False
) -> list[MetricBlock]:
    """Return one block per question: first those in `order`, then the others by name, then metrics without a question.

    Args:
        one_rater: whether the page shows the distributions of a single rater; families that would repeat them are left
            out.
    """
    metrics_of: dict[tuple[str, ...], list[Metric]] = {}
    for metric in metrics:
        metrics_of.setdefault(tuple(metric.dims.get(name, "") for name in IN_HEADING), []).append(metric)
    position = {key: number for number, key in enumerate(order)}
    keys = sorted(metrics_of, key=lambda key: (not key[1], position.get((key[0], key[1]), len(position)), key))
    question_blocks = []
    for key in keys:
        of_key = without_twins(metrics_of[key])
        if one_rater:
            of_key = _without_group([metric for metric in of_key if not is_shown_by_distributions(metric)])
        tables = [
            table for family in FAMILIES if (table := _table(family, of_key, anchor("metrics", *key, family.title)))
        ]
        if tables:
            about = ", ".join(f"{name} {value}" for name, value in zip(IN_HEADING[2:], key[2:], strict=True) if value)
            question_blocks.append(MetricBlock(key[0], key[1], about, tuple(tables)))
    for title in COUNTED:
        question_blocks = _counted_once(question_blocks, title)
    return question_blocks


def is_shown_by_distributions(metric: Metric) -> bool:
    """Return whether the distribution of the only rater shows the same as this metric."""
    if metric.name == "majority_share" and metric.dims.get("answer") == NO_MAJORITY:
        return True
    return any(family.title in SHOWN_BY_DISTRIBUTIONS and belongs(family, metric) for family in FAMILIES)


def _without_group(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics, without the dim `group` if all groups are the same, namely the only rater."""
    if len({metric.dims["group"] for metric in metrics if "group" in metric.dims}) != 1:
        return list(metrics)
    return [
        replace(metric, dims={name: value for name, value in metric.dims.items() if name != "group"})
        for metric in metrics
    ]


def _counted_once(question_blocks: Sequence[MetricBlock], title: str) -> list[MetricBlock]:
    """Return the blocks, with the table `title` only in the first if it has the same numbers for every question."""
    tables = [table for block in question_blocks for table in block.tables if table.title == title]
    if len(tables) < 2 or any(_numbers(table) != _numbers(tables[0]) for table in tables):
        return list(question_blocks)
    once = replace(tables[0], remarks=(*tables[0].remarks, "The same for every question."))
    others = [tuple(table for table in block.tables if table.title != title) for block in question_blocks]
    first = next(number for number, block in enumerate(question_blocks) if tables[0] in block.tables)
    others[first] = tuple(once if table is tables[0] else table for table in question_blocks[first].tables)
    return [replace(block, tables=kept) for block, kept in zip(question_blocks, others, strict=True) if kept]


def _numbers(table: MetricTable) -> list[object]:
    """Return the labels and numbers of a table."""
    return [
        table.columns,
        *((row, [metric and (metric.value, metric.low, metric.high, metric.n) for metric in line])
          for row, line in table.rows),
    ]  # fmt: skip


def each_once(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics of all questions, without groups of a single rater; see `without_twins`."""
    of_question: dict[tuple[str, ...], list[Metric]] = {}
    for metric in metrics:
        of_question.setdefault(tuple(metric.dims.get(name, "") for name in IN_HEADING), []).append(metric)
    return [metric for of_key in of_question.values() for metric in without_twins(of_key)]


def without_twins(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics of one question, without the group of all models, or of all people, if it is a single rater.

    Each metric of the group then equals that of the rater.
    """
    of_group: dict[str, dict[tuple[str, ...], tuple[float | None, float | None, int]]] = {}
    for metric in metrics:
        rest = tuple(f"{name}={value}" for name, value in sorted(metric.dims.items()) if name != "group")
        values = (metric.value, metric.low, metric.n)
        of_group.setdefault(metric.dims.get("group", ""), {})[metric.name, *rest] = values
    has_people = any(metric.name == "people_total" and (metric.value or 0) > 1 for metric in metrics)
    dropped = {
        whole: single
        for whole in (MODELS, *(() if has_people else (PEOPLE,)))
        for single in of_group
        if single not in ("", MODELS, PEOPLE) and _same(of_group.get(whole, {}), of_group[single])
    }
    kept = []
    for metric in metrics:
        single = dropped.get(metric.dims.get("group", ""))
        others = (f"{name}={value}" for name, value in sorted(metric.dims.items()) if name != "group")
        if single is None or (metric.name, *others) not in of_group[single]:
            kept.append(metric)
    return kept


def _same(
    whole: Mapping[tuple[str, ...], tuple[float | None, float | None, int]],
    single: Mapping[tuple[str, ...], tuple[float | None, float | None, int]],
) -> bool:
    shared = whole.keys() & single.keys()
    return all(whole[key] == single[key] for key in shared) and any(single[key][0] is not None for key in shared)


def _table(family: MetricFamily, metrics: Iterable[Metric], name: str) -> MetricTable | None:
    cells: dict[str, dict[str, Metric]] = {}
    columns: dict[str, None] = {}
    rows: dict[str, tuple[int, int]] = {}
    for number, metric in enumerate(metrics):
        if not belongs(family, metric):
            continue
        column, row = _labels(family, metric)
        columns.setdefault(column)
        rows.setdefault(row, (family.metrics.index(metric.name) if "metric" not in family.columns else 0, number))
        cells.setdefault(row, {})[column] = metric
    if not cells:
        return None
    names = sorted(rows, key=lambda row: rows[row])
    shown = [(row, tuple(cells[row].get(column) for column in columns)) for row in names[:MAX_ROWS]]
    explained = [f for _, line in shown for f in line if f and f.reason]
    notes = dict.fromkeys(str(f.reason) for f in explained if f.value is None)
    remarks = _remarks(f for f in explained if f.value is not None and f.name not in WITHOUT_INTERVAL)
    return MetricTable(
        name, family.title, tuple(columns), tuple(shown), len(names) - len(shown), tuple(notes), remarks,
        metric_columns="metric" in family.columns,
    )  # fmt: skip


def _remarks(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """Return each reason once, with the names of its metrics.

    The remark about a small subgroup is left out, because the cell has a mark (see `model_scores.marked`).
    """
    names_of: dict[str, dict[str, None]] = {}
    for metric in metrics:
        for part in str(metric.reason).split("; "):
            if not part.startswith("fewer than "):
                names_of.setdefault(part, {})[name_of(metric)] = None
    return tuple(f"{'; '.join(names)} — {reason}" for reason, names in names_of.items())


def belongs(family: MetricFamily, metric: Metric) -> bool:
    """Return whether the page shows a metric in the table of a family."""
    if metric.name not in family.metrics:
        return False
    if metric.reason == "one rater":  # shown only in the table `metrics`: on the page there would be nothing but dashes
        return False
    if family.needs and family.needs not in metric.dims:
        return False
    if "versions" in metric.dims and family.needs != "versions":
        return False
    return not (family.without and family.without in metric.dims)


def _labels(family: MetricFamily, metric: Metric) -> tuple[str, str]:
    """Return the labels of the column and of the row of a metric."""
    in_columns = {*family.columns, *IN_HEADING}
    named = () if len(family.metrics) == 1 else ("metric",)  # the title already names a single metric
    rest = [name for name in (*named, *sorted(metric.dims)) if name not in in_columns]
    return label(metric, family.columns) or "value", label(metric, rest) or "all"


def definitions(tables: Iterable[MetricTable]) -> Mapping[str, str]:
    """Return the definitions of the metrics on the page, by name."""
    definition_of: dict[str, str] = {}
    for table in tables:
        for _, line in table.rows:
            for metric in line:
                if metric:
                    definition_of.setdefault(name_of(metric), metric.definition)
    return definition_of
