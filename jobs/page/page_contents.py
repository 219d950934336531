"""The contents of a page. `render` escapes all texts, so that none of them is interpreted as markup."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.status import Status
from jobs.html.thumbnails import Thumbnail
from jobs.metrics.distributions import Distribution
from jobs.metrics.metric import Metric, Topic
from jobs.page.page_names import SEPARATOR, rater_letters
from jobs.plots.figures import Drawing

if TYPE_CHECKING:
    from jobs.judging.sent_prompts import SentPrompt
    from jobs.page.summary import FirstScreen
    from jobs.papers.paper_tables import PaperPart


_WIDTH = re.compile(r'width="([\d.]+)pt"')
FOLDED_TEXT = 140  # characters; of longer texts a card shows four lines, and the rest if the reader unfolds it


@dataclass(frozen=True)
class FunnelStep:
    """A step and its count. `unit` is what it counts, in the plural: "records", "pictures"."""

    label: str
    n: int
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class TableSummary:
    """A table that the report read: numbers of rows and units, and the rows of each status if it has that column."""

    name: str
    rows: int
    units: int
    statuses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Wording:
    """The texts of a question: title, wording, and the labels of its answers' codes, such as {"1": "Not at all"}.

    `scale` is its lowest and highest score, None if they are unknown or there are none.
    """

    title: str
    text: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    scale: tuple[float, float] | None = None


def question_of(dims: Mapping[str, str]) -> tuple[str, str]:
    """Return rubric and question of a metric's dims, as keys of wordings."""
    return dims.get("rubric", ""), dims.get("question", "")


def rater_label(rater: str, extra: Iterable[tuple[str, str]]) -> str:
    """Return a rater with the values of the columns that distinguish its ratings, such as `m · condition article`."""
    return SEPARATOR.join([rater, *(f"{column} {value}" for column, value in extra if value)])


def spans_label(dims: Mapping[str, str]) -> str:
    """Return the rater of marked spans with its method and condition; empty if the dims have no rater."""
    named = [(name, dims.get(name, "")) for name in ("method", "condition")]
    return rater_label(dims["rater"], named) if dims.get("rater") else ""


def label_of(distribution: Distribution) -> str:
    """Return the rater of a distribution as `rater_label` writes it."""
    return rater_label(distribution.rater, distribution.extra)


@dataclass(frozen=True)
class PictureRating:
    """One rater's answer about one picture or item.

    Attributes:
        rater: the label of the rater (`rater_label`), which consists of `name` and the columns `extra` that distinguish
            its ratings.
        method: how the answer was obtained; `human` for people.
        answer: a label or a code; shown only if status is ok.
        target: the label that the item was rated against, empty if none.
        rubric, value: the rubric, and the answer's code.
        score: the answer as a number, None for categories.
        probability: the probability of the answer, None if the rater gave none.
        shares: label and probability of each allowed answer, in the rubric's order, if the rater gave them.
        text: what the rater wrote instead of an answer, and the rater's comment.
    """

    rater: str
    question: str
    answer: str | None
    status: str = Status.OK
    target: str = ""
    rubric: str = ""
    value: str | None = None
    score: float | None = None
    probability: float | None = None
    shares: tuple[tuple[str, float], ...] = ()
    text: str = ""
    name: str = ""
    extra: tuple[tuple[str, str], ...] = ()
    method: str = ""


class MarkedSpan(NamedTuple):
    """The words of a span, and its categories, separated by commas; empty if it has none."""

    words: str
    category: str = ""


@dataclass(frozen=True)
class CardMark:
    """The spans of one kind, such as `mistake`, that a rater marked in the texts of an item; none if it only read them.

    Attributes:
        rater: its name, with method and condition if it has them.
        group: `people`, `models` or `gold`.
    """

    rater: str
    group: str
    kind: str
    spans: Sequence[MarkedSpan] = ()


