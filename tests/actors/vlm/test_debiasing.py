"""The formula of CAIRE, appendix B.1, and running sums of pairs, by hand."""

import numpy as np
import pytest

from actors.vlm.debiasing import DebiasSetting, Moments, check_settings, debias
from tests.cases import check_cases

WITH, WITHOUT = np.array([-2.0, -3.0, -4.0]), np.array([-1.0, -10.0, -np.inf])


def test_scores() -> None:
    cases = [
        (DebiasSetting(0.0), [-2, -3, -4]),
        (DebiasSetting(0.5), [-1.5, 2, np.inf]),
        (DebiasSetting(0.5, -6.0), [-1.5, 0, -1]),
        (DebiasSetting(1.0, 0.0), [-2, -3, -4]),
    ]

    def check(setting: DebiasSetting, scores: list[float]) -> None:
        assert debias(WITH, WITHOUT, setting).tolist() == scores

    check_cases(check, cases)


def test_scores_of_pictures_and_labels() -> None:
    """[pictures, labels] minus [labels], also without weight."""
    for weight, expected in ((0.0, [[-2, -3], [-4, -5]]), (1.0, [[-1, -1], [-3, -3]])):
        scores = debias(np.array([[-2.0, -3], [-4, -5]]), np.array([-1.0, -2]), DebiasSetting(weight))
        assert scores.tolist() == expected


def test_settings() -> None:
    check_settings([DebiasSetting(0.0), DebiasSetting(0.5, 0.0), DebiasSetting(0.5)])
    assert DebiasSetting(0.5, -12.0).name == "lambda=0.5,T=-12"
    for settings, message in (
        ([], "at least one"),
        ([DebiasSetting(-0.1)], "lambda=-0.1"),
        ([DebiasSetting(float("inf"))], "lambda=inf"),
        ([DebiasSetting(1, 0.1)], "threshold=0.1"),
        ([DebiasSetting(1, float("nan"))], "threshold=nan"),
        ([DebiasSetting(1), DebiasSetting(1)], "duplicate"),
    ):
        with pytest.raises(ValueError, match=message):
            check_settings(settings)


def test_correlation_of_pairs_that_are_added_in_parts() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    y = x + rng.normal(size=30)
    moments = Moments()
    for part in (slice(0, 7), slice(7, 30)):
        moments.add(x[part], y[part])
    assert (moments.n, moments.x) == (30, pytest.approx(x.sum()))
    assert moments.pearson == pytest.approx(np.corrcoef(x, y)[0, 1])


def test_correlation() -> None:
    cases = [
        ([1, 2], [1, 2], None),
        ([1, 2, 3], [2, 4, 6], 1),
        ([1, 2, 3], [6, 4, 2], -1),
        ([1, 1, 1], [1, 2, 3], None),
        ([1, 2, 3], [5, 5, 5], None),
        ([0, 0, 0], [0, 0, 0], None),
        ([1, 2, 3, 4], [1, 2, 1, 2], 1 / 5**0.5),
    ]

    def check(x: list[float], y: list[float], pearson: float | None) -> None:
        moments = Moments()
        moments.add(np.array(x, float), np.array(y, float))
        assert moments.pearson == (None if pearson is None else pytest.approx(pearson))

    check_cases(check, cases)
