"""The parts of each paper that a report's ratings and computed metrics allow, and the settings that it adds."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.papers import caire_tables, paper_tables
from jobs.papers.caire_tables import ShownRater
from jobs.papers.paper_tables import PaperFigure, PaperPart
from jobs.papers.study import Study, arrange_paper
from jobs.papers.tric_tables import LABELS
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
