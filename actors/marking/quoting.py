"""Asking a model for quotations from texts, and a second time for those without a place in the text."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.marking.model import Request, SpanModel, bullets
from actors.marking.prompts import MarkingStep
from actors.marking.quotes import (
    ABSENT,
    AMBIGUOUS,
    EMPTY,
    UNKNOWN_LABEL,
    Located,
    QuotedAnswer,
    QuoteFault,
    read_answer,
)
from actors.vlm.errors import ScoringError

_WHY = {
    ABSENT: "these words are not in the description",
    AMBIGUOUS: "these words are in the description more than once",
    UNKNOWN_LABEL: "the line does not begin with one of the labels and a colon",
    EMPTY: "write NONE if there is nothing to list",
}


class Quoted(NamedTuple):
    """The quotations from a text after one or two questions.

    Attributes:
        spans: the quotations with a place, by position.
        faults: the quotations without a place; empty if the answer is complete.
        was_asked_again: whether the second question was asked.
    """

    spans: list[Located]
    faults: list[QuoteFault]
    was_asked_again: bool = False


class Passage(NamedTuple):
    """A text to quote from, and the two steps of its prompts.

    Attributes:
        labels: see `actors.marking.quotes.read_answer`.
        in_order: see that function.
    """

    text: str
    first: MarkingStep
    again: MarkingStep
    words: Mapping[str, str]
    pictures: tuple[object, ...] = ()
    labels: tuple[str, ...] = ("",)
    in_order: bool = False

    def read(self, answer: str) -> QuotedAnswer:
        """Return the quotations in an answer."""
        return read_answer(answer, self.text, self.labels, in_order=self.in_order)


def quotations(model: SpanModel, passages: Sequence[Passage]) -> list[Quoted | ScoringError]:
    """Return the quotations from each text, or why the model gave none.

    A line without a place in its text is sent back once, with the reason, and the new quotations are added.
    """
    written = model.write([Request(p.first, p.words, p.pictures) for p in passages])
    answers = [
        text if isinstance(text, ScoringError) else passage.read(text)
        for passage, text in zip(passages, written, strict=True)
    ]
    results: list[Quoted | ScoringError] = [
        answer if isinstance(answer, ScoringError) else Quoted(answer.spans, answer.faults) for answer in answers
    ]
    faulty = [n for n, answer in enumerate(answers) if isinstance(answer, QuotedAnswer) and answer.faults]
    again = []
    for number in faulty:
        passage, quoted = passages[number], results[number]
        assert isinstance(quoted, Quoted)
        faults = bullets([f"{fault.line} ({_WHY[fault.reason]})" for fault in quoted.faults])
        again.append(Request(passage.again, {**passage.words, "faults": faults}, passage.pictures))
    for number, text in zip(faulty, model.write(again) if again else [], strict=True):
        first = results[number]
        assert isinstance(first, Quoted)
        if isinstance(text, ScoringError):
            results[number] = first._replace(was_asked_again=True)
            continue
        second = passages[number].read(text)
        spans = {(span.start, span.end): span for span in (*second.spans, *first.spans)}
        results[number] = Quoted([spans[place] for place in sorted(spans)], second.faults, was_asked_again=True)
    return results
