"""Detection of trial runs: `limit=` is a key of their identity, in addition to the keys of the whole run.

The other tables of a pipeline with `run limit=` do not have a limit, but are made from tables that have one.
"""

from collections.abc import Mapping, Set
from contextlib import suppress
from itertools import islice
from typing import Any

from jobs.errors import InputError
from jobs.store.identity import EXCLUSIONS, ROWS, TABLE, UNITS, identity_hash, stored_identity_hash
from jobs.store.run_files import IDENTITY, INPUTS, read_inputs, read_json, run_uri
from jobs.store.units import LIMIT

_NOT_COMPARED = (LIMIT, TABLE, EXCLUSIONS, ROWS, UNITS)  # keys that follow from the limit or are unrelated to it
WHOLE = float("inf")  # the limit of a table without `limit=`


def limit_of(table: str) -> float:
    """Return the limit of the run that wrote a table, or of the tables that it was made from; infinite without a limit.

    Tables that another program wrote, and tables whose parents were moved, have no limit.

    Raises:
        InputError: `_run/identity.json` is damaged.
    """
    try:
        limit = _limit(read_json(run_uri(table, IDENTITY)))
    except FileNotFoundError:
        return WHOLE
    return min(limit, _limit_of_parents(table, {table}))


def trials(identities: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return uri of a trial -> uri of the table with the same identity and a larger limit, or without a limit.

    A table made from a trial is a trial of the table made from the whole input, if both parents are among the tables.

    Args:
        identities: the content of each table's `_run/identity.json`, by uri.
    """
    hashes = {uri: stored_identity_hash(identity) for uri, identity in identities.items()}
    whole_of: dict[str, str] = {}
    for _ in identities:  # chains of parents are not longer
        grown = _alike(identities, {hashes[uri]: hashes[whole] for uri, whole in whole_of.items()})
        if grown == whole_of:
            break
        whole_of = grown
    return whole_of


def _alike(identities: Mapping[str, Mapping[str, Any]], whole_of: Mapping[str, str]) -> dict[str, str]:
    """Return the uri of the whole table by the uri of each trial, given the trials found so far among the parents.

    Args:
        identities: as for `trials`.
        whole_of: identity hash of a trial -> identity hash of its whole table.
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
    """Return an identity in which the hashes of trials are replaced by those of the whole tables."""
    if isinstance(value, Mapping):
        return {name: _with_whole_parents(inner, whole_of) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_whole_parents(inner, whole_of) for inner in value]
    return whole_of.get(value, value) if isinstance(value, str) else value


def _limit_of_parents(table: str, seen: Set[str]) -> float:
    """Return the smallest limit of the tables that a table's first unit was made from, and of their parents."""
    limit = WHOLE
    with suppress(OSError, InputError):  # parents may have been moved or removed
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
