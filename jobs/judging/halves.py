"""Two halves of a set of items: settings are chosen on one and applied to the other."""

from collections.abc import Iterable, Mapping

from actors.ids import content_id
from jobs.errors import InputError
from jobs.store.reading import TableSource

HALVES = ("a", "b")


def half_of(key: str, seed: int) -> str:
    """Return the half, one of `HALVES`, of the item `key`, or of the items whose attribute has the value `key`."""
    return HALVES[int(content_id("half", str(seed), key)[:8], 16) % 2]


def other(half: str) -> str:
    """Return the other half."""
    return HALVES[1 - HALVES.index(half)]


def halves(items: Iterable[str], seed: int, keys: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return item -> half (one of `HALVES`), drawn by a hash of the seed.

    Args:
        keys: item -> value of the attribute `split_by=`; items with the same value are in the same half. None: each
            item is drawn separately.

    Raises:
        InputError: an item is not in `keys`.
    """
    parts = {}
    for item in items:
        if keys is not None and item not in keys:
            raise InputError(
                f"split_by=: item {item} does not have the attribute; omit split_by=, or set it to another attribute"
            )
        parts[item] = half_of(keys[item] if keys is not None else item, seed)
    return parts


def attribute_values(sources: Iterable[TableSource], name: str) -> dict[str, str]:
    """Return the value of an attribute for each item that has it, by item."""
    return {
        row["item_id"]: value
        for source in sources
        for batch in source.batches(["item_id", "attributes"])
        for row in batch.to_pylist()
        if (value := dict(row["attributes"] or ()).get(name))
    }
