"""Parsing of the texts of Hydra's and OmegaConf's errors, which have no types or attributes for the cases below.

The patterns match hydra-core 1.3 and omegaconf 2.3 (pinned in constraints.txt).
tests/jobs/runtime/configuration/test_config_errors.py raises each error with the installed versions: if it fails after
an update, change the pattern here.
"""

import re
from dataclasses import fields, is_dataclass
from typing import NamedTuple

from omegaconf.errors import ConfigKeyError

from actors.errors import first_line

_UNKNOWN_OPTION = re.compile(
    r"Could not find '(?P<option>[^']+)'.*?Available options in '(?P<group>[^']+)':", re.DOTALL
)
_IN_FILE = re.compile(r"In '(?P<group>[^'/]+)/(?P<option>[^']+)': (?P<kind>\w+)")
_UNKNOWN_KEY = re.compile(r"Key '[^']+' not in '[^']+'\s+full_key: (?P<key>\S+)")
_MISSING_VALUE = re.compile(r"Missing mandatory value: (\S+)")
_NULL = re.compile(r"(?:field|child) '[^']+' is not Optional")
_WRONG_TYPE = re.compile(
    r"Value '(?P<value>.*)' (?:of type '\w+' could not be converted to (?P<kind>Integer|Float)|"
    r"is not a valid (?P<bool>bool) )"
)
_INCOMPATIBLE = re.compile(r"Value '?(?P<value>.*?)'? \(\w+\) is incompatible with type hint '(?P<kind>[^']+)'")
_NOT_TEXT = re.compile(r"Cannot convert '\w+' to string: '(?P<value>.*)'")
_KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}


class UnknownOption(NamedTuple):
    """`group=option` for which conf/ has no file."""

    group: str
    option: str


class ForeignKey(NamedTuple):
    """`group=option` whose file has a key, the dotted `key`, that the job's dataclass does not have."""

    group: str
    option: str
    key: str


class WrongValue(NamedTuple):
    """`group=option` whose file has a value of the wrong type, which `problem` describes."""

    group: str
    option: str
    problem: str


def cause_of(error: BaseException) -> UnknownOption | ForeignKey | WrongValue | None:
    """Return the cause of an error in composing a configuration; None for any other error."""
    text = _full_text(error)
    if match := _UNKNOWN_OPTION.search(text):
        return UnknownOption(match["group"], match["option"].rsplit("/", 1)[-1])
    if match := _IN_FILE.search(text):
        group, option, kind = match.groups()
        if kind == "ConfigKeyError" and (unknown := _UNKNOWN_KEY.search(text)):
            return ForeignKey(group, option, unknown["key"].removeprefix(f"{group}."))
        return WrongValue(group, option, describe(error).removeprefix(f"{group}."))
    return None


def describe(error: BaseException) -> str:
    """Return the error in one line, with its key if it has one."""
    cause = error.__cause__ or (error.__context__ if _IN_FILE.search(str(error)) else None) or error
    if match := _MISSING_VALUE.search(str(cause)):
        return f"{match.group(1)}=: required"
    key = getattr(cause, "full_key", None) or getattr(error, "full_key", None)
    if key and (problem := _wrong_value(str(cause))):
        return f"{key}={problem}"
    if isinstance(cause, ConfigKeyError) and is_dataclass(kind := cause.object_type):
        return f"{key}: no such key; must be one of {', '.join(field.name for field in fields(kind))}"
    return f"{key}: {first_line(cause)}" if key else first_line(cause)


def _wrong_value(text: str) -> str | None:
    """Return the value in a message of OmegaConf and what is allowed; None if it has another cause."""
    if _NULL.search(text):
        return "null: this key cannot be null"
    if match := _WRONG_TYPE.search(text):
        return f"{match['value']}: must be {_KINDS[match['kind'] or match['bool']]}"
    if match := _NOT_TEXT.search(text):
        return f"{match['value']}: must be text"
    if match := _INCOMPATIBLE.search(text):
        allowed = "a number with a decimal point, as in 1.0" if match["kind"] == "float" else f"of type {match['kind']}"
        return f"{match['value']}: must be {allowed}"
    return None


def _full_text(error: BaseException) -> str:
    return "\n".join(str(part) for part in (error, error.__cause__, error.__context__) if part)