@dataclass(frozen=True)
class GalleryPicture:
    """A card of the gallery: a picture, or an item with its pictures.

    Attributes:
        thumbnails: a card without thumbnails is not shown but counted.
        status, error_kind: of the item's picture that cannot be shown, if any.
        source_url: linked if it is an http or https address without credentials, else omitted.
        image_id: of its first picture; item_id: of the item, or of the picture that was rated itself.
        alt: alternative text for the picture; empty: the title.
        credit: author and licence of the pictures, empty if unknown.
        region: the region of the item, or another attribute that groups the cards.
        facts: (name, value) pairs for the card's details; attributes: all of the item's.
        prompts: the prompts that models were sent about it.
        texts: (role, text) of the texts that were rated; the role is empty if there is only one.
        marks: the spans that raters marked in its texts.
    """

    title: str
    caption: str = ""
    alt: str = ""
    thumbnails: Sequence[Thumbnail] = ()
    status: str = Status.OK
    error_kind: str | None = None
    facts: Sequence[tuple[str, str]] = ()
    ratings: Sequence[PictureRating] = ()
    source_url: str | None = None
    credit: str = ""
    region: str = ""
    image_id: str = ""
    item_id: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    prompts: Sequence["SentPrompt"] = ()
    texts: Sequence[tuple[str, str]] = ()
    marks: Sequence[CardMark] = ()

    @property
    def is_folded(self) -> bool:
        """Whether a text is longer than the lines that the card shows of it."""
        return any(len(text) > FOLDED_TEXT for _, text in self.texts)


def letters_of(distributions: Iterable[Distribution], pictures: Iterable[GalleryPicture]) -> dict[str, str]:
    """Return the letter of each rater on the page: first the raters of distributions, then raters that only cards
    have."""
    return rater_letters(map(label_of, distributions), (r.rater for card in pictures for r in card.ratings))


class MapPoint(NamedTuple):
    """A picture on the map: its place, from 0 to 1 from the left and from the top, and a small copy."""

    image_id: str
    x: float
    y: float
    small: Thumbnail


@dataclass(frozen=True)
class EmbeddingMap:
    """Pictures of the gallery by the first two principal components of their vectors.

    Attributes:
        fitted: number of pictures that determine the components.
        encoder: of the vectors.
        shares: parts of the variance along x and y, 0 to 1.
    """

    points: Sequence[MapPoint]
    fitted: int
    encoder: str
    shares: tuple[float, float]


@dataclass(frozen=True)
class ModelFacts:
    """A model that rated or wrote, with its number format, hardware and licence, empty if unknown."""

    rater: str
    kind: str = ""
    model: str = ""
    revision: str = ""
    dtype: str = ""
    engine: str = ""
    licence: str = ""


@dataclass(frozen=True)
class PageFigure:
    """A plot of the page.

    Attributes:
        name: its anchor; title, about: what it shows and how to read it.
        topic: of the metrics that it plots, if it is the figure of one.
        plots: the drawings, of `jobs.plots`, each with its own title.
        caption: what it shows, with n and the methods of its intervals, for a paper.
        numbers: (label, anchor) of the tables that contain its numbers.
        notes: what was left out.
        folded: whether the reader unfolds it; wide: whether its plots need half a printed page.
        legend: (rater, colour) of the plots together.
    """

    name: str
    title: str
    about: str
    plots: Sequence[Drawing]
    caption: str = ""
    numbers: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    folded: bool = False
    wide: bool = False
    legend: Sequence[tuple[str, str]] = ()
    topic: Topic | None = None

    @property
    def widths(self) -> list[float]:
        """The width of each plot in CSS pixels."""
        return [float(width[1]) * 4 / 3 if (width := _WIDTH.search(svg)) else 0.0 for svg in self.plots]


