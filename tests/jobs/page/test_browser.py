"""The page in a real browser: what it shows, what it reveals and what it asks the network for."""

import json
import os
import re
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import pytest
from PIL import Image

from jobs.metrics.metric import Metric
from jobs.metrics.observations import Observations
from jobs.page.page_contents import FunnelStep, GalleryPicture, Page, PictureRating
from jobs.page.page_figures import page_figures
from jobs.page.render import render
from jobs.plots.svg import of_hue
from tests.browser import CHROMIUM
from tests.chromium import chromium
from tests.jobs.page import sample

AXE = Path(__file__).parents[3] / "node_modules" / "axe-core" / "axe.min.js"


@pytest.fixture(scope="module")
def html():
    return render(sample.page())


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed, and CI is set")
        pytest.skip("chromium is not installed")
    with chromium(tmp_path_factory.mktemp("browser")) as driven:
        yield driven


@pytest.fixture
def browse(browser, tmp_path):
    """A function that opens a page and returns what it has become, as HTML."""

    def run(html: str, *, width: int = 800, height: int = 600, dark: bool = False) -> str:
        browser.show(width, height, dark=dark)
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        browser.open(file.as_uri())
        return browser.evaluate("document.documentElement.outerHTML")

    return run


@pytest.fixture
def shot(browser, browse, tmp_path):
    """A function that returns the picture of a page's first screen."""

    def run(html: str, *, width: int, height: int, dark: bool = False) -> Image.Image:
        browse(html, width=width, height=height, dark=dark)
        file = tmp_path / "screen.png"
        browser.shoot(file)
        with Image.open(file) as picture:
            return picture.convert("RGB")

    return run


def shown_all(html: str) -> str:
    return html.replace('id="show-all"', 'id="show-all" checked')


def test_the_browser_shows_the_counts(browse, html):
    dom = browse(html)
    text = " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", "", dom, flags=re.S).split())
    for expected in ("37,800,000", "1,488 ok", "coverage100.0%95.8%", "22 cards, drawn from 1,488"):
        assert expected in text
    assert dom.count("<img ") == 22
    assert "<script" not in dom


def test_scripts_in_the_page_would_not_run(browse, html):
    # Control: the same script runs once the policy is gone, so the test can fail.
    armed = html.replace("</main>", "<script>document.title = 'ran'</script></main>")
    assert "<title>ran</title>" not in browse(armed)
    assert "<title>ran</title>" in browse(re.sub(r"<meta http-equiv=.*?>", "", armed))


def test_pictures_are_blurred_until_the_reader_shows_them(shot):
    # A page of this one picture, so that it lies in the first screen.
    full = render(Page(title="One", pictures=sample.pictures([sample.drawn(3)])))
    small = re.sub(r"<header.*?(?=<section id=\"pictures\")", "<main>", full, flags=re.S)
    hidden = shot(small, width=600, height=700)
    revealed = shot(shown_all(small), width=600, height=700)
    single = small.replace('class="reveal"', 'class="reveal" checked')
    alone = shot(single, width=600, height=700)
    assert edges(revealed) > 1000
    assert edges(hidden) == 0
    assert edges(alone) > 0.8 * edges(revealed)


def edges(picture: Image.Image) -> int:
    """Sum of the steps between neighbours, in the middle of the card's picture, that are too sharp for a blur."""
    grey = picture.crop((40, 270, 280, 400)).convert("L")
    width, height = grey.size
    pixels = grey.tobytes()
    steps = (abs(pixels[y * width + x] - pixels[y * width + x + 1]) for y in range(height) for x in range(width - 1))
    return sum(step for step in steps if step > 8)


def test_light_and_dark_differ(shot, html):
    light = shot(html, width=1280, height=900)
    dark = shot(html, width=1280, height=900, dark=True)
    assert light.convert("L").getpixel((4, 4)) == pytest.approx(252, abs=3)
    assert dark.convert("L").getpixel((4, 4)) == pytest.approx(22, abs=3)


