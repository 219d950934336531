"""Figures of one or several plots: `plot` and `small_multiples` return inline SVG."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from functools import cache
from textwrap import wrap
from typing import TYPE_CHECKING
from unicodedata import east_asian_width

from jobs.plots.panels import CHARACTER
from jobs.plots.svg import POINTS, WIDTH, Stroke, as_svg, drawing, repeat

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.figure import Figure

    from jobs.plots.panels import Panel

RIGHT = 0.2  # inches at the right of axes for half a tick label
HEADING = 3.4  # inches after which a heading above labels has another line
TICK = 0.14  # inches between the label of a row and its axes
PAD = 0.12  # inches around the axes and between panels


class Drawing(str):
    """Inline SVG that keeps what was drawn and its size in inches, for `as_pdf`, and its panels with their titles."""

    strokes: list[Stroke]
    size: tuple[float, float]
    panels: Sequence[tuple[str, Panel]]
    name: str


def as_pdf(drawings: Iterable[Drawing], *, caption: str = "") -> bytes:
    """Return drawings as a PDF file, one page for each, with fonts embedded; the same drawings give the same bytes.

    Args:
        caption: becomes the subject of the file.
    """
    from matplotlib.backends.backend_pdf import PdfFile, RendererPdf

    out = io.BytesIO()
    with drawing():
        file = PdfFile(out, metadata={"Subject": caption, "CreationDate": None, "Creator": "remine"})
        for drawn in drawings:
            width, height = drawn.size
            file.newPage(width, height)
            renderer = RendererPdf(file, POINTS, height, width)
            repeat(drawn.strokes, renderer, height * POINTS)
            renderer.finalize()
            file.endStream()
        file.finalize()
        file.close()
    return out.getvalue()


def plot(panel: Panel, *, title: str, description: str, heading: str = "", labels: float = 0.0) -> Drawing:
    """Return one plot as inline SVG.

    Args:
        title, description: for screen readers; the page gives the visible title.
        heading: visible above the plot.
        labels: inches for the labels of rows, so that plots below each other are aligned; 0: as many as they need.
    """
    return small_multiples([(heading, panel)], title=title, description=description, columns=1, labels=labels)


def label_width(labels: Iterable[str]) -> float:
    """Return the inches that the longest label of a row may need with its tick; a wide character takes two."""
    wide = (sum(1 + (east_asian_width(character) in "WF") for character in label) for label in labels)
    return CHARACTER * max(wide, default=0) + TICK


def small_multiples(
    panels: Sequence[tuple[str, Panel]],
    *,
    title: str,
    description: str,
    columns: int = 2,
    shared_rows: bool = False,
    labels: float = 0.0,
) -> Drawing:
    """Return several plots, each with its own title, in rows of `columns` as inline SVG.

    Args:
        panels: (title, plot) in reading order.
        shared_rows: whether all plots in a row have the same row labels, such as heat maps; only the first shows them.
        labels: least inches for the labels of rows; titles then begin at their left and have several lines.

    Raises:
        ValueError: no panels.
    """
    if not panels:
        raise ValueError("a figure needs at least one plot")
    columns = min(columns, len(panels))
    lines = [panels[first : first + columns] for first in range(0, len(panels), columns)]
    from matplotlib.figure import Figure

    with drawing():
        figure = Figure(figsize=(WIDTH, 4))
        boxes = {}
        for number, (name, panel) in enumerate(panels):
            axes = figure.add_axes((0.1, 0.1, 0.8, 0.8), label=str(number))
            panel.draw(axes)
            if shared_rows and number % columns:
                axes.set_yticklabels([])
            if name:
                # With a fixed y, matplotlib does not search for ticks above the axes, a fifth of its time.
                text = axes.set_title(name, pad=20 if axes.get_legend() else 6, y=1.0)
                if labels:
                    width = panel.size()[0]
                    text.set_x(-labels / width)
                    text.set_text("\n".join(wrap(name, int(max(labels + width, HEADING) / (1.15 * CHARACTER)))))
            boxes[number] = axes
        _arrange(figure, lines, list(boxes.values()), columns, labels)
        strokes: list[Stroke] = []
        drawn = Drawing(as_svg(figure, title=title, description=description, strokes=strokes))
    width, height = figure.get_size_inches()
    drawn.strokes, drawn.size, drawn.panels, drawn.name = strokes, (float(width), float(height)), panels, title
    return drawn


def _arrange(
    figure: Figure, lines: Sequence[Sequence[tuple[str, Panel]]], axes: Sequence[Axes], columns: int, labels: float
) -> None:
    """Place the axes at their own sizes, with room for their labels, and fit the figure around them."""
    sizes = [panel.size() for line in lines for _, panel in line]
    margins = [_margins(figure, panel_axes, size) for panel_axes, size in zip(axes, sizes, strict=True)]
    if labels:
        margins = [(max(labels, left), max(RIGHT, right), below, above) for left, right, below, above in margins]
    widths = [
        max(margins[n][0] + sizes[n][0] + margins[n][1] for n in range(column, len(axes), columns))
        for column in range(columns)
    ]
    lefts = [max(margins[n][0] for n in range(column, len(axes), columns)) for column in range(columns)]
    heights = []
    for number in range(len(lines)):
        of_line = range(number * columns, min((number + 1) * columns, len(axes)))
        heights.append(tuple(max(values) for values in zip(*(
            (margins[n][3], sizes[n][1], margins[n][2]) for n in of_line), strict=True)))  # fmt: skip
    width = sum(widths) + PAD * (columns + 1)
    height = sum(map(sum, heights)) + PAD * (len(lines) + 1)
    figure.set_size_inches(width, height)
    top = height
    for number, (above, tall, below) in enumerate(heights):
        top -= PAD + above
        left = PAD
        for column in range(columns):
            n = number * columns + column
            if n < len(axes):
                axes[n].set_position(
                    ((left + lefts[column]) / width, (top - sizes[n][1]) / height, sizes[n][0] / width,
                     sizes[n][1] / height)
                )  # fmt: skip
            left += widths[column] + PAD
        top -= tall + below


def _margins(figure: Figure, axes: Axes, size: tuple[float, float]) -> tuple[float, float, float, float]:
    """Return the inches that labels, titles and legends need at the left, right, bottom and top of axes of `size`."""
    width, height = figure.get_size_inches()
    axes.set_position((0.3, 0.3, size[0] / width, size[1] / height))
    tight = axes.get_tightbbox(_measuring(figure.dpi))
    assert tight is not None  # the axes are visible
    box = tight.transformed(figure.dpi_scale_trans.inverted())
    inner = axes.get_position()
    x0, x1, y0, y1 = inner.x0 * width, inner.x1 * width, inner.y0 * height, inner.y1 * height
    return max(0, x0 - box.x0), max(0, box.x1 - x1), max(0, y0 - box.y0), max(0, box.y1 - y1)


@cache
def _measuring(dpi: float) -> RendererAgg:
    """Return the renderer with which texts are measured: one for all figures, since it remembers them."""
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, dpi)
