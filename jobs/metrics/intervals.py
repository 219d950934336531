"""95 % intervals of shares, means, correlations and other statistics of sums over independent units.

What belongs together is drawn together: the **unit** of an interval is the picture (or what `metrics.unit` names),
with all its targets, questions, samples and raters (`Units`). If each unit gives one value, shares have Wilson's
interval and correlations Fisher's. Otherwise the variance is estimated between units: shares have Wilson's interval
with a design effect (Kish, Survey Sampling, 1965), correlations a jackknife, other statistics a bootstrap that draws
units.

An interval needs at least `MIN_UNITS` units. A resampled interval also needs a statistic that is defined in at least
`MIN_DEFINED` of the resamples and not equal in all of them. Otherwise there is a reason instead of an interval. Score
intervals of proportions and of their differences are exempt: they keep their level from one unit on.

If there are more than `BLOCKS` units, the bootstrap draws random blocks of units, so that a metric of a million items
costs as much as one of a thousand. Units are sorted by their contents before anything is drawn: neither the order nor
the names of items and raters change an interval.
"""

import math
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Z95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution
# With fewer, the variance between units is hardly known: Student's t of 4 units is 3.2, and of 2 units 12.7.
MIN_UNITS = 5
MIN_DEFINED = 0.95  # share of the resamples in which the statistic must be defined
BLOCKS = 1000
GROUPS = 100  # groups of units that a jackknife leaves out in turn, if there are more units
RESAMPLES = 1000
SEED = 20251122  # of all random numbers, so that every run gives the same metrics
WILSON = "wilson 95%"
DESIGN_EFFECT = "wilson 95%, design effect of {units} (Kish 1965)"
OF_F1 = "{} of the Jaccard index"
BOOTSTRAP = "percentile bootstrap over {units} 95%, {resamples} resamples"
JACKKNIFE = "jackknife over {units}, Student's t 95%"
WILSON_JACKKNIFE = "wilson 95%, variance and bias of a jackknife over {units}"
FISHER_JACKKNIFE = "fisher z of a jackknife over {units}, Student's t 95%"
NEWCOMBE = "newcombe hybrid score 95%"
MOVER = "hybrid score with the covariance between {units} 95% (Zou and Donner 2008)"
FISHER = {
    "pearson": "fisher z 95%, standard error 1/sqrt(n - 3)",
    "spearman": "fisher z 95%, standard error of Bonett and Wright (2000)",
    "kendall": "fisher z 95%, standard error of Fieller, Hartley and Pearson (1957)",
}
ALL_EQUAL = "no interval: no variance"


@dataclass(frozen=True)
class Interval:
    """A 95 % interval and its method, or the reason why there is none.

    Attributes:
        low, high, method: all None if there is no interval.
        reason: None if there is one.
        units: number of independent units that it rests on; None: as many as the metric's n.

    Raises:
        ValueError: both an interval and a reason, or neither.
    """

    low: float | None = None
    high: float | None = None
    method: str | None = None
    reason: str | None = None
    units: int | None = None

    def __post_init__(self) -> None:
        if len({part is None for part in (self.low, self.high, self.method)} | {self.reason is not None}) != 1:
            raise ValueError(f"{self}: must have bounds and a method, or only a reason")


