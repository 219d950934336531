"""Ratings that count under each condition, compared with values by hand."""

from collections.abc import Mapping
from typing import Any

import pytest

from jobs.analysis.conditions import are_separate, condition_groups, reference_for
from jobs.errors import InputError

KINDS = {"p": "human", "q": "human", "g": "gold", "m": "model", "e": "encoder"}


class Asked:
    """The raters and methods of each key, as a `Reduction` has them."""

    def __init__(self, methods: Mapping[Any, dict[str, set[str]]], *by: str) -> None:
        self._methods, self.by, self.keys = methods, by, sorted(methods)

    def methods_of(self, key: tuple[str, ...]) -> dict[str, set[str]]:
        return self._methods[key]


def groups(methods: Mapping[Any, dict[str, set[str]]], *by: str) -> dict[Any, list[Any]]:
    reduction: Any = Asked(methods, *by)
    return condition_groups(reduction, KINDS)


def test_people_and_gold_without_a_condition_count_under_each() -> None:
    without, article, none = ("r", "q", ""), ("r", "q", "article"), ("r", "q", "none")
    asked = {
        without: {"p": {"human"}, "q": {"human"}, "g": {"gold"}, "e": {"encoder"}},
        article: {"m": {"closed"}, "q": {"human"}},
        none: {"m": {"closed"}},
    }
    (of_question,) = groups(asked, "condition").values()
    # q has a rating under a condition, and an encoder is not a person: both also form the group without one
    assert [group.condition for group in of_question] == ["", "article", "none"]
    assert [group.key for group in of_question] == [without, article, none]
    assert [group.shared for group in of_question] == [{}, {without: ["g", "p"]}, {without: ["g", "p"]}]
    del asked[without]["q"], asked[without]["e"]
    (of_question,) = groups(asked, "condition").values()
    assert [group.condition for group in of_question] == ["article", "none"]


def test_people_alone_have_one_group_without_a_condition() -> None:
    by_question = groups({("r", "q", "", "x"): {"p": {"human"}}, ("r", "q", "", "y"): {"p": {"human"}}},
                         "condition", "order")  # fmt: skip
    assert list(by_question) == [("r", "q", "x"), ("r", "q", "y")]
    assert not are_separate(by_question)
    assert {group.condition for of_question in by_question.values() for group in of_question} == {""}
    asked = {("r", question, name): {"m": {"closed"}} for question, name in (("q", "a"), ("q", "b"), ("z", "a"))}
    assert are_separate(groups(asked, "condition"))


def test_likelihoods_are_not_on_the_scale() -> None:
    asked = {("r", "q"): {"m": {"loglik"}, "p": {"human"}}}
    ((group,),) = groups(asked).values()
    assert group.unscaled == {"m"}
    with pytest.raises(InputError, match="closed"):
        groups({("r", "q"): {"m": {"loglik", "closed"}}})


def test_the_reference_has_the_same_way_of_answering_if_it_was_asked() -> None:
    present = ["gold", "gold; loglik", "article; loglik"]
    assert reference_for("article; loglik", "gold", present) == "gold; loglik"
    assert reference_for("article; json", "gold", present) == "gold"
    assert reference_for("article", "gold", present) == "gold"
