"""Century's tables about pictures, people and terms, and the labels of all its tables.

Tables 1, 2 and 8 and figure 6 have the contents and the sensitivity of the pictures; tables 9 and 13, figure 7 and
`people` the people who rated, and their agreement; tables 6 and 7 the entities of the knowledge graph.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from jobs.analysis.report_tables import ALL_PEOPLE
from jobs.html.formats import in_words
from jobs.metrics.descriptive import KNOWLEDGE_GRAPH, no_entities
from jobs.metrics.majority import NO_MAJORITY, NONE
from jobs.metrics.rated_question import PEOPLE
from jobs.metrics.rating_plans import BOTH, PEOPLE_ALONE
from jobs.papers.paper_tables import PaperCell, PaperFigure, PaperRow, PaperTable, Printed, Unit, figure, values
from jobs.papers.study import ColumnSpec, RowSpec, Study
from jobs.plots.panels import Histogram, Scatter, StackedBars

PEOPLES, ALL_MODELS = "People", "All models"
SCALES = ("sensitive", "controversial", "commemorative")
CATEGORIES = ("image_type", "time_period", "concept", "content_type", "sub_region")  # in the order of table 9
DIVERSITY = ("image_type", "content_type", "concept", "sub_region")  # of tables 1 and 8
ELEMENTS = {  # of historical contextualisation -> dimension, in the order of table 3
    "identification": "Accuracy",
    "factual_errors": "Accuracy",
    "beginner_friendly": "Thoroughness",
    "appropriate_summary": "Thoroughness",
    "due_weight": "Objectivity",
    "no_loaded_language": "Objectivity",
    "opinions_not_stated_as_facts": "Objectivity",
}
LEVELS = tuple(f"{level}" for level in range(1, 6))
SOMEWHAT = "3"  # the threshold of table 2
RELIABILITY = {"images": "table_9", "responses": "table_13"}
RATED = {"images": (*SCALES, *CATEGORIES), "responses": tuple(ELEMENTS)}
DISAGREEMENT = "sensitive"  # the question of appendix N
BINS = 10
MOST_CONCEPTS = 20  # of this report; the paper's concepts are always shown
_LABELS = {
    "sub_region": "Sub-region",
    "identification": "Correct identification",
    "factual_errors": "Factuality errors (inverted)",
}


def titled(name: str) -> str:
    """Return the name of a question or answer as a label: `no_loaded_language` as No loaded language."""
    text = _LABELS.get(name, in_words(name))
    return text[:1].upper() + text[1:]


def short(name: str) -> str:
    """Return a rater or model without its revision; of a local model, only what follows the @ (`profile=debug`)."""
    checkpoint, _, revision = name.partition("@")
    return revision if checkpoint.startswith("local:") and revision else checkpoint


def table_1(study: Study) -> PaperTable:
    """Return the shares of pictures by people's majority answer."""
    return _diversity(study, "table_1", [(PEOPLE, PEOPLES)], "What the pictures show, by majority of people")


def table_8(study: Study) -> PaperTable:
    """Return the shares of pictures by majority answer, of each model and of people."""
    rubric = study.rubric("images")
    groups = [(rater, short(rater)) for rater in study.raters(rubric)]
    groups += study.groups(rubric, people=PEOPLES, models=ALL_MODELS)
    return _diversity(study, "table_8", groups, "What the pictures show, by labeller")


def _diversity(study: Study, name: str, groups: list[tuple[str, str]], title: str) -> PaperTable:
    """Return a table of majority answers: a row per answer, a column per group, and the paper's other groups last."""
    printed, rubric = study.printed(name), study.rubric("images")
    others = study.unmatched(printed.table.columns, [group for group, _ in groups])
    return study.table(
        name,
        title,
        f"Century, table {name[-1]}",
        row_headers=("Dimension", "Answer"),
        rows=[
            RowSpec((titled(question), titled(answer)), {"rubric": rubric, "question": question, "answer": answer},
                    f"{question} / {answer}")
            for question in DIVERSITY
            for answer in _answers(study, question, [row.partition(" / ")[2] for row in printed.rows_of(question)])
        ],
        columns=[
            *(ColumnSpec((label,), "majority_share", {"group": group}, study.name_in_paper(group) or "")
              for group, label in groups),
            *(ColumnSpec((other,), printed=other) for other in others),
        ],
        reason=lambda row, column: _no_majority(study, row.dims["question"], column.dims["group"]),
        notes=_counted(study, DIVERSITY, "A single model’s answer is its majority."),
    )  # fmt: skip


