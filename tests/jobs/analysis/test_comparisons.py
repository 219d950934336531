"""Ratings of pairs joined to the pairs, by hand."""

from typing import Any

import numpy as np
import pytest

from actors.items import FIRST, PAIR, PAIR_SET, SECOND
from jobs.analysis import comparisons
from jobs.analysis.attributes import Raters
from jobs.analysis.comparisons import comparison_metrics, read_pairs
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import hash_texts
from tests.factories import TableInMemory, rating

KINDS = {"g": "gold", "m": "model", "p1": "human", "p2": "human"}
NOBODY = ExclusionFilter(frozenset())


def pair(item: str, name: str, first: str, second: str, **attributes: str) -> dict[str, Any]:
    shown = {PAIR: name, FIRST: first, SECOND: second, **attributes}
    return {"item_id": item, "kind": "pair", "attributes": list(shown.items())}


ITEMS = [
    pair("ab", "1", "a", "b", first_model="x", second_model="y", **{PAIR_SET: "prompt"}),
    pair("ba", "1", "b", "a", first_model="y", second_model="x", **{PAIR_SET: "prompt"}),
    pair("dc", "2", "d", "c", first_model="x", second_model="y", **{PAIR_SET: "prompt"}),
    pair("ef", "3", "e", "f", model="x"),
    pair("gh", "4", "g", "h"),
    {"item_id": "other", "kind": "pair", "attributes": [(PAIR, "5"), (FIRST, "x")]},
    {"item_id": "a", "kind": "image", "attributes": [(PAIR, "1"), (FIRST, "a"), (SECOND, "b")]},
]


def tables(name: str, rows: list[dict[str, Any]]) -> Any:
    again = [TableInMemory(name, rows[:1])] if name == "items" else []  # an item may be in several tables
    return [TableInMemory(name, rows), *again]


def test_pairs_with_their_prompt_and_competitors() -> None:
    pairs = read_pairs(tables("items", ITEMS), "model")
    assert pairs is not None
    assert pairs.hashes.tolist() == sorted(hash_texts(["ab", "ba", "dc", "ef", "gh"]).tolist())
    place = np.searchsorted(pairs.hashes, hash_texts(["ab", "ba", "dc", "ef", "gh"]))
    assert pairs.pair[place].tolist() == [0, 0, 1, 2, 3]
    assert pairs.order[place].tolist() == [0, 1, 1, 0, 0]
    assert (pairs.count, pairs.table.group.tolist()) == (4, [0, 0, 1, 2])
    names = [tuple(pairs.table.names[n] if n >= 0 else "" for n in row) for row in pairs.table.competitors.tolist()]
    assert names == [("x", "y"), ("y", "x"), ("x", "x"), ("", "")]
    assert pairs.table.names == ("x", "y")
    assert read_pairs(tables("items", ITEMS[5:]), "model") is None


def answered(item: str, rater: str, value: str | None, **columns: Any) -> dict[str, Any]:
    return rating(item, rater, "better", value, **columns)


def chances(first: float, second: float) -> dict[str, Any]:
    return {"answers": [FIRST, SECOND, "tie"], "probabilities": [first, second, 1 - first - second]}


def metrics(rows: list[dict[str, Any]], *, excluded: ExclusionFilter = NOBODY) -> dict[tuple[str, ...], Any]:
    raters = Raters(KINDS, {}, {}, {})
    results = comparison_metrics(
        tables("ratings", rows), tables("items", ITEMS), raters, competitors="model", exclusion_filter=excluded
    )
    by_key: dict[tuple[str, ...], Any] = {}
    for m in results:
        by_key[m.name, m.dims.get("rater") or m.dims["group"], m.dims.get("by", ""), m.dims.get("condition", "")] = m
    return by_key


def test_pairs_that_people_rated_more_than_once_are_counted_over_both_orders() -> None:
    rows = [*ROWS, answered("ba", "m", FIRST), answered("dc", "p1", None), answered("gh", "p2", None)]
    double = metrics(rows)["pairs_double", "people", "", ""]
    assert (double.value, double.n, double.coverage) == (2, 5, 3 / 5)  # ab and ba, and dc twice
    assert ("pairs_double", "people", "", "") not in metrics(ROWS[:5])


