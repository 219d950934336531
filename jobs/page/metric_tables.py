"""Tables of metrics for the page: one table per topic of metrics, one cell per metric, and the labels of both."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from jobs.html.formats import number, percent
from jobs.metrics.judge_fitness import PASSES
from jobs.metrics.kinds import kind_of, of_topic
from jobs.metrics.majority import NO_MAJORITY, NONE
from jobs.metrics.metric import Metric, MetricKind, Topic
from jobs.metrics.rated_question import ACROSS, MODELS, PEOPLE
from jobs.page.page_names import anchor

ONE_RATER = "one rater"  # reason of an agreement that needs two
MAX_OPEN = 12  # rows of a table that is not folded
MAX_ROWS = 60  # of a table on the page; all rows are in the table `metrics`


@dataclass(frozen=True)
class MetricTable:
    """The table of a topic: labels of columns, and rows of (label, one metric or None per column).

    `name` is its anchor on the page.
    """

    name: str
    topic: Topic
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Metric | None, ...]], ...]
    more: int  # rows beyond MAX_ROWS
    notes: tuple[str, ...]  # reasons of undefined metrics, without duplicates
    remarks: tuple[str, ...]  # reasons for missing intervals, and caveats, without duplicates

    @property
    def title(self) -> str:
        """The title of its topic."""
        return self.topic.value.title

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
            for parts in ((column, row) if "metric" in self.topic.value.columns else (row, column),)
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
        return "Spans" if all(table.topic.value.of_spans for table in self.tables) else "Other"

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


def blocks(
    metrics: Sequence[Metric], order: Sequence[tuple[str, str]] = (), *, one_rater: bool = False
) -> list[MetricBlock]:
    """Return one block per question: first those in `order`, then the others by name, then metrics without a question.

    Args:
        one_rater: whether the page shows the distributions of a single rater; topics that would repeat them are left
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
            table for topic in Topic if (table := _table(topic, of_key, anchor("metrics", *key, topic.value.title)))
        ]
        if tables:
            about = ", ".join(f"{name} {value}" for name, value in zip(IN_HEADING[2:], key[2:], strict=True) if value)
            question_blocks.append(MetricBlock(key[0], key[1], about, tuple(tables)))
    for topic in Topic:
        if topic.value.counts:
            question_blocks = _counted_once(question_blocks, topic)
    return question_blocks


def is_shown_by_distributions(metric: Metric) -> bool:
    """Return whether the distribution of the only rater shows the same as this metric."""
    if metric.name == "majority_share" and metric.dims.get("answer") == NO_MAJORITY:
        return True
    return any(topic.value.of_answers and belongs(topic, metric) for topic in Topic)


