"""Reads the text of Hydra's and OmegaConf's errors, which carry no types or attributes for the cases below.

The patterns match hydra-core 1.3 and omegaconf 2.3 (pinned in constraints.txt).
tests/jobs/runtime/test_config_errors.py raises each error with the installed versions: if it fails after an update,
change the pattern here.
"""

import re
from typing import NamedTuple

from actors.errors import first_line

_UNKNOWN_OPTION = re.compile(
    r"Could not find '(?P<option>[^']+)'.*?Available options in '(?P<group>[^']+)':", re.DOTALL
)
_FOREIGN_OPTION = re.compile(r"In '(?P<group>[^'/]+)/(?P<option>[^']+)': ConfigKeyError")
_MISSING_VALUE = re.compile(r"Missing mandatory value: (\S+)")


_WRONG_TYPE = re.compile(
    r"Value '(?P<value>.*)' (?:of type '\w+' could not be converted to (?P<kind>Integer|Float)|"
    r"is not a valid (?P<bool>bool) )"
)
_KINDS = {"Integer": "a whole number", "Float": "a number", "bool": "true or false"}


class UnknownOption(NamedTuple):
    """`group=option`, and conf/ has no such file."""

    group: str
    option: str


class ForeignOption(NamedTuple):
    """`group=option`, and the file has keys that the job's dataclass does not have."""

    group: str
    option: str


def cause_of(error: BaseException) -> UnknownOption | ForeignOption | None:
    """The cause of an error in composing a configuration; None for any other error."""
    text = _full_text(error)
    if match := _UNKNOWN_OPTION.search(text):
        return UnknownOption(match["group"], match["option"].rsplit("/", 1)[-1])
    if match := _FOREIGN_OPTION.search(text):
        return ForeignOption(match["group"], match["option"])
    return None


def describe(error: BaseException) -> str:
    """The error in one line, with its key if it names one."""
    cause = error.__cause__ or error
    if match := _MISSING_VALUE.search(str(cause)):
        return f"required: {match.group(1)}="
    key = getattr(cause, "full_key", None) or getattr(error, "full_key", None)
    if key and (match := _WRONG_TYPE.search(str(cause))):
        return f"{key}={match['value']}: must be {_KINDS[match['kind'] or match['bool']]}"
    return f"{key}: {first_line(cause)}" if key else first_line(cause)


def _full_text(error: BaseException) -> str:
    return "\n".join(str(part) for part in (error, error.__cause__, error.__context__) if part)
