"""Tables and figures of responses by hand; for figure 12, their lengths, and the mean of what the models gave them."""

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
from jobs.papers.century_tables import (
    prompt_note,
    prompts,
    self_preference,
    table_3,
    table_3_estimates,
    table_12,
    written_by,
)
from jobs.papers.study import PrintedTable, Study
from tests.jobs.papers.studies import NONE, metric, rows_of, study, units_of

OF_OTHER_RUBRIC = [
    metric("share_at_least", 0.9, rubric="other", attribute="model", part="x"),
    metric("share_at_least", 0.9, rubric="other", attribute="model+prompt", part="x + y"),
    metric("self_preference", 0.9, rubric="other", rater="x", question="due_weight"),
]


def share(value: float, group: str = "models", question: str = "identification", **part: str) -> Metric:
    dims = {"rubric": "responses", "question": question, "group": group, "threshold": "4", "rule": "mean"}
    return metric("share_at_least", value, **(dims | part))


def of_writer(value: float, writer: str, group: str = "models") -> Metric:
    return share(value, group, attribute="model", part=writer)


def of_prompt(value: float, writer: str, prompt: str) -> Metric:
    return share(value, attribute="model+prompt", part=f"{writer} + {prompt}")


def contrasted(metrics: list[Metric], of_paper: list[str], of_metrics: list[str]) -> Study:
    one = study(metrics, contrast=of_paper)
    return replace(one, metric_settings=MetricSettings(contrast=of_metrics))


def test_the_contrasted_prompts_are_the_first_that_the_responses_have() -> None:
    metrics = [*OF_OTHER_RUBRIC, *(of_prompt(0.5, "w", prompt) for prompt in ("a", "b", "c"))]
    cases: list[tuple[list[str], list[str], tuple[str, str] | None]] = [
        (["prompt:x-y"], ["prompt:b-a"], ("b", "a")),
        (["prompt:a-b"], ["prompt:b-c"], ("a", "b")),
        (["prompt:x-b"], ["prompt:c-y"], ("c", "y")),  # the explicit one counts more
        (["prompt:x-y", "prompt:x-a"], [], ("x", "a")),
        (["prompt:x-y"], ["prompt:y-x"], ("x", "y")),
        (["rater:a-b"], [], None),
        ([], [], None),
    ]
    chosen = [prompts(contrasted(metrics, of_paper, of_metrics)) for of_paper, of_metrics, _ in cases]
    assert chosen == [expected for *_, expected in cases]


def test_responses_to_the_explicit_prompt_count_if_there_are_any() -> None:
    metrics = [
        *OF_OTHER_RUBRIC,
        of_writer(0.1, "w"),
        of_writer(0.2, "v"),
        of_prompt(0.3, "w", "explicit"),
        of_prompt(0.4, "v", "minimal"),
    ]
    one = study(metrics, contrast=["prompt:explicit-minimal"])
    assert century_tables.writers(one) == ["v", "w"]
    assert written_by(one, "w") == {"attribute": "model+prompt", "part": "w + explicit"}
    assert written_by(one, "v") == {"attribute": "model", "part": "v"}
    assert prompt_note(one) == "Responses to all prompts count."
    both = study([*metrics, of_prompt(0.5, "v", "explicit")], contrast=["prompt:explicit-minimal"])
    assert prompt_note(both) == "Responses to the prompt explicit count."
    assert prompt_note(study()) == "Responses to all prompts count."


def test_table_3_is_estimated_for_all_responses_where_people_rated_a_part() -> None:
    def estimated(value: float, source: str, writer: str) -> Metric:
        dims = {"rubric": "responses", "question": "identification", "threshold": "4", "source": source}
        return metric("estimated_share_at_least", value, **dims, attribute="model", part=writer)

    assert list(table_3_estimates(study([of_writer(0.1, "w@1")]))) == []
    both, alone = estimated(0.4, "people and judges", "w@1"), estimated(0.5, "people alone", "w@1")
    (table,) = table_3_estimates(study([of_writer(0.1, "w@1"), both, alone]))
    cells = [(row.headers[2], row.cells[0].metric) for row in table.rows[:2]]
    assert [label for label, _ in cells] == ["People and models", "People alone"]
    assert [shown.value for _, shown in cells if shown] == [0.4, 0.5]


