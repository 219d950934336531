"""The identity of a table: a hash of everything that its rows depend on, stored in every footer."""

import json
from collections.abc import Mapping
from typing import Any

from actors.ids import content_id

# The key of the list of exclusions. It is compared separately and not hashed: a longer list that `purge` has applied
# leaves the other rows as they are.
EXCLUSIONS = "exclusions"
# Keys of a table that a driver writes at once: hashes of its rows and of the names of its units.
ROWS, UNITS = "rows", "units"
TABLE = "table"  # the key of `_run/identity.json` with the table's name; the other keys form the identity


def identity_hash(identity: Mapping[str, Any]) -> str:
    """Return the hash of an identity without its exclusions; it is the same after a round trip through JSON."""
    hashed = {key: value for key, value in identity.items() if key != EXCLUSIONS}
    return content_id(json.dumps(hashed, indent=1, sort_keys=True, ensure_ascii=False))


def stored_identity_hash(content: Mapping[str, Any]) -> str:
    """Return the identity hash of the content of a `_run/identity.json`."""
    return identity_hash({key: value for key, value in content.items() if key != TABLE})


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the leaves of a nested dict under their dotted keys."""
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= flatten(inner, f"{prefix}.{key}" if prefix else str(key))
    return flat
