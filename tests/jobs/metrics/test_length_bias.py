"""The dependence of scores on the length of responses, by hand and against a textbook's regression."""

import numpy as np
import pytest
from scipy import stats

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import fisher
from jobs.metrics.length_bias import length_bias, length_fit
from jobs.metrics.model_scores import RaterGroup

RATER = RaterGroup("r0", ("r0",))


def test_correlations_of_responses_with_a_length():
    lengths = np.array([10.0, 20, 30, 40, np.nan])
    answers = RatingTable.from_matrix([[1], [2], [3], [4], [5]])
    by_kind = {m.dims.get("kind"): m for m in length_bias(answers, RATER, lengths)}
    assert (by_kind["pearson"].value, by_kind["pearson"].n) == (pytest.approx(1), 4)
    assert by_kind["spearman"].coverage == 4 / 5
    # one point per 10 characters
    assert by_kind[None].value == pytest.approx(10)
    assert by_kind[None].reason == "no interval: fewer than 5 items (4)"


def test_the_slope_and_its_interval_by_hand():
    # x = 100 … 500, y = 1, 2, 2, 4, 3: Sxx = 100,000, Sxy = 600, slope 0.006, intercept 0.6;
    # residuals -0.2, 0.2, -0.4, 1, -0.6: SSE = 1.6, s² = 1.6/3, standard error sqrt(s² / 100,000) = 0.0023094,
    # t(3) = 3.182446: 0.006 ± 0.0073496
    x, y = np.array([100.0, 200, 300, 400, 500]), np.array([1.0, 2, 2, 4, 3])
    fit = length_fit(x, y)
    assert fit is not None
    assert (fit.slope, fit.intercept) == (pytest.approx(0.006), pytest.approx(0.6))
    assert (fit.low, fit.high) == (pytest.approx(-0.0013496, abs=1e-6), pytest.approx(0.0133496, abs=1e-6))
    # at the mean, x = 300: half width t * s / sqrt(5) = 3.182446 * 0.730297 / 2.236068 = 1.03938
    middle = len(fit.x) // 2
    assert fit.x[middle] == 300
    assert fit.band_high[middle] - 2.4 == pytest.approx(1.03938, abs=1e-4)
    # at x = 500: t * s * sqrt(1/5 + 200² / 100,000) = 3.182446 * 0.730297 * 0.774597 = 1.80026
    assert fit.band_high[-1] - (0.6 + 0.006 * 500) == pytest.approx(1.80026, abs=1e-4)
    slope = next(m for m in length_bias(RatingTable.from_matrix(y[:, None]), RATER, x) if m.name == "length_slope")
    assert (slope.value, slope.n) == (pytest.approx(0.6), 5)
    assert (slope.coverage, slope.dims) == (1.0, {"group": "r0"})
    assert (slope.low, slope.high) == (pytest.approx(-0.13496, abs=1e-4), pytest.approx(1.33496, abs=1e-4))


def test_equal_lengths_have_no_slope_and_equal_scores_the_slope_0():
    answers = RatingTable.from_matrix([[1], [2], [3], [4], [5]])
    assert all(m.value is None for m in length_bias(answers, RATER, np.full(5, 7.0)))
    same = {m.name: m for m in length_bias(RatingTable.from_matrix(np.full((6, 1), 3.0)), RATER, np.arange(6.0))}
    assert same["length_bias"].value is None
    assert (same["length_bias"].n, same["length_bias"].coverage) == (6, 1.0)
    assert same["length_bias"].dims == {"group": RATER.name, "kind": "spearman"}
    assert same["length_slope"].value == 0
    assert length_fit(np.array([1.0, 2, 3]), np.array([1.0, 2, 4])) is not None
    exact = length_fit(np.arange(6.0), np.arange(6.0))
    assert exact is not None
    assert (exact.slope, exact.low, len(exact.x)) == (pytest.approx(1), None, 0)
    few = list(length_bias(RatingTable.from_matrix([[1], [2]]), RATER, np.array([1.0, 2])))
    assert {m.reason for m in few} == {"2 responses: at least 3 are needed"}
    assert [m.coverage for m in few] == [1, 1, 1]
    three = list(length_bias(RatingTable.from_matrix([[1], [2], [4]]), RATER, np.array([1.0, 2, 4])))
    assert [m.value for m in three] == pytest.approx([1, 1, 100])
    assert {m.reason for m in same.values()} == {"all responses have the same length or the same score",
                                                 "no interval: no variance"}  # fmt: skip
    equal = length_bias(RatingTable.from_matrix([[1], [2], [3]]), RATER, np.full(3, 7.0))
    assert "3 responses: at least 3 are needed" not in {m.reason for m in equal}
    half = np.array([7.0, 7, 7, 7, np.nan])
    level = {m.name: m for m in length_bias(answers, RATER, half)}["length_slope"]
    assert (level.n, level.coverage, level.dims) == (4, 4 / 5, {"group": RATER.name})
    assert level.reason == "all responses have the same length"


def test_correlations_with_the_length_are_scipys():
    x, y = np.array([100.0, 200, 300, 400, 500, 900]), np.array([1.0, 2, 2, 4, 3, 3])
    metrics = list(length_bias(RatingTable.from_matrix(y[:, None]), RATER, x))
    for metric, function in zip(metrics, (stats.pearsonr, stats.spearmanr), strict=False):
        expected = float(function(x, y).statistic)
        interval = fisher(expected, 6, kind=metric.dims["kind"])
        assert (metric.value, metric.low, metric.high) == pytest.approx((expected, interval.low, interval.high))
        assert metric.dims["group"] == "r0"
        assert metric.definition.startswith(metric.dims["kind"].capitalize())
