"""Which tables are trial runs: `limit=` is a key of their identity, besides those of the whole run."""

from collections.abc import Mapping
from typing import Any

from jobs.store.identity import EXCLUSIONS, ROWS, TABLE, UNITS, identity_hash
from jobs.store.run_files import IDENTITY, read_json, run_uri
from jobs.store.units import LIMIT

_NOT_COMPARED = (LIMIT, TABLE, EXCLUSIONS, ROWS, UNITS)  # keys that follow from the limit, or have no part in it
WHOLE = float("inf")  # the limit of a table without one


def limit_of(table: str) -> float:
    """Return the limit of the run that wrote a table; infinite without one, or without run files.

    Raises:
        InputError: `_run/identity.json` is damaged.
    """
    try:
        return _limit(read_json(run_uri(table, IDENTITY)))
    except FileNotFoundError:  # objects that another program wrote
        return WHOLE


def trials(identities: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the uri of each trial -> that of the table with the same identity but for a larger limit, or none.

    Args:
        identities: uri of a table -> the content of its `_run/identity.json`.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for uri, identity in identities.items():
        rest = {name: value for name, value in identity.items() if name not in _NOT_COMPARED}
        alike.setdefault((str(identity.get(TABLE)), identity_hash(rest)), []).append(uri)
    whole_of: dict[str, str] = {}
    for uris in alike.values():
        whole = max(uris, key=lambda uri: _limit(identities[uri]))
        whole_of |= {uri: whole for uri in uris if _limit(identities[uri]) < _limit(identities[whole])}
    return whole_of


def _limit(identity: Mapping[str, Any]) -> float:
    return float(identity.get(LIMIT) or WHOLE)
