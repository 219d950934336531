"""Readings of raters from tables `spans`: the texts that each rater read, and the spans marked in them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.status import Status
from jobs.errors import InputError
from jobs.metrics.spans import Span
from jobs.store.reading import TableSource

COLUMNS = "item_id rater condition method text_id kind start end category marked probability status".split()
HUMAN = "human"  # method of people's spans
WRITER, WRITER_COLUMN = "model", "text_column"  # attributes of items with the writer of the generated text


class SpanRater(NamedTuple):
    """A rater, with the method and the condition in which it marked spans."""

    rater: str
    method: str
    condition: str


class TextOfItem(NamedTuple):
    """A text as part of an item: a correct description that belongs to four generated ones counts as four texts."""

    item_id: str
    text_id: str


@dataclass
class MarkedText:
    """One rater's marks in one text; `claims` has the probabilities of all claims, marked or not."""

    spans: list[Span] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)  # of the spans, empty if unknown
    claims: list[tuple[int, int, float]] = field(default_factory=list)


Readings = dict[SpanRater, dict[TextOfItem, MarkedText]]


def read_marks(sources: Sequence[TableSource]) -> dict[str, Readings]:
    """Return the marks by kind, rater and text.

    A text is left out for a rater with a row whose status is not ok, because its marks are unknown or incomplete. A
    rater with an ok row about an item has read all of its texts that have rows of this kind by any rater.

    Raises:
        InputError: a span that ends before it starts.
    """
    marks: dict[str, Readings] = defaultdict(lambda: defaultdict(dict))
    incomplete: dict[str, dict[SpanRater, set[TextOfItem]]] = defaultdict(lambda: defaultdict(set))
    for source in sources:
        for batch in source.batches(COLUMNS):
            for row in batch.to_pylist():
                rater = SpanRater(row["rater"], row["method"], row["condition"])
                text = TextOfItem(row["item_id"], row["text_id"])
                if row["status"] == Status.OK:
                    _add(marks[row["kind"]][rater].setdefault(text, MarkedText()), row, source.uri)
                else:
                    incomplete[row["kind"]][rater].add(text)
    _add_unmarked(marks)
    for kind, of_kind in incomplete.items():
        for rater, texts in of_kind.items():
            for text in texts:
                marks[kind][rater].pop(text, None)
    return {kind: {rater: texts for rater, texts in by_rater.items() if texts} for kind, by_rater in marks.items()}


def read_statuses(sources: Sequence[TableSource]) -> dict[str, dict[SpanRater, dict[TextOfItem, str]]]:
    """Return the status of each text by kind and rater: that of a row that is not ok, else ok."""
    statuses: dict[str, dict[SpanRater, dict[TextOfItem, str]]] = defaultdict(lambda: defaultdict(dict))
    for source in sources:
        for batch in source.batches(["item_id", "rater", "condition", "method", "text_id", "kind", "status"]):
            for row in batch.to_pylist():
                of_rater = statuses[row["kind"]][SpanRater(row["rater"], row["method"], row["condition"])]
                text = TextOfItem(row["item_id"], row["text_id"])
                if row["status"] != Status.OK or text not in of_rater:
                    of_rater[text] = row["status"]
    return statuses


def _add(marked: MarkedText, row: Mapping[str, Any], uri: str) -> None:
    start, end = row["start"], row["end"]
    if start < 0 or end < start:
        raise InputError(f"text_id={row['text_id']}: span from {start} to {end}; must be 0 <= start <= end", place=uri)
    if end == start:
        return
    if row["probability"] is not None:
        marked.claims.append((start, end, row["probability"]))
    if row["marked"] is not False:
        marked.spans.append((start, end))
        marked.categories.append(row["category"] or "")


def _add_unmarked(marks: Mapping[str, Readings]) -> None:
    """Add to `marks` the texts that raters read without marking anything.

    A text counts as read by a rater if the rater has rows of its item, and other raters have rows of the text.
    """
    read_items: dict[SpanRater, set[str]] = defaultdict(set)
    for by_rater in marks.values():
        for rater, texts in by_rater.items():
            read_items[rater] |= {text.item_id for text in texts}
    for by_rater in marks.values():
        texts_of: dict[str, set[TextOfItem]] = defaultdict(set)
        for texts in by_rater.values():
            for text in texts:
                texts_of[text.item_id].add(text)
        for rater, items in read_items.items():
            for text in {text for item in items for text in texts_of.get(item, ())}:
                by_rater[rater].setdefault(text, MarkedText())


