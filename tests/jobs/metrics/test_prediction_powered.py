"""Estimates from people's answers to a random part and a judge's to all: known values, other packages, simulations."""

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.special import stdtrit

from jobs.metrics.intervals import Units, wilson
from jobs.metrics.prediction_powered import RandomPart, combined, estimate_f1, estimate_mean
from tests.estimate_coverage import Case, cases, of_pictures, read_pictures, simulate

DATA = Path(os.environ.get("REMINE_DATA", Path(__file__).resolve().parents[3].parent / "shared" / "data"))
RATINGS = DATA / "dsg"


def part_of(rated, units=None):
    return RandomPart(np.full(len(rated), rated.mean()), units or Units.single(len(rated), "pictures"))


def bounds(interval):
    return [interval.low, interval.high]


def study(seed=0, items=400, n=80):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=items)
    judge = 0.7 * truth + 0.7 * rng.normal(size=items) + 1
    rated = np.isin(np.arange(items), rng.choice(items, n, replace=False))
    return truth, judge, rated


def test_the_mean_of_a_set_is_the_surer_the_more_of_it_people_rated():
    """Of 200 items, 120 rated leave two fifths of the variance that as many of a large set have; all leave none."""
    truth, _, rated = study(items=200, n=120)
    widths = []
    for probability in (0.6, 1e-9):
        part = RandomPart(np.full(200, probability), Units.single(200, "pictures"))
        low, high = bounds(estimate_mean(np.where(rated, truth, np.nan), None, part).interval)
        widths.append(high - low)
    assert widths[0] == pytest.approx(np.sqrt(0.4) * widths[1])


def test_people_alone_are_the_mean_with_the_correction_for_a_finite_set():
    truth, _, rated = study()
    estimate = estimate_mean(np.where(rated, truth, np.nan), None, part_of(rated))
    y = truth[rated]
    assert estimate.value == pytest.approx(y.mean())
    assert estimate.error == pytest.approx(np.sqrt(y.var(ddof=1) / 80 * (1 - 80 / 400)))
    assert estimate.interval.high is not None
    assert estimate.interval.high - estimate.value == pytest.approx(
        1.9904502102301287 * estimate.error
    )  # t, 79 degrees
    assert (estimate.factor, estimate.n, estimate.units, estimate.items, estimate.effective) == (0, 80, 80, 400, 80)


def test_the_estimate_is_that_of_ppi_plus_plus_and_of_the_regression_estimator():
    """lambda = cov / var / (1 + n / N) of PPI++ for items that people did not rate gives the same number; so does a
    least-squares line at the judge's mean over all items."""
    truth, judge, rated = study()
    estimate = estimate_mean(np.where(rated, truth, np.nan), judge, part_of(rated))
    y, f, rest = truth[rated], judge[rated], judge[~rated]
    slope = np.cov(y, f)[0, 1] / np.var(f, ddof=1)
    assert estimate.factor == pytest.approx(slope)
    assert estimate.value == pytest.approx(y.mean() + slope * (judge.mean() - f.mean()))
    scaled = slope / (1 + len(y) / len(rest))
    assert estimate.value == pytest.approx(scaled * rest.mean() + (y - scaled * f).mean())
    classical = np.var(y - slope * f, ddof=2) / len(y) * (1 - rated.mean())
    assert estimate.error**2 == pytest.approx(classical, rel=0.06)


def test_the_estimate_is_that_of_ppi_python():
    """With the same lambda, also with weights (pip install ppi-python)."""
    ppi = pytest.importorskip("ppi_py")
    truth, judge, rated = study()
    y, f, rest = truth[rated], judge[rated], judge[~rated]
    estimate = estimate_mean(np.where(rated, truth, np.nan), judge, part_of(rated))
    same = ppi.ppi_mean_pointestimate(y, f, rest, lam=estimate.factor * (1 - rated.mean()))
    assert estimate.value == pytest.approx(np.squeeze(same), abs=1e-9)
    probability = 0.1 + 0.2 * np.random.default_rng(1).random(400)
    weighted = estimate_mean(np.where(rated, truth, np.nan), judge, RandomPart(probability, Units.single(400)))
    weight = np.mean(probability[rated] ** -1.0) ** -1 / probability[rated]
    same = ppi.ppi_mean_pointestimate(y, f, judge, lam=weighted.factor, w=weight)
    assert weighted.value == pytest.approx(np.squeeze(same), abs=1e-9)


