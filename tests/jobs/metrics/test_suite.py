"""Metrics of each kind of question: thresholds of the scale, and positive answers against gold."""

from collections import Counter

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric
from jobs.metrics.question import MetricSettings, QuestionContext, RatedQuestion
from jobs.metrics.suite import question_metrics

ITEMS = 12
PARTS = {"region": {"East": np.arange(ITEMS) < 6, "West": np.arange(ITEMS) >= 6}}


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
    answers = RatingTable.from_matrix(np.tile([1.0, 2, 3], 4)[:, None].repeat(2, axis=1), raters=["m", "x"])
    families = {"m": "a", "x": "b"}
    wrote = np.arange(ITEMS) < 6
    named = context(scale=(1, 5), families=families, authors={"a": wrote, "c": ~wrote})
    assert [f.dims["rater"] for f in made(answers, named, "self_preference")] == ["m"]
    assert made(answers, context(scale=(1, 5), families=families), "self_preference") == []
