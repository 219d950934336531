"""What people's words stand for: a rubric's answers by value, label, people's label or number; never a guess."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from actors.status import Status
from actors.vlm.people import PeopleQuestion
from actors.vlm.rubric import Question, Rubric

ISSUE = "response_issue"  # a question of the form, not of the rubric: was something wrong with the response?
ISSUE_ANSWERS = ("no", "yes")


class Meaning(NamedTuple):
    """What a given word became: the place of the answer, None unless status is ok."""

    place: int | None
    status: str
    kind: str | None
    message: str | None


@dataclass(frozen=True)
class AnswerSet:
    """The answers to one question, in the rubric's order; `words` gives the place of each folded word.

    `words` has None for a choice of people's that stands for no answer; `ambiguous` are words of several answers.
    """

    values: tuple[str, ...]
    scores: tuple[float | None, ...]
    words: Mapping[str, int | None]
    ambiguous: frozenset[str] = frozenset()

    def meaning(self, given: str | None) -> Meaning:
        """The answer that `given` names; no case, no surplus white space, and 3.0 or 3,0 for the score 3."""
        if given is None or not given.strip():
            return Meaning(None, Status.SKIPPED.value, "no_answer", "the person gave no answer")
        word = fold(given)
        if word in self.ambiguous:
            return Meaning(None, Status.OUT_OF_RANGE.value, "ambiguous", f"{given!r} is the word of several answers")
        if word in self.words:
            place = self.words[word]
            if place is None:
                return Meaning(None, Status.REFUSED.value, "no_rating", f"{given!r} stands for no answer")
            return Meaning(place, Status.OK.value, None, None)
        if (place := self._number(word)) is not None:
            return Meaning(place, Status.OK.value, None, None)
        return Meaning(
            None, Status.OUT_OF_RANGE.value, "unknown_answer", f"{given!r} is none of {', '.join(self.values)}"
        )

    def _number(self, word: str) -> int | None:
        try:
            number = float(_DECIMAL_COMMA.sub(r"\1.\2", word))
        except ValueError:
            return None
        return self._by_score.get(number)

    @cached_property
    def _by_score(self) -> dict[float, int]:
        return {score: place for place, score in enumerate(self.scores) if score is not None}


@dataclass(frozen=True)
class Questionnaire:
    """The questions that people were asked, and how a file may call them.

    Without a rubric `default` holds for every question, and `asked` is empty.
    """

    name: str
    sets: Mapping[str, AnswerSet]
    names: Mapping[str, str]  # folded name or text -> question
    asked: tuple[str, ...]
    default: AnswerSet | None = None

    def question(self, said: str) -> str | None:
        """The question that a file calls `said`, by its name or its text; None if it is unknown."""
        if said == ISSUE:
            return said
        return said if self.default and not self.names else self.names.get(fold(said))

    def answers(self, question: str) -> AnswerSet:
        """The answers to `question`."""
        if question == ISSUE:
            return _ISSUE_SET
        return self.sets[question] if question in self.sets else self._default()

    def _default(self) -> AnswerSet:
        assert self.default is not None
        return self.default


_DECIMAL_COMMA = re.compile(r"^(-?\d+),(\d+)$")


def fold(text: str) -> str:
    """Without case and with single spaces."""
    return " ".join(text.casefold().split())


def of_rubric(rubric: Rubric) -> Questionnaire:
    """The questionnaire of a rubric; people are asked what its people's variant names, everything without one."""
    people = rubric.people.questions if rubric.people else {}
    sets = {question.name: answer_set(question, people.get(question.name)) for question in rubric.questions}
    names: dict[str, str] = {}
    for question in rubric.questions:
        names.setdefault(fold(question.text), question.name)
    names |= {fold(question.name): question.name for question in rubric.questions}
    asked = tuple(question.name for question in rubric.questions if not people or question.name in people)
    return Questionnaire(rubric.name, sets, names, asked)


def of_list(name: str, answers: Sequence[str], *, ordinal: bool) -> Questionnaire:
    """A questionnaire without a rubric: any question, all with these answers.

    Raises:
        ValueError: no two different answers, or an ordinal scale of what are no numbers.
    """
    values = tuple(answers)
    if len({fold(value) for value in values}) != len(values) or len(values) < 2:
        raise ValueError(f"answers={list(values)}: at least two different answers are needed")
    try:
        scores: tuple[float | None, ...] = tuple(float(value) if ordinal else None for value in values)
    except ValueError as error:
        raise ValueError(f"answers={list(values)}: an ordinal scale needs numbers ({error})") from error
    return Questionnaire(name, {}, {}, (), AnswerSet(values, scores, {fold(v): i for i, v in enumerate(values)}))


def answer_set(question: Question, people: PeopleQuestion | None) -> AnswerSet:
    """The words of `question`. A value always means itself; a label that two answers share means neither."""
    values = tuple(answer.value for answer in question.answers)
    words: dict[str, int | None] = {}
    ambiguous: set[str] = set()
    by_label = [(fold(answer.label), place) for place, answer in enumerate(question.answers)]
    place_of = {value: place for place, value in enumerate(values)}
    options = people.options if people else ()
    by_option = [(fold(o.label), None if o.value is None else place_of[o.value]) for o in options]
    for word, place in [*by_label, *by_option]:
        if words.setdefault(word, place) != place:
            ambiguous.add(word)
    folded = [fold(value) for value in values]
    own = {word: place for place, word in enumerate(folded)}
    doubled = {word for word in folded if folded.count(word) > 1}  # values that differ in case alone
    scores = tuple(answer.score for answer in question.answers)
    return AnswerSet(values, scores, {**words, **own}, frozenset((ambiguous - own.keys()) | doubled))


_ISSUE_SET = AnswerSet(ISSUE_ANSWERS, (None, None), {word: place for place, word in enumerate(ISSUE_ANSWERS)})
