"""Orders of the gallery's cards, and the index of cards by answer. The page has no scripts: orders are anchors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from actors.status import Status
from jobs.page.page_contents import AnswerEntry, GalleryPicture, PictureRating, QuestionEntry, Wording
from jobs.page.page_names import anchor

MAX_LINKS = 24  # cards of an answer in the index
MAX_ANSWERS = 60  # different answers of a question in the index

Line = tuple[str, str, str]  # rubric, question, target
Key = tuple[str, str]  # rubric, question


@dataclass(frozen=True)
class CardOrder:
    """An order of the cards.

    Attributes:
        name: its anchor; page.css has a rule for each name.
        title: what the cards are sorted by; about: how it is computed.
        places: the place of each card in this order.
        headings: (place, text) between the cards.
    """

    name: str
    title: str
    about: str
    places: tuple[int, ...]
    headings: tuple[tuple[int, str], ...] = ()


def card_orders(cards: Sequence[GalleryPicture], wording: Mapping[Key, Wording]) -> list[CardOrder]:
    """Return the orders that the cards allow, if there are several: by disagreement, score, spans and region."""
    if len(cards) < 2:
        return []
    orders = []
    ratings = [[rating for rating in card.ratings if _on_scale(rating, wording)] for card in cards]
    ranges = score_ranges(ratings)
    disagreements = [disagreement(of_card, ranges) for of_card in ratings]
    if any(disagreements):
        about = (
            "two raters’ mean disagreement over questions: 1 for different categories; on scales, the distance of "
            "their scores / the widest distance on the page"
        )
        keys = [-1.0 if value is None else value for value in disagreements]
        orders.append(CardOrder("by-disagreement", "disagreement, widest first", about, _places(keys, reverse=True)))
    if scored := _scored_question(ratings, wording):
        means = [_mean_score(of_card, scored) for of_card in ratings]
        title = wording[scored].title if scored in wording else scored[1]
        keys = [float("-inf") if value is None else value for value in means]
        about = "mean score of all raters and targets"
        orders.append(CardOrder("by-score", f"score of “{title}”, highest first", about, _places(keys, reverse=True)))
    numbers_of_spans = [_spans_per_rater(card) for card in cards]
    if len(set(numbers_of_spans)) > 1:
        about = "mean number of spans per rater, of all kinds; cards without marked texts come last"
        places = _places(numbers_of_spans, reverse=True)
        orders.append(CardOrder("by-spans", "number of spans, most first", about, places))
    if len({card.region for card in cards}) > 1:
        orders.append(_by_region(cards))
    return orders


def disagreement(ratings: Sequence[PictureRating], ranges: Mapping[Key, float]) -> float | None:
    """Return the mean disagreement, from 0 to 1, of pairs of raters of one question and target; None without a pair.

    Args:
        ranges: (rubric, question) -> widest distance between two scores; questions without one have categories.
    """
    lines: dict[Line, list[PictureRating]] = {}
    for rating in ratings:
        if rating.status == Status.OK:
            lines.setdefault((rating.rubric, rating.question, rating.target), []).append(rating)
    means = []
    for (rubric, question, _), of_line in lines.items():
        width = ranges.get((rubric, question))
        distances = [
            abs(a.score - b.score) / width
            if width and a.score is not None and b.score is not None
            else float((a.value or a.answer) != (b.value or b.answer))
            for a, b in combinations(of_line, 2)
        ]
        if distances:
            means.append(sum(distances) / len(distances))
    return sum(means) / len(means) if means else None


def answer_index(cards: Sequence[GalleryPicture], wording: Mapping[Key, Wording]) -> list[QuestionEntry]:
    """Return the cards on which any rater gave an answer, by question and answer, in the order of `wording`."""
    numbers_of: dict[Key, dict[str, dict[int, None]]] = {}
    for number, card in enumerate(cards, start=1):
        for rating in card.ratings:
            if rating.status == Status.OK and rating.value is not None:
                of_question = numbers_of.setdefault((rating.rubric, rating.question), {})
                of_question.setdefault(rating.value, {}).setdefault(number)
    place = {key: number for number, key in enumerate(wording)}
    entries = []
    for key in sorted(numbers_of, key=lambda key: (place.get(key, len(place)), key)):
        words = wording.get(key, Wording(key[1]))
        listed = list(words.labels)
        values = sorted(numbers_of[key], key=lambda v: (listed.index(v) if v in listed else len(listed), _number(v), v))
        answers = tuple(
            AnswerEntry(
                answer_anchor(key, value),
                words.labels.get(value) or value,
                tuple(numbers_of[key][value])[:MAX_LINKS],
                max(0, len(numbers_of[key][value]) - MAX_LINKS),
            )
            for value in values[:MAX_ANSWERS]
        )
        entries.append(QuestionEntry(question_anchor(key), words.title, answers))
    return entries


def question_anchor(key: Key) -> str:
    """Return the anchor of a question in the index."""
    return anchor("pictures", key[0], f"pictures {key[1]}")


def answer_anchor(key: Key, value: str) -> str:
    """Return the anchor of an answer in the index."""
    return anchor("answers", *key, f"answer {value}")


def _by_region(cards: Sequence[GalleryPicture]) -> CardOrder:
    regions = sorted({card.region for card in cards}, key=lambda region: (not region, region))
    places, headings, place = [0] * len(cards), [], 1
    for region in regions:
        headings.append((place, region or "without a region"))
        for number, card in enumerate(cards):
            if card.region == region:
                place += 1
                places[number] = place
        place += 1
    return CardOrder("by-region", "region", "attribute of the item, or its most frequent answer", tuple(places),
                     tuple(headings))  # fmt: skip


def _places(keys: Sequence[float], *, reverse: bool) -> tuple[int, ...]:
    ranked = sorted(range(len(keys)), key=lambda number: keys[number], reverse=reverse)
    places = [0] * len(keys)
    for place, number in enumerate(ranked, start=1):
        places[number] = place
    return tuple(places)


def _on_scale(rating: PictureRating, wording: Mapping[Key, Wording]) -> bool:
    """Return whether an answer is one of the question's labels, unlike a likelihood; True if they are unknown."""
    words = wording.get((rating.rubric, rating.question))
    return words is None or not words.labels or rating.value in words.labels


