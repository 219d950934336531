"""Rows of the table `ratings`, made from a scorer's results."""

from collections.abc import Sequence

import pyarrow as pa

from actors import schemas
from actors.rubrics.rubric_questions import Question
from actors.schemas import RatingRow, failed
from actors.status import Status
from actors.vlm.errors import ScoringError
from actors.vlm.scoring_requests import Scores

METHOD = "closed"
METHODS = {"code": METHOD, "sequence": "closed_sequence"}  # by the rule of `actors.vlm.scoring_requests`


def rating_table(rows: Sequence[RatingRow]) -> pa.Table:
    """Return the rows as table `ratings`; a missing column is null."""
    return schemas.to_table(rows, schemas.RATINGS)


def rating_key(
    *,
    item_id: str,
    rubric: str,
    question: str,
    rater: str,
    method: str,
    target: str = "",
    condition: str = "",
    order: str = "",
    sample: int = 0,
) -> RatingRow:
    """Return the key columns of a row of table `ratings`."""
    return {
        "item_id": item_id,
        "target": target,
        "rubric": rubric,
        "question": question,
        "rater": rater,
        "condition": condition,
        "method": method,
        "order": order,
        "sample": sample,
    }


def scored(question: Question, scores: Scores) -> RatingRow:
    """Return the columns of an answered question: the most likely answer (the first if tied) and the mean score."""
    likeliest = max(range(len(question.answers)), key=lambda place: scores.probabilities[place])
    answer = question.answers[likeliest]
    pairs = zip(scores.probabilities, question.answers, strict=True)
    expected = None if answer.score is None else sum(share * (option.score or 0.0) for share, option in pairs)
    return {
        "answers": [answer.value for answer in question.answers],
        "probabilities": list(scores.probabilities),
        "outside_mass": scores.outside_mass,
        "value": answer.value,
        "score": answer.score,
        "expected": expected,
        "status": Status.OK.value,
    }


def answered(question: Question, result: Scores | ScoringError, truncated: Sequence[str] | None = None) -> RatingRow:
    """Return the columns of a question that the model was asked.

    Args:
        truncated: the context fields that were cut; None if the context is whole.
    """
    if isinstance(result, ScoringError):
        return failed(RatingRow, Status.ERROR, result)
    return {**scored(question, result), "truncated": None if truncated is None else list(truncated)}
