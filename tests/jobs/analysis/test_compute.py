"""What the metrics of a question are computed from: raters, right answers, authors, subgroups and conditions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import f1_score

from jobs.analysis import compute
from jobs.analysis.attributes import Items, Raters, items_of, read_items
from jobs.analysis.compute import MOST_TARGETS, question_metrics, versions_of_models
from jobs.analysis.rating_codes import Reduction
from jobs.errors import InputError
from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MetricSettings, QuestionContext, RatedQuestion
from jobs.store.hashing import hash_texts
from jobs.tables import CONDITION, table
from tests.cases import check_cases
from tests.factories import TableInMemory, rating

KINDS = {"m": "model", "n": "model", "p": "human", "key": "gold", "lock": "gold"}
SETTINGS = MetricSettings()


class Observed(dict[tuple[str, ...], RatedQuestion]):
    """The rated questions by question and condition."""

    def __call__(self, dims: Mapping[str, str], question: RatedQuestion) -> None:
        self[dims["question"], dims.get(CONDITION, "")] = question

    def join(self, question: "Observed") -> None:
        self.update(question)


ITEMS = 6
KINDS_OF_VERSIONS = {"m": "model", "once": "model", "log": "model", "anna": "human", "clip": "encoder", "key": "gold"}
VERSIONS = RatingTable.from_matrix(
    np.stack([np.tile([1.0, 3, 5], 2), np.tile([1.0, 4, 5], 2)], axis=1), raters=["json", "closed"]
)


def computed(
    rows: Sequence[dict[str, Any]], items: Items | None = None, settings: MetricSettings = SETTINGS, **changes: Any
) -> tuple[Observed, list[Metric]]:
    """Return the rated questions and the metrics."""
    observed = Observed()
    raters = Raters(KINDS, changes.pop("families", {}), changes.pop("groups", {}), {})
    by_id = changes.pop("keep_ids", False)
    keywords = {"orders": {}, "scale": lambda *_: ((1.0, 5.0), ""), "observer": observed, **changes}
    with Reduction(by=[CONDITION], keep_ids=by_id) as reduction:
        reduction.add(pa.Table.from_pylist(list(rows), schema=table("ratings").schema()))
        metrics = list(question_metrics(reduction, raters, items or Items(), settings, **keywords))
    return observed, metrics


def rated_by(raters: str, items: str = "abc", value: str = "3", **columns: Any) -> list[dict[str, Any]]:
    names = {"k": "key"}
    return [rating(item, names.get(rater, rater), "q", value, **columns) for item in items for rater in raters]


def test_gold_is_compared_with_and_is_not_a_rater() -> None:
    observed, metrics = computed([*rated_by("mp"), *rated_by("k", "ab", "5")])
    (question,) = observed.values()
    assert sorted(question.answers.raters) == ["m", "p"]
    assert question.context.gold_scores is not None
    assert question.context.judged is not None
    assert question.context.gold_scores[question.context.judged].tolist() == [5, 5]
    assert not any("key" in str(value) for metric in metrics for value in metric.dims.values())


def test_the_context_says_who_rated_what_on_which_scale() -> None:
    rows = [row for target in ("Mali", "") for row in rated_by("mp", "ab", target=target)]
    changes: dict[str, Any] = {"families": {"m": "x"}, "groups": {"g": ("p",)}}
    (question,) = computed(rows, scale=lambda *_: (None, "unknown"), keep_ids=True, **changes)[0].values()
    context = question.context
    assert (context.kinds, context.families, context.groups) == (KINDS, *changes.values())
    assert (context.scale, context.no_scale) == (None, "unknown")
    assert context.names is not None
    assert sorted(context.names) == ["a", "a · Mali", "b", "b · Mali"]
    of_names: dict[str, list[str]] = {}
    for name, picture, target in zip(context.names, context.picture, context.target, strict=True):
        of_names.setdefault(f"picture {picture}", []).append(name[0])
        of_names.setdefault(context.targets[target], []).append(name[1:])
    assert sorted(of_names.values()) == [["", ""], [" · Mali", " · Mali"], ["a", "a"], ["b", "b"]]
    (question,) = computed(rows)[0].values()
    assert (question.context.scale, question.context.no_scale, question.context.names) == ((1.0, 5.0), "", None)


def test_a_familys_responses_are_those_of_all_its_models() -> None:
    wrote = {"a": "qwen-7b", "b": "qwen-72b", "c": "other", "d": "maker/x"}
    items = replace(items_of({"model": wrote}), lengths=np.array([10.0, 20, 30, 40]))
    observed, _ = computed(rated_by("mn", "abcde"), items, families={"maker/x": "qwen"})
    (question,) = observed.values()
    by_family = {family: int(members.sum()) for family, members in question.context.authors.items()}
    assert by_family == {"qwen": 3, "other": 1}
    assert question.context.lengths is not None
    assert sorted(question.context.lengths[~np.isnan(question.context.lengths)].tolist()) == [10, 20, 30, 40]
    assert list(question.context.subgroups) == ["model"]  # by default, with responses
    assert question.context.concept is None
    dances = items_of({SETTINGS.concept: {"a": "dance", "b": "tea", "c": "dance"}})
    (question,) = computed(rated_by("m", "abcd"), dances)[0].values()
    assert question.context.concept is not None
    assert sorted(Counter(question.context.concept.tolist()).values()) == [1, 1, 2]
    assert (question.context.concept == -1).sum() == 1
    assert computed(rated_by("mn"), items_of({"model": wrote}))[0]["q", ""].context.subgroups == {}


def test_scores_that_are_likelihoods_are_off_a_known_scale_only() -> None:
    rows = [*rated_by("m"), *rated_by("n", method="loglik")]
    assert computed(rows)[0]["q", ""].unscaled == {"n"}
    assert computed(rows, scale=lambda *_: (None, "unknown"))[0]["q", ""].unscaled == set()


def test_ratings_of_one_item_by_one_rater_are_repeated_and_double() -> None:
    rows = [*rated_by("mp"), rating("a", "m", "q", "4", sample=1), rating("a", "m", "q", None, sample=2)]
    rows += [rating("unanswered", "m", "q", None)]  # asked once
    (question,) = computed(rows)[0].values()
    assert (question.repeated, question.double, question.double_by_people) == (2, 3, 0)


def test_targets_are_subgroups_if_they_are_few_and_about_the_same_items() -> None:
    def subgroups(names: Sequence[str], items: str = "ab", **settings: Any) -> dict[str, dict[str, int]]:
        rows = [row for name in names for row in rated_by("m", items, target=name)]
        observed, _ = computed(rows, items_of({"region": {"a": "East", "b": "West"}}), MetricSettings(**settings))
        parts = observed["q", ""].context.subgroups
        return {
            attribute: {name: int(p.sum()) for name, p in sorted(named.items())} for attribute, named in parts.items()
        }

    assert subgroups(["Mali", "Peru"]) == {"target": {"Mali": 2, "Peru": 2}}
    assert subgroups(["Mali"]) == {}
    many = [f"t{number}" for number in range(MOST_TARGETS)]
    assert list(subgroups(many)) == ["target"]
    assert subgroups([*many, "one more"]) == {}
    of_each = [rating("a", "m", "q", "3", target="Mali"), rating("b", "m", "q", "3", target="Peru")]
    assert computed(of_each)[0]["q", ""].context.subgroups == {}
    region = subgroups(["Mali", "Peru"], disaggregate=["region"])
    assert region == {"region": {"East": 2, "West": 2}, "target": {"Mali": 2, "Peru": 2}}
    crossed = subgroups(["Mali", ""], disaggregate=["target+region"])["target+region"]
    assert crossed == {"East + Mali": 1, "East + none": 1, "West + Mali": 1, "West + none": 1}


def test_questions_are_left_out_and_conditions_of_settings_must_exist() -> None:
    rows = [*rated_by("mn", condition="with"), *rated_by("mn", value="4", condition="without"), *rated_by("p")]
    rows += [row | {"question": "other"} for row in rows]
    observed, metrics = computed(rows, skip=lambda _, question: question == "other")
    assert set(observed) == {("q", "with"), ("q", "without")}
    assert {metric.dims["question"] for metric in metrics} == {"q"}
    assert all(sorted(question.answers.raters) == ["m", "n", "p"] for question in observed.values())
    changes = {metric.dims["group"] for metric in metrics if metric.name == "score_change"}
    assert changes == {"models", "m", "n"}, "p answered without a condition"
    for key in ("baseline_condition", "reference_condition"):
        absent: dict[str, Any] = {key: "nowhere"}
        with pytest.raises(InputError, match=rf"^metrics.{key}=nowhere: .*'with', 'without'"):
            computed(rows, None, MetricSettings(**absent))
        computed(rows, None, MetricSettings(**absent | {key: "with"}))


class Named(str):
    """A stand-in for a metric, which compares as its text."""

    __slots__ = ()
    name = "other"


def test_changes_are_between_compared_conditions_and_from_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many to compare each with each are named, unless the baseline is set."""
    pairs: list[tuple[str, str]] = []
    module = compute.condition_changes
    monkeypatch.setattr(module, "compared", lambda by_name, baseline: pairs)
    monkeypatch.setattr(module, "too_many", lambda count: f"{count} conditions")
    monkeypatch.setattr(module, "condition_changes", lambda one, other: [Named(f"{one.name}>{other.name}")])
    monkeypatch.setattr(compute, "_ranked", lambda answered, settings: [])
    monkeypatch.setattr(compute.condition_changes, "f1_ratios", lambda one, other: [f"{one.name}/{other.name}"])
    monkeypatch.setattr(
        compute.condition_changes, "f1_over_best", lambda one, other: [f"{other.name} over best {one.name}"]
    )

    def changes(names: str, *, baseline: str | None = None, reference: str | None = None) -> list[Any]:
        answered: Any = [SimpleNamespace(name=name) for name in names]
        settings: Any = SimpleNamespace(baseline_condition=baseline, reference_condition=reference, adjustment="holm")
        return list(compute._changes(answered, settings))

    assert (changes(""), changes("a"), changes("abc"), changes("abc", baseline="a")) == ([], [], ["3 conditions"], [])
    assert changes("abc", baseline="a", reference="b") == ["b/a", "b/c"]
    assert changes("ab", baseline="a", reference="z") == []
    pairs += [("a", "b"), ("c", "a")]
    assert changes("abc") == ["a>b", "c>a"]
    pairs[:] = [("a", "b")]
    assert changes("abc", baseline="a") == ["a>b", "b over best a"]


