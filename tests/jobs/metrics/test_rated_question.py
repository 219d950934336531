"""Groups of raters of a question, and the ratings that an item needs."""

from typing import Any

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.rated_question import (
    MAX_LINES,
    MetricSettings,
    QuestionContext,
    RatedQuestion,
    matching,
    of_rubric,
    people_needed,
)

NAN = float("nan")
RATERS = ["a@1", "b@1", "clip", "gold", "p", "q"]
KINDS = {"clip": "encoder", "gold": "gold", "p": "human", "q": "human"}


def question(
    matrix: Any, raters: list[str], kinds: dict[str, str], *, unscaled: Any = (), **more: Any
) -> RatedQuestion:
    settings = MetricSettings(**{key: more.pop(key) for key in list(more) if hasattr(MetricSettings(), key)})
    n = len(matrix)
    context = QuestionContext(kinds, np.arange(n), np.zeros(n, np.int64), **{"scale": (1.0, 5.0), **more})
    answers = RatingTable.from_matrix(np.asarray(matrix, float), raters=raters)
    return RatedQuestion(answers, context, settings, unscaled=frozenset(unscaled))


def test_groups_have_the_raters_of_their_kind_that_answered() -> None:
    one = question([[1] * 6], RATERS, KINDS)
    assert one.groups == {"people": ("p", "q"), "models": ("a@1", "b@1", "clip")}
    assert [one.kind(name) for name in ("a@1", "clip", "gold", "p")] == ["model", "encoder", "gold", "human"]
    settings: dict[str, Any] = {
        "leave_out": ["b", "p"], "ensembles": {"both": ["a", "c*"], "none": ["z"], "second": ["b@*"]},
        "groups": {"Mali": ("q", "other"), "Peru": ("other",)},
    }  # fmt: skip
    answers = question([[1] * 6], RATERS, KINDS)
    context = QuestionContext(KINDS, answers.context.picture, answers.context.target, groups=settings.pop("groups"))
    grouped = RatedQuestion(answers.answers, context, MetricSettings(**settings), unscaled=frozenset({"clip"}))
    assert grouped.groups == {
        "people": ("p", "q"), "models": ("a@1",), "both": ("a@1",), "second": ("b@1",), "Mali": ("q",)
    }  # fmt: skip


def test_lists_of_raters_are_for_all_rubrics_or_for_each() -> None:
    settings = MetricSettings(leave_out={"a": ["x"], "b": None}, ensembles={"all": ["m"], "one": {"a": ["n", "o"]}})
    lists = {rubric: of_rubric(settings, rubric) for rubric in "abc"}
    assert {rubric: (of_one.leave_out, of_one.ensembles) for rubric, of_one in lists.items()} == {
        "a": (["x"], {"all": ["m"], "one": ["n", "o"]}),
        "b": ([], {"all": ["m"], "one": []}),
        "c": ([], {"all": ["m"], "one": []}),
    }
    assert of_rubric(MetricSettings(leave_out=["y"]), "a").leave_out == ["y"]
    assert of_rubric(MetricSettings(), "a").leave_out == []


def test_a_glob_matches_with_or_without_the_revision() -> None:
    raters = ["org/a@1", "org/a@2", "org/ab", "A"]
    assert [matching(raters, pattern) for pattern in ("org/a", "org/a@2", "*b", "org/a*", "a")] == [
        raters[:2], raters[1:2], raters[2:3], raters[:3], []
    ]  # fmt: skip


def test_an_item_needs_three_people_or_the_most_that_any_has() -> None:
    cases = [([[1, NAN], [1, 2]], None, 2), ([[1, 2, 3, 4]], None, 3), ([[1, 2, 3]], 5, 5), ([[NAN]], None, 1)]
    needed = [people_needed(RatingTable.from_matrix(np.array(rows, float)), MetricSettings(people=setting))
              for rows, setting, _ in cases]  # fmt: skip
    assert needed == [expected for *_, expected in cases]


def test_groups_of_people_need_several_ratings_and_each_model_is_a_group() -> None:
    one = question([[1, 2, 3, 4, 5, NAN]], RATERS, KINDS, ensembles={"people and a": ["p", "a"]}, unscaled=["clip"])
    groups = [(group.name, group.raters, group.at_least) for group in one.averaged_groups(one.answers)]
    assert groups == [
        ("people", ("p", "q"), 1), ("models", ("a@1", "b@1"), 1), ("people and a", ("a@1", "p"), 1),
        ("a@1", ("a@1",), 1), ("b@1", ("b@1",), 1),
    ]  # fmt: skip
    two = question([[4, 4], [4, NAN]], ["p", "q"], KINDS)
    assert [(group.name, group.at_least) for group in two.averaged_groups(two.answers)] == [("people", 2)]
    many = [f"m{number:03}" for number in range(MAX_LINES + 2)]
    of_many = question([[1] * len(many)], many, {})
    named = [group.name for group in of_many.averaged_groups(of_many.answers)]
    assert named == ["models", *many[:MAX_LINES]]
    same = question([[1]], ["x"], {}, ensembles={"x": ["x"]})
    assert [group.name for group in same.averaged_groups(same.answers)] == ["models", "x"]


@pytest.mark.parametrize(("scale", "expected"), [((1, 4), [2, 4]), ((2, 5), [4, 5]), (None, [1, 2, 4, 5])])
def test_thresholds_are_above_the_lowest_score(scale: Any, expected: list[float]) -> None:
    assert question([[1]], ["m"], {}, scale=scale, at_least=[1.0, 2.0, 4.0, 5.0]).thresholds == expected
