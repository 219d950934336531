"""Changes between two conditions: values by hand and by brute force, and invariances."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr
from sklearn.metrics import f1_score

from jobs.metrics.answers import RatingTable
from jobs.metrics.condition_changes import ConditionRatings, compared, condition_changes, f1_over_best, f1_ratios
from jobs.metrics.intervals import Units
from jobs.metrics.rated_question import MetricSettings, QuestionContext, RatedQuestion
from tests.cases import check_cases

KINDS = {"m": "model", "n": "model", **dict.fromkeys("pqrst", "human")}


def condition(name, matrix, raters, item, target, *, shared=(), inverted=False, settings=None, **context):
    """Return one condition: float64[pairs, raters] scores of the pairs (item, target)."""
    item, target = np.asarray(item, np.uint64), np.asarray(target, np.int32)
    dims_of = QuestionContext(
        kinds=KINDS,
        picture=np.unique(item, return_inverse=True)[1],
        target=target.astype(np.int64),
        **{"scale": (1.0, 5.0), **context},
    )
    answers = RatingTable.from_matrix(np.asarray(matrix, float), raters=raters)
    answers = replace(answers, units_of_items=Units(item.view(np.int64)))
    rated = RatedQuestion(answers, dims_of, settings or MetricSettings(at_least=[4.0]), inverted=inverted)
    return ConditionRatings(name, rated, item, target, shared)


def changes(first, second) -> dict[tuple[Any, ...], Any]:
    """(name, group, threshold or average, reading) -> metric."""
    results = {}
    for metric in condition_changes(first, second):
        assert (metric.dims["first"], metric.dims["second"]) == (first.name, second.name)
        more = [metric.dims[name] for name in ("threshold", "average", "positive") if name in metric.dims]
        results[(metric.name, metric.dims["group"], *more)] = metric
    return results


def test_by_hand():
    """Six items; under b the third item is missing, and the last is new."""
    a = condition("a", [[1], [2], [5], [4], [3], [2]], ["m"], range(6), [0] * 6)
    b = condition("b", [[4], [4], [4], [1], [2], [5]], ["m"], [0, 1, 3, 4, 5, 9], [0] * 6)
    results = changes(a, b)
    score = results["score_change", "m"]
    assert (score.value, score.n, score.coverage) == ((3 + 2 + 0 - 2 + 0) / 5, 5, 5 / 7)
    assert score.low <= score.value <= score.high
    share = results["share_at_least_change", "m", "4"]
    assert (share.value, share.n) == ((1 + 1 + 0 + 0 + 0) / 5, 5)
    assert changes(b, a)["score_change", "m"].value == -score.value
    assert {name[0] for name in results} == {"score_change", "share_at_least_change"}
    with_people = condition("b", [[4, 1]] * 6, ["m", "p"], range(6), [0] * 6)  # under one condition only
    for sides in ((a, with_people), (with_people, a)):
        assert {name[0] for name in changes(*sides)} == {"score_change", "share_at_least_change"}


def test_a_group_under_one_condition_only_has_no_change():
    """Two models have a mean under a; under b there is one of them."""
    a = condition("a", [[1, 2], [2, 3]], ["m", "n"], [0, 1], [0, 0])
    b = condition("b", [[3], [5]], ["m"], [0, 1], [0, 0])
    results = changes(a, b)
    assert {name[1] for name in results} == {"m"}
    assert results["score_change", "m"].value == (2 + 3) / 2


def test_people_stay_a_group_if_one_of_them_rated_under_both_conditions():
    """The one who did is compared, with as many ratings of an item as the smaller group needs."""
    a = condition("a", [[1, 5], [2, 5]], ["p", "q"], [0, 1], [0, 0])
    b = condition("b", [[3], [5]], ["p"], [0, 1], [0, 0])
    for first, second, sign in ((a, b, 1), (b, a, -1)):
        score = changes(first, second)["score_change", "people"]
        assert (score.value, score.n) == (sign * (2 + 3) / 2, 2)
    alone = condition("c", [[4], [4]], ["p"], [0, 1], [0, 0])
    assert changes(b, alone)["score_change", "people"].value == (1 - 1) / 2


def test_images_without_enough_targets_lower_the_coverage():
    item, target = [0, 0, 0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 0, 1, 2, 0, 1, 0]
    people = [1, 2, 3, 1, 3, 2, 5, 4, 1]
    models = {"a": [1, 2, 2, 4, 4, 4, 1, 2, 3], "b": [1, 2, 4, 1, 3, 2, 5, 5, 5]}  # under a no variance in item 1
    sides = [condition(name, np.transpose([scores, people]), ["m", "p"], item, target, shared=["p"])
             for name, scores in models.items()]  # fmt: skip
    change = changes(*sides)["pearson_by_image_change", "m"]
    expected = pearsonr([1, 2, 4], [1, 2, 3]).statistic - pearsonr([1, 2, 2], [1, 2, 3]).statistic
    assert change.value == pytest.approx(expected)
    assert (change.n, change.coverage) == (1, 3 / 9)


def test_pairs_are_of_item_target_and_rater():
    """m rates the second pair under a only, n the first pair under b only: what remains is n's 5 - 4 and m's 2 - 1."""
    item, target = [7, 7], [0, 1]
    a = condition("a", [[1, np.nan], [5, 4]], ["m", "n"], item, target)
    b = condition("b", [[2, 3], [np.nan, 5]], ["m", "n"], item, target)
    results = changes(a, b)
    assert {name[1]: metric.value for name, metric in results.items() if name[0] == "score_change"} == {
        "models": 1, "m": 1, "n": 1,
    }  # fmt: skip
    assert results["score_change", "models"].n == 2
    assert "fewer than 5 items (1)" in results["score_change", "models"].reason
    swapped = condition("b", [[np.nan, 5], [2, 3]], ["m", "n"], item, [1, 0])
    assert {k: m.value for k, m in changes(a, swapped).items()} == {k: m.value for k, m in results.items()}


def test_an_inverted_scale_inverts_the_change():
    a, b = ([[1], [2], [5], [4], [3]], [[2], [1], [1], [5], [3]])
    plain = changes(*(condition(n, m, ["m"], range(5), [0] * 5) for n, m in (("a", a), ("b", b))))
    turned = changes(*(condition(n, m, ["m"], range(5), [0] * 5, inverted=True) for n, m in (("a", a), ("b", b))))
    assert turned["score_change", "m"].value == -plain["score_change", "m"].value
    assert {name: metric.dims.get("inverted") for (name, *_), metric in (turned | plain).items()} == {
        "score_change": None, "share_at_least_change": None
    }  # fmt: skip
    assert {metric.dims.get("inverted") for metric in turned.values()} == {"yes"}
    # at least 4 of 6 - score: scores 1 and 2
    assert turned["share_at_least_change", "m", "4"].value == (3 - 2) / 5


def test_without_a_scale_shares_are_undefined_and_scores_are_not():
    a, b = (condition(n, [[s] for s in (1, 2, 3, 4, 5)], ["m"], range(5), [0] * 5, scale=None) for n in "ab")
    results = changes(a, b)
    assert results["score_change", "m"].value == 0
    share = results["share_at_least_change", "m", "4"]
    assert (share.value, share.reason) == (None, "the scale is not known")
    assert (share.n, share.coverage) == (5, 1.0)


def test_shared_people_do_not_change_and_models_are_compared_with_them():
    people = [1, 2, 3, 4, 5, 5]
    a, b = ([3, 2, 4, 4, 5, 1], [1, 2, 3, 4, 5, 4])
    sides = [condition(n, np.transpose([m, people]), ["m", "p"], range(6), [0] * 6, shared=["p"])
             for n, m in (("a", a), ("b", b))]  # fmt: skip
    results = changes(*sides)
    assert {name[1] for name in results} == {"m"}
    expected = pearsonr(b, people).statistic - pearsonr(a, people).statistic
    assert results["pearson_with_people_change", "m"].value == pytest.approx(expected)
    assert ("pearson_by_image_change", "m") not in results  # one target


def resamples(item, statistic, draws=200):
    """Return the middle 95 % of a statistic over resampled items, computed by the definition."""
    rng = np.random.default_rng(1)
    units = np.unique(item)
    rows_of = {unit: np.flatnonzero(item == unit) for unit in units}
    values = [statistic(np.concatenate([rows_of[u] for u in rng.choice(units, len(units))])) for _ in range(draws)]
    return np.nanquantile(values, [0.025, 0.975])


@pytest.fixture(scope="module")
def drawn():
    rng = np.random.default_rng(3)
    item, target = (np.array(side) for side in zip(*itertools.product(range(120), range(4)), strict=True))
    truth = rng.integers(1, 6, len(item))
    noisy = lambda sd: np.clip(np.round(truth + rng.normal(0, sd, len(item))), 1, 5)  # noqa: E731
    scores = {"a": noisy(2.0), "b": noisy(0.7)}
    people = np.stack([noisy(1.0), noisy(1.0)], axis=1)
    right = truth >= 4
    sides = {name: condition(name, np.column_stack([s, people]), ["m", "p", "q"], item, target, shared=["p", "q"],
                             right=right, judged=np.ones(len(item), bool))
             for name, s in scores.items()}  # fmt: skip
    return item, target, scores, people.mean(1), right, changes(sides["a"], sides["b"])


def test_brute_force_of_every_change(drawn):
    item, target, scores, people, right, result = drawn
    a, b = scores["a"], scores["b"]
    hit = {name: score >= 4 for name, score in scores.items()}

    def by_image(rows):
        changes_of = []
        for unit in np.unique(item[rows]):
            chosen = np.flatnonzero(item == unit)
            if all(np.ptp(side[chosen]) for side in (a, b, people)):
                r = [pearsonr(side[chosen], people[chosen]).statistic for side in (a, b)]
                changes_of.append(r[1] - r[0])
        return np.mean(changes_of)

    def of_rows(name, rows):  # scikit-learn's takes ten seconds for all resamples
        return 2 * (right[rows] & hit[name][rows]).sum() / (right[rows].sum() + hit[name][rows].sum())

    def f1(name, rows, average):
        if average == "micro":
            return of_rows(name, rows)
        groups = target if average == "macro" else item
        groups_of_rows = [rows[groups[rows] == group] for group in np.unique(groups[rows])]
        return np.mean([of_rows(name, r) for r in groups_of_rows if right[r].any() or hit[name][r].any()])

    every = np.arange(len(item))
    assert [of_rows(name, every) for name in hit] == pytest.approx([f1_score(right, hit[name]) for name in hit])
    expected = {
        ("score_change", "m"): lambda rows: (b - a)[rows].mean(),
        ("share_at_least_change", "m", "4"): lambda rows: hit["b"][rows].mean() - hit["a"][rows].mean(),
        ("pearson_with_people_change", "m"): lambda rows: (
            pearsonr(b[rows], people[rows]).statistic - pearsonr(a[rows], people[rows]).statistic
        ),
        ("f1_change", "m", "micro", ">=4"): lambda rows: f1("b", rows, "micro") - f1("a", rows, "micro"),
        ("f1_change", "m", "macro", ">=4"): lambda rows: f1("b", rows, "macro") - f1("a", rows, "macro"),
    }
    for key, statistic in expected.items():
        metric = result[key]
        assert metric.value == pytest.approx(statistic(every)), key
        assert metric.n == len(item), key
        low, high = resamples(item, statistic)
        width = high - low
        assert metric.low == pytest.approx(low, abs=0.2 * width), key
        assert metric.high == pytest.approx(high, abs=0.2 * width), key
    assert result["pearson_by_image_change", "m"].value == pytest.approx(by_image(every))
    samples = result["f1_change", "m", "samples", ">=4"].value
    assert samples == pytest.approx(f1("b", every, "samples") - f1("a", every, "samples"))


def test_the_ratio_of_f1_by_hand():
    """Six items, four of them right: with gold's article all four and one other are found, with a found one three."""
    right = {"right": np.array([1, 1, 1, 1, 0, 0], bool), "judged": np.ones(6, bool)}
    gold = condition("gold", [[5], [4], [4], [5], [4], [1]], ["m"], range(6), [0] * 6, **right)
    conditions = condition("found", [[5], [4], [4], [3], [2], [1]], ["m"], range(6), [0] * 6, **right)
    ratios = {(m.dims["average"], m.dims["positive"]): m for m in f1_ratios(gold, conditions)}
    micro = ratios["micro", ">=4"]
    assert micro.name == "f1_ratio"
    assert micro.value == pytest.approx((6 / 7) / (8 / 9))
    assert (micro.dims["first"], micro.dims["second"], micro.n) == ("gold", "found", 6)
    assert ratios["micro", ">4"].value == pytest.approx((2 / 5) / (4 / 6))
    partly = condition("partly", [[5], [np.nan], [4], [3], [2], [1]], ["m"], range(6), [0] * 6, **right)
    judged = np.array([1, 1, 1, 1, 1, 0], bool)
    five = condition("gold", [[5], [4], [4], [5], [4], [1]], ["m"], range(6), [0] * 6, **(right | {"judged": judged}))
    coverages = {(m.n, m.coverage) for m in f1_ratios(five, partly)}
    assert coverages == {(4, 4 / 5)}  # five pairs have gold under both, of which the second lacks one
    none = condition("gold", [[1]] * 6, ["m"], range(6), [0] * 6, **right)
    undefined = {(m.dims["average"], m.dims["positive"]): m for m in f1_ratios(none, conditions)}["micro", ">=4"]
    assert (undefined.value, undefined.n, undefined.coverage) == (None, 6, 1.0)
    assert str(undefined.reason).startswith("F1 is 0 under the first condition")


