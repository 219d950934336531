"""The page's promises: everything escaped, nothing loaded, the numbers there, empty pages sensible."""

import dataclasses
import io
import re
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from jobs.html.thumbnails import Thumbnail, thumbnail
from jobs.metrics.distributions import Share
from jobs.metrics.intervals import Interval
from jobs.metrics.metric import Metric
from jobs.page.page_contents import (
    FOLDED_TEXT,
    FunnelStep,
    GalleryPicture,
    Page,
    PageSection,
    PictureRating,
    SectionTable,
    TableSummary,
    Wording,
)
from jobs.page.render import FIRST_CARDS, MAX_ANSWERS, MAX_CELLS, PRINTED_CARDS, kept, render, spans, within
from tests.jobs.page import sample

HOSTILE = (
    "<script>alert(1)</script>\"'><img src=http://evil.example/x onerror=alert(1)> {{ 7 * 7 }} </style></title>-->"
)
VOID = {"meta", "link", "img", "input", "br", "hr"}


class Elements(HTMLParser):
    """The elements of a page with their attributes, its text, and whether every element is closed in order."""

    def __init__(self, html):
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data

    def all(self, name):
        return [attrs for tag, attrs in self.found if tag == name]


@pytest.fixture(scope="module")
def html():
    return render(sample.page())


@pytest.fixture(scope="module")
def elements(html):
    return Elements(html)


def hostile_page():
    rows = sample.ratings(raters=[HOSTILE], pictures=2)
    for row in rows:
        row |= {"question": HOSTILE, "answers": [HOSTILE], "score": None, "rubric": HOSTILE}
        row["value"] = HOSTILE if row["status"] == "ok" else None
    small = Thumbnail(b"RIFF", "image/webp", 3, 2)
    facts = [(HOSTILE, HOSTILE)]
    return Page(
        title=HOSTILE,
        lede=HOSTILE,
        provenance=facts,
        notices=[HOSTILE],
        steps=[FunnelStep(HOSTILE, 1, HOSTILE, HOSTILE)],
        tables=[TableSummary(HOSTILE, 1, 1, {HOSTILE: 1})],
        distributions=sample.distributions(rows),
        wording={(HOSTILE, HOSTILE): Wording(HOSTILE, HOSTILE, {HOSTILE: HOSTILE})},
        pictures=[
            GalleryPicture(
                title=HOSTILE,
                caption=HOSTILE,
                alt=HOSTILE,
                thumbnails=[shown] if shown else [],
                status=HOSTILE,
                error_kind=HOSTILE,
                facts=facts,
                ratings=[PictureRating(rater, HOSTILE, HOSTILE, status) for rater, status in raters],
                source_url=url,
            )
            for shown in (small, None)
            for raters in ([(HOSTILE, "ok"), ("x", HOSTILE)], [(f"{HOSTILE}{i}", "ok") for i in range(5)])
            for url in ("javascript:alert(1)", f"https://a.example/{HOSTILE.replace(' ', '')}")
        ],
    )


def test_hostile_text_stays_text():
    html = render(hostile_page())
    elements = Elements(html)
    assert {tag for tag, _ in elements.found}.isdisjoint({"script", "iframe", "object", "embed", "form", "base"})
    assert len(elements.all("style")) == len(elements.all("title")) == 1
    assert not [name for _, attrs in elements.found for name in attrs if name.startswith("on")]
    assert all(attrs["src"].startswith("data:image/webp;base64,") for attrs in elements.all("img"))
    assert {attrs["alt"] for attrs in elements.all("img")} == {HOSTILE}
    assert "{{ 7 * 7 }}" in elements.text
    assert elements.text.count("<script>alert(1)</script>") > 20