def test_conditions_are_ranked_over_the_items_of_all_of_them() -> None:
    """Of three prompts, one is a point higher than people and another than that; one lacks an item of each ten."""
    rows = []
    for place in range(40):
        item, truth = f"i{place}", 1 + place % 3
        rows.append(rating(item, "p", "q", str(truth)))
        rows.append(rating(item, "m", "q", str(truth + (place % 7 == 0)), condition="plain"))
        rows.append(rating(item, "m", "q", str(truth + (place % 5 > 0)), condition="kind"))
        if place % 10:
            rows.append(rating(item, "m", "q", str(truth + 1 + (place % 4 > 0)), condition="kinder"))
    _, metrics = computed(rows)
    ranks = {
        (m.dims["attribute"], m.dims["part"]): (m.value, m.low, m.high, m.n)
        for m in metrics if m.name == "rank" and m.dims["group"] == "m"
    }  # fmt: skip
    assert ranks == {
        ("condition", "kinder"): (1, 1, 1, 36), ("condition", "kind"): (2, 2, 2, 36),
        ("condition", "plain"): (3, 3, 3, 36),
        ("condition, distance from people", "plain"): (1, 1, 1, 36),
        ("condition, distance from people", "kind"): (2, 2, 2, 36),
        ("condition, distance from people", "kinder"): (3, 3, 3, 36),
    }  # fmt: skip
    differences = [m for m in metrics if m.name == "pair_difference" and m.dims["attribute"] == "condition"]
    assert {(m.dims["first"], m.dims["second"]) for m in differences} == {
        ("kind", "kinder"), ("kind", "plain"), ("kinder", "plain")
    }  # fmt: skip


