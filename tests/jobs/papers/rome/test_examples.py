"""Pictures of figure 5, with their ratings and prompts."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from jobs.metrics.answers import RatingTable
from jobs.papers.rome import examples
from jobs.papers.rome.examples import SHORT
from jobs.store.hashing import hash_texts
from tests.factories import TableInMemory
from tests.jobs.papers.studies import study

ITEMS = ["a", "b", "c", "d", "e"]
HASHES = hash_texts(ITEMS)


def rated(scores: dict[str, list[float]]) -> Any:
    """Scores of the items by rater; NaN: none."""
    matrix = np.array(list(scores.values())).T
    table = RatingTable.from_matrix(matrix, raters=tuple(scores))
    return table, HASHES


def chosen(scores: list[float]) -> list[tuple[str, str, float]]:
    names = dict(zip(HASHES.tolist(), ITEMS, strict=True))
    of_rater = examples._chosen(rated({"m": scores, "n": [0.0] * 5}), "m")
    return [(place, names[item], score) for place, item, score in of_rater]


def test_the_lowest_the_median_and_the_highest_score() -> None:
    none = float("nan")
    assert chosen([0.5, 0.1, 0.9, 0.3, 0.7]) == [("lowest", "b", 0.1), ("middle", "a", 0.5), ("highest", "c", 0.9)]
    assert chosen([none, 0.1, 0.9, 0.3, 0.7]) == [("lowest", "b", 0.1), ("middle", "e", 0.7), ("highest", "c", 0.9)]
    assert chosen([none] * 4 + [0.5]) == [(place, "e", 0.5) for place in examples.PLACES]
    assert chosen([none] * 5) == []
    by_hash = [ITEMS[place] for place in np.argsort(HASHES)]
    assert [item for _, item, _ in chosen([0.5] * 5)] == [by_hash[0], by_hash[2], by_hash[4]]


def test_ratings_of_one_item_by_some_raters() -> None:
    ratings = rated({"p": [1, 2, 3, 4, 5], "o": [5, float("nan"), 3, 4, 5], "m": [0, 0, 0, 0, 0]})
    people = [examples._mean(ratings, int(item), ["p", "o"]) for item in HASHES]
    assert [(one.value, one.n) for one in people if one] == [(3, 2), (2, 1), (3, 2), (4, 2), (5, 2)]
    assert examples._mean(ratings, int(HASHES[0]), []) is None
    assert examples._mean(ratings, int(HASHES[1]), ["o"]) is None
    assert examples._mean(None, int(HASHES[0]), ["p"]) is None


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
    shown = examples._shown(study(tables=SimpleNamespace(**sources)), {a, b, c})
    assert {number: (one.name, one.image_id) for number, one in shown.items()} == {
        a: (f"a: A boat.: {'x' * SHORT}…", "p1"), b: ("b", None), c: ("", None)
    }  # fmt: skip
