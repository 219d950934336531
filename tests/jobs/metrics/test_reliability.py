"""Intraclass and pairwise correlations: published tables, pingouin, uneven raters, other names."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr, spearmanr

from jobs.metrics import reliability
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import student
from jobs.metrics.reliability import icc, icc_of_sums, pairwise_correlations
from tests.cases import check_cases

NAN = np.nan
# Shrout and Fleiss (1979), table 2: 6 targets, 4 judges. Published there (table 4): ICC(1,1) 0.17, ICC(2,1) 0.29,
# ICC(2,4) 0.62.
SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def named(metrics):
    return {f.name: f for f in metrics}


def test_shrout_and_fleiss():
    metrics = named(icc(RatingTable.from_matrix(SHROUT_FLEISS)))
    assert [round(metrics[name].value, 2) for name in ("icc1", "icc2", "icc2k")] == [0.17, 0.29, 0.62]
    # the intervals of psych's and pingouin's documentation for these data: ICC2 0.02 to 0.76, ICC2k 0.07 to 0.93
    assert (round(metrics["icc2"].low, 2), round(metrics["icc2"].high, 2)) == (0.02, 0.76)
    assert (round(metrics["icc2k"].low, 2), round(metrics["icc2k"].high, 2)) == (0.07, 0.93)
    assert metrics["icc2"].dims == {"k": "4", "columns": "raters"}
    assert metrics["icc2"].n == 6


def test_three_of_many_raters_go_into_slots_that_names_do_not_change():
    draw = np.random.default_rng(3)
    noise = draw.normal(size=60)
    matrix = np.full((60, 30), NAN)
    for item in range(60):
        matrix[item, draw.choice(30, 3, replace=False)] = np.round(noise[item] * 2 + draw.normal(size=3) + 5)
    metrics = named(icc(RatingTable.from_matrix(matrix)))
    assert metrics["icc2"].dims == {"k": "3", "columns": "rating slots"}
    assert "rating slots" in metrics["icc2"].definition
    assert metrics["icc2"].n == 60
    shuffled = named(icc(RatingTable.from_matrix(matrix[draw.permutation(60)][:, draw.permutation(30)])))
    for name in metrics:
        assert metrics[name].value == pytest.approx(shuffled[name].value, abs=1e-12)
    # slots stand for no rater: their means differ by chance alone, and ICC(2,1) is expected to be ICC(1)
    assert metrics["icc1"].value == metrics["icc2"].value


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from pandas, about pingouin's code
def test_icc_of_slots_is_the_mean_over_assignments():
    """The values of 400 random assignments differ by 0.03 and more; the reported one is their mean."""
    draw = np.random.default_rng(12)
    matrix = np.full((39, 20), NAN)
    for item in range(39):
        matrix[item, draw.choice(20, 3, replace=False)] = draw.integers(1, 6) / 2 + draw.integers(1, 5, 3)
    metrics = named(icc(RatingTable.from_matrix(matrix)))
    table = np.stack([row[~np.isnan(row)] for row in matrix])
    by_chance = [icc_of_sums(draw.permuted(table, axis=1)) for _ in range(400)]
    for name, kind in (("icc2", "ICC(A,1)"), ("icc2k", "ICC(A,k)")):
        values = [assigned[kind][0] for assigned in by_chance]
        assert np.ptp(values) > 0.03
        assert metrics[name].value == pytest.approx(np.mean(values), abs=0.004)
    theirs = pingouin_icc(table)["ICC(1,k)"]
    assert metrics["icc2k"].value == pytest.approx(theirs[0], abs=1e-12)
    assert [metrics["icc2k"].low, metrics["icc2k"].high] == pytest.approx(theirs[1], abs=1e-9)
    assert "ICC(1,k)" in metrics["icc2k"].definition


def test_items_without_variance_between_them_have_no_icc_of_slots():
    matrix = np.full((8, 8), NAN)
    for item in range(8):
        matrix[item, item], matrix[item, (item + 1) % 8] = 1, 3
    (undefined,) = (f for f in icc(RatingTable.from_matrix(matrix)) if f.name == "icc2k")
    assert (undefined.value, undefined.n, undefined.reason) == (None, 8, "no variance between items")


def test_a_sparse_rater_gives_slots_with_what_they_use_and_the_others_own_icc():
    """40 items rated by two, and 14 of them by a third: neither metric passes for one of all ratings."""
    draw = np.random.default_rng(8)
    matrix = np.round(draw.normal(size=(40, 1)) * 2 + draw.normal(size=(40, 3)) + 5)
    whole = named(icc(RatingTable.from_matrix(matrix[:, :2], raters=["a", "b"])))
    matrix[14:, 2] = NAN
    metrics = icc(RatingTable.from_matrix(matrix, raters=["a", "b", "c"]))
    by = {(f.name, f.dims["columns"]): f for f in metrics}
    assert len(by) == len(metrics) == 6
    slots, raters = by["icc2", "rating slots"], by["icc2", "raters"]
    assert (slots.n, slots.dims["k"], "26 of 40" in str(slots.reason)) == (26, "2", True)
    assert (raters.n, raters.dims["k"]) == (40, "2")
    assert "2 of 3 raters" in str(raters.reason)
    assert "40 of 40 rated items" in str(raters.reason)
    for name in whole:
        mine, alone = by[name, "raters"], whole[name]
        assert (mine.value, mine.low, mine.high) == pytest.approx((alone.value, alone.low, alone.high))


def test_crossed_raters_need_half_of_the_items_in_common():
    matrix = np.tile(np.arange(8.0), (4, 1)).T + np.arange(4) % 2
    matrix[4:, 1] = matrix[5:, 2] = matrix[:4, 3] = NAN  # b: the first half; c: five; d: the second half
    answers = RatingTable.from_matrix(matrix, raters=["a", "b", "c", "d"])
    by = {f.dims["columns"]: f for f in icc(answers) if f.name == "icc1"}
    # a has 8, c 5, then b (by name before d) 4: items 0 to 3 are common to the three
    assert (by["raters"].dims["k"], by["raters"].n) == ("3", 4)
    matrix[5:, 3] = NAN  # d has a single rating
    reasons = {str(f.reason) for f in icc(RatingTable.from_matrix(matrix)) if f.dims["columns"] == "raters"}
    assert all("3 of 4 raters" in reason for reason in reasons), reasons
    crowd = np.full((30, 30), NAN)
    for item in range(30):
        crowd[item, [item, (item + 7) % 30]] = 1 + item % 5
    assert {f.dims["columns"] for f in icc(RatingTable.from_matrix(crowd))} == {"rating slots"}


def test_half_of_the_items_are_enough_to_be_crossed():
    """All raters rated exactly 4 of 8 rated items: the columns are the raters; one item fewer and they are slots."""
    matrix = np.array([[1, 2], [2, 2], [3, 5], [4, 4], [1, NAN], [NAN, 2], [3, NAN], [NAN, 3]])
    metrics = icc(RatingTable.from_matrix(matrix))
    assert {(f.dims["columns"], f.n) for f in metrics} == {("raters", 4)}
    assert all("4 of 8 rated items" in str(f.reason) for f in metrics)
    matrix[3, 1] = NAN
    assert {f.dims["columns"] for f in icc(RatingTable.from_matrix(matrix))} == {"rating slots"}


def test_slots_have_the_most_frequent_number_of_ratings_and_of_several_the_largest():
    draw = np.random.default_rng(2)
    matrix = np.full((11, 20), NAN)
    for item, ratings in enumerate([3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1]):
        matrix[item, draw.choice(20, ratings, replace=False)] = draw.integers(1, 6, ratings)
    answers = RatingTable.from_matrix(matrix)
    assert {(f.dims["k"], f.dims["columns"], f.n) for f in icc(answers)} == {("3", "rating slots", 3)}


def test_items_that_few_lack_are_left_out_and_show_in_the_coverage():
    matrix = np.array(SHROUT_FLEISS, float)
    matrix[0, 0] = NAN
    metrics = named(icc(RatingTable.from_matrix(matrix)))["icc1"]
    assert (metrics.n, metrics.dims["columns"]) == (5, "raters")
    assert metrics.coverage == pytest.approx(20 / 24)


def test_undefined_with_its_reason():
    cases = [
        ([[1], [2], [3]], "one rater", 0),
        ([[3, 3], [3, 3], [3, 3]], "all scores are equal", 3),
        ([[1, 2], [2, 2]], "at least 3", 2),
        ([[NAN, NAN]], "no rating is ok", 0),
    ]

    def check(matrix, reason, n):
        for metric in icc(RatingTable.from_matrix(matrix)):
            assert (metric.value, metric.n, "k" in metric.dims) == (None, n, True)
            assert reason in str(metric.reason)

    check_cases(check, cases)


def pingouin_icc(table: np.ndarray) -> dict[str, tuple[float, list[float]]]:
    """pingouin's name of the ICC -> (value, bounds of the interval, not rounded)."""
    import pingouin  # loads matplotlib and pandas

    items, k = table.shape
    columns = {"item": np.repeat(np.arange(items), k), "rater": np.tile(np.arange(k), items), "score": table.ravel()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(pingouin.options, "round.column.CI95", None)
        rows = pingouin.intraclass_corr(pd.DataFrame(columns), targets="item", raters="rater", ratings="score")
    return {row["Type"]: (float(row["ICC"]), list(map(float, row["CI95"]))) for _, row in rows.iterrows()}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # from pandas, about pingouin's code
def test_sums_give_pingouins_coefficients_and_intervals():
    def check(seed):
        draw = np.random.default_rng(seed)
        n, k = int(draw.integers(3, 60)), int(draw.integers(2, 7))
        table = draw.integers(1, 6, (n, 1)) * draw.choice([0, 1, 3]) + draw.integers(0, 4, (n, k)) + draw.random(k)
        theirs = pingouin_icc(table)
        for name, (value, interval) in icc_of_sums(table).items():
            assert value == pytest.approx(theirs[name][0], abs=1e-12)
            assert interval == pytest.approx(theirs[name][1], abs=1e-9)

    check_cases(check, range(6))


def test_parts_of_a_table_give_the_same(monkeypatch):
    whole = named(icc(RatingTable.from_matrix(SHROUT_FLEISS)))
    monkeypatch.setattr(reliability, "PART", 5)
    in_parts = named(icc(RatingTable.from_matrix(SHROUT_FLEISS)))
    assert [in_parts[m].value for m in in_parts] == pytest.approx([whole[m].value for m in whole], abs=1e-12)
    assert [in_parts[m].high for m in in_parts] == pytest.approx([whole[m].high for m in whole], abs=1e-9)


def test_raters_who_agree_entirely():
    metrics = named(icc(RatingTable.from_matrix([[1, 1], [2, 2], [3, 3], [5, 5]])))
    assert all(f.value == pytest.approx(1) or f.value is None for f in metrics.values())


def test_pairwise_correlations_are_scipys_mean_over_pairs():
    draw = np.random.default_rng(5)
    matrix = np.round(draw.normal(size=(50, 1)) * 2 + draw.normal(size=(50, 4)))
    matrix[draw.random((50, 4)) < 0.3] = NAN
    pairs = [(a, b) for a in range(4) for b in range(a + 1, 4)]
    for kind, function in (("pearson", pearsonr), ("spearman", spearmanr)):
        expected = []
        for a, b in pairs:
            both = ~np.isnan(matrix[:, a]) & ~np.isnan(matrix[:, b])
            expected.append(function(matrix[both, a], matrix[both, b]).statistic)
        metrics = named(pairwise_correlations(RatingTable.from_matrix(matrix)))[f"pairwise_{kind}"]
        assert metrics.value == pytest.approx(np.mean(expected), abs=1e-10)
        assert (metrics.n, metrics.coverage) == (6, 1.0)
        assert (metrics.low, metrics.reason) == (None, "no interval: fewer than 5 raters (4)")


def test_correlations_of_scores_far_from_zero():
    matrix = np.array([[1, 2, 5], [2, 4, 3], [3, 3, 4], [4, 6, 1], [5, 5, 2]], float)
    near, far = (named(pairwise_correlations(RatingTable.from_matrix(matrix + centre))) for centre in (0, 1e9))
    assert far["pairwise_pearson"].value == pytest.approx(near["pairwise_pearson"].value)


def test_the_jackknife_over_raters_by_hand():
    draw = np.random.default_rng(6)
    matrix = draw.normal(size=(50, 1)) * 2 + draw.normal(size=(50, 5))
    pairs = np.asarray(np.corrcoef(matrix.T))
    without = []
    for left_out in range(5):
        kept = np.delete(np.delete(pairs, left_out, 0), left_out, 1)
        without.append(kept[np.triu_indices(4, 1)].mean())
    half = student(5) * np.sqrt(4 / 5 * ((np.array(without) - np.mean(without)) ** 2).sum())
    metrics = named(pairwise_correlations(RatingTable.from_matrix(matrix)))["pairwise_pearson"]
    value = pairs[np.triu_indices(5, 1)].mean()
    assert (metrics.value, metrics.low, metrics.high) == pytest.approx((value, value - half, value + half))


def test_the_jackknife_ends_at_1_and_needs_pairs_without_each_rater():
    # four raters alike and a fifth with r = 0.5: mean 0.8; without the fifth 1, without another 0.75;
    # error sqrt(4 / 5 * (0.2² + 4 * 0.05²)) = 0.2
    matrix = np.array([[1, 1, 1, 1, 1], [2, 2, 2, 2, 3], [3, 3, 3, 3, 2]], float)
    metrics = named(pairwise_correlations(RatingTable.from_matrix(matrix)))["pairwise_pearson"]
    assert (metrics.value, metrics.low, metrics.high) == (pytest.approx(0.8), pytest.approx(0.8 - 0.2 * student(5)), 1)
    star = np.full((12, 5), NAN)
    star[:, 0] = np.arange(12) % 5
    for rater in range(1, 5):
        star[3 * rater - 3 : 3 * rater, rater] = [1, 2, 4]
    metrics = named(pairwise_correlations(RatingTable.from_matrix(star)))["pairwise_pearson"]
    assert (metrics.n, metrics.low, metrics.reason) == (4, None, "no interval: one rater is in every pair")


def test_reversed_constant_and_single_raters():
    against = named(pairwise_correlations(RatingTable.from_matrix([[1, 5], [2, 4], [3, 3], [4, 2]])))
    assert against["pairwise_pearson"].value == pytest.approx(-1)
    constant = named(pairwise_correlations(RatingTable.from_matrix([[1, 3, 1], [2, 3, 2], [3, 3, 4]])))
    for metric in constant.values():
        assert (metric.n, metric.coverage) == (1, pytest.approx(1 / 3))
    alone = named(pairwise_correlations(RatingTable.from_matrix([[1], [2]])))
    assert alone["pairwise_spearman"].reason == "one rater"
    few = named(pairwise_correlations(RatingTable.from_matrix([[1, 2], [2, 3]])))["pairwise_pearson"]
    assert (few.value, few.coverage) == (None, 0.0)


def test_many_raters_of_an_item_each_are_not_one_rater():
    apart = RatingTable.from_matrix([[1, np.nan], [np.nan, 2], [3, np.nan]])
    assert {metric.reason for metric in icc(apart)} == {"no item was rated by two raters"}
    assert {metric.reason for metric in icc(RatingTable.from_matrix([[1], [2], [3]]))} == {"one rater"}
