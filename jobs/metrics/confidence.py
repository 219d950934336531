"""Whether a judge is as often right as it is sure: calibration of the probabilities that it gives its answers.

An answer is right as often as people give it: of three people, of whom two give the judge's answer, it is two thirds.
Answers are put into bins of equal count by their probability. The calibration error is the mean distance, over bins, of
the share of right answers from the mean probability (Naeini, Cooper and Hauskrecht, AAAI 2015). Two faults of that
number are mended:

- It is too large, and never 0, because each bin's share is noisy. The estimate subtracts what that noise adds on
  average (after Kumar, Liang and Ma, Verified uncertainty calibration, NeurIPS 2019).
- The bootstrap of it is too large twice. The interval has all errors under which one as large as the observed is not
  rare, with noise drawn from the covariance between units. How an error is distributed over bins decides how much noise
  adds: bins that are certainly off keep their gap; the others share the rest so that the interval is widest.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import POWERS
from jobs.metrics.estimates import MAX_ANSWERS, setting_of, sure_and_right
from jobs.metrics.intervals import (
    SEED,
    Z95,
    Interval,
    Units,
    bootstrap,
    estimate,
    no_interval,
    ratio,
    student,
    too_few,
)
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, exact, undefined
from jobs.metrics.prediction_powered import estimate_mean
from jobs.metrics.rated_question import PEOPLE, RatedQuestion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
MOST_BINS, OF_BIN = 10, 20  # bins, and the fewest rated answers of each
FEWEST = 2 * OF_BIN
DRAWS = 1000  # of the noise of the bins
CERTAIN = 3.0  # standard errors from which a bin is certainly off
NEVER_SURE = 1e-6  # probabilities are at most 1 minus this, about as near to 1 as float32 comes
SLOPES = (0.05, 20.0)  # of the log odds: reciprocals of the temperature
METHOD = "parametric bootstrap of the bins, covariance between {units}, 95%"
SANDWICH = "Student's t between {units} 95%, of the reciprocal"
_WHERE = (
    "over all items that the judge answered if people rated a random part of them, otherwise over those that people "
    "rated; n counts items that both answered."
)
_OVER = MetricKind("overconfidence", Quantity.DIFFERENCE, (Topic.FITNESS,), label="judge surer than right").defined_as(
    "Mean probability that the judge gives its answers minus the share of people who give the same answers; above 0 "
    f"the judge is too sure; {_WHERE}"
)
_ERROR = MetricKind("calibration_error", Quantity.FRACTION, (Topic.FITNESS,)).defined_as(
    "Expected calibration error (Naeini, Cooper and Hauskrecht 2015) of the probability that the judge gives its "
    f"answer, in up to {MOST_BINS} bins of equal count with at least {OF_BIN} answers, without what the noise of the "
    f"bins adds (Kumar, Liang and Ma 2019); right is the share of people who give the answer; {_WHERE}"
)
_SCALED = MetricKind(
    "scaled_calibration_error", Quantity.FRACTION, (Topic.FITNESS,), label="calibration error after temperature"
).defined_as(
    "calibration_error after temperature scaling (Guo, Pleiss, Sun and Weinberger, ICML 2017); the temperature of each "
    f"half of the units, divided by the hash of their names, is that of the other half; {_WHERE}"
)
_TEMPERATURE = MetricKind("temperature", Quantity.NUMBER, (Topic.FITNESS,)).defined_as(
    "By which the logarithms of the judge's probabilities of all answers must be divided for the probability of its "
    "answer to fit people's answers best (maximum likelihood); above 1 the judge is too sure; n counts items that both "
    "answered."
)
_BIN_SURE = MetricKind(
    "bin_confidence", Quantity.SHARE, (Topic.CALIBRATION,), label="mean probability of the answer", interval=False
).defined_as("Mean probability that the judge gives its answers, of the answers in a bin; n counts rated answers.")
_BIN_RIGHT = MetricKind(
    "bin_accuracy", Quantity.SHARE, (Topic.CALIBRATION,), label="share of people who give it"
).defined_as("Share of people who give the judge's answer, averaged over the answers in a bin; n counts rated answers.")


@dataclass(frozen=True)
class Confidences:
    """How sure a judge is of its answers, and how right they are.

    Attributes:
        probability: float64[items], in (0, 1], of the judge's answer.
        right: float64[items], in [0, 1], the share of people who give the same answer; NaN where nobody rated.
        weight: float64[items], of the rated items, such as the reciprocal of the probability of being drawn.
        first_half: bool[items], whether the temperature of the item is fitted on the others; whole units.
        units: of the items.
        answers: number of allowed answers, at least 2.
        others: float64[items, 4], of the other answers, see `RatingTable`.
    """

    probability: Floats
    right: Floats
    weight: Floats
    first_half: Bools
    units: Units
    answers: int
    others: Floats

    @property
    def rated(self) -> Bools:
        """bool[items], whether people rated the item."""
        return ~np.isnan(self.right)

    def of(self, items: Bools) -> "Confidences":
        """Return the confidences of some items, bool[items]."""
        arrays = {
            name: getattr(self, name)[items] for name in ("probability", "right", "weight", "first_half", "others")
        }
        return replace(self, units=self.units.of(items), **arrays)

    def log_odds(self, power: float) -> tuple[Floats, Floats]:
        """Return the log odds of the answer against all others if all probabilities are taken to `power`, the
        reciprocal of a temperature, and their derivative, float64[items] each; between `POWERS` they are interpolated.
        """
        even = math.log(self.answers - 1)  # at a power of 0, all answers are equally probable
        at = (0.0, *POWERS)
        right = min(int(np.searchsorted(POWERS, power)) + 1, len(POWERS))
        least = even + np.array(at) * (math.log(NEVER_SURE) - even)
        ends = [
            np.maximum(self.others[:, max(place - 1, 0)], least[place] if place else even)
            for place in (right - 1, right)
        ]
        slope = (ends[1] - ends[0]) / (at[right] - at[right - 1])
        return -(ends[0] + slope * (power - at[right - 1])), -slope


@dataclass(frozen=True)
class ReliabilityBins:
    """The reliability curve of a judge, in bins of ascending probability.

    Attributes:
        share: float64[bins], of all items; confidence: float64[bins], their mean probability.
        gap: float64[bins], mean of right minus probability of the rated items; n: int64[bins], number of those.
        covariance: float64[bins, bins] of the gaps, between units.
        units_of: int64[bins], number of units; units: of all bins.
    """

    share: Floats
    confidence: Floats
    gap: Floats
    n: Ints
    covariance: Floats
    units_of: Ints
    units: int

    @classmethod
    def of(cls, confidences: Confidences) -> "ReliabilityBins":
        """Return the bins, of equal numbers of rated items; equal probabilities are in the same bin."""
        rated = confidences.rated
        p = confidences.probability
        count = min(MOST_BINS, max(1, int(rated.sum()) // OF_BIN))
        edges = np.unique(np.quantile(p[rated], np.arange(1, count) / count, method="inverted_cdf"))
        edges = edges[edges < p[rated].max()]
        bins = len(edges) + 1
        of_all, place = np.searchsorted(edges, p), np.searchsorted(edges, p[rated])
        gap, weight = confidences.right[rated] - p[rated], confidences.weight[rated]
        total = np.bincount(place, weight, bins)
        mean = np.bincount(place, weight * gap, bins) / total
        influence = np.zeros((len(gap), bins))
        influence[np.arange(len(gap)), place] = weight * (gap - mean[place]) / total[place]
        units = confidences.units.of(rated)
        sums = units.sums(influence)
        of_bin = (units.sums(np.eye(bins)[place]) > 0).sum(0)
        correction = np.sqrt(of_bin / np.maximum(of_bin - 1, 1))
        covariance = sums.T @ sums * np.outer(correction, correction)
        # All answers of a bin may be right by chance: one of its units might be wrong by a half.
        least = (0.5 / of_bin) ** 2
        covariance[np.diag_indices(bins)] = np.maximum(np.diag(covariance), least)
        sizes = np.bincount(of_all, minlength=bins)
        confidence = np.bincount(of_all, p, bins) / sizes
        n = np.bincount(place, minlength=bins)
        return cls(sizes / len(p), confidence, mean, n, covariance, of_bin, units.count)

    @property
    def errors(self) -> Floats:
        """float64[bins], standard errors of the gaps."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def observed_error(self) -> float:
        """The calibration error with the noise of the bins, as other tools compute it."""
        return float(self.share @ np.abs(self.gap))

    @property
    def error(self) -> float:
        """The calibration error without what noise adds, at least 0."""
        from scipy.special import ndtr  # scipy.stats takes seconds to import

        size, errors = np.abs(self.gap), self.errors
        ratio = size / errors
        noisy = errors * math.sqrt(2 / math.pi) * np.exp(-(ratio**2) / 2) + size * (1 - 2 * ndtr(-ratio))
        return max(0.0, float(self.share @ (2 * size - noisy)))

    def interval(self, unit_name: str) -> Interval:
        """Return the 95 % interval of the calibration error."""
        if none := too_few(self.units, unit_name):
            return none
        values, vectors = np.linalg.eigh(self.covariance)
        root = vectors * np.sqrt(np.maximum(values, 0))
        normal = np.random.default_rng(SEED).standard_normal((DRAWS, len(self.gap)))
        noise = normal @ root.T * (student(self.units) / Z95)
        sign = np.where(self.gap < 0, -1.0, 1.0)
        is_off = np.abs(self.gap) > CERTAIN * self.errors
        apart = np.where(is_off, self.gap, 0.0)
        if not is_off.any():
            largest = int(np.argmax(self.share * np.abs(self.gap)))
            apart[largest] = sign[largest]
        even = np.where(is_off, self.gap, sign * self.errors)
        low, high = self._compatible(apart, noise, 0.975), self._compatible(even, noise, 0.025)
        return Interval(low, max(low, high), METHOD.format(units=unit_name), units=self.units)

    def _compatible(self, shape: Floats, noise: Floats, chance: float) -> float:
        """Return the largest error, with gaps in the proportions of `shape`, that is observed to be at most as large as
        it was with a probability of at least `chance`; 0 if there is none."""

        def enough(factor: float) -> bool:
            drawn = np.abs(factor * shape + noise) @ self.share
            return bool((drawn <= self.observed_error).mean() >= chance)

        if not enough(0.0):
            return 0.0
        low, high = 0.0, 1.0
        while enough(high):
            low, high = high, 2 * high
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if enough(middle) else (low, middle)
        return low * float(self.share @ np.abs(shape))


