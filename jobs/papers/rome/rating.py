"""Tables 1, 3 and 4 and figure 3: the rating of pictures by people and models."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from jobs.analysis.attributes import HUMAN
from jobs.metrics.agreement import LEVELS, krippendorff_alpha
from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric
from jobs.metrics.question import MODELS, PEOPLE, SINGLE_RATINGS
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable, Printed
from jobs.papers.rome.scenarios import (
    COMPARISON,
    PEOPLE_LABEL,
    RATING,
    columns,
    dims_of,
    of_paper,
    rated,
    scenario_attribute,
    scenario_pairs,
)
from jobs.papers.study import Study
from jobs.plots.figures import plot
from jobs.plots.panels import Estimate, Intervals, StackedBars

ACCOUNTS = {  # header -> metric
    "Total assessments": "ratings_total",
    "Multiple annotations": "ratings_double",
    "Excluded": "ratings_excluded",
    "After exclusions": "ratings_left",
}
OF_PAIRS = "pairs_double"  # of comparisons, whose pairs have an item for each order
PER_PERSON = {"mean": "ratings_per_person", "SD": "ratings_per_person_sd"}
NO_PEOPLE = "no ratings of people"
SCENARIO_LABELS = {COMPARISON: "Image comparison (IC)", RATING: "Image rating (IR)"}


def table_1(study: Study) -> PaperTable:
    """Return the numbers of people's answers in both tasks."""
    printed, rows = study.printed("table_1"), []
    for role, label in SCENARIO_LABELS.items():
        dims = dims_of(study, role)
        by_pair = study.metrics.find(OF_PAIRS, group=PEOPLE, **dims)
        accounts = ACCOUNTS | ({"Multiple annotations": OF_PAIRS} if by_pair else {})
        cells = [
            study.cell(
                name, dims | {"group": PEOPLE}, unit="count", printed=printed.at(label, header), reason=NO_PEOPLE
            )
            for header, name in accounts.items()
        ]
        cells += [
            study.cell(name, dims, unit="number", printed=printed.at(label, f"per person, {header}"), reason=NO_PEOPLE)
            for header, name in PER_PERSON.items()
        ]
        rows.append(PaperRow((label,), tuple(cells)))
    return PaperTable(
        name="table_1",
        title="Assessments by people",
        citation="Rome, table 1 and section 4.1.2",
        row_headers=("Evaluation scenario",),
        columns=(*((header, "") for header in ACCOUNTS), *(("Per person", header) for header in PER_PERSON)),
        rows=tuple(rows),
    )


def figure_3(study: Study) -> Iterator[PaperFigure]:
    """Yield the distribution of the scores of people and models, and the models' deviations from people."""
    yield _distributions(study)
    models = study.raters(study.rubric(RATING))
    if any(study.metrics.find("deviation_share", **dims_of(study, RATING), rater=model) for model in models):
        yield _deviations(study, models)


def _distributions(study: Study) -> PaperFigure:
    dims = dims_of(study, RATING)
    answers = study.metrics.values("answer", "share", **dims)
    rows: list[PaperRow] = []
    if study.raters(dims["rubric"], kinds=(HUMAN,)):
        counts = _people_shares(study)
        rows.append(PaperRow((PEOPLE_LABEL,), tuple(PaperCell(counts.get(answer)) for answer in answers)))
    for model in study.raters(dims["rubric"]):
        reason = study.no_rating(dims["rubric"], dims["question"], model)
        if study.metrics.find("share", **dims, rater=model):
            reason = f"{model} never gave this answer"
        cells = [study.cell("share", dims | {"rater": model, "answer": answer}, reason=reason) for answer in answers]
        rows.append(PaperRow((model,), tuple(cells)))
    shares = [[cell.metric.value if cell.metric else None for cell in row.cells] for row in rows]
    title = "Scores of people and models"
    return PaperFigure(
        name="figure_3_left",
        title=title,
        citation="Rome, figure 3 (left)",
        svg=plot(StackedBars(shares, [row.headers[0] for row in rows], answers), title=title,
                 description="One bar per rater, divided by score."),
        numbers=PaperTable(
            name="figure_3_left",
            title=title,
            citation="",
            row_headers=("Rater",),
            columns=tuple((answer,) for answer in answers),
            rows=tuple(rows),
        ),
    )  # fmt: skip


