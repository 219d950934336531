"""Descriptions, raters and measures after the DOCENT guidelines, which print no numbers.

Table `docent_scores` compares the models that wrote descriptions, `docent_spans` the marked spans of models with
people's, and `docent_measures` all ways to score a description with people's scores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from jobs.metrics.description_scores import ESTIMATED
from jobs.metrics.kinds import KIND_OF, of_topic
from jobs.metrics.metric import Metric, Topic
from jobs.metrics.rated_question import PEOPLE
from jobs.metrics.rating_plans import BOTH, PEOPLE_ALONE
from jobs.papers.paper_tables import PaperFigure, PaperPart, PaperTable, estimate, figure
from jobs.papers.study import ColumnSpec, RowSpec, Study
from jobs.plots.panels import Intervals

CITATION = "after the DOCENT guidelines"
KINDS = {"mistake": "Mistakes", "omission": "Omissions"}
SCORES = [
    ColumnSpec((KIND_OF[name].label.capitalize(),), name, unit="percent" if KIND_OF[name].unit.percent else "number")
    for name in of_topic(Topic.DESCRIPTIONS)
]
DRAWN = ("description_precision", "description_coverage")
COMPARED = {"precision": "Precision", "coverage": "Coverage", "quality": "Quality"}
AGREEMENT = {"precision": "Precision", "recall": "Recall", "f1": "F1"}
UNITS = {"character": "Characters", "token": "Tokens", "span": "Spans"}
WRITTEN_AND_MARKED = ("Written by", "Marked by")


class Scorer(NamedTuple):
    """A rater who scored descriptions: its label, and the dims of its metrics."""

    label: str
    dims: Mapping[str, str]


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables that the report's spans allow; nothing without spans."""
    scored = study.metrics.find("description_mistakes")
    if not scored:
        return
    scorers = _scorers(scored, without=("model", "category"))
    writers = study.metrics.values("model", "description_mistakes")
    yield _score_table(study, scorers, writers)
    if study.metrics.find(ESTIMATED.name, source=BOTH, score="mistakes"):
        yield _estimate_table(study, [*writers, ""])
    if writers:
        yield _score_figure(study, scorers, writers)
    if categories := study.metrics.values("category", "description_mistakes"):
        yield _kinds_table(study, scorers, writers, categories)
    yield _span_table(study)
    if compared := study.metrics.find("description_pearson"):
        yield _measure_table(study, _scorers(compared, without=("score",)))


def _scorers(metrics: Iterable[Metric], *, without: Sequence[str]) -> list[Scorer]:
    """Return the scorers of metrics in the order of the report: people, gold, then models."""
    scorers: dict[tuple[tuple[str, str], ...], Scorer] = {}
    for metric in metrics:
        dims = {name: value for name, value in metric.dims.items() if name not in without}
        words = [dims.get("group") or dims.get("rater", ""), dims.get("method", ""), dims.get("condition", "")]
        scorers.setdefault(tuple(sorted(dims.items())), Scorer(", ".join(filter(None, words)), dims))
    return list(scorers.values())


def _rows(writers: Iterable[str], scorers: Sequence[Scorer]) -> list[RowSpec]:
    """Return a row per writer and scorer; an empty writer stands for all."""
    return [
        RowSpec((writer or "all", scorer.label), {**scorer.dims, **({"model": writer} if writer else {})})
        for writer in writers
        for scorer in scorers
    ]


def _score_table(study: Study, scorers: Sequence[Scorer], writers: Sequence[str]) -> PaperTable:
    return study.table(
        "docent_scores",
        "Mistakes and omissions of the models that wrote descriptions",
        CITATION,
        row_headers=WRITTEN_AND_MARKED,
        rows=_rows([*writers, ""], scorers),
        columns=SCORES,
        reason=_not_marked,
        notes=("Numbers are per description. Intervals are over pictures.",),
    )


def _estimate_table(study: Study, writers: Sequence[str]) -> PaperTable:
    """Return people's scores of all descriptions, estimated from those that they marked."""
    return study.table(
        "docent_estimates",
        "People’s scores of all descriptions, estimated from those that they marked",
        "prediction-powered inference (docs/estimates.md)",
        row_headers=("Written by", "From"),
        rows=[
            RowSpec((writer or "all", source), {"source": source, **({"model": writer} if writer else {})})
            for writer in writers
            for source in (BOTH, PEOPLE_ALONE)
        ],
        columns=[
            replace(column, metric=ESTIMATED.name, dims={"score": str(column.metric).removeprefix("description_")})
            for column in SCORES
        ],
        reason=lambda *_: "people marked no description of this model",
        notes=("n counts descriptions that people marked.",),
    )