def test_subgroups_of_targets_are_crossed_where_there_are_such_items() -> None:
    hashes = hash_texts(["a", "b"])
    order = np.argsort(hashes)
    codes = np.array([0, 1], np.int32)[order]
    attributes = Items(hashes[order], {"region": (codes, ("East", "West"))}, named=frozenset({"region"}))
    reduced: Any = SimpleNamespace(item=hashes[[0, 0, 1]], target=np.array([0, 1, 1]), targets=("", "Mali"))

    def subgroups(attribute: str) -> dict[str, list[bool]]:
        groups = compute._subgroups(attribute, reduced, attributes)
        return {value: members.tolist() for value, members in groups.items()}

    assert subgroups("target") == {"none": [True, False, False], "Mali": [False, True, True]}
    assert subgroups("region+target") == {
        "East + none": [True, False, False], "East + Mali": [False, True, False], "West + Mali": [False, False, True]
    }  # fmt: skip
    assert subgroups("region") == {"East": [True, True, False], "West": [False, False, True]}


def test_gold_of_zero_and_one_is_a_label_unless_they_are_on_the_scale() -> None:
    cases: list[tuple[list[float], tuple[float, float] | None, bool]] = [
        ([0, 1], None, True), ([0, 1], (0, 1), True), ([0, 1], (1, 5), True), ([1], (1, 5), False),
        ([0, 1], (0, 5), False), ([0, 0.5], None, False), ([2], None, False), ([1], (0, 1), True),
    ]  # fmt: skip

    def check(levels: list[float], scale: tuple[float, float] | None, is_label: bool) -> None:
        assert compute._are_labels(np.array(levels), scale) is is_label

    check_cases(check, cases)


