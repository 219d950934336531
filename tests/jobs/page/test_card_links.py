"""From numbers, cells and rows of plots, and from spans, to cards."""

import re
from dataclasses import replace

import numpy as np
import pytest

from jobs.analysis.span_tables import MarkedText, SpanRater, SpanTables, TextOfItem
from jobs.metrics.metric import Metric, Topic
from jobs.metrics.observations import Confusion, Observations
from jobs.page.card_links import (
    MAX_OF_RATER,
    MarkSelection,
    card_links,
    cards_of,
    cell_anchor,
    marks_anchor,
    marks_of,
    number_links,
    pair_anchor,
    part_anchor,
    rater_anchor,
)
from jobs.page.card_orders import MAX_LINKS, answer_anchor
from jobs.page.metric_tables import MetricTable
from jobs.page.page_contents import CardMark, GalleryPicture, MarkedSpan, Page, PictureRating, Wording
from jobs.page.page_figures import page_figures
from jobs.page.picture_cards import card_marks
from jobs.page.render import render
from tests.jobs.page import sample

DIMS = {"rubric": "r", "question": "q"}
WORDS = {("r", "q"): Wording("Question", labels={"1": "low", "2": "middle", "3": "high"})}


def rating(rater, value, *, score=True, **more):
    more = {"method": "closed"} | more
    number = float(value) if score else None
    return PictureRating(rater, "q", value, rubric="r", value=value, score=number, name=rater, **more)


def person(name, value, **more):
    return rating(name, value, method="human", **more)


def card(*ratings, **attributes):
    return GalleryPicture("t", ratings=ratings, attributes=attributes)


def numbers_of(links):
    return {entry.name: entry.cards for one in links for entry in one.answers}


def test_a_cell_has_the_cards_of_peoples_common_answer_and_the_raters():
    cards = [
        card(person("p1", "1"), person("p2", "2"), rating("m", "3")),  # their mean 1.5 is nearest to 1
        card(person("p1", "2"), person("p2", "3"), person("p3", "3"), rating("m", "3")),  # 2.67
        card(person("p1", "1"), rating("m", "3", status="refused")),
        card(person("p1", "1"), rating("m", "3", target="Mali")),  # of another target
        card(person("p1", "1"), rating("m", "3", extra=(("condition", "article"),))),  # under another condition
    ]
    confusion = Confusion("m", "people", ("1", "2", "3"), np.ones((3, 3), int))
    assert numbers_of(card_links([(DIMS, confusion)], [], cards, WORDS)) == {
        cell_anchor(DIMS, confusion, 0, 2): (1,),
        cell_anchor(DIMS, confusion, 2, 2): (2,),
    }
    (one,) = card_links([(DIMS, confusion)], [], cards, WORDS)
    assert [entry.label for entry in one.answers] == ["low → high", "high"]
    of_condition = DIMS | {"condition": "article"}
    under = [card(person("p1", "1", extra=cards[4].ratings[1].extra), *cards[4].ratings[1:])]
    assert list(numbers_of(card_links([(of_condition, confusion)], [], under, WORDS)).values()) == [(1,)]


def test_cells_are_listed_with_the_widest_difference_first_and_gold_is_a_reference():
    pairs = [("1", "1"), ("2", "3"), ("3", "1"), ("1", "3")]
    cards = [card(rating("g", right, method="gold"), rating("m", value), person("p", "2")) for right, value in pairs]
    confusion = Confusion("m", "gold", ("1", "2", "3"), np.ones((3, 3), int))
    (listed,) = card_links([(DIMS, confusion)], [], cards, WORDS)
    assert listed.title == "Question: gold → m"
    assert [(entry.label, entry.cards) for entry in listed.answers] == [
        ("low → high", (4,)), ("high → low", (3,)), ("middle → high", (2,)), ("low", (1,))
    ]  # fmt: skip
    (of_people,) = card_links([(DIMS, replace(confusion, rater="people"))], [], cards, {})
    assert of_people.title == "q: gold → people"
    assert [(entry.label, entry.cards) for entry in of_people.answers] == [
        ("1 → 2", (1, 4)), ("3 → 2", (3,)), ("2", (2,))
    ]  # fmt: skip


