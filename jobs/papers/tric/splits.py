"""What the splits consist of: table I, section VI.B and figures 4 to 7."""

from collections.abc import Iterator

from jobs.metrics.metric import Metric
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable
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
    printed = study.printed("table_1")
    names = _names(study)
    rows = [
        PaperRow((name,), (
            PaperCell(_metric(study, "instances", split=name), printed.at(name, "instances"), "count"),
            PaperCell(_metric(study, "share", split=name), printed.at(name, "share")),
        ))
        for name in [*names, *(row for row in printed.rows if row not in names)]
    ]  # fmt: skip
    return PaperTable(
        name="table_1",
        title="Pictures of the splits",
        citation="TRIC, table I",
        row_headers=("Split",),
        columns=(("Pictures",), ("Share",)),
        rows=tuple(rows),
        notes=("Shares are of the splits that were read; the paper's of all five.",),
    )


def statistics(study: Study) -> PaperTable:
    """Return mean, median, deviation and range of year, words and characters, by split and union."""
    printed = study.printed("section_6")
    columns = [(column, statistic) for column in LABELS for statistic in STATISTICS]
    names = _names(study)
    rows = [
        PaperRow((name,), tuple(
            PaperCell(
                _metric(study, statistic, split=name, column=column),
                printed.at(name, f"{column} {statistic}"),
                "count" if statistic in ("minimum", "maximum") else "number",
            )
            for column, statistic in columns
        ))
        for name in [*names, *(row for row in printed.rows if row not in names)]
    ]  # fmt: skip
    return PaperTable(
        name="section_6",
        title="Years, words and characters",
        citation="TRIC, section VI.B",
        row_headers=("Split",),
        columns=tuple((LABELS[column], STATISTICS[statistic]) for column, statistic in columns),
        rows=tuple(rows),
        notes=(
            "n counts pictures for years, captions for words and characters. The paper counts dev-0 as testing data, "
            "but its years and their deviation are those of test-A and test-B (the row tests).",
        ),
    )


def figures(study: Study) -> Iterator[PaperFigure]:
    """Yield the histograms of the paper's unions; without these splits, those of each split that was read."""
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
        what = "pictures" if column == "year" else "captions"
        panels.append((LABELS[column], Histogram(counts, edges, x_label=LABELS[column].lower(), y_label=what)))
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