def test_a_model_that_only_rated_under_the_second_condition_is_compared_with_the_best_one():
    """Two models under none; a text model under article, which did not rate one pair and rated an unjudged one."""
    rng = np.random.default_rng(3)
    item, target = np.repeat(np.arange(30), 2), np.tile([0, 1], 30)
    right = rng.random(60) < 0.4
    judged = np.arange(60) != 7
    of_gold = {"right": right, "judged": judged}
    scores = np.where(rng.random((60, 3)) < [[0.6, 0.8, 0.9]], right[:, None], ~right[:, None]) * 4.0 + 1
    scores[9, 2] = np.nan
    none = condition("none", scores[:, :2], ["m", "n"], item, target, **of_gold)
    article = condition("article", scores[:, [0, 2]], ["m", "x"], item, target, **of_gold)
    metrics = {(m.dims["average"], m.dims["positive"]): m for m in f1_over_best(none, article)}
    assert {m.dims["group"] for m in metrics.values()} == {"x"}
    micro = metrics["micro", ">=4"]
    whole, both = judged, judged & ~np.isnan(scores[:, 2])
    values = [f1_score(right[whole], scores[whole, column] >= 4) for column in (0, 1)]
    assert values[1] > values[0]
    assert (micro.dims["best"], micro.dims["first"], micro.dims["second"]) == ("n", "none", "article")
    expected = f1_score(right[both], scores[both, 2] >= 4) - f1_score(right[both], scores[both, 1] >= 4)
    assert (micro.value, micro.n, micro.coverage) == (pytest.approx(expected), 58, 58 / 59)
    assert all(isinstance(bound, float) for bound in (micro.low, micro.high))
    assert (micro.low or 0) < (micro.value or 0) < (micro.high or 0)
    macro = metrics["macro", ">4"].value
    assert macro == pytest.approx(sum(
        f1_score(right[part], scores[part, 2] > 4) - f1_score(right[part], scores[part, 1] > 4)
        for part in (both & (target == 0), both & (target == 1))
    ) / 2)  # fmt: skip
    samples = metrics["samples", ">=4"]
    assert samples.value is not None
    assert list(f1_over_best(article, none)) != []  # n rated under none alone
    assert list(f1_over_best(none, none)) == []
    elsewhere = condition("article", scores[:, 2:], ["x"], item + 100, target, **of_gold)
    assert {m.reason for m in f1_over_best(none, elsewhere)} == {
        "no pair of item and label that is labelled in gold is rated by both models"
    }  # fmt: skip
    without_gold = condition("article", scores[:, 2:], ["x"], item, target)
    assert list(f1_over_best(none, without_gold)) == []


