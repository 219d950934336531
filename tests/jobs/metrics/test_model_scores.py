"""Scores of models: Century's tables by hand, biases that were put in, parts that are too small."""

import numpy as np
import pytest
from scipy import stats

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import ALL_EQUAL, fisher
from jobs.metrics.model_scores import (
    RaterGroup,
    average_of_shares,
    difference,
    inverted,
    length_bias,
    length_fit,
    marked,
    mean_score,
    self_preference,
    share_at_least,
    share_lowest,
    shares,
)

NAN = np.nan
# three people, then two models
TABLE = RatingTable.from_matrix(
    np.array([[1, 1, 1, 1, 2], [1, 3, 5, 4, 4], [2, 2, 4, NAN, 1], [3, NAN, 3, 5, 5]]),
    raters=["p1", "p2", "p3", "m1", "m2"],
)
PEOPLE, MODELS = RaterGroup("people", ("p1", "p2", "p3"), at_least=3), RaterGroup("models", ("m1", "m2"))
RATER = RaterGroup("r0", ("r0",))


def test_table_2_by_hand():
    # people's means: 1, 3, 8/3; the last item has two ratings only and is left out
    share = share_at_least(TABLE, PEOPLE, 3)
    assert (share.value, share.n, share.coverage) == (pytest.approx(1 / 3), 3, 3 / 4)
    anyone = share_at_least(TABLE, PEOPLE, 3, rule="any")
    assert (anyone.value, anyone.n) == (pytest.approx(2 / 3), 3)
    assert share_lowest(TABLE, PEOPLE, 1).value == pytest.approx(1 / 3)
    people_mean = mean_score(TABLE, PEOPLE)
    assert (people_mean.value, people_mean.coverage) == (pytest.approx((1 + 3 + 8 / 3) / 3), 3 / 4)
    # models: means 1.5, 4, 1, 5
    assert share_at_least(TABLE, MODELS, 4).value == 2 / 4
    assert share_lowest(TABLE, MODELS, 1).value == 1 / 4


def test_means_of_thirds_reach_their_threshold():
    # 4.3 + 4.1 + 3.6 = 12: the mean is 4, by rounding a hair below
    thirds = RatingTable.from_matrix([[4.3, 4.1, 3.6], [4.1, 4.8, 3.1]])
    group, first = RaterGroup("all", thirds.raters), np.array([True, False])
    assert share_at_least(thirds, group, 4).value == 1
    assert average_of_shares(thirds, [group], 4).value == 1
    assert difference(RatingTable.from_matrix([[4.3, 4.1, 3.6], [1.0, 1.0, 1.0]]), group, 4, first, ~first).value == 1
    assert share_lowest(RatingTable.from_matrix([[0.1, 0.1, 0.1]]), group, 0.1).value == 1  # 0.1 and a hair


def test_factual_errors_are_turned_round():
    turned = inverted(TABLE, low=1, high=5)
    assert share_at_least(turned, RaterGroup("m2", ("m2",)), 4).value == 2 / 4  # 2 and 1 become 4 and 5


def test_nobody_rated():
    share = share_at_least(TABLE, RaterGroup("nobody", ("x",)), 3)
    assert (share.value, share.status, share.reason) == (None, "missing_input", "no item has a rating of nobody")
    assert (share.n, share.coverage, share.dims["group"]) == (0, 0.0, "nobody")
    assert mean_score(TABLE, RaterGroup("few", ("p1", "p2"), at_least=3)).reason == "no item has 3 ratings of few"


