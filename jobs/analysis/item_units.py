"""The independent unit of each rated item: its picture, a pair's prompt, or the value of `metrics.unit`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from actors.items import PAIR_SET
from jobs.errors import InputError
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

PICTURES, PROMPTS = "pictures", "prompts"


@dataclass(frozen=True)
class IndependentUnits:
    """The unit of each item that is not its own.

    Attributes:
        items: uint64[n], hashes of item ids, ascending; units: uint64[n], the hash of each item's unit.
        name: what the units are, in the plural.
        pairs: hashes of the ids of pairs whose units are prompts.
    """

    items: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    units: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    name: str = "items"
    pairs: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))

    def of(self, items: Hashes) -> Hashes:
        """Return uint64[items], the unit of each item; an unknown item is its own unit."""
        if not len(self.items):
            return items
        place = np.minimum(np.searchsorted(self.items, items), len(self.items) - 1)
        return np.where(self.items[place] == items, self.units[place], items)

    def name_of(self, items: Hashes) -> str:
        """Return what the units of some items are, in the plural."""
        return PROMPTS if len(self.pairs) and len(items) and np.isin(items, self.pairs).all() else self.name


def read_units(
    items: Sequence[TableSource], responses: Sequence[TableSource], attribute: str | None
) -> IndependentUnits:
    """Return the units of the items in tables `items` and `responses`.

    A unit is the item's pictures, whatever their order; without pictures it is the item. That of a pair is its prompt,
    because the pairs of a prompt share their pictures. With `attribute`, a unit is the value of that attribute, in the
    items that have one. A response belongs to the unit of the item that it is about.

    Raises:
        InputError: no item has the attribute.
    """
    unit_of: dict[str, str] = {}
    pairs: set[str] = set()
    has_attribute = False
    for source in items:
        for batch in source.batches(["item_id", "response_id", "image_ids", "attributes"]):
            for row in batch.to_pylist():
                attributes = dict(row["attributes"] or ())
                value, prompt = attributes.get(attribute or ""), attributes.get(PAIR_SET)
                has_attribute |= value is not None
                unit = " ".join(sorted(row["image_ids"] or ())) or row["item_id"]
                if value is not None:
                    unit = f"={value}"
                elif prompt is not None:
                    unit = f"{PAIR_SET}={prompt}"
                    pairs.add(row["item_id"])
                unit_of[row["item_id"]] = unit
                if row["response_id"]:
                    unit_of.setdefault(row["response_id"], unit)
    if attribute is not None and not has_attribute:
        raise InputError(f"metrics.unit={attribute}: no item in items= has this attribute")
    for source in responses:
        for batch in source.batches(["response_id", "item_id"]):
            for row in batch.to_pylist():
                unit_of.setdefault(row["response_id"], unit_of.get(row["item_id"], row["item_id"]))
    if attribute:
        return units_of(unit_of, name=f"values of {attribute}")
    return replace(units_of(unit_of, name=PICTURES if unit_of else "items"), pairs=_hashes(pairs))


def units_of(unit_of: Mapping[str, str], *, name: str) -> IndependentUnits:
    """Return the units from item -> unit."""
    if not unit_of:
        return IndependentUnits(name=name)
    items, units = _hashes(unit_of.keys()), _hashes(unit_of.values())
    order = np.argsort(items, kind="stable")
    return IndependentUnits(items[order], units[order], name)


def _hashes(texts: Iterable[str]) -> Hashes:
    return hash_texts(list(texts))
