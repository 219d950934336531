"""The job `pairs`, through its command line."""

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import pairs
from jobs.items_from.items_output import ItemsPlan, UnitRows
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from jobs.store.units import Unit
from tests.cases import check_cases
from tests.factories import rows_of, trials_below, write_table, write_units

ITEMS = [
    ("a1", "arena", "dalle", ["pa1"]),
    ("b1", "baths", "dalle", ["pb1"]),
    ("a2", "arena", "flux", ["pa2"]),
    ("a3", "arena", "flux", ["pa3"]),
    ("b2", "baths", "flux", ["pb2"]),
    ("c1", "circus", "flux", ["pc1"]),
    ("x", "arena", "flux", ["p", "q"]),
]


def item(name: str, prompt: str, model: str, pictures: list[str]) -> dict[str, Any]:
    return {
        "item_id": name,
        "kind": "image",
        "image_ids": pictures,
        "text_ids": [f"t-{name}", f"n-{name}"],
        "attributes": [("scenario", "triumph"), ("model", model)],
    }


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    rows = [item(*columns) for columns in ITEMS]
    texts = [
        {"text_id": f"{kind}-{name}", "role": role, "language": "en", "text": text}
        for name, prompt, *_ in ITEMS
        for kind, role, text in (("t", "prompt", prompt), ("n", "note", f"of {name}"))
    ]
    items = write_units(tmp_path / "items", "items", [rows[:3], rows[3:]], condition="drawn")
    return [f"input={items}", f"texts={write_table(tmp_path / 'texts', 'texts', texts)}", f"out={tmp_path}/R"]


def pairs_of(tmp_path: Path) -> list[dict[str, Any]]:
    rows = rows_of(f"{tmp_path}/R/items")
    return [row | {"attributes": dict(row["attributes"])} for row in rows]


