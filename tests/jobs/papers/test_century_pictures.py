"""What pictures show and how sensitive they are, people's agreement and participation, and entities, by hand."""

from typing import Any

import pytest

from jobs.metrics.majority import NO_MAJORITY
from jobs.metrics.majority import NONE as NO_ANSWER
from jobs.metrics.metric import Metric
from jobs.papers import century_pictures, paper_tables
from jobs.papers.century_pictures import MOST_CONCEPTS, participation, rater_agreement, reliability, terms
from jobs.papers.study import PrintedTable
from jobs.plots.panels import Histogram, Scatter, StackedBars
from tests.jobs.papers.studies import NONE, metric, rows_of, study, units_of

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


def test_concepts_by_number_then_name_and_the_papers_that_are_missing() -> None:
    counts = {f"c{number:02}": 1.0 for number in range(MOST_CONCEPTS)} | {"war": 9.0, "riot": 9.0}
    metrics = [metric("entities", value, concept=name) for name, value in counts.items()]
    metrics += [metric("entities", value, entity_type=name) for name, value in (("person", 2), ("event", 5))]
    metrics += [metric("distinct_terms", 30, source="knowledge_graph"), metric("distinct_terms", 9, source="manual")]
    printed = {
        "table_6": PrintedTable("t", ["entities"], {"riot": [8], "c19": [3], "flood": [4]}, percent=False),
        "table_7": PrintedTable("t", ["entities"], {"event": [6], "place": [2], "distinct terms": [31]}, percent=False),
    }
    concepts, types = terms(study(metrics, printed=printed))
    rows = rows_of(concepts)
    assert list(rows)[:3] == [("Riot",), ("War",), ("C00",)]
    assert list(rows)[-3:] == [("C17",), ("C19",), ("Flood",)]  # c18 is the 21st
    assert (rows["Riot",], rows["C19",], rows["Flood",]) == ([(9, 8)], [(1, 3)], [(0, 4)])
    assert units_of(concepts) == units_of(types) == ["count"]
    assert (concepts.reasons, types.reasons) == ((), ())
    assert [table.citation for table in (concepts, types)] == ["Century, table 6", "Century, table 7"]
    assert rows_of(types) == {
        ("Person",): [(2, None)], ("Event",): [(5, 6)], ("Place",): [(0, 2)], ("Distinct terms",): [(30, 31)]
    }  # fmt: skip


def test_a_concept_without_a_number_comes_last() -> None:
    metrics = [metric("entities", value, concept=name) for name, value in (("a", None), ("b", 2.0), ("c", 3.0))]
    concepts, _ = terms(study(metrics))
    assert list(rows_of(concepts)) == [("C",), ("B",), ("A",)]


def test_without_terms_there_are_no_tables() -> None:
    assert list(terms(study())) == []
