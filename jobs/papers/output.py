"""Writing a paper's tables and figures next to the report: OUT/paper/NAME.csv and NAME.svg."""

import csv
import io
from collections.abc import Sequence

from jobs.corpora.cell_texts import escape_data_cell
from jobs.html.formats import writable
from jobs.papers.model import PaperFigure, PaperPart, PaperTable
from jobs.plots.svg import standalone
from jobs.store.files import locations

FOLDER = "paper"
MEASURES = (
    "value", "low", "high", "n", "coverage", "printed", "printed_low", "printed_high", "status", "reason",
    "metric", "definition",
)  # fmt: skip


def write_parts(out: str, parts: Sequence[PaperPart]) -> None:
    """Write the files, and remove files of an earlier report that are not among them."""
    folder = locations.join(locations.absolute(out), FOLDER)
    files: dict[str, bytes] = {}
    for part in parts:
        table = part.numbers if isinstance(part, PaperFigure) else part
        files[f"{part.name}.csv"] = as_csv(table).encode()
        if isinstance(part, PaperFigure):
            files[f"{part.name}.svg"] = writable(standalone(part.svg)).encode()
    for name, data in files.items():
        locations.replace(locations.join(folder, name), data)
    earlier = (file.uri for file in locations.listing(folder))
    locations.remove([uri for uri in earlier if uri.rsplit("/", 1)[-1] not in files and uri.endswith((".csv", ".svg"))])


def as_csv(table: PaperTable) -> str:
    """Return a table as CSV, one row per cell with a metric or a printed number, in units of the metric.

    The first columns are the table's row headers and `column`, whose levels are joined by " · ".
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([escape_data_cell(cell) for cell in (*table.row_headers, "column", *MEASURES)])
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
            writer.writerow([escape_data_cell(cell) for cell in (*row.headers, " · ".join(levels), *measures)])
    return out.getvalue()
