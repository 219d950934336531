"""Figures of responses by hand; for figure 12, each response's length, and the mean of what the models gave it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.analysis.attributes import Items
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import Units
from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MetricSettings
from jobs.papers import century_tables, paper_tables
from jobs.papers.study import PrintedTable, Study
from tests.jobs.papers.studies import metric, rows_of, study, units_of

NONE = (None, None)

HASHES = np.array([3, 5, 7, 9], np.uint64)
LENGTHS = np.array([100, 200, np.nan, 400])
WRITERS = ("w", "v")
SCORES = np.array([[5, 3, 1], [4, 4, 1], [2, 2, 1], [1, np.nan, 1]], float)  # of models a and b, and of person p


def points(monkeypatch: pytest.MonkeyPatch, items: Items, *, inverted: tuple[str, ...] = ()) -> dict[str, Any]:
    """Writer -> (lengths, scores), of responses 3, 5, 7 and 9 and of one that the items do not have."""
    answers = RatingTable.from_matrix(np.vstack([SCORES, [5, 5, 5]]), raters=("a", "b", "p"))
    rated = answers, np.append(HASHES, np.uint64(10))
    monkeypatch.setattr(Study, "rated", lambda *_: rated)
    metrics = [metric("share_at_least", 0.5, rubric="responses", attribute="model", part=part) for part in WRITERS]
    one = study(metrics, kinds={"p": "human"}, answered={("responses", "q"): ["a", "b", "p"]}, items=items)
    rubrics: Any = SimpleNamespace(scale=lambda *_: ((1, 5), ()))
    one = replace(one, rubrics=rubrics, metric_settings=MetricSettings(inverted=list(inverted)))
    return {name: (x.tolist(), y.tolist()) for name, (x, y, _) in century_tables._points(one, "q").items()}


def items(lengths: Any = LENGTHS) -> Items:
    return Items(HASHES, {"model": (np.array([0, 0, 0, 1], np.int32), WRITERS)}, lengths)


def test_points_are_of_responses_with_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first response is that of the first row of the items."""
    assert points(monkeypatch, items()) == {"w": ([100, 200], [4, 4]), "v": ([400], [1])}
    assert points(monkeypatch, items(), inverted=("q",)) == {"w": ([100, 200], [2, 2]), "v": ([400], [5])}
    assert points(monkeypatch, items(), inverted=("other",))["w"][1] == [4, 4]
    assert points(monkeypatch, items(None)) == {}


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The plots of a figure, and last the number of plots in a row."""
    drawn: list[tuple[str, Any]] = []

    def draw(of_figure: Any, *, columns: int, **_: object) -> str:
        drawn.extend([*of_figure, ("columns", columns)])
        return ""

    monkeypatch.setattr(paper_tables, "small_multiples", draw)
    return drawn


RATERS: dict[str, Any] = {
    "kinds": {"p": "human"},
    "answered": {("responses", "identification"): ["p", "b", "a@1"]},
}


def of_responses(name: str, value: float, **dims: str) -> Metric:
    return metric(name, value, **{"rubric": "responses", "question": "identification"} | dims)


def share(value: float, group: str, part: str, attribute: str = "model", **more: str) -> Metric:
    dims = {"threshold": "4", "rule": "mean", "attribute": attribute, "part": part}
    return of_responses("share_at_least", value, group=group, **dims | more)


def test_figure_9_has_a_plot_per_model_and_a_colour_per_writer(panels: list[tuple[str, Any]]) -> None:
    metrics = [share(0.1, "a@1", "w@2"), share(0.2, "b", "v"), share(0.3, "b", "w@2", rule="any"), share(0.4, "p", "v")]
    (figure,) = century_tables.figure_9(study(metrics, **RATERS))
    assert figure.numbers.columns == (("v",), ("w",))
    rows = rows_of(figure.numbers)
    assert (len(rows), len(panels)) == (2 * 7, 2 + 1)
    assert rows["a", "Correct identification"] == [NONE, (0.1, None)]
    assert rows["b", "Correct identification"] == [(0.2, None), NONE]
    assert [title for title, _ in panels[:2]] == ["a", "b"]
    assert [(panel.bounds, panel.percent) for _, panel in panels[:2]] == [((0, 1), True)] * 2
    assert panels[-1] == ("columns", 2)
    assert [(one.series, one.value) for one in panels[0][1].estimates[:2]] == [("v", None), ("w", 0.1)]
    assert list(century_tables.figure_9(study(metrics))) == []


def test_figure_11_has_a_bar_per_judge_and_writer_with_people_last(panels: list[tuple[str, Any]]) -> None:
    def answers(value: float, group: str, level: str, writer: str = "w") -> Metric:
        return of_responses("answer_share", value, group=group, answer=level, attribute="model", part=writer)

    metrics = [share(0, "b", "w"), answers(0.25, "a@1", "1"), answers(0.75, "a@1", "5"), answers(1, "people", "2")]
    metrics += [answers(0.9, "models", "1"), answers(0.9, "a@1", "3", "v")]
    (figure,) = century_tables.figure_11(study(metrics, **RATERS))
    shown = {headers[1:]: cells for headers, cells in rows_of(figure.numbers).items() if "identif" in headers[0]}
    assert list(shown.items()) == [
        (("a", "w"), [(0.25, None), NONE, NONE, NONE, (0.75, None)]),
        (("b", "w"), [NONE] * 5),
        (("People", "w"), [NONE, (1, None), NONE, NONE, NONE]),
    ]
    titles = [title for title, _ in panels]
    assert titles[:2] == ["Correct identification", "Factuality errors"]
    bars = panels[0][1]
    assert (bars.rows, bars.shares[0]) == (["a of w", "b of w", "People of w"], [0.25, None, None, None, 0.75])
    assert [panel.legend for _, panel in panels[:7]] == [True, *[False] * 6]
    assert panels[-1] == ("columns", 2)
    for length, columns in ((century_tables.TWO_COLUMNS - len("People of "), 2), (23, 1)):
        list(century_tables.figure_11(study([share(0, "b", "w" * length)], **RATERS)))
        assert panels[-1] == ("columns", columns)
    without_people = study(metrics, answered=RATERS["answered"], kinds={"p": "gold"})
    (figure,) = century_tables.figure_11(without_people)
    assert {headers[1] for headers in rows_of(figure.numbers)} == {"a", "b"}
    assert list(century_tables.figure_11(study(**RATERS))) == []
    assert list(century_tables.figure_11(study(metrics))) == []


def test_figure_12_has_the_slopes_of_all_responses_and_of_each_writer(
    panels: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths, scores = np.arange(1.0, 251), np.arange(1.0, 251) / 50
    monkeypatch.setattr(century_tables, "_points", lambda *_: {"v": (lengths, scores, Units.single(250))})
    metrics = [
        share(0, "b", "w"),
        share(0, "b", "v"),
        of_responses("length_slope", 0.1, group="models"),
        of_responses("length_slope", 0.2, group="models", attribute="model", part="w"),
        of_responses("length_slope", 0.9, group="people", attribute="model", part="v"),
    ]
    (figure,) = century_tables.figure_12(study(metrics, **RATERS))
    assert figure.numbers.columns == (("All writers",), ("v",), ("w",))
    rows = rows_of(figure.numbers)
    assert units_of(figure.numbers) == ["number"] * 3
    assert rows["Correct identification", "All models"] == [(0.1, None), NONE, (0.2, None)]
    ensembles = {"two": {"responses": ["a", "b"], "other": ["p"]}, "elsewhere": {"other": ["a"]}}
    more = [*metrics, of_responses("length_slope", 0.3, group="two")]
    (figure,) = century_tables.figure_12(study(more, ensembles=ensembles, **RATERS))
    assert {headers[1] for headers in rows_of(figure.numbers)} == {"All models", "two"}
    assert rows_of(figure.numbers)["Correct identification", "two"][0] == (0.3, None)
    del panels[2 * 7 + 1 :]
    assert (len(rows), len(panels), panels[-1]) == (7, 2 * 7 + 1, ("columns", 2))
    (_, of_v), (_, of_w) = panels[:2]
    assert (len(of_v.x), len(of_v.y), of_v.x[-1]) == (century_tables.MOST_POINTS, century_tables.MOST_POINTS, 200)
    assert of_v.bounds == of_w.bounds == (0.8, 5.2)
    assert (of_v.fit.slope, of_v.y_label, of_v.x_label) == (pytest.approx(1 / 50), "mean score", "")
    assert (of_w.x, of_w.y, of_w.fit, of_w.y_label) == ([], [], None, "")
    assert {panel.x_label for _, panel in panels[-3:-1]} == {"characters"}
    assert list(century_tables.figure_12(study(**RATERS))) == []
    assert list(century_tables.figure_12(study(metrics))) == []


def test_figure_13_averages_over_raters_by_region_in_the_papers_order(panels: list[tuple[str, Any]]) -> None:
    def average(value: float, part: str, **more: str) -> Metric:
        dims = {"threshold": "4", "attribute": "sub_region+model", "part": part}
        return of_responses("average_of_shares", value, **dims | more)

    parts = ["Atlantis + w", "Caribbean + w", "Northern Europe + w", "Caribbean + v"]
    metrics = [
        *(share(0, "b", writer) for writer in "wv"),
        *(share(n / 10, "models", part, "sub_region+model") for n, part in enumerate(parts)),
        share(0.9, "people", "Caribbean + v", "sub_region+model"),
        average(0.7, "Caribbean + w"),
        average(0.8, "Caribbean + w", threshold="3"),
    ]
    rows: dict[str, list[Any]] = {"V / Caribbean": [11], "X / Caribbean": [12], "W / Polynesia": [13]}
    printed = {"figure_13": PrintedTable("t", ["identification"], rows)}
    (figure,) = century_tables.figure_13(study(metrics, printed=printed, names=["v=V", "w=W"], **RATERS))
    assert figure.numbers.columns == (("Correct identification",),)
    assert list(rows_of(figure.numbers).items()) == [
        (("v", "Northern Europe"), [NONE]),
        (("v", "Caribbean"), [(0.3, 0.11)]),
        (("v", "Atlantis"), [NONE]),
        (("w", "Northern Europe"), [(0.2, None)]),
        (("w", "Caribbean"), [(0.7, None)]),
        (("w", "Atlantis"), [(0, None)]),
        (("X (paper)", "Caribbean"), [(None, 0.12)]),
    ]
    assert [(title, panel.values) for title, panel in panels[:2]] == [
        ("v", [[None], [0.3], [None]]), ("w", [[0.2], [0.7], [0]])
    ]  # fmt: skip
    assert panels[2] == ("columns", 2)
    assert figure.numbers.reasons[0] == "no response of v about Northern Europe"
    without_models = {**RATERS, "answered": {("responses", "identification"): ["p"]}}
    (figure,) = century_tables.figure_13(study(metrics, **without_models))
    assert rows_of(figure.numbers)["v", "Caribbean"][0] == (0.9, None)
    assert len(figure.numbers.columns) == 7
    assert list(century_tables.figure_13(study(metrics[:2], **RATERS))) == []
