"""Attributes of items, joined to ratings: subgroups, right answers, and the responses that were rated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import InputError
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

RESPONSE_ATTRIBUTES = ("model", "prompt", "condition")
SHORT = 60  # characters of a value in a message


@dataclass(frozen=True)
class Items:
    """Attributes of items by the hash of their id.

    Attributes:
        hashes: uint64[n], ascending.
        columns: attribute -> (int32[n] codes, -1 unknown; the values).
        lengths: float64[n], characters of the response, NaN if unknown; None without responses.
        named: names of all attributes, including those that are not in `columns`.
        gold: hash -> (targets with known answers, or none for all targets; right values, perhaps none), for items whose
            right values are known.
        targets: all items' own targets; empty if an item has none.
    """

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    columns: Mapping[str, tuple[NDArray[np.int32], tuple[str, ...]]] = field(default_factory=dict)
    lengths: NDArray[np.float64] | None = None
    named: frozenset[str] = frozenset()
    gold: Mapping[int, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)
    targets: frozenset[str] = frozenset()

    def rows(self, items: Hashes) -> NDArray[np.int64]:
        """Return int64[items], the rows in `hashes`, -1 for unknown items."""
        if not len(self.hashes):
            return np.full(len(items), -1, np.int64)
        row = np.minimum(np.searchsorted(self.hashes, items), len(self.hashes) - 1)
        return np.where(self.hashes[row] == items, row, -1)

    def codes(self, attribute: str, items: Hashes) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return int64[items] codes of an attribute, -1 if unknown, and its values; a+b crosses two attributes."""
        names = attribute.split("+")
        code, values = self._codes(names[0], items)
        for name in names[1:]:
            other, more = self._codes(name, items)
            code = np.where((code >= 0) & (other >= 0), code * max(len(more), 1) + other, -1)
            values = tuple(f"{a} + {b}" for a in values for b in more)
        return code, values

    def _codes(self, name: str, items: Hashes) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        if name not in self.columns:
            return np.full(len(items), -1, np.int64), ()
        rows, (codes, values) = self.rows(items), self.columns[name]
        return np.where(rows >= 0, codes[rows], -1).astype(np.int64), values

    def subgroups(self, attribute: str, items: Hashes) -> dict[str, NDArray[np.bool_]]:
        """Return bool[items] for each value of an attribute that occurs."""
        code, values = self.codes(attribute, items)
        return {values[value]: code == value for value in np.unique(code[code >= 0])}


def read_items(items: Sequence[TableSource], responses: Sequence[TableSource], attributes: Iterable[str]) -> Items:
    """Return the attributes of `items`, and model, prompt, condition and length of responses, by their ids.

    Tables are merged: an item or a response may be in several, such as those of two conditions.

    Raises:
        InputError: two tables give an item different values of `attributes`, targets, right values or responses, or
            a response different texts; the message names both.
    """
    wanted = sorted({name for attribute in attributes for name in attribute.split("+")})
    response_of = _responses(responses)
    merged = _Merged("items", "item")
    seen: set[str] = set()
    named = set(RESPONSE_ATTRIBUTES) if responses else set()
    for source in items:
        for batch in source.batches(["item_id", "response_id", "targets", "gold", "attributes"]):
            for row in batch.to_pylist():
                response = response_of.get(row["response_id"] or row["item_id"])
                seen.add(row["response_id"] or row["item_id"])
                attributes_of = dict(row["attributes"] or ()) | (response.attributes if response else {})
                named.update(attributes_of)
                facts = {f"attribute {name}": attributes_of.get(name) for name in wanted}
                gold_of = None if row["gold"] is None else frozenset(row["gold"])
                right = {"targets": frozenset(row["targets"] or ()) or None, "gold": gold_of}
                merged.add(row["item_id"], source, facts | right | {"response_id": row["response_id"]})
    ids, rows = list(merged.rows), list(merged.rows.values())
    of_item = [response_of.get(row["response_id"] or name) for name, row in merged.rows.items()]
    values = {name: [row[f"attribute {name}"] for row in rows] for name in wanted}
    for response_id, response in response_of.items():
        if response_id not in seen:
            ids.append(response_id)
            of_item.append(response)
            for name in wanted:
                values[name].append(response.attributes.get(name))
    if not ids:
        return Items()
    hashes = hash_texts(ids)
    order = np.argsort(hashes, kind="stable")
    coded = {name: coded_values(column, order) for name, column in values.items()}
    lengths = np.array([response.length if response else np.nan for response in of_item])[order]
    gold = {
        number: (row["targets"] or frozenset(), row["gold"])
        for number, row in zip(hashes.tolist()[: len(rows)], rows, strict=True)
        if row["gold"] is not None
    }
    targets_of = [row["targets"] or frozenset() for row in rows]
    targets = frozenset[str]().union(*targets_of) if all(targets_of) else frozenset[str]()
    return Items(hashes[order], coded, lengths if responses else None, frozenset(named), gold, targets)