@pytest.mark.parametrize("word", ["", "W" * 200], ids=["usual", "long words"])
def test_a_phone_needs_no_sideways_scrolling(browse, word):
    page = sample.page()
    cards = [replace(card, title=card.title + word, caption=card.caption + word) for card in page.pictures[:2]]
    cards.append(GalleryPicture(word, ratings=[PictureRating(f"{i}{word}", word, word) for i in range(5)]))
    metrics = [replace(metric, rater=metric.rater + word) for metric in page.distributions]
    words = {key: replace(w, title=w.title + word, text=w.text + word) for key, w in page.wording.items()}
    html = render(replace(page, title=word, pictures=cards, distributions=metrics, wording=words, lede=word))
    # Measured from outside, in a frame, without the policy: at 390 px nothing may be wider than the page.
    free = escape(re.sub(r"<meta http-equiv=.*?>", "", html))
    frame = f'<body><iframe style="width:390px;height:800px" srcdoc="{free}"></iframe>'
    measure = (
        "<script>onload = () => { const d = document.querySelector('iframe').contentDocument.documentElement;"
        "document.body.dataset.width = d.scrollWidth }</script>"
    )
    assert 'data-width="390"' in browse(frame + measure)


# The violations that axe-core calls serious or critical, as text.
AUDIT = """axe.run(document, {resultTypes: ['violations']}).then(found => {
  const serious = found.violations.filter(one => ['serious', 'critical'].includes(one.impact))
  return JSON.stringify(serious.map(one => [one.id, one.nodes.length, one.nodes[0].html]))
})"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.long
def test_axe_finds_no_serious_fault(browser, browse, dark):
    if not AXE.exists():
        pytest.skip("axe-core is not installed; install it with npm install --no-save axe-core")
    html = render(sample.linked_page())
    assert 'class="map"' in html
    assert 'role="group"' in html
    browse(html, dark=dark)
    browser.evaluate(f"{AXE.read_text(encoding='utf-8')}; 0")
    assert json.loads(browser.evaluate(AUDIT)) == []


# Sent to the page from outside: boxes of percentages and of what must hold them, in CSS pixels, as text in the page.
MEASURE = """<script>onload = () => {
  const inside = document.querySelector('iframe').contentDocument, found = {values: []}
  const box = node => {
    const range = inside.createRange()
    range.selectNodeContents(node)
    const {left, right, top, bottom} = range.getBoundingClientRect()
    return [left, right, top, bottom]
  }
  const frame = node => {
    const {left, right, top, bottom} = node.getBoundingClientRect()
    return [left, right, top, bottom]
  }
  for (const value of inside.querySelectorAll('.value'))
    found.values.push([value.textContent, box(value), frame(value.closest('td'))])
  document.body.textContent = JSON.stringify(found)
}</script>"""


def measured(browse, page: Page, width: int) -> dict[str, list]:
    free = escape(re.sub(r"<meta http-equiv=.*?>", "", render(page)))
    frame = f'<body><iframe style="width:{width}px;height:800px" srcdoc="{free}"></iframe>{MEASURE}'
    dom = browse(frame, width=width + 100, height=900)
    body = re.search(r"<body>(.*?)</body>", dom, re.S)
    assert body is not None
    return json.loads(unescape(body.group(1)))


@pytest.mark.parametrize("width", [390, 760, 1280])
def test_percentages_are_whole(browse, width):
    """Each percentage is within its cell, at 100.0% and >99.9% too, on a phone and on a desk."""
    page = sample.page()
    steps = [
        FunnelStep("All", 1000, "r"),
        FunnelStep("Kept", 1000, "r"),
        FunnelStep("Most", 9999, "s"),
        FunnelStep("Nearly", 9998, "s"),
    ]
    rows = [row | {"value": "3", "score": 3.0, "status": "ok"} if row["question"] == "sensitive" else row
            for row in sample.ratings()]  # fmt: skip
    kinds = [row | {"value": "yes", "status": "ok"} if row["question"] == "recognisable" else row for row in rows]
    page = replace(page, pictures=[], steps=steps, distributions=sample.distributions(kinds))
    widths = measured(browse, page, width)
    assert {"100.0%", ">99.9%"} <= {text for text, _, _ in widths["values"]}
    for text, (left, right, _, _), (from_left, to_right, _, _) in widths["values"]:
        assert from_left - 0.5 <= left < right <= to_right + 0.5, text
        assert right <= width, text


def wide_page() -> Page:
    """A page with 12 judges in eight regions of two questions, and folded plots and tables."""
    regions = ("Africa", "Amérique du Nord", "Asia", "Europe", "North America", "South America", "Oceania", "none")
    metrics = [
        Metric(name=name, definition="d", value=value, low=value - 0.1, high=value + 0.1, interval_method="m", n=24,
               dims={"rubric": "r", "question": question, "group": f"local:a-judge-{rater}", "attribute": "region",
                     "part": region, **dims})
        for question in ("shown", "people") for rater in range(12) for region in regions
        for name, value, dims in (
            ("group_mean_score", 3.0, {}), ("share_at_least", 0.5, {"threshold": "4", "rule": "mean"}),
            ("alpha", 0.4, {"level": "ordinal"}),
        )
    ]  # fmt: skip
    figures, left_out = page_figures(metrics, Observations(), {})
    return Page(title="t", metrics=metrics, figures=figures, figures_left_out=left_out)


def test_a_printed_page_has_all_columns_and_only_what_is_unfolded(browse, browser):
    browse(render(wide_page()), width=718)  # A4 without margins
    cells = (
        "[...document.querySelectorAll('.cells td, .cells th, .panels svg')].map(e => e.getBoundingClientRect())"
        ".map(box => [box.right, box.height]).filter(([right, height]) => height > 0)"
    )
    browser.show(718, 1000, printed=True)
    folded, few = len(browser.evaluate(cells)), browser.pages()
    browser.show(718, 1000)
    browser.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    browser.show(718, 1000, printed=True)
    ends = browser.evaluate(cells)
    assert max(right for right, _ in ends) <= 718 + 1
    assert len(ends) > 12 * 8 * 2 > folded
    assert few <= 3 < browser.pages()
    browser.show(718, 1000)


def test_plots_fit_a_phone_and_are_aligned_on_a_screen(browse, browser):
    browse(render(wide_page()), width=390)
    boxes = "[...document.querySelectorAll('figure svg')].map(e => e.getBoundingClientRect()).map(b => [b.x, b.width])"
    assert max(width for _, width in browser.evaluate(boxes)) <= 390 - 2 * 16
    browse(render(wide_page()), width=1280)
    browser.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    places = browser.evaluate(boxes)
    assert len({round(x) for x, _ in places}) == 3  # three columns
    assert len({round(width) for _, width in places}) == 1
    overlaps = browser.evaluate(
        """[...document.querySelectorAll('svg')].flatMap(svg => {
             const upright = e => !/rotate\\(-?[1-9]/.test(e.getAttribute('transform'));
             const labels = [...svg.querySelectorAll('text')].filter(upright)
               .map(e => [e.textContent, e.getBoundingClientRect()]);
             return labels.flatMap(([a, first], i) => labels.slice(i + 1).filter(([b, second]) =>
               first.width && second.width && first.left < second.right - 1 && second.left < first.right - 1 &&
               first.top < second.bottom - 3 && second.top < first.bottom - 3).map(([b]) => a + ' | ' + b));
           })"""
    )
    assert overlaps == []


def test_raters_have_the_same_colour_in_plots_as_on_cards(browse, browser):
    browse("<p>")
    for degrees in range(0, 360, 25):
        red, green, blue, _ = browser.evaluate(
            "(() => { const c = new OffscreenCanvas(1, 1).getContext('2d');"
            f" c.fillStyle = 'oklch(0.62 0.15 {degrees})';"
            " c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; })()"
        )
        drawn = [int(of_hue(degrees)[start : start + 2], 16) for start in (1, 3, 5)]
        assert drawn == pytest.approx([red, green, blue], abs=1), degrees
