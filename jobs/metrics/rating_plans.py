"""How many ratings by people are enough: what the intervals of estimates would be with more of them.

Half the length of an interval follows from the variances observed so far (`SetEstimate.expected`): of people's answers
without judges, of what judges leave unexplained with them. As in any forecast from a sample, those of few units are
themselves uncertain.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.intervals import student
from jobs.metrics.metric import Metric, MetricKind, Quantity, exact, undefined
from jobs.metrics.multiple_comparisons import POWER_Z
from jobs.metrics.prediction_powered import SetEstimate

Floats = NDArray[np.float64]
BOTH, PEOPLE_ALONE, JUDGES_ALONE = "people and judges", "people alone", "judges alone"
TIMES = (1.5, 2.0, 3.0, 5.0)  # numbers of rated items that are planned, as multiples of today's
STEPS = (1, 2, 3, 5)  # leading digits of the half widths whose ratings are planned
TARGETS = 2  # half widths below today's
MOST_PER_ITEM = 4  # answers per item of the splits
_PLACE = "in the section “Estimates for the whole set”"
_EXPECTED = "no interval: expected from the variances observed so far"
HALF_WIDTH = MetricKind("expected_half_width", place=_PLACE, interval=False).defined_as(
    "Half the length that the 95 % interval of the estimate would have if people rated this number of items, drawn as "
    "those so far; n counts items that people rated."
)
MORE_RATINGS = MetricKind("ratings_for_half_width", Quantity.COUNT, place=_PLACE).defined_as(
    "Further items that people would have to rate for an interval of this half length; n counts items that they rated."
)
DETECTABLE = MetricKind("expected_detectable_difference", place=_PLACE, interval=False).defined_as(
    "Difference that a test at 5 % finds with a probability of 80 % if people rated this number of items, with the "
    "median standard error of all pairs; n counts items that people rated."
)
SPLIT = MetricKind("half_width_of_split", place=_PLACE, interval=False).defined_as(
    "Half the length of the 95 % interval if as many answers as people gave so far were spent on items with this "
    "number of answers each, by the observed variances between and within items; n counts the items."
)


@dataclass(frozen=True)
class RepeatedAnswers:
    """People's answers to the same items.

    Attributes:
        answers: all answers to the rated items.
        within: variance of the answers to one item, in squared points; None: no item has two.
        per_item: harmonic mean of the number of answers per item.
    """

    answers: int
    within: float | None
    per_item: float

    @classmethod
    def of(cls, item: NDArray[np.int64], y: Floats) -> "RepeatedAnswers":
        """Return the repeats of float64[n] answers to int64[n] items."""
        _, place, n = np.unique(item, return_inverse=True, return_counts=True)
        deviation = y - (np.bincount(place, y) / n)[place]
        freedom = int((n - 1).sum())
        return cls(len(y), float(deviation @ deviation) / freedom if freedom else None, len(n) / float((1 / n).sum()))


def half_width_metrics(estimate: SetEstimate, *, larger: bool) -> Iterator[Metric]:
    """Yield the expected half widths with and without judges, and the ratings that rounder, smaller ones need.

    Args:
        larger: whether to yield half widths of more rated items than today's, too.

    Undefined: people rated fewer than 5 units, so that there is no interval yet.
    """
    now = estimate.expected(estimate.n)
    if math.isnan(now[0]):
        reason = f"{estimate.n:,} items rated by people have no interval from which more could be planned"
        yield undefined(HALF_WIDTH, reason, n=estimate.n, dims={"source": BOTH})
        return
    for ratings in planned_sizes(estimate.n, estimate.items) if larger else [estimate.n]:
        for source, half in zip((BOTH, PEOPLE_ALONE), estimate.expected(ratings), strict=True):
            yield _planned(HALF_WIDTH, half, estimate.n, source=source, ratings=str(ratings))
    for target in round_targets(now[0]):
        for place, source in enumerate((BOTH, PEOPLE_ALONE)):
            more = ratings_for(estimate, target, place) - estimate.n
            yield _planned(MORE_RATINGS, more, estimate.n, source=source, half_width=f"{target:g}")


def ratings_for(estimate: SetEstimate, target: float, place: int) -> int:
    """Return the smallest number of rated items with a half width of at most the target; all items have one of 0.

    Args:
        place: 0 with judges, 1 without.
    """
    low, high = estimate.n, estimate.items
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if estimate.expected(middle)[place] <= target else (middle + 1, high)
    return high


def planned_sizes(n: int, items: int) -> list[int]:
    """Return today's number of rated items and larger ones with two digits, below the number of all items."""
    sizes = [n]
    for times in TIMES:
        digits = 10 ** max(0, int(math.log10(n * times)) - 1)
        sizes.append(math.ceil(n * times / digits) * digits)
    return [size for size in dict.fromkeys(sizes) if size < items] or [n]


