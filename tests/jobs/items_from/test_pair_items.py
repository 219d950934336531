"""The plan of pairs: groups, orders, units and the printed lines, without a run."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.items_from import pair_items
from jobs.items_from.items_output import ItemsPlan
from jobs.items_from.pair_items import NumberedPairs, open_sources, pair_count, pair_item, pair_plan
from jobs.judging.model_config import CONDITION
from jobs.runtime.selection.exclusions import Exclusions, marks_of
from jobs.store.pieces import FROM, TO
from jobs.store.units import Unit
from tests.factories import write_table, write_units


def item(name: str, prompt: str | None, *, pictures: Sequence[str] | None = None, **columns: Any) -> dict[str, Any]:
    attributes = [] if prompt is None else [("prompt", prompt)]
    return {
        "item_id": name,
        "kind": "image",
        "image_ids": [f"p-{name}"] if pictures is None else list(pictures),
        "text_ids": [],
        "attributes": attributes,
        **columns,
    }


@pytest.fixture
def plans(tmp_path: Path) -> Iterator[Any]:
    """Return a function from items, in units, to the plan of their pairs."""
    opened: list[Any] = []

    def plan(
        units: Sequence[Sequence[dict[str, Any]]],
        *,
        texts: Sequence[dict[str, Any]] | None = None,
        by: str = "prompt",
        orders: str = "both",
        unit_rows: int = 100,
        excluded: Sequence[str] = (),
        **more: Any,
    ) -> ItemsPlan:
        number = len(opened)
        items = write_units(tmp_path / f"items{number}", "items", units)
        table = None if texts is None else write_table(tmp_path / f"texts{number}", "texts", texts)
        sources = open_sources(items, table)
        listed = Exclusions(tuple(excluded), tuple(map(marks_of, excluded)))
        context = pair_plan(sources, by=by, orders=orders, unit_rows=unit_rows, excluded=listed, **more)
        opened.append(context)
        return context.__enter__()

    yield plan
    for context in opened:
        context.__exit__(None, None, None)


def pairs_of(plan: ItemsPlan) -> list[list[tuple[str, str]]]:
    """Return the pairs of each unit."""
    units = [plan.read(unit).tables["items"].column("attributes").to_pylist() for unit in plan.units]
    return [[(dict(row)["first"], dict(row)["second"]) for row in rows] for rows in units]


def test_the_lines_count_groups_and_why_items_are_in_no_pair(plans: Any) -> None:
    names = [("a", "arena"), ("b", "arena"), ("c", "baths"), ("d", "baths"), ("e", "forum"), ("f", "forum")]
    rows = [*(item(*name) for name in names), *(item(f"v{n}", "villa") for n in range(4))]
    rows += [item("alone 1", "circus"), item("alone 2", "temple"), item("alone 3", "tomb")]
    rows += [item("none", "arena", pictures=[]), item("two", "arena", pictures=["p", "q"])]
    rows += [item("null", "arena", image_ids=None)]
    rows += [item("unnamed 1", None), item("unnamed 2", ""), item("out 1", "arena"), item("out 2", None)]
    plan = plans([rows[:5], rows[5:]], excluded=["p-out 1", "out 2"])
    assert list(plan.lines) == [
        "9 pairs, each in both orders; values of prompt: 3 with 2 items, 1 with 4 items",
        "not paired: 2 items (excluded), 3 items (not exactly one picture), 3 items (the only one of their prompt), "
        "2 items (without prompt)",
    ]
    assert plan.matched == {"p-out 1": 1, "out 2": 1}
    assert plans([rows[:2]], orders="one").lines == ["1 pair, each in one order; values of prompt: 1 with 2 items"]


def test_units_end_with_a_whole_pair(plans: Any) -> None:
    """Four items are six pairs, which follow the order of the items."""
    rows = [item(name, "x") for name in "badc"]
    both = [[("b", "a"), ("a", "b")], [("b", "d"), ("d", "b")], [("b", "c"), ("c", "b")]]
    both += [[("a", "d"), ("d", "a")], [("a", "c"), ("c", "a")], [("d", "c"), ("c", "d")]]
    assert pairs_of(plans([rows], unit_rows=1)) == pairs_of(plans([rows], unit_rows=2)) == both
    assert pairs_of(plans([rows], unit_rows=3)) == [both[i] + both[i + 1] for i in (0, 2, 4)]
    assert [len(rows) for rows in pairs_of(plans([rows], unit_rows=5))] == [6, 6]
    one = plans([rows], orders="one", unit_rows=4)
    assert [unit.rows for unit in one.units] == [4, 2]
    assert len({unit.name for unit in one.units}) == 2
    assert [len(pairs) for pairs in pairs_of(plans([rows], orders="one", unit_rows=3))] == [3, 3]


def test_the_one_order_depends_on_the_items_only(plans: Any) -> None:
    rows = [item(f"i{n:02}", "x") for n in range(12)]
    (forward,) = pairs_of(plans([rows], orders="one"))
    (backward,) = pairs_of(plans([rows[::-1]], orders="one"))
    assert sorted(forward) == sorted(backward)
    assert len({frozenset(pair) for pair in forward}) == len(forward) == 66
    ascending = sum(first < second for first, second in forward)
    assert 20 < ascending < 46
    expected = [int(content_id("order", *sorted(pair)), 16) & 1 for pair in forward]
    assert [first < second for first, second in forward] == list(map(bool, expected))


def test_a_continued_table_keeps_the_names_of_its_units(plans: Any) -> None:
    rows = [item(name, "x") for name in "abc"]
    whole = plans([rows], unit_rows=2)
    names = [unit.name for unit in whole.units]
    begun = [replace(unit, name=name) for unit, name in zip(whole.units, ("first", "second", "third"), strict=True)]
    fewer = plans([rows], unit_rows=2, begun=begun[:1])
    assert [unit.name for unit in fewer.units] == ["first", *names[1:]]
    assert {unit.piece for unit in fewer.units} == {unit.piece for unit in whole.units}
    more = plans([rows[:2]], unit_rows=2, begun=begun)
    assert [(unit.name, unit.rows) for unit in more.units] == [("first", 2), ("second", 0), ("third", 0)]
    assert more.units[0].piece != begun[0].piece, "it has another pair, so it is written again"


def test_a_complete_table_keeps_the_pairs_that_a_purge_left(plans: Any) -> None:
    """Without b, units of two pairs of ab, ac, ad, bc, bd, cd have 1, 1 and 1."""
    rows = [item(name, "x") for name in "abcd"]
    begun = plans([rows], unit_rows=4).units
    left = [row for row in rows if row["item_id"] != "b"]
    sizes = {unit.name: 2 for unit in begun}
    purged = plans([left], unit_rows=4, begun=begun, rows_of=sizes)
    assert [(unit.name, unit.piece, unit.rows) for unit in purged.units] == [
        (unit.name, unit.piece, 2) for unit in begun
    ]
    assert pairs_of(purged) == [[("a", "c"), ("c", "a")], [("a", "d"), ("d", "a")], [("c", "d"), ("d", "c")]]
    for unknown in ({}, {begun[0].name: 2}, {**sizes, begun[0].name: 4}):  # units are missing, or have other pairs
        anew = plans([left], unit_rows=4, begun=begun, rows_of=unknown)
        assert [unit.rows for unit in anew.units] == [4, 2, 0], unknown
        assert {unit.piece for unit in anew.units}.isdisjoint(unit.piece for unit in begun), unknown
    trial = plans([left], unit_rows=4, begun=begun[:1], rows_of={begun[0].name: 2}, limit=2)
    assert [(unit.name, unit.rows) for unit in trial.units] == [(begun[0].name, 4)]
    assert trial.units[0].piece != begun[0].piece, "another pair takes the place of the removed one"


def test_the_list_of_units_has_no_ids_of_items(plans: Any) -> None:
    units = plans([[item(name, "x") for name in ("item-a", "item-b")]]).units
    assert "item-" not in str([unit.to_json() for unit in units])


def test_an_attribute_comes_before_the_texts_of_that_role(plans: Any) -> None:
    """a and b share the attribute; c and d the two texts of the role in their order; e has them in another order."""
    rows = [
        item("a", "x", text_ids=["one"]),
        item("b", "x", text_ids=["two"]),
        item("c", None, text_ids=["one", "note", "two", "absent"]),
        item("d", "", text_ids=["one", "two"]),
        item("e", None, text_ids=["two", "one"]),
        item("f", None, text_ids=None, attributes=None),
    ]
    texts = [{"text_id": name, "role": "prompt", "text": f"{name}."} for name in ("one", "two")]
    texts.append({"text_id": "note", "role": "note", "text": "of c"})
    plan = plans([rows], texts=texts, orders="both")
    assert pairs_of(plan) == [[("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]]
    assert plan.lines[1] == "not paired: 1 item (the only one of their prompt), 1 item (without prompt)"
    read = plan.read(plan.units[0])
    assert read.rows_in == 4
    assert read.tables["items"].column("item_id").to_pylist() == [
        content_id("pair", *pair) for pair in pairs_of(plan)[0]
    ]
    sets = [dict(row)["pair_set"] for row in read.tables["items"].column("attributes").to_pylist()]
    assert sets == [content_id("set", "x")] * 2 + [content_id("set", "one.\n\ntwo.")] * 2
    assert read.tables["texts"].column("text").to_pylist() == ["one.", "two."] * 2


def test_the_identity_names_what_changes_the_rows(plans: Any) -> None:
    rows, texts = [item(name, "x") for name in "abc"], [{"text_id": "t", "role": "prompt", "text": "x"}]
    plain, whole = plans([rows]), plans([rows], texts=texts, orders="one", unit_rows=7, limit=2)
    assert {key: value for key, value in plain.identity.items() if key != "items"} == {
        "by": "prompt", "orders": "both", "unit_rows": 100,
    }  # fmt: skip
    assert set(whole.identity) == {"items", "texts", "by", "orders", "unit_rows", "limit"}
    assert (whole.identity["orders"], whole.identity["unit_rows"], whole.identity["limit"]) == ("one", 7, 2)
    assert [len(unit.inputs) for unit in (plain.units[0], whole.units[0])] == [1, 2]
    assert (plain.limit, whole.limit.rows, whole.limit.total) == (None, 2, 3)
    assert (plain.derived, plain.condition) == (True, "")


def test_pairs_have_the_condition_of_their_items(tmp_path: Path) -> None:
    sources = open_sources(write_table(tmp_path / "t", "items", [item(name, "x") for name in "ab"]), None)
    sources = sources._replace(items=replace(sources.items, metadata={CONDITION: "article"}))
    with pair_plan(sources, by="prompt", orders="both", unit_rows=9, excluded=Exclusions()) as plan:
        assert plan.condition == "article"


def test_without_a_pair_the_message_names_the_reasons(plans: Any) -> None:
    with pytest.raises(InputError, match=re.escape("has one item of each of the 2 values")):
        plans([[item("a", "x"), item("b", "y"), item("c", None)]])
    rows = [item("a", None), item("b", None), item("c", "x", pictures=["p", "q"])]
    with pytest.raises(InputError, match=re.escape("can be paired (1 not exactly one picture, 2 without prompt)")):
        plans([rows])
    with pytest.raises(InputError, match=re.escape("can be paired (no rows)")):
        plans([[]])


FIRST = {
    "item_id": "b", "image_ids": ["i1"], "text_ids": ["t1", "t2", "gone"],
    "attributes": [("prompt", "a dog"), ("model", "x"), ("seed", "1")],
}  # fmt: skip
SECOND = {
    "item_id": "a", "image_ids": ["i2"], "text_ids": ["t3", "t4"],
    "attributes": [("prompt", "a dog"), ("model", "y"), ("size", "2")],
}  # fmt: skip
TEXTS = {
    "t1": {"role": "prompt", "language": "en", "text": "a dog"},
    "t2": {"role": "note", "language": "en", "text": "big"},
    "t3": {"role": "prompt", "language": "en", "text": "a dog"},
    "t4": {"role": "note", "language": "de", "text": "big"},
}


def test_a_pair_has_what_both_items_share_once_and_what_differs_by_place() -> None:
    item, texts = pair_item(FIRST, SECOND, TEXTS, "a dog")
    assert (item["item_id"], item["kind"], item["image_ids"]) == (content_id("pair", "b", "a"), "pair", ["i1", "i2"])
    assert [{**text, "text_id": ""} for text in texts] == [
        {"text_id": "", "role": "prompt", "language": "en", "source": item["item_id"], "text": "a dog"}
    ]
    assert item["text_ids"] == [text["text_id"] for text in texts]
    attributes = dict(item["attributes"])
    pair, pair_set = attributes.pop("pair"), attributes.pop("pair_set")
    assert attributes == {
        "prompt": "a dog", "first_model": "x", "second_model": "y", "first_seed": "1", "second_size": "2",
        "first": "b", "second": "a",
    }  # fmt: skip
    turned, other_texts = pair_item(SECOND, FIRST, TEXTS, "a dog")
    assert (dict(turned["attributes"])["pair"], dict(turned["attributes"])["pair_set"]) == (pair, pair_set)
    assert turned["item_id"] != item["item_id"]
    assert {text["text_id"] for text in texts}.isdisjoint(text["text_id"] for text in other_texts)
    assert dict(pair_item(FIRST, SECOND, TEXTS, "a cat")[0]["attributes"])["pair_set"] != pair_set


GROUPS = [list("abcde"), ["x"], [], list("fg"), list("hijk")]


@pytest.mark.parametrize("orders", ["both", "one"])
def test_any_range_of_pairs_is_that_of_the_whole_list(orders: str) -> None:
    pairs = NumberedPairs(GROUPS, orders=orders)
    whole = [pair for ids in GROUPS for pair in combinations(ids, 2)]
    assert pairs.count == pairs.without_limit == len(whole) == sum(pair_count(len(ids)) for ids in GROUPS)
    for first in range(len(whole) + 1):
        for last in range(first, len(whole) + 1):
            ordered = list(pairs.ordered(first, last))
            assert len(ordered) == (last - first) * pairs.rows_per_pair
            assert [frozenset(pair) for pair in ordered[:: pairs.rows_per_pair]] == [
                frozenset(pair) for pair in whole[first:last]
            ]
            if orders == "both":
                assert ordered[1::2] == [(second, first) for first, second in ordered[::2]]


def test_a_limit_counts_pairs() -> None:
    assert (
        NumberedPairs(GROUPS, orders="both", limit=3).count,
        NumberedPairs(GROUPS, orders="one", limit=99).count,
    ) == (3, 17)
    assert NumberedPairs([], orders="one").count == 0


def units_of(begun: list[Unit], rows_of: dict[str, int], unit_rows: int = 7) -> list[tuple[str, int | None, int, int]]:
    """Return name, rows and range of pairs of each unit of 17 pairs in both orders."""
    units = list(pair_items._units(NumberedPairs(GROUPS, orders="both"), (), unit_rows, begun, rows_of))
    return [(unit.name, unit.rows, unit.extra[FROM], unit.extra[TO]) for unit in units]


def test_units_of_whole_pairs_cover_all_and_a_begun_table_keeps_its_names() -> None:
    fresh = units_of([], {})
    assert [entry[1:] for entry in fresh] == [(8, 0, 4), (8, 4, 8), (8, 8, 12), (8, 12, 16), (2, 16, 17)]
    assert len({name for name, *_ in fresh}) == 5
    begun = [Unit(f"n{number}", ()) for number in range(7)]
    assert units_of(begun, {}) == [
        *((f"n{number}", *entry[1:]) for number, entry in enumerate(fresh)), ("n5", 0, 17, 17), ("n6", 0, 17, 17)
    ]  # fmt: skip
    assert units_of(begun[:2], {}) == [("n0", 8, 0, 4), ("n1", 8, 4, 8), *fresh[2:]]


def test_a_complete_table_keeps_the_rows_of_its_units() -> None:
    begun = [Unit("a", (), "first"), Unit("b", (), "second")]
    assert units_of(begun, {"a": 10, "b": 24}) == [("a", 10, 0, 5), ("b", 24, 5, 17)]
    for rows_of in ({"a": 34}, {"a": 10, "b": 22}):  # incomplete, and other pairs
        assert [entry[1] for entry in units_of(begun, rows_of)] == [8, 8, 8, 8, 2]
