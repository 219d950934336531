"""Render a `Page` as one HTML file without scripts or external resources, which can also be printed."""

import base64
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from actors.quantities import quantity
from jobs.html.formats import STYLE, in_words, link, number, percent, writable
from jobs.html.thumbnails import Thumbnail
from jobs.metrics.distributions import SHARE, Distribution, Share
from jobs.metrics.kinds import kind_of
from jobs.metrics.metric import Metric, Quantity, Topic
from jobs.page.card_links import cards_of, number_links
from jobs.page.card_orders import answer_anchor, answer_index, card_orders, question_anchor
from jobs.page.metric_tables import MetricBlock, blocks, definitions, not_shown
from jobs.page.page_contents import (
    FunnelStep,
    GalleryPicture,
    MapPoint,
    Page,
    PageFigure,
    PictureRating,
    QuestionEntry,
    Wording,
    label_of,
    letters_of,
    places_of,
)
from jobs.page.page_figures import figure_of, file_names, question_place
from jobs.page.page_names import rater_hues, short_names
from jobs.page.summary import FirstScreen
from jobs.plots.svg import ACCENT, INK, SOFT

MAX_COLUMNS = 12  # most answers of a scale, each with a column
MAX_CELLS = 30_000  # of all tables of metrics, about 6 MB
MAX_ANSWERS = 40  # answers of a nominal question; the most frequent ones are shown
SUMMARY_ROWS = 12  # raters at the top; the others are folded
PROBLEMS_SHOWN = 6  # likewise
OPEN_CELLS = 40  # of the tables of a single question that is unfolded at first
TOP_PLOTS = 3
SCORES = (Topic.SCORES, Topic.SPANS, Topic.COMPETITORS)  # topics of the first plot of the summary, in order
AGREEMENT = (Topic.WITH_PEOPLE, Topic.TWO_RATERS, Topic.AGREEMENT, Topic.GOLD)  # likewise of the second
SUBGROUPS = (Topic.SCORES_BY_SUBGROUP, Topic.CHANGES, Topic.GOLD)  # likewise of the third
FIRST_CARDS = 4  # cards of the gallery that are shown at first
PRINTED_CARDS = 15  # of the gallery: three rows of a printed page
FEW_UNUSED = 3  # from this number on, the answers that nobody gave share one line
_HERE = Path(__file__).parent
_MIMES = {"image/webp", "image/jpeg", "image/png"}


@dataclass(frozen=True)
class AnswerBar:
    """An answer to a question: code, label (may be empty), and position among all answers, from 0 to 1."""

    code: str
    label: str
    listed: bool
    position: float

    @property
    def band(self) -> str:
        """The part of the colour scale that the answer is in; it decides the colour of text on the bar (see page.css).

        Between 0.27 and 0.54 black has a contrast of at least 4.5 on the light scale and on the dark one (WCAG AA).
        """
        if not self.listed:
            return "unlisted"
        return "near" if self.position < 0.27 else "far" if self.position > 0.54 else "middle"


@dataclass(frozen=True)
class RaterRow:
    """A rater's row in a question's block; `shares` are in the order of the question's answers."""

    letter: str
    name: str
    distribution: Distribution
    shares: tuple[Share, ...]

    def share_of(self, code: str) -> Share:
        """Return the share of an answer."""
        return next(share for share in self.shares if share.answer == code)


@dataclass(frozen=True)
class QuestionBlock:
    """A question's block: its texts, answers and raters.

    `answers` is empty if a scale has too many to list; `left_out` counts the omitted answers of a nominal question.
    """

    rubric: str
    name: str
    title: str
    text: str
    answers: tuple[AnswerBar, ...]
    ordinal: bool
    rows: tuple[RaterRow, ...]
    left_out: int = 0

    @property
    def most(self) -> float:
        """The largest share of any rater, at least 0.01; it corresponds to the full height of a bar."""
        return max((share.share or 0.0 for row in self.rows for share in row.shares), default=0.0) or 0.01

    @property
    def unused(self) -> frozenset[str]:
        """The codes of the answers that nobody gave, if there are several."""
        answered = {share.answer for row in self.rows for share in row.shares if share.count}
        unused = frozenset(answer.code for answer in self.answers) - answered
        return unused if answered and len(unused) >= FEW_UNUSED else frozenset()


@dataclass(frozen=True)
class RubricSection:
    """A rubric and its questions."""

    name: str
    questions: tuple[QuestionBlock, ...]


