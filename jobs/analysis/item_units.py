"""The independent unit of each rated item: its picture, or the value of an attribute that `metrics.unit` names."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from jobs.errors import InputError
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

PICTURES = "pictures"


@dataclass(frozen=True)
class IndependentUnits:
    """The unit of each item that is not its own.

    Attributes:
        items: uint64[n], hashes of item ids, ascending; units: uint64[n], the hash of each item's unit.
        name: what the units are, in the plural.
    """

    items: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    units: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    name: str = "items"

    def of(self, items: Hashes) -> Hashes:
        """Return uint64[items], the unit of each item; an unknown item is its own unit."""
        if not len(self.items):
            return items
        place = np.minimum(np.searchsorted(self.items, items), len(self.items) - 1)
        return np.where(self.items[place] == items, self.units[place], items)


def read_units(
    items: Sequence[TableSource], responses: Sequence[TableSource], attribute: str | None
) -> IndependentUnits:
    """Return the units of the items in tables `items` and `responses`.

    A unit is the item's pictures, whatever their order; without pictures it is the item. With `attribute`, it is the
    value of that attribute, in items that have one. A response belongs to the unit of the item that it is about.

    Raises:
        InputError: no item has the attribute.
    """
    unit_of: dict[str, str] = {}
    has_attribute = False
    for source in items:
        for batch in source.batches(["item_id", "response_id", "image_ids", "attributes"]):
            for row in batch.to_pylist():
                value = dict(row["attributes"] or ()).get(attribute or "")
                has_attribute |= value is not None
                pictures = " ".join(sorted(row["image_ids"] or ()))
                unit = row["item_id"] if value is None and not pictures else pictures if value is None else f"={value}"
                unit_of[row["item_id"]] = unit
                if row["response_id"]:
                    unit_of.setdefault(row["response_id"], unit)
    if attribute is not None and not has_attribute:
        raise InputError(f"metrics.unit={attribute}: no item in items= has this attribute")
    for source in responses:
        for batch in source.batches(["response_id", "item_id"]):
            for row in batch.to_pylist():
                unit_of.setdefault(row["response_id"], unit_of.get(row["item_id"], row["item_id"]))
    return units_of(unit_of, name=f"values of {attribute}" if attribute else PICTURES if unit_of else "items")


def units_of(unit_of: Mapping[str, str], *, name: str) -> IndependentUnits:
    """Return the units from item -> unit."""
    if not unit_of:
        return IndependentUnits(name=name)
    items, units = _hashes(unit_of.keys()), _hashes(unit_of.values())
    order = np.argsort(items, kind="stable")
    return IndependentUnits(items[order], units[order], name)


def _hashes(texts: Iterable[str]) -> Hashes:
    return hash_texts(list(texts))
