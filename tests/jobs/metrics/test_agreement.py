"""Percent agreement, alpha and kappa: by hand, against the libraries, and under other names and orders."""

import itertools
import warnings
from dataclasses import replace

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jobs.metrics.agreement import (
    LEVELS,
    MAX_COMPARED,
    MAX_LEVELS_OF_A_SCALE,
    agreement,
    alpha_of_moments,
    cohen_kappa,
    kappas_across,
    krippendorff_alpha,
    pairwise_kappas,
    percent_agreement,
)
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import BLOCKS
from tests.cases import check_cases

NAN = np.nan
# Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", example C: 4 observers, 12 units, missing values.
# Published there: nominal 0.743, ordinal 0.815, interval 0.849, ratio 0.797.
EXAMPLE = np.array([
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
]).T  # fmt: skip
ratings = arrays(
    np.float64, st.tuples(st.integers(2, 8), st.integers(2, 5)), elements=st.sampled_from([1.0, 2.0, 3.0, 5.0, NAN])
)


def width(metric):
    return metric.high - metric.low


def inside(metric):
    """Return whether the value is inside its interval."""
    return metric.low < metric.value < metric.high


def test_krippendorffs_own_example():
    cases = [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849), ("ratio", 0.797)]

    def check(level, published):
        alpha = krippendorff_alpha(RatingTable.from_matrix(EXAMPLE), level)
        assert alpha.value == pytest.approx(published, abs=5e-4)
        assert alpha.n == 11  # unit 12 has one value
        assert alpha.coverage == pytest.approx(41 / 48)
        assert inside(alpha)

    check_cases(check, cases)


def test_percent_agreement_by_hand():
    # item 1: 1 1 2 -> of 3 pairs 1 equal, 3 within one; item 2: 1 3 -> 1 pair, none, none; item 3: one rating, no pair
    answers = RatingTable.from_matrix(np.array([[1, 1, 2], [1, 3, NAN], [5, NAN, NAN]]))
    exact, near = percent_agreement(answers), percent_agreement(answers, tolerance=1)
    assert (exact.value, exact.n) == (1 / 4, 2)
    assert (near.value, near.name, near.dims) == (3 / 4, "percent_agreement_within", {"tolerance": "1"})
    assert exact.coverage == 6 / 9


def test_century_counts_each_pair_of_different_scores_once():
    # 1 2 3: pairs (1,2) and (2,3) are within one, (1,3) is not: 2 / 3, not the 0 of the paper's pseudo-code
    assert percent_agreement(RatingTable.from_matrix([[1, 2, 3]] * 3), tolerance=1).value == pytest.approx(2 / 3)
    assert percent_agreement(RatingTable.from_matrix([[1, 2, 3]] * 3), tolerance=2).value == 1
    assert percent_agreement(RatingTable.from_matrix([[4, 4, 4], [2, 2, 2]]), tolerance=0).value == 1


def test_perfect_chance_and_reversed():
    def check(level):
        perfect = RatingTable.from_matrix(np.array([[1, 2, 3, 4, 5] * 4] * 3).T)
        assert krippendorff_alpha(perfect, level).value == pytest.approx(1)
        # two raters who disagree throughout: o_12 = o_21 = 4, n = 8: 1 - (8 * 7) / (2 * 4 * 4) = -0.75
        assert krippendorff_alpha(RatingTable.from_matrix([[1, 2], [2, 1]] * 2), level).value == pytest.approx(-0.75)
        draws = np.random.default_rng(0).integers(1, 6, (4000, 3)).astype(float)
        assert krippendorff_alpha(RatingTable.from_matrix(draws), level).value == pytest.approx(0, abs=0.03)

    check_cases(check, LEVELS)


