"""Plots of metrics: a figure per topic, with a plot per metric and attribute of items, that shows every rater."""

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jobs.metrics.kinds import kind_of
from jobs.metrics.metric import Metric, Quantity, Topic
from jobs.metrics.rated_question import MODELS, PEOPLE
from jobs.page.card_links import cards_of
from jobs.page.metric_tables import (
    IN_HEADING,
    MetricBlock,
    belongs,
    dim_word,
    metric_label,
    rater_words,
)
from jobs.page.page_contents import PageFigure, Wording, question_of
from jobs.page.page_names import LONGEST, anchor, not_drawn, rater_colour, short_names, shortened, unique
from jobs.plots.figures import label_width, plot
from jobs.plots.panels import Estimate, HeatMap, Intervals
from jobs.plots.tiles import by_region

MAX_PLOTS, MAX_FOLDED = 24, 12  # plots in a figure, and in a folded one; the notes name the others
MAX_ROWS = 24  # rows in a drawing; a plot with more has several
MAX_SERIES = 8  # colours in a drawing; a plot with more has several
FIRST_UNITS = (Quantity.SCORE, Quantity.COEFFICIENT)  # quantities whose plots come first
MAX_LINES = 32  # intervals that can be compared in a small drawing; a plot of subgroups with more begins with a map
CELL = 0.26  # inches that a number in such a map needs
LEVELS = ("ordinal", "nominal", "interval")  # kinds of differences of alpha, of which one is plotted
# Dims whose values become rows of a plot; the first one counts, and the plot's title has the others.
ROWS = (
    "part", "answer", "annotation", "category", "status", "average", "competitor", "target", "deviation", "prompt",
)  # fmt: skip
IN_SECTION = (Topic.ESTIMATES, Topic.ESTIMATES_BY_SUBGROUP)  # whose plots are in the section of estimates
RATERS = ("group", "rater", "rater_a", "rater_b")
WITHOUT_NAME = ("Krippendorff’s α", "α")  # replacement in labels that are too long
WIDTH, LABELS, AXIS = 3.55, 0.9, 1.7  # inches of a plot, so that three fit next to each other; least of its parts
Axis = tuple[float, float]


@dataclass(frozen=True)
class FigureContext:
    """What the figures of a page share.

    Attributes:
        wording: the texts of questions; blocks: the tables of metrics.
        places: anchors of cards; cells and rows that have cards are links.
        letters: rater -> its letter on the page; hues: rater -> the hue of its colour.
    """

    wording: Mapping[tuple[str, str], Wording] = field(default_factory=dict)
    blocks: Sequence[MetricBlock] = ()
    places: Container[str] = ()
    letters: Mapping[str, str] = field(default_factory=dict)
    hues: Mapping[str, str] = field(default_factory=dict)

    def title(self, key: tuple[str, str]) -> str:
        """Return the title of a question as the page shows it."""
        return self.wording[key].title if key in self.wording else key[1]

    def scale(self, key: tuple[str, str]) -> tuple[float, float] | None:
        """Return the lowest and highest score of a question; None if they are unknown or there are none."""
        return self.wording[key].scale if key in self.wording else None

    def numbers(self, topic: Topic) -> list[tuple[str, str]]:
        """Return the label and anchor of each table of a topic."""
        return [
            (", ".join(filter(None, (self.title((b.rubric, b.question)) or b.rubric or "all", b.about))), table.name)
            for b in self.blocks
            for table in b.tables
            if table.topic == topic
        ]


@dataclass(frozen=True)
class _Point:
    """A metric with the labels of its plot, its question, its part of the items and its raters."""

    metric: Metric
    plot: str
    question: str
    part: str
    rater: str
    rater_label: str
    scale: Axis | None

    @property
    def axis(self) -> tuple[Quantity, object]:
        """What it shares with the points that have the same axis in a figure."""
        unit = kind_of(self.metric).unit
        if unit in (Quantity.SHARE, Quantity.FRACTION, Quantity.COEFFICIENT, Quantity.DIFFERENCE):
            return unit, None
        return unit, self.scale if unit == Quantity.SCORE and self.scale else self.metric.name


@dataclass(frozen=True)
class _Plot:
    """Points in one plot; `rows` is the attribute of points whose values are the rows."""

    title: str
    points: Sequence[_Point]
    rows: str


