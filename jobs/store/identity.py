"""What the rows of a table depend on, as one hash that every footer of the table holds."""

import json
from collections.abc import Mapping
from typing import Any

from actors.ids import content_id

TABLE = "table"  # the key that `_run/identity.json` has besides those of the identity: the table's name


def identity_hash(identity: Mapping[str, Any]) -> str:
    """The hash of an identity; the same before it is written as JSON and after it is read back."""
    return content_id(json.dumps(identity, indent=1, sort_keys=True, ensure_ascii=False))


def hash_of_kept(kept: Mapping[str, Any]) -> str:
    """The hash of the identity in the content of an `_run/identity.json`."""
    return identity_hash({key: value for key, value in kept.items() if key != TABLE})