def render(page: Page) -> str:
    """Return the page as HTML without scripts or external resources; every text in `page` is escaped.

    Raises:
        ValueError: a thumbnail's MIME type is not WebP, JPEG or PNG.
    """
    page = _without_missing(page)
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"n": number, "pct": percent, "link": link, "data_uri": _data_uri, "words": in_words}
    environment.filters |= {"value_text": value_text, "interval_text": interval_text, "basis": basis}
    environment.filters |= {"unit_text": unit_text, "markup": Markup, "quantity": quantity}
    letters, index = letters_of(page.distributions, page.pictures), answer_index(page.pictures, page.wording)
    single = len(letters) == 1
    metric_blocks, left_out = within(blocks(page.metrics, list(page.wording), one_rater=single))
    rubrics = _rubrics(page, letters)
    anchors = _anchors(page, metric_blocks, index)
    sections = _sections(page, rubrics, metric_blocks)
    top_plots = first_plots(page.figures) if "summary" in sections else []
    html = environment.get_template("page.html.j2").render(
        page=page,
        css=Markup(STYLE.read_text(encoding="utf-8")),
        letters=letters,
        hues=rater_hues(letters),
        rater_names=short_names(letters),
        theme={INK: "var(--ink)", SOFT: "var(--soft)", ACCENT: "var(--accent)"},
        single=single,
        is_count=lambda metric: kind_of(metric).unit == Quantity.COUNT,
        sections=sections,
        rubrics=rubrics,
        blocks=metric_blocks,
        blocks_left_out=left_out,
        definitions=definitions(table for block in metric_blocks for table in block.tables),
        not_shown=not_shown(page.metrics),
        share_name=SHARE,
        kept=kept(page.steps),
        summary=page.summary or FirstScreen(),
        summary_rows=SUMMARY_ROWS,
        problems_shown=PROBLEMS_SHOWN,
        open_cells=OPEN_CELLS,
        first_cards=FIRST_CARDS,
        top_plots=top_plots,
        top_legend=_legend(top_plots),
        legend=_legend([figure for figure in page.figures if not figure.folded]),
        files=file_names(page.all_figures) if page.plots_saved else {figure.name: "" for figure in page.all_figures},
        facts=_facts,
        orders=card_orders(page.pictures, page.wording),
        printed_cards=PRINTED_CARDS,
        index=index,
        mapped=_mapped(page),
        anchors=anchors,
        cards_of=lambda metric: name if (name := cards_of(metric)) in anchors else "",
        number_links=lambda table: number_links(table, anchors),
        question_place=question_place,
        figure_of=figure_of(page.all_figures),
        answer_anchor=answer_anchor,
        question_anchor=question_anchor,
        grid=_grid,
        by_answer=by_answer,
        spans=spans,
    )
    return writable(html)


def _without_missing(page: Page) -> Page:
    """Return the page with cards without thumbnails counted instead of shown."""
    missing = Counter(card.status for card in page.pictures if not card.thumbnails)
    shown = [card for card in page.pictures if card.thumbnails]
    return replace(page, pictures=shown, pictures_missing=Counter(page.pictures_missing) + missing)


def _mapped(page: Page) -> list[tuple[int, GalleryPicture, MapPoint]]:
    """Return each picture on the map: the number of its first card, the card and its place."""
    places = {point.image_id: point for point in page.map.points} if page.map else {}
    cards = [(place, card) for place, card in enumerate(page.pictures, start=1) if card.image_id in places]
    return [(place, card, places.pop(card.image_id)) for place, card in cards if card.image_id in places]


def _sections(page: Page, rubrics: Sequence[RubricSection], metric_blocks: Sequence[MetricBlock]) -> dict[str, str]:
    """Return the titles of the sections that have content, by anchor."""
    sections: dict[str, tuple[str, object]] = {
        "summary": ("Summary", page.notices or (page.summary and (page.summary.rows or page.summary.problems))),
        **{section.name: (section.title, True) for section in page.sections},
        "corpus": ("Corpus", len(page.steps) > 1 or page.tables),
        "paper": (page.paper_title, page.paper),
        "ratings": ("Answers", rubrics),
        "figures": ("Plots", page.figures),
        "metrics": ("Metrics", metric_blocks),
        "pictures": ("Pictures", page.pictures or page.pictures_missing),
        "provenance": ("Provenance", page.provenance or page.models),
    }
    return {name: title for name, (title, content) in sections.items() if content}


def _anchors(page: Page, metric_blocks: Sequence[MetricBlock], index: Sequence[QuestionEntry]) -> set[str]:
    """Return the places on the page that numbers and plots link to."""
    places = {table.name for block in metric_blocks for table in block.tables}
    places |= {question.name for question in index} | places_of(index) | places_of(page.links)
    places |= {figure.name for figure in page.all_figures} | {section.name for section in page.sections}
    places |= {question_place((d.rubric, d.question)) for d in page.distributions}
    return places | ({"steps"} if len(page.steps) > 1 else set())