def topic_figures(metrics: Sequence[Metric], context: FigureContext) -> Iterator[PageFigure]:
    """Yield a figure for each topic that has two values of metrics that can have an interval.

    Rows are questions and colours are raters; with more than eight raters or groups, each question has a separate plot,
    and its rows are raters. Metrics of subgroups, answers and statuses have a plot per question, with a row for each
    subgroup, answer or status. A plot with more rows or colours than a drawing has room for has several drawings.
    """
    names = short_names(
        sorted({metric.dims[dim] for metric in metrics for dim in (*RATERS, "model") if dim in metric.dims})
    )
    for topic in Topic:
        if topic in IN_SECTION:
            continue
        chosen = _one_level([m for m in metrics if belongs(topic, m) and kind_of(m).interval])
        points = [_point(metric, names, context) for metric in chosen]
        raters = {point.rater_label for point in points if point.metric.value is not None}
        if topic == Topic.TWO_RATERS and len(raters) > 2:
            continue  # a heat map shows it
        if topic == Topic.CALIBRATION:
            continue  # curves show it
        plots = sorted(
            (drawn for drawn in _joined(_plots(points)) if _is_shown(drawn, topic)),
            key=lambda drawn: kind_of(drawn.points[0].metric).unit not in FIRST_UNITS,
        )
        if sum(point.metric.value is not None for drawn in plots for point in drawn.points) > 1:
            yield _figure(topic, plots, context)


def _figure(topic: Topic, plots: Sequence[_Plot], context: FigureContext) -> PageFigure:
    limit = MAX_PLOTS if topic.value.plotted_first else MAX_FOLDED
    shown = plots[:limit]
    axes = _axes([point for drawn in plots for point in drawn.points])
    names = unique(list(dict.fromkeys(point.rater_label for drawn in shown for point in drawn.points)))
    colours = {names[p.rater_label]: rater_colour(p.rater, context.hues) for drawn in shown for p in drawn.points}
    in_colour = {names[p.rater_label] for drawn in shown if drawn.rows != "rater_label" for p in drawn.points}
    legend = [(name, colour) for name, colour in colours.items() if name in in_colour and name]
    maps = [part_map for drawn in shown if (part_map := _part_map(drawn, axes, names, colours))]
    panels = [panel for drawn in shown for panel in _panels(drawn, axes, names, context.places, colours)]
    rows = [estimate.label for _, panel in panels for estimate in panel.estimates]
    labels = max(LABELS, label_width([*rows, *(row for _, part_map in maps for row in part_map.rows)]))
    width = max(AXIS, WIDTH - labels)
    panels = [(title, replace(panel, width=width)) for title, panel in panels]
    maps = [(title, replace(part_map, width=max(width, CELL * len(part_map.columns)))) for title, part_map in maps]
    return PageFigure(
        name=anchor("figure", topic.value.title),
        title=topic.value.title,
        about="Points are values, lines 95% intervals; a hollow point has no interval, and a dash is undefined."
        + (" Colours are raters, in the order of the legend within a row." if len(legend) > 1 else "")
        + (" Heat maps have the same values without intervals." if maps else ""),
        plots=[
            plot(
                panel,
                title=": ".join(filter(None, (topic.value.title, title))),
                description=f"{described}: {title or 'single values'}.",
                heading=title,
                labels=labels,
            )
            for described, drawings in (("Heat map", maps), ("Values with 95% intervals", panels))
            for title, panel in drawings
        ],
        caption=caption_of([point.metric for drawn in shown for point in drawn.points]),
        numbers=context.numbers(topic),
        folded=not topic.value.plotted_first,
        topic=topic,
        notes=not_drawn([drawn.title or "single values" for drawn in plots[limit:]]),
        legend=legend,
    )


def caption_of(metrics: Sequence[Metric]) -> str:
    """Return what a plot of these metrics rests on: their names with definitions, n, and the intervals' methods."""
    definitions = dict.fromkeys(f"{kind_of(m).label}: {m.definition}" for m in metrics)
    counts = [metric.n for metric in metrics if metric.value is not None]
    n = (
        f"n {min(counts):,} to {max(counts):,}."
        if counts and min(counts) < max(counts)
        else f"n {max(counts, default=0):,}."
    )
    methods = dict.fromkeys(metric.interval_method for metric in metrics if metric.interval_method)
    intervals = f"Intervals: {'; '.join(map(str, methods))}." if methods else "No intervals."
    return " ".join([*definitions, n, intervals])


def _is_shown(drawn: _Plot, topic: Topic) -> bool:
    """Return whether a plot has a value, of counted statuses one that is not 0."""
    values = [point.metric.value for point in drawn.points if point.metric.value is not None]
    return bool(values) and (not topic.value.counts or any(values))


