"""The kinds of plots: each is a dataclass of numbers and labels that draws itself into matplotlib axes.

`jobs.plots.figures.plot` makes a figure of one plot, `small_multiples` of several. None and NaN are undefined values;
they are drawn as gaps or marked as undefined, never as 0. Cells are added as artists, not as patches, for which
matplotlib would search the limits of the axes, a fifth of the time of a large map.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from jobs.plots.svg import ACCENT, INK, LINE, PRINTED, SERIES, SOFT, diverging, link_to, readable_on, shade

if TYPE_CHECKING:  # matplotlib is imported where it is used: commands without plots must not wait for it
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

CHARACTER = 0.075  # inches of a character of a label, on average
SHORT = 3  # characters of a column label that need not be rotated


Numbers = tuple[Sequence[str], Sequence[Sequence[object]]]


class Panel(Protocol):
    """A plot that draws itself."""

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""

    def draw(self, axes: Axes) -> None:
        """Draw into empty axes."""

    def numbers(self) -> Numbers:
        """Return what it draws as a table: the names of the columns, and the rows."""


def label_cells(axes: Axes, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Limit the axes to a matrix of cells of size 1, with labels and without lines; rotate long column labels."""
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    short = all(len(name) <= SHORT for name in columns)
    turned: dict[str, Any] = {} if short else {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(columns)), columns, **turned)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


