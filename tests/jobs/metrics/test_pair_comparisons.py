"""Comparisons of pairs, by hand and against an independent fit."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from jobs.metrics.metric import Metric
from jobs.metrics.pair_comparisons import (
    Comparisons,
    PairTable,
    competitor_metrics,
    pair_agreement,
    pooled,
    position_metrics,
    side,
    strengths,
)


def asked_twice(firsts: list[tuple[float, float]]) -> Comparisons:
    """Return answers about each pair in both orders, with a share for the picture shown first."""
    pair = np.repeat(np.arange(len(firsts)), 2)
    return Comparisons(pair, np.tile([0, 1], len(firsts)), np.array(firsts, float).ravel(), 2 * len(firsts))


def people(answers: list[tuple[int, int, float]]) -> Comparisons:
    pair, order, first = zip(*answers, strict=True)
    return Comparisons(np.array(pair), np.array(order), np.array(first, float), len(answers))


def by_name(metrics: list[Metric]) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


def test_a_rater_who_always_chooses_the_first_position() -> None:
    always = asked_twice([(1, 1)] * 6)
    metrics = by_name(list(position_metrics(always, 6)))
    assert metrics["position_bias"].value == metrics["first_position_share"].value == 1
    assert metrics["position_bias"].n == 6
    seen = people([(p, p % 2, 1.0) for p in range(6)] + [(0, 0, 0.0)])
    agreement = pair_agreement(always.preference(6), seen, by="answer")
    assert (agreement.value, agreement.n) == (0.5, 7)
    shares = asked_twice([(0.7, 0.7)] * 6)  # the mean of 0.7 and 1 - 0.7 is not exactly one half
    assert pair_agreement(shares.preference(6), seen, by="probability").value == 0.5


def test_ties_in_both_orders_are_no_position_bias() -> None:
    """Neither picture is preferred, wherever it is shown."""
    metrics = by_name(list(position_metrics(asked_twice([(0.5, 0.5), (1, 0), (1, 1), (0, 0)]), 4)))
    assert (metrics["position_bias"].value, metrics["position_bias"].n) == (0.5, 4)


def test_preferences_over_both_orders_by_hand() -> None:
    # pair 0: item 0 in both orders; 1: item 1 in both; 2: always second; 3: item 0 in the only order; 4: no answer
    firsts = Comparisons(
        np.array([0, 0, 1, 1, 2, 2, 3]), np.array([0, 1, 0, 1, 0, 1, 1]), np.array([1, 0, 0, 1, 0, 0, 0.0]), 8
    )
    preference = firsts.preference(5)
    assert preference[:4].tolist() == [1, 0, 0.5, 1]
    assert np.isnan(preference[4])
    assert side(preference[:4]).tolist() == [1, -1, 0, 1]
    metrics = by_name(list(position_metrics(firsts, 5)))
    assert (metrics["position_bias"].value, metrics["position_bias"].n) == (1 / 3, 3)
    assert metrics["position_bias"].coverage == 7 / 8
    assert metrics["first_position_share"].value == pytest.approx(2 / 7)
    assert (metrics["first_position_share"].n, metrics["first_position_share"].coverage) == (7, 7 / 8)
    # agrees on pair 0 in either order, not on 1, half on 2; a tie counts half; pair 4 does not count
    answers = [(0, 0, 1), (0, 1, 0), (1, 0, 1), (2, 0, 1), (3, 0, 0.5), (4, 0, 1)]
    agreement = pair_agreement(preference, people([(p, o, f) for p, o, f in answers]), by="answer")
    assert (agreement.value, agreement.n, agreement.coverage) == ((1 + 1 + 0 + 0.5 + 0.5) / 5, 5, 5 / 6)


def test_pairs_without_an_answer_change_no_interval() -> None:
    answered = asked_twice([(1, 1), (1, 0), (0, 0), (1, 1), (0, 1), (1, 0), (1, 1), (0, 0)])
    alone, among_others = (by_name(list(position_metrics(answered, pairs))) for pairs in (8, 30))
    assert alone["first_position_share"].low is not None
    for name, metric in alone.items():
        assert (among_others[name].low, among_others[name].high) == (metric.low, metric.high)


def test_intervals_are_over_pairs_however_many_answers_a_pair_has() -> None:
    once = people([(pair, 0, float(pair % 2)) for pair in range(5)])
    repeated = people([(pair, order, float(pair % 2)) for pair in range(4) for order in (0, 1, 0)])
    for answers, reason in ((once, None), (repeated, "no interval: fewer than 5 pairs (4)")):
        share = by_name(list(position_metrics(answers, 6)))["first_position_share"]
        agreement = pair_agreement(np.array([1, 1, 0, 0, 1, 1.0]), answers, by="answer")
        reasons = [(metric.reason, metric.low is None) for metric in (share, agreement)]
        assert reasons == [(reason, reason is not None)] * 2
        assert agreement.dims == {"by": "answer"}


def test_undefined_without_pairs_in_both_orders_or_in_common() -> None:
    once = Comparisons(np.array([0]), np.array([0]), np.array([1.0]), 1)
    metrics = by_name(list(position_metrics(once, 2)))
    assert metrics["position_bias"].reason == "no pair was answered in both orders"
    assert (metrics["first_position_share"].value, metrics["position_bias"].coverage) == (1, 1)
    agreement = pair_agreement(once.preference(2), people([(1, 0, 1)]), by="answer")
    assert (agreement.value, agreement.coverage, agreement.dims) == (None, 0, {"by": "answer"})
    nothing = Comparisons(np.zeros(0, int), np.zeros(0, int), np.zeros(0), 3)
    undefined = [(metric.value, metric.status, metric.coverage) for metric in position_metrics(nothing, 2)]
    assert undefined == [(None, "skipped", 0), (None, "missing_input", 0)]


def test_strengths_are_those_of_an_independent_fit() -> None:
    wins = np.array([[0, 7, 5.5, 1], [3, 0, 4, 0], [2.5, 6, 0, 3], [1, 0, 2, 0]])

    def loss(theta: np.ndarray) -> float:
        return float(sum(wins[i, j] * np.log1p(np.exp(theta[j] - theta[i])) for i in range(4) for j in range(4)))

    expected = minimize(loss, np.zeros(4), tol=1e-12).x
    (fitted,) = strengths(wins[None])
    assert fitted == pytest.approx(expected - expected.mean(), abs=1e-4)
    (two,) = strengths(np.array([[[0, 30.0], [10, 0]]]))
    assert two[0] - two[1] == pytest.approx(np.log(3))


def test_strengths_without_a_finite_maximum() -> None:
    won_all = np.array([[0, 3.0, 2], [0, 0, 1], [0, 2, 0]])
    apart = np.array([[0, 1.0, 0], [1, 0, 0], [0, 0, 0]])
    fits = strengths(np.stack([won_all, apart, np.ones((3, 3)) - np.eye(3)]))
    assert np.isnan(fits[:2]).all()
    assert fits[2] == pytest.approx([0, 0, 0])


def test_win_rates_by_hand_leave_out_unknown_models_and_pairs_of_one_model() -> None:
    sides = np.array([(0, 1), (1, 0), (0, 1), (-1, 1), (0, -1), (1, 1), (2, 0)])
    preference = np.array([1, 0.5, np.nan, 1, 1, 0, np.nan])
    table = PairTable(np.array([0, 0, 1, 1, 2, 2, 3]), sides, ("a", "b", "c"), "artist")
    by_key = {(m.name, m.dims["competitor"]): m for m in competitor_metrics(preference, table)}
    assert {competitor for _, competitor in by_key} == {"a", "b"}
    assert [by_key["win_rate", name].value for name in "ab"] == [3 / 4, 1 / 4]
    assert {(metric.n, metric.coverage) for metric in by_key.values()} == {(2, 2 / 4)}
    assert by_key["bradley_terry", "a"].value == pytest.approx(np.log(3) / 2)
    assert {metric.reason for metric in by_key.values()} == {"no interval: fewer than 5 prompts (1)"}
    assert all("artist" in metric.definition for metric in by_key.values())


def test_answers_of_several_raters_are_pooled_in_their_order() -> None:
    one, other = people([(0, 1, 0.5)]), people([(2, 0, 1), (1, 1, 0)])
    both = pooled([one, replace(other, asked=5)])
    assert [both.pair.tolist(), both.order.tolist(), both.first.tolist()] == [[0, 2, 1], [1, 0, 1], [0.5, 1, 0]]
    assert (both.asked, both.coverage) == (6, 1 / 2)
    assert (pooled([]).n, pooled([]).coverage) == (0, None)


def test_models_are_ranked_with_intervals_over_prompts() -> None:
    draw = np.random.default_rng(5)
    strength = {"a": 1.0, "b": 0.0, "c": -1.0}
    names = tuple(strength)
    group, sides, preference = [], [], []
    for prompt in range(60):
        for i, j in ((0, 1), (0, 2), (1, 2), (1, 1)):
            group.append(prompt)
            sides.append((i, j))
            odds = strength[names[i]] - strength[names[j]]
            preference.append(float(draw.random() < 1 / (1 + np.exp(-odds))))
    table = PairTable(np.array(group), np.array(sides), names)
    metrics = list(competitor_metrics(np.array(preference), table))
    by_key = {(m.name, m.dims["competitor"]): m for m in metrics}
    assert len(by_key) == 6
    for name, true in strength.items():
        fitted = by_key["bradley_terry", name]
        assert fitted.n == 120
        assert fitted.low is not None
        assert fitted.high is not None
        assert fitted.low < true < fitted.high
    order = [by_key["win_rate", name].value or 0 for name in names]
    assert order == sorted(order, reverse=True)
    assert (
        list(competitor_metrics(np.array([1.0, 0]), PairTable(np.zeros(2, int), np.zeros((2, 2), int), ("a",)))) == []
    )
    swept = list(competitor_metrics(np.ones(6), PairTable(np.arange(6), np.tile([0, 1], (6, 1)), names)))
    undefined = {m.dims["competitor"]: m.reason for m in swept if m.name == "bradley_terry"}
    assert set(undefined) == {"a", "b"}
    assert all("won or lost all" in str(reason) for reason in undefined.values())
    assert {(m.n, m.coverage) for m in swept if m.name == "bradley_terry"} == {(6, 1.0)}
