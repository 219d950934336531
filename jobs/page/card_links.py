"""Links from numbers, and from cells and rows of plots, to the cards that they rest on: indexes and anchors.

A number, cell or row counts all items, but the gallery shows only some of them. Without any shown item it has neither
an entry nor a link. If a rater answered several times, the answer on the card is the first sample.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple, TypeVar

from actors.status import Status
from jobs.analysis.span_tables import MISTAKE, OMISSION, WRITER, WRITER_COLUMN
from jobs.html.formats import in_words
from jobs.metrics.kinds import kind_of
from jobs.metrics.metric import Metric, Topic
from jobs.metrics.observations import GOLD, Confusion
from jobs.metrics.rated_question import MODELS, PEOPLE
from jobs.page.card_orders import MAX_ANSWERS, MAX_LINKS, Key, answer_anchor, disagreement, score_ranges
from jobs.page.metric_tables import IN_HEADING, MetricTable, each_once
from jobs.page.page_contents import (
    AnswerEntry,
    GalleryPicture,
    PictureRating,
    QuestionEntry,
    Wording,
    question_of,
    spans_label,
)
from jobs.page.page_names import anchor
from jobs.tables import HUMAN

Words = Mapping[tuple[str, str], Wording]
QuestionMatrices = Sequence[tuple[Mapping[str, str], Confusion]]
MAX_OF_RATER = 12  # cards of one rater and question, and of one rater's spans
TARGET = "target"  # attribute of subgroups that is a column of ratings
KIND_OF_SCORE = {
    "mistakes": MISTAKE,
    "mistake_share": MISTAKE,
    "precision": MISTAKE,
    "omissions": OMISSION,
    "omission_share": OMISSION,
    "coverage": OMISSION,
}  # a score of descriptions that is not listed, such as quality, depends on both kinds
_Card = TypeVar("_Card")


class MarkSelection(NamedTuple):
    """The spans that a metric rests on: those of a kind, of a rater or group, and perhaps of a writer or category."""

    rater: str
    kind: str = ""  # empty: of any kind
    writer: str = ""
    category: str = ""


def card_links(
    matrices: QuestionMatrices, metrics: Sequence[Metric], cards: Sequence[GalleryPicture], words: Words
) -> list[QuestionEntry]:
    """Return the cards of each cell of confusion matrices, of two raters, of each subgroup, and of each rater.

    Args:
        matrices: the confusion matrices that the page plots, with the dims of their questions.
        metrics: kappas have the dims of two raters, metrics of subgroups an attribute and its value, others a rater or
            a group.
        cards: the cards of the page; they are numbered from 1.
    """
    pairs: dict[tuple[str, str], None] = {}
    parts: dict[str, dict[str, None]] = {}
    for metric in metrics:
        dims = metric.dims
        if {"attribute", "part"} <= dims.keys():
            parts.setdefault(dims["attribute"], {}).setdefault(dims["part"])
        if metric.name == "kappa" and {"rater_a", "rater_b"} <= dims.keys():
            pairs.setdefault((dims["rater_a"], dims["rater_b"]))
    lists = [
        *(_of_matrix(dims, confusion, cards, words) for dims, confusion in matrices),
        _of_pairs(pairs, cards),
        *(_of_attribute(attribute, values, cards) for attribute, values in parts.items()),
        *_of_raters(metrics, cards, words),
        *_of_marks(metrics, cards),
    ]
    return [entry for entry in lists if entry.answers]


def cards_of(metric: Metric) -> str:
    """Return the anchor of the cards that a metric rests on; empty if it has no particular cards.

    The cards are those of its rater's spans, of its subgroup, pair of raters, answer, rater or group, in that order.
    """
    dims = metric.dims
    if marks := marks_of(metric):
        return marks_anchor(marks)
    if {"attribute", "part"} <= dims.keys():
        return part_anchor(dims["attribute"], dims["part"])
    if {"rater_a", "rater_b"} <= dims.keys():
        return pair_anchor(dims["rater_a"], dims["rater_b"])
    if metric.name in ("majority_share", "annotation_quality"):
        answer = dims.get("answer") or dims.get("annotation", "")
        return answer_anchor(question_of(dims), answer)
    topics = kind_of(metric).topics
    of_answers = dims.get("question") or Topic.SCENE_GRAPHS in topics
    if any(topic.value.counts for topic in topics) or "attribute" in dims or not of_answers:
        return ""
    rater = dims.get("rater") or dims.get("group")
    return rater_anchor(dims, rater) if rater else ""


def marks_of(metric: Metric) -> MarkSelection | None:
    """Return the marks that a metric rests on; None if it is not about spans or has no rater."""
    dims = metric.dims
    rater = dims.get("group") or spans_label(dims)
    if metric.name.startswith("description_") and rater:
        score = dims.get("score") or metric.name.removeprefix("description_")
        return MarkSelection(rater, KIND_OF_SCORE.get(score, ""), dims.get(WRITER, ""), dims.get("category", ""))
    if metric.name.startswith("span_") and rater and dims.get("status", "ok") == "ok":
        return MarkSelection(rater, dims.get("kind", ""))
    return None


def cell_anchor(dims: Mapping[str, str], confusion: Confusion, row: int, column: int) -> str:
    """Return the anchor of the cards in a cell: with this answer of the reference and this one of the rater."""
    question = [f"{name}={dims[name]}" for name in sorted(dims)]
    answers = confusion.answers
    return anchor("cell", *question, confusion.reference, confusion.rater, f"cell {answers[row]} {answers[column]}")


def pair_anchor(rater: str, other: str) -> str:
    """Return the anchor of the cards on which two raters differ."""
    return anchor("pair", *sorted((rater, other)), "differ")


def part_anchor(attribute: str, part: str) -> str:
    """Return the anchor of the cards of a subgroup."""
    return anchor("part", attribute, f"part {part}")


def rater_anchor(dims: Mapping[str, str], rater: str) -> str:
    """Return the anchor of the cards for which a rater, or a group of raters, answered a question."""
    return anchor("rater", *(f"{name}={dims[name]}" for name in IN_HEADING if dims.get(name)), f"rater {rater}")


def marks_anchor(marks: MarkSelection) -> str:
    """Return the anchor of the cards with these marks."""
    return anchor("marks", *(f"{name}={value}" for name, value in marks._asdict().items()), f"marks {marks.rater}")


def _entry(
    name: str,
    label: str,
    cards: Sequence[_Card],
    weigh: Callable[[_Card], float | None],
    *,
    most: int = MAX_LINKS,
) -> AnswerEntry:
    """Return the entry of the cards that have a weight, the heaviest first."""
    weights = {number: weight for number, card in enumerate(cards, start=1) if (weight := weigh(card)) is not None}
    numbers = sorted(weights, key=weights.__getitem__, reverse=True)
    return AnswerEntry(name, label, tuple(numbers[:most]), max(0, len(numbers) - most))


def _list(title: str, entries: Iterable[AnswerEntry], *about: str) -> QuestionEntry:
    """Return the first entries that have cards under one title."""
    with_cards = [entry for entry in entries if entry.cards]
    return QuestionEntry(anchor("links", *about, f"cards {title}"), title, tuple(with_cards[:MAX_ANSWERS]))


def _of_matrix(
    dims: Mapping[str, str], confusion: Confusion, cards: Sequence[GalleryPicture], words: Words
) -> QuestionEntry:
    key = question_of(dims)
    labels = words[key].labels if key in words else {}
    cells = [set(_cells(dims, confusion, card.ratings)) for card in cards]
    named = [labels.get(answer) or answer for answer in confusion.answers]
    widest_first = sorted(set().union(*cells), key=lambda cell: (-abs(cell[0] - cell[1]), cell))
    entries = [
        _entry(
            cell_anchor(dims, confusion, row, column),
            named[row] if row == column else f"{named[row]} → {named[column]}",
            cells,
            partial(_in_cell, (row, column)),
        )
        for row, column in widest_first
    ]
    title = words[key].title if key in words else key[1]
    return _list(f"{title}: {confusion.reference} → {confusion.rater}", entries, *sorted(dims.values()))


def _in_cell(cell: tuple[int, int], of_card: set[tuple[int, int]]) -> float | None:
    return 0.0 if cell in of_card else None


def _cells(
    dims: Mapping[str, str], confusion: Confusion, ratings: Iterable[PictureRating]
) -> Iterable[tuple[int, int]]:
    """Yield the cells of a card: one per target of the question."""
    of_target: dict[str, list[PictureRating]] = {}
    for rating in ratings:
        if _is_answer(rating, dims):
            of_target.setdefault(rating.target, []).append(rating)
    for of_item in of_target.values():
        right, answer = (_code(name, of_item, confusion.answers) for name in (confusion.reference, confusion.rater))
        if right is not None and answer is not None:
            yield right, answer


def _is_answer(rating: PictureRating, dims: Mapping[str, str]) -> bool:
    """Return whether a rating answers the question of a metric, or any of its rubric, under its condition."""
    return (
        rating.rubric == dims.get("rubric", "")
        and dims.get("question") in (None, rating.question)
        and rating.status == Status.OK
        and all(dims.get(name, "") == value for name, value in rating.extra)
    )


def _chosen(rater: str, ratings: Sequence[PictureRating]) -> list[PictureRating]:
    """Return the ratings of a rater, of people, of gold, or of models."""
    if rater in (PEOPLE, GOLD):
        return [rating for rating in ratings if rating.method == (HUMAN if rater == PEOPLE else GOLD)]
    if rater == MODELS:
        return [rating for rating in ratings if rating.method not in (HUMAN, GOLD)]
    return [rating for rating in ratings if rating.name == rater]


def _code(rater: str, ratings: Sequence[PictureRating], answers: Sequence[str]) -> int | None:
    """Return the position of the answer of a rater, of people together (as in confusion matrices), or of gold."""
    chosen = _chosen(rater, ratings)
    scores = [rating.score for rating in chosen if rating.score is not None]
    try:
        levels = [float(answer) for answer in answers]
    except ValueError:
        levels = []
    if scores and levels:
        middles = [(low + high) / 2 for low, high in pairwise(levels)]
        return bisect_left(middles, sum(scores) / len(scores))
    counts = Counter(rating.value for rating in chosen if rating.value is not None)
    value, count = counts.most_common(1)[0] if counts else ("", 0)
    return answers.index(value) if value in answers and 2 * count > counts.total() else None


def _of_pairs(pairs: Iterable[tuple[str, str]], cards: Sequence[GalleryPicture]) -> QuestionEntry:
    ranges = score_ranges(card.ratings for card in cards)

    def difference(pair: tuple[str, str], card: GalleryPicture) -> float | None:
        by_extra: dict[tuple[tuple[str, str], ...], list[PictureRating]] = {}
        for rating in card.ratings:
            if rating.name in pair:
                by_extra.setdefault(rating.extra, []).append(rating)
        return max(filter(None, (disagreement(of_both, ranges) for of_both in by_extra.values())), default=None)

    entries = (_entry(pair_anchor(*pair), " and ".join(pair), cards, partial(difference, pair)) for pair in pairs)
    return _list("Two raters differ, widest first", entries)


def _of_raters(metrics: Sequence[Metric], cards: Sequence[GalleryPicture], words: Words) -> Iterable[QuestionEntry]:
    """Yield the cards of each rater and group for each question, the widest disagreement first."""
    ranges = score_ranges(card.ratings for card in cards)
    raters: dict[tuple[tuple[str, str], ...], dict[str, None]] = {}
    for metric in each_once(metrics):
        rater = metric.dims.get("rater") or metric.dims.get("group") or ""
        if cards_of(metric) == rater_anchor(metric.dims, rater):
            question = tuple((name, metric.dims[name]) for name in IN_HEADING if metric.dims.get(name))
            raters.setdefault(question, {}).setdefault(rater)

    def distance(rater: str, of_card: Sequence[PictureRating]) -> float | None:
        """Return the distance of a rater's answers; -1 if they cannot be compared, None without answers."""
        if not (chosen := _chosen(rater, of_card)):
            return None
        measured = _distance(rater, chosen, of_card, ranges)
        return -1.0 if measured is None else measured

    for question, of_question in raters.items():
        dims = dict(question)
        key = question_of(dims)
        answers = [[rating for rating in card.ratings if _is_answer(rating, dims)] for card in cards]
        entries = (
            _entry(rater_anchor(dims, rater), rater, answers, partial(distance, rater), most=MAX_OF_RATER)
            for rater in of_question
        )
        title = words[key].title if key in words else key[1] or f"{key[0]}, all questions"
        about = "".join(f", {dims[name]}" for name in IN_HEADING[2:] if name in dims)
        yield _list(f"{title}{about}: answers of a rater", entries, *sorted(dims.values()))


