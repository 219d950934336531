"""The spans that raters marked in the texts of an item, for its card and for links from the metrics of spans.

A metric of spans counts all texts, but the gallery shows only some of them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from jobs.analysis.span_tables import (
    GOLD,
    MISTAKE,
    MODELS,
    OMISSION,
    WRITER,
    WRITER_COLUMN,
    MarkedText,
    SpanRater,
    SpanTables,
    dims_of,
)
from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import PEOPLE
from jobs.page.card_orders import MAX_ANSWERS
from jobs.page.page_contents import AnswerEntry, CardMark, GalleryPicture, MarkedSpan, QuestionEntry, rater_label
from jobs.page.page_names import anchor

SPAN_LENGTH = 120  # characters
MAX_CARDS = 12  # of a rater
GROUP_OF = {"human": PEOPLE, "gold": GOLD}  # of kinds of raters; all others are models
KIND_OF_SCORE = {
    "mistakes": MISTAKE,
    "mistake_share": MISTAKE,
    "precision": MISTAKE,
    "omissions": OMISSION,
    "omission_share": OMISSION,
    "coverage": OMISSION,
}  # a score of descriptions that is not listed, such as quality, depends on both kinds


class MarkSelection(NamedTuple):
    """The spans that a metric rests on: those of a kind, of a rater or group, and perhaps of a writer or category."""

    rater: str
    kind: str = ""  # empty: of any kind
    writer: str = ""
    category: str = ""


def card_marks(tables: SpanTables, item_ids: Collection[str]) -> dict[str, list[CardMark]]:
    """Return the marks in the texts of items, by item_id, kind and rater; a text without spans counts as read.

    Spans are in the order of the text, and long ones are shortened. Without `texts=`, their words are unknown, and
    positions are shown instead.
    """
    marks: dict[str, list[CardMark]] = {}
    for kind, by_rater in sorted(tables.marks.items()):
        for rater, read in sorted(by_rater.items()):
            spans_of: dict[str, list[MarkedSpan]] = {}
            for text, marked in read.items():
                if text.item_id in item_ids:
                    words = None if tables.texts is None else tables.texts[text.text_id]
                    spans_of.setdefault(text.item_id, []).extend(_spans(marked, words))
            for item_id, spans in spans_of.items():
                marks.setdefault(item_id, []).append(_mark(tables, rater, kind, spans))
    return marks


def marks_of(metric: Metric) -> MarkSelection | None:
    """Return the marks that a metric rests on; None if it is not about spans or has no rater."""
    dims = metric.dims
    rater = dims.get("group") or _label(dims)
    if metric.name.startswith("description_") and rater:
        score = dims.get("score") or metric.name.removeprefix("description_")
        return MarkSelection(rater, KIND_OF_SCORE.get(score, ""), dims.get(WRITER, ""), dims.get("category", ""))
    if metric.name.startswith("span_") and rater and dims.get("status", "ok") == "ok":
        return MarkSelection(rater, dims.get("kind", ""))
    return None


def marks_anchor(marks: MarkSelection) -> str:
    """Return the anchor of the cards with these marks."""
    return anchor("marks", *(f"{name}={value}" for name, value in marks._asdict().items()), f"marks {marks.rater}")


def mark_lists(metrics: Iterable[Metric], cards: Sequence[GalleryPicture]) -> list[QuestionEntry]:
    """Return the cards of each rater's marks that `metrics` rest on, the most spans first, one list per kind.

    Cards whose texts a rater read without marking a span come last.
    """
    wanted = dict.fromkeys(marks for metric in metrics if (marks := marks_of(metric)))
    lists = []
    for kind in dict.fromkeys(marks.kind for marks in wanted):
        entries = [entry for marks in wanted if marks.kind == kind and (entry := _entry(marks, cards)).cards]
        title = f"Marked spans: {kind}" if kind else "Marked spans"
        if entries:
            lists.append(QuestionEntry(anchor("links", f"cards {title}"), title, tuple(entries[:MAX_ANSWERS])))
    return lists


def _label(dims: Mapping[str, str]) -> str:
    rater = dims.get("rater", "")
    return rater_label(rater, [(name, dims.get(name, "")) for name in ("method", "condition")]) if rater else ""


def _mark(tables: SpanTables, rater: SpanRater, kind: str, spans: Sequence[MarkedSpan]) -> CardMark:
    group = GROUP_OF.get(tables.kinds.get(rater.rater, "human"), MODELS)
    return CardMark(_label(dims_of(rater)), group, kind, tuple(spans))


def _spans(marked: MarkedText, text: str | None) -> Iterable[MarkedSpan]:
    for (start, end), category in sorted(set(zip(marked.spans, marked.categories, strict=True))):
        words = f"characters {start} to {end}" if text is None else text[start:end]
        yield MarkedSpan(words if len(words) <= SPAN_LENGTH else words[:SPAN_LENGTH] + "…", category.replace("+", ", "))


def _entry(marks: MarkSelection, cards: Sequence[GalleryPicture]) -> AnswerEntry:
    counts = {
        number: sum(_count(mark, marks.category) for mark in chosen)
        for number, card in enumerate(cards, start=1)
        if (chosen := [mark for mark in card.marks if _matches(mark, marks)])
        and (not marks.writer or marks.writer == (card.attributes.get(WRITER) or card.attributes.get(WRITER_COLUMN)))
    }
    if marks.category:
        counts = {number: count for number, count in counts.items() if count}
    ordered = sorted(counts, key=lambda number: -counts[number])
    label = " · ".join(filter(None, (marks.rater, marks.writer, marks.category)))
    return AnswerEntry(marks_anchor(marks), label, tuple(ordered[:MAX_CARDS]), max(0, len(ordered) - MAX_CARDS))


def _matches(mark: CardMark, marks: MarkSelection) -> bool:
    return marks.rater in (mark.rater, mark.group) and marks.kind in ("", mark.kind)


def _count(mark: CardMark, category: str) -> int:
    if not category:
        return len(mark.spans)
    return sum(category in span.category.split(", ") for span in mark.spans)
