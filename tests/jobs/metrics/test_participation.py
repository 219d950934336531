"""Raters, their items and how their ratings ended, by hand (Century, appendices L and T; Rome, table 1)."""

from collections import Counter

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import proportion, wilson
from jobs.metrics.participation import _deviation, accounting, endings, participation, remark_share, workload

NAN = np.nan


def test_people_items_and_reports_by_hand():
    # items per person: 3, 1, 2, so that the mean is 2 and the standard deviation 1
    answers = RatingTable.from_matrix(
        np.array([[1, NAN, 2], [3, NAN, NAN], [2, 5, 1], [NAN, NAN, NAN]]), raters=["p", "q", "r"]
    )
    ended = {"p": {"ok": 3}, "q": {"ok": 1, "reported": 2}, "r": {"ok": 2, "reported": 0}, "model": {"reported": 1}}
    asked, reported = np.array([1, 1, 1, 1], bool), np.array([0, 1, 1, 0], bool)
    metrics = {
        (m.name, m.dims.get("of")): m
        for m in participation(answers, ended, asked=asked, reported=reported, group="people")
    }
    assert {metric.dims["group"] for metric in metrics.values()} == {"people"}
    assert {metric.n for metric in metrics.values() if "of" not in metric.dims} == {3}
    whole = {metric.coverage for metric in metrics.values() if metric.name in ("people_total", "reported_share")}
    assert whole == {1.0}
    assert metrics["people_total", None].value == 3
    assert metrics["items_per_person", None].value == pytest.approx(2)
    assert metrics["items_per_person_sd", None].value == pytest.approx(1)
    assert {metrics[name, None].coverage for name in ("items_per_person", "items_per_person_sd")} == {6 / 12}
    assert (metrics["reported_share", "items"].value, metrics["reported_share", "items"].n) == (0.5, 4)
    assert (metrics["reported_share", "people"].value, metrics["reported_share", "people"].n) == (1 / 3, 3)


def test_the_interval_of_the_standard_deviation_is_of_samples():
    """Of four items by each of twenty people the deviation is 0 in every draw; of two numbers that of n - 1."""
    sums = np.array([[20 * 4, 20, 20 * 16], [3 + 1, 2, 9 + 1]], float)
    assert _deviation(sums).tolist() == pytest.approx([0, 2**0.5])


def test_one_person_has_no_standard_deviation_and_nobody_no_metrics():
    one = RatingTable.from_matrix([[1], [2]], raters=["p"])
    asked = np.ones(2, bool)
    metrics = {m.name: m for m in participation(one, {}, asked=asked, reported=~asked, group="people")}
    assert metrics["items_per_person_sd"].reason == "one person"
    assert (metrics["items_per_person_sd"].n, metrics["items_per_person_sd"].coverage) == (1, 1.0)
    assert metrics["items_per_person_sd"].dims == {"group": "people"}
    assert metrics["reported_share"].value == 0
    nobody = RatingTable.from_matrix(np.zeros((2, 0)))
    assert list(participation(nobody, {}, asked=asked, reported=asked, group="people")) == []


def test_rome_table_1():
    by_key = {f.name: f.value for f in accounting(Counter({"ok": 1505, "missing_input": 64}), 103)}
    assert by_key == {
        "ratings_total": 1569,
        "ratings_double": 103,
        "ratings_repeated": 0,
        "ratings_excluded": 64,
        "ratings_left": 1505,
    }


def test_rome_ratings_per_person():
    """Rome, section 4.1.2: 21 people made 1,569 comparisons, 74.71 each (SD 43.32)."""
    created = [*[21] * 8, 93, *[109] * 12]  # numbers with these sums; the paper does not give those of each person
    by_key = {f.name: f for f in workload([{"ok": n - 3, "skipped": 3} for n in created])}
    mean, sd = by_key["ratings_per_person"], by_key["ratings_per_person_sd"]
    assert (len(created), sum(created), mean.n, mean.coverage) == (21, 1569, 21, 1 - 63 / 1569)
    assert mean.value == pytest.approx(74.71, abs=0.005)
    assert sd.value == pytest.approx(43.32, abs=0.01)
    (alone, without) = workload([{"ok": 4}])
    assert (alone.value, without.value) == (4, None)
    assert without.reason == "fewer than 2 people (1)"
    assert (without.n, without.coverage) == (1, 1.0)
    assert [metric.coverage for metric in workload([{"ok": 1, "skipped": 1}])] == [0.5, 0.5]
    assert [metric.reason for metric in workload([])] == ["fewer than 1 people (0)", "fewer than 2 people (0)"]


def test_how_often_people_report_and_that_few_raters_do():
    """Century: two people made 137 of 147 reports; an interval of independent ratings would be far too narrow."""
    crowd = [{"ok": 99, "reported": 1} for _ in range(10)] + [{"ok": 30, "reported": 70}, {"ok": 33, "reported": 67}]
    by_key = {f.dims["status"]: f for f in endings(crowd, group="people")}
    assert set(by_key) == {"reported", "skipped"}
    reports = by_key["reported"]
    assert (reports.value, reports.n, reports.coverage) == (147 / 1200, 1200, 1)
    assert (reports.interval_method, reports.units) == ("wilson 95%, design effect of raters (Kish 1965)", 12)
    low, high = wilson(147, 1200)
    assert reports.low is not None
    assert reports.high is not None
    assert reports.high - reports.low > 5 * (high - low)
    skipped = by_key["skipped"]
    assert (skipped.value, skipped.low, skipped.high) == pytest.approx((0, *wilson(0, 12)))
    (alone,) = [f for f in endings([{"ok": 3, "reported": 1}], group="people") if f.value]
    assert (alone.low, alone.high) == pytest.approx(wilson(0.25, 1))
    assert list(endings([], group="people")) == []
    assert list(endings([{"ok": 0}], group="people")) == []
    (refused,) = [f for f in endings([{"ok": 3, "refused": 1, "error": 0}], group="people") if f.value]
    assert (refused.dims["status"], refused.value, refused.n) == ("refused", 1 / 4, 4)
    statuses = {f.dims["status"] for f in endings([{"ok": 3, "refused": 1, "error": 0}], group="people")}
    assert statuses == {"refused", "reported", "skipped"}


def test_nothing_asked_has_no_coverage():
    assert {f.coverage for f in accounting(Counter(), 0)} == {f.coverage for f in workload([])} == {None}
    assert {f.coverage for f in workload([{}, {}])} == {None}
    assert {f.coverage for f in accounting(Counter({"ok": 3, "error": 1}), 0, 2)} == {3 / 4}
    assert [f.value for f in accounting(Counter(), 0, 2) if f.name == "ratings_repeated"] == [2]


def test_items_that_nobody_rated_do_not_count() -> None:
    written = np.array([True, True, False, False, True])
    rated = np.array([True, False, True, True, True])
    metric = remark_share(written, rated)
    assert (metric.value, metric.n, metric.coverage) == (0.5, 4, 0.8)
    interval = proportion(2, 4)
    assert interval is not None
    assert (metric.low, metric.high) == pytest.approx((interval.low, interval.high))


def test_without_rated_items_there_is_no_share() -> None:
    metric = remark_share(np.array([True]), np.array([False]))
    assert (metric.value, metric.status) == (None, "missing_input")
    assert remark_share(np.array([False]), np.array([True])).value == 0