def _distance(
    rater: str, chosen: Sequence[PictureRating], ratings: Sequence[PictureRating], ranges: Mapping[Key, float]
) -> float | None:
    """Return the disagreement among people, among models, or of one rater with all others; None without a pair."""
    if rater in (PEOPLE, MODELS):
        return disagreement(chosen, ranges)
    pairs = ([one, other] for one in chosen for other in ratings if other not in chosen)
    distances = [distance for pair in pairs if (distance := disagreement(pair, ranges)) is not None]
    return sum(distances) / len(distances) if distances else None


def _of_attribute(attribute: str, parts: Iterable[str], cards: Sequence[GalleryPicture]) -> QuestionEntry:
    def belongs(part: str, card: GalleryPicture) -> float | None:
        is_target = attribute == TARGET and any(rating.target == part for rating in card.ratings)
        return 0.0 if is_target or card.attributes.get(attribute) == part else None

    entries = (_entry(part_anchor(attribute, part), part, cards, partial(belongs, part)) for part in parts)
    return _list(in_words(attribute), entries)


def _of_marks(metrics: Iterable[Metric], cards: Sequence[GalleryPicture]) -> Iterable[QuestionEntry]:
    """Yield the cards of each rater's marks that `metrics` rest on, the most spans first, one list per kind.

    Cards whose texts a rater read without marking a span come last.
    """
    wanted = dict.fromkeys(marks for metric in metrics if (marks := marks_of(metric)))
    for kind in dict.fromkeys(marks.kind for marks in wanted):
        entries = (
            _entry(
                marks_anchor(marks),
                " · ".join(filter(None, (marks.rater, marks.writer, marks.category))),
                cards,
                partial(_spans, marks),
                most=MAX_OF_RATER,
            )
            for marks in wanted
            if marks.kind == kind
        )
        yield _list(f"Marked spans: {kind}" if kind else "Marked spans", entries)


