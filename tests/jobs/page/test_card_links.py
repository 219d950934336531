"""From cells and rows of plots to cards."""

import re

import numpy as np
import pytest

from jobs.metrics.confusion import Confusion
from jobs.metrics.metric import Metric
from jobs.metrics.observations import Observations
from jobs.page.card_links import card_links, cell_anchor, pair_anchor, part_anchor
from jobs.page.model import GalleryPicture, Page, PictureRating, Wording
from jobs.page.page_figures import page_figures
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


def cards_of(links):
    return {entry.name: entry.cards for one in links.lists for entry in one.answers}


def test_a_cell_has_the_cards_of_peoples_common_answer_and_the_raters():
    cards = [
        card(person("p1", "1"), person("p2", "2"), rating("m", "3")),  # their mean 1.5 is nearest to 1
        card(person("p1", "2"), person("p2", "3"), person("p3", "3"), rating("m", "3")),  # 2.67
        card(person("p1", "1"), rating("m", "3", status="refused")),
        card(person("p1", "1"), rating("m", "3", target="Mali")),  # of another target
        card(person("p1", "1"), rating("m", "3", extra=(("condition", "article"),))),  # under another condition
    ]
    confusion = Confusion("m", "people", ("1", "2", "3"), np.ones((3, 3), int))
    assert cards_of(card_links([(DIMS, confusion)], [], cards, WORDS)) == {
        cell_anchor(DIMS, confusion, 0, 2): (1,),
        cell_anchor(DIMS, confusion, 2, 2): (2,),
    }
    (one,) = card_links([(DIMS, confusion)], [], cards, WORDS).lists
    assert [entry.label for entry in one.answers] == ["low → high", "high"]
    of_condition = DIMS | {"condition": "article"}
    under = [card(person("p1", "1", extra=cards[4].ratings[1].extra), *cards[4].ratings[1:])]
    assert list(cards_of(card_links([(of_condition, confusion)], [], under, WORDS)).values()) == [(1,)]


def test_of_categories_more_than_half_of_the_people_decide():
    three = [person(f"p{n}", value, score=False) for n, value in enumerate("aab")]
    model = rating("m", "b", score=False)
    confusion = Confusion("m", "people", ("a", "b"), np.ones((2, 2), int))
    links = card_links([(DIMS, confusion)], [], [card(*three, model), card(*three[1:], model)], {})
    assert cards_of(links) == {cell_anchor(DIMS, confusion, 0, 1): (1,)}


def test_two_raters_have_the_cards_on_which_they_differ_the_widest_first():
    cards = [
        card(rating("a", "1"), rating("b", "2")),
        card(rating("a", "1"), rating("b", "3")),
        card(rating("a", "2"), rating("b", "2"), rating("c", "1")),
    ]
    kappa = Metric(
        name="kappa", definition="d", value=0.1, n=3, reason="none", dims=DIMS | {"rater_a": "a", "rater_b": "b"}
    )
    assert cards_of(card_links([], [kappa], cards, WORDS)) == {pair_anchor("b", "a"): (2, 1)}


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
    links = cards_of(card_links([], metrics, cards, WORDS))
    assert links == {part_anchor("region", "East"): (1, 3), part_anchor("target", "Mali"): (3,)}


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


def test_plots_without_cards_have_no_links() -> None:
    page = sample.linked_page()
    figures, _ = page_figures(page.metrics, Observations(), page.wording)
    bare = render(Page("t", metrics=page.metrics, wording=page.wording, figures=figures))
    assert 'role="group"' not in bare
    assert 'aria-label="Cards' not in bare