@dataclass(frozen=True)
class HeatMap:
    """A matrix of values, coloured from `low` to `high` and printed in the cells; an undefined cell has a dash.

    If `low` is negative, the colours diverge from 0.

    Attributes:
        values: rows of values; None: undefined.
        rows, columns: labels.
        low, high: values at the ends of the colours; `ends`: those of each column, if they differ.
        row_colours: a mark next to each row, such as the colour of its rater.
        width: inches of all columns; None: as many as their labels need.
        percent: whether values are shares, printed as percentages.
        links: (row, column) -> the anchor and the name of the cell's link, for cells that have one.
    """

    values: Sequence[Sequence[float | None]]
    rows: Sequence[str]
    columns: Sequence[str]
    low: float = 0.0
    high: float = 1.0
    percent: bool = True
    links: Mapping[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    ends: Sequence[tuple[float, float]] = ()
    row_colours: Sequence[str] = ()
    width: float | None = None

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""
        cell = 0.44 if max(map(len, self.columns), default=0) <= SHORT else 0.56
        return self.width or cell * max(1, len(self.columns)), 0.23 * max(1, len(self.rows))

    def draw(self, axes: Axes) -> None:
        """Draw one rectangle and one text per cell."""
        for row, line in enumerate(self.values):
            for column, value in enumerate(line):
                defined = value is not None and math.isfinite(value)
                low, high = self.ends[column] if self.ends else (self.low, self.high)
                share = (float(value or 0) - low) / (high - low) if high > low else 0.0
                colour = (diverging if low < 0 else shade)(share) if defined else "none"
                cell = _rectangle(column, row, colour)
                if (row, column) in self.links:
                    cell.set_url(link_to(*self.links[row, column]))
                axes.add_artist(cell)
                text = _number(value, self.percent) if defined and value is not None else "–"
                on = readable_on(colour)
                axes.text(column, row, text, ha="center", va="center", fontsize=7.5, color=on, in_layout=False)
        label_cells(axes, self.rows, self.columns)
        if self.row_colours:
            axes.tick_params(axis="y", pad=9)
        for row, colour in enumerate(self.row_colours):
            axes.add_artist(_rectangle(-0.58, row, colour, width=0.1, height=0.8, clip_on=False))

    def numbers(self) -> Numbers:
        """Return what it draws as a table."""
        return ("row", "column", "value"), _matrix_rows(self.rows, self.columns, self.values)


@dataclass(frozen=True)
class Estimate:
    """A value in one row of `Intervals`; `printed` is the number that a paper gives for this row.

    Without an interval, the point is hollow; without a value and a printed number, there is a dash.
    """

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    series: str = ""
    printed: float | None = None


@dataclass(frozen=True)
class Intervals:
    """Values with intervals, one row per label and one colour per series.

    A point is hollow if its value has no interval; a dash is undefined, and hollow diamonds are a paper's numbers.

    Attributes:
        estimates: rows from top to bottom; the estimates of one label share a row.
        label: the label of the value axis.
        bounds: ends of the value axis; None: chosen from the values.
        reference: a value with a vertical line, such as 0 for differences.
        percent: whether values are shares.
        width: length of the value axis in inches.
        links: label -> the anchor and the name of the row's link, for rows that have one.
        colours: series -> colour, in the order of lines within a row; others follow with the colours of `SERIES`.
        legend: whether the plot explains its colours.
    """

    estimates: Sequence[Estimate]
    label: str = ""
    bounds: tuple[float, float] | None = None
    reference: float | None = None
    percent: bool = False
    width: float = 4.2
    links: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    colours: Mapping[str, str] = field(default_factory=dict)
    legend: bool = True

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""
        return self.width, 0.3 + 0.1 * len(self.estimates) + 0.16 * len(self._rows)

    @property
    def _rows(self) -> list[str]:
        return list(dict.fromkeys(estimate.label for estimate in self.estimates))

    @property
    def _series(self) -> list[str]:
        present = dict.fromkeys(estimate.series for estimate in self.estimates)
        return [name for name in self.colours if name in present] + [
            name for name in present if name not in self.colours
        ]

    def draw(self, axes: Axes) -> None:
        """Draw points, intervals and the paper's numbers, with a legend if there are several series."""
        rows, series = self._rows, self._series
        free = iter(SERIES * (1 + len(series) // len(SERIES)))
        colours = {name: self.colours.get(name) or next(free) for name in series}
        shared = len(self.estimates) > len(rows)  # a row with several series has a line for each
        for number, name in enumerate(series):
            aside = (number - (len(series) - 1) / 2) * 0.7 / len(series) if shared else 0.0
            inside = [(estimate, rows.index(estimate.label) + aside) for estimate in self.estimates
                      if estimate.series == name]  # fmt: skip
            _draw_series(axes, inside, colours[name])
        if self.reference is not None:
            axes.axvline(self.reference, color=SOFT, linewidth=0.8, dashes=(3, 2))
        for tick in axes.set_yticks(range(len(rows)), rows):
            if (label := tick.label1.get_text()) in self.links:
                tick.label1.set_url(link_to(*self.links[label]))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        if self.bounds:
            axes.set_xlim(*self.bounds)
        axes.set_xlabel(self.label)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        _format(axes, self.percent)
        _set_ticks(axes, self.width)
        handles = [
            axes.plot([], [], "o", color=colours[name], label=name)[0]
            for name in series
            if name and len(series) > 1 and self.legend
        ]
        if any(estimate.printed is not None for estimate in self.estimates):
            handles += axes.plot([], [], "D", color=PRINTED, markerfacecolor="none", label="printed in the paper")
        if handles:
            axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, fontsize=8)

    def numbers(self) -> Numbers:
        """Return what it draws as a table."""
        columns = ("label", "series", "value", "low", "high", "printed")
        return columns, [(e.label, e.series, e.value, e.low, e.high, e.printed) for e in self.estimates]


def _draw_series(axes: Axes, estimates: Sequence[tuple[Estimate, float]], colour: str) -> None:
    """Draw estimates at their heights in one colour: one artist of a kind, because each takes matplotlib a
    millisecond."""
    marker: dict[str, Any] = {"linestyle": "none", "clip_on": False}
    lines = [(e.low, e.high, y) for e, y in estimates if e.low is not None and e.high is not None]
    if lines:
        low, high, at = zip(*lines, strict=True)
        axes.hlines(at, low, high, color=colour, linewidth=1.4)
    full: dict[str, Any] = {"marker": "o", "color": colour, "markersize": 4.5}
    hollow = full | {"markerfacecolor": "none", "markeredgewidth": 1.2}
    diamond: dict[str, Any] = {"marker": "D", "color": PRINTED, "markerfacecolor": "none", "markersize": 5}
    for points, style in (
        ([(e.value, y) for e, y in estimates if e.value is not None and e.low is not None], full),
        ([(e.value, y) for e, y in estimates if e.value is not None and e.low is None], hollow),
        ([(e.printed, y) for e, y in estimates if e.printed is not None], diamond),
    ):
        if points:
            axes.plot(*zip(*points, strict=True), **style, **marker)
    for estimate, y in estimates:
        if estimate.value is None and estimate.printed is None:
            axes.annotate("–", (0.02, y), xycoords=axes.get_yaxis_transform(), va="center", fontsize=8, color=colour)


@dataclass(frozen=True)
class Fit:
    """A fitted line: y = intercept + slope * x, with the band of its 95 % interval if it has `low` and `high`.

    Attributes:
        x: ascending positions of the band; low, high: its lower and upper ends at these positions.
    """

    intercept: float
    slope: float
    x: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Scatter:
    """Points with a fitted line and its band.

    Attributes:
        x, y: coordinates of equal length; None: undefined, not drawn.
        fit: the line; None: no line.
        x_label, y_label: labels of the axes; bounds: ends of the vertical axis; x_bounds: of the horizontal one.
        low, high: ends of the points' intervals, NaN without one; empty: no intervals.
    """

    x: Sequence[float]
    y: Sequence[float]
    fit: Fit | None = None
    x_label: str = ""
    y_label: str = ""
    bounds: tuple[float, float] | None = None
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    x_bounds: tuple[float, float] | None = None

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""
        return 1.9, 1.35

    def draw(self, axes: Axes) -> None:
        """Draw the intervals and points, then the band and the line."""
        if self.low:
            axes.vlines(self.x, self.low, self.high, color=SOFT, linewidth=1.2)
        x, y = np.asarray(self.x, float), np.asarray(self.y, float)
        kept = np.isfinite(x) & np.isfinite(y)
        size = 2.2 if kept.sum() > 60 else 4
        axes.plot(x[kept], y[kept], "o", color=SOFT, markersize=size, alpha=0.45, markeredgewidth=0)
        if self.fit and kept.any():
            if len(self.fit.x):
                axes.fill_between(self.fit.x, self.fit.low, self.fit.high, color=ACCENT, alpha=0.2, linewidth=0)
            ends = np.array(self.x_bounds or (x[kept].min(), x[kept].max()))
            axes.plot(ends, self.fit.intercept + self.fit.slope * ends, color=ACCENT, linewidth=1.5)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        axes.locator_params(axis="x", nbins=4)
        axes.ticklabel_format(axis="x", useOffset=False)
        if self.x_bounds:
            axes.set_xlim(*self.x_bounds)
        if self.bounds:
            axes.set_ylim(*self.bounds)

    def numbers(self) -> Numbers:
        """Return what it draws as a table."""
        if self.low:
            return ("x", "y", "low", "high"), list(zip(self.x, self.y, self.low, self.high, strict=True))
        return ("x", "y"), list(zip(self.x, self.y, strict=True))


@dataclass(frozen=True)
class Lines:
    """Lines through points, one per series.

    Attributes:
        x: positions of all points; series: name -> y; colours: series -> colour.
    """

    x: Sequence[float]
    series: Mapping[str, Sequence[float]]
    colours: Mapping[str, str]
    x_label: str = ""
    y_label: str = ""

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""
        return 2.9, 1.4

    def draw(self, axes: Axes) -> None:
        """Draw each series from 0 on the vertical axis; the legend is the page's."""
        for name, y in self.series.items():
            axes.plot(self.x, y, "o-", color=self.colours[name], markersize=3.5, linewidth=1.3, label=name)
        axes.set_ylim(bottom=0)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.locator_params(axis="x", nbins=5, integer=True)

    def numbers(self) -> Numbers:
        """Return what it draws as a table."""
        return ("x", *self.series), list(zip(self.x, *self.series.values(), strict=True))


@dataclass(frozen=True)
class Histogram:
    """Counts between edges; `edges` has one number more than `counts`."""

    counts: Sequence[float]
    edges: Sequence[float]
    x_label: str = ""
    y_label: str = ""

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""
        return 2.6, 1.6

    def draw(self, axes: Axes) -> None:
        """Draw one bar per count, between its edges."""
        from matplotlib.ticker import MaxNLocator

        axes.stairs(self.counts, self.edges, fill=True, facecolor=ACCENT, alpha=0.85)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        axes.set_xlim(self.edges[0], self.edges[-1])
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))

    def numbers(self) -> Numbers:
        """Return what it draws as a table."""
        return ("from", "to", "count"), list(zip(self.edges, self.edges[1:], self.counts, strict=False))