def test_figure_13_averages_shares_not_scores():
    groups = [RaterGroup("m1", ("m1",)), RaterGroup("m2", ("m2",)), PEOPLE]
    # at 4 or more: m1 2 of 3, m2 2 of 4, people 0 of 3
    average = average_of_shares(TABLE, groups, 4)
    assert average.value == pytest.approx((2 / 3 + 2 / 4 + 0) / 3)
    assert (average.n, average.coverage, average.dims) == (4, 1.0, {"threshold": "4", "raters": "3"})
    alone = average_of_shares(TABLE, groups[:1], 4)
    assert (alone.value, alone.n, alone.coverage) == (pytest.approx(2 / 3), 3, 3 / 4)
    nobody = average_of_shares(TABLE, [RaterGroup("x", ("x",))], 4)
    assert (nobody.value, nobody.coverage, nobody.status) == (None, 0.0, "missing_input")
    assert nobody.dims == {"threshold": "4", "raters": "1"}


def test_parts_under_the_minimum_are_marked():
    parts = (TABLE.of_items(np.array(members, bool)) for members in ([1, 1, 0, 0], [0, 0, 1, 1]))
    results = [marked(metric, 3) for part in parts for metric in shares(part, [MODELS], 4, averaged=[MODELS])]
    assert [(f.value, f.n) for f in results] == [(1 / 2, 2), (1 / 2, 2)]
    assert all(f.reason == "fewer than 3: interpret with caution" for f in results)
    (whole,) = shares(TABLE, [MODELS], 4, averaged=[MODELS])
    assert (whole.name, marked(whole, 3).reason) == ("share_at_least", None)
    assert marked(whole, 4).reason is None  # as many as the minimum


def test_the_average_of_a_part_is_that_of_the_groups_that_are_named():
    groups = [MODELS, RaterGroup("m1", ("m1",))]
    for averaged in (groups, [RaterGroup("m1", ("m1",)), RaterGroup("m2", ("m2",))]):
        results = shares(TABLE, groups, 4, averaged=averaged)
        assert [f.name for f in results] == ["share_at_least", "share_at_least", "average_of_shares"]
        # at 4 or more: models 2 of 4, m1 2 of 3, m2 2 of 4
        assert results[-1].value == pytest.approx((2 / 4 + 2 / 3) / 2)
    alone = shares(TABLE, groups, 4, averaged=[PEOPLE])
    assert [f.name for f in alone] == ["share_at_least", "share_at_least"]


def preference_of(scores, is_family, *, neutral=None):
    """Return the self-preference of the first rater, whom the others, without a stake in `neutral`, are compared to."""
    answers = RatingTable.from_matrix(np.stack(scores, 1), raters=[f"r{n}" for n in range(len(scores))])
    others = [RaterGroup(name, (name,)) for name in answers.raters[1:]]
    written = np.ones(len(is_family), bool)
    chosen = {other.name: written for other in others} | (neutral or {})
    return self_preference(answers, "r0", others, own_family=is_family, written=written, neutral=chosen)


def test_self_preference_is_what_was_put_in():
    # the judge scores its family's responses 1 higher than the others do, who are strict by 0, 2 and lenient by 1
    is_family = np.arange(100) % 2 == 0
    base = np.random.default_rng(0).integers(1, 5, 100).astype(float)
    strict = np.where(np.arange(100) % 7 == 0, NAN, base - 2)  # and does not score all responses
    preference = preference_of([base + is_family, base, strict, base + 1], is_family)
    assert preference.value == pytest.approx(1)
    # the gap is the same in every response: no resample differs, which gives no interval rather than one of width 0
    assert (preference.n, preference.coverage, preference.low, preference.reason) == (100, 1.0, None, ALL_EQUAL)
    for family, name in ((np.zeros(100, bool), "its family"), (np.ones(100, bool), "other families")):
        unknown = preference_of([base + is_family, base], family)
        assert (unknown.value, unknown.n, unknown.coverage, unknown.dims) == (None, 0, 0.0, {"rater": "r0"})
        assert unknown.reason == f"the judge scored no response of {name}"


