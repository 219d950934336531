"""A kind of metric, and the value of a metric with its interval and basis, or the reason why it is undefined.

Every module of `jobs.metrics` returns `Metric` objects; `jobs.analysis.metrics_output` writes them as a table.
"""

import math
import string
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from actors.status import Status
from jobs.metrics.intervals import Interval, Units, bootstrap, ratio, share


class Quantity(StrEnum):
    """What the values of a metric are, which decides how they are printed and plotted."""

    SHARE = "share"  # 0 to 1, printed as a percentage
    DIFFERENCE = "difference of shares"  # -1 to 1, printed as a percentage
    FRACTION = "fraction"  # 0 to 1, printed as a number
    COEFFICIENT = "coefficient"  # at most 1, such as a correlation
    SCORE = "score"  # on the scale of its question
    NUMBER = "number"
    COUNT = "count"
    MEAN_OF_COUNTS = "mean of counts"
    P_VALUE = "p"

    @property
    def percent(self) -> bool:
        """Whether values are printed as percentages."""
        return self in (Quantity.SHARE, Quantity.DIFFERENCE)


@dataclass(frozen=True)
class TopicTable:
    """How the report shows the metrics of a topic.

    Attributes:
        title: of their table and plots; columns: the dims (or 'metric') whose values become the table's columns.
        needs: only metrics with this dim; without: only metrics without it. The dim `versions` is only where needed.
        counts: whether its numbers count ratings or people, and so rest on no particular cards and are often the same
            for every question.
        of_answers: whether it repeats numbers of a single rater's distributions of answers.
        of_means: whether a group of raters stands for the mean of their ratings.
        of_spans: whether it is about marked spans, which have no question.
        plotted_first: whether its plots are unfolded at first.
    """

    title: str
    columns: tuple[str, ...]
    needs: str = ""
    without: str = ""
    counts: bool = False
    of_answers: bool = False
    of_means: bool = False
    of_spans: bool = False
    plotted_first: bool = False


class Topic(Enum):
    """Metrics that share a table and plots of the report, in its order."""

    ESTIMATES = TopicTable("Estimates for all items", ("source",), without="attribute")
    ESTIMATES_BY_SUBGROUP = TopicTable("Estimates for all items, by subgroup", ("source",), needs="attribute")
    WORTH = TopicTable("What the judges are worth, in people’s ratings", ("of",))
    RATINGS = TopicTable("Ratings", ("metric",), counts=True, of_answers=True)
    COMPARISONS = TopicTable("Comparisons", ("metric", "by"))
    COMPETITORS = TopicTable("Comparisons: competitors", ("metric", "rater"), plotted_first=True)
    STATUSES = TopicTable("Ratings without an answer", ("group",), counts=True, of_answers=True)
    PEOPLE = TopicTable("People", ("metric", "of"), counts=True)
    AGREEMENT = TopicTable("Agreement among raters", ("group",), without="attribute", plotted_first=True)
    AGREEMENT_BY_SUBGROUP = TopicTable("Agreement by subgroup", ("group",), needs="attribute")
    VERSIONS = TopicTable("One rater asked in several ways", ("rater",), needs="versions")
    TWO_RATERS = TopicTable("Agreement of two raters", ("weights",))
    OTHERS = TopicTable("Each rater and the other raters", ("metric",))
    MAJORITIES = TopicTable("Answers by majority", ("group",), without="attribute", of_answers=True)
    MAJORITIES_BY_SUBGROUP = TopicTable("Answers by majority, by subgroup", ("group",), needs="attribute")
    ANSWERS_BY_SUBGROUP = TopicTable("Answers by subgroup", ("group",))
    SCORES = TopicTable(
        "Scores", ("metric", "threshold", "rule"), without="attribute", of_means=True, plotted_first=True
    )
    SCORES_BY_SUBGROUP = TopicTable(
        "Scores by subgroup", ("metric", "group"), needs="attribute", of_means=True, plotted_first=True
    )
    PAIRS = TopicTable("All pairs", ("metric",))
    RANKS = TopicTable("Ranks", ("metric",))
    SUBGROUPS = TopicTable("Comparison of subgroups", ("metric", "part", "threshold"))
    CHANGES = TopicTable("Changes between conditions", ("first", "second"), plotted_first=True)
    OVER_BEST = TopicTable("Models without ratings under the baseline, and the best one there", ("first", "second"))
    BIASES = TopicTable("Biases of judges", ("metric", "kind"))
    WITH_PEOPLE = TopicTable("Models and people", ("rater",), plotted_first=True)
    FITNESS = TopicTable("Can the judge replace people?", ("rater",))
    CALIBRATION = TopicTable("How sure a judge is, and how often people agree", ("metric",))
    SINGLE_RATERS = TopicTable("Models and single raters of a target", ("metric",))
    DEVIATIONS = TopicTable("Model’s score minus a person’s", ("rater",))
    GOLD = TopicTable("Against gold", ("group", "positive"), plotted_first=True)
    WITHOUT_GOLD = TopicTable("Rated items without gold", ("metric",))
    WITHOUT_VALUE = TopicTable("Rated items without a value of an attribute", ("metric",))
    CROWDTRUTH = TopicTable("CrowdTruth", ("bins",), plotted_first=True)
    WORKERS = TopicTable("CrowdTruth: workers", ("metric",))
    TERMS = TopicTable("Search terms", ("metric",))
    REFUSALS = TopicTable("Refusals", ("kind",))
    REMARKS = TopicTable("Items that people wrote about", ("field",))
    SPAN_STATUSES = TopicTable("Texts with marked spans by status", ("kind", "status"), of_spans=True)
    SPANS = TopicTable("Marked spans", ("unit",), of_spans=True, plotted_first=True)
    DESCRIPTIONS = TopicTable("Descriptions: mistakes and omissions", ("metric",), without="category", of_spans=True)
    MISTAKES = TopicTable("Descriptions: kinds of mistakes", ("category",), needs="category", of_spans=True)
    DESCRIPTION_SCORES = TopicTable("Scores of descriptions and people", ("metric", "score"), of_spans=True)
    SCENE_GRAPHS = TopicTable("Scene graphs", ("reading", "convention"), plotted_first=True)