def test_table_3_has_automated_ratings_before_those_of_people() -> None:
    metrics = [of_writer(0.1, "w@1"), of_writer(0.2, "w@1", "people"), of_writer(0.3, "v@1")]
    printed = {
        "table_3": PrintedTable(
            "t", ["W", "Other"],
            {"identification / Automated": [11, 12], "identification / Human": [21, 22]},
        )
    }  # fmt: skip
    kinds, answered = {"p": "human"}, {("responses", "identification"): ["p", "m"]}
    table = table_3(study(metrics, printed=printed, kinds=kinds, answered=answered, names=["w*=W"]))
    assert table.columns == (("v",), ("w",), ("Other",))
    rows = list(rows_of(table).items())
    assert rows[:2] == [
        (("Accuracy", "Correct identification", "Automated"), [(0.3, None), (0.1, 0.11), (None, 0.12)]),
        (("Accuracy", "Correct identification", "Human"), [NONE, (0.2, 0.21), (None, 0.22)]),
    ]
    assert len(rows) == 14
    assert units_of(table) == ["percent"] * 3
    assert "nobody rated due_weight" in table.reasons


def test_table_12_has_both_prompts_and_their_difference_of_each_writer() -> None:
    difference = {"rubric": "responses", "question": "identification", "group": "models", "threshold": "4",
                  "attribute": "prompt", "first": "long", "second": "short", "model": "w"}  # fmt: skip
    metrics = [of_writer(0, "w"), of_prompt(0.6, "w", "long"), of_prompt(0.2, "w", "short")]
    metrics += [metric("share_difference", 0.4, **difference)]
    printed = {
        "table_12": PrintedTable(
            "t", ["W explicit", "W minimal", "W delta", "Other explicit", "Other minimal", "Other delta"],
            {"identification": [61, 21, 40, 1, 2, 3]},
        )
    }  # fmt: skip
    (table,) = table_12(study(metrics, printed=printed, contrast=["prompt:long-short"], names=["w=W"]))
    assert table.columns == (
        *(("w", c) for c in ("Long", "Short", "Delta")),
        *(("Other", c) for c in ("Long", "Short", "Delta")),
    )
    assert rows_of(table)["Accuracy", "Correct identification", "All models"] == [
        (0.6, 0.61), (0.2, 0.21), (0.4, 0.4), (None, 0.01), (None, 0.02), (None, 0.03)
    ]  # fmt: skip
    assert units_of(table) == ["percent"] * 6
    assert list(table_12(study(metrics))) == []


def test_named_ensembles_have_rows_of_tables_3_and_12_and_the_papers_numbers_if_they_have_its_name() -> None:
    metrics = [of_prompt(0.6, "w", "long"), share(0.7, "four", attribute="model+prompt", part="w + long"),
               of_prompt(0.2, "w", "short"), of_writer(0.4, "w")]  # fmt: skip
    answered = {("responses", "identification"): ["m", "n", "o"]}
    printed = {
        "table_3": PrintedTable("t", ["W"], {"identification / Automated": [11]}),
        "table_12": PrintedTable("t", ["W explicit", "W minimal", "W delta"], {"identification": [61, 21, 40]}),
    }
    for groups, in_paper in (({"models": "All"}, None), ({"models": "All", "four": "All"}, 0.61)):
        one = study(metrics, printed=printed, answered=answered, contrast=["prompt:long-short"], names=["w=W"],
                    ensembles={"four": ["m", "n"], "absent": ["x"]}, groups=groups)  # fmt: skip
        (of_12,), of_3 = table_12(one), table_3(one)
        rows = rows_of(of_12)
        assert {headers[2] for headers in rows} == {"All models", "four"}
        assert rows["Accuracy", "Correct identification", "All models"][0] == (0.6, 0.61)
        assert rows["Accuracy", "Correct identification", "four"][0] == (0.7, in_paper)
        assert rows_of(of_3)["Accuracy", "Correct identification", "four"] == [(0.7, in_paper and 0.11)]


def test_a_missing_share_has_the_reason_for_which_it_is_missing() -> None:
    mean = {"rubric": "responses", "question": "identification"}
    metrics = [
        metric("group_mean_score", 3, **mean, group="models"),
        metric("group_mean_score", 3, **mean, group="models", attribute="model", part="w"),
    ]
    answered = {("responses", "identification"): ["m", "n", "p"], ("responses", "due_weight"): ["m"]}
    one = study(metrics, answered=answered, kinds={"p": "human"})
    of_w, of_v = ({"attribute": "model", "part": part} for part in "wv")
    assert [century_tables.no_share(one, *case) for case in (
        ("factual_errors", "models", of_w), ("due_weight", "n", of_w), ("identification", "n", of_w),
        ("identification", "models", of_v), ("identification", "models", of_w), ("due_weight", "people", of_w),
    )] == [
        "nobody rated factual_errors", "n did not rate due_weight", "no rating of identification by n is ok",
        "no response of v was rated on identification", "4 is not the highest of metrics.at_least that is on the scale",
        "people did not rate due_weight",
    ]  # fmt: skip