def test_labels_of_experts_are_right_from_one_half_and_their_categories_are_all_right() -> None:
    def context(answers: dict[str, str | None], second: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
        rows = rated_by("m", "abcd", changes.pop("of_model", "3"), **changes)
        for expert, of_expert in (("key", answers), ("lock", second or {})):
            rows += [rating(item, expert, "q", value, **changes) for item, value in of_expert.items()]
        of_question = computed(rows, scale=lambda *_: (None, "none"))[0]["q", ""].context
        return {name: getattr(of_question, name) for name in ("right", "gold_scores", "judged", "right_values")}

    labels = context({"a": "1", "b": "0", "c": None})
    assert (labels["right"].sum(), labels["judged"].sum(), labels["gold_scores"]) == (1, 2, None)
    half = context({"a": "1", "b": "0"}, {"a": "0"})  # one expert of two
    assert (half["right"].sum(), half["judged"].sum()) == (1, 2)
    scores = context({"a": "4", "b": "2"})
    assert (scores["right"], scores["judged"].sum(), np.nansum(scores["gold_scores"])) == (None, 2, 6)
    values = context({"a": "tea", "b": "art", "c": "tea"}, of_model="art", score=None)
    assert [sorted(value) for value in values["right_values"] if value] == [["tea"], ["art"], ["tea"]]
    assert values["right_values"].count(None) == 1
    assert (values["right"], values["gold_scores"], values["judged"]) == (None, None, None)


def test_right_targets_of_items_are_judged_where_they_are_known() -> None:
    """An item without known targets has the answer for all; without gold, for none."""
    hashes = hash_texts(["a", "b", "c"])
    attributes = Items(gold={
        int(hashes[0]): (frozenset(), frozenset(["Mali"])), int(hashes[1]): (frozenset(["Peru"]), frozenset(["Peru"])),
    })  # fmt: skip
    rows = [row for target in ("Mali", "Peru") for row in rated_by("m", "abc", target=target)]
    context = computed(rows, attributes)[0]["q", ""].context
    assert context.judged is not None
    assert context.right is not None
    assert (context.judged.sum(), context.right.sum(), (context.judged & context.right).sum()) == (3, 2, 2)
    without_targets = computed(rated_by("m"), attributes)[0]["q", ""].context
    right_values = list(without_targets.right_values or ())
    assert sorted(sorted(value) for value in right_values if value) == [["Mali"], ["Peru"]]
    assert right_values.count(None) == 1


def test_pictures_of_which_no_label_is_right_count_against_precision() -> None:
    """F1 equals scikit-learn's over all pairs whose gold is known, among them pictures without any right label."""
    rng = np.random.default_rng(3)
    labels, names = ("A", "B", "C", "D", "E"), [f"i{n}" for n in range(30)]
    gold = {name: frozenset(rng.choice(labels, n % 3)) if n % 5 else frozenset() for n, name in enumerate(names)}
    unknown = set(names[-4:])
    table_rows: list[dict[str, Any]] = [
        {"item_id": name, "targets": [*labels], "gold": None if name in unknown else [*gold[name]], "response_id": None,
         "attributes": []} for name in names
    ]  # fmt: skip
    answers = {(name, label): str(rng.integers(1, 6)) for name in names for label in labels}
    rows = [rating(name, "m", "q", value, target=label) for (name, label), value in answers.items()]
    _, metrics = computed(rows, read_items([cast(Any, TableInMemory("items", table_rows))], [], []))
    pairs = [(name, label) for name, label in answers if name not in unknown]
    right = [label in gold[name] for name, label in pairs]
    for positive, lowest in ((">=4", 4), (">4", 5)):
        expected = f1_score(right, [int(answers[pair]) >= lowest for pair in pairs])
        f1 = {m.dims["average"]: m for m in metrics if m.name == "f1" and m.dims["positive"] == positive}
        assert f1["micro"].value == pytest.approx(expected)
        assert f1["micro"].n == 26 * 5
    (left_out,) = (m for m in metrics if m.name == "without_gold")
    assert (left_out.value, left_out.n) == (pytest.approx(4 / 30), 30)


def compared(scale: tuple[float, float] | None) -> dict[tuple[str, str], set[str]]:
    """Return the thresholds of each rater's versions, by rater and their names."""
    versions = {name: {("closed", ""), ("json", "")} for name in KINDS_OF_VERSIONS} | {"once": {("closed", "")}}
    questions = list[dict[str, Any]]()

    def question(key: Any, **keywords: Any) -> Any:
        questions.append(keywords)
        return SimpleNamespace(answers=VERSIONS)

    reduction: Any = SimpleNamespace(versions_of=lambda key: versions, question=question)
    group: Any = SimpleNamespace(key=("r", "q"))
    answers = RatingTable.from_matrix(np.ones((ITEMS, len(KINDS_OF_VERSIONS))), raters=list(KINDS_OF_VERSIONS))
    context = QuestionContext(
        KINDS_OF_VERSIONS, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64), scale=scale
    )
    settings = MetricSettings(at_least=[2.0, 9.0])
    rated = RatedQuestion(answers, context, settings, unscaled=frozenset({"log"}))
    thresholds: dict[tuple[str, str], set[str]] = {}
    for metric in versions_of_models(reduction, group, rated):
        of_rater = thresholds.setdefault((metric.dims["rater"], metric.dims["versions"]), set())
        of_rater |= {metric.dims["threshold"]} if metric.name == "share_at_least" else set()
    assert questions == [{"order": answers.values, "versions_of": rater} for rater, _ in thresholds]
    return thresholds


def test_only_models_with_several_versions_on_the_scale_are_compared() -> None:
    assert compared((1.0, 5.0)) == {("m", "closed, json"): {"2"}}


def test_without_a_scale_there_are_no_thresholds() -> None:
    assert compared(None) == {("m", "closed, json"): set()}