@dataclass(frozen=True)
class SectionTable:
    """A table of a further section: rows of (label, one cell per column); a cell is a metric, a text or None.

    Attributes:
        title: its caption; columns: their headers, without that of the labels.
        notes: sentences below the table.
        folded: whether the reader unfolds it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Metric | str | None]]]
    notes: Sequence[str] = ()
    folded: bool = False


@dataclass(frozen=True)
class PageSection:
    """A section of the page besides those that each report has, such as estimates for a whole set.

    The page shows it between the summary and the answers, with a link from the top. A metric in a table is shown with
    its interval and n.

    Attributes:
        name: its anchor; title: its heading; about: one or two sentences below the heading.
        folded: whether the reader unfolds it.
    """

    name: str
    title: str
    about: str = ""
    tables: Sequence[SectionTable] = ()
    figures: Sequence[PageFigure] = ()
    folded: bool = False


class AnswerEntry(NamedTuple):
    """The cards on which a rater gave an answer: their numbers, from 1, and how many more there are."""

    name: str
    label: str
    cards: tuple[int, ...]
    more: int


class QuestionEntry(NamedTuple):
    """The index of one question."""

    name: str
    title: str
    answers: tuple[AnswerEntry, ...]


def places_of(index: Iterable[QuestionEntry]) -> set[str]:
    """Return the anchors of all answers of an index."""
    return {answer.name for question in index for answer in question.answers}


@dataclass(frozen=True)
class Page:
    """Everything that a page shows. A section without content is left out.

    Attributes:
        date: of its making; lede: one or two sentences below the title.
        summary: the first screen; None: without one.
        provenance: (name, value) pairs: inputs with their identities, versions, time.
        notices: warnings, shown first.
        distributions: of any number of rubrics, questions and raters, in any order.
        metrics: other metrics, in any order; the page omits those of single units.
        wording: (rubric, question) -> its texts, in the order of the page; other questions follow by name.
        pictures: cards of pictures and items; `pictures_total`: number of all pictures, None if unknown;
            `pictures_missing`: status -> number of pictures that cannot be shown; `pictures_tops`: name of an order ->
            how many of the pictures shown are at its top among all pictures.
        map: the gallery's pictures by their vectors.
        prompts: rubric -> the template of the prompt that models were sent.
        models: the models that rated or wrote, according to their tables.
        links: the cards of cells and rows of the plots, by anchor.
        figures: plots of ratings and metrics; `figures_left_out`: titles of others, for the page's size.
        sections: further sections, in order.
        plots_saved: whether the folder `plots` next to the page has the files of the figures.
        funnel: the plot of `steps`.
        paper: tables and figures in the shape of a paper's; `paper_title` names it; `paper_pictures`: name of a figure
            -> cards of the pictures that it is about.
    """

    title: str
    date: str = ""
    lede: str = ""
    summary: "FirstScreen | None" = None
    provenance: Sequence[tuple[str, str]] = ()
    notices: Sequence[str] = ()
    steps: Sequence[FunnelStep] = ()
    tables: Sequence[TableSummary] = ()
    distributions: Sequence[Distribution] = ()
    metrics: Sequence[Metric] = ()
    wording: Mapping[tuple[str, str], Wording] = field(default_factory=dict)
    pictures: Sequence[GalleryPicture] = ()
    pictures_total: int | None = None
    pictures_missing: Mapping[str, int] = field(default_factory=dict)
    pictures_tops: Mapping[str, int] = field(default_factory=dict)
    map: EmbeddingMap | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    models: Sequence[ModelFacts] = ()
    links: Sequence[QuestionEntry] = ()
    figures: Sequence[PageFigure] = ()
    figures_left_out: Sequence[str] = ()
    plots_saved: bool = False
    sections: Sequence[PageSection] = ()
    funnel: Sequence[PageFigure] = ()
    paper: Sequence["PaperPart"] = ()
    paper_title: str = ""
    paper_pictures: Mapping[str, Sequence[GalleryPicture]] = field(default_factory=dict)

    @property
    def all_figures(self) -> list[PageFigure]:
        """The figures of further sections and those of ratings and metrics."""
        return [*(figure for section in self.sections for figure in section.figures), *self.figures]

    @property
    def printed_shown(self) -> bool:
        """Whether a table or figure of `paper` has a number that the paper prints."""
        tables: list[Any] = [getattr(part, "numbers", part) for part in self.paper]
        return any(cell.printed for table in tables for row in table.rows for cell in row.cells)