def _counted(study: Study, questions: Sequence[str], more: str = "") -> tuple[str, str]:
    """Return the notes of a table about the pictures that it counts."""
    needed = study.people_needed(study.rubric("images"), questions, items="pictures")
    return f"n counts pictures rated by the labeller or group. {more}".strip(), needed


def _no_majority(study: Study, question: str, group: str) -> str:
    """Return why a group's answers to a question have no share of an answer."""
    rubric = study.rubric("images")
    shares = study.metrics.find("majority_share", rubric=rubric, question=question, group=group)
    if any(share.value is not None for share in shares):
        return "nobody gave this answer"
    return str(shares[0].reason) if shares else study.no_rating(rubric, question, group)


def _answers(study: Study, question: str, printed: list[str]) -> list[str]:
    """Return the answers to a question in the rubric's order; those for none and for no majority come last."""
    answers = study.metrics.values("answer", "majority_share", rubric=study.rubric("images"), question=question)
    last = [answer for answer in (NONE, NO_MAJORITY) if answer in answers or answer in printed]
    return [*dict.fromkeys(a for a in [*answers, *printed] if a not in (NONE, NO_MAJORITY, "all")), *last]


def table_2(study: Study) -> PaperTable:
    """Return the shares of pictures that are not at all, or at least somewhat, sensitive and so on, by labeller."""
    rows = [row for question in SCALES for row in _labellers(study, question)]
    return PaperTable(
        name="table_2",
        title="Pictures that are sensitive, controversial and commemorative, by labeller",
        citation="Century, table 2",
        row_headers=("Dimension of quality", "Labelling method"),
        columns=(("“Not at all” (1)", "by mean"), ("“Somewhat” (3) or higher", "by mean"),
                 ("“Somewhat” (3) or higher", "by any rater")),
        rows=tuple(rows),
        notes=tuple(filter(None, _counted(study, SCALES))),
    )  # fmt: skip


def _labellers(study: Study, question: str) -> Iterator[PaperRow]:
    """Yield a row of table 2 for people, all models and each model, then for labellers that only the paper has."""
    printed, rubric = study.printed("table_2"), study.rubric("images")
    used, groups = set(), study.groups(rubric, people=PEOPLES, models=ALL_MODELS)
    for group, label in (*groups, *((rater, short(rater)) for rater in study.raters(rubric))):
        in_paper = f"{question} / {study.name_in_paper(group) or ''}"
        used.add(in_paper)
        dims = {"rubric": rubric, "question": question, "group": group}
        by_mean, by_any = (dims | {"threshold": SOMEWHAT, "rule": rule} for rule in ("mean", "any"))
        absent = study.no_rating(rubric, question, group)
        if study.metrics.find("share_lowest", **dims):
            absent = f"metrics.at_least has no {SOMEWHAT} that is on the scale"
        of_mean = study.cell("share_at_least", by_mean, printed=printed.at(in_paper, "somewhat by mean"), reason=absent)
        single = "the group has one rater" if study.metrics.find("share_at_least", **by_mean) else absent
        of_any = study.cell("share_at_least", by_any, printed=printed.at(in_paper, "somewhat by any"), reason=single)
        cells = (
            study.cell("share_lowest", dims, printed=printed.at(in_paper, "lowest"), reason=absent),
            of_mean,
            of_any if (group, label) in groups else PaperCell(),
        )
        yield PaperRow((titled(question), label), cells)
    yield from printed.rows_alone(
        printed.table.columns,
        headers=lambda row: (titled(question), row.partition(" / ")[2]),
        part=question,
        without=used,
    )


