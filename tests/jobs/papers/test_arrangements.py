"""The parts of each paper that a report's ratings and computed metrics allow, and the settings that it adds."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.analysis.report_tables import ReportTables
from jobs.errors import InputError
from jobs.metrics.observations import Observations
from jobs.metrics.question import MetricSettings
from jobs.papers import caire_tables, paper_tables, report_results
from jobs.papers.caire_tables import ShownRater
from jobs.papers.paper_tables import PaperFigure, PaperPart
from jobs.papers.report_results import ReportSettings, check
from jobs.papers.study import PaperSettings, Study, arrange_paper
from jobs.papers.tric_tables import LABELS
from tests.factories import TableInMemory
from tests.jobs.papers.studies import metric, study

RATED = {
    "caire": {"relevance": "relevance"},
    "century": {"images": "sensitive", "responses": "identification"},
    "rome": {"rating": "match", "comparison": "preference", "scores": "with_dependencies"},
}
CENTURY = {
    "table_1": 1, "table_2": 1, "table_3": 2, "table_6": 1, "table_7": 1, "figure_6": 1, "table_8": 1, "table_9": 1,
    "figure_7": 1, "figure_9": 2, "table_12": 1, "figure_11": 2, "figure_12": 2, "self_preference": 2, "table_13": 1,
    "figure_13": 2, "people": 1,
}  # fmt: skip
ROME = {"table_1": 0, "table_2": 1, "figure_3_left": 0, "table_3": 1, "table_4": 1, "figure_4": 1, "by_scenario": 0}
TRIC = {"table_1": 1, "section_6": 1, "figure_mine": 0, "table_2": 2, "reranking": 1}
CAIRE = {
    "table_1": 2, "table_2": 1, "table_3": 1, "table_4": 1, "table_8": 2, "table_10": 2, "table_11": 1, "table_14": 1,
    "table_15": 1, "table_16": 1, "table_17": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _without_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Study, "rated", lambda *_: None)
    monkeypatch.setattr(paper_tables, "small_multiples", lambda *_, **__: "")


def arranged(name: str, *roles: str, metrics: Any = (), computed: Any = (), **more: Any) -> list[PaperPart]:
    answered = {(role, RATED[name][role]): ["m", "p"] if more else ["m"] for role in roles}
    one = study(metrics, computed=computed, answered=answered, name=name, contrast=more.get("contrast", []))
    raters = SimpleNamespace(kinds=more.get("kinds", {}))
    summary: Any = SimpleNamespace(raters=raters, pooled=SimpleNamespace(result=list))
    return list(arrange_paper(replace(one, summary=summary)))


def parts(name: str, *roles: str, metrics: Any = (), computed: Any = ()) -> list[str]:
    return [part.name for part in arranged(name, *roles, metrics=metrics, computed=computed)]


def notes(of_paper: list[PaperPart]) -> dict[str, int]:
    """Return the number of notes of each part."""
    tables = [part.numbers if isinstance(part, PaperFigure) else part for part in of_paper]
    return {table.name: sum(map(bool, table.notes)) for table in tables}


def test_parts_of_a_paper_are_those_of_the_rated_rubrics_in_its_order() -> None:
    of_images = ["table_1", "table_2", "figure_6", "table_8"]
    written = [
        metric("share_at_least", 0.5, rubric="responses", attribute=attribute, part=part)
        for attribute, part in (("model", "w"), ("sub_region+model", "Caribbean + w"))
    ]
    of_responses = ["table_3", "figure_9", "figure_11", "figure_12", "figure_13"]
    assert {
        "images": parts("century", "images"),
        "responses": parts("century", "responses", metrics=written),
        "both": parts("century", "images", "responses", metrics=written),
        "none": parts("century", metrics=written),
    } == {
        "images": of_images,
        "responses": of_responses,
        "both": ["table_1", "table_2", "table_3", "figure_6", "table_8", *of_responses[1:]],
        "none": [],
    }
    of_scores = parts("rome", "scores")
    of_rating = ["table_1", "figure_3_left", "table_3", "table_4"]
    assert of_scores[0].startswith("figure_4")
    assert {role: parts("rome", role) for role in ("rating", "comparison")} == {
        "rating": of_rating, "comparison": ["table_1", "table_2"]
    }  # fmt: skip
    assert parts("rome", "scores", "rating", "comparison") == ["table_1", "table_2", *of_rating[1:], *of_scores]
    assert parts("rome") == []


def test_parts_of_tric_are_those_of_the_computed_metrics() -> None:
    encoders, judges = metric("mrr", 0.5, table="clip", template="none"), metric("mrr@100", 0.5, ranking="encoder")
    names = {"encoders": parts("tric", computed=[encoders]), "judges": parts("tric", computed=[judges])}
    assert names["encoders"] == ["table_2"]
    assert names["judges"] == parts("tric", computed=[encoders, judges])
    assert (names["judges"][0], len(names["judges"])) == ("table_2", 2)
    assert parts("tric", computed=[metric("mrr@100", 0.5, ranking="judge")]) == []


def test_parts_say_what_they_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of notes of each table and of the numbers of each figure."""
    written = {"rubric": "responses", "question": "identification", "attribute": "model", "part": "w"}
    people = {"rubric": "images", "question": "sensitive", "group": "people"}
    region = {"attribute": "sub_region+model", "part": "Caribbean + w"}
    of_century = [
        metric("share_at_least", 0.5, **written), metric("share_at_least", 0.5, **written | region),
        metric("entities", 3, concept="war"), metric("self_preference", 1, rubric="responses", rater="m"),
        metric("agreement_with_majority", 0.5, rater="p", **people), metric("people_total", 3, **people),
    ]  # fmt: skip
    century = arranged("century", "images", "responses", metrics=of_century, kinds={"p": "human"},
                       contrast=["prompt:long-short"])  # fmt: skip
    assert list(notes(century).items()) == list(CENTURY.items())
    assert notes(arranged("rome", *RATED["rome"])) == ROME
    computed = [
        metric("mrr", 0.5, table="clip", template="none"), metric("mrr@100", 0.5, ranking="encoder"),
        metric("instances", 3, split="mine"),
        *(metric("histogram_count", 1, split="mine", column=column, bin="0", width="1") for column in LABELS),
    ]  # fmt: skip
    assert notes(arranged("tric", computed=computed)) == TRIC
    monkeypatch.setattr(caire_tables, "asked", lambda _: [ShownRater("m", "", "article")])
    of_caire = [
        metric("f1", 0.5, rubric="relevance", question="relevance"),
        metric("pearson_by_image", 0.5, rubric="relevance", question="relevance", rater="m", group="people"),
    ]
    linked = [metric("accuracy@1", 0.5, table="lemma")]
    assert notes(arranged("caire", "relevance", metrics=of_caire, computed=linked, kinds={"p": "human"})) == CAIRE


