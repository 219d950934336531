"""Davidsonian Scene Graph: a picture's score is the share of questions about its text that are answered yes.

Cho et al., ICLR 2024. With dependencies, a question whose parent is answered no counts as no.

Three choices reproduce the published metrics (Spearman 0.463, Kendall 0.380 on 800 pictures): take the parents listed
next to the model's answers, not those that people annotated for the prompts; use a parent's own answer, not adjusted by
its parents; and ignore parents that are not questions ("1, outside").
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.correlation import MIN_PAIRS, correlate
from jobs.metrics.intervals import Units, fisher
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, exact, mean_of, undefined

ANSWERS, SCORES = "dsg", "dsg_score"  # rubrics of the answers, and of the scores that are made of them
ROOT = {"", "0", "-", "-1", "none", "null", "nan"}  # what a list of parents may contain if there are none
YES, NO = {"yes", "y", "true", "1"}, {"no", "n", "false", "0"}
Floats = NDArray[np.float64]
READINGS = ("with dependencies", "without dependencies")
ANSWERED, PUBLISHED = "answered", "published"
CONVENTIONS = {
    ANSWERED: "without pictures that have no answer, over answered questions",
    PUBLISHED: "pictures without an answer score 0, questions without one count as no",
}
_SCORE = MetricKind("dsg_score", Quantity.FRACTION, (Topic.SCENE_GRAPHS,), label="score").defined_as(
    "Mean over pictures of the share of valid questions answered yes, {reading} (DSG, Cho et al. 2024), {convention}; "
    "n counts pictures."
)
_CORRELATION = {
    kind: MetricKind(f"dsg_{kind}", Quantity.COEFFICIENT, (Topic.SCENE_GRAPHS,)).defined_as(
        f"{kind.capitalize()} correlation of the pictures' score, {{reading}}, with the mean of people's ratings (DSG, "
        "Cho et al. 2024), {convention}; n counts pictures."
    )
    for kind in ("spearman", "kendall")
}
_INVALID = MetricKind("dsg_invalid", Quantity.COUNT, (Topic.SCENE_GRAPHS,)).defined_as(
    "Questions marked invalid, which no score includes; n counts questions."
)
_UNCLEAR = MetricKind("dsg_unclear", Quantity.COUNT, (Topic.SCENE_GRAPHS,)).defined_as(
    "Answers that are neither yes nor no (nor true, false, 1, 0), which count as no; n counts answers."
)


@dataclass(frozen=True)
class DsgQuestion:
    """A question about one picture: its id, its parents' ids, whether it is valid, and its answer or None."""

    question: str
    parents: tuple[str, ...] = ()
    valid: bool = True
    answer: str | None = None


