"""The contents of a page. All texts are escaped: none is interpreted as markup or code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from actors.status import Status
from jobs.metrics.distributions import Distribution
from jobs.metrics.metric import Metric
from jobs.page.thumbnails import Thumbnail


@dataclass(frozen=True)
class FunnelStep:
    """A stage of the funnel and how many rows left it. `unit` in the plural: "records", "pictures"."""

    label: str
    n: int
    unit: str = ""
    note: str = ""


@dataclass(frozen=True)
class TableSummary:
    """A table that was read: numbers of rows, units, and of rows by status if it has that column."""

    name: str
    rows: int
    units: int
    statuses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Wording:
    """The texts of a question: title, wording, and the labels of its answers' codes, such as {"1": "Not at all"}."""

    title: str
    text: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PictureRating:
    """What one rater answered about one picture. `answer` (a label or a code) is shown if status is ok."""

    rater: str
    question: str
    answer: str | None
    status: str = Status.OK


@dataclass(frozen=True)
class Picture:
    """A card of the gallery; without a thumbnail, a placeholder with status and error_kind.

    Attributes:
        source_url: linked if it is an http or https address without credentials, else omitted.
        alt: text for readers who do not see the picture; empty: the title.
        facts: (name, value), in the card's details.
    """

    title: str
    caption: str = ""
    alt: str = ""
    thumbnail: Thumbnail | None = None
    status: str = Status.OK
    error_kind: str | None = None
    facts: Sequence[tuple[str, str]] = ()
    ratings: Sequence[PictureRating] = ()
    source_url: str | None = None


@dataclass(frozen=True)
class ModelFacts:
    """A model that rated or wrote, with its number format, hardware and licence; empty: unknown."""

    rater: str
    kind: str = ""
    model: str = ""
    revision: str = ""
    dtype: str = ""
    engine: str = ""
    licence: str = ""


@dataclass(frozen=True)
class Page:
    """Everything a page shows. A section without content has a sentence instead.

    Attributes:
        lede: one or two sentences under the title.
        provenance: (name, value): the command, the identity's hash, versions, when.
        notices: warnings, shown first.
        distributions: of any number of rubrics, questions and raters, in any order.
        metrics: other metrics, in any order; those of single units and workers are only in the table.
        wording: (rubric, question) -> its texts. Its order is that of the page; other questions follow by name.
        pictures: those on the page; `pictures_total`: how many there are, None if all are on the page.
        models: the models that rated or wrote, as their tables state them.
        raters_total: number of raters, None if each has a distribution.
    """

    title: str
    lede: str = ""
    provenance: Sequence[tuple[str, str]] = ()
    notices: Sequence[str] = ()
    steps: Sequence[FunnelStep] = ()
    tables: Sequence[TableSummary] = ()
    distributions: Sequence[Distribution] = ()
    metrics: Sequence[Metric] = ()
    wording: Mapping[tuple[str, str], Wording] = field(default_factory=dict)
    pictures: Sequence[Picture] = ()
    pictures_total: int | None = None
    raters_total: int | None = None
    models: Sequence[ModelFacts] = ()
