"""Whether a judge is fit to replace people's ratings: its agreement with a person against that of another person.

The share of people's own agreement that the judge reaches, the alternative annotator test (Calderon, Reichart and Dror
2025), and the subgroup in which the judge is farthest from people.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.correlation import pearson_of_sums, products
from jobs.metrics.intervals import Interval, Units, bootstrap, no_interval
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, undefined
from jobs.metrics.multiple_comparisons import BENJAMINI_HOCHBERG, LEVEL, adjusted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
COST = 0.2  # epsilon: by how much a person may be the better annotator and cost more; 0.2 for experts, 0.1 for crowds
ENOUGH = 30  # items that a person must share with others, as the paper demands of its t-test
PASSES = 0.5  # winning rate from which the judge may replace people
_FIT = (Topic.FITNESS,)
_REACHED = MetricKind("reliability_reached", Quantity.FRACTION, _FIT, label="share of people’s agreement").defined_as(
    "{agreement} of the judge and a person / that of two people, over the same ratings; 1: the judge agrees with a "
    "person as much as another person does; n counts people's ratings of items that several people and the judge rated."
)
_WINNING = MetricKind("winning_rate", Quantity.SHARE, _FIT, label="people the judge can replace").defined_as(
    f"People who are not a better match to the other people of their items than the judge is, by more than {COST:g} "
    "(alternative annotator test of Calderon, Reichart and Dror 2025; one-sided t-tests between {units}, Benjamini and "
    "Yekutieli 2001), / "
    f"people with at least {ENOUGH} such items; the judge passes from {PASSES:g}; n counts people."
)
_ADVANTAGE = MetricKind("advantage_probability", Quantity.SHARE, _FIT, label="judge at least as close").defined_as(
    "Ratings for which the judge is at least as close as the person to the other people of the item, averaged over "
    "people (Calderon, Reichart and Dror 2025); n counts people's ratings."
)
_WORST = MetricKind(
    "worst_subgroup_distance", Quantity.NUMBER, _FIT, label="distance in the worst subgroup"
).defined_as(
    "Mean distance of the judge from people's {common} in the subgroup where it is largest; n counts items "
    "that both rated."
)


@dataclass(frozen=True)
class _Compared:
    """People's ratings of items that the judge and at least another person rated.

    Attributes:
        item, rater: int64[n]; units: of the ratings.
        judge, person: float64[n], mean agreement with the other people of the item, at most 0 or in [0, 1].
        rows: float64[n, 12] or float64[n, 3], whose sums give the agreement of both; `reached` computes it.
    """

    rater: Ints
    units: Units
    judge: Floats
    person: Floats
    rows: Floats
    is_scored: bool

    def reached(self, sums: Floats) -> Floats:
        """Return float64[…], the judge's agreement with a person / that of two people."""
        if self.is_scored:
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.asarray(pearson_of_sums(sums[..., :6]) / pearson_of_sums(sums[..., 6:]))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(sums[..., 0] / sums[..., 1])


def fitness(judge: RatingTable, people: RatingTable) -> Iterator[Metric]:
    """Yield the share of people's agreement that the judge reaches, and the alternative annotator test.

    Use them before a judge's answers replace people's: agreement with people says little where people disagree.

    Args:
        judge: answers of one rater; people: answers of any number of raters about the same items.

    Undefined: no item has ratings by the judge and two people; for the winning rate, nobody shares enough items.
    """
    compared = _compared(judge, people)
    agreement = "Pearson correlation" if people.scored else "Share of equal answers"
    kind = _REACHED.worded(agreement=agreement)
    if compared is None:
        yield undefined(kind, "no item has ratings by the judge and by two people", coverage=0.0)
        return
    n, coverage = len(compared.rater), len(compared.rater) / people.n
    value = float(compared.reached(compared.rows.sum(0)[None])[0])
    if math.isfinite(value):
        interval = bootstrap(compared.rows, compared.reached, compared.units)
        yield estimated(kind, value, n, coverage=coverage, interval=interval)
    else:
        yield undefined(kind, "people's ratings do not agree more than by chance", n=n, coverage=coverage)
    at_least = (compared.judge >= compared.person - 1e-12).astype(np.float64)
    raters, place, counts = np.unique(compared.rater, return_inverse=True, return_counts=True)
    weight = 1 / counts[place]  # each person counts the same
    rows = np.stack([weight * at_least, weight], axis=1)
    interval = bootstrap(rows, lambda sums: sums[..., 0] / sums[..., 1], compared.units)
    value = float(rows[:, 0].sum() / rows[:, 1].sum())
    yield estimated(_ADVANTAGE, value, n, coverage=coverage, interval=interval)
    yield _winning_rate(compared, place, counts, coverage=coverage, people=len(raters))


