"""The plan of pairs: groups, orders, units and the printed lines, without a run."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.items_from.output import ItemsPlan
from jobs.items_from.pairs import open_sources, read_plan
from jobs.judging.condition import METADATA
from jobs.runtime.selection.exclusions import Exclusions, marks_of
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
        context = read_plan(sources, by=by, orders=orders, unit_rows=unit_rows, excluded=listed, **more)
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
    sources = sources._replace(items=replace(sources.items, metadata={METADATA: "article"}))
    with read_plan(sources, by="prompt", orders="both", unit_rows=9, excluded=Exclusions()) as plan:
        assert plan.condition == "article"


def test_without_a_pair_the_message_names_the_reasons(plans: Any) -> None:
    with pytest.raises(InputError, match=re.escape("has one item of each of the 2 values")):
        plans([[item("a", "x"), item("b", "y"), item("c", None)]])
    rows = [item("a", None), item("b", None), item("c", "x", pictures=["p", "q"])]
    with pytest.raises(InputError, match=re.escape("can be paired (1 not exactly one picture, 2 without prompt)")):
        plans([rows])
    with pytest.raises(InputError, match=re.escape("can be paired (no rows)")):
        plans([[]])
