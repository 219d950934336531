"""How many ratings are enough: half widths against those of larger draws, and the split against a simulation."""

import math
from dataclasses import replace

import numpy as np
import pytest

from jobs.metrics.intervals import Units
from jobs.metrics.prediction_powered import RandomPart, SetEstimate, estimate_mean
from jobs.metrics.rating_plans import (
    RepeatedAnswers,
    half_width_metrics,
    planned_sizes,
    ratings_for,
    round_targets,
    split_metrics,
)
from tests.estimate_coverage import Case, drawn, world


def estimate_of(case: Case, n: int, rng: np.random.Generator, study: tuple) -> SetEstimate:
    truth, judge, group = study
    probability, rated = drawn(replace(case, n=n), judge, group, rng)
    part = RandomPart(probability, Units(group, "pictures"))
    return estimate_mean(np.where(rated, truth, np.nan), judge, part, is_share=case.kind != "score")


@pytest.mark.parametrize(
    "case",
    [
        Case("score", "good", 60),
        Case("score", "useless", 60),
        Case("share", "good", 100),
        Case("score", "good", 99, together=3),
        Case("share", "good", 100, drawn="uncertain"),
    ],
    ids=str,
)
def test_half_widths_are_those_of_larger_draws(case: Case) -> None:
    rng = np.random.default_rng(3)
    ratios = []
    for _ in range(150):
        study = world(case, rng)
        now, later = (estimate_of(case, n, rng, study) for n in (case.n, 3 * case.n))
        with_judge, alone = now.expected(later.n)
        lengths = [(i.high or 0) - (i.low or 0) for i in (later.interval, later.people_interval)]
        ratios.append([2 * with_judge / lengths[0], 2 * alone / lengths[1]])
    assert np.median(ratios, axis=0) == pytest.approx([1, 1], abs=0.05)


def test_half_widths_of_today_are_those_of_the_intervals_and_end_with_all_items() -> None:
    case = Case("share", "good", 60)
    rng = np.random.default_rng(0)
    now = estimate_of(case, 60, rng, world(case, rng))
    lengths = [(i.high or 0) - (i.low or 0) for i in (now.interval, now.people_interval)]
    assert np.multiply(2, now.expected(60)) == pytest.approx(lengths)
    halves = [now.expected(n)[0] for n in range(60, now.items + 1, 60)]
    assert halves == sorted(halves, reverse=True)
    assert now.expected(now.items) == pytest.approx((0, 0), abs=1e-6)
    needed = ratings_for(now, 0.05, 0)
    assert now.expected(needed)[0] <= 0.05 < now.expected(needed - 1)[0]


def test_targets_and_sizes_are_round() -> None:
    assert round_targets(0.132) == [0.1, 0.05]
    assert round_targets(0.1) == [pytest.approx(0.05), pytest.approx(0.03)]
    assert round_targets(0.0) == []
    assert planned_sizes(44, 140) == [44, 66, 88]
    assert planned_sizes(139, 140) == [139]


def test_fewer_than_five_items_have_no_plan() -> None:
    one = estimate_mean(np.array([1.0, 2.0, 3.0] + [np.nan] * 9), None, RandomPart(np.full(12, 0.25), Units.single(12)))
    (metric,) = half_width_metrics(one, larger=True)
    assert (metric.value, metric.reason) == (
        None, "3 items rated by people have no interval from which more could be planned",
    )  # fmt: skip


def test_splits_are_the_errors_of_such_draws() -> None:
    rng = np.random.default_rng(1)
    items, n, raters, between, within = 4000, 300, 2, 1.0, 0.8
    truth = rng.normal(size=items) * math.sqrt(between)
    item = np.repeat(rng.choice(items, n, replace=False), raters)
    y = truth[item] + rng.normal(size=n * raters) * math.sqrt(within)
    means = np.full(items, np.nan)
    means[item] = np.repeat(y.reshape(n, raters).mean(1), raters)
    estimate = estimate_mean(means, None, RandomPart(np.full(items, n / items), Units.single(items)))
    repeats = RepeatedAnswers.of(item, y)
    assert repeats.within == pytest.approx(within, rel=0.15)
    for metric in split_metrics(estimate, repeats):
        per_item = int(metric.dims["per_item"])
        m = n * raters // per_item
        errors = []
        for _ in range(400):
            chosen = rng.choice(items, m, replace=False)
            noise = rng.normal(size=m) * math.sqrt(within / per_item)
            errors.append(float((truth[chosen] + noise).mean()))
        assert metric.value == pytest.approx(1.96 * np.std(errors), rel=0.12)
    once = RepeatedAnswers.of(item[::raters], y[::raters])
    (unknown,) = split_metrics(estimate, once)
    assert (unknown.value, unknown.reason) == (
        None, "no item has two answers by people: how much they differ is unknown",
    )  # fmt: skip
