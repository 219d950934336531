"""The keys of errors about their values: `corpus.path=R/x: no file matches` for `R/x: no file matches`.

Code that reads a path does not know which key it came from, but the configuration does. Code that checks the content of
a file, such as a rubric, knows the name in the file but not the option that chose it: `rubric=mood.yaml: question 'a':
…` for `rubric 'mood', question 'a': …`.
"""

import fnmatch
import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobs.errors import InputError
from jobs.store.files import locations

_NAMED = re.compile(r"[\w.]+=")
_BEGINS_WITH_KEY = re.compile(r"--[\w.-]+|[\w.]+=")
_KEY_ALONE = re.compile(r"(?P<key>[\w.]+)=?: ")
_LISTED = 3  # elements of a list that a message shows
_KEY_VALUE = re.compile(r"(?P<key>\w+)=(?P<value>[^:]*): ")
_OF_FILE = re.compile(r"""(?P<group>\w+)(?: '[^']*'| "[^"]*"|=(?P<name>[\w.-]+))?(?:: |, )""")


def named(message: str, job: str, values: Mapping[str, Any], chosen: Mapping[str, str]) -> str:
    """Return the message prefixed with the key and the value that it is about, if both can be determined.

    Args:
        job: its name, which may begin the message.
        values: the configuration of the job, nested.
        chosen: group of options -> the option, or the path of the user's file.
    """
    for name in (with_full_key, with_value, with_key):
        message = name(message, job, values)
    return with_option(message, job, chosen)


def without_job(message: str, job: str) -> str:
    """Return the message without the name of the job before its key."""
    text = message.removeprefix(f"{job}: ")
    return text if _BEGINS_WITH_KEY.match(text) else message


def with_own_key(message: str, job: str, key_and_value: str) -> str:
    """Return the message prefixed with `key_and_value`, such as `models=NAME`, if it does not begin with a key."""
    text = message.removeprefix(f"{job}: ")
    return text if _BEGINS_WITH_KEY.match(text) else f"{key_and_value}: {text}"


def with_full_key(message: str, job: str, values: Mapping[str, Any]) -> str:
    """Return `model.dtype=x: …` for `dtype=x: …`, if exactly one nested key has this last part and value.

    A settings dataclass of a stage validates its values, and is itself the value of a key of the job's configuration.
    """
    match = _KEY_VALUE.match(message.removeprefix(f"{job}: "))
    if match is None or match["key"] in values:
        return message
    keys = [
        key
        for key, value in _leaves(values)
        if key.rpartition(".")[2] == match["key"] and match["value"] in _shown(value)
    ]
    text = message.removeprefix(f"{job}: ")
    return f"{keys[0]}{text.removeprefix(match['key'])}" if len(keys) == 1 else message


def with_value(message: str, job: str, values: Mapping[str, Any]) -> str:
    """Return `ratings=[a,b]: …` for `ratings: …` or `ratings=: …`, if `ratings` is a key of one or several values."""
    text = message.removeprefix(f"{job}: ")
    match = _KEY_ALONE.match(text)
    value: Any = values if match else None
    for name in match["key"].split(".") if match else ():
        value = value.get(name, {}) if isinstance(value, Mapping) else {}
    if match is None or isinstance(value, Mapping):
        return message
    if isinstance(value, list):
        more = ",…" if len(value) > _LISTED else ""
        elements = ",".join(_shown(element)[-1] for element in value[:_LISTED])
        return f"{match['key']}=[{elements}{more}]: {text[match.end() :]}"
    return f"{match['key']}={_shown(value)[-1]}: {text[match.end() :]}"


def _shown(value: Any) -> tuple[str, ...]:
    """Return a single value in the forms in which messages may show it."""
    if value is None or isinstance(value, bool):
        return ({None: "null", True: "true", False: "false"}[value],)
    return (str(value), f"{value:g}") if isinstance(value, float) else (str(value),)


def with_key(message: str, job: str, values: Mapping[str, Any]) -> str:
    """Return the message with its key, if it begins with a path or the name of a model that is the value of a key.

    Of several keys, the one with the longest value counts: a table rather than the folder that it is in.

    Args:
        job: its name, which may precede the path in the message.
        values: the configuration of the job, nested.
    """
    text = message.removeprefix(f"{job}: ")
    if _NAMED.match(text):
        return message
    texts = sorted(_texts(values), key=lambda entry: -len(entry[1]))
    for key, value in texts:
        for form in _forms(value):
            if text.startswith((f"{form}: ", f"{form} at revision ")):
                return f"{key}={text}"
    place = text.partition(": ")[0]
    for key, value in texts:
        if any(place.startswith(f"{form.rstrip('/')}/") or fnmatch.fnmatchcase(place, form) for form in _forms(value)):
            return f"{key}={value}: {text}"
    return message


def with_option(message: str, job: str, chosen: Mapping[str, str]) -> str:
    """Return the message with the option that the user chose, if it begins with a group and the name in a file of it.

    Args:
        job: its name, which may precede the group in the message.
        chosen: group of options -> the option, or the path of the user's file.
    """
    text = message.removeprefix(f"{job}: ")
    match = _OF_FILE.match(text)
    if match is None or (option := chosen.get(match["group"])) is None:
        return message
    if match["name"] and not option.endswith(".yaml"):
        return message
    return f"{match['group']}={option}: {text[match.end() :]}"


def _texts(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a configuration that can be paths or names of models, with their keys."""
    for key, value in _leaves(values):
        if isinstance(value, str) and value.strip() and "\n" not in value:
            yield key, value


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
    """Yield a value as messages may show it: as it was typed, and as an absolute path."""
    if "/" in value or ":" in value:
        yield value
    try:
        yield locations.absolute(value)
    except InputError:  # not a path
        return