def estimates(study: Study) -> Iterator[PaperTable]:
    """Yield what tables 1 and 2 would have if people rated all pictures, if they rated a random part of them."""
    rubric = study.rubric("images")
    rows = [
        RowSpec((titled(question), "“Somewhat” (3) or higher"),
                {"rubric": rubric, "question": question, "threshold": SOMEWHAT, "metric": "estimated_share_at_least"})
        for question in SCALES
    ] + [
        RowSpec((titled(question), titled(answer)),
                {"rubric": rubric, "question": question, "answer": answer, "metric": "estimated_answer_share"})
        for question in DIVERSITY
        for answer in _answers(study, question, [])
    ]  # fmt: skip
    shown = []
    for row in rows:
        name = row.dims["metric"]
        dims = {key: value for key, value in row.dims.items() if key != "metric"}
        if study.metrics.find(name, **dims, source=BOTH):
            shown.append(PaperRow(row.headers, tuple(
                study.cell(name, dims | {"source": source}, reason="people’s part has no estimate")
                for source in (BOTH, PEOPLE_ALONE)
            )))  # fmt: skip
    if shown:
        yield PaperTable(
            name="tables_1_2_estimates",
            title="Tables 1 and 2 for all pictures, estimated from those that people labelled",
            citation="not in the paper; prediction-powered inference (docs/estimates.md)",
            row_headers=("Dimension", "Answer"),
            columns=(("People and models",), ("People alone",)),
            rows=tuple(shown),
            notes=("Means over all pictures of the share of people who give the answer, not majorities; n counts "
                   "pictures that people labelled.",),
        )  # fmt: skip


def figure_6(study: Study) -> PaperFigure:
    """Return the distribution of scores by labeller, as stacked bars and as a table."""
    rubric = study.rubric("images")
    raters = [(rater, short(rater)) for rater in study.raters(rubric)]
    if study.raters(rubric, kinds=("human",)):
        raters.append((ALL_PEOPLE, PEOPLES))
    numbers = study.table(
        "figure_6",
        "Distribution of the scores of pictures by labeller",
        "Century, figure 6 (drawn without numbers in the paper)",
        row_headers=("Dimension of quality", "Labeller"),
        rows=[
            RowSpec((titled(question), label), {"rubric": rubric, "question": question, "rater": rater},
                    reason=_no_share(study, question, rater))
            for question in SCALES
            for rater, label in raters
        ],
        columns=[ColumnSpec((level,), "share", {"answer": level}) for level in LEVELS],
        notes=("n counts ok ratings.",),
    )  # fmt: skip
    panels = []
    for question in SCALES:
        rows = [row for row in numbers.rows if row.headers[0] == titled(question)]
        bars = StackedBars(values(rows), [row.headers[1] for row in rows], LEVELS, legend=question == SCALES[0])
        panels.append((titled(question), bars))
    text = "Stacked bars: share of ratings with each score from 1 (not at all) to 5 (very), one bar per labeller."
    return figure(numbers, panels, description=text)


def _no_share(study: Study, question: str, rater: str) -> str:
    """Return why a rater's answers to a question have no share of a score."""
    rubric = study.rubric("images")
    if study.metrics.find("share", rubric=rubric, question=question, rater=rater):
        return "nobody gave this answer"
    return study.no_rating(rubric, question, PEOPLE if rater == ALL_PEOPLE else rater)


