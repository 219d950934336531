"""Which tables are trial runs: `limit=` is a key of their identity, besides those of the whole run.

The other tables of a pipeline with `run limit=` have no limit themselves: they are made from tables that have one.
"""

from collections.abc import Mapping, Set
from contextlib import suppress
from itertools import islice
from typing import Any

from jobs.errors import InputError
from jobs.store.identity import EXCLUSIONS, ROWS, TABLE, UNITS, identity_hash, stored_identity_hash
from jobs.store.run_files import IDENTITY, INPUTS, read_inputs, read_json, run_uri
from jobs.store.units import LIMIT

_NOT_COMPARED = (LIMIT, TABLE, EXCLUSIONS, ROWS, UNITS)  # keys that follow from the limit, or have no part in it
WHOLE = float("inf")  # the limit of a table without one


def limit_of(table: str) -> float:
    """Return the limit of the run that wrote a table, or of the tables from which it was made; infinite without one.

    Tables that another program wrote, and those whose parents are no longer at their places, have none.

    Raises:
        InputError: `_run/identity.json` is damaged.
    """
    try:
        limit = _limit(read_json(run_uri(table, IDENTITY)))
    except FileNotFoundError:
        return WHOLE
    return min(limit, _limit_of_parents(table, {table}))


def trials(identities: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the uri of each trial -> that of the table with the same identity but for a larger limit, or none.

    A table made from a trial is the trial of the same table made from the whole, if both parents are among the tables.

    Args:
        identities: uri of a table -> the content of its `_run/identity.json`.
    """
    hashes = {uri: stored_identity_hash(identity) for uri, identity in identities.items()}
    whole_of: dict[str, str] = {}
    for _ in identities:  # no chain of parents is longer
        grown = _alike(identities, {hashes[uri]: hashes[whole] for uri, whole in whole_of.items()})
        if grown == whole_of:
            break
        whole_of = grown
    return whole_of


def _alike(identities: Mapping[str, Mapping[str, Any]], whole_of: Mapping[str, str]) -> dict[str, str]:
    """Return uri -> uri as `trials`, with the trials among the parents that are known so far.

    Args:
        whole_of: identity hash of a trial -> that of the whole table.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    sizes: dict[str, tuple[bool, float]] = {}  # whether no parent is a trial, and the limit
    for uri, identity in identities.items():
        rest = {name: value for name, value in identity.items() if name not in _NOT_COMPARED}
        of_whole = _with_whole_parents(rest, whole_of)
        sizes[uri] = of_whole == rest, _limit(identity)
        alike.setdefault((str(identity.get(TABLE)), identity_hash(of_whole)), []).append(uri)
    trial_runs: dict[str, str] = {}
    for uris in alike.values():
        whole = max(uris, key=lambda uri: sizes[uri])
        trial_runs |= {uri: whole for uri in uris if sizes[uri] < sizes[whole]}
    return trial_runs


def _with_whole_parents(value: Any, whole_of: Mapping[str, str]) -> Any:
    """Return an identity with the hashes of whole tables in place of those of their trials."""
    if isinstance(value, Mapping):
        return {name: _with_whole_parents(inner, whole_of) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_whole_parents(inner, whole_of) for inner in value]
    return whole_of.get(value, value) if isinstance(value, str) else value


def _limit_of_parents(table: str, seen: Set[str]) -> float:
    """Return the smallest limit of the tables that the first unit of a table was made from, and of their parents."""
    limit = WHOLE
    with suppress(OSError, InputError):  # parents may have been moved or removed since
        for unit in islice(read_inputs(run_uri(table, INPUTS)), 1):
            places = (source.uri.rsplit("/", 1)[0] if source.uri.endswith(".parquet") else source.uri
                      for source in unit.inputs)  # fmt: skip
            for parent in set(places) - seen:
                with suppress(OSError, InputError):
                    limit = min(limit, _limit(read_json(run_uri(parent, IDENTITY))))
                    limit = min(limit, _limit_of_parents(parent, seen | {parent}))
    return limit


def _limit(identity: Mapping[str, Any]) -> float:
    return float(identity.get(LIMIT) or WHOLE)
