"""Orders of the cards and the index by answer."""

import pytest

from jobs.page.card_orders import (
    MAX_LINKS,
    answer_anchor,
    answer_index,
    card_orders,
    disagreement,
    question_anchor,
    score_ranges,
)
from jobs.page.page_contents import CardMark, GalleryPicture, MarkedSpan, PictureRating, Wording

KEY = ("r", "q")
WORDS = {KEY: Wording("Question", labels={"1": "low", "2": "middle", "3": "high"})}


def rating(rater, value, *, question="q", score=True, **more):
    number = float(value) if score else None
    return PictureRating(rater, question, value, rubric="r", value=value, score=number, **more)


def card(*ratings, region=""):
    return GalleryPicture("t", ratings=ratings, region=region)


def test_disagreement_is_the_mean_over_questions_of_pairs():
    scored = [rating("a", "1"), rating("b", "3"), rating("c", "3")]  # distances 2, 2, 0 of 4
    words = [rating("a", "x", question="k", score=False), rating("b", "y", question="k", score=False)]
    assert disagreement(scored, {KEY: 4}) == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert disagreement([*scored, *words], {KEY: 4}) == pytest.approx((1 / 3 + 1) / 2)
    assert disagreement(scored[:1], {KEY: 4}) is None
    apart = [rating("a", "1", target="Mali"), rating("b", "3", target="Peru")]
    assert disagreement(apart, {KEY: 4}) is None
    assert disagreement([rating("a", "1"), rating("b", "1", status="refused")], {KEY: 4}) is None
    assert disagreement([rating("a", "1"), rating("b", "1"), rating("c", "2")], {}) == pytest.approx(2 / 3)


def test_answers_with_one_code_are_equal_whatever_their_label():
    one, other = (
        PictureRating(rater, "q", label, rubric="r", value="x") for rater, label in (("a", "low"), ("b", "high"))
    )
    assert disagreement([one, other], {}) == 0
    without_code = [PictureRating(rater, "q", label, rubric="r") for rater, label in (("a", "x"), ("b", "y"))]
    assert disagreement([one, without_code[0]], {}) == disagreement([without_code[0], one], {}) == 0
    assert disagreement(without_code, {}) == disagreement([one, without_code[1]], {}) == 1


def test_the_range_of_a_question_is_that_of_its_scores_on_all_cards():
    cards = [[rating("a", "2"), rating("b", "5"), rating("c", "9", score=False)], [rating("a", "1")],
             [rating(rater, "3", question="p") for rater in "ab"]]  # fmt: skip
    assert score_ranges(cards) == {KEY: 4}


def test_answers_of_the_index_have_their_label_or_their_code():
    words = {KEY: Wording("Question", labels={"2": "two", "1": ""})}
    answers = [rating(value, value, score=False) for value in ("10", "9", "1", "2", "x")]
    (question,) = answer_index([card(*answers)], words)
    assert [answer.label for answer in question.answers] == ["two", "1", "9", "10", "x"]


def test_places_of_different_questions_and_answers_differ():
    keys = [("r", "q"), ("r", "p"), ("s", "q")]
    places = [question_anchor(key) for key in keys]
    places += [answer_anchor(key, value) for key in keys for value in ("1", "2")]
    assert len(set(places)) == 9


def test_orders_by_disagreement_score_and_region():
    cards = [
        card(rating("a", "1"), rating("b", "1"), region="West"),
        card(rating("a", "1"), rating("b", "3"), region="East"),
        card(rating("a", "3"), rating("b", "3"), region="West"),
    ]
    orders = {order.name: order for order in card_orders(cards, WORDS)}
    assert orders["by-disagreement"].places == (2, 1, 3)
    assert orders["by-score"].places == (3, 2, 1)
    assert orders["by-score"].title == "score of “Question”, highest first"
    assert orders["by-region"].headings == ((1, "East"), (3, "West"))
    assert orders["by-region"].places == (4, 2, 5)
    (by_region,) = (order for order in card_orders([card(), *cards], WORDS) if order.name == "by-region")
    assert by_region.headings == ((1, "East"), (3, "West"), (6, "without a region"))
    assert by_region.places == (7, 4, 2, 5)


def test_the_order_by_spans_is_that_of_their_mean_number_per_rater():
    def of_spans(**counts):
        return GalleryPicture(
            "t", marks=[CardMark(r, "people", "mistake", [MarkedSpan("w")] * n) for r, n in counts.items()]
        )

    cards = [card(), of_spans(a=0), of_spans(a=2, b=0), of_spans(a=2)]
    (by_spans,) = card_orders(cards, WORDS)
    assert (by_spans.name, by_spans.places) == ("by-spans", (4, 3, 2, 1))
    assert card_orders([of_spans(a=1), of_spans(b=1)], WORDS) == []


def test_a_raters_spans_of_all_kinds_are_added():
    """The first card has three spans of one rater, the second two of each of two raters."""
    cards = [
        GalleryPicture("t", marks=[CardMark(rater, "people", kind, [MarkedSpan("w")] * n) for rater, kind, n in marks])
        for marks in ((("a", "mistake", 2), ("a", "omission", 1)), (("a", "mistake", 2), ("b", "mistake", 2)))
    ]
    (by_spans,) = card_orders(cards, WORDS)
    assert by_spans.places == (1, 2)


def test_cards_that_cannot_be_ordered_are_not():
    assert card_orders([card(rating("a", "x", score=False)), card()], {}) == []
    assert card_orders([card(rating("a", "1"), rating("b", "3"))], WORDS) == []  # a single card


def test_of_a_question_without_labels_every_answer_is_on_the_scale():
    cards = [card(rating("a", "1"), rating("b", "1")), card(rating("a", "1"), rating("b", "2"))]
    for words in ({}, {KEY: Wording("Question")}):
        assert [(order.name, order.places) for order in card_orders(cards, words)] == [
            ("by-disagreement", (2, 1)), ("by-score", (2, 1))
        ]  # fmt: skip


def test_answers_that_are_not_on_the_scale_do_not_count():
    likelihood = rating("m", "-812.5")
    cards = [card(rating("a", "1"), rating("b", "1"), likelihood), card(rating("a", "1"), rating("b", "2"))]
    (by_disagreement, by_score) = card_orders(cards, WORDS)
    assert by_disagreement.places == (2, 1)
    assert by_score.places == (2, 1)


def test_the_index_has_the_cards_of_each_answer_in_the_order_of_the_scale():
    cards = [card(rating("a", "3"), rating("b", "1")), card(rating("a", "3"))]
    (question,) = answer_index(cards, WORDS)
    assert question.title == "Question"
    assert [(a.label, a.cards, a.more) for a in question.answers] == [("low", (1,), 0), ("high", (1, 2), 0)]
    (question,) = answer_index([*cards, card(rating("a", "1", status="refused"))], WORDS)
    assert [answer.cards for answer in question.answers] == [(1,), (1, 2)]
    (many,) = answer_index([card(rating("a", "3"))] * (MAX_LINKS + 5), WORDS)
    assert (len(many.answers[0].cards), many.answers[0].more) == (MAX_LINKS, 5)
