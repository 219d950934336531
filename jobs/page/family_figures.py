"""Plots of metrics with intervals: a figure per family, with a plot per metric and attribute of items."""

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from actors.quantities import quantity
from jobs.metrics.kinds import Topic, kind_of
from jobs.metrics.metric import Metric
from jobs.page.anchors import anchor
from jobs.page.card_links import cards_of
from jobs.page.metric_families import FAMILIES, MetricBlock, belongs
from jobs.page.metric_labels import IN_HEADING, label, rater_words, word
from jobs.page.model import PageFigure, Wording
from jobs.page.short_names import LONGEST, short_names, shortened, unique
from jobs.plots.figures import plot
from jobs.plots.panels import Estimate, Intervals
from jobs.plots.svg import SERIES
from jobs.plots.tiles import by_region

MAX_PLOTS = 6  # plots in a figure
MAX_ROWS = 24  # rows in a plot
MAX_SERIES = 3  # colours of a plot, in one line of its legend
LEVELS = ("ordinal", "nominal", "interval")  # kinds of differences of alpha, of which one is plotted
# Families whose plots are unfolded at first; only these are printed.
OPEN = frozenset({
    Topic.AGREEMENT, Topic.SCORES, Topic.SCORES_BY_SUBGROUP, Topic.CHANGES, Topic.WITH_PEOPLE, Topic.GOLD,
    Topic.SPANS, Topic.COMPETITORS, Topic.CROWDTRUTH, Topic.SCENE_GRAPHS,
})  # fmt: skip
ROWS = ("part", "answer", "category", "status")  # dims whose values become rows of a plot; the first one counts
RATERS = ("group", "rater", "rater_a", "rater_b")
# Dims that say what is measured, not whose answers: each of their values has a separate plot.
MEASURES = (
    "threshold", "rule", "level", "tolerance", "weights", "positive", "kind", "score", "by", "unit", "reading",
    "convention", "first", "second", "field", "status", "answer", "category", "k", "bins", "attribute", "inverted",
)  # fmt: skip
WITHOUT_NAME = ("Krippendorff’s α", "α")  # replacement in labels that are too long


@dataclass(frozen=True)
class _Point:
    """A metric with the labels of its plot, its question, its part of the items and its raters."""

    metric: Metric
    plot: str
    question: str
    part: str
    rater_label: str


def family_figures(
    metrics: Sequence[Metric],
    blocks: Sequence[MetricBlock],
    wording: Mapping[tuple[str, str], Wording],
    places: Container[str] = (),
) -> Iterator[PageFigure]:
    """Yield a figure for each family that has two metrics with intervals in the same unit, at least one of them not 0.

    Rows are questions and colours are raters; with more than four raters or groups, each question has a separate plot,
    and its rows are raters. Metrics of subgroups, answers and statuses have a plot per question, with a row for each
    subgroup, answer or status.

    Args:
        places: anchors of cards; rows of subgroups and raters that have cards are links.
    """
    names = short_names(sorted({metric.dims[dim] for metric in metrics for dim in RATERS if dim in metric.dims}))
    numbers = _tables(blocks, wording)
    for family in FAMILIES:
        chosen = _one_level([m for m in metrics if belongs(family, m) and m.low is not None and m.value is not None])
        points = [_point(metric, names, wording) for metric in chosen]
        if len(points) < 2 or (family.title == Topic.TWO_RATERS and len({p.rater_label for p in points}) > 2):
            continue
        drawn = _joined(_plots(points, places))
        plots = [plot for plot in drawn if any(estimate.value for estimate in plot[1].estimates)]
        if not plots:
            continue
        colour_order = _colour_order([panel for _, panel, _ in plots[:MAX_PLOTS]])
        yield PageFigure(
            name=anchor("figure", family.title),
            title=family.title,
            about="Points are values, lines 95% intervals.",
            plots=[
                plot(
                    replace(panel, colour_order=colour_order),
                    title=": ".join(filter(None, (family.title, title))),
                    description=f"Values with 95% intervals: {title or 'single values'}.",
                    heading=title,
                )
                for title, panel, _ in plots[:MAX_PLOTS]
            ],
            numbers=numbers.get(family.title, ()),
            folded=family.title not in OPEN,
            notes=tuple(_notes(plots)),
        )


