"""Tables 9 and 13, figure 7 and participation: the people who rated pictures and responses, and their agreement."""

from collections.abc import Iterator

import numpy as np

from jobs.metrics.question import PEOPLE
from jobs.papers.century.words import CATEGORIES, ELEMENTS, SCALES, titled
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable, Printed, Unit
from jobs.papers.study import Study
from jobs.plots.figures import small_multiples
from jobs.plots.panels import Histogram, Scatter

TABLES = {"images": "table_9", "responses": "table_13"}
QUESTIONS = {"images": (*SCALES, *CATEGORIES), "responses": tuple(ELEMENTS)}
DISAGREEMENT = "sensitive"  # the question of appendix N
BINS = 10


def reliability(study: Study, role: str) -> Iterator[PaperTable]:
    """Yield the agreement of people by question, if people rated."""
    rubric, name = study.rubric(role), TABLES[role]
    if not study.raters(rubric, kinds=("human",)):
        return
    printed, icc = study.printed(name), study.printed(f"{name}_icc")
    rows = []
    answered = study.metrics.values("question", "percent_agreement", rubric=rubric, group=PEOPLE)
    for question in (name for name in QUESTIONS[role] if name in answered or name in printed.rows):
        dims = {"rubric": rubric, "question": question, "group": PEOPLE}
        scored = question in SCALES or role == "responses"
        within = dims | {"tolerance": f"{study.metric_settings.tolerance:g}"}
        reason = study.no_rating(rubric, question, PEOPLE)
        if study.metrics.find("percent_agreement", **dims):
            reason = f"people's answers to {question} have no scores"
        reliable = study.metrics.first("icc2k", dims, reason=reason, columns="rating slots")
        cells = (
            study.cell("percent_agreement", dims, printed=printed.at(question, "equal"), reason=reason),
            study.cell("percent_agreement_within", within, printed=printed.at(question, "within one"), reason=reason)
            if scored
            else PaperCell(),
            PaperCell(reliable, icc.at(question, "icc", low="low", high="high"), "number") if scored else PaperCell(),
        )
        rows.append(PaperRow(("Ordinal" if scored else "Categorical", titled(question)), cells))
    yield PaperTable(
        name=name,
        title=f"Reliability of people’s ratings of {'pictures' if role == 'images' else 'responses'}",
        citation=f"Century, {name.replace('_', ' ')}",
        row_headers=("Scale", "Variable"),
        columns=(("IRR",), (f"IRR ± {study.metric_settings.tolerance:g}",), ("ICC(2,k)",)),
        rows=tuple(rows),
        notes=("IRR is the share of pairs of ratings of an item that agree; n counts items with several ratings.",),
    )


def rater_agreement(study: Study) -> Iterator[PaperFigure]:
    """Yield people's agreement with the majority, as a histogram and by number of items, if people rated."""
    rubric = study.rubric("images")
    dims = {"rubric": rubric, "question": DISAGREEMENT, "group": PEOPLE}
    metrics = study.metrics.find("agreement_with_majority", **dims)
    values = [metric.value for metric in metrics if metric.value is not None]
    if not values:
        return
    rows = [PaperRow((metric.dims["rater"],), (PaperCell(metric),)) for metric in metrics]
    of_units = {"rubric": rubric, "question": DISAGREEMENT}
    mean = study.metrics.first("unit_quality_mean", of_units, reason="needs metrics.crowdtruth=true")
    zero = study.metrics.first("unit_quality_zero", of_units, reason=str(mean.reason), bins="3")
    in_paper = study.printed("figure_7").at(DISAGREEMENT, "unit quality 0")
    rows.append(PaperRow(("all: pictures with unit quality 0",), (PaperCell(zero, in_paper),)))
    counts, edges = np.histogram(values, bins=BINS, range=(0.0, 1.0))
    items = [float(metric.n) for metric in metrics if metric.value is not None]
    title = "How often people agree with the majority on sensitivity"
    text = "Left: histogram of people by their agreement with the majority. Right: agreement by number of pictures."
    svg = small_multiples(
        [
            ("People by agreement", Histogram(counts.tolist(), edges.tolist(), "agreement with majority", "people")),
            ("Agreement by pictures", Scatter(items, values, None, "pictures rated", "agreement", (-0.03, 1.03))),
        ],
        title=title,
        description=text,
        columns=2,
    )
    numbers = PaperTable(
        "figure_7", title, "Century, figure 7 and appendix N",
        ("Person",), (("Agreement with majority",),), tuple(rows),
        ("Unit quality 0: the ratings of a picture, in bins disagree, neutral and agree, all differ (CrowdTruth).",
         *filter(None, [study.people_needed(rubric, [DISAGREEMENT], items="pictures")])),
    )  # fmt: skip
    yield PaperFigure("figure_7", title, "Century, figure 7 (drawn without numbers in the paper)", svg, numbers)


def participation(study: Study) -> Iterator[PaperTable]:
    """Yield the numbers of people, of their ratings and of their reports, if people rated."""
    rows = []
    for role, questions in QUESTIONS.items():
        rubric = study.rubric(role)
        if not study.raters(rubric, kinds=("human",)):
            continue
        answered = study.metrics.values("question", "people_total", rubric=rubric)
        question = next((name for name in questions if name in answered), answered[0] if answered else questions[0])
        dims = {"rubric": rubric, "question": question, "group": PEOPLE}
        people, reports = study.printed("people"), study.printed("reports")
        columns: tuple[tuple[str, dict[str, str], Unit, Printed | None], ...] = (
            ("people_total", {}, "count", people.at(role, "people")),
            ("items_per_person", {}, "number", people.at(role, "mean")),
            ("items_per_person_sd", {}, "number", people.at(role, "sd")),
            ("status_share", {"status": "reported"}, "percent", reports.at(role, "ratings")),
            ("reported_share", {"of": "items"}, "percent", reports.at(role, "items")),
            ("reported_share", {"of": "people"}, "percent", reports.at(role, "people")),
        )
        reason = study.no_rating(rubric, question, PEOPLE)
        cells = tuple(PaperCell(study.metrics.get(name, dims | more, reason=reason), printed, unit)
                      for name, more, unit, printed in columns)  # fmt: skip
        rows.append(PaperRow(("Pictures" if role == "images" else "Responses", titled(question)), cells))
    if rows:
        yield PaperTable(
            name="people",
            title="People, their ratings and their reports",
            citation="Century, section 3.3, appendices L and T",
            row_headers=("Rated", "Question"),
            columns=(("People", ""), ("Items per person", "mean"), ("Items per person", "SD"),
                     ("Reported", "of ratings"), ("Reported", "of items"), ("Reported", "of people")),
            rows=tuple(rows),
            notes=("Computed for one question, because a person answers all questions about an item.",),
        )  # fmt: skip
