"""The key whose value an error is about: `corpus.path=R/x: no file matches` for `R/x: no file matches`.

What reads a path does not know which key it came from; the configuration does. What checks the content of a file, such
as a rubric, knows the name in it and not the option that chose it: `rubric=mood.yaml: question 'a': …` for
`rubric 'mood', question 'a': …`.
"""

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from jobs.errors import InputError
from jobs.store import locations

_NAMED = re.compile(r"[\w.]+=")
_OF_FILE = re.compile(r"""(?P<group>\w+)(?: '[^']*'| "[^"]*"|=(?P<name>[\w.-]+))?(?:: |, )""")


def with_key(message: str, job: str, cfg: Any) -> str:
    """Return the message with the key before it, if it begins with a path or the name of a model that a key has.

    Of several keys the one with the longest value counts: a table, not the folder that it is in.

    Args:
        job: its name, which may precede the path in the message.
        cfg: the configuration of the job, a dataclass.
    """
    text = message.removeprefix(f"{job}: ")
    if _NAMED.match(text) or not is_dataclass(cfg) or isinstance(cfg, type):
        return message
    values = sorted(_texts(asdict(cfg)), key=lambda entry: -len(entry[1]))
    for key, value in values:
        for form in _forms(value):
            if text.startswith((f"{form}: ", f"{form} at revision ")):
                return f"{key}={text}"
    place = text.partition(": ")[0]
    for key, value in values:
        if any(place.startswith(f"{form.rstrip('/')}/") or fnmatch.fnmatchcase(place, form) for form in _forms(value)):
            return f"{key}={value}: {text}"
    return message


def with_option(message: str, job: str, chosen: Mapping[str, str]) -> str:
    """Return the message with the option that the user chose, if it begins with a group and the name in its file.

    Args:
        job: its name, which may precede the group in the message.
        chosen: group of options -> the option, or the path of the user's file.
    """
    text = message.removeprefix(f"{job}: ")
    match = _OF_FILE.match(text)
    option = chosen.get(match["group"]) if match else None
    if match is None or option is None or (match["name"] and not option.endswith(".yaml")):
        return message
    return f"{match['group']}={option}: {text[match.end() :]}"


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a configuration that can be paths or names of models, with their keys."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, key)
    elif isinstance(value, str) and value.strip() and "\n" not in value:
        yield key, value


def _forms(value: str) -> Iterator[str]:
    """A value as messages show it: as it was typed, and as an absolute path."""
    if "/" in value or ":" in value:
        yield value
    try:
        yield locations.absolute(value)
    except InputError:  # no path
        return