def test_each_pair_of_a_prompt_in_both_orders(
    tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main("pairs", [*keys, "unit_rows=4"]) == 0
    assert [footer.rows for footer in open_table(f"{tmp_path}/R/items").footers] == [4, 4]
    rows = pairs_of(tmp_path)
    orders = [(row["attributes"]["first"], row["attributes"]["second"]) for row in rows]
    unordered = [("a1", "a2"), ("a1", "a3"), ("a2", "a3"), ("b1", "b2")]
    assert sorted(orders) == sorted([*unordered, *((second, first) for first, second in unordered)])
    by_order = dict(zip(orders, rows, strict=True))
    pair, turned = by_order["a1", "a2"], by_order["a2", "a1"]
    assert (pair["kind"], pair["image_ids"], turned["image_ids"]) == ("pair", ["pa1", "pa2"], ["pa2", "pa1"])
    assert pair["attributes"] == {
        "scenario": "triumph",
        "first_model": "dalle",
        "second_model": "flux",
        "pair": turned["attributes"]["pair"],
        "pair_set": turned["attributes"]["pair_set"],
        "first": "a1",
        "second": "a2",
    }
    assert len({row["attributes"]["pair_set"] for row in rows}) == 2
    assert by_order["a2", "a3"]["attributes"]["model"] == "flux"
    assert len({row["attributes"]["pair"] for row in rows}) == 4
    assert len({row["item_id"] for row in rows}) == 8
    texts = {row["text_id"]: row for row in rows_of(f"{tmp_path}/R/texts")}
    assert [[(texts[name]["role"], texts[name]["text"]) for name in row["text_ids"]] for row in (pair, turned)] == [
        [("prompt", "arena")]  # the notes of the two items differ
    ] * 2
    source = open_table(f"{tmp_path}/R/items")
    assert (len(source.footers), source.metadata["remine.condition"]) == (2, "drawn")
    assert {f.unit.name for f in source.footers} == {f.unit.name for f in open_table(f"{tmp_path}/R/texts").footers}
    printed = capsys.readouterr().out
    assert "4 pairs, each in both orders; values of prompt: 1 with 2 items, 1 with 3 items" in printed
    assert "not paired: 1 item (not exactly one picture), 1 item (the only one of their prompt)" in printed
    assert cli.main("pairs", [*keys, "unit_rows=4"]) == 0
    assert "2 done before" in capsys.readouterr().out


def test_one_order_is_one_of_the_two(tmp_path: Path, keys: list[str]) -> None:
    assert cli.main("pairs", keys) == 0
    both = {row["item_id"]: row["attributes"]["pair"] for row in pairs_of(tmp_path)}
    assert cli.main("pairs", [*keys, "orders=one", "overwrite=true"]) == 0
    one = {row["item_id"]: row["attributes"]["pair"] for row in pairs_of(tmp_path)}
    assert one.items() < both.items()
    assert sorted(one.values()) == sorted(set(both.values()))


def test_by_an_attribute_without_texts_and_with_exclusions(tmp_path: Path, keys: list[str]) -> None:
    (tmp_path / "out.txt").write_text("pa1\nb1\n")
    assert cli.main("pairs", [keys[0], keys[2], "by=model", f"exclusions={tmp_path}/out.txt"]) == 0
    rows = pairs_of(tmp_path)
    assert {row["attributes"]["model"] for row in rows} == {"flux"}
    assert len(rows) == 4 * 3
    assert open_table(f"{tmp_path}/R/texts").rows == 0


def test_refused(tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        (
            ["by=nothing"],
            "by=nothing: no item of .*1 not exactly one picture, 6 without nothing",
        ),
        (["orders=two"], "orders=two: must be one of both, one"),
        (["unit_rows=0"], "unit_rows=0: must be at least 1"),
        (["by=note"], "by=note: .* one item of each of the 6 values"),
    ]

    def check(arguments: list[str], message: str) -> None:
        assert cli.main("pairs", [*keys, *arguments]) == 2
        assert re.search(message, capsys.readouterr().err)
        assert not (tmp_path / "R").exists()

    check_cases(check, cases)


def test_a_limit_takes_the_first_pairs_in_both_orders(
    tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main("pairs", keys) == 0
    whole = [row["item_id"] for row in pairs_of(tmp_path)]
    assert cli.main("pairs", [*keys[:2], f"out={tmp_path}/T/R", "limit=3", "unit_rows=4"]) == 0
    rows = pairs_of(tmp_path / "T")
    assert {frozenset(row["image_ids"]) for row in rows} == {
        frozenset(pair) for pair in (("pa1", "pa2"), ("pa1", "pa3"), ("pa2", "pa3"))
    }
    assert len(rows) == 6
    assert {row["item_id"] for row in rows} < set(whole)
    assert "limit=3: the first 3 of 4 pairs" in capsys.readouterr().out
    assert cli.main("pairs", [*keys[:2], f"out={tmp_path}/T/S", "limit=3"]) == 0
    assert cli.main("pairs", [*keys[:2], f"out={tmp_path}/T/U", "limit=9"]) == 0
    assert "limit=9: the first 4 of 4 pairs" in capsys.readouterr().out
    assert len(rows_of(f"{tmp_path}/T/U/items")) == 8
    shutil.rmtree(tmp_path / "T" / "U")
    assert trials_below(tmp_path) == {f"T/S/{name}": f"R/{name}" for name in ("items", "texts")}
    assert cli.main("pairs", [*keys, "unit_rows=2", "overwrite=true"]) == 0
    assert [footer.rows for footer in open_table(f"{tmp_path}/R/items").footers] == [2] * 4
    assert cli.main("pairs", [*keys, "limit=3"]) == 2
    assert cli.main("pairs", [*keys, "limit=0"]) == 2


def test_a_table_that_has_begun_keeps_its_units_unless_it_is_overwritten(
    tmp_path: Path, keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main("pairs", [*keys, "unit_rows=4"]) == 0
    names = [footer.unit.name for footer in open_table(f"{tmp_path}/R/items").footers]
    asked: list[tuple[list[str], dict[str, int]]] = []

    @contextlib.contextmanager
    def pair_plan(_: Any, *, begun: list[Unit], rows_of: dict[str, int], **more: Any) -> Iterator[ItemsPlan]:
        asked.append(([unit.name for unit in begun], rows_of))
        yield ItemsPlan([], {}, lambda _: UnitRows({}, 0))

    monkeypatch.setattr(pairs.pair_items, "pair_plan", pair_plan)
    monkeypatch.setattr(pairs.items_output, "write", lambda *_, **__: None)
    for more in ([], ["overwrite=true"], [f"out={tmp_path}/new", "unit_rows=1"]):
        cli.execute("pairs", [*keys, *more])
    assert asked == [(names, dict.fromkeys(names, 4)), ([], {}), ([], {})]