ROWS = [
    answered("ab", "m", FIRST, **chances(0.3, 0.1)),  # item 0 of pair 1
    answered("ba", "m", "tie", **chances(0.4, 0.4)),
    answered("dc", "m", SECOND, **chances(0.0, 0.0)),  # item 0 of pair 2: no probability of either
    answered("gh", "m", None),
    answered("other", "m", FIRST),
    answered("ab", "p1", FIRST),
    answered("ba", "p2", SECOND),
    answered("dc", "p1", "tie"),
]


def test_answers_choose_a_picture_and_probabilities_share_it() -> None:
    by = metrics(ROWS)
    share = by["first_position_share", "m", "", ""]
    assert (share.value, share.n, share.coverage) == ((1 + 0.5 + 0) / 3, 3, 3 / 4)
    people = by["first_position_share", "people", "", ""]
    assert (people.value, people.n, people.coverage) == ((1 + 0 + 0.5) / 3, 3, 1)
    # the model prefers item 0 of both pairs; people choose item 0 twice, and neither
    agreement = by["pair_agreement", "m", "answer", ""]
    assert (agreement.value, agreement.n, agreement.coverage) == ((1 + 1 + 0.5) / 3, 3, 1)
    # item 0 of pair 1: (0.3 / 0.4 + 1 - 0.4 / 0.8) / 2 = 0.625; pair 2 has no probabilities
    probable = by["pair_agreement", "m", "probability", ""]
    assert (probable.value, probable.n, probable.coverage) == (1, 2, 2 / 3)


def test_gold_is_not_a_model_and_answers_alone_have_no_probabilities() -> None:
    by = metrics([answered("ab", "g", FIRST), answered("ab", "n", FIRST), *ROWS[5:]])
    assert {key[1] for key in by} == {"n", "people"}
    assert {key[2] for key in by if key[0] == "pair_agreement"} == {"answer"}


def test_people_without_a_condition_count_under_each() -> None:
    conditions = [
        row | {"condition": name} for name in ("x", "y") for row in ROWS[:2] if row["rater"] == "m"
    ]  # fmt: skip
    by = metrics([*conditions, *ROWS[5:]])
    assert {key[3] for key in by} == {"x", "y"}
    assert [by["pair_agreement", "m", "answer", name].n for name in ("x", "y")] == [2, 2]
    assert {key[3] for key in metrics([*conditions[:2], *ROWS[5:]])} == {""}


def test_excluded_items_do_not_count() -> None:
    by = metrics(ROWS, excluded=ExclusionFilter(frozenset({"ab"})))
    assert by["first_position_share", "m", "", ""].value == pytest.approx((0.5 + 0) / 2)
    assert by["first_position_share", "people", "", ""].n == 2


def test_models_beyond_the_most_have_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "MAX_LINES", 2)
    by = metrics([answered("ab", name, FIRST) for name in ("c", "a", "b", "p1")])
    assert list(dict.fromkeys(key[1] for key in by)) == ["a", "b", "people"]


def test_people_and_models_under_a_condition_share_it() -> None:
    """Only people's answers without a condition count under the others; models' are a separate condition."""
    rows = [answered("ab", "m", FIRST, condition="x"), answered("ab", "p1", FIRST, condition="x")]
    assert {key[1] for key in metrics(rows)} == {"m", "people"}
    both = metrics([*rows, answered("ab", "m", FIRST), answered("ba", "p2", FIRST)])
    assert {key[3] for key in both} == {"", "x"}
    assert [both["first_position_share", "m", "", name].n for name in ("", "x")] == [1, 1]
    assert [both["first_position_share", "people", "", name].n for name in ("", "x")] == [1, 2]
    assert {key[3] for key in metrics([*rows, answered("ba", "p2", FIRST, condition="y")])} == {""}, "y is people's"
    other = metrics([*rows, answered("ab", "n", FIRST)])
    assert {(key[1], key[3]) for key in other if key[0] == "first_position_share"} == {
        ("m", "x"), ("people", "x"), ("n", "")
    }  # fmt: skip
    alone = metrics([answered("ab", "p1", FIRST, condition=name) for name in ("y", "x")])
    assert sorted({(key[1], key[3]) for key in alone}) == [("people", "x"), ("people", "y")]


def test_questions_are_in_order() -> None:
    rows = [answered("ab", "m", FIRST) | {"question": name} for name in "cab"]
    results = comparison_metrics(
        tables("ratings", rows), tables("items", ITEMS), Raters(KINDS, {}, {}, {}), competitors="model",
        exclusion_filter=NOBODY,
    )  # fmt: skip
    assert list(dict.fromkeys(metric.dims["question"] for metric in results)) == ["a", "b", "c"]
