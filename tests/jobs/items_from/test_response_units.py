"""Units of responses: tables put together by their pictures' units, cut into pieces, and read again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.errors import InputError
from jobs.items_from.items_config import ItemsConfig
from jobs.items_from.items_output import ItemsPlan
from jobs.items_from.response_items import (
    NO_RATING,
    QuestionLabels,
    ResponseTables,
    ResponseUnitReader,
    response_plan,
    response_units,
)
from jobs.runtime.configuration.config import load
from jobs.runtime.selection.draws import Draw, DrawConfig
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions
from jobs.store.hashing import hash_texts
from jobs.store.pieces import UnitPieces
from jobs.store.reading import open_table
from jobs.store.units import Unit
from tests.factories import rating, write_table, write_units

OF_TEXT = {"role": "prompt", "language": "de", "date": "1900", "source": "s", "revision": "3", "text": "p"}


def response(name: str, item: str, **columns: Any) -> dict[str, Any]:
    key = {"response_id": name, "item_id": item, "model": "m", "prompt": "p", "condition": "", "sample": 0}
    return {**key, "text": f"{name}.", "status": "ok", **columns}


def tables_of(folder: Path, *tables: Sequence[Sequence[str]], **others: str) -> ResponseTables:
    """Return tables of responses: for each table and unit the ids of the responses, about items of the first letter."""
    sources = [
        open_table(write_units(folder / f"r{n}", "responses", [[response(r, r[0]) for r in names] for names in units]))
        for n, units in enumerate(tables)
    ]
    opened = {name: open_table(uri) for name, uri in others.items()}
    return ResponseTables(sources, opened.get("asked"), opened.get("texts"), [])


def reader_of(tables: ResponseTables, marks: Sequence[str] = (), role: str = "generated") -> ResponseUnitReader:
    return ResponseUnitReader(tables, {}, "everyone", frozenset(marks), role)


def ids(reader: ResponseUnitReader, unit: Unit) -> list[str]:
    rows = reader.read(unit)
    assert rows.rows_in == unit.rows
    names: list[str] = rows.tables["items"].column("item_id").to_pylist()
    return names


def test_units_of_one_name_are_put_together_and_cut(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [["a1", "a2", "b1"], ["c1"]], [["a3", "b2"], [], ["d1"]])
    reader = reader_of(tables)
    for size, expected in (
        (2, [["a1", "a2"], ["b1", "a3"], ["b2"], ["c1"], ["d1"]]),
        (3, [["a1", "a2", "b1"], ["a3", "b2"], ["c1"], ["d1"]]),
        (5, [["a1", "a2", "b1", "a3", "b2"], ["c1"], ["d1"]]),
        (4, [["a1", "a2", "b1", "a3"], ["b2"], ["c1"], ["d1"]]),
    ):
        units = list(response_units(tables, size, {}))
        assert [names for unit in units if (names := ids(reader, unit))] == expected
        assert len({unit.name for unit in units}) == len(units)
    first, second, *_ = response_units(tables, 2, {})
    assert (first.extra, first.piece) == ({"parent": "unit0", "from": 0, "to": 2, "sizes": [3, 2]}, "rows 0-2")
    assert second.extra["from"] == 2
    of_one_table = next(iter(response_units(tables_of(tmp_path / "one", [["a1", "a2", "b1"]]), 2, {})))
    assert (of_one_table.extra["pieces"], of_one_table.extra["number"]) == (2, 0)  # a range of rows of one object
    assert [Path(source.uri).parent.name for source in first.inputs] == ["r0", "r1"]


def test_a_table_that_has_begun_keeps_its_names(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [["a1", "a2", "a3"], ["b1"]])
    plain = list(response_units(tables, 2, {}))
    begun = list(response_units(tables, 2, {"unit0": UnitPieces(3, {1: "mine"})}))
    assert [(unit.name, unit.rows) for unit in begun[:2]] == [(plain[0].name, 2), ("mine", 1)]
    assert (len(begun), begun[2].rows, begun[3].name) == (4, 0, plain[2].name)


def test_items_and_texts_are_those_of_the_unit(tmp_path: Path) -> None:
    """Item a has a text that responses share, one with the role of responses, and one that is absent."""
    item: dict[str, Any] = {"kind": "image", "image_ids": ["p"], "attributes": [("k", "v"), ("model", "x")]}
    items: list[list[dict[str, Any]]] = [
        [{**item, "item_id": "a", "text_ids": ["t", "g", "absent"]}],
        [{**item, "item_id": "b", "text_ids": None}],
    ]
    texts = [
        [{"text_id": "t", **OF_TEXT}, {"text_id": "g", "role": "generated", "text": "old"}],
        [],
    ]
    asked = write_units(tmp_path / "items", "items", items)
    of_texts = write_units(tmp_path / "texts", "texts", texts)
    tables = tables_of(tmp_path, [["a1", "a2", "z1"], ["b1"]], asked=asked, texts=of_texts)
    first, second = response_units(tables, 9, {})
    assert [Path(source.uri).parent.name for source in first.inputs] == ["r0", "items", "texts"]
    assert first.inputs[1].uri.endswith("unit0.parquet")
    read = reader_of(tables).read(first)
    assert read.tables["items"].column("item_id").to_pylist() == ["a1", "a2"]
    assert sorted(read.tables["texts"].column("text").to_pylist()) == ["a1.", "a2.", "p"]
    assert OF_TEXT.items() <= read.tables["texts"].to_pylist()[0].items()
    ((reject),) = read.rejects
    assert (reject.position, reject.reason, reject.raw) == (2, "missing_item", "z1")
    attributes = dict(read.tables["items"].column("attributes").to_pylist()[0])
    assert (attributes["k"], attributes["model"], attributes["picture"]) == ("v", "m", "p")
    assert read.tallies["response_status"] == {"ok": 2}
    other = reader_of(tables, role="prompt").read(first).tables["texts"].to_pylist()
    assert sorted((text["role"], text["text"]) for text in other) == [
        ("generated", "old"), ("prompt", "a1."), ("prompt", "a2."),
    ]  # fmt: skip
    assert reader_of(tables).read(second).tables["items"].num_rows == 1


def test_any_mark_of_a_response_leaves_it_out(tmp_path: Path) -> None:
    items: list[list[dict[str, Any]]] = [
        [{"item_id": "a", "kind": "image", "image_ids": ["p", "q"]}, {"item_id": "b", "kind": "image"}]
    ]
    asked = write_units(tmp_path / "items", "items", items)
    tables = tables_of(tmp_path, [["a1", "b1", "b2"]], asked=asked)
    (unit,) = response_units(tables, 9, {})
    for mark, left in (("q", ["b1", "b2"]), ("a", ["b1", "b2"]), ("b2", ["a1", "b1"]), ("x", ["a1", "b1", "b2"])):
        read = reader_of(tables, [mark]).read(unit)
        assert read.tables["items"].column("item_id").to_pylist() == left
        assert read.filtered == ({"excluded": 3 - len(left)} if len(left) < 3 else {})
        assert read.tallies.get("exclusions") == ({mark: 3 - len(left)} if len(left) < 3 else None)
    missing = dict.fromkeys(("prompt", "sample", "condition", "finish_reason", "refusal_kind"))
    responses = [response("a1", "a", **missing) | {"text": None}, response("a2", "a", **missing) | {"text": ""}]
    items_before, texts, *_ = reader_of(tables).rows(unit, responses, ExclusionFilter(frozenset()))
    assert (len(items_before), texts) == (2, {})


def test_a_piece_is_joined_with_the_unit_that_it_is_a_piece_of(tmp_path: Path) -> None:
    """The items are in whole units; other units than its own are not read."""
    items: list[list[dict[str, Any]]] = [[{"item_id": name, "kind": "image"}] for name in "ab"]
    asked = write_units(tmp_path / "items", "items", items)
    tables = tables_of(tmp_path, [["a1"], ["b1"]], asked=asked)
    (table,) = tables.responses
    footers = [
        SimpleNamespace(object=footer.object, rows=footer.rows, unit=replace(
            footer.unit, name=f"piece-{footer.unit.name}", extra={"parent": footer.unit.name}))
        for footer in table.footers
    ]  # fmt: skip
    pieces: Any = SimpleNamespace(footers=footers)
    units = list(response_units(replace(tables, responses=[pieces]), 9, {}))
    assert [Path(unit.inputs[1].uri).stem for unit in units] == ["unit0", "unit1"]


def test_texts_of_responses_that_are_not_drawn_are_left_out(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [["a1", "b1", "b2"]])
    (unit,) = response_units(tables, 9, {})
    reader = reader_of(tables)
    reader.draw, reader.drawn = Draw(DrawConfig(n=1), "items"), {unit.name: np.array([False, True, True])}
    read = reader.read(unit)
    assert read.tables["items"].column("item_id").to_pylist() == ["b1", "b2"]
    assert read.tables["texts"].column("text").to_pylist() == ["b1.", "b2."]
    assert (read.rows_in, dict(read.filtered)) == (3, {"draw": 1})
    reader.drawn = {unit.name: np.ones(3, bool)}
    assert dict(reader.read(unit).filtered) == {}


def test_an_item_of_several_pictures_has_its_own_label_only(tmp_path: Path) -> None:
    """An item of one picture has that picture's label, unless it has its own."""
    items: list[list[dict[str, Any]]] = [
        [{"item_id": name, "kind": "image", "image_ids": ids} for name, ids in (("a", "pq"), ("b", "p"), ("c", "p"))]
    ]
    asked = write_units(tmp_path / "items", "items", items)
    tables = tables_of(tmp_path, [["a1", "b1", "c1"]], asked=asked)
    (unit,) = response_units(tables, 9, {})
    hashes = hash_texts(["p", "c"])
    order = np.argsort(hashes)
    labels = {"mood": QuestionLabels(hashes[order], np.array([0, 1], np.int16)[order], ("sad", "gay"))}
    read = ResponseUnitReader(tables, labels, "everyone", frozenset()).read(unit)
    attributes = map(dict, read.tables["items"].column("attributes").to_pylist())
    assert [of_item["mood"] for of_item in attributes] == [NO_RATING, "sad", "gay"]