def test_of_categories_more_than_half_of_the_people_decide():
    three = [person(f"p{n}", value, score=False) for n, value in enumerate("aab")]
    model = rating("m", "b", score=False)
    confusion = Confusion("m", "people", ("a", "b"), np.ones((2, 2), int))
    links = card_links([(DIMS, confusion)], [], [card(*three, model), card(*three[1:], model)], {})
    assert numbers_of(links) == {cell_anchor(DIMS, confusion, 0, 1): (1,)}


def test_a_metric_of_scene_graphs_has_the_cards_with_any_answer_of_the_rater():
    def answer(question, rater="m", rubric="dsg"):
        return PictureRating(rater, question, "yes", rubric=rubric, value="yes", name=rater, method="closed")

    cards = [card(answer("1", "other")), card(answer("1"), answer("2")), card(answer("1", rubric="r"))]
    score = Metric(
        name="dsg_score", definition="d", value=0.5, n=2, reason="exact", dims={"rater": "m", "rubric": "dsg"}
    )
    (of_rater,) = card_links([], [score], cards, {})
    assert [(entry.name, entry.cards) for entry in of_rater.answers] == [(cards_of(score), (2,))]
    assert of_rater.title == "dsg, all questions: answers of a rater"


def test_two_raters_have_the_cards_on_which_they_differ_the_widest_first():
    def two(first, second, **more):
        return rating("a", first, **more), rating("b", second, **more)

    cards = [
        card(*two("1", "2"), *two("1", "3", extra=(("condition", "article"),))),  # the widest of both conditions
        card(rating("a", "1"), rating("b", "2")),
        card(rating("a", "1"), rating("b", "3")),
        card(rating("a", "2"), rating("b", "2"), rating("c", "1")),
    ]
    kappa = Metric(
        name="kappa", definition="d", value=0.1, n=3, reason="none", dims=DIMS | {"rater_a": "a", "rater_b": "b"}
    )
    assert numbers_of(card_links([], [kappa], cards, WORDS)) == {pair_anchor("b", "a"): (1, 3, 2)}


def test_subgroups_have_the_cards_with_their_attribute_or_target():
    cards = [card(region="East"), card(region="West"), card(rating("a", "1", target="Mali"), region="East")]
    metrics = [
        Metric(
            name="average_of_shares",
            definition="d",
            value=0.1,
            n=3,
            reason="none",
            dims=DIMS | {"attribute": attribute, "part": part},
        )
        for attribute, part in (("region", "East"), ("region", "South"), ("target", "Mali"))
    ]
    links = numbers_of(card_links([], metrics, cards, WORDS))
    assert links == {part_anchor("region", "East"): (1, 3), part_anchor("target", "Mali"): (3,)}


def metric(name, **dims):
    return Metric(name=name, definition="d", value=0.1, n=3, reason="none", dims=DIMS | dims)


def test_a_rater_has_the_cards_of_its_answers_those_that_differ_most_from_others_first():
    article = (("condition", "article"),)
    ratings = [
        [person("p1", "1"), person("p2", "1"), rating("m", "1")],
        [person("p1", "1"), person("p2", "2"), rating("m", "3")],
        [person("p1", "1"), person("p2", "3"), rating("m", "2")],
        [person("p1", "1"), rating("m", "3", status="refused"), rating("g", "3", method="gold")],
        [rating("m", "2")],
    ]
    cards = [card(*(replace(one, extra=(("condition", ""),)) for one in of_card)) for of_card in ratings]
    cards.append(card(rating("m", "2", extra=article)))
    metrics = [
        metric("group_mean_score", group="m"),
        metric("alpha", group="people"),
        metric("mean_deviation", rater="m", group="people"),
        metric("status_share", group="models", status="refused"),
        metric("welch_p", group="x", attribute="region", first="East", second="West"),
        metric("alpha", group="m", condition="article"),
        metric("group_mean_score", group="nobody"),
    ]
    assert numbers_of(card_links([], metrics, cards, WORDS)) == {
        rater_anchor(DIMS, "m"): (2, 3, 1, 5),  # mean distances 0.75, 0.5, 0, and of nobody else
        rater_anchor(DIMS, "people"): (3, 2, 1, 4),
        rater_anchor(DIMS | {"condition": "article"}, "m"): (6,),
    }
    assert [cards_of(one) != "" for one in metrics] == [True, True, True, False, False, True, True]
    titles = ["Question: answers of a rater", "Question, article: answers of a rater"]
    assert [listed.title for listed in card_links([], metrics, cards, WORDS)] == titles
    unnamed = [listed.title for listed in card_links([], metrics[:1], cards, {})]
    assert unnamed == ["q: answers of a rater"]


