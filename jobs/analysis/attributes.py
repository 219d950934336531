"""What tables beside `ratings` say of raters and items: kinds, countries, attributes, right answers, responses."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.errors import InputError
from jobs.metrics.suite import PEOPLE, matching
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

METHODS = {"human": "human", "encoder": "encoder", "gold": "gold"}  # of `ratings.method`; any other is a model's
KINDS = ("human", "model", "encoder", "gold")
RESPONSE_ATTRIBUTES = ("model", "prompt")


@dataclass(frozen=True)
class Raters:
    """rater -> kind, family; group of people -> raters; rater -> country (for ratings without a target)."""

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
    """Of the raters that have ratings: what the tables `raters` say, else what the method of their ratings says.

    Args:
        methods: rater -> the methods of its ratings.
        kept: rows of table `raters` that tables of ratings keep (`jobs.judging.kept_raters.read`). Their kind comes
        before the
            method; their family is an architecture's name, which says little about who wrote alike, and is not used.
        gold: globs of raters that are right.
        groups: columns of `raters` whose values make groups of people.

    Raises:
        InputError: a column that `raters` does not have, or a kind that is none.
    """
    rows: dict[str, dict[str, Any]] = {}
    for source in sources:
        columns = source.footers[0].schema.names
        if wrong := [name for name in groups if name not in columns]:
            raise InputError(f"metrics.groups: no column {wrong[0]} in raters; there are {', '.join(columns)}")
        for batch in source.batches():
            rows.update((row["rater"], row) for row in batch.to_pylist() if row["rater"] in methods)
    kinds, kept_kinds = {}, {row["rater"]: row["kind"] for row in kept}
    for rater, used in methods.items():
        stated = rows.get(rater, {}).get("kind") or kept_kinds.get(rater)
        kind = stated or METHODS.get(next(iter(sorted(used))), "model")
        if kind not in KINDS:
            raise InputError(f"raters: {rater} is of kind {kind!r}; there are {', '.join(KINDS)}")
        kinds[rater] = "gold" if any(matching((rater,), pattern) for pattern in gold) else kind
    made: dict[str, tuple[str, ...]] = {}
    for column in groups:
        for rater, row in rows.items():
            if row.get(column) and kinds[rater] == "human":
                name = f"{PEOPLE}, {column} {row[column]}"
                made[name] = (*made.get(name, ()), rater)
    families = {rater: rows.get(rater, {}).get("family") or family_of(rater) for rater in methods}
    countries = {rater: row["country"] for rater, row in rows.items() if row.get("country")}
    return Raters(kinds, families, made, countries)


def raters_of(
    methods: Mapping[str, set[str]], groups: Mapping[str, Mapping[str, str]], *, gold: Sequence[str]
) -> Raters:
    """The people of a file: `groups` is column -> rater -> value; raters that a glob of `gold` names are right."""
    kinds = {rater: "gold" if any(matching((rater,), glob) for glob in gold) else "human" for rater in methods}
    made: dict[str, tuple[str, ...]] = {}
    for column, values in groups.items():
        for rater, value in values.items():
            if kinds.get(rater) == "human":
                name = f"{PEOPLE}, {column} {value}"
                made[name] = (*made.get(name, ()), rater)
    return Raters(kinds, {}, made, {})


def family_of(model: str) -> str:
    """A model's family by its name, up to the first digit or separator: qwen2.5-vl-7b@rev -> qwen."""
    found = re.match(r"[a-z]+", model.rsplit("/", 1)[-1].removeprefix("local:").lower())
    return found.group() if found else model


