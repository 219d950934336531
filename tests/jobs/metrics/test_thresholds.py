"""The threshold with the best F1, against all thresholds tried one by one."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from jobs.metrics.thresholds import best_threshold, f1_at


def test_by_hand() -> None:
    # at least -2.5: two of three predictions are right, both right labels are found: F1 = 4 / 5
    chosen = best_threshold([-1.0, -2.0, -3.0, -1.5], [True, True, False, False])
    assert chosen == (-2.5, pytest.approx(0.8))
    assert best_threshold([-1.0, -2.0], [True, True]) == (-2.0, 1.0)
    assert best_threshold([1.0, 1.0, 0.0], [True, False, False]) == (0.5, pytest.approx(2 / 3))
    assert best_threshold([1.0], [False]) is None
    assert best_threshold([], []) is None


def test_no_threshold_is_better() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores = rng.integers(0, 6, 30).astype(float)
        right = rng.random(30) < 0.3
        chosen = best_threshold(scores, right)
        if chosen is None:
            assert not right.any()
            continue
        tried = [f1_score(right, scores >= value) for value in np.unique(scores)]
        assert chosen.f1 == pytest.approx(max(tried))
        assert f1_at(scores, right, chosen.value) == pytest.approx(chosen.f1)


def test_equal_and_neighbouring_scores_are_divided_exactly() -> None:
    above = np.nextafter(1.0, 2.0)
    chosen = best_threshold([above, 1.0], [True, False])
    assert chosen == (above, 1.0)


def test_f1_without_positives_is_undefined() -> None:
    assert f1_at([0.0], [False], 1.0) is None
    assert f1_at([0.0], [True], 1.0) == 0