def test_the_interval_of_a_paired_change_is_that_of_pairs():
    """Equal changes of very different items: pairing leaves no variance, so the interval of b - a is narrow."""
    rng = np.random.default_rng(5)
    base = rng.integers(1, 4, 200).astype(float)
    step = (rng.random(200) < 0.5).astype(float)
    a, b = (condition(n, s[:, None], ["m"], range(200), [0] * 200) for n, s in (("a", base), ("b", base + step)))
    metric = changes(a, b)["score_change", "m"]
    assert metric.value == step.mean()
    half = 1.96 * step.std() / np.sqrt(200)
    assert (metric.low, metric.high) == (
        pytest.approx(step.mean() - half, abs=0.01),
        pytest.approx(step.mean() + half, abs=0.01),
    )


def test_names_and_order_of_items_do_not_matter(drawn):
    item, target, scores, _, _, _ = drawn
    order = np.random.default_rng(9).permutation(len(item))

    def changes_of(rows, names):
        return changes(*(condition(n, scores[n][rows, None], ["m"], names[rows], target[rows]) for n in "ab"))

    plain = changes_of(np.arange(len(item)), item)["score_change", "m"]
    moved = changes_of(order, np.random.default_rng(4).permutation(10_000)[item])["score_change", "m"]
    assert (plain.value, plain.low, plain.high) == (pytest.approx(moved.value), moved.low, moved.high)


