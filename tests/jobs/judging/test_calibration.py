"""Settings of `loglik` chosen by hand-computed values of their criterion."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from actors.rubrics.rubric_questions import Answer, Question
from jobs.errors import InputError
from jobs.judging.calibration import (
    CALIBRATED,
    SettingChoice,
    calibrated,
    choose,
    facts,
    gold_labels,
    read_scores,
    with_choices,
)
from jobs.tables import TABLES
from tests.factories import TableInMemory

HALVES = {"i": "a", "j": "b"}


def rated(item: str, target: str, score: float | None, *, condition: str = "x", **changes: Any) -> dict[str, Any]:
    key = {"item_id": item, "target": target, "rubric": "r", "question": "q", "rater": "m", "condition": condition}
    return {**key, "method": "loglik", "order": "", "sample": 0, "score": score, "status": "ok", **changes}


def test_scores_are_paired_with_gold_labels_by_half_and_setting() -> None:
    rows = [
        rated("i", "Peru", None, status="refused"),
        rated("i", "Peru", -9.0, status="truncated"),
        rated("i", "Peru", None),
        rated("nogold", "Peru", -5.0),
        rated("i", "Peru", -1.0),
        rated("i", "Brazil", -2.0),
        rated("j", "Peru", -3.0, condition="y"),
    ]
    gold = {"i": frozenset({"Peru"}), "j": frozenset[str]()}
    assert read_scores(TableInMemory("ratings", rows), {**HALVES, "nogold": "a"}, gold) == {  # type: ignore[arg-type]
        "a": {"x": ([-1.0, -2.0], [1.0, 0.0])},
        "b": {"y": ([-3.0], [0.0])},
    }


def test_scores_are_paired_with_peoples_means_where_there_are_some() -> None:
    rows = [rated("i", "Peru", -1.0), rated("i", "Brazil", -2.0), rated("j", "Peru", -3.0)]
    means = {("i", "Peru"): 4.5, ("j", "Peru"): 0.0}
    assert read_scores(TableInMemory("ratings", rows), HALVES, means) == {  # type: ignore[arg-type]
        "a": {"x": ([-1.0], [4.5])},
        "b": {"x": ([-3.0], [0.0])},
    }


def test_gold_of_no_label_differs_from_no_gold() -> None:
    items: list[dict[str, Any]] = [
        {"item_id": "i", "gold": ["Peru"]},
        {"item_id": "j", "gold": []},
        {"item_id": "k", "gold": None},
    ]
    assert gold_labels([TableInMemory("items", items)]) == {"i": {"Peru"}, "j": set()}  # type: ignore[list-item]


def test_of_equal_settings_the_first_by_name_is_chosen() -> None:
    same = ([-1.0, -3.0], [1.0, 0.0])
    worse = ([-3.0, -1.0], [1.0, 0.0])  # both labels must be predicted to find the right one: F1 is 2/3
    choice = choose(
        {"a": {"z": same, "y": same, "x": worse}, "b": {"y": worse}},
        half="a", other="b", criterion="f1", threshold=None,
    )  # fmt: skip
    assert choice == SettingChoice("a", "y", -2.0, 1.0, 0.0, 2, 2)
    alone = choose({"a": {"x": worse}}, half="a", other="b", criterion="f1", threshold=-3.0)
    assert alone == SettingChoice("a", "x", -3.0, 2 / 3, None, 2, 0)


def test_a_correlation_is_chosen_without_a_threshold() -> None:
    line, bent, falling = ([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]), ([1.0, 2.0, 9.0], [1.0, 2.0, 3.0]), ([3.0, 2.0, 1.0],) * 2
    scores = {"a": {"x": bent, "y": line}, "b": {"y": (falling[0], line[1]), "x": line}}
    choice = choose(scores, half="a", other="b", criterion="pearson", threshold=None)
    assert (choice.value, choice.value_of_other) == (pytest.approx(1), pytest.approx(-1))
    assert replace(choice, value=1.0, value_of_other=None) == SettingChoice("a", "y", None, 1.0, None, 3, 3)
    assert choice.text == "y, chosen on half a"
    assert choose(scores, half="b", other="a", criterion="pearson", threshold=None).setting == "x"


@pytest.mark.parametrize(
    ("criterion", "threshold", "scores", "message"),
    [
        ("f1", None, ([-1.0, -2.0], [0.0, 0.0]), "choose_on=a: f1 is undefined for every setting: no right label"),
        ("f1", -1.0, ([-1.0, -2.0], [0.0, 0.0]), "choose_on=a: f1 is undefined for every setting: no right label"),
        ("pearson", None, ([-1.0, -2.0], [1.0, 2.0]), "pearson is undefined for every setting: fewer than three"),
    ],
)
def test_a_half_without_a_value_of_the_criterion_is_refused(
    criterion: str, threshold: float | None, scores: tuple[list[float], list[float]], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        choose({"a": {"x": scores}}, half="a", other="b", criterion=criterion, threshold=threshold)


def test_a_score_at_the_threshold_has_the_highest_answer() -> None:
    question = Question("holds", "?", "", "ordinal", (Answer("yes", "yes", 1.0), Answer("no", "no", 0.0)))
    choices = {"a": SettingChoice("b", "x", -2.0, 1.0, None, 2, 0)}
    rows = [
        rated("i", "above", -1.0),
        rated("i", "at", -2.0),
        rated("i", "below", -2.5),
        rated("i", "failed", None, status="error"),
        rated("i", "of another setting", -1.0, condition="y"),
        rated("j", "of another half", -1.0),
    ]
    table = pa.Table.from_pylist(rows, schema=TABLES["ratings"].schema())
    labels = calibrated(table, HALVES, choices, ("c", question), "article").to_pylist()
    assert [(row["target"], row["value"], row["score"]) for row in labels] == [
        ("above", "yes", 1.0), ("at", "yes", 1.0), ("below", "no", 0.0), ("failed", None, None)
    ]  # fmt: skip
    assert {(row["method"], row["rubric"], row["question"], row["condition"]) for row in labels} == {
        (CALIBRATED, "c", "holds", "article")
    }
    assert [row["comment"] for row in labels] == ["x, threshold -2, chosen on half b"] * 3 + [None]
    scores = calibrated(table, HALVES, choices, None, "article").to_pylist()
    assert [(row["target"], row["score"]) for row in scores] == [
        ("above", -1.0), ("at", -2.0), ("below", -2.5), ("failed", None)
    ]  # fmt: skip


@pytest.mark.parametrize("changes", [{"method": "closed"}, {"condition": "image; lambda=1"}])
def test_ratings_of_several_runs_are_refused(changes: dict[str, Any]) -> None:
    one = [rated("i", "Peru", -1.0, condition=f"article; lambda={n}") for n in range(2)]
    assert facts(TableInMemory("ratings", one)) == ("article", ["m"])  # type: ignore[arg-type]
    two = [rated("i", "Peru", -1.0, condition=f"a; b; lambda={rater}") | {"rater": rater} for rater in "hgfedcba"]
    assert facts(TableInMemory("ratings", two)) == ("a; b", list("abcdefgh"))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"must be ratings by remine loglik under one condition"):
        facts(TableInMemory("ratings", [*one, {**one[0], **changes}]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("engine", "named"), [("torch", "torch; labels by likelihood: "), (None, "labels by likelihood: ")]
)
def test_the_engine_of_a_rater_names_what_was_chosen(engine: str | None, named: str) -> None:
    chosen = [SettingChoice("a", "x", -3.0, 1.0, None, 2, 2), SettingChoice("b", "y", None, 1.0, None, 2, 2)]
    (row,) = with_choices([{"rater": "m", "engine": engine}], chosen)
    assert row["engine"] == f"{named}x, threshold -3, chosen on half a; y, chosen on half b"
