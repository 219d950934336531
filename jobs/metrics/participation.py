"""How much people rated, and what they reported: people, items per person, shares with a report (Century, L and T)."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from actors.status import Status
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import block_sums, bootstrap, proportion, ratio
from jobs.metrics.metric import Metric, estimated, undefined

_PEOPLE = "Number of people who were asked the question (Century, section 3.3 and appendix T); n counts people."
_MEAN = (
    "Mean over people of the number of items that a person answered the question about (Century, section 3.3 and "
    "appendix T); n counts people."
)
_SD = (
    "Standard deviation over people (n - 1) of the number of items that a person answered the question about "
    "(Century, section 3.3 and appendix T); n counts people."
)
_REPORTED = {
    "items": "Items that at least one person reported / items that people were asked about (Century, appendices L and "
    "T); n counts items.",
    "people": "People who reported at least one item / people who were asked (Century, appendices L and T); n counts "
    "people.",
}
_DRAWN = "percentile bootstrap over people 95%, 1000 resamples"


def participation(
    answers: RatingTable,
    ended: Mapping[str, Mapping[str, int]],
    *,
    asked: NDArray[np.bool_],
    reported: NDArray[np.bool_],
    group: str,
) -> Iterator[Metric]:
    """Yield the number of people, the mean and standard deviation of their items, and the shares with a report.

    Use it to describe who rated, and how much of the work disturbed them. `jobs.metrics.gold.endings` gives the share
    of ratings that were reported.

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
    yield Metric(
        name="people_total", definition=_PEOPLE, value=people, n=people, coverage=1.0, reason="a count: no interval",
        dims=dims,
    )  # fmt: skip
    rows = block_sums(np.stack([items, np.ones(people), items**2], axis=1))
    interval = bootstrap(rows, ratio, unit_name="people", method=_DRAWN)
    yield estimated("items_per_person", _MEAN, items.mean(), people, coverage=coverage, interval=interval, dims=dims)
    if people > 1:
        interval = bootstrap(rows, _deviation, unit_name="people", method=_DRAWN)
        value = float(items.std(ddof=1))
        yield estimated("items_per_person_sd", _SD, value, people, coverage=coverage, interval=interval, dims=dims)
    else:
        yield undefined("items_per_person_sd", _SD, "one person", n=1, coverage=coverage, dims=dims)
    reporters = sum(bool(ended.get(name, {}).get(Status.REPORTED)) for name in answers.raters)
    for of, hits, n in (("items", int(reported.sum()), int(asked.sum())), ("people", reporters, people)):
        yield estimated(
            "reported_share", _REPORTED[of], hits / n, n, coverage=1.0, interval=proportion(hits, n),
            dims={**dims, "of": of},
        )  # fmt: skip


def _deviation(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the standard deviation from float64[..., 3] sums of items, people and squared items."""
    total, people, squares = sums[..., 0], sums[..., 1], sums[..., 2]
    variance = (squares - total**2 / people) / (people - 1)
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))
