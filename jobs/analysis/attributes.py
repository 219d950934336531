"""Attributes of raters and items, which are joined to ratings: kinds, countries, right answers, responses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import InputError
from jobs.metrics.question import PEOPLE, matching
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

METHODS = {
    "human": "human",
    "encoder": "encoder",
    "gold": "gold",
}  # ratings.method -> kind; all other methods are of models
HUMAN = "human"  # kind and method of people's ratings
KINDS = (HUMAN, "model", "encoder", "gold")
RESPONSE_ATTRIBUTES = ("model", "prompt")


@dataclass(frozen=True)
class Raters:
    """Attributes of raters.

    Attributes:
        kinds: rater -> human, model, encoder or gold.
        families: rater -> family of models.
        groups: group of people -> raters.
        countries: rater -> country, the target of ratings without one.
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
    """Return the attributes of raters from tables `raters`; without them, kinds follow from the method of the ratings.

    Args:
        methods: rater -> the methods of its ratings.
        kept: rows of table `raters` that are kept with tables of ratings (`jobs.judging.kept_raters.read`). Their kind
            takes precedence over the method. Their family is not used: it names an architecture, which models of
            different makers share.
        gold: globs of raters whose answers are right.
        groups: columns of `raters` that divide people into groups.

    Raises:
        InputError: `raters` lacks a column of `groups`, or a rater has an unknown kind.
    """
    rows: dict[str, dict[str, Any]] = {}
    for source in sources:
        columns = source.footers[0].schema.names
        if wrong := [name for name in groups if name not in columns]:
            raise InputError(
                f"metrics.groups={list(groups)}: no column {wrong[0]} in raters; must be of {', '.join(columns)}"
            )
        for batch in source.batches():
            rows.update((row["rater"], row) for row in batch.to_pylist() if row["rater"] in methods)
    kinds, kept_kinds = {}, {row["rater"]: row["kind"] for row in kept}
    for rater, used in methods.items():
        stated = rows.get(rater, {}).get("kind") or kept_kinds.get(rater)
        kind = stated or METHODS.get(next(iter(sorted(used))), "model")
        if kind not in KINDS:
            raise InputError(f"raters: {rater} has kind {kind!r}; must be one of {', '.join(KINDS)}")
        kinds[rater] = "gold" if any(matching((rater,), pattern) for pattern in gold) else kind
    members: dict[str, tuple[str, ...]] = {}
    for column in groups:
        for rater, row in rows.items():
            if row.get(column) and kinds[rater] == "human":
                name = f"{PEOPLE}, {column} {row[column]}"
                members[name] = (*members.get(name, ()), rater)
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
    members: dict[str, tuple[str, ...]] = {}
    for column, values in groups.items():
        for rater, value in values.items():
            if kinds.get(rater) == "human":
                name = f"{PEOPLE}, {column} {value}"
                members[name] = (*members.get(name, ()), rater)
    return Raters(kinds, {}, members, {})


def family_of(model: str) -> str:
    """Return a model's family: its name up to the first digit or separator, such as qwen for qwen2.5-vl-7b@rev."""
    family = re.match(r"[a-z]+", model.rsplit("/", 1)[-1].removeprefix("local:").lower())
    return family.group() if family else model


@dataclass(frozen=True)
class Items:
    """Attributes of items by the hash of their id.

    Attributes:
        hashes: uint64[n], ascending.
        columns: attribute -> (int32[n] codes, -1 unknown; the values).
        lengths: float64[n], characters of the response, NaN if unknown; None without responses.
        named: names of all attributes, including those that are not in `columns`.
        gold: hash -> (targets with known answers, empty: all; right values).
    """

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    columns: Mapping[str, tuple[NDArray[np.int32], tuple[str, ...]]] = field(default_factory=dict)
    lengths: NDArray[np.float64] | None = None
    named: frozenset[str] = frozenset()
    gold: Mapping[int, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)

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
        """Return value -> bool[items], for the values that occur."""
        code, values = self.codes(attribute, items)
        return {values[value]: code == value for value in np.unique(code[code >= 0])}


def read_items(items: TableSource | None, responses: TableSource | None, attributes: Iterable[str]) -> Items:
    """Return attributes from `items`, and model, prompt and length of responses, by ids of items and responses."""
    wanted = sorted({name for attribute in attributes for name in attribute.split("+")})
    response_of = _responses(responses)
    ids: list[str] = []
    values: dict[str, list[str | None]] = {name: [] for name in wanted}
    lengths: list[float] = []
    gold: dict[int, tuple[frozenset[str], frozenset[str]]] = {}
    seen: set[str] = set()
    named = set(RESPONSE_ATTRIBUTES) if responses else set()

    def add(item: str, attributes_of: Mapping[str, str | None], length: float) -> None:
        ids.append(item)
        lengths.append(length)
        for name in wanted:
            values[name].append(attributes_of.get(name))

    columns = ["item_id", "response_id", "targets", "gold", "attributes"]
    for batch in items.batches(columns) if items else ():
        for row in batch.to_pylist():
            response = response_of.get(row["response_id"] or row["item_id"])
            seen.add(row["response_id"] or row["item_id"])
            attributes_of = dict(row["attributes"] or ()) | (response[0] if response else {})
            named.update(attributes_of)
            add(row["item_id"], attributes_of, response[1] if response else np.nan)
            if row["gold"]:
                gold[int(hash_texts([row["item_id"]])[0])] = frozenset(row["targets"] or ()), frozenset(row["gold"])
    for response_id, (attributes_of, length) in response_of.items():
        if response_id not in seen:
            add(response_id, attributes_of, length)
    if not ids:
        return Items()
    hashes = hash_texts(ids)
    order = np.argsort(hashes, kind="stable")
    coded = {name: coded_values(column, order) for name, column in values.items()}
    return Items(hashes[order], coded, np.array(lengths)[order] if responses else None, frozenset(named), gold)


def items_of(attributes: Mapping[str, Mapping[str, str]]) -> Items:
    """Return the items of a file from attribute -> item -> value."""
    ids = sorted({item for values in attributes.values() for item in values})
    if not ids:
        return Items()
    hashes = hash_texts(ids)
    order = np.argsort(hashes, kind="stable")
    coded = {name: coded_values([values.get(item) for item in ids], order) for name, values in attributes.items()}
    return Items(hashes[order], coded, named=frozenset(attributes))


def _responses(source: TableSource | None) -> dict[str, tuple[dict[str, str | None], float]]:
    response_of: dict[str, tuple[dict[str, str | None], float]] = {}
    for batch in source.batches(["response_id", "model", "prompt", "text"]) if source else ():
        for row in batch.to_pylist():
            length = float(len(row["text"])) if row["text"] is not None else np.nan
            response_of[row["response_id"]] = {name: row[name] for name in RESPONSE_ATTRIBUTES}, length
    return response_of


def coded_values(column: Sequence[str | None], order: NDArray[np.int64]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Return int32[n] codes in the order of `order`, -1 for null, and the sorted values."""
    values = tuple(sorted({value for value in column if value}))
    code_of = {value: code for code, value in enumerate(values)}
    return np.array([code_of.get(value or "", -1) for value in column], np.int32)[order], values
