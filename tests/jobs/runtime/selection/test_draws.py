"""A draw depends on the ids, the seed and the purpose, and on nothing else."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.runtime.selection.draws import CompleteDrawConfig, Draw, DrawConfig, Drawn, draw_columns, draw_keys, usable
from jobs.runtime.selection.exclusions import ExclusionFilter, marks_of
from jobs.tables import TABLES
from tests.factories import image_row

IDS = [f"{n:032x}" for n in range(200)]


def items(rows: Sequence[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=TABLES["items"].schema())


def responses(pictures: int, *, models: Sequence[str] = ("a", "b"), samples: int = 3) -> list[dict[str, Any]]:
    """Return items made from responses: each picture, model and sample."""
    return [
        {
            "item_id": f"{picture}-{model}-{sample}",
            "image_ids": [f"p{picture}"],
            "attributes": [("model", model), ("sample", str(sample)), ("page", f"page {picture % 4}")],
        }
        for picture in range(pictures)
        for model in models
        for sample in range(samples)
    ]


def draw(
    rows: Sequence[dict[str, Any]], *, cuts: int = 1, bad: Sequence[str] = (), **keys: Any
) -> tuple[Drawn, set[str]]:
    """Return the draw from rows in `cuts` batches, and the drawn item_ids."""
    collected = Draw(CompleteDrawConfig(**keys), "items")
    batches = [items(rows[start::cuts]) for start in range(cuts)]
    for batch in batches:
        collected.add(batch, np.array([row not in bad for row in batch["item_id"].to_pylist()], bool))
    drawn = collected.drawn()
    return drawn, {
        item
        for batch in batches
        for item in batch.filter(pa.array(drawn.mask(collected.keys(batch))))["item_id"].to_pylist()
    }


def test_keys_do_not_change_between_versions() -> None:
    """Frozen: another value here is another set for everyone who names a seed."""
    assert draw_keys(["0" * 32], purpose="draw", seed=0).tolist() == [14779873809418980482]


def test_seeds_and_purposes_draw_apart() -> None:
    sets = [
        frozenset(np.argsort(draw_keys(IDS, purpose=purpose, seed=seed))[:50])
        for purpose in ("draw", "starter")
        for seed in (0, 1)
    ]
    assert len(set(sets)) == 4
    assert len(sets[0] & sets[2]) < 30, "12.5 are expected of two independent draws of 50 of 200"


def test_rows_of_a_picture_stay_together_in_any_order_and_cut() -> None:
    rows = responses(150)
    drawn, chosen = draw(rows, n=50, seed=3)
    assert str(drawn) == "drew 50 of 150 pictures"
    pictures = {item.partition("-")[0] for item in chosen}
    assert (len(pictures), len(chosen)) == (50, 300)
    shuffled = random.Random(0).sample(rows, len(rows))
    assert draw(shuffled, cuts=7, n=50, seed=3)[1] == chosen
    assert draw(rows, n=50, seed=4)[1] != chosen
    assert chosen < draw(rows, n=60, seed=3)[1], "a larger draw contains a smaller one"
    one_sample = [row for row in rows if row["item_id"].endswith("-a-0")]
    assert {item.partition("-")[0] for item in draw(one_sample, n=50, seed=3)[1]} == pictures


def test_many_keys_are_compacted_to_the_same_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = responses(60)
    expected = draw(rows, cuts=20, n=10)[1]
    monkeypatch.setattr("jobs.runtime.selection.draws._COMPACT_AT", 10)
    assert draw(rows, cuts=20, n=10)[1] == expected


def test_rows_can_stay_together_by_column_or_attribute() -> None:
    rows = [*responses(8), {"item_id": "alone"}]
    drawn, chosen = draw(rows, n=2, by="page")
    assert str(drawn) == "drew 2 of 5 values of page", "a row without a value is drawn by itself"
    assert len(chosen) in (24, 13)
    assert len(draw(rows, n=5, by="item_id")[1]) == 5
    for wrong in ("image_ids", "nowhere"):
        with pytest.raises(InputError, match=f"draw.by={wrong}"):
            draw(rows, n=2, by=wrong)


def test_wrong_values_are_refused_before_a_table_is_read() -> None:
    for keys, message in (({"n": 0}, "draw.n=0: must be at least 1"), ({"by": ""}, "draw.by.*: must be picture")):
        with pytest.raises(InputError, match=message):
            DrawConfig(**keys).check()
    DrawConfig(n=1).check()
    assert (DrawConfig(n=1).is_set, DrawConfig(by="page").is_set) == (True, False)


def test_only_complete_sets_are_drawn() -> None:
    rows = responses(10)
    rows = [row for row in rows if row["item_id"] not in ("1-a-0", "2-b-2")]
    drawn, chosen = draw(rows, complete=["model", "sample"], bad=["3-a-1"])
    assert {item.partition("-")[0] for item in chosen} == {*"0456789"}
    assert str(drawn) == "drew 7 of 10 pictures (7 with complete sets)"
    assert len(draw(rows, complete=["model", "sample"], n=4)[1]) == 24
    with pytest.raises(InputError, match=r"draw\.complete"):
        draw(responses(2)[:7], complete=["model", "sample"], bad=["0-a-0"])
    with pytest.raises(InputError, match=r"draw\.complete=prompt"):
        draw(rows, complete=["prompt"])


def test_a_set_is_of_the_combinations_of_all_rows() -> None:
    """Repeated rows of one combination do not complete a set; an unusable row has a combination like any other."""
    rows = responses(3, models=["a"], samples=2)
    rows = [row for row in rows if row["item_id"] != "1-a-1"] + [{**rows[2], "item_id": "1-a-0 again"}]
    assert {item.partition("-")[0] for item in draw(rows, complete=["model", "sample"])[1]} == {"0", "2"}
    third = {**rows[0], "item_id": "0-a-2", "attributes": [("model", "a"), ("sample", "2")]}
    with pytest.raises(InputError, match=r"none of 3 groups has all 3 combinations"):
        draw([*rows, third], complete=["model", "sample"], bad=["0-a-2"])


def test_kept_groups_are_drawn_before_others() -> None:
    """Of three kept groups, none has a small key; the fourth is the one with the smallest key of the others."""
    collected = Draw(DrawConfig(n=4), "items")
    keys = np.sort(np.unique(collected.add(items(responses(10)))))
    drawn = collected.drawn(kept=keys[[9, 7, 8, 8]])
    assert drawn.keys.tolist() == keys[[0, 7, 8, 9]].tolist()
    assert collected.drawn(kept=keys[:2]).keys.tolist() == keys[:4].tolist()


def test_pictures_of_excluded_ids_and_urls_and_failed_ones_are_not_usable() -> None:
    rows = [image_row(f"https://i/{name}.jpg") for name in "abcd"]
    rows[0] |= {"status": "error"}
    images = pa.Table.from_pylist(rows, schema=TABLES["images"].schema()).select(draw_columns("images"))
    by_id = ExclusionFilter(frozenset({rows[1]["image_id"]}))
    assert usable(images, "images", by_id).tolist() == [False, False, True, True]
    # The mark of a row's URL alone: the id of the row's picture is another one.
    of_url = frozenset(mark for mark in marks_of("http://i/c.jpg") if mark.startswith("url:"))
    assert usable(images, "images", ExclusionFilter(of_url)).tolist() == [False, True, False, True]


def test_items_of_excluded_ids_and_pictures_and_without_a_response_are_not_usable() -> None:
    rows: list[dict[str, Any]] = [
        {"item_id": "plain"},
        {"item_id": "gone"},
        {"item_id": "of two", "image_ids": ["a", "gone"]},
        *({"item_id": status, "attributes": [("response_status", status)]} for status in ("ok", "truncated", "error")),
    ]
    kept = usable(items(rows).select(draw_columns("items")), "items", ExclusionFilter(marks_of("gone")))
    assert kept.tolist() == [True, False, False, True, True, False]


def test_complete_sets_or_a_number_make_a_draw_and_identify_it() -> None:
    configs = [CompleteDrawConfig(), CompleteDrawConfig(n=1), CompleteDrawConfig(complete=["model"])]
    assert [config.is_set for config in configs] == [False, True, True]
    draws = [{"n": n, "seed": 0, "by": "picture", "complete": complete} for n, complete in ((1, []), (None, ["model"]))]
    assert [config.identity for config in configs] == [{}, *({"draw": values} for values in draws)]


def test_more_than_there_are_are_all_drawn_and_reported() -> None:
    drawn, chosen = draw(responses(3), n=5)
    assert len(chosen) == 18
    assert str(drawn) == "drew 3 of 3 pictures; there are fewer than draw.n=5"


def test_columns_are_read_once_and_numbers_can_group_rows() -> None:
    config = CompleteDrawConfig(n=1, by="model", complete=["model", "sample"])
    assert Draw(config, "responses").columns == ["response_id", "model", "sample"]
    assert Draw(CompleteDrawConfig(n=1, by="sample"), "responses").columns == ["response_id", "sample"]
    assert Draw(CompleteDrawConfig(n=1, complete=["a", "b"]), "items").columns == ["item_id", "image_ids", "attributes"]
    with pytest.raises(InputError, match=r"^draw\.by=absent: must be picture or one of .*model"):
        Draw(DrawConfig(n=1, by="absent"), "responses")
    with pytest.raises(InputError, match=r"^with=absent: must be picture or one of"):
        Draw(DrawConfig(n=1, by="absent"), "responses", by="with")
