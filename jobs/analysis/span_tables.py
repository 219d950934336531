"""Readings of raters from tables `spans`, and their metrics: against gold and people, agreement, and the scores of the
described pictures.

A reading is the texts that a rater read, and the spans marked in them.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.status import Status
from jobs.analysis.assigned_items import ItemAssignment
from jobs.errors import InputError
from jobs.metrics import description_scores, spans
from jobs.metrics.description_scores import Descriptions
from jobs.metrics.estimates import drawn_part
from jobs.metrics.intervals import Units
from jobs.metrics.metric import Metric, undefined
from jobs.metrics.model_scores import RaterGroup
from jobs.metrics.prediction_powered import RandomPart
from jobs.metrics.rated_question import PEOPLE, MetricSettings
from jobs.metrics.rating_plans import BOTH
from jobs.metrics.spans import Span
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import hash_texts
from jobs.store.reading import TableSource
from jobs.tables import HUMAN

COLUMNS = "item_id rater condition method text_id kind start end category marked probability status".split()
WRITER, WRITER_COLUMN = "model", "text_column"  # attributes of items with the writer of the generated text
Floats = NDArray[np.float64]
MISTAKE, OMISSION = "mistake", "omission"  # kinds of spans, marked in the generated and in the correct text
GOLD, MODELS = "gold", "models"
SPAN_SCORERS = "the scores from this rater's spans"


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
Statuses = dict[str, dict[SpanRater, dict[TextOfItem, str]]]  # kind -> rater -> text -> status


def read_marks(sources: Sequence[TableSource]) -> tuple[dict[str, Readings], Statuses]:
    """Return the marks and the statuses by kind, rater and text.

    The status of a text is that of a row that is not ok, else ok. A text whose status is not ok has no marks, because
    they are unknown or incomplete. A rater with an ok row about an item has read all of its texts that have rows of
    this kind by any rater.

    Raises:
        InputError: a span that ends before it starts.
    """
    marks: dict[str, Readings] = defaultdict(lambda: defaultdict(dict))
    statuses: Statuses = defaultdict(lambda: defaultdict(dict))
    for source in sources:
        for batch in source.batches(COLUMNS):
            for row in batch.to_pylist():
                rater = SpanRater(row["rater"], row["method"], row["condition"])
                text = TextOfItem(row["item_id"], row["text_id"])
                of_rater = statuses[row["kind"]][rater]
                if row["status"] == Status.OK:
                    _add(marks[row["kind"]][rater].setdefault(text, MarkedText()), row, source.uri)
                if row["status"] != Status.OK or text not in of_rater:
                    of_rater[text] = row["status"]
    _add_unmarked(marks)
    for kind, by_rater in statuses.items():
        for rater, texts in by_rater.items():
            for text, status in texts.items():
                if status != Status.OK:
                    marks[kind][rater].pop(text, None)
    read = {kind: {rater: texts for rater, texts in of_kind.items() if texts} for kind, of_kind in marks.items()}
    return read, statuses


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
                        f"item {row['item_id']} has another picture or writer in {source.uri}",
                        key="items",
                        value=first[row["item_id"]],
                        remedy="list only one of the tables",
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
                        f"text {text_id} differs in {source.uri}",
                        key="texts",
                        value=first[text_id],
                        remedy="list only one of the tables",
                    )
                first.setdefault(text_id, source.uri)
    if missing := sorted(wanted - texts.keys()):
        raise InputError(
            f"{len(missing):,} of the {len(wanted):,} texts with spans are in no table, such as {missing[0]}",
            key="texts",
            value=sources[0].uri,
            remedy="add their tables, or omit texts=",
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


@dataclass(frozen=True)
class SpanTables:
    """The readings of tables `spans`, with the texts and items that they refer to.

    Attributes:
        marks: kind -> rater -> text -> marks.
        texts: text_id -> text; None without tables of texts.
        items: item_id -> picture and writer; empty without tables of items.
        kinds: rater -> human, model, encoder or gold.
        statuses: kind -> rater -> text -> status, of all texts.
    """

    marks: Mapping[str, Readings]
    texts: Mapping[str, str] | None
    kinds: Mapping[str, str]
    items: Mapping[str, MarkedItem] = field(default_factory=dict)
    statuses: Mapping[str, Mapping[SpanRater, Mapping[TextOfItem, str]]] = field(default_factory=dict)

    def raters(self, *kinds: str) -> list[SpanRater]:
        """Return the raters of these kinds, sorted."""
        everyone = {rater for by_rater in self.marks.values() for rater in by_rater}
        return sorted(rater for rater in everyone if self.kinds.get(rater.rater, HUMAN) in kinds)

    def picture(self, item_id: str) -> str:
        """Return the picture of an item; without tables of items, the item itself."""
        return self.items[item_id].picture if item_id in self.items else item_id


def read_span_tables(
    sources: Sequence[TableSource],
    texts: Sequence[TableSource],
    items: Sequence[TableSource],
    *,
    kinds: Mapping[str, str],
    exclusion_filter: ExclusionFilter,
) -> SpanTables:
    """Read the spans, and the texts and items that they refer to, except those of excluded pictures.

    Args:
        kinds: rater -> human, model, encoder or gold.
        exclusion_filter: the exclusions.

    Raises:
        InputError: `texts` lack a text with spans, a span is outside of its text, or two tables contradict each other.
    """
    marks, all_statuses = read_marks(sources)
    keys = {text for by_rater in marks.values() for read in by_rater.values() for text in read}
    text_of = read_texts(texts, {text.text_id for text in keys}) if texts else None
    if text_of is not None:
        check_places(marks, text_of)
    names = {text.item_id for by_rater in all_statuses.values() for of_rater in by_rater.values() for text in of_rater}
    marked_items = read_marked_items(items, {*names, *(text.item_id for text in keys)})
    excluded: set[str] = set()
    if exclusion_filter:
        pictures = {name: item.picture.split() for name, item in marked_items.items()}
        excluded = {name for name in names if exclusion_filter.hit(name, *pictures.get(name, ()))}
        marks = without_items(marks, excluded)
    statuses = {
        kind: {
            rater: {text: status for text, status in texts_of.items() if text.item_id not in excluded}
            for rater, texts_of in by_rater.items()
        }
        for kind, by_rater in all_statuses.items()
    }
    return SpanTables(marks, text_of, kinds, marked_items, statuses)


def span_metrics(
    tables: SpanTables, settings: MetricSettings, assignment: ItemAssignment | None = None
) -> Iterator[Metric]:
    """Yield the status of texts, the metrics of spans by kind, and the scores of descriptions and their
    correlations.

    Args:
        assignment: which descriptions people were given; None: unknown.
    """
    for kind, by_rater in sorted(tables.statuses.items()):
        for rater, statuses in sorted(by_rater.items()):
            pictures = [tables.picture(text.item_id) for text in statuses]
            for metric in spans.status_shares([*statuses.values()], pictures):
                yield metric.at(**dims_of(rater), kind=kind)
    for kind in sorted(tables.marks):
        yield from _of_kind(tables, kind, settings.overlap)
    yield from _of_descriptions(tables, settings, assignment)


def dims_of(rater: SpanRater) -> dict[str, str]:
    """Return the dims that identify a rater."""
    named = {
        "rater": rater.rater,
        "method": "" if rater.method == HUMAN else rater.method,
        "condition": rater.condition,
    }
    return {name: value for name, value in named.items() if value}


def _of_kind(tables: SpanTables, kind: str, overlap: float) -> Iterator[Metric]:
    """Yield comparisons of each rater with gold and with people, of people with each other, and the agreement."""
    by_rater = tables.marks[kind]
    references = {name: _of(by_rater, tables.raters(k)) for name, k in ((GOLD, GOLD), (PEOPLE, HUMAN))}
    for rater in sorted(by_rater):
        kind_of_rater = tables.kinds.get(rater.rater, HUMAN)
        for name, people in references.items():
            if not people or kind_of_rater == GOLD or (name == PEOPLE and kind_of_rater == HUMAN):
                continue
            dims = {**dims_of(rater), "kind": kind, "against": name}
            yield from _against(tables, {rater: by_rater[rater]}, people, overlap, dims)
    if len(references[PEOPLE]) > 1:
        dims = {"rater": PEOPLE, "kind": kind, "against": PEOPLE}
        yield from _against(tables, references[PEOPLE], references[PEOPLE], overlap, dims)
    groups = {PEOPLE: tables.raters(HUMAN), MODELS: tables.raters("model", "encoder")}
    for group, raters in groups.items():
        if readings := _of(by_rater, raters):
            marked = {" ".join(rater): _spans(texts) for rater, texts in readings.items()}
            keys = {key for texts in readings.values() for key in texts}
            for metric in spans.span_agreement(marked, texts=_words(tables, keys), overlap=overlap):
                yield metric.at(kind=kind, group=group)


def _of(by_rater: Readings, raters: Sequence[SpanRater]) -> Readings:
    return {rater: by_rater[rater] for rater in raters if rater in by_rater}


def _spans(texts: Mapping[TextOfItem, MarkedText]) -> dict[Hashable, list[spans.Span]]:
    return {text: marks.spans for text, marks in texts.items()}


def _words(tables: SpanTables, keys: set[TextOfItem]) -> dict[Hashable, str] | None:
    return None if tables.texts is None else {key: tables.texts[key.text_id] for key in keys}


def _against(
    tables: SpanTables, raters: Readings, references: Readings, overlap: float, dims: dict[str, str]
) -> Iterator[Metric]:
    """Yield the comparison of raters with other raters; each text counts once for each pair of them that read it."""
    marked: dict[Hashable, list[spans.Span]] = {}
    gold: dict[Hashable, list[spans.Span]] = {}
    claims: dict[Hashable, list[tuple[int, int, float]]] = {}
    pictures: dict[Hashable, str] = {}
    words: dict[Hashable, str] = {}
    for reference, texts in references.items():
        for text, marks in texts.items():
            for rater, read in raters.items():
                if rater == reference:
                    continue
                key = (text, rater, reference)
                gold[key] = marks.spans
                pictures[key] = tables.picture(text.item_id)
                if tables.texts is not None:
                    words[key] = tables.texts[text.text_id]
                if text in read:
                    marked[key] = read[text].spans
                    if read[text].claims:
                        claims[key] = read[text].claims
    known_texts = words if tables.texts is not None else None
    for metric in spans.against_gold(marked, gold, texts=known_texts, pictures=pictures, overlap=overlap):
        yield metric.at(**dims)
    if claims:
        yield spans.ranking_of_tokens(claims, gold, texts=known_texts).at(**dims)


def _of_descriptions(
    tables: SpanTables, settings: MetricSettings, assignment: ItemAssignment | None
) -> Iterator[Metric]:
    """Yield the scores of descriptions by each model, by people and by gold, and correlations with people's."""
    ids = sorted({key.item_id for by_rater in tables.marks.values() for read in by_rater.values() for key in read})
    if not ids:
        return
    names = {name: number for number, name in enumerate(sorted({tables.picture(item) for item in ids}))}
    writers = [tables.items[item].writer if item in tables.items else "" for item in ids]
    described = Descriptions(np.array([names[tables.picture(item)] for item in ids], np.int64), writers)
    groups: list[tuple[dict[str, str], list[SpanRater]]] = [
        ({"group": name}, raters)
        for name, raters in ((PEOPLE, tables.raters(HUMAN)), (GOLD, tables.raters(GOLD)))
        if raters
    ]
    groups += [(dims_of(rater), [rater]) for rater in tables.raters("model", "encoder")]
    people: dict[str, Floats] | None = None
    models: list[dict[str, Floats]] = []
    for dims, raters in groups:
        values = description_scores.with_derived(_scores(tables, raters, ids))
        has_texts = tables.texts is not None
        for metric in description_scores.description_scores(values, described, has_texts=has_texts):
            yield metric.at(**dims)
        for metric in description_scores.category_counts(_category_counts(tables, raters, ids), described):
            yield metric.at(**dims)
        if dims == {"group": PEOPLE}:
            people = values
        elif people is not None:
            models += [values] if "rater" in dims else []
            compared = {score: values[score] for score in description_scores.COMPARED}
            for metric in description_scores.correlations_with_people(
                compared, people, described.pictures, scorer=SPAN_SCORERS
            ):
                yield metric.at(**dims)
    if people is not None and tables.texts is not None:
        yield from _of_overlap(tables, ids, people, described, settings.text_overlap)
    if people is not None and models:
        yield from _estimated(tables, ids, described, [people, *models], assignment, trusted=settings.random_part)