def test_a_judge_is_not_used_where_it_does_not_narrow_the_interval():
    truth, _, rated = study()
    y = np.where(rated, truth, np.nan)
    alone = estimate_mean(y, None, part_of(rated))
    for judge in (np.full(400, 3.0), -truth, np.random.default_rng(1).normal(size=400)):
        assert estimate_mean(y, judge, part_of(rated)) == alone


def test_units_of_a_cluster_count_once():
    """Three equal answers of each picture are worth one."""
    truth, judge, rated = study(items=300, n=60)
    once = estimate_mean(np.where(rated, truth, np.nan), judge, part_of(rated))
    answers, part = np.where(rated, truth, np.nan), part_of(np.repeat(rated, 3), Units(np.arange(900) // 3, "pictures"))
    clustered = estimate_mean(np.repeat(answers, 3), np.repeat(judge, 3), part)
    assert (clustered.value, clustered.error, clustered.units) == pytest.approx((once.value, once.error, 60))
    assert clustered.n == 180


def test_items_drawn_more_often_count_less():
    """Of 100 zeros a tenth is drawn, of 100 ones all: the weighted mean is one half."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0.0, 1.0], 100)
    probability = np.repeat([0.1, 1.0], 100)
    rated = np.concatenate([np.isin(np.arange(100), rng.choice(100, 10, replace=False)), np.ones(100, bool)])
    estimate = estimate_mean(
        np.where(rated, truth, np.nan), None, RandomPart(probability, Units.single(200)), is_share=True
    )
    assert estimate.value == pytest.approx(0.5)


def test_few_units_have_no_interval_and_equal_answers_a_wide_one():
    rated = np.arange(200) < 4
    few = estimate_mean(np.where(rated, 1.0, np.nan), np.arange(200.0), part_of(rated))
    assert few.interval.reason == "no interval: fewer than 5 pictures (4)"
    rated = np.arange(200) < 30
    equal = estimate_mean(np.where(rated, 0.0, np.nan), np.arange(200.0), part_of(rated), is_share=True)
    assert (equal.value, equal.interval.low) == (0, 0)
    assert equal.interval.high is not None
    assert 0.08 < equal.interval.high < 0.15
    scores = estimate_mean(np.where(rated, 3.0, np.nan), np.arange(200.0), part_of(rated))
    assert scores.interval.reason == "no interval: no variance"


def test_several_judges_are_combined_by_weights_of_other_units():
    """A judge of noise next to a good one costs little; a judge that memorized people's answers of its fold is not
    rewarded. Refused answers are the judge's mean."""
    truth, judge, rated = study()
    noise = np.random.default_rng(2).normal(size=(400, 3))
    y = np.where(rated, truth, np.nan)
    refused = np.where(np.arange(400) % 10 == 0, np.nan, judge)
    single = estimate_mean(y, judge, part_of(rated))
    several = estimate_mean(y, combined(y, np.column_stack([refused, noise]), part_of(rated)), part_of(rated))
    assert single.error < several.error < 1.15 * single.error
    assert several.effective > 1.3 * several.n
    assert combined(y, np.full((400, 2), 1.0), part_of(rated)) is None


def test_f1_is_that_of_both_and_its_interval_wilsons_of_the_jaccard_index():
    rng = np.random.default_rng(3)
    holds, claims = rng.random(500) < 0.3, rng.random(500) < 0.4
    claims = np.where(rng.random(500) < 0.7, holds, claims)
    rated = np.arange(500) % 4 == 0
    hits, either = 2.0 * (holds & claims), holds.astype(float) + claims
    of_claims, of_people = claims.astype(float), np.where(rated, holds, np.nan)
    f1 = hits[rated].sum() / either[rated].sum()
    alone = estimate_f1(of_claims, of_people, lambda linear: None, part_of(rated))
    assert alone is not None
    assert [alone.value, alone.people] == pytest.approx([f1, f1])
    positive = int((either[rated] > 0).sum())
    trials = (positive - 1) / 0.75  # a quarter of the set was rated
    jaccard = wilson(hits[rated].sum() / 2 / positive * trials, trials, z=stdtrit(124, 0.975))
    assert bounds(alone.interval) == pytest.approx([2 * j / (1 + j) for j in jaccard])
    assert alone.expected(alone.n)[1] == pytest.approx(np.diff(bounds(alone.interval))[0] / 2)
    exact_judge = estimate_f1(of_claims, of_people, lambda linear: hits - f1 * either, part_of(rated))
    assert exact_judge is not None
    assert exact_judge.value == pytest.approx(hits.sum() / either.sum(), abs=0.005)
    assert exact_judge.expected(exact_judge.n)[0] == pytest.approx(np.diff(bounds(exact_judge.interval))[0] / 2)
    assert estimate_f1(of_claims * 0, of_people * 0, lambda linear: None, part_of(rated)) is None
    right = estimate_f1(np.where(rated, holds, of_claims), of_people, lambda linear: None, part_of(rated))
    assert right is not None
    assert right.value == right.interval.high == 1
    assert 0.8 < bounds(right.interval)[0] < 0.97


def test_a_hundred_thousand_items_take_less_than_a_second():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=100_000)
    judges = truth[:, None] + rng.normal(size=(100_000, 4))
    rated = np.arange(100_000) % 50 == 0
    y = np.where(rated, truth, np.nan)
    start = time.process_time()
    estimate = estimate_mean(y, combined(y, judges, part_of(rated)), part_of(rated))
    assert time.process_time() - start < 1
    assert estimate.effective > 2 * estimate.n


EASY = [Case(), Case(judge="useless", n=30), Case(kind="share", n=30), Case(kind="rare"), Case(n=99, together=3),
        Case(drawn="uncertain"), Case(n=30, noise=4), Case(n=40, together=5),
        Case(kind="rare", drawn="uncertain"), Case(n=10, items=200), Case(n=120, items=200),
        Case(kind="share", n=120, items=200)]  # fmt: skip


def check(case, draws):
    outcome = simulate(case, draws)
    error = 3 * np.sqrt(0.05 * 0.95 / draws)
    exact = case.judge == "perfect" or case.kind == "rare"  # an interval cannot be narrower than Wilson's
    least = 0.935 if case.kind == "rare" else 0.94  # few answers decide: docs/estimates.md
    assert outcome.both >= least - error, (case, outcome)
    assert exact or outcome.both <= 0.97 + error, (case, outcome)
    assert outcome.width <= 1.0001, (case, outcome)
    if case.judge == "good" and case.kind == "score":
        assert outcome.width < 0.8, (case, outcome)


def test_intervals_contain_the_mean_and_are_not_wider_than_those_of_people_alone():
    for case in EASY:
        check(case, 200)


@pytest.mark.long
@pytest.mark.parametrize("draws", [200, pytest.param(600, marks=pytest.mark.torture)])
def test_intervals_of_all_kinds_of_studies_contain_the_mean(draws):
    for case in cases():
        check(case, draws if case.n < 1000 else draws // 3)


@pytest.mark.skipif(not RATINGS.is_dir(), reason=f"no ratings in {RATINGS}")
def test_real_ratings_are_worth_a_third_more_and_prompts_are_the_units():
    pictures = read_pictures(RATINGS)
    assert pictures.people.shape == (791, 5)
    outcome = of_pictures(pictures, 20, 300)
    assert outcome.both >= 0.91
    assert outcome.width < 0.9
    alone = replace(pictures, prompt=np.arange(791))
    assert of_pictures(alone, 100, 300).both > 0.9
    assert of_pictures(pictures, 8, 600).both > 0.9


def test_people_alone_are_a_regression_on_a_constant_with_clustered_errors():
    """By statsmodels, whose correction for few clusters and Student's t with clusters - 1 are the same."""
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(5)
    group = np.repeat(np.arange(8), 5)
    y = rng.normal(size=8)[group] + rng.normal(size=len(group))
    estimate = estimate_mean(y, None, RandomPart(np.full(len(y), 1e-9), Units(group, "prompts")))
    uncorrected = {"groups": group, "use_correction": False}
    fit = api.OLS(y, np.ones(len(y))).fit(cov_type="cluster", cov_kwds=uncorrected, use_t=True)
    assert estimate.error == pytest.approx(fit.bse[0] * np.sqrt(8 / 7), rel=1e-6)
    half = (fit.conf_int()[0, 1] - fit.params[0]) * np.sqrt(8 / 7)
    assert bounds(estimate.interval) == pytest.approx([fit.params[0] - half, fit.params[0] + half], rel=1e-6)