def parents_of(listed: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the parents in a list or in a cell such as "1,2", "[1, 2]" or "1.0"; 0, -1, none and an empty cell mean no
    parents."""
    parts = re.split(r"[,;|]", listed.strip().strip("[](){}")) if isinstance(listed, str) else list(listed or ())
    return tuple(part for part in map(id_of, map(str, parts)) if part.casefold() not in ROOT)


def id_of(text: str) -> str:
    """Return a question's id in the form used by lists of parents: without quotes, and 1 for 1.0 (an integer in a
    column with empty cells)."""
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text.strip().strip("'\""))


def is_yes(answer: str | None) -> bool:
    """Return whether an answer is yes (y, true, 1), ignoring case and final punctuation; "yes, two" is not."""
    return _plain(answer) in YES


def is_unclear(answer: str | None) -> bool:
    """Return whether there is an answer and it is neither yes nor no."""
    return answer is not None and _plain(answer) not in YES | NO


def _plain(answer: str | None) -> str:
    return id_of((answer or "").strip().strip(".!").casefold())


def score(questions: Sequence[DsgQuestion], *, dependencies: bool, convention: str = ANSWERED) -> float | None:
    """Return the share of valid questions answered yes, in [0, 1]; None without a valid question or without an answer.

    Args:
        dependencies: whether a question counts as no if a parent is answered no.
        convention: of `CONVENTIONS`. `answered`: a question without an answer does not count, and does not make its
            children no. `published`: it counts as no, also for its children, as in the published evaluation.
    """
    valid = [q for q in questions if q.valid]
    counted = [q for q in valid if convention == PUBLISHED or q.answer is not None]
    if all(q.answer is None for q in valid):
        return None
    yes = {q.question: is_yes(q.answer) for q in counted}
    hits = [
        yes[q.question] and (not dependencies or all(yes.get(parent, True) for parent in q.parents)) for q in counted
    ]
    return sum(hits) / len(hits)


def answered_share(questions: Sequence[DsgQuestion]) -> float:
    """Return the share of valid questions that have an answer; 0 without a valid question."""
    valid = [q for q in questions if q.valid]
    return sum(q.answer is not None for q in valid) / len(valid) if valid else 0.0


def dsg_metrics(pictures: Mapping[str, Sequence[DsgQuestion]], people: Mapping[str, float]) -> Iterator[Metric]:
    """Yield mean scores and correlations with people, with and without dependencies, in both conventions.

    The coverage is the share of valid questions that were answered, averaged over pictures.

    Args:
        pictures: picture -> its questions; a picture of `people` that is missing here has no answer.
        people: picture -> mean rating; may be empty.

    Undefined: fewer than three pictures, or no variance.
    """
    asked = sorted({*pictures, *people})
    questions = [q for name in asked for q in pictures.get(name, ())]
    answered_questions = [q for q in questions if q.valid and q.answer is not None]
    share = sum(q.answer is not None for q in questions) / len(questions) if questions else 0.0
    yield exact(_INVALID, sum(not q.valid for q in questions), len(questions), coverage=share)
    unclear = sum(is_unclear(q.answer) for q in answered_questions)
    yield exact(_UNCLEAR, unclear, len(answered_questions), coverage=share)
    answered = np.array([answered_share(pictures.get(name, ())) for name in asked], np.float64)
    rated = np.array([name in people for name in asked], bool)
    likert = np.array([people.get(name, np.nan) for name in asked])
    coverage = float(answered.mean()) if asked else None
    for reading in READINGS:
        for convention, text in CONVENTIONS.items():
            score_of_each = [
                score(pictures.get(name, ()), dependencies=reading == READINGS[0], convention=convention)
                for name in asked
            ]
            scores = np.array([np.nan if s is None else s for s in score_of_each])
            used = np.where(np.isnan(scores), 0.0, scores) if convention == PUBLISHED else scores
            kept = ~np.isnan(used)
            dims = {"reading": reading, "convention": convention}
            yield _mean(_SCORE.worded(reading=reading, convention=text), used[kept], coverage, dims)
            if people:
                both = kept & rated
                share = float(answered[rated].mean())
                for name, of_correlation in _CORRELATION.items():
                    kind = of_correlation.worded(reading=reading, convention=text)
                    yield _correlation(kind, used[both], likert[both], name=name, coverage=share, dims=dims)


def _mean(kind: MetricKind, scores: Floats, coverage: float | None, dims: dict[str, str]) -> Metric:
    if not len(scores):
        reason, status = "no picture has an answer", "missing_input"
        return undefined(kind, reason, coverage=coverage, status=status, dims=dims)
    return mean_of(kind, scores, Units.single(len(scores), "pictures"), coverage=coverage, dims=dims)


def _correlation(kind: MetricKind, x: Floats, y: Floats, *, name: str, coverage: float, dims: dict[str, str]) -> Metric:
    value, n = correlate(x, y, name), len(x)
    if value is None:
        reason = "all scores, or all ratings by people, are equal: no variance"
        if n < MIN_PAIRS:
            reason = f"{n} pictures have a score and ratings by people: at least {MIN_PAIRS} are needed"
        return undefined(kind, reason, n=n, coverage=coverage, dims=dims)
    interval = fisher(value, n, kind=name, unit_name="pictures")
    return estimated(kind, value, n, coverage=coverage, interval=interval, dims=dims)