def test_a_section_has_tables_of_metrics_and_texts():
    share = Metric(name="estimate", definition="d", value=0.25, low=0.125, high=0.5, n=40, interval_method="ppi")
    table = SectionTable(
        "By <b>", ["model", "source"], [("a row", [share, "people"]), ("none", [None, None])], ["note."]
    )
    html = render(Page("t", sections=[PageSection("estimates", "Estimates", "About them.", [table], folded=True)]))
    elements = Elements(html)
    (section,) = re.findall('<section id="estimates".*?</section>', html, re.DOTALL)
    assert re.findall(r"<td[^>]*>(.*?)</td>", section)[1:] == ["people", "", ""]
    assert all(
        text in section for text in ("<b>0.250</b>", "0.125 to 0.500 · n 40", "About them.", "note.", "<details>")
    )
    assert "By <b>" in elements.text


def test_adjacent_columns_share_a_header_above_the_last_level():
    columns = [("a", "x"), ("a", "y"), ("b", "y"), ("a", "y"), ("a", "y")]
    assert spans(columns, 0) == [("a", 2), ("b", 1), ("a", 2)]
    assert spans(columns, 1) == [("x", 1), ("y", 1), ("y", 1), ("y", 1), ("y", 1)]


def test_links_are_only_http_addresses_or_places_on_the_page():
    hrefs = [attrs["href"] for attrs in Elements(render(hostile_page())).all("a")]
    assert all(href.startswith(("https://a.example/", "#")) for href in hrefs)
    assert sum(href.startswith("https") for href in hrefs) == 2  # a card without a thumbnail is not shown


def test_outside_links_send_no_referrer(elements):
    outside = [attrs for attrs in elements.all("a") if attrs["href"].startswith("http")]
    assert len(outside) == 22
    assert all("noopener" in attrs["rel"] and "noreferrer" in attrs["rel"] for attrs in outside)


