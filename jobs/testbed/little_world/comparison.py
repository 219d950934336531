"""Comparison of answers with the census: shares of correct answers, each with the share expected by chance."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from jobs.errors import RunError


class Compared(NamedTuple):
    """A share of correct answers, the share expected from guessing, and the number of answers."""

    name: str
    share: float
    chance: float
    n: int

    @property
    def least(self) -> float:
        """The share that models must reach to count as working: halfway between chance and 1."""
        return (1 + self.chance) / 2

    def __str__(self) -> str:
        return f"{self.name:24}{self.share:12.2f}{self.chance:12.2f}"


def accuracies(ratings: Iterable[Mapping[str, Any]], truths: Mapping[str, Mapping[str, str]]) -> list[Compared]:
    """Return the share of correct answers to each question.

    Args:
        ratings: rows of the table `ratings`; rows that are not ok count as wrong.
        truths: the true value of each question, by item.
    """
    right: dict[str, list[bool]] = defaultdict(list)
    options: dict[str, int] = {}
    for row in ratings:
        truth = truths[row["item_id"]][row["question"]]
        right[row["question"]].append(row["status"] == "ok" and row["value"] == truth)
        options[row["question"]] = max(options.get(row["question"], 1), len(row["answers"] or ()))
    return [Compared(name, sum(hits) / len(hits), 1 / options[name], len(hits)) for name, hits in right.items()]


def agreement(ratings: Iterable[Mapping[str, Any]], people: Iterable[Mapping[str, Any]]) -> Compared:
    """Return how often a judge gives a person's answer, and how often it would without looking at the picture.

    Chance is the share of equal answers among all pairs of a judge's and a person's answer to the same question.
    """
    judge_answers = {(row["item_id"], row["question"]): row["value"] for row in ratings if row["status"] == "ok"}
    judged: dict[str, list[str]] = defaultdict(list)
    for (_, question), value in judge_answers.items():
        judged[question].append(value)
    equal, expected = [], []
    for row in people:
        if (row["item_id"], row["question"]) in judge_answers:
            equal.append(judge_answers[row["item_id"], row["question"]] == row["value"])
            answers = judged[row["question"]]
            expected.append(answers.count(row["value"]) / len(answers))
    if not equal:
        return Compared("agreement with people", 0.0, 0.0, 0)
    return Compared("agreement with people", sum(equal) / len(equal), sum(expected) / len(expected), len(equal))


def check(answers: Sequence[Compared]) -> None:
    """Check that the models' answers depend on the pictures.

    Raises:
        RunError: a share is closer to chance than to 1.
    """
    if low := [f"{a.name} ({a.share:.2f}; at least {a.least:.2f})" for a in answers if a.share < a.least]:
        raise RunError(
            f"demo: {', '.join(low)}: too few right answers; the installed torch or transformers may compute other "
            "values than the versions in constraints.txt; install those"
        )
