"""Spans that a model quotes: its answer as lines, and each quotation's place in the text.

The grammar of an answer is closed. An answer is the word `NONE`, or one quotation per line, optionally preceded by a
bullet or a number, in quotation marks, and after a label's name and a colon. A quotation repeats words of the text;
with `[[ ]]` around some of them, it repeats their context, and only the words inside are meant. Everything else is a
fault: places are never guessed.

`quotations` asks a model for quotations from texts, and a second time for those without a place in the text.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.marking.span_prompts import MarkingStep, Request, SpanModel, bullets
from actors.untrusted import text_lines
from actors.vlm.errors import ScoringError

Span = tuple[int, int]
NONE = "none"
ABSENT, AMBIGUOUS, UNKNOWN_LABEL, EMPTY = "absent", "ambiguous", "unknown_label", "empty_answer"
_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
_BULLET = re.compile(r"^(?:[-*•–]|\(?\d{1,3}[.)])\s+")
_MARKS = (('"', '"'), ("“", "”"), ("„", "“"), ("‘", "’"), ("'", "'"), ("`", "`"), ("«", "»"), ("「", "」"))
_MARKED = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)
_WHY = {
    ABSENT: "these words are not in the description",
    AMBIGUOUS: "these words are in the description more than once",
    UNKNOWN_LABEL: "the line does not begin with one of the labels and a colon",
    EMPTY: "write NONE if there is nothing to list",
}


class Quote(NamedTuple):
    """A line of an answer: its words, and the label before them, empty if there is none."""

    words: str
    label: str = ""


class Located(NamedTuple):
    """A quotation with its place in the text, in characters; `end` is exclusive."""

    start: int
    end: int
    label: str


class QuoteFault(NamedTuple):
    """A quotation without a place: the line as the model wrote it, and the reason."""

    line: str
    reason: str


class QuotedAnswer(NamedTuple):
    """The content of an answer: the spans by position, without duplicates, and the lines without meaning."""

    spans: list[Located]
    faults: list[QuoteFault]


def read_answer(answer: str, text: str, labels: Sequence[str], *, in_order: bool = False) -> QuotedAnswer:
    """Return the spans that a model's answer quotes from `text`.

    Args:
        labels: if there are several, each line must begin with one of them and a colon; a single one applies to all
            spans.
        in_order: the answer quotes all pieces of the text in order, so that a repeated piece has the one place between
            its neighbours.
    """
    lines = [line for line in map(str.strip, text_lines(_FENCE.sub("", answer))) if line]
    if not lines:
        return QuotedAnswer([], [QuoteFault("(no answer)", EMPTY)])
    if len(lines) == 1 and lines[0].strip(" .!*`\"'-").casefold() == NONE:
        return QuotedAnswer([], [])
    spans: dict[tuple[int, int], Located] = {}
    faults: list[QuoteFault] = []
    quotes: list[tuple[str, Quote]] = []
    for line in lines:
        quote = _quote(line, labels)
        if quote is None:
            faults.append(QuoteFault(line, UNKNOWN_LABEL))
        else:
            quotes.append((line, quote))
    places = _places([quote.words for _, quote in quotes], text, in_order=in_order)
    for (line, quote), place in zip(quotes, places, strict=True):
        if isinstance(place, str):
            faults.append(QuoteFault(line, place))
        else:
            spans.setdefault(place, Located(*place, quote.label))
    return QuotedAnswer([spans[place] for place in sorted(spans)], faults)


def occurrences(words: str, text: str) -> list[Span]:
    """Return the places in `text` of `words`, or of those in `[[ ]]` among them, ascending and without overlap.

    White space may differ, as may letter case if the words do not occur as written. Words that occur as whole words, in
    any letter case, are not looked for inside longer ones (`cat` in `catalogue`, `the` in `bathes`).
    """
    marked = _MARKED.search(words)
    before, meant, after = (words[: marked.start()], marked[1], words[marked.end() :]) if marked else ("", words, "")
    if not meant.strip():
        return []
    pattern = r"\s*".join(filter(None, [_flexible(before), f"(?P<meant>{_flexible(meant)})", _flexible(after)]))
    for form in (rf"(?<!\w){pattern}(?!\w)", pattern):
        for flags in (0, re.IGNORECASE):
            if places := [match.span("meant") for match in re.finditer(form, text, flags)]:
                return places
    return []


def _flexible(words: str) -> str:
    """Return a pattern that matches `words` with any white space between them."""
    return r"\s+".join(map(re.escape, words.split()))


def _quote(line: str, labels: Sequence[str]) -> Quote | None:
    """Return the quotation in a line; None if it begins with none of several labels."""
    words, label = _BULLET.sub("", line), labels[0] if len(labels) == 1 else ""
    if len(labels) > 1:
        name, colon, rest = words.partition(":")
        by_name = {name.casefold(): name for name in labels}
        label = by_name.get(name.strip(" *`\"'[]").casefold().replace(" ", "_"), "")
        if not colon or not label:
            return None
        words = rest.strip()
    for opening, closing in _MARKS:
        inner = words[len(opening) : -len(closing)]
        if words.startswith(opening) and words.endswith(closing) and closing not in inner and inner:
            words = inner
            break
    return Quote(words.strip(), label)


def _places(quotes: Sequence[str], text: str, *, in_order: bool) -> list[Span | str]:
    """Return the place of each quotation, or why it has none.

    If words are quoted as often as they occur, they are at all their places.
    """
    candidates = [occurrences(words, text) for words in quotes]
    counts, seen = Counter(quotes), Counter[str]()
    places: list[Span | str] = []
    for words, spans in zip(quotes, candidates, strict=True):
        number = seen[words]
        seen[words] += 1
        if not spans:
            places.append(ABSENT)
        elif len(spans) == 1 or len(spans) == counts[words]:
            places.append(spans[min(number, len(spans) - 1)])
        else:
            places.append(AMBIGUOUS)
    if in_order:
        _place_between(places, candidates)
    return places


def _place_between(places: list[Span | str], candidates: Sequence[Sequence[Span]]) -> None:
    """Give each ambiguous piece the candidate between its neighbours, if there is only one."""
    for number, place in enumerate(places):
        if place != AMBIGUOUS:
            continue
        before = next((p[1] for p in reversed(places[:number]) if isinstance(p, tuple)), 0)
        after = next((p[0] for p in places[number + 1 :] if isinstance(p, tuple)), None)
        between = [
            (start, end) for start, end in candidates[number] if start >= before and (after is None or end <= after)
        ]
        if len(between) == 1:
            places[number] = between[0]


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