def test_the_cards_of_all_models_are_sorted_by_their_disagreement():
    cards = [
        card(rating("m", "1"), rating("n", "1"), rating("gold", "3", method="gold"), person("p1", "3")),
        card(rating("m", "1"), rating("n", "2")),
        card(person("p1", "1"), rating("gold", "3", method="gold")),
        card(rating("m", "3"), person("p1", "1")),
    ]
    links = numbers_of(card_links([], [metric("group_mean_score", group="models")], cards, WORDS))
    assert links == {rater_anchor(DIMS, "models"): (2, 1, 4)}


def test_a_pair_and_a_subgroup_have_their_cards_also_without_a_question():
    def place(name, **dims):
        return cards_of(Metric(name=name, definition="d", value=0.1, n=3, reason="none", dims=dims))

    assert place("kappa", rater_a="a", rater_b="b") == pair_anchor("b", "a")
    assert place("group_mean_score", attribute="region", part="East") == part_anchor("region", "East")
    assert place("group_mean_score", group="a") == place("kappa", rater_a="a") == ""
    anchors = [part_anchor("region", "East"), part_anchor("country", "East"), part_anchor("region", "West")]
    anchors += [rater_anchor({"rubric": rubric, "question": question}, "m") for rubric in "rs" for question in "qp"]
    assert len(set(anchors)) == 7


def test_of_many_cards_the_first_are_listed_and_the_others_counted():
    cards = [card(rating("m", "1"), region="East") for _ in range(MAX_LINKS + 2)]
    metrics = [metric("group_mean_score", group="m"), metric("alpha", attribute="region", part="East")]
    for count, of_rater, of_part in ((MAX_LINKS + 2, MAX_LINKS + 2 - MAX_OF_RATER, 2), (MAX_OF_RATER, 0, 0)):
        links = card_links([], metrics, cards[:count], WORDS)
        more = {entry.name: (len(entry.cards), entry.more) for one in links for entry in one.answers}
        assert more == {
            rater_anchor(DIMS, "m"): (MAX_OF_RATER, of_rater), part_anchor("region", "East"): (count - of_part, of_part)
        }  # fmt: skip


def test_the_share_and_the_quality_of_an_answer_rest_on_its_cards():
    share, quality = metric("majority_share", answer="2"), metric("annotation_quality", annotation="2")
    assert cards_of(share) == cards_of(quality) == answer_anchor((DIMS["rubric"], DIMS["question"]), "2")


def test_a_raters_answer_is_not_compared_with_itself():
    cards = [
        card(*(person(f"p{n}", value) for n, value in enumerate("2221")), rating("m", "1")),  # 1.5 of 4 pairs
        card(person("p1", "2"), rating("m", "1")),  # 0.5 of 1
        card(person("p1", "3"), rating("m", "1")),
    ]
    links = numbers_of(card_links([], [metric("group_mean_score", group="m")], cards, WORDS))
    assert links == {rater_anchor(DIMS, "m"): (3, 2, 1)}


