"""The released annotations: one row per item and labeller, with a column per question, and people under pseudonyms."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.status import Status
from jobs.annotation.century_annotations import ENDINGS, GOLD, METHOD, PERSON, QUESTIONS, RATER, SOURCE, STATUS, URL
from jobs.releasing.files import Column
from jobs.store.reading import TableSource

LABELLER = {
    METHOD: Column("human for people, else how the model answered"),
    SOURCE: Column("human, or the model with its revision"),
    RATER: Column("pseudonym of the person; empty for models"),
}
FURTHER = {  # written only if a row has a value
    "rating.rubric": Column("name of the rubric, if there are several"),
    "rating.target": Column("label that the item was rated against"),
    "rating.condition": Column("condition of the ratings"),
    "rating.order": Column("layout of the prompt, or order of presentation"),
    "rating.sample": Column("number of the sample, from 0", "integer"),
    "rating.comment": Column("comments of the person, one a line"),
}
ENDED_EACH = Column(
    "column=status of each answer that is not ok, separated by ;, an empty cell without one was not asked"
)
ENDED = Column("ok; reported or skipped by the person; refused, unparsed and so on if no question was answered")
_KEY = ("item_id", "target", "rubric", "rater", "method", "condition", "order", "sample")
_READ = (*_KEY, "question", "value", "status", "comment")


@dataclass
class Annotations:
    """Rows of annotations, sorted, and their columns.

    Attributes:
        columns: name -> column of the file.
        rows: one per item and labeller.
        left_out: reason -> number of ratings.
        people: pseudonyms; models: names.
        ratings: number of ratings in the rows.
    """

    columns: dict[str, Column]
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    people: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    ratings: int = 0


def read_annotations(
    sources: Sequence[TableSource],
    about: Callable[[str], Mapping[str, Any] | None],
    *,
    subject: Mapping[str, Column],
    pseudonym: Callable[[str], str],
    comments: bool,
    question_texts: Mapping[tuple[str, str], str],
) -> Annotations:
    """Return the annotations of the items that are released.

    Memory grows with the number of rows.

    Args:
        about: item_id -> values of the columns `subject`; None if the item is not released.
        subject: columns that identify what was rated.
        pseudonym: replaces the name of a person.
        comments: whether to keep people's comments.
        question_texts: (rubric, question) -> its text.
    """
    result = Annotations({})
    grouped: dict[tuple[Any, ...], dict[str, Any]] = {}
    comments_of: dict[tuple[Any, ...], dict[str, None]] = {}  # the same comment on several answers counts once
    questions: dict[str, Column] = {}
    for source in sources:
        for batch in source.batches(list(_READ)):
            for row in batch.to_pylist():
                subject_of = about(row["item_id"])
                if subject_of is None:
                    result.left_out["not about a released item"] += 1
                    continue
                column = column_of(row["question"])
                text = question_texts.get((row["rubric"], row["question"])) or f"answer to {row['question']}"
                questions.setdefault(column, Column(text))
                key = tuple(row[name] for name in _KEY)
                line = grouped.get(key)
                if line is None:
                    line = grouped[key] = {**subject_of, **_labeller(row, pseudonym, result), **_further(row)}
                    line[STATUS], comments_of[key] = {}, {}
                line[column] = row["value"] if row["status"] == Status.OK else None
                line[STATUS][column] = row["status"]
                if comments and row["comment"]:
                    comments_of[key].setdefault(row["comment"])
                    line["rating.comment"] = "\n".join(comments_of[key])
                result.ratings += 1
    for line in grouped.values():
        statuses = line[STATUS]
        line[STATUS] = _status(list(statuses.values()))
        not_ok = sorted((name, word) for name, word in statuses.items() if word != Status.OK)
        line[ENDINGS] = ";".join(f"{name}={word}" for name, word in not_ok) or None
    if len({line["rating.rubric"] for line in grouped.values()}) < 2:
        for line in grouped.values():
            line["rating.rubric"] = None
    if not any(line["rating.sample"] for line in grouped.values()):
        for line in grouped.values():
            line["rating.sample"] = None
    used = {name for line in grouped.values() for name, value in line.items() if value is not None}
    further = {name: column for name, column in FURTHER.items() if name in used}
    answers = {**_ordered(questions), STATUS: ENDED, ENDINGS: ENDED_EACH}
    result.columns = {**subject, **LABELLER, **further, **answers}
    result.rows = sorted(grouped.values(), key=lambda line: [str(line.get(name) or "") for name in result.columns])
    return result


def column_of(question: str) -> str:
    """Return the column of a question: for Century's labels as in its release, for others `rating.QUESTION`."""
    return QUESTIONS.get(question, f"rating.{question}")


def _ordered(questions: Mapping[str, Column]) -> dict[str, Column]:
    first = [column for column in QUESTIONS.values() if column in questions]
    return {name: questions[name] for name in (*first, *sorted(set(questions) - set(first)))}


def _labeller(row: Mapping[str, Any], pseudonym: Callable[[str], str], result: Annotations) -> dict[str, str]:
    if row["method"] in (PERSON, GOLD):  # gold ratings are people's too
        name = pseudonym(row["rater"])
        result.people.add(name)
        return {METHOD: row["method"], SOURCE: PERSON, RATER: name}
    result.models.add(row["rater"])
    return {METHOD: row["method"], SOURCE: row["rater"], RATER: ""}


def _further(row: Mapping[str, Any]) -> dict[str, Any]:
    texts = {f"rating.{name}": row[name] or None for name in ("rubric", "target", "condition", "order")}
    return {**texts, "rating.sample": row["sample"]}


def _status(statuses: Sequence[str]) -> str:
    """Return reported if the person did so, ok if any question was answered, else the first status, such as skipped."""
    for word in (Status.REPORTED.value, Status.OK.value):
        if word in statuses:
            return word
    return statuses[0]


def subject_of_pictures() -> dict[str, Column]:
    """Return the columns that identify the rated picture."""
    return {URL: Column("link to the picture", "url"), "century_id": Column("id of the picture")}
