"""Tables and figures in a paper's shape, which the page renders and `write_parts` writes to files of OUT/paper."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from jobs.corpora.cell_texts import csv_file
from jobs.metrics.metric import Metric
from jobs.plots.figures import Drawing, small_multiples
from jobs.plots.files import captions_file, drawing_files, replace_files
from jobs.plots.panels import Estimate, Panel
from jobs.store.files import locations

Unit = Literal["percent", "number", "count"]  # percent: a share in [0, 1], or a difference of shares


@dataclass(frozen=True)
class Printed:
    """A number that the paper prints, in the unit of the metric (a share as 0.265), with its interval if printed."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class PaperCell:
    """A cell: this report's metric, the paper's printed number, both, or neither (an empty cell of the layout).

    The `reason` of a metric explains why it has no value.
    """

    metric: Metric | None = None
    printed: Printed | None = None
    unit: Unit = "percent"


@dataclass(frozen=True)
class PaperRow:
    """A row: one header per row-header column of its table, and one cell per column."""

    headers: tuple[str, ...]
    cells: tuple[PaperCell, ...]


@dataclass(frozen=True)
class PaperTable:
    """A table in a paper's shape.

    Attributes:
        name: name of its file, such as table_2.
        title, citation: what the table shows, and the paper's table, such as "Century, table 2".
        row_headers: names of the columns with row headers, such as ("Dimension", "Labelling method").
        columns: header of each column, from the outermost level to the innermost: ("GPT-4 Omni", "Explicit").
        rows: from top to bottom.
        notes: sentences about the whole table, such as what n counts.

    Raises:
        ValueError: a row has the wrong number of headers or cells, or columns have different numbers of levels.
    """

    name: str
    title: str
    citation: str
    row_headers: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    rows: tuple[PaperRow, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if (len(row.headers), len(row.cells)) != (len(self.row_headers), len(self.columns)):
                raise ValueError(f"{self.name}: row {row.headers} does not fit the columns")
        if len({len(levels) for levels in self.columns}) > 1:
            raise ValueError(f"{self.name}: columns have different numbers of levels")

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of undefined metrics, without duplicates."""
        metrics = [cell.metric for row in self.rows for cell in row.cells]
        return tuple(dict.fromkeys(str(m.reason) for m in metrics if m is not None and m.value is None))


@dataclass(frozen=True)
class PaperFigure:
    """A figure in a paper's shape.

    Attributes:
        name: name of its files, such as figure_13; title, citation: as for tables.
        svg: the drawing, from `jobs.plots`.
        numbers: the table of the numbers that it draws.
        pictures: image_id and title of its subjects, which the page shows below the drawing.
    """

    name: str
    title: str
    citation: str
    svg: Drawing
    numbers: PaperTable
    pictures: tuple[tuple[str, str], ...] = ()


PaperPart = PaperTable | PaperFigure


def values(rows: Iterable[PaperRow]) -> list[list[float | None]]:
    """Return the report's numbers in each row; None: undefined."""
    return [[cell.metric.value if cell.metric else None for cell in row.cells] for row in rows]


def estimate(label: str, cell: PaperCell, series: str = "") -> Estimate:
    """Return a cell as a row of a plot, with its interval and the printed number."""
    metric, printed = cell.metric, cell.printed.value if cell.printed else None
    if metric is None:
        return Estimate(label, None, series=series, printed=printed)
    return Estimate(label, metric.value, metric.low, metric.high, series, printed)


def figure(
    numbers: PaperTable,
    panels: Sequence[tuple[str, Panel]],
    *,
    description: str,
    title: str = "",
    citation: str = "",
    columns: int = 1,
    shared_rows: bool = False,
    pictures: tuple[tuple[str, str], ...] = (),
) -> PaperFigure:
    """Return the figure of a table of numbers.

    Args:
        panels: title and plot, in reading order, in rows of `columns`; see `jobs.plots.figures.small_multiples`.
        description: for screen readers.
        title, citation: those of the numbers if empty.
    """
    title = title or numbers.title
    svg = small_multiples(panels, title=title, description=description, columns=columns, shared_rows=shared_rows)
    return PaperFigure(numbers.name, title, citation or numbers.citation, svg, numbers, pictures)


PAPER_FOLDER = "paper"
MEASURES = (
    "value", "low", "high", "n", "coverage", "printed", "printed_low", "printed_high", "status", "reason",
    "metric", "definition",
)  # fmt: skip


def write_parts(out: str, parts: Sequence[PaperPart]) -> None:
    """Write the files, and remove those of an earlier report that are not among them."""
    files: dict[str, bytes] = {}
    captions: dict[str, tuple[str, str]] = {}
    for part in parts:
        table = part.numbers if isinstance(part, PaperFigure) else part
        caption = f"{part.title} ({part.citation}). {' '.join(table.notes)}".strip()
        files[f"{part.name}.csv"] = table_csv(table)
        if isinstance(part, PaperFigure):
            files |= drawing_files(part.name, [part.svg], caption, numbers=False)
        captions[part.name] = (part.title, caption)
    files |= captions_file(captions)
    replace_files(locations.join(locations.absolute(out), PAPER_FOLDER), files)


def table_csv(table: PaperTable) -> bytes:
    """Return a table as CSV, one row per cell with a metric or a printed number, in units of the metric.

    The first columns are the table's row headers and `column`, whose levels are joined by " · ".
    """
    lines: list[Sequence[object]] = []
    for row in table.rows:
        for levels, cell in zip(table.columns, row.cells, strict=True):
            if cell.metric is None and cell.printed is None:
                continue
            metric, printed = cell.metric, cell.printed
            measures = [
                *((metric.value, metric.low, metric.high, metric.n, metric.coverage) if metric else [None] * 5),
                *((printed.value, printed.low, printed.high) if printed else [None] * 3),
                *((str(metric.status), metric.reason, metric.name, metric.definition) if metric else [None] * 4),
            ]
            lines.append((*row.headers, " · ".join(levels), *measures))
    return csv_file((*table.row_headers, "column", *MEASURES), lines)
