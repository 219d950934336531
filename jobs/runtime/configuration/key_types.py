"""Declaration of configuration keys by the fields of a job's dataclass, and the types of these keys."""

import functools
import inspect
import re
import textwrap
import types
from collections.abc import Iterator
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import asdict, field, fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from jobs.runtime.configuration.resources import Resources

MISSING: Any = "???"  # the default of a key that is required
UNKNOWN = object()  # the type of a key that does not exist
LISTS = "lists"  # in a field's metadata: the key of which the field lists several options; empty: its single option
_GROUP = "group"  # in a field's metadata: the file of conf/NAME that the key chooses by default; None: no file


def conf_group(default: str | None, factory: Any = dict) -> Any:
    """Return a field whose key chooses a file of `conf/`, in the folder of its name.

    Args:
        default: the file that is chosen by default, without its ending; None: no file.
        factory: makes the value that the file's keys replace.
    """
    return field(default_factory=factory, metadata={_GROUP: default})


@functools.cache
def groups(schema: type) -> dict[str, str | None]:
    """Return the keys of `schema` that choose a file of `conf/`, with the file that they choose by default."""
    return {field.name: field.metadata[_GROUP] for field in fields(schema) if _GROUP in field.metadata}


def type_of(schema: Any, key: str) -> Any:
    """Return the annotated type of the dotted `key`; Any inside a dict; UNKNOWN if there is no such key."""
    for name in key.split("."):
        inner = nested_dataclass(schema)
        if inner is None:
            return Any if schema is Any or get_origin(schema) is dict else UNKNOWN
        schema = hints(inner).get(name, UNKNOWN)
        if schema is UNKNOWN:
            return UNKNOWN
    return schema


def is_required(schema: Any, key: str) -> bool:
    """Return whether the dotted `key` has no default value."""
    parent, _, name = key.rpartition(".")
    inner = nested_dataclass(type_of(schema, parent) if parent else schema)
    return inner is not None and any(field.name == name and field.default == MISSING for field in fields(inner))


@functools.cache
def hints(schema: type) -> dict[str, Any]:
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


def defaults(schema: type) -> dict[str, Any]:
    """Return the default values of all keys of `schema`, nested, without those of files of `conf/`."""
    values: dict[str, Any] = {}
    for key in fields(schema):
        value: Any = key.default if key.default_factory is NO_DEFAULT else key.default_factory()
        if is_dataclass(value) and not isinstance(value, type):
            value = asdict(value)
        values[key.name] = MISSING if value is NO_DEFAULT else value
    return values


RARELY = "rarely: "  # begins the comment of a key that few users set
_DECLARED = re.compile(r" {4}(\w+): ")


def comments_below(schema: type, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted keys of `schema` with their comments, except those of `resources`."""
    for name, comment in explanations(schema).items():
        yield prefix + name, comment
        if (inner := nested_dataclass(hints(schema)[name])) not in (None, Resources):
            yield from comments_below(inner, f"{prefix}{name}.")


def explanations(schema: type) -> dict[str, str]:
    """Return the comment, without `rarely:`, on each field's declaration in `schema` or a class that it extends."""
    return {name: comment.removeprefix(RARELY) for name, comment in all_comments(schema).items()}


@functools.cache
def all_comments(schema: type) -> dict[str, str]:
    """Return the comments as `explanations` does, but with `rarely:`."""
    comments: dict[str, str] = {}
    for owner in reversed(schema.__mro__):
        if is_dataclass(owner):
            comments |= {name: text for name, text in _comments(owner).items() if text or name not in comments}
    return comments


def _comments(owner: type) -> dict[str, str]:
    """Return the comments next to each field that a class declares, or above it."""
    comments: dict[str, str] = {}
    declared, above, name = inspect.get_annotations(owner), "", ""
    for line in textwrap.dedent(inspect.getsource(owner)).split("\n"):
        match = _DECLARED.match(line)
        if match and match[1] in declared:
            name = match[1]
            comments[name], above = above, ""
        elif line.startswith("    #"):
            name, above = "", line.lstrip("# ").strip()
            continue
        elif not line.startswith(("     ", "    )")):  # not a continuation of the field
            name = above = ""
        _, mark, comment = line.partition("  # ")
        if name and mark:
            is_first = match is not None or not comments[name]
            comments[name] = comment.strip() if is_first else f"{comments[name]} {comment.strip()}"
    return comments