def judge_calibration(question: RatedQuestion, judge: str) -> Iterator[Metric]:
    """Yield the calibration of a judge against people; nothing if it gave no probabilities of a closed question."""
    answers = question.answers.of_raters((judge,))
    halves, people = question.context.first_half, question.groups.get(PEOPLE, ())
    if not people or halves is None or answers.others is None or np.isnan(answers.others).all():
        return
    if not 2 <= len(answers.values) <= MAX_ANSWERS:
        return
    probability, right = sure_and_right(answers, question.answers.of_raters(people))
    others = np.full((answers.items, len(POWERS)), np.nan)
    others[answers.item] = answers.others
    judged, weight = ~np.isnan(probability), np.ones(answers.items)
    setting = setting_of(question)
    if isinstance(setting, str):
        judged &= ~np.isnan(right)
    else:
        weight[setting.kept] = 1 / setting.part.probability
        right[setting.kept] = np.where(setting.rated, right[setting.kept], np.nan)
        judged &= setting.kept
    confidences = Confidences(probability, right, weight, halves, answers.units, len(answers.values), others).of(judged)

    def overconfidence(gap: Floats) -> tuple[float, Interval]:
        if isinstance(setting, str):
            return float(gap.mean()), bootstrap(np.stack([gap, np.ones(len(gap))], axis=1), ratio, confidences.units)
        part = setting.part.of(judged[setting.kept])
        of_all = estimate_mean(gap, confidences.probability, part, bounds=(-1.0, 1.0))
        return of_all.value, of_all.interval

    yield from calibration(confidences, overconfidence=overconfidence)


