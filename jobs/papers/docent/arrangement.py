"""Descriptions, raters and measures after the DOCENT guidelines, which print no numbers.

Table `docent_scores` compares the models that wrote descriptions, `docent_spans` the marked spans of models with
people's, and `docent_measures` all ways to score a description with people's scores.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from jobs.metrics.kinds import KIND_OF, of_topic
from jobs.metrics.metric import Metric, Topic
from jobs.metrics.question import PEOPLE
from jobs.papers.model import PaperCell, PaperFigure, PaperPart, PaperRow, PaperTable, Unit
from jobs.papers.study import Study
from jobs.plots.figures import small_multiples
from jobs.plots.panels import Estimate, Intervals

CITATION = "after the DOCENT guidelines"
KINDS = {"mistake": "Mistakes", "omission": "Omissions"}
SCORES: Mapping[str, tuple[str, Unit]] = {  # metric -> header and unit
    name: (KIND_OF[name].label.capitalize(), "percent" if KIND_OF[name].unit.percent else "number")
    for name in of_topic(Topic.DESCRIPTIONS)
}
COMPARED = {"precision": "Precision", "coverage": "Coverage", "quality": "Quality"}
AGREEMENT = {"precision": "Precision", "recall": "Recall", "f1": "F1"}
UNITS = {"character": "Characters", "token": "Tokens", "span": "Spans"}
NO_PEOPLE = "no people marked spans"


class Scorer(NamedTuple):
    """A rater who scored descriptions: the dims of its metrics, and its label."""

    label: str
    dims: Mapping[str, str]


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables that the report's spans allow; nothing without spans."""
    scored = study.metrics.find("description_mistakes")
    if not scored:
        return
    scorers = _scorers(scored)
    writers = study.metrics.values("model", "description_mistakes")
    yield _score_table(study, scorers, writers)
    if writers:
        yield _score_figure(study, scorers, writers)
    if kinds := _kinds_table(study, scorers, writers):
        yield kinds
    yield _span_table(study)
    if measures := _measure_table(study):
        yield measures


def _scorers(metrics: Sequence[Metric]) -> list[Scorer]:
    """Return the scorers of descriptions in the order of the report: people, gold, then models."""
    scorers: dict[tuple[tuple[str, str], ...], Scorer] = {}
    for metric in metrics:
        dims = {name: value for name, value in metric.dims.items() if name not in ("model", "category")}
        scorers.setdefault(tuple(sorted(dims.items())), Scorer(_label(dims), dims))
    return list(scorers.values())


def _label(dims: Mapping[str, str]) -> str:
    words = [dims.get("group") or dims.get("rater", ""), dims.get("method", ""), dims.get("condition", "")]
    return ", ".join(filter(None, words))


def _score_table(study: Study, scorers: Sequence[Scorer], writers: Sequence[str]) -> PaperTable:
    rows = [
        PaperRow(
            (writer or "all", scorer.label),
            tuple(
                study.cell(
                    name,
                    {**scorer.dims, **({"model": writer} if writer else {})},
                    unit=unit,
                    reason=_not_marked(scorer, writer),
                )
                for name, (_, unit) in SCORES.items()
            ),
        )
        for writer in [*writers, ""]
        for scorer in scorers
    ]
    return PaperTable(
        "docent_scores",
        "Mistakes and omissions of the models that wrote descriptions",
        CITATION,
        ("Written by", "Marked by"),
        tuple((header,) for header, _ in SCORES.values()),
        tuple(rows),
        ("Numbers are per description. Intervals are over pictures.",),
    )


def _not_marked(scorer: Scorer, writer: str) -> str:
    return f"{scorer.label} marked no description by {writer or 'any model'}"


def _score_figure(study: Study, scorers: Sequence[Scorer], writers: Sequence[str]) -> PaperFigure:
    """Return precision and coverage of each writer, one mark per scorer."""
    names = ("description_precision", "description_coverage")
    cells = {
        (writer, scorer.label, name): study.cell(
            name, {**scorer.dims, "model": writer}, reason=_not_marked(scorer, writer)
        )
        for writer in writers
        for scorer in scorers
        for name in names
    }
    panels = [
        (
            SCORES[name][0],
            Intervals(
                [
                    _estimate(writer, scorer.label, cells[writer, scorer.label, name])
                    for writer in writers
                    for scorer in scorers
                ],
                percent=True,
            ),
        )
        for name in names
    ]
    title = "Precision and coverage of the models that wrote descriptions"
    description = f"One mark per model that marked spans, with its interval: {', '.join(s.label for s in scorers)}."
    rows = [
        PaperRow((writer, scorer.label), tuple(cells[writer, scorer.label, name] for name in names))
        for writer in writers
        for scorer in scorers
    ]
    headers = tuple((SCORES[name][0],) for name in names)
    numbers = PaperTable("docent_scores_figure", title, CITATION, ("Written by", "Marked by"), headers, tuple(rows))
    svg = small_multiples(panels, columns=2, title=title, description=description)
    return PaperFigure("docent_scores_figure", title, CITATION, svg, numbers)


