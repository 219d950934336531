"""The tables and figures of TRIC (Pokrywka et al., 2023), from metrics of tric statistics, tric rank and tric rerank.

Of the splits, table I, section VI.B and figures 4 to 7; of rankings, table II, and the judge's, which is ours.
"""

from collections.abc import Iterator

from jobs.analysis.metrics_output import TABLE
from jobs.metrics.metric import Metric
from jobs.papers.paper_tables import PaperCell, PaperFigure, PaperPart, PaperRow, PaperTable, figure
from jobs.papers.study import ColumnSpec, Study
from jobs.plots.panels import Histogram

LABELS = {"year": "Year", "words": "Words per caption", "characters": "Characters per caption"}
STATISTICS = {"mean": "mean", "median": "median", "standard_deviation": "deviation", "minimum": "min", "maximum": "max"}
FIGURES = (  # name, split, columns
    ("figure_4", "testing", ("year",)),
    ("figure_5", "training", ("year",)),
    ("figure_6", "testing", ("words", "characters")),
    ("figure_7", "training", ("words", "characters")),
)
WORDINGS = {"none": "no date", "year": "year", "decade": "decade", "day": "day"}


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables and figures that the computed metrics allow, in the order of the paper."""
    if study.computed.find("instances"):
        yield table_1(study)
        yield statistics(study)
        yield from figures(study)
    if study.computed.find("mrr@100", ranking="encoder") or study.computed.find("mrr"):
        yield table_2(study)
    if study.computed.find("mrr@100", ranking="encoder"):
        yield reranking(study)


def _splits(study: Study) -> list[str]:
    return study.computed.values("split", "instances")


def table_1(study: Study) -> PaperTable:
    """Return the number of pictures of each split and union, and its share of all splits that were read."""
    columns = [
        ColumnSpec(("Pictures",), "instances", printed="instances", unit="count"),
        ColumnSpec(("Share",), "share", printed="share"),
    ]
    note = "Shares refer to the splits that were read; the paper's refer to all five."
    return _by_split(study, "table_1", "Pictures of the splits", citation="TRIC, table I", columns=columns, note=note)


def statistics(study: Study) -> PaperTable:
    """Return mean, median, deviation and range of year, words and characters, by split and union."""
    columns = [
        ColumnSpec((label, header), statistic, {"column": column}, f"{column} {statistic}",
                   "count" if statistic in ("minimum", "maximum") else "number")
        for column, label in LABELS.items()
        for statistic, header in STATISTICS.items()
    ]  # fmt: skip
    note = (
        "n counts pictures for years, captions for words and characters. The paper counts dev-0 as testing data, "
        "but its years and their deviation are for test-A and test-B (the row tests)."
    )
    title = "Years, words and characters"
    return _by_split(study, "section_6", title, citation="TRIC, section VI.B", columns=columns, note=note)


def _by_split(
    study: Study, name: str, title: str, *, citation: str, columns: list[ColumnSpec], note: str
) -> PaperTable:
    """Return a table with a row per split that was read or is in the paper."""
    printed, names = study.printed(name), _splits(study)
    rows = [
        PaperRow((split,), tuple(
            PaperCell(_one(study, column.metric or "", split=split, **column.dims), printed.at(split, column.printed),
                      column.unit)
            for column in columns
        ))
        for split in [*names, *(row for row in printed.rows if row not in names)]
    ]  # fmt: skip
    headers = tuple(column.headers for column in columns)
    return PaperTable(name, title, citation, ("Split",), headers, tuple(rows), (note,))


def _one(study: Study, name: str, **dims: str) -> Metric | None:
    """Return a computed metric of the whole, not of a bin or decade; None without one."""
    return next((m for m in study.computed.find(name, **dims) if not {"bin", "decade"} & m.dims.keys()), None)


def figures(study: Study) -> Iterator[PaperFigure]:
    """Yield the histograms of the paper's unions or, without these splits, of each split that was read."""
    names = _splits(study)
    wanted: list[tuple[str, str, tuple[str, ...]]] = [entry for entry in FIGURES if entry[1] in names]
    if not wanted:
        wanted = [(f"figure_{name}", name, tuple(LABELS)) for name in names]
    for name, split, columns in wanted:
        yield _histograms(study, name, split, columns)


