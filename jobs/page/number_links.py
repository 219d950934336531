"""Links from the numbers of a table of metrics to the cards that they rest on, with as few links as possible."""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from jobs.page.card_links import cards_of
from jobs.page.metric_families import MetricTable


@dataclass(frozen=True)
class NumberLinks:
    """The links of a table of metrics: anchors of cards.

    Attributes:
        rows: number of a row, from 0 -> the anchor that all its numbers share.
        columns: number of a column -> the anchor that all its numbers share, if those of its rows differ.
        cells: (row, column) -> the anchor of a single number, if neither its row nor its column shares one.
    """

    rows: Mapping[int, str]
    columns: Mapping[int, str]
    cells: Mapping[tuple[int, int], str]


def number_links(table: MetricTable, places: Container[str]) -> NumberLinks:
    """Return the links of a table.

    Args:
        places: anchors of the cards on the page.
    """
    anchors = {
        (row, column): name if (name := cards_of(metric)) in places else ""
        for row, (_, line) in enumerate(table.rows)
        for column, metric in enumerate(line)
        if metric
    }
    rows = _common({cell: (cell[0], name) for cell, name in anchors.items()})
    columns = _common({cell: (cell[1], name) for cell, name in anchors.items() if cell[0] not in rows})
    cells = {cell: name for cell, name in anchors.items() if name and cell[0] not in rows and cell[1] not in columns}
    return NumberLinks(rows, columns, cells)


def _common(anchors: Mapping[tuple[int, int], tuple[int, str]]) -> dict[int, str]:
    """Return the anchor that all cells of a row or column share, by its number."""
    of_line: dict[int, set[str]] = {}
    for number, name in anchors.values():
        of_line.setdefault(number, set()).add(name)
    return {number: name for number, names in of_line.items() if len(names) == 1 for name in names if name}