def calibration(
    confidences: Confidences, *, overconfidence: Callable[[Floats], tuple[float, Interval]]
) -> Iterator[Metric]:
    """Yield overconfidence, calibration error before and after temperature scaling, temperature and reliability curve.

    Use them before the probabilities of a judge are taken at their word: to hand over what it is unsure of, or to weigh
    its answers. A judge that is always equally sure may have no error and know nothing.

    Args:
        overconfidence: function from float64[items], probability minus right, NaN where nobody rated, to their mean
            over all items with its interval.

    Undefined: fewer than 40 items that both answered; after scaling, fewer than 20 in a half.
    """
    rated = confidences.rated
    n, unit_name = int(rated.sum()), confidences.units.name
    if not n:
        yield undefined(_ERROR, "no item has an answer of people and a probability of the judge's", coverage=0.0)
        return
    coverage = n / len(rated)
    value, interval = overconfidence(confidences.probability - confidences.right)
    yield estimated(_OVER, value, n, coverage=coverage, interval=interval)
    if n < FEWEST:
        yield undefined(_ERROR, f"fewer than {FEWEST} items that both answered ({n})", n=n, coverage=coverage)
        return
    bins = ReliabilityBins.of(confidences)
    yield _of_bins(_ERROR, bins, n, coverage, unit_name)
    least = min(int((rated & half).sum()) for half in (confidences.first_half, ~confidences.first_half))
    if least < OF_BIN:
        reason = f"fewer than {OF_BIN} items that both answered in one half of the {unit_name} ({least})"
        yield undefined(_SCALED, reason, n=n, coverage=coverage)
    else:
        yield _of_bins(_SCALED, ReliabilityBins.of(cross_scaled(confidences)), n, coverage, unit_name)
    yield _temperature(confidences.of(rated), coverage)
    for place in range(len(bins.gap)):
        yield from _of_bin(bins, place, coverage, unit_name)


