"""Dependence of responses' scores on their length: correlations and the slope of a line (Century, figure 12)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.correlation import correlate, correlation_interval
from jobs.metrics.intervals import ALL_EQUAL, GROUPS, MIN_UNITS, Interval, Units, block_sums, student, too_few
from jobs.metrics.metric import Metric, estimated, undefined
from jobs.metrics.model_scores import RaterGroup, means_of

Floats = NDArray[np.float64]
PER = 100  # slopes are per this many characters
POINTS = 25  # points at which the band around a line is computed
EPSILON = 1e-9  # residuals from rounding
_CORRELATION = (
    "{kind} correlation between the length of a response in characters and the mean score of the rater or group "
    "(Century, figure 12); n counts responses."
)
_SLOPE = (
    f"Points of the scale by which the mean score of the rater or group changes per {PER} characters of the response: "
    "slope of the least-squares line (Century, figure 12); n counts responses."
)
STUDENT = "Student's t of the least-squares slope 95%, n - 2 degrees of freedom"
SLOPE_JACKKNIFE = "Student's t of the least-squares slope 95%, jackknife over {units}"


@dataclass(frozen=True)
class LengthFit:
    """The least-squares line of scores on lengths.

    Attributes:
        slope, intercept: score = intercept + slope * characters.
        low, high: 95 % interval of the slope; None with fewer than 5 units or if all responses are on the line.
        x, band_low, band_high: 95 % interval of the line at ascending lengths; empty without an interval.
    """

    slope: float
    intercept: float
    low: float | None
    high: float | None
    x: Floats
    band_low: Floats
    band_high: Floats


def length_fit(lengths: Floats, scores: Floats, units: Units | None = None) -> LengthFit | None:
    """Return the line of float64[n] scores on float64[n] lengths without NaN; None if all lengths are equal or n < 3.

    If each response is a unit, the intervals assume errors of equal variance; otherwise their standard errors are those
    of a jackknife over units.
    """
    n = len(lengths)
    if n < 3 or not np.ptp(lengths):
        return None
    center = lengths.mean()
    spread = float(((lengths - center) ** 2).sum())
    slope = float(((lengths - center) * (scores - scores.mean())).sum()) / spread
    intercept = float(scores.mean() - slope * center)
    residuals = scores - intercept - slope * lengths
    deviation = float(np.sqrt((residuals**2).sum() / (n - 2)))
    empty = np.zeros(0)
    units = units or Units.single(n)
    x = np.linspace(lengths.min(), lengths.max(), POINTS)
    if units.count < MIN_UNITS or deviation < EPSILON:
        return LengthFit(slope, intercept, None, None, empty, empty, empty)
    if units.are_rows:
        from scipy.stats import t

        width = float(t.ppf(0.975, n - 2)) * deviation
        half, of_slope = width * np.sqrt(1 / n + (x - center) ** 2 / spread), width / float(np.sqrt(spread))
    else:
        without = _lines_without_units(lengths - center, scores, units)
        if not np.isfinite(without).all():
            return LengthFit(slope, intercept, None, None, empty, empty, empty)
        groups, centred = len(without), without - without.mean(0)
        covariance = student(groups) ** 2 * (groups - 1) / groups * centred.T @ centred
        at = np.stack([np.ones(POINTS), x - center], axis=1)
        half, of_slope = np.sqrt(((at @ covariance) * at).sum(1)), float(np.sqrt(covariance[1, 1]))
    middle = intercept + slope * x
    return LengthFit(slope, intercept, slope - of_slope, slope + of_slope, x, middle - half, middle + half)


def _lines_without_units(x: Floats, y: Floats, units: Units) -> Floats:
    """Return float64[groups, 2], intercept and slope of the lines without each group of units; NaN without variance."""
    sums = block_sums(np.stack([np.ones(len(x)), x, y, x * x, x * y], axis=1), units, most=GROUPS)
    n, x_, y_, xx, xy = (sums.sum(0) - sums).T
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (n * xy - x_ * y_) / (n * xx - x_ * x_)
        return np.stack([(y_ - slope * x_) / n, slope], axis=1)


def length_bias(answers: RatingTable, group: RaterGroup, lengths: Floats) -> Iterator[Metric]:
    """Yield the Pearson and Spearman correlation of the group's mean score with the responses' lengths, and the slope.

    Use it to see whether judges reward long responses.

    Args:
        lengths: float64[items], characters, NaN where unknown.

    Undefined: fewer than three responses, or all have the same length or, for correlations, the same score.
    """
    x, y, units = scored_lengths(answers, group, lengths)
    n = len(x)
    coverage = n / answers.items if answers.items else None
    for kind in ("pearson", "spearman"):
        definition, dims = _CORRELATION.format(kind=kind.capitalize()), {"group": group.name, "kind": kind}
        r = correlate(x, y, kind)
        if r is None:
            reason = _few(n) or "all responses have the same length or the same score"
            yield undefined("length_bias", definition, reason, n=n, coverage=coverage, dims=dims)
            continue
        interval = correlation_interval(x, y, kind, units)
        yield estimated("length_bias", definition, r, n, coverage=coverage, interval=interval, dims=dims)
    dims = {"group": group.name}
    if (fit := length_fit(x, y, units)) is None:
        reason = _few(n) or "all responses have the same length"
        yield undefined("length_slope", _SLOPE, reason, n=n, coverage=coverage, dims=dims)
        return
    if fit.low is None or fit.high is None:
        interval = too_few(units.count, units.name) or Interval(reason=ALL_EQUAL, units=units.count)
    else:
        method = STUDENT if units.are_rows else SLOPE_JACKKNIFE.format(units=units.name)
        interval = Interval(fit.low * PER, fit.high * PER, method, units=units.count)
    yield estimated("length_slope", _SLOPE, fit.slope * PER, n, coverage=coverage, interval=interval, dims=dims)


def scored_lengths(answers: RatingTable, group: RaterGroup, lengths: Floats) -> tuple[Floats, Floats, Units]:
    """Return the lengths, the group's mean scores, and the units of the responses that have both."""
    scores = means_of(answers, group)
    both = ~np.isnan(scores) & ~np.isnan(lengths)
    return lengths[both], scores[both], answers.units.of(both)


def _few(n: int) -> str:
    return f"{n} responses: at least 3 are needed" if n < 3 else ""
