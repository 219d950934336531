"""A study with metrics, printed numbers, raters and items by hand, for tests of one arrangement."""

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MetricSettings
from jobs.papers.paper_tables import PaperCell, PaperTable
from jobs.papers.study import MetricIndex, PaperSettings, PrintedTable, Study

Shown = tuple[float | None, float | None]  # the report's number and the printed one
NONE = (None, None)  # neither number


def metric(name: str, value: float | None, **dims: str) -> Metric:
    status = "missing_input" if value is None else "ok"
    return Metric(
        name=name, definition="n counts items", value=value, n=9, reason="few", status=status, coverage=1.0, dims=dims
    )


def one_rating_each(raters: Sequence[str]) -> RatingTable:
    """Return the answers to a question about one item that all raters rated."""
    return RatingTable.from_matrix(np.ones((1, len(raters))), raters=raters)


def study(
    metrics: Sequence[Metric] = (),
    *,
    computed: Sequence[Metric] = (),
    printed: Mapping[str, PrintedTable] | None = None,
    kinds: Mapping[str, str] | None = None,
    answered: Mapping[tuple[str, str], Sequence[str]] | None = None,
    items: Any = None,
    ensembles: Mapping[str, Any] | None = None,
    tables: Any = None,
    **settings: Any,
) -> Study:
    """Return a study.

    Args:
        kinds: rater -> its kind.
        answered: (rubric, question) -> its raters.
        settings: keys of `paper`.
    """
    of_question: dict[Any, dict[str, Any]] = {
        key: {name: {} for name in raters} for key, raters in (answered or {}).items()
    }
    unused: Any = None
    reduction: Any = SimpleNamespace(
        keys=list(of_question), methods_of=lambda key: of_question[key], by=(),
        question=lambda key, shared: SimpleNamespace(answers=one_rating_each([*of_question[key]]), item=None),
    )  # fmt: skip
    summary: Any = SimpleNamespace(raters=SimpleNamespace(kinds=kinds or {}))
    items, tables = items or SimpleNamespace(lengths=None), tables or SimpleNamespace(questions=None)
    return Study(
        PaperSettings(printed=dict(printed or {}), show_printed=True, **settings),
        MetricSettings(ensembles=dict(ensembles or {})),
        MetricIndex(metrics),
        tables=tables,
        summary=summary,
        items=items,
        reduction=reduction,
        rubrics=unused,
        exclusion_filter=unused,
        computed=MetricIndex(computed),
    )


def shown(cell: PaperCell) -> Shown:
    """Return the report's number and the printed one of a cell."""
    return cell.metric.value if cell.metric else None, cell.printed.value if cell.printed else None


def units_of(table: PaperTable) -> list[str]:
    """Return the unit of the cells in each column, or several units; without empty cells."""
    columns = zip(*(row.cells for row in table.rows), strict=True)
    return ["/".join(sorted({cell.unit for cell in cells if cell.metric or cell.printed})) for cells in columns]


def rows_of(table: PaperTable) -> dict[tuple[str, ...], list[Shown]]:
    """Return the headers of each row -> its numbers, in the order of the table."""
    rows = {row.headers: [shown(cell) for cell in row.cells] for row in table.rows}
    assert len(rows) == len(table.rows)
    return rows
