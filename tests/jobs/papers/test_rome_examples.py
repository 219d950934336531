"""Pictures of figure 5, with their ratings and prompts."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.papers import paper_tables, rome_tables
from jobs.papers.rome_tables import SHORT
from jobs.papers.study import PrintedTable
from jobs.plots.panels import Estimate
from jobs.store.hashing import hash_texts
from tests.factories import TableInMemory
from tests.jobs.papers.studies import rows_of, study, units_of

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
