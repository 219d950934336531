"""The versions of one rater, by hand."""

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.versions import version_metrics


def table(*scores: list[float]) -> RatingTable:
    """Return one row of `scores` per version; NaN where it has no answer."""
    matrix = np.array(scores)
    rater, item = np.nonzero(~np.isnan(matrix))
    score = matrix[rater, item]
    return RatingTable(
        item=item.astype(np.int32),
        rater=rater.astype(np.int32),
        value=(score - 1).astype(np.int32),
        score=score,
        items=matrix.shape[1],
        raters=tuple(f"version {n}" for n in range(len(scores))),
        values=("1", "2", "3", "4", "5"),
        asked=np.full(len(scores), matrix.shape[1]),
    )


def test_two_versions_by_hand() -> None:
    answers = table([1, 2, 3, 4, 5], [1, 2, 4, 5, np.nan])
    metrics = list(version_metrics(answers, thresholds=[4.0]))
    values = {(metric.name, metric.dims.get("group", "")): (metric.value, metric.n) for metric in metrics}
    assert values["percent_agreement", ""] == (0.5, 4)  # 2 of 4 items
    assert values["percent_agreement_within", ""] == (1.0, 4)
    correlation = float(np.corrcoef([1, 2, 3, 4], [1, 2, 4, 5])[0, 1])
    assert values["pairwise_pearson", ""][0] == pytest.approx(correlation)
    assert values["group_mean_score", "version 0"] == (3.0, 5)
    assert values["group_mean_score", "version 1"] == (3.0, 4)
    assert values["share_at_least", "version 0"] == (0.4, 5)
    assert values["share_at_least", "version 1"] == (0.5, 4)
    assert ("kappa", "") in values


def test_categories_are_compared_without_scores() -> None:
    answers = table([1, 2, 3], [1, 5, 3])
    nominal = RatingTable(**{**vars(answers), "score": np.full(6, np.nan)})
    values = {metric.name: metric.value for metric in version_metrics(nominal)}
    assert values["percent_agreement"] == pytest.approx(2 / 3)
    assert "group_mean_score" not in values


def test_six_versions_are_compared_and_seven_are_not() -> None:
    (metric,) = version_metrics(table(*([[1.0, 2.0]] * 7)))
    assert (metric.value, metric.reason) == (None, "7 versions: more than 6")
    assert next(version_metrics(table(*([[1.0, 2.0]] * 6)))).value == 1


def test_a_version_without_answers_is_named() -> None:
    (metric,) = version_metrics(table([1, 2, 3], [np.nan] * 3))
    assert (metric.value, metric.reason) == (None, "only the version 'version 0' has answers")
    assert metric.coverage == 3 / 6
    (nothing,) = version_metrics(table([np.nan] * 2, [np.nan] * 2))
    assert (nothing.reason, nothing.coverage) == ("no version has answers", 0)


def test_the_tolerance_is_that_of_the_settings_or_one_point() -> None:
    answers = table([1, 2, 3], [1, 3, 5])
    shares = [
        next(metric for metric in version_metrics(answers, **keys) if metric.name == "percent_agreement_within")
        for keys in ({}, {"tolerance": 2}, {"tolerance": 0.5})
    ]
    assert [(share.value, share.dims["tolerance"]) for share in shares] == [
        (pytest.approx(2 / 3), "1"), (1, "2"), (pytest.approx(1 / 3), "0.5")
    ]  # fmt: skip