@dataclass(frozen=True)
class Items:
    """Attributes of items, looked up by the hash of their id.

    Attributes:
        hashes: uint64[n], ascending.
        columns: attribute -> (int32[n] codes, -1 unknown; the values).
        lengths: float64[n], characters of the response, NaN unknown; None without responses.
        named: all attributes that items have, in `columns` or not.
        gold: hash -> (targets that were judged, empty: all; the right values).
    """

    hashes: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    columns: Mapping[str, tuple[NDArray[np.int32], tuple[str, ...]]] = field(default_factory=dict)
    lengths: NDArray[np.float64] | None = None
    named: frozenset[str] = frozenset()
    gold: Mapping[int, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)

    def places(self, items: Hashes) -> NDArray[np.int64]:
        """int64[…] places in `hashes`, -1 for what is not there."""
        if not len(self.hashes):
            return np.full(len(items), -1, np.int64)
        at = np.minimum(np.searchsorted(self.hashes, items), len(self.hashes) - 1)
        return np.where(self.hashes[at] == items, at, -1)

    def codes(self, attribute: str, items: Hashes) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Codes of an attribute for each item, -1 unknown, and its values; a+b crosses two attributes."""
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
        places, (codes, values) = self.places(items), self.columns[name]
        return np.where(places >= 0, codes[places], -1).astype(np.int64), values

    def parts(self, attribute: str, items: Hashes) -> dict[str, NDArray[np.bool_]]:
        """value -> bool[items], of the values that occur."""
        code, values = self.codes(attribute, items)
        return {values[value]: code == value for value in np.unique(code[code >= 0])}


def read_items(items: TableSource | None, responses: TableSource | None, attributes: Iterable[str]) -> Items:
    """Attributes from `items`; of responses the model, prompt and length, under the item's and the response's id."""
    wanted = sorted({name for attribute in attributes for name in attribute.split("+")})
    written = _responses(responses)
    ids: list[str] = []
    values: dict[str, list[str | None]] = {name: [] for name in wanted}
    lengths: list[float] = []
    gold: dict[int, tuple[frozenset[str], frozenset[str]]] = {}
    seen: set[str] = set()
    named = set(RESPONSE_ATTRIBUTES) if responses else set()

    def put(item: str, own: Mapping[str, str | None], length: float) -> None:
        ids.append(item)
        lengths.append(length)
        for name in wanted:
            values[name].append(own.get(name))

    columns = ["item_id", "response_id", "targets", "gold", "attributes"]
    for batch in items.batches(columns) if items else ():
        for row in batch.to_pylist():
            response = written.get(row["response_id"] or row["item_id"])
            seen.add(row["response_id"] or row["item_id"])
            own = dict(row["attributes"] or ()) | (response[0] if response else {})
            named.update(own)
            put(row["item_id"], own, response[1] if response else np.nan)
            if row["gold"]:
                gold[int(hash_texts([row["item_id"]])[0])] = frozenset(row["targets"] or ()), frozenset(row["gold"])
    for response_id, (own, length) in written.items():
        if response_id not in seen:
            put(response_id, own, length)
    if not ids:
        return Items()
    hashes = hash_texts(ids)
    order = np.argsort(hashes, kind="stable")
    coded = {name: coded_values(column, order) for name, column in values.items()}
    return Items(hashes[order], coded, np.array(lengths)[order] if responses else None, frozenset(named), gold)


def items_of(attributes: Mapping[str, Mapping[str, str]]) -> Items:
    """The items of a file: `attributes` is attribute -> item -> value."""
    ids = sorted({item for values in attributes.values() for item in values})
    if not ids:
        return Items()
    hashes = hash_texts(ids)
    order = np.argsort(hashes, kind="stable")
    coded = {name: coded_values([values.get(item) for item in ids], order) for name, values in attributes.items()}
    return Items(hashes[order], coded, named=frozenset(attributes))


def _responses(source: TableSource | None) -> dict[str, tuple[dict[str, str | None], float]]:
    found: dict[str, tuple[dict[str, str | None], float]] = {}
    for batch in source.batches(["response_id", "model", "prompt", "text"]) if source else ():
        for row in batch.to_pylist():
            length = float(len(row["text"])) if row["text"] is not None else np.nan
            found[row["response_id"]] = {name: row[name] for name in RESPONSE_ATTRIBUTES}, length
    return found


def coded_values(column: Sequence[str | None], order: NDArray[np.int64]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Codes in the given order, -1 for none, and the values, sorted."""
    values = tuple(sorted({value for value in column if value}))
    place = {value: code for code, value in enumerate(values)}
    return np.array([place.get(value or "", -1) for value in column], np.int32)[order], values
