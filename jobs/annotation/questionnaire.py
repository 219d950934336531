"""Mapping of a file's text to a rubric's answer: by value, label, label for people, or number; never guessed."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from actors.rubrics.parsing import BOOLEANS
from actors.rubrics.people import PeopleQuestion
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import ANY, Question
from actors.status import Status
from jobs.errors import InputError

ISSUE = "response_issue"  # a question of the form, not of the rubric: is something wrong with the response?
ISSUE_ANSWERS = ("no", "yes")
NO_ANSWER = "no_answer"  # error_kind of an empty cell


class Meaning(NamedTuple):
    """The answer that a text denotes, as its index among the answers; None unless the status is ok."""

    answer_index: int | None
    status: str
    kind: str | None
    message: str | None


@dataclass(frozen=True)
class AnswerSet:
    """The answers to one question, in the rubric's order.

    Attributes:
        words: index of the answer, by folded word; None for an option that means "no answer".
        ambiguous: folded words that denote several answers.
    """

    values: tuple[str, ...]
    scores: tuple[float | None, ...]
    words: Mapping[str, int | None]
    ambiguous: frozenset[str] = frozenset()

    def meaning(self, text: str | None) -> Meaning:
        """Return the answer that `text` denotes, ignoring case and extra white space; 3.0 and 3,0 mean the score 3."""
        if text is None or not text.strip():
            return Meaning(None, Status.SKIPPED.value, NO_ANSWER, "the person gave no answer")
        word = fold(text)
        if word in self.ambiguous:
            return Meaning(None, Status.OUT_OF_RANGE.value, "ambiguous", f"{text!r} names several answers")
        if word in self.words:
            index = self.words[word]
            if index is None:
                return Meaning(None, Status.REFUSED.value, "no_rating", f"{text!r} means no answer")
            return Meaning(index, Status.OK.value, None, None)
        index = self._by_number(word)
        if index is None and {"yes", "no"} <= self.words.keys():  # as programs write a column of booleans
            index = self.words.get(BOOLEANS.get(word, ""))
        if index is not None:
            return Meaning(index, Status.OK.value, None, None)
        return Meaning(
            None, Status.OUT_OF_RANGE.value, "unknown_answer", f"{text!r} is not one of {', '.join(self.values)}"
        )

    def _by_number(self, word: str) -> int | None:
        try:
            number = float(_DECIMAL_COMMA.sub(r"\1.\2", word))
        except ValueError:
            return None
        return self._by_score.get(number)

    @cached_property
    def _by_score(self) -> dict[float, int]:
        return {score: index for index, score in enumerate(self.scores) if score is not None}


@dataclass(frozen=True)
class Questionnaire:
    """The questions that people answered, and the names that a file may use for them.

    Attributes:
        names: name of the question, by folded name or text.
        asked: names of the questions that people see; empty without a rubric.
        default: the answers to every question if there is no rubric.
        targets: the rubric's targets, by name of each question about targets.
    """

    name: str
    sets: Mapping[str, AnswerSet]
    names: Mapping[str, str]
    asked: tuple[str, ...]
    default: AnswerSet | None = None
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def question(self, text: str) -> str | None:
        """Return the name of the question with this name or wording; None if there is none."""
        if text == ISSUE:
            return text
        return text if self.default and not self.names else self.names.get(fold(text))

    def answers(self, question: str) -> AnswerSet:
        """Return the answers to `question`."""
        if question == ISSUE:
            return _ISSUE_SET
        return self.sets[question] if question in self.sets else self._default()

    def _default(self) -> AnswerSet:
        assert self.default is not None
        return self.default


_DECIMAL_COMMA = re.compile(r"^(-?\d+),(\d+)$")


def fold(text: str) -> str:
    """Return `text` without case and with single spaces."""
    return " ".join(text.casefold().split())


def rubric_questionnaire(rubric: Rubric) -> Questionnaire:
    """Return the questionnaire of a rubric: the questions of its part `people`, or all if it has no such part.

    If a rubric asks items their own questions, all questions have the same answers.
    """
    people = rubric.people.questions if rubric.people else {}
    if rubric.asks_own_questions:
        return Questionnaire(rubric.name, {}, {}, (), answer_set(rubric.questions[0], people.get(ANY)))
    sets = {question.name: answer_set(question, people.get(question.name)) for question in rubric.questions}
    names: dict[str, str] = {}
    for question in rubric.questions:
        names.setdefault(fold(question.text), question.name)
    names |= {fold(question.name): question.name for question in rubric.questions}
    about = [question.name for question in rubric.questions if rubric.asks_targets and question.targets]
    return Questionnaire(rubric.name, sets, names, tuple(people or sets), targets=dict.fromkeys(about, rubric.targets))


def list_questionnaire(name: str, answers: Sequence[str], *, ordinal: bool) -> Questionnaire:
    """Return a questionnaire without a rubric, in which every question has these answers.

    Raises:
        ValueError: there are fewer than two different answers, or those of an ordinal scale are not different finite
            numbers.
    """
    values = tuple(answers)
    if len({fold(value) for value in values}) != len(values) or len(values) < 2:
        raise InputError("at least two are required, all of them different", key="answers", value=values)
    try:
        numbers = tuple(float(value) for value in values) if ordinal else ()
    except ValueError as error:
        why = f"must be numbers on an ordinal scale ({error}); for words use scale=nominal"
        raise InputError(why, key="answers", value=values) from error
    if not all(map(math.isfinite, numbers)) or len(set(numbers)) < len(numbers):
        raise InputError("must be different finite numbers on an ordinal scale", key="answers", value=values)
    words = {fold(value): index for index, value in enumerate(values)}
    return Questionnaire(name, {}, {}, (), AnswerSet(values, numbers or (None,) * len(values), words))


def answer_set(question: Question, people: PeopleQuestion | None) -> AnswerSet:
    """Return the answers of `question`. A value always denotes itself; a label of two answers denotes neither."""
    values = tuple(answer.value for answer in question.answers)
    words: dict[str, int | None] = {}
    ambiguous: set[str] = set()
    by_label = [(fold(answer.label), index) for index, answer in enumerate(question.answers)]
    index_of = {value: index for index, value in enumerate(values)}
    options = people.options if people else ()
    by_option = [(fold(o.label), None if o.value is None else index_of[o.value]) for o in options]
    for word, index in [*by_label, *by_option]:
        if words.setdefault(word, index) != index:
            ambiguous.add(word)
    folded = [fold(value) for value in values]
    by_value = {word: index for index, word in enumerate(folded)}
    duplicates = {word for word in folded if folded.count(word) > 1}  # values that differ only in case
    scores = tuple(answer.score for answer in question.answers)
    return AnswerSet(values, scores, {**words, **by_value}, frozenset((ambiguous - by_value.keys()) | duplicates))


_ISSUE_SET = AnswerSet(ISSUE_ANSWERS, (None, None), {word: index for index, word in enumerate(ISSUE_ANSWERS)})