def _without_group(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics, without the dim `group` if all groups are the same, namely the only rater."""
    if len({metric.dims["group"] for metric in metrics if "group" in metric.dims}) != 1:
        return list(metrics)
    return [
        replace(metric, dims={name: value for name, value in metric.dims.items() if name != "group"})
        for metric in metrics
    ]


def _counted_once(question_blocks: Sequence[MetricBlock], topic: Topic) -> list[MetricBlock]:
    """Return the blocks, with the table of a topic only in the first if it has the same numbers for every question."""
    tables = [table for block in question_blocks for table in block.tables if table.topic == topic]
    if len(tables) < 2 or any(_numbers(table) != _numbers(tables[0]) for table in tables):
        return list(question_blocks)
    once = replace(tables[0], remarks=(*tables[0].remarks, "The same for every question."))
    others = [tuple(table for table in block.tables if table.topic != topic) for block in question_blocks]
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


def _table(topic: Topic, metrics: Sequence[Metric], name: str) -> MetricTable | None:
    cells: dict[str, dict[str, Metric]] = {}
    columns: dict[str, None] = {}
    rows: dict[str, tuple[int, int]] = {}
    for position, metric in enumerate(metrics):
        if not belongs(topic, metric):
            continue
        column, row = _labels(topic, metric)
        columns.setdefault(column)
        rows.setdefault(row, (0 if "metric" in topic.value.columns else of_topic(topic).index(metric.name), position))
        cells.setdefault(row, {})[column] = metric
    if not cells:
        return None
    names = sorted(rows, key=lambda row: rows[row])
    shown = [(row, tuple(cells[row].get(column) for column in columns)) for row in names[:MAX_ROWS]]
    explained = [f for _, line in shown for f in line if f and f.reason]
    notes = dict.fromkeys(str(f.reason) for f in explained if f.value is None)
    remarks = _remarks(f for f in explained if f.value is not None and kind_of(f).interval)
    if topic == Topic.FITNESS:
        remarks = (*fitness_sentences([f for line in cells.values() for f in line.values()], metrics), *remarks)
    return MetricTable(name, topic, tuple(columns), tuple(shown), len(names) - len(shown), tuple(notes), remarks)


def fitness_sentences(metrics: Iterable[Metric], others: Sequence[Metric] = ()) -> Iterator[str]:
    """Yield a sentence per judge that says whether it is fit to replace people, with the numbers behind it.

    Args:
        others: metrics of the same question, of which those of the judge's orders are named.
    """
    of_judge: dict[str, dict[str, Metric]] = {}
    for metric in metrics:
        by_name = of_judge.setdefault(metric.dims.get("rater", ""), {})
        worst = by_name.get(metric.name)
        if worst is None or (metric.value or 0.0) > (worst.value or 0.0):  # of several attributes, the worst subgroup
            by_name[metric.name] = metric
    for judge, by_name in of_judge.items():
        defined = {name: metric for name, metric in by_name.items() if metric.value is not None}
        if wins := defined.get("winning_rate"):
            may = "may" if (wins.value or 0.0) >= PASSES else "may not"
            verdict = (
                f"{may} replace people here by the alternative annotator test: {percent(wins.value)} of {wins.n:,} "
                "people are not closer to the others than it is"
            )
        elif reason := by_name.get("winning_rate", by_name.get("reliability_reached")):
            verdict = f"may or may not replace people: {reason.reason}"
        else:
            continue
        parts = [f"{judge} {verdict}"]
        if reached := defined.get("reliability_reached"):
            parts.append(f"it reaches {percent(reached.value)} of their agreement{_between(reached)}")
        if sure := defined.get("overconfidence"):
            much = "surer" if (sure.value or 0.0) > 0 else "less sure"
            parts.append(f"it is {percent(abs(sure.value or 0.0))} {much} than right{_between(sure)}")
        parts += _order_effects([metric for metric in others if metric.dims.get("rater") == judge])
        if worst := defined.get("worst_subgroup_distance"):
            where = f"{worst.dims['attribute']} {worst.dims['part']}"
            parts.append(f"it is farthest from people for {where}: {number(worst.value, 2)} on average")
        yield "; ".join(parts) + "."


def _order_effects(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield how far the answers of a judge change with the order, of the prompt or of two pictures."""
    defined = [metric for metric in metrics if metric.value is not None]
    of_versions = [metric for metric in defined if "versions" in metric.dims]
    if of_versions:
        # a version is its method and its order: "closed fast"
        names = [name.partition(" ") for name in of_versions[0].dims["versions"].split(", ")]
        orders = [order for _, _, order in names]
        if len({method for method, _, _ in names}) == 1 and all(orders):
            yield from _changes(of_versions, " and ".join(orders))
    for bias in defined:
        if bias.name == "position_bias":
            yield f"{percent(bias.value)} of its pairs get the same position in both orders{_between(bias)}"


def _changes(versions: Sequence[Metric], orders: str) -> Iterator[str]:
    by_name = {metric.name: metric for metric in versions}
    within = by_name.get("percent_agreement_within")
    if equal := within or by_name.get("percent_agreement"):
        much = f"scores change by more than {within.dims['tolerance']}" if within else "answers change"
        low, high = (None if end is None else 1 - end for end in (equal.high, equal.low))
        changed = replace(equal, value=1 - (equal.value or 0.0), low=low, high=high)
        yield f"{percent(changed.value)} of its {much} between the orders {orders}{_between(changed)}"
    if means := sorted(metric.value or 0.0 for metric in versions if metric.name == "group_mean_score"):
        yield f"in these orders its mean is {number(means[0], 2)} to {number(means[-1], 2)}"


def _between(metric: Metric) -> str:
    if metric.low is None:
        return ""
    return f" (95%: {percent(metric.low)} to {percent(metric.high)})".replace("-", "−")


def _remarks(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """Return each reason once, with the names of its metrics.

    The remark about a small subgroup is left out, because the cell has a mark (see `model_scores.marked`).
    """
    names_of: dict[str, dict[str, None]] = {}
    for metric in metrics:
        for part in str(metric.reason).split("; "):
            if not part.startswith("fewer than "):
                names_of.setdefault(part, {})[kind_of(metric).label] = None
    return tuple(f"{'; '.join(names)} — {reason}" for reason, names in names_of.items())


def belongs(topic: Topic, metric: Metric) -> bool:
    """Return whether the page shows a metric in the table of a topic."""
    if topic not in kind_of(metric).topics:
        return False
    if metric.reason == ONE_RATER:  # shown only in the table `metrics`: on the page there would be nothing but dashes
        return False
    if topic.value.needs and topic.value.needs not in metric.dims:
        return False
    if "versions" in metric.dims and topic.value.needs != "versions":
        return False
    return not (topic.value.without and topic.value.without in metric.dims)


def not_shown(metrics: Iterable[Metric]) -> list[tuple[str, int, str]]:
    """Return name, number and reason of the metrics that no table of the page shows."""
    counts = Counter(
        (metric.name, ONE_RATER if metric.reason == ONE_RATER else kind_of(metric).place)
        for metric in metrics
        if not any(belongs(topic, metric) for topic in Topic)
    )
    return [(name, count, reason) for (name, reason), count in counts.items()]


def _labels(topic: Topic, metric: Metric) -> tuple[str, str]:
    """Return the labels of the column and of the row of a metric."""
    columns = topic.value.columns
    in_columns = {*columns, *IN_HEADING, *(kind_of(metric).details if "metric" in columns else ())}
    named = () if len(of_topic(topic)) == 1 else ("metric",)  # the title already names a single metric
    rest = [name for name in (*named, *sorted(metric.dims)) if name not in in_columns]
    return metric_label(metric, columns) or "value", metric_label(metric, rest) or "all"


def definitions(tables: Iterable[MetricTable]) -> list[tuple[str, str]]:
    """Return the words for the metrics on the page with their definitions, each definition once.

    Two metrics with the same words have the titles of their tables next to them.
    """
    kinds: dict[str, tuple[MetricKind, str]] = {}
    for table in tables:
        for metric in (metric for _, line in table.rows for metric in line if metric):
            kinds.setdefault(metric.definition, (kind_of(metric), table.title))
    names = {(kind.label, kind.name) for kind, _ in kinds.values()}
    used = Counter(metric_label for metric_label, _ in names)
    return [
        (f"{kind.label} ({title})" if used[kind.label] > 1 else kind.label, text)
        for text, (kind, title) in kinds.items()
    ]


IN_HEADING = ("rubric", "question", "condition", "method", "order")  # dims that a heading shows
WORDS = {
    "rule": {"mean": "mean", "any": "any rating"},
    "of": {"items": "items reported", "people": "people who reported"},
    "columns": {"raters": ""},
    "answer": {NO_MAJORITY: "no majority", NONE: "unsure or none"},
    "weights": {"none": "unweighted", "linear": "linear weights", "quadratic": "quadratic weights"},
    "first": {"": "no condition"},
    "second": {"": "no condition"},
}
GROUPS = (PEOPLE, MODELS, ACROSS)  # groups that are not mentioned next to a rater


def name_with_details(metric: Metric, *, group: str = "") -> str:
    """Return the words for a metric with the details that belong to its name, such as a threshold.

    Args:
        group: people or models, if the words are to say that a share is that of their means.
    """
    kind = kind_of(metric)
    if not all(metric.dims.get(name) for name in kind.details):
        return kind.label
    words = {name: _bare(name, metric) for name in kind.details}
    if group and words.get("rule") == "mean":
        words["rule"] = f"mean of {group}"
    return kind.detailed.format_map(words) or kind.label


def dim_word(name: str, metric: Metric) -> str:
    """Return the words for the value of one of a metric's dims; empty if it has none."""
    value = metric.dims.get(name, "")
    if name == "inverted" and value:
        return "scale inverted"
    if name in ("k", "bins") and value:
        return f"{name} = {value}"
    if name == "threshold" and value:
        return f"≥ {value}"
    return _bare(name, metric)


def _bare(name: str, metric: Metric) -> str:
    value = metric.dims.get(name, "")
    return value.replace("_", " ") if name == "status" else WORDS.get(name, {}).get(value, value)


def metric_label(metric: Metric, names: Sequence[str]) -> str:
    """Return a phrase for a metric's dims that are in `names`, and for its name if `names` contains `metric`."""
    return ", ".join(filter(None, _parts(metric, names)))


def rater_words(metric: Metric, names: Sequence[str]) -> str:
    """Return the words for the rater, pair of raters or group whose answers a metric is about."""
    dims = metric.dims
    shown = {name: dims[name] for name in ("rater", "rater_a", "rater_b", "group") if name in names and dims.get(name)}
    if {"rater_a", "rater_b"} <= shown.keys():
        answerer = f"{shown.pop('rater_a')} and {shown.pop('rater_b')}"
    else:
        answerer = shown.pop("rater", "")
    group = shown.pop("group", "")
    if (group in GROUPS and {"rater", "rater_a"} & dims.keys()) or (
        group == PEOPLE and Topic.PEOPLE in kind_of(metric).topics
    ):
        group = ""
    return ", ".join(filter(None, (answerer, group, *shown.values())))


def _parts(metric: Metric, names: Sequence[str]) -> Iterator[str]:
    dims = metric.dims
    done = {"rater", "rater_a", "rater_b", "group"}
    of_means = "rule" in kind_of(metric).details and "metric" in names and dims.get("rule") == "mean"
    group = dims.get("group", "") if of_means and "group" in names and dims.get("group") in (PEOPLE, MODELS) else ""
    if "metric" in names:
        yield name_with_details(metric, group=group)
        done.update(kind_of(metric).details)
    yield "" if group else rater_words(metric, names)
    if {"attribute", "part"} <= dims.keys() and {"attribute", "part"} <= set(names):
        yield f"{dims['attribute']}: {dims['part']}"
        done |= {"attribute", "part"}
    if {"first", "second"} <= dims.keys() and {"first", "second"} <= set(names):
        yield f"{dim_word('first', metric)} → {dim_word('second', metric)}"
        done |= {"first", "second"}
    yield from (dim_word(name, metric) for name in names if name in dims and name not in done)
