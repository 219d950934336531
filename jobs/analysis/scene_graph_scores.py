"""Scores of pictures from the answers to the questions of their scene graphs: rows of table `ratings`, and metrics."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.rubrics.rubric_questions import Answer
from actors.status import Status
from jobs.judging.kept_rubric import ORDINAL, KeptQuestion, KeptRubric
from jobs.metrics import dsg
from jobs.metrics.dsg import DsgQuestion
from jobs.metrics.metric import Metric
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource
from jobs.tables import CONDITION, TABLES

QUESTIONS = {"with_dependencies": True, "without_dependencies": False}
STEPS = 20  # bins of a histogram from 0 to 1; the score 1 has its own bin
BINS = tuple(f"{step / STEPS:.2f}" for step in range(STEPS + 1))
COLUMNS = ["item_id", "target", "rubric", "question", "rater", "condition", "method", "order", "sample", "value",
           "status", "error_kind", "error_message"]  # fmt: skip
_KEY = ("item_id", "target", "rater", "condition", "method", "order", "sample")


def read_sets(questions: TableSource) -> dict[str, list[DsgQuestion]]:
    """Return the questions of each set, without answers, by set_id."""
    sets: dict[str, list[DsgQuestion]] = defaultdict(list)
    for batch in questions.batches(["set_id", "question_id", "parents", "valid"]):
        for row in batch.to_pylist():
            valid = row["valid"] is not False
            sets[row["set_id"]].append(DsgQuestion(row["question_id"], dsg.parents_of(row["parents"]), valid))
    return sets


def kept_rubric() -> KeptRubric:
    """Return the rubric of the scores: numbers from 0 to 1, whose values are the bins of a histogram."""
    text = "Share of the questions about the text that are answered yes"
    more = {True: "a question counts as no if a parent is answered no", False: "without dependencies"}
    answers = tuple(Answer(value, _label(number), number / STEPS) for number, value in enumerate(BINS))
    questions = (
        KeptQuestion(name, f"{text}, {more[dependencies]}", "", ORDINAL, answers)
        for name, dependencies in QUESTIONS.items()
    )
    return KeptRubric("answers", dsg.SCORES, tuple(questions))


def score_rows(
    ratings: pa.Table,
    sets: Mapping[str, Sequence[DsgQuestion]],
    *,
    rubric: str,
    convention: str = dsg.ANSWERED,
    tally: Counter[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield the scores of each item, by each rater, condition and sample, with and without dependencies.

    The comment of a score says how many of the valid questions were answered, unless all were.

    Args:
        ratings: all answers about these items, with `COLUMNS`; other rubrics are ignored.
        sets: set_id -> questions; an answer's target is its set_id.
        rubric: of the answers.
        convention: how questions without an answer count (`jobs.metrics.dsg.CONVENTIONS`).
        tally: counts the scored items, the valid questions about them, and those with an answer.
    """
    tally = Counter() if tally is None else tally
    answers: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in ratings.filter(pc.equal(ratings["rubric"], rubric)).to_pylist():
        answers[tuple(row[name] for name in _KEY)].append(row)
    for key, rows in answers.items():
        answer_to = {row["question"]: row["value"] for row in rows if row["status"] == Status.OK}
        graph = [replace(q, answer=answer_to.get(q.question)) for q in sets.get(key[1] or key[0], ())]
        asked = sum(q.valid for q in graph)
        answered = round(dsg.answered_share(graph) * asked)
        comment = f"{answered} of {asked} questions answered" if 0 < answered < asked else None
        if answered:
            tally.update({"scores": 1, "partial": int(answered < asked), "answered": answered, "questions": asked})
        for question, dependencies in QUESTIONS.items():
            score = dsg.score(graph, dependencies=dependencies, convention=convention)
            columns = dict(zip(_KEY, key, strict=True)) | {"target": "", "rubric": dsg.SCORES, "question": question}
            columns["comment"] = comment
            yield columns | {"answers": list(BINS)} | (_scored(score) if score is not None else _unscored(rows))


def rating_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return the rows as table `ratings`; a missing column is null."""
    return schemas.to_table(rows, TABLES["ratings"].schema())


def _scored(score: float) -> dict[str, Any]:
    return {"value": BINS[int(score * STEPS + 1e-9)], "score": score, "status": Status.OK.value}


def _unscored(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the status of an item without a score, which is that of its first question without an answer."""
    failed = next((row for row in rows if row["status"] != Status.OK), None)
    if failed is not None:
        return {name: failed[name] for name in ("status", "error_kind", "error_message")}
    message = "none of the answers is to a valid question of the set"
    return {"status": Status.SKIPPED.value, "error_kind": "no_questions", "error_message": message}


def _label(number: int) -> str:
    return "1" if number == STEPS else f"{BINS[number]} to {BINS[number + 1]}"


def dsg_metrics(
    ratings: Sequence[TableSource],
    questions: TableSource,
    *,
    rubric: str,
    likert: str | None,
    kinds: Mapping[str, str],
    exclusion_filter: ExclusionFilter,
) -> Iterator[Metric]:
    """Yield scene-graph metrics of each model. Answers are ratings of `rubric` whose question is a question_id.

    The target of a rating is the set_id of the picture's questions; if it is empty, the picture's id is the set_id. If
    the answers have several conditions, each has separate metrics, and people's ratings without a condition count under
    all of them.

    Args:
        likert: `rubric/question` of the people's ratings to correlate the scores with; those of models do not count.
        kinds: rater -> human, model, encoder or gold.
        exclusion_filter: the exclusions.
    """
    sets = read_sets(questions)
    answers: dict[tuple[str, str], dict[tuple[str, str], dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    people: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    columns = ["item_id", "target", "rubric", "question", "rater", CONDITION, "value", "score", "status"]
    of_people = tuple((likert or "/").split("/", 1))
    for source in ratings:
        for batch in source.batches(columns):
            chosen = batch.filter(pc.is_in(batch["rubric"], pa.array([rubric, of_people[0]], batch["rubric"].type)))
            for row in chosen.to_pylist():
                if exclusion_filter.hit(row["item_id"]):
                    continue
                if row["rubric"] == rubric:
                    asked = answers[row["rater"], row[CONDITION]][row["item_id"], row["target"] or row["item_id"]]
                    if row["status"] == Status.OK:
                        asked[row["question"]] = row["value"]
                elif (
                    kinds.get(row["rater"]) == "human"
                    and row["question"] == of_people[1]
                    and row["status"] == Status.OK
                    and row["score"] is not None
                ):
                    people[row[CONDITION]][row["item_id"]].append(row["score"])
    several = len({condition for _, condition in answers}) > 1
    for (rater, condition), by_picture in sorted(answers.items()):
        scores_of = people[""] | people[condition]
        means = {item: float(np.mean(scores)) for item, scores in scores_of.items()}
        pictures = {
            item: [replace(q, answer=answer_to.get(q.question)) for q in sets.get(set_id, ())]
            for (item, set_id), answer_to in by_picture.items()
        }
        for metric in dsg.dsg_metrics(pictures, means):
            yield metric.at(rater=rater, rubric=rubric, **({CONDITION: condition} if several else {}))
