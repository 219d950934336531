"""Tables 1 and 3 and what stands alone without scenarios, by hand."""

from typing import Any

from jobs.metrics.metric import Metric
from jobs.papers.rome import rating
from jobs.papers.rome.comparison import table_2
from jobs.papers.settings import PrintedTable
from tests.jobs.papers.studies import metric, rows_of, study

NONE = (None, None)
DIMS = {"rubric": "rating", "question": "match"}
RATERS: dict[str, Any] = {
    "kinds": {"p": "human"},
    "answered": {("rating", "match"): ["p", "m", "n"], ("comparison", "preference"): ["m", "n"]},
    "names": ["m=GPT"],
    "groups": {"people": "People"},
}


def test_table_1_counts_the_answers_of_people_in_both_tasks() -> None:
    accounts = {"ratings_total": 14.0, "ratings_double": 2.0, "ratings_excluded": 1.0, "ratings_left": 13.0}
    metrics = [metric(name, value, group="people", **DIMS) for name, value in accounts.items()]
    metrics += [metric("ratings_total", 99, group="models", **DIMS), metric("ratings_per_person", 7, **DIMS)]
    columns = ["Total assessments", "After exclusions", "per person, mean", "per person, SD"]
    printed = {"table_1": PrintedTable("t", columns, {"Image rating (IR)": [568, 500, 40, 20]}, percent=False)}
    assert rows_of(rating.table_1(study(metrics, printed=printed))) == {
        ("Image comparison (IC)",): [NONE] * 6,
        ("Image rating (IR)",): [(14, 568), (2, None), (1, None), (13, 500), (7, 40), (None, 20)],
    }


def of_part(name: str, value: float, group: str, part: str, *pair: str) -> Metric:
    return metric(name, value, **DIMS, attribute="scenario", group=group, part=part, first=pair[0], second=pair[1])


def test_table_3_has_a_column_per_rater_and_scenario() -> None:
    pair = ("Triumph", "Lupercalia")
    metrics = [metric("welch_p", 0.03, **DIMS, attribute="scenario", group="m", first=pair[0], second=pair[1])]
    metrics += [of_part("part_mean", 4, "m", "first", *pair), of_part("part_mean", 3, "m", "second", *pair)]
    metrics += [of_part("part_sd", 1, "m", "second", *pair)]
    columns = ["GPT / Triumph", "GPT / Lupercalia", "GPT", "Other / Triumph", "Other"]
    rows: dict[str, list[Any]] = {
        "Samples": [100, 90, None, 80, None],
        "Average score": [4.5, 3.5, None, 2.5, None],
        "p-value": [None, None, 0.01, None, None],
    }
    table = rating.table_3(
        study(metrics, printed={"table_3": PrintedTable("t", columns, rows, percent=False)}, **RATERS)
    )
    assert table.columns == (
        ("People", "Triumph"), ("People", "Lupercalia"), ("m", "Triumph"), ("m", "Lupercalia"), ("n", "Triumph"),
        ("n", "Lupercalia"),
    )  # fmt: skip
    assert {name: cells[2:4] for (name,), cells in rows_of(table).items()} == {
        "Samples": [(9, 100), (9, 90)],  # the number of the mean
        "Average score": [(4, 4.5), (3, 3.5)],
        "SD": [NONE, (1, None)],
        "p-value": [(0.03, 0.01), NONE],
    }
    assert set(rows_of(table)["Samples",][4:]) == {NONE}
    assert table.notes[1:] == ("The paper, Other / Triumph: Samples 80, Average score 2.5.",)


def test_without_scenarios_only_the_paper_is_shown() -> None:
    printed = PrintedTable("t", ["Triumph"], {"GPT": [0.5], "empty": [None]}, percent=False)
    for name, arrange in (("table_3", rating.table_3), ("table_4", rating.table_4)):
        table = arrange(study(printed={name: printed}, options={"scenario": "place"}))
        assert rows_of(table) == {("GPT (paper)",): [(None, 0.5)]}
        assert table.columns == (("Triumph",),)
        assert "'place'" in table.notes[0]


def test_table_2_of_comparison_has_agreement_in_one_order_and_over_both() -> None:
    dims = {"rubric": "comparison", "question": "preference", "rater": "m"}
    metrics = [
        metric("preference_agreement", 0.5, **dims, group="people"),
        metric("pair_agreement", 0.6, **dims, by="answer"),
        metric("pair_agreement", 0.7, **dims, by="probability"),
        metric("position_bias", 0.8, **dims),
        metric("first_position_share", 0.9, **dims),
        metric("preference_agreement", 0.1, **dims, group="others"),
    ]
    printed = {"table_2": PrintedTable("t", ["agreement"], {"GPT": [57], "Other": [66], "empty": [None]})}
    assert rows_of(table_2(study(metrics, printed=printed, **RATERS))) == {
        ("m",): [(0.5, 0.57), (0.6, None), (0.7, None), (0.8, None), (0.9, None)],
        ("n",): [NONE] * 5,
        ("Other (paper)",): [(None, 0.66), *[NONE] * 4],
    }