def cross_scaled(confidences: Confidences) -> Confidences:
    """Return the confidences with the probabilities of each half scaled by the temperature of the other."""
    scaled = np.empty(len(confidences.probability))
    for half in (confidences.first_half, ~confidences.first_half):
        slope, _ = slope_of(confidences.of(~half & confidences.rated))
        scaled[half] = _probability(confidences.of(half).log_odds(slope)[0])
    return replace(confidences, probability=scaled)


def slope_of(rated: Confidences) -> tuple[float, float]:
    """Return the reciprocal of the temperature, and its standard error between units; all items are rated."""
    weight = rated.weight / rated.weight.mean()
    low, high = SLOPES
    for _ in range(50):  # the slope of the likelihood falls with the power
        middle = math.sqrt(low * high)
        odds, z = rated.log_odds(middle)
        gradient = float((weight * z) @ (rated.right - _probability(odds)))
        low, high = (middle, high) if gradient >= 0 else (low, middle)
    slope = math.sqrt(low * high)
    odds, z = rated.log_odds(slope)
    p = _probability(odds)
    scores = rated.units.sums((weight * z * (rated.right - p))[:, None])[:, 0]
    information = float((weight * z * z) @ (p * (1 - p)))
    error = math.sqrt(float(scores @ scores)) / information if information > 0 else math.inf
    return slope, error


def _probability(odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -700, 700))))


def _temperature(rated: Confidences, coverage: float) -> Metric:
    n, count = len(rated.right), rated.units.count
    if np.abs(rated.log_odds(1.0)[1]).max() < 1e-5:  # float32
        return undefined(_TEMPERATURE, "all answers are equally probable to the judge", n=n, coverage=coverage)
    slope, error = slope_of(rated)
    lowest, highest = SLOPES
    if not lowest * 1.01 < slope < highest / 1.01:
        much = "more" if slope > 1 else "less"
        reason = f"the judge is right {much} often than any temperature from {1 / highest:g} to {1 / lowest:g} allows"
        return undefined(_TEMPERATURE, reason, n=n, coverage=coverage)
    method = SANDWICH.format(units=rated.units.name)
    of_slope = estimate(slope, error, units=count, unit_name=rated.units.name, method=method)
    if of_slope.low is None or of_slope.high is None:
        interval = of_slope
    elif of_slope.low <= lowest:
        interval = no_interval("probabilities and people's answers may be unrelated", units=count)
    else:
        interval = Interval(1 / of_slope.high, 1 / of_slope.low, method, units=count)
    return estimated(_TEMPERATURE, 1 / slope, n, coverage=coverage, interval=interval)


def _of_bins(kind: MetricKind, bins: ReliabilityBins, n: int, coverage: float, unit_name: str) -> Metric:
    interval = bins.interval(unit_name)
    value = bins.error
    if interval.low is not None and interval.high is not None:
        value = min(max(value, interval.low), interval.high)
    metric = estimated(kind, value, n, coverage=coverage, interval=interval)
    remark = f"{bins.observed_error:.3f} with the noise of its {len(bins.gap)} bins"
    return replace(metric, reason="; ".join(filter(None, (metric.reason, remark))))


def _of_bin(bins: ReliabilityBins, place: int, coverage: float, unit_name: str) -> Iterator[Metric]:
    n, sure = int(bins.n[place]), float(bins.confidence[place])
    dims = {"bin": f"bin {place + 1} of {len(bins.gap)}"}
    yield exact(_BIN_SURE, sure, n, coverage=coverage, reason="no interval: of all items", dims=dims)
    right = min(1.0, max(0.0, sure + float(bins.gap[place])))
    interval = estimate(
        right,
        float(bins.errors[place]),
        units=int(bins.units_of[place]),
        unit_name=unit_name,
        method=f"Student's t between {unit_name} 95%",
        bounds=(0.0, 1.0),
    )
    yield estimated(_BIN_RIGHT, right, n, coverage=coverage, interval=interval, dims=dims)