@dataclass(frozen=True)
class Units:
    """The independent unit of each of n rows, such as the picture that the row is about.

    Attributes:
        code: int64[n]; rows with the same code belong to one unit.
        name: what the units are, in the plural.
    """

    code: Ints
    name: str = "items"

    @classmethod
    def single(cls, n: int, name: str = "items") -> "Units":
        """Return n rows that are each a unit."""
        return cls(np.arange(n, dtype=np.int64), name)

    @cached_property
    def place(self) -> Ints:
        """int64[n], the position of each row's unit among the units that occur."""
        n = len(self.code)
        if not n or self.code.min() < 0 or self.code.max() >= 8 * n:
            return np.asarray(np.unique(self.code, return_inverse=True)[1].reshape(-1), np.int64)
        # Small codes need no sorting, which would take most of the time of a metric of millions of items.
        occurs = np.zeros(int(self.code.max()) + 1, bool)
        occurs[self.code] = True
        return (np.cumsum(occurs) - 1)[self.code]

    @property
    def count(self) -> int:
        """Number of units that occur."""
        return int(self.place.max()) + 1 if len(self.place) else 0

    @property
    def are_rows(self) -> bool:
        """Whether no two rows belong to one unit."""
        return self.count == len(self.code)

    def of(self, rows: NDArray[Any]) -> "Units":
        """Return the units of some rows: bool[n], or int64[m] positions, which may repeat."""
        return Units(self.code[rows], self.name)

    def sums(self, rows: ArrayLike) -> Floats:
        """Return float64[units, k], the sums of float64[n, k] over the rows of each unit."""
        values = np.asarray(rows, np.float64)
        return np.stack([np.bincount(self.place, column, self.count) for column in values.T], axis=1)


def no_interval(reason: str, *, units: int | None = None) -> Interval:
    """Return no interval, because of `reason`."""
    return Interval(reason=f"no interval: {reason}", units=units)


def too_few(units: int, unit_name: str) -> Interval | None:
    """Return no interval if there are fewer than `MIN_UNITS` independent units, None if there are enough.

    Args:
        units: number of independent units.
        unit_name: what the units are, in the plural.
    """
    few = f"fewer than {MIN_UNITS} {unit_name} ({units})"
    return no_interval(few, units=units) if units < MIN_UNITS else None


@lru_cache(maxsize=1000)
def student(units: float) -> float:
    """Return the 97.5 % quantile of Student's t with `units` - 1 degrees of freedom; units must be at least 2."""
    from scipy.special import stdtrit  # scipy.stats takes seconds to import

    return float(stdtrit(units - 1, 0.975))


def estimate(
    value: float, error: float, *, units: int, unit_name: str, method: str, bounds: tuple[float, float] | None = None
) -> Interval:
    """Return `value` ± t standard errors, clipped to `bounds`; none with too few units or a standard error of 0.

    Args:
        error: standard error of `value`.
        units, unit_name: the independent units that `error` is estimated from, see `too_few`.
    """
    if none := too_few(units, unit_name):
        return none
    if not error > 1e-12 * max(1.0, abs(value)):  # differences from rounding are not variance
        return Interval(reason=ALL_EQUAL, units=units)
    lowest, highest = bounds or (-math.inf, math.inf)
    half = student(units) * error
    return Interval(max(lowest, value - half), min(highest, value + half), method, units=units)


# Shares


def proportion(count: int, n: int) -> Interval:
    """Return Wilson's interval of `count` / `n` independent trials, for n of at least 1."""
    low, high = wilson(count, n)
    return Interval(low, high, WILSON, units=n)


def share(hits: ArrayLike, units: Units | None = None) -> Interval:
    """Return the interval of the mean of bool[n] `hits`, n of at least 1: Wilson's, with the design effect of units."""
    hit = np.asarray(hits, np.float64)
    if units is None or units.are_rows:
        return proportion(int(hit.sum()), len(hit))
    sums = units.sums(np.stack([hit, np.ones(len(hit))], axis=1))
    return ShareSums.of(sums).interval(units.name)


