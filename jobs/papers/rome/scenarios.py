"""Parts that several tables share: scenarios, raters with their names, and one question's ratings."""

from collections.abc import Collection, Iterator

from jobs.analysis.conditions import CONDITION
from jobs.analysis.rater_attributes import HUMAN
from jobs.analysis.rating_codes import Reduced
from jobs.metrics.question import PEOPLE
from jobs.papers.model import PaperCell, PaperRow, Unit
from jobs.papers.study import PrintedNumbers, Study

SCENARIO = "scenario"
QUESTIONS = {"rating": "match", "comparison": "preference", "scores": "with_dependencies"}  # role -> its question
PEOPLE_LABEL = "People"


def scenario_attribute(study: Study) -> str:
    """Return the attribute of the items that divides them into scenarios."""
    return study.settings.options.get(SCENARIO, SCENARIO)


def dims_of(study: Study, role: str) -> dict[str, str]:
    """Return the dims of the metrics of a role's question."""
    return {"rubric": study.rubric(role), "question": QUESTIONS[role]}


def scenario_pairs(study: Study, role: str) -> list[tuple[str, str]]:
    """Return the pairs of scenarios that Welch's t-test compares, in the order of the report."""
    dims = dims_of(study, role) | {"attribute": scenario_attribute(study)}
    found = study.metrics.find("welch_p", **dims)
    return list(dict.fromkeys((metric.dims["first"], metric.dims["second"]) for metric in found))


def columns(study: Study, role: str) -> list[tuple[str, str]]:
    """Return (rater or group, label) of people, if there are any, and of each model."""
    rubric = study.rubric(role)
    people = [(PEOPLE, PEOPLE_LABEL)] if study.raters(rubric, kinds=(HUMAN,)) else []
    return people + [(rater, rater) for rater in study.raters(rubric)]


def reduced_question(study: Study, role: str) -> Reduced | None:
    """Return the ratings of a role's question, with people's that have no condition; None if there are none."""
    rubric, question = study.rubric(role), QUESTIONS[role]
    keys = [key for key in study.reduction.keys if key[:2] == (rubric, question)]
    if CONDITION in study.reduction.by:
        place = 2 + study.reduction.by.index(CONDITION)
        chosen = [key for key in keys if key[place] == (study.settings.condition or "")] or keys[:1]
        others = [key for key in keys if key[place] == "" and key not in chosen]
    else:
        chosen, others = keys[:1], []
    if not chosen:
        return None
    people = study.raters(rubric, kinds=(HUMAN,))
    shared = {key: [name for name in people if name in study.reduction.methods_of(key)] for key in others}
    return study.reduction.question(chosen[0], shared=shared)


def printed_only(
    printed: PrintedNumbers, width: int, *, unit: Unit = "percent", without: Collection[str] = ()
) -> Iterator[PaperRow]:
    """Yield the printed rows that have no counterpart in the report, with empty cells to `width`."""
    for row in printed.rows:
        if row not in without:
            cells = [PaperCell(printed=printed.at(row, column), unit=unit) for column in printed.table.columns]
            yield PaperRow((f"{row} (paper)",), tuple(cells + [PaperCell()] * (width - len(cells))))