def _people_shares(study: Study) -> dict[str, Metric]:
    """Return the share of each answer among the answers of all people."""
    from jobs.metrics.distributions import metrics_of

    dims = dims_of(study, RATING)
    pooled = [d for d in study.summary.pooled.result() if (d.rubric, d.question) == (dims["rubric"], dims["question"])]
    metrics = [metric for distribution in pooled[:1] for metric in metrics_of(distribution)]
    return {metric.dims["answer"]: metric for metric in metrics if metric.name == "share"}


def _deviations(study: Study, models: list[str]) -> PaperFigure:
    dims, printed = dims_of(study, RATING) | {"group": PEOPLE}, study.printed("figure_3_right")
    steps = sorted({*study.metrics.values("deviation", "deviation_share", **dims), *printed.table.columns}, key=int)
    rows, estimates, used = [], [], set()
    for model in models:
        in_paper = study.name_in_paper(model) or ""
        used.add(in_paper)
        cells = []
        has_people = bool(study.raters(dims["rubric"], kinds=(HUMAN,)))
        absent = study.no_rating(dims["rubric"], dims["question"], model) if has_people else NO_PEOPLE
        mean = study.cell("mean_deviation", dims | {"rater": model}, unit="number", reason=absent)
        reason = _no_deviation(study, mean, dims | {"rater": model})
        for step in steps:
            number = printed.at(in_paper, step)
            cell = study.cell(
                "deviation_share", dims | {"rater": model, "deviation": step}, printed=number, reason=reason
            )
            cells.append(cell)
            metric = study.metrics.get("deviation_share", dims | {"rater": model, "deviation": step})
            drawn = number.value if number else None
            estimates.append(Estimate(step, metric.value, metric.low, metric.high, series=model, printed=drawn))
        rows.append(PaperRow((model,), (*cells, mean)))
    rows += printed.rows_alone([*steps, None], headers=of_paper, without=used)
    title = "A model’s score minus a person’s"
    return PaperFigure(
        name="figure_3_right",
        title=title,
        citation="Rome, figure 3 (right)",
        svg=plot(Intervals(estimates, "share of people's ratings", bounds=(0, 1), percent=True), title=title,
                 description="One row per difference in points, one colour per model."),
        numbers=PaperTable(
            name="figure_3_right",
            title=title,
            citation="",
            row_headers=("Model",),
            columns=(*((step,) for step in steps), ("mean",)),
            rows=tuple(rows),
        ),
    )  # fmt: skip


def _no_deviation(study: Study, mean: PaperCell, dims: Mapping[str, str]) -> str:
    """Return why a model has no share of a deviation from people, whose mean deviation is `mean`."""
    if study.metrics.find("deviation_share", **dims):
        return "no deviation of this size"
    if mean.metric is not None and mean.metric.value is not None:
        return "the deviations are not whole numbers"
    return str(mean.metric.reason) if mean.metric else NO_PEOPLE


def table_3(study: Study) -> PaperTable:
    """Return number, mean and standard deviation of the scores by scenario, and Welch's p, of people and models."""
    dims = dims_of(study, RATING) | {"attribute": scenario_attribute(study)}
    pairs, raters, printed = scenario_pairs(study, RATING), columns(study, RATING), study.printed("table_3")
    if not pairs:
        return _without_scenarios(study, "table_3", "Scores by scenario", "Rome, table 3")
    has_single = bool(study.metrics.find("welch_p", group=SINGLE_RATINGS, **dims))
    shown = [(SINGLE_RATINGS, "People, single ratings"), *raters] if has_single else raters
    headers: list[tuple[str, str]] = []
    cells: dict[str, list[PaperCell]] = {name: [] for name in ("Samples", "Average score", "SD", "p-value")}
    for rater, label in shown:
        # the paper counts people's ratings, of which a picture may have several
        in_paper = study.name_in_paper({SINGLE_RATINGS: PEOPLE}.get(rater, rater)) or ""
        in_paper = "" if has_single and rater == PEOPLE else in_paper
        for first, second in pairs:
            row_dims = dims | {"group": rater, "first": first, "second": second}
            reason = study.no_rating(dims["rubric"], dims["question"], rater)
            for part, scenario in (("first", first), ("second", second)):
                mean, deviation = (
                    study.metrics.get(name, row_dims | {"part": part}, reason=reason)
                    for name in ("part_mean", "part_sd")
                )
                number = f"{in_paper} / {scenario}"
                headers.append((label, scenario))
                count = replace(mean, name="samples", value=float(mean.n)) if mean.value is not None else mean
                cells["Samples"].append(PaperCell(count, printed.at("Samples", number), "count"))
                cells["Average score"].append(PaperCell(mean, printed.at("Average score", number), "number"))
                cells["SD"].append(PaperCell(deviation, printed.at("SD", number), "number"))
                cells["p-value"].append(PaperCell())
            headers.append((label, f"{first} and {second}"))
            p = study.cell("welch_p", row_dims, unit="number", printed=printed.at("p-value", in_paper), reason=reason)
            for name, of_row in cells.items():
                of_row.append(p if name == "p-value" else PaperCell())
    note = (
        "The paper counts single ratings and takes them as independent, as in the first columns. The columns “People” "
        "have one score per picture, the mean of its ratings, which are not independent of each other."
    )
    return PaperTable(
        name="table_3",
        title="Scores by scenario, and Welch’s t-test that they are equal",
        citation="Rome, table 3",
        row_headers=("Ratings",),
        columns=tuple(headers),
        rows=tuple(PaperRow((name,), tuple(of_row)) for name, of_row in cells.items()),
        notes=(*([note] if has_single else []), *_unused(study, "table_3", raters)),
    )


