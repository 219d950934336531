"""Tables of what pictures show and how sensitive they are, by hand."""

from typing import Any

import pytest

from jobs.metrics.majority import NO_MAJORITY
from jobs.metrics.majority import NONE as NO_ANSWER
from jobs.metrics.metric import Metric
from jobs.papers import century_pictures, paper_tables
from jobs.papers.study import PrintedTable
from jobs.plots.panels import StackedBars
from tests.jobs.papers.studies import metric, rows_of, study, units_of

NONE = (None, None)
RATERS: dict[str, Any] = {
    "kinds": {"p": "human"},
    "answered": {("images", "sensitive"): ["p", "m@1", "n@1"]},
    "names": ["m@*=M"],
    "groups": {"people": "People"},
}


def of_group(name: str, value: float, group: str, question: str = "sensitive", **dims: str) -> Metric:
    return metric(name, value, rubric="images", question=question, group=group, **dims)


def test_answers_of_none_and_without_majority_come_last() -> None:
    answers = ["NONE", "photograph", "NO_MAJORITY", "map", "all"]
    metrics = [
        of_group("majority_share", 0.1 * place, "people", "image_type", answer=answer)
        for place, answer in enumerate({"NONE": NO_ANSWER, "NO_MAJORITY": NO_MAJORITY}.get(a, a) for a in answers)
    ]
    printed = {"table_1": PrintedTable("t", ["People"], {"image_type / painting": [5], "image_type / map": [29]})}
    table = century_pictures.table_1(study(metrics, printed=printed, **RATERS))
    rows = {answer: cells for (dimension, answer), cells in rows_of(table).items() if dimension == "Image type"}
    last = [century_pictures.titled(NO_ANSWER), century_pictures.titled(NO_MAJORITY)]
    assert list(rows) == ["Photograph", "Map", "Painting", *last]
    assert rows["Map"] == [(pytest.approx(0.3), 0.29)]
    assert rows["Painting"] == [(None, 0.05)]


def test_table_8_has_models_before_people_and_the_papers_others_last() -> None:
    metrics = [of_group("majority_share", value, group, "concept", answer="war")
               for value, group in ((0.1, "m@1"), (0.2, "n@1"), (0.3, "people"), (0.4, "models"))]  # fmt: skip
    printed = {"table_8": PrintedTable("t", ["Other", "M", "People"], {"concept / war": [1, 2, 3]})}
    table = century_pictures.table_8(study(metrics, printed=printed, **RATERS))
    assert table.columns == (("m",), ("n",), ("People",), ("All models",), ("Other",))
    assert units_of(table) == ["percent"] * 5
    assert {one.citation for one in (table, century_pictures.table_1(study(metrics, **RATERS)))} == {
        "Century, table 8", "Century, table 1"
    }  # fmt: skip
    assert rows_of(table)["Concept", "War"] == [(0.1, 0.02), (0.2, None), (0.3, 0.03), (0.4, None), (None, 0.01)]
    missing = century_pictures.table_8(study(metrics[:2], printed=printed, **RATERS)).reasons
    assert missing == ("nobody rated concept",)
    answered = {("images", "concept"): ["p", "m@1", "n@1"], ("images", "sensitive"): ["o"]}
    raters = {**RATERS, "answered": answered, "kinds": {"p": "human", "o": "model"}}
    undefined = metric("majority_share", None, rubric="images", question="concept", group="people", answer="all")
    more = {"table_8": PrintedTable("t", ["M"], {"concept / war": [2], "concept / peace": [3]})}
    table = century_pictures.table_8(study([*metrics[:1], undefined], printed=more, **raters))
    of_concept = {row.headers[1]: [str(cell.metric.reason) for cell in row.cells if cell.metric] for row in table.rows}
    assert of_concept == {
        "War": ["few", "no rating of concept by n@1 is ok", "o did not rate concept", "few",
                "no rating of concept by models is ok"],
        "Peace": ["nobody gave this answer", "no rating of concept by n@1 is ok", "o did not rate concept", "few",
                  "no rating of concept by models is ok"],
    }  # fmt: skip


