"""The tables and figures of Bringing Rome to Life (Ströbel et al., 2024), in the order of the paper.

Here are figure 4 and section 4.2.2, the scores of pictures by the answers to their questions; figure 5, examples of
pictures next to their ratings; and, not in the paper, the models that drew the pictures. The others are in
`jobs.papers.rome_ratings`.

Options (`paper.options`): `scenario`, the attribute that divides the items into scenarios, `scenario` by default.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from jobs.analysis.scene_graph_scores import BINS, STEPS
from jobs.metrics.metric import Metric, MetricKind, exact
from jobs.metrics.rated_question import PEOPLE
from jobs.papers import rome_ratings
from jobs.papers.paper_tables import PaperCell, PaperFigure, PaperPart, PaperRow, PaperTable, estimate, figure
from jobs.papers.rome_ratings import (
    COMPARISON,
    PEOPLE_LABEL,
    QUESTIONS,
    RATING,
    SCORES,
    Rated,
    dims_of,
    of_paper,
    rated,
    scenario_attribute,
    scenario_pairs,
)
from jobs.papers.study import ColumnSpec, RowSpec, Study
from jobs.plots.panels import Histogram, Intervals, Panel
from jobs.store.hashing import hash_texts
from jobs.tables import HUMAN

PLACES = ("lowest", "middle", "highest")
SHORT = 160  # characters of a prompt
OURS = "not in the paper, where one model drew all pictures"
MEASURES = {RATING: "Mean rating", SCORES: "Mean score by questions"}


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables and figures that the report's ratings allow."""
    has_ratings, compared = (study.has_ratings(study.rubric(role)) for role in (RATING, COMPARISON))
    if has_ratings or compared:
        yield rome_ratings.table_1(study)
    if compared:
        yield rome_ratings.table_2(study)
    if has_ratings:
        yield from rome_ratings.figure_3(study)
        yield rome_ratings.table_3(study)
        yield rome_ratings.table_4(study)
    if study.has_ratings(study.rubric(SCORES)):
        yield from figure_4(study)
        yield by_scenario(study)
        yield from figure_5(study)
    yield from image_models(study)
    yield from competitors(study)


def figure_4(study: Study) -> Iterator[PaperFigure]:
    """Yield the histogram of the scores of all pictures, one plot per model."""
    dims = dims_of(study, SCORES)
    panels: list[tuple[str, Panel]] = []
    rows = []
    for rater in study.raters(study.rubric(SCORES)):
        reason = study.no_rating(dims["rubric"], dims["question"], rater)
        shares = [study.metrics.get("share", dims | {"rater": rater, "answer": step}, reason=reason) for step in BINS]
        counts = [round((share.value or 0) * share.n) for share in shares]
        edges = [step / STEPS for step in range(STEPS + 2)]  # the score 1 has its own bar
        panels.append((rater, Histogram(counts, edges, "score; the last bar is 1", "pictures")))
        cells = [
            replace(share, name="pictures", value=float(count), low=None, high=None, interval_method=None,
                    reason="a count: no interval")
            if share.value is not None
            else share
            for share, count in zip(shares, counts, strict=True)
        ]  # fmt: skip
        rows.append(PaperRow((rater,), tuple(PaperCell(cell, unit="count") for cell in cells)))
    if not panels:
        return
    numbers = PaperTable(
        name="figure_4",
        title="Pictures by the share of their questions that are answered yes",
        citation="Rome, figure 4",
        row_headers=("Model",),
        columns=tuple((step,) for step in BINS),
        rows=tuple(rows),
        notes=("In the paper, most scores are between 0.5 and 0.9, and over 60 of 600 pictures have a score of 1.",),
    )
    yield figure(numbers, panels, description="One histogram per model, in steps of 0.05.", columns=2)


