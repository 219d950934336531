"""Figure 4 and section 4.2.2: the scores of pictures by the answers to their questions."""

from collections.abc import Iterator
from dataclasses import replace

from jobs.analysis.attributes import HUMAN
from jobs.analysis.scene_graphs import BINS, STEPS
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable
from jobs.papers.rome.scenarios import RATING, SCORES, dims_of, of_paper, scenario_attribute, scenario_pairs
from jobs.papers.study import Study
from jobs.plots.figures import small_multiples
from jobs.plots.panels import Histogram


def figure_4(study: Study) -> Iterator[PaperFigure]:
    """Yield the histogram of the scores of all pictures, one plot per model."""
    dims = dims_of(study, SCORES)
    panels, rows = [], []
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
    title = "Pictures by the share of their questions that are answered yes"
    yield PaperFigure(
        name="figure_4",
        title=title,
        citation="Rome, figure 4",
        svg=small_multiples(panels, title=title, description="One histogram per model, in steps of 0.05."),
        numbers=PaperTable(
            name="figure_4",
            title=title,
            citation="",
            row_headers=("Model",),
            columns=tuple((step,) for step in BINS),
            rows=tuple(rows),
            notes=(
                "In the paper, most scores are between 0.5 and 0.9, and over 60 of 600 pictures have a score of 1.",
            ),
        ),
    )


def by_scenario(study: Study) -> PaperTable:
    """Return the scores by scenario, Welch's p, and the correlation of the scores with people's ratings."""
    dims, attribute = dims_of(study, SCORES), scenario_attribute(study)
    printed = study.printed("by_scenario")
    rows = []
    for rater in study.raters(study.rubric(SCORES)):
        in_paper = study.name_in_paper(rater) or ""
        of_dsg = {
            "rater": rater,
            "rubric": study.rubric("answers"),
            "reading": "with dependencies",
            "convention": "answered",
        }
        correlations = [
            study.cell(name, of_dsg, unit="number", reason=_no_correlation(study))
            for name in ("dsg_spearman", "dsg_kendall")
        ]
        for first, second in scenario_pairs(study, SCORES) or [("", "")]:
            row_dims = dims | {"attribute": attribute, "group": rater, "first": first, "second": second}
            reason = study.no_rating(dims["rubric"], dims["question"], rater)
            if study.metrics.find("group_mean_score", **dims, group=rater):
                reason = f"no item has the attribute {attribute!r} with two values"
            means = [
                study.cell("part_mean", row_dims | {"part": part}, unit="number", reason=reason)
                for part in ("first", "second")
            ]
            p = study.cell("welch_p", row_dims, unit="number", printed=printed.at(in_paper, "p-value"), reason=reason)
            rows.append(PaperRow((rater, first, second), (*means, p, *correlations)))
    used = {study.name_in_paper(row.headers[0]) or "" for row in rows}
    columns = [None, None, "p-value", None, None]
    rows += printed.rows_alone(columns, headers=lambda row: (*of_paper(row), "", ""), without=used, unit="number")
    return PaperTable(
        name="by_scenario",
        title="Scores by questions: scenarios, and correlation with people’s ratings",
        citation="Rome, section 4.2.2",
        row_headers=("Model", "First scenario", "Second scenario"),
        columns=(("Mean", "first"), ("Mean", "second"), ("Welch", "p-value"), ("With people", "Spearman"),
                 ("With people", "Kendall")),
        rows=tuple(rows),
    )  # fmt: skip


def _no_correlation(study: Study) -> str:
    """Return why the report does not correlate the answers to questions with people's ratings."""
    if study.tables.questions is None:
        return "the questions are not known; set questions="
    if not study.raters(study.rubric(RATING), kinds=(HUMAN,)):
        return f"no person answered the rubric {study.rubric(RATING)}"
    return "set likert= to the rubric and question of people's ratings, and questions_rubric= to that of the answers"