def test_nothing_in_common_is_undefined():
    a, b = (condition(n, [[3], [4]], ["m"], items, [0, 0], right=np.ones(2, bool), judged=np.ones(2, bool))
            for n, items in (("a", [1, 2]), ("b", [3, 4])))  # fmt: skip
    for metric in changes(a, b).values():
        assert (metric.value, metric.n) == (None, 0)
        assert metric.reason == "no pair of item and target is rated under both conditions"
    assert ("share_at_least_change", "m", "4") in changes(a, b), "undefined at each threshold"
    coverages = {name[0]: metric.coverage for name, metric in changes(a, b).items()}
    assert coverages == {"score_change": 0.0, "share_at_least_change": 0.0, "f1_change": None}


def test_two_pairs_have_no_correlation():
    sides = [condition(n, [[1, 2], [2, 3]], ["m", "p"], [1, 2], [0, 0], shared=["p"]) for n in "ab"]
    (metric,) = (m for name, m in changes(*sides).items() if name[0] == "pearson_with_people_change")
    assert (metric.value, metric.n, metric.coverage) == (None, 2, 1.0)
    assert metric.reason == "no variance, or fewer than three pairs"


def categories(name, matrix, raters, item, right):
    """Return a condition of a question without scores; right answers are space-separated, or "" if unknown."""
    values = [frozenset(answers.split()) if answers else None for answers in right]
    plain = condition(name, matrix, raters, item, [0] * len(item), right_values=values)
    answers = replace(plain.rated.answers, score=np.full(plain.rated.answers.n, np.nan))
    return replace(plain, rated=replace(plain.rated, answers=answers))