def by_scenario(study: Study) -> PaperTable:
    """Return the scores by scenario, Welch's p, and the correlation of the scores with people's ratings."""
    dims, attribute = dims_of(study, SCORES), scenario_attribute(study)
    rows = []
    for rater in study.raters(study.rubric(SCORES)):
        reason = study.no_rating(dims["rubric"], dims["question"], rater)
        if study.metrics.find("group_mean_score", **dims, group=rater):
            reason = f"no item has the attribute {attribute!r} with two values"
        for first, second in scenario_pairs(study, SCORES) or [("", "")]:
            of_row = dims | {"attribute": attribute, "group": rater, "first": first, "second": second}
            rows.append(RowSpec((rater, first, second), of_row, study.name_in_paper(rater) or "", reason))

    def correlation(header: str, metric: str) -> ColumnSpec:
        of_dsg = {"rubric": study.rubric("answers"), "reading": "with dependencies", "convention": "answered"}
        return ColumnSpec(
            ("With people", header),
            cell=lambda row: study.cell(
                metric, of_dsg | {"rater": row.dims["group"]}, unit="number", reason=_no_correlation(study)
            ),
        )

    return study.table(
        "by_scenario",
        "Scores by questions: scenarios, and correlation with people’s ratings",
        "Rome, section 4.2.2",
        row_headers=("Model", "First scenario", "Second scenario"),
        rows=rows,
        columns=[
            ColumnSpec(("Mean", "first"), "part_mean", {"part": "first"}, unit="number"),
            ColumnSpec(("Mean", "second"), "part_mean", {"part": "second"}, unit="number"),
            ColumnSpec(("Welch", "p-value"), "welch_p", printed="p-value", unit="number"),
            correlation("Spearman", "dsg_spearman"),
            correlation("Kendall", "dsg_kendall"),
        ],
        others=lambda row: (*of_paper(row), "", ""),
    )


def _no_correlation(study: Study) -> str:
    """Return why the report does not correlate the answers to questions with people's ratings."""
    if study.tables.questions is None:
        return "the questions are not known; set questions="
    if not study.raters(study.rubric(RATING), kinds=(HUMAN,)):
        return f"no person answered the rubric {study.rubric(RATING)}"
    return "set likert= to the rubric and question of people's ratings, and questions_rubric= to that of the answers"


def figure_5(study: Study) -> Iterator[PaperFigure]:
    """Yield, per model, the pictures with the lowest, a middle and the highest score, with the ratings of people."""
    scores, ratings = rated(study, SCORES), rated(study, RATING)
    if scores is None:
        return
    people = study.raters(study.rubric(RATING), kinds=(HUMAN,))
    printed = study.printed("figure_5")
    for number, rater in enumerate(study.raters(study.rubric(SCORES)), 1):
        examples = _chosen(scores, rater)
        shown = _shown(study, {item for _, item, _ in examples})
        rows = [
            PaperRow((place, shown[item][0]), (
                PaperCell(_of_one("score", score, 1), printed.at(place, "score"), "number"),
                PaperCell(_mean(ratings, item, people), printed.at(place, "people"), "number"),
                PaperCell(_mean(ratings, item, [rater]), printed.at(place, "GPT"), "number"),
            ))
            for place, item, score in examples
        ]  # fmt: skip
        numbers = PaperTable(
            name="figure_5" if number == 1 else f"figure_5_{number}",
            title=f"Examples: pictures with a low, a middle and a high score by {rater}",
            citation="Rome, figure 5",
            row_headers=("Score", "Picture and prompt"),
            columns=(("Score by questions",), ("Rating by people",), ("Rating by the model",)),
            rows=tuple(rows),
            notes=("The printed numbers are GPT-4o's for the paper's own three pictures.",) if printed.rows else (),
        )
        pictures = [(image, f"{place}: {score:.2f}") for place, item, score in examples if (image := shown[item][1])]
        text = (
            "One row per picture: the share of its questions answered yes, and its rating by people and by the model."
        )
        yield figure(numbers, _example_plots(study, rater, rows), description=text, pictures=tuple(pictures))


def _example_plots(study: Study, rater: str, rows: Sequence[PaperRow]) -> list[tuple[str, Panel]]:
    """Return plots of the scores and of the ratings of the pictures; the paper's numbers are hollow diamonds."""
    scale, _ = study.rubrics.scale(study.rubric(RATING), QUESTIONS[RATING])
    scores, *ratings = [
        [estimate(row.headers[0], row.cells[column], name) for row in rows]
        for column, name in enumerate(("", PEOPLE_LABEL, rater))
    ]
    return [
        ("Score by questions", Intervals(scores, bounds=(0, 1))),
        ("Rating", Intervals([row for of_rater in ratings for row in of_rater], bounds=scale)),
    ]


