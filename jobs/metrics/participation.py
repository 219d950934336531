"""Numbers of ratings by rater and by status (Century, appendices L and T; Rome, table 1), and shares of items that
people wrote about."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from actors.status import STATUSES, Status
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import ShareSums, Units, bootstrap, proportion, ratio, share
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, exact, share_of, undefined

_RATINGS = {
    name: MetricKind(name, Quantity.COUNT, (Topic.RATINGS,), label=label).defined_as(definition)
    for name, label, definition in (
        ("ratings_total", "ratings", "Ratings requested or given, of any status (Rome, table 1); n counts ratings."),
        (
            "ratings_double",
            "rated more than once",
            "Items with more than one rating, of any status (Rome, table 1); n counts ratings.",
        ),
        (
            "pairs_double",
            "pairs rated more than once",
            "Pairs with more than one rating by people, in either order and of any status (Rome, table 1); n counts "
            "ratings.",
        ),
        (
            "ratings_repeated",
            "repeated ratings",
            "Repeated ratings of an item by the same rater (samples, layouts), merged into one; n counts ratings.",
        ),
        ("ratings_excluded", "excluded ratings", "Ratings whose status is not ok (Rome, table 1); n counts ratings."),
        ("ratings_left", "ratings used", "Ratings whose status is ok (Rome, table 1); n counts ratings."),
    )
}
_PER_PERSON = MetricKind(
    "ratings_per_person", Quantity.MEAN_OF_COUNTS, (Topic.RATINGS,), label="per person", interval=False
).defined_as("Mean number of ratings per person, of any status (Rome, section 4.1); n counts people.")
_PER_PERSON_SD = MetricKind(
    "ratings_per_person_sd", Quantity.MEAN_OF_COUNTS, (Topic.RATINGS,), label="per person, SD", interval=False
).defined_as(
    "Standard deviation (n - 1) of the number of ratings per person, of any status (Rome, section 4.1); n counts "
    "people."
)
_STATUS_SHARE = MetricKind("status_share", Quantity.SHARE, (Topic.STATUSES,), label="share").defined_as(
    "Ratings of the group that ended with this status / all ratings of the group; n counts ratings."
)
_PEOPLE = MetricKind("people_total", Quantity.COUNT, (Topic.PEOPLE,), label="people").defined_as(
    "Number of people who were asked the question (Century, section 3.3 and appendix T); n counts people."
)
_MEAN = MetricKind("items_per_person", Quantity.MEAN_OF_COUNTS, (Topic.PEOPLE,)).defined_as(
    "Mean over people of the number of items that a person answered the question about (Century, section 3.3 and "
    "appendix T); n counts people."
)
_SD = MetricKind(
    "items_per_person_sd", Quantity.MEAN_OF_COUNTS, (Topic.PEOPLE,), label="items per person, SD"
).defined_as(
    "Standard deviation over people (n - 1) of the number of items that a person answered the question about "
    "(Century, section 3.3 and appendix T); n counts people."
)
_REPORTED_SHARE = MetricKind("reported_share", Quantity.SHARE, (Topic.PEOPLE,), detailed="share of {of}")
_REPORTED = {
    "items": _REPORTED_SHARE.defined_as(
        "Items that at least one person reported / items that people were asked about (Century, appendices L and T); n "
        "counts items."
    ),
    "people": _REPORTED_SHARE.defined_as(
        "People who reported at least one item / people who were asked (Century, appendices L and T); n counts people."
    ),
}
_WITHOUT_VALUE = MetricKind("without_value", Quantity.SHARE, (Topic.WITHOUT_VALUE,), interval=False).defined_as(
    "Rated items without a value of the attribute, which are in no subgroup of it / rated items; n counts items."
)
_SHARE = MetricKind("remark_share", Quantity.SHARE, (Topic.REMARKS,), label="share").defined_as(
    "Items about which a person wrote in the field / items that a person rated with the rubric (Century, appendix U: "
    "factual errors); n counts items."
)


def participation(
    answers: RatingTable,
    ended: Mapping[str, Mapping[str, int]],
    *,
    asked: NDArray[np.bool_],
    reported: NDArray[np.bool_],
    group: str,
) -> Iterator[Metric]:
    """Yield the number of people, the mean and standard deviation of their items, and the shares with a report.

    Use it to describe who rated, and how much of the material disturbed them. `endings` gives the share of ratings that
    were reported.

    Args:
        answers: of people alone.
        ended: person -> status -> number of ratings.
        asked: bool[items], whether a person was asked about the item; reported: whether a person reported it.
        group: the people's name in dims.

    Undefined: the standard deviation of one person.
    """
    people = len(answers.raters)
    if not people:
        return
    dims = {"group": group}
    items = np.bincount(answers.rater, minlength=people).astype(np.float64)
    coverage = answers.coverage
    yield exact(_PEOPLE, people, people, coverage=1.0, dims=dims)
    rows = np.stack([items, np.ones(people), items**2], axis=1)
    interval = bootstrap(rows, ratio, unit_name="people")
    yield estimated(_MEAN, items.mean(), people, coverage=coverage, interval=interval, dims=dims)
    if people > 1:
        interval = bootstrap(rows, _deviation, unit_name="people")
        value = float(items.std(ddof=1))
        yield estimated(_SD, value, people, coverage=coverage, interval=interval, dims=dims)
    else:
        yield undefined(_SD, "one person", n=1, coverage=coverage, dims=dims)
    reporters = sum(bool(ended.get(name, {}).get(Status.REPORTED)) for name in answers.raters)
    of_items, of_people = share(reported[asked], answers.units.of(asked)), proportion(reporters, people)
    counted = (("items", int(reported.sum()), int(asked.sum()), of_items), ("people", reporters, people, of_people))
    for reported_by, hits, n, interval in counted:
        at = dims | {"of": reported_by}
        yield estimated(_REPORTED[reported_by], hits / n, n, coverage=1.0, interval=interval, dims=at)


def _deviation(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation from float64[..., 3] sums of items, people and squared items."""
    total, people, squares = sums[..., 0], sums[..., 1], sums[..., 2]
    variance = (squares - total**2 / people) / (people - 1)
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def endings(ended: Sequence[Mapping[str, int]], *, group: str) -> Iterator[Metric]:
    """Yield the shares of a group's ratings that ended without an answer: reported, skipped, refused, …

    Reported and skipped are always included (Century, appendices L, T and X). A few raters may account for most of
    them, as in Century, where two made 137 of 147 reports. The units of the interval are therefore raters.

    Args:
        ended: status -> number of ratings, of each rater.
    """
    total = sum(sum(statuses.values()) for statuses in ended)
    if not total:
        return
    occur = {status for statuses in ended for status, n in statuses.items() if n} - {Status.OK}
    for status in (s for s in STATUSES if s in occur | {Status.REPORTED, Status.SKIPPED}):
        rows = np.array([[statuses.get(status, 0), sum(statuses.values())] for statuses in ended], np.float64)
        hits = int(rows[:, 0].sum())
        yield estimated(
            _STATUS_SHARE,
            hits / total,
            total,
            coverage=1.0,
            interval=ShareSums.of(rows).interval("raters"),
            dims={"group": group, "status": str(status)},
        )


