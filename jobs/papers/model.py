"""Tables and figures in a paper's shape, which the page renders and `jobs.papers.output` writes to files."""

from dataclasses import dataclass
from typing import Literal

from jobs.metrics.metric import Metric

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
    svg: str
    numbers: PaperTable
    pictures: tuple[tuple[str, str], ...] = ()


PaperPart = PaperTable | PaperFigure