def _estimated(
    tables: SpanTables,
    ids: Sequence[str],
    described: Descriptions,
    scores: Sequence[Mapping[str, Floats]],
    assignment: ItemAssignment | None,
    *,
    trusted: bool,
) -> Iterator[Metric]:
    """Yield the scores of all descriptions from people's spans in some; nothing if people read all.

    Args:
        scores: of people, then of each model; score -> float64[items].
        trusted: whether the user says that people read a random part.
    """
    readers = tables.raters(HUMAN)
    read = [{text.item_id for text in texts} for kind in tables.marks.values()
            for rater, texts in kind.items() if rater in readers]  # fmt: skip
    n = np.array([sum(item in of_rater for of_rater in read) for item in ids], np.int64)
    assigned = assignment.of(hash_texts(ids)) if assignment else None
    kept = np.ones(len(ids), bool) if assigned is None else assigned.could_be_drawn
    rated = (n > 0) & kept
    if rated[kept].all() or not rated.any():
        return
    group = RaterGroup(PEOPLE, tuple(sorted({rater.rater for rater in readers})))
    drawn = drawn_part(assigned, n, rated, people=group, trusted=trusted)
    if isinstance(drawn, str):
        yield undefined(description_scores.ESTIMATED, drawn, coverage=0.0, dims={"source": BOTH})
        return
    probability, remark = drawn
    writers = [writer for writer, is_kept in zip(described.writers, kept, strict=True) if is_kept]
    pictures = described.pictures[kept]
    part = RandomPart(probability[kept], Units(pictures, "pictures"))
    of_kept = [{score: values[kept] for score, values in of_rater.items()} for of_rater in scores]
    for metric in description_scores.estimated_scores(of_kept[0], of_kept[1:], Descriptions(pictures, writers), part):
        yield replace(metric, reason="; ".join(filter(None, (metric.reason, remark))) or None)