@dataclass(frozen=True)
class ShareSums:
    """What the interval of a share needs of its units; sums of several parts may be added.

    Attributes:
        units: number of units.
        hits, n: sums over units of their hits and of their trials.
        hits_squared, products, n_squared: sums over units of hits², hits x trials and trials².
    """

    units: int = 0
    hits: float = 0
    n: float = 0
    hits_squared: float = 0
    products: float = 0
    n_squared: float = 0

    @classmethod
    def of(cls, sums: Floats) -> "ShareSums":
        """Return the sums of float64[units, 2] hits and trials."""
        hits, n = np.ascontiguousarray(sums.T)
        return cls(len(sums), float(hits.sum()), float(n.sum()), float(hits @ hits), float(hits @ n), float(n @ n))

    @classmethod
    def of_trials(cls, hits: NDArray[np.bool_], units: Units) -> "ShareSums":
        """Return the sums of bool[n] trials of these units."""
        if not units.are_rows:
            return cls.of(units.sums(np.stack([hits, np.ones(len(hits))], axis=1)))
        n, hit = len(hits), int(np.count_nonzero(hits))
        return cls(n, hit, n, hit, hit, n)

    def __add__(self, other: "ShareSums") -> "ShareSums":
        return ShareSums(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def design_effect(self) -> float | None:
        """The variance of the share between units / that of as many independent trials; None if it is unknown.

        At most as much as if all trials of a unit were equal. It is unknown if the share is 0 or 1, or with fewer than
        `MIN_UNITS` units.
        """
        share = self.hits / self.n
        if self.units < MIN_UNITS or share <= 0 or share >= 1:
            return None
        spread = max(0.0, self.hits_squared - 2 * share * self.products + share**2 * self.n_squared)
        between = spread * self.units / (self.units - 1) / self.n**2
        return min(between / (share * (1 - share) / self.n), self.n_squared / self.n)

    def interval(self, unit_name: str) -> Interval:
        """Return Wilson's interval, with as many trials as carry the information of the units.

        If the design effect is unknown, all trials of a unit are taken as equal.
        """
        if self.n_squared == self.n:
            return proportion(round(self.hits), round(self.n))
        effect = self.design_effect
        if effect is not None and effect < 1e-12:
            return Interval(reason=ALL_EQUAL, units=self.units)
        z = Z95 if effect is None else student(self.units)
        low, high = wilson(self.hits, self.n, z=z * math.sqrt(self.n_squared / self.n if effect is None else effect))
        return Interval(low, high, DESIGN_EFFECT.format(units=unit_name), units=self.units)


def wilson(count: float, n: float, *, z: float = Z95) -> tuple[float, float]:
    """Return the score interval of a binomial proportion (E. B. Wilson, JASA 22, 1927); z = 1.96 gives 95 %.

    Args:
        count: successes, 0 <= count <= n.
        n: trials, at least 1.
        z: quantile of the standard normal distribution.

    Returns:
        (low, high) in [0, 1], with low <= count / n <= high.

    Raises:
        ValueError: `count` or `n` is out of range.
    """
    if not 0 <= count <= n or n < 1:
        raise ValueError(f"count={count}, n={n}: must be 0 <= count <= n and n >= 1")
    p, zz = count / n, z * z
    middle, half = p + zz / (2 * n), z * math.sqrt(p * (1 - p) / n + zz / (4 * n * n))
    # The bounds at counts 0 and n are exactly 0 and 1, which rounding could miss.
    low = 0.0 if count == 0 else (middle - half) / (1 + zz / n)
    high = 1.0 if count == n else (middle + half) / (1 + zz / n)
    return low, high


def f1_of(jaccard: float) -> float:
    """Return F1 from the Jaccard index, the share of right ones among the items that are positive in either way."""
    return 2 * jaccard / (1 + jaccard)


def difference(first: ArrayLike, second: ArrayLike, units: Units) -> Interval:
    """Return the interval of the share of one part of the rows minus that of another, which may have the same units.

    It is Newcombe's hybrid score interval if each row is a unit; otherwise the intervals of both shares have design
    effects, and shares of the same units are paired through their covariance (Zou and Donner 2008).

    Args:
        first, second: float64[n], 1 or 0 in the rows of the part, NaN in others; each part has at least one row.
        units: of the n rows.
    """
    parts = [np.asarray(part, np.float64) for part in (first, second)]
    inside = [~np.isnan(part) for part in parts]
    used = inside[0] | inside[1]
    p, q = (float(part[chosen].mean()) for part, chosen in zip(parts, inside, strict=True))
    one, other = (share(part[chosen], units.of(chosen)) for part, chosen in zip(parts, inside, strict=True))
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Interval(reason=ALL_EQUAL, units=units.of(used).count)
    sums = [
        units.of(used).sums(np.stack([np.where(chosen, part - mean, 0.0), chosen], axis=1)[used])[:, 0]
        for part, chosen, mean in zip(parts, inside, (p, q), strict=True)
    ]
    scale = math.sqrt(float(sums[0] @ sums[0]) * float(sums[1] @ sums[1]))
    r = float(sums[0] @ sums[1]) / scale if scale > 0 else 0.0

    def half(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a - 2 * r * a * b + b * b))

    low, high = p - q - half(p - one.low, other.high - q), p - q + half(one.high - p, q - other.low)
    together = units.of(used)
    method = NEWCOMBE if together.are_rows else MOVER.format(units=units.name)
    return Interval(low, high, method, units=together.count)


