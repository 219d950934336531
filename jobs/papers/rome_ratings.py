"""Rome's tables of people's and models' own answers: ratings (tables 1, 3 and 4, figure 3) and comparisons (table 2).

Also what all of Rome's tables share: scenarios, raters with their names, and one question's ratings.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from jobs.metrics.agreement import LEVELS, krippendorff_alpha
from jobs.metrics.answers import RatingTable
from jobs.metrics.distributions import metrics_of
from jobs.metrics.metric import Metric
from jobs.metrics.pair_comparisons import ANSWERS, PROBABILITIES
from jobs.metrics.rated_question import MODELS, PEOPLE, SINGLE_RATINGS
from jobs.papers.paper_tables import PaperCell, PaperFigure, PaperRow, PaperTable, estimate, figure, values
from jobs.papers.study import ColumnSpec, RowSpec, Study
from jobs.plots.panels import Intervals, StackedBars
from jobs.store.hashing import Hashes
from jobs.tables import HUMAN

Rated = tuple[RatingTable, Hashes]
SCENARIO = "scenario"
RATING, COMPARISON, SCORES = "rating", "comparison", "scores"  # roles of rubrics
QUESTIONS = {RATING: "match", COMPARISON: "preference", SCORES: "with_dependencies"}  # role -> its question
PEOPLE_LABEL = "People"
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


def scenario_attribute(study: Study) -> str:
    """Return the attribute of the items that divides them into scenarios."""
    return study.settings.options.get(SCENARIO, SCENARIO)


def dims_of(study: Study, role: str) -> dict[str, str]:
    """Return the dims of the metrics of a role's question."""
    return {"rubric": study.rubric(role), "question": QUESTIONS[role]}


def scenario_pairs(study: Study, role: str) -> list[tuple[str, str]]:
    """Return the pairs of scenarios that Welch's t-test compares, in the order of the report."""
    dims = dims_of(study, role) | {"attribute": scenario_attribute(study)}
    metrics = study.metrics.find("welch_p", **dims)
    return list(dict.fromkeys((metric.dims["first"], metric.dims["second"]) for metric in metrics))


def rated(study: Study, role: str) -> Rated | None:
    """Return the ratings of a role's question and the hash of each item; None if nobody was asked."""
    return study.rated(study.rubric(role), QUESTIONS[role])


def of_paper(row: str) -> tuple[str, ...]:
    """Return the header of a printed row without a counterpart in the report."""
    return (f"{row} (paper)",)


def table_1(study: Study) -> PaperTable:
    """Return the numbers of people's answers in both tasks."""

    def account(header: str, metric: str) -> ColumnSpec:
        def cell(row: RowSpec) -> PaperCell:
            by_pair = header == "Multiple annotations" and study.metrics.find(OF_PAIRS, group=PEOPLE, **row.dims)
            number = study.printed("table_1").at(row.printed, header)
            dims = {**row.dims, "group": PEOPLE}
            return study.cell(OF_PAIRS if by_pair else metric, dims, unit="count", printed=number, reason=NO_PEOPLE)

        return ColumnSpec((header, ""), cell=cell)

    return study.table(
        "table_1",
        "Assessments by people",
        "Rome, table 1 and section 4.1.2",
        row_headers=("Evaluation scenario",),
        rows=[
            RowSpec((label,), dims_of(study, role), label, reason=NO_PEOPLE) for role, label in SCENARIO_LABELS.items()
        ],
        columns=[
            *(account(header, metric) for header, metric in ACCOUNTS.items()),
            *(
                ColumnSpec(("Per person", header), metric, printed=f"per person, {header}", unit="number")
                for header, metric in PER_PERSON.items()
            ),
        ],
    )


def table_2(study: Study) -> PaperTable:
    """Return each model's agreement with people, in one order as in the paper and over both, and its position bias."""
    dims, rows = dims_of(study, COMPARISON), []
    for rater in study.raters(study.rubric(COMPARISON)):
        rows.append(RowSpec((rater,), dims | {"rater": rater}, study.name_in_paper(rater) or ""))

    def reason(row: RowSpec, column: ColumnSpec) -> str:
        if column.metric == "preference_agreement":
            return "no answers of people to pairs"
        if not study.metrics.find("position_bias", **row.dims):
            return "the pairs are not known; add the items of remine pairs with items="
        by_answers = study.metrics.find("pair_agreement", **row.dims, by=ANSWERS)
        if column.dims.get("by") == PROBABILITIES and by_answers:
            return "the model's answers have no probabilities"
        return "no answers of people to pairs" if column.metric == "pair_agreement" else ""

    return study.table(
        "table_2",
        "Agreement of models with people on which of two pictures matches the prompt better",
        "Rome, table 2",
        row_headers=("Model",),
        rows=rows,
        columns=[
            ColumnSpec(("Agreement with people", "same order"), "preference_agreement", {"group": PEOPLE}, "agreement"),
            ColumnSpec(("Agreement with people", "both orders, by answer"), "pair_agreement", {"by": ANSWERS}),
            ColumnSpec(("Agreement with people", "both orders, by probability"), "pair_agreement",
                       {"by": PROBABILITIES}),
            ColumnSpec(("Position", "bias"), "position_bias"),
            ColumnSpec(("Position", "chose the first"), "first_position_share"),
        ],
        reason=reason,
        others=of_paper,
        notes=("The paper asked in one order. A model that always chooses the first picture has a bias of 1 and, over "
               "both orders, an agreement of 0.5.",),
    )  # fmt: skip


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
    numbers = PaperTable(
        name="figure_3_left",
        title="Scores of people and models",
        citation="Rome, figure 3 (left)",
        row_headers=("Rater",),
        columns=tuple((answer,) for answer in answers),
        rows=tuple(rows),
    )
    bars = StackedBars(values(rows), [row.headers[0] for row in rows], answers)
    return figure(numbers, [("", bars)], description="One bar per rater, divided by score.")


