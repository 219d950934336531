"""Intervals: against scipy and by hand, and the rule when there is none."""

from collections import Counter
from math import atanh, sqrt, tanh

import numpy as np
import pytest
from scipy.stats import binomtest, pearsonr
from scipy.stats import bootstrap as scipy_bootstrap

from jobs.metrics import agreement, correlation, dsg, gold, ranking, rated_question, reliability, spans, suite
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import (
    BLOCKS,
    DESIGN_EFFECT,
    FISHER,
    MIN_UNITS,
    NEWCOMBE,
    OF_F1,
    WILSON,
    Interval,
    Units,
    block_sums,
    bootstrap,
    bootstrap_blocks,
    estimate,
    fisher,
    ratio,
    wilson,
)
from jobs.metrics.metric import Metric
from tests.cases import check_cases

NAN = np.nan
SCORE_INTERVALS = {
    WILSON,
    OF_F1.format(WILSON),
    NEWCOMBE,
    *(DESIGN_EFFECT.format(units=units) for units in ("items", "raters")),
}  # of any n from 1 on


def means(sample):
    return np.stack([sample, np.ones(len(sample))], 1)


def test_the_bootstrap_is_scipys_within_its_noise():
    sample = np.random.default_rng(0).normal(3, 2, 200)
    mine = bootstrap(means(sample), ratio)
    theirs = scipy_bootstrap((sample,), np.mean, method="percentile", rng=1, n_resamples=5000).confidence_interval
    assert (mine.low, mine.high) == pytest.approx((theirs.low, theirs.high), abs=0.06)


def test_blocks_keep_the_sum_and_the_width():
    sample = np.random.default_rng(1).normal(3, 2, 50 * BLOCKS)
    sums = block_sums(means(sample))
    assert sums.shape == (BLOCKS, 2)
    assert sums.sum(0) == pytest.approx([sample.sum(), len(sample)])
    interval = bootstrap(means(sample), ratio)
    assert interval.low is not None
    assert interval.high is not None
    # 2 x 1.96 x 2 / sqrt(50,000) = 0.0351
    assert interval.high - interval.low == pytest.approx(0.0351, rel=0.15)


