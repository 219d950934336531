"""Dependence of responses' scores on their length: correlations and the slope of a line (Century, figure 12)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import ALL_EQUAL, MIN_UNITS, Interval, fisher, too_few
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


@dataclass(frozen=True)
class LengthFit:
    """The least-squares line of scores on lengths.

    Attributes:
        slope, intercept: score = intercept + slope * characters.
        low, high: 95 % interval of the slope; None with fewer than 5 responses or if all are on the line.
        x, band_low, band_high: 95 % interval of the line at ascending lengths; empty without an interval.
    """

    slope: float
    intercept: float
    low: float | None
    high: float | None
    x: Floats
    band_low: Floats
    band_high: Floats


def length_fit(lengths: Floats, scores: Floats) -> LengthFit | None:
    """Return the line of float64[n] scores on float64[n] lengths without NaN; None if all lengths are equal or n < 3.

    The intervals assume independent responses with errors of equal variance.
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
    if n < MIN_UNITS or deviation < EPSILON:
        return LengthFit(slope, intercept, None, None, empty, empty, empty)
    from scipy.stats import t

    width = float(t.ppf(0.975, n - 2)) * deviation
    x = np.linspace(lengths.min(), lengths.max(), POINTS)
    middle, half = intercept + slope * x, width * np.sqrt(1 / n + (x - center) ** 2 / spread)
    of_slope = width / float(np.sqrt(spread))
    return LengthFit(slope, intercept, slope - of_slope, slope + of_slope, x, middle - half, middle + half)


def length_bias(answers: RatingTable, group: RaterGroup, lengths: Floats) -> Iterator[Metric]:
    """Yield the Pearson and Spearman correlation of the group's mean score with the responses' lengths, and the slope.

    Use it to see whether judges reward long responses.

    Args:
        lengths: float64[items], characters, NaN where unknown.

    Undefined: fewer than three responses, or all have the same length or, for correlations, the same score.
    """
    from scipy.stats import pearsonr, spearmanr

    x, y = scored_lengths(answers, group, lengths)
    n = len(x)
    coverage = n / answers.items if answers.items else None
    for kind, correlate in (("pearson", pearsonr), ("spearman", spearmanr)):
        definition, dims = _CORRELATION.format(kind=kind.capitalize()), {"group": group.name, "kind": kind}
        if n < 3 or not np.ptp(x) or not np.ptp(y):
            reason = _few(n) or "all responses have the same length or the same score"
            yield undefined("length_bias", definition, reason, n=n, coverage=coverage, dims=dims)
            continue
        r = float(correlate(x, y).statistic)
        interval = fisher(r, n, kind=kind, unit_name="responses")
        yield estimated("length_bias", definition, r, n, coverage=coverage, interval=interval, dims=dims)
    dims = {"group": group.name}
    if (fit := length_fit(x, y)) is None:
        reason = _few(n) or "all responses have the same length"
        yield undefined("length_slope", _SLOPE, reason, n=n, coverage=coverage, dims=dims)
        return
    if fit.low is None or fit.high is None:
        interval = too_few(n, "responses") or Interval(reason=ALL_EQUAL)
    else:
        interval = Interval(fit.low * PER, fit.high * PER, STUDENT)
    yield estimated("length_slope", _SLOPE, fit.slope * PER, n, coverage=coverage, interval=interval, dims=dims)


def scored_lengths(answers: RatingTable, group: RaterGroup, lengths: Floats) -> tuple[Floats, Floats]:
    """Return the lengths, and the group's mean scores, of the responses that have both."""
    scores = means_of(answers, group)
    both = ~np.isnan(scores) & ~np.isnan(lengths)
    return lengths[both], scores[both]


def _few(n: int) -> str:
    return f"{n} responses: at least 3 are needed" if n < 3 else ""