def _people_shares(study: Study) -> dict[str, Metric]:
    """Return the share of each answer among the answers of all people."""
    dims = dims_of(study, RATING)
    pooled = [d for d in study.summary.pooled.result() if (d.rubric, d.question) == (dims["rubric"], dims["question"])]
    metrics = [metric for distribution in pooled[:1] for metric in metrics_of(distribution)]
    return {metric.dims["answer"]: metric for metric in metrics if metric.name == "share"}


def _deviations(study: Study, models: list[str]) -> PaperFigure:
    dims, printed = dims_of(study, RATING) | {"group": PEOPLE}, study.printed("figure_3_right")
    steps = sorted({*study.metrics.values("deviation", "deviation_share", **dims), *printed.table.columns}, key=int)
    has_people = bool(study.raters(dims["rubric"], kinds=(HUMAN,)))
    rows = []
    for model in models:
        absent = study.no_rating(dims["rubric"], dims["question"], model) if has_people else NO_PEOPLE
        rows.append(RowSpec((model,), dims | {"rater": model}, study.name_in_paper(model) or "", absent))
    numbers = study.table(
        "figure_3_right",
        "A model’s score minus a person’s",
        "Rome, figure 3 (right)",
        row_headers=("Model",),
        rows=rows,
        columns=[
            *(ColumnSpec((step,), "deviation_share", {"deviation": step}, step) for step in steps),
            ColumnSpec(("mean",), "mean_deviation", unit="number"),
        ],
        reason=lambda row, column: _no_deviation(study, row) if column.dims else row.reason,
        others=of_paper,
    )
    estimates = [
        estimate(step, cell, row.headers[0])
        for row in numbers.rows[: len(models)]
        for step, cell in zip(steps, row.cells, strict=False)
    ]
    bars = Intervals(estimates, "share of people's ratings", bounds=(0, 1), percent=True)
    return figure(numbers, [("", bars)], description="One row per difference in points, one colour per model.")


def _no_deviation(study: Study, row: RowSpec) -> str:
    """Return why a model has no share of a deviation from people."""
    if study.metrics.find("deviation_share", **row.dims):
        return "no deviation of this size"
    mean = study.metrics.get("mean_deviation", row.dims, reason=row.reason)
    return str(mean.reason) if mean.value is None else "the deviations are not whole numbers"


def table_3(study: Study) -> PaperTable:
    """Return number, mean and standard deviation of the scores by scenario, and Welch's p, of people and models."""
    dims = dims_of(study, RATING) | {"attribute": scenario_attribute(study)}
    pairs, printed, rubric = scenario_pairs(study, RATING), study.printed("table_3"), study.rubric(RATING)
    if not pairs:
        return _without_scenarios(study, "table_3", "Scores by scenario", "Rome, table 3")
    raters = [(PEOPLE, PEOPLE_LABEL)] if study.raters(rubric, kinds=(HUMAN,)) else []
    raters += [(rater, rater) for rater in study.raters(rubric)]
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
        notes=(*([note] if has_single else []), *_unused(study, "table_3", {rater for rater, _ in raters})),
    )


def _unused(study: Study, table: str, raters: set[str]) -> Iterator[str]:
    """Yield notes with the printed numbers of raters that are not in the report."""
    printed, shown = study.printed(table), {study.name_in_paper(rater) for rater in raters}
    for column in printed.table.columns:
        numbers = {row: number for row in printed.rows if (number := printed.at(row, column))}
        if column.partition(" / ")[0] not in shown and numbers:
            yield f"The paper, {column}: {', '.join(f'{row} {number.value:g}' for row, number in numbers.items())}."


def table_4(study: Study) -> PaperTable:
    """Return Krippendorff's alpha of all models, and of each model and people, by scenario."""
    ratings, attribute = rated(study, RATING), scenario_attribute(study)
    scenarios = study.items.subgroups(attribute, ratings[1]) if ratings else {}
    if ratings is None or not scenarios:
        return _without_scenarios(study, "table_4", "Agreement by scenario", "Rome, table 4")
    printed = study.printed("table_4")
    people = study.raters(study.rubric(RATING), kinds=(HUMAN,))
    models = study.raters(study.rubric(RATING))
    groups: list[tuple[str, str, RatingTable]] = []  # label, name in the paper, ratings
    if len(models) > 1:
        groups.append(("All models", study.name_in_paper(MODELS) or "", ratings[0].of_raters(models)))
    if people:
        mean = ratings[0].of_raters(people).means()[0]
        groups += [
            (f"{model} and people", f"{study.name_in_paper(model) or ''} and people",
             RatingTable.from_matrix(np.stack([ratings[0].of_raters([model]).means()[0], mean], 1)))
            for model in models
        ]  # fmt: skip
    rows = [
        PaperRow((label, str(level)), tuple(
            PaperCell(krippendorff_alpha(answers.of_items(members), level), printed.at(in_paper, scenario), "number")
            for scenario, members in scenarios.items()
        ))
        for label, in_paper, answers in groups
        for level in LEVELS
    ]  # fmt: skip
    used = {in_paper for _, in_paper, _ in groups}
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