def test_a_table_links_a_row_or_a_column_whose_numbers_rest_on_the_same_cards():
    east, west = ({"attribute": "region", "part": part} for part in ("East", "West"))
    pair = {"rater_a": "a", "rater_b": "b"}
    lines = [
        [metric("average_of_shares", **east, group="a"), metric("average_of_shares", **east, group="b")],
        [metric("average_of_shares", **west, group="a"), metric("average_of_shares", **west, group="b")],
        [metric("group_mean_score", group="a"), metric("group_mean_score", group="b")],
        [metric("alpha", group="a"), None],
        [metric("kappa", **pair), metric("alpha", group="b")],
    ]
    table = MetricTable(
        "t", Topic.SCORES, ("a", "b"), tuple((str(n), tuple(line)) for n, line in enumerate(lines)), 0, (), ()
    )
    of_a, of_b, of_pair = rater_anchor(DIMS, "a"), rater_anchor(DIMS, "b"), pair_anchor("a", "b")
    links = number_links(table, {part_anchor("region", "East"), of_a, of_b, of_pair})
    assert links.rows == {0: part_anchor("region", "East"), 3: of_a}
    assert links.columns == {}, "no card of the second row is shown"
    assert links.cells == {(2, 0): of_a, (2, 1): of_b, (4, 0): of_pair, (4, 1): of_b}
    two = MetricTable("t", Topic.SCORES, ("a", "b"), table.rows[2:3] * 2, 0, (), ())
    assert number_links(two, {of_a, of_b}).columns == {0: of_a, 1: of_b}
    assert number_links(two, set()).columns == {}


@pytest.fixture(scope="module")
def html() -> str:
    return render(sample.linked_page())


def test_every_link_of_a_plot_leads_to_cards_of_the_page(html: str) -> None:
    links = re.findall(r'<a href="#([\w-]+)" aria-label="([^"]+)"><', html)
    assert any(label.startswith("Cards on which") for _, label in links)
    assert any(label.startswith("Cards: people") for _, label in links)
    assert any(label == "Cards: East" for _, label in links)
    assert {name for name, _ in links} <= set(re.findall(r' id="([^"]+)"', html))
    assert "cards:" not in html


def test_every_link_of_a_number_leads_to_the_cards_that_it_rests_on(html: str) -> None:
    page = sample.linked_page()
    section = html[html.index('<section id="metrics"') : html.index('<section id="pictures"')]
    linked = set(re.findall(r'href="#([\w-]+)"', section))
    lists = dict(re.findall(r'<div id="([\w-]+)"><dt dir="auto">[^<]*</dt><dd>(.*?)</dd>', html))
    numbers = {name: re.findall("#picture-([0-9]+)", cards) for name, cards in lists.items() if name in linked}
    shown = {name: list(map(int, cards)) for name, cards in numbers.items()}
    dims = {"rubric": "century_labels", "question": "sensitive"}
    of_model = [
        number
        for number, one in enumerate(page.pictures, start=1)
        if any(r.name == sample.RATERS[0] and r.question == "sensitive" and r.status == "ok" for r in one.ratings)
    ]
    assert {n % 2 for n in shown[part_anchor("region", "East")]} == {1}
    assert {n % 2 for n in shown[part_anchor("region", "West")]} == {0}
    assert set(shown[rater_anchor(dims, sample.RATERS[0])]) < set(of_model)
    assert len(shown[rater_anchor(dims, "people")]) == 12
    assert page.pictures[shown[rater_anchor(dims, "people")][0] - 1].ratings[-1].score in (1, 5), "the widest first"
    assert pair_anchor("p1", "p2") in shown
    for name in set(re.findall(r'<(?:th|td)[^>]*>(?:<b>)?<a href="#([\w-]+)"', section)):
        assert name in shown, "each linked row, column and number has a list of cards"


def test_plots_without_cards_have_no_links() -> None:
    page = sample.linked_page()
    figures, _ = page_figures(page.metrics, Observations(), page.wording)
    bare = render(Page("t", metrics=page.metrics, wording=page.wording, figures=figures))
    assert 'role="group"' not in bare
    assert 'aria-label="Cards' not in bare


ANNA = SpanRater("anna", "human", "")
MODEL = SpanRater("org/m@1", "claims", "short")
LABEL = "org/m@1 · method claims · condition short"
TEXT, OTHER_TEXT = TextOfItem("i", "generated"), TextOfItem("other", "generated")
TEXT_WORDS = {"generated": "An otter on a very sandy beach."}


def span_metric(name, **dims):
    return Metric(name=name, definition="d", value=0.5, n=2, reason="exact", dims=dims)


def marked_card(*marks, **attributes):
    return GalleryPicture("t", marks=marks, attributes=attributes)