def round_targets(half: float) -> list[float]:
    """Return the next half widths with one digit that are clearly smaller."""
    if not half > 0:
        return []
    power = math.floor(math.log10(half))
    steps = [step * 10.0**exponent for exponent in (power, power - 1) for step in reversed(STEPS)]
    return [step for step in steps if step <= 0.85 * half][:TARGETS]


def detectable_metrics(
    pairs: Sequence[tuple[SetEstimate, ...]], *, compared: str, n: int, items: int
) -> Iterator[Metric]:
    """Yield the smallest differences that would be found, by number of rated items.

    Args:
        pairs: two estimates of different items, whose difference counts, or the estimate of a paired difference.
        compared: what is compared, as dim `of`; n: items that people rated so far; items: of the set.
    """
    if not pairs:
        return
    estimates = {id(estimate): estimate for pair in pairs for estimate in pair}
    for ratings in planned_sizes(n, items):
        errors = {
            key: estimate.expected_errors(min(estimate.items, estimate.n * ratings / n))[0]
            for key, estimate in estimates.items()
        }
        differences = []
        for pair in pairs:
            units = max(2, int(min(estimate.units for estimate in pair) * ratings / n))
            differences.append((student(units) + POWER_Z) * math.hypot(*(errors[id(estimate)] for estimate in pair)))
        yield _planned(DETECTABLE, float(np.median(differences)), n, of=compared, ratings=str(ratings))


def subgroup_pairs(parts: Mapping[tuple[str, str], SetEstimate], attribute: str) -> list[tuple[SetEstimate, ...]]:
    """Return all pairs of values of an attribute that have intervals."""
    of_attribute = [part for (name, _), part in parts.items() if name == attribute]
    usable = [part for part in of_attribute if not math.isnan(part.expected(part.n)[0])]
    return list(combinations(usable, 2))


def split_metrics(estimate: SetEstimate, repeats: RepeatedAnswers) -> Iterator[Metric]:
    """Yield the half widths if the answers so far were spent on more items, or on more answers per item.

    Undefined: no item has two answers by people, so that the variance within items is unknown.
    """
    if repeats.within is None:
        yield undefined(SPLIT, "no item has two answers by people: how much they differ is unknown", n=estimate.n)
        return
    error, fraction = estimate.error, estimate.n / estimate.items
    if fraction >= 1 or not error > 0:
        return
    within = repeats.within
    between = max(0.0, error**2 * estimate.n / (1 - fraction) - within / repeats.per_item)
    for per_item in range(1, MOST_PER_ITEM + 1):
        m = min(repeats.answers // per_item, estimate.items)
        if m < 2:
            return
        # People's answers to an item vary even if all items are rated: only the part between items has an end.
        variance = (1 - m / estimate.items) * between / m + within / (m * per_item)
        answers = str(m * per_item)
        yield _planned(SPLIT, student(m) * math.sqrt(variance), m, per_item=str(per_item), ratings=answers)


def _planned(kind: MetricKind, value: float, n: int, **dims: str) -> Metric:
    return exact(kind, value, n, coverage=1.0, reason=_EXPECTED, dims=dims)