@dataclass(frozen=True)
class StackedBars:
    """Shares of ordered parts (such as scores 1 to 5) in each row; the colours run from the first to the last.

    Attributes:
        shares: one row per label, one share per part; an empty row is undefined.
        rows, parts: labels; `legend`: whether to explain the colours.
        width: inches of the bars.
    """

    shares: Sequence[Sequence[float | None]]
    rows: Sequence[str]
    parts: Sequence[str]
    legend: bool = True
    width: float = 4.2

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""
        return self.width, 0.2 + 0.24 * max(1, len(self.rows))

    def draw(self, axes: Axes) -> None:
        """Draw one bar per row; segments that are wide enough show their percentage."""
        colours = [shade(number / max(1, len(self.parts) - 1)) for number in range(len(self.parts))]
        for row, shares in enumerate(self.shares):
            left = 0.0
            defined = [share is not None and math.isfinite(share) for share in shares]
            for share, is_defined, colour in zip(shares, defined, colours, strict=False):
                width = float(share or 0.0) if is_defined else 0.0
                axes.add_artist(_rectangle(left + width / 2, row, colour, width=width, height=0.78))
                if width >= 0.075:
                    text = _number(width, True)
                    on = readable_on(colour)
                    axes.text(
                        left + width / 2, row, text, ha="center", va="center", fontsize=7, color=on, in_layout=False
                    )
                left += width
            if not any(defined):
                axes.text(0.01, row, "undefined", va="center", fontsize=7.5, color=SOFT)
        axes.set_xlim(0, 1)
        axes.set_ylim(len(self.rows) - 0.5, -0.5)
        axes.set_yticks(range(len(self.rows)), self.rows)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        _format(axes, True)
        if self.legend:
            handles = [axes.plot([], [], "s", color=c, label=p)[0] for c, p in zip(colours, self.parts, strict=True)]
            axes.legend(
                handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=len(self.parts), fontsize=7.5,
                handletextpad=0.2, columnspacing=0.9,
            )  # fmt: skip

    def numbers(self) -> Numbers:
        """Return what it draws as a table."""
        return ("row", "part", "share"), _matrix_rows(self.rows, self.parts, self.shares)


