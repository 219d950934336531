"""Spans that a model quotes: its answer as lines, and each quotation's place in the text.

The grammar of an answer is closed. An answer is the word `NONE`, or one quotation per line, optionally preceded by a
bullet or a number, in quotation marks, and after a label's name and a colon. A quotation repeats words of the text;
with `[[ ]]` around some of them, it repeats their context, and only the words inside are meant. Everything else is a
fault: places are never guessed.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from actors.untrusted import text_lines

Span = tuple[int, int]
NONE = "none"
ABSENT, AMBIGUOUS, UNKNOWN_LABEL, EMPTY = "absent", "ambiguous", "unknown_label", "empty_answer"
_FENCE = re.compile(r"^\s*```\w*\s*$", re.MULTILINE)
_BULLET = re.compile(r"^(?:[-*•–]|\(?\d{1,3}[.)])\s+")
_MARKS = (('"', '"'), ("“", "”"), ("„", "“"), ("‘", "’"), ("'", "'"), ("`", "`"), ("«", "»"), ("「", "」"))
_MARKED = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)


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