def within(metric_blocks: Sequence[MetricBlock]) -> tuple[list[MetricBlock], int]:
    """Return the first blocks with at most `MAX_CELLS` cells together, but at least one, and the number of other
    blocks."""
    cells = 0
    for first, block in enumerate(metric_blocks):
        cells += block.cells
        if cells > MAX_CELLS and first:
            return list(metric_blocks[:first]), len(metric_blocks) - first
    return list(metric_blocks), 0


def value_text(metric: Metric) -> str:
    """Return a metric's value: a share as a percentage, a count as an integer, else a number; an em dash if
    undefined."""
    if metric.value is None:
        return "—"
    unit = kind_of(metric).unit
    if unit == Quantity.COUNT:
        return number(metric.value)
    if unit.percent:
        return percent(metric.value).replace("-", "−")
    if unit == Quantity.P_VALUE:
        return "<0.0001" if metric.value < 0.0001 else f"{metric.value:.4f}"
    return number(metric.value, _decimals(metric))


def interval_text(metric: Metric) -> str:
    """Return the metric's interval in the same units as `value_text`; empty if there is none."""
    if metric.low is None or metric.high is None:
        return ""
    scale, decimals = (100, 1) if kind_of(metric).unit.percent else (1, _decimals(metric))
    return f"{number(metric.low * scale, decimals)} to {number(metric.high * scale, decimals)}"


def _decimals(metric: Metric) -> int:
    """Return the decimals of a number: at most one for a mean of counts, none if it and its interval are integers."""
    if kind_of(metric).unit != Quantity.MEAN_OF_COUNTS:
        return 3
    return int(any(value is not None and value % 1 for value in (metric.value, metric.low, metric.high)))


def unit_text(value: float | None, unit: str) -> str:
    """Return a value in a unit: a percentage for a share, an integer for a count, else a number; an em dash for
    None."""
    if unit == "percent":
        return percent(value).replace("-", "−")
    return number(value) if unit == "count" else number(value, 3)


def spans(columns: Sequence[tuple[str, ...]], level: int) -> list[tuple[str, int]]:
    """Return the headers of one level of a table's columns with the number of adjacent columns that each spans."""
    merged: list[tuple[str, int]] = []
    previous: tuple[str, ...] | None = None
    for levels in columns:
        if previous and levels[: level + 1] == previous[: level + 1] and level < len(levels) - 1:
            merged[-1] = (merged[-1][0], merged[-1][1] + 1)
        else:
            merged.append((levels[level], 1))
        previous = levels
    return merged


def basis(metric: Metric) -> str:
    """Return the text of a metric's tooltip: coverage, method of the interval, and reason."""
    coverage = "" if metric.coverage is None else f"coverage {percent(metric.coverage)}"
    return "; ".join(filter(None, (coverage, metric.interval_method, metric.reason)))


def kept(steps: Sequence[FunnelStep]) -> list[float | None]:
    """Return the share of the previous step that each step kept.

    It is None for the first step, if the unit changes, if the count grows and if the previous count is 0.
    """
    shares: list[float | None] = [None] if steps else []
    for before, step in pairwise(steps):
        comparable = before.unit == step.unit and before.n > 0 and step.n <= before.n
        shares.append(step.n / before.n if comparable else None)
    return shares


def _rubrics(page: Page, letters: dict[str, str]) -> list[RubricSection]:
    worded = list(page.wording)
    keys = sorted(
        {(d.rubric, d.question) for d in page.distributions},
        key=lambda key: (worded.index(key) if key in page.wording else len(worded), key),
    )
    return [
        RubricSection(name, tuple(_question(page, key, letters) for key in keys if key[0] == name))
        for name in dict.fromkeys(rubric for rubric, _ in keys)
    ]


def _question(page: Page, key: tuple[str, str], letters: dict[str, str]) -> QuestionBlock:
    """Return a question's block; a scale of more than `MAX_COLUMNS` answers has only the raters' summaries."""
    distributions = sorted((d for d in page.distributions if (d.rubric, d.question) == key), key=label_of)
    words = page.wording.get(key, Wording(title=key[1]))
    ordinal = any(d.ordinal for d in distributions)
    listed = dict.fromkeys(a.answer for d in distributions for a in d.answers if a.listed)
    # A rater with a score per item, such as a likelihood, would add a column for each.
    closed = [d for d in distributions if not ordinal or len(d.answers) <= len(listed) + MAX_COLUMNS]
    others = sorted({a.answer for d in closed for a in d.answers} - set(listed))
    codes = [*listed, *others]
    if ordinal and len(codes) > MAX_COLUMNS:
        codes = []
    shown = _most_given(codes, closed)
    left_out, codes = len(codes) - len(shown), shown
    rows = []
    for distribution in distributions:
        shares = {a.answer: a for a in distribution.answers}
        # An answer outside the rubric that only other raters gave gets the share 0.
        share = 0.0 if distribution.ok and distribution.answers and distribution in closed else None
        cells = tuple(
            shares[code] if distribution in closed and code in shares else Share(code, 0, share) for code in codes
        )
        rows.append(RaterRow(letters[label_of(distribution)], label_of(distribution), distribution, cells))
    return QuestionBlock(
        rubric=key[0],
        name=key[1],
        title=words.title,
        text=words.text,
        answers=tuple(
            AnswerBar(code, words.labels.get(code, ""), code in listed, position / max(1, len(codes) - 1))
            for position, code in enumerate(codes)
        ),
        ordinal=ordinal,
        rows=tuple(rows),
        left_out=left_out,
    )


