"""Statistics of the tables, from their formulas."""

from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from math import sqrt
from statistics import mean, variance


def pearson(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the correlation of two lists."""
    a, b = mean(one), mean(other)
    products = sum((x - a) * (y - b) for x, y in zip(one, other, strict=True))
    return products / sqrt(sum((x - a) ** 2 for x in one) * sum((y - b) ** 2 for y in other))


def ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value; equal values get their mean rank."""
    rounded = [round(value, 9) for value in values]
    return [sum(other < value for other in rounded) + (rounded.count(value) + 1) / 2 for value in rounded]


def welch(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the p-value of Welch's t-test that two means are equal (Welch 1947)."""
    from scipy.stats import t

    errors = [variance(values) / len(values) for values in (one, other)]
    freedom = sum(errors) ** 2 / sum(e**2 / (len(v) - 1) for e, v in zip(errors, (one, other), strict=True))
    return float(2 * t.sf(abs(mean(one) - mean(other)) / sqrt(sum(errors)), freedom))


def krippendorff(rows: Sequence[tuple[float, float]], level: str) -> float:
    """Return Krippendorff's alpha of two raters who rated every item (Krippendorff 2011)."""
    values = [value for row in rows for value in row]
    places = dict(zip(values, ranks(values), strict=True))
    distances: Mapping[str, Callable[[float, float], float]] = {
        "nominal": lambda a, b: float(a != b),
        "ordinal": lambda a, b: (places[a] - places[b]) ** 2,
        "interval": lambda a, b: (a - b) ** 2,
        "ratio": lambda a, b: ((a - b) / (a + b)) ** 2,
    }
    distance = distances[level]
    observed = mean(distance(a, b) for a, b in rows)
    expected = mean(distance(a, b) for a, b in permutations(values, 2))
    return 1 - observed / expected
