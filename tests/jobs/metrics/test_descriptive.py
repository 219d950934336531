"""Descriptive statistics, worked by hand."""

import pytest

from jobs.metrics.descriptive import describe, histogram


def test_statistics_by_hand() -> None:
    values = {metric.name: metric.value for metric in describe([1890, 1892, 1900, 1904])}
    assert values == {
        "mean": 1896.5,
        "median": 1896.0,
        "standard_deviation": pytest.approx((131 / 3) ** 0.5),  # (6.5² + 4.5² + 3.5² + 7.5²) / 3
        "minimum": 1890,
        "maximum": 1904,
    }


def test_too_few_values_are_undefined() -> None:
    one = {metric.name: metric.value for metric in describe([7])}
    assert (one["mean"], one["standard_deviation"]) == (7, None)
    assert {metric.value for metric in describe([])} == {None}
    assert list(histogram([], 5)) == []
    two = {metric.name: (metric.value, metric.n) for metric in describe([1, 3])}
    assert two["standard_deviation"] == (pytest.approx(2**0.5), 2)
    reasons = {metric.reason for metric in describe([7])}
    assert reasons == {"1 values: at least 2 needed", "no interval: it describes these values only"}


def test_a_histogram_has_its_empty_bins() -> None:
    (first, *_) = histogram([3, 4, 5, 9, 21], 5)
    assert (first.n, first.dims) == (5, {"bin": "0", "width": "5"})
    counts = {metric.dims["bin"]: metric.value for metric in histogram([3, 4, 5, 9, 21], 5)}
    assert counts == {"0": 2, "5": 2, "10": 0, "15": 0, "20": 1}
    assert {metric.dims["bin"]: metric.value for metric in histogram([3, 4, 4], 1)} == {"3": 1, "4": 2}
    assert {metric.dims["bin"]: metric.value for metric in histogram([23, 31], 5)} == {"20": 1, "25": 0, "30": 1}
    with pytest.raises(ValueError, match="width=0"):
        list(histogram([1], 0))