def _tables(
    blocks: Sequence[MetricBlock], wording: Mapping[tuple[str, str], Wording]
) -> dict[str, list[tuple[str, str]]]:
    """Return the (label, anchor) pairs of each family's tables, by its title."""
    tables: dict[str, list[tuple[str, str]]] = {}
    for block in blocks:
        question = question_title((block.rubric, block.question), wording) or block.rubric or "all"
        for table in block.tables:
            tables.setdefault(table.title, []).append((", ".join(filter(None, (question, block.about))), table.name))
    return tables


def question_title(key: tuple[str, str], wording: Mapping[tuple[str, str], Wording]) -> str:
    """Return the title of a question as the page shows it."""
    return wording[key].title if key in wording else key[1]


def _one_level(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics with each alpha for only one kind of differences."""
    levels: dict[tuple[tuple[str, str], ...], str] = {}
    for metric in metrics:
        if (level := metric.dims.get("level")) in LEVELS:
            key = tuple(sorted((name, value) for name, value in metric.dims.items() if name != "level"))
            levels[key] = min(levels.get(key, level), level, key=LEVELS.index)
    kept = []
    for metric in metrics:
        key = tuple(sorted((name, value) for name, value in metric.dims.items() if name != "level"))
        if "level" not in metric.dims or levels.get(key) == metric.dims["level"]:
            kept.append(metric)
    return kept


def _point(metric: Metric, names: Mapping[str, str], wording: Mapping[tuple[str, str], Wording]) -> _Point:
    dims = metric.dims
    row = next((name for name in ROWS if dims.get(name)), "")
    measured = label(metric, ["metric", *(name for name in MEASURES if name not in (row, "attribute"))])
    by = f" by {dims['attribute']}" if dims.get("attribute") else ""
    about = [f"{dims[name]}" for name in IN_HEADING[2:] if dims.get(name)]
    short = replace(metric, dims={**dims, **{name: names[dims[name]] for name in RATERS if name in dims}})
    others = (*RATERS, *MEASURES, *IN_HEADING, *ROWS, *kind_of(metric).details)
    rest = [word(name, metric) for name in sorted(dims) if name not in others]
    return _Point(
        metric,
        measured + by,
        ", ".join(filter(None, (question_title((dims.get("rubric", ""), dims.get("question", "")), wording), *about))),
        word(row, metric) if row else "",
        ", ".join(filter(None, (rater_words(short, RATERS), *rest))),
    )


def _plots(points: Sequence[_Point], places: Container[str]) -> Iterator[tuple[str, Intervals, int]]:
    """Yield (title, plot, number of rows left out); of plots per question, first one of each question."""
    of_plot: dict[tuple[str, str], list[_Point]] = {}
    for point in points:
        of_plot.setdefault((point.plot, point.question if point.part else ""), []).append(point)
    of_question: Counter[str] = Counter()
    turns: dict[tuple[str, str], int] = {}
    for title, question in of_plot:
        turns[title, question] = of_question[question]
        of_question[question] += 1
    for (title, question), members in sorted(of_plot.items(), key=lambda entry: turns[entry[0]]):
        raters = dict.fromkeys(point.rater_label for point in members)
        if question:
            drawn = list(raters)[:MAX_SERIES]  # people and models come before single raters
            inside = [point for point in members if point.rater_label in drawn]
            left = len(members) - len(inside)
            yield _plot(f"{title}, {question}", inside, "part", series=True, left=left, places=places)
        elif len(raters) <= MAX_SERIES and len({point.question for point in members}) > 1:
            yield _plot(title, members, "question", series=True)
        else:
            questions: dict[str, list[_Point]] = {}
            for point in members:
                questions.setdefault(point.question, []).append(point)
            for name, inside in questions.items():
                heading = f"{title}, {name}" if name else title
                yield _plot(heading, inside, "rater_label", series=False, places=places)


def _plot(
    title: str, points: Sequence[_Point], rows: str, *, series: bool, left: int = 0, places: Container[str] = ()
) -> tuple[str, Intervals, int]:
    labels = dict.fromkeys(getattr(point, rows) or "all" for point in points)
    if rows == "part":
        order = by_region(labels)
        points = sorted(points, key=lambda point: order.index(point.part or "all"))
        labels = dict.fromkeys(order)
    shown = unique(list(labels)[:MAX_ROWS])
    estimates = [
        Estimate(shown[label], p.metric.value, p.metric.low, p.metric.high, shortened(p.rater_label) if series else "")
        for p in points
        if (label := getattr(p, rows) or "all") in shown
    ]
    percent = kind_of(points[0].metric).unit.percent
    links = {
        shown[label]: (name, f"Cards: {label}")
        for p in points
        if (label := getattr(p, rows)) in shown and (name := cards_of(p.metric)) in places
    }
    panel = replace(_intervals(estimates, percent=percent), links=links)
    return shortened(title, 60), panel, left + len(points) - len(estimates)


def _intervals(estimates: Sequence[Estimate], *, percent: bool) -> Intervals:
    """Return the plot, with an axis from 0 if its values are shares and a line at 0 if some values are negative."""
    ends = [end for e in estimates for end in (e.low, e.high) if end is not None]
    inside = percent and min(ends) >= 0 and max(ends) <= 1
    reference = 0.0 if min(ends) < 0 < max(ends) else None
    bounds = (0.0, max(0.1, math.ceil(max(ends) * 10) / 10)) if inside else None
    return Intervals(estimates, bounds=bounds, reference=reference, percent=percent, width=2.6)


def _joined(plots: Iterable[tuple[str, Intervals, int]]) -> Iterator[tuple[str, Intervals, int]]:
    """Yield the plots; single values are joined into one plot per unit, and left out if there is only one."""
    alone: dict[bool, list[tuple[str, Estimate]]] = {}
    for title, panel, left in plots:
        if len(panel.estimates) > 1:
            yield title, panel, left
        else:
            alone.setdefault(panel.percent, []).append((title, panel.estimates[0]))
    for percent, titled in alone.items():
        questions = {title.rpartition(", ")[2] for title, _ in titled}
        heading = questions.pop() if len(questions) == 1 else ""
        estimates = [
            (title.removesuffix(f", {heading}") if heading else _measure_of_question(title), estimate)
            for title, estimate in titled
        ]
        names = unique([title for title, _ in estimates][:MAX_ROWS])
        rows = [replace(estimate, label=names[title], series="") for title, estimate in estimates if title in names]
        if len(rows) > 1:
            yield heading, _intervals(rows, percent=percent), len(estimates) - len(rows)


def _colour_order(panels: Sequence[Intervals]) -> tuple[str, ...]:
    """Return the series of all plots of a figure; empty if there are more series than colours."""
    series = dict.fromkeys(e.series for panel in panels for e in panel.estimates if e.series)
    return tuple(series) if len(series) <= len(SERIES) else ()


def _measure_of_question(title: str) -> str:
    """Return the title of a plot, `measure, question`, as the label of a row; if it is too long, the measure is cut."""
    brief = title if len(title) <= LONGEST else title.replace(*WITHOUT_NAME)
    measure, comma, question = brief.rpartition(", ")
    return brief if len(brief) <= LONGEST or not comma else f"{question}: {measure}"


def _notes(plots: Sequence[tuple[str, Intervals, int]]) -> Iterator[str]:
    if len(plots) > MAX_PLOTS:
        yield f"{MAX_PLOTS} of {len(plots):,} plots; the others are in the tables."
    if left := sum(more for _, _, more in plots[:MAX_PLOTS]):
        values = f"{quantity(left, 'value')} {'is' if left == 1 else 'are'}"
        yield f"{values} only in the tables: a plot has at most {MAX_ROWS} rows and {MAX_SERIES} colours."
