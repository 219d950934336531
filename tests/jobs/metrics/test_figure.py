"""What a figure may be, its row in the table, and intervals."""

import json

import numpy as np
import pytest
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import pearsonr

from jobs.metrics.figure import Figure, estimated, figures_table, undefined
from jobs.metrics.intervals import BLOCKS, block_sums, bootstrap, fisher, ratio, wilson
from jobs.tables import TableError


def test_a_row_of_the_table():
    made = estimated("share", "one sentence", 0.5, 4, coverage=0.8, interval=(0.2, 0.8), method="wilson 95%")
    (row,) = figures_table([made.at(rater="é", question="q")]).to_pylist()
    assert row["dims"] == '{"question":"q","rater":"é"}'
    assert (row["value"], row["low"], row["high"], row["n"], row["coverage"]) == (0.5, 0.2, 0.8, 4, 0.8)
    assert (row["status"], row["reason"], row["interval_method"]) == ("ok", None, "wilson 95%")


def test_an_undefined_figure_has_a_status_and_a_reason():
    (row,) = figures_table([undefined("alpha", "d", "one rater", n=3, dims={"level": "nominal"})]).to_pylist()
    assert (row["value"], row["status"], row["reason"]) == (None, "skipped", "one rater")
    assert json.loads(row["dims"]) == {"level": "nominal"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": None},
        {"value": None, "status": "skipped"},
        {"value": 1.0, "status": "skipped", "reason": "r"},
        {"value": float("nan")},
        {"value": 1.0, "low": 0.0},
        {"value": 1.0},
        {"value": 1.0, "low": 0.0, "high": float("inf"), "interval_method": "m"},
    ],
)
def test_what_no_figure_may_be(wrong):
    with pytest.raises(ValueError, match="m"):
        Figure(metric="m", definition="d", n=1, **wrong)


def test_two_figures_of_one_name_are_refused():
    with pytest.raises(TableError, match="duplicate"):
        figures_table([undefined("m", "d", "r"), undefined("m", "d", "r")])


def test_resamples_that_are_all_equal_are_no_interval():
    same = np.stack([np.full(50, 0.1), np.ones(50)], 1)
    assert bootstrap(block_sums(same), ratio) is None
    same[0, 0] = 0.2
    assert bootstrap(block_sums(same), ratio) is not None


def test_own_dims_win():
    assert undefined("m", "d", "r", dims={"rater": "a"}).at(rater="b", x="y").dims == {"rater": "a", "x": "y"}


def test_the_bootstrap_is_scipys_within_its_noise():
    sample = np.random.default_rng(0).normal(3, 2, 200)
    mine = bootstrap(block_sums(np.stack([sample, np.ones(200)], 1)), ratio)
    theirs = scipy_bootstrap((sample,), np.mean, method="percentile", rng=1, n_resamples=5000).confidence_interval
    assert mine == pytest.approx((theirs.low, theirs.high), abs=0.06)


def test_blocks_keep_the_sum_and_the_width():
    sample = np.random.default_rng(1).normal(3, 2, 50 * BLOCKS)
    sums = block_sums(np.stack([sample, np.ones(len(sample))], 1))
    assert sums.shape == (BLOCKS, 2)
    assert sums.sum(0) == pytest.approx([sample.sum(), len(sample)])
    found = bootstrap(sums, ratio)
    assert found is not None
    # 2 x 1.96 x 2 / sqrt(50,000) = 0.0351
    assert found[1] - found[0] == pytest.approx(0.0351, rel=0.15)


def test_no_interval_where_there_is_none():
    assert bootstrap(np.ones((1, 2)), ratio) is None
    assert bootstrap(np.zeros((5, 2)), ratio) is None
    assert fisher(1.0, 20) is None
    assert fisher(0.3, 3) is None


def test_fisher_is_scipys_and_wilson_is_known():
    draw = np.random.default_rng(2)
    x = draw.normal(size=40)
    y = x + draw.normal(size=40)
    found = pearsonr(x, y)
    interval = found.confidence_interval(0.95)
    assert fisher(found.statistic, 40) == pytest.approx((interval.low, interval.high))
    assert wilson(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert wilson(10, 10)[1] == 1