def _estimate(writer: str, series: str, cell: PaperCell) -> Estimate:
    metric = cell.metric
    value, low, high = (metric.value, metric.low, metric.high) if metric else (None, None, None)
    return Estimate(writer, value, low=low, high=high, series=series)


def _kinds_table(study: Study, scorers: Sequence[Scorer], writers: Sequence[str]) -> PaperTable | None:
    """Return the numbers of each kind of mistake per description; None if all mistakes are of one kind."""
    categories = study.metrics.values("category", "description_mistakes")
    if not categories:
        return None
    rows = [
        PaperRow(
            (writer or "all", scorer.label),
            tuple(
                study.cell(
                    "description_mistakes",
                    {**scorer.dims, "category": category, **({"model": writer} if writer else {})},
                    unit="number",
                    reason="this rater marks no kinds of mistakes",
                )
                for category in categories
            ),
        )
        for writer in [*writers, ""]
        for scorer in scorers
    ]
    columns = tuple((category.replace("_", " "),) for category in categories)
    title = "Kinds of mistakes per description"
    return PaperTable("docent_kinds", title, CITATION, ("Written by", "Marked by"), columns, tuple(rows))


def _span_table(study: Study) -> PaperTable:
    """Return the comparison of each rater's spans with people's, and of people's spans with each other."""
    raters: dict[tuple[tuple[str, str], ...], Scorer] = {}
    for metric in study.metrics.find("span_f1", against=PEOPLE):
        dims = {name: value for name, value in metric.dims.items() if name in ("rater", "method", "condition")}
        raters.setdefault(tuple(sorted(dims.items())), Scorer(_label(dims), dims))
    overlap = {"overlap": f"{study.metric_settings.overlap:g}"}
    rows = []
    for kind, header in KINDS.items():
        for scorer in sorted(raters.values(), key=lambda rater: rater.dims.get("rater") != PEOPLE):
            shared = {**scorer.dims, "kind": kind, "against": PEOPLE}
            cells = [
                study.cell(
                    f"span_{name}",
                    {**shared, "unit": unit, **(overlap if unit == "span" else {})},
                    reason=f"no text in which {scorer.label} and people could mark {header.lower()}",
                )
                for unit in UNITS
                for name in AGREEMENT
            ]
            reason = "only claims have probabilities"
            cells.append(study.cell("span_auc", shared, unit="number", reason=reason))
            rows.append(PaperRow((header, scorer.label), tuple(cells)))
    columns = [(unit, name) for unit in UNITS.values() for name in AGREEMENT.values()]
    note = f"Spans match where intersection / union is at least {study.metric_settings.overlap:g}."
    return PaperTable(
        "docent_spans",
        "Marked spans against people's",
        CITATION,
        ("Kind", "Marked by"),
        (*columns, ("Probabilities", "AUC")),
        tuple(rows),
        (note,) if rows else (f"No comparison: {NO_PEOPLE}, or only people did.",),
    )


def _measure_table(study: Study) -> PaperTable | None:
    """Return the correlations of scores with people's scores; None if nothing is compared with people."""
    scorers: dict[tuple[tuple[str, str], ...], Scorer] = {}
    for metric in study.metrics.find("description_pearson"):
        dims = {name: value for name, value in metric.dims.items() if name != "score"}
        scorers.setdefault(tuple(sorted(dims.items())), Scorer(_label(dims), dims))
    if not scorers:
        return None
    names = {"pearson": "Pearson", "spearman": "Spearman"}
    rows = [
        PaperRow(
            (scorer.label,),
            tuple(
                study.cell(
                    f"description_{name}",
                    {**scorer.dims, "score": score},
                    unit="number",
                    reason=f"{scorer.label} and people marked no common description",
                )
                for score in COMPARED
                for name in names
            ),
        )
        for scorer in scorers.values()
    ]
    columns = tuple((header, name) for header in COMPARED.values() for name in names.values())
    title = "Scores of descriptions and people's scores: correlation over descriptions"
    note = "Quality is the mean of precision and coverage. Intervals are over pictures."
    return PaperTable("docent_measures", title, CITATION, ("Scored by",), columns, tuple(rows), (note,))