def test_fisher_is_scipys_and_wilson_is_known():
    draw = np.random.default_rng(2)
    x = draw.normal(size=40)
    y = x + draw.normal(size=40)
    correlation = pearsonr(x, y)
    interval, mine = correlation.confidence_interval(0.95), fisher(correlation.statistic, 40)
    assert (mine.low, mine.high) == pytest.approx((interval.low, interval.high))
    assert wilson(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert wilson(10, 10)[1] == 1


def test_wilsons_interval_is_scipys():
    for count, n in ((0, 1), (1, 1), (1, 3), (7, 20), (199, 200)):
        theirs = binomtest(count, n).proportion_ci(0.95, method="wilson")
        assert wilson(count, n) == pytest.approx((theirs.low, theirs.high))
    assert wilson(7, 20, z=1.0) == pytest.approx(tuple(binomtest(7, 20).proportion_ci(0.6826894921370859, "wilson")))
    for count, n in ((-1, 3), (4, 3), (0, 0)):
        with pytest.raises(ValueError, match=f"count={count}, n={n}"):
            wilson(count, n)


def test_t_intervals_end_at_their_bounds_and_reasons_name_the_units():
    interval = estimate(0.5, 0.1, units=5, unit_name="raters", method="m")
    assert (interval.low, interval.high) == pytest.approx((0.5 - 0.2776445, 0.5 + 0.2776445))
    clipped = estimate(0.95, 0.1, units=5, unit_name="raters", method="m", bounds=(0.8, 1.0))
    assert (clipped.low, clipped.high) == (0.8, 1.0)
    reasons = [
        estimate(0.5, 0.1, units=4, unit_name="raters", method="m"),
        fisher(0.5, 3), fisher(0.5, 3, unit_name="targets"),
        bootstrap(means(np.arange(4.0)), ratio), bootstrap(means(np.arange(50.0)), ratio, fewest=2, unit_name="texts"),
    ]  # fmt: skip
    assert [interval.reason for interval in reasons] == [
        f"no interval: fewer than 5 {units}" for units in ("raters (4)", "pairs (3)", "targets (3)", "items (4)",
                                                           "texts (2)")
    ]  # fmt: skip


def test_sums_by_unit():
    rows = np.array([[1.0, 10], [2, 20], [4, 40], [8, 80]])
    units = Units(np.array([7, 3, 7, 5]))
    assert units.sums(rows).tolist() == [[2, 20], [8, 80], [5, 50]]
    assert (units.count, units.are_rows, units.of(np.array([1, 3])).are_rows) == (3, False, True)
    assert Units.single(0).sums(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize(
    ("kind", "error"),
    # z = atanh(0.6) = 0.693147; 1/sqrt(47); sqrt(1.18/47); sqrt(0.437/46)
    [("pearson", 1 / sqrt(47)), ("spearman", sqrt(1.18 / 47)), ("kendall", sqrt(0.437 / 46))],
)
def test_each_correlation_has_its_own_standard_error_and_names_it(kind, error):
    interval = fisher(0.6, 50, kind=kind)
    expected = [tanh(atanh(0.6) + side * 1.959963985 * error) for side in (-1, 1)]
    assert [interval.low, interval.high] == pytest.approx(expected, abs=1e-9)
    assert interval.method == FISHER[kind]
    assert len(set(FISHER.values())) == 3


def test_one_rule_for_the_number_of_units():
    def check(n):
        sample = np.arange(n, dtype=float)
        created: list[Interval | Metric] = [
            bootstrap(means(sample), ratio),
            bootstrap(means(np.arange(50.0)), ratio, fewest=n),
            estimate(0.5, 0.1, units=n, unit_name="raters", method="m"),
            *(fisher(0.3, n, kind=kind) for kind in FISHER),
            ranking.mrr(np.arange(1, n + 1)),
        ]
        for interval in created:
            assert (interval.low is None) == (interval.high is None) == (interval.reason is not None) == (n < MIN_UNITS)

    check_cases(check, range(1, MIN_UNITS + 2))


@pytest.mark.parametrize(("rated", "present"), [(2, False), (3, True)])
def test_no_interval_where_many_resamples_are_undefined(rated, present):
    """A ratio whose denominator is 0 unless one of `rated` in 10 items is drawn: 0.8^10 = 10.7 %, 0.7^10 = 2.8 %."""
    under = np.arange(10) < rated
    interval = bootstrap(np.stack([under * np.arange(10.0), under], 1), ratio)
    assert (interval.low is not None) == present
    assert (interval.reason is None) == present


def test_the_share_of_undefined_resamples_that_is_allowed():
    values = np.concatenate([np.full(50, NAN), np.linspace(0, 1, 950)])
    sums = np.ones((9, 1))
    assert bootstrap_blocks(sums, lambda _: values, units=9, unit_name="items").method
    values[50] = NAN
    undefined = bootstrap_blocks(sums, lambda _: values, units=9, unit_name="items")
    assert undefined.low is None
    assert "5%" in (undefined.reason or "")


def test_resamples_that_are_all_equal_are_no_interval():
    same = np.stack([np.full(50, 0.1), np.ones(50)], 1)
    assert bootstrap(same, ratio).low is None
    same[0, 0] = 0.2
    assert bootstrap(same, ratio).low is not None
    assert estimate(0.1, 0.0, units=50, unit_name="items", method="m").low is None


def test_a_correlation_of_one_has_no_interval():
    assert fisher(1.0, 20).reason
    assert fisher(-1.0, 20).reason


def test_an_interval_or_a_reason():
    cases = [{}, {"low": 0.0, "high": 1.0}, {"low": 0.0, "high": 1.0, "method": "m", "reason": "r"}, {"method": "m"}]

    def check(wrong):
        with pytest.raises(ValueError, match="reason"):
            Interval(**wrong)

    check_cases(check, cases)


def metrics_of(items):
    """Return the metrics of a question, of four raters and gold, that are based on few items."""
    draw = np.random.default_rng(4)
    truth = draw.integers(1, 6, (items, 1))
    matrix = np.clip(truth + draw.integers(-1, 2, (items, 4)), 1, 5).astype(float)
    half = np.arange(items) % 2 == 0
    context = rated_question.QuestionContext(
        kinds={"p1": "human", "p2": "human"},
        picture=np.arange(items),
        target=np.arange(items) % 2,
        scale=(1, 5),
        subgroups={"region": {"East": half, "West": ~half}},
        families={"m1": "a", "m2": "b"},
        authors={"a": half, "b": ~half},
        lengths=draw.integers(10, 90, items).astype(float),
        right=draw.random(items) < 0.5,
        judged=np.ones(items, bool),
    )
    settings = rated_question.MetricSettings(disaggregate=["region"], compare=["region"], contrast=["region:East-West"])
    raters = ["p1", "p2", "m1", "m2"]
    answers, ended = RatingTable.from_matrix(matrix, raters=raters), {r: Counter(ok=items) for r in raters}
    yield from suite.question_metrics(rated_question.RatedQuestion(answers, context, settings, ended=ended))
    words = RatingTable.from_matrix(matrix % 2, raters=raters)
    yield from agreement.agreement(words)
    yield from gold.classification(matrix[:, 0] > 2, matrix[:, 1] > 2, np.arange(items), np.zeros(items, np.int64))
    yield from gold.welch(matrix[:, 0], matrix[:, 1])
    yield from correlation.against_single_raters(matrix[:, 0], matrix[:, 1:])
    yield from reliability.icc(RatingTable.from_matrix(matrix))
    marks: spans.Spans = {str(i): [(i, i + 3)] for i in range(items)}
    gold_marks: spans.Spans = {str(i): [(2, 5)] for i in range(items)}
    yield from spans.against_gold(marks, gold_marks)
    pictures = {str(i): [dsg.DsgQuestion("1", answer=("yes", "no")[i % 2])] for i in range(items)}
    yield from dsg.dsg_metrics(pictures, {str(i): float(i) for i in range(items)})
    yield ranking.mrr(np.arange(items))


@pytest.mark.parametrize("items", range(1, MIN_UNITS))
def test_no_metric_of_few_items_has_another_interval_than_that_of_a_proportion(items):
    results = list(metrics_of(items))
    assert any(metric.interval_method == WILSON for metric in results)
    for metric in results:
        assert metric.interval_method is None or metric.interval_method in SCORE_INTERVALS, metric
        assert metric.interval_method or metric.reason, metric


def test_enough_items_have_every_interval():
    """So that the test above does not pass because there is nothing to refuse."""
    methods = {metric.interval_method for metric in metrics_of(40)}
    assert len(methods) >= 9
    assert methods >= {*FISHER.values(), WILSON, NEWCOMBE, reliability.F_INTERVAL, gold.WELCH_T}


def test_alpha_of_two_items_has_a_reason_and_no_bound_at_the_estimate():
    two = agreement.krippendorff_alpha(RatingTable.from_matrix([[1, 1, 2], [4, 5, 5]]), "interval")
    assert two.value is not None
    assert (two.low, two.high, two.interval_method) == (None, None, None)
    assert str(MIN_UNITS) in str(two.reason)
