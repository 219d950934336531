"""Estimates for all items of a question: which parts of people are random draws, and what is estimated."""

from dataclasses import replace

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.estimates import BOTH, JUDGES_ALONE, NOT_RANDOM, PEOPLE_ALONE, estimates
from jobs.metrics.rated_question import MetricSettings, QuestionContext, RatedQuestion

ITEMS, RATED = 300, 60
ALL_RATED = "people rated every item: their own mean is that of the set"


def scored(*, seed=0, rated=None, judges=1, **settings):
    """Return a question that people answered for some items, and judges, who are a point too kind, for all."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(1, 6, ITEMS).astype(float)
    of_judges = [np.clip(truth + rng.integers(0, 3, ITEMS), 1, 5) for _ in range(judges)]
    if rated is None:
        rated = np.isin(np.arange(ITEMS), rng.choice(ITEMS, RATED, replace=False))
    matrix = np.column_stack([np.where(rated, truth, np.nan), *of_judges])
    names = ["anna", *(f"m{number}" for number in range(judges))]
    region = {"East": np.arange(ITEMS) < 200, "West": np.arange(ITEMS) >= 200}
    context = QuestionContext(
        {"anna": "human"}, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64), scale=(1.0, 5.0),
        subgroups={"region": region},
    )  # fmt: skip
    chosen = MetricSettings(**{"random_part": True, "disaggregate": ["region"], **settings})
    return truth, RatedQuestion(RatingTable.from_matrix(matrix, raters=names), context, chosen)


def by_source(question, name, **dims):
    estimate = [m for m in estimates(question) if m.name == name and {**m.dims, **dims} == dict(m.dims)]
    return {m.dims["source"]: m for m in estimate if "attribute" in dims or "attribute" not in m.dims}


def test_people_correct_the_judges_and_the_judges_narrow_the_interval():
    truth, question = scored(judges=2)
    for name, dims, mean in (
        ("estimated_mean", {}, truth.mean()),
        ("estimated_share_at_least", {"threshold": "4"}, (truth >= 4).mean()),
        ("estimated_answer_share", {"answer": "1"}, (truth == 1).mean()),
    ):
        shown = by_source(question, name, **dims)
        assert list(shown) == [BOTH, PEOPLE_ALONE, JUDGES_ALONE]
        assert shown[BOTH].low <= mean <= shown[BOTH].high
        assert shown[BOTH].high - shown[BOTH].low <= shown[PEOPLE_ALONE].high - shown[PEOPLE_ALONE].low
        assert (shown[BOTH].n, shown[BOTH].coverage, shown[BOTH].units) == (RATED, RATED / ITEMS, RATED)
    assert by_source(question, "estimated_mean")[JUDGES_ALONE].value > truth.mean() + 0.4
    worth = {m.dims["of"]: m.value for m in estimates(question) if m.name == "effective_ratings"}
    assert (worth["people’s mean"] or 0) > 1.5 * RATED


def test_subgroups_borrow_the_weights_of_the_judges_but_not_the_mean():
    truth, question = scored()
    shown = by_source(question, "estimated_mean", attribute="region", part="West")
    assert shown[BOTH].low <= truth[200:].mean() <= shown[BOTH].high
    assert shown[BOTH].n < RATED
    nobody = np.arange(ITEMS) < RATED
    _, question = scored(rated=nobody)
    west = by_source(question, "estimated_mean", attribute="region", part="West")
    assert (west[BOTH].value, west[BOTH].reason) == (None, "people rated none of these items")


def test_bias_accuracy_and_f1_of_a_judge_are_those_against_people_over_all_items():
    truth, question = scored()
    judge = question.answers.of_raters(("m0",)).means()[0]
    high, claimed = truth >= 4, judge >= 4
    expected = {
        "estimated_bias": (judge - truth).mean(),
        "estimated_accuracy": (high == claimed).mean(),
        "estimated_f1": 2 * (high & claimed).sum() / (high.sum() + claimed.sum()),
    }
    for name, value in expected.items():
        shown = by_source(question, name, rater="m0")
        assert shown[BOTH].low <= value <= shown[BOTH].high, name
        assert list(shown) == [BOTH, PEOPLE_ALONE]


def test_categories_have_shares_of_answers_and_an_accuracy():
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, ITEMS)
    judge = np.where(rng.random(ITEMS) < 0.8, truth, 0)
    rated = np.arange(ITEMS) % 5 == 0
    rows = [(i, 0, truth[i]) for i in range(ITEMS) if rated[i]] + [(i, 1, judge[i]) for i in range(ITEMS)]
    item, rater, value = np.array(sorted(rows)).T
    answers = RatingTable(
        item, rater, value, np.full(len(item), np.nan), ITEMS, ("anna", "m"), ("a", "b", "c"), np.full(2, ITEMS)
    )
    context = QuestionContext({"anna": "human"}, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64))
    question = RatedQuestion(answers, context, MetricSettings(random_part=True))
    for code, answer in enumerate("abc"):
        shown = by_source(question, "estimated_answer_share", answer=answer)
        assert shown[BOTH].low <= (truth == code).mean() <= shown[BOTH].high
    accuracy = by_source(question, "estimated_accuracy", rater="m")
    assert accuracy[BOTH].low <= (truth == judge).mean() <= accuracy[BOTH].high


def test_estimates_are_undefined_unless_people_rated_a_random_part():
    cases = {
        "unknown": (scored(random_part=False), NOT_RANDOM),
        "everything": (scored(rated=np.ones(ITEMS, bool)), ALL_RATED),
        "nothing": (scored(rated=np.zeros(ITEMS, bool), people=2), "no item has 2 ratings of people"),
    }  # fmt: skip
    for name, ((_, question), reason) in cases.items():
        reasons = [(m.value, m.reason) for m in estimates(question)]
        assert reasons == [(None, reason)], name


def test_one_picture_a_constant_judge_and_missing_answers():
    _, one = scored(rated=np.arange(ITEMS) == 7)
    assert by_source(one, "estimated_mean")[BOTH].reason.startswith("no interval: fewer than 5 items (1)")
    truth, question = scored()
    constant = np.column_stack([question.answers.matrix()[:, 0], np.full(ITEMS, 3.0)])
    same = by_source(
        replace(question, answers=RatingTable.from_matrix(constant, raters=["anna", "m"])), "estimated_mean"
    )
    assert (same[BOTH].value, same[BOTH].low) == (same[PEOPLE_ALONE].value, same[PEOPLE_ALONE].low)
    holes = question.answers.matrix()
    holes[::3, 1] = np.nan
    gaps = by_source(replace(question, answers=RatingTable.from_matrix(holes, raters=["anna", "m"])), "estimated_mean")
    assert gaps[BOTH].low <= truth.mean() <= gaps[BOTH].high
    assert gaps[JUDGES_ALONE].coverage == pytest.approx(2 / 3)


def test_inverted_scores_are_estimated_on_the_inverted_scale():
    truth, question = scored(disaggregate=[])
    inverted = by_source(replace(question, inverted=True), "estimated_mean")
    assert inverted[BOTH].value == pytest.approx(6 - by_source(question, "estimated_mean")[BOTH].value)
    assert inverted[BOTH].dims["inverted"] == "yes"
    assert abs(inverted[BOTH].value - (6 - truth.mean())) < 0.5
