"""95 % intervals: of shares, means, correlations, and of anything that is a function of sums over items.

The bootstrap draws items. Where there are more than `BLOCKS` of them it draws blocks of items put together at random:
a figure of a million items costs what one of a thousand does. Rows are put in an order of their own before anything
is drawn, so that neither the order nor the names of items and raters change an interval.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.number[Any])
Floats = NDArray[np.float64]
Z95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution
BLOCKS = 1000
RESAMPLES = 1000
SEED = 20251122  # of every draw; a figure is the same in every run
WILSON = "wilson 95%"
BOOTSTRAP = f"percentile bootstrap over items 95%, {RESAMPLES} resamples"
FISHER = "fisher z 95%"


def wilson(count: int, n: int, *, z: float = Z95) -> tuple[float, float]:
    """Score interval of a binomial proportion (E. B. Wilson, JASA 22, 1927); at z = 1.96 of 95 %.

    Args:
        count: successes, 0 <= count <= n.
        n: trials, at least 1.
        z: quantile of the standard normal distribution.

    Returns:
        (low, high), in [0, 1] and with low <= count / n <= high.

    Raises:
        ValueError: count or n outside its range.
    """
    if not 0 <= count <= n or n < 1:
        raise ValueError(f"no proportion of {count} in {n}; need 0 <= count <= n and n >= 1")
    p, zz = count / n, z * z
    middle, half = p + zz / (2 * n), z * math.sqrt(p * (1 - p) / n + zz / (4 * n * n))
    # At 0 and n the bound is exactly 0 and 1; rounding would leave it a hair off.
    low = 0.0 if count == 0 else (middle - half) / (1 + zz / n)
    high = 1.0 if count == n else (middle + half) / (1 + zz / n)
    return low, high


def fisher(r: float, n: int, *, kind: str = "pearson") -> tuple[float, float] | None:
    """Interval of a correlation through Fisher's z.

    Standard errors of z: Pearson 1/sqrt(n - 3); Spearman sqrt((1 + r²/2)/(n - 3)) (Bonett and Wright 2000); Kendall
    sqrt(0.437/(n - 4)) (Fieller, Hartley and Pearson 1957).

    Returns:
        (low, high); None where it is not defined: |r| = 1 or too few pairs.
    """
    spread = {"pearson": (1.0, 3), "spearman": (1 + r * r / 2, 3), "kendall": (0.437, 4)}[kind]
    if n <= spread[1] or abs(r) >= 1:
        return None
    half = Z95 * math.sqrt(spread[0] / (n - spread[1]))
    return math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)


def ordered(rows: NDArray[Number]) -> NDArray[Number]:
    """The rows in an order that depends on their contents alone (lexicographic)."""
    return rows[np.lexsort(rows.T[::-1])] if len(rows) and rows.shape[1] else rows


def shuffled(rows: NDArray[Number]) -> NDArray[Number]:
    """The rows in an arbitrary order that depends on their contents alone: see the module's docstring."""
    return ordered(rows)[np.random.default_rng(SEED).permutation(len(rows))]


def block_sums(rows: Floats) -> Floats:
    """Sums of float64[items, k] over at most `BLOCKS` random blocks of items: float64[blocks, k]."""
    rows = np.asarray(rows, np.float64)
    if len(rows) <= BLOCKS:
        return ordered(rows)
    return np.add.reduceat(shuffled(rows), np.linspace(0, len(rows), BLOCKS, endpoint=False).astype(int))


def bootstrap(sums: Floats, statistic: Callable[[Floats], Floats]) -> tuple[float, float] | None:
    """Percentile interval of a statistic of sums over items.

    Args:
        sums: float64[blocks, k], from `block_sums` (or of items, in an order of their own).
        statistic: float64[resamples, k] of summed rows -> float64[resamples], NaN where it is undefined.

    Returns:
        (low, high); None with fewer than two blocks, where more than one resample in twenty is undefined, or where all
        are equal: items that do not differ say nothing of how others would.
    """
    if len(sums) < 2:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        values = statistic(_draws(len(sums)) @ sums)
    values = values[np.isfinite(values)]
    if len(values) < 0.95 * RESAMPLES:
        return None
    low, high = np.quantile(values, [0.025, 0.975])
    apart = high - low > 1e-12 * max(1.0, abs(high))  # rounding is no variance
    return (float(low), float(high)) if apart else None


@lru_cache(maxsize=4)
def _draws(n: int) -> Floats:
    """How often each of n blocks is drawn in each resample: float64[resamples, n], at most 8 MB."""
    return np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(np.float64)


def ratio(sums: Floats) -> Floats:
    """First column / second: the statistic of a share or a mean, for `bootstrap`."""
    return sums[..., 0] / sums[..., 1]