def _winning_rate(compared: _Compared, place: Ints, counts: Ints, *, coverage: float, people: int) -> Metric:
    from scipy.special import stdtr  # scipy.stats takes seconds to import

    enough, kind = counts >= ENOUGH, _WINNING.worded(units=compared.units.name)
    if not enough.any():
        reason = f"nobody rated {ENOUGH} items that others and the judge rated; the most are {counts.max()}"
        return undefined(kind, reason, n=people, coverage=coverage)
    difference = (compared.person >= compared.judge - 1e-12) * 1.0 - (compared.judge >= compared.person - 1e-12)
    mean = np.bincount(place, difference) / counts
    width = compared.units.count
    cells, of_cell = np.unique(place * width + compared.units.place, return_inverse=True)
    of_person = cells // width  # of each of its units
    units = np.bincount(of_person)
    squares = np.bincount(of_person, np.bincount(of_cell, difference - mean[place]) ** 2)
    error = np.sqrt(squares * units / np.maximum(units - 1, 1)) / counts
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0, (mean - COST) / error, np.where(mean < COST, -np.inf, np.inf))
    p = stdtr(np.maximum(units - 1, 1), t)[enough]
    # The tests share ratings: Benjamini and Hochberg's values times the harmonic sum hold for any dependence.
    harmonic = float((1 / np.arange(1, len(p) + 1)).sum())
    wins = adjusted(p.tolist(), BENJAMINI_HOCHBERG) * harmonic < LEVEL
    interval = no_interval("a share of these people; the test of each is in its p-value")
    return estimated(kind, float(wins.mean()), int(enough.sum()), coverage=coverage, interval=interval)


def _compared(judge: RatingTable, people: RatingTable) -> _Compared | None:
    scored = people.scored
    rows = people.with_scores() if scored else people.where(people.value >= 0)
    answer = np.full(people.items, np.nan)
    answer[judge.item] = judge.score if scored else np.where(judge.value >= 0, judge.value, np.nan)
    n = np.bincount(rows.item, minlength=people.items)
    rows = rows.where((n[rows.item] > 1) & ~np.isnan(answer[rows.item]))
    if not rows.n:
        return None
    item, others, f = rows.item, (n[rows.item] - 1).astype(np.float64), answer[rows.item]
    units = people.units.of(item)
    if not scored:
        width = len(people.values)
        cell = item.astype(np.int64) * width
        count = np.bincount(cell + rows.value, minlength=people.items * width)
        same = f == rows.value
        of_person = (count[cell + rows.value] - 1) / others
        of_judge = (count[cell + f.astype(np.int64)] - same) / others
        columns = np.stack([same.astype(np.float64), of_person], axis=1)
        return _Compared(rows.rater.astype(np.int64), units, of_judge, of_person, columns, is_scored=False)
    h = rows.score
    total = np.bincount(item, h, people.items)[item]
    squares = np.bincount(item, h * h, people.items)[item]
    of_person = -np.sqrt(np.maximum(n[item] * h * h - 2 * h * total + squares, 0) / others)
    of_judge = -np.sqrt(np.maximum(n[item] * f * f - 2 * f * total + squares - (f - h) ** 2, 0) / others)
    # A pair of two people counts once per rating of the item, as the judge does: the product is with the others' mean,
    # and the sum of squares is that of single ratings.
    rest = (total - h) / others
    middle = float(h.mean())
    of_people = products(h, rest)
    of_people[:, 4] = (squares - 2 * middle * total + n[item] * middle**2 - (h - middle) ** 2) / others
    of_people[:, 2], of_people[:, 5] = rest - middle, (h - middle) * (rest - middle)
    of_people[:, 1], of_people[:, 3] = h - middle, (h - middle) ** 2
    columns = np.concatenate([products(f, h), of_people], axis=1)
    return _Compared(rows.rater.astype(np.int64), units, of_judge, of_person, columns, is_scored=True)


def worst_subgroup(
    judge: Floats,
    people: Floats,
    subgroups: Mapping[str, Mapping[str, Bools]],
    units: Units,
    *,
    minimum: int,
    scored: bool,
) -> Iterator[Metric]:
    """Yield the mean distance of the judge from people in the worst subgroup of each attribute.

    Use it to see for whom the judge fails: a good mean may hide a subgroup. The largest of several distances is too
    large on average, and the more so the smaller the subgroups.

    Args:
        judge, people: float64[items], a score or the code of an answer, NaN without one.
        minimum: number of items that a subgroup needs.

    Undefined: no subgroup has as many items that both rated.
    """
    distance = np.abs(judge - people) if scored else np.where(np.isnan(judge + people), np.nan, judge != people)
    kind = _WORST.worded(common="mean" if scored else "majority")
    for attribute, parts in subgroups.items():
        both = {value: members & ~np.isnan(distance) for value, members in parts.items()}
        large = {value: members for value, members in both.items() if members.sum() >= minimum}
        if len(large) < 2:
            reason = f"fewer than two subgroups have {minimum} items that the judge and people rated"
            yield undefined(kind, reason, coverage=0.0, dims={"attribute": attribute})
            continue
        worst, members = max(large.items(), key=lambda part: (float(distance[part[1]].mean()), part[0]))
        of_part = distance[members]
        rows = np.stack([of_part, np.ones(len(of_part))], axis=1)
        interval: Interval = bootstrap(rows, lambda sums: sums[..., 0] / sums[..., 1], units.of(members))
        share = len(of_part) / int(parts[worst].sum())
        dims = {"attribute": attribute, "part": worst}
        yield estimated(kind, float(of_part.mean()), len(of_part), coverage=share, interval=interval, dims=dims)
