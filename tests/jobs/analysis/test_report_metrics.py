"""Shares of remarks by the model that wrote the rated item."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.analysis import report_metrics
from jobs.analysis.attributes import IndependentUnits, read_items
from jobs.analysis.report_metrics import remark_metrics
from jobs.analysis.report_tables import ReportRatings, ReportTables
from jobs.metrics.metric import MetricKind, exact
from jobs.metrics.observations import Observations
from jobs.metrics.rated_question import MetricSettings
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.factories import TableInMemory, rating


def remark(item):
    return {"item_id": item, "rubric": "r", "field": "f", "rater": "p", "number": 1, "text": "x"}


def table(name: str, rows: list[dict[str, Any]]) -> Any:
    return TableInMemory(name, rows)


def parts(items, **settings):
    remarks = table("remarks", [remark("a")])
    ratings = table("ratings", [rating("a", "p", "q", "3"), rating("b", "p", "q", "3")])
    metrics = remark_metrics(
        [remarks], [ratings], items, MetricSettings(**settings), ExclusionFilter(frozenset()), units=IndependentUnits()
    )
    return [(metric.dims.get("attribute"), metric.dims.get("part"), metric.value) for metric in metrics]


def test_shares_by_model_need_no_key_but_the_attribute():
    rows = [
        {"item_id": name, "kind": "response", "attributes": [("model", model), ("region", "x")]}
        for name, model in (("a", "m1"), ("b", "m2"))
    ]
    items = read_items([table("items", rows)], [], ["model"])
    by_model = [("model", "m1", 1.0), ("model", "m2", 0.0)]
    assert parts(items) == [(None, None, 0.5), *by_model]
    assert parts(items, disaggregate=["model"]) == [(None, None, 0.5), *by_model]
    assert parts(read_items([table("items", rows)], [], [])) == [(None, None, 0.5)]


def test_only_answers_of_people_about_items_that_are_not_excluded_count() -> None:
    remarks = [table("remarks", [remark("a"), remark("out")]), table("remarks", [remark("b"), remark("unrated")])]
    ratings = [rating(item, "p", "q", "3") for item in ("a", "b", "c", "out")]
    ratings += [rating("d", "m", "q", "3"), rating("e", "p", "q", None)]  # of a model; not answered
    excluded = ExclusionFilter(frozenset({"out"}))
    (share,) = remark_metrics(
        remarks,
        [table("ratings", ratings)],
        read_items([], [], []),
        MetricSettings(),
        excluded,
        units=IndependentUnits(),
    )
    assert (share.n, share.value) == (3, 2 / 3)


def test_attributes_and_conditions_are_added_that_the_items_and_ratings_have(monkeypatch: pytest.MonkeyPatch) -> None:
    added = MetricSettings(
        disaggregate=["region", "absent"],
        compare=["region"],
        contrast=["region:a-b", "absent:a-b"],
        baseline_condition="none",
        reference_condition="gold",
    )
    asked: dict[str, Any] = {}
    by_condition = [exact(MetricKind("share"), value, 1) for value in (0.1, 0.2)]

    def metrics(ratings: ReportRatings, settings: MetricSettings, **keys: Any) -> Any:
        asked.update(keys | {"ratings": ratings, "settings": settings})
        return iter(by_condition)

    monkeypatch.setattr(report_metrics, "read_spans", lambda *_: "spans")
    monkeypatch.setattr(report_metrics, "report_metrics", metrics)
    monkeypatch.setattr(report_metrics, "metrics_of", lambda name: [exact(MetricKind(name), 1, 1)])
    monkeypatch.setattr(report_metrics, "mismatches", lambda rated, items, hashes: [rated, len(items), len(hashes)])
    monkeypatch.setattr(report_metrics, "rated_items", lambda rated: np.zeros(0, np.uint64))
    item = {"item_id": "i", "kind": "image", "image_ids": [], "text_ids": [], "attributes": [("region", "a")]}
    tables: Any = ReportTables(items=[table("items", [item])])
    answered, pooled = SimpleNamespace(result=lambda: ["models"]), SimpleNamespace(result=lambda: ["people"])
    summary: Any = SimpleNamespace(distributions=answered, pooled=pooled, rated="rated")
    keys = [("r", "q", name) for name in ("none", "gold")]
    reduction: Any = SimpleNamespace(
        by=("condition",), keys=keys, methods={"m": {"closed"}}, methods_of=lambda _: {"m": {"closed"}}
    )
    unused: Any = object()
    ratings = ReportRatings(tables, reduction, summary, unused, unused)
    results = report_metrics.compute_results(
        ratings, MetricSettings(), added=added, questions_rubric="own", likert="r/q"
    )
    used = results.settings
    assert (used.disaggregate, used.compare, used.contrast) == (["region"], ["region"], ["region:a-b"])
    assert (used.baseline_condition, used.reference_condition) == ("none", "gold")
    assert (asked["settings"], asked["items"], len(results.items.hashes)) == (used, results.items, 1)
    assert (asked["questions_rubric"], asked["likert"], asked["spans"]) == ("own", "r/q", "spans")
    assert asked["ratings"] == ratings
    assert [[m.name for m in group] for group in (results.of_answers, results.of_people)] == [["models"], ["people"]]
    assert (results.metrics, results.observations) == (by_condition, Observations())
    assert (results.notices, results.methods, results.spans) == (["rated", 1, 1], {"m": {"closed"}}, "spans")