def _unused(study: Study, table: str, raters: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return a note with the printed numbers of raters that are not in the report."""
    printed = study.printed(table)
    shown = {study.name_in_paper(rater) for rater, _ in raters}
    notes = []
    for column in printed.table.columns:
        numbers = {row: printed.at(row, column) for row in printed.rows}
        if column.partition(" / ")[0] not in shown and any(numbers.values()):
            listed = ", ".join(
                f"{row} {number.value:g}" for row, number in numbers.items() if isinstance(number, Printed)
            )
            notes.append(f"The paper, {column}: {listed}.")
    return tuple(notes)


def table_4(study: Study) -> PaperTable:
    """Return Krippendorff's alpha of all models, and of each model and people, by scenario."""
    ratings, attribute = rated(study, RATING), scenario_attribute(study)
    scenarios = study.items.subgroups(attribute, ratings[1]) if ratings else {}
    if ratings is None or not scenarios:
        return _without_scenarios(study, "table_4", "Agreement by scenario", "Rome, table 4")
    printed, rows = study.printed("table_4"), []
    people = study.raters(study.rubric(RATING), kinds=(HUMAN,))
    models = study.raters(study.rubric(RATING))
    groups: list[tuple[str, str, RatingTable]] = []
    if len(models) > 1:
        groups.append(("All models", MODELS, ratings[0].of_raters(models)))
    if people:
        mean = ratings[0].of_raters(people).means()[0]
        groups += [
            (f"{model} and people", model,
             RatingTable.from_matrix(np.stack([ratings[0].of_raters([model]).means()[0], mean], 1)))
            for model in models
        ]  # fmt: skip
    used = set()
    for label, group, answers in groups:
        name = study.name_in_paper(group) or ""
        in_paper = name if group == MODELS else f"{name} and people"
        used.add(in_paper)
        for level in LEVELS:
            cells = []
            for scenario, members in scenarios.items():
                alpha = krippendorff_alpha(answers.of_items(members), level)
                cells.append(PaperCell(alpha, printed.at(in_paper, scenario), "number"))
            rows.append(PaperRow((label, str(level)), tuple(cells)))
    rows += printed.rows_alone(
        [*scenarios], headers=lambda row: (*of_paper(row), "not stated"), without=used, unit="number"
    )
    return PaperTable(
        name="table_4",
        title="Krippendorff’s α among models, and between a model and people",
        citation="Rome, table 4",
        row_headers=("Raters", "Level"),
        columns=tuple((scenario,) for scenario in scenarios),
        rows=tuple(rows),
        notes=(
            "People are one rater: the mean of all people’s scores of a picture, not rounded. The paper states neither "
            "the level of its α nor which of a picture’s ratings by people it compares.",
        ),
    )


def _without_scenarios(study: Study, name: str, title: str, citation: str) -> PaperTable:
    """Return only the printed numbers, with a note why there are no others."""
    printed = study.printed(name)
    rows = tuple(printed.rows_alone(printed.table.columns, headers=of_paper, unit="number"))
    note = (
        f"No item has the attribute {scenario_attribute(study)!r} with two values; name the items (items=), or another "
        "attribute with paper.options.scenario."
    )
    headers = tuple((column,) for column in printed.table.columns)
    return PaperTable(name, title, citation, ("Ratings",), headers, rows, (note,))
