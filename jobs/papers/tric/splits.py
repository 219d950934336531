"""The contents of the splits: table I, section VI.B and figures 4 to 7."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from jobs.metrics.metric import Metric
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable, Unit
from jobs.papers.study import Study
from jobs.plots.figures import small_multiples
from jobs.plots.panels import Histogram

LABELS = {"year": "Year", "words": "Words per caption", "characters": "Characters per caption"}
STATISTICS = {"mean": "mean", "median": "median", "standard_deviation": "deviation", "minimum": "min", "maximum": "max"}
FIGURES = (  # name, split, columns
    ("figure_4", "testing", ("year",)),
    ("figure_5", "training", ("year",)),
    ("figure_6", "testing", ("words", "characters")),
    ("figure_7", "training", ("words", "characters")),
)


def _names(study: Study) -> list[str]:
    return study.computed.values("split", "instances")


def _metric(study: Study, name: str, **dims: str) -> Metric | None:
    return next((m for m in study.computed.find(name, **dims) if "bin" not in m.dims), None)


def table_1(study: Study) -> PaperTable:
    """Return the number of pictures of each split and union, and its share of all splits that were read."""
    columns: list[_OfSplit] = [
        _OfSplit(("Pictures",), "instances", "instances", "count"),
        _OfSplit(("Share",), "share", "share", "percent"),
    ]
    note = "Shares refer to the splits that were read; the paper's refer to all five."
    return _by_split(study, "table_1", "Pictures of the splits", citation="TRIC, table I", columns=columns, note=note)


def statistics(study: Study) -> PaperTable:
    """Return mean, median, deviation and range of year, words and characters, by split and union."""
    columns = [
        _OfSplit((label, header), statistic, f"{column} {statistic}",
                "count" if statistic in ("minimum", "maximum") else "number", {"column": column})
        for column, label in LABELS.items()
        for statistic, header in STATISTICS.items()
    ]  # fmt: skip
    note = (
        "n counts pictures for years, captions for words and characters. The paper counts dev-0 as testing data, "
        "but its years and their deviation are for test-A and test-B (the row tests)."
    )
    title = "Years, words and characters"
    return _by_split(study, "section_6", title, citation="TRIC, section VI.B", columns=columns, note=note)


class _OfSplit(NamedTuple):
    """A column of a table by split: its header, metric, printed column, unit, and the metric's other dims."""

    header: tuple[str, ...]
    metric: str
    printed: str
    unit: Unit
    dims: Mapping[str, str] = {}


def _by_split(
    study: Study, name: str, title: str, *, citation: str, columns: Sequence[_OfSplit], note: str
) -> PaperTable:
    """Return a table with a row per split that was read or is in the paper."""
    printed, names = study.printed(name), _names(study)
    rows = [
        PaperRow((split,), tuple(
            PaperCell(_metric(study, column.metric, split=split, **column.dims), printed.at(split, column.printed),
                      column.unit)
            for column in columns
        ))
        for split in [*names, *(row for row in printed.rows if row not in names)]
    ]  # fmt: skip
    headers = tuple(column.header for column in columns)
    return PaperTable(name, title, citation, ("Split",), headers, tuple(rows), (note,))


def figures(study: Study) -> Iterator[PaperFigure]:
    """Yield the histograms of the paper's unions or, without these splits, of each split that was read."""
    names = _names(study)
    wanted: list[tuple[str, str, tuple[str, ...]]] = [figure for figure in FIGURES if figure[1] in names]
    if not wanted:
        wanted = [(f"figure_{name}", name, ("year", "words", "characters")) for name in names]
    for name, split, columns in wanted:
        yield _figure(study, name, split, columns)


def _figure(study: Study, name: str, split: str, columns: tuple[str, ...]) -> PaperFigure:
    bins = {column: study.computed.find("histogram_count", split=split, column=column) for column in columns}
    panels = []
    for column, metrics in bins.items():
        edges = [int(m.dims["bin"]) for m in metrics]
        counts = [m.value or 0.0 for m in metrics]
        edges.append(edges[-1] + int(metrics[-1].dims["width"]))
        counted = "pictures" if column == "year" else "captions"
        panels.append((LABELS[column], Histogram(counts, edges, x_label=LABELS[column].lower(), y_label=counted)))
    number = name.removeprefix("figure_")
    rows = [
        PaperRow((LABELS[column], m.dims["bin"]), (PaperCell(m, unit="count"),))
        for column, metrics in bins.items()
        for m in metrics
    ]
    citation = f"TRIC, figure {number}" if number.isdigit() else "as TRIC, figures 4 to 7"
    title = f"Distribution of {' and '.join(LABELS[column].lower() for column in columns)}, {split}"
    numbers = PaperTable(name, title, citation, ("Column", "From"), (("Count",),), tuple(rows))
    return PaperFigure(
        name=name,
        title=title,
        citation=citation,
        svg=small_multiples(panels, title=title, description=f"Histograms of the split or union {split}."),
        numbers=numbers,
    )