def check_places(marks: Mapping[str, Readings], texts: Mapping[str, str]) -> None:
    """Check that all spans are within their texts.

    Raises:
        InputError: a span is outside of its text; the message describes the first one.
    """
    for by_rater in marks.values():
        for rater, of_rater in by_rater.items():
            for text, marked in of_rater.items():
                length = len(texts[text.text_id])
                for start, end in marked.spans:
                    if end > length:
                        raise InputError(
                            f"spans of {rater.rater}: item_id={text.item_id}, text_id={text.text_id}: the span from "
                            f"{start} to {end} is outside of the text of {length} characters; offsets count characters "
                            "(code points) of the text in texts="
                        )


def without_items(marks: Mapping[str, Readings], items: Collection[str]) -> dict[str, Readings]:
    """Return the readings without the texts of some items, and without raters who then have no texts."""
    kept = {
        kind: {
            rater: {text: marked for text, marked in texts.items() if text.item_id not in items}
            for rater, texts in by_rater.items()
        }
        for kind, by_rater in marks.items()
    }
    return {kind: {rater: texts for rater, texts in by_rater.items() if texts} for kind, by_rater in kept.items()}


@dataclass(frozen=True)
class MarkedItem:
    """An item's facts from table `items`: its picture, and the model that wrote its text, empty if unknown."""

    picture: str
    writer: str = ""


def read_marked_items(items: Sequence[TableSource], wanted: Iterable[str]) -> dict[str, MarkedItem]:
    """Return picture and writer of those items `wanted` that are in the tables.

    Raises:
        InputError: two tables give an item different pictures or writers.
    """
    ids, first = set(wanted), dict[str, str]()
    marks_by_item: dict[str, MarkedItem] = {}
    for source in items:
        for batch in source.batches(["item_id", "image_ids", "attributes"]):
            for row in batch.to_pylist():
                if row["item_id"] not in ids:
                    continue
                attributes = dict(row["attributes"] or ())
                writer = attributes.get(WRITER) or attributes.get(WRITER_COLUMN) or ""
                item = MarkedItem(" ".join(row["image_ids"] or ()) or row["item_id"], writer)
                if marks_by_item.setdefault(row["item_id"], item) != item:
                    raise InputError(
                        f"items={first[row['item_id']]}: item {row['item_id']} has another picture or writer in "
                        f"{source.uri}; list only one of the tables"
                    )
                first.setdefault(row["item_id"], source.uri)
    return marks_by_item


def read_texts(sources: Sequence[TableSource], wanted: set[str]) -> dict[str, str]:
    """Return the texts `wanted` by text_id.

    Raises:
        InputError: a text is missing, or two tables have different words for it.
    """
    texts: dict[str, str] = {}
    first: dict[str, str] = {}  # text -> its first table
    for source in sources:
        for batch in source.batches(["text_id", "text"]):
            for text_id, text in zip(batch["text_id"].to_pylist(), batch["text"].to_pylist(), strict=True):
                if text_id not in wanted or text is None:
                    continue
                if texts.setdefault(text_id, text) != text:
                    raise InputError(
                        f"texts={first[text_id]}: text {text_id} differs in {source.uri}; list only one of the tables"
                    )
                first.setdefault(text_id, source.uri)
    if missing := sorted(wanted - texts.keys()):
        raise InputError(
            f"texts={sources[0].uri}: {len(missing):,} of the {len(wanted):,} texts with spans are in no table, such "
            f"as {missing[0]}; add their tables, or omit texts="
        )
    return texts


def methods_of(sources: Sequence[TableSource]) -> Mapping[str, set[str]]:
    """Return the methods of each rater's spans."""
    methods: dict[str, set[str]] = defaultdict(set)
    for source in sources:
        for batch in source.batches(["rater", "method"]):
            for row in batch.group_by(["rater", "method"]).aggregate([]).to_pylist():
                methods[row["rater"]].add(row["method"])
    return methods