def _one_level(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics with each alpha for only one kind of differences, if possible one that is defined."""
    levels: dict[tuple[tuple[str, str], ...], tuple[bool, int]] = {}
    for metric in metrics:
        if metric.dims.get("level") in LEVELS:
            key = tuple(sorted((name, value) for name, value in metric.dims.items() if name != "level"))
            rank = metric.value is None, LEVELS.index(metric.dims["level"])
            levels[key] = min(levels.get(key, rank), rank)
    kept = []
    for metric in metrics:
        key = tuple(sorted((name, value) for name, value in metric.dims.items() if name != "level"))
        if "level" not in metric.dims or (key in levels and LEVELS[levels[key][1]] == metric.dims["level"]):
            kept.append(metric)
    return kept


def _point(metric: Metric, names: Mapping[str, str], context: FigureContext) -> _Point:
    dims = metric.dims
    row = next((name for name in ROWS if dims.get(name)), "")
    raters = RATERS if {"rater", "rater_a", "group"} & dims.keys() else ("model",)
    apart = {row, "attribute", *raters, *IN_HEADING}
    measured = metric_label(metric, ["metric", *(name for name in sorted(dims) if name not in apart)])
    by = f" by {dims['attribute'].replace('_', ' ')}" if dims.get("attribute") else ""
    about = [f"{dims[name]}" for name in IN_HEADING[2:] if dims.get(name)]
    short = replace(metric, dims={**dims, **{name: names[dims[name]] for name in raters if name in dims}})
    key = question_of(dims)
    rater = next((dims[name] for name in ("rater", "group", *raters) if dims.get(name)), "")
    rater_label = rater_words(short, raters) or (short.dims.get("model", "") if "model" in raters else "")
    if rater in (PEOPLE, MODELS) and any(topic.value.of_means for topic in kind_of(metric).topics):
        rater_label = f"{'any' if dims.get('rule') == 'any' else 'mean'} of {rater_label}"
    return _Point(
        metric,
        measured + by,
        ", ".join(filter(None, (context.title(key), *about))),
        dim_word(row, metric) if row else "",
        rater,
        rater_label,
        context.scale(key),
    )


def _plots(points: Sequence[_Point]) -> Iterator[_Plot]:
    """Yield the plots; of plots per question, first one of each question."""
    of_plot: dict[tuple[str, str], list[_Point]] = {}
    for point in points:
        of_plot.setdefault((point.plot, point.question if point.part else ""), []).append(point)
    of_question: Counter[str] = Counter()
    turns: dict[tuple[str, str], int] = {}
    for title, question in of_plot:
        turns[title, question] = of_question[question]
        of_question[question] += 1
    for (title, question), members in sorted(of_plot.items(), key=lambda entry: turns[entry[0]]):
        raters = {point.rater_label for point in members}
        if members[0].part:
            yield _Plot(", ".join(filter(None, (title, question))), members, "part")
        elif len(raters) <= MAX_SERIES and len({point.question for point in members}) > 1:
            yield _Plot(title, members, "question")
        else:
            questions: dict[str, list[_Point]] = {}
            for point in members:
                questions.setdefault(point.question, []).append(point)
            for name, inside in questions.items():
                yield _Plot(f"{title}, {name}" if name else title, inside, "rater_label")


def _joined(plots: Iterable[_Plot]) -> Iterator[_Plot]:
    """Yield the plots; those of a single value are joined into one plot per axis."""
    alone: dict[tuple[Quantity, object], list[_Plot]] = {}
    for drawn in plots:
        if len(drawn.points) > 1:
            yield drawn
        else:
            alone.setdefault(drawn.points[0].axis, []).append(drawn)
    for single in alone.values():
        questions = {drawn.points[0].question for drawn in single}
        heading = questions.pop() if len(questions) == 1 else ""
        rows = [
            replace(drawn.points[0], part=drawn.title.removesuffix(f", {heading}") if heading else _brief(drawn.title))
            for drawn in single
        ]
        yield _Plot(heading, rows, "joined")


def _brief(title: str) -> str:
    """Return the title of a plot, `measure, question`, as the label of a row; if it is too long, the measure is cut."""
    brief = title if len(title) <= LONGEST else title.replace(*WITHOUT_NAME)
    measure, comma, question = brief.rpartition(", ")
    return brief if len(brief) <= LONGEST or not comma else f"{question}: {measure}"


def _axes(points: Sequence[_Point]) -> dict[tuple[Quantity, object], Axis]:
    """Return the ends of each axis of a figure, so that all its plots of a quantity have the same.

    Shares begin at 0 and end at 1, coefficients end at 1, and scores have the ends of their question's scale.
    """
    ends: dict[tuple[Quantity, object], list[float]] = {}
    for point in points:
        metric = point.metric
        ends.setdefault(point.axis, []).extend(e for e in (metric.low, metric.value, metric.high) if e is not None)
        if point.scale and point.axis[0] == Quantity.SCORE:
            ends[point.axis] += point.scale
    return {axis: _ends(axis[0], min(values), max(values)) for axis, values in ends.items() if values}


def _ends(unit: Quantity, low: float, high: float) -> Axis:
    if unit in (Quantity.SHARE, Quantity.FRACTION):
        return min(0.0, low), max(1.0, high)
    if unit == Quantity.COEFFICIENT:
        return min(0.0, math.floor(low * 5) / 5), max(1.0, high)
    if unit == Quantity.SCORE:
        return (low, high) if low < high else (low - 0.5, high + 0.5)
    room = 0.05 * (max(0.0, high) - min(0.0, low)) or 0.5
    return (low - room if low < 0 else 0.0), (high + room if high > 0 or low >= 0 else 0.0)


def _part_map(
    drawn: _Plot,
    axes: Mapping[tuple[Quantity, object], Axis],
    names: Mapping[str, str],
    colours: Mapping[str, str],
) -> tuple[str, HeatMap] | None:
    """Return the title and a map of raters by subgroups of a plot that has too many intervals to compare them."""
    values = {(names[point.rater_label], point.part): point.metric.value for point in drawn.points}
    if drawn.rows != "part" or len(values) <= MAX_LINES or "part" not in drawn.points[0].metric.dims:
        return None
    raters = [name for name in names.values() if any(name == rater for rater, _ in values)]
    parts = by_region(list(dict.fromkeys(part for _, part in values)))
    low, high = axes.get(drawn.points[0].axis, (0.0, 1.0))
    return shortened(drawn.title, 2 * LONGEST + 24), HeatMap(
        [[values.get((rater, part)) for part in parts] for rater in raters],
        raters,
        parts,
        low=low,
        high=high,
        percent=kind_of(drawn.points[0].metric).unit.percent,
        row_colours=[colours[rater] for rater in raters],
    )


def _panels(
    drawn: _Plot,
    axes: Mapping[tuple[Quantity, object], Axis],
    names: Mapping[str, str],
    places: Container[str],
    colours: Mapping[str, str],
) -> list[tuple[str, Intervals]]:
    """Return the drawings of a plot with their titles: one for each `MAX_SERIES` raters and `MAX_ROWS` rows."""
    attribute = "part" if drawn.rows == "joined" else drawn.rows
    row_of = [(getattr(point, attribute) or "all", point) for point in drawn.points]
    labels = list(dict.fromkeys(row for row, _ in row_of))
    if drawn.rows == "part" and "part" in drawn.points[0].metric.dims:
        labels = by_region(labels)
    shown = unique(labels)
    present = {point.rater_label for point in drawn.points}
    raters = [name for name in names if name in present]  # in the order of the legend
    of_row = attribute == "rater_label"
    step = len(raters) if of_row else MAX_SERIES
    limits = [axes[point.axis] for point in drawn.points if point.axis in axes]
    bounds = min(low for low, _ in limits), max(high for _, high in limits)
    panels = []
    for first in range(0, len(labels), MAX_ROWS):
        rows = labels[first : first + MAX_ROWS]
        for start in range(0, len(raters), step):
            inside = [(row, p) for row, p in row_of if row in rows and p.rater_label in raters[start : start + step]]
            inside.sort(key=lambda entry: rows.index(entry[0]))
            links = {
                shown[row]: (name, f"Cards: {row}")
                for row, point in inside
                if drawn.rows != "joined" and (name := cards_of(point.metric)) in places and attribute != "question"
            }
            estimates = [
                Estimate(shown[row], p.metric.value, p.metric.low, p.metric.high, names[p.rater_label])
                for row, p in inside
            ]
            if estimates:
                panels.append(
                    Intervals(
                        estimates,
                        bounds=bounds,
                        reference=0.0 if bounds[0] < 0 < bounds[1] else None,
                        percent=kind_of(inside[0][1].metric).unit.percent,
                        links=links,
                        colours=colours,
                        legend=False,
                    )
                )
    title = shortened(drawn.title, 2 * LONGEST + 24)
    several = len(panels) > 1
    return [(f"{title} ({n} of {len(panels)})" if several else title, panel) for n, panel in enumerate(panels, start=1)]
