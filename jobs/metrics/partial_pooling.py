"""Partial pooling: estimates of subgroups that are drawn towards their common mean, with intervals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.intervals import Z95, Interval
from jobs.metrics.metric import Metric, MetricKind, Quantity, estimated, undefined
from jobs.metrics.prediction_powered import SetEstimate

Floats = NDArray[np.float64]
POOLED = "people and judges, pooled"
FEWEST = 3  # subgroups
SPREADS = 200  # of subgroups around their mean, over which intervals average
METHOD = "normal model of subgroups 95%, averaged over their spread (Gelman et al. 2013, 5.4)"


@dataclass(frozen=True)
class PooledEstimates:
    """Estimates of subgroups that are drawn towards their common mean.

    Attributes:
        values, low, high: float64[subgroups], estimates with their 95 % intervals.
        spread: standard deviation of the subgroups' true values around their mean.
    """

    values: Floats
    low: Floats
    high: Floats
    spread: float


def pooled(values: Floats, errors: Floats) -> PooledEstimates:
    """Return the estimates of at least three subgroups, partially pooled.

    The true values are taken as normal around their mean; each estimate is the nearer to it the larger its error is
    against their spread. The intervals average over the spreads that the estimates allow, of which each is as probable
    as another beforehand (Gelman et al., Bayesian Data Analysis, 3rd edition, 2013, section 5.4). They hold on average
    over subgroups, not for each: of one that is unlike the others they are too far from it.

    Use it for many subgroups of few ratings that are thought to be alike.

    Args:
        values: float64[subgroups], independent of each other; errors: float64[subgroups], above 0, standard errors.
    """
    from scipy.special import ndtr  # scipy.stats takes seconds to import

    place = (np.arange(SPREADS) + 0.5) / SPREADS  # spreads from 0 to infinity, the closer the more likely they matter
    spread = float(np.median(errors)) * place / (1 - place)
    precision = 1 / (errors**2 + spread[:, None] ** 2)
    of_mean = 1 / precision.sum(1)
    mean = of_mean * (precision @ values)
    likelihood = 0.5 * (np.log(precision).sum(1) + np.log(of_mean))
    likelihood -= 0.5 * (precision * (values - mean[:, None]) ** 2).sum(1) + 2 * np.log(1 - place)
    weight = np.exp(likelihood - likelihood.max())
    weight /= weight.sum()
    kept = spread[:, None] ** 2 * precision
    centre = kept * values + (1 - kept) * mean[:, None]
    deviation = np.sqrt(kept * errors**2 + (1 - kept) ** 2 * of_mean[:, None])
    ends = []
    for probability in (0.025, 0.975):
        low, high = (centre - 9 * deviation).min(0), (centre + 9 * deviation).max(0)
        for _ in range(60):
            middle = (low + high) / 2
            below = weight @ ndtr((middle - centre) / deviation) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        ends.append((low + high) / 2)
    return PooledEstimates(weight @ centre, ends[0], ends[1], float(weight @ spread))


def pooled_metrics(
    kind: MetricKind,
    estimates: Mapping[str, SetEstimate],
    *,
    dims: Mapping[str, str],
    bounds: tuple[float, float] | None,
    shared: str,
) -> Iterator[Metric]:
    """Yield the estimate of each subgroup, drawn towards the mean of all, with the dims source and part.

    Args:
        estimates: by subgroup; bounds: of a mean; None: none.
        shared: what rated units of the subgroups are, if some are in several; empty: they share none.

    Undefined: fewer than three subgroups have an interval, or subgroups share units.
    """
    is_share, dims = kind.unit == Quantity.SHARE, {**dims, "source": POOLED}
    towards = " Drawn towards the mean of all subgroups, the more the wider its interval is (partial pooling)."
    kind = replace(kind, definition=kind.definition + towards)
    ends = {value: end for value, e in estimates.items() if (end := _centre(e, is_share=is_share))}
    if len(ends) < FEWEST:
        yield undefined(kind, f"fewer than {FEWEST} subgroups have an interval to pool", coverage=0.0, dims=dims)
        return
    if shared:
        yield undefined(
            kind, f"not pooled: subgroups share {shared}, so that they vary together", coverage=0.0, dims=dims
        )
        return
    values, errors = np.array(list(ends.values())).T
    together = pooled(values, errors)
    least, most = (0.0, 1.0) if is_share else bounds or (-np.inf, np.inf)
    for place, value in enumerate(ends):
        of_part = estimates[value]
        drawn, low, high = (min(most, max(least, float(numbers[place])))
                            for numbers in (together.values, together.low, together.high))  # fmt: skip
        metric = estimated(
            kind, drawn, of_part.n, coverage=of_part.n / of_part.items,
            interval=Interval(low, high, METHOD, units=of_part.units), dims={**dims, "part": value},
        )  # fmt: skip
        yield replace(metric, reason=f"pooled over {len(ends)} subgroups, whose values spread by {together.spread:.2g}")


def _centre(estimate: SetEstimate, *, is_share: bool) -> tuple[float, float] | None:
    """Return value and standard error of an estimate, of a share those of its interval, which is not symmetric."""
    low, high = estimate.interval.low, estimate.interval.high
    if low is None or high is None or not high > low:
        return None
    if is_share:
        return (low + high) / 2, (high - low) / (2 * Z95)
    return estimate.value, max(high - estimate.value, estimate.value - low) / Z95
