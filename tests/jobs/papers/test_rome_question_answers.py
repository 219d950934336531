"""Scores of pictures by the answers to their questions, by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.analysis.scene_graph_scores import BINS
from jobs.metrics.metric import Metric
from jobs.papers import paper_tables, rome_tables
from jobs.papers.study import PrintedTable
from jobs.plots.panels import Histogram
from tests.jobs.papers.studies import metric, rows_of, study, units_of

NONE = (None, None)
DIMS = {"rubric": "scores", "question": "with_dependencies"}
RATERS: dict[str, Any] = {
    "answered": {("scores", "with_dependencies"): ["m", "n"]},
    "kinds": {},
    "names": ["m=GPT"],
}


def test_figure_4_has_a_histogram_per_model(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[tuple[str, Any]] = []
    monkeypatch.setattr(paper_tables, "small_multiples", lambda of_figure, **_: panels.extend(of_figure))
    metrics = [
        metric("share", share, **DIMS, rater="m", answer=answer)
        for share, answer in ((1 / 3, "0.00"), (2 / 3, "1.00"))
    ]  # fmt: skip
    (figure,) = rome_tables.figure_4(study(metrics, **RATERS))
    (title, histogram), (other, empty) = panels
    assert (title, other) == ("m", "n")
    assert isinstance(histogram, Histogram)
    assert list(histogram.counts) == [3, *[0] * 19, 6]
    assert list(empty.counts) == [0] * 21
    assert list(histogram.edges)[:2] == [0, 0.05]
    assert list(histogram.edges)[-2:] == [1, 1.05]
    assert figure.numbers.columns == tuple((step,) for step in BINS)
    assert rows_of(figure.numbers) == {("m",): [(3, None), *[NONE] * 19, (6, None)], ("n",): [NONE] * 21}
    assert set(units_of(figure.numbers)) == {"count"}
    count = figure.numbers.rows[0].cells[0].metric
    assert count is not None
    assert (count.name, count.low, count.reason) == ("pictures", None, "a count: no interval")
    assert list(rome_tables.figure_4(study(metrics))) == []


def test_scores_by_scenario_with_welchs_p_and_the_correlation_with_people() -> None:
    pair = {"attribute": "scenario", "first": "A", "second": "B"}

    def of_pair(name: str, value: float, **more: str) -> Metric:
        return metric(name, value, **DIMS, **pair, **more)

    answers = {"rater": "m", "rubric": "answers", "reading": "with dependencies", "convention": "answered"}
    metrics = [
        of_pair("welch_p", 0.04, group="m"),
        of_pair("part_mean", 0.7, group="m", part="first"),
        of_pair("part_mean", 0.6, group="m", part="second"),
        metric("dsg_spearman", 0.3, **answers),
        metric("dsg_kendall", 0.2, **answers),
        metric("dsg_kendall", 0.9, **(answers | {"convention": "all"})),
        metric("dsg_spearman", 0.9, **(answers | {"reading": "without dependencies"})),
    ]
    rows: dict[str, list[Any]] = {"GPT": [0.05], "Other": [0.5]}
    printed = {"by_scenario": PrintedTable("t", ["p-value"], rows, percent=False)}
    table = rome_tables.by_scenario(study(metrics, printed=printed, **RATERS))
    assert rows_of(table) == {
        ("m", "A", "B"): [(0.7, None), (0.6, None), (0.04, 0.05), (0.3, None), (0.2, None)],
        ("n", "A", "B"): [NONE] * 5,
        ("Other (paper)", "", ""): [NONE, NONE, (None, 0.5), NONE, NONE],
    }
    assert units_of(table) == ["number"] * 5
    assert table.columns[:2] == (("Mean", "first"), ("Mean", "second"))
    no_rating = "no rating of with_dependencies by n is ok"
    assert table.reasons == (no_rating, "the questions are not known; set questions=")
    means = [metric("group_mean_score", 0.5, **DIMS, group=rater) for rater in "mn"]
    asked: Any = SimpleNamespace(questions=[])
    unrated = rome_tables.by_scenario(study(means, tables=asked, **RATERS))
    assert unrated.reasons == (
        "no item has the attribute 'scenario' with two values", "no person answered the rubric rating"
    )  # fmt: skip
    without = rome_tables.by_scenario(study([*metrics[3:], *means], **RATERS, options={"scenario": "place"}))
    assert rows_of(without)["m", "", ""] == [NONE, NONE, NONE, (0.3, None), (0.2, None)]
    assert without.reasons[0] == "no item has the attribute 'place' with two values"
