"""Settings of metrics: what is refused, and what a report adds where the data have it."""

import sys
from typing import Any

import pytest

from jobs.analysis.metric_settings import (
    attributes,
    check,
    check_attributes,
    check_groups,
    check_rubrics,
    unmatched,
    with_available,
    with_conditions,
)
from jobs.errors import InputError
from jobs.metrics.description_scores import OVERLAPS
from jobs.metrics.rated_question import MetricSettings
from tests.cases import check_cases


def test_a_setting_out_of_range_is_refused_and_one_at_a_bound_is_not() -> None:
    cases = [
        ("group_by", ["order", "method"], ["order", "colour"], "group_by=colour: must be one of"),
        ("group_by", ["order"], ["target"], "group_by=target: must be one of"),
        ("group_by", ["method"], ["condition"], "group_by=condition: must be one of"),
        ("weights", {"q": [[0, 1], [2, 0]]}, {"q": [[0, 1], [1]]}, "weights.q=.*: must be a square matrix"),
        ("weights", {"q": [[0, 1], [1, 0]]}, {"q": [[0, 1], [1, 2]]}, "weights.q=.*: must be 0 on the diagonal"),
        ("ensembles", {"mine": ["m"]}, {"people": ["m"]}, "ensembles.people: this group exists already"),
        ("ensembles", {"a": {"r": ["m"]}, "b": ["n"]}, {"a": "m"}, "ensembles.a=m: must be a list of raters"),
        ("leave_out", ["m"], "m", "leave_out=m: must be a list of raters"),
        ("leave_out", {"r": ["m"], "s": []}, {"r": "m"}, "leave_out=.*: must be a list of raters"),
        ("leave_out", None, [1], "leave_out=.*: must be a list of raters"),
        ("contrast", ["region:a-b"], ["region"], "contrast=region: must be attribute:first-second"),
        ("contrast", ["r:a-b"], [":a-b"], "contrast=:a-b: must be attribute:first-second"),
        ("contrast", ["region:b-a"], ["region:a"], "contrast=region:a: must be attribute:first-second"),
        ("contrast", ["region:a-b"], ["region:a-b-c"], "contrast=region:a-b-c: must be attribute:first-second"),
        ("pooling", [], ["region"], "pooling=region: only the subgroups of metrics.disaggregate can be pooled"),
        ("text_overlap", ["rouge_l"], ["words"], "text_overlap=words: must be one of"),
        ("stop", 1e-9, 0.0, "stop=0: must be above 0"),
        ("overlap", 0, -0.1, "overlap=-0.1: must be from 0 to 1"),
        ("overlap", 1, 1.1, "overlap=1.1: must be from 0 to 1"),
        ("tolerance", 0, -1, "tolerance=-1: must be at least 0"),
    ]

    def check_case(key: str, allowed: Any, refused: Any, message: str) -> None:
        check(MetricSettings(**{key: allowed}))
        with pytest.raises(InputError, match=f"^metrics.{message}"):
            check(MetricSettings(**{key: refused}))

    check_cases(check_case, cases)


def test_lists_of_raters_name_known_rubrics_and_raters() -> None:
    settings = MetricSettings(
        leave_out={"labels": ["m*", "x"], "texts": ["m"]}, ensembles={"a": ["n@*", "m"], "b": {"labels": ["y"]}}
    )
    check_rubrics(settings, ["labels", "texts", "other"])
    with pytest.raises(InputError, match=r"^metrics.leave_out.texts: no such rubric; must be one of labels, other$"):
        check_rubrics(settings, ["labels", "other"])
    assert list(unmatched(settings, {"labels": ["m@1"], "third": ["n@1"]})) == [
        "metrics.leave_out.labels: no rater is called x; there are m@1",
        "metrics.ensembles.b.labels: no rater is called y; there are m@1",
    ]
    assert list(unmatched(MetricSettings(), {"labels": ["m"]})) == []


def test_measures_of_overlap_need_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = {"bleu": "sacrebleu", "rouge_l": "rouge_score", "cider": "pycocoevalcap"}
    assert set(packages) == set(OVERLAPS)
    for measure, package in packages.items():
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(ModuleNotFoundError, match=package):
                check(MetricSettings(text_overlap=[measure]))


def test_attributes_are_those_of_all_settings_and_must_exist() -> None:
    settings = MetricSettings(disaggregate=["a+b"], compare=["c"], contrast=["target:x-y"], concept="d")
    assert attributes(settings) == {"a+b", "c", "target", "d", "model"}
    check_attributes(settings, {"a", "b", "c"})
    with pytest.raises(
        InputError, match=r"^metrics\.disaggregate=b: no item has this attribute; must be one of a, c, target "
    ):
        check_attributes(settings, {"a", "c"})


def test_a_report_adds_the_attributes_that_the_items_have_once() -> None:
    settings = with_available(
        MetricSettings(disaggregate=["a"], compare=["z"], contrast=["a:x-y"]),
        {"a", "b"},
        MetricSettings(
            disaggregate=["a", "b", "a+b", "a+z", "target"],
            compare=["b", "z"],
            contrast=["b:x-y", "z:x-y", "a:x-y"],
        ),
    )
    assert settings.disaggregate == ["a", "b", "a+b", "target"]
    assert settings.compare == ["z", "b"]
    assert settings.contrast == ["a:x-y", "b:x-y"]


def test_conditions_are_compared_where_there_are_several() -> None:
    cases = [
        (None, ("a", "b"), ("a", "b")),
        (None, ("a",), (None, None)),
        (None, ("b", "c"), (None, "b")),
        ("c", ("a", "b"), ("c", "b")),
    ]

    def check_case(own_values: str | None, present: tuple[str, ...], chosen: tuple[str | None, str | None]) -> None:
        added = MetricSettings(baseline_condition="a", reference_condition="b")
        settings = with_conditions(MetricSettings(baseline_condition=own_values), present, added)
        assert (settings.baseline_condition, settings.reference_condition) == chosen

    check_cases(check_case, cases)


def test_groups_of_people_need_a_table_of_raters_unless_they_are_the_usual_ones() -> None:
    for groups, has_raters in (([], False), (None, False), (["age"], True)):
        check_groups(MetricSettings(groups=groups), has_raters=has_raters)
    with pytest.raises(InputError, match=r"^metrics\.groups=\[age,sex\]: needs a table of raters"):
        check_groups(MetricSettings(groups=["age", "sex"]), has_raters=False)