def test_accuracy_by_hand():
    """Items 0 to 3 are under both; 3 has unknown gold, and under a the models have no majority about item 1."""
    right = ["1", "2", "3 4", ""]
    a = categories("a", [[2, 2], [1, 2], [3, 3], [1, 1]], ["m", "n"], range(4), right)
    b = categories("b", [[1, 1], [2, 2], [4, 4], [2, 1], [1, 1]], ["m", "n"], range(5), [*right, "1"])
    results = {name[1]: metric for name, metric in changes(a, b).items()}
    assert {name: (m.value, m.n, m.coverage) for name, m in results.items()} == {
        "m": (2 / 3, 3, 1), "n": (1 / 3, 3, 1), "models": (1 / 2, 2, 2 / 3),
    }  # fmt: skip
    turned = {name[1]: metric.value for name, metric in changes(b, a).items()}
    assert turned == {name: -metric.value for name, metric in results.items()}


def test_right_answers_are_those_of_each_conditions_items():
    """The items are listed in another order under b; the right answer of item 2 differs between the conditions."""
    a = categories("a", [[1], [1], [3]], ["m"], [0, 1, 2], ["1", "2", "3"])
    b = categories("b", [[4], [2], [1]], ["m"], [2, 1, 0], ["4", "2", "1"])
    accuracy = changes(a, b)["accuracy_change", "m"]
    assert (accuracy.value, accuracy.n) == (1 / 3, 3)


