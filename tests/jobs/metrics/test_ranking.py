"""Reciprocal ranks, accuracy, recall: worked by hand; what is undefined says so."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.metrics import ranking
from jobs.metrics.intervals import WILSON, wilson


def test_mrr_by_hand() -> None:
    metric = ranking.mrr(np.array([1, 2, 0, 4, 0]), asked=8)
    assert metric.value is not None
    assert metric.value == pytest.approx((1 + 0.5 + 0 + 0.25 + 0) / 5)
    assert (metric.n, metric.coverage) == (5, 5 / 8)
    assert metric.low is not None
    assert metric.high is not None
    assert 0 <= metric.low < metric.value < metric.high <= 1


def test_a_cut_makes_what_lies_past_it_nothing() -> None:
    ranks = np.array([1, 3, 100, 101])
    assert ranking.mrr(ranks, cut=100).value == pytest.approx((1 + 1 / 3 + 0.01) / 4)
    assert ranking.mrr(ranks, cut=100).name == "mrr@100"


def test_the_change_of_the_mrr_is_paired() -> None:
    first, second = np.array([1, 2, 4, 0, 101, 2]), np.array([2, 1, 4, 5, 100, 2])
    change = ranking.mrr_change(first, second, cut=100, asked=8)
    assert change.value == pytest.approx((-0.5 + 0.5 + 0 + 0.2 + 0.01 + 0) / 6)
    assert (change.name, change.n, change.coverage) == ("mrr_change@100", 6, 6 / 8)
    assert change.low is not None
    assert change.high is not None
    assert change.low < float(change.value or 0) < change.high
    assert ranking.mrr_change([100], [101], cut=100).value == pytest.approx(-0.01)
    same = ranking.mrr_change(first, first)
    assert (same.value, same.low) == (0, None)  # no pair differs: no interval
    with pytest.raises(ValueError, match="6 ranks before, 5 after"):
        ranking.mrr_change(first, second[1:])


def test_accuracy_by_hand() -> None:
    ranks = np.array([1, 5, 6, 0])
    assert [ranking.accuracy_at(ranks, k).value for k in (1, 5, 10)] == [0.25, 0.5, 0.75]
    for hits, n in ((0, 12), (11, 12), (1, 1)):
        accuracy = ranking.accuracy_at([1] * hits + [0] * (n - hits), 1, asked=2 * n)
        assert (accuracy.low, accuracy.high) == wilson(hits, n)
        assert (accuracy.interval_method, accuracy.coverage) == (WILSON, 0.5)


def test_recall_by_hand() -> None:
    recall = ranking.recall_at([[1, 7], [], [2]], [2, 1, 4], 5)
    assert recall.value == pytest.approx((0.5 + 0 + 0.25) / 3)
    assert ranking.recall_at([[5, 0]], [2], 5).value == 1 / 2  # rank 0: not in the list
    assert ranking.recall_at([[1, 2, 3, 6]], [10], 5).value == 3 / 10  # of all right answers, not of the five places
    with pytest.raises(ValueError, match="at least one right"):
        ranking.recall_at([[1], []], [1, 0], 5)
    with pytest.raises(ValueError, match="at most one rank"):
        ranking.recall_at([[1], [1, 2]], [1, 1], 5)


def test_nothing_ranked_is_undefined_not_zero() -> None:
    metric = ranking.mrr(np.array([], int), asked=3)
    assert metric.value is None
    assert (metric.reason, metric.coverage) == ("no query was ranked", 0.0)
    assert ranking.mrr(np.array([2])).low is None  # one query has no interval


def at_random(answers: int, cut: int | None = None) -> float:
    value = ranking.random_mrr(answers, cut=cut).value
    assert value is not None
    return value


def test_random_order_as_published_for_646_captions() -> None:
    assert round(at_random(646), 4) == 0.0109
    assert round(at_random(646, cut=100), 4) == 0.0080
    assert at_random(3) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    assert at_random(2, cut=100) == at_random(2)
    assert at_random(1) == 1
    with pytest.raises(ValueError, match="answers=0"):
        ranking.random_mrr(0)


def test_the_random_orders_metric_is_what_random_orders_give() -> None:
    draw = np.random.default_rng(3)
    ranks = draw.integers(1, 51, 40_000)
    assert ranking.mrr(ranks).value == pytest.approx(at_random(50), rel=0.03)


@given(st.lists(st.integers(0, 50), min_size=5, max_size=40), st.randoms())
def test_the_interval_is_the_bootstrap_of_all_metrics_and_ignores_the_order(ranks: list[int], random: Random) -> None:
    mean = ranking.mrr(np.array(ranks))
    random.shuffle(ranks)
    again = ranking.mrr(np.array(ranks))
    assert (again.low, again.high, again.reason) == (mean.low, mean.high, mean.reason)
    if mean.low is not None and mean.high is not None:
        values = ranking.reciprocal_ranks(np.array(ranks))
        assert min(values) - 1e-12 <= mean.low < mean.high <= max(values) + 1e-12
        assert mean.interval_method == "percentile bootstrap over queries 95%, 1000 resamples"
    else:
        assert mean.reason


def test_groups() -> None:
    groups = ranking.by_group(np.array([1, 2, 3]), ["b", "a", "b"])
    assert {name: ranks.tolist() for name, ranks in groups.items()} == {"a": [2], "b": [1, 3]}
