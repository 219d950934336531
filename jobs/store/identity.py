"""The identity of a table: a hash of everything that its rows depend on, stored in every footer.

Identities contain hashes of long values: terms, rubrics, input tables. Because a hash tells people nothing, a change is
described by the keys of the configuration that differ, or by the key whose content changed.
"""

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from actors.ids import content_id
from actors.settings import NOT_IDENTIFYING

# The key of the list of exclusions. It is compared separately and not hashed: a longer list that `purge` has applied
# leaves the other rows as they are.
EXCLUSIONS = "exclusions"
# Keys of a table that a driver writes at once: hashes of its rows and of the names of its units.
ROWS_HASH, UNITS_HASH = "rows", "units"
TABLE = "table"  # the key of `_run/identity.json` with the table's name; the other keys form the identity


def identity_of(
    keys: Any, entries: Mapping[str, Any] | None = None, *, base: type | None = None, instead_of: Collection[str] = ()
) -> dict[str, Any]:
    """Return an identity: all keys of a configuration that do not opt out (`actors.settings`), and what a job adds.

    Args:
        keys: a dataclass of keys.
        entries: what the job adds, such as the identities of tables; an entry replaces the key of its name.
        base: a base of the configuration, if the table depends only on the keys that it declares.
        instead_of: keys for which entries with other names stand, or which have no effect with these values of others.

    Raises:
        ValueError: there is no such key as one of `instead_of`.
    """
    entries = entries or {}
    if unknown := set(instead_of) - {field.name for field in fields(keys)}:
        raise ValueError(f"{type(keys).__name__} has no keys {', '.join(sorted(unknown))}")
    names = [name for name in identifying_keys(base or type(keys)) if name not in entries and name not in instead_of]
    return {**{name: _as_json(getattr(keys, name)) for name in names}, **entries}


@functools.cache
def identifying_keys(schema: type) -> tuple[str, ...]:
    """Return the keys of a configuration that are part of the identity, unless entries stand for them."""
    kinds = get_type_hints(schema, include_extras=True)
    return tuple(
        field.name for field in fields(schema) if NOT_IDENTIFYING not in getattr(kinds[field.name], "__metadata__", ())
    )


def _as_json(value: Any) -> Any:
    if is_dataclass(value):
        return identity_of(value)
    if isinstance(value, Mapping):
        return {name: _as_json(inner) for name, inner in value.items()}
    return [_as_json(inner) for inner in value] if isinstance(value, list | tuple) else value


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


# Keys of the configuration on which no row depends.
RUN_KEYS = ("out", "resume", "overwrite", "retry", "plan", "show_prompts", "timings", "ray", "resources", "exclusions")
_HASH = re.compile(r"(?=.*\d)(?=.*[a-f])[0-9a-f]{8,}")  # a number or a date does not match
_ABSENT = object()
_SHOWN = 60  # characters of a value


def differing_keys(written: Mapping[str, Any], planned: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys of two nested mappings whose values differ, sorted."""
    before, now = flatten(dict(written)), flatten(dict(planned))
    return sorted(key for key in {*before, *now} if before.get(key, _ABSENT) != now.get(key, _ABSENT))


def describe_change(
    written: Mapping[str, Any],
    planned: Mapping[str, Any],
    *,
    written_config: Mapping[str, Any] | None,
    planned_config: Mapping[str, Any],
) -> str:
    """Return the difference of two identities in terms of the command line, without hashes.

    Args:
        written: the identity of the table.
        planned: the identity of the run; differs from `written`.
        written_config: the configuration of the command that wrote the table; None if it was lost.
        planned_config: the configuration of the run.
    """
    keys = _innermost(differing_keys(written, planned))
    before, now = flatten(dict(written)), flatten(dict(planned))
    readable = [key for key in keys if not any(_is_hash(flat.get(key)) for flat in (before, now))]
    if readable:
        # A key that no longer exists says less than the key that replaced it.
        key = next((name for name in readable if name in now), readable[0])
        readable = [key, *(name for name in readable if name != key)]
        return _change(key, before.get(key, _ABSENT), now.get(key, _ABSENT)) + _others(readable[1:])
    if written_config is not None:
        changes = dict(_leaves_of(written_config)), dict(_leaves_of(planned_config))
        config_keys = [
            key for key in dict.fromkeys([*changes[0], *changes[1]])
            if changes[0].get(key, _ABSENT) != changes[1].get(key, _ABSENT)
        ]  # fmt: skip
        if config_keys := _innermost(config_keys):
            key = config_keys[0]
            return _change(key, changes[0].get(key, _ABSENT), changes[1].get(key, _ABSENT)) + _others(config_keys[1:])
    return _other_content(keys[0].split(".")[0], planned_config) + _others(keys[1:])


def _innermost(keys: Sequence[str]) -> list[str]:
    """Return the keys that have no other keys below them: a mapping that is no longer empty says less than its keys."""
    return [key for key in keys if not any(other.startswith(f"{key}.") for other in keys)]


def _change(key: str, before: Any, now: Any) -> str:
    return f"{key} was {_shown(before)}, now {_shown(now)}"


def _others(keys: Sequence[str]) -> str:
    return f" (also differing: {', '.join(keys)})" if keys else ""


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "not set"
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _other_content(key: str, config: Mapping[str, Any]) -> str:
    """Return a text about changed content behind a key of the identity, with the key's value on the command line."""
    value = config.get(key)
    if isinstance(value, Mapping):
        name = next((name for name in ("path", "name") if value.get(name)), None)
        key, value = (f"{key}.{name}", value[name]) if name else (key, None)
    named = key if value is None else f"{key}={value}"
    return f"{named} has other content than when the table was written"


def _leaves_of(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the dotted keys of a configuration and their values, without `RUN_KEYS`; entries of lists are numbered."""
    for key, value in config.items():
        if key not in RUN_KEYS:
            yield from _leaves(str(key), value)


def _leaves(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner)
    elif isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        for number, inner in enumerate(value):
            yield from _leaves(f"{key}[{number}]", inner)
    else:
        yield key, value
