"""Allowed values of a metric."""

import pytest

from jobs.metrics.metric import Metric, MetricKind, undefined
from tests.cases import check_cases

KIND, ALPHA = MetricKind("m", definition="d"), MetricKind("alpha", definition="d")


def test_what_no_metric_may_be():
    cases = [
        {"value": None},
        {"value": None, "status": "skipped"},
        {"value": 1.0, "status": "skipped", "reason": "r"},
        {"value": float("nan")},
        {"value": 1.0, "low": 0.0},
        {"value": 1.0},
        {"value": 1.0, "low": 0.0, "high": float("inf"), "interval_method": "m"},
    ]

    def check(wrong):
        with pytest.raises(ValueError, match="m"):
            Metric(name="m", definition="d", n=1, **wrong)

    check_cases(check, cases)


def test_own_dims_win():
    assert undefined(KIND, "r", dims={"rater": "a"}).at(rater="b", x="y").dims == {
        "rater": "a",
        "x": "y",
    }
