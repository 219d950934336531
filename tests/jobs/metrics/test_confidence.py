"""Calibration of a judge's probabilities: by plain loops, scikit-learn, and simulations whose error is known."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize_scalar

from jobs.analysis.rating_coder import others_of
from jobs.metrics.answers import POWERS, RatingTable
from jobs.metrics.confidence import Confidences, ReliabilityBins, calibration, cross_scaled, judge_calibration, slope_of
from jobs.metrics.intervals import Interval, Units
from jobs.metrics.rated_question import AssignedItems, MetricSettings, QuestionContext, RatedQuestion


def study(true, *, n=1000, together=1, answers=2, seed=0):
    """Return the confidences of a judge whose answers are right with the probability `true` of its own."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) // together
    probability = 1 / (1 + np.exp(-np.abs(1 + 1.2 * rng.normal(size=n))))
    chance = rng.random(group[-1] + 1)[group] if together > 1 else rng.random(n)
    right = (chance < true(probability)).astype(float)
    others = even(probability, answers)
    return Confidences(probability, right, np.ones(n), group % 2 == 0, Units(group, "pictures"), answers, others)


def even(probability, answers=2):
    """Return what `RatingTable.others` is where the other answers are equally probable."""
    with np.errstate(divide="ignore"):
        odds = np.log(1 - probability) - np.log(probability)
    return np.stack([power * odds + (1 - power) * np.log(answers - 1) for power in POWERS], axis=1)


def too_sure(p):
    return p - 0.1


def calibrated(p):
    return p


def temperature_2(p):
    return 1 / (1 + np.sqrt((1 - p) / p))


def gap_of(gap):
    return float(np.nanmean(gap)), Interval(-1, 1, "all")


def by_name(confidences):
    return {metric.name: metric for metric in calibration(confidences, overconfidence=gap_of)}


def test_the_error_with_noise_is_that_of_bins_of_equal_count():
    confidences = study(too_sure)
    order = np.argsort(confidences.probability)
    parts = np.array_split(order, 10)
    by_hand = sum(
        len(part) / 1000 * abs(confidences.right[part].mean() - confidences.probability[part].mean()) for part in parts
    )
    assert ReliabilityBins.of(confidences).observed_error == pytest.approx(by_hand)


def test_bins_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.calibration")
    confidences = study(temperature_2, n=987)
    right, sure = metrics.calibration_curve(confidences.right, confidences.probability, n_bins=10, strategy="quantile")
    bins = ReliabilityBins.of(confidences)
    np.testing.assert_allclose(bins.confidence, sure, atol=0.003)  # edges between two answers are not the same
    np.testing.assert_allclose(bins.confidence + bins.gap, right, atol=0.03)


def test_intervals_contain_the_error_and_the_estimate_is_nearer_to_it():
    for true, together in ((calibrated, 1), (too_sure, 1), (temperature_2, 1), (calibrated, 3)):
        inside, estimates, observed, errors = 0, [], [], []
        for seed in range(60):
            confidences = study(true, n=300, together=together, seed=seed)
            bins = ReliabilityBins.of(confidences)
            edges = np.quantile(confidences.probability, np.arange(1, 10) / 10, method="inverted_cdf")
            place, p = np.searchsorted(edges, confidences.probability), confidences.probability
            error = float(np.abs(np.bincount(place, true(p) - p)).sum() / len(p))
            interval = bins.interval("pictures")
            assert interval.low is not None
            assert interval.high is not None
            inside += interval.low <= error + 1e-9 and error <= interval.high
            errors.append(error)
            estimates.append(bins.error)
            observed.append(bins.observed_error)
        assert inside >= 52, (true, together)
        assert abs(np.mean(estimates) - np.mean(errors)) < abs(np.mean(observed) - np.mean(errors))


