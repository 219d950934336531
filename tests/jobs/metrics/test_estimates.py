"""Estimates for all items of a question: which parts of people are random draws, and what is estimated."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from jobs.metrics.answers import POWERS, RatingTable
from jobs.metrics.estimates import NOT_RANDOM, estimates
from jobs.metrics.partial_pooling import POOLED
from jobs.metrics.rated_question import AssignedItems, MetricSettings, QuestionContext, RatedQuestion
from jobs.metrics.rating_plans import BOTH, JUDGES_ALONE, PEOPLE_ALONE

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


def test_pooled_subgroups_are_named_and_drawn_together():
    _, question = scored(pooling=["region"])
    regions = {f"r{place}": np.arange(ITEMS) % 6 == place for place in range(6)}
    pooled = replace(question, context=replace(question.context, subgroups={"region": regions}))
    alone, together = [], []
    for part in regions:
        shown = by_source(pooled, "estimated_mean", attribute="region", part=part)
        alone.append(shown[BOTH])
        together.append(shown[POOLED])
    assert 0 < np.ptp([m.value for m in together]) < 0.7 * np.ptp([m.value for m in alone])
    assert np.mean([m.high - m.low for m in together]) < 0.9 * np.mean([m.high - m.low for m in alone])
    assert together[0].reason.startswith("pooled over 6 subgroups")
    of_share = by_source(pooled, "estimated_share_at_least", attribute="region", part="r0", threshold="4")
    assert 0 <= of_share[POOLED].low < of_share[POOLED].high <= 1
    (two,) = [m for m in estimates(question) if m.dims.get("source") == POOLED and m.name == "estimated_mean"]
    assert two.reason == "fewer than 3 subgroups have an interval to pool"
    shared = {**regions, "all": np.ones(ITEMS, bool)}
    overlapping = replace(question, context=replace(question.context, subgroups={"region": shared}))
    reasons = {m.reason for m in estimates(overlapping) if m.dims.get("source") == POOLED}
    assert reasons == {"not pooled: subgroups share items, so that they vary together"}


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


def sure_judge(*, confident=False, seed=3):
    """Return whether people agree with a judge about each of all items, its probabilities, and the question."""
    rng = np.random.default_rng(seed)
    sure = rng.uniform(0.97 if confident else 0.5, 1, ITEMS)
    truth, is_right = rng.integers(0, 2, ITEMS), rng.random(ITEMS) < sure - 0.1 * (not confident)
    judge, rated = np.where(is_right, truth, 1 - truth), rng.permutation(ITEMS) < RATED
    odds = np.log(1 - sure) - np.log(sure)
    rows = [(i, 0, truth[i], np.full(len(POWERS), np.nan)) for i in range(ITEMS) if rated[i]]
    rows += [(i, 1, judge[i], np.array(POWERS) * odds[i]) for i in range(ITEMS)]
    item, rater, value, others = zip(*sorted(rows, key=lambda row: row[:2]), strict=True)
    answers = RatingTable(
        np.array(item), np.array(rater), np.array(value), np.full(len(item), np.nan), ITEMS, ("anna", "m"),
        ("no", "yes"), np.full(2, ITEMS), others=np.array(others, np.float32),
    )  # fmt: skip
    context = QuestionContext({"anna": "human"}, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64))
    return is_right, sure, rated, RatedQuestion(answers, context, MetricSettings(random_part=True))


def test_the_brier_score_of_a_judge_is_that_over_all_items():
    is_right, sure, rated, question = sure_judge()
    shown = by_source(question, "estimated_brier", rater="m")
    assert list(shown) == [BOTH, PEOPLE_ALONE, JUDGES_ALONE]
    assert shown[BOTH].low <= ((sure - is_right) ** 2).mean() <= shown[BOTH].high
    # scikit-learn's, of the probability that the answer is "yes"
    yes = question.answers.of_raters(("m",)).value == 1
    assert shown[PEOPLE_ALONE].value == pytest.approx(
        brier_score_loss((yes == is_right)[rated], np.where(yes, sure, 1 - sure)[rated]), abs=1e-6
    )
    assert shown[JUDGES_ALONE].value == pytest.approx((sure * (1 - sure)).mean(), abs=1e-6)
    *_, confident = sure_judge(confident=True)
    reasons = {m.reason for m in by_source(confident, "estimated_brier", rater="m").values()}
    assert any("differ, or agree, on fewer than 3 items (" in reason for reason in reasons), reasons
    _, without = scored()
    assert by_source(without, "estimated_brier", rater="m0") == {}


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
    for code, answer in enumerate("abc"):
        f1 = by_source(question, "estimated_f1", rater="m", answer=answer)
        hits, of_people = ((truth == code) & (judge == code)), truth[rated] == code
        assert f1[BOTH].low <= 2 * hits.sum() / ((truth == code).sum() + (judge == code).sum()) <= f1[BOTH].high
        alone = 2 * hits[rated].sum() / (of_people.sum() + (judge[rated] == code).sum())
        assert f1[PEOPLE_ALONE].value == pytest.approx(alone)
    worth = [m.dims["of"] for m in estimates(question) if m.name == "effective_ratings"]
    assert len(worth) == len(set(worth)) > 6


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


def drawn(question, *, assigned, probability, could=None, raters=1):
    """Return the question with an assignment, and without the user's word that people's part is random."""
    could = np.ones(len(assigned), bool) if could is None else could
    items = AssignedItems(could, assigned, np.broadcast_to(np.asarray(probability, float), assigned.shape), raters)
    return replace(
        question, settings=replace(question.settings, random_part=False),
        context=replace(question.context, assigned=items),
    )  # fmt: skip


def test_items_count_by_the_probability_of_being_drawn():
    rng = np.random.default_rng(1)
    truth, _ = scored()
    probability = np.where(truth >= 4, 0.5, 0.1)  # people are asked about high scores five times as often
    covered, plain = [], []
    for _ in range(200):
        rated = rng.random(ITEMS) < probability
        _, question = scored(rated=rated, disaggregate=[], at_least=[])
        plain.append(by_source(question, "estimated_mean")[PEOPLE_ALONE].value)
        shown = by_source(drawn(question, assigned=rated, probability=probability), "estimated_mean")
        covered.append([shown[s].low <= truth.mean() <= shown[s].high for s in (BOTH, PEOPLE_ALONE)])
    assert np.mean(plain) > truth.mean() + 0.5  # without the weights they would be biased
    assert (np.abs(np.mean(covered, axis=0) - 0.95) < 0.04).all()


def test_assignments_say_whether_peoples_part_is_a_random_draw():
    rated = np.arange(ITEMS) % 5 == 0
    _, question = scored(rated=rated)
    asked = drawn(question, assigned=rated, probability=0.2)
    [equal] = {m.value for m in estimates(question) if m.name == "estimated_mean" and m.dims == {"source": BOTH}}
    assert by_source(asked, "estimated_mean")[BOTH].value == pytest.approx(equal)
    assert by_source(asked, "estimated_mean")[BOTH].reason is None

    outside = by_source(drawn(question, assigned=rated & (np.arange(ITEMS) > 9), probability=0.2), "estimated_mean")
    assert "people answered 2 of their 60 items outside of the assignments" in outside[BOTH].reason
    for probability in (np.nan, 1.0):
        undrawn = drawn(question, assigned=rated, probability=probability)
        assert "not drawn at random" in by_source(undrawn, "estimated_mean")[BOTH].reason
        trusted = replace(undrawn, settings=replace(undrawn.settings, random_part=True))
        assert by_source(trusted, "estimated_mean")[BOTH].value == pytest.approx(equal)
    nothing = drawn(question, assigned=rated, probability=0.2, could=np.zeros(ITEMS, bool))
    assert by_source(nothing, "estimated_mean")[BOTH].reason == "none of the items is in the assignments"


def test_sheets_that_were_not_returned_and_items_that_could_not_be_drawn_are_named():
    asked = np.arange(ITEMS) % 5 == 0
    _, question = scored(rated=asked & (np.arange(ITEMS) < 200))
    shown = by_source(drawn(question, assigned=asked, probability=0.2, raters=3), "estimated_mean")
    assert "of 60 items that 3 people were given, 40 were answered, by 1 people" in shown[BOTH].reason
    assert shown[BOTH].value is not None
    assert "were given" not in shown[JUDGES_ALONE].reason
    could = np.arange(ITEMS) < 250
    truth, question = scored(rated=asked & could)
    shown = by_source(drawn(question, assigned=asked & could, probability=0.2, could=could), "estimated_mean")
    assert shown[BOTH].reason == "50 items that could not be drawn for people are left out"
    assert shown[BOTH].low <= truth[:250].mean() <= shown[BOTH].high
    assert shown[JUDGES_ALONE].value == pytest.approx(question.answers.of_raters(("m0",)).means()[0][:250].mean())


def test_questions_have_plans_for_all_items_subgroups_and_pairs_of_models():
    _, question = scored(judges=2)
    planned = [m for m in estimates(question) if m.name in ("expected_half_width", "ratings_for_half_width")]
    assert {m.dims.get("part") for m in planned} == {None, "East", "West"}
    assert {m.dims["source"] for m in planned} == {BOTH, PEOPLE_ALONE}
    smallest = {m.dims["of"]: m.value for m in estimates(question) if m.name == "expected_detectable_difference"}
    assert smallest.keys() == {"two values of region", "accuracy of two models"}
    assert all(value and 0 < value < 2 for value in smallest.values())