def _chosen(scores: Rated, rater: str) -> list[tuple[str, int, float]]:
    """Return place, item and score of the lowest, median and highest score; the lowest hash breaks ties."""
    table, items = scores
    answers = table.of_raters([rater])
    if not answers.n:
        return []
    hashes = items[answers.item]
    order = np.lexsort((hashes, answers.score))
    places = (0, len(order) // 2, len(order) - 1)
    return [
        (name, int(hashes[order[place]]), float(answers.score[order[place]]))
        for name, place in zip(PLACES, places, strict=True)
    ]


def _mean(ratings: Rated | None, item: int, raters: Sequence[str]) -> Metric | None:
    """Return the mean rating of one item by some raters; None without ratings."""
    if ratings is None or not raters:
        return None
    table, items = ratings
    scores = table.of_raters(raters).of_items(items == np.uint64(item)).score
    scores = scores[~np.isnan(scores)]
    return _of_one("rating", float(scores.mean()), len(scores)) if len(scores) else None


def _of_one(name: str, value: float, n: int) -> Metric:
    kind = MetricKind(name, definition="Of one picture; n counts its ratings.")
    return exact(kind, value, n, reason="one picture: no interval")


def _shown(study: Study, wanted: set[int]) -> dict[int, tuple[str, str | None]]:
    """Return the label of each item, its id with the beginning of its prompt, and its picture, if any, by its hash."""
    items: dict[int, dict[str, object]] = {}
    for source in study.tables.items:
        for batch in source.batches(["item_id", "text_ids", "image_ids"]):
            hashes = hash_texts(batch["item_id"])
            for place in np.flatnonzero(np.isin(hashes, np.array(sorted(wanted), np.uint64))):
                items[int(hashes[place])] = batch.slice(place, 1).to_pylist()[0]
    prompts = _prompts(study, {text_id for item in items.values() for text_id in _ids(item["text_ids"])})
    shown: dict[int, tuple[str, str | None]] = dict.fromkeys(wanted, ("", None))
    for number, item in items.items():
        texts = [prompts.get(text_id) for text_id in _ids(item["text_ids"])]
        name = ": ".join(filter(None, [str(item["item_id"]), *texts]))
        shown[number] = name, next(iter(_ids(item["image_ids"])), None)
    return shown


def _ids(listed: object) -> list[str]:
    return list(listed) if isinstance(listed, list) else []


def _prompts(study: Study, wanted: set[str]) -> dict[str, str]:
    """Return the beginning of each prompt, by text_id."""
    prompts = {}
    for source in study.tables.texts:
        for batch in source.batches(["text_id", "role", "text"]):
            for row in batch.to_pylist():
                if row["text_id"] in wanted and row["role"] == "prompt":
                    text = " ".join((row["text"] or "").split())
                    prompts[row["text_id"]] = text if len(text) <= SHORT else text[:SHORT] + "…"
    return prompts


def image_models(study: Study) -> Iterator[PaperFigure]:
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
        ColumnSpec((measure, label), "group_mean_score", dims_of(study, role) | {"group": rater}, unit="number")
        for role, measure in MEASURES.items()
        for rater, label in ((PEOPLE, PEOPLE_LABEL), *((name, name) for name in study.raters(study.rubric(role))))
        if study.metrics.find("group_mean_score", attribute=attribute, group=rater, **dims_of(study, role))
    ]
    numbers = study.table(
        "image_models",
        "Scores of the models that drew the pictures",
        OURS,
        row_headers=("Drawing model",),
        rows=[
            RowSpec((model,), {"attribute": attribute, "part": model}, reason=f"no picture of {model} was rated")
            for model in models
        ],
        columns=columns,
        notes=("Intervals are over pictures; n counts pictures.",),
    )
    panels: list[tuple[str, Panel]] = []
    for measure in dict.fromkeys(column.headers[0] for column in columns):
        estimates = [
            estimate(row.headers[0], cell, column.headers[1])
            for row in numbers.rows
            for column, cell in zip(columns, row.cells, strict=True)
            if column.headers[0] == measure
        ]
        panels.append((measure, Intervals(estimates)))
    yield figure(numbers, panels, description="One row per drawing model, one colour per rater.")


def competitors(study: Study) -> Iterator[PaperFigure]:
    """Yield the Bradley-Terry strengths of the models that drew the pictures, if there are several."""
    dims = dims_of(study, COMPARISON)
    raters = study.metrics.values("rater", "bradley_terry", **dims)
    if not raters:
        return
    numbers = study.table(
        "bradley_terry",
        "Strength of the models that drew the pictures",
        OURS,
        row_headers=("Drawing model",),
        rows=[
            RowSpec((name,), dims | {"competitor": name})
            for name in study.metrics.values("competitor", "bradley_terry", **dims)
        ],
        columns=[
            column
            for rater in raters
            for column in (
                ColumnSpec((rater, "strength"), "bradley_terry", {"rater": rater}, unit="number"),
                ColumnSpec((rater, "win rate"), "win_rate", {"rater": rater}),
            )
        ],
        reason=lambda row, column: f"{column.dims['rater']} compared no picture of {row.headers[0]}",
    )
    estimates = [
        estimate(row.headers[0], cell, rater)
        for row in numbers.rows
        for (rater, measure), cell in zip(numbers.columns, row.cells, strict=True)
        if measure == "strength"
    ]
    strengths = Intervals(estimates, "Bradley-Terry strength (log-odds)", reference=0.0)
    yield figure(numbers, [("", strengths)], description="One row per drawing model, one colour per rater.")
