"""Ratings and comparisons of pictures by hand, and what is shown without scenarios."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import krippendorff
import numpy as np
import pyarrow as pa
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.distributions import Distributions
from jobs.metrics.metric import Metric
from jobs.papers import paper_tables, rome_ratings
from jobs.papers.study import PrintedTable
from jobs.tables import TABLES
from tests import factories
from tests.jobs.papers.studies import NONE, metric, rows_of, study, units_of

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
    table = rome_ratings.table_1(study(metrics, printed=printed))
    assert (units_of(table), table.reasons) == (["count"] * 4 + ["number"] * 2, ("no ratings of people",))
    assert table.columns[-2:] == (("Per person", "mean"), ("Per person", "SD"))
    assert rows_of(table) == {
        ("Image comparison (IC)",): [NONE] * 6,
        ("Image rating (IR)",): [(14, 568), (2, None), (1, None), (13, 500), (7, 40), (None, 20)],
    }


def test_figure_3_has_the_deviations_of_models_in_the_order_of_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    plots: list[Any] = []
    monkeypatch.setattr(paper_tables, "small_multiples", lambda panels, **_: plots.extend(panel for _, panel in panels))
    one = Distributions()
    answers = [factories.rating(item, "people", "match", value) | {"rubric": "rating"}
               for item, value in (("a", "1"), ("b", "2"), ("c", "2"), ("d", "2"))]  # fmt: skip
    answers.append(factories.rating("a", "people", "other", "1"))
    one.add(pa.Table.from_pylist(answers, schema=TABLES["ratings"].schema()))
    summary: Any = SimpleNamespace(raters=SimpleNamespace(kinds=RATERS["kinds"]), pooled=one)

    def of_model(name: str, value: float, rater: str, **more: str) -> Metric:
        return metric(name, value, **DIMS, rater=rater, **more)

    def deviation(value: float, rater: str, step: str, group: str = "people") -> Metric:
        return of_model("deviation_share", value, rater, deviation=step, group=group)

    metrics = [
        of_model("share", 0.6, "m", answer="1"),
        of_model("share", 0.4, "m", answer="2"),
        deviation(0.1, "m", "+10"),
        deviation(0.2, "m", "+2"),
        deviation(0.3, "m", "-1"),
        deviation(0.9, "m", "+5", "others"),
        deviation(0.8, "p", "-1"),
        of_model("mean_deviation", 0.5, "m", group="people"),
    ]
    printed = PrintedTable("t", ["0", "-1"], {"GPT": [31, 32], "Other": [33, None]})
    shares, deviations = rome_ratings.figure_3(
        replace(study(metrics, printed={"figure_3_right": printed}, **RATERS), summary=summary)
    )
    assert rows_of(shares.numbers) == {
        ("People",): [(0.25, None), (0.75, None)], ("m",): [(0.6, None), (0.4, None)], ("n",): [NONE, NONE]
    }  # fmt: skip
    assert shares.numbers.columns == (("1",), ("2",))
    assert deviations.numbers.columns == (("-1",), ("0",), ("+2",), ("+10",), ("mean",))
    assert rows_of(deviations.numbers) == {
        ("m",): [(0.3, 0.32), (None, 0.31), (0.2, None), (0.1, None), (0.5, None)],
        ("n",): [NONE] * 5,
        ("Other (paper)",): [NONE, (None, 0.33), *[NONE] * 3],
    }
    assert units_of(deviations.numbers) == [*["percent"] * 4, "number"]
    assert deviations.numbers.reasons == ("no deviation of this size", "no rating of match by n is ok")
    bars, intervals = plots
    assert (intervals.label, intervals.bounds, intervals.percent) == ("share of people's ratings", (0, 1), True)
    assert bars.parts == ["1", "2"]
    assert (bars.shares[0], bars.rows) == ([0.25, 0.75], ["People", "m", "n"])
    assert [(e.series, e.label, e.value, e.printed) for e in intervals.estimates[:2]] == [
        ("m", "-1", 0.3, 0.32), ("m", "0", None, 0.31)
    ]  # fmt: skip
    of_people = [deviation(0.8, "p", "-1")]
    assert len(list(rome_ratings.figure_3(replace(study(of_people, **RATERS), summary=summary)))) == 1


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
    table = rome_ratings.table_3(
        study(metrics, printed={"table_3": PrintedTable("t", columns, rows, percent=False)}, **RATERS)
    )
    parts = ("Triumph", "Lupercalia", "Triumph and Lupercalia")
    assert table.columns == tuple((rater, part) for rater in ("People", "m", "n") for part in parts)
    assert {name: cells[3:6] for (name,), cells in rows_of(table).items()} == {
        "Samples": [(9, 100), (9, 90), NONE],  # the number of the mean
        "Average score": [(4, 4.5), (3, 3.5), NONE],
        "SD": [NONE, (1, None), NONE],
        "p-value": [NONE, NONE, (0.03, 0.01)],
    }
    assert [row.cells[3].unit for row in table.rows[:3]] == ["count", "number", "number"]
    assert set(rows_of(table)["Samples",][6:]) == {NONE}
    assert "no rating of match by n is ok" in table.reasons
    alone = rome_ratings.table_3(study(metrics, answered=RATERS["answered"], kinds={"p": "gold"}))
    assert [rater for rater, _ in alone.columns] == ["m"] * 3 + ["n"] * 3
    assert table.notes == ("The paper, Other / Triumph: Samples 80, Average score 2.5.",)


def test_table_3_has_peoples_single_ratings_as_in_the_paper_and_their_means() -> None:
    pair = ("Triumph", "Lupercalia")
    single = {"attribute": "scenario", "group": "people, single ratings", "first": pair[0], "second": pair[1]}
    metrics = [metric("welch_p", 0.04, **DIMS, **single), of_part("part_mean", 3, "people", "first", *pair)]
    metrics += [metric("part_mean", 4, **DIMS, **single, part="first")]
    printed = PrintedTable("t", ["People / Triumph", "People"], {"Average score": [3.5, None], "p-value": [None, 0.2]},
                           percent=False)  # fmt: skip
    table = rome_ratings.table_3(study(metrics, printed={"table_3": printed}, **RATERS))
    assert [rater for rater, _ in table.columns[::3]] == ["People, single ratings", "People", "m", "n"]
    rows = rows_of(table)
    assert rows["Average score",][:6] == [(4, 3.5), NONE, NONE, (3, None), NONE, NONE]
    assert rows["p-value",][:6] == [NONE, NONE, (0.04, 0.2), NONE, NONE, NONE]
    assert table.notes[0].startswith("The paper counts single ratings")


def test_multiple_annotations_of_pairs_are_counted_over_both_orders() -> None:
    dims = {"rubric": "comparison", "question": "preference", "group": "people"}
    metrics = [metric("ratings_double", 3, **dims), metric("pairs_double", 5, **dims)]
    rows = rows_of(rome_ratings.table_1(study(metrics)))
    assert rows["Image comparison (IC)",][1] == (5, None)
    assert rows_of(rome_ratings.table_1(study(metrics[:1])))["Image comparison (IC)",][1] == (3, None)


def test_without_scenarios_only_the_paper_is_shown() -> None:
    printed = PrintedTable("t", ["Triumph"], {"GPT": [0.5], "empty": [None]}, percent=False)
    for name, arrange in (("table_3", rome_ratings.table_3), ("table_4", rome_ratings.table_4)):
        table = arrange(study(printed={name: printed}, options={"scenario": "place"}))
        assert rows_of(table) == {("GPT (paper)",): [(None, 0.5)]}
        assert units_of(table) == ["number"]
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
    table = rome_ratings.table_2(study(metrics, printed=printed, **RATERS))
    assert (units_of(table), table.reasons[0]) == (["percent"] * 5, "no answers of people to pairs")
    assert rows_of(table) == {
        ("m",): [(0.5, 0.57), (0.6, None), (0.7, None), (0.8, None), (0.9, None)],
        ("n",): [NONE] * 5,
        ("Other (paper)",): [(None, 0.66), *[NONE] * 4],
    }


def test_table_4_has_the_agreement_of_models_and_of_each_with_the_mean_of_people(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the library krippendorff; people are one rater, and a printed row is the one of the model's name there."""
    m, n, p, q = [1, 2, 3, 4, 2], [1, 3, 3, 5, 1], [1, 1, 4, 4, 2], [3, 1, 4, 5, 2]
    matrix = np.array([m, n, p, q], float).T
    answers = RatingTable.from_matrix(matrix, raters=["m", "n", "p", "q"])
    monkeypatch.setattr(rome_ratings, "rated", lambda *_: (answers, None))
    parts = {"inside": np.array([True, True, True, True, False]), "outside": np.array([False, True, True, True, True])}
    printed = PrintedTable("t", ["inside", "outside"], {"models": [0.1, 0.2], "GPT and people": [0.3, None],
                           "Other and people": [0.5, 0.6]}, percent=False)  # fmt: skip
    whose = RATERS | {"kinds": {"p": "human", "q": "human"}, "answered": {("rating", "match"): ["m", "n", "p", "q"]}}
    whose |= {"names": ["m=GPT", "models=models"]}
    items = SimpleNamespace(subgroups=lambda attribute, hashes: parts)
    table = rome_ratings.table_4(study(printed={"table_4": printed}, items=items, **whose))
    rows = rows_of(table)
    assert units_of(table) == ["number", "number"]

    def alpha(raters: Any, part: str, level: Any) -> Any:
        return pytest.approx(krippendorff.alpha(np.array(raters)[:, parts[part]], level_of_measurement=level))

    mean = (np.array(p) + q) / 2
    for level in ("ordinal", "interval"):
        expected = {
            ("All models", level): ([m, n], 0.1, 0.2),
            ("m and people", level): ([m, mean], 0.3, None),
            ("n and people", level): ([n, mean], None, None),
        }
        for headers, (raters, *of_paper) in expected.items():
            values = [(alpha(raters, part, level), number) for part, number in zip(parts, of_paper, strict=True)]
            assert rows[headers] == values, headers
    assert rows["Other and people (paper)", "not stated"] == [(None, 0.5), (None, 0.6)]
    assert len(rows) == 3 * len(rome_ratings.LEVELS) + 1
