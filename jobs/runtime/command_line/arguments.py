"""Conversion of the arguments of a command line, in any of their forms, to `key=value` overrides.

These mean the same: `out=R/x`, `--out R/x`, `--out=R/x`. A Boolean may be written without a value (`--overwrite`). A
list may be written as single values (`--ratings R/a R/b`, or `ratings=R/a ratings=R/b`, for `ratings=[R/a,R/b]`), and
`-` may be written for `_`. Some jobs have positional keys, whose values may be written without the key (`ls R`).
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, get_origin

from jobs.errors import InputError
from jobs.runtime.configuration.key_types import UNKNOWN, alternatives, type_of
from jobs.runtime.configuration.key_values import quoted

_KEY_VALUE = re.compile(r"[+]*[A-Za-z_][\w.]*=")
_PLAIN = re.compile(r"[\w./:@*?+-]+")  # an element of a list that needs no quotes


def to_overrides(job: str, schema: type, arguments: Sequence[str], *, positional: Sequence[str] = ()) -> list[str]:
    """Return the arguments as `key=value`, in their order; a list that is given as single values becomes one override.

    Args:
        positional: the keys of values that are written without a key, in their order, except for keys that are also
            given by name; a list takes all of these values, or leaves the last one to the key after it.

    Raises:
        InputError: an option without a value, a value that belongs to no key, or a list given in both forms.
    """
    named = {_named_key(schema, argument) for argument in arguments}
    alone = [key for key in positional if key not in named or _is_list(schema, key)]
    pairs = list(_pairs(job, schema, list(arguments), alone))
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    overrides = []
    for key, value in pairs:
        whole = [_is_whole(text) for text in values[key]]
        single = len(whole) == 1 and not _is_list(schema, key)
        if not _takes_several(schema, key) or single or all(whole):  # the last of several whole lists counts
            overrides.append(f"{key}={value}")
        elif any(whole):
            raise InputError(
                f"{key}={value}: given both as a list and as single values; write one list, as in {key}=[a,b] "
                f"or --{key} a b",
                job=job,
            )
        elif all(not override.startswith(f"{key}=") for override in overrides):
            overrides.append(f"{key}=[{','.join(map(_element, values[key]))}]")
    return overrides


def _pairs(job: str, schema: type, arguments: list[str], positional: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each key with one of its values; removes the arguments, and the positional keys that have a value."""
    before = ""  # the last key=value
    while arguments:
        argument = arguments.pop(0)
        if not argument.startswith("--"):
            if _KEY_VALUE.match(argument) is None:
                is_switch = bool in alternatives(type_of(schema, argument)) and not Path(argument).exists()
                if positional and not argument.startswith("-") and not is_switch:
                    if len(positional) > 1 and _is_list(schema, positional[0]) and not _has_value(arguments):
                        positional.pop(0)
                    key = positional[0] if _is_list(schema, positional[0]) else positional.pop(0)
                    yield key, argument
                    continue
                raise InputError(f"{argument!r} is not key=value; {_remedy(schema, argument, before)}", job=job)
            key, _, value = argument.partition("=")
            before = argument
            yield key, value
            continue
        name, equals, value = argument.removeprefix("--").partition("=")
        key = _key(schema, name)
        if type_of(schema, key) is UNKNOWN:
            key = f"--{name}"  # the configuration refuses the key as it was typed, and suggests similar ones
        if equals:
            yield key, value
        elif bool in alternatives(type_of(schema, key)):
            yield key, arguments.pop(0) if arguments[:1] in (["true"], ["false"]) else "true"
        else:
            values = _take_values(schema, arguments, at_most=None if _takes_several(schema, key) else 1)
            if not values and type_of(schema, key) is UNKNOWN:
                values = [""]
            if not values:
                raise InputError(f"--{name}: a value is missing; use --{name} VALUE or {key}=VALUE", job=job)
            before = f"{key}={values[-1]}"
            yield from ((key, value) for value in values)


def _has_value(arguments: Sequence[str]) -> bool:
    """Return whether a value without a key follows; the value after an option belongs to the option."""
    return any(
        not argument.startswith("-") and _KEY_VALUE.match(argument) is None and not before.startswith("--")
        for before, argument in zip(["", *arguments], arguments, strict=False)
    )


def _remedy(schema: type, argument: str, before: str) -> str:
    """Return what to write instead of an argument that is not key=value.

    Args:
        before: the last argument of the form key=value.
    """
    if bool in alternatives(type_of(schema, argument)):
        return f"use {argument}=true or --{argument}"
    if type_of(schema, argument) is not UNKNOWN:
        return f"use {argument}=VALUE or --{argument} VALUE"
    key, _, value = before.partition("=")
    if before and not value:
        return f"{before} has no value: remove the space after =, as in {before}{argument}"
    if before and Path(argument).exists():
        return f"the shell made several words of {key}=: quote it, as in '{key}={_glob_of(value)}'"
    return "use key=value or --key value (--help lists the keys), and quote a value that has spaces or * or [ ]"


def _glob_of(path: str) -> str:
    """Return a glob that `path` matches, as the user may have typed it."""
    file = PurePath(path)
    return str(file.with_name(f"*{''.join(file.suffixes[-2:])}"))


def _take_values(schema: type, arguments: list[str], *, at_most: int | None) -> list[str]:
    """Remove the values from the beginning of `arguments`, up to the next option or key, and return them."""
    values: list[str] = []
    while arguments and len(values) != at_most:
        following = arguments[0]
        if following.startswith("-") and not _is_number(following):
            break
        key = following.partition("=")[0].lstrip("+")
        if values and _KEY_VALUE.match(following) and type_of(schema, key) is not UNKNOWN:
            break
        values.append(arguments.pop(0))
    return values


def _key(schema: type, name: str) -> str:
    """Return the key that an option names."""
    underscored = name.replace("-", "_")
    return underscored if type_of(schema, name) is UNKNOWN and type_of(schema, underscored) is not UNKNOWN else name


def _named_key(schema: type, argument: str) -> str:
    """Return the key of key=value, --key=value or --key; empty for a value that stands alone."""
    name, equals, _ = argument.removeprefix("--").partition("=")
    return _key(schema, name) if equals or argument.startswith("--") else ""


def _is_list(schema: type, key: str) -> bool:
    return any(get_origin(kind) is list for kind in alternatives(type_of(schema, key.lstrip("+"))))


def _takes_several(schema: type, key: str) -> bool:
    """Return whether the key is a list, or may be one."""
    return _is_list(schema, key) or type_of(schema, key.lstrip("+")) is Any


def _is_whole(value: str) -> bool:
    """Return whether `value` is a whole list, null, or a text that will become a list (an interpolation)."""
    return value[:1] == "[" or value == "null" or value.startswith("${")


def _element(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else quoted(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
