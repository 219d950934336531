"""Attributes of items and raters, joined to ratings.

Items have subgroups, right answers, the responses that were rated, and an independent unit: their picture, a pair's
prompt, or the value of `metrics.unit`. Raters have kinds, families, countries and groups.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.items import PAIR_SET
from jobs.analysis.assigned_items import Assignments
from jobs.analysis.reduced_question import IndependentUnits
from jobs.errors import InputError
from jobs.metrics.rated_question import PEOPLE, matching
from jobs.store.hashing import Hashes, hash_texts, places_in
from jobs.store.reading import TableSource
from jobs.tables import HUMAN

RESPONSE_ATTRIBUTES = ("model", "prompt", "condition")
SHORT = 60  # characters of a value in a message
PICTURES = "pictures"
METHODS = {
    "human": "human",
    "encoder": "encoder",
    "gold": "gold",
}  # ratings.method -> kind; all other methods are models'
KINDS = (HUMAN, "model", "encoder", "gold")


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
                    f"{self.thing} {name} has another {fact} than in {source.uri} ({_short(earlier[fact])} and "
                    f"{_short(value)})",
                    key=self.key,
                    value=first,
                    remedy="report the two tables separately",
                )
            earlier[fact] = value if _is_unknown(earlier[fact]) else earlier[fact]


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
        assignments: which items people were given.
    """

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    columns: Mapping[str, tuple[NDArray[np.int32], tuple[str, ...]]] = field(default_factory=dict)
    lengths: NDArray[np.float64] | None = None
    named: frozenset[str] = frozenset()
    gold: Mapping[int, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)
    targets: frozenset[str] = frozenset()
    assignments: Assignments = field(default_factory=Assignments)

    def rows(self, items: Hashes) -> NDArray[np.int64]:
        """Return int64[items], the rows in `hashes`, -1 for unknown items."""
        return places_in(self.hashes, items)

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
        raise InputError("no item in items= has this attribute", key="metrics.unit", value=attribute)
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


@dataclass(frozen=True)
class Raters:
    """Attributes of raters.

    Attributes:
        kinds: rater -> human, model, encoder or gold.
        families: rater -> family of models.
        groups: group of people -> raters.
        countries: rater -> country, which is the target of ratings without one.
    """

    kinds: dict[str, str]
    families: dict[str, str]
    groups: dict[str, tuple[str, ...]]
    countries: dict[str, str]


def read_raters(
    sources: Sequence[TableSource],
    methods: Mapping[str, set[str]],
    *,
    gold: Sequence[str],
    groups: Sequence[str],
    kept: Sequence[Mapping[str, Any]] = (),
) -> Raters:
    """Return the attributes of raters from tables `raters`; otherwise kinds follow from the ratings' methods.

    Args:
        methods: rater -> the methods of its ratings.
        kept: rows of table `raters` that are kept with tables of ratings (`jobs.judging.rating_tables.read_raters`).
            Their kind takes precedence over the method. Their family is not used, because it is an architecture that
            models of different makers share.
        gold: globs of raters whose answers are right.
        groups: columns of `raters` that divide people into groups.

    Raises:
        InputError: `raters` lacks a column of `groups`, a rater has an unknown kind, or two tables describe a rater
            differently.
    """
    rows: dict[str, dict[str, Any]] = {}
    first: dict[str, str] = {}  # rater -> the first table with it
    for source in sources:
        columns = source.footers[0].schema.names
        if wrong := [name for name in groups if name not in columns]:
            why = f"no column {wrong[0]} in raters; must be one of {', '.join(columns)}"
            raise InputError(why, key="metrics.groups", value=groups)
        for batch in source.batches():
            for row in batch.to_pylist():
                rater = row["rater"]
                if rater in methods and rows.setdefault(rater, row) != row:
                    name = next(name for name, value in row.items() if rows[rater][name] != value)
                    raise InputError(
                        f"{rater} has {name}={rows[rater][name]!r}, and {row[name]!r} in {source.uri}",
                        key="raters",
                        value=first[rater],
                        remedy="list only one of the two tables",
                    )
                first.setdefault(rater, source.uri)
    kinds, kept_kinds = {}, {row["rater"]: row["kind"] for row in kept}
    for rater, used in methods.items():
        stated = rows.get(rater, {}).get("kind") or kept_kinds.get(rater)
        kind = stated or METHODS.get(next(iter(sorted(used))), "model")
        if kind not in KINDS:
            raise InputError(f"{rater} has kind {kind!r}; must be one of {', '.join(KINDS)}", key="raters")
        kinds[rater] = "gold" if any(matching((rater,), pattern) for pattern in gold) else kind
    values = {column: {rater: row[column] for rater, row in rows.items() if row.get(column)} for column in groups}
    members = _people_by(values, kinds)
    families = {rater: rows.get(rater, {}).get("family") or family_of(rater) for rater in methods}
    countries = {rater: row["country"] for rater, row in rows.items() if row.get("country")}
    return Raters(kinds, families, members, countries)


def raters_of(
    methods: Mapping[str, set[str]], groups: Mapping[str, Mapping[str, str]], *, gold: Sequence[str]
) -> Raters:
    """Return the raters of a file: all are people, except those that match a glob of `gold`.

    Args:
        groups: column -> rater -> value.
    """
    kinds = {rater: "gold" if any(matching((rater,), glob) for glob in gold) else "human" for rater in methods}
    return Raters(kinds, {}, _people_by(groups, kinds), {})


def _people_by(groups: Mapping[str, Mapping[str, str]], kinds: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the groups of people with the same value of a column; `groups`: column -> rater -> value."""
    members: dict[str, tuple[str, ...]] = {}
    for column, values in groups.items():
        for rater, value in values.items():
            if kinds.get(rater) == HUMAN:
                name = f"{PEOPLE}, {column} {value}"
                members[name] = (*members.get(name, ()), rater)
    return members


def family_of(model: str) -> str:
    """Return a model's family: its name up to the first digit or separator, such as qwen for qwen2.5-vl-7b@rev."""
    family = re.match(r"[a-z]+", model.rsplit("/", 1)[-1].removeprefix("local:").lower())
    return family.group() if family else model