AGREEMENTS = (Topic.AGREEMENT, Topic.AGREEMENT_BY_SUBGROUP, Topic.VERSIONS)


@dataclass(frozen=True)
class MetricKind:
    """What the metrics of one name have in common, declared next to the function that computes them.

    Attributes:
        name: column `metric` of the table `metrics`.
        topics: the tables of the report that show it; without any, `place` says where its numbers are.
        label: words for it, by default the name; `detailed` also names dims, in braces.
        interval: whether it can have an interval; if not, it is not plotted and needs no remark about a missing one.
        needs_scale: whether it is undefined if the ends of the question's scale are unknown.
        definition: one sentence with the source; it says what `n` counts. `worded` fills in what it has in braces.
    """

    name: str
    unit: Quantity = Quantity.NUMBER
    topics: tuple[Topic, ...] = ()
    label: str = ""
    detailed: str = ""
    place: str = ""
    interval: bool = True
    needs_scale: bool = False
    definition: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name.replace("_", " "))
        can_vary = self.interval and self.unit not in (Quantity.COUNT, Quantity.P_VALUE)
        object.__setattr__(self, "interval", can_vary)

    @property
    def details(self) -> tuple[str, ...]:
        """The dims that `detailed` names."""
        return tuple(name for _, name, _, _ in string.Formatter().parse(self.detailed) if name)

    def defined_as(self, definition: str) -> "MetricKind":
        """Return the kind with a definition."""
        return replace(self, definition=definition)

    def worded(self, **words: object) -> "MetricKind":
        """Return the kind with the fields of its definition filled in."""
        return replace(self, definition=self.definition.format(**words))


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of the part of the data that `dims` describes.

    Attributes:
        name: column `metric` of the table.
        definition: one sentence with the source; it says what `n` counts.
        value: None if the metric is undefined; then `status` is not ok and `reason` says why.
        n: number of items, pairs or ratings that the metric is computed from (see `definition`).
        units: number of independent units, such as pictures, that the interval rests on; None: as many as n.
        coverage: rated / asked, in [0, 1]; None if the number asked is unknown.
        low, high: 95 % interval by `interval_method`; all three are None without an interval, which `reason` explains.
        reason: why the metric is undefined or has no interval, or a caveat, such as few items.
        dims: column -> value, such as rater, question and group.

    Raises:
        ValueError: a value without status ok, status ok without a value, an undefined metric without a reason, an
            interval without a method, neither an interval nor a reason, or a number that is not finite.
    """

    name: str
    definition: str
    value: float | None
    n: int
    units: int | None = None
    coverage: float | None = None
    low: float | None = None
    high: float | None = None
    interval_method: str | None = None
    status: str = Status.OK
    reason: str | None = None
    dims: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for field_name in ("value", "low", "high", "coverage"):
            if (number := getattr(self, field_name)) is not None:
                if not math.isfinite(number):
                    raise ValueError(f"{self.name}: {field_name} is {number}")
                object.__setattr__(self, field_name, float(number))  # JSON cannot serialise NumPy scalars
        object.__setattr__(self, "n", int(self.n))
        if (self.value is None) == (self.status == Status.OK):
            raise ValueError(
                f"{self.name}: status={self.status}, value={self.value}: must have a value if and only if status is ok"
            )
        if self.value is None and not self.reason:
            raise ValueError(f"{self.name}: reason is missing: an undefined metric needs one")
        if (self.low is None) != (self.interval_method is None):
            raise ValueError(f"{self.name}: interval: must have both bounds and a method, or neither")
        if self.low is None and not self.reason:
            raise ValueError(f"{self.name}: reason is missing: a metric without an interval needs one")

    def at(self, **dims: str) -> "Metric":
        """Return the metric with additional dims; existing dims keep their values."""
        return replace(self, dims={**dims, **self.dims})

    def without_value(self, reason: str) -> "Metric":
        """Return the metric as undefined, because of `reason`."""
        return Metric(
            name=self.name,
            definition=self.definition,
            value=None,
            n=self.n,
            coverage=self.coverage,
            status=Status.SKIPPED,
            reason=reason,
            dims=self.dims,
        )


def estimated(
    kind: MetricKind,
    value: float,
    n: int,
    *,
    coverage: float | None = None,
    interval: Interval,
    dims: Mapping[str, str] | None = None,
) -> Metric:
    """Return a metric with a value, and its interval or the reason why there is none."""
    return Metric(
        name=kind.name,
        definition=kind.definition,
        value=value,
        n=n,
        units=interval.units,
        coverage=coverage,
        low=interval.low,
        high=interval.high,
        interval_method=interval.method,
        reason=interval.reason,
        dims=dims or {},
    )


def share_of(
    kind: MetricKind,
    hits: ArrayLike,
    units: Units | None = None,
    *,
    coverage: float | None = None,
    dims: Mapping[str, str] | None = None,
) -> Metric:
    """Return the share of bool[n] `hits`, n of at least 1, with Wilson's interval over units; None: each is one."""
    hit = np.asarray(hits, bool)
    return estimated(kind, hit.mean(), len(hit), coverage=coverage, interval=share(hit, units), dims=dims)