def reliability(study: Study, role: str) -> Iterator[PaperTable]:
    """Yield the agreement of people by question, if people rated."""
    rubric, name = study.rubric(role), RELIABILITY[role]
    if not study.raters(rubric, kinds=("human",)):
        return
    printed, icc = study.printed(name), study.printed(f"{name}_icc")
    rows = []
    answered = study.metrics.values("question", "percent_agreement", rubric=rubric, group=PEOPLE)
    for question in (name for name in RATED[role] if name in answered or name in printed.rows):
        dims = {"rubric": rubric, "question": question, "group": PEOPLE}
        within = dims | {"tolerance": f"{study.metric_settings.tolerance:g}"}
        reason = study.no_rating(rubric, question, PEOPLE)
        if study.metrics.find("percent_agreement", **dims):
            reason = f"people's answers to {question} have no scores"
        equal = study.cell("percent_agreement", dims, printed=printed.at(question, "equal"), reason=reason)
        if scored := question in SCALES or role == "responses":
            number = printed.at(question, "within one")
            reliable = study.metrics.first("icc2k", dims, reason=reason, columns="rating slots")
            others = (
                study.cell("percent_agreement_within", within, printed=number, reason=reason),
                PaperCell(reliable, icc.at(question, "icc", low="low", high="high"), "number"),
            )
        else:
            others = PaperCell(), PaperCell()
        rows.append(PaperRow(("Ordinal" if scored else "Categorical", titled(question)), (equal, *others)))
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
    dims = {"rubric": rubric, "question": DISAGREEMENT}
    metrics = study.metrics.find("agreement_with_majority", **dims, group=PEOPLE)
    shares = [metric.value for metric in metrics if metric.value is not None]
    if not shares:
        return
    rows = [PaperRow((metric.dims["rater"],), (PaperCell(metric),)) for metric in metrics]
    mean = study.metrics.first("unit_quality_mean", dims, reason="needs metrics.crowdtruth=true")
    zero = study.metrics.first("unit_quality_zero", dims, reason=str(mean.reason), bins="3")
    in_paper = study.printed("figure_7").at(DISAGREEMENT, "unit quality 0")
    rows.append(PaperRow(("all: pictures with unit quality 0",), (PaperCell(zero, in_paper),)))
    counts, edges = np.histogram(shares, bins=BINS, range=(0.0, 1.0))
    items = [float(metric.n) for metric in metrics if metric.value is not None]
    notes = (
        "Unit quality 0: the ratings of a picture, in bins disagree, neutral and agree, all differ (CrowdTruth).",
        study.people_needed(rubric, [DISAGREEMENT], items="pictures"),
    )
    numbers = PaperTable(
        name="figure_7",
        title="How often people agree with the majority on sensitivity",
        citation="Century, figure 7 (drawn without numbers in the paper)",
        row_headers=("Person",),
        columns=(("Agreement with majority",),),
        rows=tuple(rows),
        notes=tuple(filter(None, notes)),
    )
    yield figure(
        numbers,
        [
            ("People by agreement", Histogram(counts.tolist(), edges.tolist(), "agreement with majority", "people")),
            ("Agreement by pictures", Scatter(items, shares, None, "pictures rated", "agreement", (-0.03, 1.03))),
        ],
        description="Left: histogram of people by their agreement with the majority. "
        "Right: agreement by number of pictures.",
        columns=2,
    )


def participation(study: Study) -> Iterator[PaperTable]:
    """Yield the numbers of people, of their ratings and of their reports, if people rated."""
    rows = []
    for role, questions in RATED.items():
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


def terms(study: Study) -> Iterator[PaperTable]:
    """Yield tables 6 and 7, the entities by concept and type, if the report has terms of a knowledge graph."""
    by_concept = [metric for metric in study.metrics.find("entities") if "concept" in metric.dims]
    if not study.metrics.find("entities"):
        return
    by_concept.sort(key=lambda metric: (-(metric.value or 0), metric.dims["concept"]))
    concepts = [metric.dims["concept"] for metric in by_concept[:MOST_CONCEPTS]]
    rows = _entities(study, "table_6", "concept", concepts)
    yield _entity_table("table_6", "Concepts with the most entities", header="Concept", rows=rows)
    printed = study.printed("table_7")
    distinct = study.cell(
        "distinct_terms", {"source": KNOWLEDGE_GRAPH}, unit="count",
        printed=printed.at("distinct terms", "entities"), reason="no term is of a knowledge graph",
    )  # fmt: skip
    rows = _entities(study, "table_7", "entity_type", study.metrics.values("entity_type", "entities"))
    rows.append(PaperRow(("Distinct terms",), (distinct,)))
    yield _entity_table("table_7", "Entities by type", header="Entity type", rows=rows)


def _entities(study: Study, table: str, dim: str, named: Iterable[str]) -> list[PaperRow]:
    """Return one row per value of a dim, and per other one in the paper, with its number of entities.

    The number is 0 if the tables of terms have none.
    """
    printed, counted = study.printed(table), study.metrics.values(dim, "entities")
    rows = []
    for name in dict.fromkeys([*named, *(row for row in printed.rows if row != "distinct terms")]):
        metric = study.metrics.get("entities", {dim: name}) if name in counted else no_entities(dim, name)
        rows.append(PaperRow((titled(name),), (PaperCell(metric, printed.at(name, "entities"), "count"),)))
    return rows


def _entity_table(name: str, title: str, *, header: str, rows: list[PaperRow]) -> PaperTable:
    return PaperTable(
        name=name,
        title=title,
        citation=f"Century, {name.replace('_', ' ')}",
        row_headers=(header,),
        columns=(("Entities",),),
        rows=tuple(rows),
        notes=("An entity that is linked to several concepts counts for each.",),
    )
