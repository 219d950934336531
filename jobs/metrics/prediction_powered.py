"""Means over a whole set of items from people's answers to a random part and judges' answers to all.

Prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic, Science 382, 2023): the judge's mean
over all items, plus the mean of people's answers minus the judge's over the part. The judge is multiplied by a factor
lambda that makes the interval narrowest (Angelopoulos, Duchi and Zrnic, PPI++, 2023, section 6); for a mean over a
finite set this is the regression estimator of survey sampling (Särndal, Swensson and Wretman 1992, chapter 6), valid
whatever the judge is worth. What differs from PPI++:

- The set is finite and its mean is estimated, so that a part of a third of the items has a third less variance.
- Items count by the reciprocal of the probability with which they were drawn (Zrnic and Candès, Active statistical
  inference, 2024), and variances are between units, such as pictures.
- Intervals use Student's t, shares Wilson's interval, and residuals are those of a judge fitted without their unit.
- If the judge does not narrow the interval, it is not used: no interval is wider than that of people alone. Means of
  few units are corrected for that choice (`SPARE`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.intervals import ALL_EQUAL, MIN_UNITS, OF_F1, Interval, Units, blocks, f1_of, too_few, wilson

Floats = NDArray[np.float64]
FOLDS = 10  # of the units, for the weights of several predictors
# Units without a judge that are added to the squared residuals, which may all be 0 by chance: a judge that was right
# about all of 50 units is worth at most 100.
DISCORDANT = 0.5
# The narrower of two intervals of few units is the one that is too narrow by chance. Chosen by simulation, for means
# (docs/estimates.md): a judge costs SPARE - 1 degrees of freedom, and EXTRA / (units - SPARE) of the geometric mean of
# both variances; with fewer than FEW units, it must narrow the interval to MUCH of that of people alone.
SPARE, EXTRA, FEW, MUCH = 4, 0.75, 10, 0.6
T = "Student's t between {units} 95%, set of {items:,} items"
SCORE = "wilson 95%, design effect of {units}, set of {items:,} items"


@dataclass(frozen=True)
class RandomPart:
    """The random part of a set of items that people rated.

    Attributes:
        probability: float64[items], the probability with which each item was drawn into the part, in (0, 1].
        units: the units, such as pictures, that were drawn.
    """

    probability: Floats
    units: Units

    def of(self, items: NDArray[np.bool_]) -> "RandomPart":
        """Return the part of the items bool[items]."""
        return RandomPart(self.probability[items], self.units.of(items))


@dataclass(frozen=True)
class SetEstimate:
    """An estimate of a mean over all items, with and without judges.

    Attributes:
        value: with judges, or people's if they do not narrow the interval; `interval`: its 95 % interval.
        people: from people alone; `people_interval`: its 95 % interval.
        n: items that people rated; `units`: their units; `items`: size of the set.
        factor: lambda, by which the judges' answers are multiplied; 0: they are not used.
        error, people_error: standard errors.
        residuals: on which `expected` rests.
    """

    value: float
    interval: Interval
    people: float
    people_interval: Interval
    n: int
    units: int
    items: int
    factor: float
    error: float
    people_error: float
    residuals: "_Residuals" = field(compare=False, repr=False)

    def expected(self, n: float) -> tuple[float, float]:
        """Return half the lengths of the intervals with and without judges if people rated n items, drawn alike.

        They follow from the observed variances; with all items they are 0. NaN: there is no interval.
        """
        return self.residuals.half_widths(n / self.n)

    def expected_errors(self, n: float) -> tuple[float, float]:
        """Return the standard errors with and without judges if people rated n items, drawn alike."""
        with_judges, alone = self.residuals.variances(n / self.n)
        return math.sqrt(min(with_judges, alone)), math.sqrt(alone)

    @property
    def effective(self) -> float:
        """The number of items that people alone would have to rate for a standard error as small, for a large set."""
        return self.n * (self.people_error / self.error) ** 2 if self.error > 0 else float(self.n)


def estimate_mean(
    truth: Floats,
    predicted: Floats | None,
    part: RandomPart,
    *,
    is_share: bool = False,
    bounds: tuple[float, float] | None = None,
) -> SetEstimate:
    """Return the estimate of the mean over all items of what people answer.

    Use it where people rated a random part of the items, and a model all of them.

    Args:
        truth: float64[items], people's answer, NaN where they gave none; at least one is not NaN.
        predicted: float64[items], the judge's answers on any scale, see `combined`; None: without a judge.
        part: how people's items were drawn.
        is_share: whether answers are 0 or 1, so that the interval is Wilson's.
        bounds: of the mean.
    """
    rated = ~np.isnan(truth)
    sums = _UnitSums.of(truth[rated], part.of(rated))
    n, items = int(rated.sum()), len(truth)
    method = (SCORE if is_share else T).format(units=part.units.name, items=items)
    bounds = (0.0, 1.0) if is_share else bounds

    def interval(value: float, variance: float, freedom: float) -> Interval:
        if none := too_few(sums.units, part.units.name):
            return none
        if is_share:
            return sums.wilson(value, variance, freedom, method)
        return sums.student(value, variance, freedom, method, bounds)

    alone = sums.variance(sums.deviation)
    people = SetEstimate(
        sums.mean, interval(sums.mean, alone, sums.freedom), sums.mean, interval(sums.mean, alone, sums.freedom),
        n, sums.units, items, 0.0, math.sqrt(alone), math.sqrt(alone), _Residuals(sums, sums.mean, is_share),
    )  # fmt: skip
    if predicted is None or sums.units <= SPARE + 1 or np.ptp(predicted) == 0:
        return people
    factor, variance = sums.tuned(predicted[rated], of_unit=1.0 if is_share else None)
    if not factor or not 0 < variance < alone:
        return people
    gap = float(predicted.mean()) - float(sums.weight @ predicted[rated])
    value = sums.mean + factor * gap
    low, high = bounds or (-math.inf, math.inf)
    value = min(high, max(low, value))
    with_judge = interval(value, variance, sums.freedom_of_judge(is_share=is_share))
    if not sums.is_narrower(_width(with_judge), _width(people.interval)):
        return people
    residuals = _Residuals(sums, value, is_share, sums.of_judge(predicted[rated]), factor)
    return replace(
        people, value=value, interval=with_judge, factor=factor, error=math.sqrt(variance), residuals=residuals
    )


def estimate_f1(
    claims: Floats, holds: Floats, predict: Callable[[Floats], Floats | None], part: RandomPart
) -> SetEstimate | None:
    """Return the estimate of a judge's F1 over all items; None if nothing is positive in the part.

    F1 is estimated as the mean of its linearization (Särndal, Swensson and Wretman 1992, section 5.6). Its interval is
    Wilson's of the Jaccard index J, the share of right ones among the items that are positive for people or the judge:
    F1 = 2 J / (1 + J).

    Args:
        claims: float64[items], 1 where the judge's answer is positive, otherwise 0.
        holds: float64[items], 1 where people's is, otherwise 0; NaN where they gave none.
        predict: function from the linearized answers, float64[items] with NaN, to predictions of all, see `combined`.
    """
    hits, either = claims * holds, claims + holds
    positive = either > 0  # not where NaN
    if not positive.any():
        return None
    rated = ~np.isnan(holds)
    index, of_rated = _UnitSums.of(hits[positive], part.of(positive)), part.of(rated)
    f1 = f1_of(index.mean)
    weight = 1 / of_rated.probability
    linear = (2 * hits - f1 * either) * weight.sum() / float(weight @ either[rated])
    estimate = estimate_mean(linear, predict(linear), part)
    both = min(1.0, max(0.0, f1 + estimate.value))
    residuals = replace(estimate.residuals, value=both, index=index)
    few, freedom = too_few(estimate.units, part.units.name), residuals.sums.freedom
    method = OF_F1.format(SCORE.format(units=part.units.name, items=estimate.items))
    of_people = few or residuals.f1_interval(f1, estimate.people_error**2, freedom, method)
    of_both = few or residuals.f1_interval(both, estimate.error**2, freedom - 1, method)
    people = replace(
        estimate, value=f1, interval=of_people, people=f1, people_interval=of_people,
        factor=0.0, error=estimate.people_error, residuals=replace(residuals, value=f1, of_judge=None),
    )  # fmt: skip
    if not estimate.factor or _width(of_both) >= _width(of_people):
        return people
    return replace(
        people, value=both, interval=of_both, factor=estimate.factor, error=estimate.error, residuals=residuals
    )


def combined(truth: Floats, predictors: Floats, part: RandomPart) -> Floats | None:
    """Return float64[items], one prediction from several by weights of units that do not contain the item.

    The weights are those of a ridge regression of people's answers on the standardized predictors, without the fold of
    the item's unit (Zrnic and Candès, Cross-prediction-powered inference, 2024); items that people did not rate have
    the mean prediction of all folds.

    Args:
        truth: float64[items], NaN where people gave no answer.
        predictors: float64[items, predictors]; NaN, such as a refused answer, becomes the predictor's mean.

    Returns:
        None if no predictor varies.
    """
    x = standardized(predictors)
    if not x.shape[1]:
        return None
    if x.shape[1] == 1:
        return x[:, 0]
    rated = ~np.isnan(truth)
    weight = 1 / part.probability[rated]
    weight *= rated.sum() / weight.sum()
    y, of_rated = truth[rated], x[rated]
    fold = blocks(np.column_stack([y, of_rated]), part.units.of(rated), most=FOLDS)
    with_one = np.column_stack([np.ones(len(y)), of_rated])
    products = weight[:, None, None] * with_one[:, :, None] * with_one[:, None, :]
    folds = int(fold.max()) + 1
    squares, targets = np.zeros((folds, *products.shape[1:])), np.zeros((folds, with_one.shape[1]))
    np.add.at(squares, fold, products)
    np.add.at(targets, fold, (weight * y)[:, None] * with_one)
    penalty = np.diag([1e-9, *np.full(x.shape[1], 2.0 * x.shape[1])])
    coefficients = np.linalg.solve(squares.sum(0) - squares + penalty, (targets.sum(0) - targets)[..., None])[..., 0]
    predicted: Floats = np.column_stack([np.ones(len(x)), x]) @ coefficients.mean(0)
    predicted[rated] = (with_one * coefficients[fold]).sum(1)
    return predicted


def standardized(predictors: Floats) -> Floats:
    """Return the predictors that vary, float64[items, k], with mean 0 and standard deviation 1, and 0 for NaN."""
    kept = []
    for column in predictors.T:
        present = column[~np.isnan(column)]
        if len(present) and np.ptp(present) > 1e-9 * max(1.0, float(np.abs(present).max())):
            kept.append(np.nan_to_num((column - present.mean()) / present.std()))
    return np.stack(kept, axis=1) if kept else np.zeros((len(predictors), 0))


@dataclass(frozen=True)
class _UnitSums:
    """People's answers summed by unit.

    Attributes:
        mean: weighted mean of the answers.
        weight: float64[n], weights of the answers, which sum to 1; `place`: int64[n], their unit.
        deviation: float64[units], weighted sums of the answers' deviations from the mean.
        unseen: float64[units], 1 - the probability with which a unit was drawn, by which its variance is multiplied.
        freedom: degrees of freedom, which are fewer than units - 1 if the weights of units differ (Satterthwaite 1946).
        cells: float64[units], weights of units.
    """

    mean: float
    weight: Floats
    place: NDArray[np.int64]
    deviation: Floats
    unseen: Floats
    freedom: float
    cells: Floats

    @classmethod
    def of(cls, y: Floats, part: RandomPart) -> "_UnitSums":
        weight = 1 / part.probability
        weight = weight / weight.sum()
        mean = float(weight @ y)
        place, count = part.units.place, part.units.count
        cells = np.bincount(place, weight, count).astype(np.float64)
        deviation = np.bincount(place, weight * (y - mean), count).astype(np.float64)
        unseen = np.bincount(place, weight * (1 - part.probability), count) / cells
        spread = unseen * cells**2
        freedom = float(spread.sum() ** 2 / (spread @ spread)) - 1 if spread.any() else float(count - 1)
        return cls(mean, weight, place, deviation, unseen, freedom, cells)

    @property
    def units(self) -> int:
        return len(self.unseen)

    def unseen_of(self, times: float) -> Floats:
        """Return `unseen` if `times` as many items were drawn, by their same probabilities, for sums of these units."""
        if times == 1:
            return self.unseen
        drawn = 1 - self.unseen
        then = np.minimum(1.0, times * drawn)
        return np.asarray(drawn * (1 - then) / then)

    def variance(self, sums: Floats, times: float = 1) -> float:
        """Return the variance of a mean from its sums of deviations by unit, for `times` as many items."""
        return float(self.unseen_of(times) @ sums**2) * self.units / max(self.units - 1, 1)

    def of_judge(self, predicted: Floats) -> Floats:
        """Return float64[units], weighted sums of the deviations of float64[n] predictions of the rated items."""
        deviation = self.weight * (predicted - self.weight @ predicted)
        return np.bincount(self.place, deviation, self.units).astype(np.float64)

    def tuned(self, predicted: Floats, *, of_unit: float | None) -> tuple[float, float]:
        """Return lambda for the narrowest interval, and the variance with residuals that leave out their unit.

        Args:
            predicted: float64[n], of the rated items.
            of_unit: squared residual of a unit of which the judge is wrong; None: the variance of the answers.
        """
        of_judge = self.of_judge(predicted)
        total = float(self.unseen @ of_judge**2)
        if not total > 0:
            return 0.0, math.inf
        factor = max(0.0, float(self.unseen * of_judge @ self.deviation) / total)
        return factor, self.with_judge(of_judge, factor, of_unit=of_unit)

    def with_judge(self, of_judge: Floats, factor: float, *, of_unit: float | None, times: float = 1) -> float:
        """Return the variance with a judge's sums times `factor`, for `times` as many items; see `tuned`."""
        squares = self.unseen * of_judge**2
        leverage = np.minimum(squares / squares.sum() / times, 1 - 1e-9)
        residual = (self.deviation - factor * of_judge) / (1 - leverage)
        unseen = float(self.unseen_of(times) @ self.cells**2)
        units, left = self.units * times, self.variance(residual, times)
        if of_unit is not None:
            return left + DISCORDANT * of_unit * unseen / units
        alone = self.variance(self.deviation, times)
        return left + max(DISCORDANT / 2 * alone / units, EXTRA * math.sqrt(left * alone) / (units - SPARE))

    def freedom_of_judge(self, *, is_share: bool, times: float = 1) -> float:
        """Return the degrees of freedom of an interval with a judge, for `times` as many items."""
        freedom = times * (self.freedom + 1) - 1
        return freedom - 1 if is_share else freedom - SPARE + 1

    def is_narrower(self, width: float, of_people: float, times: float = 1) -> bool:
        """Return whether an interval with a judge is narrower enough than that of people alone."""
        return width < (MUCH if self.units * times < FEW else 1) * of_people

    def wilson(self, value: float, variance: float, freedom: float, method: str, times: float = 1) -> Interval:
        """Return Wilson's interval of a share, for as many answers as carry the information of the units."""
        alone = self.variance(self.deviation, times)
        spread = self.mean * (1 - self.mean)
        if not self.unseen_of(times).any():
            return Interval(reason=ALL_EQUAL, units=self.units)
        # If all answers are equal, the design effect is unknown: all answers of a unit are taken as equal, and others
        # may be where the weights are largest.
        largest = float((self.unseen_of(times) * self.cells).max())
        independent = spread / alone if alone > 0 and spread > 0 else 1 / largest
        independent *= alone / variance if variance > 0 and alone > 0 else 1.0
        independent = max(1.0, independent)
        low, high = wilson(min(max(value, 0.0), 1.0) * independent, independent, z=_quantile(max(1.0, freedom)))
        return Interval(low, high, method, units=self.units)

    def student(
        self, value: float, variance: float, freedom: float, method: str, bounds: tuple[float, float] | None
    ) -> Interval:
        """Return the value ± Student's t standard errors, clipped to `bounds`; none if the variance is 0."""
        error = math.sqrt(variance)
        if not error > 1e-12 * max(1.0, abs(value)):
            return Interval(reason=ALL_EQUAL, units=self.units)
        low, high = bounds or (-math.inf, math.inf)
        half = _quantile(max(1.0, freedom)) * error
        return Interval(max(low, value - half), min(high, value + half), method, units=self.units)