def _matrix_rows(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[object]]
) -> list[tuple[str, str, object]]:
    return [
        (row, column, value)
        for row, line in zip(rows, values, strict=True)
        for column, value in zip(columns, line, strict=False)
    ]


def _rectangle(x: float, y: float, colour: str, *, width: float = 1.0, height: float = 1.0, **style: Any) -> Rectangle:
    """Return a rectangle around its centre."""
    from matplotlib.patches import Rectangle

    corner = (x - width / 2, y - height / 2)
    return Rectangle(corner, width, height, facecolor=colour, edgecolor=LINE, linewidth=0.4, **style)


def _number(value: float, percent: bool) -> str:
    return (f"{value:.0%}" if percent else f"{value:.2f}").replace("-", "−")


def _format(axes: Axes, percent: bool) -> None:
    from matplotlib.ticker import FuncFormatter

    if percent:
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}".replace("-", "−")))


def _set_ticks(axes: Axes, width: float) -> None:
    """Set at most five ticks of the value axis, as many as fit a `width` in inches with their labels."""
    from matplotlib.ticker import MaxNLocator

    low, high = axes.get_xlim()
    for intervals in (4, 3, 2, 1):
        ticks = [tick for tick in MaxNLocator(intervals, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
                 if low - 1e-9 <= tick <= high + 1e-9]  # fmt: skip
        longest = max(map(len, axes.xaxis.get_major_formatter().format_ticks(ticks)), default=0)
        if (longest + 1) * CHARACTER * (len(ticks) - 1) * (high - low) <= width * (ticks[-1] - ticks[0]):
            break
    axes.set_xticks(ticks)


@dataclass(frozen=True)
class CountMatrix:
    """Counts of pairs of answers, coloured by their share of the row's total; the diagonal is outlined.

    Attributes:
        counts: rows of counts; rows, columns: labels.
        row_label, column_label: what the rows and columns are.
        links: (row, column) -> the anchor and the name of the cell's link, for cells that have one.
    """

    counts: Sequence[Sequence[int]]
    rows: Sequence[str]
    columns: Sequence[str]
    row_label: str = ""
    column_label: str = ""
    links: Mapping[tuple[int, int], tuple[str, str]] = field(default_factory=dict)

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""
        return 0.42 * max(2, len(self.columns)), 0.26 * max(2, len(self.rows))

    def draw(self, axes: Axes) -> None:
        """Draw one rectangle and one number per cell."""
        from matplotlib.patches import Rectangle

        for row, line in enumerate(self.counts):
            total = sum(line)
            for column, count in enumerate(line):
                share = count / total if total else 0.0
                colour = shade(share)
                edge, width = (INK, 1.2) if row == column else (LINE, 0.4)
                box = Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor=edge, linewidth=width)
                box.set_zorder(2 if row == column else 1)
                if (row, column) in self.links:
                    box.set_url(link_to(*self.links[row, column]))
                axes.add_artist(box)
                on = "#ffffff" if share > 0.45 else "#000000"
                centred: dict[str, Any] = {"ha": "center", "va": "center", "in_layout": False}
                axes.text(column, row, f"{count:,}", fontsize=7.5, color=on, zorder=3, **centred)
        label_cells(axes, self.rows, self.columns)
        axes.set_xlabel(self.column_label)
        axes.set_ylabel(self.row_label)

    def numbers(self) -> Numbers:
        """Return what it draws as a table."""
        return ("row", "column", "count"), _matrix_rows(self.rows, self.columns, self.counts)