def test_table_2_by_mean_and_by_any_rater_of_groups() -> None:
    metrics = [
        of_group("share_lowest", 0.1, "people"),
        of_group("share_at_least", 0.2, "people", threshold="3", rule="mean"),
        of_group("share_at_least", 0.3, "people", threshold="3", rule="any"),
        of_group("share_at_least", 0.9, "people", threshold="4", rule="mean"),
        of_group("share_at_least", 0.4, "m@1", threshold="3", rule="mean"),
        of_group("share_at_least", 0.5, "m@1", threshold="3", rule="any"),
    ]
    columns = ["lowest", "somewhat by mean", "somewhat by any"]
    rows: dict[str, list[Any]] = {
        "sensitive / People": [11, 21, 31],
        "sensitive / M": [1, 41, None],
        "sensitive / Other": [7, 8, None],
        "controversial / Other": [9, None, None],
    }
    table = century_pictures.table_2(study(metrics, printed={"table_2": PrintedTable("t", columns, rows)}, **RATERS))
    of_sensitive = {label: cells for (dimension, label), cells in rows_of(table).items() if dimension == "Sensitive"}
    assert of_sensitive == {
        "People": [(0.1, 0.11), (0.2, 0.21), (0.3, 0.31)],
        "All models": [NONE, NONE, NONE],
        "m": [(None, 0.01), (0.4, 0.41), NONE],  # of one rater any is its mean
        "n": [NONE, NONE, NONE],
        "Other": [(None, 0.07), (None, 0.08), NONE],
    }
    assert rows_of(table)["Controversial", "Other"] == [(None, 0.09), NONE, NONE]


def test_ensembles_have_all_columns_of_table_2() -> None:
    metrics = [
        of_group("share_lowest", 0.1, "two"),
        of_group("share_at_least", 0.2, "two", threshold="3", rule="mean"),
        of_group("share_at_least", 0.3, "two", threshold="3", rule="any"),
    ]
    table = century_pictures.table_2(study(metrics, ensembles={"two": ["m*", "n*"]}, **RATERS))
    rows = {row.headers: row for row in table.rows}
    cells = rows["Sensitive", "two"].cells
    assert [cell.metric.value for cell in cells if cell.metric] == [0.1, 0.2, 0.3]
    only_at_4 = [of_group("share_lowest", 0.1, "two"), of_group("share_at_least", 0.2, "m@1", threshold="4")]
    table = century_pictures.table_2(study(only_at_4, ensembles={"two": ["m*", "n*"]}, **RATERS))
    reasons = {row.headers: {str(cell.metric.reason) for cell in row.cells if cell.metric} for row in table.rows}
    assert reasons["Sensitive", "two"] == {"few", "metrics.at_least has no 3 that is on the scale"}
    assert reasons["Sensitive", "People"] == {"no rating of sensitive by people is ok"}
    assert reasons["Controversial", "n"] == {"nobody rated controversial"}


def test_figure_6_has_people_last_and_one_legend(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[tuple[str, StackedBars]] = []

    def draw(of_figure: Any, **_: object) -> str:
        panels.extend(of_figure)
        return ""

    monkeypatch.setattr(paper_tables, "small_multiples", draw)
    dims = {"rubric": "images", "question": "sensitive"}
    metrics = [
        metric("share", 0.25, rater="m@1", answer="1", **dims),
        metric("share", 0.75, rater="m@1", answer="5", **dims),
    ]
    metrics += [metric("share", 1, rater=century_pictures.ALL_PEOPLE, answer="2", **dims)]
    figure = century_pictures.figure_6(study(metrics, **RATERS))
    assert [title for title, _ in panels] == ["Sensitive", "Controversial", "Commemorative"]
    assert [bars.legend for _, bars in panels] == [True, False, False]
    assert panels[0][1].shares == [[0.25, None, None, None, 0.75], [None] * 5, [None, 1, None, None, None]]
    assert [row.headers for row in figure.numbers.rows[:3]] == [
        ("Sensitive", "m"), ("Sensitive", "n"), ("Sensitive", "People")
    ]  # fmt: skip
    without_people = century_pictures.figure_6(study(metrics, answered=RATERS["answered"], kinds={"p": "gold"}))
    assert [row.headers[1] for row in without_people.numbers.rows[:3]] == ["m", "n", "m"]


def test_answers_for_none_and_without_a_majority_are_listed_if_anybody_has_them() -> None:
    metrics = [of_group("majority_share", 0.1, "people", "concept", answer=answer) for answer in ("war", "all")]
    one = study(metrics, **RATERS)
    assert century_pictures._answers(one, "concept", []) == ["war"]
    assert century_pictures._answers(one, "concept", [NO_MAJORITY, "riot", NO_ANSWER, "war"]) == [
        "war", "riot", NO_ANSWER, NO_MAJORITY
    ]  # fmt: skip
    more = [of_group("majority_share", 0.1, "people", "concept", answer=NO_ANSWER), *metrics]
    assert century_pictures._answers(study(more, **RATERS), "concept", ["riot"]) == [
        "war",
        "riot",
        NO_ANSWER,
    ]
