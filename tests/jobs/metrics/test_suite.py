"""Metrics of each kind of question: thresholds of the scale, and positive answers against gold."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MetricSettings, QuestionContext, RatedQuestion
from jobs.metrics.suite import question_metrics, version_metrics

ITEMS = 12
PARTS = {"region": {"East": np.arange(ITEMS) < 6, "West": np.arange(ITEMS) >= 6}}
EVEN = np.arange(ITEMS) % 2 == 0
HALF = np.arange(ITEMS) < 6
OWN = {"A": "a", "B": "b", "C": "c", "D": "a"}  # judge -> family; responses are by a (the first half) and b


def context(**more):
    return QuestionContext(
        kinds={}, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64), subgroups=PARTS, **more
    )


def made(answers, of_item, metric, **settings):
    keys = {"disaggregate": ["region"], "contrast": ["region:East-West"], **settings}
    return [f for f in question_metrics(RatedQuestion(answers, of_item, MetricSettings(**keys))) if f.name == metric]


def test_raters_that_are_left_out_have_lines_but_are_not_in_the_group_of_models():
    answers = RatingTable.from_matrix(np.tile([1.0, 2, 5, 3], (ITEMS, 1)), raters=["m", "n@1", "clip", "anna"])
    kinds = {"m": "model", "n@1": "model", "clip": "encoder", "anna": "human"}
    dims_of = QuestionContext(kinds, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64), scale=(1.0, 5.0))
    settings = MetricSettings(leave_out=["n", "nobody"], people=1)
    rated = RatedQuestion(answers, dims_of, settings)
    assert rated.groups == {"people": ("anna",), "models": ("m", "clip")}
    means = {f.dims["group"]: f.value for f in question_metrics(rated) if f.name == "group_mean_score"}
    assert means == {"people": 3, "models": 3, "m": 1, "n@1": 2, "clip": 5}


def test_thresholds_are_those_asked_for_whatever_was_answered():
    """Nobody gave 4: 0 % at 4, and not the share at 3."""
    answers = RatingTable.from_matrix(np.tile([1.0, 2, 3], 4)[:, None], raters=["m"])
    shares = made(answers, context(scale=(1.0, 5.0)), "share_at_least")
    by_part = {f.dims.get("part"): (f.dims["threshold"], f.value) for f in shares if "part" in f.dims}
    assert by_part == {"East": ("4", 0), "West": ("4", 0)}
    assert {f.dims["threshold"]: f.value for f in shares if "part" not in f.dims} == {"3": 4 / 12, "4": 0}
    for contrast in made(answers, context(scale=(1.0, 5.0)), "share_difference"):
        assert (contrast.dims["threshold"], contrast.value) == ("4", 0)


def test_a_threshold_that_every_answer_reaches_is_left_out():
    answers = RatingTable.from_matrix(np.tile([1.0, 2, 3], 4)[:, None], raters=["m"])
    shares = made(answers, context(scale=(1.0, 5.0)), "share_at_least", at_least=[1.0, 1.5, 5.0, 5.5])
    assert {f.dims["threshold"] for f in shares} == {"1.5", "5"}


def test_without_a_known_scale_shares_at_thresholds_are_undefined():
    answers = RatingTable.from_matrix(np.tile([1.0, 2, 3], 4)[:, None], raters=["m"])
    shares = made(answers, context(scale=None), "share_at_least")
    assert {f.dims["threshold"] for f in shares} == {"3", "4"}
    assert {(f.value, f.status) for f in shares} == {(None, "skipped")}
    assert {(f.n, f.coverage) for f in shares if "part" not in f.dims} == {(ITEMS, 1.0)}
    assert {(f.n, f.dims["part"]) for f in shares if "part" in f.dims} == {(ITEMS // 2, "East"), (ITEMS // 2, "West")}


def test_qualities_of_a_crowd_need_a_scale_for_scores():
    answers = RatingTable.from_matrix(np.tile([1.0, 2], (ITEMS, 1)), raters=["a", "b"])
    names = [f"i{number}" for number in range(ITEMS)]
    for scale, reason in ((None, "unknown"), ((1.0, 5.0), "")):
        of_scale = context(scale=scale, no_scale=reason, names=names)
        (quality,) = made(answers, of_scale, "unit_quality_mean", crowdtruth=True)
        assert (quality.value, quality.dims["bins"]) == (None if reason else 1.0, "3")
        assert not reason or quality.reason == reason


def test_parts_and_contrasts_are_at_the_highest_threshold_on_the_scale():
    answers = RatingTable.from_matrix(np.tile([1.0, 2, 3], 4)[:, None], raters=["m"])
    for at_least in ([2.0, 3.0, 4.0], [3.0, 4.0, 2.0]):
        shares = made(answers, context(scale=(1, 3)), "share_at_least", at_least=at_least)
        assert {f.dims["threshold"] for f in shares if "part" in f.dims} == {"3"}
        assert {f.dims["threshold"] for f in shares} == {"2", "3"}


@pytest.mark.parametrize(("at_least", "scale"), [([3.0, 4.0], (0, 1)), ([], (1, 5)), ([], None)])
def test_without_a_threshold_on_the_scale_there_are_no_shares_and_contrasts_say_so(at_least, scale):
    answers = RatingTable.from_matrix(np.tile([0.0, 1], 6)[:, None], raters=["m"])
    assert made(answers, context(scale=scale), "share_at_least", at_least=at_least) == []
    (contrast,) = {f.dims["group"]: f for f in made(answers, context(scale=scale), "share_difference",
                                                    at_least=at_least) if f.dims["group"] == "m"}.values()  # fmt: skip
    assert (contrast.value, bool(contrast.reason)) == (None, True)


def test_scored_gold_is_read_as_the_answers_are():
    """At "> 4" a 4 of gold is not a positive either: both sides move."""
    gold = np.repeat([5.0, 4, 4, 1], 3)
    message = np.tile([5.0, 4, 3], 4)
    dims_of = context(gold_scores=gold, judged=np.ones(ITEMS, bool), scale=(1, 5))
    answers = RatingTable.from_matrix(message[:, None], raters=["m"])
    results: dict[tuple[str, str], Metric] = {}
    for name in ("precision", "recall"):
        results |= {(name, f.dims["positive"]): f for f in made(answers, dims_of, name) if f.dims["average"] == "micro"}
    # at >= 4 gold has 9 and the model 8, 6 of them in common; at > 4 gold has 3 and the model 4, 1 in common
    assert {key: f.value for key, f in results.items()} == {
        ("precision", ">=4"): 6 / 8,
        ("recall", ">=4"): 6 / 9,
        ("precision", ">4"): 1 / 4,
        ("recall", ">4"): 1 / 3,
    }
    assert "in gold, where the score is >4" in results["recall", ">4"].definition


def test_labels_of_gold_do_not_move_and_the_definition_says_so():
    right = np.arange(ITEMS) < 6
    dims_of = context(right=right, judged=np.ones(ITEMS, bool))
    answers = RatingTable.from_matrix(np.tile([5.0, 4, 3], 4)[:, None], raters=["m"])
    by_key = {f.dims["positive"]: f for f in made(answers, dims_of, "recall") if f.dims["average"] == "micro"}
    assert {reading: f.value for reading, f in by_key.items()} == {">=4": 4 / 6, ">4": 2 / 6}
    assert "in gold as labelled" in by_key[">4"].definition


def test_single_raters_are_compared_in_each_target_that_people_rated():
    """Of targets a, b and c the second has no rating by a person; ann agrees with the model, bob is its opposite."""
    model, ann = np.tile([1.0, 2, 3, 4], 3), np.repeat([1.0, np.nan, 1.0], 4) * np.tile([1.0, 2, 3, 4], 3)
    answers = RatingTable.from_matrix(np.stack([model, ann, 5 - ann], axis=1), raters=["m", "ann", "bob"])
    context = QuestionContext(
        kinds={"ann": "human", "bob": "human"}, picture=np.arange(ITEMS), target=np.repeat([0, 1, 2], 4),
        targets=("a", "b", "c"), scale=(1, 5),
    )  # fmt: skip
    for name, value in (("min", -1), ("max", 1), ("mean", 0)):
        by_key = {f.dims["target"]: (f.value, f.n) for f in made(answers, context, f"rater_correlation_{name}")}
        assert by_key == {"a": (pytest.approx(value), 2), "c": (pytest.approx(value), 2)}


def test_people_who_took_part_are_people_alone():
    """The model rated all items, each person half of them."""
    half = np.where(np.arange(ITEMS) < 6, 1.0, np.nan)
    other = np.where(np.arange(ITEMS) < 6, np.nan, 1.0)
    answers = RatingTable.from_matrix(np.stack([np.ones(ITEMS), half, other], axis=1), raters=["m", "ann", "bob"])
    context = QuestionContext(
        kinds={"ann": "human", "bob": "human"}, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64), scale=(1, 5)
    )
    everything = np.ones(ITEMS, bool)
    rated = RatedQuestion(
        answers, context, MetricSettings(), reported=~everything, asked_people=everything,
        ended={name: Counter(ok=n) for name, n in (("m", 12), ("ann", 6), ("bob", 6))},
    )  # fmt: skip
    by_key = {f.name: (f.value, f.n) for f in question_metrics(rated) if f.dims.get("group") == "people"}
    assert (by_key["people_total"], by_key["items_per_person"]) == ((2, 2), (6, 2))


def test_a_model_is_asked_for_self_preference_where_its_family_wrote_responses():
    answers = RatingTable.from_matrix(np.tile([1.0, 2, 3], 4)[:, None].repeat(3, axis=1), raters=["m", "x", "y"])
    families = {"m": "a", "x": "b", "y": "d"}
    wrote = np.arange(ITEMS) < 6
    named = context(scale=(1, 5), families=families, authors={"a": wrote, "c": ~wrote})
    assert [f.dims["rater"] for f in made(answers, named, "self_preference")] == ["m"]
    assert made(answers, context(scale=(1, 5), families=families), "self_preference") == []


def of_raters(columns, kinds, *, settings=None, scale=(1.0, 5.0), scored=True, rated=None, **more):
    """Return the metrics of a question, answered by raters with a column of scores each; NaN: not answered."""
    answers = RatingTable.from_matrix(np.stack(list(columns.values()), axis=1), raters=list(columns))
    if not scored:
        answers = replace(answers, score=np.full(answers.n, np.nan))
    more = {"picture": np.arange(ITEMS), "target": np.zeros(ITEMS, np.int64), **more}
    of_question = QuestionContext(kinds, scale=scale, **more)
    return list(question_metrics(RatedQuestion(answers, of_question, settings or MetricSettings(), **(rated or {}))))


def values(metrics, name, *dims):
    return {tuple(f.dims.get(dim) for dim in dims): f.value for f in metrics if f.name == name}


def test_answers_by_writer_are_those_of_people_and_of_each_model():
    subgroups = {"model": {"x": EVEN, "y": ~EVEN}}
    columns = {"m": np.ones(ITEMS), "ann": np.where(EVEN, 1, 2), "bo": np.full(ITEMS, 2.0)}
    kinds = {"m": "model", "ann": "human", "bo": "human"}
    metrics = of_raters(columns, kinds, subgroups=subgroups, lengths=np.arange(ITEMS))
    shares = values(metrics, "answer_share", "group", "part", "answer")
    by_writer = {key: value for key, value in shares.items() if key[1] is not None}
    assert by_writer == {
        ("m", "x", "1"): 1, ("m", "x", "2"): 0, ("m", "y", "1"): 1, ("m", "y", "2"): 0,
        ("people", "x", "1"): 0.5, ("people", "x", "2"): 0.5, ("people", "y", "1"): 0, ("people", "y", "2"): 1,
    }  # fmt: skip


def test_a_contrast_for_a_writer_is_between_the_writers_own_responses():
    scores = np.where(HALF, np.where(EVEN, 5.0, 1), np.where(EVEN, 1.0, 5))
    subgroups = {**PARTS, "model": {"x": EVEN, "y": ~EVEN}}
    settings = MetricSettings(contrast=["region:East-West"])
    metrics = of_raters({"m": scores}, {"m": "model"}, settings=settings, subgroups=subgroups)
    by_writer = values(metrics, "share_difference", "group", "model")
    assert {writer: value for (group, writer), value in by_writer.items() if group == "m"} == {None: 0, "x": 1, "y": -1}


def test_categories_need_the_ratings_by_people_that_scores_need():
    first, second = np.where(HALF, 1.0, 2), np.where(HALF, 1, np.nan)
    for needed, n in ((None, 6), (1, 12), (2, 6)):
        settings = MetricSettings(people=needed, disaggregate=["region"])
        columns = {"ann": first, "bob": second, "m": second}
        kinds = {"ann": "human", "bob": "human", "m": "model"}
        for scored, name in ((False, "majority_share"), (True, "group_mean_score")):
            metrics = of_raters(columns, kinds, settings=settings, scored=scored, subgroups=PARTS)
            metrics = [f for f in metrics if f.name == name]
            shares = {(f.dims["group"], f.n) for f in metrics if "part" not in f.dims}
            assert shares == {("people", n), ("models", 6), ("m", 6)}
            in_west = {(f.dims["group"], f.n, f.reason) for f in metrics if f.dims.get("part") == "West"}
            none = f"no item has {2} ratings of people"
            assert (("people", 0, none) in in_west) == (n == 6)


def test_one_number_of_ratings_counts_for_means_majorities_and_qualities():
    """Of six items, four have three ratings by people, all equal, and two have two ratings, which differ."""
    columns = {"ann": np.full(ITEMS, 1.0), "bob": np.where(HALF, 1.0, 5), "eve": np.where(HALF, 1.0, np.nan)}
    kinds = dict.fromkeys(columns, "human")
    names = [f"i{number}" for number in range(ITEMS)]
    settings = MetricSettings(crowdtruth=True)
    metrics = of_raters(columns, kinds, settings=settings, names=names)
    zero, alike = (next(f for f in metrics if f.name == name) for name in ("unit_quality_zero", "agreement_with_mean"))
    assert (zero.value, zero.n, zero.coverage) == (0, 6, 0.5)
    assert (alike.value, alike.n) == (1, 6)
    assert next(f.n for f in metrics if f.name == "group_mean_score") == 6
    categories = of_raters(columns, kinds, settings=settings, scored=False)
    assert {(f.value, f.n) for f in categories if f.name == "agreement_with_majority"} == {(1, 6)}
    assert values(categories, "majority_share", "answer") == {("1",): 1, ("5",): 0, ("(no majority)",): 0}


def test_left_out_judges_have_all_their_own_metrics():
    """Only the metrics of the group `models` may change if a judge is left out of it."""
    draw = np.random.default_rng(4)
    columns = {name: draw.integers(1, 6, ITEMS).astype(float) for name in ("m", "n", "o", "ann")}
    more = {
        "subgroups": {**PARTS, "model": {"x": EVEN, "y": ~EVEN}}, "lengths": np.arange(ITEMS) * 7.0,
        "families": {"m": "x", "n": "y", "o": "z"}, "authors": {"x": EVEN, "y": ~EVEN}, "right": HALF,
        "judged": np.ones(ITEMS, bool),
    }  # fmt: skip

    def metrics_of(left_out, scored):
        settings = MetricSettings(leave_out=left_out, disaggregate=["region", "model"], compare=["region"])
        metrics = of_raters(columns, {"ann": "human"}, settings=settings, scored=scored, **more)
        of_group = {"models", "people and models"}  # a pair of two models is of one group or of the other
        kappas = {frozenset((f.dims["rater_a"], f.dims["rater_b"])): f.value for f in metrics if f.name == "kappa"}
        single = {(f.name, *sorted(f.dims.items())): f.value for f in metrics if f.dims.get("group") not in of_group}
        return {key: value for key, value in single.items() if key[0] != "average_of_shares"} | kappas

    for scored in (True, False):
        assert metrics_of(["n"], scored) == metrics_of([], scored)


def test_items_without_a_value_of_an_attribute_are_counted():
    parts = {"East": np.arange(ITEMS) < 5, "West": np.arange(ITEMS) > 7}
    missing = of_raters({"m": np.ones(ITEMS)}, {}, subgroups={"region": parts, **{"era": {"old": HALF, "new": ~HALF}}})
    assert {f.dims["attribute"]: (f.value, f.n) for f in missing if f.name == "without_value"} == {"region": (0.25, 12)}
    by_picture = of_raters(
        {"m": np.ones(ITEMS)},
        {},
        subgroups={"region": parts},
        picture=np.arange(ITEMS) // 3,
        target=np.arange(ITEMS) % 3,
    )
    assert [(f.value, f.n) for f in by_picture if f.name == "without_value"] == []  # 6 and 7 share 5's or 8's picture


def test_pictures_lack_no_attribute_of_the_responses_in_the_same_report():
    for lengths, missing in ((np.full(ITEMS, np.nan), set()), (np.arange(ITEMS), {"model"}), (None, {"model"})):
        metrics = of_raters({"m": np.ones(ITEMS)}, {}, subgroups={"model": {}}, lengths=lengths)
        assert {f.dims["attribute"] for f in metrics if f.name == "without_value"} == missing


def test_against_gold_scores_off_the_scale_do_not_count_and_coverage_is_of_judged_items():
    half, everything = np.where(HALF, 5, np.nan), np.full(ITEMS, 5.0)
    metrics = of_raters(
        {"m": half, "log": everything, "ann": everything}, {"ann": "human"},
        right=HALF, judged=np.ones(ITEMS, bool), rated={"unscaled": frozenset({"log"})},
    )  # fmt: skip
    coverage = {f.dims["group"]: f.coverage for f in metrics if f.name == "precision"}
    assert coverage == {"m": 0.5, "people": 1.0}
    assert {dims[0] for dims in values(metrics, "mean_deviation", "rater")} == {"m"}
    correlated = {f.dims.get("rater") for f in metrics if f.name.startswith("pearson") and "rater" in f.dims}
    assert correlated == {"m", "log"}


def test_categories_of_items_without_a_right_answer_do_not_count():
    right = [frozenset({"1"}) if is_right else None for is_right in HALF]
    answers = np.where(np.arange(ITEMS) % 3 == 0, 1.0, 2)
    metrics = of_raters({"m": answers}, {}, scored=False, right_values=right)
    (accuracy,) = (f for f in metrics if f.name == "accuracy")
    assert (accuracy.value, accuracy.n, accuracy.coverage) == (2 / 6, 6, 1.0)
    (left_out,) = (f for f in metrics if f.name == "without_gold")
    assert (left_out.value, left_out.n) == (0.5, 12)
    assert left_out.reason == "no interval: a share of these items, not of a sample"
    none_right = of_raters({"m": answers}, {}, scored=False, right_values=[of_item or frozenset() for of_item in right])
    (accuracy,) = (f for f in none_right if f.name == "accuracy")
    assert (accuracy.value, accuracy.n) == (2 / 12, 12)


def test_inverted_scores_need_a_scale_and_their_lowest_is_the_best():
    settings = MetricSettings()
    scores = np.where(HALF, np.where(EVEN, 5.0, 4), 1)
    for scale, mean, lowest in (((1.0, 5.0), 6 - scores.mean(), 3 / 12), (None, None, None)):
        metrics = of_raters({"m": scores}, {}, settings=settings, scale=scale, rated={"inverted": True})
        assert values(metrics, "group_mean_score", "group", "inverted")["m", "yes"] == mean
        assert values(metrics, "share_lowest", "group", "inverted")["m", "yes"] == lowest
    as_given = of_raters({"m": scores}, {}, scale=None)
    assert values(as_given, "group_mean_score", "group")["m",] == scores.mean()


def test_agreement_in_a_part_is_marked_by_the_items_that_raters_share():
    """Correlations of raters count pairs of raters, of which there are three; each part has six items."""
    columns = {name: np.tile([1.0, 2, 3], 4) for name in "mno"}
    for minimum, is_marked in ((6, False), (7, True)):
        settings = MetricSettings(disaggregate=["region"], minimum=minimum)
        metrics = of_raters(columns, {}, settings=settings, subgroups=PARTS)
        for name, n in (("percent_agreement", 6), ("pairwise_pearson", 3)):
            parts = [f for f in metrics if f.name == name and "part" in f.dims]
            assert [f.n for f in parts] == [n, n]
            assert all(("interpret with caution" in (f.reason or "")) == is_marked for f in parts)


def test_repeated_ratings_of_people_are_those_that_people_repeated():
    kinds = {"ann": "human"}
    ended = {"m": Counter(ok=20), "ann": Counter(ok=12, skipped=3)}
    columns = {"m": np.ones(ITEMS), "ann": np.ones(ITEMS)}
    metrics = of_raters(columns, kinds, rated={"ended": ended, "repeated": 11, "double": 12, "double_by_people": 3})
    assert values(metrics, "ratings_repeated", "group") == {(None,): 11, ("people",): 3}
    assert values(metrics, "ratings_double", "group") == {(None,): 12, ("people",): 3}
    assert values(metrics, "ratings_total", "group") == {(None,): 35, ("people",): 15}


def test_ensembles_have_shares_by_any_rater_and_are_not_averaged_with_their_models():
    columns = {"m": np.full(ITEMS, 5.0), "n": np.full(ITEMS, 1.0), "ann": np.full(ITEMS, 1.0)}
    settings = MetricSettings(ensembles={"both": ["m", "n"]}, disaggregate=["region"], at_least=[4.0])
    metrics = of_raters(columns, {"ann": "human"}, settings=settings, subgroups=PARTS)
    shares = values(metrics, "share_at_least", "group", "rule", "part")
    assert {(group, rule): value for (group, rule, part), value in shares.items() if part is None} == {
        ("people", "mean"): 0, ("m", "mean"): 1, ("n", "mean"): 0,
        ("models", "mean"): 0, ("models", "any"): 1, ("both", "mean"): 0, ("both", "any"): 1,
    }  # fmt: skip
    assert set(values(metrics, "average_of_shares", "part", "raters").items()) == {
        (("East", "3"), 1 / 3), (("West", "3"), 1 / 3),
    }  # fmt: skip


def preferences(judges, *, people=False, subgroups=None, left_out=()):
    """Return the self-preference of judges whose preference for responses of their family is planted."""
    base = np.tile([1.0, 2, 3, 4], 3)
    columns = {judge: base + planted * (HALF if OWN[judge] == "a" else ~HALF) for judge, planted in judges.items()}
    columns |= {"ann": base, "bo": base, "cy": base} if people else {}
    metrics = of_raters(
        columns, dict.fromkeys(("ann", "bo", "cy"), "human"), families=OWN, authors={"a": HALF, "b": ~HALF},
        scale=(1.0, 6.0), settings=MetricSettings(leave_out=list(left_out)), subgroups=subgroups or {},
    )  # fmt: skip
    return {(f.dims["rater"], f.dims.get("part")): f for f in metrics if f.name == "self_preference"}


def test_self_preference_is_relative_to_raters_without_a_stake():
    cases = [  # planted; with people; expected
        ({"A": 1.0, "B": 0.0}, False, {"A": None, "B": None}),
        ({"A": 1.0, "B": 0.0}, True, {"A": 1, "B": 0}),
        ({"A": 1.0, "D": 1.0, "B": 0.0}, False, {"A": None, "B": None, "D": None}),
        ({"A": 1.0, "D": 1.0, "B": 0.0}, True, {"A": 1, "B": 0, "D": 1}),
        ({"A": 1.0, "B": 0.0, "C": 0.0}, False, {"A": 1, "B": 0}),
        ({"A": 0.5, "B": 1.5, "C": 0.0}, True, {"A": 0.5, "B": 1.5}),
    ]
    for planted, people, expected in cases:
        for left_out in ((), ("A", "C")):
            metrics = preferences(planted, people=people, left_out=left_out)
            assert {judge: f.value for (judge, _), f in metrics.items()} == pytest.approx(expected)
            reasons = {"no rater without a stake" in (f.reason or "") for f in metrics.values() if f.value is None}
            assert reasons <= {True}


def test_self_preference_is_also_given_for_each_prompt():
    metrics = preferences({"A": 1.0, "C": 0.0}, subgroups={"prompt": {"explicit": EVEN, "minimal": ~EVEN}})
    assert {part: (f.value, f.n) for (_, part), f in metrics.items()} == {
        None: (1, 12), "explicit": (1, 6), "minimal": (1, 6)
    }  # fmt: skip


def test_judges_of_unknown_families_are_no_reference_for_self_preference():
    base = np.tile([1.0, 2, 3, 4], 3)
    metrics = of_raters({"m": base, "n": base}, {}, families={"m": "a"}, authors={"a": HALF, "b": ~HALF})
    assert values(metrics, "self_preference", "rater") == {("m",): None}


def test_a_target_that_one_side_lacks_lowers_the_coverage_of_correlations_by_picture():
    """Three pictures, of which people saw two, rated against a to d by the model and a to c and e by people."""
    picture, target = np.repeat([0, 1, 2], 5), np.tile(np.arange(5), 3)
    model = np.where(target < 4, np.arange(15) * 7 % 5 + 1.0, np.nan)
    people = np.where((target != 3) & (picture < 2), np.arange(15) * 3 % 5 + 1.0, np.nan)
    answers = RatingTable.from_matrix(np.stack([model, people], axis=1), raters=["m", "ann"])
    of_items = QuestionContext({"m": "model", "ann": "human"}, picture=picture, target=target, targets=tuple("abcde"))
    rated = RatedQuestion(answers, of_items, MetricSettings(), asked_people=~np.isnan(people))
    coverage = {f.name: (f.n, f.coverage) for f in question_metrics(rated) if f.dims.get("rater") == "m"}
    assert coverage["pearson_with_people"] == (6, 6 / 8)
    assert coverage["pearson_by_image"] == (2, 6 / 10)
    assert coverage["pearson_global_average"] == (3, 6 / 10)
    assert coverage["pearson_by_target"] == (0, 0)


def test_coverage_counts_targets_and_parts_that_nobody_answered():
    target = np.repeat([0, 1, 2, 3], 3)
    people = np.where(target < 3, np.arange(12.0) % 5 + 1, np.nan)
    settings = MetricSettings(compare=["region"])
    metrics = of_raters(
        {"m": np.arange(12.0) % 4 + 1, "ann": people}, {"ann": "human"}, settings=settings, subgroups=PARTS,
        target=target, targets=("a", "b", "c", "d"),
    )  # fmt: skip
    (overall,) = (f for f in metrics if f.name == "pearson_global_average")
    assert (overall.n, overall.coverage) == (3, 3 / 4)
    coverage = {f.dims["part"]: f.coverage for f in metrics if f.name == "part_mean" and f.dims["group"] == "people"}
    assert coverage == {"first": 1.0, "second": 0.5}


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