def _histograms(study: Study, name: str, split: str, columns: tuple[str, ...]) -> PaperFigure:
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
    return figure(numbers, panels, description=f"Histograms of the split or union {split}.", columns=2)


def table_2(study: Study) -> PaperTable:
    """Return the MRR by encoder and wording of the date, next to the paper's MRR on test-A and test-B."""
    printed = study.printed("table_2")
    rows, used = [], set()

    def add(headers: tuple[str, str], mrr: Metric | None, change: Metric | None, in_paper: str) -> None:
        numbers = [printed.at(in_paper, split) for split in ("test-A", "test-B")]
        cells = (PaperCell(mrr), PaperCell(change), *(PaperCell(printed=number) for number in numbers))
        rows.append(PaperRow(headers, tuple(PaperCell(cell.metric, cell.printed, "number") for cell in cells)))

    for metric in study.computed.find("mrr"):
        if "template" not in metric.dims or "decade" in metric.dims:
            continue
        encoder, template = metric.dims[TABLE], metric.dims["template"]
        name = study.name_in_paper(encoder) or encoder
        used.add(name)
        change = _one(study, "mrr_change", **{TABLE: encoder, "second": template})
        add((encoder, WORDINGS.get(template, template)), metric, change, name if template == "none" else "")
    if random := study.computed.find("random_mrr"):
        used.add("random baseline")
        add(("random order", ""), random[0], None, "random baseline")
    for name in printed.rows:
        if name not in used:
            add((name, ""), None, None, name)
    return PaperTable(
        name="table_2",
        title="Mean reciprocal rank of encoders",
        citation="TRIC, table II",
        row_headers=("Encoder", "Date in the caption"),
        columns=(("This split", "MRR"), ("This split", "change from no date"), ("test-A", "MRR"), ("test-B", "MRR")),
        rows=tuple(rows),
        notes=(
            "n counts ranked pictures. Pictures without a vector, such as unreadable ones, are left out (coverage); "
            "for them, out.tsv has the captions in the order of the file, which the challenge counts.",
            "The paper's numbers are for other splits; its encoders see no date.",
        ),
    )


def reranking(study: Study) -> PaperTable:
    """Return the MRR cut at 100 of the encoder's ranking and of each judge's, by wording of the date."""
    rows = [
        PaperRow(("encoder", "", ""), (PaperCell(metric, unit="number"), PaperCell(), PaperCell()))
        for metric in study.computed.find("mrr@100", ranking="encoder")
        if "decade" not in metric.dims
    ]
    for metric in study.computed.find("mrr@100", ranking="judge"):
        if "decade" in metric.dims:
            continue
        rater, condition, table = metric.dims["rater"], metric.dims["condition"], metric.dims[TABLE]
        at = {TABLE: table, "rater": rater, "second": condition}
        changes = (_one(study, "mrr_change@100", first=first, **at) for first in ("encoder", "none"))
        cells = (PaperCell(metric, unit="number"), *(PaperCell(change, unit="number") for change in changes))
        rows.append(PaperRow((table, rater, WORDINGS.get(condition, condition)), cells))
    return PaperTable(
        name="reranking",
        title="Mean reciprocal rank, cut at 100, before and after re-ranking by a judge",
        citation="not in the paper",
        row_headers=("Ranking", "Judge", "Date in the prompt"),
        columns=(("MRR",), ("change from the encoder",), ("change from no date",)),
        rows=tuple(rows),
        notes=("Changes are paired by picture; n counts pictures.",),
    )
