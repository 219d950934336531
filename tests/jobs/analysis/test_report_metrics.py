"""Shares of remarks by the model that wrote the rated item."""

from typing import Any

from jobs.analysis.attributes import IndependentUnits, read_items
from jobs.analysis.report_metrics import remark_metrics
from jobs.metrics.question import MetricSettings
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
