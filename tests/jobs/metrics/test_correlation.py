"""CAIRE's correlations: what scipy gives, and the two averages by hand."""

import numpy as np
import pytest
from scipy import stats

from jobs.metrics.correlation import against_single_raters, concept_average, correlations, global_average, within
from jobs.metrics.intervals import fisher, student

NAN, NOTHING = np.nan, np.zeros(0)


def inside(metric):
    """Return whether the value is inside its interval."""
    return metric.low < metric.value < metric.high


def test_correlations_are_scipys():
    draw = np.random.default_rng(0)
    x = draw.integers(1, 6, 60).astype(float)
    y = x + draw.normal(size=60)
    by_key = {f.name: f for f in correlations(x, y, asked=80)}
    for kind, function in (("pearson", stats.pearsonr), ("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        metric = by_key[f"{kind}_with_people"]
        assert metric.value == pytest.approx(function(x, y).statistic)
        assert (metric.n, metric.coverage) == (60, 0.75)
        assert inside(metric)
        interval = fisher(function(x, y).statistic, 60, kind=kind)
        assert (metric.low, metric.high) == pytest.approx((interval.low, interval.high))


def test_the_interval_over_groups_by_hand():
    # five images with r = 1, 1, 1, 1 and 0.5: mean 0.9, s = sqrt((4 * 0.1² + 0.4²) / 4), s / sqrt(5) = 0.1
    model, people = np.tile([1.0, 2, 3], 5), np.array([1.0, 2, 3] * 4 + [1, 3, 2])
    metric = within(model, people, np.repeat(np.arange(5), 3), group_name="image")
    assert metric.value == pytest.approx(0.9)
    assert (metric.low, metric.high) == (pytest.approx(0.9 - 0.1 * student(5)), 1)


def test_perfect_reversed_and_undefined():
    x = np.array([1.0, 2, 3, 4])
    assert [f.value for f in correlations(x, -x)] == pytest.approx([-1, -1, -1])
    flat = list(correlations(x, np.full(4, 3.0), asked=5))
    assert all(f.value is None and f.reason == "no variance in people’s scores" for f in flat)
    assert {(f.n, f.coverage) for f in flat} == {(4, 4 / 5)}
    level = list(correlations(np.full(4, 3.0), x))
    assert {(f.value, f.reason) for f in level} == {(None, "no variance in the model’s scores")}
    assert all(f.value is not None for f in correlations(x[:3], x[:3]))
    assert all("at least 3" in str(f.reason) for f in correlations(x[:2], x[:2]))


def test_images_are_correlated_one_by_one():
    # image 0: 1 with people; image 1: -1; image 2: no variance, left out
    model = np.array([1.0, 2, 3, 3, 2, 1, 2, 2, 2])
    people = np.array([1.0, 2, 3, 1, 2, 3, 1, 2, 3])
    correlation = within(model, people, np.repeat([0, 1, 2], 3), group_name="image")
    assert (correlation.value, correlation.n, correlation.coverage) == (pytest.approx(0), 2, pytest.approx(2 / 3))
    nothing = within(model[6:], people[6:], np.zeros(3, int), group_name="image")
    assert (nothing.value, nothing.n, nothing.coverage) == (None, 0, 0.0)


def test_reasons_and_definitions_name_the_units():
    x = np.array([1.0, 2, 3, 2, 1, 3])
    target = np.array([0, 1, 2] * 2)
    cases = {
        "pairs (3)": next(iter(correlations(x[:3], x[:3]))),
        "images (2)": within(x, x, np.repeat([0, 1], 3), group_name="image"),
        "concept and targets (1)": within(x[:3], x[:3], np.zeros(3, int), group_name="concept and target"),
        "concepts (1)": concept_average(x, x, np.zeros(6, int), target),
        "targets (3)": global_average(x, x, target),
        "raters (1)": next(iter(against_single_raters(x, x[:, None]))),
        "items (4)": list(against_single_raters(x[:4], x[:4, None]))[-1],
    }
    assert {units: metric.reason for units, metric in cases.items()} == {
        units: f"no interval: fewer than 5 {units}" for units in cases
    }
    of_both = cases["concept and targets (1)"]
    assert of_both.name == "pearson_by_concept_and_target"
    assert "within each concept and target, averaged" in of_both.definition
    assert of_both.definition.endswith("countries); n counts the concept and targets averaged over.")
    by_name = {metric.name: metric for metric in against_single_raters(x, x[:, None])}
    assert by_name["rater_correlation_sd"].reason == "fewer than two raters"
    assert by_name["rater_correlation_max"].reason == "no interval: a description of these raters, not an estimate"
    few = within(x[:2], x[:2], np.zeros(2, int), group_name="image")
    assert (few.reason, few.coverage) == ("no image has 3 pairs and variance of both scores", 0)


def test_averages_first_then_correlates():
    # two images of one concept in three countries: alone each correlates badly, their means go along entirely
    model = np.array([1.0, 5, 3, 3, 1, 5])  # means 2, 3, 4
    people = np.array([2.0, 2, 2, 2, 4, 6])  # means 2, 3, 4
    target = np.tile([0, 1, 2], 2)
    assert abs(within(model[3:], people[3:], np.zeros(3, int), group_name="image").value or 1) < 0.6
    assert concept_average(model, people, np.zeros(6, int), target).value == pytest.approx(1)
    assert global_average(model, people, target).value == pytest.approx(1)
    # a second concept that is reversed: the mean over concepts is 0
    both = concept_average(
        np.concatenate([model, [1.0, 2, 3]]),
        np.concatenate([people, [3.0, 2, 1]]),
        np.array([0] * 6 + [1] * 3),
        np.concatenate([target, [0, 1, 2]]),
    )
    assert (both.value, both.n, both.coverage) == (pytest.approx(0), 2, 1)
    # and a third of two targets, which is left out
    few = concept_average(
        np.concatenate([model, [1.0, 2]]),
        np.concatenate([people, [3.0, 2]]),
        np.array([0] * 6 + [1] * 2),
        np.concatenate([target, [0, 1]]),
    )
    assert (few.n, few.coverage) == (1, 6 / 8)
    assert concept_average(model, people, np.zeros(6, int), target, asked=12).coverage == 1 / 2
    by_image = within(model[:5], people[:5], np.array([0, 0, 0, 1, 1]), group_name="image", asked=8)
    assert (by_image.value, by_image.coverage) == (None, 0)  # people's scores of one do not vary, the other has two
    by_image = within(model[1:], people[1:], np.array([0, 0, 1, 1, 1]), group_name="image", asked=8)
    assert (by_image.n, by_image.coverage) == (1, 3 / 8)
    assert global_average(model, people, target, asked=8).coverage == 6 / 8
    # Targets with 2, 1 and 3 pictures: the means are 2, 3, 5 and 3, 2, 4.
    unequal = np.array([1.0, 3, 3, 4, 5, 6]), np.array([2.0, 4, 2, 3, 4, 5]), np.array([0, 0, 1, 2, 2, 2])
    expected = stats.pearsonr([2, 3, 5], [3, 2, 4]).statistic
    assert global_average(*unequal).value == pytest.approx(expected)
    assert concept_average(*unequal[:2], np.full(6, 7), unequal[2]).value == pytest.approx(expected)
    assert concept_average(NOTHING, NOTHING, NOTHING.astype(int), NOTHING.astype(int)).coverage is None
    over_all = global_average(model, people, target, asked=8)
    assert (over_all.n, over_all.coverage, global_average(model, people, target).coverage) == (3, 6 / 8, None)
    few_targets = global_average(model[:2], people[:2], target[:2], asked=4)
    assert (few_targets.value, few_targets.n, few_targets.coverage) == (None, 2, 2 / 4)


def test_one_by_one_statistics():
    model = np.array([1.0, 2, 3, 4, NAN])
    ratings = np.array([[1, 4, NAN], [2, 3, NAN], [3, 2, 1], [4, 1, 1], [5, 5, 5]], float)
    by_key = {f.name: f for f in against_single_raters(model, ratings)}
    # the first goes along, the second against, the third has too few
    assert by_key["rater_correlation_mean"].value == pytest.approx(0)
    assert by_key["rater_correlation_max"].value == pytest.approx(1)
    assert by_key["rater_correlation_min"].value == pytest.approx(-1)
    assert by_key["rater_correlation_median"].value == pytest.approx(0)
    assert by_key["rater_correlation_sd"].value == pytest.approx(2**0.5)
    assert {by_key[f"rater_correlation_{name}"].coverage for name in ("max", "min", "median", "sd")} == {2 / 3}
    assert (by_key["rater_correlation_mean"].n, by_key["rater_correlation_mean"].coverage) == (2, pytest.approx(2 / 3))
    # averages 2.5, 2.5, 2, 2
    expected = stats.pearsonr([1, 2, 3, 4], [2.5, 2.5, 2, 2]).statistic
    assert by_key["correlation_with_average"].value == pytest.approx(expected)
    assert (by_key["correlation_with_average"].n, by_key["correlation_with_average"].coverage) == (4, 4 / 5)
    two = {f.name: f for f in against_single_raters(np.array([1.0, 2, NAN]), np.array([[1.0], [2], [3]]))}
    average = two["correlation_with_average"]
    assert (average.value, average.n, average.coverage) == (None, 2, 2 / 3)
    empty = {f.name: f for f in against_single_raters(np.full(3, NAN), np.full((3, 1), NAN))}
    assert all(f.value is None for f in empty.values())
    assert {f.coverage for f in empty.values()} == {0}
    nobody = {f.name: f for f in against_single_raters(model, np.zeros((5, 0)))}
    assert {nobody[f"rater_correlation_{name}"].coverage for name in ("mean", "max", "sd")} == {None}