def test_a_reject_of_a_later_unit_has_its_place_among_all_responses(tmp_path: Path) -> None:
    asked = write_units(tmp_path / "items", "items", [[{"item_id": "a", "kind": "image"}]])
    tables = tables_of(tmp_path, [["a1", "a2", "a3", "z1"]], asked=asked)
    _, second = response_units(tables, 2, {})
    (reject,) = reader_of(tables).read(second).rejects
    assert (reject.position, reject.raw) == (3, "z1")


def test_a_plan_depends_on_the_tables_whatever_their_order(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [["a1", "a2"], ["b1"]], [["a3"], ["b2"]])
    kinds = [rating(item, "p1", "kind", "event") for item in "ab"]
    labels = [write_table(tmp_path / name, "ratings", [row]) for name, row in zip("kl", kinds, strict=True)]
    asked = write_table(tmp_path / "asked", "items", [{"item_id": "a", "kind": "image"}])
    texts = write_table(tmp_path / "texts", "texts", [])

    def planned(*keys: str, turned: bool = False) -> tuple[ItemsPlan, list[str]]:
        order = -1 if turned else 1
        places = [f"responses={[table.uri for table in tables.responses][::order]}", f"labels={labels[::order]}"]
        cfg = load("items", ItemsConfig, [*places, f"out={tmp_path}/R", *keys])
        with response_plan(cfg, Exclusions()) as plan:
            return plan, [unit.version for unit in plan.units]

    keys = [f"input_items={asked}", f"texts={texts}", "labels_by=people", "role=prompt", "unit_rows=2", "condition=c"]
    plan, versions = planned(*keys)
    keyed = {"label_questions": ["kind"], "labels_by": "people", "unit_rows": 2, "role": "prompt"}
    assert plan.identity | keyed == plan.identity
    assert set(plan.identity) == {
        "responses", "items", "texts", "labels", "label_questions", "labels_by", "unit_rows", "role"
    }  # fmt: skip
    assert [len(plan.identity[name]) for name in ("responses", "labels")] == [2, 2]
    assert (plan.condition, plan.derived, plan.limit, plan.metadata) == ("c", True, None, {"labels_by": "people"})
    turned, versions_of_turned = planned(*keys, turned=True)
    assert (turned.identity, versions_of_turned) == (plan.identity, versions)
    plain, _ = planned("labels=[]", "limit=9")
    assert set(plain.identity) == {"responses", "unit_rows", "limit"}
    assert (str(plain.limit), plain.metadata) == ("limit=9: the first 5 of 5 responses", {})
    some, _ = planned("limit=2")
    assert str(some.limit) == "limit=2: the first 2 of 5 responses"
    assert [some.read(unit).rows_in for unit in some.units] == [2]
    for name in ("finish_reason", "picture", "response_status", "labels_by"):
        taken = write_table(tmp_path / name, "ratings", [rating("a", "p1", name, "event")])
        with pytest.raises(InputError, match=f"the question {name} has the name of another attribute"):
            planned(f"labels=[{taken}]")
    drawn, _ = planned("draw.n=1")
    assert set(drawn.identity) > {"responses", "labels", "unit_rows"}
    assert drawn.lines == ["drew 1 of 2 pictures"]
