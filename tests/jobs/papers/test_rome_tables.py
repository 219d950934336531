"""Scores of pictures by the answers to their questions, examples, and the models that drew the pictures, by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.analysis.scene_graph_scores import BINS
from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric
from jobs.papers import paper_tables, rome_tables
from jobs.papers.rome_tables import SHORT, competitors, image_models
from jobs.papers.study import PrintedTable
from jobs.plots.panels import Estimate, Histogram, Intervals
from jobs.store.hashing import hash_texts
from tests.factories import TableInMemory
from tests.jobs.papers.studies import NONE, metric, rows_of, study, units_of

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


ITEMS = ["a", "b", "c", "d", "e"]
HASHES = hash_texts(ITEMS)


def rated(scores: dict[str, list[float]]) -> Any:
    """Scores of the items by rater; NaN: none."""
    matrix = np.array(list(scores.values())).T
    table = RatingTable.from_matrix(matrix, raters=tuple(scores))
    return table, HASHES


def chosen(scores: list[float]) -> list[tuple[str, str, float]]:
    names = dict(zip(HASHES.tolist(), ITEMS, strict=True))
    of_rater = rome_tables._chosen(rated({"m": scores, "n": [0.0] * 5}), "m")
    return [(place, names[item], score) for place, item, score in of_rater]


def test_the_lowest_the_median_and_the_highest_score() -> None:
    none = float("nan")
    assert chosen([0.5, 0.1, 0.9, 0.3, 0.7]) == [("lowest", "b", 0.1), ("middle", "a", 0.5), ("highest", "c", 0.9)]
    assert chosen([none, 0.1, 0.9, 0.3, 0.7]) == [("lowest", "b", 0.1), ("middle", "e", 0.7), ("highest", "c", 0.9)]
    assert chosen([none] * 4 + [0.5]) == [(place, "e", 0.5) for place in rome_tables.PLACES]
    assert chosen([none] * 5) == []
    by_hash = [ITEMS[place] for place in np.argsort(HASHES)]
    assert [item for _, item, _ in chosen([0.5] * 5)] == [by_hash[0], by_hash[2], by_hash[4]]


def test_ratings_of_one_item_by_some_raters() -> None:
    ratings = rated({"p": [1, 2, 3, 4, 5], "o": [5, float("nan"), 3, 4, 5], "m": [0, 0, 0, 0, 0]})
    people = [rome_tables._mean(ratings, int(item), ["p", "o"]) for item in HASHES]
    assert [(one.value, one.n) for one in people if one] == [(3, 2), (2, 1), (3, 2), (4, 2), (5, 2)]
    assert rome_tables._mean(ratings, int(HASHES[0]), []) is None
    assert rome_tables._mean(ratings, int(HASHES[1]), ["o"]) is None
    assert rome_tables._mean(None, int(HASHES[0]), ["p"]) is None


def test_an_item_is_shown_with_its_prompt_and_first_picture() -> None:
    items: list[dict[str, Any]] = [
        {"item_id": "a", "text_ids": ["t1", "t2", "t3", "t5"], "image_ids": ["p1", "p2"]},
        {"item_id": "b", "text_ids": None, "image_ids": []},
        {"item_id": "other", "text_ids": ["t1"], "image_ids": ["p3"]},
    ]
    texts: list[dict[str, Any]] = [
        {"text_id": "t1", "role": "prompt", "text": "A \n boat."},
        {"text_id": "t2", "role": "caption", "text": "A caption."},
        {"text_id": "t3", "role": "prompt", "text": "x" * (SHORT + 1)},
        {"text_id": "t4", "role": "prompt", "text": "of another item"},
        {"text_id": "t5", "role": "prompt", "text": None},
    ]
    sources = {"items": [TableInMemory("items", items)], "texts": [TableInMemory("texts", texts, batch=2)]}
    a, b, c = (int(item) for item in HASHES[:3])
    shown = rome_tables._shown(study(tables=SimpleNamespace(**sources)), {a, b, c})
    assert shown == {
        a: (f"a: A boat.: {'x' * SHORT}…", "p1"), b: ("b", None), c: ("", None)
    }  # fmt: skip


def test_figure_5_has_a_figure_per_model_with_its_ratings_and_peoples(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Any, dict[str, Any]]] = []

    def draw(panels: Any, **words: Any) -> str:
        drawn.append((panels, words))
        return "svg"

    tables = {
        "scores": rated({"m": [0.5, 0.1, 0.9, 0.3, 0.7], "n": [0.2, 0.4, 0.6, 0.8, 1.0]}),
        "rating": rated({"m": [1, 2, 3, 4, 5], "p": [5, 4, 3, 2, 1], "q": [5, 5, 5, 5, 5]}),
    }
    monkeypatch.setattr(paper_tables, "small_multiples", draw)
    monkeypatch.setattr(rome_tables, "rated", lambda _, role: tables.get(role))
    labels = {int(number): (name, f"picture-{name}" if name != "b" else None)
              for number, name in zip(HASHES, ITEMS, strict=True)}  # fmt: skip
    monkeypatch.setattr(rome_tables, "_shown", lambda *_: labels)
    printed = PrintedTable("t", ["score", "people", "GPT"], {"lowest": [0.15, 2, 3]}, percent=False)
    answered = {("scores", "with_dependencies"): ["n", "m"], ("rating", "match"): ["m", "p", "q"]}
    one = study(kinds={"p": "human", "q": "human"}, answered=answered, printed={"figure_5": printed})
    one = replace(one, rubrics=SimpleNamespace(scale=lambda *_: ((1, 5), ())))  # type: ignore[arg-type]
    of_m, of_n = rome_tables.figure_5(one)
    assert (of_m.name, of_n.name, of_m.numbers.name) == ("figure_5", "figure_5_2", "figure_5")
    assert rows_of(of_m.numbers) == {
        ("lowest", "b"): [(0.1, 0.15), (4.5, 2), (2, 3)], ("middle", "a"): [(0.5, None), (5, None), (1, None)],
        ("highest", "c"): [(0.9, None), (4, None), (3, None)],
    }  # fmt: skip
    assert rows_of(of_n.numbers)["lowest", "a"] == [(0.2, 0.15), (5, 2), (None, 3)]
    assert (units_of(of_m.numbers), len(of_m.numbers.notes)) == (["number"] * 3, 1)
    assert of_m.pictures == (("picture-a", "middle: 0.50"), ("picture-c", "highest: 0.90"))
    metrics = [cell.metric for cell in of_m.numbers.rows[0].cells]
    assert [(mean.name, mean.n) for mean in metrics if mean] == [("score", 1), ("rating", 2), ("rating", 1)]
    panels, words = drawn[0]
    (title, scores), (other, ratings) = panels
    assert (title, other, words["columns"]) == ("Score by questions", "Rating", 1)
    assert (scores.bounds, ratings.bounds) == ((0, 1), (1, 5))
    assert scores.estimates[0] == Estimate("lowest", 0.1, printed=0.15)
    assert [(mark.series, mark.label, mark.value) for mark in ratings.estimates[::3]] == [
        ("People", "lowest", 4.5), ("m", "lowest", 2)
    ]  # fmt: skip
    tables.clear()
    assert list(rome_tables.figure_5(one)) == []


COMPARED = {"rubric": "comparison", "question": "preference"}


def test_strength_has_a_row_per_drawing_model_and_a_colour_per_rater(monkeypatch: pytest.MonkeyPatch) -> None:
    plots: list[Any] = []
    monkeypatch.setattr(paper_tables, "small_multiples", lambda panels, **_: plots.extend(panel for _, panel in panels))
    metrics = [
        metric(name, value, **COMPARED, rater=rater, competitor=competitor)
        for name, value, rater, competitor in (
            ("bradley_terry", 0.5, "m", "x"), ("win_rate", 0.6, "m", "x"), ("bradley_terry", -0.5, "m", "y"),
            ("bradley_terry", 0.1, "people", "y"), ("win_rate", 0.9, "other", "x"),
        )
    ]  # fmt: skip
    (figure,) = competitors(study(metrics))
    assert figure.numbers.columns == (
        ("m", "strength"),
        ("m", "win rate"),
        ("people", "strength"),
        ("people", "win rate"),
    )
    assert rows_of(figure.numbers) == {
        ("x",): [(0.5, None), (0.6, None), NONE, NONE], ("y",): [(-0.5, None), NONE, (0.1, None), NONE]
    }  # fmt: skip
    assert units_of(figure.numbers) == ["number", "percent"] * 2
    (panel,) = plots
    assert isinstance(panel, Intervals)
    assert (panel.label, panel.reference) == ("Bradley-Terry strength (log-odds)", 0)
    assert [(one.label, one.series, one.value) for one in panel.estimates] == [
        ("x", "m", 0.5), ("x", "people", None), ("y", "m", -0.5), ("y", "people", 0.1)
    ]  # fmt: skip
    assert list(competitors(study())) == []


def test_scores_need_two_drawing_models(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[tuple[str, Any]] = []

    def draw(of_figure: Any, **_: object) -> str:
        panels.extend(of_figure)
        return ""

    monkeypatch.setattr(paper_tables, "small_multiples", draw)
    questions = {"rating": "match", "scores": "with_dependencies"}
    of_parts = {"attribute": study().metric_settings.competitors}
    metrics = [
        metric("group_mean_score", value, rubric=role, question=questions[role], part=part, group=group, **of_parts)
        for role, value, part, group in (
            ("rating", 4, "x", "people"), ("rating", 3, "y", "people"), ("rating", 2, "y", "m"),
            ("scores", 0.5, "x", "m"), ("rating", 1, "x", "another"),
        )
    ]  # fmt: skip
    answered = {("rating", "match"): ["m"], ("scores", "with_dependencies"): ["m", "n"]}
    (figure,) = image_models(study(metrics, answered=answered))
    assert figure.numbers.columns == (
        ("Mean rating", "People"), ("Mean rating", "m"), ("Mean score by questions", "m")
    )  # fmt: skip
    assert rows_of(figure.numbers) == {
        ("x",): [(4, None), NONE, (0.5, None)], ("y",): [(3, None), (2, None), NONE]
    }  # fmt: skip
    assert units_of(figure.numbers) == ["number"] * 3
    assert figure.numbers.notes == ("Intervals are over pictures; n counts pictures.",)
    assert [(title, len(panel.estimates)) for title, panel in panels] == [
        ("Mean rating", 4), ("Mean score by questions", 2)
    ]  # fmt: skip
    assert list(image_models(study([metrics[0]], answered=answered))) == []
    panels.clear()
    list(image_models(study(metrics[:2], answered=answered)))
    assert [title for title, _ in panels] == ["Mean rating"]