def _most_given(codes: Sequence[str], distributions: Sequence[Distribution]) -> list[str]:
    """Return the `MAX_ANSWERS` answers with the largest share of any rater, in the order of `codes`."""
    largest: dict[str, float] = {}
    for distribution in distributions:
        for share in distribution.answers:
            largest[share.answer] = max(largest.get(share.answer, 0.0), share.share or 0.0)
    shown = set(sorted(codes, key=lambda code: -largest.get(code, 0.0))[:MAX_ANSWERS])
    return [code for code in codes if code in shown]


def _facts(question: QuestionBlock) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the last rows of a question's table: name, and a text with a small one for each rater; no empty rows."""
    cells: dict[str, list[tuple[str, str]]] = {}
    for row in question.rows:
        d = row.distribution
        mean, outside = d.mean_score, d.outside_mass
        interval = "" if mean.low is None else f"{number(mean.low, 2)} to {number(mean.high, 2)}"
        for name, text, small in (
            ("mean", "" if mean.value is None else number(mean.value, 2), interval),
            ("n", number(d.ok), ""),
            ("coverage", percent(d.ok / d.with_input) if d.with_input else "—", ""),
            ("probability outside the answers", "" if outside.value is None else percent(outside.value), ""),
            ("without the text of its condition", number(d.empty_context) if d.empty_context else "", ""),
            ("with a truncated context", number(d.truncated) if d.truncated else "", ""),
            ("no answer", ", ".join(f"{number(count)} {in_words(status)}" for status, count in d.not_ok.items()), ""),
            ("no shares", d.reason or "", ""),
        ):
            cells.setdefault(name, []).append((text, small))
    return [(name, texts) for name, texts in cells.items() if any(text for text, _ in texts)]


def _legend(figures: Sequence[PageFigure]) -> list[tuple[str, str]]:
    """Return the legend of several figures; people and models have one entry, whether by their mean or any of them."""
    entries = (entry for figure in figures for entry in figure.legend)
    return list(dict.fromkeys((re.sub("^(mean|any) of ", "", name), colour) for name, colour in entries))


def first_plots(figures: Sequence[PageFigure]) -> list[PageFigure]:
    """Return at most three figures whose first plot the summary shows: scores, agreement, and subgroups or others."""
    unfolded = [figure for figure in figures if not figure.folded and figure.plots]
    chosen: list[PageFigure] = []
    for topics in (SCORES, AGREEMENT, SUBGROUPS):
        of_topics = [figure for topic in topics for figure in unfolded if figure.topic == topic]
        chosen += [figure for figure in of_topics if figure not in chosen][:1]
    return chosen + [figure for figure in unfolded if figure not in chosen][: TOP_PLOTS - len(chosen)]


def _grid(
    picture: GalleryPicture, letters: dict[str, str]
) -> tuple[list[str], list[tuple[str, str, str, list[PictureRating | None]]]]:
    """Return the raters of a card in the order of their letters, and their ratings of each question and target."""
    raters = sorted({r.rater for r in picture.ratings}, key=list(letters).index)
    rating_of = {(r.rubric, r.question, r.target, r.rater): r for r in picture.ratings}
    lines = dict.fromkeys((r.rubric, r.question, r.target) for r in picture.ratings)
    return raters, [(*line, [rating_of.get((*line, rater)) for rater in raters]) for line in lines]


def by_answer(ratings: Sequence[PictureRating | None]) -> list[tuple[PictureRating, list[PictureRating]]]:
    """Return each answer or status in a line of a card as (first rating, all its ratings), the most frequent first."""
    groups: dict[tuple[str, str | None], list[PictureRating]] = {}
    for rating in ratings:
        if rating is not None:
            groups.setdefault((rating.status, rating.answer), []).append(rating)
    return [(group[0], group) for group in sorted(groups.values(), key=len, reverse=True)]


def _data_uri(picture: Thumbnail) -> str:
    if picture.mime not in _MIMES:
        raise ValueError(f"thumbnail of type {picture.mime!r}: must be one of {', '.join(sorted(_MIMES))}")
    return f"data:{picture.mime};base64,{base64.b64encode(picture.data).decode()}"
