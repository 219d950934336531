"""Settings of `loglik`: keys, reference ratings, halves, the choice on one half and its use on the other."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors.rubrics.rubric_questions import Answer, Question
from jobs.errors import InputError
from jobs.judging import model_config, rubric_job
from jobs.judging.calibration import (
    CALIBRATED,
    HALVES,
    CalibrateConfig,
    SettingChoice,
    attribute_values,
    calibrated,
    checked_question,
    choose,
    facts,
    gold_labels,
    half_of,
    halves,
    keep_sweep,
    other_half,
    read_reference,
    read_scores,
    with_choices,
)
from jobs.tables import TABLES
from tests.cases import check_cases
from tests.factories import TableInMemory, rating, write_table

HALF_OF = {"i": "a", "j": "b"}


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
    assert read_scores(TableInMemory("ratings", rows), {**HALF_OF, "nogold": "a"}, gold) == {  # type: ignore[arg-type]
        "a": {"x": ([-1.0, -2.0], [1.0, 0.0])},
        "b": {"y": ([-3.0], [0.0])},
    }


def test_scores_are_paired_with_peoples_means_where_there_are_some() -> None:
    rows = [rated("i", "Peru", -1.0), rated("i", "Brazil", -2.0), rated("j", "Peru", -3.0)]
    means = {("i", "Peru"): 4.5, ("j", "Peru"): 0.0}
    assert read_scores(TableInMemory("ratings", rows), HALF_OF, means) == {  # type: ignore[arg-type]
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
    labels = calibrated(table, HALF_OF, choices, ("c", question), "article").to_pylist()
    assert [(row["target"], row["value"], row["score"]) for row in labels] == [
        ("above", "yes", 1.0), ("at", "yes", 1.0), ("below", "no", 0.0), ("failed", None, None)
    ]  # fmt: skip
    assert {(row["method"], row["rubric"], row["question"], row["condition"]) for row in labels} == {
        (CALIBRATED, "c", "holds", "article")
    }
    assert [row["comment"] for row in labels] == ["x, threshold -2, chosen on half b"] * 3 + [None]
    scores = calibrated(table, HALF_OF, choices, None, "article").to_pylist()
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


def test_the_mean_of_the_scores_there_are(tmp_path: Path) -> None:
    write_table(tmp_path / "people", "ratings", [
        rating("i", "anna", "q", "4"),
        rating("i", "bo", "q", "1"),
        rating("i", "cy", "q", None),
        rating("i", "dora", "q", "yes"),
        rating("j", "anna", "q", "5", status="truncated"),
        rating("k", "anna", "q", "3", target="Peru"),
    ])  # fmt: skip
    assert read_reference(f"{tmp_path}/people") == {("i", ""): 2.5, ("k", "Peru"): 3.0}
    assert read_reference(None) == {}


def test_ratings_without_a_score_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "people", "ratings", [rating("i", "anna", "q", "yes")])
    with pytest.raises(InputError, match=r"reference=.*: none of its ratings has a score"):
        read_reference(f"{tmp_path}/people")


def test_the_settings_are_sorted_by_their_agreement(tmp_path: Path) -> None:
    """Scores of items without a reference, of other labels and of failed ratings do not count."""
    reference = {("a", "Peru"): 1.0, ("b", "Peru"): 2.0, ("c", "Peru"): 3.0, ("d", "Peru"): 3.0}
    scores = {"against": "3214", "with": "1234", "equal": "2222", "partly": "1424"}
    rows = [
        rating(item, "m", "q", score, target="Peru", condition=condition)
        for condition, of_items in scores.items()
        for item, score in zip("abcd", of_items, strict=True)
    ]
    rows += [
        rating("e", "m", "q", "5", target="Peru", condition="with"),
        rating("a", "m", "q", "5", target="Mali", condition="with"),
        rating("a", "n", "q", "5", target="Peru", condition="with", status="refused"),
    ]
    kept: dict[str, bytes] = {}
    out = write_table(tmp_path / "loglik", "ratings", rows)
    run: Any = SimpleNamespace(target=SimpleNamespace(out=out), keep=kept.__setitem__)
    lines = keep_sweep(run, reference, list(scores))
    sweep = json.loads(kept["sweep.json"])
    assert [entry["setting"] for entry in sweep] == ["with", "partly", "against", "equal"]
    assert [entry["n"] for entry in sweep] == [4, 4, 4, 4]
    assert sweep[0]["pearson"] == pytest.approx(0.9438798)
    assert sweep[2]["pearson"] < 0
    assert sweep[3]["pearson"] is None
    assert [line.split()[0] for line in lines] == ["with", "partly", "against", "equal"]


ONE: dict[str, Any] = {
    "name": "r", "version": 1,
    "questions": [{"name": "q", "text": "?", "scale": "ordinal", "answers": [
        {"value": "no", "label": "no", "score": 0}, {"value": "yes", "label": "yes", "score": 1}]}],
}  # fmt: skip


def test_keys_of_a_criterion() -> None:
    def refused(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            checked_question(CalibrateConfig(**{"input": "I", **keys}))

    cases = [
        ({"criterion": "auc"}, "criterion=auc: must be one of f1, pearson"),
        ({"choose_on": "c"}, "choose_on=c: must be one of a, b"),
        ({"split_by": "x"}, "split_by=x: set items="),
        ({"criterion": "pearson"}, "criterion=pearson: reference= is required"),
        ({"criterion": "pearson", "reference": "R", "threshold": 0.0}, "threshold= is not allowed"),
        ({}, "criterion=f1: items= with gold is required"),
        ({"items": ["I"], "reference": "R"}, "reference= is not allowed"),
        ({"items": ["I"], "rubric": {"name": "r"}}, "^rubric: "),
        ({"items": ["I"], "rubric": {**ONE, "questions": [*ONE["questions"], {**ONE["questions"][0], "name": "p"}]}},
         "^rubric: must have one question"),
        ({"items": ["I"], "rubric": {**ONE, "questions": [{**ONE["questions"][0], "scale": "nominal", "answers": [
            {"value": "a", "label": "a"}, {"value": "b", "label": "b"}]}]}}, "^rubric: must have one question"),
    ]  # fmt: skip
    check_cases(refused, cases)
    question = checked_question(CalibrateConfig(input="I", items=["I"], rubric=ONE, threshold=0.5))
    assert question is not None
    assert question.name == "q"
    assert checked_question(CalibrateConfig(input="I", criterion="pearson", reference="R")) is None
    assert (
        checked_question(CalibrateConfig(input="I", criterion="pearson", reference="R", items=["I"], split_by="x"))
        is None
    )


def test_halves_are_even_and_depend_on_seed_and_value() -> None:
    names = [f"i{n}" for n in range(400)]
    parts = halves(names, 0)
    assert parts == {name: half_of(name, 0) for name in names}
    assert 150 < sum(half == "a" for half in parts.values()) < 250
    assert 150 < sum(half_of(name, 0) == half_of(name, 1) for name in names) < 250
    assert "".join(parts[name] for name in names[:12]) == "bbbbabababba", "as in tables of earlier versions"
    keys = {name: f"k{n % 3}" for n, name in enumerate(names)}
    assert halves(names, 2, keys) == {name: half_of(keys[name], 2) for name in names}
    assert [other_half(half) for half in HALVES] == ["b", "a"]
    with pytest.raises(InputError, match="item x does not have the attribute"):
        halves(["i0", "x"], 2, keys)
    assert halves(["x"], 2) == {"x": half_of("x", 2)}
    rows = [{"item_id": name, "attributes": attributes} for name, attributes in (
        ("a", [("p", "1"), ("q", "2")]), ("b", [("p", "")]), ("c", None), ("d", [("q", "3")]))]  # fmt: skip
    source: Any = TableInMemory("items", rows)
    assert attribute_values([source], "p") == {"a": "1"}
    assert attribute_values([source], "q") == {"a": "2", "d": "3"}


def test_keys_of_another_method_are_refused() -> None:
    def config(**keys: Any) -> model_config.MethodConfig:
        return model_config.MethodConfig(rubric=ONE, **keys)

    rubric_job.check_method(config())
    rubric_job.check_method(config(method="reasoned", samples=3))
    with pytest.raises(ValueError, match="method=open: must be one of closed, reasoned"):
        rubric_job.check_method(config(method="open"))
    with pytest.raises(ValueError, match="samples=3: method=closed has no such key; omit it, or set method=reasoned"):
        rubric_job.check_method(config(samples=3))
    with pytest.raises(ValueError, match=r"engine: must be one of .* with method=reasoned"):
        rubric_job.check_method(config(method="reasoned", engine="packed"))
    assert rubric_job.method_identity(config()) == {"method": "closed"}
    one, two = (rubric_job.method_identity(config(method="reasoned", samples=n)) for n in (1, 2))
    assert (one["method"], one["samples"], two["samples"]) == ("reasoned", 1, 2)
    assert {"method", "instruction", "samples"} < set(one)
