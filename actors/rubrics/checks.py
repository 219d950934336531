"""Checks of data from YAML or Hydra; each raises a ValueError that gives the place, the value and what is allowed."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def named(noun: str, data: Any) -> str:
    """Return the beginning of messages about a file: `rubric 'mood'`, or `rubric` if it has no name."""
    return f"{noun} {data['name']!r}" if isinstance(data, Mapping) and data.get("name") else noun


class Mistakes:
    """Collector of the mistakes of independent checks, so that all are reported at once.

    Args:
        where: the beginning of the checks' messages, which only the first message keeps.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._messages: list[str] = []

    def add(self, message: str) -> None:
        """Keep the message of a mistake."""
        self._messages.append(message)

    def of(self, check: Callable[..., T], *arguments: Any, instead: Any, **named: Any) -> T:
        """Return what `check` returns; if it raises a ValueError, keep the message and return `instead`."""
        try:
            return check(*arguments, **named)
        except ValueError as error:
            self.add(str(error))
            result: T = instead
            return result

    def refuse(self) -> None:
        """Raise a ValueError with all mistakes so far, if any."""
        if self._messages:
            others = (message.removeprefix(self._where).lstrip(":, ") for message in self._messages[1:])
            also = "".join(f"; also: {message}" for message in others)
            raise ValueError(f"{self._messages[0]}{also}")


def check_keys(data: Any, *, where: str, required: Sequence[str], optional: Sequence[str] = ()) -> None:
    """Check that `data` is a mapping with all required keys and no unknown keys.

    Args:
        where: the place in the file, for messages.
    """
    allowed = list(dict.fromkeys([*required, *optional]))
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {data!r} must be a mapping with {', '.join(allowed)}")
    messages = []
    if unknown := [repr(str(key)) for key in data if key not in allowed]:
        messages.append(f"unknown key {', '.join(unknown)}; must be one of {', '.join(allowed)}")
    if missing := [repr(key) for key in required if key not in data]:
        messages.append(f"missing key {', '.join(missing)}; required are {', '.join(required)}")
    if messages:
        raise ValueError(f"{where}: {'; '.join(messages)}")


def mapping(data: Any, where: str) -> dict[str, Any]:
    """Return a mapping of names as a dict."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {data!r} must be a mapping of names")
    return {str(name): entry for name, entry in data.items()}


def entries(data: Any, where: str) -> Sequence[Any]:
    """Return a list; a string is not accepted."""
    if isinstance(data, str) or not isinstance(data, Sequence):
        raise ValueError(f"{where}: {data!r} must be a list")
    return data


def text(data: Any, where: str) -> str:
    """Return a string or number as stripped, non-empty text."""
    if isinstance(data, bool):  # YAML reads yes, no, on and off as booleans
        raise ValueError(f"{where}: {data!r} is a boolean; put the word in quotes")
    if not isinstance(data, str | int | float) or not str(data).strip():
        raise ValueError(f"{where}: {data!r} must be a text that is not empty")
    return str(data).strip()


def optional_text(data: Any, where: str) -> str:
    """Return `text`, or an empty string if the value is missing."""
    return text(data, where) if data else ""


def texts(data: Any, where: str) -> tuple[str, ...]:
    """Return a list of distinct texts; empty for None."""
    result = tuple(text(entry, where) for entry in entries(data or [], where))
    check_unique(result, where=where, kind="entry")
    return result


def check_unique(values: Iterable[Any], *, where: str, kind: str) -> None:
    """Check that no value occurs twice.

    Args:
        kind: what a value is called in the message.
    """
    if twice := [repr(value) for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"{where}: duplicate {kind} {', '.join(twice)}")
