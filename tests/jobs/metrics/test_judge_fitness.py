"""A judge against the agreement among people, and the alternative annotator test by a plain loop."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import Units
from jobs.metrics.judge_fitness import COST, fitness, worst_subgroup


def study(noise, *, items=120, raters=5, seed=0):
    """Return a judge and people, whose noise is 1, about the same items."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=items)
    people = truth[:, None] + rng.normal(size=(items, raters))
    people[rng.random(people.shape) < 0.2] = np.nan
    judge = truth + noise * rng.normal(size=items)
    return RatingTable.from_matrix(judge[:, None], raters=["m"]), RatingTable.from_matrix(people)


def by_name(judge, people):
    return {metric.name: metric for metric in fitness(judge, people)}


def test_a_judge_like_another_person_reaches_people_s_agreement():
    for noise, low, high in ((1.0, 0.85, 1.15), (0.2, 1.15, 1.6), (4.0, 0.1, 0.6)):
        reached = by_name(*study(noise, items=600))["reliability_reached"]
        assert low < reached.value < high, noise
        assert reached.low <= reached.value <= reached.high


def test_the_share_is_that_of_correlations_over_all_pairs():
    judge, people = study(1.0, items=40)
    f, h = judge.matrix()[:, 0], people.matrix()
    pairs = [(h[i, j], h[i, k], 1 / ((~np.isnan(h[i])).sum() - 1)) for i in range(40) for j in range(5)
             for k in range(5) if j != k and not np.isnan(h[i, j] + h[i, k])]  # fmt: skip
    x, y, weight = np.array(pairs).T
    cov = np.cov(x, y, aweights=weight, ddof=0)
    of_people = cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1])
    rated = [(f[i], h[i, j]) for i in range(40) for j in range(5)
             if not np.isnan(h[i, j]) and (~np.isnan(h[i])).sum() > 1]  # fmt: skip
    of_judge = np.corrcoef(np.array(rated).T)[0, 1]
    assert by_name(judge, people)["reliability_reached"].value == pytest.approx(of_judge / of_people)


@pytest.mark.parametrize("noise", [0.5, 1.5, 3.0])
def test_the_alternative_annotator_test_is_that_of_a_plain_loop(noise):
    judge, people = study(noise)
    f, h = judge.matrix()[:, 0], people.matrix()
    shares, p_values = [], []
    for j in range(5):
        judge_wins, person_wins = [], []
        for i in range(len(f)):
            others = [h[i, k] for k in range(5) if k != j and not np.isnan(h[i, k])]
            if np.isnan(h[i, j]) or not others:
                continue
            of_judge, of_person = (-np.sqrt(np.mean([(a - b) ** 2 for b in others])) for a in (f[i], h[i, j]))
            judge_wins.append(of_judge >= of_person)
            person_wins.append(of_person >= of_judge)
        difference = np.array(person_wins, float) - np.array(judge_wins, float)
        shares.append(np.mean(judge_wins))
        p_values.append(stats.ttest_1samp(difference, COST, alternative="less").pvalue)
    wins = stats.false_discovery_control(p_values, method="by") < 0.05
    metrics = by_name(judge, people)
    assert metrics["winning_rate"].value == pytest.approx(wins.mean())
    assert metrics["winning_rate"].n == 5
    assert metrics["advantage_probability"].value == pytest.approx(np.mean(shares))


def test_equal_ratings_of_one_picture_count_once():
    """Ten people's ratings of 60 pictures; each picture asked about three targets, with equal answers."""
    judge, people = study(0.9, items=60, raters=10, seed=5)
    once = by_name(judge, people)["winning_rate"]
    units = Units(np.arange(180) // 3, "pictures")
    tripled = [replace(RatingTable.from_matrix(np.repeat(table.matrix(), 3, axis=0)), units_of_items=units)
               for table in (judge, people)]  # fmt: skip
    assert by_name(*tripled)["winning_rate"].value == once.value
    alone = [replace(table, units_of_items=None) for table in tripled]
    assert by_name(*alone)["winning_rate"].value > once.value


def test_categories_compare_shares_of_equal_answers():
    answers = np.array([[0, 0, 0], [1, 1, 0], [1, 1, 1], [0, 1, 1], [2, 2, 2], [0, 0, 0]])
    item, rater = np.divmod(np.arange(18), 3)
    people = RatingTable(
        item, rater, answers.ravel(), np.full(18, np.nan), 6, tuple("abc"), tuple("xyz"), np.full(3, 6)
    )
    judge = RatingTable(np.arange(6), np.zeros(6, int), np.array([0, 1, 1, 1, 2, 1]), np.full(6, np.nan), 6, ("m",),
                        tuple("xyz"), np.full(1, 6))  # fmt: skip
    metrics = by_name(judge, people)
    equal = np.mean([[answers[i, j] == v for j in range(3)] for i, v in enumerate([0, 1, 1, 1, 2, 1])])
    between = np.mean([answers[i, j] == answers[i, k] for i in range(6) for j in range(3) for k in range(3) if j != k])
    assert metrics["reliability_reached"].value == pytest.approx(equal / between)
    assert metrics["winning_rate"].reason == "nobody rated 30 items that others and the judge rated; the most are 6"


def test_one_person_has_no_agreement_to_reach():
    judge, people = study(1.0, raters=1)
    assert [m.reason for m in fitness(judge, people)] == ["no item has ratings by the judge and by two people"]


def test_the_worst_subgroup_is_that_with_the_largest_distance():
    rng = np.random.default_rng(0)
    people, east = rng.normal(size=100), np.arange(100) < 50
    judge = people + np.where(east, 0.1, 1.0) * rng.normal(size=100)
    parts = {"region": {"East": east, "West": ~east}, "rare": {"x": np.arange(100) < 3, "y": np.arange(100) > 3}}
    region, rare = worst_subgroup(judge, people, parts, Units.single(100), minimum=30, scored=True)
    assert region.dims["part"] == "West"
    assert region.value == pytest.approx(np.abs(judge - people)[50:].mean())
    assert rare.reason == "fewer than two subgroups have 30 items that the judge and people rated"
