"""Plots of counts: a matrix of counts, and the steps of a funnel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jobs.plots.colours import shade
from jobs.plots.panels import label_cells
from jobs.plots.svg import ACCENT, INK, LINE, link_to

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
                axes.add_patch(box)
                on = "#ffffff" if share > 0.45 else "#000000"
                centred: dict[str, Any] = {"ha": "center", "va": "center", "in_layout": False}
                axes.text(column, row, f"{count:,}", fontsize=7.5, color=on, zorder=3, **centred)
        label_cells(axes, self.rows, self.columns)
        axes.set_xlabel(self.column_label)
        axes.set_ylabel(self.row_label)


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