def test_self_preference_leaves_out_responses_in_which_the_other_rater_has_a_stake():
    writer = np.arange(90) % 3  # 0: the judge's family; 1: the second rater's; 2: the third rater's
    base = np.tile([1.0, 2, 3], 30)
    scores = [base + (writer == 0), base + 4 * (writer == 1), base + 4 * (writer == 2)]
    preference = preference_of(scores, writer == 0, neutral={"r1": writer != 1, "r2": writer != 2})
    assert (preference.value, preference.n, preference.coverage) == (pytest.approx(1), 90, 1.0)
    alone = preference_of(scores[:2], writer == 0, neutral={"r1": writer != 1})
    assert (alone.value, alone.n, alone.coverage) == (pytest.approx(1), 60, 2 / 3)
    without = preference_of(scores[:2], writer != 1, neutral={"r1": writer != 1})
    assert without.value is None


def test_self_preference_rests_on_the_smaller_side():
    is_family = np.arange(40) < 4
    preference = preference_of([1.0 + np.arange(40) % 4, 1.0 + np.arange(40) % 3], is_family)
    assert preference.value is not None
    assert preference.low is None
    assert preference.reason == "no interval: fewer than 5 items with responses of its family (4)"


def test_self_preference_is_unbiased_and_its_interval_contains_the_truth():
    """Three families that all write and judge, with planted preferences, strictness and noise."""
    draw, planted = np.random.default_rng(7), np.array([0.6, 0.0, 0.3])
    writer = np.arange(240) % 3
    estimates, covered = [], []
    for _ in range(60):
        quality = draw.normal(3, 1, 240)
        scores = [
            quality + strict + prefers * (writer == judge) + draw.normal(0, 0.7, 240)
            for judge, (strict, prefers) in enumerate(zip((0.5, -1.0, 0.0), planted, strict=True))
        ]
        of_first = preference_of(scores, writer == 0, neutral={"r1": writer != 1, "r2": writer != 2})
        fair = preference_of(
            [scores[1], scores[0], scores[2]], writer == 1, neutral={"r1": writer != 0, "r2": writer != 2}
        )
        estimates.append((of_first.value, fair.value))
        covered += [of_first.low <= 0.6 <= of_first.high, fair.low <= 0 <= fair.high]
    assert np.mean(estimates, axis=0) == pytest.approx([0.6, 0.0], abs=0.05)
    assert np.mean(covered) >= 0.88


def test_the_difference_of_two_conditions():
    # 56 of 70 against 48 of 80: Newcombe (1998), table II, method 10: 0.2000, 0.0524 to 0.3339
    first = np.arange(150) < 70
    scores = np.where(first, np.where(np.arange(150) < 56, 4, 3), np.where(np.arange(150) < 118, 4, 3))
    answers = RatingTable.from_matrix(scores[:, None])
    metric = difference(answers, RaterGroup("r0", ("r0",)), 4, first, ~first)
    assert (metric.value, metric.n) == (pytest.approx(0.2), 150)
    assert (metric.low, metric.high) == (pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4))
    assert metric.dims == {"group": "r0", "threshold": "4"}
    none = difference(answers, RaterGroup("r0", ("r0",)), 4, first, first & ~first)
    assert (none.value, none.coverage, none.dims, none.status) == (None, 1.0, metric.dims, "missing_input")
    half = difference(TABLE, RaterGroup("m1", ("m1",)), 4, np.arange(4) < 1, np.arange(4) > 1)
    assert (half.value, half.n, half.coverage) == (-1, 2, 2 / 3)  # 1 against 5; m1 did not rate the third
    assert difference(answers, RaterGroup("r0", ("r0",)), None, first, ~first).reason == "no threshold is on the scale"


def test_a_mark_keeps_the_reason_for_having_no_interval():
    few = mean_score(RatingTable.from_matrix([[1], [2]]), RaterGroup("r0", ("r0",)))
    assert str(few.reason) in str(marked(few, 30).reason)
    assert "fewer than 30" in str(marked(few, 30).reason)


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
