"""The key and the value of an error that knows only the place it is about, or only the key."""

import fnmatch
from collections.abc import Iterator, Mapping
from typing import Any

from jobs.errors import InputError, RunError
from jobs.store.files import locations


def complete(error: InputError | RunError, values: Mapping[str, Any], chosen: Mapping[str, str]) -> None:
    """Add to an error the key that names its place, if it has none, and the value of its key.

    Of several keys, the one with the longest value counts: a table rather than the folder that it is in.

    Args:
        values: the configuration of the job, nested.
        chosen: group of options -> the option, or the path of the user's file.
    """
    if error.value is not None or (error.key is None and error.place is None):
        return
    if error.key in chosen:
        error.value = chosen[error.key]
    elif error.place is None or not _name_place(error, error.place, values):
        value = _value_of(error.key, values) if error.key else {}
        error.value = "null" if value is None else None if isinstance(value, Mapping) else value


def _name_place(error: InputError | RunError, place: str, values: Mapping[str, Any]) -> bool:
    """Set key and value to those that name `place`, or a folder, table or pattern that it belongs to."""
    named = [(key, value) for key, value in _leaves(values) if error.key in (None, key) and _is_name(value)]
    named.sort(key=lambda entry: -len(entry[1]))
    for key, value in named:
        if place in _forms(value):
            error.key, error.value, error.place = key, place, None
            return True
    for key, value in named:
        if any(place.startswith(f"{form.rstrip('/')}/") or fnmatch.fnmatchcase(place, form) for form in _forms(value)):
            error.key, error.value = key, value
            return True
    return False


def _value_of(key: str, values: Mapping[str, Any]) -> Any:
    """Return the value of a dotted key; an empty mapping if there is none."""
    value: Any = values
    for name in key.split("."):
        value = value.get(name, {}) if isinstance(value, Mapping) else {}
    return value


def _is_name(value: Any) -> bool:
    """Return whether a value can be a path or the name of a model."""
    return isinstance(value, str) and bool(value.strip()) and "\n" not in value


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the single values of a configuration with their dotted keys; each element of a list has the list's."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, key)
    else:
        yield key, value


def _forms(value: str) -> Iterator[str]:
    """Yield a value as a place may be written: as it was typed, and as an absolute path."""
    if "/" in value or ":" in value:
        yield value
    try:
        yield locations.absolute(value)
    except InputError:  # not a path
        return
