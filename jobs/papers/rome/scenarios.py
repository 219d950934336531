"""Parts shared by several tables: scenarios, raters with their names, and one question's ratings."""

from jobs.analysis.attributes import HUMAN
from jobs.metrics.answers import RatingTable
from jobs.metrics.question import PEOPLE
from jobs.papers.study import Study
from jobs.store.hashing import Hashes

Rated = tuple[RatingTable, Hashes]
SCENARIO = "scenario"
RATING, COMPARISON, SCORES = "rating", "comparison", "scores"  # roles of rubrics
QUESTIONS = {RATING: "match", COMPARISON: "preference", SCORES: "with_dependencies"}  # role -> its question
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
    metrics = study.metrics.find("welch_p", **dims)
    return list(dict.fromkeys((metric.dims["first"], metric.dims["second"]) for metric in metrics))


def columns(study: Study, role: str) -> list[tuple[str, str]]:
    """Return (rater or group, label) of people, if there are any, and of each model."""
    rubric = study.rubric(role)
    people = [(PEOPLE, PEOPLE_LABEL)] if study.raters(rubric, kinds=(HUMAN,)) else []
    return people + [(rater, rater) for rater in study.raters(rubric)]


def rated(study: Study, role: str) -> Rated | None:
    """Return the ratings of a role's question and the hash of each item; None if nobody was asked."""
    return study.rated(study.rubric(role), QUESTIONS[role])


def of_paper(row: str) -> tuple[str, ...]:
    """Return the header of a printed row without a counterpart in the report."""
    return (f"{row} (paper)",)