def test_a_rater_whose_ratings_one_condition_shares_has_no_change():
    a, b = (condition(n, [[1], [2]], ["m"], [0, 1], [0, 0], shared=shared) for n, shared in (("a", []), ("b", ["m"])))
    assert changes(a, b) == changes(b, a) == {}


def test_accuracy_without_a_majority_says_so():
    a, b = (categories(n, [[1, 2]], ["m", "n"], [0], ["1"]) for n in "ab")
    metric = changes(a, b)["accuracy_change", "models"]
    reason = "no item with a right answer has a majority of the answers by the same raters under both conditions"
    assert (metric.value, metric.n, metric.reason) == (None, 0, reason)
    apart = changes(a, categories("c", [[1, 2]], ["m", "n"], [1], ["1"]))["accuracy_change", "m"]
    assert apart.reason == "no pair of item and target is rated under both conditions"


def test_the_reason_names_the_ratings_that_are_missing():
    """Three people under each condition, of whom p rated under both: an item needs three ratings and has one."""
    a, b = (condition(n, [[3, 4, 5], [1, 2, 3]], ["p", *others], [1, 2], [0, 0], right=np.ones(2, bool),
                      judged=np.ones(2, bool)) for n, others in (("a", "qr"), ("b", "st")))  # fmt: skip
    reason = (
        "needs 3 ratings of a pair of item and target by the same raters under both conditions, and no pair has more "
        "than 1; 1 of the group rated under both"
    )
    results = changes(a, b)
    assert {name[0] for name in results} == {"score_change", "share_at_least_change", "f1_change"}
    assert {(metric.value, metric.n, metric.reason) for metric in results.values()} == {(None, 0, reason)}


def test_the_reason_names_what_else_is_missing():
    """The model rated everything twice; gold and people's ratings are of the other item, or of none."""
    sides = [condition(n, [[3, np.nan], [np.nan, 4]], ["m", "p"], [1, 2], [0, 0], right=np.ones(2, bool),
                       judged=np.array([False, True]), shared=["p"]) for n in "ab"]  # fmt: skip
    results = {name[0]: metric for name, metric in changes(*sides).items()}
    assert results["score_change"].value == 0
    assert [results[name].coverage for name in ("f1_change", "pearson_with_people_change")] == [0.0, 0.0]
    assert (results["f1_change"].n, results["f1_change"].reason) == (
        0, "no pair of item and label that the group rated under both conditions is labelled in gold under both",
    )  # fmt: skip
    assert (results["pearson_with_people_change"].n, results["pearson_with_people_change"].reason) == (
        0, "no pair of item and target that the group rated under both conditions is rated by people under both",
    )  # fmt: skip


def test_which_conditions_are_compared():
    cases = [
        ("ba", None, [("a", "b")]),
        ("cab", None, [("a", "b"), ("a", "c"), ("b", "c")]),
        ("abcde", None, []),
        ("abcde", "c", [("c", "a"), ("c", "b"), ("c", "d"), ("c", "e")]),
        ("ab", "b", [("b", "a")]),
        ("ab", "z", []),
        ("a", None, []),
    ]

    def check(names, baseline, expected):
        assert compared(names, baseline) == expected

    check_cases(check, cases)
