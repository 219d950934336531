"""Types of configuration keys, read from the annotations of a job's dataclass."""

import functools
import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

UNKNOWN = object()  # the type of a key that does not exist


def type_of(schema: Any, key: str) -> Any:
    """Return the annotated type of the dotted `key`; Any inside a dict; UNKNOWN if there is no such key."""
    for name in key.split("."):
        inner = nested_dataclass(schema)
        if inner is None:
            return Any if schema is Any or get_origin(schema) is dict else UNKNOWN
        hints = _hints(inner)
        if name not in hints:
            return UNKNOWN
        schema = hints[name]
    return schema


def is_required(schema: Any, key: str) -> bool:
    """Return whether the dotted `key` has no default value."""
    from omegaconf import MISSING  # here, because lists and completions do not need it

    parent, _, name = key.rpartition(".")
    inner = nested_dataclass(type_of(schema, parent) if parent else schema)
    return inner is not None and any(field.name == name and field.default == MISSING for field in fields(inner))


@functools.cache
def _hints(schema: type) -> dict[str, Any]:
    """Return the types of a dataclass's keys; cached, since evaluating annotations is the slow part of a look-up."""
    return get_type_hints(schema)


def alternatives(kind: Any) -> Iterator[Any]:
    """Yield the members of a union, or the type itself."""
    if get_origin(kind) in (Union, types.UnionType):
        yield from get_args(kind)
    else:
        yield kind


def nested_dataclass(kind: Any) -> type | None:
    """Return the dataclass that `kind` is or has as an alternative; None if there is none."""
    return next((t for t in alternatives(kind) if isinstance(t, type) and is_dataclass(t)), None)