@dataclass(frozen=True)
class _Residuals:
    """What the intervals of other numbers of rated items follow from.

    Attributes:
        sums: people's answers; `value`: the estimate; `is_share`: whether its interval is Wilson's.
        of_judge: float64[units], see `_UnitSums.of_judge`, multiplied by `factor`; None: without judges.
        index: of F1, whether the positive items are right.
    """

    sums: _UnitSums
    value: float
    is_share: bool
    of_judge: Floats | None = None
    factor: float = 0.0
    index: _UnitSums | None = None

    def f1_interval(
        self, value: float, variance: float, freedom: float, method: str = "", times: float = 1
    ) -> Interval:
        """Return the interval of F1 from the variance of its linearization, for `times` as many items."""
        assert self.index is not None
        alone = self.sums.variance(self.sums.deviation, times)
        of_index = self.index.variance(self.index.deviation, times)
        if alone > 0:
            of_index *= variance / alone
        interval = self.index.wilson(value / (2 - value), of_index, freedom, method, times)
        if interval.low is None or interval.high is None:
            return interval
        return replace(interval, low=f1_of(interval.low), high=f1_of(interval.high), units=self.sums.units)

    def variances(self, times: float) -> tuple[float, float]:
        """Return the variances with and without judges, for `times` as many items."""
        alone = self.sums.variance(self.sums.deviation, times)
        if self.of_judge is None:
            return alone, alone
        of_unit = 1.0 if self.is_share else None
        return self.sums.with_judge(self.of_judge, self.factor, of_unit=of_unit, times=times), alone

    def half_widths(self, times: float) -> tuple[float, float]:
        """Return half the lengths of the intervals with and without judges, for `times` as many items."""
        freedom = times * (self.sums.freedom + 1) - 1
        with_judges, alone = self.variances(times)
        mean = self.sums.mean if self.index is None else f1_of(self.index.mean)
        without = self._half_width(mean, alone, freedom, times)
        if self.of_judge is None:
            return without, without
        freedom = self.sums.freedom_of_judge(is_share=self.is_share or self.index is not None, times=times)
        half = self._half_width(self.value, with_judges, freedom, times)
        return half if self.sums.is_narrower(half, without, times) else without, without

    def _half_width(self, value: float, variance: float, freedom: float, times: float) -> float:
        if times * (self.sums.units) < MIN_UNITS:
            return math.nan
        if self.index is not None:
            return (
                _width(self.f1_interval(value, variance, freedom, times=times)) / 2
                if self.sums.unseen_of(times).any()
                else 0.0
            )
        if not variance > 0 and (not self.is_share or not self.sums.unseen_of(times).any()):
            return 0.0 if times > 1 else math.nan
        if not self.is_share:
            return _quantile(max(1.0, freedom)) * math.sqrt(variance)
        return _width(self.sums.wilson(value, variance, freedom, "", times)) / 2


@lru_cache(maxsize=1000)
def _quantile(freedom: float) -> float:
    from scipy.special import stdtrit  # scipy.stats takes seconds to import

    return float(stdtrit(freedom, 0.975))


def _width(interval: Interval) -> float:
    return math.inf if interval.low is None or interval.high is None else interval.high - interval.low
