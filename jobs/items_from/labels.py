"""The majority label of each picture for each question, from tables of ratings, as attributes of items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.analysis.rater_attributes import HUMAN, read_raters
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.reduced_question import Reduced
from jobs.errors import InputError
from jobs.metrics.majority import NO_MAJORITY, majority, pooled_counts
from jobs.metrics.question import matching
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

EVERYONE, PEOPLE, MODELS = "everyone", "people", "models"
NO_RATING = "(no rating)"
_NO_RATING, _NO_MAJORITY = -2, -1


@dataclass(frozen=True)
class QuestionLabels:
    """The labels for one question.

    Attributes:
        items: uint64[n], hashes of the rated items' ids, ascending.
        codes: int16[n], index in `names`; -1 without a majority, -2 without a rating.
        names: the answers; those that mean "none" are pooled (`jobs.metrics.majority.pooled`).
    """

    items: Hashes
    codes: NDArray[np.int16]
    names: tuple[str, ...]

    def of(self, ids: Sequence[str]) -> list[str]:
        """Return the label of each item, `(no majority)` or `(no rating)`."""
        if not len(self.items):
            return [NO_RATING] * len(ids)
        hashes = hash_texts(ids)
        row = np.minimum(np.searchsorted(self.items, hashes), len(self.items) - 1)
        codes = np.where(self.items[row] == hashes, self.codes[row], _NO_RATING)
        special = {_NO_MAJORITY: NO_MAJORITY, _NO_RATING: NO_RATING}
        return [special.get(code) or self.names[code] for code in codes.tolist()]


Labels = Mapping[str, QuestionLabels]  # by question


def read_labels(sources: Sequence[TableSource], *, questions: Sequence[str], by: str) -> Labels:
    """Return the majority label of each rated item, for each question.

    A majority is more than half of an item's ratings, where several by one rater (samples, layouts) count as one
    (`jobs.metrics.majority`). Ratings against a target do not count. Memory: one question's ratings
    (`jobs.analysis.rating_codes`), then 10 B per rated item and question.

    Args:
        sources: tables of ratings.
        questions: the questions to read; empty: all.
        by: whose ratings count: everyone, people, models, or a glob of raters. Gold counts only if a glob matches it.

    Raises:
        InputError: a question does not exist, is asked by several rubrics or under several conditions, has too many
            answers, or has no ratings by the chosen raters.
    """
    asked: dict[str, set[tuple[str, str]]] = {}  # (rubric, condition) by question
    with Reduction() as reduction:
        for source in sources:
            for batch in source.batches(list(dict.fromkeys([*reduction.columns, "condition"]))):
                rows = batch.filter(pc.equal(batch["target"], ""))
                if questions:
                    rows = rows.filter(pc.is_in(rows["question"], pa.array(list(questions), pa.string())))
                for question, *variant in _groups(rows):
                    asked.setdefault(question, set()).add((variant[0], variant[1]))
                reduction.add(rows)
        _check_asked(asked, questions)
        kinds = read_raters((), reduction.methods, gold=(), groups=()).kinds
        return {key[1]: _labels(reduction.question(key), kinds, by) for key in reduction.keys}


def _labels(reduced: Reduced, kinds: Mapping[str, str], by: str) -> QuestionLabels:
    question = reduced.key[1]
    raters = {
        EVERYONE: [name for name in reduced.answers.raters if kinds[name] != "gold"],
        PEOPLE: [name for name in reduced.answers.raters if kinds[name] == HUMAN],
        MODELS: [name for name in reduced.answers.raters if kinds[name] == "model"],
    }.get(by) or matching(reduced.answers.raters, by)
    if not raters:
        available = ", ".join(reduced.answers.raters)
        raise InputError(
            f"labels_by={by}: no such rater of {question}; there are {available}, and {EVERYONE}, {PEOPLE}, {MODELS}"
        )
    answers = reduced.answers.of_raters(raters)
    if not answers.values and answers.n:
        raise InputError(f"label_questions: {question} has too many different answers; name questions with a few")
    names, counts = pooled_counts(answers)
    codes = np.where(counts.sum(1) > 0, majority(counts), _NO_RATING).astype(np.int16)
    order = np.argsort(reduced.item, kind="stable")
    return QuestionLabels(reduced.item[order], codes[order], names)


def _check_asked(asked: Mapping[str, set[tuple[str, str]]], questions: Sequence[str]) -> None:
    if missing := next((name for name in questions if name not in asked), None):
        raise InputError(
            f"label_questions: no ratings of {missing} without a target in labels=; there are "
            f"{', '.join(sorted(asked)) or 'none of those that are named'}"
        )
    if not asked:
        raise InputError("labels: no ratings without a target; a label is an answer about the picture alone")
    for question, variants in sorted(asked.items()):
        if len(variants) > 1:
            ways = ", ".join(
                f"rubric {rubric}, condition {condition or 'none'}" for rubric, condition in sorted(variants)
            )
            raise InputError(f"labels: {question} was asked in several ways ({ways}); name tables of one of them")


def _groups(rows: pa.Table) -> set[tuple[str, str, str]]:
    """Return the distinct (question, rubric, condition)."""
    columns = ["question", "rubric", "condition"]
    groups = rows.group_by(columns).aggregate([])
    return set(zip(*(groups[name].to_pylist() for name in columns), strict=True))