# Correlations


def fisher(r: float, n: int, *, kind: str = "pearson", unit_name: str = "pairs") -> Interval:
    """Return the interval of a correlation of independent pairs through Fisher's z.

    Standard errors of z: Pearson 1/sqrt(n - 3); Spearman sqrt((1 + r²/2)/(n - 3)) (Bonett and Wright 2000); Kendall
    sqrt(0.437/(n - 4)) (Fieller, Hartley and Pearson 1957). None with too few pairs or |r| = 1.

    Args:
        r: the correlation, in [-1, 1].
        n: number of pairs; `unit_name`: what they are, in the plural.
        kind: pearson, spearman or kendall.
    """
    if none := too_few(n, unit_name):
        return none
    if abs(r) >= 1:
        return no_interval("Fisher's z is not defined for a correlation of 1 or -1", units=n)
    numerator, lost = {"pearson": (1.0, 3), "spearman": (1 + r * r / 2, 3), "kendall": (0.437, 4)}[kind]
    half = Z95 * math.sqrt(numerator / (n - lost))
    return Interval(math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half), FISHER[kind], units=n)


def correlation(
    x: Floats, y: Floats, correlate: Callable[[Floats, Floats], float | None], *, kind: str, units: Units
) -> Interval:
    """Return the interval of the correlation of float64[n] x and y: Fisher's, or a jackknife over units.

    Args:
        correlate: computes the correlation; None if it is undefined.
        kind: pearson, spearman or kendall.
    """
    r = correlate(x, y)
    assert r is not None
    if units.are_rows:
        return fisher(r, len(x), kind=kind, unit_name=units.name)
    group = blocks(np.stack([x, y], axis=1), units, most=GROUPS)
    without = [correlate(x[group != g], y[group != g]) for g in range(int(group.max()) + 1)]
    values = np.array([math.nan if v is None else v for v in without])
    return jackknife(r, values, units=units, is_correlation=True)


