"""All pairs of models: adjusted p-values, paired differences, ranks with intervals and their stability."""

import numpy as np
import pytest
from scipy import stats

from jobs.metrics.intervals import Units
from jobs.metrics.multiple_comparisons import BENJAMINI_HOCHBERG, HOLM, ComparedRaters, adjusted, family_metrics


def three_models(pictures=60, seed=0):
    """Return scores of three models about the same pictures: a and b are alike, c is better."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(size=pictures)
    scores = np.full((3 * pictures, 3), np.nan)
    for place, gain in enumerate((0.0, 0.02, 1.0)):
        rows = slice(place * pictures, (place + 1) * pictures)
        scores[rows, place] = difficulty + gain + 0.3 * rng.normal(size=pictures)
    return ComparedRaters(("a", "b", "c"), scores, Units(np.tile(np.arange(pictures), 3), "pictures"))


def test_adjusted_p_values_are_those_of_scipy_and_of_the_definition():
    p = [0.01, 0.04, 0.03, 0.005]
    assert adjusted(p, HOLM) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted(p, BENJAMINI_HOCHBERG) == pytest.approx(stats.false_discovery_control(p))


def test_differences_are_paired_by_picture_as_in_the_paired_t_test():
    family = three_models()
    differences = {(m.dims["first"], m.dims["second"]): m for m in family_metrics(family, adjustment=HOLM)
             if m.name == "pair_difference"}  # fmt: skip
    assert list(differences) == [("a", "b"), ("a", "c"), ("b", "c")]
    test = stats.ttest_rel(family.scores[:60, 0], family.scores[120:, 2])
    low, high = test.confidence_interval(0.95)
    metric = differences["a", "c"]
    mean = (family.scores[:60, 0] - family.scores[120:, 2]).mean()
    assert [metric.value, metric.low, metric.high] == pytest.approx([mean, low, high])
    assert (metric.reason, metric.units) == (None, 60)
    assert differences["a", "b"].reason == "cannot be distinguished with these 60 pictures"


def test_ranks_have_all_places_that_the_comparisons_leave_open():
    family = three_models()
    halves = {"half": {"first": np.tile(np.arange(60) < 30, 3), "second": np.tile(np.arange(60) >= 30, 3)}}
    metrics = list(family_metrics(family, adjustment=HOLM, subgroups=halves))
    ranks = {m.dims["part"]: (m.value, m.low, m.high) for m in metrics if m.name == "rank"}
    assert ranks["c"] == (1, 1, 1)
    assert {ranks[name][1:] for name in "ab"} == {(2, 3)}
    stable = {m.dims["part"]: m.value for m in metrics if m.name == "rank_stability"}
    assert stable["c"] == 1
    assert all(m.n == 2 for m in metrics if m.name == "rank_stability")
    (detectable,) = (m for m in metrics if m.name == "detectable_difference")
    assert 0.1 < (detectable.value or 0) < 0.3


def test_few_pictures_and_equal_scores_cannot_be_tested():
    few = three_models(pictures=4)
    assert {m.reason for m in family_metrics(few, adjustment=HOLM)} == {"fewer than 5 pictures (4)"}
    same = ComparedRaters(("a", "b"), np.ones((20, 2)), Units.single(20))
    assert {(m.value, m.reason) for m in family_metrics(same, adjustment=HOLM)} == {(None, "no variance between units")}
    assert list(family_metrics(ComparedRaters(("a",), np.ones((20, 1)), Units.single(20)), adjustment=HOLM)) == []


def test_of_equal_models_a_difference_is_found_in_at_most_five_percent_of_families():
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(400):
        family = ComparedRaters(tuple("abcde"), rng.normal(size=(30, 5)) + rng.normal(size=(30, 1)), Units.single(30))
        false += any(m.reason is None for m in family_metrics(family, adjustment=HOLM) if m.name == "pair_difference")
    assert 0.01 <= false / 400 <= 0.085