def _spans(marks: MarkSelection, card: GalleryPicture) -> float | None:
    """Return the number of spans on a card; None if it has no such text or, with a category, no such span."""
    chosen = [mark for mark in card.marks if marks.rater in (mark.rater, mark.group) and marks.kind in ("", mark.kind)]
    writer = card.attributes.get(WRITER) or card.attributes.get(WRITER_COLUMN)
    if not chosen or marks.writer not in ("", writer):
        return None
    spans = [span for mark in chosen for span in mark.spans]
    if marks.category:
        return sum(marks.category in span.category.split(", ") for span in spans) or None
    return len(spans)


@dataclass(frozen=True)
class NumberLinks:
    """The links of a table of metrics, as few as possible: anchors of cards.

    Attributes:
        rows: number of a row, from 0 -> the anchor that all its numbers share.
        columns: number of a column -> the anchor that all its numbers share, if those of its rows differ.
        cells: (row, column) -> the anchor of a single number, if neither its row nor its column shares one.
    """

    rows: Mapping[int, str]
    columns: Mapping[int, str]
    cells: Mapping[tuple[int, int], str]


def number_links(table: MetricTable, places: Container[str]) -> NumberLinks:
    """Return the links of a table.

    Args:
        places: anchors of the cards on the page.
    """
    anchors = {
        (row, column): name if (name := cards_of(metric)) in places else ""
        for row, (_, line) in enumerate(table.rows)
        for column, metric in enumerate(line)
        if metric
    }
    rows = _common((row, name) for (row, _), name in anchors.items())
    columns = _common((column, name) for (row, column), name in anchors.items() if row not in rows)
    cells = {cell: name for cell, name in anchors.items() if name and cell[0] not in rows and cell[1] not in columns}
    return NumberLinks(rows, columns, cells)


def _common(anchors: Iterable[tuple[int, str]]) -> dict[int, str]:
    """Return the anchor that all cells of a row or column share, by its number."""
    of_line: dict[int, set[str]] = {}
    for number, name in anchors:
        of_line.setdefault(number, set()).add(name)
    return {number: name for number, names in of_line.items() if len(names) == 1 for name in names if name}
