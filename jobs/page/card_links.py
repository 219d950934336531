"""From the cells and rows of plots to the cards that they rest on: indexes of the gallery, and the anchors in them.

A cell or row counts all items, of which the gallery shows some: those that show none have no entry and no link. Answers
are those of the cards, where of several samples the first stands.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from actors.status import Status
from jobs.metrics.confusion import GOLD, Confusion
from jobs.metrics.metric import Metric
from jobs.metrics.question import PEOPLE
from jobs.page.anchors import anchor
from jobs.page.card_orders import (
    MAX_ANSWERS,
    MAX_LINKS,
    AnswerEntry,
    QuestionEntry,
    disagreement,
    score_ranges,
)
from jobs.page.model import GalleryPicture, PictureRating, Wording

Words = Mapping[tuple[str, str], Wording]
Found = Sequence[tuple[Mapping[str, str], Confusion]]
HUMAN = "human"  # method of people's ratings
MAX_MATRICES = 12  # of a figure
TARGET = "target"  # attribute of subgroups that is a column of ratings


@dataclass
class CardLinks:
    """The cards that plots link to.

    Attributes:
        lists: index of the page; each entry has the anchor of a cell or row.
        places: anchors that exist.
    """

    lists: list[QuestionEntry] = field(default_factory=list)

    @property
    def places(self) -> set[str]:
        """The anchors of all entries."""
        return {entry.name for one in self.lists for entry in one.answers}


def card_links(matrices: Found, metrics: Sequence[Metric], cards: Sequence[GalleryPicture], words: Words) -> CardLinks:
    """Return the cards of each cell of the confusion matrices, of every pair of raters, and of each subgroup.

    Args:
        matrices: those of the page, with the dims of their questions.
        metrics: kappas name two raters, metrics of subgroups an attribute and its value.
        cards: those of the page; they are numbered from 1.
    """
    pairs = {
        (metric.dims["rater_a"], metric.dims["rater_b"]): None
        for metric in metrics
        if metric.name == "kappa" and {"rater_a", "rater_b"} <= metric.dims.keys()
    }
    parts: dict[str, dict[str, None]] = {}
    for metric in metrics:
        if {"attribute", "part"} <= metric.dims.keys():
            parts.setdefault(metric.dims["attribute"], {}).setdefault(metric.dims["part"])
    lists = [
        *(_of_matrix(dims, confusion, cards, words) for dims, confusion in drawn_matrices(matrices, words)),
        _of_pairs(pairs, cards),
        *(_of_attribute(attribute, values, cards) for attribute, values in parts.items()),
    ]
    return CardLinks([one for one in lists if one.answers])


def drawn_matrices(matrices: Found, words: Words) -> Found:
    """Return the matrices that have plots: `MAX_MATRICES` of each reference, in the order of the page.

    Each question has one before another has two, and models come before people.
    """
    place = {key: number for number, key in enumerate(words)}
    ordered = sorted(
        matrices, key=lambda pair: place.get((pair[0].get("rubric", ""), pair[0].get("question", "")), len(place))
    )
    of_question, of_reference = Counter[tuple[object, ...]](), Counter[str]()
    turns = []  # how many matrices of its question are more interesting, and its number
    for number, (dims, confusion) in sorted(enumerate(ordered), key=lambda one: one[1][1].rater == PEOPLE):
        question = confusion.reference, *sorted(dims.items())
        turns.append((of_question[question], number))
        of_question[question] += 1
    kept = []
    for _, number in sorted(turns):
        reference = ordered[number][1].reference
        of_reference[reference] += 1
        if of_reference[reference] <= MAX_MATRICES:
            kept.append(number)
    return [ordered[number] for number in sorted(kept)]


def cell_anchor(dims: Mapping[str, str], confusion: Confusion, row: int, column: int) -> str:
    """Return the anchor of the cards with an answer of the reference and one of the rater."""
    question = [f"{name}={dims[name]}" for name in sorted(dims)]
    answers = confusion.answers
    return anchor("cell", *question, confusion.reference, confusion.rater, f"cell {answers[row]} {answers[column]}")


def pair_anchor(rater: str, other: str) -> str:
    """Return the anchor of the cards on which two raters differ."""
    return anchor("pair", *sorted((rater, other)), "differ")


def part_anchor(attribute: str, part: str) -> str:
    """Return the anchor of the cards of a subgroup."""
    return anchor("part", attribute, f"part {part}")


def _of_matrix(
    dims: Mapping[str, str], confusion: Confusion, cards: Sequence[GalleryPicture], words: Words
) -> QuestionEntry:
    key = (dims.get("rubric", ""), dims.get("question", ""))
    labels = words[key].labels if key in words else {}
    cells: dict[tuple[int, int], dict[int, None]] = {}
    for number, card in enumerate(cards, start=1):
        for cell in _cells(dims, confusion, card.ratings):
            cells.setdefault(cell, {}).setdefault(number)
    named = [labels.get(answer) or answer for answer in confusion.answers]
    entries = [
        _entry(
            cell_anchor(dims, confusion, *cell),
            named[cell[0]] if cell[0] == cell[1] else f"{named[cell[0]]} → {named[cell[1]]}",
            list(cells[cell]),
        )
        for cell in sorted(cells, key=lambda cell: (-abs(cell[0] - cell[1]), cell))
    ]
    title = words[key].title if key in words else key[1]
    return _list(f"{title}: {confusion.reference} → {confusion.rater}", entries, *sorted(dims.values()))


def _cells(
    dims: Mapping[str, str], confusion: Confusion, ratings: Iterable[PictureRating]
) -> Iterable[tuple[int, int]]:
    """Yield the cells of a card: one per target of the question."""
    of_target: dict[str, list[PictureRating]] = {}
    for rating in ratings:
        if (
            (rating.rubric, rating.question) == (dims.get("rubric", ""), dims.get("question", ""))
            and rating.status == Status.OK
            and all(dims.get(name, "") == value for name, value in rating.extra)
        ):
            of_target.setdefault(rating.target, []).append(rating)
    for of_item in of_target.values():
        right, answer = (_code(name, of_item, confusion.answers) for name in (confusion.reference, confusion.rater))
        if right is not None and answer is not None:
            yield right, answer


def _code(rater: str, ratings: Sequence[PictureRating], answers: Sequence[str]) -> int | None:
    """Return the position of the answer of a rater, of people together (as `jobs.metrics.confusion`), or of gold."""
    if rater in (PEOPLE, GOLD):
        chosen = [rating for rating in ratings if rating.method == (HUMAN if rater == PEOPLE else GOLD)]
    else:
        chosen = [rating for rating in ratings if rating.name == rater]
    scores = [rating.score for rating in chosen if rating.score is not None]
    levels = _levels(answers)
    if scores and levels:
        middles = [(low + high) / 2 for low, high in pairwise(levels)]
        return bisect_left(middles, sum(scores) / len(scores))
    counts = Counter(rating.value for rating in chosen if rating.value is not None)
    value, count = counts.most_common(1)[0] if counts else ("", 0)
    return answers.index(value) if value in answers and 2 * count > counts.total() else None


def _levels(answers: Sequence[str]) -> list[float]:
    try:
        return [float(answer) for answer in answers]
    except ValueError:
        return []


def _of_pairs(pairs: Iterable[tuple[str, str]], cards: Sequence[GalleryPicture]) -> QuestionEntry:
    ranges = score_ranges(card.ratings for card in cards)
    entries = []
    for rater, other in pairs:
        distances: dict[int, float] = {}
        for number, card in enumerate(cards, start=1):
            by_extra: dict[tuple[tuple[str, str], ...], list[PictureRating]] = {}
            for rating in card.ratings:
                if rating.name in (rater, other):
                    by_extra.setdefault(rating.extra, []).append(rating)
            values = [value for of_target in by_extra.values() if (value := disagreement(of_target, ranges))]
            if values:
                distances[number] = max(values)
        widest = sorted(distances, key=lambda number: -distances[number])
        if widest:
            entries.append(_entry(pair_anchor(rater, other), f"{rater} and {other}", widest))
    return _list("Two raters differ, widest first", entries)


def _of_attribute(attribute: str, parts: Iterable[str], cards: Sequence[GalleryPicture]) -> QuestionEntry:
    entries = []
    for part in parts:
        numbers = [
            number
            for number, card in enumerate(cards, start=1)
            if card.attributes.get(attribute) == part
            or (attribute == TARGET and any(rating.target == part for rating in card.ratings))
        ]
        if numbers:
            entries.append(_entry(part_anchor(attribute, part), part, numbers))
    return _list(attribute.replace("_", " "), entries)


def _entry(name: str, label: str, numbers: Sequence[int]) -> AnswerEntry:
    return AnswerEntry(name, label, tuple(numbers[:MAX_LINKS]), max(0, len(numbers) - MAX_LINKS))


def _list(title: str, entries: Sequence[AnswerEntry], *about: str) -> QuestionEntry:
    return QuestionEntry(anchor("links", *about, f"cards {title}"), title, tuple(entries[:MAX_ANSWERS]))