def jackknife(
    value: float,
    without: Floats,
    *,
    units: Units,
    is_correlation: bool = False,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Return the interval of a statistic from its values float64[groups] without each of random groups of units.

    Args:
        is_correlation: whether to compute the standard error of Fisher's z of the statistic, which is in (-1, 1).
    """
    if none := too_few(units.count, units.name):
        return none
    if not np.isfinite(without).all():
        return no_interval(f"undefined without some {units.name}", units=units.count)
    if is_correlation and (abs(value) >= 1 or (np.abs(without) >= 1).any()):
        return no_interval("Fisher's z is not defined for 1 or -1", units=units.count)
    centre, values = (math.atanh(value), np.arctanh(without)) if is_correlation else (value, without)
    groups = len(values)
    error = math.sqrt((groups - 1) / groups * float(((values - values.mean()) ** 2).sum()))
    method = (FISHER_JACKKNIFE if is_correlation else JACKKNIFE).format(units=units.name)
    interval = estimate(centre, error, units=groups, unit_name=units.name, method=method, bounds=bounds)
    if interval.low is None or interval.high is None:
        return Interval(reason=interval.reason, units=units.count)
    low, high = (math.tanh(interval.low), math.tanh(interval.high)) if is_correlation else (interval.low, interval.high)
    return Interval(low, high, method, units=units.count)


def jackknife_of_sums(
    rows: ArrayLike,
    statistic: Callable[[Floats], Floats],
    units: Units,
    *,
    is_correlation: bool = False,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Return the jackknife interval of a statistic of sums over rows; see `bootstrap` for the arguments.

    Use it for statistics of few rows per part, such as correlations within countries, where a bootstrap repeats rows.
    """
    value, without = _without_groups(rows, statistic, units)
    return jackknife(value, without, units=units, is_correlation=is_correlation, bounds=bounds)


def average_of_sums(rows: ArrayLike, statistic: Callable[[Floats], Floats], units: Units) -> Interval:
    """Return the interval of an average of shares that rest on few rows each, such as a macro F1: Wilson's, with as
    many trials as have the jackknife's variance.

    The average of ratios is biased by what the jackknife shows. Where few units make most of the variance, it has fewer
    degrees of freedom (Satterthwaite 1946). In simulations with 15 to 150 items of 2 to 20 labels, at least 2 of them
    positive per label, the intervals contained the true macro F1 in 93 to 99 %, a bootstrap's in 87 to 95 %.

    Args:
        statistic: as of `bootstrap`, with values in [0, 1].
    """
    if none := too_few(units.count, units.name):
        return none
    value, without = _without_groups(rows, statistic, units)
    if not np.isfinite(without).all():
        return no_interval(f"undefined without some {units.name}", units=units.count)
    groups, mean = len(without), float(without.mean())
    squares = ((groups - 1) / groups * (without - mean)) ** 2
    variance = float(squares.sum()) * groups / (groups - 1)
    if variance <= 1e-24:
        return Interval(reason=ALL_EQUAL, units=units.count)
    centre = min(1.0, max(0.0, value - (groups - 1) * (mean - value)))
    uneven = float(squares @ squares) - float(squares.sum()) ** 2 / groups
    freedom = min(groups - 1, 2 * float(squares.sum()) ** 2 / uneven - 1) if uneven > 0 else groups - 1
    trials = max(1.0, centre * (1 - centre) / variance)
    low, high = wilson(centre * trials, trials, z=student(max(1.0, freedom) + 1))
    return Interval(min(low, value), max(high, value), WILSON_JACKKNIFE.format(units=units.name), units=units.count)


def _without_groups(rows: ArrayLike, statistic: Callable[[Floats], Floats], units: Units) -> tuple[float, Floats]:
    """Return a statistic of sums over rows, and its values without each of the groups of units."""
    sums = block_sums(rows, units, most=GROUPS)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(statistic(sums.sum(0)[None])[0]), statistic(sums.sum(0) - sums)


# Resampling


def blocks(rows: ArrayLike, units: Units, *, most: int | None = None) -> Ints:
    """Return int64[n], the block of each row: its unit, or one of `most` random sets of units if there are more.

    Blocks are numbered by the contents of their units.

    Args:
        rows: float64[n, k] by whose sums the units are sorted.
        most: None: `BLOCKS`.
    """
    most = most or BLOCKS
    order = np.lexsort(units.sums(rows).T[::-1])
    if units.count > most:
        order = order[np.random.default_rng(SEED).permutation(units.count)]
    block = np.empty(units.count, np.int64)
    block[order] = np.arange(units.count) * min(most, units.count) // units.count
    return block[units.place]


def block_counts(code: NDArray[Any], codes: int, units: Units) -> Floats:
    """Return float64[blocks, codes], how often each code occurs in each block of units; blocks as of `blocks`.

    Args:
        code: int[n], from 0 to `codes` - 1. Rows with the same code have the same contents.
    """
    if not units.are_rows:
        block = blocks(np.stack([code, code.astype(np.float64) ** 2], axis=1), units)
    else:  # what is sorted are codes, of which there are few: counting them replaces sorting
        number = np.bincount(code, minlength=codes)
        code = np.repeat(np.arange(codes), number)
        most = min(BLOCKS, len(code))
        if len(code) > BLOCKS:
            code = code[np.random.default_rng(SEED).permutation(len(code))]
        block = np.arange(len(code)) * most // max(len(code), 1)
    size = int(block.max(initial=-1)) + 1
    return np.bincount(block * codes + code, minlength=size * codes).reshape(size, codes).astype(np.float64)


def block_sums(rows: ArrayLike, units: Units | None = None, *, most: int | None = None) -> Floats:
    """Return float64[blocks, k], the sums of float64[n, k] over blocks of units; without `units` each row is one."""
    values = np.asarray(rows, np.float64)
    units = units or Units.single(len(values))
    return Units(blocks(values, units, most=most)).sums(values) if len(values) else values


def bootstrap(
    rows: ArrayLike,
    statistic: Callable[[Floats], Floats],
    units: Units | None = None,
    *,
    fewest: int | None = None,
    unit_name: str | None = None,
) -> Interval:
    """Return the percentile bootstrap interval of a statistic of sums over rows.

    Args:
        rows: float64[n, k].
        statistic: function from summed rows float64[resamples, k] to float64[resamples], NaN where it is undefined.
        units: of the rows; None: each row is one.
        fewest: number of units that the interval rests on, if lower: for a difference between two parts, the size of
            the smaller part.
        unit_name: what the units are, in the plural; None: as in `units`.
    """
    values = np.asarray(rows, np.float64)
    units = units or Units.single(len(values))
    count = units.count if fewest is None else fewest
    return bootstrap_blocks(block_sums(values, units), statistic, units=count, unit_name=unit_name or units.name)


def bootstrap_blocks(sums: Floats, statistic: Callable[[Floats], Floats], *, units: int, unit_name: str) -> Interval:
    """Return the percentile bootstrap interval of a statistic of float64[blocks, k], sums over `blocks`.

    Percentile intervals of few units are too narrow: they use the quantiles that would give the mean of normal values
    Student's t interval (Hesterberg, The American Statistician 69, 2015, section 3.2). There is no interval if less
    than `MIN_DEFINED` of the values are defined, or if all are equal: units without variance do not show how much other
    units would vary.
    """
    if none := too_few(units, unit_name):
        return none
    with np.errstate(divide="ignore", invalid="ignore"):
        values = statistic(_draws(len(sums)) @ sums)
    finite = values[np.isfinite(values)]
    if len(finite) < MIN_DEFINED * len(values):
        return no_interval(f"undefined in {1 - len(finite) / len(values):.0%} of the resamples", units=units)
    tail = 0.5 * math.erfc(math.sqrt(units / (units - 1)) * student(units) / math.sqrt(2))
    low, high = np.quantile(finite, [tail, 1 - tail])
    if high - low <= 1e-12 * max(1.0, abs(high)):  # differences from rounding are not variance
        return Interval(reason=ALL_EQUAL, units=units)
    method = BOOTSTRAP.format(units=unit_name, resamples=RESAMPLES)
    return Interval(float(low), float(high), method, units=units)


@lru_cache(maxsize=4)
def _draws(n: int) -> Floats:
    """Return float64[resamples, n], how often each resample draws each of n blocks; at most 8 MB."""
    return np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(np.float64)


def ratio(sums: Floats) -> Floats:
    """Return the first column / the second: the statistic of a share or a mean, for `bootstrap`."""
    return sums[..., 0] / sums[..., 1]