@dataclass(frozen=True)
class Steps:
    """The counts after each step, from top to bottom, as bars on a logarithmic axis if they differ by a factor of 100.

    Attributes:
        counts: the count after each step, at least 0; labels: the steps.
    """

    counts: Sequence[int]
    labels: Sequence[str]

    def size(self) -> tuple[float, float]:
        """Return width and height in inches of the axes."""
        return 3.2, 0.15 + 0.26 * max(1, len(self.counts))

    def draw(self, axes: Axes) -> None:
        """Draw one bar per step with its count at the end."""
        from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

        most, least = max(self.counts, default=1), min((count for count in self.counts if count), default=1)
        logarithmic = most > 100 * least
        axes.barh(range(len(self.counts)), self.counts, height=0.72, color=ACCENT)
        if logarithmic:
            axes.set_xscale("log")
            axes.set_xlim(max(0.5, least / 4), most * 10)
            axes.xaxis.set_major_locator(LogLocator(10, numticks=5))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xlabel("count, on a logarithmic axis")
        else:
            axes.set_xlim(0, most * 1.3 or 1)
            axes.set_xlabel("count")
        for row, count in enumerate(self.counts):
            axes.annotate(
                f"{count:,}", (max(count, least / 4 if logarithmic else 0), row), xytext=(4, 0),
                textcoords="offset points", va="center", fontsize=8,
            )  # fmt: skip
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_yticks(range(len(self.labels)), self.labels)
        axes.set_ylim(len(self.labels) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)

    def numbers(self) -> Numbers:
        """Return what it draws as a table."""
        return ("step", "count"), list(zip(self.labels, self.counts, strict=True))