def mark(rater, *spans, kind="mistake", group="people"):
    return CardMark(rater, group, kind, tuple(MarkedSpan(*span) for span in spans))


def test_an_item_has_the_spans_of_each_rater_in_the_order_of_the_text():
    marked = MarkedText(spans=[(14, 24), (3, 8), (3, 8)], categories=["size+place", "animal", "animal"])
    readings = {ANNA: {TEXT: marked, OTHER_TEXT: marked}, MODEL: {TEXT: MarkedText()}}
    tables = SpanTables(
        {"omission": {ANNA: {TEXT: MarkedText()}}, "mistake": readings}, TEXT_WORDS, {"org/m@1": "model"}
    )
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
    tables = SpanTables({"mistake": {ANNA: {TEXT: MarkedText()}}}, TEXT_WORDS, {"anna": kind})
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
        (
            span_metric("span_f1", **claims, kind="mistake", against="people"),
            MarkSelection("m · method claims", "mistake"),
        ),
        (span_metric("span_agreement", group="people", kind="omission"), MarkSelection("people", "omission")),
        (span_metric("span_status_share", rater="m", kind="mistake", status="ok"), MarkSelection("m", "mistake")),
        (span_metric("span_status_share", rater="m", kind="mistake", status="refused"), None),
        (span_metric("description_mistake_share", group="people", model="w"), MarkSelection("people", "mistake", "w")),
        (span_metric("description_coverage", rater="m"), MarkSelection("m", "omission")),
        (span_metric("description_mistakes", rater="m", category="size"), MarkSelection("m", "mistake", "", "size")),
        (span_metric("description_pearson", rater="m", score="quality"), MarkSelection("m")),
        (span_metric("description_pearson", score="precision"), None),
        (span_metric("kappa", rater="m"), None),
    ]
    assert [marks_of(of_case) for of_case, _ in cases] == [marks for _, marks in cases]


def test_a_metric_has_the_cards_of_its_rater_kind_writer_and_category_the_most_spans_first():
    cards = [
        marked_card(mark("anna"), mark("anna", ("a",), kind="omission"), model="w"),
        marked_card(mark("anna", ("a", "size"), ("b",)), mark("m", ("a",), group="models"), model="w"),
        marked_card(mark("bo", ("a", "place, size"), ("b",), ("c",)), text_column="v"),
        marked_card(mark("m", ("a",), group="models", kind="omission")),
        marked_card(),
    ]
    metrics = [
        span_metric("span_f1", rater="anna", kind="mistake"),
        span_metric("description_mistakes", group="people"),
        span_metric("description_mistakes", group="people", model="v"),
        span_metric("description_mistakes", group="people", category="size"),
        span_metric("description_omissions", rater="m"),
        span_metric("description_pearson", rater="m", score="quality"),
        span_metric("description_omissions", group="gold"),  # without cards
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
    cards = [marked_card(mark("anna", ("a",)))] * (MAX_OF_RATER + 3)
    (of_kind,) = card_links([], [span_metric("span_f1", rater="anna", kind="mistake")], cards, {})
    (entry,) = of_kind.answers
    assert (entry.cards, entry.more) == (tuple(range(1, MAX_OF_RATER + 1)), 3)


def test_a_card_shows_its_spans_and_numbers_link_to_it():
    (sampled,) = sample.pictures([sample.drawn(1)])
    shown = replace(sampled, ratings=(), marks=[mark("anna", ("<b>", "size")), mark(LABEL, group="models")])
    f1 = span_metric("span_f1", rater="anna", kind="mistake", unit="token")
    links = card_links([], [f1], [shown], {})
    html = render(Page("t", metrics=[f1], pictures=[shown], links=links))
    assert "<q>&lt;b&gt;</q> <small>size</small>" in html
    assert f'<bdi>{LABEL}</bdi></dt><dd dir="auto"><span class="faint">none</span>' in html
    name = marks_anchor(MarkSelection("anna", "mistake"))
    assert f'id="{name}"' in html
    assert f'href="#{name}"' in html
    assert "and the spans marked in their texts" in html
    assert "<h3>Spans</h3>" in html