def _scores(tables: SpanTables, raters: Sequence[SpanRater], ids: Sequence[str]) -> dict[str, Floats]:
    """Return the numbers and shares of both kinds, float64[items], averaged over the raters who read the text."""
    values = {}
    for kind, count, share in ((MISTAKE, "mistakes", "mistake_share"), (OMISSION, "omissions", "omission_share")):
        numbers: dict[str, list[float]] = {}
        shares: dict[str, list[float]] = {}
        for rater in raters:
            for text, marks in tables.marks.get(kind, {}).get(rater, {}).items():
                numbers.setdefault(text.item_id, []).append(len(set(marks.spans)))
                if tables.texts is not None:
                    token_share = description_scores.token_share(marks.spans, tables.texts[text.text_id])
                    shares.setdefault(text.item_id, []).append(token_share)
        values[count] = _means(numbers, ids)
        values[share] = _means(shares, ids)
    return values


def _category_counts(tables: SpanTables, raters: Sequence[SpanRater], ids: Sequence[str]) -> dict[str, Floats]:
    """Return the numbers of mistakes float64[items] by category; empty if all mistakes have the same category."""
    read = [tables.marks.get(MISTAKE, {}).get(rater, {}) for rater in raters]
    names = {name for texts in read for marks in texts.values() for name in marks.categories}
    categories = {category for name in names for category in name.split("+") if category}
    counts = {}
    for category in sorted(categories) if len(categories) > 1 else ():
        numbers: dict[str, list[float]] = {}
        for texts in read:
            for text, marks in texts.items():
                numbers.setdefault(text.item_id, []).append(
                    sum(category in name.split("+") for name in marks.categories)
                )
        counts[category] = _means(numbers, ids)
    return counts