def test_undefined_is_never_zero():
    one_rater = krippendorff_alpha(RatingTable.from_matrix([[1], [2]]), "ordinal")
    assert (one_rater.value, one_rater.status, one_rater.reason) == (None, "skipped", "one rater")
    flat = krippendorff_alpha(RatingTable.from_matrix([[3, 3], [3, 3]]), "interval")
    assert (flat.value, flat.n, flat.coverage) == (None, 2, 1.0)
    assert str(flat.reason).startswith("all answers are equal")
    apart = percent_agreement(RatingTable.from_matrix([[1, NAN], [NAN, 2]]))
    assert apart.reason == "no item was rated by two raters"
    nobody = percent_agreement(RatingTable.from_matrix([[NAN, NAN]]))
    assert (nobody.value, nobody.status) == (None, "missing_input")
    empty = krippendorff_alpha(RatingTable.from_matrix(np.empty((0, 2))), "nominal")
    assert empty.value is None
    negative = krippendorff_alpha(RatingTable.from_matrix(np.array([[-1, 2], [2, 2], [2, NAN]])), "ratio")
    assert (negative.n, negative.coverage) == (2, 5 / 6)
    assert str(negative.reason).startswith("ratio")


def test_kappa_by_hand():
    # 10 items: 4 both yes, 3 both no, 2 + 1 apart. po = 0.7; pe = 0.6 * 0.5 + 0.4 * 0.5 = 0.5; kappa = 0.4
    pairs = [[1, 1]] * 4 + [[0, 0]] * 3 + [[1, 0]] * 2 + [[0, 1]]
    kappa = cohen_kappa(RatingTable.from_matrix(pairs))
    assert kappa.value == pytest.approx(0.4)
    assert kappa.n == 10
    assert cohen_kappa(RatingTable.from_matrix([[1, 0], [0, 1]] * 3)).value == pytest.approx(-1)
    assert str(cohen_kappa(RatingTable.from_matrix([[1, 1, 1]])).reason).startswith("3 raters")
    assert cohen_kappa(RatingTable.from_matrix([[1, 1]] * 4)).value is None
    for undefined in ([[1, 1, 1]], [[1, np.nan], [np.nan, 1]], [[1, 1]] * 4):
        kappa = cohen_kappa(RatingTable.from_matrix(undefined), weights="linear")
        assert (kappa.value, kappa.dims["weights"]) == (None, "linear")


def test_kappa_of_values_leaves_out_answers_that_are_numbers_only():
    """Value -1: such an item is neither counted nor a separate level."""
    pairs = [[1, 1]] * 4 + [[0, 0]] * 3 + [[1, 0]] * 2 + [[0, 1]]
    answers = RatingTable.from_matrix([*pairs, [1, 0], [0, 1]])
    value = answers.value.copy()
    value[[20, 23]] = -1  # the first rater of item 10, the second of item 11
    kappa = cohen_kappa(replace(answers, value=value))
    assert (kappa.value, kappa.n, kappa.coverage) == (pytest.approx(0.4), 10, 10 / 12)


@settings(max_examples=40, deadline=None)
@given(ratings)
def test_alpha_is_krippendorffs_package(matrix):
    krippendorff = pytest.importorskip("krippendorff")
    for level in LEVELS:
        mine = krippendorff_alpha(RatingTable.from_matrix(matrix), level).value
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                theirs = krippendorff.alpha(reliability_data=matrix.T, level_of_measurement=level)
            except ValueError:
                theirs = np.nan
        if mine is not None:
            assert mine == pytest.approx(theirs, abs=1e-9)


def test_kappa_is_scikit_learns():
    def check(weights, items):
        from sklearn.metrics import cohen_kappa_score

        draw = np.random.default_rng(1)
        one = draw.integers(1, 6, items)
        two = np.where(draw.random(items) < 0.6, one, draw.integers(1, 6, items))
        kappa = cohen_kappa(RatingTable.from_matrix(np.stack([one, two], 1)), weights=weights, by="score")
        assert kappa.value == pytest.approx(cohen_kappa_score(one, two, weights=weights), abs=1e-12)
        assert inside(kappa)

    check_cases(check, itertools.product([None, "linear", "quadratic"], [40, 3 * BLOCKS]))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=8))
