"""The models that drew the pictures: scores with intervals, and strength in comparisons."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jobs.metrics.metric import Metric
from jobs.metrics.question import PEOPLE
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable
from jobs.papers.rome.scenarios import COMPARISON, PEOPLE_LABEL, RATING, SCORES, dims_of
from jobs.papers.study import Study
from jobs.plots.figures import plot, small_multiples
from jobs.plots.panels import Estimate, Intervals, Panel

CITATION = "not in the paper, where one model drew all pictures"
MEASURES = {RATING: "Mean rating", SCORES: "Mean score by questions"}
ROW_HEADERS = ("Drawing model",)


class _OfRater(NamedTuple):
    """The scores of all drawing models by one rater: the measure and the rater."""

    role: str
    rater: str
    label: str


def scores(study: Study) -> Iterator[PaperFigure]:
    """Yield the mean rating and the mean score by questions of each drawing model, if there are several."""
    attribute = study.metric_settings.competitors
    models = list(dict.fromkeys(
        model
        for role in MEASURES
        for model in study.metrics.values("part", "group_mean_score", attribute=attribute, **dims_of(study, role))
    ))  # fmt: skip
    if len(models) < 2:
        return
    columns = [
        _OfRater(role, rater, label)
        for role in MEASURES
        for rater, label in ((PEOPLE, PEOPLE_LABEL), *((name, name) for name in study.raters(study.rubric(role))))
        if study.metrics.find("group_mean_score", attribute=attribute, group=rater, **dims_of(study, role))
    ]
    rows = []
    for model in models:
        part = {"attribute": attribute, "part": model}
        cells = [
            study.cell("group_mean_score", dims_of(study, c.role) | part | {"group": c.rater}, unit="number",
                       reason=f"no picture of {model} was rated")
            for c in columns
        ]  # fmt: skip
        rows.append(PaperRow((model,), tuple(cells)))
    title = "Scores of the models that drew the pictures"
    yield PaperFigure(
        name="image_models",
        title=title,
        citation=CITATION,
        svg=small_multiples(_panels(columns, rows), title=title, columns=1,
                            description="One row per drawing model, one colour per rater."),
        numbers=PaperTable(
            name="image_models",
            title=title,
            citation="",
            row_headers=ROW_HEADERS,
            columns=tuple((MEASURES[c.role], c.label) for c in columns),
            rows=tuple(rows),
            notes=("Intervals are over pictures; n counts pictures.",),
        ),
    )  # fmt: skip


def _panels(columns: Sequence[_OfRater], rows: Sequence[PaperRow]) -> list[tuple[str, Panel]]:
    """Return a plot per measure."""
    panels: list[tuple[str, Panel]] = []
    for role, measure in MEASURES.items():
        estimates = [
            _estimate(row.headers[0], cell.metric, column.label)
            for row in rows
            for column, cell in zip(columns, row.cells, strict=True)
            if column.role == role
        ]
        if estimates:
            panels.append((measure, Intervals(estimates)))
    return panels


def _estimate(label: str, metric: Metric | None, series: str) -> Estimate:
    if metric is None:
        return Estimate(label, None, series=series)
    return Estimate(label, metric.value, metric.low, metric.high, series=series)


def competitors(study: Study) -> Iterator[PaperFigure]:
    """Yield the Bradley-Terry strengths of the models that drew the pictures, if there are several."""
    dims = dims_of(study, COMPARISON)
    raters = study.metrics.values("rater", "bradley_terry", **dims)
    if not raters:
        return
    rows, estimates = [], []
    for name in study.metrics.values("competitor", "bradley_terry", **dims):
        cells: list[PaperCell] = []
        for rater in raters:
            row_dims = dims | {"rater": rater, "competitor": name}
            reason = f"{rater} compared no picture of {name}"
            cells.append(study.cell("bradley_terry", row_dims, unit="number", reason=reason))
            cells.append(study.cell("win_rate", row_dims, reason=reason))
            estimates.append(_estimate(name, study.metrics.get("bradley_terry", row_dims), rater))
        rows.append(PaperRow((name,), tuple(cells)))
    title = "Strength of the models that drew the pictures"
    yield PaperFigure(
        name="bradley_terry",
        title=title,
        citation=CITATION,
        svg=plot(Intervals(estimates, "Bradley-Terry strength (log-odds)", reference=0.0), title=title,
                 description="One row per drawing model, one colour per rater."),
        numbers=PaperTable(
            name="bradley_terry",
            title=title,
            citation="",
            row_headers=ROW_HEADERS,
            columns=tuple((rater, measure) for rater in raters for measure in ("strength", "win rate")),
            rows=tuple(rows),
        ),
    )  # fmt: skip