def mean_of(
    kind: MetricKind,
    values: NDArray[np.float64],
    units: Units | None = None,
    *,
    coverage: float | None = None,
    dims: Mapping[str, str] | None = None,
) -> Metric:
    """Return the mean of float64[n], n of at least 1, with a bootstrap interval over units; None: each is one."""
    interval = bootstrap(np.stack([values, np.ones(len(values))], axis=1), ratio, units)
    return estimated(kind, values.mean(), len(values), coverage=coverage, interval=interval, dims=dims)


def exact(
    kind: MetricKind,
    value: float,
    n: int,
    *,
    coverage: float | None = None,
    reason: str = "a count: no interval",
    dims: Mapping[str, str] | None = None,
) -> Metric:
    """Return a metric with a value and no interval, because of `reason`."""
    return Metric(
        name=kind.name, definition=kind.definition, value=value, n=n, coverage=coverage, reason=reason, dims=dims or {}
    )


def undefined(
    kind: MetricKind,
    reason: str,
    *,
    n: int = 0,
    coverage: float | None = None,
    status: str = Status.SKIPPED,
    dims: Mapping[str, str] | None = None,
) -> Metric:
    """Return a metric without a value; `status`: `missing_input` if nothing was rated, `skipped` if it does not
    apply."""
    return Metric(
        name=kind.name,
        definition=kind.definition,
        value=None,
        n=n,
        coverage=coverage,
        status=status,
        reason=reason,
        dims=dims or {},
    )


def no_rated_item(group: str, *, at_least: int) -> str:
    """Return the reason of a metric of a group without an item that has `at_least` ratings of it."""
    return f"no item has {f'{at_least} ratings' if at_least > 1 else 'a rating'} of {group}"