def accounting(statuses: Counter[str], double: int, repeated: int = 0) -> Iterator[Metric]:
    """Yield the numbers of ratings: total, excluded and left, and of items with several ratings (Rome, table 1).

    Args:
        statuses: status -> number of ratings.
        double: number of items with more than one rating.
        repeated: number of repeated ratings of an item by the same rater.
    """
    total, ok = statuses.total(), statuses["ok"]
    counts = {"ratings_total": total, "ratings_double": double, "ratings_repeated": repeated}
    counts |= {"ratings_excluded": total - ok, "ratings_left": ok}
    for metric, value in counts.items():
        yield exact(_RATINGS[metric], value, total, coverage=ok / total if total else None)


def rated_more_than_once(pair: NDArray[np.int64], *, answered: int) -> Metric:
    """Return the number of pairs with several ratings. Use it to describe the people's task: both orders are one pair.

    Args:
        pair: int64[n], the pair of each requested rating, n of at least 1.
        answered: number of ok ratings.
    """
    return exact(_RATINGS["pairs_double"], int((np.bincount(pair) > 1).sum()), len(pair), coverage=answered / len(pair))


def without_value(with_value: int, rated: int, *, attribute: str) -> Metric:
    """Return the share of rated items without a value of an attribute. Use it to see what subgroups leave out.

    Args:
        with_value: number of rated items with a value; rated: number of rated items, at least 1.
    """
    return exact(
        _WITHOUT_VALUE,
        1 - with_value / rated,
        rated,
        coverage=1.0,
        reason="a share of these items, not of a sample: no interval",
        dims={"attribute": attribute},
    )


def workload(ended: Sequence[Mapping[str, int]]) -> Iterator[Metric]:
    """Yield mean and standard deviation of the number of ratings of a person (Rome, section 4.1).

    Use them to see whether few people gave most ratings.

    Args:
        ended: status -> number of ratings, of each person.

    Undefined: no people; for the standard deviation, one person.
    """
    numbers = np.array([sum(statuses.values()) for statuses in ended], np.float64)
    ok = sum(statuses.get(Status.OK, 0) for statuses in ended)
    coverage = ok / float(numbers.sum()) if numbers.sum() else None
    for kind, least in ((_PER_PERSON, 1), (_PER_PERSON_SD, 2)):
        if len(numbers) < least:
            reason = f"fewer than {least} people ({len(numbers)})"
            yield undefined(kind, reason, n=len(numbers), coverage=coverage)
            continue
        value = float(numbers.mean() if least == 1 else numbers.std(ddof=1))
        yield exact(kind, value, len(numbers), coverage=coverage)


def remark_share(written: NDArray[np.bool_], rated: NDArray[np.bool_], units: Units | None = None) -> Metric:
    """Return the share of rated items about which at least one person wrote something.

    Use it where noticing is voluntary, such as factual errors: the share is a lower bound.

    Args:
        written: bool[items], whether a person wrote in the field; items that nobody rated are ignored.
        rated: bool[items], whether a person rated the item.
        units: of the items; None: each item is one.

    Undefined: no item is rated.
    """
    n = int(rated.sum())
    if not n:
        return undefined(_SHARE, "no item has a rating of a person", status="missing_input")
    return share_of(_SHARE, written[rated], units and units.of(rated), coverage=n / len(rated))