def score_ranges(ratings: Iterable[Iterable[PictureRating]]) -> dict[Key, float]:
    """Return the widest distance between two scores by (rubric, question), for questions that have scores."""
    scores: dict[Key, list[float]] = {}
    for of_card in ratings:
        for rating in of_card:
            if rating.score is not None:
                scores.setdefault((rating.rubric, rating.question), []).append(rating.score)
    return {key: max(values) - min(values) for key, values in scores.items() if max(values) > min(values)}


def _scored_question(ratings: Iterable[Iterable[PictureRating]], wording: Mapping[Key, Wording]) -> Key | None:
    """Return the first question with scores, in the order of `wording`; None if no rating has a score."""
    scored = {(r.rubric, r.question) for of_card in ratings for r in of_card if r.score is not None}
    place = {key: number for number, key in enumerate(wording)}
    return min(scored, key=lambda key: (place.get(key, len(place)), key), default=None)


def _mean_score(ratings: Iterable[PictureRating], key: Key) -> float | None:
    scores = [r.score for r in ratings if (r.rubric, r.question) == key and r.score is not None]
    return sum(scores) / len(scores) if scores else None


def _spans_per_rater(card: GalleryPicture) -> float:
    """Return the mean number of spans per rater who read the card's texts; -1 if nobody did."""
    raters = {mark.rater for mark in card.marks}
    return sum(len(mark.spans) for mark in card.marks) / len(raters) if raters else -1.0


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("inf")
