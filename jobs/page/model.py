"""What a page shows. Every text is shown as text, whatever it contains; nothing in it is ever markup or code."""

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
    """A table that was read: its rows, its work units, and its rows by status if it has that column."""

    name: str
    rows: int
    units: int
    statuses: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Wording:
    """How a question reads: its title, its text, and what its answers' codes stand for, e.g. {"1": "Not at all"}."""

    title: str
    text: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PictureRating:
    """What one rater answered about one picture. `answer` is shown as given (a label or a code), if status is ok."""

    rater: str
    question: str
    answer: str | None
    status: str = Status.OK


@dataclass(frozen=True)
class Picture:
    """A card of the gallery. Without a thumbnail it is a placeholder that shows status and error_kind.

    Attributes:
        source_url: linked if it is an http or https address without credentials, else left out.
        alt: text for who does not see the picture; the title if empty.
        facts: (name, value), shown when the reader opens the card's details.
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
    """A model that rated or wrote: what it is, in which numbers and on what it ran, and its licence; empty: unknown."""

    rater: str
    kind: str = ""
    model: str = ""
    revision: str = ""
    dtype: str = ""
    engine: str = ""
    licence: str = ""


@dataclass(frozen=True)
class Page:
    """Everything a page shows. A section without content says so in a sentence.

    Attributes:
        lede: one or two sentences under the title.
        provenance: (name, value): the command, the identity's hash, versions, when.
        notices: sentences that a reader must know before the metrics, shown first.
        distributions: of any number of rubrics, questions and raters, in any order.
        metrics: what else was computed, in any order; those of single units and workers are left to the table.
        wording: (rubric, question) -> its words. Its order is the order of the page; questions it lacks follow by name.
        pictures: those shown; `pictures_total` is how many there are, None if these are all.
        models: the models that rated or wrote, as their tables state them.
        raters_total: how many rated, None if each has a distribution of their own.
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
