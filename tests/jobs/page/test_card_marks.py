"""Spans on cards, and the cards that the metrics of spans link to."""

from dataclasses import replace

import pytest

from jobs.analysis.span_tables import MarkedText, SpanRater, SpanTables, TextOfItem
from jobs.metrics.metric import Metric
from jobs.page.card_links import MAX_OF_RATER, MarkSelection, card_links, cards_of, marks_anchor, marks_of
from jobs.page.page_contents import CardMark, GalleryPicture, MarkedSpan, Page
from jobs.page.picture_cards import card_marks
from jobs.page.render import render
from tests.jobs.page import sample

ANNA = SpanRater("anna", "human", "")
MODEL = SpanRater("org/m@1", "claims", "short")
LABEL = "org/m@1 · method claims · condition short"
TEXT, OTHER_TEXT = TextOfItem("i", "generated"), TextOfItem("other", "generated")
WORDS = {"generated": "An otter on a very sandy beach."}


def metric(name, **dims):
    return Metric(name=name, definition="d", value=0.5, n=2, reason="exact", dims=dims)


def card(*marks, **attributes):
    return GalleryPicture("t", marks=marks, attributes=attributes)


def mark(rater, *spans, kind="mistake", group="people"):
    return CardMark(rater, group, kind, tuple(MarkedSpan(*span) for span in spans))


def test_an_item_has_the_spans_of_each_rater_in_the_order_of_the_text():
    marked = MarkedText(spans=[(14, 24), (3, 8), (3, 8)], categories=["size+place", "animal", "animal"])
    readings = {ANNA: {TEXT: marked, OTHER_TEXT: marked}, MODEL: {TEXT: MarkedText()}}
    tables = SpanTables({"omission": {ANNA: {TEXT: MarkedText()}}, "mistake": readings}, WORDS, {"org/m@1": "model"})
    spans = (MarkedSpan("otter", "animal"), MarkedSpan("very sandy", "size, place"))
    assert card_marks(tables, {"i", "without spans"}) == {
        "i": [
            CardMark("anna", "people", "mistake", spans),
            CardMark(LABEL, "models", "mistake"),
            CardMark("anna", "people", "omission"),
        ]
    }


@pytest.mark.parametrize(("kind", "group"), [("human", "people"), ("encoder", "models"), ("gold", "gold")])
def test_a_rater_belongs_to_the_group_of_its_kind(kind, group):
    tables = SpanTables({"mistake": {ANNA: {TEXT: MarkedText()}}}, WORDS, {"anna": kind})
    (of_item,) = card_marks(tables, {"i"})["i"]
    assert of_item.group == group


def test_without_texts_a_span_has_its_position_and_a_long_one_is_shortened():
    marked = MarkedText(spans=[(0, 200)], categories=[""])
    readings = {"mistake": {ANNA: {TEXT: marked}}}
    (unknown,) = card_marks(SpanTables(readings, None, {}), {"i"})["i"]
    assert [span.words for span in unknown.spans] == ["characters 0 to 200"]
    (long,) = card_marks(SpanTables(readings, {"generated": "x" * 300}, {}), {"i"})["i"]
    assert [span.words for span in long.spans] == ["x" * 120 + "…"]


def test_the_marks_that_a_metric_rests_on():
    claims = {"rater": "m", "method": "claims"}
    cases = [
        (metric("span_f1", **claims, kind="mistake", against="people"), MarkSelection("m · method claims", "mistake")),
        (metric("span_agreement", group="people", kind="omission"), MarkSelection("people", "omission")),
        (metric("span_status_share", rater="m", kind="mistake", status="ok"), MarkSelection("m", "mistake")),
        (metric("span_status_share", rater="m", kind="mistake", status="refused"), None),
        (metric("description_mistake_share", group="people", model="w"), MarkSelection("people", "mistake", "w")),
        (metric("description_coverage", rater="m"), MarkSelection("m", "omission")),
        (metric("description_mistakes", rater="m", category="size"), MarkSelection("m", "mistake", "", "size")),
        (metric("description_pearson", rater="m", score="quality"), MarkSelection("m")),
        (metric("description_pearson", score="precision"), None),
        (metric("kappa", rater="m"), None),
    ]
    assert [marks_of(of_case) for of_case, _ in cases] == [marks for _, marks in cases]


def test_a_metric_has_the_cards_of_its_rater_kind_writer_and_category_the_most_spans_first():
    cards = [
        card(mark("anna"), mark("anna", ("a",), kind="omission"), model="w"),
        card(mark("anna", ("a", "size"), ("b",)), mark("m", ("a",), group="models"), model="w"),
        card(mark("bo", ("a", "place, size"), ("b",), ("c",)), text_column="v"),
        card(mark("m", ("a",), group="models", kind="omission")),
        card(),
    ]
    metrics = [
        metric("span_f1", rater="anna", kind="mistake"),
        metric("description_mistakes", group="people"),
        metric("description_mistakes", group="people", model="v"),
        metric("description_mistakes", group="people", category="size"),
        metric("description_omissions", rater="m"),
        metric("description_pearson", rater="m", score="quality"),
        metric("description_omissions", group="gold"),  # without cards
    ]
    lists = card_links([], [*metrics, metrics[0]], cards, {})
    assert [entry.title for entry in lists] == ["Marked spans: mistake", "Marked spans: omission", "Marked spans"]
    numbers = {entry.name: entry.cards for of_kind in lists for entry in of_kind.answers}
    assert [numbers.get(cards_of(of_spans)) for of_spans in metrics] == [
        (2, 1),
        (3, 2, 1),
        (3,),
        (2, 3),
        (4,),
        (2, 4),
        None,
    ]
    assert [entry.label for entry in lists[0].answers] == ["anna", "people", "people · v", "people · size"]


def test_an_entry_names_few_cards_and_counts_the_others():
    cards = [card(mark("anna", ("a",)))] * (MAX_OF_RATER + 3)
    (of_kind,) = card_links([], [metric("span_f1", rater="anna", kind="mistake")], cards, {})
    (entry,) = of_kind.answers
    assert (entry.cards, entry.more) == (tuple(range(1, MAX_OF_RATER + 1)), 3)


def test_a_card_shows_its_spans_and_numbers_link_to_it():
    (sampled,) = sample.pictures([sample.drawn(1)])
    shown = replace(sampled, ratings=(), marks=[mark("anna", ("<b>", "size")), mark(LABEL, group="models")])
    f1 = metric("span_f1", rater="anna", kind="mistake", unit="token")
    links = card_links([], [f1], [shown], {})
    html = render(Page("t", metrics=[f1], pictures=[shown], links=links))
    assert "<q>&lt;b&gt;</q> <small>size</small>" in html
    assert f'<bdi>{LABEL}</bdi></dt><dd dir="auto"><span class="faint">none</span>' in html
    name = marks_anchor(MarkSelection("anna", "mistake"))
    assert f'id="{name}"' in html
    assert f'href="#{name}"' in html
    assert "and the spans marked in their texts" in html
    assert "<h3>Spans</h3>" in html
