"""Links from numbers, and from cells and rows of plots, to the cards that they rest on: indexes and anchors.

A number, cell or row counts all items, but the gallery shows only some of them. Without any shown item it has neither
an entry nor a link. If a rater answered several times, the answer on the card is the first sample.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from actors.status import Status
from jobs.html.formats import in_words
from jobs.metrics.kinds import kind_of
from jobs.metrics.metric import Metric, Topic
from jobs.metrics.observations import GOLD, Confusion
from jobs.metrics.rated_question import MODELS, PEOPLE
from jobs.page.card_marks import mark_lists, marks_anchor, marks_of
from jobs.page.card_orders import MAX_ANSWERS, MAX_LINKS, Key, answer_anchor, disagreement, score_ranges
from jobs.page.metric_tables import IN_HEADING, MetricTable, each_once
from jobs.page.page_contents import AnswerEntry, GalleryPicture, PictureRating, QuestionEntry, Wording
from jobs.page.page_names import anchor

Words = Mapping[tuple[str, str], Wording]
QuestionMatrices = Sequence[tuple[Mapping[str, str], Confusion]]
HUMAN = "human"  # method of people's ratings
MAX_MATRICES = 60  # matrices in a figure
MAX_OF_RATER = 12  # cards of one rater and question
TARGET = "target"  # attribute of subgroups that is a column of ratings


@dataclass
class CardLinks:
    """The cards that numbers and plots link to.

    Attributes:
        lists: index of the page; each entry has the anchor of a cell or row, or of a rater's answers to a question.
        places: anchors that exist.
    """

    lists: list[QuestionEntry] = field(default_factory=list)

    @property
    def places(self) -> set[str]:
        """The anchors of all entries."""
        return {answer.name for question in self.lists for answer in question.answers}


def card_links(
    matrices: QuestionMatrices, metrics: Sequence[Metric], cards: Sequence[GalleryPicture], words: Words
) -> CardLinks:
    """Return the cards of each cell of the confusion matrices, of two raters, of each subgroup, and of each rater.

    Args:
        matrices: the confusion matrices of the page, with the dims of their questions.
        metrics: kappas have the dims of two raters, metrics of subgroups an attribute and its value, others a rater or
            a group.
        cards: the cards of the page; they are numbered from 1.
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
        *_of_raters(metrics, cards, words),
        *mark_lists(metrics, cards),
    ]
    return CardLinks([entry for entry in lists if entry.answers])


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
        return answer_anchor((dims.get("rubric", ""), dims.get("question", "")), answer)
    topics = kind_of(metric).topics
    of_answers = dims.get("question") or Topic.SCENE_GRAPHS in topics
    if any(topic.value.counts for topic in topics) or "attribute" in dims or not of_answers:
        return ""
    rater = dims.get("rater") or dims.get("group")
    return rater_anchor(dims, rater) if rater else ""


def drawn_matrices(matrices: QuestionMatrices, words: Words) -> QuestionMatrices:
    """Return the matrices to plot: `MAX_MATRICES` of each reference, in the order of the page.

    Every question gets one before any gets a second, and models come before people.
    """
    place = {key: number for number, key in enumerate(words)}
    ordered = sorted(
        matrices, key=lambda pair: place.get((pair[0].get("rubric", ""), pair[0].get("question", "")), len(place))
    )
    of_question, of_reference = Counter[tuple[object, ...]](), Counter[str]()
    turns = []  # for each matrix, how many of its question come before it, and its number
    by_models_first = sorted(enumerate(ordered), key=lambda numbered: numbered[1][1].rater == PEOPLE)
    for number, (dims, confusion) in by_models_first:
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


def _code(rater: str, ratings: Sequence[PictureRating], answers: Sequence[str]) -> int | None:
    """Return the position of the answer of a rater, of people together (as `jobs.metrics.observations`), or of gold."""
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


def _of_raters(metrics: Sequence[Metric], cards: Sequence[GalleryPicture], words: Words) -> Iterable[QuestionEntry]:
    """Yield the cards of each rater and group for each question, the widest disagreement first."""
    ranges = score_ranges(card.ratings for card in cards)
    raters: dict[tuple[tuple[str, str], ...], dict[str, None]] = {}
    for metric in each_once(metrics):
        rater = metric.dims.get("rater") or metric.dims.get("group") or ""
        if cards_of(metric) == rater_anchor(metric.dims, rater):
            question = tuple((name, metric.dims[name]) for name in IN_HEADING if metric.dims.get(name))
            raters.setdefault(question, {}).setdefault(rater)
    for question, of_question in raters.items():
        dims = dict(question)
        key = (dims.get("rubric", ""), dims.get("question", ""))
        answers = [[rating for rating in card.ratings if _is_answer(rating, dims)] for card in cards]
        entries = []
        for rater in of_question:
            distances = {}
            for number, of_card in enumerate(answers, start=1):
                if chosen := _chosen(rater, of_card):
                    distance = _distance(rater, chosen, of_card, ranges)
                    distances[number] = -1.0 if distance is None else distance
            if distances:
                widest = sorted(distances, key=distances.__getitem__, reverse=True)
                entries.append(_entry(rater_anchor(dims, rater), rater, widest, most=MAX_OF_RATER))
        title = words[key].title if key in words else key[1] or f"{key[0]}, all questions"
        about = "".join(f", {dims[name]}" for name in IN_HEADING[2:] if name in dims)
        yield _list(f"{title}{about}: answers of a rater", entries, *sorted(dims.values()))


def _chosen(rater: str, ratings: Sequence[PictureRating]) -> list[PictureRating]:
    """Return the ratings of a rater, of people, or of models."""
    if rater == PEOPLE:
        return [rating for rating in ratings if rating.method == HUMAN]
    if rater == MODELS:
        return [rating for rating in ratings if rating.method not in (HUMAN, GOLD)]
    return [rating for rating in ratings if rating.name == rater]


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
    return _list(in_words(attribute), entries)


def _entry(name: str, label: str, numbers: Sequence[int], *, most: int = MAX_LINKS) -> AnswerEntry:
    return AnswerEntry(name, label, tuple(numbers[:most]), max(0, len(numbers) - most))


def _list(title: str, entries: Sequence[AnswerEntry], *about: str) -> QuestionEntry:
    return QuestionEntry(anchor("links", *about, f"cards {title}"), title, tuple(entries[:MAX_ANSWERS]))


@dataclass(frozen=True)
class NumberLinks:
    """The links of a table of metrics: anchors of cards.

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
    rows = _common({cell: (cell[0], name) for cell, name in anchors.items()})
    columns = _common({cell: (cell[1], name) for cell, name in anchors.items() if cell[0] not in rows})
    cells = {cell: name for cell, name in anchors.items() if name and cell[0] not in rows and cell[1] not in columns}
    return NumberLinks(rows, columns, cells)


def _common(anchors: Mapping[tuple[int, int], tuple[int, str]]) -> dict[int, str]:
    """Return the anchor that all cells of a row or column share, by its number."""
    of_line: dict[int, set[str]] = {}
    for number, name in anchors.values():
        of_line.setdefault(number, set()).add(name)
    return {number: name for number, names in of_line.items() if len(names) == 1 for name in names if name}