def test_self_preference_of_the_judges_that_have_it() -> None:
    def of_judge(value: float, rater: str, question: str) -> Metric:
        return metric("self_preference", value, rubric="responses", rater=rater, question=question)

    metrics = [of_judge(0.5, "m@1", "due_weight"), of_judge(-0.5, "m@1", "identification")]
    (table,) = self_preference(study([*OF_OTHER_RUBRIC, *metrics]))
    assert list(rows_of(table)) == [("m",)]
    assert (set(units_of(table)), table.reasons[0]) == ({"number"}, "no ok rating of factual_errors by m")
    assert table.notes[0] == "Responses to all prompts count."
    by_element = dict(zip(table.columns, rows_of(table)["m",], strict=True))
    assert (by_element["Due weight",], by_element["Correct identification",]) == ((0.5, None), (-0.5, None))
    assert list(self_preference(study(OF_OTHER_RUBRIC))) == []


def test_self_preference_is_of_the_first_prompt_as_in_the_tables_around_it() -> None:
    def of_prompt(value: float, **dims: str) -> Metric:
        return metric("self_preference", value, rubric="responses", rater="m", question="due_weight", **dims)

    metrics = [of_prompt(0.1), of_prompt(0.2, attribute="prompt", part="long"),
               of_prompt(0.3, attribute="prompt", part="short")]  # fmt: skip
    (table,) = self_preference(study(metrics, contrast=["prompt:long-short"]))
    assert (0.2, None) in rows_of(table)["m",]
    assert table.notes[0] == "Responses to the prompt long count."
    (table,) = self_preference(study(metrics, contrast=["prompt:other-short"]))
    assert (0.1, None) in rows_of(table)["m",]


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


def agree_share(value: float, group: str, part: str, attribute: str = "model", **more: str) -> Metric:
    dims = {"threshold": "4", "rule": "mean", "attribute": attribute, "part": part}
    return of_responses("share_at_least", value, group=group, **dims | more)


def test_figure_9_has_a_plot_per_model_and_a_colour_per_writer(panels: list[tuple[str, Any]]) -> None:
    metrics = [
        agree_share(0.1, "a@1", "w@2"),
        agree_share(0.2, "b", "v"),
        agree_share(0.3, "b", "w@2", rule="any"),
        agree_share(0.4, "p", "v"),
    ]
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

    metrics = [
        agree_share(0, "b", "w"),
        answers(0.25, "a@1", "1"),
        answers(0.75, "a@1", "5"),
        answers(1, "people", "2"),
    ]
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
        list(century_tables.figure_11(study([agree_share(0, "b", "w" * length)], **RATERS)))
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
        agree_share(0, "b", "w"),
        agree_share(0, "b", "v"),
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
        *(agree_share(0, "b", writer) for writer in "wv"),
        *(agree_share(n / 10, "models", part, "sub_region+model") for n, part in enumerate(parts)),
        agree_share(0.9, "people", "Caribbean + v", "sub_region+model"),
        average(0.7, "Caribbean + w"),
        average(0.8, "Caribbean + w", threshold="3"),
    ]
    rows: dict[str, list[Any]] = {"V / Caribbean": [11], "X / Caribbean": [12], "W / Polynesia": [13]}
    printed = {"figure_13": PrintedTable("t", ["identification"], rows)}
    (figure,) = century_tables.figure_13(study(metrics, printed=printed, names=["v=V", "w=W"], **RATERS))
    assert figure.numbers.columns == (("Correct identification",),)
    hidden = study(metrics, printed=printed, names=["v=V", "w=W"], **RATERS)
    hidden = replace(hidden, settings=replace(hidden.settings, show_printed=False))
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
    (without,) = century_tables.figure_13(hidden)
    assert (without.numbers.columns, len(without.numbers.rows)) == (figure.numbers.columns, 6)
    without_models = {**RATERS, "answered": {("responses", "identification"): ["p"]}}
    (figure,) = century_tables.figure_13(study(metrics, **without_models))
    assert rows_of(figure.numbers)["v", "Caribbean"][0] == (0.9, None)
    assert len(figure.numbers.columns) == 7
    assert list(century_tables.figure_13(study(metrics[:2], **RATERS))) == []