def test_answers_that_nobody_gave_are_steps_of_a_weighted_kappa(pairs):
    from sklearn.metrics import cohen_kappa_score

    one, two = np.array(pairs).T
    answers = RatingTable.from_matrix(np.stack([one, two], 1))
    of_rubric = replace(answers, value=answers.score.astype(int) - 1, values=("1", "2", "3", "4", "5"))
    for weights, by in itertools.product(("linear", "quadratic"), ("score", "value")):
        kappa = cohen_kappa(of_rubric, weights=weights, by=by)
        if kappa.value is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = cohen_kappa_score(one, two, weights=weights, labels=range(1, 6))
            assert kappa.value == pytest.approx(theirs, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(ratings, st.randoms(use_true_random=False))
def test_names_and_order_of_raters_and_items_change_nothing(matrix, random):
    rows, columns = list(range(matrix.shape[0])), list(range(matrix.shape[1]))
    random.shuffle(rows)
    random.shuffle(columns)
    names = [f"z{i}" for i in columns]
    for before, after in zip(
        [*agreement(RatingTable.from_matrix(matrix))[:6]],
        [*agreement(RatingTable.from_matrix(matrix[rows][:, columns], raters=names))[:6]],
        strict=True,
    ):
        assert (before.name, before.n, before.reason) == (after.name, after.n, after.reason)
        for name in ("value", "low", "high", "coverage"):
            assert getattr(before, name) == pytest.approx(getattr(after, name), abs=1e-9)


def test_blocks_of_many_items_give_the_same_value_and_an_interval_of_the_same_width():
    draw = np.random.default_rng(2)
    truth = draw.integers(1, 6, (20 * BLOCKS, 1))
    matrix = np.clip(truth + draw.integers(-1, 2, (20 * BLOCKS, 3)), 1, 5).astype(float)
    many, few = (krippendorff_alpha(RatingTable.from_matrix(matrix[:n]), "interval") for n in (20 * BLOCKS, BLOCKS))
    assert many.value == pytest.approx(few.value, abs=0.02)
    # the width falls as 1 / sqrt(n): 20 times the items, 4.47 times narrower
    assert width(few) / width(many) == pytest.approx(20**0.5, rel=0.25)


def test_weights_from_the_caller():
    # weights of interval differences make interval alpha; the name says so
    answers = RatingTable.from_matrix(EXAMPLE)
    levels = answers.levels()
    squared = (levels[:, None] - levels[None, :]) ** 2
    alpha = krippendorff_alpha(answers, squared, name="squared")
    assert alpha.value == pytest.approx(krippendorff_alpha(answers, "interval").value)
    assert alpha.dims == {"level": "squared"}
    agreements = agreement(answers, weights={"mine": squared, "wrong": [[0, 1], [1, 0]]})
    assert {f.dims["level"]: f.value is None for f in agreements if f.dims.get("level") in ("mine", "wrong")} == {
        "mine": False,
        "wrong": True,
    }
    wrong = next(metric for metric in agreements if metric.dims.get("level") == "wrong")
    assert (wrong.n, wrong.coverage) == (alpha.n, alpha.coverage) == (11, 41 / 48)
    partly = replace(answers, score=np.where(answers.item == 0, NAN, answers.score))
    *_, wrong = agreement(partly, weights={"wrong": [[0]]}, pairs=False)
    assert (wrong.n, wrong.dims) == (10, {"level": "wrong"})


def test_weights_are_of_the_points_of_the_scale_whatever_occurs():
    # nobody gave 4; the disagreement of 3 and 5 is that of the third and the fifth point
    answers = RatingTable.from_matrix([[1, 1], [2, 3], [3, 5], [5, 5], [1, 2]])
    points = np.arange(5.0)
    squared, twofold = (np.abs(points[:, None] - points) ** power for power in (2, 1))

    def alpha(matrix, scale):
        *_, weighted = agreement(answers, weights={"mine": matrix}, scale=scale, pairs=False)
        return weighted

    assert alpha(squared, (1.0, 5.0)).value == pytest.approx(krippendorff_alpha(answers, "interval").value)
    of_occurring = np.abs(answers.levels()[:, None] - answers.levels())
    expected = krippendorff_alpha(answers, of_occurring, name="mine").value
    assert alpha(twofold, (1.0, 5.0)).value == pytest.approx(expected)
    for matrix, scale, reason in (
        (twofold[:4, :4], (1.0, 5.0), "the matrix has 4 levels, from 1 to 5 in equal steps: none is 2"),
        (twofold, None, "the matrix has 5 levels, but 4 different scores occur, and the scale is not known"),
    ):
        assert (alpha(matrix, scale).value, alpha(matrix, scale).reason) == (None, reason)


def test_subsets_of_raters_and_pairs():
    answers = RatingTable.from_matrix([[1, 1, 5], [2, 2, 5], [3, 3, 5]], raters=["a", "b", "c"])
    assert krippendorff_alpha(answers.of_raters(["a", "b"]), "interval").value == pytest.approx(1)
    assert krippendorff_alpha(answers.of_raters(["c"]), "interval").reason == "one rater"
    pairs = {(f.dims["rater_a"], f.dims["rater_b"]): f.value for f in pairwise_kappas(answers)}
    assert set(pairs) == {("a", "b"), ("a", "c"), ("b", "c")}
    assert pairs["a", "b"] == pytest.approx(1)


def test_scores_of_any_number_of_levels_have_an_interval_alpha():
    """Sliders: past a scale's levels the same value follows from sums of scores and squares."""

    def check(seed):
        draw = np.random.default_rng(seed)
        matrix = draw.normal(1e6, 20, (60, 4)) + draw.normal(0, 20, (60, 1))
        matrix[draw.random((60, 4)) < 0.4] = np.nan
        equal, alpha = agreement(RatingTable.from_matrix(matrix))
        assert alpha.value == pytest.approx(krippendorff.alpha(matrix.T, level_of_measurement="interval"), abs=1e-9)
        assert alpha.value is not None
        assert alpha.low is not None
        assert alpha.high is not None
        assert alpha.low < alpha.value < alpha.high
        assert equal.value is None
        assert "different scores" in str(equal.reason)
        few = RatingTable.from_matrix(np.round(matrix / 40))
        assert alpha_of_moments(few).value == pytest.approx(krippendorff_alpha(few, "interval").value, abs=1e-9)

    check_cases(check, range(5))
    assert alpha_of_moments(RatingTable.from_matrix([[2, 2], [2, 2]])).value is None
    alone = alpha_of_moments(RatingTable.from_matrix([[2, np.nan], [np.nan, 3]]))
    assert alone.reason == "no item was rated by two raters"


def test_more_answers_than_a_closed_set_may_have_are_reported():
    rated = RatingTable.from_matrix(np.array([[1, 1], [2, 1], [NAN, 1]]))
    free = replace(rated, value=np.full(5, -1), score=np.full(5, np.nan), values=())
    undefined = {metric.name: (metric.reason, metric.n, metric.coverage) for metric in agreement(free)}
    reason = "more than 512 different answers: not a closed set"
    assert undefined == dict.fromkeys(["percent_agreement", "alpha"], (reason, 2, 5 / 6))


def test_no_ratings_and_a_unanimous_answer_are_distinguished():
    none = replace(RatingTable.from_matrix([[NAN, NAN]]), values=())
    assert {(metric.status, metric.reason) for metric in agreement(none)} == {("missing_input", "no rating is ok")}


def test_pairs_of_raters_are_compared_up_to_their_limit():
    assert len(pairwise_kappas(RatingTable.from_matrix([[1.0] * 14] * 2))) == 14 * 13 // 2
    assert pairwise_kappas(RatingTable.from_matrix([[1.0] * 15] * 2)) == []  # 105 pairs


def test_kappas_across_groups_complete_those_within():
    matrix = np.random.default_rng(5).integers(1, 4, (30, 4)).astype(float)
    matrix[:, 3] = np.nan
    matrix[0, 3] = 1
    answers = RatingTable.from_matrix(matrix, raters=["p1", "p2", "m", "few"])
    groups = [("p1", "p2"), ("m", "few")]
    kappas = kappas_across(answers, groups, within=groups)
    pairs = {(f.dims["rater_a"], f.dims["rater_b"]): f for f in kappas}
    assert set(pairs) == {("m", "p1"), ("m", "p2"), ("few", "p1"), ("few", "p2")}
    expected = cohen_kappa(answers.of_raters(("m", "p1")), weights="quadratic", by="score")
    assert pairs["m", "p1"].value == expected.value
    # a model that belongs to no group is compared with all others
    left_out = kappas_across(answers, groups, within=[("p1", "p2"), ("m",)])
    assert {(f.dims["rater_a"], f.dims["rater_b"]) for f in left_out} == {*pairs, ("few", "m")}


def test_of_a_crowd_the_raters_with_most_answers_are_compared():
    matrix = np.random.default_rng(5).integers(1, 4, (30, 20)).astype(float)
    matrix[20:, 14:] = np.nan
    answers = RatingTable.from_matrix(matrix, raters=[f"p{n:02}" for n in range(20)])
    kappas = kappas_across(answers, [answers.raters], within=[answers.raters])
    assert len(kappas) == MAX_COMPARED * (MAX_COMPARED - 1) // 2
    assert {f.dims["rater_b"] for f in kappas} == {f"p{n:02}" for n in range(1, 14)}


def test_a_score_of_zero_has_ratio_differences():
    # ((0 - 2) / (0 + 2))² = 1, as of categories: 1 - 5 * 2 / (2 * 3 * 3)
    assert krippendorff_alpha(RatingTable.from_matrix([[0, 0], [0, 2], [2, 2]]), "ratio").value == pytest.approx(4 / 9)


def test_weights_of_zero_expect_no_disagreement():
    alpha = krippendorff_alpha(RatingTable.from_matrix(EXAMPLE), np.zeros((5, 5)), name="none")
    assert (alpha.value, alpha.n, alpha.dims) == (None, 11, {"level": "none"})
    assert (alpha.coverage, alpha.reason) == (
        RatingTable.from_matrix(EXAMPLE).coverage,
        "the expected disagreement under the weights is 0",
    )


def test_a_scale_has_at_most_101_levels():
    scale, slider = (RatingTable.from_matrix(np.stack([np.arange(n)] * 2, 1).astype(float)) for n in (101, 102))
    assert [metric.value for metric in agreement(scale, pairs=False)] == pytest.approx([1] * 6)
    assert [metric.value for metric in agreement(slider, pairs=False)] == [None, 1]
    assert [len(kappas_across(answers, [("r0",), ("r1",)], within=[])) for answers in (scale, slider)] == [1, 0]


def test_blocks_of_items_change_no_value(monkeypatch):
    answers = RatingTable.from_matrix(EXAMPLE)
    two = answers.of_raters(["r1", "r2"])
    alphas, kappa, share = [[krippendorff_alpha(answers, level).value for level in LEVELS], cohen_kappa(two).value,
                            percent_agreement(answers, tolerance=1).value]  # fmt: skip
    monkeypatch.setattr("jobs.metrics.intervals.BLOCKS", 3)
    assert [krippendorff_alpha(answers, level).value for level in LEVELS] == pytest.approx(alphas, abs=1e-12)
    assert cohen_kappa(two).value == pytest.approx(kappa, abs=1e-12)
    assert percent_agreement(answers, tolerance=1).value == pytest.approx(share, abs=1e-12)


def test_raters_without_a_common_item_have_no_kappa():
    apart = RatingTable.from_matrix([[1, NAN], [NAN, 2]], raters=["p", "m"])
    kinds = [("p",), ("m",)]
    assert kappas_across(apart, kinds, within=[]) == []
    without_answers = replace(apart, score=np.full(2, NAN), value=np.full(2, -1), values=())
    assert kappas_across(without_answers, kinds, within=[]) == []


def test_a_kappa_says_its_weights_and_how_many_raters_it_lacks() -> None:
    two = RatingTable.from_matrix(np.array([[1.0, 1], [2, 3], [3, 3]]))
    for weights in (None, "linear", "quadratic"):
        metric = cohen_kappa(two, weights=weights)
        assert metric.dims["weights"] == (weights or "none")
        assert (weights or "unweighted") in metric.definition
    three = cohen_kappa(RatingTable.from_matrix(np.array([[1, 1, 1], [1, 1, NAN]])))
    assert (three.reason, three.n, three.coverage) == ("3 raters: kappa is defined for two", 0, 5 / 6)
    assert "unweighted" in three.definition


def test_too_many_scores_are_not_compared_for_equality() -> None:
    scores = np.arange(2.0 * MAX_LEVELS_OF_A_SCALE + 2).reshape(-1, 2)
    equal, alpha = agreement(RatingTable.from_matrix(scores))
    assert (equal.name, equal.value, equal.coverage) == ("percent_agreement", None, 1)
    assert equal.n == alpha.n == len(scores)
    assert equal.reason == f"{scores.size} different scores: equal scores are too rare to measure agreement"
    assert equal.definition == percent_agreement(RatingTable.from_matrix([[1, 1], [2, 3]])).definition
    assert (alpha.name, alpha.dims) == ("alpha", alpha_of_moments(RatingTable.from_matrix(scores)).dims)
