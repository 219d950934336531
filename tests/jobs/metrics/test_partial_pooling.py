"""Pooled estimates of subgroups: a known example, and a simulation of their coverage."""

import numpy as np

from jobs.metrics.partial_pooling import pooled


def test_pooled_estimates_of_eight_schools_are_those_of_gelman_et_al():
    """Bayesian Data Analysis, table 5.3: medians of the effects 10, 8, 7, 8, 5, 6, 10, 8 in 200 simulations."""
    values, errors = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    together = pooled(values, errors)
    np.testing.assert_allclose(together.values, [11.4, 7.9, 6.1, 7.6, 5.1, 6.1, 10.7, 8.5], atol=0.2)
    assert -3 < together.low[0] < 0
    assert 28 < together.high[0] < 34
    apart = pooled(np.array([0.0, 100, 200, 300]), np.ones(4))
    np.testing.assert_allclose(apart.values, [0, 100, 200, 300], atol=0.1)
    np.testing.assert_allclose(apart.high - apart.low, 2 * 1.96, rtol=0.01)


def test_pooled_intervals_contain_the_values_of_subgroups_on_average_and_are_narrower():
    rng = np.random.default_rng(0)
    for subgroups, spread in ((3, 1.0), (6, 0.5), (12, 0.0), (12, 1.0), (12, 3.0)):
        inside, widths = [], []
        for _ in range(60):
            errors = rng.uniform(0.5, 1.5, subgroups)
            truth = 2 + spread * rng.normal(size=subgroups)
            together = pooled(truth + errors * rng.normal(size=subgroups), errors)
            inside.append(((together.low <= truth) & (truth <= together.high)).mean())
            widths.append(((together.high - together.low) / (2 * 1.96 * errors)).mean())
        assert np.mean(inside) > 0.91, (subgroups, spread)
        assert np.mean(widths) < 1, (subgroups, spread)
