"""Mean, median, standard deviation, range and histogram of a column of numbers, such as the words of captions.

They describe these numbers only and therefore have no intervals.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics.metric import Metric, undefined

_REASON = "no interval: it describes these values only"
_STATISTICS = {
    "mean": "Arithmetic mean of the values (TRIC, section VI.B); n counts values.",
    "median": "Median of the values; the mean of the middle two if their number is even (TRIC, section VI.B); n counts "
    "values.",
    "standard_deviation": "Standard deviation (n - 1) of the values (TRIC, section VI.B); n counts values.",
    "minimum": "Smallest value (TRIC, section VI.B); n counts values.",
    "maximum": "Largest value (TRIC, section VI.B); n counts values.",
}
_HISTOGRAM = "Number of values in the bin, its lower edge included (TRIC, figures 4 to 7); n counts values."


def describe(values: ArrayLike) -> Iterator[Metric]:
    """Yield mean, median, standard deviation (n - 1), minimum and maximum.

    Use them to describe a data set, not to generalise from it.

    Args:
        values: float[n] without missing values.

    Undefined: all statistics of no values; the standard deviation of a single value.
    """
    array = np.asarray(values, np.float64)
    for name, definition in _STATISTICS.items():
        needed = 2 if name == "standard_deviation" else 1
        if len(array) < needed:
            yield undefined(name, definition, f"{len(array)} values: at least {needed} needed", n=len(array))
        else:
            value = _statistic(name, array)
            yield Metric(name=name, definition=definition, value=value, n=len(array), reason=_REASON)


def _statistic(name: str, values: NDArray[np.float64]) -> float:
    if name == "median":
        return float(np.median(values))
    if name == "standard_deviation":
        return float(values.std(ddof=1))
    if name == "minimum":
        return float(values.min())
    return float(values.max() if name == "maximum" else values.mean())


def histogram(values: ArrayLike, width: int) -> Iterator[Metric]:
    """Yield `histogram_count` of each bin between the smallest and the largest value, empty bins included.

    Use it to draw a distribution. The dim `bin` is the lower edge, a multiple of `width`.

    Args:
        values: int[n].
        width: of the bins, at least 1.

    Raises:
        ValueError: `width` is less than 1.
    """
    if width < 1:
        raise ValueError(f"width={width}: must be at least 1")
    numbers = np.asarray(values, np.int64) // width
    if not len(numbers):
        return
    first = int(numbers.min())
    for place, count in enumerate(np.bincount(numbers - first)):
        edge = str((first + place) * width)
        yield Metric(
            name="histogram_count", definition=_HISTOGRAM, value=float(count), n=len(numbers), reason=_REASON,
            dims={"bin": edge, "width": str(width)},
        )  # fmt: skip
