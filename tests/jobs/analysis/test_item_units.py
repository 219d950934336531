"""The independent unit of an item: its pictures, its own id, or the value of an attribute."""

from typing import Any

import numpy as np
import pytest

from jobs.analysis.item_units import IndependentUnits, read_units
from jobs.errors import InputError
from jobs.store.hashing import hash_texts
from tests.factories import TableInMemory

ITEMS: list[dict[str, Any]] = [
    {"item_id": "a", "image_ids": ["p", "q"], "attributes": [("prompt", "x")]},
    {"item_id": "b", "image_ids": ["q", "p"], "attributes": [("prompt", "y")]},
    {"item_id": "c", "image_ids": ["p"], "attributes": [("prompt", "x")]},
    {"item_id": "d", "image_ids": [], "attributes": []},
    {"item_id": "e", "image_ids": None, "attributes": None},
    {"item_id": "r", "image_ids": ["p"], "response_id": "r2", "attributes": None},
]
RESPONSES: list[dict[str, Any]] = [
    {"response_id": name, "item_id": item} for name, item in (("r1", "c"), ("r2", "d"), ("r3", "unknown"))
]


def groups(units: IndependentUnits, names: str) -> set[frozenset[str]]:
    """Return the sets of items that are one unit."""
    items = names.split()
    of_items = units.of(hash_texts(items)).tolist()
    return {frozenset(item for item, unit in zip(items, of_items, strict=True) if unit == one) for one in of_items}


def together(*names: str) -> set[frozenset[str]]:
    return {frozenset(of_unit.split()) for of_unit in names}


def read(attribute: str | None = None) -> IndependentUnits:
    items: Any = TableInMemory("items", ITEMS)
    responses: Any = TableInMemory("responses", RESPONSES)
    return read_units([items], [responses], attribute)


def test_items_about_the_same_pictures_are_one_unit() -> None:
    """A response belongs to the picture that it is about, also one that is not in items."""
    units = read()
    assert groups(units, "a b c d e r r1 r2 r3 unknown other") == together(
        "a b", "c r r1 r2", "d", "e", "r3 unknown", "other"
    )
    assert units.name == "pictures"


def test_an_attribute_replaces_the_picture_where_it_has_a_value() -> None:
    units = read("prompt")
    assert groups(units, "a b c d r r1") == together("a c r1", "b", "d", "r")
    assert units.name == "values of prompt"
    with pytest.raises(InputError, match=r"metrics\.unit=scene"):
        read("scene")


def test_pairs_of_a_prompt_are_one_unit() -> None:
    """They share their pictures, and a pair in the other order is the same pair."""
    rows: list[dict[str, Any]] = [
        {"item_id": name, "image_ids": pictures.split(), "attributes": [("pair_set", prompt), ("era", "old")]}
        for name, pictures, prompt in (("ab", "a b", "x"), ("ba", "b a", "x"), ("bc", "b c", "x"), ("de", "d e", "y"))
    ]
    items: Any = TableInMemory("items", [*rows, {"item_id": "a", "image_ids": ["a"]}])
    units = read_units([items], [], None)
    assert groups(units, "ab ba bc de a") == together("ab ba bc", "de", "a")
    names = [units.name_of(hash_texts(rated.split())) for rated in ("ab de", "a", "ab a", "unknown")]
    assert names == ["prompts", "pictures", "pictures", "pictures"]
    by_era = read_units([items], [], "era")
    assert groups(by_era, "ab de a") == together("ab de", "a")
    assert by_era.name_of(hash_texts(["ab"])) == "values of era"


def test_without_tables_each_item_is_a_unit() -> None:
    units = read_units([], [], None)
    hashes = hash_texts(["a", "b"])
    assert np.array_equal(units.of(hashes), hashes)
    assert units.name == "items"
