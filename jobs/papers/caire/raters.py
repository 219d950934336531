"""The rows of CAIRE's tables: raters and the context that they were shown."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.analysis.conditions import CONDITION, LIKELIHOOD
from jobs.papers.model import PaperRow, Unit
from jobs.papers.study import Study

CALIBRATED = "log-likelihood"  # suffix of the condition of ratings by remine calibrate
ROLE, QUESTION = "relevance", "relevance"
SHOWN = {
    "encoder": "encoder",
    "none": "no context",
    "article": "linked article",
    "titles": "titles of linked articles",
    "gold": "right article",
    "likelihood": "linked article, likelihood of labels",
    "gold likelihood": "right article, likelihood of labels",
}  # role of a condition in the paper -> label, in the order of table 1


@dataclass(frozen=True)
class ShownRater:
    """A rater under one condition.

    Attributes:
        role: the paper's name of the condition (a key of `SHOWN`), or the name of any other condition.
    """

    rater: str
    condition: str
    role: str

    @property
    def label(self) -> str:
        """The context that the rater was shown."""
        return SHOWN.get(self.role, self.role or "no condition")

    def in_paper(self, study: Study) -> str:
        """Return the name of the printed row."""
        return f"{study.name_in_paper(self.rater) or self.rater} / {self.role}"


def asked(study: Study) -> list[ShownRater]:
    """Return the models and encoders that rated relevance, with their conditions, in the order of table 1."""
    rubric = study.rubric(ROLE)
    role_of = {condition: role for role, condition in study.settings.options.items() if role in SHOWN}
    judges = []
    for key in study.reduction.keys:
        if key[:2] != (rubric, QUESTION):
            continue
        condition = dict(zip(study.reduction.by, key[2:], strict=True))[CONDITION]
        for rater, methods in study.reduction.methods_of(key).items():
            kind = study.summary.raters.kinds.get(rater, "model")
            context, _, calibration = condition.rpartition("; ") if CALIBRATED in condition else (condition, "", "")
            role = role_of.get(context, condition)
            if kind == "encoder":
                role = "encoder"
            elif LIKELIHOOD in methods or calibration == CALIBRATED:
                role = "gold likelihood" if role == "gold" else "likelihood"
            if kind in ("model", "encoder"):
                judges.append(ShownRater(rater, condition, role))
    places = {role: place for place, role in enumerate(SHOWN)}
    return sorted(set(judges), key=lambda j: (places.get(j.role, len(places)), j.rater, j.condition))


def dims(study: Study, **more: str) -> dict[str, str]:
    """Return the dims of a metric of relevance."""
    return {"rubric": study.rubric(ROLE), "question": QUESTION, **more}


def with_printed(
    study: Study, table: str, rows: Sequence[tuple[str, PaperRow]], columns: list[str], *, unit: Unit = "percent"
) -> tuple[PaperRow, ...]:
    """Return the report's rows, then the rows that only the paper has.

    Args:
        rows: name of the printed row, which several raters may share, and row.
        columns: the columns of the printed table, in the order of the cells.
    """
    alone = study.printed(table).rows_alone(columns, headers=_headers, without={name for name, _ in rows}, unit=unit)
    return (*(row for _, row in rows), *alone)


def _headers(printed: str) -> tuple[str, ...]:
    rater, _, role = printed.partition(" / ")
    return (rater, SHOWN.get(role, role)) if role else (rater,)