def _means(values: Mapping[str, Sequence[float]], ids: Sequence[str]) -> Floats:
    return np.array([np.mean(values[item]) if values.get(item) else np.nan for item in ids], np.float64)


def _of_overlap(
    tables: SpanTables, ids: Sequence[str], people: Mapping[str, Floats], described: Descriptions, names: Sequence[str]
) -> Iterator[Metric]:
    """Yield the correlation of overlap measures with people's precision, coverage and quality."""
    text_ids: dict[str, dict[str, str]] = {}
    for kind in (MISTAKE, OMISSION):
        for read in tables.marks.get(kind, {}).values():
            for text in read:
                text_ids.setdefault(text.item_id, {})[kind] = text.text_id
    whole = [number for number, item in enumerate(ids) if len(text_ids.get(item, {})) == 2]
    assert tables.texts is not None
    generated, correct = (
        [tables.texts[text_ids[ids[number]][kind]] for number in whole] for kind in (MISTAKE, OMISSION)
    )
    for name in names:
        values = np.full(len(ids), np.nan)
        values[whole] = description_scores.OVERLAPS[name](generated, correct)
        compared = dict.fromkeys(("precision", "coverage", "quality"), values)
        for metric in description_scores.correlations_with_people(compared, people, described.pictures, scorer=name):
            yield metric.at(rater=name, method="overlap")