def _not_marked(row: RowSpec, _: ColumnSpec) -> str:
    return f"{row.headers[1]} marked no description by {row.dims.get('model', 'any model')}"


def _score_figure(study: Study, scorers: Sequence[Scorer], writers: Sequence[str]) -> PaperFigure:
    """Return precision and coverage of each writer, one mark per scorer."""
    numbers = study.table(
        "docent_scores_figure",
        "Precision and coverage of the models that wrote descriptions",
        CITATION,
        row_headers=WRITTEN_AND_MARKED,
        rows=_rows(writers, scorers),
        columns=[column for name in DRAWN for column in SCORES if column.metric == name],
        reason=_not_marked,
    )
    panels = [
        (header, Intervals([estimate(row.headers[0], row.cells[place], row.headers[1]) for row in numbers.rows],
                           percent=True))
        for place, (header,) in enumerate(numbers.columns)
    ]  # fmt: skip
    text = f"One mark per model that marked spans, with its interval: {', '.join(s.label for s in scorers)}."
    return figure(numbers, panels, columns=2, description=text)


def _kinds_table(
    study: Study, scorers: Sequence[Scorer], writers: Sequence[str], categories: Sequence[str]
) -> PaperTable:
    """Return the numbers of each kind of mistake per description."""
    return study.table(
        "docent_kinds",
        "Kinds of mistakes per description",
        CITATION,
        row_headers=WRITTEN_AND_MARKED,
        rows=_rows([*writers, ""], scorers),
        columns=[
            ColumnSpec((kind.replace("_", " "),), "description_mistakes", {"category": kind}, unit="number")
            for kind in categories
        ],
        reason=lambda *_: "this rater marks no kinds of mistakes",
    )


def _span_table(study: Study) -> PaperTable:
    """Return the comparison of each rater's spans with people's, and of people's spans with each other."""
    compared = study.metrics.find("span_f1", against=PEOPLE)
    scorers = _scorers(compared, without=("kind", "against", "unit", "overlap"))
    scorers.sort(key=lambda scorer: scorer.dims.get("rater") != PEOPLE)
    overlap = f"{study.metric_settings.overlap:g}"
    rows = [
        RowSpec((header, scorer.label), {**scorer.dims, "kind": kind, "against": PEOPLE})
        for kind, header in KINDS.items()
        for scorer in scorers
    ]
    columns = [
        ColumnSpec((header, words), f"span_{name}", {"unit": unit, **({"overlap": overlap} if unit == "span" else {})})
        for unit, header in UNITS.items()
        for name, words in AGREEMENT.items()
    ]

    def reason(row: RowSpec, column: ColumnSpec) -> str:
        if column.metric == "span_auc":
            return "only claims have probabilities"
        return f"no text in which {row.headers[1]} and people could mark {row.headers[0].lower()}"

    note = f"Spans match where intersection / union is at least {overlap}."
    return study.table(
        "docent_spans",
        "Marked spans against people's",
        CITATION,
        row_headers=("Kind", "Marked by"),
        rows=rows,
        columns=[*columns, ColumnSpec(("Probabilities", "AUC"), "span_auc", unit="number")],
        reason=reason,
        notes=(note if rows else "No comparison: no people marked spans, or only people did.",),
    )


def _measure_table(study: Study, scorers: Sequence[Scorer]) -> PaperTable:
    """Return the correlations of scores with people's scores."""
    return study.table(
        "docent_measures",
        "Scores of descriptions and people's scores: correlation over descriptions",
        CITATION,
        row_headers=("Scored by",),
        rows=[RowSpec((scorer.label,), scorer.dims) for scorer in scorers],
        columns=[
            ColumnSpec((header, name.capitalize()), f"description_{name}", {"score": score}, unit="number")
            for score, header in COMPARED.items()
            for name in ("pearson", "spearman")
        ],
        reason=lambda row, _: f"{row.headers[0]} and people marked no common description",
        notes=("Quality is the mean of precision and coverage. Intervals are over pictures.",),
    )
