"""Agreement and participation of people, by hand."""

from typing import Any

import pytest

from jobs.metrics.metric import Metric
from jobs.papers import paper_tables
from jobs.papers.century_pictures import participation, rater_agreement, reliability
from jobs.papers.study import PrintedTable
from jobs.plots.panels import Histogram, Scatter
from tests.jobs.papers.studies import metric, rows_of, study, units_of

NONE = (None, None)
RATED: dict[str, Any] = {
    "kinds": {"p": "human"},
    "answered": {("images", "sensitive"): ["p", "m"], ("responses", "identification"): ["m"]},
}


def of_people(name: str, value: float, question: str = "sensitive", **dims: str) -> Metric:
    return metric(name, value, rubric="images", question=question, group="people", **dims)


def test_scales_have_a_tolerance_and_categories_have_none() -> None:
    metrics = [
        of_people("percent_agreement", 0.5), of_people("percent_agreement_within", 0.8, tolerance="1"),
        of_people("percent_agreement_within", 0.9, tolerance="2"), of_people("icc2k", 0.7, columns="rating slots"),
        of_people("icc2k", 0.1, columns="raters"), of_people("percent_agreement", 0.6, "image_type"),
        of_people("percent_agreement_within", 0.99, "image_type", tolerance="1"),
        of_people("icc2k", 0.2, "image_type", columns="rating slots"), of_people("percent_agreement", 0.3, "unlisted"),
    ]  # fmt: skip
    printed = {
        "table_9": PrintedTable("t", ["equal", "within one"], {"sensitive": [51, 81], "concept": [41, None]}),
        "table_9_icc": PrintedTable("t", ["icc", "low", "high"], {"sensitive": [0.71, 0.6, 0.8]}, percent=False),
    }
    (table,) = reliability(study(metrics, printed=printed, **RATED), "images")
    assert table.columns == (("IRR",), ("IRR ± 1",), ("ICC(2,k)",))
    assert units_of(table) == ["percent", "percent", "number"]
    assert table.reasons == ("nobody rated concept",)
    assert rows_of(table) == {
        ("Ordinal", "Sensitive"): [(0.5, 0.51), (0.8, 0.81), (0.7, 0.71)],
        ("Categorical", "Image type"): [(0.6, None), NONE, NONE],
        ("Categorical", "Concept"): [(None, 0.41), NONE, NONE],
    }
    assert list(reliability(study(metrics, **RATED), "responses")) == []  # no people rated them


def test_agreement_with_the_majority_by_person(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[tuple[str, Any]] = []

    def draw(of_figure: Any, **_: object) -> str:
        panels.extend(of_figure)
        return ""

    monkeypatch.setattr(paper_tables, "small_multiples", draw)
    shares: dict[str, Any] = {"p": 0.05, "o": 0.1, "n": 1.0, "l": None}
    metrics = [of_people("agreement_with_majority", share, rater=rater) for rater, share in shares.items()]
    metrics += [
        metric("unit_quality_zero", 0.2, rubric="images", question="sensitive", bins=bins) for bins in ("5", "3")
    ]
    metrics[-1] = metric("unit_quality_zero", 0.4, rubric="images", question="sensitive", bins="3")
    printed = {"figure_7": PrintedTable("t", ["unit quality 0"], {"sensitive": [30]})}
    (figure,) = rater_agreement(study(metrics, printed=printed))
    (_, histogram), (_, scatter) = panels
    assert isinstance(histogram, Histogram)
    assert isinstance(scatter, Scatter)
    assert list(histogram.counts) == [1, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (scatter.x, scatter.y) == ([9, 9, 9], [0.05, 0.1, 1.0])
    assert rows_of(figure.numbers) == {
        ("p",): [(0.05, None)], ("o",): [(0.1, None)], ("n",): [(1, None)], ("l",): [NONE],
        ("all: pictures with unit quality 0",): [(0.4, 0.3)],
    }  # fmt: skip
    assert list(rater_agreement(study(metrics[3:]))) == []
    (alone,) = rater_agreement(study(metrics[:3]))
    assert alone.numbers.reasons == ("needs metrics.crowdtruth=true",)


def test_participation_is_of_the_first_question_that_people_answered() -> None:
    metrics = [
        of_people("people_total", 7, "controversial"), of_people("people_total", 5, "image_type"),
        of_people("items_per_person", 3, "controversial"), of_people("items_per_person_sd", 1, "controversial"),
        of_people("status_share", 0.1, "controversial", status="reported"),
        of_people("status_share", 0.9, "controversial", status="ok"),
        of_people("reported_share", 0.2, "controversial", of="items"),
        of_people("reported_share", 0.3, "controversial", of="people"),
    ]  # fmt: skip
    printed = {
        "people": PrintedTable("t", ["people", "mean", "sd"], {"images": [70, 30, 10]}, percent=False),
        "reports": PrintedTable("t", ["ratings", "items", "people"], {"images": [1, 2, 3]}),
    }
    (table,) = participation(study(metrics, printed=printed, **RATED))
    assert rows_of(table) == {
        ("Pictures", "Controversial"): [(7, 70), (3, 30), (1, 10), (0.1, 0.01), (0.2, 0.02), (0.3, 0.03)]
    }
    assert units_of(table) == ["count", "number", "number", "percent", "percent", "percent"]
    assert list(participation(study(metrics))) == []
    # A question that the paper does not have, and that none of its own precedes.
    others = [of_people("people_total", count, question) for count, question in ((4, "mood"), (3, "tone"))]
    (table,) = participation(study(others, **RATED))
    assert rows_of(table)["Pictures", "Mood"][0] == (4, None)
    both = {**RATED, "answered": {**RATED["answered"], ("responses", "identification"): ["p"]}}
    of_response = metric("people_total", 2, rubric="responses", question="identification", group="people")
    (table,) = participation(study([of_response], **both))
    assert rows_of(table)["Responses", "Correct identification"][0] == (2, None)
    (table,) = participation(study(printed=printed, **RATED))
    assert rows_of(table)["Pictures", "Sensitive"][0] == (None, 70)