def test_the_policy_is_strict_and_comes_before_anything_it_governs(elements):
    tags = [(tag, attrs) for tag, attrs in elements.found if tag not in {"html", "head"}]
    assert tags[0] == ("meta", {"charset": "utf-8"})
    assert tags[1][1]["http-equiv"] == "Content-Security-Policy"
    policy = dict(part.strip().split(" ", 1) for part in tags[1][1]["content"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "img-src": "data:",
        "style-src": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_nothing_is_loaded(html, elements):
    assert not re.search(r"@import|url\(|srcset|<script|<iframe|<object|http-equiv=\"refresh", html, re.I)
    assert all(attrs["href"] == "data:," for attrs in elements.all("link"))
    assert all(attrs["src"].startswith("data:") for _, attrs in elements.found if "src" in attrs)


def test_the_numbers_are_there(html, elements):
    text = " ".join(elements.text.split())
    for expected in ("37,800,000", "1,214,530", "3.2%", "1,488 ok", "9 missing", "22 cards, drawn from 1,488 pictures",
                     "Not shown: 2 error"):  # fmt: skip
        assert expected in text
    for distribution in sample.page().distributions:
        assert f"{distribution.ok / distribution.with_input:.1%}" in text
        for share in distribution.answers:
            assert share.share is not None
            assert f"{share.share:.1%}" in text
    assert "random weights: its answers are meaningless" in text


def test_pictures_are_blurred_until_asked_for_and_lazy(elements):
    assert len(elements.all("img")) == 22
    assert all(attrs["loading"] == "lazy" and attrs["alt"] for attrs in elements.all("img"))
    boxes = [attrs for attrs in elements.all("input") if attrs["type"] == "checkbox"]
    assert len(boxes) == 22 + 2  # all pictures uncovered, and all cards shown
    assert not [attrs for attrs in boxes if "checked" in attrs]


def test_headings_do_not_skip_a_level_and_ids_are_unique(elements):
    levels = [int(tag[1]) for tag, _ in elements.found if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    ids = [attrs["id"] for _, attrs in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"][1:] for attrs in elements.all("a") if attrs["href"].startswith("#")} <= set(ids)
    assert len(elements.all("caption")) == len(elements.all("table"))


def test_sections_without_content_are_left_out():
    elements = Elements(render(Page(title="Nothing yet")))
    assert "nothing to show" in elements.text
    assert "%" not in elements.text
    assert not elements.all("section")
    assert not elements.all("nav")
    some = Elements(render(Page(title="t", metrics=sample.metrics())))
    assert [attrs["id"] for attrs in some.all("section")] == ["metrics"]
    gone = Elements(render(Page(title="t", pictures_missing={"missing": 3})))
    assert [attrs["id"] for attrs in gone.all("section")] == ["pictures"]
    assert "Not shown: 3 missing." in gone.text


def test_numbers_of_one_rater_are_not_repeated():
    metrics = [
        Metric(name="group_mean_score", definition="d", value=2.5, n=9, reason="few", dims={"group": group})
        for group in ("models", "m@1")
    ]
    rows = sample.ratings(raters=["m@1"])
    text = Elements(render(Page(title="t", distributions=sample.distributions(rows), metrics=metrics))).text
    assert text.count("2.500") == 1


def test_numbers_link_to_the_cards_with_their_answer_and_to_plots(elements):
    index = {attrs["id"] for attrs in elements.all("div") if str(attrs.get("id", "")).startswith("answer-")}
    assert len(index) > 10
    linked = {attrs["href"][1:] for attrs in elements.all("a") if attrs["href"].startswith("#answer-")}
    assert linked == index
    cards = {attrs["id"] for attrs in elements.all("li") if str(attrs.get("id", "")).startswith("picture-")}
    assert cards == {f"picture-{number}" for number in range(1, 23)}
    assert {attrs["href"][1:] for attrs in elements.all("a") if attrs["href"].startswith("#picture-")} == cards


def test_a_card_has_the_rater_s_probability_text_and_the_credit():
    ratings = [
        PictureRating("m", "q", "yes", target="Mali", probability=0.625),
        PictureRating("p", "q", None, "refused", target="Mali", text=HOSTILE),
    ]
    card = GalleryPicture("t", thumbnails=[Thumbnail(b"RIFF", "image/webp", 3, 2)], ratings=ratings, credit="A · CC0")
    text = " ".join(Elements(render(Page(title="t", pictures=[card]))).text.split())
    for expected in ("Mali", "yes p 0.62", "refused", "A · CC0", HOSTILE):
        assert expected in text


def test_the_prompt_is_shown_as_text():
    page = dataclasses.replace(sample.page(), prompts={"century_labels": f"Label it. {HOSTILE}"})
    assert f"Label it. {HOSTILE}" in Elements(render(page)).text


def test_the_page_is_bounded_and_says_what_it_leaves_out():
    metrics = [
        Metric(name="pairwise_pearson", definition="d", value=0.5, n=9, reason="few",
               dims={"rubric": "r", "question": f"q{q:03}", "group": f"g{group}", "level": str(level)})
        for q in range(60) for group in range(30) for level in range(40)
    ]  # fmt: skip
    html = render(Page(title="t", metrics=metrics))
    assert len(html) < 12_000_000
    assert re.search(r"The metrics of \d+ more questions are in the table", html)
    block: Any = SimpleNamespace(cells=MAX_CELLS)
    assert [within(blocks) for blocks in ([], [block], [block, block], [block] * 3)] == [
        ([], 0), ([block], 0), ([block], 1), ([block], 2)
    ]  # fmt: skip
    small: Any = SimpleNamespace(cells=MAX_CELLS // 2)
    assert within([small, small, small]) == ([small, small], 1)


def test_the_corpus_is_shown_for_its_steps_or_its_tables():
    steps = [FunnelStep("Records", 9, "records"), FunnelStep("Curated", 3, "records")]
    for page, shown in ((Page(title="t", steps=steps), True), (Page(title="t", steps=steps[:1]), False)):
        ids = [attributes.get("id") for _, attributes in Elements(render(page)).found]
        assert ("corpus" in ids) == shown


def test_of_many_cards_the_first_are_printed():
    page = sample.page()
    cards = [dataclasses.replace(page.pictures[0], title=f"{number}") for number in range(40)]
    few, many = (
        [
            attributes["class"]
            for tag, attributes in Elements(render(part)).found
            if "card" in (attributes.get("class") or "").split()
        ]
        for part in (
            dataclasses.replace(page, pictures=cards[:PRINTED_CARDS]),
            dataclasses.replace(page, pictures=cards),
        )
    )
    shown = ["card"] * FIRST_CARDS + ["card beyond"] * (PRINTED_CARDS - FIRST_CARDS)
    assert few == shown
    assert many == shown + ["card beyond unprinted"] * (40 - PRINTED_CARDS)
    assert "15 of the 40 cards" in Elements(render(dataclasses.replace(page, pictures=cards))).text


def test_a_rater_with_nothing_ok_shows_dashes_and_the_reason():
    rows = sample.ratings()
    for row in rows:
        if row["rater"] == sample.RATERS[1]:
            row |= {"status": "error", "value": None, "score": None}
    text = Elements(render(dataclasses.replace(sample.page(), distributions=sample.distributions(rows)))).text
    assert "none of the 24 ratings is ok" in text
    assert "24 error" in text
    assert "—" in text


def test_an_answer_outside_the_rubric_is_named():
    rows = sample.ratings()
    next(r for r in rows if r["status"] == "ok").update(value="6", score=6.0)
    text = Elements(render(Page(title="t", distributions=sample.distributions(rows)))).text
    assert text.count("not in the rubric") == 1


def test_an_open_question_shows_its_counts_and_why_there_are_no_shares():
    (one, *_) = sample.distributions(sample.ratings())
    closed = dataclasses.replace(one, answers=(), reason="more than 512 different answers: not a closed question")
    html = render(Page(title="t", distributions=[closed, dataclasses.replace(closed, rater="another")]))
    assert "not a closed question" in Elements(html).text


def test_questions_are_in_the_order_of_the_wording_then_by_name():
    words = dict(reversed(sample.wording().items()))
    words.pop(("century_labels", "concept"))
    elements = render(dataclasses.replace(sample.page(), wording=words, pictures=[]))
    titles = re.findall(r"<h4 dir=\"auto\">(.*?)</h4>", elements)
    assert titles == [words[key].title for key in words] + ["concept"]


def test_text_that_no_file_can_hold_is_replaced():
    html = render(Page(title="a\x00b\ud800c\x1b[31m"))
    assert html.encode("utf-8")
    assert "a\ufffdb\ufffdc\ufffd[31m" in html


def test_the_same_page_renders_the_same(html):
    assert render(sample.page()) == html


def test_thumbnails_of_other_types_are_refused():
    picture = GalleryPicture("x", thumbnails=[Thumbnail(b"<svg/>", "image/svg+xml", 1, 1)])
    with pytest.raises(ValueError, match="image/svg"):
        render(Page(title="t", pictures=[picture]))


def test_kept_is_of_the_step_before_and_only_of_the_same_unit():
    steps = [
        FunnelStep("a", 200, "x"),
        FunnelStep("b", 50, "x"),
        FunnelStep("c", 50, "y"),
        FunnelStep("d", 60, "y"),
        FunnelStep("e", 0, "y"),
    ]
    # 50 / 200; another unit; more than before; 0 / 60
    assert kept(steps) == [None, 0.25, None, None, 0.0]
    assert kept([FunnelStep("a", 0), FunnelStep("b", 0)]) == [None, None]
    assert kept([FunnelStep("a", 1), FunnelStep("b", 1)]) == [None, 1]
    assert kept([]) == []


def test_thumbnails_are_small_and_carry_no_metadata():
    out = io.BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "SECRET PLACE"
    Image.new("RGB", (1000, 500), "red").save(out, "JPEG", exif=exif, comment=b"SECRET COMMENT")
    output, error_kind = thumbnail(out.getvalue())
    assert output is not None
    assert (output.mime, output.width, output.height, error_kind) == ("image/webp", 320, 160, None)
    assert b"SECRET" not in output.data
    with Image.open(io.BytesIO(output.data)) as opened:
        assert (opened.format, opened.size) == ("WEBP", (320, 160))


def test_small_pictures_are_not_blown_up():
    output, _ = thumbnail(sample.drawn(1), side=4000)
    assert output is not None
    assert (output.width, output.height) == (480, 360)


@pytest.mark.parametrize("data", [b"", b"no picture", sample.drawn(1)[:400]])
def test_bytes_that_are_not_a_picture_have_a_kind_of_error(data):
    output, error_kind = thumbnail(data)
    assert output is None
    assert error_kind


def test_shares_of_a_rater_follow_the_answers_of_the_question():
    one, two = (d for d in sample.distributions(sample.ratings()) if d.question == "sensitive")
    more = dataclasses.replace(one, answers=(*one.answers, Share("x", 1, 0.04, Interval(0.01, 0.2, "m"), listed=False)))
    html = render(Page(title="t", distributions=[more, two]))
    table = html[html.index("Share of each answer to") :]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', table[: table.index("</table>")], re.S)
    assert [re.findall(r"<td[^>]*>([\d.]+%)", cells)[1:] for _, cells in rows] == [
        [f"{share.share:.1%}"] for share in two.answers
    ] + [["0.0%"]]
    assert "not in the rubric" in rows[-1][0]


def test_a_question_with_many_answers_lists_those_given_most_often():
    answers = [f"country {number:03}" for number in range(120)]
    rows = [
        {"rater": "m", "rubric": "r", "question": "country", "status": "ok", "value": answers[number], "score": None,
         "answers": answers, "outside_mass": None}
        for number in (*range(30), *range(50, 60), *range(10, 120))
    ]  # fmt: skip
    html = render(Page("t", distributions=sample.distributions(rows)))
    section = html[html.index('id="ratings"') :]
    shown = [answer for answer in answers if f'<span dir="auto">{answer}</span>' in section]
    assert len(shown) == MAX_ANSWERS
    assert {*answers[10:30], *answers[50:60]} <= set(shown)
    assert "80 less frequent answers are" in section


def test_one_answer_that_is_left_out_is_in_the_singular():
    answers = [f"country {number:03}" for number in range(MAX_ANSWERS + 1)]
    rows = [
        {"rater": "m", "rubric": "r", "question": "country", "status": "ok", "value": answer, "score": None,
         "answers": answers, "outside_mass": None}
        for answer in answers
    ]  # fmt: skip
    assert "1 less frequent answer is" in render(Page("t", distributions=sample.distributions(rows)))


def test_texts_that_are_longer_than_their_lines_can_be_unfolded():
    texts = [("reference", "A dog."), ("generated", "<b>" + "x" * FOLDED_TEXT)]
    (picture,) = sample.pictures([sample.drawn(1)])
    pages = [Page("t", pictures=[dataclasses.replace(picture, texts=of_card)]) for of_card in (texts[:1], texts)]
    short, long = map(render, pages)
    assert "Whole text" not in short
    assert '<p class="caption" dir="auto"><b>reference</b> A dog.</p>' in short
    (unfolded,) = re.findall('<details class="whole">.*?</details>', long)
    assert f"<b>generated</b> &lt;b&gt;{'x' * FOLDED_TEXT}</p>" in unfolded


def test_a_table_of_answers_counts_ratings_without_a_picture():
    page = sample.page()
    first, *others = page.distributions
    missing = dataclasses.replace(first, asked=first.asked + 16, statuses={**first.statuses, "missing_input": 16})
    page = dataclasses.replace(page, distributions=[missing, *others])
    html = render(page)
    assert "16 missing input" in Elements(html).text