def test_settings_of_a_paper_and_of_metrics_are_checked() -> None:
    for settings, message in (
        (ReportSettings(gallery=-1), "gallery=-1"),
        (ReportSettings(gallery_seed=-1), "gallery_seed=-1"),
        (ReportSettings(metrics=MetricSettings(stop=0)), "metrics.stop=0"),
        (ReportSettings(paper=PaperSettings(name="x")), "paper.name=x"),
    ):
        with pytest.raises(InputError, match=f"^{message}: "):
            check(settings)
    check(ReportSettings(gallery=0, gallery_seed=0))


def test_a_paper_adds_what_the_items_and_ratings_have() -> None:
    paper = PaperSettings(
        disaggregate=["region", "absent"], compare=["region"], contrast=["region:a-b", "absent:a-b"],
        baseline_condition="none", reference_condition="gold",
    )  # fmt: skip
    item = {"item_id": "i", "kind": "image", "image_ids": [], "text_ids": [], "attributes": [("region", "a")]}
    tables: Any = ReportTables(items=[TableInMemory("items", [item])])  # type: ignore[list-item]
    reduction: Any = SimpleNamespace(by=("condition",), keys=[("r", "q", name) for name in ("none", "gold")])
    items, settings = report_results._items_and_settings(ReportSettings(paper=paper), tables, reduction)
    assert (settings.disaggregate, settings.compare, settings.contrast) == (["region"], ["region"], ["region:a-b"])
    assert (settings.baseline_condition, settings.reference_condition) == ("none", "gold")
    assert len(items.hashes) == 1


def test_a_paper_is_arranged_from_all_metrics_under_its_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    studies: list[Study] = []
    by_condition = [metric("share", value, question="q", condition=name) for name, value in (("a", 0.1), ("b", 0.2))]

    def arrange(of_report: Study) -> list[str]:
        studies.append(of_report)
        return ["part"]

    monkeypatch.setattr(report_results, "read_spans", lambda *_: "spans")
    monkeypatch.setattr(report_results, "report_metrics", lambda *_, **keys: asked.update(keys) or iter(by_condition))
    monkeypatch.setattr(report_results, "metrics_of", lambda name: [metric(name, 1)])
    monkeypatch.setattr(report_results, "read_computed", lambda tables: [metric("mrr", 0.5, table=str(len(tables)))])
    monkeypatch.setattr(report_results, "mismatches", lambda rated, items, hashes: [rated, len(items), len(hashes)])
    monkeypatch.setattr(report_results, "rated_items", lambda rated: np.zeros(0, np.uint64))
    monkeypatch.setattr(report_results, "arrange_paper", arrange)
    item = {"item_id": "i", "kind": "image", "image_ids": [], "text_ids": [], "attributes": []}
    tables: Any = ReportTables(items=[TableInMemory("items", [item])], computed=["t"])  # type: ignore[list-item]
    answered, pooled = SimpleNamespace(result=lambda: ["models"]), SimpleNamespace(result=lambda: ["people"])
    summary: Any = SimpleNamespace(distributions=answered, pooled=pooled, rated="rated")
    reduction: Any = SimpleNamespace(
        by=("condition",), keys=[("r", "q", "a")], methods={"m": {"closed"}}, methods_of=lambda _: {"m": {"closed"}}
    )
    settings = ReportSettings(questions_rubric="own", likert="r/q", paper=PaperSettings(condition="b"))
    unused: Any = object()
    results = report_results.compute_results(
        settings, tables, reduction, summary=summary, rubrics=unused, exclusion_filter=unused
    )
    (arranged_from,) = studies
    assert [m.name for m in arranged_from.metrics.all] == ["models", "people", "share", "share"]
    assert arranged_from.metrics.get("share", {"question": "q"}).value == 0.2
    assert [m.dims["table"] for m in arranged_from.computed.all] == ["1"]
    assert (arranged_from.rubrics, arranged_from.exclusion_filter) == (unused, unused)
    assert (asked["questions_rubric"], asked["likert"], asked["spans"]) == ("own", "r/q", "spans")
    assert (asked["summary"], asked["rubrics"], asked["exclusion_filter"]) == (summary, unused, unused)
    assert [m.name for m in results.of_answers] == ["models"]
    assert (results.metrics, results.observations) == (by_condition, Observations())
    assert (results.notices, results.methods) == (["rated", 1, 1], {"m": {"closed"}})
    assert (results.parts, results.spans) == (["part"], "spans")
