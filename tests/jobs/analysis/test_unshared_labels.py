"""Labels that only some raters, gold or items have: both spellings are listed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jobs.analysis.item_attributes import Items
from jobs.analysis.unshared_labels import GOLD, MODELS, PEOPLE, RatedTargets, Side, apart, one_sided
from jobs.metrics.answers import RatingTable
from jobs.metrics.question import MetricSettings, QuestionContext, RatedQuestion
from jobs.store.hashing import hash_texts
from tests.cases import check_cases

DIMS = {"rubric": "r", "question": "q"}


def question(targets_of: Mapping[str, set[str]], *, judged: set[str] = frozenset()) -> RatedQuestion:  # type: ignore[assignment]
    """Return a question about one picture, which each rater rated against some targets; p and q are people."""
    targets = sorted(judged.union(*targets_of.values()))
    matrix = [[1.0 if target in of_rater else np.nan for of_rater in targets_of.values()] for target in targets]
    kinds = {name: "human" if name in "pq" else "model" for name in targets_of}
    gold: Any = {"judged": np.array([target in judged for target in targets])} if judged else {}
    context = QuestionContext(
        kinds, picture=np.zeros(len(targets), np.int64), target=np.arange(len(targets)), targets=targets, **gold
    )
    return RatedQuestion(RatingTable.from_matrix(matrix, raters=list(targets_of)), context, MetricSettings())


def sentences(*questions: RatedQuestion, items: Items | None = None, rated: tuple[str, ...] = ()) -> list[str]:
    collected = RatedTargets()
    for of_condition in questions:
        collected(DIMS, of_condition)
    return list(collected.sentences(items or Items(), hash_texts(list(rated))))


def test_one_label_in_two_spellings_is_listed_with_both() -> None:
    def check(first: str, second: str, shown: tuple[str, str], is_spelling: bool) -> None:
        same = {"Mali", "Peru"}
        (sentence,) = sentences(question({"m": same | {second}, "p": same | {first}}))
        assert sentence.startswith(
            f"r/q: people rated 1 target that no model rated: {shown[0]}; "
            f"models rated 1 that no person rated: {shown[1]}."
        )
        assert (f"two spellings of one target: {shown[0]} = {shown[1]}." in sentence) is is_spelling

    cases = [
        ("M\u00e9xico", "Mexico", ("M\u00e9xico", "Mexico"), True),
        ("M\u00e9xico", "Me\u0301xico", ("M\u00e9xico", "'Me\\u0301xico'"), True),
        ("mexico", "Mexico", ("mexico", "Mexico"), True),
        ("Mexico ", "Mexico", ("'Mexico '", "Mexico"), True),
        ("U.S.A.", "USA", ("U.S.A.", "USA"), True),
        ("USA", "United States", ("USA", "United States"), False),
        ("\uff2d\uff41\uff4c\uff49 II", "Mali II", ("\uff2d\uff41\uff4c\uff49 II", "Mali II"), True),
    ]  # fmt: skip
    check_cases(check, cases)


def test_a_second_spelling_next_to_that_of_the_others_is_found() -> None:
    (sentence,) = sentences(question({"m": {"Mexico", "Mali"}, "p": {"Mexico", "mexico"}}))
    assert "Perhaps two spellings of one target: mexico = Mexico." in sentence


def test_targets_of_all_conditions_and_of_one_side_count() -> None:
    assert sentences(question({"m": {"a", "b"}, "p": {"a"}, "q": {"b"}})) == []
    assert sentences(question({"m": {"a"}, "p": {"a", "b"}}), question({"m": {"b"}, "p": {"a", "b"}})) == []
    (models,) = sentences(question({"m": {*"abcdefg"}, "p": {"a"}}))
    assert models == "r/q: models rated 6 targets that no person rated: b, c, d, e, f and 1 more."
    assert sentences(question({"p": {"a"}, "q": {"b"}})) == []  # people have targets of their own


def test_targets_that_not_every_model_rated_are_listed_with_the_models() -> None:
    (sentence,) = sentences(question({"m": {"a", "USA"}, "n": {"a", "United States"}, "o": {"a", "USA"}}))
    assert sentence == "r/q: not every model rated 2 targets: United States (by n), USA (by m, o)."


def test_gold_that_nobody_rated_is_listed() -> None:
    (sentence,) = sentences(question({"m": {"a", "Mexico"}}, judged={"a", "m\u00e9xico"}))
    assert sentence == "r/q: gold judges 1 target that nobody rated: m\u00e9xico"
    a, b = (int(number) for number in hash_texts(["a", "b"]))
    everywhere = frozenset[str]()
    items = Items(gold={a: (everywhere, frozenset(["M\u00e9xico", "Mali"])), b: (everywhere, frozenset(["Fiji"]))})
    rated = question({"m": {"Mexico", "Mali"}})
    (sentence,) = sentences(rated, items=items, rated=("a",))  # b was not rated
    assert sentence == (
        "items: 1 label in the items' gold that nobody rated and no answer has: M\u00e9xico. Perhaps two spellings of "
        "one label: M\u00e9xico = Mexico."
    )
    answers = Items(gold={a: (everywhere, frozenset(["1"]))})
    assert sentences(rated, items=answers, rated=("a",)) == []  # the answer to a question without targets


def test_targets_that_no_item_has_are_listed_if_every_item_has_its_own() -> None:
    rated = question({"p": {"M\u00e9xico", "Mali"}})
    (sentence,) = sentences(rated, items=Items(targets=frozenset(["Mexico", "Mali", "Peru"])))
    assert sentence.startswith("items: 1 label rated, but not among the items' own targets: M\u00e9xico.")
    assert sentences(rated, items=Items()) == []


def test_a_side_without_any_label_is_not_compared() -> None:
    assert list(apart("r", "target", "rated", Side(PEOPLE, set()), Side(MODELS, {"a"}))) == []
    some = one_sided("r", "item", "rated", Side(GOLD, {"a"}, 1200), Side(MODELS, ()))
    assert some == "r: gold rated 1,200 items that no model rated: a and 1,199 more."