def test_the_temperature_is_that_of_maximum_likelihood_and_mends_the_error():
    confidences = study(temperature_2, n=4000)
    z, right = confidences.log_odds(1.0)[0], confidences.right
    loss = minimize_scalar(lambda b: np.mean(np.log1p(np.exp(b * z)) - right * b * z), (0.1, 1))
    slope, error = slope_of(confidences)
    assert slope == pytest.approx(loss.x, abs=1e-4)
    assert abs(slope - 0.5) < 3 * error
    metrics = by_name(confidences)
    assert metrics["temperature"].low < 2 < metrics["temperature"].high
    assert metrics["calibration_error"].low > 0.05
    assert metrics["scaled_calibration_error"].value < 0.03
    assert metrics["overconfidence"].value == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("true", [0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("answers", [2, 5])
def test_the_temperature_is_that_of_the_whole_distribution(true, answers):
    """By scipy, with the logarithms of all probabilities; an equal share of each other answer would give 1.5 for 2."""
    rng, n = np.random.default_rng(0), 20_000
    logits = -((np.arange(answers) - rng.uniform(-0.5, answers - 0.5, (n, 1))) ** 2)
    judged, meant = (np.exp(z) / np.exp(z).sum(1, keepdims=True) for z in (2 * logits, 2 * logits / true))
    people = (meant.cumsum(1) < rng.random((n, 1))).sum(1).clip(max=answers - 1)
    column = pa.chunked_array([pa.array(judged.tolist(), pa.list_(pa.float32()))])
    others = others_of(column).astype(np.float64)
    right, log_judged = (people == judged.argmax(1)).astype(float), np.log(judged)

    def loss(slope, *, chosen):
        scaled = slope * log_judged
        return -np.mean(scaled[np.arange(n), chosen] - np.log(np.exp(scaled).sum(1)))

    whole = minimize_scalar(lambda slope: loss(slope, chosen=people), (0.1, 3)).x
    confidences = Confidences(judged.max(1), right, np.ones(n), people % 2 == 0, Units.single(n), answers, others)
    slope, error = slope_of(confidences)
    assert error < 0.05 * slope
    assert abs(slope - whole) < 3 * error + 0.03 * whole
    scaled = np.exp(0.5 * log_judged)
    odds, _ = confidences.log_odds(0.5)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), scaled.max(1) / scaled.sum(1), atol=1e-5)


def test_each_half_has_the_temperature_of_the_other():
    confidences = study(temperature_2)
    other = confidences.of(~confidences.first_half)
    odds = slope_of(other)[0] * confidences.log_odds(1.0)[0][0]
    assert confidences.first_half[0]
    assert cross_scaled(confidences).probability[0] == pytest.approx(1 / (1 + np.exp(-odds)))


def test_an_equal_share_of_each_answer_stays_where_it_is():
    confidences = study(calibrated, answers=4)
    quarter = np.full(1000, 0.25)
    alike = replace(confidences, probability=quarter, weight=quarter, others=even(quarter, 4))
    scaled = cross_scaled(alike)
    np.testing.assert_allclose(scaled.probability, 0.25)


def test_awkward_judges():
    few = by_name(study(calibrated, n=39))
    assert few["calibration_error"].reason == "fewer than 40 items that both answered (39)"
    certain = study(calibrated)
    always = replace(certain, probability=np.ones(1000), right=np.ones(1000), others=even(np.ones(1000)))
    metrics = by_name(always)
    assert metrics["calibration_error"].value == pytest.approx(0, abs=1e-6)
    assert metrics["temperature"].value is None
    wrong = replace(always, right=np.zeros(1000))
    metrics = by_name(wrong)
    assert metrics["calibration_error"].value == pytest.approx(1, abs=0.01)
    assert metrics["temperature"].value is None
    nobody = replace(always.of(np.arange(1000) < 9), right=np.full(9, np.nan))
    assert by_name(nobody)["calibration_error"].coverage == 0


def test_bins_of_a_random_part_are_weighted_by_all_items():
    """People rated all unsure items and a fifth of the sure ones, of which the judge is wrong about half."""
    items = 600
    sure = np.arange(items) < 300
    truth = np.where(sure, np.arange(items) % 2, 0)
    rated = ~sure | (np.arange(items) // 2 % 5 == 0)
    item = np.concatenate([np.arange(items), np.flatnonzero(rated)])
    rater = np.repeat([0, 1], [items, rated.sum()])
    value = np.concatenate([np.zeros(items, int), truth[rated]])
    others = even(np.concatenate([np.where(sure, 0.9, 0.6), np.full(rated.sum(), np.nan)])).astype(np.float32)
    order = np.lexsort((rater, item))
    table = RatingTable(item[order], rater[order], value[order], np.full(len(item), np.nan), items, ("m", "p"),
                        ("no", "yes"), np.array([items, rated.sum()]), others=others[order])  # fmt: skip
    probability = np.where(sure, 0.2, 0.999)
    assigned = AssignedItems(np.ones(items, bool), rated, probability, 1)
    context = QuestionContext({"p": "human"}, np.arange(items), np.zeros(items, np.int64), assigned=assigned,
                              first_half=np.arange(items) % 4 < 2)  # fmt: skip
    metrics = {m.name: m for m in judge_calibration(RatedQuestion(table, context, MetricSettings()), "m")}
    assert metrics["overconfidence"].value == pytest.approx(0.5 * 0.4 - 0.5 * 0.4, abs=0.02)
    assert metrics["calibration_error"].value == pytest.approx(0.4, abs=0.03)
    assert metrics["calibration_error"].coverage == pytest.approx(rated.mean())
