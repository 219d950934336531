"""What the tables of a report allow: attributes, metrics and remarks of the rated items."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.analysis import compute, scene_graph_scores
from jobs.analysis import report_metrics as module
from jobs.analysis.attributes import Items, read_items
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.reduced_question import IndependentUnits
from jobs.analysis.report_metrics import read_report_items, read_spans, remark_metrics, report_metrics
from jobs.analysis.report_tables import (
    ReportRatings,
    ReportTables,
    summarize_ratings,
)
from jobs.errors import InputError
from jobs.judging.kept_rubric import Rubrics
from jobs.metrics.metric import MetricKind, exact
from jobs.metrics.observations import Observations
from jobs.metrics.rated_question import MetricSettings
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from jobs.tables import CONDITION
from tests.factories import FIVE, TableInMemory, rating, write_table


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

    monkeypatch.setattr(module, "read_spans", lambda *_: "spans")
    monkeypatch.setattr(module, "report_metrics", metrics)
    monkeypatch.setattr(module, "metrics_of", lambda name: [exact(MetricKind(name), 1, 1)])
    monkeypatch.setattr(module, "mismatches", lambda rated, items, hashes: [rated, len(items), len(hashes)])
    monkeypatch.setattr(module, "rated_items", lambda rated: np.zeros(0, np.uint64))
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
    results = module.compute_results(ratings, MetricSettings(), added=added, questions_rubric="own", likert="r/q")
    used = results.settings
    assert (used.disaggregate, used.compare, used.contrast) == (["region"], ["region"], ["region:a-b"])
    assert (used.baseline_condition, used.reference_condition) == ("none", "gold")
    assert (asked["settings"], asked["items"], len(results.items.hashes)) == (used, results.items, 1)
    assert (asked["questions_rubric"], asked["likert"], asked["spans"]) == ("own", "r/q", "spans")
    assert asked["ratings"] == ratings
    assert [[m.name for m in group] for group in (results.of_answers, results.of_people)] == [["models"], ["people"]]
    assert (results.metrics, results.observations) == (by_condition, Observations())
    assert (results.notices, results.methods, results.spans) == (["rated", 1, 1], {"m": {"closed"}}, "spans")


def test_attributes_are_read_for_the_settings_and_for_the_added_arguments() -> None:
    """An added attribute that no item has is left out; one of the settings is refused."""
    attributes = [("region", "East"), ("theme", "sea"), ("source", "web")]
    items: Any = [TableInMemory("items", [{"item_id": "a", "kind": "image", "attributes": attributes}])]
    settings = MetricSettings(disaggregate=[], compare=["region"])
    added = MetricSettings(disaggregate=["theme"], compare=["source", "absent"])
    read, with_more = read_report_items(ReportTables(items=items), settings, added)
    assert {name: values for name, (_, values) in read.columns.items() if values} == {
        "region": ("East",),
        "theme": ("sea",),
        "source": ("web",),
    }
    assert (with_more.disaggregate, with_more.compare) == (["theme"], ["region", "source"])
    with pytest.raises(InputError, match=r"metrics.compare=absent: "):
        read_report_items(ReportTables(items=items), MetricSettings(compare=["absent"]), MetricSettings())


def test_metrics_of_questions_get_listed_answers_and_skip_scene_graphs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rubric with the name of the answers to scene graphs is an ordinary one without a table of questions."""
    passed: dict[str, Any] = {}

    def question_metrics(*_: Any, orders: Any, skip: Any, **__: Any) -> list[Any]:
        passed.update(orders=orders, skips=(skip("r", "fit"), skip("other", "fit")))
        return []

    monkeypatch.setattr(compute, "question_metrics", question_metrics)
    rows = [rating("a", "m", "fit", value, sample=n, answers=list("12345")) for n, value in enumerate("295")]
    rating_tables = [open_table(write_table(tmp_path / "t", "ratings", rows, rubric=FIVE))]
    questions: Any = TableInMemory("questions", [])
    nothing = ExclusionFilter(frozenset())
    for table, skips in ((None, False), (questions, True)):
        tables = ReportTables(ratings=rating_tables, questions=table)
        monkeypatch.setattr(scene_graph_scores, "dsg_metrics", lambda *_, **__: [])
        with Reduction(by=[CONDITION]) as reduction:
            result = summarize_ratings(tables, MetricSettings(), reduction, models=[], exclusion_filter=nothing)
            ratings = ReportRatings(tables, reduction, result, Rubrics({}), nothing)
            metrics = report_metrics(
                ratings, MetricSettings(), items=Items(), spans=None, questions_rubric="r", likert=None
            )
            list(metrics)
        listed = [answer for answer in passed["orders"]["r", "fit"] if answer in ("2", "5", "9")]
        assert (listed, passed["skips"]) == (["2", "5"], (skips, False))


def test_gold_raters_of_spans_are_those_of_the_settings(tmp_path: Path) -> None:
    """They may have no ratings and no row in a table of raters."""
    rows = [
        {"item_id": "a", "text_id": "t", "kind": "mistake", "rater": rater, "method": method, "condition": "",
         "start": 0, "end": 1, "status": "ok"}
        for rater, method in (("expert-1", "human"), ("anna", "human"), ("m", "claims"))
    ]  # fmt: skip
    tables = ReportTables(spans=[open_table(write_table(tmp_path / "s", "spans", rows))])
    read = read_spans(tables, MetricSettings(gold=["expert-*"]), ExclusionFilter(frozenset()))
    assert read is not None
    assert read.kinds == {"expert-1": "gold", "anna": "human", "m": "model"}