@dataclass
class _Merged:
    """Rows of several tables by their id; another table may add facts that one leaves empty.

    Attributes:
        key, thing: the key of the configuration, and what a row is, for messages.
        rows: id -> fact -> value.
    """

    key: str
    thing: str
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)  # id -> its first table

    def add(self, name: str, source: TableSource, facts: dict[str, Any]) -> None:
        """Add a row.

        Raises:
            InputError: an earlier row of that id has another value.
        """
        earlier = self.rows.setdefault(name, facts)
        first = self.first.setdefault(name, source.uri)
        if earlier is facts:
            return
        for fact, value in facts.items():
            if not _is_unknown(value) and not _is_unknown(earlier[fact]) and value != earlier[fact]:
                raise InputError(
                    f"{self.key}={first}: {self.thing} {name} has another {fact} than in {source.uri} "
                    f"({_short(earlier[fact])} and {_short(value)}); report the two tables separately"
                )
            earlier[fact] = value if _is_unknown(earlier[fact]) else earlier[fact]


def _is_unknown(value: Any) -> bool:
    """Return whether a fact is missing; that no value is right is a fact."""
    return value is None or value == ""


def _short(value: Any) -> str:
    text = ", ".join(sorted(value)) or "none" if isinstance(value, frozenset) else str(value)
    return repr(text if len(text) <= SHORT else text[:SHORT] + "…")


def items_of(attributes: Mapping[str, Mapping[str, str]]) -> Items:
    """Return the items of a file from attribute -> item -> value."""
    ids = sorted({item for values in attributes.values() for item in values})
    if not ids:
        return Items()
    hashes = hash_texts(ids)
    order = np.argsort(hashes, kind="stable")
    coded = {name: coded_values([values.get(item) for item in ids], order) for name, values in attributes.items()}
    return Items(hashes[order], coded, named=frozenset(attributes))


@dataclass(frozen=True)
class _Response:
    attributes: dict[str, str | None]
    length: float  # characters, NaN without a text


def _responses(sources: Sequence[TableSource]) -> dict[str, _Response]:
    merged = _Merged("responses", "response")
    response_of: dict[str, _Response] = {}
    for source in sources:
        for batch in source.batches(["response_id", *RESPONSE_ATTRIBUTES, "text"]):
            for row in batch.to_pylist():
                response_id, text = row.pop("response_id"), row["text"]
                if len(sources) > 1:
                    merged.add(response_id, source, row)
                length = float(len(text)) if text is not None else np.nan
                response_of[response_id] = _Response(
                    {name: row[name] for name in RESPONSE_ATTRIBUTES if row[name]}, length
                )
    return response_of


def coded_values(column: Sequence[str | None], order: NDArray[np.int64]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return int32[n] codes in the order of `order`, -1 for null, and the sorted values."""
    values = tuple(sorted({value for value in column if value}))
    code_of = {value: code for code, value in enumerate(values)}
    return np.array([code_of.get(value or "", -1) for value in column], np.int32)[order], values
