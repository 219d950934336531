"""Attributes of raters, joined to ratings: kinds, families, countries and groups."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.errors import InputError
from jobs.metrics.question import PEOPLE, matching
from jobs.store.reading import TableSource

METHODS = {
    "human": "human",
    "encoder": "encoder",
    "gold": "gold",
}  # ratings.method -> kind; all other methods are models'
HUMAN = "human"  # kind and method of people's ratings
KINDS = (HUMAN, "model", "encoder", "gold")


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
            raise InputError(
                f"metrics.groups={list(groups)}: no column {wrong[0]} in raters; must be one of {', '.join(columns)}"
            )
        for batch in source.batches():
            for row in batch.to_pylist():
                rater = row["rater"]
                if rater in methods and rows.setdefault(rater, row) != row:
                    name = next(name for name, value in row.items() if rows[rater][name] != value)
                    raise InputError(
                        f"raters={first[rater]}: {rater} has {name}={rows[rater][name]!r}, and {row[name]!r} in "
                        f"{source.uri}; list only one of the two tables"
                    )
                first.setdefault(rater, source.uri)
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
