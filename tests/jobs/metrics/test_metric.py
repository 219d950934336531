"""Allowed values of a metric, and its row in the tables."""

import json
from typing import Any

import numpy as np
import pytest

from jobs.metrics.intervals import Interval, proportion
from jobs.metrics.metric import Metric, MetricKind, estimated, metrics_table, undefined, wide
from jobs.tables import TableError
from tests.cases import check_cases

KIND, ALPHA = MetricKind("m", definition="d"), MetricKind("alpha", definition="d")


def test_a_row_of_the_table():
    metric = estimated(
        MetricKind("share", definition="one sentence"), 0.5, 4, coverage=0.8, interval=Interval(0.2, 0.8, "wilson 95%")
    )
    (row,) = metrics_table([metric.at(rater="é", question="q")]).to_pylist()
    of_array: Any = np.int64(3)
    assert json.dumps(undefined(ALPHA, "r", n=of_array).n) == "3"
    assert row["dims"] == '{"question":"q","rater":"é"}'
    assert (row["value"], row["low"], row["high"], row["n"], row["coverage"]) == (0.5, 0.2, 0.8, 4, 0.8)
    assert (row["status"], row["reason"], row["interval_method"]) == ("ok", None, "wilson 95%")


def test_an_undefined_metric_has_a_status_and_a_reason():
    metric = undefined(ALPHA, "one rater", n=3, coverage=0.5, dims={"level": "nominal"})
    (row,) = metrics_table([metric]).to_pylist()
    assert (row["value"], row["status"], row["reason"]) == (None, "skipped", "one rater")
    assert (row["definition"], row["n"], row["coverage"]) == ("d", 3, 0.5)
    assert undefined(ALPHA, "nobody", status="missing_input").status == "missing_input"
    assert json.loads(row["dims"]) == {"level": "nominal"}


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


def test_two_metrics_of_one_name_are_refused():
    with pytest.raises(TableError, match="duplicate"):
        metrics_table([undefined(KIND, "r"), undefined(KIND, "r")])


def test_own_dims_win():
    assert undefined(KIND, "r", dims={"rater": "a"}).at(rater="b", x="y").dims == {
        "rater": "a",
        "x": "y",
    }


def test_wide_columns_have_different_names():
    """A dim that is called as a column of the table is distinguished from it, whatever the other dims are called."""
    dims = {"status": "reported", "value": "a", "dim_value": "b", "metric": "c", "group": "people"}
    first = estimated(KIND, 0.5, 4, interval=proportion(2, 4), dims=dims)
    second = undefined(ALPHA, "one rater", dims={"group": "models"})
    columns, rows = wide([first, second])
    assert len(set(columns)) == len(columns)
    one, other = (dict(zip(columns, row, strict=True)) for row in rows)
    assert (one["status"], one["dim_status"], one["value"], one["dim_value"]) == ("ok", "reported", 0.5, "b")
    assert (one["metric"], one["dim_metric"], one["dim_dim_value"]) == ("m", "c", "a")
    assert (other["status"], other["dim_status"], other["value"], other["group"]) == ("skipped", "", None, "models")
